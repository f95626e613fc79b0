//! The engine's lookups inside a PostgreSQL transaction: rows that were loaded and locked
//! beforehand, and other rows on demand.
//!
//! Locks are waited for in one order, which `lock_order.rs` keeps. A run is locked after its
//! schedule, and together with the runs that wait for its end. A workflow's lock covers its
//! handlers, and a topic's lock covers its events; subscribers of a topic are locked before it.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::time::Duration;

use engine::handlers::Handler;
use engine::incidents::Incident;
use engine::run::{Item, Part, Run, StepRecord, TriggeredBy};
use engine::schedule::{Override, Schedule};
use engine::topics::{Event, EventStatus, Subscriber, Topic};
use engine::turn::{TransactionReader, Workflow};
use engine::{
    EventKey, HandlerId, IncidentKey, NodeId, RunId, RunKey, ScheduleId, TopicId, WorkflowId,
};
use jiff::Timestamp;
use language::definition::Definition;
use tokio_postgres::Row;

use crate::codes::sql;
use crate::failure::Failure;
use crate::machine_clock::Reading;
use crate::postgres::Shared;
use crate::postgres::connections::query::row_count;
use crate::postgres::connections::tx_connection::{Param, Query, TxConnection, param};
use crate::postgres::rows::narrow;
use crate::postgres::transaction::claims;
use crate::postgres::transaction::last_steps::{self, LAST_STEPS};
use crate::postgres::transaction::load;
use crate::postgres::transaction::loaded::{Loaded, readable};
use crate::postgres::transaction::lock_retry::LockNeeds;
use crate::postgres::transaction::topic_load::LoadedTopics;
use crate::rows::{Row as _, step_columns};
use crate::stored::ms;

/// How many keys of runs, or of events, are taken from their sequence at a time.
pub(crate) const KEYS: i64 = 4_096;

/// A turn that reads more than was loaded at first must end after this time: chains of events are
/// read link by link, and other transactions wait meanwhile.
const LONG_TURN: Duration = Duration::from_millis(250);

/// The engine's lookups in one transaction.
pub(crate) struct PgTransactionReader<'a> {
    pub(crate) tx: &'a mut TxConnection,
    pub(crate) shared: &'a Shared,
    pub(crate) needs: &'a mut LockNeeds,
    pub(crate) loaded: Loaded,
    /// Keys of runs that were looked up together.
    pub(crate) known_keys: HashMap<RunId, RunKey>,
    /// How many pending runs are worth loading: the node's free capacity.
    pub(crate) capacity: usize,
    run_keys: std::ops::Range<i64>,
    stamp: i64,
    schedule_ids: Vec<i64>,
    workflow_ids: Vec<i64>,
    event_keys: std::ops::Range<i64>,
    /// Why an id could not be obtained. If it is set, nothing may be written.
    pub(crate) failed: Option<Failure>,
    /// The machine's clocks when the transaction began, if the store was given any.
    began: Option<Reading>,
}

