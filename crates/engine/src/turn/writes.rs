//! Everything a turn changes, as data: the store writes it in the same transaction.

use std::sync::Arc;

use jiff::Timestamp;
use language::definition::{Action, DeadlineEnd, Definition, Step};
use language::expression::{ExpressionError, Scope};
use serde_json::value::RawValue;

use super::book::Workflow;
use crate::handlers::{Handler, Mutation};
use crate::ids::{EventKey, IncidentKey, NodeId, RunId, RunKey, ScheduleId, TopicId, WorkflowId};
use crate::incidents::{Incident, IncidentEnd};
use crate::ledger::{Entry, Outcome};
use crate::run::{
    Alert, Approval, AttemptRecord, Item, Part, Queueing, Run, RunStatus, StepRecord, action_of,
};
use crate::schedule::{Override, Schedule, Status, Turning};
use crate::topics::Topic;
use crate::topics::{Event, EventState, Fate, Message, Subscriber};
use crate::trace::TraceContext;

/// What a turn changes.
#[derive(Debug, Default)]
pub struct Writes {
    /// Schedules, each once.
    pub schedules: Vec<ScheduleWrite>,
    /// Runs, each once.
    pub runs: Vec<RunWrite>,
    /// What became of steps, in place of the row of the same run, step and item.
    pub steps: Vec<(RunKey, StepRecord)>,
    /// Attempts that others follow.
    pub attempts: Vec<(RunKey, AttemptRecord)>,
    /// Ledger rows, in place of the row with the same schedule and number.
    pub ledger: Vec<Entry>,
    /// Workflows, in place of the row with the same id.
    pub workflows: Vec<Workflow>,
    /// New revisions.
    pub revisions: Vec<Revision>,
    /// Overrides: put, or taken away.
    pub overrides: Vec<OverrideWrite>,
    /// What workers find, and do not find any more, in the order in which it was decided.
    pub queueing: Vec<(RunKey, Queueing)>,
    /// What people are asked, and are not asked any more.
    pub approvals: Vec<ApprovalWrite>,
    /// What deadlines have brought about.
    pub alerts: Vec<AlertWrite>,
    /// Incidents that begin and end, in the order in which it was decided.
    pub incidents: Vec<IncidentWrite>,
    /// Topics, each once: new ones, and those whose counts have changed.
    pub topics: Vec<TopicWrite>,
    /// Events, in the order in which it was decided.
    pub events: Vec<EventWrite>,
    /// Producers and consumers, each once.
    pub handlers: Vec<HandlerWrite>,
    /// Who hears of what from now on, by workflow: in place of all that it heard of before.
    pub subscriptions: Vec<(WorkflowId, Vec<(TopicId, Subscriber)>)>,
    /// What waits for an event, and does not any more, in the order in which it was decided.
    pub waits: Vec<WaitWrite>,
    /// Mutations of the outside world, in place of the row of the same run.
    pub mutations: Vec<Mutation>,
    /// Nodes whose attempts are all taken over.
    pub nodes_gone: Vec<NodeId>,
    /// What was found after downtime.
    pub recovered: Recovered,
}

/// What was found after downtime, and what became of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// Occurrences that were due meanwhile and do not run.
    pub missed: u64,
    /// Occurrences that were due meanwhile and run, or wait to.
    pub made_up: u64,
    /// Occurrences that were due meanwhile and were merged into others.
    pub coalesced: u64,
    /// Attempts of nodes that are gone, which were taken over.
    pub taken_over: u64,
}

impl Recovered {
    /// Whether nothing was found.
    pub fn is_nothing(self) -> bool {
        self == Recovered::default()
    }

