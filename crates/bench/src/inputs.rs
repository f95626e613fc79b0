//! Inputs that are different from each other and the same in every run.

use jiff::Timestamp;

/// SplitMix64: a line of arithmetic, so that the inputs do not depend on a crate's version.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed)
    }

    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % limit
    }
}

/// Instants in the ten years from 2024 on, in whole seconds.
pub(crate) fn instants(count: usize) -> Vec<Timestamp> {
    let mut random = Random::new(7);
    let ten_years = 10 * 365 * 86_400;
    let start = 1_704_067_200;
    (0..count)
        .filter_map(|_| Timestamp::from_second(start + random.below(ten_years) as i64).ok())
        .collect()
}
