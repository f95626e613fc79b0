//! Steps with `for_each`: items begin as far as limits allow, and the step ends with the last of
//! them.

use language::definition::{Action, ForEach, limits};
use serde_json::Value;
use serde_json::value::RawValue;

use super::decide::Decider;
use super::fitting::listed;
use super::input::{Retryability, RunHistory};
use super::item::Item;
use super::state::{Activity, ActivityStatus};
use super::{RunError, StepStatus};
use crate::stop::{Stop, refuse};
use crate::turn::Damaged;

/// How many items are active at a time unless the definition says otherwise. All active parts are
/// written with each decision, so the number must stay small.
const SIDE_BY_SIDE: u32 = 100;

impl<F: RunHistory> Decider<'_, F> {
    pub(super) fn start_items(&mut self, at: usize, each: &ForEach) -> Result<(), F::Error> {
        let step = self.run.state.active[at].step;
        self.run.state.active[at].attempt += 1;
        let items = match self.items(step, each) {
            Ok(items) => items,
            Err(stop) => return self.failed(at, stop.refusal()?, Retryability::Permanent, None),
        };
        self.watch_started_step(step);
        let count = u32::try_from(items.len()).unwrap_or(u32::MAX);
        self.run.state.active[at].status =
            ActivityStatus::Items { since: self.stamp, count, begun: 0, ended: 0 };
        self.begin_items(step)
    }

    /// The list of items. It is evaluated again each time; the values it is made from no longer
    /// change.
    fn items(&mut self, step: u32, each: &ForEach) -> Result<Vec<Value>, Stop<RunError, F::Error>> {
        let found =
            self.with_scope(step, |scope| language::expression::value(&each.items, scope))?;
        let message = match found {
            Value::Array(items) if items.len() <= limits::ITEMS => return Ok(items),
            Value::Array(items) => {
                let (count, most) = (items.len(), limits::ITEMS);
                format!("the list has {count} items, at most {most} are done")
            }
            _ => "items is not a list".to_owned(),
        };
        refuse(self.error(step, "items", message))
    }

    fn begin_items(&mut self, step: u32) -> Result<(), F::Error> {
        let limit = match self.step(step).map(|step| &step.action) {
            Some(Action::ForEach(each)) => each.max_parallel.unwrap_or(SIDE_BY_SIDE),
            _ => 0,
        };
        let at = self.index_of_step(step)?;
        let ActivityStatus::Items { count, begun, ended, .. } = self.run.state.active[at].status
        else {
            let why = format!("step {step} of run {} has items, and is not at them", self.run.id);
            return Err(Damaged(why).into());
        };
        if ended == count {
            return self.items_done(at, count);
        }
        let further = count.min(ended.saturating_add(limit)).saturating_sub(begun);
        for index in begun..begun + further {
            self.run.state.active.push(Activity {
                step,
                item: Item::Nth(index),
                attempt: 0,
                enabled_at: self.stamp,
                status: ActivityStatus::Ready,
            });
        }
        if let ActivityStatus::Items { begun, .. } = &mut self.run.state.active[at].status {
            *begun += further;
        }
        Ok(())
    }

    /// Counts an item that has ended, and begins further ones.
    pub(super) fn item_ended(&mut self, step: u32) -> Result<(), F::Error> {
        let at = self.index_of_step(step)?;
        if let ActivityStatus::Items { ended, .. } = &mut self.run.state.active[at].status {
            *ended += 1;
        }
        self.begin_items(step)
    }

    /// Completes the step when all items have ended. Its output is the list of their outputs.
    fn items_done(&mut self, at: usize, count: u32) -> Result<(), F::Error> {
        let step = self.run.state.active[at].step;
        let (output, said) = listed(count as usize, |index| {
            self.output_of(step, Item::Nth(u32::try_from(index).unwrap_or(u32::MAX)))
        })?;
        self.completed(at, output, said)
    }

    /// Fails the step because one of its items has finally failed. The other items are abandoned.
    pub(super) fn items_failed(
        &mut self,
        step: u32,
        error: RunError,
        retryability: Retryability,
    ) -> Result<(), F::Error> {
        let is_item = |active: &Activity| active.step == step && active.item.is_nth();
        while let Some(at) = self.run.state.active.iter().position(is_item) {
            self.abandon(at, StepStatus::Cancelled, None);
        }
        let at = self.index_of_step(step)?;
        let active = self.remove(at);
        self.step_failed(&active, error, retryability, None)
    }

    /// The output of a part, including one that ended in this decision.
    pub(super) fn output_of(
        &mut self,
        step: u32,
        item: Item,
    ) -> Result<Option<Box<RawValue>>, F::Error> {
        let is_it = |record: &&super::StepRecord| record.step == step && record.item == item;
        if let Some(record) = self.decision.records.iter().rev().find(is_it) {
            return Ok(record.output.clone());
        }
        Ok(self.history.record(step, item)?.and_then(|record| record.output))
    }
}