impl<'a> PgTransactionReader<'a> {
    pub(crate) fn new(
        tx: &'a mut TxConnection,
        shared: &'a Shared,
        needs: &'a mut LockNeeds,
        capacity: usize,
    ) -> PgTransactionReader<'a> {
        let set_aside = shared.passed_over();
        let mut topics = LoadedTopics::default();
        topics.set_aside = set_aside.clone();
        PgTransactionReader {
            tx,
            shared,
            needs,
            loaded: Loaded { topics, set_aside, ..Loaded::default() },
            known_keys: HashMap::new(),
            capacity,
            run_keys: 0..0,
            stamp: 0,
            schedule_ids: Vec::new(),
            workflow_ids: Vec::new(),
            event_keys: 0..0,
            failed: None,
            began: shared.offset.read(),
        }
    }

    /// Makes an unreadable row a failure even if it is set aside: a caller asked for it explicitly.
    pub(crate) fn passing_over_nothing(mut self) -> PgTransactionReader<'a> {
        self.loaded.set_aside = Arc::default();
        self.loaded.topics.set_aside = Arc::default();
        self
    }

    /// Uses this block of run keys, which came from the sequence.
    pub(crate) fn take_block(&mut self, block: i64) {
        self.stamp = block;
        self.run_keys = block * KEYS..(block + 1) * KEYS;
    }

    /// The stamp of this transaction: unique once a block of run keys was taken.
    pub(crate) fn stamp(&self) -> i64 {
        self.stamp
    }

    /// Uses this block of event keys.
    pub(crate) fn take_event_block(&mut self, block: i64) {
        self.event_keys = block * KEYS..(block + 1) * KEYS;
    }

    /// Reserves ids for this many new schedules.
    pub(crate) fn expect_schedules(&mut self, count: usize) -> Result<(), Failure> {
        self.schedule_ids = self.ids(SCHEDULE_IDS, count)?;
        Ok(())
    }

    fn ids(&mut self, sql: &'static str, count: usize) -> Result<Vec<i64>, Failure> {
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        let rows = self.tx.one(sql, vec![param(count)])?;
        let mut ids: Vec<i64> = rows.iter().map(|row| row.single()).collect::<Result<_, _>>()?;
        ids.sort_unstable_by(|a, b| b.cmp(a));
        Ok(ids)
    }

    fn id(&mut self, sql: &'static str) -> i64 {
        match self.ids(sql, 1) {
            Ok(ids) => ids.first().copied().unwrap_or(0),
            Err(failure) => {
                self.failed = Some(failure);
                0
            }
        }
    }

    pub(crate) fn keys(
        &mut self,
        sql: &'static str,
        params: Vec<Param>,
    ) -> Result<Vec<i64>, Failure> {
        self.tx.one(sql, params)?.iter().map(|row| row.single()).collect()
    }

    /// The keys of runs that a query finds, with the runs loaded and locked.
    fn taken_keys(
        &mut self,
        sql: &'static str,
        params: Vec<Param>,
    ) -> Result<Vec<RunKey>, Failure> {
        let keys = self.keys(sql, params)?;
        self.take_runs(keys.clone())?;
        Ok(keys.into_iter().map(RunKey).collect())
    }

    /// The keys of runs that a query finds and that no other transaction holds.
    fn free_keys(&mut self, sql: &'static str, params: Vec<Param>) -> Result<Vec<RunKey>, Failure> {
        let keys = self.keys(sql, params)?;
        load::free_runs(self.tx, &mut self.loaded, keys)
    }
}

const SCHEDULE_IDS: &str = "SELECT nextval('schedule_ids') FROM generate_series(1, $1::bigint)";
const WORKFLOW_IDS: &str = "SELECT nextval('workflow_ids') FROM generate_series(1, $1::bigint)";
const TOPIC_IDS: &str = "SELECT nextval('topic_ids') FROM generate_series(1, $1::bigint)";
const HANDLER_IDS: &str = "SELECT nextval('handler_ids') FROM generate_series(1, $1::bigint)";
const INCIDENT_KEYS: &str = "SELECT nextval('incident_keys') FROM generate_series(1, $1::bigint)";
const EVENT_BLOCK: &str = "SELECT nextval('event_blocks') FROM generate_series(1, $1::bigint)";
const RUN_BLOCK: &str = "SELECT nextval('run_blocks') FROM generate_series(1, $1::bigint)";

const STEP: &str =
    concat!("SELECT ", step_columns!(), " FROM steps t WHERE run = $1 AND step = $2 ORDER BY item");
pub(crate) const STEPS: &str =
    concat!("SELECT ", step_columns!(), " FROM steps t WHERE run = $1 ORDER BY step, item");

