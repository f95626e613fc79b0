//! Reads typed values from the tree. Flaws are collected, and none stops the reading.

mod fields;
pub(super) mod json;
pub(super) mod names;
pub(crate) mod shape;

use std::ops::{Range, RangeInclusive};

use calendar::{Mistake, Problem};
use jiff::SignedDuration;
use serde_json::Number;

use crate::definition::handlers::TopicReferences;
use crate::definition::limits;
use crate::definition::templates::Templates;
use crate::definition::text::{
    Entry, Flaw, Kind, Misplaced, Node, Source, Span, cut, follow, join, join_index, number,
};
use crate::definition::time::duration;

pub(super) use fields::Fields;
pub(super) use names::{Ids, quoted};

/// A value with the path to it.
#[derive(Clone)]
pub(super) struct Field<'n> {
    pub(super) path: String,
    pub(super) node: &'n Node,
}

/// The text being read, and its flaws.
pub(super) struct Reading<'t> {
    source: Source<'t>,
    /// Whether the tree comes from a script's description, in which only functions have exact
    /// positions.
    described: bool,
    flaws: Vec<Flaw>,
    left_off: usize,
    pub(super) templates: Templates,
    pub(super) topics: TopicReferences,
}

impl<'t> Reading<'t> {
    pub(super) fn new(source: Source<'t>) -> Reading<'t> {
        Reading {
            source,
            described: false,
            flaws: Vec::new(),
            left_off: 0,
            templates: Templates::default(),
            topics: TopicReferences::default(),
        }
    }

    /// A reading of a script's description.
    pub(super) fn of_script(source: Source<'t>) -> Reading<'t> {
        Reading { described: true, ..Reading::new(source) }
    }

    pub(super) fn is_described(&self) -> bool {
        self.described
    }

    pub(super) fn source(&self) -> &Source<'t> {
        &self.source
    }

    /// Whether there are so many flaws that further ones are only counted.
    pub(super) fn is_full(&self) -> bool {
        self.flaws.len() >= limits::FLAWS
    }

    /// Whether a flaw was reported at exactly this path.
    pub(super) fn has_flaw_at(&self, path: &str) -> bool {
        !path.is_empty() && self.flaws.iter().any(|flaw| flaw.path == path)
    }

    pub(super) fn report(&mut self, path: &str, span: Span, mut flaw: Flaw) {
        if self.is_full() {
            self.left_off += 1;
            return;
        }
        path.clone_into(&mut flaw.path);
        (flaw.line, flaw.column) = self.source.position(span.start);
        // An approximate position is not shown: the caret would point at something else.
        if !self.described || span.start < span.end {
            flaw.excerpt = Some(self.source.excerpt(span));
        }
        self.flaws.push(flaw);
    }

    /// An excerpt of the value itself, for a text that does not appear literally in the source.
    pub(super) fn value_excerpt(
        &self,
        node: &Node,
        part: Range<usize>,
    ) -> Option<(String, Range<usize>)> {
        match &node.kind {
            Kind::Text(text) if self.described => {
                let problem = Problem::new("", text, part, "");
                Some((problem.text.into(), problem.span))
            }
            _ => None,
        }
    }

    /// Reports a flaw of a value.
    pub(super) fn refuse(&mut self, field: &Field<'_>, flaw: Flaw) {
        if !self.is_foreign_template(field.node) {
            self.report(&field.path, field.node.mark(), flaw);
        }
    }

    /// Reports a flaw that was found while the tree was built.
    pub(super) fn keep(&mut self, misplaced: Misplaced) {
        self.report(&misplaced.path, misplaced.span, misplaced.flaw);
    }

    /// Reports a problem with a text. The caret points at the wrong part of the text.
    pub(super) fn problem(&mut self, field: &Field<'_>, problem: Problem) {
        if !self.is_foreign_template(field.node) {
            let span = self.part(field.node, &problem);
            let flaw = self.flaw_of(problem);
            self.report(&field.path, span, flaw);
        }
    }

    /// Reports a mistake somewhere below a field.
    pub(super) fn mistake(&mut self, base: &Field<'_>, mistake: Mistake) {
        let found = follow(base.node, &mistake.path);
        if found.complete && self.is_foreign_template(found.node) {
            return;
        }
        let path = match mistake.path.as_str() {
            "" => base.path.clone(),
            below if base.path.is_empty() => below.to_owned(),
            below => format!("{}.{below}", base.path),
        };
        let span = match found.entry {
            Some(entry) if mistake.problem.code == "unknown-key" => entry.key_span,
            _ if found.complete => self.part(found.node, &mistake.problem),
            _ => found.node.mark(),
        };
        let flaw = self.flaw_of(mistake.problem);
        self.report(&path, span, flaw);
    }

    /// The flaw of a problem, with the problem's own text where the definition has no line to show.
    fn flaw_of(&self, problem: Problem) -> Flaw {
        let own = (problem.text.to_string(), problem.span.clone());
        let excerpt = Some(own).filter(|(text, _)| self.described && !text.is_empty());
        Flaw { excerpt, ..problem.into() }
    }

    /// Whether the value is a template where none is filled in. It is refused as such, once, at the
    /// end, and not for other reasons.
    fn is_foreign_template(&self, node: &Node) -> bool {
        matches!(&node.kind, Kind::Text(text) if text.contains("{{"))
            && !self.templates.is_filled(node)
    }

    /// All flaws, in the order of the text.
    pub(super) fn finish(mut self) -> Vec<Flaw> {
        self.flaws.sort_by_key(|flaw| (flaw.line, flaw.column));
        if self.left_off > 0 {
            let message = format!("{} more flaws are not shown", self.left_off);
            self.flaws.push(Flaw::new("more", message));
        }
        self.flaws
    }

    /// The span of a problem inside a text, if the text appears literally in the source.
    fn part(&self, node: &Node, problem: &Problem) -> Span {
        match &node.kind {
            Kind::Text(value) if *problem.text == **value && !problem.span.is_empty() => {
                self.inside(node, problem.span.clone())
            }
            Kind::Text(_) => node.span,
            _ => node.mark(),
        }
    }

    /// The span of a part of a text, if the text appears literally in the source; otherwise all of
    /// it.
    pub(super) fn inside(&self, node: &Node, part: Range<usize>) -> Span {
        let (Kind::Text(value), written) = (&node.kind, self.source.slice(node.span)) else {
            return node.mark();
        };
        let quote = usize::from(written.starts_with(['"', '\'']));
        let inside = written.get(quote..written.len().saturating_sub(quote));
        if inside != Some(value.as_str()) || part.end > value.len() {
            return node.span;
        }
        let start = node.span.start + quote;
        Span::new(start + part.start, start + part.end)
    }
}

/// Typed values. A value of another type is reported, and `None` is returned.
impl<'t> Reading<'t> {
    fn mismatch(&mut self, field: &Field<'_>, expected: &str) {
        let message = format!("expected {expected}, found {}", field.node.describe());
        let mut flaw = Flaw::new("type", message);
        if let Kind::Number(literal) = &field.node.kind
            && expected.starts_with("a text")
        {
            flaw = flaw.suggest(format!("\"{}\"", cut(literal)));
        }
        if let Kind::Bool(value) = &field.node.kind
            && expected.starts_with("a text")
        {
            flaw = flaw.suggest(format!("\"{value}\""));
        }
        self.refuse(field, flaw);
    }

