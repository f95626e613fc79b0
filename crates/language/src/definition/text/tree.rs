//! Parses a text to a tree of values, each with its position. JSON is YAML.
//!
//! Only what JSON can express is accepted: anchors, aliases, merge keys, tags, directives and
//! further documents are refused. So the text means what it shows, and no small text can become a
//! large tree.

use granit_parser::{ErrorKind, Event, Parser, ScalarStyle, ScanError};

use super::flaw::Flaw;
use super::number::is_number;
use super::path::{join, join_index};
use super::quoting;
use super::source::{Source, Span};
use crate::definition::limits;

/// A value and its position.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) span: Span,
    pub(crate) kind: Kind,
}

/// The kind of a value. Numbers are kept as written.
#[derive(Debug)]
pub(crate) enum Kind {
    Null,
    Bool(bool),
    Number(String),
    Text(String),
    List(Vec<Node>),
    Map(Vec<Entry>),
    /// A function of a script, with the path to it.
    Function(Vec<String>),
}

/// A key with its value.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) key: String,
    pub(crate) key_span: Span,
    pub(crate) value: Node,
}

impl Node {
    /// The best position for a caret: the first key of a mapping instead of all of it.
    pub(crate) fn mark(&self) -> Span {
        match &self.kind {
            Kind::Map(entries) => entries.first().map_or(self.span, |entry| entry.key_span),
            Kind::List(items) => items.first().map_or(self.span, Node::mark),
            _ => self.span,
        }
    }

    /// A description for people.
    pub(crate) fn describe(&self) -> String {
        match &self.kind {
            Kind::Null => "nothing".to_owned(),
            Kind::Bool(value) => value.to_string(),
            Kind::Number(literal) => format!("the number {}", cut(literal)),
            Kind::Text(text) if text.is_empty() => "an empty text".to_owned(),
            Kind::Text(text) => format!("the text {}", cut(text)),
            Kind::List(_) => "a list".to_owned(),
            Kind::Map(_) => "a mapping".to_owned(),
            Kind::Function(_) => "a function".to_owned(),
        }
    }

    /// The entry of a mapping with this key.
    pub(crate) fn entry(&self, key: &str) -> Option<&Entry> {
        match &self.kind {
            Kind::Map(entries) => entries.iter().find(|entry| entry.key == key),
            _ => None,
        }
    }
}

/// The first line of a text, cut to fit into a message.
pub fn cut(text: &str) -> String {
    let line = text.lines().next().unwrap_or("");
    match line.char_indices().nth(40) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None if line.len() < text.len() => format!("{line}…"),
        None => line.to_owned(),
    }
}

/// The tree of a text, and flaws that do not prevent one.
pub(crate) fn parse(source: &Source<'_>) -> Result<(Node, Vec<Misplaced>), Box<Misplaced>> {
    Builder {
        source,
        open: Vec::new(),
        root: None,
        count: 0,
        repeated: Vec::new(),
        anchored: String::new(),
    }
    .run()
}

/// A flaw with its path and span, before line and excerpt are known.
#[derive(Debug)]
pub(crate) struct Misplaced {
    pub(crate) path: String,
    pub(crate) span: Span,
    pub(crate) flaw: Flaw,
}

struct Builder<'s, 't> {
    source: &'s Source<'t>,
    open: Vec<Open>,
    root: Option<Node>,
    count: usize,
    repeated: Vec<Misplaced>,
    /// The path to the last value with an anchor. The parser reports the anchor after its value.
    anchored: String,
}

/// A list or mapping whose end has not been read yet.
enum Open {
    List { start: usize, items: Vec<Node> },
    Map { start: usize, entries: Vec<Entry>, key: Option<(String, Span)> },
}

type Step = Result<(), Box<Misplaced>>;

