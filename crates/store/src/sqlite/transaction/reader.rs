//! The engine's lookups inside the SQLite transaction.

use std::collections::HashMap;
use std::sync::Arc;

use engine::handlers::Handler;
use engine::incidents::Incident;
use engine::run::{Item, Part, Run, StepRecord, TriggeredBy};
use engine::schedule::{Override, Schedule};
use engine::topics::{Event, EventStatus, Subscriber, Topic};
use engine::turn::{TransactionReader, Workflow, Writes};
use engine::{
    EventKey, HandlerId, IncidentKey, NodeId, RunId, RunKey, ScheduleId, TopicId, WorkflowId,
};
use jiff::Timestamp;
use language::definition::Definition;
use rusqlite::{CachedStatement, Connection, Params, params};

use crate::codes::sql;
use crate::failure::Failure;
use crate::rows::{
    self, Row as _, override_columns, run_columns, schedule_columns, step_columns, workflow_columns,
};
use crate::set_aside::if_readable;
use crate::sqlite::connections::query;
use crate::sqlite::transaction::apply_runs::owner;
use crate::sqlite::transaction::row_cache::RowCache;
use crate::sqlite::transaction::topic_reader;
use crate::stored::{code, json, ms};

/// How many definitions are cached. They never change, so any number would be correct.
const DEFINITIONS: usize = 1_000;

pub(crate) const SCHEDULE_BY_ID: &str = concat!(
    "SELECT ",
    schedule_columns!(),
    " FROM schedules s JOIN progress p ON p.id = s.id WHERE s.id = ?1"
);
const TRIGGERED_SCHEDULES: &str = concat!(
    "SELECT ",
    schedule_columns!(),
    " FROM schedules s JOIN progress p ON p.id = s.id
     WHERE s.workflow = ?1 AND s.trigger IS NOT NULL"
);
pub(crate) const RUN_BY_KEY: &str =
    concat!("SELECT ", run_columns!(), " FROM runs r WHERE r.key = ?1");
pub(crate) const WORKFLOW_BY_ID: &str =
    concat!("SELECT ", workflow_columns!(), " FROM workflows w WHERE w.id = ?1");
const STEP_BY_PART: &str =
    concat!("SELECT ", step_columns!(), " FROM steps t WHERE run = ?1 AND step = ?2 AND item = ?3");
const STEPS_OF_RUN: &str =
    concat!("SELECT ", step_columns!(), " FROM steps t WHERE run = ?1 ORDER BY step, item");

/// The next ids, kept in memory: the one writer gives all of them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ids {
    pub(crate) run: i64,
    pub(crate) schedule: i64,
    pub(crate) workflow: i64,
    pub(crate) topic: i64,
    pub(crate) event: i64,
    pub(crate) handler: i64,
    pub(crate) incident: i64,
}

/// The writer's caches between transactions. All of it can be read again.
#[derive(Default)]
pub(crate) struct Memory {
    definitions: HashMap<(WorkflowId, u32), Arc<Definition>>,
    pub(crate) row_cache: RowCache,
    /// The writes of the last request of the open transaction, until [`Memory::keep_written`].
    pub(crate) written: Option<Box<Writes>>,
}

impl Memory {
    /// Caches what was written last. To free the rest takes a while, so it is done after the answer
    /// to a commit if nothing else is to be carried out before.
    pub(crate) fn keep_written(&mut self) {
        if let Some(written) = self.written.take() {
            self.row_cache.keep(*written);
        }
    }

    /// Clears the caches, because what was decided was not stored, or somebody else changed the
    /// store.
    pub(crate) fn forget(&mut self) {
        self.definitions.clear();
        self.row_cache.forget();
        self.written = None;
    }
}

pub(crate) struct SqliteTransactionReader<'a> {
    pub(crate) connection: &'a Connection,
    pub(crate) ids: &'a mut Ids,
    pub(crate) memory: &'a mut Memory,
    /// Prepared once for all schedules that are due.
    schedule_by_id: Option<CachedStatement<'a>>,
}

