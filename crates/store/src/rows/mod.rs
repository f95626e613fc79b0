//! Conversion of rows into the engine's types, written once for both stores.
//!
//! A list of columns ([`columns!`]) names each column once: the SQL text and the index at which a
//! value is read both come from it, at compile time. A mapping such as [`run`] reads each value by
//! the name of its column, from a row of either store.

mod columns;
mod runs;
mod schedules;
mod topics;
mod value;
mod views;
mod workflows;

use serde::de::DeserializeOwned;

pub(crate) use columns::{Column, columns};
pub(crate) use runs::*;
pub(crate) use schedules::*;
pub(crate) use topics::*;
pub(crate) use value::{Positional, Value};
pub(crate) use views::*;
pub(crate) use workflows::*;

use crate::failure::Failure;

/// A value that was read from a row.
pub(crate) type Read<T> = Result<T, Failure>;

/// What was read, or why the row cannot be read: what shows many rows goes on with the others.
pub(crate) fn or_why<T>(read: Read<T>) -> Read<Result<T, String>> {
    match read {
        Ok(value) => Ok(Ok(value)),
        Err(Failure::Undecidable { why, .. }) => Ok(Err(why)),
        Err(failure) => Err(failure),
    }
}

/// A row of a store. A value of another kind than was asked for makes the row unreadable, see
/// [`Column::damaged`].
pub(crate) trait Row: Sized {
    fn maybe_integer(&self, column: Column) -> Read<Option<i64>>;

    fn maybe_text(&self, column: Column) -> Read<Option<&str>>;

    fn maybe_boolean(&self, column: Column) -> Read<Option<bool>>;

    fn maybe_uuid(&self, column: Column) -> Read<Option<u128>>;

    fn maybe_bytes(&self, column: Column) -> Read<Option<&[u8]>>;

    fn read<T: Value>(&self, column: Column) -> Read<T> {
        T::read(self, column)
    }

    /// All columns of a row that has few: a tuple of their values, in order.
    fn tuple<T: Positional>(&self) -> Read<T> {
        T::read(self)
    }

    /// The value of a row that has a single column.
    fn single<T: Value>(&self) -> Read<T> {
        T::read(self, Column::POSITIONS[0])
    }

    /// As [`Row::single`], for JSON.
    fn single_json<T: DeserializeOwned>(&self) -> Read<T> {
        self.json(Column::POSITIONS[0])
    }

    fn json<T: DeserializeOwned>(&self, column: Column) -> Read<T> {
        self.maybe_json(column)?.ok_or_else(|| column.damaged("NULL"))
    }

    fn maybe_json<T: DeserializeOwned>(&self, column: Column) -> Read<Option<T>> {
        let text = self.maybe_text(column)?;
        text.map(serde_json::from_str).transpose().map_err(|error| column.damaged(error))
    }
}
