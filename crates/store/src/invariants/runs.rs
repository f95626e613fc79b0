//! Invariants of runs and of the rows of what they wait for.

use super::Lock::Nodes;
use super::Mend::{Delete, Lock, Run, Set};
use super::{Invariant, Mend};

/// The nodes that perform attempts and have no row.
pub(super) const LOST_NODES: &str = "(SELECT DISTINCT a.node AS id FROM {performed} AS a
     WHERE NOT EXISTS (SELECT 1 FROM nodes AS n WHERE n.id = a.node))";

pub(super) const RUNS: [Invariant; 14] = [
    Invariant {
        code: "run-without-owner",
        message: "run {id} is running, but no node performs it",
        told: "a.run, ''",
        from: "{performed} AS a",
        which: "NOT EXISTS (SELECT 1 FROM nodes AS n WHERE n.id = a.node)",
        // The node's row is inserted again as that of a dead node: the next turn takes over its
        // attempts.
        mend: &[Lock(Nodes), Run("{insert_lost_nodes}")],
    },
    Invariant {
        code: "queue-of-nothing",
        message: "run {id} is in queue {text}, but has ended or is gone, or has no such part",
        told: "q.run, q.queue",
        from: "queue AS q",
        which: "q.item {no_part} OR NOT EXISTS (SELECT 1 FROM {open_runs} AS r WHERE r.key = q.run)",
        mend: &[Delete],
    },
    Invariant {
        code: "approval-of-nothing",
        message: "people are asked by run {id}, which has ended or is gone",
        told: "a.run, ''",
        from: "approvals AS a",
        which: "NOT EXISTS (SELECT 1 FROM {open_runs} AS r WHERE r.key = a.run)",
        mend: &[Delete],
    },
    Invariant {
        code: "wait-of-nothing",
        message: "run {id} is told of events, but has ended or is gone, or has no such part",
        told: "v.run, ''",
        from: "waits AS v",
        which: "v.item {no_part} OR NOT EXISTS (SELECT 1 FROM {open_runs} AS r WHERE r.key = v.run)",
        mend: &[Delete],
    },
    Invariant {
        code: "wait-without-topic",
        message: "run {id} waits for an event of topic {text}, which is gone: cancel it, or restore a copy that \
                  has the topic",
        told: "v.run, v.topic",
        from: "waits AS v",
        which: "NOT EXISTS (SELECT 1 FROM topics AS t WHERE t.id = v.topic)",
        mend: &[],
    },
    Invariant {
        code: "run-without-end",
        message: "run {id} has ended, but not at any time",
        told: "r.key, ''",
        from: "{ended_runs} AS r",
        which: "r.status {ended} AND r.ended_at IS NULL",
        mend: &[Set("ended_at = coalesce(started_at, created_at)")],
    },
    Invariant {
        code: "occurrence-with-two-runs",
        message: "an occurrence of schedule {id} has two runs, number {text}: look at both (`punctual run \
                  list`), and delete one from the database",
        told: "r.schedule, r.n",
        from: "runs AS r",
        which: "r.n IS NOT NULL GROUP BY r.schedule, r.n, r.retry HAVING count(*) > 1",
        mend: &[],
    },
    Invariant {
        code: "run-id-twice",
        message: "run {id} has the same id as another one: delete one of the {text} from the database",
        told: "min(r.key), count(*)",
        from: "runs AS r",
        which: "r.uuid IS NOT NULL GROUP BY r.uuid HAVING count(*) > 1",
        mend: &[],
    },
    Invariant {
        code: "run-without-version",
        message: "run {id} was begun with version {text} of its workflow, which is gone: restore a copy \
                  that has it, or wait until the run's history expires",
        told: "r.key, r.version",
        from: "runs AS r",
        which: "NOT EXISTS (SELECT 1 FROM revisions AS v
                            WHERE v.workflow = r.workflow AND v.revision = r.version)",
        mend: &[],
    },
    Invariant {
        code: "parent-gone",
        message: "run {id} was started by run {text}, which is gone: it goes on by itself; cancel it if it \
                  should not (`punctual run cancel`)",
        told: "r.key, r.parent",
        from: "runs AS r",
        // A parent that does not wait for the child may have ended and expired, by whatever
        // retention it had.
        which: "r.status {open} AND r.parent IS NOT NULL
                AND NOT EXISTS (SELECT 1 FROM runs AS p WHERE p.key = r.parent)
                AND r.created_at >= (SELECT max(t.at) FROM (SELECT CAST($1 AS bigint) AS at
                    UNION ALL SELECT CAST(value AS bigint) FROM meta
                              WHERE key = 'history_expired_at') AS t)
                  - (SELECT min(k.ms) FROM (SELECT 2592000000 AS ms
                     UNION ALL SELECT retention FROM schedules
                     UNION ALL SELECT retention FROM workflows
                     UNION ALL SELECT CAST(value AS bigint) FROM meta
                               WHERE key = 'history_kept_for') AS k)",
        mend: &[],
    },
    of_no_run("step-of-nothing", "steps AS t", "a step is of run {id}, which is gone"),
    of_no_run("attempt-of-nothing", "attempts AS t", "an attempt is of run {id}, which is gone"),
    of_no_run(
        "alert-of-nothing",
        "alerts AS t",
        "an action of a deadline is of run {id}, which is gone",
    ),
    of_no_run("mutation-of-nothing", "mutations AS t", "a mutation is of run {id}, which is gone"),
];

/// The invariant that no row of table `t` belongs to a run that is gone.
const fn of_no_run(code: &'static str, from: &'static str, message: &'static str) -> Invariant {
    let which = "NOT EXISTS (SELECT 1 FROM runs AS r WHERE r.key = t.run)";
    const MEND: &[Mend] = &[Delete];
    Invariant { code, message, told: "t.run, ''", from, which, mend: MEND }
}
