//! What can be seen: read from what was committed, nothing else.

use std::sync::Arc;

use engine::incidents::Incident;
use engine::ledger::{Entry, Outcome};
use engine::run::{AttemptRecord, Position, Run, RunStatus, StepRecord, TriggeredBy, Watch};
use engine::schedule::{Due, Schedule, Status};
use engine::turn::{Recovered, Workflow};
use engine::{IncidentKey, NodeId, RunId, RunKey, ScheduleId, WorkflowId};
use jiff::Timestamp;
use language::definition::{DeadlineEnd, Definition};

use crate::failure::Failure;
use crate::set_aside::if_readable;
use crate::stored::ms;

/// A part of a list.
#[derive(Clone, Debug)]
pub struct Page<T> {
    /// The items.
    pub items: Vec<T>,
    /// How many there are in all.
    pub total: Total,
    /// Where the next page begins.
    pub next: Option<Cursor>,
}

/// Where a page begins: after the item with this key. Opaque to callers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cursor {
    /// After this number.
    Number(i64),
    /// After this name.
    Name(String),
    /// After this step of this run.
    Step(RunKey, u32),
    /// After this instant, in milliseconds, and this key.
    Instant(i64, i64),
    /// After what was decided then about this occurrence of this schedule.
    Decided(Timestamp, ScheduleId, u64),
}

/// How many there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Total {
    /// Exactly so many.
    Exact(u64),
    /// So many, and more: counting further would cost too much.
    AtLeast(u64),
}

/// Which schedules.
#[derive(Clone, Debug, Default)]
pub struct ScheduleQuery {
    /// With this status.
    pub status: Option<Status>,
    /// Of this workflow.
    pub workflow: Option<WorkflowId>,
    /// With words in the name that begin with these.
    pub search: Option<String>,
    /// At most so many.
    pub limit: usize,
    /// After this one.
    pub after: Option<Cursor>,
    /// After so many more.
    pub offset: u64,
}

/// A schedule as it is stored.
#[derive(Clone, Debug)]
pub struct ScheduleView {
    /// The schedule.
    pub schedule: Schedule,
    /// Its workflow's name.
    pub workflow_name: String,
    /// Whether someone has paused the workflow: nothing of the schedule starts but by hand.
    pub workflow_is_paused: bool,
}

impl ScheduleView {
    /// What comes next, as it is shown.
    pub fn coming(&self) -> Option<Due> {
        self.schedule.coming(self.workflow_is_paused)
    }
}

/// Which ledger rows.
#[derive(Clone, Debug)]
pub struct LedgerQuery {
    /// Of this schedule.
    pub schedule: ScheduleId,
    /// With this outcome.
    pub outcome: Option<Outcome>,
    /// With a nominal or effective time from here on.
    pub from: Option<Timestamp>,
    /// And up to here.
    pub to: Option<Timestamp>,
    /// At most so many.
    pub limit: usize,
    /// After this one.
    pub after: Option<Cursor>,
}

/// A ledger row.
#[derive(Clone, Debug)]
pub struct LedgerRow {
    /// As it was decided.
    pub entry: Entry,
    /// The run that was created for it, and where that stands; gone if it was removed.
    pub run: Option<(RunId, RunStatus)>,
}

/// Which of the occurrences that did not run.
#[derive(Clone, Debug, Default)]
pub struct UnusualQuery {
    /// Decided from here on.
    pub since: Option<Timestamp>,
    /// With this outcome: one of skipped, coalesced, missed, dropped and failed.
    pub outcome: Option<Outcome>,
    /// At most so many.
    pub limit: usize,
    /// After this one.
    pub after: Option<Cursor>,
}

/// An occurrence that did not run.
#[derive(Clone, Debug)]
pub struct UnusualRow {
    /// As it was decided.
    pub entry: Entry,
    /// The names of its schedule and of its workflow; nothing if the schedule was deleted.
    pub names: Option<(String, String)>,
}

/// Which runs.
#[derive(Clone, Debug, Default)]
pub struct RunQuery {
    /// Of this workflow.
    pub workflow: Option<WorkflowId>,
    /// Of this schedule.
    pub schedule: Option<ScheduleId>,
    /// With one of these statuses.
    pub status: Vec<RunStatus>,
    /// Born from this.
    pub triggered_by: Option<TriggeredBy>,
    /// Created from here on.
    pub since: Option<Timestamp>,
    /// Created before this.
    pub until: Option<Timestamp>,
    /// Started by this run.
    pub parent: Option<RunKey>,
    /// Only those that were not done in the time they were promised.
    pub overdue: bool,
    /// Without those that Punctual starts itself to tell people something.
    pub hides_system: bool,
    /// At most so many.
    pub limit: usize,
    /// After this one.
    pub after: Option<Cursor>,
}

