//! The tables that are copied, and how each column is converted.

/// One table, in both stores.
pub(super) struct Table {
    /// Its name in PostgreSQL.
    pub(super) name: &'static str,
    /// The `FROM` clause, and what follows it, of the query on the embedded store.
    pub(super) from: &'static str,
    pub(super) columns: &'static [Column],
}

/// One column: its name in PostgreSQL, its expression in the embedded store (`here`), and its kind.
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
    /// Bytes in both.
    Bytes,
}

const fn column(name: &'static str) -> Column {
    Column { name, here: name, kind: Kind::Plain }
}

const fn of_kind(name: &'static str, kind: Kind) -> Column {
    Column { name, here: name, kind }
}

const fn made(name: &'static str, here: &'static str) -> Column {
    Column { name, here, kind: Kind::Plain }
}

const RUN: &[Column] = &[
    column("key"),
    of_kind("uuid", Kind::Uuid),
    column("workflow"),
    column("version"),
    column("handler"),
    column("schedule"),
    column("n"),
    column("retry"),
    column("triggered_by"),
    column("by"),
    column("nominal"),
    column("effective"),
    column("status"),
    column("created_at"),
    column("started_at"),
    column("ended_at"),
    column("timeout"),
    column("state"),
    // `,3,7,` in the embedded store, `{3,7}` in PostgreSQL.
    made("owners", "'{' || trim(owners, ',') || '}'"),
    of_kind("lacks_place", Kind::Boolean),
    of_kind("overdue", Kind::Boolean),
    column("parent"),
    column("parent_token"),
    column("depth"),
    column("root"),
    column("hops"),
    column("input"),
    column("output"),
    column("error"),
    column("retry_of"),
    column("trace"),
    // 0 is the kind of a run's wakeup.
    made("wake_at", "(SELECT due FROM wakeups w WHERE w.kind = 0 AND w.id = key)"),
];