impl<'a> SqliteTransactionReader<'a> {
    pub(crate) fn new(
        connection: &'a Connection,
        ids: &'a mut Ids,
        memory: &'a mut Memory,
    ) -> SqliteTransactionReader<'a> {
        SqliteTransactionReader { connection, ids, memory, schedule_by_id: None }
    }

    fn keys(&self, sql: &str, params: impl Params) -> Result<Vec<i64>, Failure> {
        query::all(self.connection, sql, params, |row| row.single())
    }

    fn run_keys(&self, sql: &str, params: impl Params) -> Result<Vec<RunKey>, Failure> {
        let mut statement = self.connection.prepare_cached(sql)?;
        let rows = statement.query_map(params, |row| row.get(0).map(RunKey))?;
        Ok(rows.collect::<Result<_, _>>()?)
    }
}

pub(crate) fn definition(
    connection: &Connection,
    id: WorkflowId,
    revision: u32,
) -> Result<Option<Definition>, Failure> {
    let sql = "SELECT definition FROM revisions WHERE workflow = ?1 AND revision = ?2";
    query::one(connection, sql, params![id.0, revision], |row| row.single_json())
}

pub(crate) fn overrides(connection: &Connection, id: ScheduleId) -> Result<Vec<Override>, Failure> {
    const SQL: &str = concat!(
        "SELECT ",
        override_columns!(),
        " FROM overrides o WHERE schedule = ?1 ORDER BY nominal"
    );
    query::all(connection, SQL, [id.0], |row| rows::occurrence_override(row))
}

