//! Checks that every row can be read, and that sequences give no id that is taken.

use calendar::CalendarSpec;
use engine::schedule::OverrideAction;
use engine::turn::Answer;
use language::definition::Definition;
use tokio_postgres::Row;

use crate::check_run::{REPUBLISH, TOLD, more};
use crate::failure::Failure;
use crate::postgres::connections::tx_connection::{Query, TxConnection, param};
use crate::postgres::maintenance::check::{look, unchecked};
use crate::postgres::rows::columns::{of_handler, of_incident, of_run, of_schedule, of_workflow};
use crate::postgres::rows::decode;
use crate::postgres::rows::decode::get;
use crate::postgres::rows::topic_rows;
use crate::postgres::transaction::core::Core;
use crate::view::Finding;

/// A run's public id, as far as its columns allow.
macro_rules! run_id {
    () => {
        "coalesce('sched-' || r.schedule || '-n' || r.n || '-rc' || r.retry, r.uuid::text, r.key::text)"
    };
}

/// How many rows are read at a time.
const AT_ONCE: usize = 500;

type Read = fn(&Row) -> Result<(), Failure>;

/// One kind of row to read.
struct Kind {
    code: &'static str,
    /// Selects the row's columns, and in the last two a number that orders the rows and a name.
    sql: &'static str,
    read: Read,
    what: &'static str,
    remedy: &'static str,
}

const KINDS: [Kind; 10] = [
    Kind {
        code: "schedule-unreadable",
        sql: concat!(
            "SELECT ",
            of_schedule!(),
            ", s.id, s.id::text FROM schedules s JOIN progress p ON p.id = s.id
             WHERE s.id > $1 ORDER BY s.id LIMIT 500"
        ),
        read: |row| decode::schedule(row).map(drop),
        what: "schedule",
        remedy: "restore a copy that has it, or delete it (`punctual schedule delete`) and declare it again",
    },
    Kind {
        code: "run-unreadable",
        sql: concat!(
            "SELECT ",
            of_run!(),
            ", r.key, ",
            run_id!(),
            " FROM open_runs r WHERE r.key > $1 ORDER BY r.key LIMIT 500"
        ),
        read: |row| decode::run(row).map(drop),
        what: "run",
        remedy: "restore a copy that has it, or cancel it if it has not ended (`punctual run cancel`)",
    },
    Kind {
        code: "run-unreadable",
        sql: concat!(
            "SELECT ",
            of_run!(),
            ", r.key, ",
            run_id!(),
            " FROM ended_runs r WHERE r.key > $1 ORDER BY r.key LIMIT 500"
        ),
        read: |row| decode::run(row).map(drop),
        what: "run",
        remedy: "restore a copy that has it, or cancel it if it has not ended (`punctual run cancel`)",
    },
    Kind {
        code: "workflow-unreadable",
        sql: concat!(
            "SELECT ",
            of_workflow!(),
            ", w.id, w.name FROM workflows w WHERE w.id > $1 ORDER BY w.id LIMIT 500"
        ),
        read: |row| decode::workflow(row).map(drop),
        what: "workflow",
        remedy: "restore a copy that has it",
    },
    Kind {
        code: "version-unreadable",
        sql: "SELECT definition, n, 'revision ' || revision || ' of workflow ' ||
                coalesce((SELECT w.name FROM workflows w WHERE w.id = v.workflow), v.workflow::text)
              FROM (SELECT *, row_number() OVER (ORDER BY workflow, revision) AS n FROM revisions) v
              WHERE n > $1 ORDER BY n LIMIT 500",
        read: |row| decode::json::<Definition>(row, 0).map(drop),
        what: "definition:",
        remedy: REPUBLISH,
    },
    Kind {
        code: "override-unreadable",
        sql: "SELECT action, n, 'an occurrence of schedule ' || schedule FROM (
                SELECT *, row_number() OVER (ORDER BY schedule, nominal) AS n FROM overrides) v
              WHERE n > $1 ORDER BY n LIMIT 500",
        read: |row| decode::json::<OverrideAction>(row, 0).map(drop),
        what: "override of",
        remedy: "withdraw it (`punctual schedule override`), or restore a copy",
    },
    Kind {
        code: "handler-unreadable",
        sql: concat!(
            "SELECT ",
            of_handler!(),
            ", h.id, h.name FROM handlers h WHERE h.id > $1 ORDER BY h.id LIMIT 500"
        ),
        read: |row| topic_rows::handler(row).map(drop),
        what: "handler",
        remedy: "restore a copy that has it",
    },
    Kind {
        code: "incident-unreadable",
        sql: concat!(
            "SELECT ",
            of_incident!(),
            ", i.key, i.key::text FROM incidents i WHERE i.key > $1 ORDER BY i.key LIMIT 500"
        ),
        read: |row| decode::incident(row).map(drop),
        what: "incident",
        remedy: "restore a copy that has it",
    },
    Kind {
        code: "calendar-unreadable",
        sql: "SELECT spec, n, id FROM (
                SELECT *, row_number() OVER (ORDER BY id) AS n FROM calendars) v
              WHERE n > $1 ORDER BY n LIMIT 500",
        read: |row| decode::json::<CalendarSpec>(row, 0).map(drop),
        what: "calendar",
        remedy: "declare it again (`punctual calendar put`)",
    },
    Kind {
        code: "answer-unreadable",
        sql: "SELECT answer, n, key FROM (
                SELECT *, row_number() OVER (ORDER BY key) AS n FROM idempotency) v
              WHERE n > $1 ORDER BY n LIMIT 500",
        read: |row| decode::json::<Answer>(row, 0).map(drop),
        what: "answer to Idempotency-Key",
        remedy: "it is forgotten a day after it was given; use another key until then",
    },
];

