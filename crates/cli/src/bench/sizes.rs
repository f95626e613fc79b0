//! How much a benchmark measures: numbers of schedules, runs, events, and durations.

use std::time::Duration;

use crate::args::{BenchArgs, Measure};

/// The usual number of pending schedules when lateness is measured.
const BESIDE_LATENESS: u64 = 100_000;

/// The sizes of one benchmark.
#[derive(Debug)]
pub(super) struct Sizes {
    /// Numbers of schedules far in the future, ascending.
    pub(super) pending: Vec<u64>,
    /// Occurrences due per second.
    pub(super) rates: Vec<u64>,
    /// How long each rate is sustained.
    pub(super) kept_up: Duration,
    /// Occurrences due at one instant.
    pub(super) fires: u64,
    /// Chains of steps that run concurrently.
    pub(super) chains: u64,
    /// Runs that wait for a time.
    pub(super) waiting: u64,
    /// Attempts that workers complete over HTTP.
    pub(super) worked: u64,
    pub(super) published: u64,
    pub(super) consumed: u64,
    /// Schedules created in one transaction.
    pub(super) batch: u64,
    /// Queries of each kind.
    pub(super) queries: u32,
    /// How long an idle node is observed.
    pub(super) watched: Duration,
    /// How long each raw limit is measured.
    pub(super) limits: Duration,
    /// Ended runs, and as many pending schedules, in a store that has grown.
    pub(super) grown: u64,
    /// How many of those runs each schedule has.
    pub(super) repeats: u64,
    only: Vec<Measure>,
}

impl Sizes {
    pub(super) fn new(args: &BenchArgs) -> Sizes {
        let small = args.quick;
        let or = |given: &[u64], full: &[u64], quick: &[u64]| {
            let mut list = match (given.is_empty(), small) {
                (false, _) => given.to_vec(),
                (true, false) => full.to_vec(),
                (true, true) => quick.to_vec(),
            };
            list.sort_unstable();
            list.dedup();
            list
        };
        let seconds =
            |full: f64, quick: f64| Duration::from_secs_f64(if small { quick } else { full });
        Sizes {
            pending: or(&args.pending, &[0, 10_000, 100_000, 1_000_000], &[0, 1_000]),
            rates: or(&args.rate, &[500, 2_000, 5_000], &[200]),
            kept_up: seconds(10.0, 0.5),
            fires: if small { 500 } else { 50_000 },
            chains: if small { 10 } else { 1_000 },
            worked: if small { 200 } else { 20_000 },
            published: if small { 2_000 } else { 200_000 },
            consumed: if small { 64 } else { 6_400 },
            waiting: if small { 500 } else { 100_000 },
            batch: if small { 500 } else { 10_000 },
            queries: if small { 20 } else { 300 },
            watched: seconds(5.0, 0.3),
            limits: seconds(1.0, 0.1),
            repeats: if small { 10 } else { 100 },
            grown: if small { 2_000 } else { args.grown },
            only: args.only.clone(),
        }
    }

    pub(super) fn wants(&self, measure: Measure) -> bool {
        self.only.is_empty() || self.only.contains(&measure)
    }

    /// The largest number of pending schedules.
    pub(super) fn most(&self) -> u64 {
        self.pending.last().copied().unwrap_or(0)
    }

    /// How many schedules are pending when lateness is measured: the largest level up to the usual
    /// one, or else the first.
    pub(super) fn beside_lateness(&self) -> u64 {
        let fitting = self.pending.iter().rev().find(|level| **level <= BESIDE_LATENESS);
        fitting.or(self.pending.first()).copied().unwrap_or(0)
    }
}
