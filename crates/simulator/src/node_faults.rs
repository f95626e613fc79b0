//! What happens to a node besides faults of its store.

use crate::model::Checked;
use crate::simulation::{HOUR, Simulation};

impl Simulation {
    /// The node dies, or someone sets its clock.
    pub(crate) fn trouble(&mut self) -> Checked {
        match self.random.below(6) {
            0 => self.crash(),
            1 => self.restart(),
            2 => self.set_clock(1),
            3 => self.set_clock(-1),
            4 => {
                // The machine sleeps, like a laptop with its lid closed.
                let nap = self.random.spread(1_000, 12 * HOUR);
                self.machine.time.pass(nap);
                self.note(format!("asleep for {} s", nap / 1_000));
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Everything in memory is lost; the node comes back after a while.
    pub(crate) fn crash(&mut self) -> Checked {
        self.summary.crashes += 1;
        self.node = None;
        self.machine.work.perish();
        let down = match self.random.below(3) {
            0 => 0,
            1 => self.random.spread(1_000, HOUR),
            _ => self.random.spread(HOUR, 60 * HOUR),
        };
        let down = if self.is_calm { 0 } else { down };
        self.machine.time.pass(down);
        if self.random.chance(300) {
            self.machine.close();
        }
        self.note(format!("the node was dead for {} s", down / 1_000));
        Ok(())
    }

    /// The node leaves in good order, and hands back its attempts.
    fn restart(&mut self) -> Checked {
        let node = self.node_id();
        self.node = None;
        self.machine.work.perish();
        if let Err(failure) = self.machine.leave(node) {
            self.note(format!("leaving: {failure}"));
        }
        self.machine.close();
        self.note("the node was restarted".to_owned());
        Ok(())
    }

    fn set_clock(&mut self, sign: i64) -> Checked {
        let by = sign * self.random.spread(500, 8 * HOUR);
        self.machine.time.set_clock_by(by);
        self.note(format!("the clock was set by {} s", by / 1_000));
        Ok(())
    }
}
