//! Invariants of the tables that both stores have.
//!
//! The statements run on SQLite and on PostgreSQL: in both, `runs` has all runs, and those with a
//! status below 4 have not ended. `$1` is now.

use crate::failure::Failure;

/// A condition: a record of this instant must still be stored. It must if it is younger than the
/// retention of its schedule or workflow, or else than [`KEPT_FOR`], the shortest time that history
/// was ever kept here; before any was removed, that is 30 days, as in `server::upkeep`. A clock
/// that was set back does not bring back removed rows, so now is at least the latest instant
/// history was removed by ([`EXPIRED_AT`]).
macro_rules! kept {
    ($at:literal) => {
        concat!(
            $at,
            " >= (SELECT max(t.at) FROM (SELECT CAST($1 AS bigint) AS at UNION ALL
                   SELECT CAST(value AS bigint) FROM meta WHERE key = 'history_expired_at') t)
               - coalesce(s.retention, w.retention,
                   (SELECT CAST(value AS bigint) FROM meta WHERE key = 'history_kept_for'),
                   2592000000)"
        )
    };
}
pub(crate) use kept;

/// The key in `meta` of the latest instant by which history was removed, in milliseconds.
pub(crate) const EXPIRED_AT: &str = "history_expired_at";
/// The key in `meta` of the shortest time that history without a `retention` was kept, in
/// milliseconds.
pub(crate) const KEPT_FOR: &str = "history_kept_for";

/// The invariant that no row of a table belongs to a run that is gone.
macro_rules! of_no_run {
    ($wrap:ident, $invariant:ident, $table:literal, $code:literal) => {
        $invariant {
            code: $code,
            breaches: $wrap!(concat!(
                "SELECT t.run, '' FROM ",
                $table,
                " t WHERE NOT EXISTS (SELECT 1 FROM runs r WHERE r.key = t.run)"
            )),
            message: concat!("rows in `", $table, "` are of run {id}, which is gone"),
            mend: &[concat!(
                "DELETE FROM ",
                $table,
                " WHERE NOT EXISTS (SELECT 1 FROM runs r WHERE r.key = ",
                $table,
                ".run)"
            )],
        }
    };
}
pub(crate) use of_no_run;

/// The invariant that no row of a table belongs to a schedule that is gone.
macro_rules! of_no_schedule {
    ($wrap:ident, $invariant:ident, $table:literal, $code:literal) => {
        $invariant {
            code: $code,
            breaches: $wrap!(concat!(
                "SELECT t.schedule, min('') FROM ",
                $table,
                " t WHERE NOT EXISTS (SELECT 1 FROM schedules s WHERE s.id = t.schedule)
                  GROUP BY t.schedule"
            )),
            message: concat!("rows in `", $table, "` are of schedule {id}, which is gone"),
            mend: &[concat!(
                "DELETE FROM ",
                $table,
                " WHERE NOT EXISTS (SELECT 1 FROM schedules s WHERE s.id = ",
                $table,
                ".schedule)"
            )],
        }
    };
}
pub(crate) use of_no_schedule;

/// Why no node may join: a unique index that keeps an occurrence from running twice is missing or
/// not valid.
pub(crate) fn without_index(name: &str) -> Failure {
    Failure::Unusable {
        what: format!(
            "the unique index {name} is missing or not valid: without it an occurrence may run twice"
        ),
        remedy: "punctual doctor --repair, which makes the index again".to_owned(),
    }
}

