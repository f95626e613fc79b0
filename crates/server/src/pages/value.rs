//! Values for people: indented JSON and plain text, cut where they are long.

use std::collections::BTreeMap;

use maud::{Markup, html};
use serde_json::Value;

use super::listing::grouped;

/// How many bytes of one value are shown.
const LONGEST: usize = 8 * 1024;
/// How many bytes of all values a page shows. The rest is behind links.
const ON_A_PAGE: usize = 40 * 1024;
/// In longer values, texts with several lines are not extracted.
const LOOKED_THROUGH: usize = 256 * 1024;

/// How many bytes of values a page may still show.
pub(super) struct Room {
    left: usize,
}

impl Room {
    /// The room of a whole page.
    pub(super) fn new() -> Room {
        Room { left: ON_A_PAGE }
    }

    fn take(&mut self) -> usize {
        self.left.min(LONGEST)
    }
}

/// A value in a collapsed section. `whole` is the address of the full value.
pub(super) fn folded(id: &str, title: &str, json: &str, whole: &str, room: &mut Room) -> Markup {
    let size = html! { span.muted.small { " " (bytes(json.len())) } };
    if room.take() < LONGEST.min(json.len()) {
        return html! { p.small { (title) ": " a href=(whole) { (bytes(json.len())) } } };
    }
    html! {
        details id=(id) {
            summary { (title) (size) }
            (open(json, whole, room))
        }
    }
}

/// A value with its multi-line texts shown as text.
pub(super) fn open(json: &str, whole: &str, room: &mut Room) -> Markup {
    let (texts, rest) = texts_in(json);
    html! {
        @for (name, text) in &texts {
            p.small.muted { (name) }
            (cut_text(text, whole, room))
        }
        @if let Some(rest) = rest { (cut_json(&rest, whole, room)) }
    }
}

fn cut_json(json: &str, whole: &str, room: &mut Room) -> Markup {
    let (text, is_whole) = indented(json, room.take());
    room.left = room.left.saturating_sub(text.len());
    html! { pre tabindex="0" { (text) } @if !is_whole { (more(text.len(), json.len(), whole)) } }
}

/// A text, as much of it as there is room for.
pub(super) fn cut_text(text: &str, whole: &str, room: &mut Room) -> Markup {
    let shown = visible(text, room.take());
    room.left = room.left.saturating_sub(shown.len());
    let is_whole = shown.chars().count() >= text.chars().count();
    html! { pre tabindex="0" { (shown) } @if !is_whole { (more(shown.len(), text.len(), whole)) } }
}

fn more(shown: usize, all: usize, whole: &str) -> Markup {
    html! {
        p.small.muted {
            "The first " (bytes(shown)) " of " (bytes(all)) ". " a href=(whole) { "All of it" }
        }
    }
}

/// A size in bytes, in words.
pub(super) fn bytes(count: usize) -> String {
    match count {
        0..1024 => format!("{count} B"),
        1024..1_048_576 => format!("{} KiB", grouped(count.div_ceil(1024) as u64)),
        _ => format!("{:.1} MiB", count as f64 / 1_048_576.0),
    }
}

/// The multi-line texts in an object, and the rest of it.
fn texts_in(json: &str) -> (Vec<(String, String)>, Option<String>) {
    let as_it_is = || (Vec::new(), Some(json.to_owned()));
    if json.len() > LOOKED_THROUGH || !json.contains("\\n") {
        return as_it_is();
    }
    let Ok(mut members) = serde_json::from_str::<BTreeMap<String, Value>>(json) else {
        return as_it_is();
    };
    let is_text = |value: &Value| value.as_str().is_some_and(|text| text.contains('\n'));
    let mut texts = Vec::new();
    members.retain(|name, value| {
        let Some(text) = value.as_str().filter(|_| is_text(value)) else { return true };
        texts.push((name.clone(), text.to_owned()));
        false
    });
    let rest = (!members.is_empty()).then(|| serde_json::to_string(&members).unwrap_or_default());
    (texts, rest)
}

