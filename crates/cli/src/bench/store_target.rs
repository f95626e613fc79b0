//! The location of the measured store: a file, or a new schema in a PostgreSQL database.

use std::path::PathBuf;
use std::sync::Arc;

use store::{Postgres, PostgresOptions, Sqlite, SqliteOptions, Store};
use tokio_postgres::NoTls;

use crate::failure::Failure;
use crate::zoneinfo;

/// The location of the measured store.
#[derive(Clone, Debug)]
pub(super) enum StoreTarget {
    File(PathBuf),
    Postgres { url: String, schema: String },
}

impl StoreTarget {
    /// A schema that no other process uses.
    pub(super) fn postgres(url: &str) -> StoreTarget {
        let schema = format!("punctual_bench_{}", std::process::id());
        StoreTarget::Postgres { url: url.to_owned(), schema }
    }

    /// A store of its own beside this one.
    pub(super) fn another(&self, name: &str) -> StoreTarget {
        match self {
            StoreTarget::File(path) => StoreTarget::File(path.with_extension(format!("{name}.db"))),
            StoreTarget::Postgres { url, schema } => {
                StoreTarget::Postgres { url: url.clone(), schema: format!("{schema}_{name}") }
            }
        }
    }

    /// How many bytes the store has on disk, without the WAL.
    pub(super) async fn size(&self) -> Result<u64, Failure> {
        match self {
            StoreTarget::File(path) => Ok(std::fs::metadata(path)?.len()),
            StoreTarget::Postgres { url, schema } => {
                let sql = "SELECT sum(pg_total_relation_size(c.oid))::bigint FROM pg_class c
                    JOIN pg_namespace n ON n.oid = c.relnamespace
                    WHERE n.nspname = $1 AND c.relkind = 'r'";
                let client = connect(url).await?;
                let bytes: i64 = client.query_one(sql, &[schema]).await.map_err(broken)?.get(0);
                Ok(bytes.unsigned_abs())
            }
        }
    }

    pub(super) async fn open(&self) -> Result<Arc<dyn Store>, Failure> {
        let zones = zoneinfo::zones()?;
        Ok(match self {
            StoreTarget::File(path) => {
                Arc::new(Sqlite::open(path, zones, SqliteOptions::default())?)
            }
            StoreTarget::Postgres { url, schema } => {
                let options =
                    PostgresOptions { schema: schema.clone(), ..PostgresOptions::new(url.clone()) };
                Arc::new(Postgres::open(zones, options).await?)
            }
        })
    }

    /// The path of SQLite's WAL beside the file.
    pub(super) fn log(&self) -> Option<PathBuf> {
        let StoreTarget::File(path) = self else { return None };
        let mut name = path.clone().into_os_string();
        name.push("-wal");
        Some(PathBuf::from(name))
    }

    /// Whether several nodes can use the store.
    pub(super) fn is_shared(&self) -> bool {
        matches!(self, StoreTarget::Postgres { .. })
    }

    /// Drops the schema. A file is removed with its folder.
    pub(super) async fn remove(&self) -> Result<(), Failure> {
        let StoreTarget::Postgres { url, schema } = self else { return Ok(()) };
        let client = connect(url).await?;
        let drop = format!("DROP SCHEMA IF EXISTS {schema} CASCADE");
        client.batch_execute(&drop).await.map_err(broken)
    }
}

/// A plain connection, for measuring limits.
pub(super) async fn connect(url: &str) -> Result<tokio_postgres::Client, Failure> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.map_err(broken)?;
    tokio::spawn(async move {
        // The client notices when the connection is lost.
        let _ = connection.await;
    });
    Ok(client)
}

pub(super) fn broken(error: tokio_postgres::Error) -> Failure {
    let words = error.as_db_error().map(|db| db.message().to_owned());
    Failure::Environment(words.unwrap_or_else(|| error.to_string()))
}
