//! Invariants of tables, columns and sequences that only one of the databases has.
//!
//! Besides these, only SQLite has the code `file`: its own check of the file finds it.

use super::Invariant;
use super::Mend::{Delete, Run, Set};

/// The invariant that a sequence gives no id that is taken. Keys of runs and events are given in
/// blocks, and need none.
macro_rules! behind {
    ($sequence:literal, $id:literal, $table:literal) => {
        Invariant {
            code: "sequence-behind",
            message: "sequence {text} would give ids again: {id} is given already",
            told: concat!("t.greatest, '", $sequence, "'"),
            from: concat!("(SELECT max(", $id, ") AS greatest FROM ", $table, ") AS t"),
            which: concat!("t.greatest > (SELECT last_value FROM ", $sequence, ")"),
            // A statement that returns a row would be repeated.
            mend: &[Run(concat!(
                "SELECT 1 FROM (SELECT setval('",
                $sequence,
                "', t.greatest) AS moved {breaches}) AS s WHERE s.moved IS NULL"
            ))],
        }
    };
}

/// SQLite has a table of wakeups, whose rows can be of nothing. On PostgreSQL they are columns. A
/// column of SQLite can hold values of any type.
pub(super) const SQLITE: [Invariant; 3] = [
    Invariant {
        code: "wakeup-of-nothing",
        message: "a wakeup of kind {text} is for {id}, which has ended, is gone, does not wait or is of no \
                  known kind",
        told: "u.id, u.kind",
        from: "wakeups AS u",
        which: "u.kind NOT BETWEEN {run_wakeup} AND {handler_wakeup}
                OR (u.kind = {schedule_wakeup} AND u.id NOT IN (SELECT id FROM progress))
                OR (u.kind = {run_wakeup}
                    AND u.id NOT IN (SELECT key FROM runs WHERE status {open}))
                OR (u.kind = {node_wakeup} AND u.id NOT IN (SELECT id FROM nodes))
                OR (u.kind = {handler_wakeup} AND u.id NOT IN (SELECT id FROM handlers
                      WHERE coalesce(retry_at, wake_at) IS NOT NULL))",
        mend: &[Delete],
    },
    // On PostgreSQL, such a row is a wakeup of nothing, and is deleted.
    Invariant {
        code: "progress-of-nothing",
        message: "the declaration of schedule {id} is gone: restore a copy that has it",
        told: "p.id, ''",
        from: "progress AS p",
        which: "NOT EXISTS (SELECT 1 FROM schedules AS s WHERE s.id = p.id)",
        mend: &[],
    },
    // Nobody can name such an event to skip it, and no consumer may act on it under another id.
    Invariant {
        code: "event-id",
        message: "the id of event number {id} is not a text: consumers pass over it, and a repair calls it \
                  unreadable-{id} and skips it if it is pending",
        told: "e.key, ''",
        from: "events AS e",
        which: "typeof(e.message_id) <> 'text'",
        mend: &[Set("message_id = 'unreadable-' || key,
                     reason = CASE state WHEN {event_pending} THEN 'its id could not be read'
                              ELSE reason END,
                     state = CASE state WHEN {event_pending} THEN {event_skipped} ELSE state END")],
    },
];

/// PostgreSQL has the wakeup of a schedule in `progress`, versions in both rows of a schedule, two
/// tables of runs, and sequences for ids.
pub(super) const POSTGRES: [Invariant; 9] = [
    Invariant {
        code: "wakeup-of-nothing",
        message: "a wakeup is for schedule {id}, which is gone",
        told: "p.id, ''",
        from: "progress AS p",
        which: "NOT EXISTS (SELECT 1 FROM schedules AS s WHERE s.id = p.id)",
        mend: &[Run("DELETE FROM progress WHERE id IN (SELECT p.id {breaches} LIMIT 500)
                     RETURNING id")],
    },
    Invariant {
        code: "versions",
        message: "the two rows of schedule {id} are not of one version",
        told: "s.id, ''",
        from: "schedules AS s JOIN progress AS p ON p.id = s.id",
        which: "s.version <> p.version",
        mend: &[Run("WITH apart AS MATERIALIZED (
                       SELECT p.id {breaches} LIMIT 500 FOR UPDATE OF p, s),
                     known AS (
                       UPDATE schedules s SET version = s.version + 1 FROM apart a
                       WHERE s.id = a.id RETURNING s.id, s.version)
                     UPDATE progress p SET version = k.version, stamp = 0 FROM known k
                     WHERE p.id = k.id RETURNING p.id")],
    },
    Invariant {
        code: "run-twice",
        message: "run {id} has ended, but is kept among those that have not",
        told: "o.key, ''",
        from: "open_runs AS o",
        which: "EXISTS (SELECT 1 FROM ended_runs AS e WHERE e.key = o.key)",
        mend: &[
            Run("DELETE FROM ended_runs AS e
                 WHERE e.status {open}
                   AND EXISTS (SELECT 1 FROM open_runs AS o WHERE o.key = e.key)"),
            Delete,
        ],
    },
    Invariant {
        code: "run-misplaced",
        message: "run {id} is kept among those that have ended and has not, or the other way round: \
                  restore a copy",
        told: "r.key, ''",
        from: "(SELECT key FROM open_runs WHERE status {ended}
                UNION ALL SELECT key FROM ended_runs WHERE status {open}) AS r",
        which: "true",
        mend: &[],
    },
    behind!("schedule_ids", "id", "schedules"),
    behind!("workflow_ids", "id", "workflows"),
    behind!("topic_ids", "id", "topics"),
    behind!("handler_ids", "id", "handlers"),
    behind!("incident_keys", "key", "incidents"),
];
