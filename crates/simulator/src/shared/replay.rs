//! Gives the model what was committed in a round, one transaction after the other.

use std::collections::BTreeMap;
use std::sync::PoisonError;

use serde_json::Value;
use store::Failure;

use super::{Life, SharedWorld};
use crate::faulty_store::{Record, StoreRequest, Told};
use crate::model::{Cause, Checked, Violation, broken};
use crate::observe::{event, reported};
use crate::postgres::schema::LogRow;
use crate::simulation::unexpected;
use crate::watch::Changes;
use crate::work::Begun;

/// A request, and the machine that sent it.
type Sent = (usize, Record);

impl SharedWorld {
    pub(super) fn replay(&mut self) -> Checked {
        let log = self.schema.take_log().map_err(unexpected)?;
        let mut sent: Vec<Sent> = Vec::new();
        let (mut begun, mut deeds) = (Vec::new(), Vec::new());
        for (number, slot) in self.slots.iter().enumerate() {
            sent.extend(slot.machine.desk.records().into_iter().map(|record| (number, record)));
            begun.extend(slot.machine.work.begun());
            deeds.extend(slot.machine.work.deeds());
        }
        check_failures(&sent)?;
        self.has_changed = false;
        self.match_begun(&mut begun)?;
        for transaction in transactions(log) {
            self.take(&transaction, &mut sent)?;
            self.match_begun(&mut begun)?;
        }
        self.model.check_begun(&begun)?;
        self.model.check_deeds(&deeds)?;
        let mut works = self.slots.iter().map(|slot| &slot.machine.work);
        if let Some(wrong) = works.find_map(|work| work.wrong()) {
            return broken("given", wrong);
        }
        sent.into_iter().try_for_each(|sent| self.changed_nothing(sent))
    }

    /// Checks the attempts that are stored at this point, and takes them off the list.
    fn match_begun(&mut self, begun: &mut Vec<Begun>) -> Checked {
        let runs = &self.model.runs;
        let is_stored = |attempt: &mut Begun| {
            let run = runs.get(&attempt.run);
            run.is_some_and(|run| run.performed(attempt.token) == Some(attempt.part))
        };
        let stored: Vec<Begun> = begun.extract_if(.., is_stored).collect();
        for attempt in &stored {
            if !self.begun.insert((attempt.run, attempt.token)) {
                return broken("performed", format!("{attempt:?} has begun twice"));
            }
        }
        self.model.check_begun(&stored)
    }

    /// Gives one transaction to the model, with the request that it was made for.
    fn take(&mut self, rows: &[LogRow], sent: &mut Vec<Sent>) -> Checked {
        for row in rows {
            self.take_life(row);
        }
        let text = |row: &LogRow| row.content.get("key").and_then(Value::as_str).map(str::to_owned);
        let key = rows.iter().find(|row| row.table == "idempotency").and_then(text);
        self.committed.extend(key.clone());
        let changes = self.watch.lock().unwrap_or_else(PoisonError::into_inner).apply(rows);
        let changes = changes.map_err(unexpected)?;
        if changes.is_empty() {
            return Ok(());
        }
        self.has_changed = true;
        let is_it = |(number, record): &Sent| is_of(rows, key.as_deref(), *number, record);
        let Some(index) = sent.iter().position(is_it) else {
            return self.unasked(rows, changes);
        };
        let (number, record) = sent.remove(index);
        let line = event(&record.asked, &changes, record.told, record.failure.as_ref());
        self.trace.note(self.round, record.now, format!("node {number}: {line}"));
        let cause = match record.asked {
            StoreRequest::Turn { reports, awake_since } => {
                self.model.awake_since = awake_since;
                Cause::Turn(reported(&reports))
            }
            StoreRequest::Command(command, _) => Cause::Command(command),
            _ => Cause::Node,
        };
        let refused =
            if let Some(Told::Refused(refused)) = record.told { Some(refused) } else { None };
        self.model.commit(&cause, record.now, refused, changes)
    }

    /// A transaction that no node was asked for: a planted bug, or a finding.
    fn unasked(&mut self, rows: &[LogRow], changes: Changes) -> Checked {
        if rows.iter().all(|row| row.node.is_none()) && self.options.sabotage.is_some() {
            return self.model.commit(&Cause::Turn(Vec::new()), self.time.wall(), None, changes);
        }
        broken("store", format!("nobody asked for {changes:?}"))
    }

    /// Follows which nodes are stored, and how long their leases last.
    fn take_life(&mut self, row: &LogRow) {
        let number = |column: &str| row.content.get(column).and_then(Value::as_i64);
        let (Some(id), Some(lease_until)) = (number("id"), number("lease_until")) else { return };
        if row.table != "nodes" {
            return;
        }
        if row.is_gone {
            self.lives.remove(&id);
            return;
        }
        let is_new = !self.lives.contains_key(&id);
        if let Some(slot) = row.node.filter(|_| is_new) {
            self.slots[slot].life = id;
        }
        self.lives.insert(id, Life { lease_until });
    }

    /// Checks a request that has changed nothing: no report of it may have been taken.
    fn changed_nothing(&mut self, (number, record): Sent) -> Checked {
        let StoreRequest::Turn { reports, .. } = &record.asked else { return Ok(()) };
        match record.told {
            Some(Told::Refused(refused)) if refused < reports.len() => {
                let message =
                    format!("node {number}: {} of {reports:?} are lost", reports.len() - refused);
                broken("reports", message)
            }
            _ => Ok(()),
        }
    }
}

/// The rows of each transaction, in an order in which they could have come one after the other.
fn transactions(log: Vec<LogRow>) -> Vec<Vec<LogRow>> {
    let mut all: BTreeMap<i64, (usize, Vec<LogRow>)> = BTreeMap::new();
    for (index, row) in log.into_iter().enumerate() {
        let (last, rows) = all.entry(row.transaction).or_default();
        *last = index;
        rows.push(row);
    }
    let mut all: Vec<(usize, Vec<LogRow>)> = all.into_values().collect();
    all.sort_by_key(|(last, _)| *last);
    all.into_iter().map(|(_, rows)| rows).collect()
}

/// Whether the transaction was made for this request: a command is known by its key, and a node
/// takes one turn at a time.
fn is_of(rows: &[LogRow], key: Option<&str>, number: usize, record: &Record) -> bool {
    match (&record.asked, key) {
        (StoreRequest::Command(_, own), Some(key)) => record.reached && own == key,
        (StoreRequest::Turn { .. }, None) => {
            let (sent, answered) = record.sent_and_answered;
            let is_then = |row: &LogRow| (sent..=answered).contains(&row.changed_at);
            let is_own = |row: &LogRow| row.node == Some(number) && is_then(row);
            record.reached && rows.iter().all(is_own)
        }
        _ => false,
    }
}

/// Checks that the store failed only where the simulation made it fail, or fenced a node.
fn check_failures(sent: &[Sent]) -> Result<(), Violation> {
    let is_wrong = |failure: &Failure| !matches!(failure, Failure::Refused(_) | Failure::Fenced);
    let mut failures = sent.iter().filter(|(_, record)| !record.is_simulated);
    let found = failures.find_map(|(number, record)| {
        Some((number, &record.asked, record.failure.as_ref().filter(|failure| is_wrong(failure))?))
    });
    match found {
        Some((number, asked, failure)) => {
            broken("store", format!("node {number}: {asked:?} failed: {failure}"))
        }
        None => Ok(()),
    }
}
