//! One turn: inputs in; everything that is written, done and told out. The store gives it a
//! [`Book`] to read in, writes [`Writes`] in the same transaction, and hands back the rest.

mod book;
mod children;
mod claims;
mod command;
mod events;
mod facts;
mod families;
mod follow_ups;
mod handler_starts;
mod handlers;
mod incidents;
mod mutations;
mod overrides;
mod payloads;
mod phase_result;
mod phases;
mod places;
mod publish;
mod runs;
mod schedule_commands;
mod schedules;
mod starting;
mod topics;
mod traces;
mod unfinished;
mod writes;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use jiff::Timestamp;

pub use crate::policy::overlap::IfBusy;
pub use book::{Book, Workflow, WorkflowStatus};
pub use command::{Answer, Command, NewRun, NewSchedule, Refused, Verb};
pub use places::Places;
pub use publish::{DeclaredSchedule, declared_schedules};
pub use writes::{
    AlertWrite, ApprovalWrite, Effect, EventWrite, HandlerWrite, IncidentWrite, Notice,
    OverrideWrite, Perform, Recovered, Revision, RunWrite, ScheduleWrite, TopicWrite, WaitWrite,
    Writes,
};

use crate::definition::Definition;
use crate::ids::{HandlerId, NodeId, RunKey, ScheduleId, WorkflowId};
use crate::incidents::{How, IncidentEnd, Setup};
use crate::ledger::Entry;
use crate::moment::Moment;
use crate::rules::Rules;
use crate::run::{AttemptRecord, Decision, Queueing, Run, RunStatus, StepRecord};
use crate::schedule::{Schedule, Status};
use crate::trace::Span;

/// Found by an id that was given here: nobody outside chooses them to collide.
pub type ById<K, V> = HashMap<K, V, foldhash::fast::FixedState>;

/// A turn in the making.
pub struct Turn<'a, B: Book> {
    book: &'a mut B,
    rules: &'a Rules,
    moment: Moment,
    node: NodeId,
    places: Places,
    schedules: ById<ScheduleId, ScheduleSlot>,
    runs: ById<RunKey, RunSlot>,
    workflows: ById<WorkflowId, WorkflowSlot>,
    definitions: ById<(WorkflowId, u32), Arc<Definition>>,
    /// In the order in which they were touched, so that the same inputs give the same writes.
    schedule_order: Vec<ScheduleId>,
    run_order: Vec<RunKey>,
    workflow_order: Vec<WorkflowId>,
    writes: Writes,
    effects: Vec<Effect>,
    notices: Vec<Notice>,
    /// Whether spans are wanted.
    is_traced: bool,
    spans: Vec<Span>,
    /// Attempts that a worker has just taken.
    claimed: Vec<(RunKey, u32)>,
    /// Whether a worker that was just heard of is to give up.
    is_told_to_end: bool,
    families: families::Families,
    /// What is being read or decided: whatever goes wrong is about it.
    deciding: Option<Wakeup>,
    /// What could not be read or decided before: it is passed over.
    set_aside: Option<&'a HashSet<Wakeup>>,
    /// Runs and parts of steps that may still begin in this turn.
    starts_left: usize,
    /// What decisions over runs have brought about, and what is not carried out yet.
    follow_ups: follow_ups::FollowUps,
    topics: topics::Topics,
    handlers: handlers::Handlers,
    /// What runs of handlers leave behind if they succeed.
    outcomes: ById<RunKey, phases::Outcome>,
    /// Whether the step that an event was just offered to has taken it.
    took: bool,
    /// Who says what became of something, if it is a person.
    said_by: Option<String>,
    /// What the items see of which one began last.
    item_scope: Option<crate::run::ItemScope>,
    /// Whom the node can tell, and whom it tells of failures if nobody says otherwise.
    setup: &'a Setup,
}

/// What a turn gives.
#[derive(Debug)]
pub struct Turned {
    /// To be written.
    pub writes: Writes,
    /// To be done after the commit.
    pub effects: Vec<Effect>,
    /// To be told after the commit.
    pub notices: Vec<Notice>,
    /// What has ended, if it is wanted as spans.
    pub spans: Vec<Span>,
    /// Where the next one goes on to look for pending runs, and how many places are left.
    pub places: Places,
}

