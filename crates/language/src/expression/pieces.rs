//! Splits a text with templates into literal pieces and expressions.

use super::fault::Fault;
use super::limits;
use super::syntax::end_of_text;

/// A piece of a text.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Piece<'t> {
    Literal(&'t str),
    /// The text between the braces, and its offset in the whole text.
    Expression {
        text: &'t str,
        at: usize,
    },
}

/// Whether the text contains a template.
pub(super) fn is_template(text: &str) -> bool {
    text.contains("{{")
}

/// The expression of a text that is exactly one template.
pub(super) fn only_expression(text: &str) -> Option<(&str, usize)> {
    let start = text.len() - text.trim_start().len();
    let after = text[start..].strip_prefix("{{")?;
    if after.starts_with(['-', '+']) {
        return None;
    }
    let inside = &after[..closing(after)?];
    let rest = &after[inside.len() + 2..];
    rest.trim().is_empty().then_some((inside, start + 2))
}

/// The pieces of a text, in order.
pub(super) fn pieces(text: &str) -> Result<Vec<Piece<'_>>, Fault> {
    let mut pieces = Vec::new();
    if !is_template(text) {
        pieces.push(Piece::Literal(text));
        return Ok(pieces);
    }
    let mut at = 0;
    let mut count = 0;
    while let Some(open) = text[at..].find("{{").map(|open| at + open) {
        literal(&mut pieces, &text[at..open], at)?;
        let begin = open + 2;
        if text[begin..].starts_with(['-', '+']) {
            let message = "spaces around a template are kept: there is no {{- or {{+";
            return Err(Fault::new("template", open..begin + 1, message).suggest("{{ … }}"));
        }
        let Some(length) = closing(&text[begin..]) else {
            let fault = Fault::new("template", open..begin, "this template has no end");
            return Err(fault.suggest("}} after the expression"));
        };
        count += 1;
        if count > limits::EXPRESSIONS {
            let fault = Fault::new("limit", open..begin, "too many templates in one text");
            return Err(fault.allow(format!("at most {}", limits::EXPRESSIONS)));
        }
        pieces.push(Piece::Expression { text: &text[begin..begin + length], at: begin });
        at = begin + length + 2;
    }
    literal(&mut pieces, &text[at..], at)?;
    Ok(pieces)
}

fn literal<'t>(pieces: &mut Vec<Piece<'t>>, text: &'t str, at: usize) -> Result<(), Fault> {
    if let Some(statement) = text.find("{%") {
        let span = at + statement..at + statement + 2;
        return Err(Fault::new("template", span, "there are no statements, only expressions")
            .allow("{{ expression }}, also {{ a if condition else b }}")
            .suggest("{{ \"{%\" }} for the characters themselves"));
    }
    if !text.is_empty() {
        pieces.push(Piece::Literal(text));
    }
    Ok(())
}

/// The end of the expression at the beginning of `text`: the `}}` outside its strings and mappings.
fn closing(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let (mut at, mut open) = (0, 0_usize);
    while at < bytes.len() {
        match bytes[at] {
            b'"' | b'\'' => at = end_of_text(text, at)?,
            b'{' => open += 1,
            b'}' if open > 0 => open -= 1,
            b'}' if bytes.get(at + 1) == Some(&b'}') => return Some(at),
            _ => {}
        }
        at += 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cut() {
        let expression = |text, at| Piece::Expression { text, at };
        for (text, expected) in [
            ("", vec![Piece::Literal("")]),
            ("a { b } }}", vec![Piece::Literal("a { b } }}")]),
            ("{{a}}", vec![expression("a", 2)]),
            ("é{{ a }}x", vec![Piece::Literal("é"), expression(" a ", 4), Piece::Literal("x")]),
            ("{{ '}}' }}", vec![expression(" '}}' ", 2)]),
            ("{{ {'a': {}} }}{{b}}", vec![expression(" {'a': {}} ", 2), expression("b", 17)]),
        ] {
            assert_eq!(pieces(text), Ok(expected), "{text}");
        }
        for text in ["{{", "{{ a }", "{{ 'a }}", "{{- a }}", "{% if a %}{{ a }}", "a {{ {a} }"] {
            assert!(pieces(text).is_err(), "{text}");
        }
    }

    #[test]
    fn alone() {
        assert_eq!(only_expression(" {{ a }}\n"), Some((" a ", 3)));
        for text in ["a", "{{ a }}b", "{{ a }}{{ b }}", "{{ a", "{{- a }}"] {
            assert_eq!(only_expression(text), None, "{text}");
        }
    }
}
