//! Which faults there are, in which order: the same for the same seed.

use crate::chaos::plan::Random;

/// Something that goes wrong. The number is that of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Act {
    /// The node is killed with signal 9, and started again a second later.
    Kill(usize),
    /// The node is held for ten seconds.
    Stall(usize),
    /// The node is stopped in order, and started again.
    Restart(usize),
    /// The node's connections to the database go silent for ten seconds: nothing is closed, nothing
    /// arrives.
    Silence(usize),
    /// The database commits, but the node does not get the answer: the connection is cut instead.
    SwallowCommit(usize),
    /// The power of the database is cut.
    Database,
    /// A hundred clients ask at once.
    Crowd,
    /// Clients that all hang up before they are answered.
    HangUps,
    /// Far more is written than the log of an embedded store may hold.
    Flood,
}

/// The faults of one round, each kind that the store allows at least once. Connections go silent
/// last: a node that was started again has new ones, and would not have to find out by itself.
pub(super) fn round(random: &mut Random, nodes: usize, is_shared: bool) -> Vec<Act> {
    let mut node = || random.below(nodes);
    let mut acts = vec![Act::Kill(node()), Act::Stall(node()), Act::Restart(node()), Act::HangUps];
    if is_shared {
        acts.extend([
            Act::SwallowCommit(node()),
            Act::SwallowCommit(node()),
            Act::Database,
            Act::Crowd,
        ]);
    } else {
        acts.push(Act::Kill(node()));
    }
    random.shuffle(&mut acts);
    if is_shared {
        acts.push(Act::Silence(random.below(nodes)));
    }
    acts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_has_every_kind_of_fault() {
        for seed in 0..50 {
            let acts = round(&mut Random(seed), 3, true);
            assert_eq!(acts, round(&mut Random(seed), 3, true));
            let kinds = [
                |act: &Act| matches!(act, Act::Kill(0..3)),
                |act: &Act| matches!(act, Act::Stall(0..3)),
                |act: &Act| matches!(act, Act::Restart(0..3)),
                |act: &Act| matches!(act, Act::Silence(0..3)),
                |act: &Act| matches!(act, Act::SwallowCommit(0..3)),
                |act: &Act| *act == Act::Database,
                |act: &Act| *act == Act::Crowd,
                |act: &Act| *act == Act::HangUps,
            ];
            for (at, is) in kinds.iter().enumerate() {
                assert!(acts.iter().any(is), "seed {seed}, kind {at}: {acts:?}");
            }
        }
        assert_ne!(round(&mut Random(1), 3, true), round(&mut Random(2), 3, true));
    }
}
