//! Commands of people and programs, each carried out in one transaction.

use std::fmt;
use std::sync::Arc;

use calendar::Mistake;
use jiff::{SignedDuration, Timestamp};
use language::definition::{DeclaredBy, Definition};
use language::policy::overlap::IfBusy;
use language::schedule::Declared;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{TransactionReader, Turn};
use crate::ids::{RunId, ScheduleId, TopicId, WorkflowId};
use crate::notices;
use crate::run::{self, AttemptEnd, Claimant, Resolution};
use crate::schedule::{self, Due, Input, OverrideAction};
use crate::stop::{Stop, refuse, unless_refused};
use crate::topics::Message;
use crate::trace::TraceContext;

/// A request to change something.
#[derive(Clone, Debug)]
pub enum Command {
    /// Creates all of these schedules or none.
    CreateSchedules(Vec<NewSchedule>),
    /// Changes a schedule's declaration. The patch is a JSON object of fields.
    EditSchedule { id: ScheduleId, patch: String },
    /// Deletes schedules. An unknown id is an error only if it is the only one.
    DeleteSchedules(Vec<ScheduleId>),
    /// Pauses, resumes, revives, enables or disables a schedule.
    ControlSchedule { id: ScheduleId, verb: Verb },
    /// Starts a run of a schedule by hand.
    StartSchedule { id: ScheduleId, run: NewRun },
    /// Runs past occurrences after all.
    Backfill {
        id: ScheduleId,
        from: Timestamp,
        to: Timestamp,
        /// The maximum number of occurrences.
        limit: u32,
        /// The time between two starts.
        pace: Option<SignedDuration>,
        /// Whether occurrences that have run already, or wait to, run once more.
        again: bool,
    },
    /// Overrides one occurrence; without an action, removes its override.
    Override { id: ScheduleId, nominal: Timestamp, action: Option<OverrideAction>, by: String },
    /// Stores a definition: as a new revision of the workflow with its name, or as a new workflow.
    SaveWorkflow {
        /// The text of the definition.
        source: String,
        /// The checked form of the text.
        definition: Arc<Definition>,
        /// Whether the revision goes live at once.
        publish: bool,
        /// The definitions folder of a node from which the text was read, if any.
        folder: Option<String>,
    },
    /// Makes the newest revision live.
    PublishWorkflow(WorkflowId),
    /// Publishes the live revision once more: makes the rows again that publishing it made.
    PublishAgain(WorkflowId),
    /// Takes a workflow out of use.
    ArchiveWorkflow(WorkflowId),
    /// Pauses a workflow, so that only runs started by hand begin, or resumes it.
    PauseWorkflow {
        id: WorkflowId,
        paused: bool,
        /// The reason that the caller gave.
        reason: Option<String>,
    },
    /// Starts a run of a workflow by hand.
    StartWorkflow { id: WorkflowId, run: NewRun },
    /// Asks a run to end.
    CancelRun { id: RunId, reason: String },
    /// Retries a run that has ended, as a new run.
    RetryRun {
        id: RunId,
        /// Whether to begin with the first step; otherwise with the one that failed.
        from_start: bool,
        run: NewRun,
    },
    /// Records a person's statement of how an attempt ended.
    ResolveRun { id: RunId, resolution: Resolution, by: String },
    /// Like `ResolveRun`, for one step of a run with several unresolved attempts.
    ResolveStep { id: RunId, step: String, resolution: Resolution, by: String },
    /// Claims queued attempts for a worker. The attempts are returned as effects.
    ClaimAttempts {
        queues: Vec<String>,
        /// The maximum number of attempts.
        limit: usize,
        /// The name that the worker gave itself.
        worker: String,
        /// The owner of the claimed attempts.
        claimant: Claimant,
        /// The worker is presumed dead if it sends no heartbeat for this long.
        lease: SignedDuration,
    },
    /// Extends the lease of an attempt that a worker still performs.
    Heartbeat {
        id: RunId,
        token: u32,
        /// The worker that sends the heartbeat.
        claimant: Claimant,
        /// The worker is presumed dead if it sends no heartbeat for this long.
        lease: SignedDuration,
    },
    /// Returns a claimed attempt to its queue as if it had never been claimed, because the response
    /// to the claim did not reach the worker.
    ReturnAttempt { id: RunId, token: u32 },
    /// Reports the end of an attempt that a worker performed.
    EndAttempt {
        id: RunId,
        token: u32,
        /// The worker that reports.
        claimant: Claimant,
        end: AttemptEnd,
    },
    /// Records a person's decision about an approval step.
    DecideApproval {
        id: RunId,
        step: String,
        approves: bool,
        by: String,
        /// Other names under which the caller may decide: one that the step asks for is enough.
        roles: Vec<String>,
        comment: Option<String>,
    },
    /// Starts a run because somebody called the URL of a webhook trigger.
    CallTrigger { id: WorkflowId, trigger: String, run: NewRun },
    /// Publishes all of these events or none.
    PublishEvents { topic: TopicId, events: Vec<Message> },
    /// Skips an event: no consumer will work on it.
    SkipEvent { topic: TopicId, message_id: String, by: String },
    /// Runs a producer or consumer as soon as its workflow is free.
    StartHandler { id: WorkflowId, handler: String, run: NewRun },
    /// Recomputes next times after the zone database or a calendar has changed.
    Recompute(Vec<ScheduleId>),
}

