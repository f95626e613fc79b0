//! Reads the values of SQLite's rows.

use rusqlite::types::ValueRef;

use crate::failure::Failure;
use crate::rows::{Column, Read, Row};

/// The failure for a value of another type than the column must hold.
fn other_type(column: Column, value: ValueRef<'_>, expected: &str) -> Failure {
    column.damaged(format_args!("{} instead of {expected}", value.data_type()))
}

impl Row for rusqlite::Row<'_> {
    #[inline]
    fn maybe_integer(&self, column: Column) -> Read<Option<i64>> {
        match self.get_ref(column.index)? {
            ValueRef::Null => Ok(None),
            ValueRef::Integer(value) => Ok(Some(value)),
            other => Err(other_type(column, other, "an integer")),
        }
    }

    #[inline]
    fn maybe_text(&self, column: Column) -> Read<Option<&str>> {
        match self.get_ref(column.index)? {
            ValueRef::Null => Ok(None),
            ValueRef::Text(text) => {
                std::str::from_utf8(text).map(Some).map_err(|error| column.damaged(error))
            }
            other => Err(other_type(column, other, "text")),
        }
    }

    #[inline]
    fn maybe_boolean(&self, column: Column) -> Read<Option<bool>> {
        Ok(self.maybe_integer(column)?.map(|value| value != 0))
    }

    #[inline]
    fn maybe_uuid(&self, column: Column) -> Read<Option<u128>> {
        let Some(bytes) = self.maybe_bytes(column)? else { return Ok(None) };
        let bytes = bytes.try_into().map_err(|_| column.damaged("not 16 bytes"))?;
        Ok(Some(u128::from_be_bytes(bytes)))
    }

    #[inline]
    fn maybe_bytes(&self, column: Column) -> Read<Option<&[u8]>> {
        match self.get_ref(column.index)? {
            ValueRef::Null => Ok(None),
            ValueRef::Blob(bytes) => Ok(Some(bytes)),
            other => Err(other_type(column, other, "bytes")),
        }
    }
}
