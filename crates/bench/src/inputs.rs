//! Inputs that are different from each other and the same in every run.

use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::measure::Inputs;

/// The inputs begin at 2024-01-01T00:00Z.
const START: i64 = 1_704_067_200;
const YEARS: u64 = 10;
const CHECKS_AROUND_A_CHANGE: usize = 32;

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
    let length = YEARS * 365 * 86_400;
    (0..count)
        .filter_map(|_| Timestamp::from_second(START + random.below(length) as i64).ok())
        .collect()
}

/// The same, after some that lie around New York's changes of the clock. Those decide whether an
/// answer is right, but are too rare to be a part of the time.
pub(crate) fn instants_and_changes(count: usize, zone: &TimeZone) -> Inputs<Timestamp> {
    let start = Timestamp::from_second(START).unwrap_or_default();
    let mut random = Random::new(13);
    let mut all = Vec::new();
    for change in zone.following(start).take(2 * YEARS as usize) {
        for _ in 0..CHECKS_AROUND_A_CHANGE {
            let away = random.below(4 * 86_400) as i64 - 3 * 86_400;
            all.extend(Timestamp::from_second(change.timestamp().as_second() + away));
        }
    }
    let only_checked = all.len();
    all.extend(instants(count));
    Inputs { all, only_checked }
}