/// A change of a schedule's status that a person asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// Stops new occurrences from starting.
    Pause,
    /// Continues after a pause.
    Resume {
        /// Whether missed occurrences are caught up.
        catch_up: bool,
    },
    /// Makes a schedule active again that is done or dead.
    Revive,
    /// Like `Resume`, for a trigger.
    Enable,
    /// Like `Pause`, for a trigger.
    Disable,
}

/// A schedule to create.
#[derive(Clone, Debug)]
pub struct NewSchedule {
    pub workflow: WorkflowId,
    /// The trigger or producer that declares it.
    pub declared_by: Option<DeclaredBy>,
    pub declared: Box<Declared>,
}

/// A run to create, other than the run of an occurrence.
#[derive(Clone, Debug)]
pub struct NewRun {
    /// A time-ordered UUID. The server generates it, or the engine derives it.
    pub id: u128,
    pub payload: Option<Box<RawValue>>,
    pub by: Starter,
    pub trace: Option<TraceContext>,
    /// Whether the run waits or the start is refused if other runs prevent it from beginning.
    pub if_busy: IfBusy,
}

/// Who starts a run that no occurrence starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Starter {
    /// A caller, by name: a person, a program, an event, a handler.
    Caller(String),
    /// The publication of the workflow, whose producers run at once.
    Publish,
}

impl Starter {
    /// The name that is stored with the run.
    pub fn name(&self) -> &str {
        match self {
            Starter::Caller(name) => name,
            Starter::Publish => "publish",
        }
    }
}

/// The result of a command that was carried out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// The ids of the created schedules, in the order of the request.
    Created(Vec<ScheduleId>),
    /// The schedule that was changed.
    Schedule(ScheduleId),
    /// How many schedules were deleted or recomputed.
    Count(u64),
    Backfilled {
        /// The occurrences that this backfill runs.
        accepted: Vec<Due>,
        /// Number of occurrences that it does not run, because they have run or wait to run.
        left_out: u64,
    },
    /// The id of the run that was created or changed.
    Run(String),
    /// The handler that will run as soon as its workflow is free.
    Called(String),
    Published {
        /// Number of new events.
        published: u64,
        /// Number of events that already existed.
        replaced: u64,
    },
    Lease {
        until: Timestamp,
        /// Whether the worker should stop the attempt.
        must_cancel: bool,
    },
    /// The workflow was created or changed.
    Workflow {
        id: WorkflowId,
        revision: u32,
        /// Whether the workflow is new.
        is_new: bool,
    },
}

