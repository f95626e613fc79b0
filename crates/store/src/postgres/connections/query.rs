//! Runs one query, with a statement that its connection has prepared once.

use std::error::Error;

use bytes::BytesMut;
use deadpool_postgres::Client;
use tokio_postgres::Row;
use tokio_postgres::types::{IsNull, ToSql, Type, to_sql_checked};
use uuid::Uuid;

use crate::Answered;
use crate::failure::Failure;
use crate::postgres::connections::connect::unavailable;
use crate::rows::Read;
use crate::views::{Param, Reader};

pub(crate) async fn ask(
    client: &Client,
    sql: &str,
    params: &[&(dyn ToSql + Sync)],
) -> Result<Vec<Row>, Failure> {
    let statement = client.prepare_cached(sql).await.map_err(unavailable)?;
    client.query(&statement, params).await.map_err(unavailable)
}

/// A number of rows, as the database counts.
pub(crate) fn row_count(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// Whether the text can be stored: PostgreSQL cannot store NUL, so no stored text equals one with
/// NUL.
pub(crate) fn is_storable(text: &str) -> bool {
    !text.contains('\0')
}

impl Reader for Client {
    type Row<'r> = Row;

    fn all<'a, T: Send + 'a>(
        &'a self,
        sql: &'a str,
        params: &'a [Param<'a>],
        read: impl FnMut(&Row) -> Read<T> + Send + 'a,
    ) -> Answered<'a, Vec<T>> {
        Box::pin(async move {
            if params.iter().any(|param| matches!(param, Param::Text(text) if !is_storable(text))) {
                return Ok(Vec::new());
            }
            let params: Vec<&(dyn ToSql + Sync)> =
                params.iter().map(|param| param as &(dyn ToSql + Sync)).collect();
            ask(self, sql, &params).await?.iter().map(read).collect()
        })
    }

    fn either<T>(_: T, postgres: T) -> T {
        postgres
    }
}

impl ToSql for Param<'_> {
    fn to_sql(
        &self,
        wanted: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        match *self {
            Param::Null => Ok(IsNull::Yes),
            Param::Integer(value) => match *wanted {
                Type::INT2 => i16::try_from(value)?.to_sql(wanted, out),
                Type::INT4 => i32::try_from(value)?.to_sql(wanted, out),
                _ => value.to_sql_checked(wanted, out),
            },
            Param::Boolean(value) => value.to_sql_checked(wanted, out),
            Param::Text(text) => text.to_sql_checked(wanted, out),
            Param::Bytes(bytes) => bytes.to_sql_checked(wanted, out),
            Param::Uuid(uuid) => Uuid::from_u128(uuid).to_sql_checked(wanted, out),
            Param::Integers(integers) => integers.to_sql_checked(wanted, out),
            Param::Texts(texts) => {
                // A text with NUL cannot be stored, so it matches none.
                let storable = |text: &'_ String| is_storable(text).then(|| text.clone());
                texts.iter().map(storable).collect::<Vec<_>>().to_sql_checked(wanted, out)
            }
        }
    }

    /// The column says how wide an integer is, so each value looks at its type by itself.
    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
}
