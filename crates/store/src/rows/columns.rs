//! Lists of columns: their SQL text, and the index of each.

use crate::failure::Failure;

/// A column of a query's answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Column {
    pub(crate) index: usize,
    /// The name under which an error shows the column.
    name: &'static str,
}

impl Column {
    /// The columns of a query that has few, which are read by position.
    pub(crate) const POSITIONS: [Column; 5] = [
        Column::new(0, "1"),
        Column::new(1, "2"),
        Column::new(2, "3"),
        Column::new(3, "4"),
        Column::new(4, "5"),
    ];

    pub(crate) const fn new(index: usize, name: &'static str) -> Column {
        Column { index, name }
    }

    /// The row cannot be read, because this column does not hold what it must.
    pub(crate) fn damaged(self, what: impl std::fmt::Display) -> Failure {
        Failure::Undecidable { what: None, why: format!("column {}: {what}", self.name) }
    }
}

/// Declares a list of columns in the order in which queries select them.
///
/// `columns!(run_columns = r runs: key, uuid;)` gives the macro `run_columns!()`, which is the
/// literal `"r.key, r.uuid"`, and the module `run_columns` with the constants `key` and `uuid`
/// (their [`Column`]s) and `COUNT`. An alias of several tables makes a list of a join. Other values
/// are named one by one: `columns!(x_columns = workflow_name: "w.name")`. A list may begin
/// with one of this module: `columns!(x_columns = run_columns, workflow_name: "w.name")`. With
/// `; run_id of "p"` it ends with the columns of [`RunIdColumns`](crate::rows::RunIdColumns) of the
/// run with that alias.
macro_rules! columns {
    ($(#[$doc:meta])* $list:ident = $($alias:ident $table:ident: $($column:ident),+;)+) => {
        $crate::rows::columns! {
            @define [$(#[$doc])*] $list [] 0;
            $($(($column, concat!(stringify!($alias), ".", stringify!($column)),
                concat!(stringify!($table), ".", stringify!($column))))+)+
        }
    };
    ($(#[$doc:meta])* $list:ident = $before:ident $(, $column:ident: $sql:expr)*;
        run_id of $run:literal) => {
        $crate::rows::columns! {
            @define [$(#[$doc])*] $list
            [$crate::rows::$before!(), ", ",] $crate::rows::$before::COUNT;
            $(($column, $sql, stringify!($column)))*
            (key, concat!($run, ".key"), "runs.key")
            (schedule, concat!($run, ".schedule"), "runs.schedule")
            (uuid, concat!($run, ".uuid"), "runs.uuid")
            (n, concat!($run, ".n"), "runs.n")
            (retry, concat!($run, ".retry"), "runs.retry")
        }
    };
    ($(#[$doc:meta])* $list:ident = $before:ident, $($column:ident: $sql:expr),+ $(,)?) => {
        $crate::rows::columns! {
            @define [$(#[$doc])*] $list
            [$crate::rows::$before!(), ", ",] $crate::rows::$before::COUNT;
            $(($column, $sql, stringify!($column)))+
        }
    };
    ($(#[$doc:meta])* $list:ident = $($column:ident: $sql:expr),+ $(,)?) => {
        $crate::rows::columns! {
            @define [$(#[$doc])*] $list [] 0; $(($column, $sql, stringify!($column)))+
        }
    };
    (@define [$(#[$doc:meta])*] $list:ident [$($before:tt)*] $first:expr;
        ($column:ident, $sql:expr, $name:expr) $(($columns:ident, $sqls:expr, $names:expr))*) => {
        $(#[$doc])*
        // Columns are called as they are in the database.
        #[allow(non_upper_case_globals, dead_code)]
        pub(crate) mod $list {
            #[allow(non_camel_case_types)]
            enum Index { $column, $($columns,)* End }
            const FIRST: usize = $first;
            pub(crate) const $column: $crate::rows::Column =
                $crate::rows::Column::new(FIRST + Index::$column as usize, $name);
            $(pub(crate) const $columns: $crate::rows::Column =
                $crate::rows::Column::new(FIRST + Index::$columns as usize, $names);)*
            /// How many columns the list has.
            pub(crate) const COUNT: usize = FIRST + Index::End as usize;

            macro_rules! $list {
                () => { concat!($($before)* $sql $(, ", ", $sqls)*) };
            }
            pub(crate) use $list;
        }
        pub(crate) use $list::$list;
    };
}

pub(crate) use columns;

#[cfg(test)]
mod tests {
    use crate::rows::{event_columns, event_view_columns, run_columns, run_view_columns};

    crate::rows::columns! {
        named_columns = run_columns, workflow_name: "w.name"
    }

    /// The index of each column is its position in the SQL text.
    #[test]
    fn text_and_indexes_agree() {
        let index_of = |list: &str, column| list.split(", ").position(|known| known == column);
        for (list, column, index) in [
            (run_columns!(), "r.key", run_columns::key.index),
            (run_columns!(), "r.hops", run_columns::hops.index),
            (named_columns!(), "w.name", named_columns::workflow_name.index),
            (run_view_columns!(), "w.name", run_view_columns::workflow_name.index),
            (run_view_columns!(), "p.key", run_view_columns::key.index),
            (run_view_columns!(), "p.retry", run_view_columns::COUNT - 1),
            (event_columns!(), "m.causes", event_columns::causes.index),
            (event_view_columns!(), "r.uuid", event_view_columns::uuid.index),
        ] {
            assert_eq!(index_of(list, column), Some(index), "{column} in {list}");
        }
    }

    #[test]
    fn an_error_names_the_column() {
        let failure = run_columns::state.damaged("NULL");
        assert!(failure.to_string().ends_with("column runs.state: NULL"), "{failure}");
    }
}
