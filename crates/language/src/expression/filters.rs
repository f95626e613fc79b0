//! The filters. There are few, and none can allocate more than it is charged for beforehand.

use std::borrow::Cow;
use std::ops::Range;

use serde_json::{Number, Value};

use super::fault::Fault;
use super::operators::{is_true, read_decimal};
use super::print::{self, kind, text, weight};

/// The filters, each with its minimum and maximum number of arguments.
const FILTERS: [(&str, usize, usize); 14] = [
    ("default", 1, 2),
    ("first", 0, 0),
    ("float", 0, 0),
    ("int", 0, 0),
    ("join", 0, 1),
    ("last", 0, 0),
    ("length", 0, 0),
    ("lower", 0, 0),
    ("replace", 2, 2),
    ("round", 0, 1),
    ("string", 0, 0),
    ("tojson", 0, 0),
    ("trim", 0, 0),
    ("upper", 0, 0),
];

/// The names of all filters.
pub(super) fn names() -> Vec<&'static str> {
    FILTERS.iter().map(|(name, ..)| *name).collect()
}

/// Checks that the filter exists and takes this many arguments.
pub(super) fn check(name: &str, values: usize, place: Range<usize>) -> Result<(), Fault> {
    let Some((_, fewest, most)) = FILTERS.iter().find(|(known, ..)| *known == name) else {
        let message = format!("unknown filter {}", crate::definition::cut(name));
        return Err(Fault::new("filter", place, message)
            .allow(names().join(", "))
            .did_you_mean(name, names()));
    };
    if (*fewest..=*most).contains(&values) {
        return Ok(());
    }
    let takes = match (fewest, most) {
        (0, 0) => "no values".to_owned(),
        (fewest, most) if fewest == most => format!("{most} values"),
        (fewest, most) => format!("{fewest} to {most} values"),
    };
    Err(Fault::new("filter", place, format!("{name} takes {takes}, here it has {values}")))
}

/// Replaces a missing value; with `true` as second argument, an empty one too.
pub(super) fn default<'s>(
    value: Option<Cow<'s, Value>>,
    args: Vec<Cow<'s, Value>>,
    place: Range<usize>,
) -> Result<Cow<'s, Value>, Fault> {
    check("default", args.len(), place.clone())?;
    let mut args = args.into_iter();
    let other = args.next();
    let also_empty = args.next().is_some_and(|also| is_true(&also));
    let kept = value.filter(|value| !also_empty || is_true(value));
    kept.or(other).ok_or_else(|| Fault::new("filter", place, "default takes a value"))
}

