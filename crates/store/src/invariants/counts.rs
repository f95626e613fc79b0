//! Invariants of counts of schedules and active runs that are stored, so that nobody has to count.

use super::Invariant;
use super::Lock::{LimitedWorkflows, ScheduleBlocks, ScheduleCounts};
use super::Mend::{Delete, Lock, Run, Set};

/// How many schedules of each status each workflow has, and all workflows together (workflow 0),
/// counted one by one.
pub(super) const COUNTED: &str = "(SELECT workflow, status, count(*) AS count FROM schedules
       GROUP BY workflow, status
     UNION ALL SELECT 0, status, count(*) FROM schedules GROUP BY status)";

/// How many schedules of each status are in each block of 1,024 ids, counted one by one.
pub(super) const COUNTED_BLOCKS: &str = "(SELECT status, id / 1024 AS block, count(*) AS count
     FROM schedules GROUP BY status, id / 1024)";

/// How many runs of workflow `w` are active, counted one by one.
pub(super) const ACTIVE_RUNS: &str = "(SELECT count(*) FROM {open_runs_by_status} AS r
     WHERE r.status {active} AND r.workflow = w.id AND r.handler IS NULL)";

pub(super) const COUNTS: [Invariant; 4] = [
    Invariant {
        code: "counts",
        message: "the counts of schedules are wrong",
        told: "DISTINCT 0, ''",
        // The differences between what is counted and what is stored, in either direction.
        from: "(SELECT workflow, status, sum(count) AS count FROM (
                  SELECT workflow, status, count FROM {counted} AS c
                  UNION ALL SELECT workflow, status, -count FROM schedule_counts) AS b
                GROUP BY workflow, status) AS d",
        which: "d.count <> 0",
        mend: &[
            Lock(ScheduleCounts),
            Run("DELETE FROM schedule_counts"),
            Run("INSERT INTO schedule_counts (workflow, status, count{slot_column})
                 SELECT workflow, status, count{slot} FROM {counted} AS c"),
        ],
    },
    Invariant {
        code: "block-counts",
        message: "the counts of schedules by blocks are wrong",
        told: "DISTINCT 0, ''",
        from: "(SELECT status, block, sum(count) AS count FROM (
                  SELECT status, block, count FROM {counted_blocks} AS c
                  UNION ALL SELECT status, block, -count FROM schedule_blocks) AS b
                GROUP BY status, block) AS d",
        which: "d.count <> 0",
        mend: &[
            Lock(ScheduleBlocks),
            Run("DELETE FROM schedule_blocks"),
            Run("INSERT INTO schedule_blocks (status, block, count{slot_column})
                 SELECT status, block, count{slot} FROM {counted_blocks} AS c"),
        ],
    },
    Invariant {
        code: "active-count",
        message: "workflow {text} counts its active runs wrongly",
        told: "w.id, w.name",
        from: "workflows AS w",
        which: "w.concurrency IS NOT NULL AND w.active <> {active_runs}",
        mend: &[Lock(LimitedWorkflows), Set("active = {active_runs}")],
    },
    Invariant {
        code: "tally",
        message: "a count of what happened in minute {id} since 1970 cannot be read: figures leave it out, and \
                  a repair deletes it",
        told: "t.minute, ''",
        from: "tallies AS t",
        which: "NOT (t.minute BETWEEN -6295083720 AND 4223370120
                     AND t.count BETWEEN 0 AND 9223372036854775807 AND {tally_kinds})",
        mend: &[Delete],
    },
];
