//! What goes wrong and when: the same for the same seed.

use std::time::Duration;

/// So many nodes, one for each fault.
pub(super) const NODES: usize = 3;

/// What is done to the nodes and their database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// A node is killed with signal 9, and started again after a while.
    Kill(usize),
    /// A node is held for longer than its lease, and goes on then.
    Freeze(usize),
    /// A node is stopped in order, and started again.
    Restart(usize),
    /// The power of the database is cut.
    Database,
}

/// A fault with its time since the beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Planned {
    pub(super) at: Duration,
    pub(super) fault: Fault,
}

/// Each fault in a part of the time of its own, somewhere in it, and each node has its own. The
/// last tenth is without: what is to come to rest has load meanwhile.
pub(super) fn plan(seed: u64, total: Duration) -> Vec<Planned> {
    let mut random = Random(seed);
    let mut nodes: [usize; NODES] = std::array::from_fn(|index| index);
    random.shuffle(&mut nodes);
    let [killed, frozen, restarted] = nodes;
    let mut faults = [
        Fault::Kill(killed),
        Fault::Freeze(frozen),
        Fault::Restart(restarted),
        Fault::Database,
        Fault::Database,
    ];
    random.shuffle(&mut faults);
    let part = total.mul_f64(0.9) / u32::try_from(faults.len()).unwrap_or(1);
    let mut planned = Vec::new();
    for (index, fault) in (0_u32..).zip(faults) {
        let inside = part.mul_f64(random.below(1_000) as f64 / 1_000.0);
        planned.push(Planned { at: part * index + inside, fault });
    }
    planned
}

/// Pseudo-random numbers from a seed, by the generator SplitMix64.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        usize::try_from(mixed % limit as u64).unwrap_or(0)
    }

    pub(crate) fn shuffle<T>(&mut self, all: &mut [T]) {
        for index in (1..all.len()).rev() {
            all.swap(index, self.below(index + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_goes_wrong_in_time() {
        let total = Duration::from_secs(300);
        for seed in 0..100 {
            let planned = plan(seed, total);
            assert_eq!(planned, plan(seed, total));
            assert!(planned.is_sorted_by_key(|planned| planned.at), "{planned:?}");
            assert!(planned.iter().all(|planned| planned.at < total.mul_f64(0.9)), "{planned:?}");
            let has = |is: fn(&Fault) -> bool| planned.iter().filter(|p| is(&p.fault)).count();
            assert_eq!(has(|fault| matches!(fault, Fault::Kill(0..3))), 1);
            assert_eq!(has(|fault| matches!(fault, Fault::Freeze(0..3))), 1);
            assert_eq!(has(|fault| matches!(fault, Fault::Restart(0..3))), 1);
            assert_eq!(has(|fault| *fault == Fault::Database), 2);
        }
        assert_ne!(plan(1, total), plan(2, total));
    }
}
