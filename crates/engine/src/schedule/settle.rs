//! Handles the end of a schedule's run: success, failure, retry, and which occurrence starts next.

use calendar::Rule;
use language::policy::retry::{OnExhausted, is_exhausted};

use super::upcoming::Due;
use super::{Active, Decider, Numbered, Queued, Status, Turning};
use crate::ids::RunKey;
use crate::ledger::Outcome;
use crate::run::{Ending, Retryability};

/// Whether an input means that the schedule's work has failed or succeeded. Incidents begin and end
/// with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// An occurrence has failed and is not retried.
    Failed { due: Due, error: String },
    /// A run of the schedule has succeeded.
    Succeeded,
}

impl Decider<'_, '_> {
    pub(super) fn run_ended(
        &mut self,
        run: RunKey,
        ending: Ending,
        error: Option<&str>,
        retryability: Retryability,
    ) {
        // This includes runs started by hand and manual retries: the work can be done again.
        if ending == Ending::Succeeded {
            self.decision.verdict = Some(Verdict::Succeeded);
        }
        let progress = &mut self.schedule.progress;
        // Runs that the schedule does not track, such as those from before a revival, change
        // nothing.
        let Some(index) = progress.active.iter().position(|active| active.run() == Some(run))
        else {
            return;
        };
        let active = progress.active.remove(index);
        progress.last_outcome = Some(ending);
        if let Active::Running { occurrence, retry, .. } = active {
            match ending {
                Ending::Succeeded => self.succeeded(occurrence),
                Ending::Cancelled => self.schedule.progress.current_retry = 0,
                Ending::Failed | Ending::TimedOut => {
                    self.failed(occurrence, retry, error.unwrap_or("failed"), retryability);
                }
            }
        }
        self.after_completion();
        self.start_queued();
        self.finish_if_exhausted();
    }

    fn succeeded(&mut self, occurrence: Numbered) {
        let progress = &mut self.schedule.progress;
        if progress.last_error.is_some() && self.schedule.status != Status::Dead {
            self.decision.turnings.push(Turning::Recovered { n: occurrence.n });
        }
        progress.run_count += 1;
        progress.current_repeat += u64::from(!occurrence.backfilled);
        progress.current_retry = 0;
        // The reason why the schedule died stays, even if an earlier run succeeds.
        if self.schedule.status != Status::Dead {
            progress.last_error = None;
        }
        self.end_at_limit();
    }

    /// Ends the schedule's occurrences once as many have succeeded as the repeat limit allows.
    pub(super) fn end_at_limit(&mut self) {
        if !self.schedule.has_reached_its_limit() {
            return;
        }
        let progress = &mut self.schedule.progress;
        progress.next = None;
        // Occurrences of a backfill do not count towards the limit.
        let (stay, go) = progress.queued.iter().partition(|queued| queued.occurrence.backfilled);
        progress.queued = stay;
        let go: Vec<Queued> = go;
        for queued in go {
            self.record(&queued.occurrence, Outcome::Dropped, "the repeat limit is reached", None);
        }
    }

    fn failed(
        &mut self,
        occurrence: Numbered,
        retry: u32,
        error: &str,
        retryability: Retryability,
    ) {
        let now = self.now();
        let progress = &mut self.schedule.progress;
        progress.error_count += 1;
        // The reason why the schedule died stays, even if an earlier run fails.
        if self.schedule.status != Status::Dead {
            progress.last_error = Some(error.to_owned());
        }
        let exhausted = is_exhausted(retry, self.schedule.declared.max_retries());
        let attempts = retry + 1;
        if self.schedule.status != Status::Active {
            let status = self.schedule.status.name();
            let reason = format!("failed while the schedule is {status}: {error}");
            self.record(&occurrence, Outcome::Failed, reason, None);
            self.finally_failed(occurrence, error);
        } else if exhausted || retryability == Retryability::Permanent {
            let why = match retryability {
                Retryability::Permanent => "trying again cannot help",
                _ => "no retries left",
            };
            let reason = format!("failed at attempt {attempts}, {why}: {error}");
            self.record(&occurrence, Outcome::Failed, reason, None);
            self.finally_failed(occurrence, error);
            self.exhausted(occurrence.n, error, retryability);
        } else {
            let retry = retry + 1;
            let salt = (self.schedule.id.0 as u64).rotate_left(32) ^ occurrence.n;
            let delay = self.context.plan.retry.delay(retry, salt);
            let at = now.checked_add(delay).unwrap_or(now);
            let progress = &mut self.schedule.progress;
            progress.current_retry = retry;
            progress.active.push(Active::Retrying { occurrence, retry, at });
        }
    }

    /// Records that the occurrence has failed and is not retried.
    pub(super) fn finally_failed(&mut self, occurrence: Numbered, error: &str) {
        let (due, error) = (occurrence.due, error.to_owned());
        self.decision.verdict = Some(Verdict::Failed { due, error });
    }

    /// Applies `on_exhausted` and `pause_on_failure` after the last retry of an occurrence has
    /// failed.
    fn exhausted(&mut self, n: u64, error: &str, retryability: Retryability) {
        let declared = &self.schedule.declared;
        let on_exhausted = match retryability {
            // The schedule must not die because this node is not allowed to perform the work.
            Retryability::NodeSetup { .. } => OnExhausted::Continue,
            _ => declared.on_exhausted(),
        };
        let (status, reason) = match (declared.pause_on_failure, on_exhausted) {
            (true, _) => (Status::Paused, "the schedule was paused by its failure"),
            (false, OnExhausted::Die) => (Status::Dead, "the schedule died"),
            (false, OnExhausted::Continue) => {
                self.schedule.progress.current_retry = 0;
                return self.tell(Turning::OccurrenceFailed { n, error: error.to_owned() });
            }
        };
        self.schedule.progress.next = None;
        self.drop_waiting(reason);
        self.set_status(status);
        let reason = error.to_owned();
        self.tell(match status {
            Status::Dead => Turning::Died { reason },
            _ => Turning::PausedByFailure { reason },
        });
    }

    /// Sets the next time of an interval that counts from the end of a run.
    fn after_completion(&mut self) {
        let timing = &self.context.plan.timing;
        let waits = self.schedule.progress.active.is_empty()
            && self.schedule.progress.queued.is_empty()
            && self.schedule.progress.next.is_none()
            && self.schedule.status == Status::Active;
        let follows = matches!(timing.rule(), Rule::AfterCompletion(_));
        if waits && follows && !self.schedule.has_reached_its_limit() {
            self.schedule.progress.next = timing.next_after(self.now()).map(Due::from);
        }
    }
}
