//! Public holidays by country and subdivision.
//!
//! The rules are the text files in `data/holidays`, one per country, generated from a maintained
//! source by `tools/holidays/induce.py`. The language of the files is described in `text.rs` and
//! `rules.rs`. This module parses the rules of one region and returns the holidays of a year.

use std::fmt;
use std::ops::RangeInclusive;
use std::sync::Arc;

use jiff::civil::Date;

mod astronomy;
mod countries;
mod rules;
mod text;
mod unknown;

pub use unknown::UnknownRegion;

use countries::RULE_TEXTS;
use rules::Rule;
use text::Line;

/// A country, or one of its subdivisions, whose public holidays are known.
///
/// ```
/// use calendar::holidays::Region;
/// use jiff::civil::date;
///
/// let bavaria = Region::parse("DE-BY")?;
/// let holidays = bavaria.holidays(2026);
/// assert_eq!(bavaria.name(), "Germany, Bayern");
/// assert_eq!(holidays[1].date, date(2026, 1, 6));
/// assert_eq!(&*holidays[1].name, "Epiphany");
///
/// let unknown = Region::parse("DE-BX").unwrap_err();
/// assert_eq!(unknown.nearest, ["DE-BB", "DE-BE", "DE-BW"]);
/// # Ok::<(), calendar::holidays::UnknownRegion>(())
/// ```
#[derive(Clone)]
pub struct Region(Arc<Rules>);

/// The rules of one region, from the rule file of its country.
struct Rules {
    code: String,
    name: String,
    holidays: Vec<(Arc<str>, Rule)>,
    working_days: Vec<Rule>,
    known_years: Option<RangeInclusive<i16>>,
}

/// A public holiday, or a make-up working day for one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holiday {
    pub date: Date,
    /// English name. It contains `(estimated)` if the day is not yet confirmed.
    pub name: Arc<str>,
}

/// A country whose public holidays are known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Country {
    /// ISO 3166-1 code, such as `DE`.
    pub code: &'static str,
    pub name: &'static str,
    /// Subdivisions that may have other holidays than the country.
    pub subdivisions: Vec<Subdivision>,
}

/// A subdivision of a country whose public holidays are known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subdivision {
    /// The code for [`Region::parse`], mostly ISO 3166-2: `DE-BY`.
    pub code: String,
    /// The name in the language of the source, mostly the local one.
    pub name: &'static str,
}

impl Region {
    /// Finds a region by its code, in upper or lower case: `US`, `DE-BY`, `GB-SCT`.
    ///
    /// # Errors
    ///
    /// Fails if no such region is known; the error contains the most similar codes.
    pub fn parse(code: &str) -> Result<Region, UnknownRegion> {
        let (country, subdivision) = match code.trim().split_once('-') {
            Some((country, subdivision)) => (country, Some(subdivision)),
            None => (code.trim(), None),
        };
        let Some((country, text)) = rule_text(country) else {
            return Err(UnknownRegion::outside_known_countries(code));
        };
        let Some(wanted) = subdivision else { return Ok(Region::read(country, text, None)) };
        let by_code = text::subdivisions(text).find(|known| known.is_called(wanted));
        let by_other_code = || text::subdivisions(text).find(|known| known.is_also_called(wanted));
        match by_code.or_else(by_other_code) {
            Some(found) => Ok(Region::read(country, text, Some(found))),
            None => Err(UnknownRegion::within(country, text, code)),
        }
    }

    fn read(country: &str, text: &str, subdivision: Option<text::Subdivision<'_>>) -> Region {
        let country_name = text::country_name(text).unwrap_or(country);
        let (code, name) = match subdivision {
            Some(part) => {
                (format!("{country}-{}", part.code), format!("{country_name}, {}", part.name))
            }
            None => (country.to_owned(), country_name.to_owned()),
        };
        let mut rules =
            Rules { code, name, holidays: Vec::new(), working_days: Vec::new(), known_years: None };
        let mut concerned = true;
        for line in text::logical_lines(text) {
            match text::read(&line) {
                Some(Line::Section(regions)) => {
                    concerned = regions.include(subdivision.map(|part| part.code));
                }
                Some(line) if concerned => rules.add(line),
                _ => {}
            }
        }
        Region(Arc::new(rules))
    }

    /// The code in its canonical form, such as `DE-BY`.
    pub fn code(&self) -> &str {
        &self.0.code
    }

    /// The name for people, such as `Germany, Bayern`.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// The holidays of a year, sorted by date, with one entry per date. The names of several
    /// holidays on one date are joined with `; `.
    pub fn holidays(&self, year: i16) -> Vec<Holiday> {
        let mut found: Vec<(Date, &Arc<str>)> = Vec::new();
        for (name, rule) in &self.0.holidays {
            found.extend(rule.days_in(year).map(|day| (day, name)));
        }
        found.sort_unstable();
        found.dedup();
        found
            .chunk_by(|(day, _), (next, _)| day == next)
            .filter_map(|same_day| match same_day {
                [] => None,
                [(date, name)] => Some(Holiday { date: *date, name: Arc::clone(name) }),
                [(date, _), ..] => {
                    let names: Vec<&str> = same_day.iter().map(|(_, name)| &***name).collect();
                    Some(Holiday { date: *date, name: names.join("; ").into() })
                }
            })
            .collect()
    }

    /// The make-up working days of a year: weekend days on which people work for days off between
    /// holidays, as in China.
    pub fn working_days(&self, year: i16) -> Vec<Holiday> {
        let mut days: Vec<Date> =
            self.0.working_days.iter().flat_map(|rule| rule.days_in(year)).collect();
        days.sort_unstable();
        days.dedup();
        let name: Arc<str> = "Make-up working day".into();
        days.into_iter().map(|date| Holiday { date, name: Arc::clone(&name) }).collect()
    }

    /// The years in which all holidays are known. Outside of them, days that follow the moon or are
    /// announced each year may be missing. `None` if the rules of the region hold in any year.
    pub fn known_years(&self) -> Option<RangeInclusive<i16>> {
        self.0.known_years.clone()
    }

    /// All countries, sorted by code.
    pub fn countries() -> impl Iterator<Item = Country> {
        RULE_TEXTS.iter().map(|&(code, text)| Country {
            code,
            name: text::country_name(text).unwrap_or(code),
            subdivisions: text::subdivisions(text)
                .map(|part| Subdivision { code: format!("{code}-{}", part.code), name: part.name })
                .collect(),
        })
    }
}

impl Rules {
    fn add(&mut self, line: Line<'_>) {
        match line {
            Line::Holiday { name, rules } => {
                let name: Arc<str> = name.into();
                self.holidays.extend(rules.into_iter().map(|rule| (Arc::clone(&name), rule)));
            }
            Line::Working(rules) => self.working_days.extend(rules),
            Line::Years(years) => self.known_years = Some(years),
            Line::Country { .. } | Line::Subdivision(_) | Line::Section(_) => {}
        }
    }
}

impl fmt::Debug for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Region").field(&self.0.code).finish()
    }
}

fn rule_text(country: &str) -> Option<(&'static str, &'static str)> {
    let country = country.to_ascii_uppercase();
    // UK is reserved in ISO 3166 for the United Kingdom, and in common use.
    let country = if country == "UK" { "GB" } else { country.as_str() };
    let found = RULE_TEXTS.binary_search_by_key(&country, |(code, _)| *code).ok()?;
    Some(RULE_TEXTS[found])
}

#[cfg(test)]
mod tests;
