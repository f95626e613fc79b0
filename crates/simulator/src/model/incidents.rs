//! Checks incidents: each begins with a final failure, ends with a success, and notifies once of
//! each.

use std::collections::BTreeMap;

use engine::incidents::How;
use engine::ledger::Outcome;
use engine::notices;
use engine::run::{RunStatus, TriggeredBy};

use super::commit::TouchedAll;
use super::runs::Moved;
use super::{Checked, Model, broken};
use crate::watch::IncidentRow;

/// The schedule or workflow that an incident is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Subject {
    Schedule(i64),
    /// The runs of this workflow that no schedule started.
    Workflow(i64),
}

/// Incidents as of the last commit.
#[derive(Default)]
pub(super) struct Incidents {
    /// The open incident of each subject that has one.
    open: BTreeMap<Subject, i64>,
    greatest: i64,
}

/// How one commit changed the incident of one schedule or workflow.
#[derive(Debug, Default)]
struct Seen {
    failures: usize,
    successes: usize,
    begun: usize,
    recovered: usize,
    was_open: bool,
}

impl Model {
    /// Compares the incidents of one commit with the runs that ended in it.
    pub(super) fn check_incidents(
        &mut self,
        rows: Vec<(i64, Option<IncidentRow>)>,
        moved: &[Moved],
        touched: &TouchedAll,
    ) -> Checked {
        let mut seen: BTreeMap<Subject, Seen> = BTreeMap::new();
        for (id, touched) in touched {
            let failed = touched
                .ledger
                .iter()
                .filter(|(_, row)| row.as_ref().is_some_and(|row| row.outcome == Outcome::Failed));
            seen.entry(Subject::Schedule(*id)).or_default().failures += failed.count();
        }
        for moved in moved.iter().filter(|moved| moved.row.status.has_ended()) {
            self.count_ended(moved, &mut seen);
        }
        for (subject, seen) in &mut seen {
            seen.was_open = self.incidents.open.contains_key(subject);
        }
        let mut told = 0;
        for (key, row) in rows {
            told += self.take_incident(key, row, &mut seen)?;
        }
        let started = moved
            .iter()
            .filter(|moved| moved.is_new && moved.row.triggered_by == TriggeredBy::Incident);
        let started = started.count();
        if started != told {
            let message = format!("{started} runs tell of incidents, which say that {told} do");
            return broken("incidents", message);
        }
        for (subject, seen) in &seen {
            self.check_subject(*subject, seen)?;
        }
        Ok(())
    }

    /// Checks that only incidents that are over are removed.
    pub(super) fn incidents_go(&mut self, rows: Vec<(i64, Option<IncidentRow>)>) -> Checked {
        for (key, row) in rows {
            let is_open = self.incidents.open.values().any(|open| *open == key);
            if row.is_some() || is_open {
                return broken("expiry", format!("incident {key} is changed, or open and gone"));
            }
        }
        Ok(())
    }

    /// Counts how a run ended. For handlers, only their schedule and their workflow know whether
    /// they are retried.
    fn count_ended(&self, moved: &Moved, seen: &mut BTreeMap<Subject, Seen>) {
        let run = &moved.row;
        let subject = match run.schedule {
            Some(id) => Subject::Schedule(id),
            None => Subject::Workflow(run.workflow),
        };
        let is_waited_for = run.parent.is_some_and(|(_, token)| token.is_some());
        if run.schedule.is_none() && (is_waited_for || run.handler.is_some()) {
            return;
        }
        let seen = seen.entry(subject).or_default();
        match run.status {
            RunStatus::Succeeded => seen.successes += 1,
            RunStatus::Failed | RunStatus::TimedOut if run.schedule.is_none() => {
                let workflow = self.workflows.get(&run.workflow);
                let tells = run.triggered_by == TriggeredBy::Incident
                    || workflow.is_some_and(|row| row.name == notices::NAME);
                seen.failures += usize::from(!tells);
            }
            _ => {}
        }
    }

    /// Takes over a row. Returns how many runs it says were started to notify people.
    fn take_incident(
        &mut self,
        key: i64,
        row: Option<IncidentRow>,
        seen: &mut BTreeMap<Subject, Seen>,
    ) -> Result<usize, super::Violation> {
        let Some(row) = row else {
            return if self.incidents.open.values().any(|open| *open == key) {
                broken("incidents", format!("incident {key} is open, and gone"))
            } else {
                Ok(0)
            };
        };
        let subject = match row.schedule {
            Some(id) => Subject::Schedule(id),
            None => Subject::Workflow(row.workflow),
        };
        let seen = seen.entry(subject).or_default();
        let mut told = 0;
        match self.incidents.open.get(&subject) {
            Some(open) if *open == key => {}
            _ if key > self.incidents.greatest => {
                self.incidents.greatest = key;
                seen.begun += 1;
                told += row.told;
            }
            _ => {
                return broken("incidents", format!("incident {key} is written again: {row:?}"));
            }
        }
        match row.ending {
            None => drop(self.incidents.open.insert(subject, key)),
            Some(how) => {
                if self.incidents.open.get(&subject) == Some(&key) {
                    self.incidents.open.remove(&subject);
                }
                seen.recovered += usize::from(how == How::Recovered);
                told += row.ended_told;
            }
        }
        Ok(told)
    }

    fn check_subject(&self, subject: Subject, seen: &Seen) -> Checked {
        let open = self.incidents.open.get(&subject).copied();
        // A schedule or workflow that is gone stores no incident.
        let stored = match subject {
            Subject::Schedule(id) => self.schedules.get(&id).map(|kept| kept.row.incident),
            Subject::Workflow(id) => self.workflows.get(&id).map(|row| row.incident),
        };
        if stored.is_some_and(|stored| stored != open) {
            let message = format!("{subject:?} is in incident {stored:?}, expected {open:?}");
            return broken("incidents", message);
        }
        let wrong = |what: &str| broken("incidents", format!("{subject:?}: {what}: {seen:?}"));
        if seen.recovered > 0 && seen.successes == 0 && !self.is_of_handlers(subject) {
            return wrong("it has recovered without a success");
        }
        if stored.is_none() || self.is_of_handlers(subject) {
            return Ok(());
        }
        if seen.begun > seen.failures {
            return wrong("more incidents began than something failed");
        }
        match (seen.failures > 0, seen.successes > 0) {
            (true, false) if open.is_none() => wrong("it has failed, and there is no incident"),
            (false, true) if open.is_some() => wrong("it has succeeded, and the incident goes on"),
            (false, false) if seen.was_open != open.is_some() && seen.recovered > 0 => {
                wrong("it has changed without a cause")
            }
            _ => Ok(()),
        }
    }

    /// Whether the subject belongs to handlers: they fail for good when their workflow is paused
    /// for it.
    fn is_of_handlers(&self, subject: Subject) -> bool {
        match subject {
            Subject::Schedule(id) => {
                self.schedules.get(&id).is_some_and(|kept| kept.row.is_of_producer())
            }
            // The handlers of an archived workflow are gone, and their runs may go on.
            Subject::Workflow(id) => {
                let runs = || self.runs.values().filter(|run| run.handler.is_some());
                self.handling.handlers.values().any(|row| row.workflow == id)
                    || runs().any(|run| run.workflow == id)
            }
        }
    }
}
