//! How the driver requests a turn and applies its result. Several turns may be in flight at a time.

use std::collections::HashSet;

use engine::turn::{ById, Capacity, STARTED};
use engine::{Moment, WorkflowId};
use jiff::{SignedDuration, Timestamp};
use store::{Failure, Report, TurnRequest, Turned};

use super::{CLAIMED, Driver, FEWEST_CLAIMED, Membership, TURN, Taken};
use crate::clock::Stopwatch;
use crate::readiness::InFlightTurn;

/// So many waiting reports justify a turn beside one that is in flight.
const MANY: usize = 64;

/// A turn in flight.
pub(super) struct Begun {
    /// Reports sent with this turn. They are kept until it is committed.
    reports: Vec<Report>,
    /// Free slots this turn may fill, besides the slots its reports free.
    granted: usize,
    /// How many due wakeups the turn claims, or `None` if it only commits reports. Such a turn does
    /// not learn what else is due.
    limit: Option<usize>,
    at: Timestamp,
    watch: Stopwatch,
    /// Marks the turn as in flight for readiness checks until it is dropped.
    _in_flight: InFlightTurn,
}

impl Driver {
    /// Builds the request for a turn and takes the reports into it. Until the turn ends, the driver
    /// assumes that nothing else is left to do. Beside other turns and without free slots, the turn
    /// only commits reports: runs it claimed would have to wait in a queue.
    pub(super) fn begin(&mut self) -> (Begun, TurnRequest) {
        let now = self.clock.now();
        let mut reports = std::mem::take(&mut self.reports);
        let is_single = self.single > 0 || self.is_alone();
        // A turn over something else that is due takes no report: those wait for the next turn.
        let tries_first =
            |first: &Report| !self.is_alone() || self.start.tries_report_of(first.run);
        let taken = usize::from(reports.first().is_some_and(tries_first));
        if is_single && reports.len() > taken {
            self.reports = reports.split_off(taken);
        }
        // A report may arrive twice, or for an attempt that this node no longer holds.
        let ended: HashSet<_> = reports.iter().map(|report| (report.run, report.token)).collect();
        let mut held: ById<WorkflowId, usize> = ById::default();
        for (attempt, workflow) in self.performed.held().iter() {
            if !ended.contains(attempt) {
                *held.entry(*workflow).or_default() += 1;
            }
        }
        let all_free = self.free(held.values().sum());
        let free = granted_slots(all_free, self.store.turns_at_a_time(), ended.len());
        let granted = free.saturating_sub(ended.len());
        let claims = !self.stopping && (self.in_flight == 0 || granted >= CLAIMED);
        let limit = claims.then(|| match self.start.begins() {
            Some(_) => 0,
            None if is_single => usize::from(reports.is_empty()),
            None => self.limit,
        });
        let request = TurnRequest {
            moment: Moment::new(now, self.awake_since),
            node: self.node,
            limit: limit.unwrap_or_default(),
            begin: self.start.begins(),
            capacity: Capacity {
                free_slots: free,
                other_free_slots: all_free - free,
                rescan: self.slots.rescan && !is_single,
                // A turn that claims fewer wakeups because turns are slow also begins fewer runs.
                starts: STARTED * self.limit / CLAIMED,
                ends_noops: self.dispatch.ends_noops(),
                ..self.slots
            },
            held,
            performed: (self.membership == Membership::InDoubt).then(|| self.performed.all()),
            reports: reports.clone(),
            traced: self.hub.is_traced(),
        };
        (self.slots.rescan, self.slots.has_more) = (is_single && self.slots.rescan, false);
        self.single = self.single.saturating_sub(1);
        if claims {
            self.next_wakeup = None;
            self.hub.turn_began();
        }
        self.membership = Membership::Current;
        self.granted += granted;
        self.in_flight += 1;
        let at = self.clock.machine_now();
        let _in_flight = self.hub.readiness.turns.begin(now);
        let watch = Stopwatch::start();
        (Begun { reports, granted, limit, at, watch, _in_flight }, request)
    }

    /// How many slots are free and not granted to a turn in flight, when `still` attempts go on.
    fn free(&self, still: usize) -> usize {
        if self.stopping { 0 } else { self.capacity.saturating_sub(still + self.granted) }
    }

    /// Whether another turn is worth beginning beside those in flight. While in doubt, one turn
    /// must look at everything alone; without free slots, a turn could only put runs in a queue.
    pub(super) fn has_more_beside(&self) -> bool {
        if self.membership != Membership::Current || self.stopping || self.start.is_careful() {
            return false;
        }
        let has_slots = || self.free(self.going_on()) >= CLAIMED;
        self.reports.len() >= MANY || (self.is_behind || self.is_due()) && has_slots()
    }

