//! Reads every row, to find those that cannot be read.

use calendar::CalendarSpec;
use engine::schedule::OverrideAction;
use engine::turn::Answer;
use language::definition::Definition;
use tokio_postgres::Row;

use crate::failure::Failure;
use crate::invariants::{Listed, RowKind};
use crate::postgres::connections::tx_connection::TxConnection;
use crate::postgres::maintenance::check::page_through;
use crate::postgres::rows::columns::{of_handler, of_incident, of_run, of_schedule, of_workflow};
use crate::postgres::rows::decode;
use crate::postgres::rows::decode::get;
use crate::postgres::rows::topic_rows;

type Read = fn(&Row) -> Result<(), Failure>;

/// A query for some rows after the key `$1`: their columns, the key, and a name.
macro_rules! page {
    ($columns:expr, $key:literal, $name:literal, $from:literal) => {
        concat!(
            "SELECT ",
            $columns,
            ", ",
            $key,
            ", (",
            $name,
            ")::text FROM ",
            $from,
            " WHERE ",
            $key,
            " > $1 ORDER BY ",
            $key,
            " LIMIT 500"
        )
    };
}

/// The query for a kind of row, and how a row is read. Rows that no number orders are numbered.
fn kind_of_row(kind: RowKind) -> (&'static str, Read) {
    match kind {
        RowKind::Schedule => (
            page!(of_schedule!(), "s.id", "s.id", "schedules s JOIN progress p ON p.id = s.id"),
            |row| decode::schedule(row).map(drop),
        ),
        RowKind::Run => (
            page!(
                of_run!(),
                "r.key",
                // The run's public id, as far as its columns allow.
                "coalesce('sched-' || r.schedule || '-n' || r.n || '-rc' || r.retry, r.uuid::text,
                   r.key::text)",
                "runs r"
            ),
            |row| decode::run(row).map(drop),
        ),
        RowKind::Workflow => (page!(of_workflow!(), "w.id", "w.name", "workflows w"), |row| {
            decode::workflow(row).map(drop)
        }),
        RowKind::Version => (
            page!(
                "definition",
                "v.n",
                "'revision ' || revision || ' of workflow ' || coalesce((SELECT w.name
                   FROM workflows w WHERE w.id = v.workflow), v.workflow::text)",
                "(SELECT *, row_number() OVER (ORDER BY workflow, revision) AS n FROM revisions) v"
            ),
            |row| decode::json::<Definition>(row, 0).map(drop),
        ),
        RowKind::Override => (
            page!(
                "action",
                "v.n",
                "'an occurrence of schedule ' || schedule",
                "(SELECT *, row_number() OVER (ORDER BY schedule, nominal) AS n FROM overrides) v"
            ),
            |row| decode::json::<OverrideAction>(row, 0).map(drop),
        ),
        RowKind::Handler => (page!(of_handler!(), "h.id", "h.name", "handlers h"), |row| {
            topic_rows::handler(row).map(drop)
        }),
        RowKind::Incident => (page!(of_incident!(), "i.key", "i.key", "incidents i"), |row| {
            decode::incident(row).map(drop)
        }),
        RowKind::Calendar => (
            page!(
                "spec",
                "v.n",
                "id",
                "(SELECT *, row_number() OVER (ORDER BY id) AS n FROM calendars) v"
            ),
            |row| decode::json::<CalendarSpec>(row, 0).map(drop),
        ),
        RowKind::Answer => (
            page!(
                "answer",
                "v.n",
                "key",
                "(SELECT *, row_number() OVER (ORDER BY key) AS n FROM idempotency) v"
            ),
            |row| decode::json::<Answer>(row, 0).map(drop),
        ),
    }
}

pub(crate) fn read_all(
    tx: &mut TxConnection,
    kind: RowKind,
    found: &mut Listed,
) -> Result<(), Failure> {
    let (sql, read) = kind_of_row(kind);
    page_through(
        tx,
        sql,
        |row| row.len() - 2,
        |row| {
            if let Err(error) = read(row) {
                let name: &str = get(row, row.len() - 1)?;
                found.add(|| kind.unreadable(name, error));
            }
            Ok(())
        },
    )
}
