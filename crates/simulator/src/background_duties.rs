//! The node's background duties, and calendars that change: series of commits that belong together.

use jiff::SignedDuration;
use store::Failure;

use crate::model::{Checked, broken};
use crate::simulation::{HOUR, Simulation};

/// How often the duties run, as in the server.
const EVERY: i64 = HOUR;

impl Simulation {
    /// Declares the first calendars.
    pub(crate) fn declare_calendars(&mut self) -> Checked {
        for (id, spec) in self.calendars.all() {
            self.put_calendar(id, &spec)?;
        }
        Ok(())
    }

    pub(crate) fn edit_calendar(&mut self) -> Checked {
        let (id, spec) = self.calendars.edit(self.now());
        self.note(format!("calendar {id}: {spec}"));
        self.put_calendar(id, &spec)
    }

    fn put_calendar(&mut self, id: &str, spec: &str) -> Checked {
        let Some(node) = &self.node else { return Ok(()) };
        let put = node.put_calendar(id, spec);
        if let Err(Failure::Refused(refused)) = &put {
            return broken("store", format!("calendar {id} was refused: {refused:?} {spec}"));
        }
        self.duty_done(put.is_ok())
    }

    /// Recomputes the schedules that were left, and removes old history.
    pub(crate) fn maintenance(&mut self) -> Checked {
        self.next_maintenance = self.machine.time.elapsed() + EVERY;
        let Some(node) = &self.node else { return Ok(()) };
        let recomputed = node.recompute_leftovers();
        self.duty_done(recomputed.is_ok())?;
        let Some(node) = &self.node else { return Ok(()) };
        let expired = node.expire(SignedDuration::from_millis(self.keep));
        self.observe()?;
        if self.machine.desk.take_crash() {
            return self.crash();
        }
        if let Err(failure) = expired {
            self.note(format!("old history stays: {failure}"));
        }
        Ok(())
    }

    /// Checks the result of recomputing, if it was completed.
    fn duty_done(&mut self, is_done: bool) -> Checked {
        self.observe()?;
        if self.machine.desk.take_crash() {
            return self.crash();
        }
        if is_done { self.model.check_up_to_date() } else { Ok(()) }
    }
}