/// A text with control characters made visible, up to a length.
pub(super) fn visible(text: &str, limit: usize) -> String {
    let mut shown = String::new();
    for letter in text.chars() {
        match letter {
            '\n' | '\t' => shown.push(letter),
            '\r' => shown.push('␍'),
            letter if letter.is_control() => shown.push('�'),
            letter => shown.push(letter),
        }
        if shown.len() >= limit {
            break;
        }
    }
    shown
}

/// JSON with one line per value, up to a length, and whether that is all of it. The order of keys
/// and the spelling of numbers stay the same.
fn indented(json: &str, limit: usize) -> (String, bool) {
    let mut out = String::new();
    let (mut depth, mut in_string, mut is_escaped) = (0_usize, false, false);
    let mut letters = json.chars().peekable();
    let line = |out: &mut String, depth: usize| {
        out.push('\n');
        out.extend(std::iter::repeat_n("  ", depth.min(40)));
    };
    while let Some(letter) = letters.next() {
        if out.len() >= limit {
            return (out, false);
        }
        if in_string {
            in_string = is_escaped || letter != '"';
            is_escaped = letter == '\\' && !is_escaped;
            out.push(letter);
            continue;
        }
        match letter {
            '{' | '[' => {
                out.push(letter);
                while letters.next_if(char::is_ascii_whitespace).is_some() {}
                match letters.next_if(|next| matches!(next, '}' | ']')) {
                    Some(end) => out.push(end),
                    None => {
                        depth += 1;
                        line(&mut out, depth);
                    }
                }
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                line(&mut out, depth);
                out.push(letter);
            }
            ',' => {
                out.push(letter);
                line(&mut out, depth);
            }
            ':' => out.push_str(": "),
            letter if letter.is_ascii_whitespace() => {}
            letter => {
                in_string = letter == '"';
                out.push(letter);
            }
        }
    }
    (out, true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_gets_a_line_for_each_value() {
        for (json, expected) in [
            ("1", "1"),
            ("{}", "{}"),
            ("[ ]", "[]"),
            (r#"{"b":1.50,"a":[]}"#, "{\n  \"b\": 1.50,\n  \"a\": []\n}"),
            (r#"["a,b:{\"]\\",null]"#, "[\n  \"a,b:{\\\"]\\\\\",\n  null\n]"),
        ] {
            assert_eq!(indented(json, 1_000), (expected.to_owned(), true), "{json}");
        }
        let long = format!("[{}]", "1,".repeat(100_000));
        let (text, is_whole) = indented(&long, 100);
        assert!(!is_whole && text.len() < 200);
    }

    #[test]
    fn texts_of_several_lines_stand_as_texts() {
        let json = r#"{"code":0,"stdout":"a\nb\u0000","stderr":"x"}"#;
        let (texts, rest) = texts_in(json);
        assert_eq!(texts, [("stdout".to_owned(), "a\nb\0".to_owned())]);
        assert_eq!(rest.as_deref(), Some(r#"{"code":0,"stderr":"x"}"#));
        assert_eq!(visible(&texts[0].1, 100), "a\nb�");
        assert_eq!(texts_in(r#"["a\nb"]"#).0, []);
    }

    #[test]
    fn a_page_has_room_for_so_much() {
        let mut room = Room::new();
        let json = format!("\"{}\"", "x".repeat(20_000));
        for _ in 0..5 {
            let shown = open(&json, "/whole", &mut room).into_string();
            assert!(
                shown.contains("The first 9 KiB of 20 KiB")
                    || shown.contains("The first 8 KiB of 20 KiB"),
                "{}",
                &shown[shown.len() - 200..]
            );
        }
        let shown = folded("v", "Output", &json, "/whole", &mut room).into_string();
        assert_eq!(shown, "<p class=\"small\">Output: <a href=\"/whole\">20 KiB</a></p>");
    }
}