/// A run as it is stored.
#[derive(Clone, Debug)]
pub struct RunView {
    /// The run.
    pub run: Run,
    /// Its workflow's name.
    pub workflow_name: String,
    /// What the run is called that has started this one, if it is still there.
    pub parent: Option<RunId>,
}

/// A run with its steps.
#[derive(Clone, Debug)]
pub struct RunDetail {
    /// The run.
    pub view: RunView,
    /// What it does.
    pub definition: Arc<Definition>,
    /// What became of its steps, in their order, of what undoes them and of their items; those not reached yet
    /// are left out.
    pub steps: Vec<StepView>,
    /// Attempts that others followed or are to follow, in the order of their steps and of time: of many, the first
    /// [`ATTEMPTS_SHOWN`].
    pub earlier: Vec<AttemptRecord>,
    /// While it waits because its workflow has as many active runs as it may: its place among those that wait for
    /// the same, beginning with 1.
    pub position: Option<u64>,
}

/// What a pending run may have to wait for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ahead {
    /// How many runs its workflow may have, if that is limited.
    pub(crate) concurrency: Option<u32>,
    /// How many it has, where that is limited.
    pub(crate) active: u32,
    /// The handler's run that has the turn.
    pub(crate) handling: Option<RunKey>,
    /// Pending runs that are older: of handlers for a handler's run, others for another, counted up to
    /// [`MOST_AHEAD`].
    pub(crate) older: u64,
}

/// Pending runs before one are counted so far.
pub(crate) const MOST_AHEAD: u32 = 100_000;

impl Ahead {
    /// The place of a pending run among those that wait for the same limit; nothing if it waits for none.
    pub(crate) fn position(&self, run: &Run) -> Option<u64> {
        if run.handler.is_some() {
            return self.handling.filter(|other| *other != run.key).map(|_| self.older + 1);
        }
        let room = u64::from(self.concurrency?.saturating_sub(self.active));
        (self.older >= room).then(|| self.older - room + 1)
    }
}

/// Of a run with more earlier attempts only so many are read.
pub const ATTEMPTS_SHOWN: usize = 2_000;

/// What became of a step.
pub type StepView = StepRecord;

/// Which of the things that people are asked.
#[derive(Clone, Debug, Default)]
pub struct ApprovalQuery {
    /// Only what one of these may decide; everything, if empty.
    pub assignees: Vec<String>,
    /// At most so many.
    pub limit: usize,
    /// After this one.
    pub after: Option<Cursor>,
}

/// What people are asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApprovalView {
    /// By this run.
    pub run: RunId,
    /// Of the workflow with this name.
    pub workflow_name: String,
    /// The step's id.
    pub step: String,
    /// In a line.
    pub title: String,
    /// In full.
    pub description: Option<String>,
    /// Who may decide; anyone, if empty.
    pub assignees: Vec<String>,
    /// Since when.
    pub asked_at: Timestamp,
    /// When it is to be decided, if the step or its run has a deadline: the earlier one.
    pub deadline: Option<Timestamp>,
    /// Whether that is over.
    pub overdue: bool,
}

/// What a deadline has brought about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlertView {
    /// The id of the step whose deadline it is; the run's own, if nothing.
    pub step: Option<String>,
    /// Which of the deadline's actions, by its place in the definition.
    pub action: u32,
    /// When the deadline is.
    pub due: Timestamp,
    /// When it was to happen.
    pub at: Timestamp,
    /// When it happened.
    pub happened_at: Timestamp,
    /// What became of the run or step.
    pub ended: Option<DeadlineEnd>,
    /// The runs that were started; those that were removed since are left out.
    pub started: Vec<RunId>,
    /// Why nothing could be started.
    pub refused: Option<String>,
}

