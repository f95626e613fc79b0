//! The invariants of topics, events and handlers.

use crate::postgres::maintenance::check::{Invariant, breaches};

/// Reserved events whose run has ended or is gone, and that no handler will resume.
macro_rules! held_by_nobody {
    () => {
        "events e WHERE e.state = 1
           AND NOT EXISTS (SELECT 1 FROM open_runs r WHERE r.key = e.run)
           AND NOT EXISTS (SELECT 1 FROM handlers h WHERE h.resumes = e.run)"
    };
}

/// The subscribers of the topics of such events.
macro_rules! to_look {
    ($column:literal) => {
        concat!(
            "(SELECT s.",
            $column,
            " FROM subscriptions s WHERE s.topic IN (SELECT e.topic FROM ",
            held_by_nobody!(),
            "))"
        )
    };
}

macro_rules! count_of {
    ($state:literal) => {
        concat!(
            "(SELECT count(*) FROM events e WHERE e.topic + 0 = t.id AND e.state + 0 = ",
            $state,
            ")"
        )
    };
}

macro_rules! counted_wrongly {
    () => {
        concat!(
            "(t.pending, t.reserved, t.consumed, t.skipped) IS DISTINCT FROM (",
            count_of!("0"),
            ", ",
            count_of!("1"),
            ", ",
            count_of!("2"),
            ", ",
            count_of!("3"),
            ")"
        )
    };
}

/// The condition that a handler does not wake when it should.
macro_rules! asleep {
    () => {
        "h.due IS DISTINCT FROM coalesce(h.retry_at, h.wake_at)"
    };
}

macro_rules! not_open {
    ($run:literal) => {
        concat!(
            $run,
            " IS NOT NULL AND NOT EXISTS (SELECT 1 FROM open_runs r WHERE r.key = ",
            $run,
            ")"
        )
    };
}

macro_rules! hears_of_nothing {
    () => {
        "NOT EXISTS (SELECT 1 FROM topics t WHERE t.id = s.topic)
         OR NOT EXISTS (SELECT 1 FROM workflows w WHERE w.id = s.workflow)
         OR (s.handler <> 0 AND NOT EXISTS (SELECT 1 FROM handlers h WHERE h.id = s.handler))"
    };
}

const LOCK_WORKFLOWS: &str =
    "SELECT id FROM workflows WHERE id IN (SELECT workflow FROM handlers) ORDER BY id FOR UPDATE";
const LOCK_ALL_WORKFLOWS: &str = "SELECT id FROM workflows ORDER BY id FOR UPDATE";
const LOCK_TOPICS: &str = "SELECT id FROM topics ORDER BY id FOR UPDATE";

