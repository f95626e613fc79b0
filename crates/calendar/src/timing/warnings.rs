//! What someone should know about a rule before relying on it.

use std::fmt;

use jiff::{SignedDuration, Timestamp};

use super::Timing;
use crate::civil;
use crate::dst::{Fold, Gap, WallTimes};
use crate::english;
use crate::rule::{CronRule, Rule};

/// How far ahead changes of the clock are looked at.
const AHEAD: SignedDuration = SignedDuration::from_hours(2 * 366 * 24);

/// A remark that stops nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// A stable word for programs: `never`, `dst-gap`, `dst-fold`, `frequent`, `short-months`,
    /// `holidays-unknown`.
    pub code: &'static str,
    /// The remark.
    pub message: String,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Timing {
    /// Remarks about what happens after the instant.
    pub fn warnings(&self, from: Timestamp) -> Vec<Warning> {
        let mut warnings = Vec::new();
        let Some(first) = self.next_after(from) else {
            let message = match self.next_after(Timestamp::MIN) {
                Some(_) => "no further occurrence: all lie in the past".to_owned(),
                None => "never fires: no such time was found".to_owned(),
            };
            return vec![Warning { code: "never", message }];
        };
        let second = self.next_after(first.effective);
        if second.is_some_and(|second| {
            second.effective.duration_since(first.effective) < SignedDuration::from_mins(1)
        }) {
            let message = "fires more often than every minute".to_owned();
            warnings.push(Warning { code: "frequent", message });
        }
        self.rule.collect_warnings(from, &mut warnings);
        if let Some(calendar) = &self.calendar {
            let year = calendar.date_of(first.effective).year();
            for (region, known) in calendar.unknown_holidays(year) {
                let (from, to) = (known.start(), known.end());
                let message = format!("not all holidays of {region} are known outside {from}-{to}");
                warnings.push(Warning { code: "holidays-unknown", message });
            }
        }
        warnings
    }
}

impl Rule {
    fn collect_warnings(&self, from: Timestamp, warnings: &mut Vec<Warning>) {
        match self {
            Rule::Cron(rule) => {
                rule.clock_changes(from, warnings);
                rule.short_months(warnings);
            }
            Rule::Any(rules) => rules.iter().for_each(|rule| rule.collect_warnings(from, warnings)),
            _ => {}
        }
    }
}

impl CronRule {
    /// The next gap and the next fold that touch the rule's times.
    fn clock_changes(&self, from: Timestamp, warnings: &mut Vec<Warning>) {
        let until = from.checked_add(AHEAD).unwrap_or(Timestamp::MAX);
        let city = english::zone(&self.zone);
        let (mut gap_told, mut fold_told) = (self.cron.is_wildcard(), self.cron.is_wildcard());
        for change in self.zone.transitions(from, until) {
            let at = change.at.as_second();
            let (before, after) = (at + i64::from(change.before), at + i64::from(change.after));
            let (low, high) = (before.min(after), before.max(after));
            let Some(hit) = self.cron.at_or_after(low).filter(|hit| *hit < high) else { continue };
            let Some(date) = civil::date_from_day(civil::day_of(hit)) else { continue };
            let clock = english::clock(civil::second_of_day(hit));
            if after > before && !gap_told {
                gap_told = true;
                let then = match self.dst.gap {
                    Gap::Shift => {
                        let end = english::clock(civil::second_of_day(after));
                        format!("runs at {end}, the first instant after the gap")
                    }
                    Gap::Skip => "does not run then".to_owned(),
                };
                let message = format!("{clock} falls in a DST gap on {date} ({city}): {then}");
                warnings.push(Warning { code: "dst-gap", message });
            } else if after < before && !fold_told {
                fold_told = true;
                let then = match self.dst.fold {
                    Fold::First => "runs the first time only",
                    Fold::Last => "runs the second time only",
                    Fold::Both => "runs both times",
                };
                let message = format!("{clock} happens twice on {date} ({city}): {then}");
                warnings.push(Warning { code: "dst-fold", message });
            }
        }
    }

    fn short_months(&self, warnings: &mut Vec<Warning>) {
        if let Some(day) = self.cron.only_late_day() {
            let message = format!("months without a {} are skipped", english::ordinal(day));
            warnings.push(Warning { code: "short-months", message });
        }
    }
}
