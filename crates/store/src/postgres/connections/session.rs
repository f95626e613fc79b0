//! The settings of each session, and the checks made once before the first.
//!
//! A role or a database may bring settings of its own. Those that a node depends on are set here,
//! so that no `ALTER ROLE … SET` makes nodes fail or lose what they have acknowledged.

use std::time::Duration;

use tokio_postgres::{Client, SimpleQueryMessage};

use crate::failure::Failure;
use crate::postgres::connections::connect::{Session, Target, unavailable};

/// Switches off limits that would do harm: a role's `lock_timeout` would end transactions that only
/// wait for a lock, and the others would end connections. `statement_timeout` limits statements,
/// including their waits for locks. Settings that the server does not know are passed over.
const NO_LIMITS: &str = "SELECT set_config(name, '0', false) FROM pg_settings
     WHERE name IN ('lock_timeout', 'idle_session_timeout', 'transaction_timeout')";
/// An acknowledged change must be synced: a commit that the server reports before it is on disk is
/// lost in a crash. The other levels differ in what standbys have, and are left as they are.
const SYNCED: &str = "SELECT set_config('synchronous_commit', 'on', false)
     WHERE current_setting('synchronous_commit') = 'off'";
/// Makes the server notice that a node is gone, also while a statement runs and while the
/// connection is idle: otherwise its locks stay held and its connections stay open for hours. Not
/// every platform supports this.
const NOTICED: &str = "SET client_connection_check_interval = 2000; SET tcp_keepalives_idle = 10;
     SET tcp_keepalives_interval = 5; SET tcp_keepalives_count = 3";
/// The settings of the role, the database or the server, whatever this session has set.
const DURABILITY: &str = "SELECT name, reset_val FROM pg_settings
     WHERE name IN ('synchronous_commit', 'synchronous_standby_names', 'fsync')";

/// The statements that set up each new connection.
pub(crate) fn setup(schema: &str, statement: Duration, idle: Duration) -> String {
    format!(
        "SET search_path = {schema}; SET statement_timeout = {}; \
         SET idle_in_transaction_session_timeout = {}; \
         SET default_transaction_isolation = 'read committed'; SET jit = off; {NO_LIMITS}; {SYNCED}",
        statement.as_millis(),
        idle.as_millis(),
    )
}

/// Sets up a session; settings that the platform may not support are optional.
pub(crate) async fn begin(client: &Client, setup: &str) -> Result<(), tokio_postgres::Error> {
    client.batch_execute(setup).await?;
    match client.batch_execute(NOTICED).await {
        Err(error) if error.as_db_error().is_none() => Err(error),
        _ => Ok(()),
    }
}

/// Warns if acknowledged changes may be lost all the same, and says what this program does about
/// it.
pub(crate) async fn warn_of_losses(client: &Client) -> Result<(), Failure> {
    let said = client.simple_query(DURABILITY).await.map_err(unavailable)?;
    let setting = |name: &str| {
        said.iter().find_map(|message| match message {
            SimpleQueryMessage::Row(row) if row.get(0) == Some(name) => row.get(1),
            _ => None,
        })
    };
    let commit = setting("synchronous_commit").unwrap_or("on");
    let has_standbys = setting("synchronous_standby_names").is_some_and(|names| !names.is_empty());
    if commit == "off" {
        tracing::warn!(
            "synchronous_commit is off for this role, database or server: a crash of the database would lose what was \
             acknowledged, so this node sets it to on for its own sessions. Set it to on there as well"
        );
    } else if has_standbys && matches!(commit, "local" | "remote_write") {
        tracing::warn!(
            synchronous_commit = commit,
            "a standby that takes over may lack what was acknowledged: synchronous_standby_names is set, and commits do \
             not wait until a standby has them on its disk. Set synchronous_commit to on for this role"
        );
    }
    if setting("fsync") == Some("off") {
        tracing::warn!(
            "fsync is off: a crash of the database's machine may lose or damage everything"
        );
    }
    Ok(())
}

/// The process that serves a session at the moment, and the start time of its server: two servers
/// may have processes with the same id.
async fn process(session: &Client, begin: &str) -> Result<String, Failure> {
    let sql = format!("{begin} SELECT pg_backend_pid() || ' since ' || pg_postmaster_start_time()");
    let said = session.simple_query(&sql).await.map_err(|error| match error.code() {
        // The code with which a pooler in statement mode refuses a transaction.
        Some(code) if code.code() == "08P01" => pooled(),
        _ => unavailable(error),
    })?;
    let pid = said.iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
        _ => None,
    });
    pid.ok_or_else(|| Failure::Damaged("the database does not know its own process".to_owned()))
}

/// Refuses a pooler that gives each transaction another session. If a connection keeps its process
/// while a second connection is in a transaction, the process is its own; a pooler would hand it
/// out.
pub(crate) async fn refuse_pooler(target: &Target, first: &Session) -> Result<(), Failure> {
    let before = process(first, "").await?;
    let second = target.open_quietly().await?;
    let other = process(&second, "BEGIN;").await?;
    // The first comparison comes first: if the pool has only one session, the second connection
    // holds it, and the query would not be answered.
    if other == before || process(first, "").await? != before {
        return Err(pooled());
    }
    second.batch_execute("ROLLBACK").await.map_err(unavailable)
}

fn pooled() -> Failure {
    Failure::Unusable {
        what: "there is a connection pooler between this program and PostgreSQL which gives each transaction another \
               session (pgbouncer: pool_mode = transaction or statement). Prepared statements, settings, locks and \
               calls between nodes belong to a session"
            .to_owned(),
        remedy: "the address of PostgreSQL itself, or pool_mode = session for this database in pgbouncer.ini"
            .to_owned(),
    }
}
