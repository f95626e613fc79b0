//! One turn: inputs in; everything that is written, done and told out. The store gives it a
//! [`Book`] to read in, writes [`Writes`] in the same transaction, and hands back the rest.

mod book;
mod children;
mod claims;
mod command;
mod entities;
mod events;
mod facts;
mod families;
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
mod worklist;
mod writes;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

pub use book::{Book, Damaged, Workflow, WorkflowStatus};
pub use command::{Answer, Command, NewRun, NewSchedule, Refused, Verb};
pub use language::policy::overlap::IfBusy;
pub use places::Places;
pub use publish::{DeclaredSchedule, declared_schedules};
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
use crate::run::{Item, Queueing, Run, StepRecord};
use crate::schedule::Schedule;
use crate::topics::Topic;
use crate::trace::Span;
use language::Rules;
use language::definition::Definition;
use language::notification_setup::Setup;

/// Found by an id that was given here: nobody outside chooses them to collide.
pub type ById<K, V> = HashMap<K, V, foldhash::fast::FixedState>;

/// A turn in the making.
pub struct Turn<'a, B: Book> {
    book: &'a mut B,
    context: Context<'a>,
    loaded: Entities,
    capacity: Places,
    worklist: Worklist,
    output: Output,
    /// What is being read or decided: whatever goes wrong is about it.
    deciding: Option<Wakeup>,
}

/// What does not change during a turn.
struct Context<'a> {
    rules: &'a Rules,
    moment: Moment,
    /// On whose behalf the turn is taken.
    node: NodeId,
    /// Whom the node can tell, and whom it tells of failures if nobody says otherwise.
    setup: &'a Setup,
    /// Whether spans are wanted.
    is_traced: bool,
    /// What could not be read or decided before: it is passed over.
    set_aside: Option<&'a HashSet<Wakeup>>,
}

/// What the turn has loaded or created.
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
    /// What runs of handlers leave behind if they succeed.
    outcomes: ById<RunKey, phases::Outcome>,
    /// What the items see of which one began last.
    item_scope: Option<crate::run::ItemScope>,
}