    /// A decision about an occurrence, if it was due while nobody was awake.
    pub(super) fn count(&mut self, entry: &Entry, awake_since: Timestamp) {
        if entry.effective >= awake_since {
            return;
        }
        match entry.outcome {
            Outcome::Missed => self.missed += entry.count,
            Outcome::Coalesced => self.coalesced += entry.count,
            Outcome::Started | Outcome::Moved | Outcome::Queued => self.made_up += entry.count,
            // Days off, overrides, overlap: nothing that downtime has brought about.
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

/// A change of a topic.
#[derive(Debug)]
pub enum TopicWrite {
    /// It is new.
    Insert(Topic),
    /// Its counts or its limit have changed.
    Update(Topic),
}

/// A change of an event.
#[derive(Debug)]
pub enum EventWrite {
    /// It is new.
    Insert(Box<Event>),
    /// It was published again: it says this now.
    Say(EventKey, Message),
    /// It has come to another state.
    Move {
        /// Where it stood.
        before: EventState,
        /// Where it stands.
        after: Fate,
    },
}

/// A change of a handler.
#[derive(Debug)]
pub enum HandlerWrite {
    /// It is new.
    Insert(Box<Handler>),
    /// It has come further.
    Update {
        /// As it is now.
        after: Box<Handler>,
        /// When it was to be looked at.
        old_due: Option<Timestamp>,
    },
    /// It is gone.
    Delete {
        /// As it was.
        before: Box<Handler>,
    },
}

/// A change of what waits for events.
#[derive(Debug)]
pub enum WaitWrite {
    /// This part of this run waits for an event of this topic.
    Begin(TopicId, RunKey, Part),
    /// It does not any more.
    End(RunKey, Part),
}

/// A change of what people are asked.
#[derive(Debug)]
pub enum ApprovalWrite {
    /// By this run, since then.
    Ask(RunKey, Timestamp, Approval),
    /// By this run's step, not any more.
    Withdraw(RunKey, u32),
}

/// What a deadline has brought about.
#[derive(Debug)]
pub struct AlertWrite {
    /// Of which run.
    pub run: RunKey,
    /// What.
    pub alert: Alert,
    /// When it happened.
    pub at: Timestamp,
    /// What became of the run or step.
    pub end: Option<DeadlineEnd>,
    /// The runs that were started to tell people, and as the deadline says.
    pub started: Vec<RunKey>,
    /// Why nothing could be started.
    pub refused: Option<String>,
}

/// A change of an incident.
#[derive(Debug)]
pub enum IncidentWrite {
    /// It begins.
    Begin(Box<Incident>),
    /// It ends.
    End(IncidentKey, Box<IncidentEnd>),
}

/// A change of a schedule.
#[derive(Debug)]
pub enum ScheduleWrite {
    /// It is new.
    Insert(Box<Schedule>),
    /// It has come further.
    Update {
        /// As it is now.
        after: Box<Schedule>,
        /// When it was to be looked at.
        old_wake: Option<Timestamp>,
        /// Where it stood, if the declaration or status has changed: else only progress has.
        old_status: Option<Status>,
        /// Whether the declaration has changed.
        declared: bool,
    },
    /// It is gone.
    Delete {
        /// As it was.
        before: Box<Schedule>,
    },
}

/// A change of a run.
#[derive(Debug)]
pub enum RunWrite {
    /// It is new.
    Insert(Box<Run>),
    /// It has come further.
    Update {
        /// As it is now.
        after: Box<Run>,
        /// When it was to be looked at.
        old_wake: Option<Timestamp>,
        /// Where it stood.
        old_status: RunStatus,
    },
}

/// One version of a workflow, never changed once written.
#[derive(Debug)]
pub struct Revision {
    /// Of which workflow.
    pub workflow: WorkflowId,
    /// Which, counted from 1.
    pub revision: u32,
    /// The text as it came.
    pub source: String,
    /// What it means.
    pub definition: Arc<Definition>,
    /// The folder of a node that it comes from, if it comes from one.
    pub folder: Option<String>,
    /// When.
    pub created_at: Timestamp,
}

/// A change of an override.
#[derive(Debug)]
pub enum OverrideWrite {
    /// In place of the one for the same occurrence.
    Put(ScheduleId, Override),
    /// It is withdrawn.
    Delete(ScheduleId, Timestamp),
}

/// What is to be done after the commit. Doing one twice is harmless; one that is lost is found again
/// by the lease of the node it was for.
#[derive(Clone, Debug)]
pub enum Effect {
    /// Perform an attempt.
    Perform(Box<Perform>),
    /// A worker has taken an attempt: it is told what to do.
    Claimed {
        /// What that is.
        perform: Box<Perform>,
        /// It is taken for dead if it is not heard of until then.
        lease_until: Timestamp,
    },
    /// Tell an attempt to end.
    Cancel {
        /// Of which run.
        run: RunKey,
        /// Which attempt.
        token: u32,
    },
}

impl Effect {
    /// Whether it is about this attempt.
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
    /// Of which run.
    pub run: RunKey,
    /// What the run is called.
    pub run_id: RunId,
    /// The definition.
    pub definition: Arc<Definition>,
    /// The step, its item, or what undoes it.
    pub part: Part,
    /// Which attempt it is, from 1.
    pub attempt: u32,
    /// The attempt's token, to be given with the report.
    pub token: u32,
    /// The run's input, JSON.
    pub input: Arc<str>,
    /// What templates are filled in with, if there are any.
    pub scope: Option<Result<Box<Scope>, ExpressionError>>,
    /// What the attempt before this one gave, if it failed and gave something.
    pub earlier: Option<Box<RawValue>>,
    /// What the phase before asks for, if the part is a consumer's mutation.
    pub mutation: Option<Box<RawValue>>,
    /// The handler whose run it is.
    pub handler: Option<String>,
    /// When the occurrence was due, if the run is born from one and this is its first attempt.
    pub due: Option<Timestamp>,
    /// The span that what is done outside is part of: the attempt's, if runs are traced; else that of whoever asked
    /// for the run.
    pub trace: Option<TraceContext>,
}

impl Perform {
    /// The step it is of.
    pub fn step(&self) -> &Step {
        &self.definition.steps[self.part.step as usize]
    }

    /// What to do.
    pub fn action(&self) -> &Action {
        action_of(&self.definition, self.part).unwrap_or(&self.step().action)
    }

    /// How long it may take.
    pub fn timeout(&self) -> Option<jiff::SignedDuration> {
        let step = self.step();
        match (&step.compensation, self.part.item) {
            (Some(undoing), Item::Undoing) => undoing.timeout,
            _ => step.timeout,
        }
    }

    /// `{run}/{step}`, with what else there is to tell it from others: the same for every attempt.
    pub fn idempotency_key(&self) -> String {
        let (run, step) = (&self.run_id, &self.step().id);
        match self.part.item {
            Item::Whole => format!("{run}/{step}"),
            Item::Undoing => format!("{run}/{step}/undo"),
            item => format!("{run}/{step}/{}", item.number()),
        }
    }
}

/// Something that happened, for those who watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// An occurrence was decided.
    Occurrence {
        /// Of which schedule.
        schedule: ScheduleId,
        /// Which; of several, the first.
        n: u64,
        /// How many.
        count: u64,
        /// What became of it.
        outcome: Outcome,
    },
    /// A run has come to a status.
    Run {
        /// Which.
        id: RunId,
        /// Of which workflow.
        workflow: WorkflowId,
        /// Of which schedule.
        schedule: Option<ScheduleId>,
        /// Where it stands.
        status: RunStatus,
    },
    /// A run whose status stays has come further in its steps.
    Steps {
        /// Which.
        run: RunId,
        /// Of which workflow.
        workflow: WorkflowId,
        /// Of which schedule.
        schedule: Option<ScheduleId>,
    },
    /// A schedule was created, changed or has come to a status.
    Schedule {
        /// Which.
        id: ScheduleId,
        /// Where it stands; nothing if it is gone.
        status: Option<Status>,
    },
    /// A schedule has taken a turn that people should hear of.
    Turning {
        /// Which.
        schedule: ScheduleId,
        /// What it is called.
        name: String,
        /// What it starts.
        workflow: WorkflowId,
        /// What has happened.
        turning: Turning,
    },
    /// Something waits for a worker.
    Queued {
        /// In which queue.
        queue: String,
        /// How much of it is new.
        count: usize,
    },
    /// The instant of a deadline has come.
    Deadline {
        /// Of which run.
        run: RunId,
        /// Of which workflow, by name.
        workflow: String,
        /// Of which step, by its id; of the run, if nothing.
        step: Option<String>,
        /// When the deadline is.
        due: Timestamp,
        /// Why somebody was not told, or something not started.
        refused: Option<String>,
    },
    /// An incident has begun or ended.
    Incident {
        /// Which.
        key: IncidentKey,
        /// Of which workflow.
        workflow: WorkflowId,
        /// Of which schedule.
        schedule: Option<ScheduleId>,
        /// Whether it has begun.
        is_open: bool,
        /// Who was not told, or what was not started, and why.
        refused: Vec<String>,
    },
    /// Events were published to a topic.
    Published {
        /// Which.
        topic: TopicId,
        /// How many.
        count: usize,
    },
    /// Events of a topic are done with.
    Consumed {
        /// Which.
        topic: TopicId,
        /// How many.
        count: usize,
    },
    /// What is performed for a step says something: told by the node that performs it.
    Output {
        /// Of which run.
        run: RunId,
        /// Of which step, by its id.
        step: String,
    },
    /// A producer or consumer failed, and the workflow waits for a person.
    HandlersPaused {
        /// Which workflow.
        workflow: WorkflowId,
        /// Its name.
        name: String,
        /// Why.
        reason: String,
    },
    /// A message about a deadline or an incident was not delivered, and is not tried again.
    Undelivered {
        /// The run that was to deliver it.
        run: RunId,
        /// What it is about.
        subject: String,
        /// Why it was not delivered.
        error: String,
    },
    /// A workflow was changed.
    Workflow {
        /// Which.
        id: WorkflowId,
    },
}
