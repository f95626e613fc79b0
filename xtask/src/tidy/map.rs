//! Whether ARCHITECTURE.md is true: every path that it names exists.

use std::fs;
use std::path::Path;

const MAP: &str = "ARCHITECTURE.md";
/// A code span that begins with one of these is a path from the root of the repository.
const ROOTS: [&str; 7] = ["crates/", "xtask/", "docs/", "tools/", "fuzz/", "ops/", "examples/"];

/// Every path that the map names and that does not exist.
pub(super) fn check(root: &Path) -> Vec<String> {
    let text = match fs::read_to_string(root.join(MAP)) {
        Ok(text) => text,
        Err(error) => return vec![format!("{MAP}: {error}")],
    };
    let missing = |(_, path): &(usize, String)| !root.join(path).exists();
    let finding = |(line, path)| format!("{MAP}:{line}: {path} does not exist");
    paths(&text).into_iter().filter(missing).map(finding).collect()
}

/// The paths that the map names, with their lines. Below a heading that is the name of a crate, the
/// first column of a table has paths from the sources of that crate.
fn paths(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut sources = None;
    for (at, line) in text.lines().enumerate() {
        if line.starts_with('#') {
            let name = line.strip_prefix("### `").and_then(|name| name.strip_suffix('`'));
            sources = name.map(|name| format!("{name}/src"));
            continue;
        }
        let (first, rest) = match (&sources, line.strip_prefix("| `")) {
            (Some(_), Some(_)) => line[1..].split_once('|').unwrap_or((line, "")),
            _ => ("", line),
        };
        let below = sources.as_deref().unwrap_or_default();
        found.extend(spans(first).map(|span| (at + 1, format!("{below}/{span}"))));
        let is_path = |span: &&str| ROOTS.iter().any(|root| span.starts_with(root));
        let is_plain = |span: &&str| !span.contains(['*', ' ', '{', '<', ':']);
        let whole = spans(rest).filter(is_path).filter(is_plain);
        found.extend(whole.map(|span| (at + 1, span.to_owned())));
    }
    found
}

fn spans(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_those_of_the_crate_or_of_the_root() {
        let text = "`crates/a/src/x.rs` and `not a path` and `docs/<name>`\n\
                    ### `crates/a`\n| file | what |\n|---|---|\n| `b.rs`, `c/` | `d.rs`, `docs/e.md` |\n\
                    ## Other\n| `table` | `crates/f` |\n";
        let expected =
            ["crates/a/src/x.rs", "crates/a/src/b.rs", "crates/a/src/c/", "docs/e.md", "crates/f"];
        assert_eq!(paths(text).into_iter().map(|(_, path)| path).collect::<Vec<_>>(), expected);
    }
}
