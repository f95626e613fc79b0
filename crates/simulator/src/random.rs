//! Repeatable randomness: everything that happens in a world follows from its seed.

/// A stream of numbers (splitmix64).
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// A stream of its own, so that one part of the world does not change the randomness of
    /// another.
    pub(crate) fn fork(&mut self) -> Random {
        Random(self.next())
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// From 0 up to, but not including, `end`.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        (self.next() % end.max(1) as u64) as usize
    }

    /// A number from `low` to `high`, both included.
    pub(crate) fn between(&mut self, low: i64, high: i64) -> i64 {
        low + (self.next() % (high - low + 1).max(1) as u64) as i64
    }

    /// Small numbers more often than large ones: each order of magnitude is equally likely.
    pub(crate) fn spread(&mut self, low: i64, high: i64) -> i64 {
        let (bottom, top) = (low.max(1).ilog2(), high.max(1).ilog2());
        let magnitude = 1_i64 << self.between(i64::from(bottom), i64::from(top));
        self.between(magnitude, magnitude * 2 - 1).clamp(low, high)
    }

    /// True this many times in a thousand.
    pub(crate) fn chance(&mut self, in_a_thousand: u32) -> bool {
        self.next() % 1000 < u64::from(in_a_thousand)
    }

    pub(crate) fn pick<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }
}
