//! The stored records that a decision about a run may look up.

use super::TransactionReader;
use super::families::ClosedTopics;
use crate::ids::RunKey;
use crate::run::{Item, RunHistory, StepRecord};

/// The step records of one run: those that this turn has added, and those in the store. And the
/// topics that are closed to it.
pub(super) struct LoadedHistory<'a, B: TransactionReader> {
    reader: &'a mut B,
    run: RunKey,
    records: &'a [StepRecord],
    closed: Option<&'a ClosedTopics>,
}

impl<'a, B: TransactionReader> LoadedHistory<'a, B> {
    pub(super) fn new(reader: &'a mut B, run: RunKey, records: &'a [StepRecord]) -> Self {
        LoadedHistory { reader, run, records, closed: None }
    }

    pub(super) fn with_closed(self, closed: &'a ClosedTopics) -> Self {
        LoadedHistory { closed: Some(closed), ..self }
    }
}

impl<B: TransactionReader> RunHistory for LoadedHistory<'_, B> {
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

    fn why_closed(&self, topic: &str) -> Option<String> {
        let closed = self.closed.filter(|closed| closed.names.iter().any(|name| name == topic));
        closed.map(|closed| closed.why.clone())
    }
}
