//! What people and programs ask for, each in one transaction.

use std::fmt;
use std::sync::Arc;

use calendar::Mistake;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{Book, Change, Turn};
use crate::definition::Definition;
use crate::ids::{RunId, ScheduleId, TopicId, WorkflowId};
use crate::notices;
use crate::run::{self, AttemptEnd, Resolution};
use crate::schedule::{self, Declared, Input, OverrideAction, Schedule, Written};
use crate::topics::Message;
use crate::trace::TraceContext;

/// What is asked for.
#[derive(Clone, Debug)]
pub enum Command {
    /// New schedules: all of them or none.
    CreateSchedules(Vec<NewSchedule>),
    /// Changes to a schedule's declaration, as a JSON object of fields.
    EditSchedule {
        /// Which.
        id: ScheduleId,
        /// The fields.
        patch: String,
    },
    /// Schedules go; unknown ids are no mistake unless there is only one.
    DeleteSchedules(Vec<ScheduleId>),
    /// Pause, resume, …
    ControlSchedule {
        /// Which.
        id: ScheduleId,
        /// What.
        verb: Verb,
    },
    /// A run of a schedule by hand.
    StartSchedule {
        /// Which.
        id: ScheduleId,
        /// The run.
        run: NewRun,
    },
    /// Past occurrences run after all.
    Backfill {
        /// Of which schedule.
        id: ScheduleId,
        /// From.
        from: Timestamp,
        /// To.
        to: Timestamp,
        /// At most so many.
        limit: u32,
        /// Time between two starts.
        pace: Option<SignedDuration>,
    },
    /// What is to become of one occurrence; nothing special if there is no action.
    Override {
        /// Of which schedule.
        id: ScheduleId,
        /// Which occurrence.
        nominal: Timestamp,
        /// What.
        action: Option<OverrideAction>,
        /// Who says so.
        by: String,
    },
    /// A definition: a new version of the workflow of its name, or a new workflow.
    SaveWorkflow {
        /// The text.
        source: String,
        /// What it means.
        definition: Arc<Definition>,
        /// Whether it goes live at once.
        publish: bool,
    },
    /// The newest version goes live.
    PublishWorkflow(WorkflowId),
    /// Out of use.
    ArchiveWorkflow(WorkflowId),
    /// Nothing starts but by hand, or everything starts again.
    PauseWorkflow {
        /// Which.
        id: WorkflowId,
        /// Whether it is to be paused.
        paused: bool,
        /// Why, if somebody says.
        reason: Option<String>,
    },
    /// A run of a workflow by hand.
    StartWorkflow {
        /// Which.
        id: WorkflowId,
        /// The run.
        run: NewRun,
    },
    /// A run is to end.
    CancelRun {
        /// Which.
        id: RunId,
        /// Why, in words.
        reason: String,
    },
    /// A run that ended is tried again, as a new run.
    RetryRun {
        /// Which.
        id: RunId,
        /// From the first step, or from the one that failed.
        from_start: bool,
        /// The new run.
        run: NewRun,
    },
    /// A person says what became of an attempt.
    ResolveRun {
        /// Of which run.
        id: RunId,
        /// What.
        resolution: Resolution,
        /// Who says so.
        by: String,
    },
    /// The same, of a run with several of them.
    ResolveStep {
        /// Of which run.
        id: RunId,
        /// Of which step, by its id.
        step: String,
        /// What.
        resolution: Resolution,
        /// Who says so.
        by: String,
    },
    /// A worker takes what is queued. What it is to do comes as effects.
    ClaimAttempts {
        /// From which queues.
        queues: Vec<String>,
        /// At most so many.
        limit: usize,
        /// What it calls itself.
        worker: String,
        /// It is taken for dead if it is not heard of for so long.
        lease: SignedDuration,
    },
    /// A worker is still at it.
    Heartbeat {
        /// At which run.
        id: RunId,
        /// At which attempt.
        token: u32,
        /// It is taken for dead if it is not heard of for so long.
        lease: SignedDuration,
    },
    /// A worker has ended an attempt.
    EndAttempt {
        /// Of which run.
        id: RunId,
        /// Which.
        token: u32,
        /// How.
        end: AttemptEnd,
    },
    /// A person decides over a step that asks for it.
    DecideApproval {
        /// Of which run.
        id: RunId,
        /// Which step, by its id.
        step: String,
        /// Whether they approve.
        approves: bool,
        /// Who.
        by: String,
        /// What else they are: it is enough if one of these is asked.
        roles: Vec<String>,
        /// What they say about it.
        comment: Option<String>,
    },
    /// Somebody called the address of a trigger.
    CallTrigger {
        /// Of which workflow.
        id: WorkflowId,
        /// Which.
        trigger: String,
        /// The run.
        run: NewRun,
    },
    /// Events are published: all of them or none.
    PublishEvents {
        /// To which topic.
        topic: TopicId,
        /// Which.
        events: Vec<Message>,
    },
    /// Nobody is to work on an event.
    SkipEvent {
        /// Of which topic.
        topic: TopicId,
        /// Which.
        message_id: String,
        /// Who says so.
        by: String,
    },
    /// A producer or consumer runs, as soon as its workflow is free.
    StartHandler {
        /// Of which workflow.
        id: WorkflowId,
        /// Which.
        handler: String,
        /// The run.
        run: NewRun,
    },
    /// Next times are computed again: the zone database or a calendar has changed.
    Recompute(Vec<ScheduleId>),
}

