//! Secrets of the host: read once at the start, given out by name, masked in everything that is
//! shown.

mod addresses;
mod forms;
mod percent;
mod rewritten;
mod wrapped;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use aho_corasick::AhoCorasick;
use runners::Mask;
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value};

pub use addresses::{secrets_in_address, secrets_in_channel, shown_address};
use rewritten::Rewritten;
pub(crate) use wrapped::columns_after;

/// The prefix of environment variables that hold secrets.
const VARIABLE: &str = "PUNCTUAL_SECRET_";
/// The text shown in place of a secret.
const MASK: &str = "***";
/// Longer than any key or certificate chain, so a file that was named by mistake is not read in
/// full.
const MOST_BYTES: u64 = 1 << 20;
const NAME_CHARS: usize = 64;
/// A value is escaped again where its URL becomes part of another URL.
const ESCAPED_TIMES: usize = 2;

/// The secrets of this node by name, and a finder that masks them in texts.
#[derive(Default)]
pub struct Secrets {
    values: BTreeMap<String, SecretString>,
    /// Finds all forms of the secrets in a text. `None` if no secret is long enough to be masked.
    finder: Option<AhoCorasick>,
    /// The patterns of `finder`, sorted.
    found: Vec<SecretString>,
}

/// Why secrets cannot be read. It holds no value, and no line that may be a value.
#[derive(Debug, thiserror::Error)]
pub enum SecretsError {
    /// A file or folder cannot be read.
    #[error("{}: {why}", path.display())]
    Unreadable {
        path: PathBuf,
        /// The error of the operating system.
        why: io::Error,
    },
    /// A line, file or variable does not hold a secret as it should.
    #[error("{place}: {problem}")]
    Mistake {
        /// The line, file or variable.
        place: String,
        /// What is wrong, and what to write instead.
        problem: String,
    },
}

/// Shows names only, never values.
impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.values.keys()).finish()
    }
}

impl Secrets {
    /// Reads a file with lines `NAME=value`, or a folder with one file for each secret, and the
    /// variables `PUNCTUAL_SECRET_NAME`, which win over a file.
    ///
    /// In a file, empty lines and lines that begin with `#` are skipped; a value goes to the end of
    /// its line and is taken literally, without quotes or escapes. In a folder, hidden files and
    /// folders are skipped, and one line break at the end of a file is not part of its value.
    pub fn read(
        source: Option<&Path>,
        environment: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> Result<Secrets, SecretsError> {
        let mut values = match source {
            Some(path) if path.is_dir() => read_folder(path)?,
            Some(path) => read_lines(path)?,
            None => BTreeMap::new(),
        };
        values.extend(read_environment(environment)?);
        Secrets::of(values)
    }

    fn of(values: BTreeMap<String, SecretString>) -> Result<Secrets, SecretsError> {
        Secrets::hiding(values, Vec::new())
    }

    /// Also masks `own`, the node's own secrets, which have no name and which no template can use.
    pub fn with_own(self, own: impl IntoIterator<Item = String>) -> Result<Secrets, SecretsError> {
        Secrets::hiding(self.values, own.into_iter().map(SecretString::from).collect())
    }

    fn hiding(
        values: BTreeMap<String, SecretString>,
        own: Vec<SecretString>,
    ) -> Result<Secrets, SecretsError> {
        let all = values.values().chain(&own);
        let mut patterns: Vec<String> =
            all.flat_map(|value| forms::forms(value.expose_secret())).collect();
        patterns.sort_unstable();
        patterns.dedup();
        let finder = if patterns.is_empty() {
            None
        } else {
            let built = AhoCorasick::new(&patterns).map_err(|error| SecretsError::Mistake {
                place: "the secrets".to_owned(),
                problem: format!("they are too long to be looked for in texts: {error}"),
            })?;
            Some(built)
        };
        let found = patterns.into_iter().map(SecretString::from).collect();
        Ok(Secrets { values, finder, found })
    }

    /// The value of a secret, by name.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(|value| value.expose_secret())
    }

