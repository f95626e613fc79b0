//! Query parameters: each has one value, every value is checked, and a parameter that the route
//! never asks for is refused.

use std::str::FromStr;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use calendar::nearest;
use jiff::Timestamp;
use store::Cursor;
use url::form_urlencoded;

use super::cursor;
use super::problem::{Problem, Wrong};

/// The default number of items on a page.
pub const DEFAULT_LIMIT: usize = 50;
/// The largest number of items on a page.
pub const LARGEST_LIMIT: usize = 1_000;

/// The query parameters of a route.
pub trait Parameters: Sized {
    /// Asks for every parameter that the route has. Errors are collected in `values`.
    fn read(values: &mut Values) -> Self;
}

/// The query of a request, read as `T`. Unknown or wrong parameters are refused.
#[derive(Clone, Copy, Debug)]
pub struct Query<T>(pub T);

impl<S: Sync, T: Parameters> FromRequestParts<S> for Query<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Query<T>, Problem> {
        let mut values = Values::parse(parts.uri.query().unwrap_or_default());
        let read = T::read(&mut values);
        let wrong = values.finish();
        if wrong.is_empty() { Ok(Query(read)) } else { Err(Problem::bad_query(wrong)) }
    }
}

/// A route without parameters.
impl Parameters for () {
    fn read(_: &mut Values) {}
}

/// Where a page begins and how long it is: `limit` and `cursor`.
#[derive(Clone, Debug)]
pub struct Paging {
    /// How many items at most.
    pub limit: usize,
    /// The cursor after which the page begins.
    pub after: Option<Cursor>,
}

/// The values that nobody asked for yet, the names asked for, and the errors found so far.
#[derive(Debug)]
pub struct Values {
    given: Vec<(String, String)>,
    known: Vec<&'static str>,
    wrong: Vec<Wrong>,
}

impl Values {
    fn parse(query: &str) -> Values {
        let given = form_urlencoded::parse(query.as_bytes()).into_owned().collect();
        Values { given, known: Vec::new(), wrong: Vec::new() }
    }

    /// All errors. Parameters that nobody asked for come first.
    fn finish(self) -> Vec<Wrong> {
        let Values { given, known, wrong } = self;
        given.iter().map(|(name, _)| unknown(name, &known)).chain(wrong).collect()
    }

    /// Records that a value is wrong.
    pub fn refuse(&mut self, name: &str, code: &str, message: &str, allowed: Option<&str>) {
        let mut wrong = Wrong::new(name, code, message);
        wrong.allowed = allowed.map(str::to_owned);
        self.wrong.push(wrong);
    }

    /// The value as it was given; `None` if it is empty.
    pub fn text(&mut self, name: &'static str) -> Option<String> {
        if !self.known.contains(&name) {
            self.known.push(name);
        }
        let mut values = self.given.extract_if(.., |(given, _)| given == name);
        let value = values.next().map(|(_, value)| value);
        if values.count() > 0 {
            self.refuse(name, "twice", "is given twice", None);
        }
        if value.as_ref().is_some_and(|value| value.contains('\u{fffd}')) {
            self.refuse(name, "encoding", "is not UTF-8", None);
            return None;
        }
        value.filter(|value| !value.is_empty())
    }

    /// The value read as `T`; `allowed` describes valid values.
    pub fn parsed<T: FromStr>(&mut self, name: &'static str, allowed: &str) -> Option<T> {
        let value = self.text(name)?;
        let parsed = value.parse().ok();
        if parsed.is_none() {
            self.refuse(name, "value", "cannot be read", Some(allowed));
        }
        parsed
    }

    /// A whole number in the range.
    pub fn number(
        &mut self,
        name: &'static str,
        range: std::ops::RangeInclusive<u64>,
    ) -> Option<u64> {
        let allowed = format!("{} to {}", range.start(), range.end());
        let number = self.parsed(name, &allowed)?;
        if !range.contains(&number) {
            self.refuse(name, "range", "is out of range", Some(&allowed));
        }
        Some(number)
    }

