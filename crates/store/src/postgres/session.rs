//! What each session is told when it begins, and what is asked once before the first.
//!
//! A role or a database may bring settings of its own. Those that a node depends on are set here, so that nobody's
//! `ALTER ROLE … SET` makes nodes fail or lose what they have acknowledged.

use std::time::Duration;

use tokio_postgres::{Client, SimpleQueryMessage};

use super::connect::{Session, Target, unavailable};
use crate::failure::Failure;

/// Limits that this program does not want, by name: a role's `lock_timeout` would end transactions that only wait for
/// their turn, and the others would end connections. What a statement may take is limited by `statement_timeout`,
/// which includes its waiting for locks. Those that the server does not know yet are passed over.
const NO_LIMITS: &str = "SELECT set_config(name, '0', false) FROM pg_settings
     WHERE name IN ('lock_timeout', 'idle_session_timeout', 'transaction_timeout')";
/// Acknowledged means synced: a commit that the server reports before it is on the disk is lost in a crash. The other
/// levels differ in what standbys have, and stay as they are.
const SYNCED: &str = "SELECT set_config('synchronous_commit', 'on', false)
     WHERE current_setting('synchronous_commit') = 'off'";
/// So that the server notices that a node is gone, also while a statement runs and while nothing is asked: else what
/// it has locked stays locked, and its connections stay open for hours. Not every platform can do that.
const NOTICED: &str = "SET client_connection_check_interval = 2000; SET tcp_keepalives_idle = 10;
     SET tcp_keepalives_interval = 5; SET tcp_keepalives_count = 3";
/// As the role, the database or the server has them, whatever this session has set.
const DURABILITY: &str = "SELECT name, reset_val FROM pg_settings
     WHERE name IN ('synchronous_commit', 'synchronous_standby_names', 'fsync')";

/// What is said on each new connection before anything else.
pub(super) fn setup(schema: &str, statement: Duration, idle: Duration) -> String {
    format!(
        "SET search_path = {schema}; SET statement_timeout = {}; \
         SET idle_in_transaction_session_timeout = {}; \
         SET default_transaction_isolation = 'read committed'; SET jit = off; {NO_LIMITS}; {SYNCED}",
        statement.as_millis(),
        idle.as_millis(),
    )
}

/// Says it, and what is only wished for.
pub(super) async fn begin(client: &Client, setup: &str) -> Result<(), tokio_postgres::Error> {
    client.batch_execute(setup).await?;
    match client.batch_execute(NOTICED).await {
        Err(error) if error.as_db_error().is_none() => Err(error),
        _ => Ok(()),
    }
}

/// Warns if what is acknowledged may be lost all the same, and says what this program does about it.
pub(super) async fn warn_of_losses(client: &Client) -> Result<(), Failure> {
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

/// The process that serves a session at the moment, and since when its server runs: two servers may have processes with
/// the same id.
async fn process(session: &Client, begin: &str) -> Result<String, Failure> {
    let sql = format!("{begin} SELECT pg_backend_pid() || ' since ' || pg_postmaster_start_time()");
    let said = session.simple_query(&sql).await.map_err(|error| match error.code() {
        // How a pooler refuses a transaction where it gives each statement another session.
        Some(code) if code.code() == "08P01" => pooled(),
        _ => unavailable(error),
    })?;
    let pid = said.iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
        _ => None,
    });
    pid.ok_or_else(|| Failure::Damaged("the database does not know its own process".to_owned()))
}

/// Refuses a pooler that gives each transaction another session of the database: a process that serves one connection
/// while the other one is in a transaction is that connection's own, unless somebody shares it out.
pub(super) async fn refuse_pooler(target: &Target, first: &Session) -> Result<(), Failure> {
    let before = process(first, "").await?;
    let second = target.open_quietly().await?;
    let other = process(&second, "BEGIN;").await?;
    // Asked only if it can be answered: the only session of a small pool is the second one's by now.
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
