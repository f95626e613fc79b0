//! Inserts many rows with few statements. To begin and end a statement, and to open its table with
//! all indexes, costs SQLite about as much as to insert a narrow row.

use rusqlite::{Connection, Statement, ToSql};

use crate::failure::Failure;

/// How many rows one statement inserts. Many more would gain nothing.
const TOGETHER: usize = 32;

/// A statement that inserts rows of one form.
pub(crate) struct Insert {
    /// The statement up to `VALUES`.
    pub(crate) into: &'static str,
    /// How many values each row has.
    pub(crate) columns: usize,
    /// The values of further columns, the same in every row.
    pub(crate) constants: &'static str,
    /// The end of the statement, after the values.
    pub(crate) then: &'static str,
}

/// The values of one row, in the order of its columns.
pub(crate) struct RowValues<'s, 'c> {
    statement: &'s mut Statement<'c>,
    index: usize,
}

impl RowValues<'_, '_> {
    pub(crate) fn put(&mut self, value: impl ToSql) -> Result<(), Failure> {
        self.index += 1;
        Ok(self.statement.raw_bind_parameter(self.index, value)?)
    }
}

impl Insert {
    /// Inserts a row for each item, in their order. `bind` puts its values.
    pub(crate) fn all<T>(
        &self,
        connection: &Connection,
        items: &[T],
        bind: impl Fn(&mut RowValues<'_, '_>, &T) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let (many, rest) = items.as_chunks::<TOGETHER>();
        self.each(connection, TOGETHER, many, |values, items| {
            items.iter().try_for_each(|item| bind(values, item))
        })?;
        self.each(connection, 1, rest, bind)
    }

    /// Executes a statement of so many rows for each of the groups.
    fn each<G>(
        &self,
        connection: &Connection,
        rows: usize,
        groups: &[G],
        bind: impl Fn(&mut RowValues<'_, '_>, &G) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        if groups.is_empty() {
            return Ok(());
        }
        let mut statement = connection.prepare_cached(&self.sql(rows))?;
        for group in groups {
            let mut values = RowValues { statement: &mut statement, index: 0 };
            bind(&mut values, group)?;
            statement.raw_execute()?;
        }
        Ok(())
    }

    fn sql(&self, rows: usize) -> String {
        let row = format!("({}{})", vec!["?"; self.columns].join(","), self.constants);
        format!("{} VALUES {} {}", self.into, vec![row; rows].join(","), self.then)
    }
}
