//! The read interface that the store offers to the engine while it decides.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use language::definition::Definition;
use serde::{Deserialize, Serialize};

use crate::handlers::Handler;
use crate::ids::{
    EventKey, HandlerId, IncidentKey, NodeId, RunId, RunKey, ScheduleId, TopicId, WorkflowId,
};
use crate::incidents::Incident;
use crate::run::{Item, Part, Run, StepRecord};
use crate::schedule::{Override, Schedule};
use crate::topics::{Event, EventStatus, Subscriber, Topic};

/// A stored value that must exist or hold does not: the store is damaged, or the engine has a bug.
/// The store sets the entity that was being decided aside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damaged(pub String);

/// Reads inside the transaction that will hold the writes. Each answer is as of the beginning of
/// the transaction; the turn itself remembers what it has changed since.
pub trait TransactionReader {
    /// The reason why a value cannot be read, or is not as it must be.
    type Error: From<Damaged>;

    /// Whether an error is about one stored value that cannot be read, so that others still can.
    fn is_unreadable(error: &Self::Error) -> bool;

    /// The schedule with this id; `None` if it does not exist.
    fn schedule(&mut self, id: ScheduleId) -> Result<Option<Box<Schedule>>, Self::Error>;
    /// The overrides of a schedule's occurrences.
    fn overrides(&mut self, id: ScheduleId) -> Result<Vec<Override>, Self::Error>;
    /// Of the given nominal times, those whose occurrences have run or wait to run, according to
    /// the ledger.
    fn ran_of(
        &mut self,
        id: ScheduleId,
        nominal: &[Timestamp],
    ) -> Result<Vec<Timestamp>, Self::Error>;
    /// The schedules that a workflow's triggers declare.
    fn triggered_schedules(&mut self, id: WorkflowId) -> Result<Vec<Box<Schedule>>, Self::Error>;
    /// The ids of all schedules of a workflow.
    fn schedules_of(&mut self, id: WorkflowId) -> Result<Vec<ScheduleId>, Self::Error>;
    /// The workflow with this id; `None` if it does not exist.
    fn workflow(&mut self, id: WorkflowId) -> Result<Option<Workflow>, Self::Error>;
    /// The workflow with this name.
    fn workflow_named(&mut self, name: &str) -> Result<Option<WorkflowId>, Self::Error>;
    /// One revision of a workflow.
    fn definition(
        &mut self,
        id: WorkflowId,
        revision: u32,
    ) -> Result<Option<Arc<Definition>>, Self::Error>;
    /// One revision of a workflow; `None` also if it is stored but cannot be read. For callers that
    /// replace the revision or can do without it.
    fn definition_if_readable(
        &mut self,
        id: WorkflowId,
        revision: u32,
    ) -> Result<Option<Arc<Definition>>, Self::Error> {
        let read = self.definition(id, revision);
        read.or_else(|error| if Self::is_unreadable(&error) { Ok(None) } else { Err(error) })
    }
    /// The run with this key; `None` if it does not exist.
    fn run(&mut self, key: RunKey) -> Result<Option<Box<Run>>, Self::Error>;
    /// A run; `None` also if it is stored but cannot be read. For callers that can do without it.
    fn run_if_readable(&mut self, key: RunKey) -> Result<Option<Box<Run>>, Self::Error> {
        let read = self.run(key);
        read.or_else(|error| if Self::is_unreadable(&error) { Ok(None) } else { Err(error) })
    }
    /// The run with this id.
    fn run_key(&mut self, id: &RunId) -> Result<Option<RunKey>, Self::Error>;
    /// The oldest pending run of each workflow that has one, ordered by workflow id, starting after
    /// `after`.
    fn pending(
        &mut self,
        after: Option<WorkflowId>,
        limit: usize,
    ) -> Result<Vec<(WorkflowId, RunKey)>, Self::Error>;
    /// The pending runs of one workflow after this run, oldest first.
    fn pending_after(
        &mut self,
        workflow: WorkflowId,
        after: RunKey,
        limit: usize,
    ) -> Result<Vec<RunKey>, Self::Error>;
    /// The pending runs of the workflow's producers and consumers, oldest first.
    fn pending_of_handlers(
        &mut self,
        workflow: WorkflowId,
        limit: usize,
    ) -> Result<Vec<RunKey>, Self::Error>;
    /// The pending runs of a paused workflow that do not wait for its resumption, oldest first:
    /// those of handlers, and those whose origin is not in `TriggeredBy::HELD_BY_PAUSE`.
    fn pending_while_paused(
        &mut self,
        workflow: WorkflowId,
        limit: usize,
    ) -> Result<Vec<RunKey>, Self::Error>;
    /// Runs that have begun and wait for a free slot to continue, oldest first, without those of
    /// the workflows in `except`. Only the oldest ten thousand are looked at.
    fn ready(&mut self, except: &[WorkflowId], limit: usize) -> Result<Vec<RunKey>, Self::Error>;
    /// The runs of a workflow that have begun and not ended.
    fn active_runs(&mut self, id: WorkflowId, limit: usize) -> Result<Vec<RunKey>, Self::Error>;
    /// Whether the turn has read so much beyond what was loaded first that it should end. The next
    /// turn starts the runs that this one leaves pending.
    fn is_exhausted(&self) -> bool {
        false
    }
    /// Runs with an attempt that this node performs.
    fn owned_by(&mut self, node: NodeId, limit: usize) -> Result<Vec<RunKey>, Self::Error>;
    /// The number of descendants of this run, counted up to `limit`.
    fn descendants(&mut self, root: RunKey, limit: usize) -> Result<usize, Self::Error>;
    /// The record of one part of a step.
    fn step_record(
        &mut self,
        run: RunKey,
        step: u32,
        item: Item,
    ) -> Result<Option<StepRecord>, Self::Error>;
    /// The records of all steps of a run.
    fn step_records(&mut self, run: RunKey) -> Result<Vec<StepRecord>, Self::Error>;
    /// Parts that wait for a worker in one of these queues, oldest first.
    fn queued(
        &mut self,
        queues: &[String],
        limit: usize,
    ) -> Result<Vec<(RunKey, Part)>, Self::Error>;
    /// A topic. No other transaction changes it or publishes to it until this one has ended.
    fn topic(&mut self, id: TopicId) -> Result<Option<Topic>, Self::Error>;
    /// The topic with this name: the workflow's own, or the shared one if `workflow` is `None`.
    fn topic_named(
        &mut self,
        workflow: Option<WorkflowId>,
        name: &str,
    ) -> Result<Option<TopicId>, Self::Error>;
    /// The state of the events with these message ids, in the order of the ids.
    fn event_statuses(
        &mut self,
        topic: TopicId,
        message_ids: &[String],
    ) -> Result<Vec<Option<EventStatus>>, Self::Error>;
    /// The events that this run has reserved.
    fn reserved_by(&mut self, run: RunKey) -> Result<Vec<EventStatus>, Self::Error>;
    /// The event with this key; `None` if it does not exist, or its message cannot be read.
    fn event(&mut self, key: EventKey) -> Result<Option<Event>, Self::Error>;
    /// The oldest pending events of a topic, by time of publication. Those whose message cannot be
    /// read are left out.
    fn pending_events(&mut self, topic: TopicId, limit: usize) -> Result<Vec<Event>, Self::Error>;
    /// The keys and publication times of the oldest pending events, without their messages.
    fn oldest_pending(
        &mut self,
        topic: TopicId,
        limit: usize,
    ) -> Result<Vec<(EventKey, Timestamp)>, Self::Error>;
    /// The consumers and triggers that subscribe to a topic.
    fn subscribers(&mut self, topic: TopicId) -> Result<Vec<Subscriber>, Self::Error>;
    /// Parts of runs that wait for an event of a topic, oldest run first, starting after `after`.
    fn waiting_for(
        &mut self,
        topic: TopicId,
        after: Option<(RunKey, Part)>,
        limit: usize,
    ) -> Result<Vec<(RunKey, Part)>, Self::Error>;
    /// A producer or consumer.
    fn handler(&mut self, id: HandlerId) -> Result<Option<Handler>, Self::Error>;
    /// The ids of a workflow's producers and consumers, in order.
    fn handlers_of(&mut self, id: WorkflowId) -> Result<Vec<HandlerId>, Self::Error>;
    /// The incident with this key; `None` if it does not exist.
    fn incident(&mut self, key: IncidentKey) -> Result<Option<Incident>, Self::Error>;
    /// A new key, greater than all keys given before.
    fn new_incident_key(&mut self) -> IncidentKey;
    /// A new key, greater than all keys given before.
    fn new_event_key(&mut self) -> EventKey;
    /// A new id that was never used before.
    fn new_topic_id(&mut self) -> TopicId;
    /// A new id that was never used before.
    fn new_handler_id(&mut self) -> HandlerId;
    /// A new key, greater than all keys given before.
    fn new_run_key(&mut self) -> RunKey;
    /// A new id that was never used before.
    fn new_schedule_id(&mut self) -> ScheduleId;
    /// A new id that was never used before.
    fn new_workflow_id(&mut self) -> WorkflowId;
}

