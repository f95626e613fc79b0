//! How much of everything is measured.

use std::time::Duration;

use crate::args::{BenchArgs, Measure};

/// Lateness is measured beside so many pending schedules.
const BESIDE_LATENESS: u64 = 100_000;

/// The numbers of one go.
#[derive(Debug)]
pub(super) struct Sizes {
    /// Schedules far in the future, ascending.
    pub(super) pending: Vec<u64>,
    /// Due per second.
    pub(super) rates: Vec<u64>,
    /// How long each rate is kept up.
    pub(super) kept_up: Duration,
    /// Due at one instant.
    pub(super) fires: u64,
    /// Chains of steps side by side.
    pub(super) chains: u64,
    /// Runs that wait for a time.
    pub(super) waiting: u64,
    /// Attempts that workers do over HTTP.
    pub(super) worked: u64,
    /// Events that are published.
    pub(super) published: u64,
    /// Runs of consumers.
    pub(super) consumed: u64,
    /// Schedules in one transaction.
    pub(super) batch: u64,
    /// Queries of each kind.
    pub(super) queries: u32,
    /// How long a node is watched that has nothing to do.
    pub(super) watched: Duration,
    /// How long each raw limit is measured.
    pub(super) limits: Duration,
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
            only: args.only.clone(),
        }
    }

    pub(super) fn wants(&self, measure: Measure) -> bool {
        self.only.is_empty() || self.only.contains(&measure)
    }

    /// The most schedules that wait.
    pub(super) fn most(&self) -> u64 {
        self.pending.last().copied().unwrap_or(0)
    }

    /// Beside how many lateness is measured: the largest level up to the usual one, or else the first.
    pub(super) fn beside_lateness(&self) -> u64 {
        let fitting = self.pending.iter().rev().find(|level| **level <= BESIDE_LATENESS);
        fitting.or(self.pending.first()).copied().unwrap_or(0)
    }
}
