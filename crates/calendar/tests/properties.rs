//! Compares the calendar crate with slow references: walks over every minute, written from the
//! meaning of the rules and with another zone implementation.
#![allow(clippy::unwrap_used, reason = "what a test cannot unwrap fails it")]

mod properties {
    mod bounded_work;
    mod cron_days;
    mod cron_expression;
    mod cron_walk;
    mod every_rule;
    mod nominal_to_effective;
    mod some_calendar;
    mod some_timing;
    mod traps;
    mod walked_clock;
    mod working_time;
    mod zone_tables;
    mod zone_update;

    use std::fmt::Debug;

    use proptest::test_runner::{Config, TestCaseError, TestCaseResult};

    fn cases(cases: u32) -> Config {
        let more = std::env::var("PROPERTY_FACTOR").ok().and_then(|n| n.parse().ok()).unwrap_or(1);
        Config {
            cases: cases * more,
            failure_persistence: None,
            max_shrink_iters: 300,
            ..Config::default()
        }
    }

    /// Fails at the first position where the lists differ.
    fn same<T: PartialEq + Debug>(what: &str, found: &[T], expected: &[T]) -> TestCaseResult {
        let length = found.len().max(expected.len());
        let different = (0..length).find(|&n| found.get(n) != expected.get(n));
        let Some(n) = different else { return Ok(()) };
        let (found, expected) = (found.get(n), expected.get(n));
        let message = format!("{what}, at {n}: found {found:?}, expected {expected:?}");
        Err(TestCaseError::fail(message))
    }

    fn at(text: &str) -> jiff::Timestamp {
        text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
    }
}
