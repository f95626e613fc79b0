//! Claims of workers: attempts taken from queues, and given back if the worker is gone before it
//! gets them.

use std::sync::Arc;

use engine::RunId;
use engine::turn::{Command, Effect};
use store::Failure;
use tokio::runtime::Handle;

use crate::hub::Hub;

/// Attempts that were claimed and have not reached their worker. If this is dropped before
/// [`Handout::delivered`], they go back into their queues, where the next worker finds them at
/// once.
pub(crate) struct Handout {
    hub: Arc<Hub>,
    /// The runtime in which the claim was made: the handout may be dropped outside of it.
    runtime: Handle,
    pub(crate) effects: Vec<Effect>,
    claimed: Vec<(RunId, u32)>,
}

/// How many queued parts one claim sets aside because they cannot be decided.
const SET_ASIDE: usize = 16;

/// Claims attempts from queues. If the caller goes away meanwhile, nothing stays claimed. A part
/// that cannot be decided is set aside, so that it does not hold up its queue.
pub(crate) async fn claim(hub: &Arc<Hub>, command: Command) -> Result<Handout, Failure> {
    let owned = hub.clone();
    let claiming = async move {
        let mut set_aside = 0;
        let effects = loop {
            match owned.carry_out(command.clone(), None, None).await {
                Err(Failure::Undecidable { what: Some(what), why }) if set_aside < SET_ASIDE => {
                    owned.set_aside(what, &why).await?;
                    set_aside += 1;
                }
                claimed => break claimed?.effects,
            }
        };
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
    /// The worker has received the attempts: they belong to it until their leases end.
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
                    // Refused: the attempt has ended meanwhile.
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