    pub(super) fn text<'n>(&mut self, field: &Field<'n>) -> Option<&'n str> {
        self.text_such_as(field, "a text")
    }

    pub(super) fn text_such_as<'n>(
        &mut self,
        field: &Field<'n>,
        expected: &str,
    ) -> Option<&'n str> {
        if let Kind::Text(text) = &field.node.kind {
            return Some(text);
        }
        self.mismatch(field, expected);
        None
    }

    /// A line for people: not empty, without control characters.
    pub(super) fn title(&mut self, field: &Field<'_>) -> Option<String> {
        let text = self.text(field)?;
        let length = text.chars().count();
        if length == 0 || length > limits::TITLE_LENGTH || text.chars().any(char::is_control) {
            let flaw = Flaw::new("title", "not a line of text")
                .allow(format!("1 to {} characters in one line", limits::TITLE_LENGTH));
            self.refuse(field, flaw);
            return None;
        }
        Some(text.to_owned())
    }

    pub(super) fn boolean(&mut self, field: &Field<'_>) -> Option<bool> {
        let written = match &field.node.kind {
            Kind::Bool(value) => return Some(*value),
            Kind::Text(text) => text.to_ascii_lowercase(),
            _ => String::new(),
        };
        let message = format!("expected true or false, found {}", field.node.describe());
        let flaw = Flaw::new("type", message);
        self.refuse(
            field,
            match written.as_str() {
                "yes" | "on" | "y" | "true" => flaw.suggest("true"),
                "no" | "off" | "n" | "false" => flaw.suggest("false"),
                _ => flaw,
            },
        );
        None
    }

    pub(super) fn whole(&mut self, field: &Field<'_>, allowed: RangeInclusive<u64>) -> Option<u64> {
        let range = format!("{} to {}", allowed.start(), allowed.end());
        self.number(field, "a whole number", range, |number| {
            number.as_u64().filter(|number| allowed.contains(number))
        })
    }

    /// A number that may have a fraction.
    pub(super) fn decimal(
        &mut self,
        field: &Field<'_>,
        allowed: RangeInclusive<f64>,
    ) -> Option<f64> {
        let range = format!("{} to {}", allowed.start(), allowed.end());
        self.number(field, "a number", range, |number| {
            number.as_f64().filter(|number| allowed.contains(number))
        })
    }

    fn number<T>(
        &mut self,
        field: &Field<'_>,
        what: &str,
        range: String,
        take: impl FnOnce(Number) -> Option<T>,
    ) -> Option<T> {
        let Kind::Number(literal) = &field.node.kind else {
            self.mismatch(field, &format!("{what} from {range}"));
            return None;
        };
        let found = number::exact(literal);
        let message = match found {
            Ok(number) => match take(number) {
                Some(taken) => return Some(taken),
                None => format!("{} is out of range", cut(literal)),
            },
            Err(flaw) => flaw.message,
        };
        self.refuse(field, Flaw::new("range", message).allow(range));
        None
    }

    /// A duration: `5m`, `PT5M`, or a number of seconds. It must not be zero.
    pub(super) fn duration(&mut self, field: &Field<'_>) -> Option<SignedDuration> {
        let read = match &field.node.kind {
            Kind::Text(text) | Kind::Number(text) => duration::parse(text),
            _ => {
                self.mismatch(field, "a duration such as 30s, 5m or 1h30m");
                return None;
            }
        };
        match read {
            Ok(duration) if duration.is_zero() => {
                let flaw = Flaw::new("duration", "a duration of nothing").allow("at least 1ms");
                self.refuse(field, flaw);
                None
            }
            Ok(duration) => Some(duration),
            Err(problem) => {
                self.problem(field, problem);
                None
            }
        }
    }

    /// The items of a list.
    pub(super) fn list<'n>(&mut self, field: &Field<'n>, most: usize) -> Option<Vec<Field<'n>>> {
        let Kind::List(items) = &field.node.kind else {
            self.mismatch(field, "a list");
            return None;
        };
        if items.len() > most {
            let flaw = Flaw::new("limit", format!("{} entries", items.len()))
                .allow(format!("at most {most}"));
            self.refuse(field, flaw);
            return None;
        }
        let item = |(at, node)| Field { path: join_index(&field.path, at), node };
        Some(items.iter().enumerate().map(item).collect())
    }

    /// The items of a list, or a single value as the only item.
    pub(super) fn one_or_many<'n>(
        &mut self,
        field: &Field<'n>,
        most: usize,
    ) -> Option<Vec<Field<'n>>> {
        match &field.node.kind {
            Kind::List(_) => self.list(field, most),
            _ => Some(vec![field.clone()]),
        }
    }

    /// The entries of a mapping whose keys are names.
    pub(super) fn named<'n>(&mut self, field: &Field<'n>, what: &str) -> Option<&'n [Entry]> {
        if let Kind::Map(entries) = &field.node.kind {
            return Some(entries);
        }
        self.mismatch(field, what);
        None
    }

    /// The entries of a mapping of names to texts.
    pub(super) fn texts<'n>(
        &mut self,
        field: &Field<'n>,
    ) -> Vec<(&'n str, Span, Field<'n>, &'n str)> {
        let Kind::Map(entries) = &field.node.kind else {
            self.mismatch(field, "a mapping of names to texts");
            return Vec::new();
        };
        if entries.len() > limits::ENTRIES {
            let flaw = Flaw::new("limit", format!("{} entries", entries.len()))
                .allow(format!("at most {}", limits::ENTRIES));
            self.refuse(field, flaw);
            return Vec::new();
        }
        let mut texts = Vec::new();
        for entry in entries {
            let value = Field { path: join(&field.path, &entry.key), node: &entry.value };
            if let Some(text) = self.text(&value) {
                texts.push((entry.key.as_str(), entry.key_span, value, text));
            }
        }
        texts
    }
}
