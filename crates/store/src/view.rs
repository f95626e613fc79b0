//! Queries and the views they return. Views are read from committed rows and nothing else.

use std::sync::Arc;

use engine::incidents::Incident;
use engine::ledger::{Entry, Outcome};
use engine::run::{AttemptRecord, Run, RunState, RunStatus, StepRecord, TriggeredBy, Watch};
use engine::schedule::{Outlook, Override, Schedule, Status};
use engine::turn::{Recovered, Workflow};
use engine::{IncidentKey, NodeId, RunId, RunKey, ScheduleId, WorkflowId};
use jiff::Timestamp;
use language::definition::{DeadlineEnd, Definition};
use language::schedule::Plan;

use crate::failure::Failure;
use crate::set_aside::if_readable;
use crate::stored::ms;

/// One page of a list.
#[derive(Clone, Debug)]
pub struct Page<T> {
    pub items: Vec<T>,
    /// How many items the whole list has.
    pub total: Total,
    /// Where the next page begins; `None` on the last page.
    pub next: Option<Cursor>,
}

impl<T> Page<T> {
    pub(crate) fn empty() -> Page<T> {
        Page { items: Vec::new(), total: Total::Exact(0), next: None }
    }
}

/// Where a page begins: after the item with this key. Callers treat it as opaque.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cursor {
    Number(i64),
    Name(String),
    /// After this step of this run: for approvals.
    Step(RunKey, u32),
    /// After this instant, in milliseconds, and the key that breaks ties at it.
    Instant(i64, i64),
    /// After the ledger row that was decided at this time for this schedule and occurrence number.
    Decided(Timestamp, ScheduleId, u64),
}

/// How many items a list has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Total {
    Exact(u64),
    /// At least this many: counting all of them would cost too much.
    AtLeast(u64),
}

/// Filter and paging for a list of schedules. `None` matches every schedule.
#[derive(Clone, Debug, Default)]
pub struct ScheduleQuery {
    pub status: Option<Status>,
    pub workflow: Option<WorkflowId>,
    /// The name must have a word that begins with each of these words.
    pub search: Option<String>,
    pub limit: usize,
    /// Where the page begins.
    pub after: Option<Cursor>,
    /// How many more schedules to skip after the cursor.
    pub offset: u64,
}

/// A schedule with the facts of its workflow that are shown beside it.
#[derive(Clone, Debug)]
pub struct ScheduleView {
    pub schedule: Schedule,
    pub workflow_name: String,
    /// Whether someone paused the workflow. Its schedules then start runs only by hand.
    pub workflow_is_paused: bool,
    /// Occurrences that people changed.
    pub overrides: Vec<Override>,
    /// The nominal times of changed occurrences of which the change cannot be read.
    pub unreadable_overrides: Vec<Timestamp>,
}

impl ScheduleView {
    pub fn outlook<'a>(&'a self, plan: &'a Plan, now: Timestamp) -> Outlook<'a> {
        Outlook {
            schedule: &self.schedule,
            plan,
            overrides: &self.overrides,
            workflow_is_paused: self.workflow_is_paused,
            now,
        }
    }
}

/// Filter and paging for the ledger of one schedule.
#[derive(Clone, Debug)]
pub struct LedgerQuery {
    pub schedule: ScheduleId,
    pub outcome: Option<Outcome>,
    /// Only occurrences whose nominal or effective time is at or after this.
    pub from: Option<Timestamp>,
    /// Only occurrences whose nominal or effective time is at or before this.
    pub to: Option<Timestamp>,
    pub limit: usize,
    pub after: Option<Cursor>,
}

/// A ledger row with the run it started.
#[derive(Clone, Debug)]
pub struct LedgerRow {
    pub entry: Entry,
    /// The run created for the occurrence, with its status; `None` if there was none or it expired.
    pub run: Option<(RunId, RunStatus)>,
}

/// Filter and paging for occurrences that did not run.
#[derive(Clone, Debug, Default)]
pub struct NotRunQuery {
    /// Only occurrences decided at or after this time.
    pub since: Option<Timestamp>,
    /// Only this outcome: skipped, coalesced, missed, dropped or failed.
    pub outcome: Option<Outcome>,
    pub limit: usize,
    pub after: Option<Cursor>,
}

