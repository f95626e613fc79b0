//! The place of a run in its family: the runs that led to it by steps, events and deadlines.

use jiff::{SignedDuration, Timestamp};

use super::{Parent, Run};

/// The maximum number of events and deadlines between the first run of a family and the last.
/// Intended pipelines have a handful; workflows that publish to each other in a circle have no end.
pub(crate) const HOPS: u8 = 32;
/// A run of this age starts a new family with the events it publishes and the runs its deadlines
/// start. A circle that takes a minute per round fills no store, and may be intended.
const SLOW: SignedDuration = SignedDuration::from_secs(60);

/// How many hops an event or a deadline of this run is away from the first run of its family.
pub(crate) fn hops_of(run: &Run, now: Timestamp) -> u8 {
    match run.parent {
        Some(parent) if now.duration_since(run.created_at) < SLOW => parent.hops.saturating_add(1),
        _ => 1,
    }
}

/// The message for a run or event that would be more than [`HOPS`] away.
pub(crate) fn too_many_hops() -> String {
    format!(
        "a loop: {HOPS} events or deadlines in a row have led here, each within a minute. Workflows that publish \
         to each other, or start themselves, need a condition that ends it"
    )
}

impl Parent {
    /// The parent of a run that a step of `run` starts. `token` is the attempt that waits for it,
    /// if one does.
    pub(crate) fn by_step(run: &Run, token: Option<u32>) -> Parent {
        let (run, above) = (run.key, run.parent);
        let depth = above.map_or(0, |above| above.depth).saturating_add(1);
        let root = above.map_or(run, |above| above.root);
        Parent { run, token, depth, root, hops: above.map_or(0, |above| above.hops) }
    }

    /// The parent of a run that an event or a deadline of `run` starts.
    pub(crate) fn by_hop(run: &Run, now: Timestamp) -> Parent {
        let hops = hops_of(run, now);
        let root = run.parent.filter(|_| hops > 1).map_or(run.key, |above| above.root);
        Parent { run: run.key, token: None, depth: 0, root, hops }
    }
}
