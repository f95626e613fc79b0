//! The error for an unknown region, with suggestions.

use std::fmt;

use super::countries::RULE_TEXTS;
use super::text;
use crate::problem::Problem;

/// The longest part of an unknown code that is shown to its author.
const LONGEST_CODE_SHOWN: usize = 40;

/// No holidays are known for this code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownRegion {
    /// The code as written, cut to a bounded length.
    pub code: String,
    /// Known codes that may have been meant, the most similar first.
    pub nearest: Vec<String>,
}

impl UnknownRegion {
    pub(super) fn outside_known_countries(code: &str) -> UnknownRegion {
        let codes = RULE_TEXTS.iter().map(|(country, _)| *country);
        let by_name = RULE_TEXTS.iter().find(|(_, rules)| {
            text::country_name(rules).is_some_and(|name| name.eq_ignore_ascii_case(code.trim()))
        });
        let nearest = match by_name {
            Some((country, _)) => vec![*country],
            None => crate::nearest(code, codes),
        };
        UnknownRegion { code: cut(code), nearest: nearest.into_iter().map(str::to_owned).collect() }
    }

    /// The error for an unknown subdivision of a known country.
    pub(super) fn within(country: &str, rules: &str, code: &str) -> UnknownRegion {
        let full_code = |known: text::Subdivision<'_>| format!("{country}-{}", known.code);
        let codes: Vec<String> = text::subdivisions(rules).map(full_code).collect();
        let meant = code.split_once('-').map_or("", |(_, subdivision)| subdivision.trim());
        let by_name =
            text::subdivisions(rules).find(|known| known.name.eq_ignore_ascii_case(meant));
        let nearest = match by_name {
            Some(known) => vec![full_code(known)],
            None => crate::nearest(meant, text::subdivisions(rules).map(|known| known.code))
                .into_iter()
                .map(|close| format!("{country}-{close}"))
                .collect(),
        };
        let nearest = if nearest.is_empty() {
            std::iter::once(country.to_owned()).chain(codes).collect()
        } else {
            nearest
        };
        UnknownRegion { code: cut(code), nearest }
    }
}

fn cut(code: &str) -> String {
    code.chars()
        .take(LONGEST_CODE_SHOWN)
        .map(|c| if c.is_control() { '\u{fffd}' } else { c })
        .collect()
}

impl fmt::Display for UnknownRegion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no holidays are known for the region \"{}\"; ", self.code)?;
        match self.nearest.as_slice() {
            [] => write!(f, "write a country like DE, or a subdivision of it like DE-BY"),
            nearest => write!(f, "try {}", nearest.join(", ")),
        }
    }
}

impl std::error::Error for UnknownRegion {}

impl From<UnknownRegion> for Problem {
    fn from(unknown: UnknownRegion) -> Problem {
        let message = "no such calendar or region";
        let problem = Problem::whole("calendar-unknown", &unknown.code, message);
        match unknown.nearest.as_slice() {
            [] => problem.allow("the id of a calendar, or a region such as US or DE-BY"),
            few @ ([_] | [_, _] | [_, _, _]) => problem.suggest(few.join(" or ")),
            many => problem.allow(many.join(", ")),
        }
    }
}