/// Each sequence with a query that finds a taken id beyond it, and the statement that moves the
/// sequence past it. Keys of runs and events are given in blocks.
const SEQUENCES: [(&str, &str, &str); 5] = [
    (
        "schedule_ids",
        "SELECT max(id) FROM schedules HAVING max(id) > (SELECT last_value FROM schedule_ids)",
        "SELECT setval('schedule_ids', (SELECT max(id) FROM schedules)) IS NULL",
    ),
    (
        "workflow_ids",
        "SELECT max(id) FROM workflows HAVING max(id) > (SELECT last_value FROM workflow_ids)",
        "SELECT setval('workflow_ids', (SELECT max(id) FROM workflows)) IS NULL",
    ),
    (
        "topic_ids",
        "SELECT max(id) FROM topics HAVING max(id) > (SELECT last_value FROM topic_ids)",
        "SELECT setval('topic_ids', (SELECT max(id) FROM topics)) IS NULL",
    ),
    (
        "handler_ids",
        "SELECT max(id) FROM handlers HAVING max(id) > (SELECT last_value FROM handler_ids)",
        "SELECT setval('handler_ids', (SELECT max(id) FROM handlers)) IS NULL",
    ),
    (
        "incident_keys",
        "SELECT max(key) FROM incidents HAVING max(key) > (SELECT last_value FROM incident_keys)",
        "SELECT setval('incident_keys', (SELECT max(key) FROM incidents)) IS NULL",
    ),
];

impl Core {
    /// The findings for rows that cannot be read.
    pub(crate) fn check_rows(&mut self) -> Vec<Finding> {
        let mut findings = Vec::new();
        for kind in &KINDS {
            match of_kind(&mut self.tx, kind) {
                Ok(found) => findings.extend(found),
                Err(failure) => findings.push(unchecked(kind.what, &failure)),
            }
        }
        findings
    }

    /// The findings for sequences that would give ids that are taken.
    pub(crate) fn check_sequences(&mut self, repair: bool) -> Result<Vec<Finding>, Failure> {
        let mut findings = Vec::new();
        for (name, behind, mend) in SEQUENCES {
            let found = look(&mut self.tx, behind, Vec::new)?;
            let Some(row) = found.first() else { continue };
            let greatest: i64 = get(row, 0)?;
            if repair {
                self.tx.transact(|tx| {
                    tx.begin(vec![])?;
                    tx.commit(vec![Query::new(mend, vec![])]).map(drop)
                })?;
            }
            let message =
                format!("sequence {name} would give ids again: {greatest} is given already");
            findings.push(Finding { code: "sequence-behind", message, repaired: repair });
        }
        Ok(findings)
    }
}

fn of_kind(tx: &mut TxConnection, kind: &Kind) -> Result<Vec<Finding>, Failure> {
    let (mut found, mut count, mut after) = (Vec::new(), 0, i64::MIN);
    let finding = |message| Finding { code: kind.code, message, repaired: false };
    loop {
        let some = look(tx, kind.sql, || vec![param(after)])?;
        for row in &some {
            let name = row.len() - 1;
            after = get(row, name - 1)?;
            let Err(error) = (kind.read)(row) else { continue };
            count += 1;
            if count <= TOLD {
                let name: &str = get(row, name)?;
                let Kind { what, remedy, .. } = kind;
                found.push(finding(format!("{what} {name} cannot be read: {error} ({remedy})")));
            }
        }
        if some.len() < AT_ONCE {
            found.extend(more(count, kind.code).map(finding));
            return Ok(found);
        }
    }
}
