//! House rules for files, which no compiler knows.

mod columns;
mod map;

use std::fs;
use std::path::Path;

use crate::steps::Outcome;

const LINE_LIMIT: usize = 600;
/// Longer files that have a reason to be: path and reason.
const LONG_FILES: [(&str, &str); 0] = [];

/// Work that was put off belongs into a plan, not into the code. Written in halves, because this
/// file is checked too.
const UNFINISHED: [&str; 5] = [
    concat!("TO", "DO"),
    concat!("FIX", "ME"),
    concat!("XX", "X"),
    concat!("to", "do!"),
    concat!("unimple", "mented!"),
];
/// Names that say nothing about what is inside.
const EMPTY_NAMES: [&str; 5] = ["utils", "helpers", "common", "misc", "types"];
/// What is made by tools, or is an input whose every byte counts.
const SKIPPED: [&str; 7] = [
    ".git",
    "target",
    "node_modules",
    "fuzz/corpus",
    "fuzz/artifacts",
    "fuzz/seeds",
    "fuzz/target",
];
const TEXT_ENDINGS: [&str; 14] = [
    "rs", "toml", "md", "txt", "json", "jsonl", "yaml", "yml", "html", "css", "js", "py", "dict",
    "lock",
];
const TEXT_FILES: [&str; 2] = [".ci/run", ".gitignore"];

/// Checks every file below the root and tells all that is wrong at once.
pub(crate) fn run(root: &Path) -> Outcome {
    let mut findings = Vec::new();
    let mut files = 0;
    visit(root, "", &mut |path| {
        files += 1;
        findings.extend(check_path(path));
        let is_text = TEXT_FILES.contains(&path)
            || path.rsplit_once('.').is_some_and(|(_, ending)| TEXT_ENDINGS.contains(&ending));
        if is_text {
            match fs::read_to_string(root.join(path)) {
                Ok(text) => findings.extend(check_text(path, &text)),
                Err(error) => findings.push(format!("{path}: not readable as text: {error}")),
            }
        }
    })?;
    findings.extend(map::check(root));
    for finding in &findings {
        println!("{finding}");
    }
    println!("{files} files looked at");
    if findings.is_empty() { Ok(()) } else { Err(format!("{} findings", findings.len())) }
}

/// Calls `look` with the path of each file below `folder`, in order, with `/` between its parts.
fn visit(root: &Path, folder: &str, look: &mut dyn FnMut(&str)) -> Outcome {
    let unreadable = |error: std::io::Error| format!("{folder}: {error}");
    let mut entries = Vec::new();
    for entry in fs::read_dir(root.join(folder)).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        let is_folder = entry.file_type().map_err(unreadable)?.is_dir();
        entries.push((entry.file_name().to_string_lossy().into_owned(), is_folder));
    }
    entries.sort();
    for (name, is_folder) in entries {
        let path = if folder.is_empty() { name.clone() } else { format!("{folder}/{name}") };
        if SKIPPED.contains(&name.as_str()) || SKIPPED.contains(&path.as_str()) {
            continue;
        }
        if is_folder {
            visit(root, &path, look)?;
        } else {
            look(&path);
        }
    }
    Ok(())
}

fn check_path(path: &str) -> Vec<String> {
    let mut findings = Vec::new();
    if path.ends_with(".rs") {
        let parts = path.trim_end_matches(".rs").split('/');
        for part in parts.filter(|part| EMPTY_NAMES.contains(part)) {
            findings.push(format!("{path}: `{part}` does not say what is inside"));
        }
    }
    if let Some(name) = path.strip_prefix("docs/decisions/")
        && name != "README.md"
        && !is_decision_name(name)
    {
        findings.push(format!("{path}: a decision is named NNNN-title.md"));
    }
    findings
}

fn is_decision_name(name: &str) -> bool {
    let Some((number, title)) = name.split_once('-') else { return false };
    let title = title.strip_suffix(".md").unwrap_or("");
    number.len() == 4
        && number.bytes().all(|b| b.is_ascii_digit())
        && !title.is_empty()
        && title.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
}

fn check_text(path: &str, text: &str) -> Vec<String> {
    let mut findings = Vec::new();
    if !text.is_empty() && !text.ends_with('\n') {
        findings.push(format!("{path}: no newline at the end"));
    }
    let is_rust = path.ends_with(".rs");
    let mut lines = 0;
    for (at, line) in text.lines().enumerate() {
        lines = at + 1;
        if line.ends_with([' ', '\t']) {
            findings.push(format!("{path}:{lines}: blanks at the end of the line"));
        }
        if is_rust && line.contains('\t') {
            findings.push(format!("{path}:{lines}: a tab"));
        }
        if is_rust {
            let unfinished = UNFINISHED.iter().filter(|word| line.contains(**word));
            findings.extend(unfinished.map(|word| format!("{path}:{lines}: `{word}`")));
        }
    }
    if is_rust {
        let wide = columns::wide_lines(text);
        findings
            .extend(wide.map(|line| format!("{path}:{line}: more than {} columns", columns::MOST)));
    }
    let may_be_long = LONG_FILES.iter().any(|(long, _)| *long == path);
    if is_rust && lines > LINE_LIMIT && !may_be_long {
        findings.push(format!("{path}: {lines} lines, more than {LINE_LIMIT}"));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths() {
        let fine = [
            "crates/a/src/rule.rs",
            "docs/decisions/0001-one-store.md",
            "docs/decisions/README.md",
            "docs/types.md",
        ];
        for path in fine {
            assert_eq!(check_path(path), Vec::<String>::new());
        }
        let bad = [
            "crates/a/src/utils.rs",
            "crates/a/tests/common/mod.rs",
            "docs/decisions/1-one-store.md",
            "docs/decisions/0001-One Store.md",
            "docs/decisions/0001.md",
            "docs/decisions/0001-one-store.txt",
        ];
        for path in bad {
            assert_eq!(check_path(path).len(), 1, "{path}");
        }
    }

    #[test]
    fn texts() {
        let check = |path: &str, text: &str, expected: &[&str]| {
            assert_eq!(check_text(path, text), expected, "{text:?}");
        };
        check("a.rs", "fn a() {}\n", &[]);
        check("a.rs", "", &[]);
        check("a.md", "one\ttab\n", &[]);
        check("a.rs", "one\ttab\n", &["a.rs:1: a tab"]);
        check("a.md", "ok\nblank \n", &["a.md:2: blanks at the end of the line"]);
        check("a.toml", "a = 1", &["a.toml: no newline at the end"]);
        for word in UNFINISHED {
            assert!(!check_text("a.rs", &format!("// {word}\n")).is_empty(), "{word}");
            assert!(check_text("a.md", &format!("{word}\n")).is_empty(), "{word}");
        }
    }

    #[test]
    fn long_files() {
        assert!(check_text("a.rs", &"\n".repeat(LINE_LIMIT)).is_empty());
        let findings = check_text("a.rs", &"\n".repeat(LINE_LIMIT + 1));
        assert_eq!(findings, ["a.rs: 601 lines, more than 600"]);
        assert!(check_text("a.md", &"\n".repeat(LINE_LIMIT + 1)).is_empty());
    }
}
