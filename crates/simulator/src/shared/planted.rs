//! Planted bugs in worlds of nodes that share a store: what each changes in PostgreSQL while the
//! nodes are at rest. Those of requests and answers are the same as on the embedded store.

use super::SharedWorld;
use crate::model::Checked;
use crate::sabotage::Sabotage;
use crate::simulation::unexpected;

/// A planted bug strikes once every this many rests.
fn strikes_every(sabotage: Sabotage) -> u64 {
    match sabotage {
        // The bug shows only if more runs are due before the workflow has counted down to zero
        // again.
        Sabotage::ForgetLimit => 1,
        _ => 25,
    }
}

/// The statements of a planted bug.
fn sql(sabotage: Sabotage) -> Option<&'static str> {
    Some(match sabotage {
        Sabotage::LoseWakeup => {
            "UPDATE progress SET wake_at = NULL WHERE id =
             (SELECT id FROM progress WHERE wake_at IS NOT NULL ORDER BY wake_at LIMIT 1)"
        }
        Sabotage::LoseTimeout => "UPDATE open_runs SET wake_at = NULL WHERE wake_at IS NOT NULL",
        Sabotage::RewindMark => "UPDATE progress SET mark = mark - 86400000 WHERE n > 2",
        Sabotage::SwallowRow => {
            "DELETE FROM ledger WHERE (schedule, n) IN
             (SELECT schedule, max(n) FROM ledger GROUP BY schedule LIMIT 1)"
        }
        Sabotage::LoseNode => {
            "DELETE FROM nodes WHERE id IN (SELECT unnest(owners) FROM open_runs WHERE status = 1)"
        }
        Sabotage::ForgetLimit => {
            "UPDATE workflows SET active = 0 WHERE concurrency IS NOT NULL AND active > 0"
        }
        Sabotage::CountTwice => "UPDATE progress SET run_count = run_count + 1 WHERE run_count > 1",
        Sabotage::RunAgain => {
            "WITH ended AS (DELETE FROM ended_runs WHERE key = (SELECT max(key) FROM ended_runs)
               RETURNING *)
             INSERT INTO open_runs SELECT * FROM ended;
             UPDATE open_runs SET status = 1 WHERE status > 3"
        }
        Sabotage::LoseEvent => {
            "DELETE FROM events WHERE key = (SELECT max(key) FROM events WHERE state = 0)"
        }
        Sabotage::WorkOnItAgain => {
            "UPDATE events SET state = 0, run = NULL
             WHERE key = (SELECT max(key) FROM events WHERE state = 2)"
        }
        Sabotage::CountWrongly => "UPDATE topics SET pending = pending + 1",
        _ => return None,
    })
}

impl SharedWorld {
    /// Lets the planted bug strike, if it is time.
    pub(super) fn strike(&mut self) -> Checked {
        let due = |sabotage: &Sabotage| (self.rests + 1).is_multiple_of(strikes_every(*sabotage));
        let sabotage = self.options.sabotage.filter(due);
        let Some(sql) = sabotage.and_then(sql) else { return Ok(()) };
        self.note(format!("sabotage: {sabotage:?}"));
        self.schema.execute(sql).map_err(unexpected)
    }
}