struct ScheduleSlot {
    /// Boxed, as runs are: a turn hands them on from the book to what is written, and they are large.
    schedule: Box<Schedule>,
    old_wake: Option<Timestamp>,
    old_status: Status,
    is_new: bool,
    change: Change,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Change {
    None,
    Progress,
    Declaration,
    Deleted,
}

struct RunSlot {
    run: Box<Run>,
    /// What became of its steps in this turn.
    records: Vec<StepRecord>,
    /// Its attempts that ended in this turn and that others follow.
    earlier: Vec<AttemptRecord>,
    old_wake: Option<Timestamp>,
    old_status: RunStatus,
    is_new: bool,
    is_changed: bool,
    /// Whether something about its steps may have changed.
    has_moved: bool,
}

impl RunSlot {
    /// What a decision says of its steps is written with it.
    fn keep(&mut self, decision: &mut Decision, has_moved: bool) {
        self.is_changed = true;
        self.has_moved |= has_moved;
        self.records.append(&mut decision.records);
        self.earlier.append(&mut decision.earlier);
    }
}

struct WorkflowSlot {
    workflow: Workflow,
    is_changed: bool,
}

/// What is stored as waiting for a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Wakeup {
    /// A run: its timeout, its backoff, the end of its cancel grace. Before schedules, so that a run
    /// that ends at an instant is settled before an occurrence due at it.
    Run(RunKey),
    /// A schedule.
    Schedule(ScheduleId),
    /// A consumer's sleep is over, or the wait before it is tried again. After runs and schedules: what they bring
    /// about at the same instant is there when it looks.
    Handler(HandlerId),
    /// A node's lease has run out.
    Node(NodeId),
}

