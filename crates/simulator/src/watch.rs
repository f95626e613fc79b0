//! Reads from the database file what each commit has changed: triggers note every changed row,
//! whoever wrote it. In a world on PostgreSQL the file is a copy of what is stored there.

use std::path::Path;
use std::sync::Arc;

use calendar::Zones;
use engine::incidents::{How, Told, ToldOutcome};
use engine::ledger::Outcome;
use engine::run::{RunState, RunStatus, TriggeredBy};
use engine::schedule::{OverrideAction, Status};
use language::definition::{DeclaredBy, Definition};
use rusqlite::{Connection, OptionalExtension as _, Row, params};
use store::{Failure, Sqlite, SqliteOptions};

use crate::handlers::rows::{self, Handled};
use crate::postgres::copy::Copy;
use crate::postgres::schema::{LogRow, Schema};
use crate::process::Detail;
use crate::process::rows::Definitions;

type Read<T> = rusqlite::Result<T>;

/// When there are more notes than this, they are deleted.
const NOTES: i64 = 20_000;

/// The watched tables, the number each is noted by, and the columns that identify a row.
const WATCHED: [(&str, i64, &str, &str); 12] = [
    ("workflows", 0, "id", "0"),
    ("schedules", 1, "id", "0"),
    ("progress", 1, "id", "0"),
    ("runs", 2, "key", "0"),
    ("ledger", 3, "schedule", "n"),
    ("overrides", 4, "schedule", "0"),
    ("topics", 5, "id", "0"),
    ("events", 6, "key", "0"),
    ("handlers", 7, "id", "0"),
    ("mutations", 8, "run", "0"),
    ("subscriptions", 9, "topic", "0"),
    ("incidents", 10, "key", "0"),
];

/// A second connection to the store's file, independent of the store.
pub(crate) struct Watch {
    connection: Connection,
    /// Where the file is a copy: what it is copied from.
    source: Option<Arc<Schema>>,
    copy: Copy,
    seen: i64,
    /// Notes up to this one were deleted.
    cleared: i64,
    definitions: Definitions,
    with_handlers: rows::Definitions,
}

/// The rows that one commit has changed.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    pub(crate) workflows: Vec<WorkflowRow>,
    /// `None` if the row is gone.
    pub(crate) schedules: Vec<(i64, Option<ScheduleRow>)>,
    pub(crate) runs: Vec<RunRow>,
    /// Runs that were removed.
    pub(crate) runs_gone: Vec<i64>,
    pub(crate) ledger: Vec<((i64, u64), Option<LedgerRow>)>,
    /// All overrides of the schedules whose overrides have changed.
    pub(crate) overrides: Vec<(i64, Vec<(i64, OverrideAction)>)>,
    /// `None` if the row is gone.
    pub(crate) incidents: Vec<(i64, Option<IncidentRow>)>,
    /// Topics, events and handlers.
    pub(crate) handled: Handled,
}

impl Changes {
    pub(crate) fn is_empty(&self) -> bool {
        self.workflows.is_empty()
            && self.schedules.is_empty()
            && self.runs.is_empty()
            && self.runs_gone.is_empty()
            && self.ledger.is_empty()
            && self.overrides.is_empty()
            && self.incidents.is_empty()
            && self.handled.is_empty()
    }
}

#[derive(Clone, Debug)]
pub(crate) struct WorkflowRow {
    pub(crate) id: i64,
    pub(crate) name: String,
    pub(crate) paused: bool,
    pub(crate) live: Option<u32>,
    pub(crate) concurrency: Option<u32>,
    /// Its own retention, if it declares one.
    pub(crate) retention: Option<i64>,
    pub(crate) incident: Option<i64>,
}

#[derive(Clone, Debug)]
pub(crate) struct IncidentRow {
    pub(crate) workflow: i64,
    pub(crate) schedule: Option<i64>,
    /// How many runs were started to notify people when it began.
    pub(crate) told: usize,
    pub(crate) ending: Option<How>,
    /// The same for its end.
    pub(crate) ended_told: usize,
}

#[derive(Clone, Debug)]
pub(crate) struct ScheduleRow {
    pub(crate) id: i64,
    pub(crate) workflow: i64,
    pub(crate) declared_by: Option<DeclaredBy>,
    pub(crate) status: Status,
    pub(crate) declared: String,
    pub(crate) mark: i64,
    /// Nominal and effective time.
    pub(crate) next: Option<(i64, i64)>,
    pub(crate) n: u64,
    pub(crate) run_count: u64,
    pub(crate) current_repeat: u64,
    pub(crate) error_count: u64,
    pub(crate) live: Option<String>,
    pub(crate) incident: Option<i64>,
    pub(crate) updated_at: i64,
    pub(crate) recomputed_at: Option<i64>,
}

