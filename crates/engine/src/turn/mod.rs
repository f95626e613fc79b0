//! One turn: the engine takes inputs and returns the writes, effects and notices that follow from
//! them. The store gives the turn a [`TransactionReader`] to read from, applies its [`Writes`] in
//! the same transaction, and returns effects and notices to its caller.

mod capacity;
mod children;
mod claims;
mod command;
mod creation;
mod entities;
mod events;
mod families;
mod handler_starts;
mod handlers;
mod history;
mod incidents;
mod mutations;
mod overrides;
mod payloads;
mod phase_result;
mod phases;
mod publish;
mod runs;
mod schedule_commands;
mod schedules;
mod starting;
mod topics;
mod traces;
mod transaction_reader;
mod unfinished;
mod waiting_steps;
mod worklist;
mod writes;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use jiff::Timestamp;

pub use capacity::{Capacity, STARTED};
pub use command::{Answer, Command, NewRun, NewSchedule, Refused, Starter, Verb};
pub use creation::CreatedRun;
pub use language::policy::overlap::IfBusy;
pub use publish::{DeclaredSchedule, declared_schedules};
pub use transaction_reader::{Damaged, TransactionReader, Workflow, WorkflowStatus};
pub use writes::{
    AlertWrite, ApprovalWrite, Effect, EventWrite, HandlerWrite, IncidentWrite, Notice,
    OverrideWrite, Perform, Recovered, Revision, RunWrite, ScheduleWrite, TopicWrite, WaitWrite,
    Writes,
};

use self::entities::{Loaded, Table};
use self::worklist::Worklist;
use crate::handlers::Handler;
use crate::ids::{HandlerId, NodeId, RunKey, ScheduleId, WorkflowId};
use crate::incidents::{How, IncidentEnd};
use crate::ledger::Entry;
use crate::moment::Moment;
use crate::notices;
use crate::run::{Item, Queueing, Run, StepRecord};
use crate::schedule::Schedule;
use crate::topics::Topic;
use crate::trace::Span;
use language::Rules;
use language::definition::Definition;
use language::notification_setup::Setup;

/// A map keyed by ids that this program assigned. A fast hash without a random seed is safe because
/// no outsider can choose ids that collide.
pub type ById<K, V> = HashMap<K, V, foldhash::fast::FixedState>;

/// A set of such ids.
pub type SetOfIds<K> = HashSet<K, foldhash::fast::FixedState>;

/// A turn that is being decided. [`Turn::finish`] returns its results.
pub struct Turn<'a, B: TransactionReader> {
    reader: &'a mut B,
    context: Context<'a>,
    loaded: Entities,
    capacity: Capacity,
    /// How many slots of the node each workflow holds.
    held: ById<WorkflowId, usize>,
    worklist: Worklist,
    output: Output,
    /// The entity that is being read or decided. If an error follows, it is about this entity.
    deciding: Option<Wakeup>,
}

/// Values that do not change during a turn.
struct Context<'a> {
    rules: &'a Rules,
    moment: Moment,
    /// The node that takes the turn.
    node: NodeId,
    /// The notification channels of the node, and the recipients of failure notices that no
    /// definition overrides.
    setup: &'a Setup,
    /// Whether the caller wants spans.
    is_traced: bool,
    /// Entities that an earlier turn could not read or decide. This turn skips them.
    set_aside: Option<&'a HashSet<Wakeup>>,
}

/// Entities that the turn has loaded or created.
#[derive(Default)]
struct Entities {
    schedules: Table<Box<Schedule>>,
    runs: Table<Box<Run>>,
    workflows: Table<Workflow>,
    topics: Table<Topic>,
    handlers: Table<Handler>,
    handlers_of: ById<WorkflowId, Vec<HandlerId>>,
    events: topics::Events,
    definitions: ById<(WorkflowId, u32), Arc<Definition>>,
    families: families::Families,
    /// The state and events that each handler run leaves behind if it succeeds.
    outcomes: ById<RunKey, phases::Outcome>,
    /// The expression scope of the items of the step whose item began last.
    item_scope: Option<crate::run::ItemScope>,
}

