//! Invariants that the simulator checks whenever all nodes are at rest.

use std::sync::PoisonError;

use super::SharedWorld;
use crate::faulty_store::SharedWatch;
use crate::model::{Awake, Checked, broken};
use crate::node::CAPACITY;
use crate::simulation::unexpected;

/// How many times the nodes come to rest between two checks of the store by itself.
const CHECK_EVERY: u64 = 60;

impl SharedWorld {
    /// Checks that nothing is left to do, by the clock of any node.
    pub(super) fn check_rest(&mut self) -> Checked {
        self.rests += 1;
        if self.rests.is_multiple_of(CHECK_EVERY) {
            self.check_store()?;
        }
        let awake: Vec<_> = self.slots.iter().filter(|slot| slot.is_awake()).collect();
        let Some(now) = awake.iter().map(|slot| slot.machine.time.wall()).min() else {
            return Ok(());
        };
        let drivers = || awake.iter().filter_map(|slot| Some(&slot.node.as_ref()?.driver));
        let free = drivers().map(|driver| CAPACITY.saturating_sub(driver.going_on())).sum();
        let alarm = drivers().filter_map(|driver| driver.next_wakeup()).min();
        let alarm = alarm.map(|at| at.as_millisecond());
        let nodes: Vec<_> = awake.iter().map(|slot| (slot.life, &*slot.machine.work)).collect();
        let is_awake = |id: &i64| nodes.iter().any(|(node, _)| node == id);
        let leased =
            self.lives.iter().filter(|(id, life)| !is_awake(id) && life.lease_until >= now);
        let leased = leased.map(|(id, _)| *id).collect();
        self.model.check_quiet(&Awake { now, free, nodes, leased, alarm })
    }
}

/// Checks that nothing is left of a run that is gone.
pub(super) fn leftovers(watch: &SharedWatch) -> Checked {
    let watch = watch.lock().unwrap_or_else(PoisonError::into_inner);
    match watch.leftovers().map_err(unexpected)? {
        Some(run) => broken("expiry", format!("run {run} is gone, and not all of it")),
        None => Ok(()),
    }
}