impl ScheduleRow {
    pub(crate) fn is_of_producer(&self) -> bool {
        self.declared_by.as_ref().is_some_and(|by| by.producer().is_some())
    }
}

#[derive(Clone, Debug)]
pub(crate) struct RunRow {
    pub(crate) key: i64,
    pub(crate) workflow: i64,
    pub(crate) version: u32,
    pub(crate) schedule: Option<i64>,
    pub(crate) n: Option<u64>,
    pub(crate) retry: u32,
    pub(crate) triggered_by: TriggeredBy,
    pub(crate) effective: Option<i64>,
    pub(crate) status: RunStatus,
    pub(crate) created_at: i64,
    pub(crate) started_at: Option<i64>,
    pub(crate) ended_at: Option<i64>,
    pub(crate) timeout: Option<i64>,
    /// The state as it is stored.
    pub(crate) state: RunState,
    /// Whether a part could begin if there were capacity.
    pub(crate) waits_for_slot: bool,
    /// The run that started it, and the attempt that waits for it.
    pub(crate) parent: Option<(i64, Option<u32>)>,
    /// The other rows of the run, if it is a process.
    pub(crate) detail: Option<Box<Detail>>,
    /// The producer or consumer whose run it is.
    pub(crate) handler: Option<String>,
    pub(crate) retry_of: Option<String>,
    /// The whole definition, if the workflow has handlers.
    pub(crate) whole: Option<Arc<Definition>>,
    pub(crate) error: Option<String>,
    pub(crate) uuid: Option<[u8; 16]>,
}

#[derive(Clone, Debug)]
pub(crate) struct LedgerRow {
    pub(crate) n: u64,
    pub(crate) count: u64,
    pub(crate) nominal: i64,
    pub(crate) last_nominal: i64,
    pub(crate) effective: i64,
    pub(crate) decided_at: i64,
    pub(crate) outcome: Outcome,
    pub(crate) reason: String,
    pub(crate) run: Option<i64>,
}

pub(crate) fn json<T: serde::de::DeserializeOwned>(row: &Row<'_>, column: usize) -> Read<T> {
    let text = row.get_ref(column)?.as_str()?;
    serde_json::from_str(text).map_err(|error| {
        rusqlite::Error::FromSqlConversionFailure(
            column,
            rusqlite::types::Type::Text,
            Box::new(error),
        )
    })
}

impl Watch {
    /// Begins to watch. The store was opened once before, so that its tables exist.
    pub(crate) fn begin(path: &Path, source: Option<Arc<Schema>>) -> Read<Watch> {
        let connection = Connection::open(path)?;
        connection.pragma_update(None, "synchronous", "OFF")?;
        connection.set_prepared_statement_cache_capacity(64);
        connection.execute_batch(
            "CREATE TABLE IF NOT EXISTS watched
             (seq INTEGER PRIMARY KEY AUTOINCREMENT, kind INTEGER, a INTEGER, b INTEGER)",
        )?;
        for (table, kind, a, b) in WATCHED {
            for (event, row) in [("INSERT", "new"), ("UPDATE", "new"), ("DELETE", "old")] {
                let b = if b == "0" { "0".to_owned() } else { format!("{row}.{b}") };
                connection.execute_batch(&format!(
                    "CREATE TRIGGER watch_{table}_{event} AFTER {event} ON {table} BEGIN
                     INSERT INTO watched (kind, a, b) VALUES ({kind}, {row}.{a}, {b}); END"
                ))?;
            }
        }
        Ok(Watch {
            connection,
            source,
            copy: Copy::default(),
            seen: 0,
            cleared: 0,
            definitions: Definitions::default(),
            with_handlers: rows::Definitions::default(),
        })
    }

    /// Begins with an empty copy in this folder.
    pub(crate) fn of_copy(folder: &Path, zones: &Arc<Zones>) -> Result<Watch, Failure> {
        let path = folder.join("copy.db");
        let options = SqliteOptions { inline: true, sync: false, readers: 1, cache_kb: 8_192 };
        // The embedded store makes the tables.
        drop(Sqlite::open(&path, zones.clone(), options)?);
        Watch::begin(&path, None).map_err(|error| Failure::Damaged(error.to_string()))
    }

