//! A small world in memory: the engine's turns over virtual time, with work that takes time.

use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

use calendar::Zones;
use engine::run::{AttemptEnd, Queueing};
use engine::schedule::{Outlook, Schedule};
use engine::turn::{
    Answer, ApprovalWrite, ById, Capacity, Command, Effect, IncidentWrite, NewRun, NewSchedule,
    OverrideWrite, Perform, Refused, RunWrite, ScheduleWrite, Starter, Turn, Turned, Verb, Wakeup,
};
use engine::{Moment, NodeId, RunKey, ScheduleId, WorkflowId};
use jiff::{SignedDuration, Timestamp};
use language::Rules;
use language::definition::{Action, Definition, OnError, Step, StepRetry};
use language::notification_setup::Setup;
use language::schedule::read_written;
use serde_json::value::RawValue;

use super::memory::Memory;

const NODE: NodeId = NodeId(1);

/// A definition without steps.
pub(crate) fn empty(name: &str) -> Definition {
    Definition::of_steps(name, Vec::new())
}

/// Says how long an attempt takes and how it ends.
type Work = Box<dyn FnMut(&Perform) -> (SignedDuration, AttemptEnd)>;

pub(crate) struct World {
    pub(crate) memory: Memory,
    pub(crate) now: Timestamp,
    pub(crate) awake_since: Timestamp,
    pub(crate) capacity: usize,
    pub(crate) cancelled: Vec<RunKey>,
    pub(crate) claimed: Vec<Perform>,
    /// The number of turns, and the most runs that one of them wrote.
    pub(crate) turns: usize,
    pub(crate) written: usize,
    /// Steps whose attempts ignore a request to end.
    pub(crate) deaf: Vec<String>,
    /// The notification settings of the node.
    pub(crate) setup: Setup,
    /// The entities whose decision panicked because a test planted a panic.
    pub(crate) set_aside: HashSet<Wakeup>,
    /// The answer of the last turn to whether runs may still be waiting for a slot.
    rescan: bool,
    /// Whether steps that do nothing end in the turn that begins them.
    pub(crate) ends_noops: bool,
    /// When the attempts were due that did nothing.
    pub(crate) noops: Vec<Option<Timestamp>>,
    node: NodeId,
    pub(crate) rules: Rules,
    work: Work,
    going_on: Vec<GoingOn>,
}

struct GoingOn {
    ends: Timestamp,
    run: RunKey,
    workflow: WorkflowId,
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
    /// A world that begins at this instant. Its attempts take no time and succeed.
    pub(crate) fn new(begin: &str) -> World {
        World {
            memory: Memory::default(),
            now: at(begin),
            awake_since: at(begin),
            capacity: 1_000,
            cancelled: Vec::new(),
            claimed: Vec::new(),
            turns: 0,
            written: 0,
            deaf: Vec::new(),
            setup: Setup::NONE,
            set_aside: HashSet::new(),
            rescan: true,
            ends_noops: false,
            noops: Vec::new(),
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
        let capacity = self.free();
        let held = self.held();
        let moment = Moment::new(self.now, self.awake_since);
        let mut turn = Turn::new(&mut self.memory, &self.rules, moment, self.node, capacity)
            .telling(&self.setup)
            .holding(held);
        let answer = turn.command(command).map_err(|stop| stop.refusal().unwrap())?;
        turn.fill_slots().unwrap();
        let turned = turn.finish();
        let more = turned.capacity.has_more;
        self.apply(turned);
        if more {
            self.take_turn();
        }
        Ok(answer)
    }

    /// Publishes a workflow with one step.
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
        let command = Command::SaveWorkflow {
            source: String::new(),
            definition,
            publish: true,
            folder: None,
        };
        match self.command(command).unwrap() {
            Answer::Workflow { id, .. } => id,
            other => panic!("{other:?}"),
        }
    }

    /// Creates a schedule from the JSON that a program would send.
    pub(crate) fn schedule(&mut self, workflow: WorkflowId, text: &str) -> ScheduleId {
        let declared = read_written(text).unwrap().declared;
        let new = NewSchedule { workflow, declared_by: None, declared };
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
        NewRun {
            id,
            payload: None,
            by: Starter::Caller("someone".to_owned()),
            trace: None,
            if_busy: Default::default(),
        }
    }

    /// Lets time pass. Everything that ends or is due on the way happens at its instant, ends
    /// first.
    pub(crate) fn advance_to(&mut self, until: &str) {
        let until = at(until);
        while let Some(next) = self.next_instant().filter(|next| *next <= until) {
            self.now = self.now.max(next);
            self.take_turn();
        }
        self.now = until;
    }

    /// Lets time pass while no node is running.
    pub(crate) fn down_until(&mut self, until: &str) {
        self.now = at(until);
        self.awake_since = self.now;
        self.take_turn();
    }

    /// Kills the node. Another one takes over its attempts.
    pub(crate) fn lose_node(&mut self) {
        let lost = self.node;
        self.node = NodeId(lost.0 + 1);
        self.going_on.clear();
        let moment = Moment::new(self.now, self.awake_since);
        let capacity = Capacity::new(self.capacity);
        let mut turn = Turn::new(&mut self.memory, &self.rules, moment, self.node, capacity)
            .telling(&self.setup);
        turn.wake(Wakeup::Node(lost)).unwrap();
        turn.fill_slots().unwrap();
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
        let all = runs.chain(schedules).chain(handlers);
        let mut all: Vec<_> = all.filter(|(_, what)| !self.set_aside.contains(what)).collect();
        all.sort_unstable();
        all
    }

