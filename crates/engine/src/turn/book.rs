//! What the engine may ask of the truth while it decides.

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
use crate::topics::{Event, Fate, Subscriber, Topic};

/// Something that has to be there or to hold, and does not: what is stored is damaged, or the engine has a mistake. The
/// thing that was being decided is set aside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damaged(pub String);

/// Reads inside of the transaction that will hold the writes. Each answer is as of the transaction's
/// beginning; the turn remembers what it has changed since.
pub trait Book {
    /// Why something cannot be read, or is not as it has to be.
    type Error: From<Damaged>;

    /// A schedule.
    fn schedule(&mut self, id: ScheduleId) -> Result<Option<Box<Schedule>>, Self::Error>;
    /// What was overridden of a schedule.
    fn overrides(&mut self, id: ScheduleId) -> Result<Vec<Override>, Self::Error>;
    /// Those of these nominal times of a schedule whose occurrences have run, or wait to, as far as the ledger knows.
    fn ran_of(
        &mut self,
        id: ScheduleId,
        nominal: &[Timestamp],
    ) -> Result<Vec<Timestamp>, Self::Error>;
    /// The schedules that a workflow's triggers declare.
    fn triggered_schedules(&mut self, id: WorkflowId) -> Result<Vec<Box<Schedule>>, Self::Error>;
    /// All schedules of a workflow, ids only.
    fn schedules_of(&mut self, id: WorkflowId) -> Result<Vec<ScheduleId>, Self::Error>;
    /// A workflow.
    fn workflow(&mut self, id: WorkflowId) -> Result<Option<Workflow>, Self::Error>;
    /// The workflow with this name.
    fn workflow_named(&mut self, name: &str) -> Result<Option<WorkflowId>, Self::Error>;
    /// One version of a workflow.
    fn definition(
        &mut self,
        id: WorkflowId,
        revision: u32,
    ) -> Result<Option<Arc<Definition>>, Self::Error>;
    /// One version of a workflow; nothing as well if it is stored and cannot be read. For whoever replaces it, or
    /// does without it.
    fn definition_if_readable(
        &mut self,
        id: WorkflowId,
        revision: u32,
    ) -> Result<Option<Arc<Definition>>, Self::Error> {
        self.definition(id, revision)
    }
    /// A run.
    fn run(&mut self, key: RunKey) -> Result<Option<Box<Run>>, Self::Error>;
    /// A run; nothing as well if it is stored and cannot be read. For whoever does without it.
    fn run_if_readable(&mut self, key: RunKey) -> Result<Option<Box<Run>>, Self::Error> {
        self.run(key)
    }
    /// The run with this id.
    fn run_key(&mut self, id: &RunId) -> Result<Option<RunKey>, Self::Error>;
    /// The oldest pending run of each workflow that has one, by workflow id, beginning after `after`.
    fn pending(
        &mut self,
        after: Option<WorkflowId>,
        limit: usize,
    ) -> Result<Vec<(WorkflowId, RunKey)>, Self::Error>;
    /// The pending runs of one workflow that come after this one, oldest first.
    fn pending_after(
        &mut self,
        workflow: WorkflowId,
        after: RunKey,
        limit: usize,
    ) -> Result<Vec<RunKey>, Self::Error>;
    /// The workflow's pending runs that are a producer's or consumer's, oldest first.
    fn pending_of_handlers(
        &mut self,
        workflow: WorkflowId,
        limit: usize,
    ) -> Result<Vec<RunKey>, Self::Error>;
    /// The runs that have begun and wait for a place to go on, oldest first.
    fn ready(&mut self, limit: usize) -> Result<Vec<RunKey>, Self::Error>;
    /// The workflow's runs that have begun and not ended.
    fn active_runs(&mut self, id: WorkflowId, limit: usize) -> Result<Vec<RunKey>, Self::Error>;
    /// Whether so much was read beside what was loaded at first that the turn should come to its end: what else could
    /// begin is left for the next one.
    fn is_exhausted(&self) -> bool {
        false
    }
    /// The runs with an attempt of this node.
    fn owned_by(&mut self, node: NodeId, limit: usize) -> Result<Vec<RunKey>, Self::Error>;
    /// How many runs descend from this one, counted up to `limit`.
    fn descendants(&mut self, root: RunKey, limit: usize) -> Result<usize, Self::Error>;
    /// What became of a part of a step.
    fn step_record(
        &mut self,
        run: RunKey,
        step: u32,
        item: Item,
    ) -> Result<Option<StepRecord>, Self::Error>;
    /// What became of all steps of a run.
    fn step_records(&mut self, run: RunKey) -> Result<Vec<StepRecord>, Self::Error>;
    /// What waits for a worker in one of these queues, the oldest first.
    fn queued(
        &mut self,
        queues: &[String],
        limit: usize,
    ) -> Result<Vec<(RunKey, Part)>, Self::Error>;
    /// A topic. Nobody else changes it, or publishes to it, until this transaction has ended.
    fn topic(&mut self, id: TopicId) -> Result<Option<Topic>, Self::Error>;
    /// The topic of this name: of this workflow, or the shared one.
    fn topic_named(
        &mut self,
        workflow: Option<WorkflowId>,
        name: &str,
    ) -> Result<Option<TopicId>, Self::Error>;
    /// What has become of the events with these message ids, in their order.
    fn fates(
        &mut self,
        topic: TopicId,
        message_ids: &[String],
    ) -> Result<Vec<Option<Fate>>, Self::Error>;
    /// The events that a run has reserved.
    fn reserved_by(&mut self, run: RunKey) -> Result<Vec<Fate>, Self::Error>;
    /// An event.
    fn event(&mut self, key: EventKey) -> Result<Option<Event>, Self::Error>;
    /// The oldest pending events of a topic, by when they were published.
    fn pending_events(&mut self, topic: TopicId, limit: usize) -> Result<Vec<Event>, Self::Error>;
    /// The same without what they say: places and when they were published.
    fn oldest_pending(
        &mut self,
        topic: TopicId,
        limit: usize,
    ) -> Result<Vec<(EventKey, Timestamp)>, Self::Error>;
    /// Who hears of the events of a topic.
    fn subscribers(&mut self, topic: TopicId) -> Result<Vec<Subscriber>, Self::Error>;
    /// The parts of runs that wait for an event of a topic, the oldest run first.
    fn waiting_for(
        &mut self,
        topic: TopicId,
        after: Option<(RunKey, Part)>,
        limit: usize,
    ) -> Result<Vec<(RunKey, Part)>, Self::Error>;
    /// A producer or consumer.
    fn handler(&mut self, id: HandlerId) -> Result<Option<Handler>, Self::Error>;
    /// The producers and consumers of a workflow, by id.
    fn handlers_of(&mut self, id: WorkflowId) -> Result<Vec<HandlerId>, Self::Error>;
    /// An incident.
    fn incident(&mut self, key: IncidentKey) -> Result<Option<Incident>, Self::Error>;
    /// A key that was never given before, greater than all before.
    fn new_incident_key(&mut self) -> IncidentKey;
    /// A key that was never given before, greater than all before.
    fn new_event_key(&mut self) -> EventKey;
    /// An id that was never given before.
    fn new_topic_id(&mut self) -> TopicId;
    /// An id that was never given before.
    fn new_handler_id(&mut self) -> HandlerId;
    /// A key that was never given before, greater than all before.
    fn new_run_key(&mut self) -> RunKey;
    /// An id that was never given before.
    fn new_schedule_id(&mut self) -> ScheduleId;
    /// An id that was never given before.
    fn new_workflow_id(&mut self) -> WorkflowId;
}