/// The maximum number of bytes that a filter allocates.
pub(super) fn cost(name: &str, value: &Value, args: &[Cow<'_, Value>]) -> usize {
    let whole = weight(value);
    match (name, value, args) {
        ("length" | "int" | "float" | "round", ..) => 32,
        // Some letters are three times as long in the other case.
        ("lower" | "upper", ..) => whole.saturating_mul(3),
        ("tojson" | "string", ..) => print::length(value),
        ("join", Value::Array(items), [separator]) => {
            print::length(value).saturating_add(items.len().saturating_mul(weight(separator)))
        }
        ("replace", Value::String(whole), [from, to]) => match from.as_str() {
            Some(from) if !from.is_empty() => {
                let found = whole.matches(from).count();
                whole.len().saturating_add(found.saturating_mul(weight(to)))
            }
            _ => 0,
        },
        _ => whole,
    }
}

/// Applies a filter to a value.
pub(super) fn apply(
    name: &str,
    value: &Value,
    args: &[Cow<'_, Value>],
    place: Range<usize>,
) -> Result<Value, Fault> {
    check(name, args.len(), place.clone())?;
    let wrong = |wanted: &str| {
        let message = format!("{name} takes {wanted}, and here it is given {}", kind(value));
        Fault::new("type", place.clone(), message)
    };
    let written = || value.as_str().ok_or_else(|| wrong("a text"));
    Ok(match name {
        "lower" => Value::from(written()?.to_lowercase()),
        "upper" => Value::from(written()?.to_uppercase()),
        "trim" => Value::from(written()?.trim()),
        "string" => Value::from(text(value)),
        "tojson" => Value::from(value.to_string()),
        "length" => Value::from(length(value).ok_or_else(|| wrong("a text, list or mapping"))?),
        "first" | "last" => end(name, value).ok_or_else(|| wrong("a list that is not empty"))?,
        "join" => {
            let items = value.as_array().ok_or_else(|| wrong("a list"))?;
            let separator = args.first().map(|separator| text(separator)).unwrap_or_default();
            let items: Vec<String> = items.iter().map(text).collect();
            Value::from(items.join(&separator))
        }
        "replace" => {
            let (from, to) = (args[0].as_str(), args[1].as_str());
            match (from.filter(|from| !from.is_empty()), to) {
                (Some(from), Some(to)) => Value::from(written()?.replace(from, to)),
                _ => {
                    let message = "replace takes a text that is not empty, and another text";
                    return Err(Fault::new("type", place, message));
                }
            }
        }
        "int" => Value::Number(int(value).ok_or_else(|| wrong("a whole number"))?),
        "float" => Value::Number(float(value).ok_or_else(|| wrong("a number"))?),
        "round" => {
            let digits = args.first().map_or(Some(0), |digits| digits.as_i64());
            let digits = digits.filter(|digits| (0..=15).contains(digits));
            let digits = digits.ok_or_else(|| {
                Fault::new("type", place.clone(), "round takes a number of digits from 0 to 15")
            })?;
            Value::Number(round(value, digits as i32).ok_or_else(|| wrong("a number"))?)
        }
        _ => return Err(wrong("nothing")),
    })
}

fn length(value: &Value) -> Option<usize> {
    match value {
        Value::String(text) => Some(text.chars().count()),
        Value::Array(items) => Some(items.len()),
        Value::Object(map) => Some(map.len()),
        _ => None,
    }
}

fn end(name: &str, value: &Value) -> Option<Value> {
    match value {
        Value::Array(items) if name == "first" => items.first().cloned(),
        Value::Array(items) => items.last().cloned(),
        Value::String(text) => {
            let mut chars = text.chars();
            let found = if name == "first" { chars.next() } else { chars.next_back() };
            found.map(|c| Value::from(c.to_string()))
        }
        _ => None,
    }
}

/// Drops the fraction of a number. A text must be a whole number.
fn int(value: &Value) -> Option<Number> {
    match value {
        Value::Bool(value) => Some(Number::from(u8::from(*value))),
        Value::Number(number) if number.is_f64() => {
            let whole = number.as_f64()?.trunc();
            // Beyond this, a float does not distinguish neighbouring whole numbers.
            (whole.abs() <= 9_007_199_254_740_992.0).then(|| Number::from(whole as i64))
        }
        Value::Number(number) => Some(number.clone()),
        Value::String(text) => {
            let text = text.trim();
            let small = text.parse::<i64>().map(Number::from).ok();
            small.or_else(|| text.parse::<u64>().map(Number::from).ok())
        }
        _ => None,
    }
}

fn float(value: &Value) -> Option<Number> {
    match value {
        Value::Number(number) => Number::from_f64(number.as_f64()?),
        Value::String(text) => read_decimal(text),
        _ => None,
    }
}

/// Rounds a number. Whole numbers stay whole.
fn round(value: &Value, digits: i32) -> Option<Number> {
    let Value::Number(number) = value else { return None };
    if !number.is_f64() {
        return Some(number.clone());
    }
    let scale = 10_f64.powi(digits);
    let scaled = number.as_f64()? * scale;
    let rounded = if scaled.is_finite() { scaled.round() / scale } else { number.as_f64()? };
    Number::from_f64(rounded)
}