    /// The slots that are free now.
    fn free(&self) -> Capacity {
        let free = self.capacity.saturating_sub(self.going_on.len());
        Capacity { ends_noops: self.ends_noops, ..Capacity::new(free) }
    }

    /// How many slots each workflow holds.
    fn held(&self) -> ById<WorkflowId, usize> {
        let mut held = ById::default();
        for going_on in &self.going_on {
            *held.entry(going_on.workflow).or_default() += 1;
        }
        held
    }

    /// Takes turns until nothing more can begin.
    fn take_turn(&mut self) {
        while self.take_one_turn() {}
    }

    fn take_one_turn(&mut self) -> bool {
        let now = self.now;
        let (ended, rest): (Vec<_>, Vec<_>) = std::mem::take(&mut self.going_on)
            .into_iter()
            .partition(|going_on| going_on.ends <= now);
        self.going_on = rest;
        let due = self.wakeups().into_iter().filter(|(at, _)| *at <= now);
        let due: Vec<Wakeup> = due.map(|(_, wakeup)| wakeup).collect();
        let capacity = Capacity { rescan: self.rescan, ..self.free() };
        let held = self.held();
        let moment = Moment::new(now, self.awake_since);
        let is_planted = self.memory.planted.is_some();
        let mut turn = Turn::new(&mut self.memory, &self.rules, moment, self.node, capacity)
            .telling(&self.setup)
            .holding(held)
            .without(&self.set_aside);
        for GoingOn { run, token, end, .. } in ended {
            // The engine refuses a late report, as it should.
            let _ = turn.report(run, token, end).map_err(|stop| stop.refusal().unwrap());
        }
        let decided = catch_unwind(AssertUnwindSafe(|| {
            due.into_iter().for_each(|wakeup| turn.wake(wakeup).unwrap());
            turn.fill_slots().unwrap();
        }));
        if let Err(panic) = decided {
            let what = turn.deciding().filter(|_| is_planted);
            // As in a store, nothing is written, and the next turn does without what panicked.
            let what = what.unwrap_or_else(|| resume_unwind(panic));
            assert!(self.set_aside.insert(what), "{what:?} was set aside before");
            return true;
        }
        let turned = turn.finish();
        self.turns += 1;
        self.written = self.written.max(turned.writes.runs.len());
        let more = turned.capacity.has_more;
        self.apply(turned);
        more
    }

    fn apply(&mut self, turned: Turned) {
        self.rescan = turned.capacity.rescan;
        self.noops.extend(&turned.noops);
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
            self.memory.records.insert((run, record.step, record.item.number()), record);
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
        for write in writes.incidents {
            match write {
                IncidentWrite::Begin(new) => {
                    let twice = self.memory.incidents.insert(new.key, *new);
                    assert_eq!(twice, None, "an incident began twice");
                }
                IncidentWrite::End(key, end) => {
                    let incident = self.memory.incidents.get_mut(&key).expect("it never began");
                    assert_eq!(incident.end.replace(*end), None, "it ended twice");
                }
            }
        }
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
                    let (run, workflow, token) = (perform.run, perform.workflow, perform.token);
                    let step = perform.step().id.clone();
                    self.going_on.push(GoingOn { ends, run, workflow, token, step, end });
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

    /// One line for each occurrence, such as `09:00 started`.
    pub(crate) fn ledger(&self, id: ScheduleId) -> Vec<String> {
        let rows = self.memory.ledger.values().filter(|entry| entry.schedule == id);
        rows.map(|entry| {
            let nominal = entry.nominal.to_string();
            let more = if entry.count > 1 { format!(" x{}", entry.count) } else { String::new() };
            format!("{} {}{more}", &nominal[11..16], entry.outcome.name())
        })
        .collect()
    }

    /// Each run with the instant at which it began, such as `n0-rc0 09:00 succeeded`.
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

    /// What comes next of a schedule, by its [`Outlook`].
    pub(crate) fn outlook<T>(&self, id: ScheduleId, of: impl FnOnce(Outlook<'_>) -> T) -> T {
        let schedule = self.get(id);
        let (anchor, key) = (schedule.progress.anchor, schedule.spread_key());
        let plan = schedule.declared.plan(&self.rules, anchor, &key).unwrap();
        let overrides = self.memory.overrides.iter().filter(|((of, _), _)| *of == id);
        let overrides: Vec<_> = overrides.map(|(_, over)| over.clone()).collect();
        let workflow_is_paused = self.memory.workflows[&schedule.workflow].paused;
        let (overrides, now) = (&*overrides, self.now);
        of(Outlook { schedule, plan: &plan, overrides, workflow_is_paused, now })
    }

    /// When a schedule starts next.
    pub(crate) fn next(&self, id: ScheduleId) -> Option<Timestamp> {
        self.outlook(id, |outlook| outlook.next()).and_then(|next| next.effective)
    }
}