/// The invariants, each as `$invariant` of a store. `$wrap` makes a query out of a statement that
/// selects an id and a text for each breach.
macro_rules! shared_invariants {
    ($wrap:ident, $invariant:ident) => {
        [
            $invariant {
                code: "schedule-without-workflow",
                breaches: $wrap!(
                    "SELECT id, workflow FROM schedules
                     WHERE workflow NOT IN (SELECT id FROM workflows)"
                ),
                message: "schedule {id} starts workflow {text}, which is gone: restore a copy that has \
                          it, or delete the schedule (`punctual schedule delete {id}`)",
                mend: &[],
            },
            $invariant {
                code: "workflow-without-version",
                breaches: $wrap!(
                    "SELECT w.id, w.name FROM workflows w
                     WHERE NOT EXISTS (SELECT 1 FROM revisions v
                                       WHERE v.workflow = w.id AND v.revision = w.newest)
                        OR (w.live IS NOT NULL AND NOT EXISTS (SELECT 1 FROM revisions v
                                       WHERE v.workflow = w.id AND v.revision = w.live))"
                ),
                message: "workflow {text} has lost its newest or its published version: restore a copy \
                          that has it",
                mend: &[],
            },
            $invariant {
                code: "version-of-nothing",
                breaches: $wrap!(
                    "SELECT workflow, revision FROM revisions
                     WHERE workflow NOT IN (SELECT id FROM workflows)"
                ),
                message: "version {text} is of workflow {id}, which is gone: restore a copy that has it",
                mend: &[],
            },
            $invariant {
                code: "run-without-version",
                breaches: $wrap!(
                    "SELECT r.key, r.version FROM runs r WHERE NOT EXISTS
                     (SELECT 1 FROM revisions v
                      WHERE v.workflow = r.workflow AND v.revision = r.version)"
                ),
                message: "run {id} was begun with version {text} of its workflow, which is gone: restore a \
                          copy that has it, or wait until the run's history expires",
                mend: &[],
            },
            $invariant {
                code: "handler-without-workflow",
                breaches: $wrap!(
                    "SELECT id, name FROM handlers WHERE workflow NOT IN (SELECT id FROM workflows)"
                ),
                message: "handler {text} is of a workflow that is gone: restore a copy that has it",
                mend: &[],
            },
            $invariant {
                code: "handler-without-subscription",
                breaches: $wrap!(
                    "SELECT id, name FROM handlers WHERE kind = 1
                     AND id NOT IN (SELECT handler FROM subscriptions)"
                ),
                message: "consumer {text} hears of no topic: publish a changed definition of its workflow \
                          (`punctual apply`), which makes its subscriptions anew",
                mend: &[],
            },
            $invariant {
                code: "topic-without-workflow",
                breaches: $wrap!(
                    "SELECT id, name FROM topics WHERE workflow IS NOT NULL
                     AND workflow NOT IN (SELECT id FROM workflows)"
                ),
                message: "topic {text} is of a workflow that is gone: restore a copy that has it",
                mend: &[],
            },
            $invariant {
                code: "occurrence-with-two-runs",
                breaches: $wrap!(
                    "SELECT schedule, n FROM runs WHERE n IS NOT NULL
                     GROUP BY schedule, n, retry HAVING count(*) > 1"
                ),
                message: "an occurrence of schedule {id} has two runs, number {text}: look at both (`punctual \
                          run list`), and delete one from the database",
                mend: &[],
            },
            $invariant {
                code: "run-id-twice",
                breaches: $wrap!(
                    "SELECT min(key), count(*) FROM runs WHERE uuid IS NOT NULL
                     GROUP BY uuid HAVING count(*) > 1"
                ),
                message: "run {id} has the same id as another one: delete one of the {text} from the \
                          database",
                mend: &[],
            },
            $invariant {
                code: "run-gone",
                breaches: $wrap!(concat!(
                    "SELECT l.schedule, l.n FROM ledger l JOIN schedules s ON s.id = l.schedule
                     LEFT JOIN workflows w ON w.id = s.workflow
                     WHERE l.run IS NOT NULL AND NOT EXISTS (SELECT 1 FROM runs r WHERE r.key = l.run)
                       AND ",
                    // The first run of the occurrence ended after this time. Retries may have
                    // written the ledger row much later.
                    crate::check_shared::kept!("l.effective")
                )),
                message: "occurrence {text} of schedule {id} has started a run, and the run's record is \
                          gone: the schedule goes on; restore a copy if you need the record",
                mend: &[],
            },
            $invariant {
                code: "run-without-occurrence",
                breaches: $wrap!(concat!(
                    "SELECT r.schedule, r.n FROM runs r JOIN schedules s ON s.id = r.schedule
                     LEFT JOIN workflows w ON w.id = s.workflow
                     WHERE r.n IS NOT NULL AND NOT EXISTS
                       (SELECT 1 FROM ledger l WHERE l.schedule = r.schedule AND l.n = r.n)
                       AND ",
                    // The occurrence was decided at this time or later. The run may have been
                    // created long after, if it was queued.
                    crate::check_shared::kept!("r.effective")
                )),
                message: "a run is of occurrence {text} of schedule {id}, which the ledger does not have: \
                          the schedule goes on; restore a copy if you need the record",
                mend: &[],
            },
            $invariant {
                code: "ledger-gap",
                breaches: $wrap!(concat!(
                    "SELECT l.schedule, l.n FROM (
                       SELECT schedule, n, count, effective,
                         lead(n) OVER (PARTITION BY schedule ORDER BY n) AS following FROM ledger) l
                     JOIN schedules s ON s.id = l.schedule JOIN progress p ON p.id = l.schedule
                     LEFT JOIN workflows w ON w.id = s.workflow
                     WHERE coalesce(l.following, p.n) > l.n + l.count AND ",
                    // The occurrences after this one were decided later, and are kept at least as
                    // long.
                    crate::check_shared::kept!("l.effective")
                )),
                message: "the ledger of schedule {id} has nothing between occurrence {text} and the next that \
                          it knows: the schedule goes on; restore a copy if you need the record",
                mend: &[],
            },
            $invariant {
                code: "ledger-outcome",
                breaches: $wrap!(
                    "SELECT schedule, n FROM ledger WHERE outcome NOT BETWEEN 0 AND 7 OR count < 1"
                ),
                message: "occurrence {text} of schedule {id} has an outcome or a count that nobody knows: \
                          restore a copy that has it",
                mend: &[],
            },
            $invariant {
                code: "schedule-runs",
                breaches: $wrap!(
                    "SELECT p.id, min(p.run_count) FROM progress p JOIN runs r ON r.schedule = p.id
                     WHERE r.n IS NOT NULL AND r.status = 4
                     GROUP BY p.id, p.run_count HAVING count(*) > p.run_count"
                ),
                message: "schedule {id} has counted {text} runs that succeeded, and more of them are kept",
                mend: &["UPDATE progress SET run_count = (SELECT count(*) FROM runs r
                           WHERE r.schedule = progress.id AND r.n IS NOT NULL AND r.status = 4)
                         WHERE run_count < (SELECT count(*) FROM runs r
                           WHERE r.schedule = progress.id AND r.n IS NOT NULL AND r.status = 4)"],
            },
            $invariant {
                code: "schedule-runs",
                breaches: $wrap!(
                    "SELECT p.id, p.run_count FROM progress p WHERE p.run_count > p.n"
                ),
                message: "schedule {id} has counted {text} runs that succeeded, more than it had occurrences",
                mend: &["UPDATE progress SET run_count = n WHERE run_count > n"],
            },
            $invariant {
                code: "schedule-repeats",
                breaches: $wrap!(
                    "SELECT p.id, p.current_repeat FROM progress p WHERE p.current_repeat > p.run_count"
                ),
                message: "schedule {id} has counted {text} repeats, more than runs that succeeded",
                mend: &["UPDATE progress SET current_repeat = run_count
                         WHERE current_repeat > run_count"],
            },
            $invariant {
                code: "parent-gone",
                // A parent that does not wait for the child may have ended and expired, by whatever
                // retention it had.
                breaches: $wrap!(
                    "SELECT r.key, r.parent FROM runs r WHERE r.status < 4 AND r.parent IS NOT NULL
                     AND NOT EXISTS (SELECT 1 FROM runs p WHERE p.key = r.parent)
                     AND r.created_at >= (SELECT max(t.at) FROM (SELECT CAST($1 AS bigint) AS at
                         UNION ALL SELECT CAST(value AS bigint) FROM meta
                                   WHERE key = 'history_expired_at') t)
                       - (SELECT min(k.ms) FROM (SELECT 2592000000 AS ms
                          UNION ALL SELECT retention FROM schedules
                          UNION ALL SELECT retention FROM workflows
                          UNION ALL SELECT CAST(value AS bigint) FROM meta
                                    WHERE key = 'history_kept_for') k)"
                ),
                message: "run {id} was started by run {text}, which is gone: it goes on by itself; cancel it \
                          if it should not (`punctual run cancel`)",
                mend: &[],
            },
            $invariant {
                code: "incident-of-nothing",
                breaches: $wrap!(
                    "SELECT p.id, p.incident FROM progress p WHERE p.incident IS NOT NULL
                     AND NOT EXISTS (SELECT 1 FROM incidents i WHERE i.key = p.incident
                       AND i.schedule = p.id AND i.ended_at IS NULL)"
                ),
                message: "schedule {id} is in incident {text}, which is over or gone: its next success ends \
                          that; restore a copy if you need the record",
                mend: &[],
            },
            $invariant {
                code: "incident-of-nothing",
                breaches: $wrap!(
                    "SELECT w.id, w.name FROM workflows w WHERE w.incident IS NOT NULL
                     AND NOT EXISTS (SELECT 1 FROM incidents i WHERE i.key = w.incident
                       AND i.workflow = w.id AND i.schedule IS NULL AND i.ended_at IS NULL)"
                ),
                message: "workflow {text} is in an incident that is over or gone",
                mend: &["UPDATE workflows SET incident = NULL WHERE incident IS NOT NULL
                         AND NOT EXISTS (SELECT 1 FROM incidents i WHERE i.key = incident
                           AND i.workflow = workflows.id AND i.schedule IS NULL
                           AND i.ended_at IS NULL)"],
            },
            $invariant {
                code: "incident-left-open",
                breaches: $wrap!(
                    "SELECT i.key, i.workflow FROM incidents i WHERE i.ended_at IS NULL
                     AND NOT EXISTS (SELECT 1 FROM progress p
                       WHERE p.id = i.schedule AND p.incident = i.key)
                     AND NOT EXISTS (SELECT 1 FROM workflows w
                       WHERE w.id = i.workflow AND w.incident = i.key)"
                ),
                message: "incident {id} of workflow {text} is open, and nothing can end it",
                mend: &["UPDATE incidents SET ending = 2, ended_at = began_at, ended_told = '[]'
                         WHERE ended_at IS NULL
                         AND NOT EXISTS (SELECT 1 FROM progress p
                           WHERE p.id = incidents.schedule AND p.incident = incidents.key)
                         AND NOT EXISTS (SELECT 1 FROM workflows w
                           WHERE w.id = incidents.workflow AND w.incident = incidents.key)"],
            },
            crate::check_shared::of_no_run!($wrap, $invariant, "steps", "step-of-nothing"),
            crate::check_shared::of_no_run!($wrap, $invariant, "attempts", "attempt-of-nothing"),
            crate::check_shared::of_no_run!($wrap, $invariant, "alerts", "alert-of-nothing"),
            crate::check_shared::of_no_run!($wrap, $invariant, "mutations", "mutation-of-nothing"),
            crate::check_shared::of_no_schedule!(
                $wrap, $invariant, "overrides", "override-of-nothing"
            ),
            crate::check_shared::of_no_schedule!($wrap, $invariant, "words", "words-of-nothing"),
            $invariant {
                code: "sign-in-of-nothing",
                breaches: $wrap!(
                    "SELECT token, '' FROM sign_ins WHERE token IS NOT NULL
                     AND token NOT IN (SELECT id FROM tokens)"
                ),
                message: "somebody has signed in with token {id}, which is gone",
                mend: &["DELETE FROM sign_ins WHERE token IS NOT NULL
                         AND token NOT IN (SELECT id FROM tokens)"],
            },
        ]
    };
}
pub(crate) use shared_invariants;
