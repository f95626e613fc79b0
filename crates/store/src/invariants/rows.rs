//! The kinds of rows that the engine reads whole: a row that cannot be read would stop the turn
//! that meets it.

use std::fmt::Display;

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
}

impl RowKind {
    pub(crate) const ALL: [RowKind; 9] = [
        RowKind::Schedule,
        RowKind::Run,
        RowKind::Workflow,
        RowKind::Version,
        RowKind::Override,
        RowKind::Handler,
        RowKind::Incident,
        RowKind::Calendar,
        RowKind::Answer,
    ];

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
            RowKind::Override => "withdraw it (`punctual schedule override`), or restore a copy",
            RowKind::Calendar => "declare it again (`punctual calendar put`)",
            RowKind::Answer => {
                "it is forgotten a day after it was given; use another key until then"
            }
            RowKind::Workflow | RowKind::Handler | RowKind::Incident => {
                "restore a copy that has it"
            }
        }
    }

    /// The message about a row that cannot be read.
    pub(crate) fn unreadable(self, name: &str, error: impl Display) -> String {
        format!("{} {name} cannot be read: {error} ({})", self.what(), self.remedy())
    }
}
