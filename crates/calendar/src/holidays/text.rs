//! Parses the rule file of a country.
//!
//! A file starts with the `country` line and its `subdivision` lines (code, name and other codes,
//! separated by `|`). Sections follow, each with the regions it applies to: a section without
//! regions applies to the whole country with all subdivisions, `[BW, BY]` to these subdivisions,
//! and `[not BW]` to all but these, where `country` stands for the country itself without a
//! subdivision. In a section, `name: rule; rule` is a holiday, `working: rule` lists make-up
//! working days, and `years 2010..2050` says that not all days are known outside of these years. An
//! indented line continues the one above; `#` starts a comment. For the syntax of rules, see
//! [`rules`](super::rules).

use std::borrow::Cow;
use std::ops::RangeInclusive;

use super::rules::Rule;

/// The name of the country itself, without a subdivision, in a section's regions.
const WHOLE_COUNTRY: &str = "country";

/// A logical line of a rule file.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line<'a> {
    Country { code: &'a str, name: &'a str },
    Subdivision(Subdivision<'a>),
    Section(Regions<'a>),
    Years(RangeInclusive<i16>),
    Working(Vec<Rule>),
    Holiday { name: &'a str, rules: Vec<Rule> },
}

/// A subdivision of a country with its own holidays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Subdivision<'a> {
    pub(super) code: &'a str,
    pub(super) name: &'a str,
    other_codes: &'a str,
}

impl Subdivision<'_> {
    pub(super) fn is_called(&self, code: &str) -> bool {
        self.code.eq_ignore_ascii_case(code)
    }

    pub(super) fn is_also_called(&self, code: &str) -> bool {
        self.other_codes.split_ascii_whitespace().any(|other| other.eq_ignore_ascii_case(code))
    }
}

/// The regions that a section applies to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Regions<'a> {
    Only(Vec<&'a str>),
    AllBut(Vec<&'a str>),
}

impl Regions<'_> {
    /// Whether the section applies to this subdivision, or to the country itself if there is none.
    pub(super) fn include(&self, subdivision: Option<&str>) -> bool {
        let region = subdivision.unwrap_or(WHOLE_COUNTRY);
        match self {
            Regions::Only(codes) => codes.contains(&region),
            Regions::AllBut(codes) => !codes.contains(&region),
        }
    }
}

/// The lines of a rule file without comments and empty lines; indented lines are joined to the one
/// above.
pub(super) fn logical_lines(text: &str) -> impl Iterator<Item = Cow<'_, str>> {
    let mut lines = text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#'));
    let mut ahead = lines.next();
    std::iter::from_fn(move || {
        let mut line = Cow::Borrowed(ahead.take()?);
        for next in lines.by_ref() {
            if !next.starts_with(' ') {
                ahead = Some(next);
                break;
            }
            let joined = line.to_mut();
            joined.push(' ');
            joined.push_str(next.trim_start());
        }
        Some(line)
    })
}

/// The subdivisions listed in a rule file.
pub(super) fn subdivisions(text: &str) -> impl Iterator<Item = Subdivision<'_>> {
    text.lines().filter_map(|line| line.strip_prefix("subdivision ").and_then(subdivision))
}

/// The name of the country of a rule file.
pub(super) fn country_name(text: &str) -> Option<&str> {
    text.lines().find_map(|line| Some(line.strip_prefix("country ")?.split_once(" | ")?.1))
}

/// Parses one logical line; `None` if it does not belong to the rule language.
pub(super) fn read(line: &str) -> Option<Line<'_>> {
    if let Some(country) = line.strip_prefix("country ") {
        let (code, name) = country.split_once(" | ")?;
        return Some(Line::Country { code, name });
    }
    if let Some(text) = line.strip_prefix("subdivision ") {
        return subdivision(text).map(Line::Subdivision);
    }
    if let Some(years) = line.strip_prefix("years ") {
        let (first, last) = years.split_once("..")?;
        return Some(Line::Years(first.parse().ok()?..=last.parse().ok()?));
    }
    if let Some(title) = line.strip_prefix('[') {
        return title.strip_suffix(']').map(regions).map(Line::Section);
    }
    // Names may contain a colon, rules do not.
    let (name, rules) = line.rsplit_once(": ")?;
    let rules = rules.split("; ").map(str::parse).collect::<Result<_, _>>().ok()?;
    Some(if name == "working" { Line::Working(rules) } else { Line::Holiday { name, rules } })
}

fn subdivision(text: &str) -> Option<Subdivision<'_>> {
    let (code, rest) = text.split_once(" | ")?;
    let (name, other_codes) = rest.split_once(" | ").unwrap_or((rest, ""));
    Some(Subdivision { code, name, other_codes })
}

fn regions(title: &str) -> Regions<'_> {
    match title.strip_prefix("not ") {
        Some(codes) => Regions::AllBut(codes.split(", ").collect()),
        None => Regions::Only(title.split(", ").collect()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indented_lines_continue_the_one_above() {
        let text = "# note\n\nA: 01-01;\n    02-01;\n  03-01\nB: 04-01\n";
        let lines: Vec<_> = logical_lines(text).collect();
        assert_eq!(lines, ["A: 01-01; 02-01; 03-01", "B: 04-01"]);
        assert_eq!(logical_lines("").count(), 0);
    }

    #[test]
    fn sections_name_the_regions_they_are_for() {
        for (title, subdivision, expected) in [
            ("[BW, BY]", Some("BY"), true),
            ("[BW, BY]", Some("BE"), false),
            ("[BW, BY]", None, false),
            ("[not BW, BY]", Some("BY"), false),
            ("[not BW, BY]", None, true),
            ("[not country]", None, false),
            ("[BE, country]", None, true),
            ("[Stadt Zurich, ZH]", Some("Stadt Zurich"), true),
        ] {
            let Some(Line::Section(regions)) = read(title) else { panic!("{title}") };
            assert_eq!(regions.include(subdivision), expected, "{title} {subdivision:?}");
        }
    }

    #[test]
    fn holidays_have_a_name_and_rules() {
        let Some(Line::Holiday { name, rules }) = read("Day: of days: 01-01; easter+1 to 2020")
        else {
            panic!("not read as a holiday")
        };
        assert_eq!((name, rules.len()), ("Day: of days", 2));
        assert!(matches!(read("working: 2026-01-04"), Some(Line::Working(_))));
        assert_eq!(read("years 2010..2035"), Some(Line::Years(2010..=2035)));
    }

    #[test]
    fn other_lines_mean_nothing() {
        for line in ["", "Day", "Day: tomorrow", "[BW", "years 2010", "country DE", "Day: 01-01;"] {
            assert_eq!(read(line), None, "{line:?}");
        }
    }
}