    pub(crate) fn connection(&self) -> &Connection {
        &self.connection
    }

    /// The rows that have changed since the last call.
    pub(crate) fn changes(&mut self) -> Result<Changes, Failure> {
        let log = self.source.as_ref().map(|source| source.take_log()).transpose()?;
        self.apply(&log.unwrap_or_default())
    }

    /// Makes the changes of one commit in the copy.
    pub(crate) fn apply(&mut self, log: &[LogRow]) -> Result<Changes, Failure> {
        for change in log {
            self.copy.apply(&self.connection, change)?;
        }
        self.noted().map_err(|error| Failure::Damaged(error.to_string()))
    }

    fn noted(&mut self) -> Read<Changes> {
        let notes = self.notes()?;
        let mut changes = Changes::default();
        for (kind, a, b) in notes {
            match kind {
                0 => changes.workflows.extend(self.workflow(a)?),
                1 => changes.schedules.push((a, self.schedule(a)?)),
                2 => match self.run_with_detail(a)? {
                    Some(run) => changes.runs.push(run),
                    None => changes.runs_gone.push(a),
                },
                3 => changes.ledger.push(((a, b as u64), self.ledger(a, b)?)),
                4 => changes.overrides.push((a, self.overrides(a)?)),
                10 => changes.incidents.push((a, self.incident(a)?)),
                _ => changes.handled.note(&self.connection, kind, a)?,
            }
        }
        Ok(changes)
    }

