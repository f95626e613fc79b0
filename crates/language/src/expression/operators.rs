//! Compares, calculates and tests values.

use std::cmp::Ordering;
use std::ops::Range;

use minijinja::machinery::ast::BinOpKind;
use serde_json::{Number, Value};

use super::fault::Fault;
use super::print::kind;

/// The tests that `is` knows.
const TESTS: [&str; 12] = [
    "defined",
    "undefined",
    "none",
    "true",
    "false",
    "boolean",
    "number",
    "integer",
    "float",
    "string",
    "sequence",
    "mapping",
];

/// Whether a value holds as a condition.
pub(super) fn is_true(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(value) => *value,
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(map) => !map.is_empty(),
    }
}

/// A literal as JSON.
pub(super) fn constant(value: &minijinja::Value, place: Range<usize>) -> Result<Value, Fault> {
    serde_json::to_value(value)
        .map_err(|_| Fault::new("number", place, "a number of more than 64 bits"))
}

/// Whether two values are equal. Numbers compare by value, so `1` equals `1.0`.
pub(super) fn equal(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => number_order(left, right).is_eq(),
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len() && left.iter().zip(right).all(|(l, r)| equal(l, r))
        }
        (Value::Object(left), Value::Object(right)) => {
            let same = |(key, value)| right.get(key).is_some_and(|other| equal(value, other));
            left.len() == right.len() && left.iter().all(same)
        }
        _ => left == right,
    }
}

/// The order of two values. Only numbers and texts have one.
pub(super) fn order(left: &Value, right: &Value, place: Range<usize>) -> Result<Ordering, Fault> {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => Ok(number_order(left, right)),
        (Value::String(left), Value::String(right)) => Ok(left.cmp(right)),
        _ => Err(mismatch("compared", left, right, place)),
    }
}

fn number_order(left: &Number, right: &Number) -> Ordering {
    match (whole(left), whole(right)) {
        (Some(left), Some(right)) => left.cmp(&right),
        _ => decimal(left).total_cmp(&decimal(right)),
    }
}

fn whole(number: &Number) -> Option<i128> {
    number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from))
}

/// The number as a float, with minus zero as zero.
fn decimal(number: &Number) -> f64 {
    number.as_f64().unwrap_or(f64::NAN) + 0.0
}

/// Whether a list has an item, a text a substring, a mapping a key.
pub(super) fn contains(whole: &Value, part: &Value, place: Range<usize>) -> Result<bool, Fault> {
    match (whole, part) {
        (Value::Array(items), _) => Ok(items.iter().any(|item| equal(item, part))),
        (Value::String(whole), Value::String(part)) => Ok(whole.contains(part.as_str())),
        (Value::Object(map), Value::String(key)) => Ok(map.contains_key(key)),
        _ => Err(mismatch("asked for in the other", part, whole, place)),
    }
}

pub(super) fn negated(value: &Value, place: Range<usize>) -> Result<Value, Fault> {
    arithmetic(BinOpKind::Sub, &Value::from(0), value, place)
}

/// `+ - * / // % **` of numbers. Whole numbers stay whole, except with `/`.
pub(super) fn arithmetic(
    op: BinOpKind,
    left: &Value,
    right: &Value,
    place: Range<usize>,
) -> Result<Value, Fault> {
    let (Value::Number(l), Value::Number(r)) = (left, right) else {
        let fault = mismatch("calculated with", left, right, place);
        return Err(if left.is_string() || right.is_string() {
            fault.suggest("~ to join texts")
        } else {
            fault
        });
    };
    let by_zero = decimal(r) == 0.0;
    if by_zero && matches!(op, BinOpKind::Div | BinOpKind::FloorDiv | BinOpKind::Rem) {
        return Err(Fault::new("number", place, "a division by zero"));
    }
    let number = match (whole(l), whole(r)) {
        (Some(l), Some(r)) if !matches!(op, BinOpKind::Div) => whole_result(op, l, r),
        _ => decimal_result(op, decimal(l), decimal(r)),
    };
    let number = number.ok_or_else(|| Fault::new("number", place, "the result is no number"))?;
    Ok(Value::Number(number))
}