/// Why a command changed nothing.
#[derive(Clone, Debug)]
pub enum Refused {
    NotFound {
        /// The kind of thing, such as "schedule".
        what: &'static str,
        id: String,
    },
    /// The schedule's state machine refused.
    Schedule(schedule::Refusal),
    /// The run's state machine refused.
    Run(run::Refusal),
    /// The request is invalid: mistakes by index in the list.
    Invalid(Vec<(usize, Vec<Mistake>)>),
    /// A limit on active runs is reached.
    Busy {
        message: String,
        /// The run that is in the way.
        run: Option<RunId>,
    },
    /// The request contradicts what is stored.
    Conflict(String),
    /// The workflow's status does not allow the request.
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

impl<E> From<Stop<run::Refusal, E>> for Stop<Refused, E> {
    fn from(stop: Stop<run::Refusal, E>) -> Stop<Refused, E> {
        match stop {
            Stop::Refused(refusal) => Stop::Refused(Refused::Run(refusal)),
            Stop::Failed(failure) => Stop::Failed(failure),
        }
    }
}

/// The answer to a command, or why it was not carried out.
pub(super) type CommandResult<E> = Result<Answer, Stop<Refused, E>>;

impl<B: TransactionReader> Turn<'_, B> {
    /// Carries out a command and everything that follows from it. A refused command changes
    /// nothing.
    pub fn command(&mut self, command: Command) -> CommandResult<B::Error> {
        let answer = self.answer(command)?;
        self.work_through()?;
        Ok(answer)
    }

    fn answer(&mut self, command: Command) -> CommandResult<B::Error> {
        match command {
            Command::CreateSchedules(new) => self.create_schedules(new),
            Command::EditSchedule { id, patch } => self.edit_schedule(id, &patch),
            Command::DeleteSchedules(ids) => self.delete_schedules(&ids),
            Command::ControlSchedule { id, verb } => self.control_schedule(id, verb),
            Command::StartSchedule { id, run } => self.start_schedule(id, &run),
            Command::Backfill { id, from, to, limit, pace, again } => {
                let (accepted, passed_over) =
                    self.past_occurrences(id, (from, to), limit, again)?;
                let left_out = passed_over.len() as u64;
                let input = Input::Backfill { from, to, limit, pace, passed_over };
                self.decide_schedule(id, input, None)?;
                Ok(Answer::Backfilled { accepted, left_out })
            }
            Command::Override { id, nominal, action, by } => {
                self.override_occurrence(id, nominal, action, by)
            }
            Command::SaveWorkflow { definition, .. } if definition.name == notices::NAME => {
                let name = notices::NAME;
                let message =
                    format!("The workflow {name} is Punctual's own. Choose another name.");
                refuse(Refused::Conflict(message))
            }
            Command::SaveWorkflow { source, definition, publish, folder } => {
                self.save_workflow(source, &definition, publish, folder)
            }
            Command::PublishWorkflow(id) => self.publish_workflow(id, |known| Some(known.newest)),
            Command::PublishAgain(id) => self.publish_workflow(id, |known| known.live),
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
            Command::Recompute(ids) => Ok(Answer::Count(self.recompute(&ids)?)),
        }
    }

    pub(super) fn change_run(&mut self, id: &RunId, input: run::Input) -> CommandResult<B::Error> {
        let Some(key) = self.reader.run_key(id)? else { return refuse(unknown_run(id)) };
        self.decide_run(key, input)?;
        Ok(Answer::Run(id.to_string()))
    }

    fn lease_until(&self, lease: SignedDuration) -> Timestamp {
        self.context.moment.now.checked_add(lease).unwrap_or(self.context.moment.now)
    }

    /// Recomputes the next times of these schedules, and returns how many were recomputed.
    pub fn recompute(&mut self, ids: &[ScheduleId]) -> Result<u64, B::Error> {
        let mut count = 0;
        for id in ids {
            let recomputed = unless_refused(self.decide_schedule(*id, Input::Recompute, None))?;
            count += u64::from(recomputed.is_some());
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
