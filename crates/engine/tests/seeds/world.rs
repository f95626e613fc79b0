//! A small world in memory: the engine's turns over virtual time, with work that takes time.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::Arc;

use calendar::Zones;
use engine::definition::{Action, Definition, OnError, Step, StepRetry};
use engine::handlers::Handler;
use engine::ledger::Entry;
use engine::run::{Approval, AttemptEnd, Part, Queueing, Run, RunStatus, StepRecord};
use engine::schedule::{Override, Schedule, read_written};
use engine::topics::{Event, EventState, Fate, Subscriber, Topic};
use engine::turn::{
    AlertWrite, Answer, ApprovalWrite, Book, Command, Effect, NewRun, NewSchedule, OverrideWrite,
    Perform, Places, Refused, RunWrite, ScheduleWrite, Turn, Turned, Verb, Wakeup, Workflow,
};
use engine::{
    EventKey, HandlerId, Moment, NodeId, Rules, RunId, RunKey, ScheduleId, TopicId, WorkflowId,
};
use jiff::{SignedDuration, Timestamp};
use serde_json::value::RawValue;

use super::topics::Topics;

const NODE: NodeId = NodeId(1);

#[derive(Default)]
pub(crate) struct Memory {
    pub(crate) schedules: BTreeMap<ScheduleId, Schedule>,
    pub(crate) runs: BTreeMap<RunKey, Run>,
    pub(crate) workflows: BTreeMap<WorkflowId, Workflow>,
    pub(crate) ledger: BTreeMap<(ScheduleId, u64), Entry>,
    pub(crate) records: BTreeMap<(RunKey, u32, i32), StepRecord>,
    pub(crate) queue: BTreeSet<(String, RunKey, Part)>,
    pub(crate) approvals: BTreeMap<(RunKey, u32), Approval>,
    pub(crate) alerts: Vec<AlertWrite>,
    definitions: BTreeMap<(WorkflowId, u32), Arc<Definition>>,
    overrides: BTreeMap<(ScheduleId, Timestamp), Override>,
    pub(crate) topics: Topics,
    last: i64,
}

impl Memory {
    fn next(&mut self) -> i64 {
        self.last += 1;
        self.last
    }

    fn pending(&self) -> impl Iterator<Item = &Run> {
        self.runs.values().filter(|run| run.status == RunStatus::Pending)
    }
}

impl Book for Memory {
    type Error = Infallible;

    fn schedule(&mut self, id: ScheduleId) -> Result<Option<Box<Schedule>>, Infallible> {
        Ok(self.schedules.get(&id).cloned().map(Box::new))
    }

    fn overrides(&mut self, id: ScheduleId) -> Result<Vec<Override>, Infallible> {
        let all = self.overrides.iter().filter(|((schedule, _), _)| *schedule == id);
        Ok(all.map(|(_, over)| over.clone()).collect())
    }

    fn triggered_schedules(&mut self, id: WorkflowId) -> Result<Vec<Box<Schedule>>, Infallible> {
        let all = self.schedules.values().filter(|s| s.workflow == id && s.trigger.is_some());
        Ok(all.cloned().map(Box::new).collect())
    }

    fn schedules_of(&mut self, id: WorkflowId) -> Result<Vec<ScheduleId>, Infallible> {
        Ok(self.schedules.values().filter(|s| s.workflow == id).map(|s| s.id).collect())
    }

    fn workflow(&mut self, id: WorkflowId) -> Result<Option<Workflow>, Infallible> {
        Ok(self.workflows.get(&id).cloned())
    }

    fn workflow_named(&mut self, name: &str) -> Result<Option<WorkflowId>, Infallible> {
        Ok(self.workflows.values().find(|workflow| workflow.name == name).map(|w| w.id))
    }

    fn definition(
        &mut self,
        id: WorkflowId,
        revision: u32,
    ) -> Result<Option<Arc<Definition>>, Infallible> {
        Ok(self.definitions.get(&(id, revision)).cloned())
    }

    fn run(&mut self, key: RunKey) -> Result<Option<Box<Run>>, Infallible> {
        Ok(self.runs.get(&key).cloned().map(Box::new))
    }

    fn run_key(&mut self, id: &RunId) -> Result<Option<RunKey>, Infallible> {
        Ok(self.runs.values().find(|run| run.id == *id).map(|run| run.key))
    }