impl TransactionReader for PgTransactionReader<'_> {
    type Error = Failure;

    fn is_unreadable(failure: &Failure) -> bool {
        failure.is_about_a_row()
    }

    fn schedule(&mut self, id: ScheduleId) -> Result<Option<Box<Schedule>>, Failure> {
        if !self.loaded.schedules.contains_key(&id) {
            self.take_schedules(vec![id.0])?;
        }
        Ok(self.loaded.give(id))
    }

    fn overrides(&mut self, id: ScheduleId) -> Result<Vec<Override>, Failure> {
        if !self.loaded.overrides.contains_key(&id) {
            load::overrides(self.tx, &mut self.loaded, vec![id.0])?;
        }
        Ok(readable(self.loaded.overrides.get(&id))?.unwrap_or_default())
    }

    fn triggered_schedules(&mut self, id: WorkflowId) -> Result<Vec<Box<Schedule>>, Failure> {
        let sql =
            "SELECT id FROM schedules WHERE workflow = $1 AND trigger IS NOT NULL ORDER BY id";
        let ids = self.keys(sql, vec![param(id.0)])?;
        self.take_schedules(ids.clone())?;
        let found = |id: i64| self.loaded.give(ScheduleId(id));
        Ok(ids.into_iter().filter_map(found).filter(|found| found.declared_by.is_some()).collect())
    }

    fn schedules_of(&mut self, id: WorkflowId) -> Result<Vec<ScheduleId>, Failure> {
        let sql = "SELECT id FROM schedules WHERE workflow = $1 ORDER BY id";
        let ids = self.keys(sql, vec![param(id.0)])?;
        self.take_schedules(ids.clone())?;
        Ok(ids.into_iter().map(ScheduleId).collect())
    }

    fn workflow(&mut self, id: WorkflowId) -> Result<Option<Workflow>, Failure> {
        self.locked_workflow(id)
    }

    fn workflow_named(&mut self, name: &str) -> Result<Option<WorkflowId>, Failure> {
        let sql = "SELECT id FROM workflows WHERE name = $1";
        let ids = self.keys(sql, vec![param(name.to_owned())])?;
        Ok(ids.first().copied().map(WorkflowId))
    }

    fn definition(
        &mut self,
        id: WorkflowId,
        revision: u32,
    ) -> Result<Option<Arc<Definition>>, Failure> {
        if let Some(known) = self.shared.definition(id, revision) {
            return Ok(Some(known));
        }
        let sql = "SELECT definition FROM revisions WHERE workflow = $1 AND revision = $2";
        let rows = self.tx.one(sql, vec![param(id.0), param(revision.cast_signed())])?;
        let Some(row) = rows.first() else { return Ok(None) };
        let definition = Arc::new(row.single_json::<Definition>()?);
        self.shared.remember_definition(id, revision, definition.clone());
        Ok(Some(definition))
    }

    fn run(&mut self, key: RunKey) -> Result<Option<Box<Run>>, Failure> {
        self.locked_run(key)
    }

    fn run_key(&mut self, id: &RunId) -> Result<Option<RunKey>, Failure> {
        if let Some(known) = self.known_keys.get(id) {
            return Ok(Some(*known));
        }
        let keys = match id {
            RunId::Occurrence { schedule, n, retry } => {
                let sql = "SELECT key FROM runs WHERE schedule = $1 AND n = $2 AND retry = $3";
                let params =
                    vec![param(schedule.0), param(n.cast_signed()), param(retry.cast_signed())];
                self.keys(sql, params)?
            }
            RunId::Other(uuid) => {
                let sql = "SELECT key FROM runs WHERE uuid = $1";
                self.keys(sql, vec![param(uuid::Uuid::from_u128(*uuid))])?
            }
        };
        Ok(keys.first().copied().map(RunKey))
    }

    fn pending(
        &mut self,
        after: Option<WorkflowId>,
        limit: usize,
    ) -> Result<Vec<(WorkflowId, RunKey)>, Failure> {
        let after = after.map_or(i64::MIN, |workflow| workflow.0);
        let limit_of = i64::try_from(limit).unwrap_or(i64::MAX);
        // Runs that end in this transaction free slots in these workflows that the database does
        // not show yet.
        let ours: Vec<i64> = self.loaded.workflows.keys().map(|id| id.0).collect();
        let params = vec![param(after), param(limit_of), param(ours)];
        let workflows = self.keys(load::WITH_PENDING, params)?;
        let workflows = self.free_of(workflows)?;
        let unknown: Vec<i64> = workflows
            .iter()
            .copied()
            .filter(|id| !self.loaded.pending.contains_key(&WorkflowId(*id)))
            .collect();
        if !unknown.is_empty() {
            let each = (self.capacity / unknown.len()).clamp(1, 1_000);
            load::pending(self.tx, &mut self.loaded, unknown, i64::MIN, each)?;
        }
        let oldest = |id: i64| {
            let (keys, _) = self.loaded.pending.get(&WorkflowId(id))?;
            keys.front().map(|key| (WorkflowId(id), *key))
        };
        Ok(workflows.into_iter().filter_map(oldest).collect())
    }

    fn pending_after(
        &mut self,
        workflow: WorkflowId,
        after: RunKey,
        limit: usize,
    ) -> Result<Vec<RunKey>, Failure> {
        let found = |loaded: &Loaded| -> (Vec<RunKey>, bool) {
            let Some((keys, more)) = loaded.pending.get(&workflow) else { return (vec![], true) };
            let later = keys.iter().copied().filter(|key| *key > after).take(limit).collect();
            (later, *more)
        };
        let (keys, more) = found(&self.loaded);
        if keys.len() >= limit || !more {
            return Ok(keys);
        }
        let each = limit.max(self.capacity.min(100));
        load::pending(self.tx, &mut self.loaded, vec![workflow.0], after.0, each)?;
        Ok(found(&self.loaded).0)
    }

    fn pending_of_handlers(
        &mut self,
        workflow: WorkflowId,
        limit: usize,
    ) -> Result<Vec<RunKey>, Failure> {
        let sql = sql!(
            "SELECT key FROM open_runs WHERE status = {pending}
               AND handler IS NOT NULL AND workflow = $1
             ORDER BY key + 0 LIMIT $2"
        );
        self.free_keys(sql, vec![param(workflow.0), param(row_count(limit))])
    }

    fn pending_while_paused(
        &mut self,
        workflow: WorkflowId,
        limit: usize,
    ) -> Result<Vec<RunKey>, Failure> {
        let sql = sql!(
            "SELECT key FROM open_runs WHERE status = {pending} AND workflow = $1
               AND (handler IS NOT NULL OR triggered_by <> ALL($2))
             ORDER BY key + 0 LIMIT $3"
        );
        let held = TriggeredBy::HELD_BY_PAUSE.map(|held| narrow(&TriggeredBy::ALL, held));
        self.free_keys(sql, vec![param(workflow.0), param(held.to_vec()), param(row_count(limit))])
    }

    fn is_exhausted(&self) -> bool {
        let readings = self.began.zip(self.shared.offset.read());
        readings
            .is_some_and(|(began, now)| now.monotonic.saturating_sub(began.monotonic) > LONG_TURN)
    }

    fn ready(&mut self, except: &[WorkflowId], limit: usize) -> Result<Vec<RunKey>, Failure> {
        let sql = "SELECT key FROM (SELECT key, key + 0 AS at, workflow FROM open_runs
                     WHERE waits_for_slot ORDER BY at LIMIT 10000) r
                   WHERE workflow <> ALL($1) ORDER BY at LIMIT $2";
        let except: Vec<i64> = except.iter().map(|workflow| workflow.0).collect();
        self.free_keys(sql, vec![param(except), param(row_count(limit))])
    }

    fn active_runs(&mut self, id: WorkflowId, limit: usize) -> Result<Vec<RunKey>, Failure> {
        let sql = sql!(
            "SELECT key FROM open_runs WHERE status {active} AND workflow = $1
             ORDER BY key + 0 LIMIT $2"
        );
        self.taken_keys(sql, vec![param(id.0), param(row_count(limit))])
    }

    fn owned_by(&mut self, node: NodeId, limit: usize) -> Result<Vec<RunKey>, Failure> {
        // A run with an attempt that is being performed is running.
        let sql = sql!(
            "SELECT key FROM open_runs WHERE status = {running} AND $1 = ANY(owners)
             ORDER BY key + 0 LIMIT $2"
        );
        self.taken_keys(sql, vec![param(node.0), param(row_count(limit))])
    }

    fn ran_of(&mut self, id: ScheduleId, nominal: &[Timestamp]) -> Result<Vec<Timestamp>, Failure> {
        let sql = sql!(
            "SELECT DISTINCT nominal FROM ledger WHERE schedule = $1 AND outcome {will_run}
             AND nominal = ANY($2::bigint[])"
        );
        let wanted: Vec<i64> = nominal.iter().copied().map(ms).collect();
        let found = self.keys(sql, vec![param(id.0), param(wanted)])?;
        Ok(nominal.iter().copied().filter(|at| found.contains(&ms(*at))).collect())
    }

    fn descendants(&mut self, root: RunKey, limit: usize) -> Result<usize, Failure> {
        let sql = "SELECT count(*) FROM ((SELECT 1 FROM open_runs WHERE root = $1 LIMIT $2)
                   UNION ALL (SELECT 1 FROM ended_runs WHERE root = $1 LIMIT $2)) AS of_root";
        let found = self.keys(sql, vec![param(root.0), param(row_count(limit))])?;
        Ok(found.first().map_or(0, |count| usize::try_from(*count).unwrap_or(usize::MAX)))
    }

    /// Loads all parts of a step at once: a caller that asks for one item will ask for the others.
    fn step_record(
        &mut self,
        run: RunKey,
        step: u32,
        item: Item,
    ) -> Result<Option<StepRecord>, Failure> {
        let known = match self.loaded.steps.entry((run, step)) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(unknown) => {
                let params = vec![param(run.0), param(step.cast_signed())];
                let mut queries = vec![Query::new(STEP, params)];
                if !self.loaded.locked_runs.contains(&run) {
                    queries.push(Query::new(LAST_STEPS, vec![param(run.0)]));
                }
                let found = self.tx.ask(queries)?;
                let last = found.get(1).map_or(&[][..], Vec::as_slice);
                let mut records = last_steps::all(&found[0], last)?;
                records.retain(|record| record.step == step);
                unknown.insert(records)
            }
        };
        Ok(known.iter().find(|record| record.item == item).cloned())
    }

    fn step_records(&mut self, run: RunKey) -> Result<Vec<StepRecord>, Failure> {
        let queries = [STEPS, LAST_STEPS].map(|sql| Query::new(sql, vec![param(run.0)]));
        let found = self.tx.ask(queries.into())?;
        last_steps::all(&found[0], &found[1])
    }

    fn queued(&mut self, queues: &[String], limit: usize) -> Result<Vec<(RunKey, Part)>, Failure> {
        claims::queued(self.tx, &mut self.loaded, queues, limit)
    }

    fn topic(&mut self, id: TopicId) -> Result<Option<Topic>, Failure> {
        self.locked_topic(id)
    }

    fn topic_named(
        &mut self,
        workflow: Option<WorkflowId>,
        name: &str,
    ) -> Result<Option<TopicId>, Failure> {
        self.find_topic(workflow, name)
    }

    fn event_statuses(
        &mut self,
        topic: TopicId,
        ids: &[String],
    ) -> Result<Vec<Option<EventStatus>>, Failure> {
        self.event_statuses(topic, ids)
    }

    fn reserved_by(&mut self, run: RunKey) -> Result<Vec<EventStatus>, Failure> {
        self.reserved_events(run)
    }

    fn event(&mut self, key: EventKey) -> Result<Option<Event>, Failure> {
        self.one_event(key)
    }

    fn pending_events(&mut self, topic: TopicId, limit: usize) -> Result<Vec<Event>, Failure> {
        self.oldest_events(topic, limit)
    }

    fn oldest_pending(
        &mut self,
        topic: TopicId,
        limit: usize,
    ) -> Result<Vec<(EventKey, Timestamp)>, Failure> {
        self.oldest_pending_keys(topic, limit)
    }

    fn subscribers(&mut self, topic: TopicId) -> Result<Vec<Subscriber>, Failure> {
        self.listeners_of(topic)
    }

    fn waiting_for(
        &mut self,
        topic: TopicId,
        after: Option<(RunKey, Part)>,
        limit: usize,
    ) -> Result<Vec<(RunKey, Part)>, Failure> {
        self.waiting_parts(topic, after, limit)
    }

    fn handler(&mut self, id: HandlerId) -> Result<Option<Handler>, Failure> {
        self.locked_handler(id)
    }

    fn handlers_of(&mut self, id: WorkflowId) -> Result<Vec<HandlerId>, Failure> {
        self.locked_handlers(id)
    }

    fn new_event_key(&mut self) -> EventKey {
        if self.event_keys.is_empty() {
            let block = self.id(EVENT_BLOCK);
            self.take_event_block(block);
        }
        EventKey(self.event_keys.next().unwrap_or(0))
    }

    fn incident(&mut self, key: IncidentKey) -> Result<Option<Incident>, Failure> {
        crate::postgres::transaction::incidents::by_key(self.tx, key)
    }

    fn new_incident_key(&mut self) -> IncidentKey {
        IncidentKey(self.id(INCIDENT_KEYS))
    }

    fn new_topic_id(&mut self) -> TopicId {
        TopicId(self.id(TOPIC_IDS))
    }

    fn new_handler_id(&mut self) -> HandlerId {
        HandlerId(self.id(HANDLER_IDS))
    }

    fn new_run_key(&mut self) -> RunKey {
        if self.run_keys.is_empty() {
            let block = self.id(RUN_BLOCK);
            self.take_block(block);
        }
        RunKey(self.run_keys.next().unwrap_or(0))
    }

    fn new_schedule_id(&mut self) -> ScheduleId {
        match self.schedule_ids.pop() {
            Some(id) => ScheduleId(id),
            None => ScheduleId(self.id(SCHEDULE_IDS)),
        }
    }

    fn new_workflow_id(&mut self) -> WorkflowId {
        match self.workflow_ids.pop() {
            Some(id) => WorkflowId(id),
            None => WorkflowId(self.id(WORKFLOW_IDS)),
        }
    }
}

/// The first column of the first row.
pub(crate) fn first(rows: &[Row]) -> Result<Option<i64>, Failure> {
    rows.first().map(|row| row.single()).transpose()
}

/// The query for a block of run keys, to be sent with others.
pub(crate) fn ask_block() -> Query {
    Query::new(RUN_BLOCK, vec![param(1_i64)])
}

/// The query for a block of event keys.
pub(crate) fn ask_event_block() -> Query {
    Query::new(EVENT_BLOCK, vec![param(1_i64)])
}
