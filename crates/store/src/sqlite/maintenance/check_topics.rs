//! The invariants of topics, events and handlers.

use crate::sqlite::maintenance::check::Invariant;

/// Reserved events whose run has ended or is gone, and that no handler will resume.
macro_rules! held_by_nobody {
    () => {
        "FROM events e INDEXED BY events_reserved
         WHERE e.state = 1 AND NOT EXISTS (SELECT 1 FROM runs r WHERE r.key = e.run AND r.status < 4)
           AND NOT EXISTS (SELECT 1 FROM handlers h WHERE h.resumes = e.run)"
    };
}

/// How many events of each topic are in each state, by the topic's row and counted one by one.
macro_rules! counted {
    () => {
        "SELECT t.id, t.name, t.pending, t.reserved, t.consumed, t.skipped,
           (SELECT count(*) FROM events WHERE topic = t.id AND state = 0) AS are_pending,
           (SELECT count(*) FROM events WHERE topic = t.id AND state > 0 AND state = 1) AS are_reserved,
           (SELECT count(*) FROM events WHERE topic = t.id AND state > 0 AND state = 2) AS are_consumed,
           (SELECT count(*) FROM events WHERE topic = t.id AND state > 0 AND state = 3) AS are_skipped
         FROM topics t"
    };
}

macro_rules! handlers_asleep {
    () => {
        "FROM handlers h
         LEFT JOIN (SELECT id, min(due) AS due FROM wakeups WHERE kind = 3 GROUP BY id) w
           ON w.id = h.id
         WHERE coalesce(h.retry_at, h.wake_at) IS NOT NULL
           AND (w.due IS NULL OR w.due > coalesce(h.retry_at, h.wake_at))"
    };
}

/// Ordered so that each invariant can rely on what the earlier ones mended.
pub(crate) const OF_TOPICS: [Invariant; 13] = [
    Invariant {
        code: "event-without-topic",
        breaches: "SELECT key, message_id FROM events WHERE topic NOT IN (SELECT id FROM topics)",
        message: "event {text} is in no topic that is known",
        mend: &[],
    },
    Invariant {
        code: "event-without-message",
        breaches: "SELECT key, message_id FROM events
                   WHERE key NOT IN (SELECT event FROM messages)",
        message: "event {text} says nothing",
        mend: &[],
    },
    Invariant {
        code: "message-of-nothing",
        breaches: "SELECT event, '' FROM messages WHERE event NOT IN (SELECT key FROM events)",
        message: "a message is of event {id}, which is gone",
        mend: &["DELETE FROM messages WHERE event NOT IN (SELECT key FROM events)"],
    },
    Invariant {
        code: "reserved-by-nobody",
        breaches: concat!("SELECT e.key, e.message_id ", held_by_nobody!()),
        message: "event {text} is reserved, but no run works on it",
        // The event becomes pending again, and its consumers are woken.
        mend: &[concat!(
            "UPDATE handlers SET wake_at = 0 WHERE kind = 1 AND id IN
              (SELECT s.handler FROM subscriptions s WHERE s.topic IN (SELECT e.topic ",
            held_by_nobody!(),
            "));
             INSERT OR IGNORE INTO wakeups (due, kind, id)
              SELECT 0, 3, id FROM handlers WHERE wake_at = 0 AND retry_at IS NULL;
             UPDATE events SET state = 0, run = NULL WHERE key IN (SELECT e.key ",
            held_by_nobody!(),
            ")"
        )],
    },
    Invariant {
        code: "topic-counts",
        breaches: concat!(
            "SELECT id, name FROM (",
            counted!(),
            ") WHERE (pending, reserved, consumed, skipped)
                 IS NOT (are_pending, are_reserved, are_consumed, are_skipped)"
        ),
        message: "topic {text} counts its events wrongly",
        mend: &[concat!(
            "UPDATE topics SET pending = are_pending, reserved = are_reserved,
               consumed = are_consumed, skipped = are_skipped
             FROM (",
            counted!(),
            ") counted WHERE counted.id = topics.id"
        )],
    },
    Invariant {
        code: "handler-without-wakeup",
        breaches: concat!("SELECT h.id, h.name ", handlers_asleep!()),
        message: "handler {text} is to be looked at again, but nothing wakes it",
        mend: &[concat!(
            "INSERT OR IGNORE INTO wakeups (due, kind, id)
             SELECT coalesce(h.retry_at, h.wake_at), 3, h.id ",
            handlers_asleep!()
        )],
    },
    Invariant {
        code: "handler-of-nothing",
        breaches: "SELECT id, name FROM handlers WHERE run IS NOT NULL
                   AND run NOT IN (SELECT key FROM runs WHERE status < 4)",
        message: "handler {text} is said to run, but its run has ended or is gone",
        mend: &["UPDATE handlers SET run = NULL WHERE run IS NOT NULL
             AND run NOT IN (SELECT key FROM runs WHERE status < 4)"],
    },
    Invariant {
        code: "resumed-run-gone",
        breaches: "SELECT id, name FROM handlers WHERE resumes IS NOT NULL
                   AND resumes NOT IN (SELECT key FROM runs)",
        message: "handler {text} is to go on with a run that is gone",
        // Not mended: the mutation was made, and starting over might make it twice.
        mend: &[],
    },
    Invariant {
        code: "handling-of-nothing",
        breaches: "SELECT id, name FROM workflows WHERE handling IS NOT NULL
                   AND handling NOT IN (SELECT key FROM runs WHERE status < 4)",
        message: "workflow {text} waits for a handler's run that has ended or is gone",
        mend: &["UPDATE workflows SET handling = NULL WHERE handling IS NOT NULL
             AND handling NOT IN (SELECT key FROM runs WHERE status < 4)"],
    },
    Invariant {
        code: "paused-by-nothing",
        breaches: "SELECT id, name FROM workflows WHERE paused_by IS NOT NULL
                   AND paused_by NOT IN (SELECT key FROM runs WHERE status < 4)",
        message: "workflow {text} is paused for a run that has ended or is gone",
        // The workflow stays paused until a person resumes it.
        mend: &["UPDATE workflows SET paused_by = NULL WHERE paused_by IS NOT NULL
             AND paused_by NOT IN (SELECT key FROM runs WHERE status < 4)"],
    },
    Invariant {
        code: "subscription-of-nothing",
        breaches: "SELECT workflow, topic FROM subscriptions
                   WHERE topic NOT IN (SELECT id FROM topics)
                      OR workflow NOT IN (SELECT id FROM workflows)
                      OR (handler <> 0 AND handler NOT IN (SELECT id FROM handlers))",
        message: "workflow {id} hears of topic {text}, but one of the two is gone",
        mend: &["DELETE FROM subscriptions
             WHERE topic NOT IN (SELECT id FROM topics)
                OR workflow NOT IN (SELECT id FROM workflows)
                OR (handler <> 0 AND handler NOT IN (SELECT id FROM handlers))"],
    },
    Invariant {
        code: "wait-of-nothing",
        breaches: "SELECT run, '' FROM waits
                   WHERE run NOT IN (SELECT key FROM runs WHERE status < 4) OR item < -2",
        message: "run {id} is told of events, but has ended or is gone, or has no such part",
        mend: &["DELETE FROM waits
                 WHERE run NOT IN (SELECT key FROM runs WHERE status < 4) OR item < -2"],
    },
    Invariant {
        code: "wait-without-topic",
        breaches: "SELECT run, topic FROM waits WHERE topic NOT IN (SELECT id FROM topics)",
        message: "run {id} waits for an event of topic {text}, which is not known",
        mend: &[],
    },
];