/// Where a workflow stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkflowStatus {
    /// No version was published yet.
    Draft,
    /// A version is live.
    Published,
    /// Out of use: its schedules are gone, its history stays.
    Archived,
}

impl WorkflowStatus {
    /// Every status, in the order of their stored numbers.
    pub const ALL: [WorkflowStatus; 3] =
        [WorkflowStatus::Draft, WorkflowStatus::Published, WorkflowStatus::Archived];

    /// As it is shown.
    pub fn name(self) -> &'static str {
        match self {
            WorkflowStatus::Draft => "draft",
            WorkflowStatus::Published => "published",
            WorkflowStatus::Archived => "archived",
        }
    }
}

/// A workflow over all its versions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workflow {
    /// Its id.
    pub id: WorkflowId,
    /// Its name.
    pub name: String,
    /// Where it stands.
    pub status: WorkflowStatus,
    /// Someone or something has paused it: nothing starts but by hand.
    pub paused: bool,
    /// Why, if something did or somebody said.
    pub paused_reason: Option<String>,
    /// The run that it waits for to be settled, if it is paused for that.
    pub paused_by: Option<RunKey>,
    /// The run of one of its handlers that has its turn: there is only one at a time.
    pub handling: Option<RunKey>,
    /// The newest revision, counted from 1.
    pub newest: u32,
    /// The revision that new runs use.
    pub live: Option<u32>,
    /// How many of its runs may be active at a time.
    pub concurrency: Option<u32>,
    /// How many are, where that is limited.
    pub active: u32,
    /// How long its runs are kept, if it says so itself.
    pub retention: Option<SignedDuration>,
    /// The incident that is open: a run that no schedule started has failed, and none has succeeded since.
    pub incident: Option<IncidentKey>,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it was last changed.
    pub updated_at: Timestamp,
}
