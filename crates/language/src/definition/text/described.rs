//! A definition that a script describes: its default export as JSON, in which functions are
//! markers, becomes a tree. Functions carry their position, and values written as literals are
//! found in the text. Any other value has the position of something near it.

use serde_json::{Map, Value};

use super::flaw::Flaw;
use super::literal::{self, Literal};
use super::path::{join, join_index};
use super::source::{Source, Span};
use super::tree::{Entry, Kind, Misplaced, Node, too_deep};
use crate::definition::limits;

/// The tree of a script's description.
pub(crate) fn tree(source: &Source<'_>, described: &Value) -> Result<Node, Box<Misplaced>> {
    let mut builder = Builder { source, count: 0, way: Vec::new() };
    let written = literal::described(source.text());
    builder.node(described, "", Span::default(), written.as_ref())
}

struct Builder<'s, 't> {
    source: &'s Source<'t>,
    count: usize,
    /// The keys and indexes that lead to the value being built.
    way: Vec<String>,
}

impl Builder<'_, '_> {
    /// Builds a node. `near` is the position of the enclosing value, `written` the literal that the
    /// value comes from.
    fn node(
        &mut self,
        value: &Value,
        path: &str,
        near: Span,
        written: Option<&Literal>,
    ) -> Result<Node, Box<Misplaced>> {
        let refuse = |flaw| Err(Box::new(Misplaced { path: path.to_owned(), span: near, flaw }));
        self.count += 1;
        if self.count > limits::VALUES {
            let flaw = Flaw::new("limit", "too many values");
            return refuse(flaw.allow(format!("at most {} in a definition", limits::VALUES)));
        }
        if self.way.len() > limits::DEPTH {
            return refuse(too_deep());
        }
        if let Some(span) = self.function(value) {
            return Ok(Node { span, kind: Kind::Function(self.way.clone()) });
        }
        // The root keeps an empty position, so that a top-level value without a function does not
        // get the position of an unrelated one.
        let near = match (self.way.is_empty(), written) {
            (true, _) => near,
            (false, Some(literal)) => Span::new(literal.span.start, literal.span.start),
            (false, None) => self.first_function(value).unwrap_or(near),
        };
        let kind = match value {
            Value::Null => Kind::Null,
            Value::Bool(value) => Kind::Bool(*value),
            Value::Number(number) => Kind::Number(number.to_string()),
            Value::String(text) if text.len() > limits::SCALAR_BYTES => {
                let flaw = Flaw::new("limit", format!("a text of {} bytes", text.len()));
                return refuse(flaw.allow(format!("at most {} bytes", limits::SCALAR_BYTES)));
            }
            Value::String(text) => Kind::Text(text.clone()),
            Value::Array(items) => {
                let mut nodes = Vec::with_capacity(items.len());
                for (at, item) in items.iter().enumerate() {
                    self.way.push(at.to_string());
                    let written = written.and_then(|written| written.item(at));
                    nodes.push(self.node(item, &join_index(path, at), near, written)?);
                    self.way.pop();
                }
                Kind::List(nodes)
            }
            Value::Object(map) => Kind::Map(self.entries(map, path, near, written)?),
        };
        // A value written as a literal gets its full span. A computed value, a list or a mapping
        // has only a beginning.
        let is_shown = !self.way.is_empty() && !value.is_array() && !value.is_object();
        let span = written.filter(|_| is_shown).map_or(near, |literal| literal.span);
        Ok(Node { span, kind })
    }

    fn entries(
        &mut self,
        map: &Map<String, Value>,
        path: &str,
        near: Span,
        written: Option<&Literal>,
    ) -> Result<Vec<Entry>, Box<Misplaced>> {
        let mut entries = Vec::with_capacity(map.len());
        for (key, value) in map {
            self.way.push(key.clone());
            let found = written.and_then(|written| written.field(key));
            let value = self.node(value, &join(path, key), near, found.map(|(_, value)| value))?;
            self.way.pop();
            let nearby = Span::new(value.span.start, value.span.start);
            let key_span = found.map_or(nearby, |(key, _)| key);
            entries.push(Entry { key: key.clone(), key_span, value });
        }
        Ok(entries)
    }

    /// The position of a function marker such as `{"function": true, "line": 3, "column": 14}`.
    /// Without a line the span is empty.
    fn function(&self, value: &Value) -> Option<Span> {
        let map = value.as_object()?;
        let known = |key: &String| ["function", "line", "column"].contains(&key.as_str());
        if map.get("function") != Some(&Value::Bool(true)) || !map.keys().all(known) {
            return None;
        }
        let number = |key: &str| map.get(key).and_then(Value::as_u64);
        let (line, column) = (number("line").unwrap_or(0), number("column").unwrap_or(1));
        let place = self.source.character(line, column);
        Some(place.or_else(|| self.source.character(line, 1)).unwrap_or_default())
    }

    /// The beginning of the first function in the value, if it is known. The end of the function is
    /// not that of the value.
    fn first_function(&self, value: &Value) -> Option<Span> {
        if let Some(span) = self.function(value) {
            let known = span.start < span.end;
            return known.then(|| Span::new(span.start, span.start));
        }
        let first = |span: &Span| span.start;
        match value {
            Value::Array(items) => {
                items.iter().filter_map(|item| self.first_function(item)).min_by_key(first)
            }
            Value::Object(map) => {
                map.values().filter_map(|value| self.first_function(value)).min_by_key(first)
            }
            _ => None,
        }
    }
}
