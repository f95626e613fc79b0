//! A stretch of time, of the wall clock or of working hours.

use std::str::FromStr;

use calendar::Problem;
use jiff::SignedDuration;
use serde::{Deserialize, Serialize};

use super::duration;

/// `3h`, `16 working hours`, `2 working days`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stretch {
    /// By the wall clock.
    Elapsed(SignedDuration),
    /// Of working hours.
    Working(SignedDuration),
    /// Working days, each as long as the calendar says.
    WorkingDays(f64),
}

impl FromStr for Stretch {
    type Err = Problem;

    fn from_str(text: &str) -> Result<Stretch, Problem> {
        let mut words = text.split_whitespace();
        let (Some(number), Some("working"), Some(unit), None) =
            (words.next(), words.next(), words.next(), words.next())
        else {
            return duration::parse(text).map(Stretch::Elapsed);
        };
        let wrong = || {
            Problem::whole("duration", text, "no working time")
                .allow("a number of working days, working hours or working minutes")
                .suggest("2 working days")
        };
        let number: f64 = number.parse().map_err(|_| wrong())?;
        if !(0.0..=10_000.0).contains(&number) {
            return Err(wrong());
        }
        let seconds = |each: f64| SignedDuration::from_millis((number * each * 1_000.0) as i64);
        match unit {
            "day" | "days" => Ok(Stretch::WorkingDays(number)),
            "hour" | "hours" => Ok(Stretch::Working(seconds(3_600.0))),
            "minute" | "minutes" => Ok(Stretch::Working(seconds(60.0))),
            _ => Err(wrong()),
        }
    }
}
