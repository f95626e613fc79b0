//! What a decision about a run may look up.

use super::TransactionReader;
use crate::ids::RunKey;
use crate::run::{Item, RunHistory, StepRecord};

/// The step records of one run: those that this turn has added, and those in the book.
pub(super) struct RunFacts<'a, B: TransactionReader> {
    pub(super) reader: &'a mut B,
    pub(super) run: RunKey,
    pub(super) records: &'a [StepRecord],
}

impl<B: TransactionReader> RunHistory for RunFacts<'_, B> {
    type Error = B::Error;

    fn record(&mut self, step: u32, item: Item) -> Result<Option<StepRecord>, B::Error> {
        let is_it = |record: &&StepRecord| record.step == step && record.item == item;
        match self.records.iter().rev().find(is_it) {
            Some(record) => Ok(Some(record.clone())),
            None => self.reader.step_record(self.run, step, item),
        }
    }

    fn new_run_key(&mut self) -> RunKey {
        self.reader.new_run_key()
    }
}
