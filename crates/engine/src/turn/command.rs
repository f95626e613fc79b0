//! What people and programs ask for, each in one transaction.

use std::fmt;
use std::sync::Arc;

use calendar::Mistake;
use jiff::{SignedDuration, Timestamp};
use language::definition::Definition;
use language::policy::overlap::IfBusy;
use language::schedule::Declared;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{Book, Turn};
use crate::ids::{RunId, ScheduleId, TopicId, WorkflowId};
use crate::notices;
use crate::run::{self, AttemptEnd, Claimant, Resolution};
use crate::schedule::{self, Input, OverrideAction};
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
        /// Whether those that have run already, or wait, run once more.
        again: bool,
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
        /// The folder of a node that it comes from, if it comes from one.
        folder: Option<String>,
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
        /// Whose they are from then on.
        claimant: Claimant,
        /// It is taken for dead if it is not heard of for so long.
        lease: SignedDuration,
    },
    /// A worker is still at it.
    Heartbeat {
        /// At which run.
        id: RunId,
        /// At which attempt.
        token: u32,
        /// Who says so.
        claimant: Claimant,
        /// It is taken for dead if it is not heard of for so long.
        lease: SignedDuration,
    },
    /// The answer to a claim reached no worker: the attempt goes back into its queue as if it had not been taken.
    ReturnAttempt {
        /// Of which run.
        id: RunId,
        /// Which.
        token: u32,
    },
    /// A worker has ended an attempt.
    EndAttempt {
        /// Of which run.
        id: RunId,
        /// Which.
        token: u32,
        /// Who says so.
        claimant: Claimant,
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
    /// What becomes of it if it cannot begin because of others.
    pub if_busy: IfBusy,
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
    /// It is not possible in the status that a workflow is in.
    WrongStatus(String),
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
            Refused::Busy { message, .. }
            | Refused::Conflict(message)
            | Refused::WrongStatus(message) => f.write_str(message),
        }
    }
}

pub(super) type Asked<E> = Result<Result<Answer, Refused>, E>;

impl<B: Book> Turn<'_, B> {
    /// Carries out a command, and everything that follows from it. A refusal changes nothing.
    pub fn command(&mut self, command: Command) -> Asked<B::Error> {
        let answer = self.answer(command)?;
        if answer.is_ok() {
            self.work_through()?;
        }
        Ok(answer)
    }

    fn answer(&mut self, command: Command) -> Asked<B::Error> {
        match command {
            Command::CreateSchedules(new) => self.create_schedules(new),
            Command::EditSchedule { id, patch } => self.edit_schedule(id, &patch),
            Command::DeleteSchedules(ids) => self.delete_schedules(&ids),
            Command::ControlSchedule { id, verb } => self.control_schedule(id, verb),
            Command::StartSchedule { id, run } => self.start_schedule(id, &run),
            Command::Backfill { id, from, to, limit, pace, again } => {
                let passed_over = match again {
                    true => Vec::new(),
                    false => self.ran_already(id, from, to, limit)?,
                };
                let input = Input::Backfill { from, to, limit, pace, passed_over };
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
            Command::SaveWorkflow { source, definition, publish, folder } => {
                self.save_workflow(source, &definition, publish, folder)
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
                self.resolve_by_hand(&id, None, resolution, by)
            }
            Command::ResolveStep { id, step, resolution, by } => {
                self.resolve_by_hand(&id, Some(step), resolution, by)
            }
            Command::ClaimAttempts { queues, limit, worker, claimant, lease } => {
                let until = self.lease_until(lease);
                self.claim(&queues, limit, &worker, &claimant, until)
            }
            Command::Heartbeat { id, token, claimant, lease } => {
                let until = self.lease_until(lease);
                self.heartbeat(&id, token, claimant, until)
            }
            Command::ReturnAttempt { id, token } => {
                self.change_run(&id, run::Input::ReturnClaim { token })
            }
            Command::EndAttempt { id, token, claimant, end } => {
                self.worker_report(&id, token, &claimant, end)
            }
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

    pub(super) fn change_run(&mut self, id: &RunId, input: run::Input) -> Asked<B::Error> {
        let Some(key) = self.book.run_key(id)? else { return Ok(Err(unknown_run(id))) };
        let decided = self.decide_run(key, input)?;
        Ok(decided.map(|_| Answer::Run(id.to_string())).map_err(Refused::Run))
    }

    fn lease_until(&self, lease: SignedDuration) -> Timestamp {
        self.context.moment.now.checked_add(lease).unwrap_or(self.context.moment.now)
    }

    /// Computes next times again; how many.
    pub fn recompute(&mut self, ids: &[ScheduleId]) -> Result<u64, B::Error> {
        let mut count = 0;
        for id in ids {
            count += u64::from(self.decide_schedule(*id, Input::Recompute, None)?.is_ok());
        }
        self.work_through()?;
        Ok(count)
    }
}

pub(super) fn unknown_workflow(id: WorkflowId) -> Refused {
    Refused::NotFound { what: "workflow", id: id.to_string() }
}

pub(super) fn unknown_run(id: &RunId) -> Refused {
    Refused::NotFound { what: "run", id: id.to_string() }
}
