//! Connections: where to, how they are set up, how long they may be silent, and what their errors
//! mean.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::task::AbortHandle;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Config, Connection, Socket};

use crate::failure::{Failure, WriteFault};
use crate::postgres::PostgresOptions;
use crate::postgres::connections::session;
use crate::postgres::connections::tls::{self, Encrypted, Tls};

/// TCP keepalive of an idle connection: first probe, interval, and number of probes. A peer that is
/// gone is noticed after about ten seconds.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(5);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(2);
const KEEPALIVE_RETRIES: u32 = 3;
/// The server ends a statement after `statement_timeout` and reports it. A server that stays silent
/// for this much longer is gone, whatever the network says.
const SILENCE: Duration = Duration::from_secs(2);

/// The address of the database, and the settings of each connection.
#[derive(Clone)]
pub(crate) struct Target {
    config: Config,
    tls: Tls,
    /// The statements that set up each new connection.
    setup: String,
    statement_timeout: Duration,
    idle_timeout: Duration,
    /// How many connections were given up because they fell silent, counted over all clones of this
    /// target.
    given_up: Arc<AtomicU64>,
    pub(crate) schema: String,
}

impl Target {
    pub(crate) fn new(options: &PostgresOptions) -> Result<Target, Failure> {
        let (mut config, tls) = tls::read(&options.url)?;
        config.connect_timeout(options.connect_timeout).application_name("punctual");
        config.tcp_user_timeout(options.connect_timeout);
        config.keepalives(true).keepalives_idle(KEEPALIVE_IDLE);
        config.keepalives_interval(KEEPALIVE_INTERVAL).keepalives_retries(KEEPALIVE_RETRIES);
        let schema = quoted(&options.schema);
        let (statement_timeout, idle_timeout) = (options.statement_timeout, options.idle_timeout);
        let setup = session::setup(&schema, statement_timeout, idle_timeout);
        let given_up = Arc::default();
        Ok(Target { config, tls, setup, statement_timeout, idle_timeout, given_up, schema })
    }

    /// The same target with a statement timeout of at most this.
    pub(crate) fn hurried(&self, statement_timeout: Duration) -> Target {
        let statement_timeout = statement_timeout.min(self.statement_timeout);
        let setup = session::setup(&self.schema, statement_timeout, self.idle_timeout);
        Target { setup, statement_timeout, ..self.clone() }
    }

    /// How many connections have fallen silent so far. Whatever silenced one may have happened to
    /// those open beside it, so these are replaced too before anybody waits for an answer on them.
    pub(crate) fn given_up(&self) -> u64 {
        self.given_up.load(Ordering::Relaxed)
    }

    /// Counts another connection that fell silent.
    pub(crate) fn gave_up(&self) {
        self.given_up.fetch_add(1, Ordering::Relaxed);
    }

    /// How long a connection may be silent while a query is pending.
    pub(crate) fn silence(&self) -> Duration {
        self.statement_timeout + SILENCE
    }

    pub(crate) fn config(&self) -> &Config {
        &self.config
    }

    pub(crate) fn tls(&self) -> Tls {
        self.tls.clone()
    }

    pub(crate) fn setup(&self) -> &str {
        &self.setup
    }

    /// How long a connection may take to open.
    pub(crate) fn patience(&self) -> Duration {
        self.config.get_connect_timeout().copied().unwrap_or(Duration::from_secs(5))
    }

    /// Opens a connection and sets it up. A task of its own carries its traffic.
    pub(crate) async fn connect(&self) -> Result<Session, Failure> {
        let session = self.open_quietly().await?;
        let setup = session::begin(&session, &self.setup);
        match tokio::time::timeout(self.patience(), setup).await {
            Ok(said) => said.map_err(unavailable)?,
            Err(_) => {
                session.give_up();
                return Err(silent(self.patience()));
            }
        }
        Ok(session)
    }

