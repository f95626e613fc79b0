//! Values whose form another crate defines: turns serde's errors into flaws.

use calendar::{Mistake, Problem, nearest, without_type_names};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::definition::text::cut;

/// Reads a mapping key by key, so that one malformed value does not hide another. The value made of
/// the valid keys is returned in any case.
pub(crate) fn read<T: DeserializeOwned + Default>(
    map: &Map<String, Value>,
    keys: &[&str],
    others: &[&str],
    mistakes: &mut Vec<Mistake>,
) -> T {
    let mut good = Map::new();
    for (key, value) in map {
        if !keys.contains(&key.as_str()) {
            mistakes.push(unknown_key(key, keys.iter().chain(others).copied()));
            continue;
        }
        let before = mistakes.len();
        for (path, part, alone) in parts(key, value) {
            if let Err(error) = serde_json::from_value::<T>(Value::Object(alone)) {
                mistakes.push(mistake(&path, part, &error.to_string()));
            }
        }
        if mistakes.len() == before {
            good.insert(key.clone(), value.clone());
        }
    }
    serde_json::from_value(Value::Object(good)).unwrap_or_default()
}

/// A mapping with only this key; for a list, one for each of its items. Each with its path.
fn parts<'v>(key: &str, value: &'v Value) -> Vec<(String, &'v Value, Map<String, Value>)> {
    let only = |value: Value| Map::from_iter([(key.to_owned(), value)]);
    match value {
        Value::Array(items) if !items.is_empty() => {
            let item = |(at, item): (usize, &'v Value)| {
                (format!("{key}[{at}]"), item, only(Value::Array(vec![item.clone()])))
            };
            items.iter().enumerate().map(item).collect()
        }
        _ => vec![(key.to_owned(), value, only(value.clone()))],
    }
}

/// The mistake of an unknown key, with the nearest known one.
pub(crate) fn unknown_key<'a>(key: &str, known: impl Iterator<Item = &'a str>) -> Mistake {
    let known: Vec<&str> = known.collect();
    let short = cut(key);
    let problem = Problem::whole("unknown-key", "", format!("unknown key {short}"));
    let problem = match nearest(key, known.iter().copied()).first() {
        Some(close) => problem.suggest(*close),
        None => problem.allow(known.join(", ")),
    };
    Mistake::new(short, problem)
}

/// Turns serde's error message into a mistake for people.
pub(crate) fn mistake(path: &str, value: &Value, error: &str) -> Mistake {
    if let Some((name, known)) = named(error, "unknown field `") {
        let below = find_key(value, name).unwrap_or_default();
        let problem = Problem::whole("unknown-key", "", format!("unknown key {name}"));
        return Mistake::new(format!("{path}{below}"), suggest(problem, name, &known));
    }
    if let Some((name, known)) = named(error, "unknown variant `") {
        let below = find_text(value, name).unwrap_or_default();
        let problem = Problem::whole("choice", "", format!("{name} is not known here"));
        return Mistake::new(format!("{path}{below}"), suggest(problem, name, &known));
    }
    if let Some((name, _)) = named(error, "missing field `") {
        return Mistake::new(path, Problem::whole("missing", "", format!("{name} is missing")));
    }
    let message = match error
        .strip_prefix("invalid type: ")
        .and_then(|e| e.split_once(", expected "))
    {
        Some((found, expected)) => format!("expected {}, found {}", words(expected), words(found)),
        None => without_type_names(error),
    };
    Mistake::new(path, Problem::whole("type", "", message))
}

/// The name in back quotes after `prefix`, and the known names.
fn named<'e>(error: &'e str, prefix: &str) -> Option<(&'e str, Vec<&'e str>)> {
    let (name, rest) = error.strip_prefix(prefix)?.split_once('`')?;
    Some((name, rest.split('`').skip(1).step_by(2).collect()))
}

fn suggest(problem: Problem, name: &str, known: &[&str]) -> Problem {
    let problem = problem.allow(known.join(", "));
    match nearest(name, known.iter().copied()).first() {
        Some(close) => problem.suggest(*close),
        None => problem,
    }
}

/// The path to the first mapping below that has this key. The tree bounds the nesting.
fn find_key(value: &Value, key: &str) -> Option<String> {
    match value {
        Value::Object(map) if map.contains_key(key) => Some(format!(".{key}")),
        Value::Object(map) => {
            map.iter().find_map(|(name, below)| Some(format!(".{name}{}", find_key(below, key)?)))
        }
        Value::Array(items) => items
            .iter()
            .enumerate()
            .find_map(|(at, below)| Some(format!("[{at}]{}", find_key(below, key)?))),
        _ => None,
    }
}

/// The path to the first text below that is this one. The tree bounds the nesting.
fn find_text(value: &Value, text: &str) -> Option<String> {
    match value {
        Value::String(found) => (found == text).then(String::new),
        Value::Object(map) => {
            map.iter().find_map(|(name, below)| Some(format!(".{name}{}", find_text(below, text)?)))
        }
        Value::Array(items) => items
            .iter()
            .enumerate()
            .find_map(|(at, below)| Some(format!("[{at}]{}", find_text(below, text)?))),
        _ => None,
    }
}

/// Translates serde's type names.
fn words(serde: &str) -> String {
    let (kind, literal) = match serde.split_once(' ') {
        Some((kind, literal)) => (kind, literal.trim_matches(['`', '"'])),
        None => (serde, ""),
    };
    match (kind, literal) {
        ("a", "string") => "a text".to_owned(),
        ("a", "map") => "a mapping".to_owned(),
        ("a", "sequence") => "a list".to_owned(),
        ("a", "boolean") => "true or false".to_owned(),
        ("u64" | "u32", _) => "a whole number".to_owned(),
        ("string", text) => format!("the text {}", cut(text)),
        ("integer", number) => format!("the number {number}"),
        ("floating", number) => format!("the number {}", number.trim_start_matches("point `")),
        ("boolean", value) => value.to_owned(),
        ("sequence", _) => "a list".to_owned(),
        ("map", _) => "a mapping".to_owned(),
        ("null", _) | ("unit", _) => "nothing".to_owned(),
        ("struct", _) => "a mapping".to_owned(),
        _ => serde.to_owned(),
    }
}
