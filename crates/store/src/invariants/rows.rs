//! The kinds of rows that are read whole: a row that cannot be read stops the turn or the request
//! that needs it.

use std::fmt::Display;

use calendar::CalendarSpec;
use engine::turn::Answer;
use language::definition::Definition;

use super::Listed;
use crate::codes::sql;
use crate::failure::Failure;
use crate::rows::{
    self, Column, Read, Row, asked_columns, audit_columns, event_columns, handler_columns,
    incident_columns, override_columns, run_columns, schedule_columns, step_columns, token_columns,
    workflow_columns,
};

/// What a person can do about a calendar that cannot be read or built.
pub(super) const CALENDAR_REMEDY: &str = "declare it again (`punctual calendar put FILE`), then \
     revive the schedules that died of it (`punctual schedule revive ID`)";

#[derive(Clone, Copy)]
pub(crate) enum RowKind {
    Schedule,
    Run,
    Workflow,
    Version,
    Override,
    Handler,
    Incident,
    Calendar,
    Answer,
    Token,
    Event,
    Step,
    Approval,
    Audit,
}

/// Where rows of a kind are. Both queries select what [`RowKind::check`] reads, then the row's key,
/// then a name for people.
pub(crate) struct RowSource {
    /// A query for all rows.
    pub(crate) all: &'static str,
    /// A query of PostgreSQL for the next 500 rows after the key `$1`, and more if these would
    /// leave out rows of the last key.
    pub(crate) some: &'static str,
}

macro_rules! source {
    ($columns:expr, $key:literal, $name:literal, $from:literal) => {
        source!(@ ["SELECT ", $columns, ", ", $key, ", CAST(", $name, " AS text) FROM ", $from] $key)
    };
    (@ [$($select:tt)+] $key:literal) => {
        RowSource {
            all: sql!($($select)+),
            some: sql!(
                $($select)+, " WHERE ", $key, " > $1 ORDER BY ", $key,
                " FETCH FIRST 500 ROWS WITH TIES"
            ),
        }
    };
}

impl RowKind {
    pub(crate) const ALL: [RowKind; 14] = [
        RowKind::Schedule,
        RowKind::Run,
        RowKind::Workflow,
        RowKind::Version,
        RowKind::Override,
        RowKind::Handler,
        RowKind::Incident,
        RowKind::Calendar,
        RowKind::Answer,
        RowKind::Token,
        RowKind::Event,
        RowKind::Step,
        RowKind::Approval,
        RowKind::Audit,
    ];

