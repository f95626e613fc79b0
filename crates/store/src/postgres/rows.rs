//! Reads the values of PostgreSQL's rows.

use std::error::Error;

use tokio_postgres::types::{FromSql, Type, accepts};

use crate::rows::{Column, Read, Row};
use crate::stored::code;

/// A value of a type that only PostgreSQL has, such as an array.
#[inline]
pub(crate) fn get<'a, T: FromSql<'a>>(row: &'a tokio_postgres::Row, column: Column) -> Read<T> {
    row.try_get(column.index).map_err(|error| column.damaged(error))
}

/// The number stored for a member of a fixed set.
pub(crate) fn narrow<T: PartialEq + Copy>(all: &[T], value: T) -> i16 {
    i16::try_from(code(all, value)).unwrap_or(-1)
}

/// An integer of any size.
struct Integer(i64);

impl<'a> FromSql<'a> for Integer {
    #[inline]
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Integer, Box<dyn Error + Sync + Send>> {
        if let Ok(bytes) = raw.try_into() {
            Ok(Integer(i64::from_be_bytes(bytes)))
        } else if let Ok(bytes) = raw.try_into() {
            Ok(Integer(i32::from_be_bytes(bytes).into()))
        } else {
            Ok(Integer(i16::from_be_bytes(raw.try_into()?).into()))
        }
    }

    accepts!(INT2, INT4, INT8);
}

impl Row for tokio_postgres::Row {
    #[inline]
    fn maybe_integer(&self, column: Column) -> Read<Option<i64>> {
        Ok(get::<Option<Integer>>(self, column)?.map(|Integer(value)| value))
    }

    #[inline]
    fn maybe_text(&self, column: Column) -> Read<Option<&str>> {
        get(self, column)
    }

    #[inline]
    fn maybe_boolean(&self, column: Column) -> Read<Option<bool>> {
        get(self, column)
    }

    #[inline]
    fn maybe_uuid(&self, column: Column) -> Read<Option<u128>> {
        Ok(get::<Option<uuid::Uuid>>(self, column)?.map(|uuid| uuid.as_u128()))
    }

    #[inline]
    fn maybe_bytes(&self, column: Column) -> Read<Option<&[u8]>> {
        get(self, column)
    }
}
