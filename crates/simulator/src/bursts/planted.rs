//! Planted bugs of bursts: what each changes in the file between two commits.

use crate::sabotage::Sabotage;

/// The statements of a planted bug, if it is one of bursts.
pub(crate) fn sql(sabotage: Sabotage) -> Option<&'static str> {
    Some(match sabotage {
        Sabotage::LeaveEndedOpen => {
            "UPDATE runs SET status = 2 WHERE key = (SELECT max(key) FROM runs WHERE status = 4)"
        }
        Sabotage::LoseEndedRun => {
            "DELETE FROM runs WHERE key =
             (SELECT max(key) FROM runs WHERE status = 4 AND n IS NOT NULL)"
        }
        Sabotage::ForgetRestOfBurst => {
            "DELETE FROM wakeups WHERE kind = 1 AND id IN (SELECT id FROM progress WHERE n = 0)"
        }
        Sabotage::LeaveTakenPending => {
            "UPDATE events SET state = 0, run = NULL WHERE key =
             (SELECT max(key) FROM events WHERE state = 2)"
        }
        _ => return None,
    })
}
