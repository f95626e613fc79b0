//! Where a test's store is: a folder, or a PostgreSQL schema. It is removed when the test ends.

use std::env;
use std::sync::Arc;
use std::time::Duration;

use calendar::Zones;
use store::{Postgres, PostgresOptions, Sqlite, SqliteOptions, Store};
use tempfile::TempDir;

use crate::harness::PATIENCE;

/// How often the database is polled for changes that no notice announces.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// The place of one store, which may be opened again, and by several nodes if it is shared.
#[derive(Clone)]
pub(crate) struct Ground(Arc<Kind>);

enum Kind {
    Folder(TempDir),
    Schema { url: String, name: String },
}

impl Ground {
    /// SQLite or PostgreSQL, as `PUNCTUAL_TEST_STORE` says.
    pub(crate) fn new() -> Ground {
        match env::var("PUNCTUAL_TEST_STORE").as_deref() {
            Ok("postgres") => Ground::shared(),
            Ok("sqlite") | Err(_) => Ground(Arc::new(Kind::Folder(tempfile::tempdir().unwrap()))),
            Ok(other) => panic!("PUNCTUAL_TEST_STORE={other}: sqlite or postgres"),
        }
    }

    /// A schema of its own in the test PostgreSQL, which nodes can share.
    pub(crate) fn shared() -> Ground {
        Ground::at(testbed::shared_url().unwrap())
    }

    /// A schema of its own in this PostgreSQL.
    pub(crate) fn at(url: String) -> Ground {
        let name = format!("test_{}", uuid::Uuid::now_v7().simple());
        Ground(Arc::new(Kind::Schema { url, name }))
    }

    pub(crate) async fn open(&self) -> Arc<dyn Store> {
        self.open_with(|_| {}).await
    }

    /// With other options, if the store is a PostgreSQL.
    pub(crate) async fn open_with(
        &self,
        change: impl FnOnce(&mut PostgresOptions),
    ) -> Arc<dyn Store> {
        match &*self.0 {
            Kind::Folder(folder) => {
                let options = SqliteOptions { sync: false, ..SqliteOptions::default() };
                let path = folder.path().join("punctual.db");
                Arc::new(Sqlite::open(&path, Zones::bundled(), options).unwrap())
            }
            Kind::Schema { url, name } => {
                let mut options = PostgresOptions::new(url.clone());
                options.schema = name.clone();
                change(&mut options);
                Arc::new(Postgres::open(Zones::bundled(), options).await.unwrap())
            }
        }
    }

    /// Executes SQL behind the store's back.
    pub(crate) async fn execute(&self, sql: &str) {
        self.client().await.batch_execute(sql).await.unwrap();
    }

    /// Executes SQL in a transaction, which is rolled back when its client is dropped.
    pub(crate) async fn hold(&self, sql: &str) -> tokio_postgres::Client {
        let client = self.client().await;
        client.batch_execute(&format!("BEGIN; {sql}")).await.unwrap();
        client
    }

    /// Queries a number.
    pub(crate) async fn number(&self, sql: &str) -> i64 {
        self.client().await.query_one(sql, &[]).await.unwrap().get(0)
    }

    /// Returns when the number is as wanted.
    pub(crate) async fn until(&self, sql: &str, wanted: impl Fn(i64) -> bool) {
        let seen = async {
            while !wanted(self.number(sql).await) {
                tokio::time::sleep(LOOK_AGAIN).await;
            }
        };
        let seen = tokio::time::timeout(PATIENCE, seen).await;
        assert!(seen.is_ok(), "it stays as it is: {sql}");
    }

    async fn client(&self) -> tokio_postgres::Client {
        let Kind::Schema { url, name } = &*self.0 else { panic!("no PostgreSQL") };
        let client = connect(url).await.unwrap();
        client.batch_execute(&format!("SET search_path = {name}")).await.unwrap();
        client
    }
}

async fn connect(url: &str) -> Result<tokio_postgres::Client, tokio_postgres::Error> {
    let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

impl Drop for Kind {
    /// Drops the schema, on a thread of its own, because the test's runtime is about to end. If the
    /// PostgreSQL is gone, so is the schema. Connections that hold locks are ended first: a node
    /// that was dropped in the middle of a transaction would hold its locks for some seconds.
    fn drop(&mut self) {
        let Kind::Schema { url, name } = self else { return };
        let drop = format!(
            "SELECT pg_terminate_backend(pid) FROM pg_locks
             JOIN pg_class ON pg_class.oid = relation AND relnamespace = to_regnamespace('{name}')
             WHERE pid <> pg_backend_pid();
             SET lock_timeout = '30s'; DROP SCHEMA IF EXISTS {name} CASCADE"
        );
        let url = url.clone();
        let dropping = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.unwrap().block_on(async {
                if let Ok(client) = connect(&url).await
                    && let Err(error) = client.batch_execute(&drop).await
                {
                    eprintln!("a schema is left: {error}");
                }
            });
        });
        let _ = dropping.join();
    }
}
