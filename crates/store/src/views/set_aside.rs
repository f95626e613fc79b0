//! The list of what is set aside.

use engine::turn::Wakeup;

use crate::codes::sql;
use crate::failure::Failure;
use crate::rows::{Read, Row, RunIdColumns, columns, set_aside_columns};
use crate::set_aside::SetAside;
use crate::views::Reader;
use crate::wakeups::{read_wakeup, stored_wakeup};

columns! {
    /// What is set aside, and the id of the run if it is one.
    listed_columns = set_aside_columns; run_id of "r"
}

/// Everything that is set aside, oldest first. Its rows are read with [`read`].
pub(crate) const LIST: &str = sql!(
    "SELECT ",
    listed_columns!(),
    " FROM set_aside a LEFT JOIN runs r ON a.kind = {run_wakeup} AND r.key = a.id
     ORDER BY a.at, a.kind, a.id"
);

pub(crate) async fn list(reader: &impl Reader) -> Result<Vec<SetAside>, Failure> {
    reader.all(LIST, &[], |row| read(row)).await
}

pub(crate) fn read(row: &impl Row) -> Read<SetAside> {
    use set_aside_columns as column;
    let what = read_wakeup(row.read(column::kind)?, row.read(column::id)?)?;
    // A run's id is read on its own: everything else in the row may be unreadable.
    let run = match what {
        Wakeup::Run(_) => RunIdColumns::from(listed_columns::key).read(row).ok(),
        _ => None,
    };
    let id = run.map_or_else(|| stored_wakeup(what).1.to_string(), |id| id.to_string());
    Ok(SetAside { what, id, reason: row.read(column::reason)?, since: row.read(column::at)? })
}