    fn pending(
        &mut self,
        after: Option<WorkflowId>,
        limit: usize,
    ) -> Result<Vec<(WorkflowId, RunKey)>, Infallible> {
        let mut oldest = BTreeMap::new();
        for run in Memory::pending(self).filter(|run| Some(run.workflow) > after) {
            oldest.entry(run.workflow).or_insert(run.key);
        }
        Ok(oldest.into_iter().take(limit).collect())
    }

    fn pending_after(
        &mut self,
        workflow: WorkflowId,
        after: RunKey,
        limit: usize,
    ) -> Result<Vec<RunKey>, Infallible> {
        let all = Memory::pending(self).filter(|run| run.workflow == workflow && run.key > after);
        Ok(all.map(|run| run.key).take(limit).collect())
    }

    fn ready(&mut self, limit: usize) -> Result<Vec<RunKey>, Infallible> {
        let ready = self.runs.values().filter(|run| run.is_ready());
        Ok(ready.map(|run| run.key).take(limit).collect())
    }

    fn active_runs(&mut self, id: WorkflowId, limit: usize) -> Result<Vec<RunKey>, Infallible> {
        let active = |run: &&Run| {
            run.workflow == id && !run.status.has_ended() && run.status != RunStatus::Pending
        };
        Ok(self.runs.values().filter(active).map(|run| run.key).take(limit).collect())
    }

    fn owned_by(&mut self, node: NodeId, limit: usize) -> Result<Vec<RunKey>, Infallible> {
        let owned = |run: &&Run| run.position.owners().contains(&node);
        Ok(self.runs.values().filter(owned).map(|run| run.key).take(limit).collect())
    }

    fn step_record(
        &mut self,
        run: RunKey,
        step: u32,
        item: i32,
    ) -> Result<Option<StepRecord>, Infallible> {
        Ok(self.records.get(&(run, step, item)).cloned())
    }

    fn step_records(&mut self, run: RunKey) -> Result<Vec<StepRecord>, Infallible> {
        let of = self.records.range((run, 0, i32::MIN)..=(run, u32::MAX, i32::MAX));
        Ok(of.map(|(_, record)| record.clone()).collect())
    }

    fn queued(
        &mut self,
        queues: &[String],
        limit: usize,
    ) -> Result<Vec<(RunKey, Part)>, Infallible> {
        let wanted = self.queue.iter().filter(|(queue, ..)| queues.contains(queue));
        let mut found: Vec<_> = wanted.map(|(_, run, part)| (*run, *part)).collect();
        found.sort_unstable();
        found.truncate(limit);
        Ok(found)
    }

    fn topic(&mut self, id: TopicId) -> Result<Option<Topic>, Infallible> {
        Ok(self.topics.topics.get(&id).cloned())
    }

    fn topic_named(
        &mut self,
        workflow: Option<WorkflowId>,
        name: &str,
    ) -> Result<Option<TopicId>, Infallible> {
        Ok(self.topics.topic_named(workflow, name))
    }

    fn fates(&mut self, topic: TopicId, ids: &[String]) -> Result<Vec<Option<Fate>>, Infallible> {
        self.topics.fates(topic, ids)
    }

    fn reserved_by(&mut self, run: RunKey) -> Result<Vec<Fate>, Infallible> {
        let fates = self.topics.events.values().map(|event| &event.fate);
        let is_it = |fate: &&Fate| fate.run == Some(run) && fate.state == EventState::Reserved;
        Ok(fates.filter(is_it).cloned().collect())
    }

    fn event(&mut self, key: EventKey) -> Result<Option<Event>, Infallible> {
        Ok(self.topics.events.get(&key).cloned())
    }

    fn pending_events(&mut self, topic: TopicId, limit: usize) -> Result<Vec<Event>, Infallible> {
        Ok(self.topics.pending(topic, limit))
    }

    fn oldest_pending(
        &mut self,
        topic: TopicId,
        limit: usize,
    ) -> Result<Vec<(EventKey, Timestamp)>, Infallible> {
        let found = self.topics.pending(topic, limit);
        Ok(found.into_iter().map(|event| (event.fate.key, event.created_at)).collect())
    }

    fn subscribers(&mut self, topic: TopicId) -> Result<Vec<Subscriber>, Infallible> {
        Ok(self.topics.subscribers(topic))
    }

    fn waiting_for(
        &mut self,
        topic: TopicId,
        after: Option<(RunKey, Part)>,
        limit: usize,
    ) -> Result<Vec<(RunKey, Part)>, Infallible> {
        Ok(self.topics.waiting_for(topic, after, limit))
    }

