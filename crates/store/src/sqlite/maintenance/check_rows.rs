//! Checks that every row can be read: a row that cannot would stop the turn that meets it.

use calendar::CalendarSpec;
use engine::schedule::OverrideAction;
use engine::turn::Answer;
use language::definition::Definition;
use rusqlite::{Connection, Row};

use crate::check_run::{REPUBLISH, TOLD, more};
use crate::failure::Failure;
use crate::sqlite::maintenance::check::unchecked;
use crate::sqlite::rows::{decode, topic_rows};
use crate::view::Finding;

type Read = fn(&Row<'_>) -> Result<(), rusqlite::Error>;

/// One kind of row to read.
struct Kind {
    code: &'static str,
    /// Selects the row's columns, and in the last one a name for the row.
    sql: String,
    read: Read,
    what: &'static str,
    remedy: &'static str,
}

/// A run's public id, as far as its columns allow.
const RUN_ID: &str = "coalesce('sched-' || r.schedule || '-n' || r.n || '-rc' || r.retry,
    lower(substr(hex(r.uuid), 1, 8) || '-' || substr(hex(r.uuid), 9, 4) || '-' ||
      substr(hex(r.uuid), 13, 4) || '-' || substr(hex(r.uuid), 17, 4) || '-' ||
      substr(hex(r.uuid), 21)), r.key)";

fn kinds() -> [Kind; 9] {
    [
        Kind {
            code: "schedule-unreadable",
            sql: format!(
                "SELECT {}, s.id FROM schedules s JOIN progress p ON p.id = s.id",
                decode::SCHEDULE
            ),
            read: |row| decode::schedule(row).map(drop),
            what: "schedule",
            remedy: "restore a copy that has it, or delete it (`punctual schedule delete`) and declare it \
                     again",
        },
        Kind {
            code: "run-unreadable",
            sql: format!("SELECT {}, {RUN_ID} FROM runs r", decode::RUN),
            read: |row| decode::run(row).map(drop),
            what: "run",
            remedy: "restore a copy that has it, or cancel it if it has not ended (`punctual run cancel`)",
        },
        Kind {
            code: "workflow-unreadable",
            sql: format!("SELECT {}, w.name FROM workflows w", decode::WORKFLOW),
            read: |row| decode::workflow(row).map(drop),
            what: "workflow",
            remedy: "restore a copy that has it",
        },
        Kind {
            code: "version-unreadable",
            sql: "SELECT definition, 'revision ' || revision || ' of workflow ' ||
                    coalesce((SELECT w.name FROM workflows w WHERE w.id = v.workflow), v.workflow)
                  FROM revisions v"
                .to_owned(),
            read: |row| decode::json::<Definition>(row, 0).map(drop),
            what: "definition:",
            remedy: REPUBLISH,
        },
        Kind {
            code: "override-unreadable",
            sql: "SELECT action, 'an occurrence of schedule ' || schedule FROM overrides"
                .to_owned(),
            read: |row| decode::json::<OverrideAction>(row, 0).map(drop),
            what: "override of",
            remedy: "withdraw it (`punctual schedule override`), or restore a copy",
        },
        Kind {
            code: "handler-unreadable",
            sql: format!("SELECT {}, h.name FROM handlers h", topic_rows::HANDLER),
            read: |row| topic_rows::handler(row).map(drop),
            what: "handler",
            remedy: "restore a copy that has it",
        },
        Kind {
            code: "incident-unreadable",
            sql: format!("SELECT {}, i.key FROM incidents i", decode::INCIDENT),
            read: |row| decode::incident(row).map(drop),
            what: "incident",
            remedy: "restore a copy that has it",
        },
        Kind {
            code: "calendar-unreadable",
            sql: "SELECT spec, id FROM calendars".to_owned(),
            read: |row| decode::json::<CalendarSpec>(row, 0).map(drop),
            what: "calendar",
            remedy: "declare it again (`punctual calendar put`)",
        },
        Kind {
            code: "answer-unreadable",
            sql: "SELECT answer, key FROM idempotency".to_owned(),
            read: |row| decode::json::<Answer>(row, 0).map(drop),
            what: "answer to Idempotency-Key",
            remedy: "it is forgotten a day after it was given; use another key until then",
        },
    ]
}

/// The findings for rows that cannot be read.
pub(crate) fn unreadable(connection: &Connection) -> Vec<Finding> {
    let mut findings = Vec::new();
    for kind in kinds() {
        match of_kind(connection, &kind) {
            Ok(found) => findings.extend(found),
            Err(failure) => findings.push(unchecked(kind.what, &failure)),
        }
    }
    findings
}

fn of_kind(connection: &Connection, kind: &Kind) -> Result<Vec<Finding>, Failure> {
    let mut statement = connection.prepare(&kind.sql)?;
    let name = statement.column_count() - 1;
    let mut rows = statement.query([])?;
    let (mut found, mut count) = (Vec::new(), 0);
    let finding = |message| Finding { code: kind.code, message, repaired: false };
    while let Some(row) = rows.next()? {
        let Err(error) = (kind.read)(row) else { continue };
        count += 1;
        if count <= TOLD {
            let name = match row.get::<_, rusqlite::types::Value>(name)? {
                rusqlite::types::Value::Text(text) => text,
                rusqlite::types::Value::Integer(number) => number.to_string(),
                other => format!("{other:?}"),
            };
            let Kind { what, remedy, .. } = kind;
            found.push(finding(format!("{what} {name} cannot be read: {error} ({remedy})")));
        }
    }
    found.extend(more(count, kind.code).map(finding));
    Ok(found)
}