/// What is done with a schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// Nothing new starts.
    Pause,
    /// It goes on.
    Resume {
        /// Whether what was missed is caught up.
        catch_up: bool,
    },
    /// A new life after done or dead.
    Revive,
    /// Resume, of a trigger.
    Enable,
    /// Pause, of a trigger.
    Disable,
}

/// A schedule to create.
#[derive(Clone, Debug)]
pub struct NewSchedule {
    /// What it starts.
    pub workflow: WorkflowId,
    /// The trigger it belongs to.
    pub trigger: Option<String>,
    /// What is declared.
    pub declared: Box<Declared>,
}

/// A run to create by hand.
#[derive(Clone, Debug)]
pub struct NewRun {
    /// A time-ordered UUID, made by the edge.
    pub id: u128,
    /// What it works on.
    pub payload: Option<Box<RawValue>>,
    /// Who starts it.
    pub by: String,
    /// The span of whoever asks for it.
    pub trace: Option<TraceContext>,
}

/// What became of a command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// These schedules were created, in the order given.
    Created(Vec<ScheduleId>),
    /// This schedule was changed.
    Schedule(ScheduleId),
    /// So many were deleted or computed again.
    Count(u64),
    /// This run was created or changed.
    Run(String),
    /// This handler will run as soon as its workflow is free.
    Called(String),
    /// These were published.
    Published {
        /// New ones.
        published: u64,
        /// Those that were there already.
        replaced: u64,
    },
    /// The worker is believed to be alive until then.
    Lease {
        /// When that is.
        until: Timestamp,
        /// Whether it is to give up.
        is_told_to_end: bool,
    },
    /// This revision of the workflow is the newest.
    Workflow {
        /// Which.
        id: WorkflowId,
        /// Its newest revision.
        revision: u32,
        /// Whether it is new.
        is_new: bool,
    },
}

/// Nothing was changed, for this reason.
#[derive(Clone, Debug)]
pub enum Refused {
    /// There is no such thing.
    NotFound {
        /// What.
        what: &'static str,
        /// Which.
        id: String,
    },
    /// The schedule does not.
    Schedule(schedule::Refusal),
    /// The run does not.
    Run(run::Refusal),
    /// What is given is wrong, by place in the list.
    Invalid(Vec<(usize, Vec<Mistake>)>),
    /// A limit of active runs is reached.
    Busy {
        /// In words.
        message: String,
        /// The run in the way.
        run: Option<RunId>,
    },
    /// It does not fit what is there.
    Conflict(String),
}

impl Refused {
    pub(super) fn unknown_schedule(id: ScheduleId) -> Refused {
        Refused::NotFound { what: "schedule", id: id.to_string() }
    }

    pub(super) fn busy(what: String, run: Option<RunId>) -> Refused {
        let message = match &run {
            Some(run) => format!("{what}: run {run} has not ended."),
            None => format!("{what}."),
        };
        Refused::Busy { message, run }
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::NotFound { what, id } => write!(f, "There is no {what} {id}."),
            Refused::Schedule(refusal) => refusal.fmt(f),
            Refused::Run(refusal) => refusal.fmt(f),
            Refused::Invalid(all) => {
                let mistakes: usize = all.iter().map(|(_, mistakes)| mistakes.len()).sum();
                write!(f, "{mistakes} mistakes in what was given.")
            }
            Refused::Busy { message, .. } | Refused::Conflict(message) => f.write_str(message),
        }
    }
}