/// What follows from the decisions so far.
#[derive(Default)]
struct Output {
    writes: Writes,
    effects: Vec<Effect>,
    notices: Vec<Notice>,
    spans: Vec<Span>,
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

/// What has happened to an entity: the greatest change counts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Change {
    None,
    Progress,
    Declaration,
    Deleted,
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
        let context = Context {
            rules,
            moment,
            node,
            setup: &incidents::NO_SETUP,
            is_traced: false,
            set_aside: None,
        };
        Turn {
            book,
            context,
            loaded: Entities::default(),
            capacity: places,
            worklist: Worklist::new(),
            output: Output::default(),
            deciding: None,
        }
    }

    /// Whether what ends is wanted as spans too.
    #[must_use]
    pub fn traced(self, is_traced: bool) -> Self {
        Turn { context: Context { is_traced, ..self.context }, ..self }
    }

    /// Whom the node can tell, and whom it tells of failures if nobody says otherwise.
    #[must_use]
    pub fn telling(self, setup: &'a Setup) -> Self {
        Turn { context: Context { setup, ..self.context }, ..self }
    }

    /// These are passed over, as if they were not there.
    #[must_use]
    pub fn without(self, set_aside: &'a HashSet<Wakeup>) -> Self {
        Turn { context: Context { set_aside: Some(set_aside), ..self.context }, ..self }
    }

    /// What the turn was reading or deciding last: after a failure, what it is about.
    pub fn deciding(&self) -> Option<Wakeup> {
        self.deciding
    }

    /// Begins to read or decide something; whether it is to be passed over.
    fn passes_over(&mut self, what: Wakeup) -> bool {
        self.deciding = Some(what);
        self.context.set_aside.is_some_and(|set_aside| set_aside.contains(&what))
    }

    /// So many inputs will come: room is made once.
    pub fn expect(&mut self, inputs: usize) {
        self.loaded.schedules.reserve(inputs);
        self.loaded.runs.reserve(inputs);
    }

    /// A wakeup has come.
    pub fn wake(&mut self, wakeup: Wakeup) -> Result<(), B::Error> {
        match wakeup {
            Wakeup::Schedule(id) => self.schedule_due(id)?,
            Wakeup::Run(key) => self.wake_run(key)?,
            Wakeup::Handler(id) => self.handler_due(id)?,
            Wakeup::Node(node) => self.node_gone(node)?,
        }
        self.work_through()
    }

    /// Everything that follows.
    pub fn finish(mut self) -> Turned {
        for loaded in self.loaded.schedules.take_changed() {
            self.write_schedule(loaded);
        }
        for loaded in self.loaded.runs.take_changed() {
            self.write_run(loaded);
        }
        self.write_topics();
        self.write_handlers();
        let workflows = self.loaded.workflows.take_changed();
        self.output.writes.workflows.extend(workflows.into_iter().map(|loaded| loaded.now));
        self.tell_queues();
        let Output { writes, effects, notices, spans } = self.output;
        Turned { writes, effects, notices, spans, places: self.capacity }
    }

    /// Those who wait for work of a queue learn that there is some.
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
        let Loaded { now: schedule, before, is_new, change, .. } = loaded;
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
        writes.runs.push(match is_new {
            true => RunWrite::Insert(run),
            false => RunWrite::Update { after: run, old_wake, old_status },
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

    fn load_schedule(&mut self, id: ScheduleId) -> Result<bool, B::Error> {
        if let Some(loaded) = self.loaded.schedules.loaded(id) {
            return Ok(!loaded.is_deleted());
        }
        if self.passes_over(Wakeup::Schedule(id)) {
            return Ok(false);
        }
        let Some(schedule) = self.book.schedule(id)? else { return Ok(false) };
        self.loaded.schedules.insert_stored(schedule);
        Ok(true)
    }

    fn load_run(&mut self, key: RunKey) -> Result<bool, B::Error> {
        if self.loaded.runs.contains(key) {
            return Ok(true);
        }
        if self.passes_over(Wakeup::Run(key)) {
            return Ok(false);
        }
        let Some(run) = self.book.run(key)? else { return Ok(false) };
        self.loaded.runs.insert_stored(run);
        Ok(true)
    }

    fn load_workflow(&mut self, id: WorkflowId) -> Result<Option<&Workflow>, B::Error> {
        if !self.loaded.workflows.contains(id) {
            let Some(workflow) = self.book.workflow(id)? else { return Ok(None) };
            self.loaded.workflows.insert_stored(workflow);
        }
        Ok(self.loaded.workflows.get(id))
    }

    /// A schedule that was loaded.
    fn schedule(&self, id: ScheduleId) -> Result<&Schedule, B::Error> {
        let found = self.loaded.schedules.get(id);
        Ok(found.ok_or_else(|| Damaged(format!("schedule {id} is not there any more")))?)
    }

    /// The same, to be changed.
    fn schedule_mut(&mut self, id: ScheduleId, change: Change) -> Result<&mut Schedule, B::Error> {
        let found = self.loaded.schedules.change(id, change);
        Ok(found.ok_or_else(|| Damaged(format!("schedule {id} is not there any more")))?)
    }

    /// A run that was loaded.
    fn run(&self, key: RunKey) -> Result<&Run, B::Error> {
        let found = self.loaded.runs.get(key);
        Ok(found.ok_or_else(|| Damaged(format!("run {} is not there any more", key.0)))?)
    }

    /// A workflow that was loaded, to be changed.
    fn workflow_mut(&mut self, id: WorkflowId) -> Result<&mut Workflow, B::Error> {
        let found = self.loaded.workflows.change(id, Change::Progress);
        Ok(found.ok_or_else(|| Damaged(format!("workflow {id} is not there any more")))?)
    }

    /// A workflow that has to be there.
    fn workflow(&mut self, id: WorkflowId) -> Result<&Workflow, B::Error> {
        let found = self.load_workflow(id)?;
        Ok(found.ok_or_else(|| Damaged(format!("workflow {id} is not there any more")))?)
    }

    /// One revision of a workflow.
    fn definition(&mut self, id: WorkflowId, revision: u32) -> Result<Arc<Definition>, B::Error> {
        if let Some(definition) = self.loaded.definitions.get(&(id, revision)) {
            return Ok(definition.clone());
        }
        let Some(definition) = self.book.definition(id, revision)? else {
            let why = format!("revision {revision} of workflow {id} is not there any more");
            return Err(Damaged(why).into());
        };
        self.loaded.definitions.insert((id, revision), definition.clone());
        Ok(definition)
    }

    /// The same, and nothing if it cannot be read: a workflow whose stored version is damaged can be published
    /// again, paused and archived.
    fn definition_if_readable(
        &mut self,
        id: WorkflowId,
        revision: u32,
    ) -> Result<Option<Arc<Definition>>, B::Error> {
        match self.loaded.definitions.get(&(id, revision)) {
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
    ) -> Result<Arc<Definition>, B::Error> {
        let definition = self.definition(id, revision)?;
        Ok(definition.of_run(handler).cloned().ok_or_else(|| {
            let handler = handler.unwrap_or_default();
            Damaged(format!("revision {revision} of workflow {id} has no handler {handler}"))
        })?)
    }

    /// The definition for cancelling a run: a definition without steps if the stored one cannot be read. A person can
    /// always cancel a run; compensations of an unreadable definition are lost.
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
        let Some(loaded) = self.loaded.runs.loaded(key) else { return Ok(None) };
        let records = &loaded.notes.records;
        let mut facts = facts::RunFacts { book: self.book, run: key, records };
        crate::run::Facts::record(&mut facts, step, Item::Whole)
    }

    /// What became of all steps of a run, this turn included.
    fn all_step_records(&mut self, key: RunKey) -> Result<Vec<StepRecord>, B::Error> {
        let mut records = self.book.step_records(key)?;
        let new = self.loaded.runs.loaded(key).map(|loaded| loaded.notes.records.clone());
        let new = new.unwrap_or_default();
        records.retain(|old| !new.iter().any(|n| (n.step, n.item) == (old.step, old.item)));
        records.extend(new);
        Ok(records)
    }
}
