//! Everything that a turn changes, as data. The store writes it in the turn's transaction.

use std::sync::Arc;

use jiff::Timestamp;
use language::definition::{Action, DeadlineEnd, Definition, Step};
use language::expression::{ExpressionError, Scope};
use serde_json::value::RawValue;

use super::transaction_reader::Workflow;
use crate::handlers::{Handler, Mutation};
use crate::ids::{EventKey, IncidentKey, NodeId, RunId, RunKey, ScheduleId, TopicId, WorkflowId};
use crate::incidents::{Incident, IncidentEnd};
use crate::ledger::{Entry, Outcome};
use crate::run::{
    Alert, Approval, AttemptRecord, Item, Part, Queueing, Run, RunStatus, StepRecord, action_of,
};
use crate::schedule::{Override, Schedule, Status, Turning};
use crate::topics::Topic;
use crate::topics::{Event, EventState, EventStatus, Message, Subscriber};
use crate::trace::TraceContext;

/// The rows that a turn changes.
#[derive(Debug, Default)]
pub struct Writes {
    /// Each schedule at most once.
    pub schedules: Vec<ScheduleWrite>,
    /// Each run at most once.
    pub runs: Vec<RunWrite>,
    /// Step records. Each replaces the row of the same run, step and item.
    pub steps: Vec<(RunKey, StepRecord)>,
    /// Attempts that were followed by another attempt.
    pub attempts: Vec<(RunKey, AttemptRecord)>,
    /// Ledger rows. Each replaces the row with the same schedule and number.
    pub ledger: Vec<Entry>,
    /// Workflows. Each replaces the row with the same id.
    pub workflows: Vec<Workflow>,
    pub revisions: Vec<Revision>,
    /// Overrides to put or delete.
    pub overrides: Vec<OverrideWrite>,
    /// Parts that enter and leave worker queues, in the order of the decisions.
    pub queueing: Vec<(RunKey, Queueing)>,
    /// Approvals that are requested and withdrawn.
    pub approvals: Vec<ApprovalWrite>,
    /// Actions of deadlines that have been reached.
    pub alerts: Vec<AlertWrite>,
    /// Incidents that begin and end, in the order of the decisions.
    pub incidents: Vec<IncidentWrite>,
    /// Each topic at most once: new ones, and those whose counts or limit have changed.
    pub topics: Vec<TopicWrite>,
    /// Events, in the order of the decisions.
    pub events: Vec<EventWrite>,
    /// Each producer and consumer at most once.
    pub handlers: Vec<HandlerWrite>,
    /// Subscriptions by workflow. They replace all earlier subscriptions of the workflow.
    pub subscriptions: Vec<(WorkflowId, Vec<(TopicId, Subscriber)>)>,
    /// Parts that begin and stop waiting for an event, in the order of the decisions.
    pub waits: Vec<WaitWrite>,
    /// Mutations of the outside world. Each replaces the row of the same run.
    pub mutations: Vec<Mutation>,
    /// Dead nodes whose attempts have all been taken over.
    pub nodes_gone: Vec<NodeId>,
    pub recovered: Recovered,
    /// The workflow that delivers notifications, if the turn read it. Figures leave its runs out.
    pub notice_workflow: Option<WorkflowId>,
}

/// What downtime left behind, and what the engine did with it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// Occurrences that were due during the downtime and do not run.
    pub missed: u64,
    /// Occurrences that were due during the downtime and run, or wait to run.
    pub made_up: u64,
    /// Occurrences that were due during the downtime and were merged into others.
    pub coalesced: u64,
    /// Attempts of dead nodes that were taken over.
    pub taken_over: u64,
}

impl Recovered {
    /// Whether the downtime left nothing behind.
    pub fn is_nothing(self) -> bool {
        self == Recovered::default()
    }

    /// Counts the decision about an occurrence that was due while no node was running.
    pub(super) fn count(&mut self, entry: &Entry, awake_since: Timestamp) {
        if entry.effective >= awake_since {
            return;
        }
        match entry.outcome {
            Outcome::Missed => self.missed += entry.count,
            Outcome::Coalesced => self.coalesced += entry.count,
            Outcome::Started | Outcome::Moved | Outcome::Queued => self.made_up += entry.count,
            // Days off, overrides and overlap have nothing to do with downtime.
            Outcome::Skipped | Outcome::Dropped | Outcome::Failed => {}
        }
    }
}

impl std::ops::AddAssign for Recovered {
    fn add_assign(&mut self, more: Recovered) {
        self.missed += more.missed;
        self.made_up += more.made_up;
        self.coalesced += more.coalesced;
        self.taken_over += more.taken_over;
    }
}

