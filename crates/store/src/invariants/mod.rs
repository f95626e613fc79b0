//! The invariants of a store: what `punctual doctor` checks, and how `--repair` mends it. It is one
//! list for both stores.
//!
//! Most invariants are conditions in SQL that no row may meet ([`LISTS`]). Both stores run the same
//! texts; a name in braces stands for one of the [`Fragments`], which each database needs in a form
//! of its own. Whether rows can be read ([`RowKind`]), and whether schedules ([`ScheduleBreach`])
//! and open runs ([`RunBreach`]) agree with the rows beside them, is decided with the engine's
//! types. A store implements [`Checks`], and [`check`] goes through all of them: a store that
//! leaves one out does not compile.

mod calendars;
mod counts;
mod findings;
mod one_store;
mod open_run;
mod published;
mod references;
mod rows;
mod runs;
mod schedule;
mod schedules;
mod topics;

use std::sync::Arc;

use engine::turn::Command;
use engine::{Moment, NodeId, RunId, WorkflowId};
use jiff::Timestamp;
use language::Rules;

use crate::codes;
use crate::failure::Failure;
use crate::request::CommandRequest;
use crate::rows::Positional;
use crate::stored::ms;
use crate::tally;
use crate::view::Finding;
use findings::{attempted, by_code};

pub(crate) use findings::{Breach, Listed, TOLD, unchecked};
pub(crate) use open_run::{BesideRun, RunBreach, lost_steps};
pub(crate) use rows::RowKind;
pub(crate) use schedule::{BesideSchedule, ScheduleBreach};
pub(crate) use schedules::{EXPIRED_AT, KEPT_FOR};

/// Rows that must not exist, and how they are mended.
pub(crate) struct Invariant {
    /// The kind of finding, stable for programs. Two invariants may share one.
    code: &'static str,
    /// The message of a finding. `{id}` and `{text}` stand for the two columns that `told` selects.
    message: &'static str,
    /// Two SQL columns for the message of a row: its id and a text.
    told: &'static str,
    /// The table of the rows, with its alias; also joined with others if the mend is neither
    /// [`Mend::Delete`] nor [`Mend::Set`].
    from: &'static str,
    /// The condition that the rows meet. `$1` is now.
    which: &'static str,
    /// The steps of one transaction that mends all rows; empty if a person has to look.
    mend: &'static [Mend],
}

