//! The store that many nodes share: how the suite opens it.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use calendar::Zones;
use futures_util::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};
use store::{Failure, Postgres, PostgresClock, PostgresOptions, Store};
use tokio_postgres::NoTls;

use crate::world::Place;

/// A schema with a store, in a database that is there for tests.
pub(crate) struct Schema {
    url: String,
    name: String,
}

impl Schema {
    pub(crate) fn new() -> Schema {
        static GIVEN: AtomicU32 = AtomicU32::new(0);
        let url = std::env::var("PUNCTUAL_TEST_POSTGRES")
            .expect("PUNCTUAL_TEST_POSTGRES=postgres://user@host:port/database is set");
        let given = GIVEN.fetch_add(1, Ordering::Relaxed);
        Schema { url, name: format!("conformance_{}_{given}", std::process::id()) }
    }

    async fn open(&self) -> Result<Arc<dyn Store>, Failure> {
        let options = PostgresOptions {
            schema: self.name.clone(),
            clock: PostgresClock::Caller,
            lease: SignedDuration::from_hours(1_000),
            commands: 2,
            readers: 2,
            ..PostgresOptions::new(self.url.clone())
        };
        Ok(Arc::new(Postgres::open(Zones::bundled(), options).await?))
    }

    /// Says something to the database itself.
    pub(crate) async fn execute(&self, sql: &str) {
        say(&self.url, &format!("SET search_path = {}; {sql}", self.name)).await;
    }
}

async fn say(url: &str, sql: &str) {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    let talk = tokio::spawn(connection);
    client.batch_execute(sql).await.unwrap();
    drop(client);
    talk.await.unwrap().unwrap();
}

impl Drop for Schema {
    fn drop(&mut self) {
        let (url, sql) = (self.url.clone(), format!("DROP SCHEMA IF EXISTS {} CASCADE", self.name));
        let dropped = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.unwrap().block_on(say(&url, &format!("SET lock_timeout = '5s'; {sql}")));
        });
        let dropped = dropped.join();
        assert!(dropped.is_ok() || std::thread::panicking(), "{} is left behind", self.name);
    }
}

impl Place for Schema {
    fn open(&self) -> BoxFuture<'_, Result<Arc<dyn Store>, Failure>> {
        Box::pin(self.open())
    }

    fn end_leases(&self, at: Timestamp) -> BoxFuture<'_, ()> {
        let last = at.as_millisecond() - 1;
        Box::pin(async move {
            self.execute(&format!("UPDATE nodes SET lease_until = least(lease_until, {last})"))
                .await;
        })
    }

    fn path_for_copy(&self) -> Option<PathBuf> {
        None
    }

    fn open_copy(&self) -> Result<Arc<dyn Store>, Failure> {
        unreachable!("there is no path for one")
    }
}
