//! Rows on their way to the database. Values are given once, one by one, and sent either as one
//! array for each column to an INSERT, or row by row to a COPY. COPY costs the database half as
//! much for each row, but needs a round trip of its own, and works only for rows that are not there
//! yet.

use bytes::{BufMut as _, Bytes, BytesMut};
use tokio_postgres::types::{IsNull, Kind, ToSql, Type, to_sql_checked};

use crate::failure::Failure;
use crate::postgres::connections::tx_connection::{Param, Query, param};

/// From this many new rows on they are copied.
pub(crate) const MANY: usize = 100;

/// How rows of a table are written.
pub(crate) struct Table {
    /// The type of each column, in the order of the values.
    pub(crate) types: &'static [Type],
    /// The INSERT, with an array for each column in the same order.
    pub(crate) insert: &'static str,
    /// The COPY of the same columns, for rows that are not there yet.
    pub(crate) copy: &'static str,
}

/// A batch of rows to send.
pub(crate) struct BulkInsert {
    sql: &'static str,
    types: &'static [Type],
    form: Form,
    /// The index of the next column.
    at: usize,
    count: usize,
}

enum Form {
    Copied(BytesMut),
    Arrays(Vec<Column>),
}

#[derive(Clone, Default)]
struct Column {
    values: BytesMut,
    has_null: bool,
}

/// The header of a binary copy: a signature, no flags, no extension.
const HEADER: &[u8] = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";

impl BulkInsert {
    /// For `count` new rows: a copy if they are many, unless some of them may be there after all.
    pub(crate) fn new_rows(table: &Table, count: usize, may_be_there: bool) -> BulkInsert {
        if count < MANY || may_be_there {
            return BulkInsert::arrays(table.insert, table.types);
        }
        BulkInsert::copied(table.copy, table.types, count)
    }

    /// For a COPY of `count` rows that are not there yet.
    pub(crate) fn copied(sql: &'static str, types: &'static [Type], count: usize) -> BulkInsert {
        let mut bytes = BytesMut::with_capacity(count * 16 * types.len());
        bytes.put_slice(HEADER);
        BulkInsert { sql, types, form: Form::Copied(bytes), at: 0, count: 0 }
    }

    /// For a statement that takes an array for each column. A column that is a list itself is sent
    /// as texts.
    pub(crate) fn arrays(sql: &'static str, types: &'static [Type]) -> BulkInsert {
        let form = Form::Arrays(vec![Column::default(); types.len()]);
        BulkInsert { sql, types, form, at: 0, count: 0 }
    }

    /// Adds the next value of the row; after its last value, the first of the next row.
    pub(crate) fn put(&mut self, value: impl ToSql) -> Result<(), Failure> {
        let ty = &self.types[self.at];
        match &mut self.form {
            Form::Copied(bytes) => {
                if self.at == 0 {
                    bytes.put_i16(i16::try_from(self.types.len()).unwrap_or(i16::MAX));
                }
                write(bytes, ty, value)?;
            }
            Form::Arrays(columns) => {
                let column = &mut columns[self.at];
                column.has_null |= write(&mut column.values, element(ty), value)?;
            }
        }
        self.at += 1;
        if self.at == self.types.len() {
            (self.at, self.count) = (0, self.count + 1);
        }
        Ok(())
    }

    /// The statement with all rows.
    pub(crate) fn queries(self) -> Query {
        debug_assert_eq!(self.at, 0, "a row without all of its values: {}", self.sql);
        match self.form {
            Form::Copied(mut bytes) => {
                bytes.put_i16(-1);
                Query::copy(self.sql, bytes.freeze())
            }
            Form::Arrays(columns) => {
                let arrays = columns.into_iter().zip(self.types);
                let arrays = arrays.map(|(column, ty)| column.into_array(ty, self.count));
                Query::new(self.sql, arrays.collect())
            }
        }
    }
}

/// The element type of a column's array. Lists become texts: there are no arrays of arrays.
fn element(of: &Type) -> &Type {
    match of.kind() {
        Kind::Array(_) => &Type::TEXT,
        _ => of,
    }
}

/// Writes a value with its length, the same in arrays and in copies. Returns whether it is NULL.
fn write(bytes: &mut BytesMut, ty: &Type, value: impl ToSql) -> Result<bool, Failure> {
    let from = bytes.len();
    bytes.put_i32(-1);
    let written = value.to_sql(ty, bytes);
    match written.map_err(|error| Failure::Unavailable(error.to_string()))? {
        IsNull::Yes => Ok(true),
        IsNull::No => {
            let length = i32::try_from(bytes.len() - from - 4).map_err(|_| {
                Failure::Unavailable("a value is too large for the database".to_owned())
            })?;
            bytes[from..from + 4].copy_from_slice(&length.to_be_bytes());
            Ok(false)
        }
    }
}

impl Column {
    fn into_array(self, of: &Type, count: usize) -> Param {
        let count = i32::try_from(count).unwrap_or(i32::MAX);
        let mut array = BytesMut::with_capacity(self.values.len() + 20);
        array.put_i32(i32::from(count > 0));
        array.put_i32(i32::from(self.has_null));
        array.put_u32(element(of).oid());
        if count > 0 {
            array.put_i32(count);
            array.put_i32(1);
        }
        array.put_slice(&self.values);
        param(Encoded(array.freeze()))
    }
}

/// A value in its binary format.
#[derive(Debug)]
struct Encoded(Bytes);

impl ToSql for Encoded {
    fn to_sql(
        &self,
        _: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        out.put_slice(&self.0);
        Ok(IsNull::No)
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
}

/// A list of numbers: an array, or the text that the database reads as one.
#[derive(Debug)]
pub(crate) struct Numbers(pub(crate) Vec<i64>);

impl ToSql for Numbers {
    fn to_sql(
        &self,
        ty: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        if *ty != Type::TEXT {
            return self.0.to_sql(ty, out);
        }
        let numbers: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        format!("{{{}}}", numbers.join(",")).to_sql(ty, out)
    }

    fn accepts(ty: &Type) -> bool {
        matches!(*ty, Type::INT8_ARRAY | Type::TEXT)
    }

    to_sql_checked!();
}