    /// Rows that no number orders are numbered.
    pub(crate) fn source(self) -> RowSource {
        match self {
            RowKind::Schedule => source!(
                schedule_columns!(),
                "s.id",
                "s.id",
                "schedules s JOIN progress p ON p.id = s.id"
            ),
            RowKind::Run => source!(run_columns!(), "r.key", "r.key", "runs r"),
            RowKind::Workflow => source!(workflow_columns!(), "w.id", "w.name", "workflows w"),
            RowKind::Version => source!(
                "definition",
                "v.number",
                "'revision ' || revision || ' of workflow ' || coalesce((SELECT w.name
                   FROM workflows w WHERE w.id = v.workflow), CAST(v.workflow AS text))",
                "(SELECT *, row_number() OVER (ORDER BY workflow, revision) AS number
                  FROM revisions) v"
            ),
            RowKind::Override => source!(
                override_columns!(),
                "o.number",
                "'an occurrence of schedule ' || schedule",
                "(SELECT *, row_number() OVER (ORDER BY schedule, nominal) AS number
                  FROM overrides) o"
            ),
            RowKind::Handler => source!(handler_columns!(), "h.id", "h.name", "handlers h"),
            RowKind::Incident => source!(incident_columns!(), "i.key", "i.key", "incidents i"),
            RowKind::Calendar => source!(
                "spec",
                "v.number",
                "id",
                "(SELECT *, row_number() OVER (ORDER BY id) AS number FROM calendars) v"
            ),
            RowKind::Answer => source!(
                "answer",
                "v.number",
                "key",
                "(SELECT *, row_number() OVER (ORDER BY key) AS number FROM idempotency) v"
            ),
            // A revoked token admits nobody, readable or not.
            RowKind::Token => source!(
                token_columns!(),
                "t.id",
                "t.name",
                "(SELECT * FROM tokens WHERE revoked_at IS NULL) t"
            ),
            // Nobody works on an event that is consumed or skipped.
            RowKind::Event => source!(
                event_columns!(),
                "e.key",
                "e.message_id",
                "(SELECT * FROM events WHERE state IN ({event_pending}, {event_reserved})) e
                 JOIN messages m ON m.event = e.key"
            ),
            RowKind::Step => source!(
                step_columns!(),
                "t.run",
                "'number ' || t.step || ' of run ' || t.run",
                "steps t"
            ),
            RowKind::Approval => source!(
                asked_columns!(),
                "a.run",
                "'number ' || a.step || ' of run ' || a.run",
                "approvals a"
            ),
            RowKind::Audit => source!(audit_columns!(), "a.key", "a.key", "audit a"),
        }
    }

    fn read(self, row: &impl Row) -> Read<()> {
        match self {
            RowKind::Schedule => rows::schedule(row).map(drop),
            RowKind::Run => rows::run(row).map(drop),
            RowKind::Workflow => rows::workflow(row).map(drop),
            RowKind::Version => row.single_json::<Definition>().map(drop),
            RowKind::Override => rows::occurrence_override(row).map(drop),
            RowKind::Handler => rows::handler(row).map(drop),
            RowKind::Incident => rows::incident(row).map(drop),
            RowKind::Calendar => row.single_json::<CalendarSpec>().map(drop),
            RowKind::Answer => row.single_json::<Answer>().map(drop),
            RowKind::Token => rows::token_view(row).map(drop),
            RowKind::Event => rows::event(row).map(drop),
            RowKind::Step => rows::step(row).map(drop),
            RowKind::Approval => rows::check_asked(row),
            RowKind::Audit => rows::audit_view(row).map(drop),
        }
    }

    /// Adds a row of [`RowKind::source`] to what was found, if it cannot be read. `width` is how
    /// many columns it has.
    pub(crate) fn check(self, row: &impl Row, width: usize, found: &mut Listed) {
        let Err(failure) = self.read(row) else { return };
        let name = match self {
            RowKind::Run => rows::run_id(row).map(|id| id.to_string()).ok(),
            RowKind::Override => rows::overridden(row)
                .map(|(schedule, nominal)| format!("occurrence {nominal} of schedule {schedule}"))
                .ok(),
            _ => None,
        };
        let name = name.or_else(|| row.read(Column::new(width - 1, "name")).ok());
        let by_key =
            || row.read(Column::new(width - 2, "key")).map(|key: i64| format!("number {key}"));
        let name = name.or_else(|| by_key().ok());
        found.add(|| self.unreadable(name.as_deref().unwrap_or("without a name"), &failure));
    }

    pub(crate) fn code(self) -> &'static str {
        match self {
            RowKind::Schedule => "schedule-unreadable",
            RowKind::Run => "run-unreadable",
            RowKind::Workflow => "workflow-unreadable",
            RowKind::Version => "version-unreadable",
            RowKind::Override => "override-unreadable",
            RowKind::Handler => "handler-unreadable",
            RowKind::Incident => "incident-unreadable",
            RowKind::Calendar => "calendar-unreadable",
            RowKind::Answer => "answer-unreadable",
            RowKind::Token => "token-unreadable",
            RowKind::Event => "event-unreadable",
            RowKind::Step => "step-unreadable",
            RowKind::Approval => "approval-unreadable",
            RowKind::Audit => "audit-unreadable",
        }
    }

    /// The words before the name of such a row.
    pub(crate) fn what(self) -> &'static str {
        match self {
            RowKind::Schedule => "schedule",
            RowKind::Run => "run",
            RowKind::Workflow => "workflow",
            RowKind::Version => "definition:",
            RowKind::Override => "override of",
            RowKind::Handler => "handler",
            RowKind::Incident => "incident",
            RowKind::Calendar => "calendar",
            RowKind::Answer => "answer to Idempotency-Key",
            RowKind::Token => "token",
            RowKind::Event => "event",
            RowKind::Step => "the record of step",
            RowKind::Approval => "the approval of step",
            RowKind::Audit => "row of the audit log",
        }
    }

    /// What a person can do about a row that cannot be read.
    fn remedy(self) -> &'static str {
        match self {
            RowKind::Schedule => {
                "restore a copy that has it, or delete it (`punctual schedule delete`) and declare it again"
            }
            RowKind::Run => {
                "restore a copy that has it, or cancel it if it has not ended (`punctual run cancel`)"
            }
            RowKind::Version => {
                "publish the definition of its workflow again (`punctual apply`); for runs that began \
                 with this revision, restore a copy that has it"
            }
            RowKind::Override => {
                "withdraw it (`punctual schedule override ID NOMINAL --clear`), or restore a copy"
            }
            RowKind::Calendar => CALENDAR_REMEDY,
            RowKind::Answer => {
                "it is forgotten a day after it was given; use another key until then"
            }
            RowKind::Event => {
                "consumers pass over it: publish it again with the same id, or skip it \
                 (`punctual topic skip`)"
            }
            RowKind::Approval => {
                "nobody is asked if it is not known whom to ask: restore a copy that has it, decide it \
                 (`punctual approval list`), or cancel the run (`punctual run cancel`)"
            }
            RowKind::Token => {
                "it admits nobody: revoke it (`punctual token revoke`), and make another"
            }
            RowKind::Workflow
            | RowKind::Handler
            | RowKind::Incident
            | RowKind::Step
            | RowKind::Audit => "restore a copy that has it",
        }
    }

    /// The message about a row that cannot be read.
    fn unreadable(self, name: &str, failure: &Failure) -> String {
        let why: &dyn Display = match failure {
            Failure::Undecidable { why, .. } => why,
            other => other,
        };
        format!("{} {name} cannot be read: {why} ({})", self.what(), self.remedy())
    }
}