    /// A removed run of which some rows are left.
    pub(crate) fn leftovers(&self) -> Read<Option<i64>> {
        let sql = "SELECT run FROM (SELECT run FROM steps UNION SELECT run FROM queue
                    UNION SELECT run FROM attempts UNION SELECT run FROM approvals UNION SELECT run FROM alerts
                    UNION SELECT run FROM waits UNION SELECT run FROM mutations)
                   WHERE run NOT IN (SELECT key FROM runs) LIMIT 1";
        self.connection.prepare_cached(sql)?.query_row([], |row| row.get(0)).optional()
    }

    fn notes(&mut self) -> Read<Vec<(i64, i64, i64)>> {
        let sql = "SELECT DISTINCT kind, a, b FROM watched WHERE seq > ?1 ORDER BY kind, a, b";
        let mut statement = self.connection.prepare_cached(sql)?;
        let rows =
            statement.query_map([self.seen], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
        let notes: Vec<(i64, i64, i64)> = rows.collect::<Read<_>>()?;
        drop(statement);
        if !notes.is_empty() {
            // Counting the notes would take longer than everything else; their numbers are given in
            // order.
            let sql = "SELECT max(seq) FROM watched";
            self.seen = self.connection.prepare_cached(sql)?.query_row([], |row| row.get(0))?;
            if self.seen - self.cleared > NOTES {
                self.connection.execute("DELETE FROM watched", [])?;
                self.cleared = self.seen;
            }
        }
        Ok(notes)
    }

    fn one<T>(
        &self,
        sql: &str,
        id: i64,
        read: impl FnOnce(&Row<'_>) -> Read<T>,
    ) -> Read<Option<T>> {
        self.connection.prepare_cached(sql)?.query_row([id], read).optional()
    }

    fn workflow(&self, id: i64) -> Read<Option<WorkflowRow>> {
        let sql = "SELECT id, name, paused, live, concurrency, retention, incident FROM workflows
             WHERE id = ?1";
        self.one(sql, id, |row| {
            Ok(WorkflowRow {
                id: row.get(0)?,
                name: row.get(1)?,
                paused: row.get(2)?,
                live: row.get(3)?,
                concurrency: row.get(4)?,
                retention: row.get(5)?,
                incident: row.get(6)?,
            })
        })
    }

    fn schedule(&self, id: i64) -> Read<Option<ScheduleRow>> {
        let sql = "SELECT s.id, s.workflow, s.status, s.declared, p.mark, p.next_nominal,
                    p.next_effective, p.n, p.run_count, p.error_count, p.live, s.trigger, p.current_repeat,
                    p.incident, s.updated_at, p.recomputed_at
                   FROM schedules s JOIN progress p ON p.id = s.id WHERE s.id = ?1";
        self.one(sql, id, |row| {
            let nominal: Option<i64> = row.get(5)?;
            Ok(ScheduleRow {
                id: row.get(0)?,
                workflow: row.get(1)?,
                status: Status::ALL[row.get::<_, usize>(2)?],
                declared: row.get(3)?,
                mark: row.get(4)?,
                next: nominal.zip(row.get(6)?),
                n: row.get(7)?,
                run_count: row.get(8)?,
                error_count: row.get(9)?,
                live: row.get(10)?,
                declared_by: row.get::<_, Option<String>>(11)?.map(DeclaredBy::from),
                current_repeat: row.get(12)?,
                incident: row.get(13)?,
                updated_at: row.get(14)?,
                recomputed_at: row.get(15)?,
            })
        })
    }

    fn incident(&self, key: i64) -> Read<Option<IncidentRow>> {
        let sql =
            "SELECT workflow, schedule, told, ending, ended_told FROM incidents WHERE key = ?1";
        let runs = |told: Vec<Told>| {
            let is_run = |told: &&Told| matches!(told.outcome, ToldOutcome::Run(_));
            told.iter().filter(is_run).count()
        };
        self.one(sql, key, |row| {
            let ending: Option<usize> = row.get(3)?;
            Ok(IncidentRow {
                workflow: row.get(0)?,
                schedule: row.get(1)?,
                told: runs(json(row, 2)?),
                ending: ending.map(|code| How::ALL[code]),
                ended_told: match ending {
                    Some(_) => runs(json(row, 4)?),
                    None => 0,
                },
            })
        })
    }

    fn run_with_detail(&mut self, key: i64) -> Read<Option<RunRow>> {
        let Some(mut run) = self.run(key)? else { return Ok(None) };
        let of = (run.workflow, run.version);
        run.detail = self.definitions.detail(&self.connection, key, of)?;
        run.whole = self.with_handlers.get(&self.connection, of)?;
        Ok(Some(run))
    }

    fn run(&self, key: i64) -> Read<Option<RunRow>> {
        let sql = "SELECT key, workflow, schedule, n, retry, triggered_by, status,
                    created_at, started_at, timeout, state, error, uuid, effective, ended_at,
                    waits_for_slot, version, parent, parent_token, handler, retry_of
                   FROM runs WHERE key = ?1";
        self.one(sql, key, |row| {
            Ok(RunRow {
                key: row.get(0)?,
                workflow: row.get(1)?,
                schedule: row.get(2)?,
                n: row.get(3)?,
                retry: row.get(4)?,
                triggered_by: TriggeredBy::ALL[row.get::<_, usize>(5)?],
                status: RunStatus::ALL[row.get::<_, usize>(6)?],
                created_at: row.get(7)?,
                started_at: row.get(8)?,
                timeout: row.get(9)?,
                state: json(row, 10)?,
                error: row.get(11)?,
                uuid: row.get(12)?,
                effective: row.get(13)?,
                ended_at: row.get(14)?,
                waits_for_slot: row.get(15)?,
                version: row.get(16)?,
                parent: row.get::<_, Option<i64>>(17)?.zip(Some(row.get(18)?)),
                handler: row.get(19)?,
                retry_of: row.get(20)?,
                whole: None,
                detail: None,
            })
        })
    }

    fn ledger(&self, schedule: i64, n: i64) -> Read<Option<LedgerRow>> {
        let sql =
            "SELECT n, count, nominal, last_nominal, effective, decided_at, outcome, reason, run
                   FROM ledger WHERE schedule = ?1 AND n = ?2";
        let read = |row: &Row<'_>| {
            Ok(LedgerRow {
                n: row.get(0)?,
                count: row.get(1)?,
                nominal: row.get(2)?,
                last_nominal: row.get(3)?,
                effective: row.get(4)?,
                decided_at: row.get(5)?,
                outcome: Outcome::ALL[row.get::<_, usize>(6)?],
                reason: row.get(7)?,
                run: row.get(8)?,
            })
        };
        self.connection.prepare_cached(sql)?.query_row(params![schedule, n], read).optional()
    }

    fn overrides(&self, schedule: i64) -> Read<Vec<(i64, OverrideAction)>> {
        let sql = "SELECT nominal, action FROM overrides WHERE schedule = ?1 ORDER BY nominal";
        let mut statement = self.connection.prepare_cached(sql)?;
        let rows = statement.query_map([schedule], |row| {
            let action: String = row.get(1)?;
            let action = serde_json::from_str(&action).unwrap_or(OverrideAction::Skip);
            Ok((row.get(0)?, action))
        })?;
        rows.collect()
    }
}
