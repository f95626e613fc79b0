//! The tables that are copied, and how each column is converted.

use crate::codes::sql;

/// One table, in both stores.
pub(super) struct Table {
    /// Its name in PostgreSQL.
    pub(super) name: &'static str,
    /// The table in the embedded store, with a condition if only some of its rows are meant.
    pub(super) from: &'static str,
    /// The columns with the same name and value in both stores, separated by commas.
    same: &'static str,
    converted: &'static [Column],
}

impl Table {
    /// All columns, in the order in which they are copied.
    pub(super) fn columns(&self) -> impl Iterator<Item = Column> + Clone {
        let same = self.same.split(',').map(|name| made(name.trim(), name.trim()));
        same.chain(self.converted.iter().copied())
    }
}

/// One column: its name in PostgreSQL, its expression in the embedded store (`here`), and its kind.
#[derive(Clone, Copy)]
pub(super) struct Column {
    pub(super) name: &'static str,
    pub(super) here: &'static str,
    pub(super) kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A number or a text, the same in both.
    Plain,
    /// 0 or 1 in the embedded store.
    Boolean,
    /// 16 bytes in the embedded store.
    Uuid,
    /// Bytes in both databases.
    Bytes,
}

const fn table(name: &'static str, same: &'static str) -> Table {
    Table { name, from: name, same, converted: &[] }
}

const fn of_kind(name: &'static str, kind: Kind) -> Column {
    Column { name, here: name, kind }
}

const fn made(name: &'static str, here: &'static str) -> Column {
    Column { name, here, kind: Kind::Plain }
}

const RUNS: Table = Table {
    converted: &[
        of_kind("uuid", Kind::Uuid),
        // `,3,7,` in the embedded store, `{3,7}` in PostgreSQL.
        made("owners", "'{' || trim(owners, ',') || '}'"),
        of_kind("waits_for_slot", Kind::Boolean),
        of_kind("overdue", Kind::Boolean),
        made(
            "wake_at",
            sql!("(SELECT due FROM wakeups w WHERE w.kind = {run_wakeup} AND w.id = key)"),
        ),
    ],
    ..table(
        "runs",
        "key, workflow, version, handler, schedule, n, retry, triggered_by, by, nominal,
         effective, status, created_at, started_at, ended_at, timeout, state, parent,
         parent_token, depth, root, hops, input, output, error, retry_of, trace",
    )
};

/// Ordered so that each table comes after those it refers to.
pub(super) const TABLES: &[Table] = &[
    Table {
        converted: &[of_kind("paused", Kind::Boolean)],
        ..table(
            "workflows",
            "id, name, status, paused_reason, paused_by, incident, handling, newest, live,
             concurrency, active, retention, created_at, updated_at",
        )
    },
    table("revisions", "workflow, revision, source, definition, folder, created_at"),
    table("calendars", "id, spec"),
    Table {
        converted: &[made("version", "0")],
        ..table(
            "schedules",
            "id, workflow, trigger, status, calendar, retention, declared, created_at, updated_at",
        )
    },
    Table {
        converted: &[
            made(
                "wake_at",
                sql!(
                    "(SELECT due FROM wakeups w WHERE w.kind = {schedule_wakeup}
                     AND w.id = progress.id)"
                ),
            ),
            of_kind("has_overrides", Kind::Boolean),
            made("version", "0"),
        ],
        ..table(
            "progress",
            "id, anchor, mark, next_nominal, next_effective, n, current_repeat, current_retry,
             run_count, error_count, last_error, last_run_at, last_outcome, live, recomputed_at,
             incident, renewed_at",
        )
    },
    table("words", "word, schedule"),
    table("outdated", "schedule"),
    table("overrides", "schedule, nominal, action, by"),
    table(
        "ledger",
        "schedule, n, count, nominal, last_nominal, effective, decided_at, outcome, reason, run",
    ),
    Table { converted: &[made("slot", "0")], ..table("tallies", "minute, kind, count") },
    Table { name: "open_runs", from: sql!("runs WHERE status {open}"), ..RUNS },
    Table { name: "ended_runs", from: sql!("runs WHERE status {ended}"), ..RUNS },
    Table {
        converted: &[of_kind("overdue", Kind::Boolean)],
        ..table(
            "steps",
            "run, step, item, status, attempts, started_at, ended_at, output, error, reason",
        )
    },
    table("attempts", "run, step, item, started_at, attempt, status, ended_at, error"),
    table("queue", "run, step, item, queue"),
    table("approvals", "run, step, title, description, assignees, asked_at"),
    table("alerts", "run, step, action, at, due, happened_at, ended, started, refused"),
    table(
        "incidents",
        "key, workflow, schedule, run, nominal, error, began_at, told, ending, ended_at,
         ended_by, ended_told",
    ),
    table(
        "topics",
        "id, workflow, name, max_attempts, pending, reserved, consumed, skipped, created_at",
    ),
    table(
        "events",
        "key, topic, message_id, state, attempt, run, reason, hops, created_at, updated_at",
    ),
    table("messages", "event, title, payload, causes"),
    Table {
        converted: &[made(
            "due",
            sql!(
                "(SELECT due FROM wakeups w WHERE w.kind = {handler_wakeup}
                     AND w.id = handlers.id)"
            ),
        )],
        ..table(
            "handlers",
            "id, workflow, name, kind, state, cause, wake_at, retry_at, failures, resumes, run,
             last_run_at, last_outcome, runs",
        )
    },
    table("subscriptions", "topic, workflow, handler"),
    table("waits", "run, step, item, topic"),
    table("mutations", "run, workflow, handler, status, started_at, updated_at, said_by, note"),
    Table {
        converted: &[of_kind("hash", Kind::Bytes)],
        ..table("tokens", "id, name, roles, queues, created_at, created_by, expires_at, revoked_at")
    },
    table("audit", "key, at, who, from_address, action, target, detail"),
    Table {
        converted: &[of_kind("fingerprint", Kind::Bytes)],
        ..table("idempotency", "key, answer, created_at")
    },
];