/// The status of a workflow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkflowStatus {
    /// No revision has been published yet.
    Draft,
    /// One revision is live.
    Published,
    /// Out of use: its schedules are deleted, its history stays.
    Archived,
}

impl WorkflowStatus {
    /// Every status, in the order of their stored numbers.
    pub const ALL: [WorkflowStatus; 3] =
        [WorkflowStatus::Draft, WorkflowStatus::Published, WorkflowStatus::Archived];

    /// The name in the API and on pages.
    pub fn name(self) -> &'static str {
        match self {
            WorkflowStatus::Draft => "draft",
            WorkflowStatus::Published => "published",
            WorkflowStatus::Archived => "archived",
        }
    }
}

/// A workflow across all its revisions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workflow {
    pub id: WorkflowId,
    pub name: String,
    pub status: WorkflowStatus,
    /// A person or a failed handler has paused it: only runs that people start begin.
    pub paused: bool,
    /// The reason, if one is known.
    pub paused_reason: Option<String>,
    /// The run that must be resolved before the workflow continues, if it is paused for one.
    pub paused_by: Option<RunKey>,
    /// The handler run that is active or next. A workflow has at most one at a time.
    pub handling: Option<RunKey>,
    /// The newest revision, counted from 1.
    pub newest: u32,
    /// The revision that new runs use.
    pub live: Option<u32>,
    /// The maximum number of active runs.
    pub concurrency: Option<u32>,
    /// The number of active runs, counted only where `concurrency` limits them.
    pub active: u32,
    /// How long its runs are kept, if its definition says so.
    pub retention: Option<SignedDuration>,
    /// The open incident: a run that no schedule started has failed, and none has succeeded since.
    pub incident: Option<IncidentKey>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}