/// Which incidents.
#[derive(Clone, Debug, Default)]
pub struct IncidentQuery {
    /// Only those that are not over.
    pub open: bool,
    /// Of this workflow.
    pub workflow: Option<WorkflowId>,
    /// Of this schedule.
    pub schedule: Option<ScheduleId>,
    /// That this run has begun.
    pub run: Option<RunId>,
    /// At most so many.
    pub limit: usize,
    /// After this one.
    pub after: Option<Cursor>,
}

/// An incident, with the names of what it is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IncidentView {
    /// The incident.
    pub incident: Incident,
    /// The workflow's name.
    pub workflow_name: Option<String>,
    /// The schedule's name, if it is there.
    pub schedule_name: Option<String>,
}

/// What waits for workers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueView {
    /// The queue's name.
    pub name: String,
    /// How much waits in it.
    pub waiting: u64,
}

/// Which workflows.
#[derive(Clone, Debug, Default)]
pub struct WorkflowQuery {
    /// With this in the name, in capitals or not.
    pub search: Option<String>,
    /// Without Punctual's own.
    pub hides_system: bool,
    /// At most so many.
    pub limit: usize,
    /// After this one.
    pub after: Option<Cursor>,
}

/// A workflow with one of its revisions.
#[derive(Clone, Debug)]
pub struct WorkflowView {
    /// The workflow.
    pub workflow: Workflow,
    /// Which revision.
    pub revision: u32,
    /// Its text.
    pub source: String,
    /// What it means.
    pub definition: Arc<Definition>,
    /// The folder of a node that it was published from, if it was.
    pub folder: Option<String>,
    /// When it was saved.
    pub saved_at: Timestamp,
    /// How many schedules start it.
    pub schedules: u64,
}

/// A calendar that was declared.
#[derive(Clone, Debug)]
pub struct CalendarView {
    /// Its id.
    pub id: String,
    /// As it was written, JSON.
    pub spec: String,
}

/// A life of a node.
#[derive(Clone, Debug)]
pub struct NodeView {
    /// Its id, another one for each life.
    pub id: NodeId,
    /// What the node is called.
    pub name: String,
    /// When this life began.
    pub started_at: Timestamp,
    /// When it was last heard of; nothing where there is no lease.
    pub seen_at: Option<Timestamp>,
    /// Until when others leave its attempts alone; nothing where there is no lease.
    pub lease_until: Option<Timestamp>,
    /// Attempts at a time, as it last said.
    pub capacity: Option<u64>,
    /// Attempts that are its own.
    pub attempts: u64,
    /// What it has found after downtime.
    pub recovered: Recovered,
}

/// Figures.
#[derive(Clone, Debug, Default)]
pub struct Stats {
    /// Schedules by status.
    pub schedules: Vec<(Status, u64)>,
    /// Runs that have not ended, by status.
    pub runs: Vec<(RunStatus, u64)>,
    /// Questions to people that nobody has answered.
    pub approvals: u64,
    /// Incidents that have not ended.
    pub incidents: u64,
    /// Workflows.
    pub workflows: u64,
    /// How many of them are paused with a reason: a handler failed, or a person said why.
    pub paused_workflows: u64,
    /// The latest of these: name, reason, since when.
    pub latest_paused: Vec<(String, String, Timestamp)>,
    /// Wakeups that are due and not claimed, counted up to a limit.
    pub due: u64,
    /// The earliest wakeup.
    pub next_wakeup: Option<Timestamp>,
    /// Bytes in the store.
    pub bytes: u64,
}

/// Paused workflows that figures name.
pub(crate) const PAUSED_SHOWN: usize = 20;

/// How connections are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connections {
    /// A question is asked through them.
    pub used: u64,
    /// None is.
    pub idle: u64,
    /// Questions that wait for one.
    pub waiting: u64,
}

/// Something that is wrong with what is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What kind, for programs.
    pub code: &'static str,
    /// In words.
    pub message: String,
    /// Whether it was repaired.
    pub repaired: bool,
}

/// A run's key, for lists.
pub(crate) fn number(cursor: Option<&Cursor>) -> Option<i64> {
    match cursor {
        Some(Cursor::Number(number)) => Some(*number),
        _ => None,
    }
}

/// A name, for lists.
pub(crate) fn name(cursor: Option<&Cursor>) -> Option<&str> {
    match cursor {
        Some(Cursor::Name(name)) => Some(name),
        _ => None,
    }
}

/// What is looked for in names; everything, if it is empty.
pub(crate) fn searched(query: &WorkflowQuery) -> String {
    query.search.as_deref().unwrap_or("").trim().to_ascii_lowercase()
}

