//! Reads declarations in YAML or JSON, and finds the position of a mistake in the text.

use std::fs;
use std::path::Path;

use calendar::{Mistake, Problem, nearest, without_type_names};
use language::definition::{Flaw, text_of};
use serde::Deserialize;
use serde::de::{self, DeserializeOwned, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::Spanned;
use server::Form;

use crate::failure::Failure;

/// The longest file that is read.
const FILE_LIMIT: u64 = 1 << 20;

/// A text with the name that messages use for it.
pub(crate) struct Document {
    pub(crate) name: String,
    pub(crate) text: String,
}

impl Document {
    pub(crate) fn read(path: &Path) -> Result<Document, Failure> {
        let name = path.display().to_string();
        let fail = |why: String| Failure::Environment(format!("{name}: {why}"));
        let length = fs::metadata(path).map_err(|error| match fs::read_link(path) {
            Ok(target) => fail(format!("a link to {}: {error}", target.display())),
            Err(_) => fail(error.to_string()),
        })?;
        let length = length.len();
        if length > FILE_LIMIT {
            return Err(fail(format!("{length} bytes, but at most {FILE_LIMIT} are read")));
        }
        let bytes = fs::read(path).map_err(|e| fail(e.to_string()))?;
        let text = text_of(&bytes).map_err(|flaws| {
            let placed = |flaw: &Flaw| format!("{name}:{}:{}: {flaw}", flaw.line, flaw.column);
            Failure::Mistake(flaws.iter().map(placed).collect())
        })?;
        Ok(Document { text: text.to_owned(), name })
    }

    /// The form of the definition, by the extension of the name.
    pub(crate) fn form(&self) -> Form {
        match Path::new(&self.name).extension().and_then(|ending| ending.to_str()) {
            Some("js" | "mjs") => Form::Script,
            _ => Form::Text,
        }
    }

    /// Parses the text as a declaration. JSON is parsed as YAML, of which it is a subset.
    pub(crate) fn parse<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        serde_saphyr::from_str(&self.text).map_err(|error| self.unreadable(&error))
    }

    /// Reports a text that cannot be parsed: the line, a caret, and the most similar field if one
    /// is unknown.
    fn unreadable(&self, error: &serde_saphyr::Error) -> Failure {
        let message = error.without_snippet().to_string();
        let Some(at) = error.location().filter(|at| at.line() > 0) else {
            return Failure::Mistake(format!("{}: {}", self.name, without_type_names(&message)));
        };
        let line = self.text.lines().nth(at.line() as usize - 1).unwrap_or("");
        let column =
            line.char_indices().nth(at.column() as usize - 1).map_or(line.len(), |(i, _)| i);
        let word = line[column..].chars().take_while(|c| c.is_alphanumeric() || *c == '_');
        let end = column + word.map(char::len_utf8).sum::<usize>().max(1);
        // The position is removed, because it is shown before the message and by the caret. So is a
        // hint that is only for programmers.
        let message = message.rsplit_once(" at line ").map_or(&*message, |(text, _)| text);
        let message = message.split(", set DuplicateKeyPolicy").next().unwrap_or(message);
        let (message, fields) = match message.split_once(", expected one of ") {
            Some((unknown, fields)) => (unknown, fields),
            None => (message, ""),
        };
        let message = without_type_names(message);
        let mut problem = Problem::new("document", line, column..end, message);
        if !fields.is_empty() {
            let names = fields.split([',', ' ', '`']).filter(|name| !name.is_empty());
            if let Some(close) = nearest(line.get(column..end).unwrap_or(""), names).first() {
                problem = problem.suggest(*close);
            }
            problem = problem.allow(fields);
        }
        Failure::Mistake(format!("{}:{}:{}: {problem}", self.name, at.line(), at.column()))
    }

    /// Whether the text is a mapping with this field.
    pub(crate) fn has_field(&self, name: &str) -> bool {
        match serde_saphyr::from_str::<Node>(&self.text) {
            Ok(Node::Map(entries)) => entries.iter().any(|(key, _)| key == name),
            _ => false,
        }
    }

    /// Reports every mistake as `calendars.yaml:4:10: …`.
    pub(crate) fn explain(&self, mistakes: &[Mistake]) -> Failure {
        let tree = serde_saphyr::from_str::<Spanned<Node>>(&self.text).ok();
        let explained: Vec<String> = mistakes
            .iter()
            .map(|mistake| {
                let place = tree.as_ref().and_then(|tree| place(tree, &mistake.path));
                match place {
                    Some((line, column)) => format!("{}:{line}:{column}: {mistake}", self.name),
                    None => format!("{}: {mistake}", self.name),
                }
            })
            .collect();
        Failure::Mistake(explained.join("\n\n"))
    }
}

