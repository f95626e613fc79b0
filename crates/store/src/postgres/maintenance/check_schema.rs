//! Checks that the tables and indexes are those of a new store.
//!
//! It creates a new store in a schema of its own, in a transaction that is rolled back, and
//! compares the two.

use std::collections::BTreeMap;

use tokio_postgres::Transaction;

use crate::failure::Failure;
use crate::postgres::connections::connect::{Target, described, unavailable};
use crate::postgres::maintenance::migrate::MIGRATIONS;
use crate::rows::Row as _;
use crate::view::Finding;

/// The columns of all tables, one row each: name, and type.
const COLUMNS: &str = "SELECT c.relname || '.' || a.attname,
       format_type(a.atttypid, a.atttypmod) || CASE WHEN a.attnotnull THEN ' NOT NULL' ELSE '' END
     FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
     WHERE c.relnamespace = $1::text::regnamespace AND c.relkind IN ('r', 'v', 'S')
       AND a.attnum > 0 AND NOT a.attisdropped";
/// The indexes: name, and definition. An invalid index is marked.
const INDEXES: &str = "SELECT c.relname, replace(pg_get_indexdef(i.indexrelid), $2 || '.', '')
       || CASE WHEN i.indisvalid AND i.indisready THEN '' ELSE ' (not valid)' END
     FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
     WHERE c.relnamespace = $1::text::regnamespace";
const TRIGGERS: &str = "SELECT t.tgname FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
     WHERE c.relnamespace = $1::text::regnamespace AND NOT t.tgisinternal";

/// Compares the two schemas. Repairing creates indexes that are missing or not valid.
pub(crate) async fn check(target: &Target, repair: bool) -> Vec<Finding> {
    let unchecked = |failure: Failure| {
        let message = format!(
            "the schema could not be compared with that of a new store: {failure} (the user needs the right \
             to create a schema for it)"
        );
        vec![Finding::new("unchecked", message)]
    };
    match compare(target).await {
        Ok(wrong) => findings(target, wrong, repair).await,
        Err(failure) => unchecked(failure),
    }
}

/// A difference between the schemas.
struct Wrong {
    message: String,
    /// The statements that mend it, in one transaction; empty if it cannot be mended.
    mend: Vec<String>,
}

async fn findings(target: &Target, wrong: Vec<Wrong>, repair: bool) -> Vec<Finding> {
    let mut findings = Vec::new();
    for Wrong { mut message, mend } in wrong {
        let mut repaired = repair && !mend.is_empty();
        if repaired && let Err(failure) = execute(target, &mend.join("; ")).await {
            message = format!("{message}, and cannot be made: {failure}");
            repaired = false;
        }
        let can_be_repaired = !mend.is_empty();
        findings.push(Finding { repaired, can_be_repaired, ..Finding::new("schema", message) });
    }
    findings
}

async fn execute(target: &Target, sql: &str) -> Result<(), Failure> {
    let client = target.connect().await?;
    let patient = format!("SET statement_timeout = 0; BEGIN; {sql}; COMMIT");
    client.batch_execute(&patient).await.map_err(unavailable)
}

type SchemaObjects = BTreeMap<String, String>;

async fn compare(target: &Target) -> Result<Vec<Wrong>, Failure> {
    let mut client = target.connect().await?;
    let transaction = client.transaction().await.map_err(unavailable)?;
    // The schema for comparison has a name of its own for each connection.
    let current = "SELECT current_schema()::text, quote_ident(current_schema()),
                          'punctual_doctor_' || pg_backend_pid()";
    let row = transaction.query_one(current, &[]).await.map_err(unavailable)?;
    let (name, quoted, new): (String, String, String) = row.tuple()?;
    let columns = read(&transaction, COLUMNS, &[&quoted]).await?;
    let indexes = read(&transaction, INDEXES, &[&quoted, &quoted]).await?;
    let triggers = transaction.query(TRIGGERS, &[&quoted]).await.map_err(unavailable)?;
    let made = format!("CREATE SCHEMA {new}; SET LOCAL search_path = {new}");
    transaction.batch_execute(&made).await.map_err(unavailable)?;
    for migration in &MIGRATIONS {
        transaction.batch_execute(migration.sql).await.map_err(|error| {
            Failure::Unavailable(format!("a new store cannot be made: {}", described(&error)))
        })?;
    }
    let new_columns = read(&transaction, COLUMNS, &[&new]).await?;
    let new_indexes = read(&transaction, INDEXES, &[&new, &new]).await?;
    transaction.rollback().await.map_err(unavailable)?;
    let mut wrong = columns_apart(&columns, &new_columns);
    wrong.extend(indexes_apart(&indexes, &new_indexes));
    for row in &triggers {
        let trigger: String = row.single()?;
        let message = format!("trigger {trigger} in schema {name} is not of this program: drop it");
        wrong.push(Wrong { message, mend: Vec::new() });
    }
    Ok(wrong)
}

async fn read(
    transaction: &Transaction<'_>,
    sql: &str,
    params: &[&(dyn tokio_postgres::types::ToSql + Sync)],
) -> Result<SchemaObjects, Failure> {
    let rows = transaction.query(sql, params).await.map_err(unavailable)?;
    rows.iter().map(|row| row.tuple()).collect()
}

fn columns_apart(found: &SchemaObjects, expected: &SchemaObjects) -> Vec<Wrong> {
    let wrong = |message| Wrong { message, mend: Vec::new() };
    let apart = expected.iter().filter_map(|(column, kind)| match found.get(column) {
        Some(is) if is == kind => None,
        Some(is) => Some(wrong(format!("column {column} is {is}, not {kind}: restore a copy"))),
        None => Some(wrong(format!("column {column} is missing: restore a copy that has it"))),
    });
    apart.collect()
}

fn indexes_apart(found: &SchemaObjects, expected: &SchemaObjects) -> Vec<Wrong> {
    let apart = expected.iter().filter_map(|(index, made)| match found.get(index) {
        Some(is) if is == made => None,
        Some(_) => Some(Wrong {
            message: format!("index {index} is not valid, or of other columns than it should be"),
            mend: if index.ends_with("_pkey") {
                vec![format!("REINDEX INDEX {index}")]
            } else {
                vec![format!("DROP INDEX {index}"), made.clone()]
            },
        }),
        None => {
            Some(Wrong { message: format!("index {index} is missing"), mend: vec![made.clone()] })
        }
    });
    apart.collect()
}