/// A step of a run, for lists. Before the first one, if there is none.
pub(crate) fn part(cursor: Option<&Cursor>) -> (i64, i64) {
    match cursor {
        Some(Cursor::Step(run, step)) => (run.0, i64::from(*step)),
        _ => (i64::MIN, -1),
    }
}

/// What was decided when about which occurrence, for lists of it: milliseconds, schedule, number. After all of them,
/// if there is none.
pub(crate) fn decided(cursor: Option<&Cursor>) -> (i64, i64, i64) {
    match cursor {
        Some(Cursor::Decided(at, schedule, n)) => {
            (ms(*at), schedule.0, i64::try_from(*n).unwrap_or(i64::MAX))
        }
        _ => (i64::MAX, i64::MAX, i64::MAX),
    }
}

/// The outcomes of occurrences that did not run and will not, as far as they are asked for.
pub(crate) fn unusual(query: &UnusualQuery) -> Vec<Outcome> {
    let runs = [Outcome::Started, Outcome::Moved, Outcome::Queued];
    let is_wanted = |outcome: &Outcome| query.outcome.is_none_or(|wanted| wanted == *outcome);
    Outcome::ALL
        .into_iter()
        .filter(|outcome| !runs.contains(outcome) && is_wanted(outcome))
        .collect()
}

/// A page of occurrences that did not run: of what was read of each outcome, with one more than the limit.
pub(crate) fn unusual_page(mut rows: Vec<UnusualRow>, query: &UnusualQuery) -> Page<UnusualRow> {
    let place = |row: &UnusualRow| (row.entry.decided_at, row.entry.schedule, row.entry.n);
    rows.sort_by_key(|row| std::cmp::Reverse(place(row)));
    let cursor = |row: &UnusualRow| {
        let (at, schedule, n) = place(row);
        Cursor::Decided(at, schedule, n)
    };
    page(rows, query.limit, query.after.is_none(), cursor)
}

/// How many were found by a search of which the whole is not counted: never less than what is shown, and exactly
/// that if nothing was left out. `passed` came before the page.
pub(crate) fn found_in_all(counted: Total, passed: u64, shown: usize, is_whole: bool) -> Total {
    let seen = passed + shown as u64;
    match counted {
        Total::AtLeast(_) if is_whole => Total::Exact(seen),
        Total::AtLeast(least) => Total::AtLeast(least.max(seen)),
        exact => exact,
    }
}

/// A page of what was read with one more than its limit.
pub(crate) fn page<T>(
    mut items: Vec<T>,
    limit: usize,
    is_first: bool,
    cursor: impl Fn(&T) -> Cursor,
) -> Page<T> {
    let has_more = items.len() > limit;
    items.truncate(limit);
    cut(items, has_more, is_first, cursor)
}

fn cut<T>(items: Vec<T>, has_more: bool, is_first: bool, cursor: impl Fn(&T) -> Cursor) -> Page<T> {
    let next = items.last().filter(|_| has_more).map(cursor);
    let count = items.len() as u64;
    let is_whole = is_first && !has_more;
    let total = if is_whole { Total::Exact(count) } else { Total::AtLeast(count) };
    Page { items, total, next }
}

/// The same of rows of which some cannot be read: those are left out.
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

/// The id of a step, by its place.
pub(crate) fn step_id(definition: &Definition, step: u32) -> Result<String, Failure> {
    let known = definition.steps.get(step as usize).map(|step| step.id.clone());
    known.ok_or_else(|| Failure::Damaged(format!("{} has no step {step}", definition.name)))
}

/// What a run goes through: the steps of its workflow, or the phases of one of its handlers. Nothing, if its definition
/// is gone or cannot be read: the run is shown without its steps, and `punctual doctor` says why.
pub(crate) fn process(whole: Option<Definition>, run: &Run) -> Arc<Definition> {
    let process = whole.and_then(|whole| match &run.handler {
        None => Some(Arc::new(whole)),
        Some(handler) => whole.handler(handler).cloned(),
    });
    process.unwrap_or_else(|| Arc::new(Definition::of_steps("", Vec::new())))
}

/// When a step is to be done, by its own deadline or that of its run, whichever is first; and whether one of them is
/// over.
pub(crate) fn deadline(position: &Position, step: u32) -> (Option<Timestamp>, bool) {
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
