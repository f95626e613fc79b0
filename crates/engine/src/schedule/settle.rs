//! A run of a schedule has ended: success, failure, retry, and who is next.

use calendar::Rule;

use super::upcoming::Due;
use super::{Active, Decider, Numbered, Status};
use crate::ids::RunKey;
use crate::ledger::Outcome;
use crate::policy::retry::is_exhausted;
use crate::run::Ending;

impl Decider<'_, '_> {
    pub(super) fn run_ended(
        &mut self,
        run: RunKey,
        ending: Ending,
        error: Option<&str>,
        retryable: bool,
    ) {
        let progress = &mut self.schedule.progress;
        // A run that the schedule does not wait for, such as one of before a revival, says nothing.
        let Some(place) = progress.active.iter().position(|active| active.run() == Some(run))
        else {
            return;
        };
        let active = progress.active.remove(place);
        progress.last_outcome = Some(ending);
        if let Active::Running { occurrence, retry, .. } = active {
            match ending {
                Ending::Succeeded => self.succeeded(occurrence),
                Ending::Cancelled => self.schedule.progress.current_retry = 0,
                Ending::Failed | Ending::TimedOut => {
                    self.failed(occurrence, retry, error.unwrap_or("failed"), retryable);
                }
            }
        }
        self.after_completion();
        self.start_queued();
        self.finish_if_exhausted();
    }

    fn succeeded(&mut self, occurrence: Numbered) {
        let progress = &mut self.schedule.progress;
        progress.run_count += 1;
        progress.current_repeat = progress.current_repeat.max(occurrence.repeat + 1);
        progress.current_retry = 0;
        // Why it died stays, also when a run of before ends well.
        if self.schedule.status != Status::Dead {
            progress.last_error = None;
        }
    }

    fn failed(&mut self, occurrence: Numbered, retry: u32, error: &str, retryable: bool) {
        let now = self.now();
        let progress = &mut self.schedule.progress;
        progress.error_count += 1;
        progress.last_error = Some(error.to_owned());
        let exhausted = is_exhausted(retry, self.schedule.declared.max_retries());
        let attempts = retry + 1;
        if self.schedule.status != Status::Active {
            let status = self.schedule.status.name();
            let reason = format!("failed while the schedule is {status}: {error}");
            self.record(&occurrence, Outcome::Failed, reason, None);
        } else if exhausted || !retryable {
            let why = if retryable { "no retries left" } else { "trying again cannot help" };
            let reason = format!("failed at attempt {attempts}, {why}: {error}");
            self.record(&occurrence, Outcome::Failed, reason, None);
            self.give_up();
        } else {
            let retry = retry + 1;
            let salt = (self.schedule.id.0 as u64).rotate_left(32) ^ occurrence.n;
            let delay = self.situation.plan.retry.delay(retry, salt);
            let at = now.checked_add(delay).unwrap_or(now);
            let progress = &mut self.schedule.progress;
            progress.current_retry = retry;
            progress.active.push(Active::Retrying { occurrence, retry, at });
        }
    }

    /// Retries are exhausted.
    fn give_up(&mut self) {
        let (status, reason) = match self.schedule.declared.pause_on_failure {
            true => (Status::Paused, "the schedule was paused by its failure"),
            false => (Status::Dead, "the schedule died"),
        };
        self.schedule.progress.next = None;
        self.drop_waiting(reason);
        self.set_status(status);
    }

    /// An interval from completion counts from here.
    fn after_completion(&mut self) {
        let timing = &self.situation.plan.timing;
        let waits = self.schedule.progress.active.is_empty()
            && self.schedule.progress.queued.is_empty()
            && self.schedule.progress.next.is_none()
            && self.schedule.status == Status::Active;
        if waits && matches!(timing.rule(), Rule::AfterCompletion(_)) && self.remaining() != Some(0)
        {
            self.schedule.progress.next = timing.next_after(self.now()).map(Due::from);
        }
    }
}
