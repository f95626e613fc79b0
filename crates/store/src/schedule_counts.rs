//! The changes that a transaction makes to the stored counts of schedules. Lists show these counts
//! instead of counting rows.

use std::collections::BTreeMap;

use engine::schedule::{Schedule, Status};
use engine::turn::{ScheduleWrite, Writes};

use crate::stored::block;

/// Changes to the counts, in the order in which their rows are locked. Statuses are the numbers
/// that are stored for them.
#[derive(Default)]
pub(crate) struct ScheduleCounts {
    /// By workflow and status. Workflow 0 counts the schedules of all workflows.
    pub(crate) by_workflow: BTreeMap<(i64, i16), i64>,
    /// By status and block of ids.
    pub(crate) by_block: BTreeMap<(i16, i64), i64>,
}

impl ScheduleCounts {
    pub(crate) fn of(writes: &Writes) -> ScheduleCounts {
        let mut counts = ScheduleCounts::default();
        for write in &writes.schedules {
            match write {
                ScheduleWrite::Insert(new) => counts.add(new, new.status, 1),
                ScheduleWrite::Update { after, old_status: Some(old), .. } => {
                    counts.add(after, *old, -1);
                    counts.add(after, after.status, 1);
                }
                ScheduleWrite::Update { .. } => {}
                ScheduleWrite::Delete { before } => counts.add(before, before.status, -1),
            }
        }
        counts.by_workflow.retain(|_, change| *change != 0);
        counts.by_block.retain(|_, change| *change != 0);
        counts
    }

    fn add(&mut self, schedule: &Schedule, status: Status, change: i64) {
        // The position in `Status::ALL`, as `codes.rs` checks.
        let status = status as i16;
        for workflow in [schedule.workflow.0, 0] {
            *self.by_workflow.entry((workflow, status)).or_default() += change;
        }
        *self.by_block.entry((status, block(schedule.id.0))).or_default() += change;
    }
}
