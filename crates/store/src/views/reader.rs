//! A connection that answers queries, and the values that are bound to its statements.

use engine::{RunKey, ScheduleId, TopicId, WorkflowId};
use futures_util::{FutureExt as _, TryFutureExt as _};

use crate::Answered;
use crate::rows::{Read, Row};

/// A connection of either store. SQLite answers at once, on the thread of the caller: its futures
/// never wait.
pub(crate) trait Reader {
    type Row<'r>: Row;

    /// All rows that the query finds. No row of PostgreSQL has a text with NUL, so a query with
    /// such a text finds nothing there.
    fn all<'a, T: Send + 'a>(
        &'a self,
        sql: &'a str,
        params: &'a [Param<'a>],
        read: impl FnMut(&Self::Row<'_>) -> Read<T> + Send + 'a,
    ) -> Answered<'a, Vec<T>>;

    /// The text for this database.
    fn either<T>(sqlite: T, postgres: T) -> T;

    /// The row of a query that finds at most one.
    fn one<'a, T: Send + 'a>(
        &'a self,
        sql: &'a str,
        params: &'a [Param<'a>],
        read: impl FnMut(&Self::Row<'_>) -> Read<T> + Send + 'a,
    ) -> Answered<'a, Option<T>> {
        self.all(sql, params, read).map_ok(|mut found| found.pop()).boxed()
    }

    /// The number that the query counts.
    fn count<'a>(&'a self, sql: &'a str, params: &'a [Param<'a>]) -> Answered<'a, u64> {
        self.one(sql, params, |row| row.single()).map_ok(Option::unwrap_or_default).boxed()
    }

    /// Whether a column is among the elements of this parameter, an array.
    fn among(array: &str) -> String {
        Self::either(
            format!("IN (SELECT value FROM json_each({array}))"),
            format!("= ANY({array})"),
        )
    }

    /// A part of a union, with an order and a limit of its own.
    fn branch(select: &str) -> String {
        Self::either(format!("SELECT * FROM ({select})"), format!("({select})"))
    }

    /// Has SQLite read a table by this index: it keeps no statistics to choose by. PostgreSQL
    /// chooses by itself.
    fn indexed_by(index: &str) -> String {
        Self::either(format!("INDEXED BY {index}"), String::new())
    }
}

/// A value that is bound to a statement.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Param<'a> {
    Null,
    Integer(i64),
    Boolean(bool),
    Text(&'a str),
    Bytes(&'a [u8]),
    Uuid(u128),
    /// An array on PostgreSQL, JSON on SQLite.
    Integers(&'a [i64]),
    /// A list of texts, bound as [`Param::Integers`] is.
    Texts(&'a [String]),
}

/// The parameters of a statement, in order.
macro_rules! params {
    ($($value:expr),* $(,)?) => { [$($crate::views::Param::from($value)),*] };
}
pub(crate) use params;

/// Declares how values are bound.
macro_rules! bound {
    ($($type:ty = $value:pat => $param:expr,)+) => {$(
        impl<'a> From<$type> for Param<'a> {
            fn from($value: $type) -> Param<'a> {
                $param
            }
        }
    )+};
}

bound! {
    i64 = value => Param::Integer(value),
    i32 = value => Param::Integer(value.into()),
    u32 = value => Param::Integer(value.into()),
    usize = value => Param::Integer(i64::try_from(value).unwrap_or(i64::MAX)),
    u64 = value => Param::Integer(i64::try_from(value).unwrap_or(i64::MAX)),
    ScheduleId = ScheduleId(id) => Param::Integer(id),
    WorkflowId = WorkflowId(id) => Param::Integer(id),
    TopicId = TopicId(id) => Param::Integer(id),
    RunKey = RunKey(key) => Param::Integer(key),
    bool = value => Param::Boolean(value),
    &'a str = text => Param::Text(text),
    &'a String = text => Param::Text(text),
    &'a [u8] = bytes => Param::Bytes(bytes),
    &'a [i64] = integers => Param::Integers(integers),
    &'a [String] = texts => Param::Texts(texts),
}

impl<'a, T: Into<Param<'a>>> From<Option<T>> for Param<'a> {
    fn from(value: Option<T>) -> Param<'a> {
        value.map_or(Param::Null, Into::into)
    }
}

/// How many rows a query reads for a page of this many, and one more. Where the limit is written
/// into the SQL, PostgreSQL's planner sees it; it is rounded up, so that there are few distinct
/// statements.
pub(crate) fn limit_in_sql(limit: usize) -> usize {
    limit.saturating_add(1).checked_next_power_of_two().unwrap_or(limit)
}