fn whole_result(op: BinOpKind, left: i128, right: i128) -> Option<Number> {
    let result = match op {
        BinOpKind::Add => left.checked_add(right),
        BinOpKind::Sub => left.checked_sub(right),
        BinOpKind::Mul => left.checked_mul(right),
        BinOpKind::FloorDiv => Some(left.checked_div_euclid(right)?).map(|quotient| {
            // Rounded down, also for a negative divisor.
            let remainder = left - quotient * right;
            if right < 0 && remainder != 0 { quotient - 1 } else { quotient }
        }),
        BinOpKind::Rem => {
            let remainder = left.checked_rem(right)?;
            let across = remainder != 0 && (remainder < 0) != (right < 0);
            Some(if across { remainder + right } else { remainder })
        }
        BinOpKind::Pow if right < 0 => return decimal_result(op, left as f64, right as f64),
        BinOpKind::Pow => u32::try_from(right).ok().and_then(|right| left.checked_pow(right)),
        _ => None,
    }?;
    let small = i64::try_from(result).map(Number::from).ok();
    small.or_else(|| u64::try_from(result).map(Number::from).ok())
}

fn decimal_result(op: BinOpKind, left: f64, right: f64) -> Option<Number> {
    Number::from_f64(match op {
        BinOpKind::Add => left + right,
        BinOpKind::Sub => left - right,
        BinOpKind::Mul => left * right,
        BinOpKind::Div => left / right,
        BinOpKind::FloorDiv => (left / right).floor(),
        BinOpKind::Rem => left - right * (left / right).floor(),
        BinOpKind::Pow => left.powf(right),
        _ => return None,
    })
}

/// Checks that the test exists. No test takes an argument.
pub(super) fn check_test(name: &str, values: usize, place: Range<usize>) -> Result<(), Fault> {
    if !TESTS.contains(&name) {
        let message = format!("unknown test {}", crate::definition::cut(name));
        return Err(Fault::new("test", place, message)
            .allow(TESTS.join(", "))
            .did_you_mean(name, TESTS));
    }
    if values > 0 {
        return Err(Fault::new("test", place, format!("is {name} takes no value")));
    }
    Ok(())
}

/// Whether a value passes the test `name`; `None` is an undefined value.
pub(super) fn test(name: &str, value: Option<&Value>, place: Range<usize>) -> Result<bool, Fault> {
    let value = match (name, value) {
        ("defined", value) => return Ok(value.is_some()),
        ("undefined", value) => return Ok(value.is_none()),
        (_, None) => return Err(Fault::new("undefined", place, "it is not defined")),
        (_, Some(value)) => value,
    };
    Ok(match name {
        "none" => value.is_null(),
        "true" => *value == Value::Bool(true),
        "false" => *value == Value::Bool(false),
        "boolean" => value.is_boolean(),
        "number" => value.is_number(),
        "integer" => value.is_i64() || value.is_u64(),
        "float" => value.is_f64(),
        "string" => value.is_string(),
        "sequence" => value.is_array(),
        "mapping" => value.is_object(),
        _ => return check_test(name, 0, place).map(|()| false),
    })
}

fn mismatch(done: &str, left: &Value, right: &Value, place: Range<usize>) -> Fault {
    let message = format!("{} and {} cannot be {done}", kind(left), kind(right));
    Fault::new("type", place, message)
}

/// Reads a finite decimal number in the usual form.
pub(super) fn read_decimal(written: &str) -> Option<Number> {
    let usual = |c: char| c.is_ascii_digit() || matches!(c, '.' | '-' | '+' | 'e' | 'E');
    let written = written.trim();
    let value: f64 = written.chars().all(usual).then(|| written.parse().ok()).flatten()?;
    Number::from_f64(value)
}
