//! Invariants of topics, events and handlers.

use super::Invariant;
use super::Lock::{Topics, Workflows, WorkflowsOfHandlers};
use super::Mend::{Delete, Lock, Run, Set};

/// How many events of topic `t` are in a state other than pending, counted one by one. SQLite uses
/// its index of events that are not pending only for a condition that says so.
macro_rules! events_in {
    ($state:literal) => {
        concat!(
            "(SELECT count(*) FROM events AS e WHERE {event_topic} = t.id
              AND e.state {event_not_pending}
              AND {event_state} = ",
            $state,
            ")"
        )
    };
}

/// How many events of topic `t` are pending, counted one by one.
macro_rules! events_pending {
    () => {
        "(SELECT count(*) FROM events AS e WHERE {event_topic} = t.id AND {event_state} = 0)"
    };
}

/// The runs of handlers of workflow `w` that have begun and not ended.
pub(super) const BEGUN_HANDLERS: &str = "{open_runs_by_status} AS r
     WHERE r.status {active} AND r.workflow = w.id AND r.handler IS NOT NULL";

pub(super) const TOPICS: [Invariant; 13] = [
    Invariant {
        code: "event-without-topic",
        message: "event {text} is of a topic that is gone: nobody works on it; restore a copy that has the topic",
        told: "e.key, e.message_id",
        from: "events AS e",
        which: "NOT EXISTS (SELECT 1 FROM topics AS t WHERE t.id = e.topic)",
        mend: &[],
    },
    Invariant {
        code: "event-state",
        message: "event {text} is in a state that is not known: nobody works on it, and a repair skips it",
        told: "e.key, e.message_id",
        from: "events AS e",
        which: "e.state NOT IN
                  ({event_pending}, {event_reserved}, {event_consumed}, {event_skipped})",
        // A run may have worked on it, so it does not become pending: a person has to look.
        mend: &[
            Lock(Topics),
            Set("state = {event_skipped}, reason = 'its state could not be read'"),
        ],
    },
    Invariant {
        code: "event-numbers",
        message: "event {text} has a count of attempts or hops or a time that cannot be read: consumers pass over \
                  it, and lists leave it out; a repair counts from 0, and takes one of its times for the other",
        told: "e.key, e.message_id",
        from: "events AS e",
        which: "NOT (e.attempt {of_32_bits} AND e.hops BETWEEN 0 AND 255
                     AND e.created_at {an_instant} AND e.updated_at {an_instant})",
        mend: &[
            Lock(Topics),
            Set("attempt = CASE WHEN attempt {of_32_bits} THEN attempt ELSE 0 END,
                 hops = CASE WHEN hops BETWEEN 0 AND 255 THEN hops ELSE 0 END,
                 created_at = CASE WHEN created_at {an_instant} THEN created_at
                                   WHEN updated_at {an_instant} THEN updated_at ELSE 0 END,
                 updated_at = CASE WHEN updated_at {an_instant} THEN updated_at
                                   WHEN created_at {an_instant} THEN created_at ELSE 0 END"),
        ],
    },
    Invariant {
        code: "event-without-message",
        message: "the message of event {text} is gone: restore a copy that has it, or skip the event",
        told: "e.key, e.message_id",
        from: "events AS e",
        which: "NOT EXISTS (SELECT 1 FROM messages AS m WHERE m.event = e.key)",
        mend: &[],
    },
    Invariant {
        code: "message-of-nothing",
        message: "a message is of event {id}, which is gone",
        told: "m.event, ''",
        from: "messages AS m",
        which: "NOT EXISTS (SELECT 1 FROM events AS e WHERE e.key = m.event)",
        mend: &[Delete],
    },
    Invariant {
        code: "handler-without-wakeup",
        message: "handler {text} does not wake when it should",
        told: "h.id, h.name",
        from: "{sleeping_handlers} AS h",
        which: "true",
        mend: &[Lock(WorkflowsOfHandlers), Run("{wake_handlers}")],
    },
    Invariant {
        code: "reserved-by-nobody",
        message: "event {text} is reserved, but no run works on it",
        told: "e.key, e.message_id",
        from: "{reserved_events} AS e",
        // The run has ended or is gone, and no handler will resume it.
        which: "NOT EXISTS (SELECT 1 FROM {open_runs} AS r WHERE r.key = e.run)
                AND NOT EXISTS (SELECT 1 FROM handlers AS h WHERE h.resumes = e.run)",
        // The event becomes pending again, and its consumers are woken.
        mend: &[
            Lock(WorkflowsOfHandlers),
            Lock(Topics),
            Run("UPDATE handlers SET wake_at = 0 WHERE kind = {consumer} AND id IN
                   (SELECT s.handler FROM subscriptions AS s
                    WHERE s.topic IN (SELECT e.topic {breaches}))"),
            Run("{wake_handlers}"),
            Run("UPDATE events SET state = {event_pending}, run = NULL
                 WHERE key IN (SELECT e.key {breaches})"),
        ],
    },
    Invariant {
        code: "topic-counts",
        message: "topic {text} counts its events wrongly",
        told: "t.id, t.name",
        from: "topics AS t",
        which: concat!(
            "(t.pending, t.reserved, t.consumed, t.skipped) IS DISTINCT FROM (",
            events_pending!(),
            ", ",
            events_in!("{event_reserved}"),
            ", ",
            events_in!("{event_consumed}"),
            ", ",
            events_in!("{event_skipped}"),
            ")"
        ),
        mend: &[
            Lock(Topics),
            Set(concat!(
                "pending = ",
                events_pending!(),
                ", reserved = ",
                events_in!("{event_reserved}"),
                ", consumed = ",
                events_in!("{event_consumed}"),
                ", skipped = ",
                events_in!("{event_skipped}")
            )),
        ],
    },
    Invariant {
        code: "handler-of-nothing",
        message: "handler {text} is said to run, but its run has ended or is gone",
        told: "h.id, h.name",
        from: "handlers AS h",
        which: "h.run IS NOT NULL
                AND NOT EXISTS (SELECT 1 FROM {open_runs} AS r WHERE r.key = h.run)",
        mend: &[Lock(WorkflowsOfHandlers), Set("run = NULL")],
    },
    Invariant {
        code: "resumed-run-gone",
        message: "handler {text} is to go on with a run that is gone",
        told: "h.id, h.name",
        from: "handlers AS h",
        which: "h.resumes IS NOT NULL
                AND NOT EXISTS (SELECT 1 FROM runs AS r WHERE r.key = h.resumes)",
        // Not mended: the mutation was made, and starting over might make it twice.
        mend: &[],
    },
    Invariant {
        code: "handling-of-nothing",
        message: "workflow {text} waits for a handler's run that has ended or is gone",
        told: "w.id, w.name",
        from: "workflows AS w",
        which: "w.handling IS NOT NULL
                AND NOT EXISTS (SELECT 1 FROM {open_runs} AS r WHERE r.key = w.handling)",
        mend: &[Lock(Workflows), Set("handling = NULL")],
    },
    Invariant {
        code: "handling-forgotten",
        message: "workflow {text} has begun a run of a handler, and does not keep its others waiting",
        told: "w.id, w.name",
        from: "workflows AS w",
        which: "EXISTS (SELECT 1 FROM {begun_handlers})
                AND NOT EXISTS (SELECT 1 FROM {begun_handlers} AND r.key = w.handling)",
        mend: &[Lock(Workflows), Set("handling = (SELECT min(r.key) FROM {begun_handlers})")],
    },
    Invariant {
        code: "paused-by-nothing",
        message: "workflow {text} is paused for a run that has ended or is gone",
        told: "w.id, w.name",
        from: "workflows AS w",
        which: "w.paused_by IS NOT NULL
                AND NOT EXISTS (SELECT 1 FROM {open_runs} AS r WHERE r.key = w.paused_by)",
        // The workflow stays paused until a person resumes it.
        mend: &[Lock(Workflows), Set("paused_by = NULL")],
    },
];