    /// One of `all`, by its name.
    pub fn one_of<T: Copy>(
        &mut self,
        name: &'static str,
        all: &[T],
        name_of: impl Fn(T) -> &'static str,
    ) -> Option<T> {
        let value = self.text(name)?;
        let found = all.iter().copied().find(|item| name_of(*item) == value);
        if found.is_none() {
            let names: Vec<&str> = all.iter().map(|item| name_of(*item)).collect();
            self.refuse(name, "value", "is none of the allowed values", Some(&names.join(", ")));
        }
        found
    }

    /// Several of `all`, by their names, separated by commas.
    pub fn several_of<T: Copy>(
        &mut self,
        name: &'static str,
        all: &[T],
        name_of: impl Fn(T) -> &'static str,
    ) -> Vec<T> {
        let Some(value) = self.text(name) else { return Vec::new() };
        let mut found = Vec::new();
        for part in value.split(',') {
            match all.iter().copied().find(|item| name_of(*item) == part.trim()) {
                Some(item) => found.push(item),
                None => {
                    let names: Vec<&str> = all.iter().map(|item| name_of(*item)).collect();
                    let message = "holds something else than the allowed values";
                    self.refuse(name, "value", message, Some(&names.join(", ")));
                    return found;
                }
            }
        }
        found
    }

    /// The value read as `T`; it must be given.
    pub fn required<T: FromStr>(&mut self, name: &'static str, allowed: &str) -> Option<T> {
        let errors = self.wrong.len();
        let value = self.parsed(name, allowed);
        if value.is_none() && self.wrong.len() == errors {
            self.refuse(name, "missing", "is missing", Some(allowed));
        }
        value
    }

    /// `true` or `false`; `false` if it is not given.
    pub fn flag(&mut self, name: &'static str) -> bool {
        self.choice_flag(name).unwrap_or(false)
    }

    /// `true`, `false`, or neither if it is left out.
    pub fn choice_flag(&mut self, name: &'static str) -> Option<bool> {
        self.parsed(name, "true, false")
    }

    /// An instant, RFC 3339 with an offset.
    pub fn instant(&mut self, name: &'static str) -> Option<Timestamp> {
        self.parsed(name, "a time such as 2026-03-08T09:00:00+01:00 (in a URL, + is %2B)")
    }

    /// The paging parameters `limit` and `cursor`.
    pub fn paging(&mut self) -> Paging {
        let limit = self.number("limit", 1..=LARGEST_LIMIT as u64);
        let cursor = self.text("cursor");
        let after = cursor.as_deref().and_then(cursor::read);
        if cursor.is_some() && after.is_none() {
            self.refuse("cursor", "value", "is not one that was given here", None);
        }
        Paging { limit: limit.map_or(DEFAULT_LIMIT, |limit| limit as usize), after }
    }
}

fn unknown(name: &str, known: &[&str]) -> Wrong {
    let shown: String = name.chars().take(60).collect();
    let mut wrong = Wrong::new(shown, "unknown-parameter", "unknown query parameter");
    if let Some(close) = nearest(name, known.iter().copied()).first() {
        wrong.message = format!("unknown query parameter, did you mean {close}?");
    }
    if known.is_empty() { wrong } else { wrong.allow(known.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(query: &str) -> Vec<String> {
        let mut values = Values::parse(query);
        values.paging();
        values.one_of("status", &["on", "off"], |name| name);
        values.instant("at");
        values.flag("flag");
        values.finish().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn what_is_wrong_is_named() {
        let given_twice = "limit: is given twice";
        for (query, expected) in [
            ("", ""),
            ("limit=1&cursor=&status=on&flag=true", ""),
            ("limit=0", "limit: is out of range; allowed: 1 to 1000"),
            ("limit=-1", "limit: cannot be read; allowed: 1 to 1000"),
            ("limit=5&limit=6", given_twice),
            ("status=onn", "status: is none of the allowed values; allowed: on, off"),
            ("cursor=5", "cursor: is not one that was given here"),
            ("flag=1", "flag: cannot be read; allowed: true, false"),
        ] {
            assert_eq!(wrong(query).join("\n"), expected, "{query}");
        }
        assert!(wrong("limt=5")[0].contains("did you mean limit?"));
        assert!(wrong("at=2026-03-08T09:00:00")[0].contains("%2B"));
    }
}