/// An occurrence that did not run and will not.
#[derive(Clone, Debug)]
pub struct NotRunRow {
    pub entry: Entry,
    /// The names of its schedule and its workflow; `None` if the schedule was deleted.
    pub names: Option<(String, String)>,
}

/// Filter and paging for a list of runs.
#[derive(Clone, Debug, Default)]
pub struct RunQuery {
    pub workflow: Option<WorkflowId>,
    pub schedule: Option<ScheduleId>,
    /// Only runs with one of these statuses; empty matches every status.
    pub status: Vec<RunStatus>,
    pub triggered_by: Option<TriggeredBy>,
    /// Only runs created at or after this time.
    pub since: Option<Timestamp>,
    /// Only runs created before this time.
    pub until: Option<Timestamp>,
    /// Only runs that this run started.
    pub parent: Option<RunKey>,
    /// Only runs that missed their deadline, or only those that did not.
    pub overdue: Option<bool>,
    /// Leave out the runs that Punctual starts itself to notify people.
    pub hides_system: bool,
    pub limit: usize,
    pub after: Option<Cursor>,
}

/// A run with the names that are shown beside it.
#[derive(Clone, Debug)]
pub struct RunView {
    pub run: Run,
    pub workflow_name: String,
    /// The id of the run that started this one, if that run is still stored.
    pub parent: Option<RunId>,
}

/// A run with its steps and attempts.
#[derive(Clone, Debug)]
pub struct RunDetail {
    pub view: RunView,
    /// The definition whose steps or phases the run goes through.
    pub definition: Arc<Definition>,
    /// Records of the run's steps in step order, with their items and their compensations. Steps
    /// the run has not reached are left out.
    pub steps: Vec<StepView>,
    /// Attempts that were followed by a retry, or will be, in the order of their steps and of time.
    /// Only the first [`ATTEMPTS_SHOWN`] are read.
    pub earlier: Vec<AttemptRecord>,
    /// The run's position in the queue of runs that wait for the same concurrency limit, from 1.
    /// `None` if the run does not wait for one.
    pub position: Option<u64>,
}

/// What a pending run may have to wait for: the limits, and the runs ahead of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AheadOfRun {
    /// The concurrency limit of its workflow, if it has one.
    pub(crate) concurrency: Option<u32>,
    /// How many active runs the workflow has; counted only if it has a limit.
    pub(crate) active: u32,
    /// The run that currently holds the workflow's single slot for handlers.
    pub(crate) handling: Option<RunKey>,
    /// How many older pending runs there are: handler runs if this is a handler's run, process runs
    /// otherwise. Counted up to [`MOST_AHEAD`].
    pub(crate) older: u64,
}

/// Older pending runs are counted up to this many, so that a long queue stays cheap to show.
pub(crate) const MOST_AHEAD: u32 = 100_000;

impl AheadOfRun {
    /// The run's position, from 1, among the pending runs that wait for the same limit; `None` if
    /// it waits for no limit.
    pub(crate) fn position(&self, run: &Run) -> Option<u64> {
        if run.handler.is_some() {
            return self.handling.filter(|other| *other != run.key).map(|_| self.older + 1);
        }
        let room = u64::from(self.concurrency?.saturating_sub(self.active));
        (self.older >= room).then(|| self.older - room + 1)
    }
}

/// At most this many earlier attempts of a run are read, so that one run stays cheap to show.
pub const ATTEMPTS_SHOWN: usize = 2_000;

/// The record of a step.
pub type StepView = StepRecord;

/// Filter and paging for open approvals.
#[derive(Clone, Debug, Default)]
pub struct ApprovalQuery {
    /// Only approvals that one of these may decide; empty matches all.
    pub assignees: Vec<String>,
    pub limit: usize,
    pub after: Option<Cursor>,
}