    /// The names of all secrets, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.values.keys().map(String::as_str)
    }

    /// Returns the text with `***` in place of every secret of at least four characters, in every
    /// form in which programs write it (`secrets/forms.rs`), and in place of every line of a secret
    /// that has at least eight.
    pub fn mask<'a>(&self, text: &'a str) -> Cow<'a, str> {
        self.mask_after(text, 0)
    }

    /// Like [`Secrets::mask`], for a text that continues a line with `columns` characters since its
    /// last space.
    pub(crate) fn mask_after<'a>(&self, text: &'a str, columns: usize) -> Cow<'a, str> {
        let Some(finder) = &self.finder else { return Cow::Borrowed(text) };
        let mut masked = String::new();
        let mut copied = 0;
        for (start, end) in ranges(finder, text, &rewritings(text, columns)) {
            masked.push_str(&text[copied..start]);
            masked.push_str(MASK);
            copied = end;
        }
        if copied == 0 {
            return Cow::Borrowed(text);
        }
        masked.push_str(&text[copied..]);
        Cow::Owned(masked)
    }

    /// A mask for runners, which must hide secrets before they cut texts.
    pub(crate) fn to_mask(self: &Arc<Secrets>) -> Mask {
        let secrets = self.clone();
        Mask::new(move |text| secrets.mask(text).into_owned())
    }

    /// How many bytes of a text can be masked now if more text will follow. What may be the
    /// beginning of a secret must wait, and so must a secret that overlaps with it. The text
    /// continues a line with `columns` characters since its last space.
    pub(crate) fn settled(&self, text: &str, columns: usize) -> usize {
        let Some(finder) = &self.finder else { return text.len() };
        let longest = self.found.iter().map(|one| one.expose_secret().len()).max();
        let longest = longest.unwrap_or_default();
        let rewritings = rewritings(text, columns);
        let known = ranges(finder, text, &rewritings);
        // The last letter of a masked secret may also be the first letter of another form. A single
        // letter that is masked already is no reason to hold text back.
        let is_masked =
            |at: usize| known.iter().any(|(start, end)| *start < at && *end == text.len());
        let begun = |part: &str, original: &dyn Fn(usize) -> usize| {
            let begins = |at: &usize| {
                let is_one_letter = part[*at..].chars().nth(1).is_none();
                self.begins(&part[*at..]) && !(is_one_letter && is_masked(original(*at)))
            };
            boundaries(part, longest).find(begins).map(original)
        };
        let mut open = begun(text, &|at| at).unwrap_or(text.len());
        for (index, rewritten) in rewritings.iter().enumerate() {
            let original = |at| {
                let through = rewritings[..=index].iter().rev();
                through.fold(at, |at, rewritten| rewritten.original_start(at))
            };
            let settled = &rewritten.text[..rewritten.settled];
            let begun = begun(settled, &original).unwrap_or(text.len());
            open = open.min(begun).min(original(rewritten.settled));
        }
        let mut across = known.iter().filter(|(start, end)| *start < open && open < *end);
        across.next().map_or(open, |(start, _)| *start)
    }

    /// Whether a secret starts with `text` and is longer.
    fn begins(&self, text: &str) -> bool {
        let at = self.found.partition_point(|one| one.expose_secret() <= text);
        self.found.get(at).is_some_and(|next| next.expose_secret().starts_with(text))
    }

    /// Masks JSON text. It is parsed only if it holds a secret.
    pub fn mask_raw(&self, json: Box<RawValue>) -> Box<RawValue> {
        if let Cow::Borrowed(_) = self.mask(json.get()) {
            return json;
        }
        let value: Value = serde_json::from_str(json.get()).unwrap_or_default();
        to_raw_value(&self.mask_json(value)).unwrap_or_else(|_| RawValue::NULL.to_owned())
    }

    /// Masks every text in a JSON value, keys included. A number that holds a secret becomes a
    /// masked text.
    pub fn mask_json(&self, value: Value) -> Value {
        if self.finder.is_none() {
            return value;
        }
        match value {
            Value::String(text) => Value::String(self.mask(&text).into_owned()),
            Value::Array(items) => items.into_iter().map(|item| self.mask_json(item)).collect(),
            Value::Object(fields) => {
                let masked = fields
                    .into_iter()
                    .map(|(name, value)| (self.mask(&name).into_owned(), self.mask_json(value)));
                Value::Object(masked.collect::<Map<_, _>>())
            }
            Value::Number(number) => match self.mask(&number.to_string()) {
                Cow::Owned(masked) => Value::String(masked),
                Cow::Borrowed(_) => Value::Number(number),
            },
            other => other,
        }
    }
}

/// The character boundaries in the last `last` bytes of a text.
fn boundaries(text: &str, last: usize) -> impl Iterator<Item = usize> {
    let from = text.floor_char_boundary(text.len().saturating_sub(last));
    text[from..].char_indices().map(move |(at, _)| from + at)
}

/// The texts in which secrets are looked for beside `text`, each made from the one before it:
/// without line wraps, and without percent escapes. The text continues a line with `columns`
/// characters since its last space.
fn rewritings(text: &str, columns: usize) -> Vec<Rewritten> {
    let mut found: Vec<Rewritten> = wrapped::unwrap(text, columns).into_iter().collect();
    for _ in 0..ESCAPED_TIMES {
        let last = found.last().map_or(text, |last| last.text.as_str());
        let Some(unescaped) = percent::unescape(last) else { break };
        found.push(unescaped);
    }
    found
}

