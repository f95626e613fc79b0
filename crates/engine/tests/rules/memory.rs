//! The store of the small world: everything is in memory, and nothing can fail.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use engine::handlers::Handler;
use engine::incidents::Incident;
use engine::ledger::{Entry, Outcome};
use engine::run::{Approval, Item, Part, Run, RunStatus, StepRecord, TriggeredBy};
use engine::schedule::{Override, Schedule};
use engine::topics::{Event, EventState, EventStatus, Subscriber, Topic};
use engine::turn::{AlertWrite, Damaged, TransactionReader, Workflow};
use engine::{
    EventKey, HandlerId, IncidentKey, NodeId, RunId, RunKey, ScheduleId, TopicId, WorkflowId,
};
use jiff::Timestamp;
use language::definition::Definition;

use super::topics::Topics;

/// What panics when the engine asks for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Planted {
    OverridesOf(ScheduleId),
    Topic(TopicId),
}

#[derive(Default)]
pub(crate) struct Memory {
    pub(crate) planted: Option<Planted>,
    /// How many times a turn has asked for the workflows with pending runs.
    pub(crate) pending_asked: usize,
    pub(crate) schedules: BTreeMap<ScheduleId, Schedule>,
    pub(crate) runs: BTreeMap<RunKey, Run>,
    pub(crate) workflows: BTreeMap<WorkflowId, Workflow>,
    pub(crate) ledger: BTreeMap<(ScheduleId, u64), Entry>,
    pub(crate) records: BTreeMap<(RunKey, u32, i32), StepRecord>,
    pub(crate) queue: BTreeSet<(String, RunKey, Part)>,
    pub(crate) approvals: BTreeMap<(RunKey, u32), Approval>,
    pub(crate) alerts: Vec<AlertWrite>,
    pub(crate) incidents: BTreeMap<IncidentKey, Incident>,
    pub(crate) definitions: BTreeMap<(WorkflowId, u32), Arc<Definition>>,
    pub(crate) overrides: BTreeMap<(ScheduleId, Timestamp), Override>,
    pub(crate) topics: Topics,
    /// How many descendants each family has besides the stored ones.
    pub(crate) descendants_besides: usize,
    pub(crate) last: i64,
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

impl TransactionReader for Memory {
    type Error = Damaged;

    fn is_unreadable(_: &Damaged) -> bool {
        false
    }

    fn schedule(&mut self, id: ScheduleId) -> Result<Option<Box<Schedule>>, Damaged> {
        Ok(self.schedules.get(&id).cloned().map(Box::new))
    }

    fn overrides(&mut self, id: ScheduleId) -> Result<Vec<Override>, Damaged> {
        assert_ne!(self.planted, Some(Planted::OverridesOf(id)));
        let all = self.overrides.iter().filter(|((schedule, _), _)| *schedule == id);
        Ok(all.map(|(_, over)| over.clone()).collect())
    }

    fn triggered_schedules(&mut self, id: WorkflowId) -> Result<Vec<Box<Schedule>>, Damaged> {
        let all = self.schedules.values().filter(|s| s.workflow == id && s.declared_by.is_some());
        Ok(all.cloned().map(Box::new).collect())
    }

    fn schedules_of(&mut self, id: WorkflowId) -> Result<Vec<ScheduleId>, Damaged> {
        Ok(self.schedules.values().filter(|s| s.workflow == id).map(|s| s.id).collect())
    }

    fn workflow(&mut self, id: WorkflowId) -> Result<Option<Workflow>, Damaged> {
        Ok(self.workflows.get(&id).cloned())
    }

    fn workflow_named(&mut self, name: &str) -> Result<Option<WorkflowId>, Damaged> {
        Ok(self.workflows.values().find(|workflow| workflow.name == name).map(|w| w.id))
    }

    fn definition(
        &mut self,
        id: WorkflowId,
        revision: u32,
    ) -> Result<Option<Arc<Definition>>, Damaged> {
        Ok(self.definitions.get(&(id, revision)).cloned())
    }

    fn run(&mut self, key: RunKey) -> Result<Option<Box<Run>>, Damaged> {
        Ok(self.runs.get(&key).cloned().map(Box::new))
    }

    fn run_key(&mut self, id: &RunId) -> Result<Option<RunKey>, Damaged> {
        Ok(self.runs.values().find(|run| run.id == *id).map(|run| run.key))
    }

    fn pending(
        &mut self,
        after: Option<WorkflowId>,
        limit: usize,
    ) -> Result<Vec<(WorkflowId, RunKey)>, Damaged> {
        self.pending_asked += 1;
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
    ) -> Result<Vec<RunKey>, Damaged> {
        let all = Memory::pending(self).filter(|run| run.workflow == workflow && run.key > after);
        Ok(all.map(|run| run.key).take(limit).collect())
    }

    fn pending_of_handlers(
        &mut self,
        workflow: WorkflowId,
        limit: usize,
    ) -> Result<Vec<RunKey>, Damaged> {
        let all = Memory::pending(self).filter(|run| run.workflow == workflow);
        Ok(all.filter(|run| run.handler.is_some()).map(|run| run.key).take(limit).collect())
    }

    fn pending_while_paused(
        &mut self,
        workflow: WorkflowId,
        limit: usize,
    ) -> Result<Vec<RunKey>, Damaged> {
        let held = TriggeredBy::HELD_BY_PAUSE;
        let all = Memory::pending(self).filter(|run| run.workflow == workflow);
        let all = all.filter(|run| run.handler.is_some() || !held.contains(&run.triggered_by));
        Ok(all.map(|run| run.key).take(limit).collect())
    }