    fn handler(&mut self, id: HandlerId) -> Result<Option<Handler>, Infallible> {
        Ok(self.topics.handlers.get(&id).cloned())
    }

    fn handlers_of(&mut self, id: WorkflowId) -> Result<Vec<HandlerId>, Infallible> {
        let of = self.topics.handlers.values().filter(|handler| handler.workflow == id);
        Ok(of.map(|handler| handler.id).collect())
    }

    fn new_event_key(&mut self) -> EventKey {
        EventKey(self.next())
    }

    fn new_topic_id(&mut self) -> TopicId {
        TopicId(self.next())
    }

    fn new_handler_id(&mut self) -> HandlerId {
        HandlerId(self.next())
    }

    fn new_run_key(&mut self) -> RunKey {
        RunKey(self.next())
    }

    fn new_schedule_id(&mut self) -> ScheduleId {
        ScheduleId(self.next())
    }

    fn new_workflow_id(&mut self) -> WorkflowId {
        WorkflowId(self.next())
    }
}

/// A definition that does nothing.
pub(crate) fn empty(name: &str) -> Definition {
    Definition::of_steps(name, Vec::new())
}

/// What an attempt takes and how it ends.
type Work = Box<dyn FnMut(&Perform) -> (SignedDuration, AttemptEnd)>;

pub(crate) struct World {
    pub(crate) memory: Memory,
    pub(crate) now: Timestamp,
    pub(crate) awake_since: Timestamp,
    pub(crate) places: usize,
    pub(crate) cancelled: Vec<RunKey>,
    pub(crate) claimed: Vec<Perform>,
    /// Steps that do not hear that they are to end.
    pub(crate) deaf: Vec<String>,
    node: NodeId,
    rules: Rules,
    work: Work,
    going_on: Vec<GoingOn>,
}

struct GoingOn {
    ends: Timestamp,
    run: RunKey,
    token: u32,
    step: String,
    end: AttemptEnd,
}

pub(crate) fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

pub(crate) fn seconds(seconds: i64) -> SignedDuration {
    SignedDuration::from_secs(seconds)
}

pub(crate) fn success() -> AttemptEnd {
    AttemptEnd::Succeeded { output: RawValue::NULL.to_owned() }
}

pub(crate) fn failure(message: &str) -> AttemptEnd {
    let (code, message) = ("failed".to_owned(), message.to_owned());
    AttemptEnd::Failed { code, message, retryable: true, output: None }
}

impl World {
    /// A world that begins at this instant, with attempts that take no time and succeed.
    pub(crate) fn new(begin: &str) -> World {
        World {
            memory: Memory::default(),
            now: at(begin),
            awake_since: at(begin),
            places: 1_000,
            cancelled: Vec::new(),
            claimed: Vec::new(),
            deaf: Vec::new(),
            node: NODE,
            rules: Rules::new(Zones::bundled()),
            work: Box::new(|_| (SignedDuration::ZERO, success())),
            going_on: Vec::new(),
        }
    }

    pub(crate) fn working(
        mut self,
        work: impl FnMut(&Perform) -> (SignedDuration, AttemptEnd) + 'static,
    ) -> World {
        self.work = Box::new(work);
        self
    }

    pub(crate) fn command(&mut self, command: Command) -> Result<Answer, Refused> {
        let mut places = Places::new(self.places.saturating_sub(self.going_on.len()));
        places.look = true;
        let moment = Moment::new(self.now, self.awake_since);
        let mut turn = Turn::new(&mut self.memory, &self.rules, moment, self.node, places);
        let answer = turn.command(command).unwrap()?;
        turn.fill_places().unwrap();
        let turned = turn.finish();
        self.apply(turned);
        Ok(answer)
    }

    /// A published workflow of one step.
    pub(crate) fn workflow(&mut self, name: &str, concurrency: Option<u32>) -> WorkflowId {
        let step = Step {
            id: "only".to_owned(),
            name: None,
            depends_on: Vec::new(),
            condition: None,
            action: Action::Noop,
            retry: StepRetry { max: 1, ..StepRetry::default() },
            timeout: Some(seconds(300)),
            on_error: OnError::FailProcess,
            idempotent: true,
            compensation: None,
            reconcile: None,
            deadline: None,
        };
        let definition = Definition { concurrency, steps: vec![step], ..empty(name) };
        let definition = Arc::new(definition);
        let command = Command::SaveWorkflow { source: String::new(), definition, publish: true };
        match self.command(command).unwrap() {
            Answer::Workflow { id, .. } => id,
            other => panic!("{other:?}"),
        }
    }

