//! Attempts whose result is unknown, and the reconciliation that finds out, if the definition has
//! one.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::RunError;
use super::decide::Decider;
use super::input::{Retryability, RunHistory};
use super::item::Item;
use super::state::{Activity, ActivityStatus, StepState};

/// How often a reconciliation is attempted when it fails with a transient error.
const TRIES: u32 = 3;

/// The result of a reconciliation.
#[derive(Deserialize)]
struct Found {
    status: FoundStatus,
    #[serde(default)]
    result: Option<Box<RawValue>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum FoundStatus {
    Applied,
    DidNotHappen,
    /// The reconciliation could not tell, so a person must resolve the step.
    #[serde(other)]
    Unclear,
}

impl<F: RunHistory> Decider<'_, F> {
    /// Marks a part whose effect is unknown, and starts its reconciliation if there is one.
    pub(super) fn unknown_outcome(&mut self, at: usize, error: RunError) {
        let active = &mut self.run.state.active[at];
        let since = active.status.since().unwrap_or(active.enabled_at);
        let (step, item) = (active.step, active.item);
        active.status = ActivityStatus::Unknown { since };
        self.run.error = Some(error);
        let can_look = self.step(step).is_some_and(|step| step.reconcile.is_some());
        if can_look && item == Item::Whole {
            self.run.state.active.push(Activity {
                step,
                item: Item::Reconciling,
                attempt: 0,
                enabled_at: self.stamp,
                status: ActivityStatus::Ready,
            });
        }
    }

    /// Takes the result of a reconciliation.
    pub(super) fn reconciled(&mut self, at: usize, output: &RawValue) -> Result<(), F::Error> {
        let active = self.remove(at);
        let step = active.step;
        self.record(&active, super::StepStatus::Completed, Some(output.to_owned()), None);
        let unknown = self.index_of_step(step)?;
        // An output of another form could not tell either.
        let unclear = |_| Found { status: FoundStatus::Unclear, result: None };
        let found: Found = serde_json::from_str(output.get()).unwrap_or_else(unclear);
        match found.status {
            FoundStatus::Applied => {
                self.run.error = None;
                self.succeeded(unknown, found.result.unwrap_or_else(|| RawValue::NULL.to_owned()))
            }
            FoundStatus::DidNotHappen => self.did_not_happen(unknown),
            FoundStatus::Unclear => Ok(()),
        }
    }

    /// Fails a part that certainly had no effect, so that it can be retried.
    pub(super) fn did_not_happen(&mut self, at: usize) -> Result<(), F::Error> {
        self.run.error = None;
        let step = self.run.state.active[at].step;
        let message = "it did not happen, and can be done anew";
        let error = self.error(step, "did_not_happen", message);
        self.failed(at, error, Retryability::NoEffect, None)
    }

    /// Handles a failed reconciliation: it is retried, or a person must resolve the step.
    pub(super) fn not_reconciled(
        &mut self,
        at: usize,
        error: RunError,
        retryability: Retryability,
    ) {
        let attempt = self.run.state.active[at].attempt;
        if retryability.can_help() && attempt < TRIES {
            let wait = crate::handlers::FIRST_RETRY.saturating_mul(1 << attempt.min(8));
            return self.try_again(at, wait, error, None);
        }
        let active = self.remove(at);
        self.record(&active, super::StepStatus::Failed, None, Some(error));
    }

    /// Abandons the reconciliation after a person has resolved the step.
    pub(super) fn stop_looking(&mut self, step: u32) {
        if let Some(at) = self.index_of_part(step, Item::Reconciling) {
            self.abandon(at, super::StepStatus::Cancelled, None);
        }
    }

    /// Continues the run without a step whose result is unknown.
    pub(super) fn skip_unknown(&mut self, at: usize) -> Result<(), F::Error> {
        let active = self.remove(at);
        let message = "a person says to go on without it";
        let error = self.error(active.step, "unknown_outcome", message);
        self.record(&active, super::StepStatus::Skipped, None, Some(error));
        // An item of a `for_each` step counts as ended; the step goes on with the other items.
        if active.item.is_nth() {
            return self.item_ended(active.step);
        }
        self.unwatch(active.step);
        self.set_state(active.step, StepState::Skipped);
        Ok(())
    }
}