impl TransactionReader for SqliteTransactionReader<'_> {
    type Error = Failure;

    fn is_unreadable(failure: &Failure) -> bool {
        failure.is_about_a_row()
    }

    fn schedule(&mut self, id: ScheduleId) -> Result<Option<Box<Schedule>>, Failure> {
        if let Some(schedule) = self.memory.row_cache.take_schedule(id) {
            return Ok(Some(schedule));
        }
        let statement = match &mut self.schedule_by_id {
            Some(statement) => statement,
            none => none.insert(self.connection.prepare_cached(SCHEDULE_BY_ID)?),
        };
        Ok(query::first(statement, [id.0], |row| rows::schedule(row))?.map(Box::new))
    }

    fn overrides(&mut self, id: ScheduleId) -> Result<Vec<Override>, Failure> {
        overrides(self.connection, id)
    }

    fn triggered_schedules(&mut self, id: WorkflowId) -> Result<Vec<Box<Schedule>>, Failure> {
        let schedules = query::all(self.connection, TRIGGERED_SCHEDULES, [id.0], |row| {
            rows::schedule(row).map(Box::new)
        })?;
        // From here on the turn's own copy counts, so the cached one is dropped.
        for schedule in &schedules {
            self.memory.row_cache.take_schedule(schedule.id);
        }
        Ok(schedules)
    }

    fn schedules_of(&mut self, id: WorkflowId) -> Result<Vec<ScheduleId>, Failure> {
        let ids = self.keys("SELECT id FROM schedules WHERE workflow = ?1", [id.0])?;
        Ok(ids.into_iter().map(ScheduleId).collect())
    }

    fn workflow(&mut self, id: WorkflowId) -> Result<Option<Workflow>, Failure> {
        query::one(self.connection, WORKFLOW_BY_ID, [id.0], |row| rows::workflow(row))
    }

    fn workflow_named(&mut self, name: &str) -> Result<Option<WorkflowId>, Failure> {
        let sql = "SELECT id FROM workflows WHERE name = ?1";
        query::one(self.connection, sql, [name], |row| row.single())
    }

    fn definition(
        &mut self,
        id: WorkflowId,
        revision: u32,
    ) -> Result<Option<Arc<Definition>>, Failure> {
        if let Some(definition) = self.memory.definitions.get(&(id, revision)) {
            return Ok(Some(definition.clone()));
        }
        let Some(definition) = definition(self.connection, id, revision)? else { return Ok(None) };
        let definition = Arc::new(definition);
        if self.memory.definitions.len() >= DEFINITIONS {
            self.memory.definitions.clear();
        }
        self.memory.definitions.insert((id, revision), definition.clone());
        Ok(Some(definition))
    }

    fn run(&mut self, key: RunKey) -> Result<Option<Box<Run>>, Failure> {
        match self.memory.row_cache.take_run(key) {
            Some(run) => Ok(Some(run)),
            None => {
                let run = query::one(self.connection, RUN_BY_KEY, [key.0], |row| rows::run(row))?;
                Ok(run.map(Box::new))
            }
        }
    }

    fn run_key(&mut self, id: &RunId) -> Result<Option<RunKey>, Failure> {
        run_key(self.connection, id)
    }

    fn pending(
        &mut self,
        after: Option<WorkflowId>,
        limit: usize,
    ) -> Result<Vec<(WorkflowId, RunKey)>, Failure> {
        // Goes from workflow to workflow by the index, so that workflows with many pending runs
        // cost no more.
        let sql = sql!(
            "SELECT workflow, key FROM runs INDEXED BY runs_open
             WHERE status = {pending} AND status {open} AND workflow > ?1
             ORDER BY workflow, key LIMIT 1"
        );
        let mut statement = self.connection.prepare_cached(sql)?;
        let mut found: Vec<(WorkflowId, RunKey)> = Vec::new();
        let mut after = after.map_or(i64::MIN, |workflow| workflow.0);
        while found.len() < limit {
            let next = query::first(&mut statement, [after], |row| row.tuple())?;
            let Some((workflow, key)) = next else { break };
            found.push((workflow, key));
            after = workflow.0;
        }
        Ok(found)
    }

    fn pending_after(
        &mut self,
        workflow: WorkflowId,
        after: RunKey,
        limit: usize,
    ) -> Result<Vec<RunKey>, Failure> {
        let sql = sql!(
            "SELECT key FROM runs INDEXED BY runs_open
             WHERE status = {pending} AND status {open} AND workflow = ?1 AND key > ?2
             ORDER BY key LIMIT ?3"
        );
        self.run_keys(sql, params![workflow.0, after.0, limit])
    }

    fn pending_of_handlers(
        &mut self,
        workflow: WorkflowId,
        limit: usize,
    ) -> Result<Vec<RunKey>, Failure> {
        let sql = sql!(
            "SELECT key FROM runs INDEXED BY runs_pending_of_handlers
             WHERE status = {pending} AND handler IS NOT NULL AND workflow = ?1
             ORDER BY key LIMIT ?2"
        );
        self.run_keys(sql, params![workflow.0, limit])
    }

    fn pending_while_paused(
        &mut self,
        workflow: WorkflowId,
        limit: usize,
    ) -> Result<Vec<RunKey>, Failure> {
        let sql = sql!(
            "SELECT key FROM runs INDEXED BY runs_open
             WHERE status = {pending} AND status {open} AND workflow = ?1
               AND (handler IS NOT NULL OR triggered_by NOT IN (?2, ?3, ?4))
             ORDER BY key LIMIT ?5"
        );
        let [a, b, c] = TriggeredBy::HELD_BY_PAUSE.map(|held| code(&TriggeredBy::ALL, held));
        self.run_keys(sql, params![workflow.0, a, b, c, limit])
    }

    fn ready(&mut self, except: &[WorkflowId], limit: usize) -> Result<Vec<RunKey>, Failure> {
        let sql = "SELECT key FROM (SELECT key, workflow FROM runs INDEXED BY runs_ready
                     WHERE waits_for_slot = 1 ORDER BY key LIMIT 10000)
                   WHERE workflow NOT IN (SELECT value FROM json_each(?1)) ORDER BY key LIMIT ?2";
        let except: Vec<i64> = except.iter().map(|workflow| workflow.0).collect();
        self.run_keys(sql, params![json(&except)?, limit])
    }

    fn active_runs(&mut self, id: WorkflowId, limit: usize) -> Result<Vec<RunKey>, Failure> {
        let sql = sql!(
            "SELECT key FROM runs INDEXED BY runs_open
             WHERE status {open} AND status {active} AND workflow = ?1 LIMIT ?2"
        );
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        self.run_keys(sql, [id.0, limit])
    }

    fn owned_by(&mut self, node: NodeId, limit: usize) -> Result<Vec<RunKey>, Failure> {
        // A run with an attempt that is being performed is running.
        let sql = sql!(
            "SELECT key FROM runs INDEXED BY runs_open
             WHERE status {open} AND status = {running} AND instr(owners, ?1) LIMIT ?2"
        );
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        self.run_keys(sql, params![owner(node), limit])
    }

    fn ran_of(&mut self, id: ScheduleId, nominal: &[Timestamp]) -> Result<Vec<Timestamp>, Failure> {
        let sql = sql!(
            "SELECT DISTINCT nominal FROM ledger WHERE schedule = ?1 AND outcome {will_run}
             AND nominal IN (SELECT value FROM json_each(?2))"
        );
        let wanted: Vec<i64> = nominal.iter().copied().map(ms).collect();
        let wanted = serde_json::Value::from(wanted).to_string();
        let found = self.keys(sql, params![id.0, wanted])?;
        Ok(nominal.iter().copied().filter(|at| found.contains(&ms(*at))).collect())
    }

    fn descendants(&mut self, root: RunKey, limit: usize) -> Result<usize, Failure> {
        let sql = "SELECT key FROM runs INDEXED BY runs_by_root WHERE root = ?1 LIMIT ?2";
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        Ok(self.keys(sql, [root.0, limit])?.len())
    }

    fn step_record(
        &mut self,
        run: RunKey,
        step: u32,
        item: Item,
    ) -> Result<Option<StepRecord>, Failure> {
        let params = params![run.0, step, item.number()];
        query::one(self.connection, STEP_BY_PART, params, |row| rows::step(row))
    }

    fn step_records(&mut self, run: RunKey) -> Result<Vec<StepRecord>, Failure> {
        step_records(self.connection, run)
    }

    fn queued(&mut self, queues: &[String], limit: usize) -> Result<Vec<(RunKey, Part)>, Failure> {
        let sql = sql!(
            "SELECT run, step, item FROM queue INDEXED BY queue_by_name
             WHERE queue = ?1 AND item {a_part} ORDER BY run, step, item LIMIT ?2"
        );
        let mut statement = self.connection.prepare_cached(sql)?;
        let mut found = Vec::new();
        for queue in queues {
            for part in
                statement.query_and_then(params![queue, limit], |row| rows::run_part(row))?
            {
                found.push(part?);
            }
        }
        found.sort_unstable();
        // A queue that was named twice must yield its parts once.
        found.dedup();
        found.truncate(limit);
        Ok(found)
    }

    fn topic(&mut self, id: TopicId) -> Result<Option<Topic>, Failure> {
        topic_reader::topic(self.connection, id)
    }

    fn topic_named(
        &mut self,
        workflow: Option<WorkflowId>,
        name: &str,
    ) -> Result<Option<TopicId>, Failure> {
        topic_reader::topic_named(self.connection, workflow, name)
    }

    fn event_statuses(
        &mut self,
        topic: TopicId,
        ids: &[String],
    ) -> Result<Vec<Option<EventStatus>>, Failure> {
        topic_reader::event_statuses(self.connection, topic, ids)
    }

    fn reserved_by(&mut self, run: RunKey) -> Result<Vec<EventStatus>, Failure> {
        topic_reader::reserved_by(self.connection, run)
    }

    fn event(&mut self, key: EventKey) -> Result<Option<Event>, Failure> {
        topic_reader::event(self.connection, key)
    }

    fn pending_events(&mut self, topic: TopicId, limit: usize) -> Result<Vec<Event>, Failure> {
        topic_reader::pending_events(self.connection, topic, limit)
    }

    fn oldest_pending(
        &mut self,
        topic: TopicId,
        limit: usize,
    ) -> Result<Vec<(EventKey, Timestamp)>, Failure> {
        topic_reader::oldest_pending(self.connection, topic, limit)
    }

    fn subscribers(&mut self, topic: TopicId) -> Result<Vec<Subscriber>, Failure> {
        topic_reader::subscribers(self.connection, topic)
    }

    fn waiting_for(
        &mut self,
        topic: TopicId,
        after: Option<(RunKey, Part)>,
        limit: usize,
    ) -> Result<Vec<(RunKey, Part)>, Failure> {
        topic_reader::waiting_for(self.connection, topic, after, limit)
    }

    fn handler(&mut self, id: HandlerId) -> Result<Option<Handler>, Failure> {
        topic_reader::handler(self.connection, id)
    }

    fn handlers_of(&mut self, id: WorkflowId) -> Result<Vec<HandlerId>, Failure> {
        let ids = self.keys("SELECT id FROM handlers WHERE workflow = ?1 ORDER BY id", [id.0])?;
        Ok(ids.into_iter().map(HandlerId).collect())
    }

    fn incident(&mut self, key: IncidentKey) -> Result<Option<Incident>, Failure> {
        crate::sqlite::transaction::incidents::by_key(self.connection, key)
    }

    fn new_incident_key(&mut self) -> IncidentKey {
        self.ids.incident += 1;
        IncidentKey(self.ids.incident)
    }

    fn new_event_key(&mut self) -> EventKey {
        self.ids.event += 1;
        EventKey(self.ids.event)
    }

    fn new_topic_id(&mut self) -> TopicId {
        self.ids.topic += 1;
        TopicId(self.ids.topic)
    }

    fn new_handler_id(&mut self) -> HandlerId {
        self.ids.handler += 1;
        HandlerId(self.ids.handler)
    }

    fn new_run_key(&mut self) -> RunKey {
        self.ids.run += 1;
        RunKey(self.ids.run)
    }

    fn new_schedule_id(&mut self) -> ScheduleId {
        self.ids.schedule += 1;
        ScheduleId(self.ids.schedule)
    }

    fn new_workflow_id(&mut self) -> WorkflowId {
        self.ids.workflow += 1;
        WorkflowId(self.ids.workflow)
    }
}

pub(crate) fn step_records(
    connection: &Connection,
    run: RunKey,
) -> Result<Vec<StepRecord>, Failure> {
    query::all(connection, STEPS_OF_RUN, [run.0], |row| rows::step(row))
}

/// As [`step_records`], without those that cannot be read.
pub(crate) fn readable_step_records(
    connection: &Connection,
    run: RunKey,
) -> Result<Vec<StepRecord>, Failure> {
    let found = query::all(connection, STEPS_OF_RUN, [run.0], |row| if_readable(rows::step(row)))?;
    Ok(found.into_iter().flatten().collect())
}

pub(crate) fn run_key(connection: &Connection, id: &RunId) -> Result<Option<RunKey>, Failure> {
    match id {
        RunId::Occurrence { schedule, n, retry } => {
            let sql = "SELECT key FROM runs WHERE schedule = ?1 AND n = ?2 AND retry = ?3";
            query::one(connection, sql, params![schedule.0, n, retry], |row| row.single())
        }
        RunId::Other(uuid) => {
            let sql = "SELECT key FROM runs WHERE uuid = ?1";
            query::one(connection, sql, [uuid.to_be_bytes()], |row| row.single())
        }
    }
}