/// Ordered so that each invariant can rely on what the earlier ones mended.
pub(crate) const OF_TOPICS: [Invariant; 13] = [
    Invariant {
        code: "event-without-topic",
        breaches: breaches!(
            "SELECT e.key, e.message_id FROM events e
             WHERE NOT EXISTS (SELECT 1 FROM topics t WHERE t.id = e.topic)"
        ),
        message: "event {text} is in no topic that is known",
        mend: &[],
    },
    Invariant {
        code: "event-without-message",
        breaches: breaches!(
            "SELECT e.key, e.message_id FROM events e
             WHERE NOT EXISTS (SELECT 1 FROM messages m WHERE m.event = e.key)"
        ),
        message: "event {text} says nothing",
        mend: &[],
    },
    Invariant {
        code: "message-of-nothing",
        breaches: breaches!(
            "SELECT m.event, '' FROM messages m
             WHERE NOT EXISTS (SELECT 1 FROM events e WHERE e.key = m.event)"
        ),
        message: "a message is of event {id}, which is gone",
        mend: &["DELETE FROM messages m
                 WHERE NOT EXISTS (SELECT 1 FROM events e WHERE e.key = m.event)"],
    },
    Invariant {
        code: "reserved-by-nobody",
        breaches: breaches!("SELECT e.key, e.message_id FROM ", held_by_nobody!()),
        message: "event {text} is reserved, but no run works on it",
        // The event becomes pending again, and its consumers are woken.
        mend: &[
            LOCK_WORKFLOWS,
            LOCK_TOPICS,
            concat!(
                "UPDATE handlers SET wake_at = 0, due = coalesce(retry_at, 0) WHERE kind = 1 AND id IN ",
                to_look!("handler")
            ),
            concat!(
                "UPDATE events SET state = 0, run = NULL WHERE key = ANY(ARRAY(SELECT e.key FROM ",
                held_by_nobody!(),
                "))"
            ),
        ],
    },
    Invariant {
        code: "topic-counts",
        breaches: breaches!("SELECT t.id, t.name FROM topics t WHERE ", counted_wrongly!()),
        message: "topic {text} counts its events wrongly",
        mend: &[
            LOCK_TOPICS,
            concat!(
                "UPDATE topics t SET pending = ",
                count_of!("0"),
                ", reserved = ",
                count_of!("1"),
                ", consumed = ",
                count_of!("2"),
                ", skipped = ",
                count_of!("3"),
                " WHERE ",
                counted_wrongly!()
            ),
        ],
    },
    Invariant {
        code: "handler-without-wakeup",
        breaches: breaches!("SELECT h.id, h.name FROM handlers h WHERE ", asleep!()),
        message: "handler {text} does not wake when it should",
        mend: &[
            LOCK_WORKFLOWS,
            concat!(
                "UPDATE handlers h SET due = coalesce(h.retry_at, h.wake_at) WHERE ",
                asleep!()
            ),
        ],
    },
    Invariant {
        code: "handler-of-nothing",
        breaches: breaches!("SELECT h.id, h.name FROM handlers h WHERE ", not_open!("h.run")),
        message: "handler {text} is said to run, but its run has ended or is gone",
        mend: &[
            LOCK_WORKFLOWS,
            concat!("UPDATE handlers h SET run = NULL WHERE ", not_open!("h.run")),
        ],
    },
    Invariant {
        code: "resumed-run-gone",
        breaches: breaches!(
            "SELECT h.id, h.name FROM handlers h WHERE h.resumes IS NOT NULL
               AND NOT EXISTS (SELECT 1 FROM open_runs r WHERE r.key = h.resumes)
               AND NOT EXISTS (SELECT 1 FROM ended_runs r WHERE r.key = h.resumes)"
        ),
        message: "handler {text} is to go on with a run that is gone",
        // Not mended: the mutation was made, and starting over might make it twice.
        mend: &[],
    },
    Invariant {
        code: "handling-of-nothing",
        breaches: breaches!("SELECT w.id, w.name FROM workflows w WHERE ", not_open!("w.handling")),
        message: "workflow {text} waits for a handler's run that has ended or is gone",
        mend: &[
            LOCK_ALL_WORKFLOWS,
            concat!("UPDATE workflows w SET handling = NULL WHERE ", not_open!("w.handling")),
        ],
    },
    Invariant {
        code: "paused-by-nothing",
        breaches: breaches!(
            "SELECT w.id, w.name FROM workflows w WHERE ",
            not_open!("w.paused_by")
        ),
        message: "workflow {text} is paused for a run that has ended or is gone",
        // The workflow stays paused until a person resumes it.
        mend: &[
            LOCK_ALL_WORKFLOWS,
            concat!("UPDATE workflows w SET paused_by = NULL WHERE ", not_open!("w.paused_by")),
        ],
    },
    Invariant {
        code: "subscription-of-nothing",
        breaches: breaches!(
            "SELECT s.workflow, s.topic FROM subscriptions s WHERE ",
            hears_of_nothing!()
        ),
        message: "workflow {id} hears of topic {text}, but one of the two is gone",
        mend: &[concat!("DELETE FROM subscriptions s WHERE ", hears_of_nothing!())],
    },
    Invariant {
        code: "wait-of-nothing",
        breaches: breaches!(
            "SELECT v.run, '' FROM waits v WHERE v.item < -2 OR ",
            not_open!("v.run")
        ),
        message: "run {id} is told of events, but has ended or is gone, or has no such part",
        mend: &[concat!("DELETE FROM waits v WHERE v.item < -2 OR ", not_open!("v.run"))],
    },
    Invariant {
        code: "wait-without-topic",
        breaches: breaches!(
            "SELECT v.run, v.topic FROM waits v
             WHERE NOT EXISTS (SELECT 1 FROM topics t WHERE t.id = v.topic)"
        ),
        message: "run {id} waits for an event of topic {text}, which is not known",
        mend: &[],
    },
];