/// The structure of a document, with positions.
enum Node {
    Leaf,
    List(Vec<Spanned<Node>>),
    Map(Vec<(String, Spanned<Node>)>),
}

/// The line and column of the deepest part of `path` that exists.
fn place(root: &Spanned<Node>, path: &str) -> Option<(u64, u64)> {
    let mut at = root;
    for step in path.split('.').flat_map(|part| part.split_inclusive('[')) {
        let step = step.trim_end_matches(['[', ']']);
        let next = match &at.value {
            Node::Map(entries) => entries.iter().find(|(key, _)| key == step).map(|(_, v)| v),
            Node::List(items) => step.parse().ok().and_then(|n: usize| items.get(n)),
            Node::Leaf => None,
        };
        match next {
            Some(next) => at = next,
            None if step.is_empty() => {}
            None => break,
        }
    }
    Some((at.referenced.line(), at.referenced.column())).filter(|(line, _)| *line > 0)
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Node, D::Error> {
        deserializer.deserialize_any(NodeVisitor)
    }
}

struct NodeVisitor;

impl<'de> Visitor<'de> for NodeVisitor {
    type Value = Node;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("any value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Node, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = map.next_entry()? {
            entries.push(entry);
        }
        Ok(Node::Map(entries))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Node, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element()? {
            items.push(item);
        }
        Ok(Node::List(items))
    }

    fn visit_bool<E: de::Error>(self, _: bool) -> Result<Node, E> {
        Ok(Node::Leaf)
    }

    fn visit_i64<E: de::Error>(self, _: i64) -> Result<Node, E> {
        Ok(Node::Leaf)
    }

    fn visit_u64<E: de::Error>(self, _: u64) -> Result<Node, E> {
        Ok(Node::Leaf)
    }

    fn visit_f64<E: de::Error>(self, _: f64) -> Result<Node, E> {
        Ok(Node::Leaf)
    }

    fn visit_str<E: de::Error>(self, _: &str) -> Result<Node, E> {
        Ok(Node::Leaf)
    }

    fn visit_unit<E: de::Error>(self) -> Result<Node, E> {
        Ok(Node::Leaf)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mistakes_are_found_in_the_text() {
        let text =
            "id: x\nhours:\n  mon: [\"09:00-12:00\", \"13:00-99:00\"]\nholidays:\n  - date: nope\n";
        let document = Document { name: "c.yaml".into(), text: text.into() };
        for (path, expected) in [
            ("hours.mon[1]", "c.yaml:3:24: "),
            ("holidays[0].date", "c.yaml:5:11: "),
            ("holidays[0].hours", "c.yaml:5:5: "),
            ("timezone", "c.yaml:1:1: "),
        ] {
            let mistake = Mistake::new(path, Problem::whole("x", "x", "wrong"));
            let explained = document.explain(&[mistake]).to_string();
            assert!(explained.starts_with(expected), "{path}: {explained}");
        }
        assert!(document.has_field("hours") && !document.has_field("calendars"));
    }
}
