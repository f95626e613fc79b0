//! The schema, version by version, brought up to date by whichever node comes first.
//!
//! Nodes of the previous version keep running beside a newer one: a migration only adds, unless it
//! declares that older programs must not run any more.

use crate::failure::Failure;
use crate::postgres::LOCK_SCHEMA;
use crate::postgres::connections::connect::{Target, silent, unavailable};
use crate::postgres::connections::session::{begin, refuse_pooler, warn_of_losses};
use crate::rows::Row as _;

/// One migration of the schema.
pub(crate) struct Migration {
    pub(crate) sql: &'static str,
    /// Programs that know at least this many migrations keep working after this one.
    since: i32,
}

/// Each migration runs once, in order, in one transaction with the update of the schema version.
pub(crate) const MIGRATIONS: [Migration; 1] =
    [Migration { sql: include_str!("../schema/0001.sql"), since: 1 }];

/// Brings the schema up to date, after checking that the server gives each connection a session of
/// its own. If another node holds the migration lock for too long, this fails.
pub(crate) async fn migrate(target: &Target) -> Result<(), Failure> {
    let limit = target.silence() * 2;
    match tokio::time::timeout(limit, bring_up_to_date(target)).await {
        Ok(done) => done,
        Err(_) => Err(silent(limit)),
    }
}

async fn bring_up_to_date(target: &Target) -> Result<(), Failure> {
    let mut client = target.open_quietly().await?;
    refuse_pooler(target, &client).await?;
    begin(&client, target.setup()).await.map_err(unavailable)?;
    warn_of_losses(&client).await?;
    let transaction = client.transaction().await.map_err(unavailable)?;
    let schema = &target.schema;
    let hold = format!(
        "SELECT pg_advisory_xact_lock({LOCK_SCHEMA}, hashtext('{}'))",
        schema.replace('\'', "''")
    );
    transaction.batch_execute(&hold).await.map_err(unavailable)?;
    let known = "SELECT to_regclass('schema_versions') IS NOT NULL";
    let known: bool = transaction.query_one(known, &[]).await.map_err(unavailable)?.single()?;
    if !known {
        let make = format!(
            "CREATE SCHEMA IF NOT EXISTS {schema};
             CREATE TABLE schema_versions (version integer PRIMARY KEY, since integer NOT NULL)"
        );
        transaction.batch_execute(&make).await.map_err(unavailable)?;
    }
    let latest = "SELECT coalesce(max(version), 0), coalesce(max(since), 0) FROM schema_versions";
    let row = transaction.query_one(latest, &[]).await.map_err(unavailable)?;
    let (version, since): (i32, i32) = row.tuple()?;
    let ours = MIGRATIONS.len() as i32;
    if since > ours {
        return Err(Failure::Unusable {
            what: format!(
                "the store was written by a newer version of punctual: it has schema version {version}, for which a \
                 program has to know version {since}, and this one knows up to {ours}"
            ),
            remedy: "the version of punctual that the other nodes have, or a newer one".to_owned(),
        });
    }
    let taken = "SELECT to_regclass('schedules') IS NOT NULL";
    let taken: bool = transaction.query_one(taken, &[]).await.map_err(unavailable)?.single()?;
    if version == 0 && taken {
        return Err(Failure::Unusable {
            what: format!(
                "schema {schema} has tables already, but {schema}.schema_versions says nothing of \
                 their version: it has lost its rows, or the tables are not punctual's"
            ),
            remedy: format!(
                "if they are a store of this version of punctual, \
                 `INSERT INTO {schema}.schema_versions VALUES ({ours}, {})`; otherwise another schema",
                MIGRATIONS[MIGRATIONS.len() - 1].since
            ),
        });
    }
    for (index, migration) in MIGRATIONS.iter().enumerate().skip(version.max(0) as usize) {
        transaction.batch_execute(migration.sql).await.map_err(unavailable)?;
        let note = "INSERT INTO schema_versions (version, since) VALUES ($1, $2)";
        let params: [&(dyn tokio_postgres::types::ToSql + Sync); 2] =
            [&(index as i32 + 1), &migration.since];
        transaction.execute(note, &params).await.map_err(unavailable)?;
    }
    transaction.commit().await.map_err(unavailable)?;
    if version == 0 {
        tracing::info!("created a new store in schema {schema}");
    }
    Ok(())
}