impl<'a, B: Book> Turn<'a, B> {
    /// Begins a turn on behalf of `node`.
    pub fn new(
        book: &'a mut B,
        rules: &'a Rules,
        moment: Moment,
        node: NodeId,
        places: Places,
    ) -> Turn<'a, B> {
        Turn {
            book,
            rules,
            moment,
            node,
            places,
            schedules: ById::default(),
            runs: ById::default(),
            workflows: ById::default(),
            definitions: ById::default(),
            schedule_order: Vec::new(),
            run_order: Vec::new(),
            workflow_order: Vec::new(),
            writes: Writes::default(),
            effects: Vec::new(),
            notices: Vec::new(),
            is_traced: false,
            spans: Vec::new(),
            claimed: Vec::new(),
            is_told_to_end: false,
            families: families::Families::default(),
            deciding: None,
            set_aside: None,
            starts_left: places::STARTED,
            follow_ups: follow_ups::FollowUps::default(),
            topics: topics::Topics::default(),
            handlers: handlers::Handlers::default(),
            outcomes: ById::default(),
            took: false,
            said_by: None,
            item_scope: None,
            setup: &incidents::NO_SETUP,
        }
    }

    /// Whether what ends is wanted as spans too.
    #[must_use]
    pub fn traced(self, is_traced: bool) -> Self {
        Turn { is_traced, ..self }
    }

    /// Whom the node can tell, and whom it tells of failures if nobody says otherwise.
    #[must_use]
    pub fn telling(self, setup: &'a Setup) -> Self {
        Turn { setup, ..self }
    }

    /// These are passed over, as if they were not there.
    #[must_use]
    pub fn without(self, set_aside: &'a HashSet<Wakeup>) -> Self {
        Turn { set_aside: Some(set_aside), ..self }
    }

    /// What the turn was reading or deciding last: after a failure, what it is about.
    pub fn deciding(&self) -> Option<Wakeup> {
        self.deciding
    }

    /// Begins to read or decide something; whether it is to be passed over.
    fn passes_over(&mut self, what: Wakeup) -> bool {
        self.deciding = Some(what);
        self.set_aside.is_some_and(|set_aside| set_aside.contains(&what))
    }

    /// So many inputs will come: room is made once.
    pub fn expect(&mut self, inputs: usize) {
        self.schedules.reserve(inputs);
        self.runs.reserve(inputs);
        self.schedule_order.reserve(inputs);
        self.run_order.reserve(inputs);
    }

    /// A wakeup has come.
    pub fn wake(&mut self, wakeup: Wakeup) -> Result<(), B::Error> {
        match wakeup {
            Wakeup::Schedule(id) => self.schedule_due(id)?,
            Wakeup::Run(key) => self.wake_run(key)?,
            Wakeup::Handler(id) => self.handler_due(id)?,
            Wakeup::Node(node) => self.node_gone(node)?,
        }
        self.settle_follow_ups()
    }

    /// Everything that follows.
    pub fn finish(mut self) -> Turned {
        for id in std::mem::take(&mut self.schedule_order) {
            let Some(slot) = self.schedules.remove(&id) else { continue };
            self.write_schedule(slot);
        }
        for key in std::mem::take(&mut self.run_order) {
            let Some(slot) = self.runs.remove(&key) else { continue };
            self.write_run(slot);
        }
        self.write_topics();
        self.write_handlers();
        for id in std::mem::take(&mut self.workflow_order) {
            let slot = self.workflows.remove(&id).filter(|slot| slot.is_changed);
            self.writes.workflows.extend(slot.map(|slot| slot.workflow));
        }
        self.tell_queues();
        Turned {
            writes: self.writes,
            effects: self.effects,
            notices: self.notices,
            spans: self.spans,
            places: self.places,
        }
    }

    /// Those who wait for work of a queue learn that there is some.
    fn tell_queues(&mut self) {
        let mut put: BTreeMap<&str, usize> = BTreeMap::new();
        for (_, queueing) in &self.writes.queueing {
            if let Queueing::Put(queue, _) = queueing {
                *put.entry(queue).or_default() += 1;
            }
        }
        let queued = |(queue, count): (&str, usize)| Notice::Queued { queue: queue.into(), count };
        self.notices.extend(put.into_iter().map(queued));
    }

    fn write_schedule(&mut self, slot: ScheduleSlot) {
        let ScheduleSlot { schedule, old_wake, old_status, is_new, change } = slot;
        let (id, status) = (schedule.id, schedule.status);
        if let Some(key) = schedule.progress.incident.filter(|_| change == Change::Deleted) {
            let end = IncidentEnd::of_itself(How::Removed, self.moment.now);
            self.writes.incidents.push(IncidentWrite::End(key, Box::new(end)));
        }
        match (change, is_new) {
            (Change::None, _) | (Change::Deleted, true) => return,
            (Change::Deleted, false) => {
                self.notices.push(Notice::Schedule { id, status: None });
                let mut before = schedule;
                before.status = old_status;
                return self.writes.schedules.push(ScheduleWrite::Delete { before });
            }
            (_, true) => self.writes.schedules.push(ScheduleWrite::Insert(schedule)),
            (_, false) => {
                let declared = change == Change::Declaration;
                let old_status = (declared || status != old_status).then_some(old_status);
                let write =
                    ScheduleWrite::Update { after: schedule, old_wake, old_status, declared };
                self.writes.schedules.push(write);
            }
        }
        if is_new || change == Change::Declaration || status != old_status {
            self.notices.push(Notice::Schedule { id, status: Some(status) });
        }
    }

    fn write_run(&mut self, slot: RunSlot) {
        if !slot.is_changed {
            return;
        }
        if self.is_traced {
            self.trace_run(&slot);
        }
        let key = slot.run.key;
        self.writes.steps.extend(slot.records.into_iter().map(|record| (key, record)));
        self.writes.attempts.extend(slot.earlier.into_iter().map(|attempt| (key, attempt)));
        let run = slot.run;
        if slot.is_new || run.status != slot.old_status {
            self.notices.push(Notice::Run {
                id: run.id.clone(),
                workflow: run.workflow,
                schedule: run.schedule,
                status: run.status,
            });
        } else if slot.has_moved {
            let (workflow, schedule) = (run.workflow, run.schedule);
            self.notices.push(Notice::Steps { run: run.id.clone(), workflow, schedule });
        }
        self.writes.runs.push(match slot.is_new {
            true => RunWrite::Insert(run),
            false => RunWrite::Update {
                after: run,
                old_wake: slot.old_wake,
                old_status: slot.old_status,
            },
        });
    }

    fn record(&mut self, entry: Entry) {
        self.notices.push(Notice::Occurrence {
            schedule: entry.schedule,
            n: entry.n,
            count: entry.count,
            outcome: entry.outcome,
        });
        self.writes.ledger.push(entry);
    }

    fn load_schedule(&mut self, id: ScheduleId) -> Result<bool, B::Error> {
        if let Some(slot) = self.schedules.get(&id) {
            return Ok(slot.change != Change::Deleted);
        }
        if self.passes_over(Wakeup::Schedule(id)) {
            return Ok(false);
        }
        let Some(schedule) = self.book.schedule(id)? else { return Ok(false) };
        self.keep_schedule(schedule, false);
        Ok(true)
    }

    fn keep_schedule(&mut self, schedule: Box<Schedule>, is_new: bool) {
        self.schedule_order.push(schedule.id);
        let slot = ScheduleSlot {
            old_wake: schedule.wake_at(),
            old_status: schedule.status,
            is_new,
            change: if is_new { Change::Declaration } else { Change::None },
            schedule,
        };
        self.schedules.insert(slot.schedule.id, slot);
    }

    fn load_run(&mut self, key: RunKey) -> Result<bool, B::Error> {
        if self.runs.contains_key(&key) {
            return Ok(true);
        }
        if self.passes_over(Wakeup::Run(key)) {
            return Ok(false);
        }
        let Some(run) = self.book.run(key)? else { return Ok(false) };
        self.keep_run(run, false);
        Ok(true)
    }

    fn keep_run(&mut self, run: Box<Run>, is_new: bool) {
        self.run_order.push(run.key);
        let slot = RunSlot {
            old_wake: run.wake_at(),
            old_status: run.status,
            is_new,
            is_changed: is_new,
            has_moved: false,
            records: Vec::new(),
            earlier: Vec::new(),
            run,
        };
        self.runs.insert(slot.run.key, slot);
    }

    fn load_workflow(&mut self, id: WorkflowId) -> Result<Option<&mut WorkflowSlot>, B::Error> {
        if !self.workflows.contains_key(&id) {
            let Some(workflow) = self.book.workflow(id)? else { return Ok(None) };
            self.keep_workflow(workflow, false);
        }
        Ok(self.workflows.get_mut(&id))
    }

    fn keep_workflow(&mut self, workflow: Workflow, is_changed: bool) {
        self.workflow_order.push(workflow.id);
        self.workflows.insert(workflow.id, WorkflowSlot { workflow, is_changed });
    }

    fn definition(
        &mut self,
        id: WorkflowId,
        revision: u32,
    ) -> Result<Option<Arc<Definition>>, B::Error> {
        if let Some(definition) = self.definitions.get(&(id, revision)) {
            return Ok(Some(definition.clone()));
        }
        let Some(definition) = self.book.definition(id, revision)? else { return Ok(None) };
        self.definitions.insert((id, revision), definition.clone());
        Ok(Some(definition))
    }

    /// The same, and nothing if it cannot be read: a workflow whose stored version is damaged can be published
    /// again, paused and archived.
    fn definition_if_readable(
        &mut self,
        id: WorkflowId,
        revision: u32,
    ) -> Result<Option<Arc<Definition>>, B::Error> {
        match self.definitions.get(&(id, revision)) {
            Some(definition) => Ok(Some(definition.clone())),
            None => self.book.definition_if_readable(id, revision),
        }
    }

    /// What a run goes through: the steps of its workflow, or the phases of one of its handlers.
    fn process(
        &mut self,
        id: WorkflowId,
        revision: u32,
        handler: Option<&str>,
    ) -> Result<Option<Arc<Definition>>, B::Error> {
        let definition = self.definition(id, revision)?;
        Ok(definition.and_then(|definition| definition.of_run(handler).cloned()))
    }

    /// The same; one without steps if it cannot be read. A person can always end a run: what it would undo is lost with
    /// its definition.
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

    /// What became of a step of a run, this turn included.
    fn step_record(&mut self, key: RunKey, step: u32) -> Result<Option<StepRecord>, B::Error> {
        let Some(slot) = self.runs.get(&key) else { return Ok(None) };
        let mut facts = facts::RunFacts { book: self.book, run: key, records: &slot.records };
        crate::run::Facts::record(&mut facts, step, crate::run::WHOLE)
    }

    /// What became of all steps of a run, this turn included.
    fn all_step_records(&mut self, key: RunKey) -> Result<Vec<StepRecord>, B::Error> {
        let mut records = self.book.step_records(key)?;
        let new = self.runs.get(&key).map(|slot| slot.records.clone()).unwrap_or_default();
        records.retain(|old| !new.iter().any(|n| (n.step, n.item) == (old.step, old.item)));
        records.extend(new);
        Ok(records)
    }
}