/// Results of the decisions so far.
#[derive(Default)]
struct Output {
    writes: Writes,
    effects: Vec<Effect>,
    noops: Vec<Option<Timestamp>>,
    notices: Vec<Notice>,
    spans: Vec<Span>,
}

/// The result of a turn.
#[derive(Debug)]
pub struct Turned {
    /// The store writes these in the turn's transaction.
    pub writes: Writes,
    /// The node performs these after the commit.
    pub effects: Vec<Effect>,
    /// Attempts that did nothing, and began and ended in this turn. The first attempt of an
    /// occurrence with when it was due.
    pub noops: Vec<Option<Timestamp>>,
    /// The node publishes these after the commit.
    pub notices: Vec<Notice>,
    /// Runs and attempts that ended in this turn, if the caller asked for spans.
    pub spans: Vec<Span>,
    /// Free capacity, and the workflow after which the next turn continues its search for pending
    /// runs.
    pub capacity: Capacity,
}

/// How an entity was changed in this turn. The greatest change decides what is written.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Change {
    None,
    Progress,
    Declaration,
    Deleted,
}

/// An entity that the store wakes at a given time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Wakeup {
    /// A run: its timeout, its backoff or the end of its cancel grace period. Runs sort before
    /// schedules, so that a run that ends at an instant is settled before an occurrence due at that
    /// instant is decided.
    Run(RunKey),
    Schedule(ScheduleId),
    /// A consumer whose sleep or backoff is over. Handlers sort after runs and schedules, so that a
    /// consumer sees what those publish at the same instant.
    Handler(HandlerId),
    /// A node whose lease has expired.
    Node(NodeId),
}

