//! Spread: moves each schedule by a stable offset inside a window, so that schedules with the same
//! time do not all start in the same second.

use jiff::SignedDuration;

/// The offset of the schedule `key` inside `window`: the same on every machine and for ever, evenly
/// distributed, in whole milliseconds, and less than the window.
///
/// ```
/// use calendar::spread;
/// use jiff::SignedDuration;
/// let window = SignedDuration::from_mins(10);
/// assert_eq!(spread("backup-17", window), spread("backup-17", window));
/// assert!(spread("backup-18", window) < window);
/// ```
pub fn spread(key: &str, window: SignedDuration) -> SignedDuration {
    let window = u64::try_from(window.as_millis()).unwrap_or(0);
    if window == 0 {
        return SignedDuration::ZERO;
    }
    // The high half of the product maps a hash onto a range without the bias of a remainder.
    let offset = (u128::from(hash(key)) * u128::from(window)) >> 64;
    SignedDuration::from_millis(offset as i64)
}

/// FNV-1a with a final mix. It is written out here because its results must never change.
fn hash(key: &str) -> u64 {
    let fnv = key.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let mut mixed = fnv;
    mixed = (mixed ^ (mixed >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    mixed = (mixed ^ (mixed >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    mixed ^ (mixed >> 33)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Results of another implementation. Schedules must not move when this code is changed.
    #[test]
    fn never_changes() {
        let hour = SignedDuration::from_hours(1);
        let at = |key| spread(key, hour).as_millis();
        assert_eq!([at(""), at("a"), at("schedule-1")], [3_372_370, 1_837_060, 1_490_011]);
    }

    #[test]
    fn fills_the_window_evenly() {
        let minute = SignedDuration::from_mins(1);
        let mut seconds = [0; 60];
        for n in 0..60_000 {
            seconds[spread(&format!("schedule-{n}"), minute).as_secs() as usize] += 1;
        }
        assert!(seconds.iter().all(|&n| (850..1150).contains(&n)), "{seconds:?}");
    }

    #[test]
    fn no_window_no_move() {
        assert_eq!(spread("a", SignedDuration::ZERO), SignedDuration::ZERO);
        assert_eq!(spread("a", SignedDuration::from_secs(-5)), SignedDuration::ZERO);
    }
}
