//! What cannot be decided is found among everything else, and set aside: the rest goes on.

use engine::turn::Wakeup;
use store::Failure;

use super::{CLAIMED, Driver, Taken};

impl Driver {
    /// A turn that failed because of one thing that is stored leads to that thing being set aside. If it is not
    /// known which, the next turns decide over one thing each.
    pub(super) async fn isolate(
        &mut self,
        ended: Result<Taken, Failure>,
    ) -> Result<Taken, Failure> {
        match ended {
            Err(Failure::Undecidable { what: Some(what), why }) => {
                self.set_aside(what, &why).await?;
                Ok(Taken::default())
            }
            Err(Failure::Undecidable { what: None, why }) if self.single == 0 => {
                tracing::warn!(why, "something cannot be decided: it is looked for one by one");
                // All that one turn may have decided over, reports and wakeups.
                self.single = 2 * CLAIMED + self.reports.len();
                Ok(Taken::default())
            }
            ended => ended,
        }
    }

    /// The thing is passed over from now on, and people are told.
    pub(super) async fn set_aside(&mut self, what: Wakeup, why: &str) -> Result<(), Failure> {
        self.store.set_aside(what, why, self.clock.now()).await?;
        let (kind, id) = (store::kind_of(what), number(what));
        tracing::error!(kind, id, why, "set aside, everything else goes on: run `punctual doctor`");
        self.hub.metrics.set_aside();
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
