//! Texts that must be quoted: the most common slip in YAML is `cron: * * * * *`.

use super::flaw::Flaw;
use super::source::Source;
use super::tree::cut;

/// Characters that an unquoted text cannot begin with.
const RESERVED: [char; 4] = ['*', '@', '`', '%'];

/// The flaw of an unquoted text in the line of a syntax error, if there is one.
pub(super) fn unquoted(source: &Source<'_>, at: usize) -> Option<Flaw> {
    let range = source.line_range(at);
    let line = &source.text()[range];
    let (key, value) = values(line).find(|(_, value)| value.starts_with(RESERVED))?;
    let first = value.chars().next()?;
    let written = end_of_value(value);
    let quoted = format!("{key}\"{}\"", cut(written).replace('"', "\\\""));
    Some(
        Flaw::new("quotes", format!("a text that begins with {first} must be quoted"))
            .suggest(quoted),
    )
}

/// The keys (with their colon) and values of a line, in block and in flow style.
fn values(line: &str) -> impl Iterator<Item = (String, &str)> {
    let entries = line.match_indices(": ").map(|(at, _)| {
        let key = line[..at].rsplit(['{', ',', '[', ' ']).next().unwrap_or("");
        (format!("{key}: "), line[at + 2..].trim_start())
    });
    let item =
        line.trim_start().strip_prefix("- ").map(|item| ("- ".to_owned(), item.trim_start()));
    entries.chain(item)
}

/// The text up to the end of a flow value: a comma or bracket, but not a comma inside a cron list
/// such as `*/5,30`.
fn end_of_value(value: &str) -> &str {
    let end = value.find([']', '}']).unwrap_or(value.len());
    let end = value.find(", ").map_or(end, |comma| comma.min(end));
    let end = value.find(" #").map_or(end, |comment| comment.min(end));
    value[..end].trim_end()
}

/// The flaw of an unquoted `{{ … }}`, which YAML reads as a mapping.
pub(super) fn unquoted_template() -> Flaw {
    Flaw::new("quotes", "a text that begins with {{ must be quoted").suggest("\"{{ … }}\"")
}
