//! The engine's lookups inside the SQLite transaction.

use std::collections::HashMap;
use std::sync::Arc;

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
use rusqlite::{CachedStatement, Connection, OptionalExtension as _, Params, Row, params};

use crate::failure::Failure;
use crate::set_aside::if_readable;
use crate::sqlite::rows::decode::{self, code};
use crate::sqlite::transaction::apply_runs::owner;
use crate::sqlite::transaction::row_cache::RowCache;
use crate::sqlite::transaction::topic_reader;
use crate::stored::ms;

/// How many definitions are cached. They never change, so any number would be correct.
const DEFINITIONS: usize = 1_000;

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
pub(crate) struct Memory {
    definitions: HashMap<(WorkflowId, u32), Arc<Definition>>,
    pub(crate) recent: RowCache,
    schedule_by_id: String,
    run_by_key: String,
    workflow_by_id: String,
    step_by_part: String,
}

impl Default for Memory {
    fn default() -> Memory {
        Memory {
            definitions: HashMap::new(),
            recent: RowCache::default(),
            schedule_by_id: format!(
                "SELECT {} FROM schedules s JOIN progress p ON p.id = s.id WHERE s.id = ?1",
                decode::SCHEDULE
            ),
            run_by_key: format!("SELECT {} FROM runs r WHERE r.key = ?1", decode::RUN),
            workflow_by_id: format!("SELECT {} FROM workflows w WHERE w.id = ?1", decode::WORKFLOW),
            step_by_part: format!(
                "SELECT {} FROM steps WHERE run = ?1 AND step = ?2 AND item = ?3",
                decode::STEP
            ),
        }
    }
}

impl Memory {
    /// Clears the caches, because what was decided was not stored, or somebody else changed the
    /// store.
    pub(crate) fn forget(&mut self) {
        self.definitions.clear();
        self.recent.forget();
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

    fn one<T>(
        &self,
        sql: &str,
        params: impl Params,
        read: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Option<T>, Failure> {
        Ok(self.connection.prepare_cached(sql)?.query_row(params, read).optional()?)
    }

    fn keys(&self, sql: &str, params: impl Params) -> Result<Vec<i64>, Failure> {
        let mut statement = self.connection.prepare_cached(sql)?;
        let rows = statement.query_map(params, |row| row.get(0))?;
        Ok(rows.collect::<Result<_, _>>()?)
    }
}

pub(crate) fn definition(
    connection: &Connection,
    id: WorkflowId,
    revision: u32,
) -> Result<Option<Definition>, Failure> {
    let sql = "SELECT definition FROM revisions WHERE workflow = ?1 AND revision = ?2";
    let mut statement = connection.prepare_cached(sql)?;
    let found = statement.query_row(params![id.0, revision], |row| decode::json(row, 0));
    Ok(found.optional()?)
}

pub(crate) fn overrides(connection: &Connection, id: ScheduleId) -> Result<Vec<Override>, Failure> {
    let sql = "SELECT nominal, action, by FROM overrides WHERE schedule = ?1 ORDER BY nominal";
    let mut statement = connection.prepare_cached(sql)?;
    let read = |row: &Row<'_>| {
        Ok(Override {
            nominal: decode::instant(row, 0)?,
            action: decode::json(row, 1)?,
            by: row.get(2)?,
        })
    };
    Ok(statement.query_map([id.0], read)?.collect::<Result<_, _>>()?)
}

impl TransactionReader for SqliteTransactionReader<'_> {
    type Error = Failure;

    fn schedule(&mut self, id: ScheduleId) -> Result<Option<Box<Schedule>>, Failure> {
        if let Some(schedule) = self.memory.recent.take_schedule(id) {
            return Ok(Some(schedule));
        }
        let statement = match &mut self.schedule_by_id {
            Some(statement) => statement,
            none => none.insert(self.connection.prepare_cached(&self.memory.schedule_by_id)?),
        };
        Ok(statement.query_row([id.0], decode::schedule).optional()?.map(Box::new))
    }

    fn overrides(&mut self, id: ScheduleId) -> Result<Vec<Override>, Failure> {
        overrides(self.connection, id)
    }

