//! Claims: what a worker takes from queues, and what becomes of it if the worker is gone when it comes.

use std::sync::Arc;

use engine::RunId;
use engine::turn::{Command, Effect};
use store::Failure;
use tokio::runtime::Handle;

use crate::hub::Hub;

/// Attempts that were claimed and have not reached their worker. Dropped on the way they go back into their
/// queues, where the next worker finds them at once.
pub(crate) struct Handout {
    hub: Arc<Hub>,
    /// Where it was claimed: it may be dropped elsewhere.
    runtime: Handle,
    /// What the worker is to do.
    pub(crate) effects: Vec<Effect>,
    claimed: Vec<(RunId, u32)>,
}

/// Claims what waits in queues. A caller that goes away meanwhile leaves nothing claimed.
pub(crate) async fn claim(hub: &Arc<Hub>, command: Command) -> Result<Handout, Failure> {
    let owned = hub.clone();
    let claiming = async move {
        let effects = owned.carry_out(command, None, None).await?.effects;
        let claimed = effects.iter().filter_map(|effect| match effect {
            Effect::Claimed { perform, .. } => Some((perform.run_id.clone(), perform.token)),
            Effect::Perform(_) | Effect::Cancel { .. } => None,
        });
        let claimed = claimed.collect();
        Ok(Handout { hub: owned, runtime: Handle::current(), effects, claimed })
    };
    hub.uninterrupted(claiming).await
}

impl Handout {
    /// The worker has them: they are its own until their leases are over.
    pub(crate) fn delivered(mut self) {
        self.claimed.clear();
    }
}

impl Drop for Handout {
    fn drop(&mut self) {
        let claimed = std::mem::take(&mut self.claimed);
        if claimed.is_empty() {
            return;
        }
        let hub = self.hub.clone();
        let giving_back = async move {
            for (id, token) in claimed {
                let run = id.to_string();
                let command = Command::ReturnAttempt { id, token };
                match hub.carry_out(command, None, None).await {
                    // Refused: it has ended meanwhile.
                    Ok(_) | Err(Failure::Refused(_)) => {}
                    Err(failure) => {
                        tracing::warn!(run, token, %failure, "an attempt that no worker got stays until its lease is over");
                    }
                }
            }
        };
        self.hub.in_background(&self.runtime, giving_back);
    }
}
