//! Waiting parts: timers, retries, and attempts of workers that may be dead.

use jiff::{SignedDuration, Timestamp};
use language::definition::Timer;

use super::deadline_math::Instants;
use super::decide::Decider;
use super::input::{Part, Retryability, RunHistory};
use super::item::Item;
use super::start::raw;
use super::state::{ActivityStatus, Claimant};
use super::{Refusal, RunError};
use crate::stop::Stop;

impl<F: RunHistory> Decider<'_, F> {
    pub(super) fn start_timer(&mut self, at: usize, timer: &Timer) -> Result<(), F::Error> {
        let part = self.part(at);
        self.run.state.active[at].attempt += 1;
        let until = match self.until(part, timer) {
            Ok(until) => until,
            Err(stop) => return self.failed(at, stop.refusal()?, Retryability::Permanent, None),
        };
        self.run.state.active[at].status = ActivityStatus::Timer { since: self.stamp, until };
        self.watch_started_step(part.step);
        if until <= self.now { self.timer_done(at, self.stamp) } else { Ok(()) }
    }

    fn until(&mut self, part: Part, timer: &Timer) -> Result<Timestamp, Stop<RunError, F::Error>> {
        let now = self.stamp;
        let instants = Instants { definition: self.definition, rules: self.rules, calendar: None };
        let found = self.with_part_scope(part, |scope| {
            Ok(match timer {
                Timer::Delay(span) => instants.after(now, *span, 1),
                Timer::DelayBy(template) => {
                    let text = language::expression::text(template, scope)?;
                    instants.written_delay(&text, now)
                }
                Timer::Until(template) => {
                    let text = language::expression::text(template, scope)?;
                    instants.written(&text, now)
                }
            })
        })?;
        found.map_err(|message| Stop::Refused(self.error(part.step, "timer", message)))
    }

    fn timer_done(&mut self, at: usize, since: Timestamp) -> Result<(), F::Error> {
        let waited = self.stamp.duration_since(since);
        let output = serde_json::json!({
            "waited_seconds": waited.as_millis() as f64 / 1000.0,
            "delay_formatted": calendar::format_duration(whole_milliseconds(waited)),
        });
        self.succeeded(at, raw(&output))
    }

    /// Handles every part whose wakeup is due.
    pub(super) fn wake_parts(&mut self) -> Result<(), F::Error> {
        let mut at = 0;
        while at < self.run.state.active.len() {
            let before = self.run.state.active.len();
            let active = &self.run.state.active[at];
            if active.status.wake_at().is_none_or(|due| due > self.now) {
                at += 1;
                continue;
            }
            match active.status.clone() {
                ActivityStatus::Retrying { .. } => {
                    self.run.state.active[at].status = ActivityStatus::Ready
                }
                ActivityStatus::Timer { since, .. } => self.timer_done(at, since)?,
                ActivityStatus::Awaiting { .. } => self.nothing_came(at)?,
                ActivityStatus::Claimed { since, .. } => self.silent(at, since)?,
                _ => {}
            }
            // A part may have ended and removed others with it.
            at = if self.run.state.active.len() < before { 0 } else { at + 1 };
        }
        Ok(())
    }

    /// Handles a worker whose lease has expired or whose attempt has exceeded its timeout.
    fn silent(&mut self, at: usize, since: Timestamp) -> Result<(), F::Error> {
        let part = self.part(at);
        let limit = self.timeout_of(part);
        // The timeout does not apply to an attempt that was told to stop.
        let limit = limit.filter(|_| !self.is_stopping());
        let is_over = |limit| since.checked_add(limit).is_ok_and(|end| end <= self.now);
        // The result of the worker's attempt is unknown. It counts as a timeout only if the step
        // may be repeated and the run is not being stopped.
        let is_repeated = !self.is_stopping() && self.may_be_repeated(part);
        if let Some(limit) = limit.filter(|limit| is_repeated && is_over(*limit)) {
            let limit = calendar::format_duration(limit);
            let error = self.error(part.step, "timeout", format!("longer than {limit}"));
            return self.failed(at, error, Retryability::Retryable, None);
        }
        self.lost(at, "nothing is heard of the worker that performed this step");
        Ok(())
    }

    fn timeout_of(&self, part: Part) -> Option<SignedDuration> {
        let step = self.step(part.step)?;
        match &step.compensation {
            Some(undoing) if part.item == Item::Undoing => undoing.timeout,
            _ => step.timeout,
        }
    }

    /// Gives a queued part to a worker.
    pub(super) fn claim(
        &mut self,
        part: Part,
        worker: String,
        claimant: Box<Claimant>,
        lease_until: Timestamp,
    ) -> Result<(), Refusal> {
        let step = self.step(part.step).map(|step| step.id.clone()).unwrap_or_default();
        let wrong = Refusal::WrongStep { verb: "claim", step };
        let Some(at) = self.index_of_part(part.step, part.item) else { return Err(wrong) };
        if !matches!(self.run.state.active[at].status, ActivityStatus::Queued { .. }) {
            return Err(wrong);
        }
        self.decision.queueing.push(super::Queueing::Take(part));
        self.run.state.token += 1;
        let (token, since) = (self.run.state.token, self.stamp);
        let lease_until = self.within_its_time(part, since, lease_until);
        let active = &mut self.run.state.active[at];
        active.attempt += 1;
        active.status = ActivityStatus::Claimed { token, since, lease_until, worker, claimant };
        self.decision.claimed = Some(token);
        self.watch_started_step(part.step);
        Ok(())
    }

    /// Returns a claimed part to its queue, since the response to the claim reached nobody and
    /// nothing was done. The attempt does not count. A run that is being stopped does not wait for
    /// it.
    pub(super) fn return_claim(&mut self, token: u32) -> Result<(), Refusal> {
        let old = Refusal::OldToken { given: token };
        let Some(at) = self.index_of(token) else { return Err(old) };
        if !matches!(self.run.state.active[at].status, ActivityStatus::Claimed { .. }) {
            return Err(old);
        }
        if self.is_stopping() {
            let active = self.remove(at);
            self.stopped(&active, false, None);
            return Ok(());
        }
        let active = &mut self.run.state.active[at];
        active.attempt = active.attempt.saturating_sub(1);
        active.status = ActivityStatus::Ready;
        Ok(())
    }

    fn within_its_time(&self, part: Part, since: Timestamp, lease: Timestamp) -> Timestamp {
        let limit = self.timeout_of(part).and_then(|limit| since.checked_add(limit).ok());
        limit.map_or(lease, |limit| limit.min(lease))
    }

    /// Extends the lease of a worker.
    pub(super) fn heartbeat(
        &mut self,
        token: u32,
        said_by: &Claimant,
        until: Timestamp,
    ) -> Result<(), Refusal> {
        let Some(at) = self.index_of(token) else { return Err(Refusal::OldToken { given: token }) };
        let ActivityStatus::Claimed { since, claimant, .. } = &self.run.state.active[at].status
        else {
            return Err(Refusal::OldToken { given: token });
        };
        claimant.admits(said_by, token)?;
        let since = *since;
        let until = self.within_its_time(self.part(at), since, until);
        if let ActivityStatus::Claimed { lease_until, .. } = &mut self.run.state.active[at].status {
            *lease_until = until;
        }
        self.decision.is_ending = self.is_stopping();
        Ok(())
    }
}

fn whole_milliseconds(duration: SignedDuration) -> SignedDuration {
    SignedDuration::from_millis(i64::try_from(duration.as_millis()).unwrap_or(i64::MAX))
}