    fn triggered_schedules(&mut self, id: WorkflowId) -> Result<Vec<Box<Schedule>>, Failure> {
        let sql = format!(
            "SELECT {} FROM schedules s JOIN progress p ON p.id = s.id
             WHERE s.workflow = ?1 AND s.trigger IS NOT NULL",
            decode::SCHEDULE
        );
        let mut statement = self.connection.prepare_cached(&sql)?;
        let found = statement.query_map([id.0], decode::schedule)?;
        let found = found.map(|found| found.map(Box::new)).collect::<Result<Vec<_>, _>>()?;
        // From here on the turn's own copy counts, so the cached one is dropped.
        for schedule in &found {
            self.memory.recent.take_schedule(schedule.id);
        }
        Ok(found)
    }

    fn schedules_of(&mut self, id: WorkflowId) -> Result<Vec<ScheduleId>, Failure> {
        let ids = self.keys("SELECT id FROM schedules WHERE workflow = ?1", [id.0])?;
        Ok(ids.into_iter().map(ScheduleId).collect())
    }

    fn workflow(&mut self, id: WorkflowId) -> Result<Option<Workflow>, Failure> {
        self.one(&self.memory.workflow_by_id, [id.0], decode::workflow)
    }

    fn workflow_named(&mut self, name: &str) -> Result<Option<WorkflowId>, Failure> {
        let sql = "SELECT id FROM workflows WHERE name = ?1";
        self.one(sql, [name], |row| row.get(0).map(WorkflowId))
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

    fn definition_if_readable(
        &mut self,
        id: WorkflowId,
        revision: u32,
    ) -> Result<Option<Arc<Definition>>, Failure> {
        Ok(if_readable(self.definition(id, revision))?.flatten())
    }

    fn run(&mut self, key: RunKey) -> Result<Option<Box<Run>>, Failure> {
        match self.memory.recent.take_run(key) {
            Some(run) => Ok(Some(run)),
            None => Ok(self.one(&self.memory.run_by_key, [key.0], decode::run)?.map(Box::new)),
        }
    }

    fn run_if_readable(&mut self, key: RunKey) -> Result<Option<Box<Run>>, Failure> {
        Ok(if_readable(self.run(key))?.flatten())
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
        let sql = "SELECT workflow, key FROM runs INDEXED BY runs_open
                   WHERE status = 0 AND status < 4 AND workflow > ?1
                   ORDER BY workflow, key LIMIT 1";
        let mut statement = self.connection.prepare_cached(sql)?;
        let mut found = Vec::new();
        let mut after = after.map_or(i64::MIN, |workflow| workflow.0);
        while found.len() < limit {
            let next = statement.query_row([after], |row| Ok((row.get(0)?, row.get(1)?)));
            let Some((workflow, key)) = next.optional()? else { break };
            found.push((WorkflowId(workflow), RunKey(key)));
            after = workflow;
        }
        Ok(found)
    }

    fn pending_after(
        &mut self,
        workflow: WorkflowId,
        after: RunKey,
        limit: usize,
    ) -> Result<Vec<RunKey>, Failure> {
        let sql = "SELECT key FROM runs INDEXED BY runs_open
                   WHERE status = 0 AND status < 4 AND workflow = ?1 AND key > ?2
                   ORDER BY key LIMIT ?3";
        let keys = self.keys(sql, params![workflow.0, after.0, limit])?;
        Ok(keys.into_iter().map(RunKey).collect())
    }

    fn pending_of_handlers(
        &mut self,
        workflow: WorkflowId,
        limit: usize,
    ) -> Result<Vec<RunKey>, Failure> {
        let sql = "SELECT key FROM runs INDEXED BY runs_pending_of_handlers
                   WHERE status = 0 AND handler IS NOT NULL AND workflow = ?1 ORDER BY key LIMIT ?2";
        let keys = self.keys(sql, params![workflow.0, limit])?;
        Ok(keys.into_iter().map(RunKey).collect())
    }

    fn pending_while_paused(
        &mut self,
        workflow: WorkflowId,
        limit: usize,
    ) -> Result<Vec<RunKey>, Failure> {
        let sql = "SELECT key FROM runs INDEXED BY runs_open
                   WHERE status = 0 AND status < 4 AND workflow = ?1
                     AND (handler IS NOT NULL OR triggered_by NOT IN (?2, ?3, ?4))
                   ORDER BY key LIMIT ?5";
        let [a, b, c] = TriggeredBy::HELD_BY_PAUSE.map(|held| code(&TriggeredBy::ALL, held));
        let keys = self.keys(sql, params![workflow.0, a, b, c, limit])?;
        Ok(keys.into_iter().map(RunKey).collect())
    }

    fn ready(&mut self, limit: usize) -> Result<Vec<RunKey>, Failure> {
        let sql = "SELECT key FROM runs INDEXED BY runs_ready
                   WHERE lacks_place = 1 ORDER BY key LIMIT ?1";
        Ok(self.keys(sql, params![limit])?.into_iter().map(RunKey).collect())
    }

    fn active_runs(&mut self, id: WorkflowId, limit: usize) -> Result<Vec<RunKey>, Failure> {
        let sql = "SELECT key FROM runs INDEXED BY runs_open
                   WHERE status < 4 AND status IN (1, 2, 3) AND workflow = ?1 LIMIT ?2";
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        Ok(self.keys(sql, [id.0, limit])?.into_iter().map(RunKey).collect())
    }

    fn owned_by(&mut self, node: NodeId, limit: usize) -> Result<Vec<RunKey>, Failure> {
        // A run with an attempt that is being performed has status 1, running.
        let sql = "SELECT key FROM runs INDEXED BY runs_open
                   WHERE status < 4 AND status = 1 AND instr(owners, ?1) LIMIT ?2";
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        Ok(self.keys(sql, params![owner(node), limit])?.into_iter().map(RunKey).collect())
    }

    fn ran_of(&mut self, id: ScheduleId, nominal: &[Timestamp]) -> Result<Vec<Timestamp>, Failure> {
        // Outcomes 0 to 2 have a run, or will have one.
        let sql = "SELECT DISTINCT nominal FROM ledger WHERE schedule = ?1 AND outcome < 3
                   AND nominal IN (SELECT value FROM json_each(?2))";
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
        self.one(&self.memory.step_by_part, params![run.0, step, item.number()], decode::step)
    }

    fn step_records(&mut self, run: RunKey) -> Result<Vec<StepRecord>, Failure> {
        step_records(self.connection, run)
    }

    fn queued(&mut self, queues: &[String], limit: usize) -> Result<Vec<(RunKey, Part)>, Failure> {
        let sql = "SELECT run, step, item FROM queue INDEXED BY queue_by_name
                   WHERE queue = ?1 AND item >= -2 ORDER BY run, step, item LIMIT ?2";
        let mut statement = self.connection.prepare_cached(sql)?;
        let read = |row: &Row<'_>| {
            Ok((RunKey(row.get(0)?), Part { step: row.get(1)?, item: decode::item(row, 2)? }))
        };
        let mut found = Vec::new();
        for queue in queues {
            for part in statement.query_map(params![queue, limit], read)? {
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

    fn fates(
        &mut self,
        topic: TopicId,
        ids: &[String],
    ) -> Result<Vec<Option<EventStatus>>, Failure> {
        topic_reader::fates(self.connection, topic, ids)
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
        crate::sqlite::views::incidents::by_key(self.connection, key)
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
    let sql = format!("SELECT {} FROM steps WHERE run = ?1 ORDER BY step, item", decode::STEP);
    let mut statement = connection.prepare_cached(&sql)?;
    Ok(statement.query_map([run.0], decode::step)?.collect::<Result<_, _>>()?)
}

pub(crate) fn run_key(connection: &Connection, id: &RunId) -> Result<Option<RunKey>, Failure> {
    let found = match id {
        RunId::Occurrence { schedule, n, retry } => connection
            .prepare_cached("SELECT key FROM runs WHERE schedule = ?1 AND n = ?2 AND retry = ?3")?
            .query_row(params![schedule.0, n, retry], |row| row.get(0)),
        RunId::Other(uuid) => connection
            .prepare_cached("SELECT key FROM runs WHERE uuid = ?1")?
            .query_row([uuid.to_be_bytes()], |row| row.get(0)),
    };
    Ok(found.optional()?.map(RunKey))
}
