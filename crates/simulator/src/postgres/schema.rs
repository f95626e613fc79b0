//! A schema with a store, in a PostgreSQL for tests, and a log of every row that is changed in it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use calendar::Zones;
use jiff::SignedDuration;
use serde_json::{Map, Value};
use store::{Failure, Postgres, PostgresClock, PostgresOptions, Store};
use tokio_postgres::{Client, NoTls};

use crate::wait::{runtime, wait_for};

/// The tables whose changes are logged.
const LOGGED: [&str; 20] = [
    "workflows",
    "revisions",
    "schedules",
    "progress",
    "open_runs",
    "ended_runs",
    "steps",
    "attempts",
    "queue",
    "approvals",
    "alerts",
    "waits",
    "ledger",
    "overrides",
    "topics",
    "events",
    "handlers",
    "mutations",
    "subscriptions",
    "incidents",
];

/// Also logged: who has joined, and which commands were carried out.
const ALSO_LOGGED: [&str; 2] = ["nodes", "idempotency"];

/// A schema of its own. It is dropped with this value.
pub(crate) struct Schema {
    url: String,
    name: String,
    lease: SignedDuration,
    /// A connection of the simulator, which the store does not know.
    client: Client,
}

/// One changed row, in the order in which rows were changed.
#[derive(Debug)]
pub(crate) struct LogRow {
    /// The number of its transaction.
    pub(crate) transaction: i64,
    /// When it was changed, by the host's clock, in microseconds.
    pub(crate) changed_at: i64,
    /// The node whose connection changed it; `None` for the simulator's own.
    pub(crate) node: Option<usize>,
    pub(crate) table: String,
    /// Whether the row was deleted: the content is then what it was.
    pub(crate) is_gone: bool,
    pub(crate) content: Map<String, Value>,
}

pub(crate) fn damaged(error: impl std::fmt::Display) -> Failure {
    Failure::Damaged(error.to_string())
}

impl Schema {
    /// Creates a schema with an empty store, and begins to log its changes.
    pub(crate) fn create(lease: SignedDuration, zones: &Arc<Zones>) -> Result<Schema, Failure> {
        static CREATED: AtomicU32 = AtomicU32::new(0);
        let url = testbed::shared_url().map_err(|why| Failure::Unavailable(why.to_string()))?;
        let created = CREATED.fetch_add(1, Ordering::Relaxed);
        let name = format!("simulated_{}_{created}", std::process::id());
        let runtime = runtime()?;
        let (client, connection) =
            wait_for(tokio_postgres::connect(&url, NoTls)).map_err(damaged)?;
        // The connection ends with the client; an error of it is also one of the client's query.
        runtime.spawn(async move { drop(connection.await) });
        let schema = Schema { url, name, lease, client };
        drop(schema.open(0, zones)?);
        schema.log_changes()?;
        Ok(schema)
    }

    /// Opens the store for a node. The number tells its connections from those of other nodes.
    pub(crate) fn open(&self, node: usize, zones: &Arc<Zones>) -> Result<Arc<dyn Store>, Failure> {
        let separator = if self.url.contains('?') { '&' } else { '?' };
        let url = format!("{}{separator}options=-c%20simulator.node%3D{node}", self.url);
        let options = PostgresOptions {
            schema: self.name.clone(),
            clock: PostgresClock::Caller,
            lease: self.lease,
            commands: 3,
            readers: 1,
            ..PostgresOptions::new(url)
        };
        runtime()?;
        Ok(Arc::new(wait_for(Postgres::open(zones.clone(), options))?))
    }

    fn log_changes(&self) -> Result<(), Failure> {
        let name = &self.name;
        let mut sql = format!(
            "CREATE SCHEMA {name}_log;
             CREATE TABLE {name}_log.changes (
               seq bigserial PRIMARY KEY,
               transaction bigint NOT NULL DEFAULT pg_current_xact_id()::text::bigint,
               node text DEFAULT current_setting('simulator.node', true),
               changed_at bigint NOT NULL
                 DEFAULT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint,
               relation text NOT NULL, is_gone boolean NOT NULL, content json NOT NULL);
             CREATE FUNCTION {name}_log.note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
               INSERT INTO {name}_log.changes (relation, is_gone, content) VALUES (TG_TABLE_NAME,
                 TG_OP = 'DELETE', CASE TG_OP WHEN 'DELETE' THEN to_json(OLD) ELSE to_json(NEW) END);
               RETURN NULL; END $$;"
        );
        for table in LOGGED.into_iter().chain(ALSO_LOGGED) {
            sql.push_str(&format!(
                "CREATE TRIGGER watch_{table} AFTER INSERT OR UPDATE OR DELETE ON {name}.{table}
                 FOR EACH ROW EXECUTE FUNCTION {name}_log.note();"
            ));
        }
        self.execute(&sql)
    }

    /// Runs statements beside the store, in its schema.
    pub(crate) fn execute(&self, sql: &str) -> Result<(), Failure> {
        let sql = format!("SET search_path = {}; {sql}", self.name);
        wait_for(self.client.batch_execute(&sql)).map_err(damaged)
    }

    /// What was committed since the last call. No transaction may be in flight: it could have
    /// changed rows before some that are returned.
    pub(crate) fn take_log(&self) -> Result<Vec<LogRow>, Failure> {
        let sql = format!(
            "WITH taken AS (DELETE FROM {}_log.changes RETURNING *)
             SELECT transaction, node, relation, is_gone, content::text, changed_at FROM taken
             ORDER BY seq",
            self.name
        );
        let rows = wait_for(self.client.query(&sql, &[])).map_err(damaged)?;
        let row = |row: &tokio_postgres::Row| {
            let node: Option<String> = row.try_get(1).map_err(damaged)?;
            let content: String = row.try_get(4).map_err(damaged)?;
            Ok(LogRow {
                transaction: row.try_get(0).map_err(damaged)?,
                changed_at: row.try_get(5).map_err(damaged)?,
                node: node.and_then(|node| node.parse().ok()),
                table: row.try_get(2).map_err(damaged)?,
                is_gone: row.try_get(3).map_err(damaged)?,
                content: serde_json::from_str(&content).map_err(damaged)?,
            })
        };
        rows.iter().map(row).collect()
    }

    /// The leases of all nodes run out just before this instant.
    pub(crate) fn end_leases(&self, at: i64) -> Result<(), Failure> {
        let last = at - 1;
        self.execute(&format!("UPDATE nodes SET lease_until = least(lease_until, {last})"))
    }
}

impl Drop for Schema {
    fn drop(&mut self) {
        let name = &self.name;
        // Connections of a store that was dropped a moment ago may still hold locks. What is left
        // behind is in a database for tests.
        let sql = format!("SET lock_timeout = '5s'; DROP SCHEMA {name}, {name}_log CASCADE");
        drop(self.execute(&sql));
    }
}