/// An approval that waits for a person's decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApprovalView {
    pub run: RunId,
    pub workflow_name: String,
    pub step: String,
    /// The question in one line.
    pub title: String,
    /// The question in full.
    pub description: Option<String>,
    /// Who may decide; empty means anyone.
    pub assignees: Vec<String>,
    pub asked_at: Timestamp,
    /// The earlier of the step's and the run's deadline, if there is one.
    pub deadline: Option<Timestamp>,
    /// Whether that deadline has passed.
    pub overdue: bool,
}

/// The result of an action of a deadline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlertView {
    /// The id of the step whose deadline it is; `None` for the run's own deadline.
    pub step: Option<String>,
    /// The index of the action in the deadline's definition.
    pub action: u32,
    pub due: Timestamp,
    /// When the action was due.
    pub at: Timestamp,
    /// When the action was carried out.
    pub happened_at: Timestamp,
    /// How the action ended the run or step, if it did.
    pub ended: Option<DeadlineEnd>,
    /// The runs the action started; runs removed since are left out.
    pub started: Vec<RunId>,
    /// Why the action could not start anything.
    pub refused: Option<String>,
}

/// Filter and paging for incidents.
#[derive(Clone, Debug, Default)]
pub struct IncidentQuery {
    /// Only incidents that are still open, or only those that are over.
    pub open: Option<bool>,
    pub workflow: Option<WorkflowId>,
    pub schedule: Option<ScheduleId>,
    /// Only the incident that began with this run.
    pub run: Option<RunId>,
    pub limit: usize,
    pub after: Option<Cursor>,
}

/// An incident with the names of its workflow and schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IncidentView {
    pub incident: Incident,
    pub workflow_name: Option<String>,
    /// The schedule's name, if the schedule still exists.
    pub schedule_name: Option<String>,
}

/// A queue in which attempts wait for workers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueView {
    pub name: String,
    /// How many attempts wait in it.
    pub waiting: u64,
}

/// Filter and paging for workflows.
#[derive(Clone, Debug, Default)]
pub struct WorkflowQuery {
    /// A part of the name; ASCII case is ignored.
    pub search: Option<String>,
    /// Leave out Punctual's own workflows.
    pub hides_system: bool,
    pub limit: usize,
    pub after: Option<Cursor>,
}

/// A workflow with one of its revisions.
#[derive(Clone, Debug)]
pub struct WorkflowView {
    pub workflow: Workflow,
    pub revision: u32,
    /// The definition as it was written.
    pub source: String,
    /// The definition as it was parsed.
    pub definition: Arc<Definition>,
    /// The folder of a node that the revision was published from, if it was.
    pub folder: Option<String>,
    pub saved_at: Timestamp,
    /// How many schedules start the workflow.
    pub schedules: u64,
}

#[derive(Clone, Debug)]
pub struct CalendarView {
    pub id: String,
    /// The declaration as JSON.
    pub spec: String,
}

/// A node that has joined and is not gone. A node that joins again gets a new id.
#[derive(Clone, Debug)]
pub struct NodeView {
    pub id: NodeId,
    pub name: String,
    pub started_at: Timestamp,
    /// When the node last renewed its lease; `None` on a store without leases.
    pub seen_at: Option<Timestamp>,
    /// Until when other nodes leave its attempts alone; `None` on a store without leases.
    pub lease_until: Option<Timestamp>,
    /// How many attempts it performs at a time, as it last reported.
    pub capacity: Option<u64>,
    /// How many attempts it owns now.
    pub attempts: u64,
    /// Occurrences and attempts that the node recovered after downtime.
    pub recovered: Recovered,
}

/// Figures for the overview page and for metrics.
#[derive(Clone, Debug, Default)]
pub struct Stats {
    pub schedules: Vec<(Status, u64)>,
    /// Runs that have not ended, by status.
    pub runs: Vec<(RunStatus, u64)>,
    /// Approvals that nobody has decided.
    pub approvals: u64,
    pub incidents: u64,
    pub workflows: u64,
    /// How many workflows are paused with a reason: a handler failed, or a person gave one.
    pub paused_workflows: u64,
    /// The workflows paused most recently: name, reason, since when.
    pub latest_paused: Vec<(String, String, Timestamp)>,
    /// Wakeups that are due and not claimed, counted up to a limit.
    pub due: u64,
    pub next_wakeup: Option<Timestamp>,
    /// The size of the store in bytes.
    pub bytes: u64,
}