pub(super) type Asked<E> = Result<Result<Answer, Refused>, E>;

impl<B: Book> Turn<'_, B> {
    /// Carries out a command. A refusal changes nothing.
    pub fn command(&mut self, command: Command) -> Asked<B::Error> {
        match command {
            Command::CreateSchedules(new) => self.create_schedules(new),
            Command::EditSchedule { id, patch } => self.edit_schedule(id, &patch),
            Command::DeleteSchedules(ids) => self.delete_schedules(&ids),
            Command::ControlSchedule { id, verb } => self.control_schedule(id, verb),
            Command::StartSchedule { id, run } => self.start_schedule(id, &run),
            Command::Backfill { id, from, to, limit, pace } => {
                let input = Input::Backfill { from, to, limit, pace };
                Ok(self.decide_schedule(id, input, None)?.map(|()| Answer::Schedule(id)))
            }
            Command::Override { id, nominal, action, by } => {
                self.override_occurrence(id, nominal, action, by)
            }
            Command::SaveWorkflow { definition, .. } if definition.name == notices::NAME => {
                let name = notices::NAME;
                let message =
                    format!("The workflow {name} is Punctual's own. Choose another name.");
                Ok(Err(Refused::Conflict(message)))
            }
            Command::SaveWorkflow { source, definition, publish } => {
                self.save_workflow(source, &definition, publish)
            }
            Command::PublishWorkflow(id) => self.publish_newest(id),
            Command::ArchiveWorkflow(id) => self.archive_workflow(id),
            Command::PauseWorkflow { id, paused, reason } => {
                self.pause_workflow(id, paused, reason)
            }
            Command::StartWorkflow { id, run } => self.start_workflow(id, &run),
            Command::CancelRun { id, reason } => self.cancel_by_hand(&id, reason),
            Command::RetryRun { id, from_start, run } => self.retry_run(&id, from_start, &run),
            Command::ResolveRun { id, resolution, by } => {
                self.said_by = Some(by);
                self.change_run(&id, run::Input::Resolve { step: None, resolution })
            }
            Command::ResolveStep { id, step, resolution, by } => {
                self.said_by = Some(by);
                let step = Some(step);
                self.change_run(&id, run::Input::Resolve { step, resolution })
            }
            Command::ClaimAttempts { queues, limit, worker, lease } => {
                let until = self.lease_until(lease);
                self.claim(&queues, limit, &worker, until)
            }
            Command::Heartbeat { id, token, lease } => {
                let until = self.lease_until(lease);
                self.heartbeat(&id, token, until)
            }
            Command::EndAttempt { id, token, end } => self.worker_report(&id, token, end),
            Command::DecideApproval { id, step, approves, by, roles, comment } => self
                .decide_approval(&id, &step, |step| run::Input::Decide {
                    step,
                    approves,
                    by,
                    roles,
                    comment,
                }),
            Command::CallTrigger { id, trigger, run } => self.call_trigger(id, &trigger, &run),
            Command::PublishEvents { topic, events } => self.publish_command(topic, events),
            Command::SkipEvent { topic, message_id, by } => {
                self.skip_event(topic, &message_id, &by)
            }
            Command::StartHandler { id, handler, run } => self.start_handler(id, &handler, &run),
            Command::Recompute(ids) => Ok(Ok(Answer::Count(self.recompute(&ids)?))),
        }
    }

    fn create_schedules(&mut self, new: Vec<NewSchedule>) -> Asked<B::Error> {
        let now = self.moment.now;
        let mut plans = Vec::with_capacity(new.len());
        let mut invalid = Vec::new();
        for (index, schedule) in new.iter().enumerate() {
            match schedule.declared.check(self.rules, now) {
                Ok(plan) => plans.push(plan),
                Err(mistakes) => invalid.push((index, mistakes)),
            }
        }
        for schedule in &new {
            let known = self.load_workflow(schedule.workflow)?.map(|slot| slot.workflow.live);
            if known.flatten().is_none() {
                let message = format!("Workflow {} has no published version.", schedule.workflow);
                return Ok(Err(Refused::Conflict(message)));
            }
        }
        if !invalid.is_empty() {
            return Ok(Err(Refused::Invalid(invalid)));
        }
        let mut ids = Vec::with_capacity(new.len());
        self.schedules.reserve(new.len());
        for (schedule, plan) in new.into_iter().zip(plans) {
            ids.push(self.create_schedule(schedule, plan));
        }
        Ok(Ok(Answer::Created(ids)))
    }

    pub(super) fn create_schedule(
        &mut self,
        new: NewSchedule,
        mut plan: schedule::Plan,
    ) -> ScheduleId {
        let id = self.book.new_schedule_id();
        if new.declared.timing.spread.is_some() {
            plan.timing = plan.timing.for_schedule(&id.to_string());
        }
        let NewSchedule { workflow, trigger, declared } = new;
        let schedule = Schedule::new(id, workflow, trigger, declared, &plan, self.moment.now);
        self.keep_schedule(Box::new(schedule), true);
        id
    }

    fn edit_schedule(&mut self, id: ScheduleId, patch: &str) -> Asked<B::Error> {
        if !self.load_schedule(id)? {
            return Ok(Err(Refused::unknown_schedule(id)));
        }
        let Some(slot) = self.schedules.get(&id) else {
            return Ok(Err(Refused::unknown_schedule(id)));
        };
        if let Some(trigger) = &slot.schedule.trigger {
            let message = format!(
                "Schedule {id} is declared by trigger {trigger} of its workflow. Change it there."
            );
            return Ok(Err(Refused::Conflict(message)));
        }
        let before = Written { declared: slot.schedule.declared.clone(), ..Written::default() };
        let invalid = |mistakes| Ok(Err(Refused::Invalid(vec![(0, mistakes)])));
        let after = match schedule::patch(&before, patch) {
            Ok(after) => after,
            Err(mistakes) => return invalid(mistakes),
        };
        if let Err(mistakes) = after.declared.check(self.rules, self.moment.now) {
            return invalid(mistakes);
        }
        let workflow = slot.schedule.workflow;
        if let Some(named) = after.workflow
            && named != workflow.to_string()
            && self.book.workflow_named(&named)? != Some(workflow)
        {
            let message = "A schedule stays with its workflow. Create another schedule instead.";
            return Ok(Err(Refused::Conflict(message.to_owned())));
        }
        let input = Input::Edit(after.declared);
        Ok(self.decide_schedule(id, input, None)?.map(|()| Answer::Schedule(id)))
    }

    fn delete_schedules(&mut self, ids: &[ScheduleId]) -> Asked<B::Error> {
        let mut deleted = 0;
        for id in ids {
            if self.load_schedule(*id)?
                && let Some(slot) = self.schedules.get_mut(id)
            {
                slot.change = Change::Deleted;
                deleted += 1;
            }
        }
        Ok(Ok(Answer::Count(deleted)))
    }

    fn control_schedule(&mut self, id: ScheduleId, verb: Verb) -> Asked<B::Error> {
        let (input, name) = match verb {
            Verb::Pause => (Input::Pause, None),
            Verb::Resume { catch_up } => (Input::Resume { catch_up }, None),
            Verb::Revive => (Input::Revive, None),
            Verb::Enable => (Input::Resume { catch_up: false }, Some("enable")),
            Verb::Disable => (Input::Pause, Some("disable")),
        };
        let decided = self.decide_schedule(id, input, None)?;
        Ok(decided.map(|()| Answer::Schedule(id)).map_err(|refused| match (refused, name) {
            (Refused::Schedule(schedule::Refusal::WrongStatus { status, .. }), Some(verb)) => {
                Refused::Schedule(schedule::Refusal::WrongStatus { verb, status })
            }
            (other, _) => other,
        }))
    }

    pub(super) fn change_run(&mut self, id: &RunId, input: run::Input) -> Asked<B::Error> {
        let Some(key) = self.book.run_key(id)? else { return Ok(Err(unknown_run(id))) };
        let decided = self.decide_run(key, input)?;
        Ok(decided.map(|()| Answer::Run(id.to_string())).map_err(Refused::Run))
    }

    fn lease_until(&self, lease: SignedDuration) -> Timestamp {
        self.moment.now.checked_add(lease).unwrap_or(self.moment.now)
    }

    /// Computes next times again; how many.
    pub fn recompute(&mut self, ids: &[ScheduleId]) -> Result<u64, B::Error> {
        let mut count = 0;
        for id in ids {
            count += u64::from(self.decide_schedule(*id, Input::Recompute, None)?.is_ok());
        }
        Ok(count)
    }
}

pub(super) fn unknown_workflow(id: WorkflowId) -> Refused {
    Refused::NotFound { what: "workflow", id: id.to_string() }
}

pub(super) fn unknown_run(id: &RunId) -> Refused {
    Refused::NotFound { what: "run", id: id.to_string() }
}
