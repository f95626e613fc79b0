//! The place of a run in its family: the runs that led to it by steps, events and deadlines.

use jiff::{SignedDuration, Timestamp};

use super::{Parent, Run};

/// Events and deadlines between the first run of a family and the last. Pipelines of people have a handful; workflows
/// that publish to each other in a circle have no end.
pub(crate) const HOPS: u8 = 32;
/// A run that has lived for so long begins a family of its own with what it publishes or its deadline starts: a
/// circle that takes a minute for each round fills nothing, and may be meant.
const SLOW: SignedDuration = SignedDuration::from_secs(60);

/// How many hops an event or a deadline of this run is away from the first run of its family.
pub(crate) fn hops_of(run: &Run, now: Timestamp) -> u8 {
    match run.parent {
        Some(parent) if now.duration_since(run.created_at) < SLOW => parent.hops.saturating_add(1),
        _ => 1,
    }
}

/// Says why something that is more than [`HOPS`] away does not happen.
pub(crate) fn too_many_hops() -> String {
    format!(
        "a loop: {HOPS} events or deadlines in a row have led here, each within a minute. Workflows that publish \
         to each other, or start themselves, need a condition that ends it"
    )
}

impl Parent {
    /// The place of a run that a step of `run` starts; `token` is the attempt that waits for it, if one does.
    pub(crate) fn by_step(run: &Run, token: Option<u32>) -> Parent {
        let (run, above) = (run.key, run.parent);
        let depth = above.map_or(0, |above| above.depth).saturating_add(1);
        let root = above.map_or(run, |above| above.root);
        Parent { run, token, depth, root, hops: above.map_or(0, |above| above.hops) }
    }

    /// The place of a run that an event or a deadline of `run` starts.
    pub(crate) fn by_hop(run: &Run, now: Timestamp) -> Parent {
        let hops = hops_of(run, now);
        let root = run.parent.filter(|_| hops > 1).map_or(run.key, |above| above.root);
        Parent { run: run.key, token: None, depth: 0, root, hops }
    }
}
