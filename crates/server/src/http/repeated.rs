//! Refuses JSON objects with a repeated key. Parsers differ over which one counts, so one parser
//! could check what another one does not see.

use std::collections::HashSet;

use super::problem::{Problem, Wrong};

/// The nesting at a position in the text, innermost last. Its depth is checked before.
enum Level {
    Object { keys: HashSet<String>, key: String, awaits_key: bool },
    List { index: usize },
}

/// Refuses JSON in which an object has a key twice, and names the position. Text that is not JSON
/// is refused elsewhere.
pub(super) fn refuse(text: &str) -> Result<(), Problem> {
    let Some((at, path)) = find(text) else { return Ok(()) };
    let before = &text[..at];
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    let mut wrong = Wrong::new(path, "duplicate", "is given twice").suggest("remove one of them");
    (wrong.line, wrong.column) = (Some(line), Some(column));
    Err(Problem::invalid([wrong]))
}

/// Where the second occurrence begins, and its path.
fn find(text: &str) -> Option<(usize, String)> {
    let bytes = text.as_bytes();
    let mut levels: Vec<Level> = Vec::new();
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'{' => levels.push(Level::Object {
                keys: HashSet::new(),
                key: String::new(),
                awaits_key: true,
            }),
            b'[' => levels.push(Level::List { index: 0 }),
            b'}' | b']' => drop(levels.pop()),
            b',' => match levels.last_mut() {
                Some(Level::Object { awaits_key, .. }) => *awaits_key = true,
                Some(Level::List { index }) => *index += 1,
                None => {}
            },
            b'"' => {
                let end = end_of_text(bytes, at)?;
                if let Some(Level::Object { keys, key, awaits_key }) = levels.last_mut()
                    && std::mem::take(awaits_key)
                {
                    // The same key may be escaped in several ways.
                    *key = serde_json::from_str(&text[at..end]).ok()?;
                    if !keys.insert(key.clone()) {
                        return Some((at, path(&levels)));
                    }
                }
                at = end;
                continue;
            }
            _ => {}
        }
        at += 1;
    }
    None
}

/// The position after the quote that ends the string which begins here.
fn end_of_text(bytes: &[u8], begin: usize) -> Option<usize> {
    let mut at = begin + 1;
    loop {
        match bytes.get(at)? {
            b'\\' => at += 2,
            b'"' => return Some(at + 1),
            _ => at += 1,
        }
    }
}

fn path(levels: &[Level]) -> String {
    let mut path = String::new();
    for level in levels {
        match level {
            Level::Object { key, .. } if path.is_empty() => path.push_str(key),
            Level::Object { key, .. } => path.push_str(&format!(".{key}")),
            Level::List { index } => path.push_str(&format!("[{index}]")),
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_is_given_twice_is_found_with_its_path() {
        for (text, expected) in [
            (r#"{"a": 1, "a": 2}"#, Some("a")),
            (r#"{"a": 1, "\u0061": 2}"#, Some("a")),
            (r#"{"a": {"b": [{}, {"c": 1, "d": "c", "c": 2}]}}"#, Some("a.b[1].c")),
            (r#"[{"x": 1}, {"x": 1, "x": 1}]"#, Some("[1].x")),
            (r#"{"": 1, "": 2}"#, Some("")),
            (r#"{"a": "a", "b": ["a", "a"], "c": {"a": 1}}"#, None),
            (r#"{"a": "\"a\": {\"a\"", "A": 2}"#, None),
            (r#"[{"a": 1}, {"a": 1}]"#, None),
            ("", None),
            (r#"{"a": 1, "a"#, None),
            ("}}]],,", None),
            (r#"{"a\"#, None),
        ] {
            assert_eq!(find(text).map(|(_, path)| path).as_deref(), expected, "{text}");
        }
    }
}
