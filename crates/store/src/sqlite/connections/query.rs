//! Runs one query, with a statement that its connection has prepared once.

use futures_util::FutureExt as _;
use rusqlite::types::{ToSql, ToSqlOutput, Value, ValueRef};
use rusqlite::{CachedStatement, Connection, Params, Row};

use crate::Answered;
use crate::failure::Failure;
use crate::rows::Read;
use crate::views::{Param, Reader};

/// The first row that the query finds.
pub(crate) fn one<T>(
    connection: &Connection,
    sql: &str,
    params: impl Params,
    read: impl FnOnce(&Row<'_>) -> Read<T>,
) -> Result<Option<T>, Failure> {
    first(&mut connection.prepare_cached(sql)?, params, read)
}

/// The row of a query that always finds one.
pub(crate) fn only<T>(
    connection: &Connection,
    sql: &str,
    params: impl Params,
    read: impl FnOnce(&Row<'_>) -> Read<T>,
) -> Result<T, Failure> {
    let found = one(connection, sql, params, read)?;
    found.ok_or_else(|| rusqlite::Error::QueryReturnedNoRows.into())
}

/// As [`one`], with a statement that is used several times in a row.
pub(crate) fn first<T>(
    statement: &mut CachedStatement<'_>,
    params: impl Params,
    read: impl FnOnce(&Row<'_>) -> Read<T>,
) -> Result<Option<T>, Failure> {
    statement.query(params)?.next()?.map(read).transpose()
}

/// All rows that the query finds.
pub(crate) fn all<T>(
    connection: &Connection,
    sql: &str,
    params: impl Params,
    read: impl FnMut(&Row<'_>) -> Read<T>,
) -> Result<Vec<T>, Failure> {
    connection.prepare_cached(sql)?.query_and_then(params, read)?.collect()
}

/// As [`all`], with parameters that the query names `$1`, `$2` and so on.
pub(crate) fn all_named<T>(
    connection: &Connection,
    sql: &str,
    params: &[Param<'_>],
    mut read: impl FnMut(&Row<'_>) -> Read<T>,
) -> Result<Vec<T>, Failure> {
    let mut statement = connection.prepare_cached(sql)?;
    for (number, param) in (1..).zip(params) {
        // SQLite numbers names in the order in which a statement has them first.
        if let Some(index) = statement.parameter_index(&format!("${number}"))? {
            statement.raw_bind_parameter(index, param)?;
        }
    }
    let (mut rows, mut found) = (statement.raw_query(), Vec::new());
    while let Some(row) = rows.next()? {
        found.push(read(row)?);
    }
    Ok(found)
}

impl Reader for Connection {
    type Row<'r> = Row<'r>;

    fn all<'a, T: Send + 'a>(
        &'a self,
        sql: &'a str,
        params: &'a [Param<'a>],
        read: impl FnMut(&Row<'_>) -> Read<T> + Send + 'a,
    ) -> Answered<'a, Vec<T>> {
        Box::pin(std::future::ready(all_named(self, sql, params, read)))
    }

    fn either<T>(sqlite: T, _: T) -> T {
        sqlite
    }
}

impl ToSql for Param<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        let json = |values: serde_json::Value| ToSqlOutput::Owned(Value::Text(values.to_string()));
        Ok(match *self {
            Param::Null => ToSqlOutput::Borrowed(ValueRef::Null),
            Param::Integer(value) => ToSqlOutput::Owned(Value::Integer(value)),
            Param::Boolean(value) => ToSqlOutput::Owned(Value::Integer(value.into())),
            Param::Text(text) => ToSqlOutput::Borrowed(ValueRef::Text(text.as_bytes())),
            Param::Bytes(bytes) => ToSqlOutput::Borrowed(ValueRef::Blob(bytes)),
            Param::Uuid(uuid) => ToSqlOutput::Owned(Value::Blob(uuid.to_be_bytes().to_vec())),
            Param::Integers(integers) => json(integers.into()),
            Param::Texts(texts) => json(texts.into()),
        })
    }
}

/// The answer of a view that asks a connection of SQLite, which never waits.
pub(crate) fn answer<T>(view: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let waits = || Err(Failure::Damaged("a view waits for something other than SQLite".to_owned()));
    view.now_or_never().unwrap_or_else(waits)
}