impl<'a, B: TransactionReader> Turn<'a, B> {
    /// Begins a turn on behalf of `node`.
    pub fn new(
        reader: &'a mut B,
        rules: &'a Rules,
        moment: Moment,
        node: NodeId,
        capacity: Capacity,
    ) -> Turn<'a, B> {
        let context = Context {
            rules,
            moment,
            node,
            setup: &incidents::NO_SETUP,
            is_traced: false,
            set_aside: None,
        };
        Turn {
            reader,
            context,
            loaded: Entities::default(),
            capacity,
            held: ById::default(),
            worklist: Worklist::new(capacity.starts),
            output: Output::default(),
            deciding: None,
        }
    }

    /// Sets whether the turn also returns spans for runs and attempts that end.
    #[must_use]
    pub fn traced(self, is_traced: bool) -> Self {
        Turn { context: Context { is_traced, ..self.context }, ..self }
    }

    /// Sets how many slots of the node each workflow holds, so that none takes them all.
    #[must_use]
    pub fn holding(self, held: ById<WorkflowId, usize>) -> Self {
        Turn { held, ..self }
    }

    /// Sets the notification channels of the node, and the recipients of failure notices that no
    /// definition overrides.
    #[must_use]
    pub fn telling(self, setup: &'a Setup) -> Self {
        Turn { context: Context { setup, ..self.context }, ..self }
    }

    /// Sets entities that the turn skips as if they did not exist.
    #[must_use]
    pub fn without(self, set_aside: &'a HashSet<Wakeup>) -> Self {
        Turn { context: Context { set_aside: Some(set_aside), ..self.context }, ..self }
    }

    /// The stored entity that the turn read or decided last. After an error, it is the entity that
    /// caused it. A run that the turn has created is not stored: the schedule, handler or parent
    /// that led to it stands for it.
    pub fn deciding(&self) -> Option<Wakeup> {
        let mut last = self.deciding;
        while let Some(Wakeup::Run(key)) = last
            && let Some(created) = self.loaded.runs.loaded(key).filter(|loaded| loaded.is_new)
        {
            let run = &created.now;
            let handler = self.loaded.handlers.values().find(|known| known.run == Some(key));
            let schedule = run.schedule.map(Wakeup::Schedule);
            let handler = handler.map(|handler| Wakeup::Handler(handler.id));
            last = schedule.or(handler).or(run.parent.map(|parent| Wakeup::Run(parent.run)));
        }
        last
    }

    /// Returns whether this turn must skip `what`. Otherwise marks it as the entity being decided:
    /// a failure is never about one that is set aside already.
    fn passes_over(&mut self, what: Wakeup) -> bool {
        let is_set_aside = self.context.set_aside.is_some_and(|aside| aside.contains(&what));
        if !is_set_aside {
            self.deciding = Some(what);
        }
        is_set_aside
    }

    /// Reserves space for this many inputs.
    pub fn expect(&mut self, inputs: usize) {
        self.loaded.schedules.reserve(inputs);
        self.loaded.runs.reserve(inputs);
        // An occurrence has a row, and its run another; each of both is told about.
        self.output.notices.reserve(2 * inputs);
        let writes = &mut self.output.writes;
        writes.schedules.reserve(inputs);
        writes.runs.reserve(inputs);
        writes.ledger.reserve(inputs);
    }

    /// Handles one due wakeup and everything that follows from it.
    pub fn wake(&mut self, wakeup: Wakeup) -> Result<(), B::Error> {
        match wakeup {
            Wakeup::Schedule(id) => self.schedule_due(id)?,
            Wakeup::Run(key) => self.wake_run(key)?,
            Wakeup::Handler(id) => self.handler_due(id)?,
            Wakeup::Node(node) => self.node_gone(node)?,
        }
        self.work_through()
    }

    /// Ends the turn and returns its results.
    pub fn finish(mut self) -> Turned {
        for loaded in self.loaded.schedules.take_changed() {
            self.write_schedule(loaded);
        }
        for loaded in self.loaded.runs.take_changed() {
            self.write_run(loaded);
        }
        let notices = self.loaded.workflows.values().find(|known| known.name == notices::NAME);
        self.output.writes.notice_workflow = notices.map(|workflow| workflow.id);
        self.write_topics();
        self.write_handlers();
        let workflows = self.loaded.workflows.take_changed();
        self.output.writes.workflows.extend(workflows.into_iter().map(|loaded| loaded.now));
        self.tell_queues();
        let Output { writes, effects, noops, notices, spans } = self.output;
        Turned { writes, effects, noops, notices, spans, capacity: self.capacity }
    }

    /// Adds a notice for each queue that received work, so that waiting workers ask again.
    fn tell_queues(&mut self) {
        let mut put: BTreeMap<&str, usize> = BTreeMap::new();
        for (_, queueing) in &self.output.writes.queueing {
            if let Queueing::Put(queue, _) = queueing {
                *put.entry(queue).or_default() += 1;
            }
        }
        let queued = |(queue, count): (&str, usize)| Notice::Queued { queue: queue.into(), count };
        self.output.notices.extend(put.into_iter().map(queued));
    }

    fn write_schedule(&mut self, loaded: Loaded<Box<Schedule>>) {
        let Loaded { now: mut schedule, before, is_new, change, .. } = loaded;
        if schedule.declared.timing.calendar.is_some() {
            // Another turn may follow another version of the calendar.
            schedule.last_plan.forget();
        }
        let (old_wake, old_status) = (before.wake, before.status);
        let (id, status) = (schedule.id, schedule.status);
        if let Some(key) = schedule.progress.incident.filter(|_| change == Change::Deleted) {
            let end = IncidentEnd::of_itself(How::Removed, self.context.moment.now);
            self.output.writes.incidents.push(IncidentWrite::End(key, Box::new(end)));
        }
        match (change, is_new) {
            (Change::None, _) | (Change::Deleted, true) => return,
            (Change::Deleted, false) => {
                self.output.notices.push(Notice::Schedule { id, status: None });
                let mut before = schedule;
                before.status = old_status;
                return self.output.writes.schedules.push(ScheduleWrite::Delete { before });
            }
            (_, true) => self.output.writes.schedules.push(ScheduleWrite::Insert(schedule)),
            (_, false) => {
                let declared = change == Change::Declaration;
                let old_status = (declared || status != old_status).then_some(old_status);
                let write =
                    ScheduleWrite::Update { after: schedule, old_wake, old_status, declared };
                self.output.writes.schedules.push(write);
            }
        }
        if is_new || change == Change::Declaration || status != old_status {
            self.output.notices.push(Notice::Schedule { id, status: Some(status) });
        }
    }

    fn write_run(&mut self, loaded: Loaded<Box<Run>>) {
        if self.context.is_traced {
            self.trace_run(&loaded);
        }
        let Loaded { now: run, before, notes, is_new, .. } = loaded;
        let (key, writes) = (run.key, &mut self.output.writes);
        writes.steps.extend(notes.records.into_iter().map(|record| (key, record)));
        writes.attempts.extend(notes.earlier.into_iter().map(|attempt| (key, attempt)));
        let (id, workflow, schedule) = (&run.id, run.workflow, run.schedule);
        if is_new || run.status != before.status {
            let (id, status) = (id.clone(), run.status);
            self.output.notices.push(Notice::Run { id, workflow, schedule, status });
        } else if notes.steps_changed {
            self.output.notices.push(Notice::Steps { run: id.clone(), workflow, schedule });
        }
        let (old_wake, old_status) = (before.wake, before.status);
        writes.runs.push(if is_new {
            RunWrite::Insert(run)
        } else {
            RunWrite::Update { after: run, old_wake, old_status }
        });
    }

    fn record(&mut self, entry: Entry) {
        self.output.notices.push(Notice::Occurrence {
            schedule: entry.schedule,
            n: entry.n,
            count: entry.count,
            outcome: entry.outcome,
        });
        self.output.writes.ledger.push(entry);
    }

    /// Loads a schedule, and returns whether it exists and is not set aside.
    fn load_schedule(&mut self, id: ScheduleId) -> Result<bool, B::Error> {
        if let Some(loaded) = self.loaded.schedules.loaded(id) {
            return Ok(!loaded.is_deleted());
        }
        if self.passes_over(Wakeup::Schedule(id)) {
            return Ok(false);
        }
        let Some(schedule) = self.reader.schedule(id)? else { return Ok(false) };
        self.loaded.schedules.insert_stored(schedule);
        Ok(true)
    }

    /// Loads a run, and returns whether it exists and is not set aside.
    fn load_run(&mut self, key: RunKey) -> Result<bool, B::Error> {
        if self.loaded.runs.contains(key) {
            return Ok(true);
        }
        if self.passes_over(Wakeup::Run(key)) {
            return Ok(false);
        }
        let Some(run) = self.reader.run(key)? else { return Ok(false) };
        self.loaded.runs.insert_stored(run);
        Ok(true)
    }

    /// Loads a workflow, for a caller that can do without it.
    fn load_workflow(&mut self, id: WorkflowId) -> Result<Option<&Workflow>, B::Error> {
        if !self.loaded.workflows.contains(id) {
            let Some(workflow) = self.reader.workflow(id)? else { return Ok(None) };
            self.loaded.workflows.insert_stored(workflow);
        }
        Ok(self.loaded.workflows.get(id))
    }

    /// A schedule that the turn has loaded. Fails if the turn has not loaded it.
    fn schedule(&self, id: ScheduleId) -> Result<&Schedule, B::Error> {
        let found = self.loaded.schedules.get(id);
        Ok(found.ok_or_else(|| Damaged(format!("schedule {id} is not there any more")))?)
    }

    /// A loaded schedule, to be changed.
    fn schedule_mut(&mut self, id: ScheduleId, change: Change) -> Result<&mut Schedule, B::Error> {
        let found = self.loaded.schedules.change(id, change);
        Ok(found.ok_or_else(|| Damaged(format!("schedule {id} is not there any more")))?)
    }

    /// A run that the turn has loaded.
    fn run(&self, key: RunKey) -> Result<&Run, B::Error> {
        Ok(&self.run_entity(key)?.now)
    }

    /// A loaded run, to be changed.
    fn run_mut(&mut self, key: RunKey) -> Result<&mut Run, B::Error> {
        let found = self.loaded.runs.change(key, Change::Progress);
        found.map(|run| &mut **run).ok_or_else(|| not_there(key))
    }

    /// A run that the turn has loaded, with what the turn knows of it.
    fn run_entity(&self, key: RunKey) -> Result<&Loaded<Box<Run>>, B::Error> {
        self.loaded.runs.loaded(key).ok_or_else(|| not_there(key))
    }

    /// How a run has ended, for a caller that works on ended runs only.
    fn ending_of(&self, run: &Run) -> Result<crate::run::Ending, B::Error> {
        let ending = run.ending();
        Ok(ending.ok_or_else(|| Damaged(format!("run {} has ended without an ending", run.id)))?)
    }

    /// A loaded workflow, to be changed.
    fn workflow_mut(&mut self, id: WorkflowId) -> Result<&mut Workflow, B::Error> {
        let found = self.loaded.workflows.change(id, Change::Progress);
        Ok(found.ok_or_else(|| Damaged(format!("workflow {id} is not there any more")))?)
    }

    /// Loads a workflow that must exist.
    fn workflow(&mut self, id: WorkflowId) -> Result<&Workflow, B::Error> {
        let found = self.load_workflow(id)?;
        Ok(found.ok_or_else(|| Damaged(format!("workflow {id} is not there any more")))?)
    }

    /// One revision of a workflow.
    fn definition(&mut self, id: WorkflowId, revision: u32) -> Result<Arc<Definition>, B::Error> {
        if let Some(definition) = self.loaded.definitions.get(&(id, revision)) {
            return Ok(definition.clone());
        }
        let Some(definition) = self.reader.definition(id, revision)? else {
            let why = format!("revision {revision} of workflow {id} is not there any more");
            return Err(Damaged(why).into());
        };
        self.loaded.definitions.insert((id, revision), definition.clone());
        Ok(definition)
    }

    /// One revision of a workflow, or `None` if the store cannot read it: a workflow whose stored
    /// revision is damaged can still be published again, paused and archived.
    fn definition_if_readable(
        &mut self,
        id: WorkflowId,
        revision: u32,
    ) -> Result<Option<Arc<Definition>>, B::Error> {
        match self.loaded.definitions.get(&(id, revision)) {
            Some(definition) => Ok(Some(definition.clone())),
            None => self.reader.definition_if_readable(id, revision),
        }
    }

    /// The definition that a run executes: its workflow's steps, or the phases of one of its
    /// handlers.
    fn process(
        &mut self,
        id: WorkflowId,
        revision: u32,
        handler: Option<&str>,
    ) -> Result<Arc<Definition>, B::Error> {
        let definition = self.definition(id, revision)?;
        Ok(definition.of_run(handler).cloned().ok_or_else(|| {
            let handler = handler.unwrap_or_default();
            Damaged(format!("revision {revision} of workflow {id} has no handler {handler}"))
        })?)
    }

    /// The definition for cancelling a run: one without steps if the stored one cannot be read. A
    /// person can always cancel a run; compensations of an unreadable definition are lost.
    fn process_to_cancel(
        &mut self,
        id: WorkflowId,
        revision: u32,
        handler: Option<&str>,
    ) -> Result<Arc<Definition>, B::Error> {
        let definition = self.definition_if_readable(id, revision)?;
        let process = definition.and_then(|definition| definition.of_run(handler).cloned());
        Ok(process.unwrap_or_else(|| Arc::new(Definition::of_steps("", Vec::new()))))
    }

    /// The record of a step of a run, including records that this turn has added.
    fn step_record(&mut self, key: RunKey, step: u32) -> Result<Option<StepRecord>, B::Error> {
        let loaded = self.loaded.runs.loaded(key).ok_or_else(|| not_there(key))?;
        let records = &loaded.notes.records;
        let mut history = history::LoadedHistory::new(self.reader, key, records);
        crate::run::RunHistory::record(&mut history, step, Item::Whole)
    }

    /// The records of all steps of a run, including records that this turn has added.
    fn all_step_records(&mut self, key: RunKey) -> Result<Vec<StepRecord>, B::Error> {
        let mut records = self.reader.step_records(key)?;
        let new = self.run_entity(key)?.notes.records.clone();
        records.retain(|old| !new.iter().any(|n| (n.step, n.item) == (old.step, old.item)));
        records.extend(new);
        Ok(records)
    }
}

fn not_there<E: From<Damaged>>(run: RunKey) -> E {
    Damaged(format!("run {} is not there any more", run.0)).into()
}