    fn ready(&mut self, except: &[WorkflowId], limit: usize) -> Result<Vec<RunKey>, Damaged> {
        let is_ready = |run: &&Run| run.is_ready() && !except.contains(&run.workflow);
        let ready = self.runs.values().filter(is_ready);
        Ok(ready.map(|run| run.key).take(limit).collect())
    }

    fn active_runs(&mut self, id: WorkflowId, limit: usize) -> Result<Vec<RunKey>, Damaged> {
        let active = |run: &&Run| {
            run.workflow == id && !run.status.has_ended() && run.status != RunStatus::Pending
        };
        Ok(self.runs.values().filter(active).map(|run| run.key).take(limit).collect())
    }

    fn owned_by(&mut self, node: NodeId, limit: usize) -> Result<Vec<RunKey>, Damaged> {
        let owned = |run: &&Run| run.state.owners().contains(&node);
        Ok(self.runs.values().filter(owned).map(|run| run.key).take(limit).collect())
    }

    fn ran_of(&mut self, id: ScheduleId, nominal: &[Timestamp]) -> Result<Vec<Timestamp>, Damaged> {
        let runs = [Outcome::Started, Outcome::Moved, Outcome::Queued];
        let ran = |at: &&Timestamp| {
            let of = |((schedule, _), entry): (&(ScheduleId, u64), &Entry)| {
                *schedule == id && entry.nominal == **at && runs.contains(&entry.outcome)
            };
            self.ledger.iter().any(of)
        };
        Ok(nominal.iter().filter(ran).copied().collect())
    }

    fn descendants(&mut self, root: RunKey, limit: usize) -> Result<usize, Damaged> {
        let is_of = |run: &&Run| run.parent.is_some_and(|parent| parent.root == root);
        Ok((self.runs.values().filter(is_of).count() + self.descendants_besides).min(limit))
    }

    fn step_record(
        &mut self,
        run: RunKey,
        step: u32,
        item: Item,
    ) -> Result<Option<StepRecord>, Damaged> {
        Ok(self.records.get(&(run, step, item.number())).cloned())
    }

    fn step_records(&mut self, run: RunKey) -> Result<Vec<StepRecord>, Damaged> {
        let of = self.records.range((run, 0, i32::MIN)..=(run, u32::MAX, i32::MAX));
        Ok(of.map(|(_, record)| record.clone()).collect())
    }

    fn queued(&mut self, queues: &[String], limit: usize) -> Result<Vec<(RunKey, Part)>, Damaged> {
        let wanted = self.queue.iter().filter(|(queue, ..)| queues.contains(queue));
        let mut found: Vec<_> = wanted.map(|(_, run, part)| (*run, *part)).collect();
        found.sort_unstable();
        found.truncate(limit);
        Ok(found)
    }

    fn topic(&mut self, id: TopicId) -> Result<Option<Topic>, Damaged> {
        assert_ne!(self.planted, Some(Planted::Topic(id)));
        Ok(self.topics.topics.get(&id).cloned())
    }

    fn topic_named(
        &mut self,
        workflow: Option<WorkflowId>,
        name: &str,
    ) -> Result<Option<TopicId>, Damaged> {
        Ok(self.topics.topic_named(workflow, name))
    }

    fn event_statuses(
        &mut self,
        topic: TopicId,
        ids: &[String],
    ) -> Result<Vec<Option<EventStatus>>, Damaged> {
        self.topics.event_statuses(topic, ids)
    }

    fn reserved_by(&mut self, run: RunKey) -> Result<Vec<EventStatus>, Damaged> {
        let statuses = self.topics.events.values().map(|event| &event.status);
        let is_it =
            |status: &&EventStatus| status.run == Some(run) && status.state == EventState::Reserved;
        Ok(statuses.filter(is_it).cloned().collect())
    }

    fn event(&mut self, key: EventKey) -> Result<Option<Event>, Damaged> {
        Ok(self.topics.events.get(&key).cloned())
    }

    fn pending_events(&mut self, topic: TopicId, limit: usize) -> Result<Vec<Event>, Damaged> {
        Ok(self.topics.pending(topic, limit))
    }

    fn oldest_pending(
        &mut self,
        topic: TopicId,
        limit: usize,
    ) -> Result<Vec<(EventKey, Timestamp)>, Damaged> {
        let found = self.topics.pending(topic, limit);
        Ok(found.into_iter().map(|event| (event.status.key, event.created_at)).collect())
    }

    fn subscribers(&mut self, topic: TopicId) -> Result<Vec<Subscriber>, Damaged> {
        Ok(self.topics.subscribers(topic))
    }

    fn waiting_for(
        &mut self,
        topic: TopicId,
        after: Option<(RunKey, Part)>,
        limit: usize,
    ) -> Result<Vec<(RunKey, Part)>, Damaged> {
        Ok(self.topics.waiting_for(topic, after, limit))
    }

    fn handler(&mut self, id: HandlerId) -> Result<Option<Handler>, Damaged> {
        Ok(self.topics.handlers.get(&id).cloned())
    }

    fn handlers_of(&mut self, id: WorkflowId) -> Result<Vec<HandlerId>, Damaged> {
        let of = self.topics.handlers.values().filter(|handler| handler.workflow == id);
        Ok(of.map(|handler| handler.id).collect())
    }

    fn incident(&mut self, key: IncidentKey) -> Result<Option<Incident>, Damaged> {
        Ok(self.incidents.get(&key).cloned())
    }

    fn new_incident_key(&mut self) -> IncidentKey {
        IncidentKey(self.next())
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