/// A change to a topic.
#[derive(Debug)]
pub enum TopicWrite {
    Insert(Topic),
    /// The topic's counts or its limit have changed.
    Update(Topic),
}

/// A change to an event.
#[derive(Debug)]
pub enum EventWrite {
    Insert(Box<Event>),
    /// The event was published again, with this message.
    Say(EventKey, Message),
    /// The event has moved to another state.
    Move {
        before: EventState,
        after: EventStatus,
    },
}

/// A change to a producer or consumer.
#[derive(Debug)]
pub enum HandlerWrite {
    Insert(Box<Handler>),
    Update {
        after: Box<Handler>,
        /// When the handler's wakeup was due before this turn.
        old_due: Option<Timestamp>,
    },
    Delete {
        before: Box<Handler>,
    },
}

/// A change to the parts that wait for events.
#[derive(Debug)]
pub enum WaitWrite {
    /// This part of this run now waits for an event of this topic.
    Begin(TopicId, RunKey, Part),
    /// This part of this run waits no longer.
    End(RunKey, Part),
}

/// A change to the approvals that runs request.
#[derive(Debug)]
pub enum ApprovalWrite {
    /// The run asks for an approval, since this time.
    Ask(RunKey, Timestamp, Approval),
    /// The step with this index no longer asks for one.
    Withdraw(RunKey, u32),
}

/// An action of a deadline that was carried out.
#[derive(Debug)]
pub struct AlertWrite {
    pub run: RunKey,
    pub alert: Alert,
    pub at: Timestamp,
    /// How the run or step ended because of the deadline.
    pub end: Option<DeadlineEnd>,
    /// The runs that were started: to notify people, and as the deadline declares.
    pub started: Vec<RunKey>,
    /// Why a notification or run could not be started.
    pub refused: Option<String>,
}

/// The begin or end of an incident.
#[derive(Debug)]
pub enum IncidentWrite {
    Begin(Box<Incident>),
    End(IncidentKey, Box<IncidentEnd>),
}

/// A change to a schedule, with the earlier wakeup and status that the store needs.
#[derive(Debug)]
pub enum ScheduleWrite {
    Insert(Box<Schedule>),
    Update {
        after: Box<Schedule>,
        /// When the schedule's wakeup was due before this turn.
        old_wake: Option<Timestamp>,
        /// The earlier status, if the declaration or the status has changed; `None` if only
        /// progress has.
        old_status: Option<Status>,
        declared: bool,
    },
    Delete {
        before: Box<Schedule>,
    },
}

/// A change to a run, with the earlier wakeup and status that the store needs.
#[derive(Debug)]
pub enum RunWrite {
    Insert(Box<Run>),
    Update {
        after: Box<Run>,
        /// When the run's wakeup was due before this turn.
        old_wake: Option<Timestamp>,
        old_status: RunStatus,
    },
}

/// One revision of a workflow. It never changes once written.
#[derive(Debug)]
pub struct Revision {
    pub workflow: WorkflowId,
    /// The number of the revision, counted from 1.
    pub revision: u32,
    /// The text as it was submitted.
    pub source: String,
    /// The checked form of the text.
    pub definition: Arc<Definition>,
    /// The definitions folder of a node from which the text was read, if any.
    pub folder: Option<String>,
    pub created_at: Timestamp,
}

/// A change to an override.
#[derive(Debug)]
pub enum OverrideWrite {
    /// Replaces the override of the same occurrence.
    Put(ScheduleId, Override),
    /// Removes the override of the occurrence with this nominal time.
    Delete(ScheduleId, Timestamp),
}

/// Work to do after the commit. Doing it twice is harmless. If it is lost with its node, the
/// expired lease of that node brings it back.
#[derive(Clone, Debug)]
pub enum Effect {
    Perform(Box<Perform>),
    /// Hand a claimed attempt to the worker.
    Claimed {
        perform: Box<Perform>,
        /// The worker is presumed dead if it sends no heartbeat until then.
        lease_until: Timestamp,
    },
    /// Tell an attempt to end.
    Cancel {
        run: RunKey,
        token: u32,
    },
}

impl Effect {
    /// Whether the effect concerns this attempt.
    pub fn is_of(&self, of: RunKey, attempt: u32) -> bool {
        match self {
            Effect::Perform(perform) | Effect::Claimed { perform, .. } => {
                perform.run == of && perform.token == attempt
            }
            Effect::Cancel { run, token } => *run == of && *token == attempt,
        }
    }
}