impl Builder<'_, '_> {
    fn run(mut self) -> Result<(Node, Vec<Misplaced>), Box<Misplaced>> {
        // One more than allowed, so that this builder reports the error, with the path.
        let options = granit_parser::options! {
            disallow_directives: true,
            emit_unresolved_aliases: true,
            emit_anchor_events: true,
            emit_comments: false,
            flow_nesting_limit: limits::DEPTH + 1,
            block_nesting_limit: limits::DEPTH + 1,
        };
        let mut documents = 0;
        for event in Parser::new_from_str_with_options(self.source.text(), options) {
            let (event, span) = event.map_err(|error| self.syntax(&error))?;
            let place = bytes(span);
            if let Event::DocumentStart(..) = event {
                documents += 1;
            }
            if documents > 1 {
                let flaw = Flaw::new("documents", "a second document begins here")
                    .allow("one definition in a text");
                return Err(self.flaw(place, flaw));
            }
            if event.is_node() {
                self.count(place)?;
                if event.anchor_id().is_some() {
                    self.anchored = self.path();
                }
                self.plain_node(&event, place, span.tag_span().map(bytes))?;
            }
            self.take(event, place)?;
        }
        let empty = || Flaw::new("empty", "the definition is empty").suggest("name: my-workflow");
        match self.root {
            Some(root) if !matches!(root.kind, Kind::Null) => Ok((root, self.repeated)),
            _ => Err(Box::new(Misplaced {
                path: String::new(),
                span: Span::default(),
                flaw: empty(),
            })),
        }
    }

    fn take(&mut self, event: Event<'_>, place: Span) -> Step {
        match event {
            Event::Scalar(text, style, ..) => self.scalar(text.into_owned(), style, place)?,
            Event::SequenceStart(..) => {
                self.no_collection_as_key(place)?;
                self.open.push(Open::List { start: place.start, items: Vec::new() });
            }
            Event::MappingStart(..) => {
                self.no_collection_as_key(place)?;
                let entries = Vec::new();
                self.open.push(Open::Map { start: place.start, entries, key: None });
            }
            Event::SequenceEnd | Event::MappingEnd => self.close(place.end),
            Event::Anchor(..) => {
                let flaw = Flaw::new("anchor", "anchors (&name) are not read")
                    .suggest("leave it out, or quote a text that begins with &");
                let path = std::mem::take(&mut self.anchored);
                return Err(Box::new(Misplaced { path, span: place, flaw }));
            }
            _ => {}
        }
        Ok(())
    }

    fn scalar(&mut self, text: String, style: ScalarStyle, span: Span) -> Step {
        if text.len() > limits::SCALAR_BYTES {
            let flaw = Flaw::new("limit", format!("a text of {} bytes", text.len()))
                .allow(format!("at most {} bytes in one text", limits::SCALAR_BYTES));
            return Err(self.flaw(span, flaw));
        }
        let plain = style == ScalarStyle::Plain;
        let Some(Open::Map { key: key @ None, .. }) = self.open.last_mut() else {
            let kind = if plain { plain_kind(text) } else { Kind::Text(text) };
            self.place(Node { span, kind });
            return Ok(());
        };
        if plain && text == "<<" {
            let flaw =
                Flaw::new("merge", "merge keys are not read").suggest("write the merged keys out");
            return Err(self.flaw(span, flaw));
        }
        if plain && span.start == span.end {
            return Err(self.flaw(span, Flaw::new("key", "a key is missing here")));
        }
        *key = Some((text, span));
        Ok(())
    }

    fn place(&mut self, node: Node) {
        match self.open.last_mut() {
            None => self.root = Some(node),
            Some(Open::List { items, .. }) => items.push(node),
            Some(Open::Map { entries, key, .. }) => {
                if let Some((key, key_span)) = key.take() {
                    // If a key has no value, the key is the best position.
                    let nothing = node.span.start == node.span.end;
                    let span = if nothing { key_span } else { node.span };
                    entries.push(Entry { key, key_span, value: Node { span, ..node } });
                }
            }
        }
    }

    fn close(&mut self, end: usize) {
        let node = match self.open.pop() {
            None => return,
            Some(Open::List { start, items }) => {
                Node { span: Span::new(start, end), kind: Kind::List(items) }
            }
            Some(Open::Map { start, entries, .. }) => {
                self.no_repeated_keys(&entries);
                Node { span: Span::new(start, end), kind: Kind::Map(entries) }
            }
        };
        self.place(node);
    }

    /// Finds repeated keys by sorting, so that a mapping with a hundred thousand keys stays cheap.
    fn no_repeated_keys(&mut self, entries: &[Entry]) {
        let mut sorted: Vec<&Entry> = entries.iter().collect();
        sorted.sort_by(|a, b| a.key.cmp(&b.key));
        for pair in sorted.windows(2).filter(|pair| pair[0].key == pair[1].key) {
            if self.repeated.len() >= limits::FLAWS {
                return;
            }
            let (first, _) = self.source.position(pair[0].key_span.start);
            let message = format!("{} is given twice, first on line {first}", cut(&pair[1].key));
            let path = join(&self.path(), &pair[1].key);
            let flaw = Flaw::new("repeated-key", message);
            self.repeated.push(Misplaced { path, span: pair[1].key_span, flaw });
        }
    }