/// Ordered so that each table comes after those it refers to.
pub(super) const TABLES: &[Table] = &[
    Table {
        name: "workflows",
        from: "FROM workflows",
        columns: &[
            column("id"),
            column("name"),
            column("status"),
            of_kind("paused", Kind::Boolean),
            column("paused_reason"),
            column("paused_by"),
            column("incident"),
            column("handling"),
            column("newest"),
            column("live"),
            column("concurrency"),
            column("active"),
            column("retention"),
            column("created_at"),
            column("updated_at"),
        ],
    },
    Table {
        name: "revisions",
        from: "FROM revisions",
        columns: &[
            column("workflow"),
            column("revision"),
            column("source"),
            column("definition"),
            column("folder"),
            column("created_at"),
        ],
    },
    Table { name: "calendars", from: "FROM calendars", columns: &[column("id"), column("spec")] },
    Table {
        name: "schedules",
        from: "FROM schedules",
        columns: &[
            column("id"),
            column("workflow"),
            column("trigger"),
            column("status"),
            column("calendar"),
            column("retention"),
            column("declared"),
            column("created_at"),
            column("updated_at"),
            made("version", "0"),
        ],
    },
    Table {
        name: "progress",
        from: "FROM progress",
        columns: &[
            column("id"),
            // 1 is the kind of a schedule's wakeup.
            made("wake_at", "(SELECT due FROM wakeups w WHERE w.kind = 1 AND w.id = progress.id)"),
            column("anchor"),
            column("mark"),
            column("next_nominal"),
            column("next_effective"),
            column("n"),
            column("current_repeat"),
            column("current_retry"),
            column("run_count"),
            column("error_count"),
            column("last_error"),
            column("last_run_at"),
            column("last_outcome"),
            column("live"),
            of_kind("has_overrides", Kind::Boolean),
            column("recomputed_at"),
            column("incident"),
            column("renewed_at"),
            made("version", "0"),
        ],
    },
    Table { name: "words", from: "FROM words", columns: &[column("word"), column("schedule")] },
    Table { name: "outdated", from: "FROM outdated", columns: &[column("schedule")] },
    Table {
        name: "overrides",
        from: "FROM overrides",
        columns: &[column("schedule"), column("nominal"), column("action"), column("by")],
    },
    Table {
        name: "ledger",
        from: "FROM ledger",
        columns: &[
            column("schedule"),
            column("n"),
            column("count"),
            column("nominal"),
            column("last_nominal"),
            column("effective"),
            column("decided_at"),
            column("outcome"),
            column("reason"),
            column("run"),
        ],
    },
    Table {
        name: "tallies",
        from: "FROM tallies",
        columns: &[column("minute"), made("slot", "0"), column("kind"), column("count")],
    },
    // Runs with a status of 4 or more have ended.
    Table { name: "open_runs", from: "FROM runs WHERE status < 4", columns: RUN },
    Table { name: "ended_runs", from: "FROM runs WHERE status >= 4", columns: RUN },
    Table {
        name: "steps",
        from: "FROM steps",
        columns: &[
            column("run"),
            column("step"),
            column("item"),
            column("status"),
            column("attempts"),
            column("started_at"),
            column("ended_at"),
            column("output"),
            column("error"),
            column("reason"),
            of_kind("overdue", Kind::Boolean),
        ],
    },
    Table {
        name: "attempts",
        from: "FROM attempts",
        columns: &[
            column("run"),
            column("step"),
            column("item"),
            column("started_at"),
            column("attempt"),
            column("status"),
            column("ended_at"),
            column("error"),
        ],
    },
    Table {
        name: "queue",
        from: "FROM queue",
        columns: &[column("run"), column("step"), column("item"), column("queue")],
    },
    Table {
        name: "approvals",
        from: "FROM approvals",
        columns: &[
            column("run"),
            column("step"),
            column("title"),
            column("description"),
            column("assignees"),
            column("asked_at"),
        ],
    },
    Table {
        name: "alerts",
        from: "FROM alerts",
        columns: &[
            column("run"),
            column("step"),
            column("action"),
            column("at"),
            column("due"),
            column("happened_at"),
            column("ended"),
            column("started"),
            column("refused"),
        ],
    },
    Table {
        name: "incidents",
        from: "FROM incidents",
        columns: &[
            column("key"),
            column("workflow"),
            column("schedule"),
            column("run"),
            column("nominal"),
            column("error"),
            column("began_at"),
            column("told"),
            column("ending"),
            column("ended_at"),
            column("ended_by"),
            column("ended_told"),
        ],
    },
    Table {
        name: "topics",
        from: "FROM topics",
        columns: &[
            column("id"),
            column("workflow"),
            column("name"),
            column("max_attempts"),
            column("pending"),
            column("reserved"),
            column("consumed"),
            column("skipped"),
            column("created_at"),
        ],
    },
    Table {
        name: "events",
        from: "FROM events",
        columns: &[
            column("key"),
            column("topic"),
            column("message_id"),
            column("state"),
            column("attempt"),
            column("run"),
            column("reason"),
            column("hops"),
            column("created_at"),
            column("updated_at"),
        ],
    },
    Table {
        name: "messages",
        from: "FROM messages",
        columns: &[column("event"), column("title"), column("payload"), column("causes")],
    },
    Table {
        name: "handlers",
        from: "FROM handlers",
        columns: &[
            column("id"),
            column("workflow"),
            column("name"),
            column("kind"),
            column("state"),
            column("cause"),
            column("wake_at"),
            column("retry_at"),
            column("failures"),
            column("resumes"),
            column("run"),
            column("last_run_at"),
            column("last_outcome"),
            column("runs"),
            // 3 is the kind of a handler's wakeup.
            made("due", "(SELECT due FROM wakeups w WHERE w.kind = 3 AND w.id = handlers.id)"),
        ],
    },
    Table {
        name: "subscriptions",
        from: "FROM subscriptions",
        columns: &[column("topic"), column("workflow"), column("handler")],
    },
    Table {
        name: "waits",
        from: "FROM waits",
        columns: &[column("run"), column("step"), column("item"), column("topic")],
    },
    Table {
        name: "mutations",
        from: "FROM mutations",
        columns: &[
            column("run"),
            column("workflow"),
            column("handler"),
            column("status"),
            column("started_at"),
            column("updated_at"),
            column("said_by"),
            column("note"),
        ],
    },
    Table {
        name: "tokens",
        from: "FROM tokens",
        columns: &[
            column("id"),
            column("name"),
            of_kind("hash", Kind::Bytes),
            column("roles"),
            column("queues"),
            column("created_at"),
            column("created_by"),
            column("expires_at"),
            column("revoked_at"),
        ],
    },
    Table {
        name: "audit",
        from: "FROM audit",
        columns: &[
            column("key"),
            column("at"),
            column("who"),
            column("from_address"),
            column("action"),
            column("target"),
            column("detail"),
        ],
    },
    Table {
        name: "idempotency",
        from: "FROM idempotency",
        columns: &[
            column("key"),
            of_kind("fingerprint", Kind::Bytes),
            column("answer"),
            column("created_at"),
        ],
    },
];
