//! The place of a run in its family: the runs that led to it by steps, events and deadlines.

use jiff::{SignedDuration, Timestamp};

use super::{Parent, Run};

/// The maximum number of events and deadlines between the first run of a family and the last.
/// Intended pipelines have a handful; workflows that publish to each other in a circle have no end.
pub(crate) const HOPS: u8 = 32;
/// The hops of a run that has worked for this long are counted from the run itself. A circle that
/// takes a minute per round may be intended. Time that the run waited to begin does not count: a
/// circle that floods the store makes its own runs wait.
const SLOW: SignedDuration = SignedDuration::from_secs(60);

/// How many hops an event or a deadline of this run is away from the first run of its family.
pub(crate) fn hops_of(run: &Run, now: Timestamp) -> u8 {
    let worked = run.started_at.map_or(SignedDuration::ZERO, |since| now.duration_since(since));
    match run.parent {
        Some(parent) if worked < SLOW => parent.hops.saturating_add(1),
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
        let root = run.parent.map_or(run.key, |above| above.root);
        Parent { run: run.key, token: None, depth: 0, root, hops }
    }
}