    fn count(&mut self, place: Span) -> Step {
        self.count += 1;
        if self.count > limits::VALUES {
            let flaw = Flaw::new("limit", "too many values")
                .allow(format!("at most {} in a definition", limits::VALUES));
            return Err(self.flaw(place, flaw));
        }
        if self.open.len() > limits::DEPTH {
            return Err(self.flaw(place, too_deep()));
        }
        Ok(())
    }

    /// Refuses aliases and tags, which JSON does not have.
    fn plain_node(&self, event: &Event<'_>, place: Span, tag_place: Option<Span>) -> Step {
        if matches!(event, Event::Alias(_) | Event::UnresolvedAlias(_)) {
            let flaw = quoting::unquoted(self.source, place.start).unwrap_or_else(|| {
                Flaw::new("alias", "references to other parts of the text are not read")
                    .suggest("write the value out, or quote a text that begins with *")
            });
            return Err(self.flaw(place, flaw));
        }
        if let Some(tag) = event.tag() {
            let message = format!("the tag {} is not read", cut(&tag.original()));
            let flaw = Flaw::new("tag", message).suggest("leave it out, or quote the text");
            return Err(self.flaw(tag_place.unwrap_or(place), flaw));
        }
        Ok(())
    }

    fn no_collection_as_key(&self, place: Span) -> Step {
        if !matches!(self.open.last(), Some(Open::Map { key: None, .. })) {
            return Ok(());
        }
        let (before, after) = self.source.text().split_at(place.start);
        if before.ends_with('{') && after.starts_with('{') {
            let both = Span::new(place.start - 1, place.start + 1);
            return Err(self.flaw(both, quoting::unquoted_template()));
        }
        Err(self.flaw(place, Flaw::new("key", "a key must be a text")))
    }

    fn syntax(&self, error: &ScanError) -> Box<Misplaced> {
        let at = error.marker().byte_offset().unwrap_or(0);
        let flaw = match error.kind() {
            ErrorKind::RecursionLimitExceeded => too_deep(),
            ErrorKind::DirectiveDisallowed => {
                Flaw::new("directive", "directives (%…) are not read").suggest("leave the line out")
            }
            kind => quoting::unquoted(self.source, at).unwrap_or_else(|| {
                let flaw = Flaw::new("syntax", format!("not readable: {}", error.info()));
                advice(kind).map_or(flaw.clone(), |remedy| flaw.suggest(remedy))
            }),
        };
        self.flaw(Span::new(at, at), flaw)
    }

    fn flaw(&self, span: Span, flaw: Flaw) -> Box<Misplaced> {
        Box::new(Misplaced { path: self.path(), span, flaw })
    }

    /// The path to the value being read.
    fn path(&self) -> String {
        self.open.iter().fold(String::new(), |path, open| match open {
            Open::List { items, .. } => join_index(&path, items.len()),
            Open::Map { key: Some((key, _)), .. } => join(&path, key),
            Open::Map { .. } => path,
        })
    }
}

fn bytes(span: granit_parser::Span) -> Span {
    let range = span.byte_range().unwrap_or_default();
    Span::new(range.start, range.end)
}

/// The remedy for the most common syntax errors.
fn advice(kind: &ErrorKind) -> Option<&'static str> {
    match kind {
        ErrorKind::TabNotAllowed
        | ErrorKind::TabInBlockIndentation
        | ErrorKind::TabInIndentation
        | ErrorKind::TabAtBlockScalarStart => Some("spaces instead of tabs"),
        ErrorKind::MappingValueNotAllowed => {
            Some("the same indentation as the line before, or quotes around a text with a colon")
        }
        ErrorKind::UnclosedQuotedScalar => Some("a quote at the end of the text"),
        _ => None,
    }
}

pub(crate) fn too_deep() -> Flaw {
    Flaw::new("limit", "nested too deeply").allow(format!("at most {} levels", limits::DEPTH))
}

/// The core schema of YAML 1.2: `yes`, `no`, `on` and `off` are texts.
fn plain_kind(text: String) -> Kind {
    match text.as_str() {
        "" | "~" | "null" | "Null" | "NULL" => Kind::Null,
        "true" | "True" | "TRUE" => Kind::Bool(true),
        "false" | "False" | "FALSE" => Kind::Bool(false),
        number if is_number(number) => Kind::Number(text),
        _ => Kind::Text(text),
    }
}