/// A step of mending. In its text, `{breaches}` is the `FROM … WHERE …` that finds the rows.
#[derive(Clone, Copy)]
enum Mend {
    /// Locks what must not change meanwhile.
    Lock(Lock),
    Delete,
    /// Sets columns of the rows.
    Set(&'static str),
    Run(&'static str),
}

/// What is locked before rows are mended. SQLite has one writer, and needs no locks.
#[derive(Clone, Copy)]
pub(crate) enum Lock {
    /// The rows of all workflows.
    Workflows,
    /// The rows of workflows that limit how many of their runs are active.
    LimitedWorkflows,
    /// The rows of workflows with handlers. Whoever changes a handler locks its workflow.
    WorkflowsOfHandlers,
    /// The rows of all topics. Whoever changes an event locks its topic.
    Topics,
    /// The table of nodes.
    Nodes,
    ScheduleCounts,
    ScheduleBlocks,
}

/// A kind of store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Database {
    Sqlite,
    Postgres,
}

/// All invariants in SQL, and the only database that has them, if there is but one. They are in the
/// order in which they are mended: each can rely on what the earlier ones mended.
const LISTS: [(Option<Database>, &[Invariant]); 7] = [
    (Some(Database::Sqlite), &one_store::SQLITE),
    (Some(Database::Postgres), &one_store::POSTGRES),
    (None, &references::REFERENCES),
    (None, &runs::RUNS),
    (None, &schedules::SCHEDULES),
    (None, &counts::COUNTS),
    (None, &topics::TOPICS),
];

/// What the two databases need written differently. In the SQL of an invariant, `{open_runs}`
/// stands for the field `open_runs`, and so on.
pub(crate) struct Fragments {
    /// The table of runs that have not ended, for finding one by its key.
    pub(crate) open_runs: &'static str,
    /// The same table, for finding runs by status and workflow.
    pub(crate) open_runs_by_status: &'static str,
    /// The table in which ended runs can be changed.
    pub(crate) ended_runs: &'static str,
    /// A row for each attempt of an open run: `run`, and the `node` that performs it.
    pub(crate) performed: &'static str,
    /// The statement that inserts rows of dead nodes for `{lost_nodes}`.
    pub(crate) insert_lost_nodes: &'static str,
    /// The table of reserved events.
    pub(crate) reserved_events: &'static str,
    /// The columns `topic` and `state` of event `e`, in the form of the index that counts events.
    pub(crate) event_topic: &'static str,
    pub(crate) event_state: &'static str,
    /// The handlers that do not wake when they should.
    pub(crate) sleeping_handlers: &'static str,
    /// The statement that has `{sleeping_handlers}` wake.
    pub(crate) wake_handlers: &'static str,
    /// One more column of the counts of schedules with its comma, and its value with a comma.
    pub(crate) slot_column: &'static str,
    pub(crate) slot: &'static str,
}

impl Fragments {
    /// Replaces names by texts. A text may contain names that come later.
    fn fill(&self, invariant: &Invariant, sql: &str) -> String {
        let breaches = format!("FROM {} WHERE {}", invariant.from, invariant.which);
        let texts = [
            ("{breaches}", breaches.as_str()),
            ("{insert_lost_nodes}", self.insert_lost_nodes),
            ("{lost_nodes}", runs::LOST_NODES),
            ("{performed}", self.performed),
            ("{wake_handlers}", self.wake_handlers),
            ("{sleeping_handlers}", self.sleeping_handlers),
            ("{kept_since}", schedules::KEPT_SINCE),
            ("{successes}", schedules::SUCCESSES),
            ("{active_runs}", counts::ACTIVE_RUNS),
            ("{begun_handlers}", topics::BEGUN_HANDLERS),
            ("{counted}", counts::COUNTED),
            ("{counted_blocks}", counts::COUNTED_BLOCKS),
            ("{tally_kinds}", tally::KINDS),
            ("{slot_column}", self.slot_column),
            ("{slot}", self.slot),
            ("{open_runs}", self.open_runs),
            ("{open_runs_by_status}", self.open_runs_by_status),
            ("{ended_runs}", self.ended_runs),
            ("{reserved_events}", self.reserved_events),
            ("{event_topic}", self.event_topic),
            ("{event_state}", self.event_state),
        ];
        let sql = texts.iter().fold(sql.to_owned(), |sql, (name, text)| sql.replace(name, text));
        codes::filled(&sql)
    }
}

/// An invariant as statements of one store.
pub(crate) struct Statements {
    code: &'static str,
    message: &'static str,
    /// Selects for each of the first breaches an id, a text, and how many breaches there are in
    /// all. `$1`, if there is one, is now.
    breaches: String,
    mend: Vec<Step>,
}

/// A step of a transaction that mends.
pub(crate) enum Step {
    Lock(Lock),
    /// One or more statements on SQLite, one on PostgreSQL.
    Run(String),
}

/// The invariants in SQL of this database, in the order in which they are checked.
pub(crate) fn statements(database: Database, fragments: &Fragments) -> Vec<Statements> {
    let lists = LISTS.iter().filter(|(only, _)| only.is_none_or(|only| only == database));
    let invariants = lists.flat_map(|(_, invariants)| invariants.iter());
    invariants.map(|invariant| invariant.statements(fragments)).collect()
}

impl Invariant {
    fn statements(&self, fragments: &Fragments) -> Statements {
        let fill = |sql: &str| fragments.fill(self, sql);
        let breaches = format!(
            "WITH b (id, text) AS (SELECT {} {{breaches}})
             SELECT CAST(b.id AS bigint), coalesce(CAST(b.text AS text), ''), count(*) OVER ()
             FROM b ORDER BY b.id LIMIT {TOLD}",
            self.told
        );
        let step = |mend: &Mend| match mend {
            Mend::Lock(lock) => Step::Lock(*lock),
            Mend::Delete => Step::Run(fill("DELETE {breaches}")),
            Mend::Set(columns) => {
                let (from, which) = (self.from, self.which);
                Step::Run(fill(&format!("UPDATE {from} SET {columns} WHERE {which}")))
            }
            Mend::Run(sql) => Step::Run(fill(sql)),
        };
        Statements {
            code: self.code,
            message: self.message,
            breaches: fill(&breaches),
            mend: self.mend.iter().map(step).collect(),
        }
    }
}

/// A row that breaches an invariant: its id, its text, and how many such rows there are in all.
type BreachingRow = (i64, String, usize);

/// What a store does so that [`check`] can check it.
pub(crate) trait Checks {
    /// The invariants in SQL, made with [`statements`].
    fn invariants(&self) -> &'static [Statements];

