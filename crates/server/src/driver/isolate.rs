//! Isolates rows that cannot be decided: the driver finds them and sets them aside, so that
//! everything else goes on.

use engine::turn::Wakeup;
use store::Failure;

use super::{CLAIMED, Driver, Taken};
use crate::hub::Hub;

impl Driver {
    /// If a turn failed because of one stored row, sets that row aside. If the store cannot say
    /// which row it was, the next turns decide over one row each.
    pub(super) async fn isolate(
        &mut self,
        ended: Result<Taken, Failure>,
    ) -> Result<Taken, Failure> {
        match ended {
            Err(Failure::Undecidable { what: Some(what), why }) => {
                self.hub.set_aside(what, &why).await?;
                Ok(Taken::default())
            }
            Err(Failure::Undecidable { what: None, why }) if self.single == 0 => {
                tracing::warn!(why, "something cannot be decided: it is looked for one by one");
                // Enough single turns for all reports and wakeups that the failed turn may have
                // covered.
                self.single = 2 * CLAIMED + self.reports.len();
                Ok(Taken::default())
            }
            ended => ended,
        }
    }
}

impl Hub {
    /// Sets a row aside: the driver and claims of workers pass over it from now on. Logs an error
    /// and counts it.
    pub(crate) async fn set_aside(&self, what: Wakeup, why: &str) -> Result<(), Failure> {
        self.store().set_aside(what, why, self.now()).await?;
        let (kind, id) = (store::kind_of(what), number(what));
        tracing::error!(kind, id, why, "set aside, everything else goes on: run `punctual doctor`");
        self.metrics.set_aside();
        Ok(())
    }
}

fn number(what: Wakeup) -> i64 {
    match what {
        Wakeup::Run(key) => key.0,
        Wakeup::Schedule(id) => id.0,
        Wakeup::Handler(id) => id.0,
        Wakeup::Node(node) => node.0,
    }
}