/// The byte ranges of secrets in a text, sorted. Overlapping ranges are merged: no part of a secret
/// may remain because another one begins inside it.
fn ranges(finder: &AhoCorasick, text: &str, rewritings: &[Rewritten]) -> Vec<(usize, usize)> {
    let mut found: Vec<(usize, usize)> = Vec::new();
    // Matches come in the order of their ends.
    for one in finder.find_overlapping_iter(text) {
        let (mut start, end) = (one.start(), one.end());
        while let Some((before, _)) = found.pop_if(|(_, before_end)| *before_end > start) {
            start = start.min(before);
        }
        found.push((start, end));
    }
    if rewritings.is_empty() {
        return found;
    }
    for (index, rewritten) in rewritings.iter().enumerate() {
        let matches = finder.find_overlapping_iter(&rewritten.text);
        let longer = matches.filter(|one| one.end() - one.start() >= rewritten.shortest);
        let ranges = longer.map(|one| (one.start(), one.end()));
        found.extend(ranges.filter(|range| rewritten.is_changed(*range)).map(|range| {
            let through = rewritings[..=index].iter().rev();
            through.fold(range, |range, rewritten| rewritten.original(range))
        }));
    }
    found.sort_unstable();
    found.dedup_by(|next, before| {
        let overlaps = next.0 < before.1;
        if overlaps {
            before.1 = before.1.max(next.1);
        }
        overlaps
    });
    found
}

fn read_lines(path: &Path) -> Result<BTreeMap<String, SecretString>, SecretsError> {
    let text = read_text(path)?;
    let mut values = BTreeMap::new();
    for (at, line) in text.lines().enumerate() {
        let place = || format!("{} line {}", path.display(), at + 1);
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        let Some((name, value)) = line.split_once('=') else {
            return Err(mistake(place(), "there is no `=`; write NAME=value"));
        };
        let name = name.trim_end();
        let secret = read_value(&place, name, value.to_owned())?;
        if values.insert(name.to_owned(), secret).is_some() {
            return Err(mistake(place(), &format!("{name} is given twice; remove one")));
        }
    }
    Ok(values)
}

fn read_folder(path: &Path) -> Result<BTreeMap<String, SecretString>, SecretsError> {
    let unreadable = |why| SecretsError::Unreadable { path: path.to_owned(), why };
    let mut values = BTreeMap::new();
    for entry in fs::read_dir(path).map_err(unreadable)? {
        let file = entry.map_err(unreadable)?.path();
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name.starts_with('.') || file.is_dir() {
            continue;
        }
        let text = read_text(&file)?;
        let value = text.strip_suffix('\n').unwrap_or(&text);
        let value = value.strip_suffix('\r').unwrap_or(value).to_owned();
        let secret = read_value(&|| file.display().to_string(), &name, value)?;
        values.insert(name, secret);
    }
    Ok(values)
}

fn read_environment(
    environment: impl IntoIterator<Item = (OsString, OsString)>,
) -> Result<BTreeMap<String, SecretString>, SecretsError> {
    let mut values = BTreeMap::new();
    for (variable, value) in environment {
        let Some(variable) = variable.to_str() else { continue };
        let Some(name) = variable.strip_prefix(VARIABLE) else { continue };
        let place = || variable.to_owned();
        let Ok(value) = value.into_string() else {
            return Err(mistake(place(), "its value is not UTF-8 text"));
        };
        values.insert(name.to_owned(), read_value(&place, name, value)?);
    }
    Ok(values)
}

fn read_text(path: &Path) -> Result<String, SecretsError> {
    let unreadable = |why| SecretsError::Unreadable { path: path.to_owned(), why };
    let mut bytes = Vec::new();
    let file = fs::File::open(path).map_err(unreadable)?;
    file.take(MOST_BYTES + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    let place = || path.display().to_string();
    if bytes.len() as u64 > MOST_BYTES {
        return Err(mistake(place(), &format!("it has more than {MOST_BYTES} bytes")));
    }
    String::from_utf8(bytes).map_err(|_| mistake(place(), "it is not UTF-8 text"))
}

fn read_value(
    place: &dyn Fn() -> String,
    name: &str,
    value: String,
) -> Result<SecretString, SecretsError> {
    if !is_name(name) {
        // The invalid name may be a value whose name is missing, so it is not shown.
        let problem = "what stands for the name is none; a name has letters, digits and _, does not \
                       begin with a digit, and is at most 64 characters long";
        return Err(mistake(place(), problem));
    }
    if value.is_empty() {
        return Err(mistake(place(), &format!("{name} has no value; give one or remove it")));
    }
    Ok(SecretString::from(value))
}

/// Whether `secrets.NAME` can be written in a template.
fn is_name(name: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    !name.is_empty()
        && name.len() <= NAME_CHARS
        && name.bytes().all(is_part)
        && !name.starts_with(|first: char| first.is_ascii_digit())
}

fn mistake(place: String, problem: &str) -> SecretsError {
    SecretsError::Mistake { place, problem: problem.to_owned() }
}

#[cfg(test)]
mod tests;