    /// Opens a connection without setting it up.
    pub(crate) async fn open_quietly(&self) -> Result<Session, Failure> {
        let (client, connection) = self.open().await?;
        let carrier = tokio::spawn(async move {
            // The session's user sees that the connection is gone.
            let _ = connection.await;
        });
        let (carrier, given_up) = (carrier.abort_handle(), self.given_up.clone());
        Ok(Session { client, carrier, since: self.given_up(), given_up })
    }

    /// Opens a connection whose traffic the caller carries.
    pub(crate) async fn open(&self) -> Result<(Client, Connection<Socket, Encrypted>), Failure> {
        // The client's own timeout ends with the first packet. This timeout also covers a server
        // that then falls silent because it is frozen. Each host gets its share.
        let hosts = self.config.get_hosts().len().max(self.config.get_hostaddrs().len());
        let patience = self.patience() * u32::try_from(hosts).unwrap_or(u32::MAX).max(1);
        match tokio::time::timeout(patience, self.config.connect(self.tls())).await {
            Ok(opened) => opened.map_err(unavailable),
            Err(_) => Err(silent(patience)),
        }
    }
}

/// A connection, and the task that carries its traffic. Dropping the session lets the task end in
/// order, once everything was answered.
pub(crate) struct Session {
    client: Client,
    carrier: AbortHandle,
    given_up: Arc<AtomicU64>,
    /// The value of `given_up` when this session was opened.
    since: u64,
}

impl Session {
    /// Ends the connection at once, without waiting for pending answers.
    pub(crate) fn give_up(self) {
        self.given_up.fetch_add(1, Ordering::Relaxed);
        self.carrier.abort();
    }

    /// Whether the connection is open, and no connection of this target fell silent since it was
    /// opened.
    pub(crate) fn is_trusted(&self) -> bool {
        !self.client.is_closed() && self.since == self.given_up.load(Ordering::Relaxed)
    }
}

impl Deref for Session {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}

impl DerefMut for Session {
    fn deref_mut(&mut self) -> &mut Client {
        &mut self.client
    }
}

/// The failure when the database has not answered for `patience`.
pub(crate) fn silent(patience: Duration) -> Failure {
    Failure::Unavailable(format!(
        "the database has not answered for {} seconds, and the connection to it is given up",
        patience.as_secs()
    ))
}

/// Quotes an SQL identifier.
fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

pub(crate) fn unavailable(error: tokio_postgres::Error) -> Failure {
    failure(&error)
}

/// The failure of a request that was not committed.
pub(crate) fn failure(error: &tokio_postgres::Error) -> Failure {
    let said = described(error);
    let fault = error.code().and_then(|code| match *code {
        SqlState::DISK_FULL => Some(WriteFault::DiskFull),
        SqlState::READ_ONLY_SQL_TRANSACTION => Some(WriteFault::ReadOnly),
        SqlState::IO_ERROR => Some(WriteFault::Disk),
        _ => None,
    });
    match fault {
        Some(fault) => Failure::NotWritten { fault, said },
        None => Failure::Unavailable(said),
    }
}

/// The error with the server's message, which its own text leaves out.
pub(crate) fn described(error: &tokio_postgres::Error) -> String {
    match (error.as_db_error(), std::error::Error::source(error)) {
        (Some(db), _) => format!("{} ({})", db.message(), db.code().code()),
        (None, Some(source)) => format!("{error}: {source}"),
        (None, None) => error.to_string(),
    }
}

/// Whether the same transaction may succeed when it is retried at once.
pub(crate) fn is_passing(error: &tokio_postgres::Error) -> bool {
    // After a unique violation, the retry finds the row that the other transaction created.
    let passing = [
        &SqlState::T_R_DEADLOCK_DETECTED,
        &SqlState::T_R_SERIALIZATION_FAILURE,
        &SqlState::UNIQUE_VIOLATION,
        // A guard statement divides by zero when a row has changed since it was read.
        &SqlState::DIVISION_BY_ZERO,
    ];
    error.code().is_some_and(|code| passing.contains(&code))
}
