//! Runs one query, with a statement that its connection has prepared once.

use deadpool_postgres::Client;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use crate::failure::Failure;
use crate::postgres::connections::connect::unavailable;

pub(crate) async fn ask(
    client: &Client,
    sql: &str,
    params: &[&(dyn ToSql + Sync)],
) -> Result<Vec<Row>, Failure> {
    let statement = client.prepare_cached(sql).await.map_err(unavailable)?;
    client.query(&statement, params).await.map_err(unavailable)
}

/// A number of rows, as the database counts.
pub(crate) fn many(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// Whether the text can be stored: PostgreSQL cannot store NUL, so no stored text equals one with
/// NUL.
pub(crate) fn is_storable(text: &str) -> bool {
    !text.contains('\0')
}
