//! Connections: where to, how they are set up, and what their errors mean.

use std::time::Duration;

use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Config, Connection, Socket};

use super::PostgresOptions;
use super::tls::{self, Encrypted, Tls};
use crate::failure::Failure;

/// Where to, and as what.
#[derive(Clone)]
pub(super) struct Target {
    config: Config,
    tls: Tls,
    /// Said once on each new connection.
    setup: String,
    pub(super) schema: String,
}

impl Target {
    pub(super) fn new(options: &PostgresOptions) -> Result<Target, Failure> {
        let (mut config, tls) = tls::read(&options.url)?;
        config.connect_timeout(options.connect_timeout).application_name("punctual");
        config.tcp_user_timeout(options.connect_timeout).keepalives_idle(Duration::from_secs(5));
        let schema = quoted(&options.schema);
        let setup = format!(
            "SET search_path = {schema}; SET statement_timeout = {}; \
             SET idle_in_transaction_session_timeout = {}; \
             SET default_transaction_isolation = 'read committed'; SET jit = off",
            options.statement_timeout.as_millis(),
            options.idle_timeout.as_millis(),
        );
        Ok(Target { config, tls, setup, schema })
    }

    pub(super) fn config(&self) -> &Config {
        &self.config
    }

    pub(super) fn tls(&self) -> Tls {
        self.tls.clone()
    }

    pub(super) fn setup(&self) -> &str {
        &self.setup
    }

    /// How long a connection is waited for.
    pub(super) fn patience(&self) -> Duration {
        self.config.get_connect_timeout().copied().unwrap_or(Duration::from_secs(5))
    }

    /// A new connection, set up; its traffic is carried by a task of its own.
    pub(super) async fn connect(&self) -> Result<Client, Failure> {
        let (client, connection) = self.open().await?;
        tokio::spawn(async move {
            // Whoever uses the connection sees that it is gone.
            let _ = connection.await;
        });
        client.batch_execute(&self.setup).await.map_err(unavailable)?;
        Ok(client)
    }

    /// A new connection as it is.
    pub(super) async fn open(&self) -> Result<(Client, Connection<Socket, Encrypted>), Failure> {
        // The timeout of the client ends with the first packet: a server that then says nothing, because
        // it is frozen, is waited for no longer. Each host has its turn.
        let hosts = self.config.get_hosts().len().max(self.config.get_hostaddrs().len());
        let patience = self.patience() * u32::try_from(hosts).unwrap_or(u32::MAX).max(1);
        match tokio::time::timeout(patience, self.config.connect(self.tls())).await {
            Ok(opened) => opened.map_err(unavailable),
            Err(_) => Err(Failure::Unavailable(format!(
                "the database does not answer within {} seconds",
                patience.as_secs()
            ))),
        }
    }
}

/// A name inside of SQL.
fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

pub(super) fn unavailable(error: tokio_postgres::Error) -> Failure {
    Failure::Unavailable(described(&error))
}

/// With the server's own words, which the error leaves out.
pub(super) fn described(error: &tokio_postgres::Error) -> String {
    match (error.as_db_error(), std::error::Error::source(error)) {
        (Some(db), _) => format!("{} ({})", db.message(), db.code().code()),
        (None, Some(source)) => format!("{error}: {source}"),
        (None, None) => error.to_string(),
    }
}

/// Whether the same transaction may succeed when it is tried again at once.
pub(super) fn is_passing(error: &tokio_postgres::Error) -> bool {
    // What two have created at the same time is found by the second when it tries again.
    let passing = [
        &SqlState::T_R_DEADLOCK_DETECTED,
        &SqlState::T_R_SERIALIZATION_FAILURE,
        &SqlState::UNIQUE_VIOLATION,
        // How a statement says that what it was to find has changed.
        &SqlState::DIVISION_BY_ZERO,
    ];
    error.code().is_some_and(|code| passing.contains(&code))
}