/// At most this many paused workflows are named in [`Stats`].
pub(crate) const PAUSED_SHOWN: usize = 20;

/// How a pool of connections is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connections {
    /// Connections that are answering a query.
    pub used: u64,
    pub idle: u64,
    /// Queries that wait for a free connection.
    pub waiting: u64,
}

/// Something that a check found wrong in the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The kind of finding, stable for programs.
    pub code: &'static str,
    pub message: String,
    pub repaired: bool,
    /// Whether a repair mends it. Otherwise the message says what a person can do.
    pub can_be_repaired: bool,
    /// How many such findings it stands for: more than one where the rest of a long list is
    /// counted.
    pub count: usize,
}

impl Finding {
    /// A finding that a person has to see to.
    pub fn new(code: &'static str, message: String) -> Finding {
        Finding { code, message, repaired: false, can_be_repaired: false, count: 1 }
    }
}

/// The number in a cursor.
pub(crate) fn number(cursor: Option<&Cursor>) -> Option<i64> {
    match cursor {
        Some(Cursor::Number(number)) => Some(*number),
        _ => None,
    }
}

/// The name in a cursor.
pub(crate) fn name(cursor: Option<&Cursor>) -> Option<&str> {
    match cursor {
        Some(Cursor::Name(name)) => Some(name),
        _ => None,
    }
}

/// The text to look for in workflow names, in lower case; empty matches every name.
pub(crate) fn searched(query: &WorkflowQuery) -> String {
    query.search.as_deref().unwrap_or("").trim().to_ascii_lowercase()
}

/// The run and step in a cursor; without one, a key before the first step.
pub(crate) fn part(cursor: Option<&Cursor>) -> (i64, i64) {
    match cursor {
        Some(Cursor::Step(run, step)) => (run.0, i64::from(*step)),
        _ => (i64::MIN, -1),
    }
}

/// The decided time in milliseconds, schedule and occurrence number in a cursor; without one, a key
/// after every ledger row.
pub(crate) fn decided(cursor: Option<&Cursor>) -> (i64, i64, i64) {
    match cursor {
        Some(Cursor::Decided(at, schedule, n)) => {
            (ms(*at), schedule.0, i64::try_from(*n).unwrap_or(i64::MAX))
        }
        _ => (i64::MAX, i64::MAX, i64::MAX),
    }
}

/// The outcomes the query asks for, out of those of occurrences that did not run and will not.
pub(crate) fn not_run(query: &NotRunQuery) -> Vec<Outcome> {
    let runs = [Outcome::Started, Outcome::Moved, Outcome::Queued];
    let is_wanted = |outcome: &Outcome| query.outcome.is_none_or(|wanted| wanted == *outcome);
    Outcome::ALL
        .into_iter()
        .filter(|outcome| !runs.contains(outcome) && is_wanted(outcome))
        .collect()
}

/// A page of occurrences that did not run, latest decided first. `rows` has up to `limit + 1` rows
/// of each outcome.
pub(crate) fn not_run_page(mut rows: Vec<NotRunRow>, query: &NotRunQuery) -> Page<NotRunRow> {
    let sort_key = |row: &NotRunRow| (row.entry.decided_at, row.entry.schedule, row.entry.n);
    rows.sort_by_key(|row| std::cmp::Reverse(sort_key(row)));
    let cursor = |row: &NotRunRow| {
        let (at, schedule, n) = sort_key(row);
        Cursor::Decided(at, schedule, n)
    };
    page(rows, query.limit, query.after.is_none(), cursor)
}

/// The total of a search that is not counted in full: never less than what was seen, and exact if
/// nothing was left out. `passed` is how many items came before the page.
pub(crate) fn found_in_all(counted: Total, passed: u64, shown: usize, is_whole: bool) -> Total {
    let seen = passed.saturating_add(shown as u64);
    match counted {
        Total::AtLeast(_) if is_whole => Total::Exact(seen),
        Total::AtLeast(least) => Total::AtLeast(least.max(seen)),
        exact => exact,
    }
}

