//! What a turn is asked for, and what follows from its answer. Several may be in flight at a time.

use std::collections::HashSet;

use engine::Moment;
use engine::turn::Places;
use store::{Failure, Report, TurnRequest, Turned};

use super::{CLAIMED, Driver, Taken};
use crate::clock::Stopwatch;

/// So many reports are worth a turn beside one that is in flight.
const MANY: usize = 64;

/// A turn in flight.
pub(super) struct Begun {
    /// Kept until they are committed.
    reports: Vec<Report>,
    /// Places that it may fill besides those of its reports.
    granted: usize,
    /// Whether it looks at what is due. One that only settles does not know what is left.
    claims: bool,
    watch: Stopwatch,
}

impl Driver {
    /// Takes what there is to do. What is not known until its end is as if nothing was left. Beside others and without
    /// free places it only settles: what it claimed would have to wait in a queue.
    pub(super) fn begin(&mut self) -> (Begun, TurnRequest) {
        let now = self.clock.now();
        let reports = std::mem::take(&mut self.reports);
        // A report may come twice, or for an attempt that is nobody's any more.
        let ended: HashSet<_> = reports.iter().map(|report| (report.run, report.token)).collect();
        let still = self.performed.held().difference(&ended).count();
        let free = self.free(still);
        let is_alone = self.store.turns_at_a_time() == 1;
        let free = if is_alone { free } else { free.min(CLAIMED + ended.len()) };
        let granted = free.saturating_sub(ended.len());
        let claims = !self.stopping && (self.in_flight == 0 || granted >= CLAIMED);
        let request = TurnRequest {
            moment: Moment::new(now, self.awake_since),
            node: self.node,
            limit: if claims { CLAIMED } else { 0 },
            places: Places { free, ..self.places },
            performed: self.in_doubt.then(|| self.performed.all()),
            reports: reports.clone(),
            traced: self.hub.is_traced(),
        };
        (self.places.look, self.places.more) = (false, false);
        if claims {
            self.next_wakeup = None;
            self.hub.turning();
        }
        self.in_doubt = false;
        self.granted += granted;
        self.in_flight += 1;
        (Begun { reports, granted, claims, watch: Stopwatch::start() }, request)
    }

    /// Places that nobody may fill yet, when so many attempts go on.
    fn free(&self, still: usize) -> usize {
        if self.stopping { 0 } else { self.capacity.saturating_sub(still + self.granted) }
    }

    /// Whether a turn is worth beginning beside those in flight: in doubt everything is looked at in one view, and
    /// without free places it could only put runs in a queue.
    pub(super) fn has_more_beside(&self) -> bool {
        if self.in_doubt || self.is_fenced || self.stopping {
            return false;
        }
        let has_places = || self.free(self.going_on()) >= CLAIMED;
        self.reports.len() >= MANY || (self.is_behind || self.is_due()) && has_places()
    }

    /// A turn has ended.
    pub(super) fn end(
        &mut self,
        begun: Begun,
        turned: Result<Turned, Failure>,
    ) -> Result<Taken, Failure> {
        self.granted -= begun.granted;
        self.in_flight -= 1;
        self.hub.metrics.turn_took(begun.watch.elapsed());
        // It was found out meanwhile that this life is over: what the turn has done is others' as well. The next life
        // begins when nothing of this one is in flight.
        if self.is_fenced {
            return Err(Failure::Fenced);
        }
        match turned {
            Ok(turned) => Ok(self.committed(begun, turned)),
            Err(Failure::Fenced) => {
                self.fence();
                Err(Failure::Fenced)
            }
            Err(failure) => {
                // Reports are kept: if they were committed after all, they will be refused.
                let later = std::mem::replace(&mut self.reports, begun.reports);
                self.reports.extend(later);
                self.doubt();
                Err(failure)
            }
        }
    }

    fn committed(&mut self, begun: Begun, mut turned: Turned) -> Taken {
        let mut performed = self.performed.held();
        for report in &begun.reports {
            performed.remove(&(report.run, report.token));
            self.hub.live.ended(report.run, report.token);
            self.hub.metrics.reported(&report.end);
        }
        drop(performed);
        self.places = Places {
            free: self.capacity,
            served: turned.places.served,
            look: self.places.look || turned.places.look,
            more: self.places.more || turned.places.more,
        };
        if begun.claims {
            self.is_behind = turned.claimed >= CLAIMED;
        }
        self.next_wakeup = [self.next_wakeup, turned.next_wakeup].into_iter().flatten().min();
        if turned.taken_over > 0 {
            let attempts = turned.taken_over;
            tracing::info!(attempts, "took over what a node that is gone was doing");
        }
        self.hub.trace(std::mem::take(&mut turned.spans));
        self.hub.committed(&turned, self.next_wakeup());
        let taken =
            Taken { claimed: turned.claimed, refused: turned.refused, begun: turned.effects.len() };
        self.perform(turned.effects);
        self.hub.metrics.going_on(self.going_on());
        taken
    }
}