    /// A schedule, as a program writes it.
    pub(crate) fn schedule(&mut self, workflow: WorkflowId, text: &str) -> ScheduleId {
        let declared = read_written(text).unwrap().declared;
        let new = NewSchedule { workflow, trigger: None, declared };
        match self.command(Command::CreateSchedules(vec![new])).unwrap() {
            Answer::Created(ids) => ids[0],
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn control(&mut self, id: ScheduleId, verb: Verb) -> Result<Answer, String> {
        let command = Command::ControlSchedule { id, verb };
        self.command(command).map_err(|refused| refused.to_string())
    }

    pub(crate) fn new_run(&self) -> NewRun {
        let id = u128::try_from(self.now.as_nanosecond()).unwrap() + self.memory.last as u128;
        NewRun { id, payload: None, by: "someone".to_owned(), trace: None }
    }

    /// Lets time pass: whatever ends or is due on the way happens at its instant, ends first.
    pub(crate) fn advance_to(&mut self, until: &str) {
        let until = at(until);
        while let Some(next) = self.next_instant().filter(|next| *next <= until) {
            self.now = self.now.max(next);
            self.take_turn();
        }
        self.now = until;
    }

    /// Nobody is awake until then.
    pub(crate) fn down_until(&mut self, until: &str) {
        self.now = at(until);
        self.awake_since = self.now;
        self.take_turn();
    }

    /// The node dies, and another one takes over what it was doing.
    pub(crate) fn lose_node(&mut self) {
        let lost = self.node;
        self.node = NodeId(lost.0 + 1);
        self.going_on.clear();
        let moment = Moment::new(self.now, self.awake_since);
        let places = Places::new(self.places);
        let mut turn = Turn::new(&mut self.memory, &self.rules, moment, self.node, places);
        turn.wake(Wakeup::Node(lost)).unwrap();
        turn.fill_places().unwrap();
        let turned = turn.finish();
        self.apply(turned);
    }

    fn next_instant(&self) -> Option<Timestamp> {
        let ends = self.going_on.iter().map(|going_on| going_on.ends);
        ends.chain(self.wakeups().into_iter().map(|(at, _)| at)).min()
    }

    fn wakeups(&self) -> Vec<(Timestamp, Wakeup)> {
        let runs = self.memory.runs.values();
        let runs = runs.filter_map(|run| Some((run.wake_at()?, Wakeup::Run(run.key))));
        let schedules = self.memory.schedules.values();
        let schedules = schedules.filter_map(|s| Some((s.wake_at()?, Wakeup::Schedule(s.id))));
        let handlers = self.memory.topics.wakeups();
        let handlers = handlers.map(|(at, id)| (at, Wakeup::Handler(id)));
        let mut all: Vec<_> = runs.chain(schedules).chain(handlers).collect();
        all.sort_unstable();
        all
    }

    fn take_turn(&mut self) {
        let now = self.now;
        let (ended, rest): (Vec<_>, Vec<_>) = std::mem::take(&mut self.going_on)
            .into_iter()
            .partition(|going_on| going_on.ends <= now);
        self.going_on = rest;
        let due = self.wakeups().into_iter().filter(|(at, _)| *at <= now);
        let due: Vec<Wakeup> = due.map(|(_, wakeup)| wakeup).collect();
        let places = Places::new(self.places.saturating_sub(self.going_on.len()));
        let moment = Moment::new(now, self.awake_since);
        let mut turn = Turn::new(&mut self.memory, &self.rules, moment, self.node, places);
        for GoingOn { run, token, end, .. } in ended {
            // A late report is refused, which is what is wanted of it.
            let _ = turn.report(run, token, end).unwrap();
        }
        for wakeup in due {
            turn.wake(wakeup).unwrap();
        }
        turn.fill_places().unwrap();
        let turned = turn.finish();
        self.apply(turned);
    }

    fn apply(&mut self, turned: Turned) {
        let mut writes = turned.writes;
        self.memory.topics.apply(&mut writes);
        for write in writes.schedules {
            match write {
                ScheduleWrite::Insert(new) => drop(self.memory.schedules.insert(new.id, *new)),
                ScheduleWrite::Update { after, .. } => {
                    self.memory.schedules.insert(after.id, *after);
                }
                ScheduleWrite::Delete { before } => drop(self.memory.schedules.remove(&before.id)),
            }
        }
        for write in writes.runs {
            match write {
                RunWrite::Insert(new) => {
                    let twice = self.memory.runs.values().any(|run| run.id == new.id);
                    assert!(!twice, "{} was created twice", new.id);
                    self.memory.runs.insert(new.key, *new);
                }
                RunWrite::Update { after, .. } => drop(self.memory.runs.insert(after.key, *after)),
            }
        }
        for (run, record) in writes.steps {
            self.memory.records.insert((run, record.step, record.item), record);
        }
        for (run, queueing) in writes.queueing {
            match queueing {
                Queueing::Put(queue, part) => {
                    assert!(self.memory.queue.insert((queue, run, part)), "queued twice");
                }
                Queueing::Take(part) => {
                    self.memory.queue.retain(|(_, r, p)| (*r, *p) != (run, part))
                }
            }
        }
        for write in writes.approvals {
            match write {
                ApprovalWrite::Ask(run, _, asked) => {
                    self.memory.approvals.insert((run, asked.step), asked);
                }
                ApprovalWrite::Withdraw(run, step) => {
                    self.memory.approvals.remove(&(run, step)).expect("nobody was asked");
                }
            }
        }
        self.memory.alerts.extend(writes.alerts);
        for mut entry in writes.ledger {
            let known = self.memory.ledger.get(&(entry.schedule, entry.n));
            entry.run = known.and_then(|known| known.run).or(entry.run);
            self.memory.ledger.insert((entry.schedule, entry.n), entry);
        }
        for workflow in writes.workflows {
            self.memory.workflows.insert(workflow.id, workflow);
        }
        for revision in writes.revisions {
            let key = (revision.workflow, revision.revision);
            self.memory.definitions.insert(key, revision.definition);
        }
        for write in writes.overrides {
            match write {
                OverrideWrite::Put(id, over) => {
                    self.memory.overrides.insert((id, over.nominal), over);
                }
                OverrideWrite::Delete(id, nominal) => {
                    self.memory.overrides.remove(&(id, nominal));
                }
            }
        }
        for effect in turned.effects {
            match effect {
                Effect::Perform(perform) => {
                    let (takes, end) = (self.work)(&perform);
                    let ends = self.now.checked_add(takes).unwrap();
                    let (run, token) = (perform.run, perform.token);
                    let step = perform.step().id.clone();
                    self.going_on.push(GoingOn { ends, run, token, step, end });
                }
                Effect::Claimed { perform, .. } => self.claimed.push(*perform),
                Effect::Cancel { run, token } => {
                    self.cancelled.push(run);
                    let deaf = &self.deaf;
                    for going_on in &mut self.going_on {
                        let is_it = (going_on.run, going_on.token) == (run, token);
                        if is_it && !deaf.contains(&going_on.step) {
                            going_on.ends = self.now;
                            let message = "told to end".to_owned();
                            going_on.end = AttemptEnd::Cancelled { message };
                        }
                    }
                }
            }
        }
    }

    /// `09:00 started`, one line for each occurrence.
    pub(crate) fn ledger(&self, id: ScheduleId) -> Vec<String> {
        let rows = self.memory.ledger.values().filter(|entry| entry.schedule == id);
        rows.map(|entry| {
            let nominal = entry.nominal.to_string();
            let more = if entry.count > 1 { format!(" x{}", entry.count) } else { String::new() };
            format!("{} {}{more}", &nominal[11..16], entry.outcome.name())
        })
        .collect()
    }

    /// `n0-rc0 09:00 succeeded`: each run with the instant at which it began.
    pub(crate) fn runs(&self, id: ScheduleId) -> Vec<String> {
        let runs = self.memory.runs.values().filter(|run| run.schedule == Some(id));
        runs.map(|run| {
            let began =
                run.started_at.map_or("-".to_owned(), |at| at.to_string()[11..16].to_owned());
            let name = run.id.to_string();
            let name = name.strip_prefix(&format!("sched-{id}-")).unwrap_or("by-hand");
            format!("{name} {began} {}", run.status.name())
        })
        .collect()
    }

    pub(crate) fn definition(&self, id: WorkflowId, version: u32) -> Arc<Definition> {
        self.memory.definitions[&(id, version)].clone()
    }

    pub(crate) fn get(&self, id: ScheduleId) -> &Schedule {
        &self.memory.schedules[&id]
    }
}
