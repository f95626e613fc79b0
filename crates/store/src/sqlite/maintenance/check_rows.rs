//! Reads every row, to find those that cannot be read.

use calendar::CalendarSpec;
use engine::schedule::OverrideAction;
use engine::turn::Answer;
use language::definition::Definition;
use rusqlite::{Connection, Row};

use crate::failure::Failure;
use crate::invariants::{Listed, RowKind};
use crate::sqlite::rows::{decode, topic_rows};

type Read = fn(&Row<'_>) -> Result<(), rusqlite::Error>;

/// A run's public id, as far as its columns allow.
const RUN_ID: &str = "coalesce('sched-' || r.schedule || '-n' || r.n || '-rc' || r.retry,
    lower(substr(hex(r.uuid), 1, 8) || '-' || substr(hex(r.uuid), 9, 4) || '-' ||
      substr(hex(r.uuid), 13, 4) || '-' || substr(hex(r.uuid), 17, 4) || '-' ||
      substr(hex(r.uuid), 21)), r.key)";

/// The columns of a kind of row, a name for the row, where the rows are, and how one is read.
fn kind_of_row(kind: RowKind) -> (&'static str, &'static str, &'static str, Read) {
    match kind {
        RowKind::Schedule => {
            let from = "schedules s JOIN progress p ON p.id = s.id";
            (decode::SCHEDULE, "s.id", from, |row| decode::schedule(row).map(drop))
        }
        RowKind::Run => (decode::RUN, RUN_ID, "runs r", |row| decode::run(row).map(drop)),
        RowKind::Workflow => {
            (decode::WORKFLOW, "w.name", "workflows w", |row| decode::workflow(row).map(drop))
        }
        RowKind::Version => {
            let name = "'revision ' || revision || ' of workflow ' ||
                coalesce((SELECT w.name FROM workflows w WHERE w.id = v.workflow), v.workflow)";
            ("definition", name, "revisions v", |row| decode::json::<Definition>(row, 0).map(drop))
        }
        RowKind::Override => {
            let name = "'an occurrence of schedule ' || schedule";
            ("action", name, "overrides", |row| decode::json::<OverrideAction>(row, 0).map(drop))
        }
        RowKind::Handler => {
            (topic_rows::HANDLER, "h.name", "handlers h", |row| topic_rows::handler(row).map(drop))
        }
        RowKind::Incident => {
            (decode::INCIDENT, "i.key", "incidents i", |row| decode::incident(row).map(drop))
        }
        RowKind::Calendar => {
            ("spec", "id", "calendars", |row| decode::json::<CalendarSpec>(row, 0).map(drop))
        }
        RowKind::Answer => {
            ("answer", "key", "idempotency", |row| decode::json::<Answer>(row, 0).map(drop))
        }
    }
}

pub(crate) fn read_all(
    connection: &Connection,
    kind: RowKind,
    found: &mut Listed,
) -> Result<(), Failure> {
    let (columns, name, from, read) = kind_of_row(kind);
    let sql = format!("SELECT {columns}, CAST({name} AS text) FROM {from}");
    let mut statement = connection.prepare(&sql)?;
    let last = statement.column_count() - 1;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let Err(error) = read(row) else { continue };
        let name = row.get(last).unwrap_or_else(|_| "without a name".to_owned());
        found.add(|| kind.unreadable(&name, error));
    }
    Ok(())
}