/// An attempt to perform.
#[derive(Clone, Debug)]
pub struct Perform {
    pub run: RunKey,
    pub workflow: WorkflowId,
    pub run_id: RunId,
    pub definition: Arc<Definition>,
    /// The step, one of its items, or its compensation.
    pub part: Part,
    /// The number of the attempt, counted from 1.
    pub attempt: u32,
    /// The token that must accompany the report.
    pub token: u32,
    /// The run's input, as JSON.
    pub input: Arc<str>,
    /// The values for templates, if the step has any.
    pub scope: Option<Result<Box<Scope>, ExpressionError>>,
    /// The output of the attempt before this one, if it failed and returned something.
    pub earlier: Option<Box<RawValue>>,
    /// The mutation that the mutate phase asks for, if this part performs a consumer's mutation.
    pub mutation: Option<Box<RawValue>>,
    /// The handler whose run this is.
    pub handler: Option<String>,
    /// When the occurrence was due, if an occurrence started the run and this is its first attempt.
    pub due: Option<Timestamp>,
    /// The span that outside work belongs to: the attempt's if runs are traced, otherwise that of
    /// the caller who asked for the run.
    pub trace: Option<TraceContext>,
}

impl Perform {
    /// The step that this attempt belongs to.
    pub fn step(&self) -> &Step {
        &self.definition.steps[self.part.step as usize]
    }

    /// The action to perform: the step's, or its compensation's.
    pub fn action(&self) -> &Action {
        action_of(&self.definition, self.part).unwrap_or(&self.step().action)
    }

    /// The timeout of the attempt.
    pub fn timeout(&self) -> Option<jiff::SignedDuration> {
        let step = self.step();
        match (&step.compensation, self.part.item) {
            (Some(undoing), Item::Undoing) => undoing.timeout,
            _ => step.timeout,
        }
    }

    /// `{run}/{step}`, followed by the item number or `undo` where needed. It is the same for every
    /// attempt.
    pub fn idempotency_key(&self) -> String {
        let (run, step) = (&self.run_id, &self.step().id);
        match self.part.item {
            Item::Whole => format!("{run}/{step}"),
            Item::Undoing => format!("{run}/{step}/undo"),
            item => format!("{run}/{step}/{}", item.number()),
        }
    }
}

/// Something that happened, for observers such as pages, metrics and the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    Occurrence {
        schedule: ScheduleId,
        /// The number of the occurrence, or of the first one if there are several.
        n: u64,
        count: u64,
        outcome: Outcome,
    },
    /// A run has entered a status.
    Run {
        id: RunId,
        workflow: WorkflowId,
        schedule: Option<ScheduleId>,
        status: RunStatus,
    },
    /// A run has progressed in its steps without changing its status.
    Steps {
        run: RunId,
        workflow: WorkflowId,
        schedule: Option<ScheduleId>,
    },
    /// A schedule was created or changed, or has entered a status.
    Schedule {
        id: ScheduleId,
        /// `None` if the schedule was deleted.
        status: Option<Status>,
    },
    /// Something has happened to a schedule that people should know.
    Turning {
        schedule: ScheduleId,
        name: String,
        workflow: WorkflowId,
        turning: Turning,
    },
    /// Parts were queued for workers.
    Queued {
        queue: String,
        /// The number of newly queued parts.
        count: usize,
    },
    /// An instant of a deadline has been reached.
    Deadline {
        run: RunId,
        workflow: String,
        /// The step's id; `None` if the deadline is the run's.
        step: Option<String>,
        due: Timestamp,
        /// Why a notification or run was not started.
        refused: Option<String>,
    },
    Incident {
        key: IncidentKey,
        workflow: WorkflowId,
        schedule: Option<ScheduleId>,
        /// Whether the incident has begun rather than ended.
        is_open: bool,
        /// Each notification or run that was not started, with the reason.
        refused: Vec<String>,
    },
    Published {
        topic: TopicId,
        count: usize,
    },
    /// Events of a topic have been consumed.
    Consumed {
        topic: TopicId,
        count: usize,
    },
    /// An attempt of a step has written output. The node that performs it sends this notice.
    Output {
        run: RunId,
        step: String,
    },
    /// A producer or consumer has failed, and its workflow waits for a person.
    HandlersPaused {
        workflow: WorkflowId,
        name: String,
        reason: String,
    },
    /// A message about a deadline or an incident was not delivered and will not be retried.
    Undelivered {
        /// The run that was to deliver the message.
        run: RunId,
        subject: String,
        error: String,
    },
    Workflow {
        id: WorkflowId,
    },
}
