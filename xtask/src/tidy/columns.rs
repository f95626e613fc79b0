//! How wide a line of code or of a comment may be. rustfmt leaves long strings, macros and comments
//! alone.

/// The most columns of a line.
pub(super) const MOST: usize = 100;

/// The numbers of the lines that are too wide. A line that holds a part of a string may be: the
/// text of a message, a definition or a statement is easier to read and to search for in one piece.
/// So may a row of a table in a comment, and a string in an example.
pub(super) fn wide_lines(text: &str) -> impl Iterator<Item = usize> {
    let mut string = None;
    let mut wide = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let begins_inside = string.is_some();
        let has_string = begins_inside | read(line, &mut string);
        let is_row = ["//! |", "/// |"].iter().any(|row| line.trim_start().starts_with(row));
        let is_example = line.trim_start().starts_with("//") && line.contains('"');
        if line.chars().count() > MOST && !has_string && !is_row && !is_example {
            wide.push(at + 1);
        }
    }
    wide.into_iter()
}

/// Reads a line: `string` is the end of the string that is open before and after it. Returns
/// whether the line holds a part of a string.
fn read(line: &str, string: &mut Option<String>) -> bool {
    let mut rest = line;
    let mut has_string = false;
    while !rest.is_empty() {
        if let Some(end) = string.clone() {
            has_string = true;
            rest = match end_of(rest, &end) {
                Some(at) => {
                    *string = None;
                    &rest[at..]
                }
                None => "",
            };
        } else if rest.starts_with("//") {
            break;
        } else if let Some((end, after)) = begin_of_string(rest) {
            *string = Some(end);
            rest = after;
        } else if let Some(after) = rest.strip_prefix("'\"'") {
            rest = after;
        } else {
            let width = rest.chars().next().map_or(1, char::len_utf8);
            rest = &rest[width..];
        }
    }
    has_string
}

/// What ends the string that begins here, and what follows its beginning.
fn begin_of_string(text: &str) -> Option<(String, &str)> {
    if let Some(after) = text.strip_prefix('"') {
        return Some(("\"".to_owned(), after));
    }
    let hashes = text.strip_prefix('r')?;
    let after = hashes.trim_start_matches('#');
    let count = hashes.len() - after.len();
    let after = after.strip_prefix('"')?;
    Some((format!("\"{}", "#".repeat(count)), after)).filter(|_| count > 0)
}

/// Where the string ends, behind its end.
fn end_of(text: &str, end: &str) -> Option<usize> {
    if end.len() > 1 {
        return text.find(end).map(|at| at + end.len());
    }
    let mut is_escaped = false;
    for (at, character) in text.char_indices() {
        match character {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '"' => return Some(at + 1),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_lines_without_strings_are_too_wide() {
        let long = "x".repeat(101);
        let text = format!(
            "let {long} = 1;\nlet a = \"{long}\";\n// {long}\nlet b = r#\"\n{long}\n\"#;\n{long}\n/// | {long} |\n"
        );
        assert_eq!(wide_lines(&text).collect::<Vec<_>>(), [1, 3, 7]);
        let text = format!("let a = '\"'; // {long}\nlet b = \"\\\"\"; {}\n{long}\n", &long[..80]);
        assert_eq!(wide_lines(&text).collect::<Vec<_>>(), [1, 3]);
    }
}