/// A page out of up to `limit + 1` items: the extra item shows that there is a next page.
pub(crate) fn page<T>(
    mut items: Vec<T>,
    limit: usize,
    is_first: bool,
    cursor: impl Fn(&T) -> Cursor,
) -> Page<T> {
    let has_more = cut_to(&mut items, limit).is_some();
    cut(items, has_more, is_first, cursor)
}

fn cut<T>(items: Vec<T>, has_more: bool, is_first: bool, cursor: impl Fn(&T) -> Cursor) -> Page<T> {
    let next = items.last().filter(|_| has_more).map(cursor);
    let count = items.len() as u64;
    let is_whole = is_first && !has_more;
    let total = if is_whole { Total::Exact(count) } else { Total::AtLeast(count) };
    Page { items, total, next }
}

/// Cuts up to `limit + 1` items to `limit`. Returns the last one if there was one more.
pub(crate) fn cut_to<T>(items: &mut Vec<T>, limit: usize) -> Option<&T> {
    let has_more = items.len() > limit;
    items.truncate(limit);
    items.last().filter(|_| has_more)
}

/// A page of a schedule's ledger, out of up to `limit + 1` rows. `decided` is how many occurrences
/// the schedule has decided.
pub(crate) fn ledger_page(
    mut items: Vec<LedgerRow>,
    query: &LedgerQuery,
    decided: Option<u64>,
) -> Page<LedgerRow> {
    let last = cut_to(&mut items, query.limit);
    let next = last.and_then(|row| i64::try_from(row.entry.n).ok()).map(Cursor::Number);
    let is_filtered = query.outcome.is_some() || query.from.is_some() || query.to.is_some();
    let decided = decided.filter(|_| !is_filtered);
    let total = Total::AtLeast(decided.unwrap_or(items.len() as u64));
    Page { items, total, next }
}

/// As [`page`], but rows that cannot be read are left out.
pub(crate) fn readable_page<T>(
    found: Vec<Result<T, Failure>>,
    limit: usize,
    is_first: bool,
    cursor: impl Fn(&T) -> Cursor,
) -> Result<Page<T>, Failure> {
    let has_more = found.len() > limit;
    let mut items = Vec::with_capacity(found.len());
    for read in found.into_iter().take(limit) {
        items.extend(if_readable(read)?);
    }
    Ok(cut(items, has_more, is_first, cursor))
}

/// The id of the step at this index.
pub(crate) fn step_id(definition: &Definition, step: u32) -> Result<String, Failure> {
    let known = definition.steps.get(step as usize).map(|step| step.id.clone());
    known.ok_or_else(|| Failure::Damaged(format!("{} has no step {step}", definition.name)))
}

/// The definition a run goes through: the steps of its workflow, or the phases of one of its
/// handlers. It has no steps if the definition is gone or cannot be read: the run is then shown
/// without steps, and `punctual doctor` reports why.
pub(crate) fn process(whole: Option<Definition>, run: &Run) -> Arc<Definition> {
    let process = whole.and_then(|whole| match &run.handler {
        None => Some(Arc::new(whole)),
        Some(handler) => whole.handler(handler).cloned(),
    });
    process.unwrap_or_else(|| Arc::new(Definition::of_steps("", Vec::new())))
}

/// The earlier of the step's own and the run's deadline, and whether one of them has passed.
pub(crate) fn deadline(position: &RunState, step: u32) -> (Option<Timestamp>, bool) {
    let concerns = |watch: &&Watch| watch.step.is_none_or(|watched| watched == step);
    let watches = || position.watches.iter().filter(concerns);
    (watches().map(|watch| watch.due).min(), watches().any(|watch| watch.overdue))
}

impl From<IncidentKey> for Cursor {
    fn from(key: IncidentKey) -> Cursor {
        Cursor::Number(key.0)
    }
}

impl From<RunKey> for Cursor {
    fn from(key: RunKey) -> Cursor {
        Cursor::Number(key.0)
    }
}