    /// Applies the result of a turn. If it failed, its reports are kept for the next turn.
    pub(super) fn end(
        &mut self,
        begun: Begun,
        turned: Result<Turned, Failure>,
    ) -> Result<Taken, Failure> {
        self.granted -= begun.granted;
        self.in_flight -= 1;
        let took = begun.watch.elapsed();
        self.hub.metrics.turn_took(took);
        // The node was awake while this turn worked, however long it took. If the machine was
        // suspended meanwhile, the stopwatch stood still and the time does not count as awake.
        let seen = begun.at.checked_add(took).unwrap_or(begun.at);
        self.last_seen = self.last_seen.max(seen);
        // The node was declared dead while this turn was in flight, so other nodes own what the
        // turn decided. The driver joins again once no turn is in flight.
        if self.membership == Membership::Fenced {
            return Err(Failure::Fenced);
        }
        // The size of the next turn follows the node's clock, not the stopwatch: simulated time
        // stands still during a turn, so that a simulation does not depend on the machine's speed.
        let took = self.clock.machine_now().duration_since(begun.at);
        match turned {
            Ok(turned) => Ok(self.committed(begun, turned, took)),
            Err(Failure::Fenced) => {
                self.fence();
                Err(Failure::Fenced)
            }
            Err(failure) => {
                // Keep the reports: if the turn was committed after all, the store refuses them as
                // late.
                let later = std::mem::replace(&mut self.reports, begun.reports);
                self.reports.extend(later);
                self.doubt();
                Err(failure)
            }
        }
    }

    fn committed(&mut self, begun: Begun, mut turned: Turned, took: SignedDuration) -> Taken {
        let mut performed = self.performed.held();
        for report in &begun.reports {
            performed.remove(&(report.run, report.token));
            self.hub.live.ended(report.run, report.token);
            self.hub.metrics.reported(&report.end);
        }
        drop(performed);
        self.slots = Capacity {
            free_slots: self.capacity,
            last_served: turned.capacity.last_served,
            rescan: self.slots.rescan || turned.capacity.rescan,
            has_more: self.slots.has_more || turned.capacity.has_more,
            ..self.slots
        };
        if let Some(limit) = begun.limit {
            self.is_behind = turned.claimed >= limit.max(FEWEST_CLAIMED);
            self.limit = next_limit(self.limit, turned.claimed, took);
        }
        self.next_wakeup = [self.next_wakeup, turned.next_wakeup].into_iter().flatten().min();
        self.recovered += turned.recovered;
        self.hub.metrics.begun_and_ended(&turned.noops, self.clock.now());
        self.hub.trace(std::mem::take(&mut turned.spans));
        self.hub.committed(&mut turned, self.next_wakeup(), begun.reports.len());
        let taken =
            Taken { claimed: turned.claimed, refused: turned.refused, begun: turned.effects.len() };
        self.perform(turned.effects);
        self.hub.metrics.going_on(self.going_on());
        taken
    }
}

/// How many free slots a turn may fill that commits this many reports. Where several turns are
/// taken at a time, one leaves slots to the others.
fn granted_slots(free: usize, turns_at_a_time: usize, reports: usize) -> usize {
    if turns_at_a_time == 1 { free } else { free.min(CLAIMED + reports) }
}

/// How many wakeups the next turn claims, when one that claimed `claimed` of them took this long.
fn next_limit(limit: usize, claimed: usize, took: SignedDuration) -> usize {
    let (took, allowed) = (took.as_millis(), TURN.as_millis());
    let next = match took {
        _ if took > allowed => i128::try_from(claimed).unwrap_or_default() * allowed / took,
        _ if took * 2 < allowed => i128::try_from(limit).unwrap_or_default() * 2,
        _ => return limit,
    };
    usize::try_from(next).unwrap_or(CLAIMED).clamp(FEWEST_CLAIMED, CLAIMED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_turns_claim_fewer_wakeups_and_quick_ones_more_again() {
        let next =
            |limit, claimed, took| next_limit(limit, claimed, SignedDuration::from_millis(took));
        assert_eq!(next(CLAIMED, CLAIMED, 30), CLAIMED);
        assert_eq!(next(CLAIMED, CLAIMED, 80), CLAIMED);
        assert_eq!(next(CLAIMED, CLAIMED, 400), 250);
        assert_eq!(next(250, 250, 90), 250);
        assert_eq!(next(250, 250, 40), 500);
        assert_eq!(next(CLAIMED, 3, 10_000), FEWEST_CLAIMED);
        assert_eq!(next(FEWEST_CLAIMED, 50, 10_000), FEWEST_CLAIMED);
        assert_eq!(next(600, 600, -5_000), CLAIMED, "the clock was set back");
    }
}
