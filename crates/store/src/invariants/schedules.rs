//! Invariants of the progress, the ledger and the incidents of schedules.

use super::Invariant;
use super::Mend::Set;

/// The key in `meta` of the latest instant by which history was removed, in milliseconds.
pub(crate) const EXPIRED_AT: &str = "history_expired_at";
/// The key in `meta` of the shortest time that history without a `retention` was kept, in
/// milliseconds.
pub(crate) const KEPT_FOR: &str = "history_kept_for";

/// A record of this instant or a later one must still be stored. The record is of schedule `s` and
/// workflow `w`. It is kept for the retention of its schedule or workflow, or else for
/// [`KEPT_FOR`], the shortest time that history was ever kept here; before any was removed, that is
/// 30 days, as in `server::maintenance`. A clock that was set back does not bring back removed
/// rows, so now is at least the latest instant history was removed by ([`EXPIRED_AT`]).
pub(super) const KEPT_SINCE: &str = "((SELECT max(t.at) FROM (SELECT CAST($1 AS bigint) AS at
       UNION ALL SELECT CAST(value AS bigint) FROM meta WHERE key = 'history_expired_at') AS t)
     - coalesce(s.retention, w.retention,
         (SELECT CAST(value AS bigint) FROM meta WHERE key = 'history_kept_for'), 2592000000))";

/// How many occurrences of schedule `p` have a stored run that succeeded. An occurrence that was
/// damaged to have two runs counts once, as it did when it was decided.
pub(super) const SUCCESSES: &str = "(SELECT count(DISTINCT r.n) FROM runs AS r
     WHERE r.schedule = p.id AND r.n IS NOT NULL AND r.status = {succeeded})";

pub(super) const SCHEDULES: [Invariant; 12] = [
    Invariant {
        code: "occurrence-without-run",
        message: "occurrence {text} of schedule {id} has started, but names no run: the schedule goes on; \
                  restore a copy if you need the record",
        told: "l.schedule, l.n",
        from: "ledger AS l",
        which: "l.outcome IN ({started}, {moved}) AND l.run IS NULL",
        mend: &[],
    },
    Invariant {
        code: "run-gone",
        message: "occurrence {text} of schedule {id} has started a run, and the run's record is gone: the \
                  schedule goes on; restore a copy if you need the record",
        told: "l.schedule, l.n",
        from: "ledger AS l JOIN schedules AS s ON s.id = l.schedule
               LEFT JOIN workflows AS w ON w.id = s.workflow",
        // The first run of the occurrence ended after its effective time. Retries may have written
        // the ledger row much later.
        which: "l.run IS NOT NULL AND NOT EXISTS (SELECT 1 FROM runs AS r WHERE r.key = l.run)
                AND l.effective >= {kept_since}",
        mend: &[],
    },
    Invariant {
        code: "run-without-occurrence",
        message: "a run is of occurrence {text} of schedule {id}, which the ledger does not have: the \
                  schedule goes on; restore a copy if you need the record",
        told: "r.schedule, r.n",
        from: "runs AS r JOIN schedules AS s ON s.id = r.schedule
               LEFT JOIN workflows AS w ON w.id = s.workflow",
        // The occurrence was decided at its effective time or later. The run may have been created
        // long after, if it was queued.
        which: "r.n IS NOT NULL AND NOT EXISTS
                  (SELECT 1 FROM ledger AS l WHERE l.schedule = r.schedule AND l.n = r.n)
                AND r.effective >= {kept_since}",
        mend: &[],
    },
    Invariant {
        code: "ledger-gap",
        message: "the ledger of schedule {id} has nothing between occurrence {text} and the next that it \
                  knows: the schedule goes on; restore a copy if you need the record",
        told: "l.schedule, l.n",
        from: "(SELECT schedule, n, count, effective,
                  lead(n) OVER (PARTITION BY schedule ORDER BY n) AS following FROM ledger) AS l
               JOIN schedules AS s ON s.id = l.schedule JOIN progress AS p ON p.id = l.schedule
               LEFT JOIN workflows AS w ON w.id = s.workflow",
        // The occurrences after this one were decided later, and are kept at least as long.
        which: "coalesce(l.following, p.n) > l.n + l.count AND l.effective >= {kept_since}",
        mend: &[],
    },
    Invariant {
        code: "ledger-outcome",
        message: "occurrence {text} of schedule {id} has an outcome or a count that nobody knows: restore \
                  a copy that has it",
        told: "l.schedule, l.n",
        from: "ledger AS l",
        which: "l.outcome NOT BETWEEN 0 AND 7 OR l.count < 1",
        mend: &[],
    },
    Invariant {
        code: "schedule-runs",
        message: "schedule {id} has counted {text} runs that succeeded, and more of them are kept",
        told: "p.id, p.run_count",
        from: "progress AS p",
        which: "p.run_count < {successes}",
        mend: &[Set("run_count = {successes}")],
    },
    Invariant {
        code: "schedule-runs",
        message: "schedule {id} has counted {text} runs that succeeded, more than it had occurrences",
        told: "p.id, p.run_count",
        from: "progress AS p",
        which: "p.run_count > p.n",
        mend: &[Set("run_count = n")],
    },
    Invariant {
        code: "schedule-repeats",
        message: "schedule {id} has counted {text} repeats, more than runs that succeeded",
        told: "p.id, p.current_repeat",
        from: "progress AS p",
        which: "p.current_repeat > p.run_count",
        mend: &[Set("current_repeat = run_count")],
    },
    Invariant {
        code: "schedule-outcome",
        message: "the last outcome of schedule {id} is {text}, which is not known",
        told: "p.id, p.last_outcome",
        from: "progress AS p",
        which: "p.last_outcome NOT BETWEEN 0 AND 3",
        mend: &[Set("last_outcome = NULL")],
    },
    Invariant {
        code: "incident-of-nothing",
        message: "schedule {id} is in incident {text}, which is over or gone: its next success ends that; \
                  restore a copy if you need the record",
        told: "p.id, p.incident",
        from: "progress AS p",
        which: "p.incident IS NOT NULL AND NOT EXISTS (SELECT 1 FROM incidents AS i
                  WHERE i.key = p.incident AND i.schedule = p.id AND i.ended_at IS NULL)",
        mend: &[],
    },
    Invariant {
        code: "incident-of-nothing",
        message: "workflow {text} is in an incident that is over or gone",
        told: "w.id, w.name",
        from: "workflows AS w",
        which: "w.incident IS NOT NULL AND NOT EXISTS (SELECT 1 FROM incidents AS i
                  WHERE i.key = w.incident AND i.workflow = w.id AND i.schedule IS NULL
                    AND i.ended_at IS NULL)",
        mend: &[Set("incident = NULL")],
    },
    Invariant {
        code: "incident-left-open",
        message: "incident {id} of workflow {text} is open, and nothing can end it",
        told: "i.key, i.workflow",
        from: "incidents AS i",
        which: "i.ended_at IS NULL
                AND NOT EXISTS (SELECT 1 FROM progress AS p
                  WHERE p.id = i.schedule AND p.incident = i.key)
                AND NOT EXISTS (SELECT 1 FROM workflows AS w
                  WHERE w.id = i.workflow AND w.incident = i.key)",
        mend: &[Set("ending = 2, ended_at = began_at, ended_told = '[]'")],
    },
];