    /// Runs a query that may take long, with these numbers as `$1` and so on.
    fn select<T: Positional>(
        &mut self,
        sql: &'static str,
        params: &[i64],
    ) -> Result<Vec<T>, Failure>;

    /// Performs all steps in one transaction, or none.
    fn mend(&mut self, steps: &'static [Step]) -> Result<(), Failure>;

    /// Reads all rows of a kind, and adds those that cannot be read ([`RowKind::check`]).
    fn read_all(&mut self, kind: RowKind, found: &mut Listed) -> Result<(), Failure>;

    /// The findings for what is set aside. With `repair`, what can be read comes back.
    fn check_set_aside(&mut self, repair: bool) -> Result<Vec<Finding>, Failure>;

    /// Finds the breaches of open runs, and mends them with `repair`.
    fn check_runs(&mut self, repair: bool) -> Result<Vec<(i64, RunBreach)>, Failure>;

    /// Finds the runs with steps that have ended by their position and have no record, and these
    /// steps ([`lost_steps`]).
    fn lost_steps(&mut self) -> Result<Vec<(RunId, Vec<u32>)>, Failure>;

    /// Finds the breaches of schedules, and mends them with `repair`.
    fn check_schedules(
        &mut self,
        now: Timestamp,
        repair: bool,
    ) -> Result<Vec<(i64, ScheduleBreach)>, Failure>;

    fn rules(&self) -> Arc<Rules>;

    /// Has the engine publish the live revision of a workflow once more.
    fn publish_again(&mut self, workflow: WorkflowId, now: Timestamp) -> Result<(), Failure>;
}

/// The request that has the engine publish the live revision of a workflow once more.
pub(crate) fn publish_again(workflow: WorkflowId, now: Timestamp) -> CommandRequest {
    CommandRequest {
        command: Command::PublishAgain(workflow),
        moment: Moment::new(now, now),
        // Tools have no node.
        node: NodeId(0),
        idempotency: None,
        traced: false,
        audit: None,
    }
}

/// Checks everything. If one check fails, it is reported and the others still run.
pub(crate) fn check(store: &mut impl Checks, now: Timestamp, repair: bool) -> Vec<Finding> {
    let mut findings = Vec::new();
    for kind in RowKind::ALL {
        let mut found = Listed::new(kind.code());
        let read = store.read_all(kind, &mut found);
        findings.extend(attempted(kind.what(), read.map(|()| found.findings(false, false))));
    }
    findings.extend(attempted("calendars", calendars::check(store)));
    // Before the wakeups are checked: a row that is no longer set aside has no wakeup yet.
    findings.extend(attempted("what is set aside", store.check_set_aside(repair)));
    // Runs are mended before the invariants in SQL are checked: some of those look up the nodes
    // that own a run's attempts, and mending a run corrects its owners.
    let runs = store.check_runs(repair);
    findings.extend(attempted("runs", runs.map(|found| by_code(&found, repair))));
    let steps = store.lost_steps();
    findings.extend(attempted("records of steps", steps.map(|found| open_run::steps_gone(&found))));
    // Before the subscriptions of nothing are deleted: publishing makes lost handlers again, and
    // the subscriptions with them.
    let published = published::check(store, now, repair);
    findings.extend(attempted("what was published", published));
    // Before the counts of schedules are checked: mending may change a schedule's status to done.
    let schedules = store.check_schedules(now, repair);
    findings.extend(attempted("schedules", schedules.map(|found| by_code(&found, repair))));
    for invariant in store.invariants() {
        let found = check_invariant(store, invariant, now, repair);
        findings.extend(attempted(invariant.code, found));
    }
    findings
}

fn check_invariant(
    store: &mut impl Checks,
    invariant: &'static Statements,
    now: Timestamp,
    repair: bool,
) -> Result<Vec<Finding>, Failure> {
    let Statements { code, message, breaches, mend } = invariant;
    let now = breaches.contains("$1").then(|| ms(now));
    let rows: Vec<BreachingRow> = store.select(breaches, now.as_slice())?;
    let mut found = Listed::new(code);
    for (id, text, count) in &rows {
        found.add(|| message.replace("{id}", &id.to_string()).replace("{text}", text));
        found.count_in_all(*count);
    }
    let is_to_mend = repair && !rows.is_empty() && !mend.is_empty();
    let Some(Err(failure)) = is_to_mend.then(|| store.mend(mend)) else {
        return Ok(found.findings(!mend.is_empty(), is_to_mend));
    };
    let mut findings = found.findings(true, false);
    let message = format!("{code} cannot be mended: {failure}");
    findings.push(Finding::new(code, message));
    Ok(findings)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{Statements, Step};
    use crate::postgres::maintenance::check::INVARIANTS as POSTGRES;
    use crate::sqlite::maintenance::check::INVARIANTS as SQLITE;

    /// The codes of invariants in SQL that one store has and the other has not.
    const ONLY_IN_ONE: [(&str, &str); 6] = [
        ("event-id", "a column of PostgreSQL holds values of its type alone"),
        ("progress-of-nothing", "on PostgreSQL it is a wakeup of nothing"),
        ("versions", "SQLite changes both rows of a schedule under one lock"),
        ("run-twice", "SQLite has one table of runs"),
        ("run-misplaced", "SQLite has one table of runs"),
        ("sequence-behind", "SQLite has no sequences"),
    ];

    fn runs(statements: &Statements) -> impl Iterator<Item = &str> {
        statements.mend.iter().filter_map(|step| match step {
            Step::Lock(_) => None,
            Step::Run(sql) => Some(sql.as_str()),
        })
    }

    #[test]
    fn both_stores_have_every_code() {
        let codes = |all: &[Statements]| all.iter().map(|one| one.code).collect::<BTreeSet<_>>();
        let (sqlite, postgres) = (codes(&SQLITE), codes(&POSTGRES));
        let apart: BTreeSet<_> = sqlite.symmetric_difference(&postgres).copied().collect();
        assert_eq!(apart, ONLY_IN_ONE.iter().map(|(code, _)| *code).collect());
    }

    #[test]
    fn every_name_in_a_statement_is_known() {
        for one in SQLITE.iter().chain(POSTGRES.iter()) {
            for sql in runs(one).chain([one.breaches.as_str()]) {
                assert!(!sql.contains(['{', '}']), "{}: {sql}", one.code);
            }
        }
    }

    #[test]
    fn every_statement_is_one_of_sqlite() {
        let mut connection = rusqlite::Connection::open_in_memory().unwrap();
        crate::migrations::migrate(&mut connection).unwrap();
        for one in SQLITE.iter() {
            connection
                .prepare(&one.breaches)
                .unwrap_or_else(|error| panic!("{}: {error}", one.code));
            for sql in runs(one) {
                connection.execute_batch(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
            }
        }
    }
}
