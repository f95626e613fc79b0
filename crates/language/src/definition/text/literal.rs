//! Finds the positions of a script's description in its text, where it is written as literals of
//! objects and lists. Computed values have no position.
//!
//! This is no JavaScript parser: it follows brackets, strings, regular expressions, templates and
//! comments from `workflow(` or `export default {` on. If it does not understand a text, it finds
//! fewer positions, but never wrong values: those come from evaluating the script.

use super::source::Span;
use crate::definition::limits;

/// A value that is written as a literal.
pub(super) struct Literal {
    pub(super) span: Span,
    parts: Parts,
}

enum Parts {
    Fields(Vec<(String, Span, Literal)>),
    Items(Vec<Literal>),
    None,
}

impl Literal {
    /// A field, with the span of its key.
    pub(super) fn field(&self, key: &str) -> Option<(Span, &Literal)> {
        let Parts::Fields(fields) = &self.parts else { return None };
        // If two fields have the same name, the later one counts.
        let found = fields.iter().rev().find(|(name, ..)| name == key);
        found.map(|(_, key, value)| (*key, value))
    }

    /// An item of a list.
    pub(super) fn item(&self, at: usize) -> Option<&Literal> {
        match &self.parts {
            Parts::Items(items) => items.get(at),
            _ => None,
        }
    }
}

/// The literal that describes the workflow, if the script contains one.
pub(super) fn described(text: &str) -> Option<Literal> {
    let mut reader = Reader { text: text.as_bytes(), at: 0 };
    while !reader.rest().is_empty() {
        if reader.rest().starts_with(b"workflow") && !reader.follows_a_word() {
            reader.at += b"workflow".len();
            reader.blank();
            if reader.take(b'(') {
                return reader.value(0);
            }
        } else if reader.takes_words(&[b"export", b"default"]) {
            if reader.peek() == b'{' {
                return reader.value(0);
            }
        } else {
            reader.step();
        }
    }
    None
}

struct Reader<'t> {
    text: &'t [u8],
    at: usize,
}

impl Reader<'_> {
    fn rest(&self) -> &[u8] {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn peek(&self) -> u8 {
        self.rest().first().copied().unwrap_or(0)
    }

    fn take(&mut self, byte: u8) -> bool {
        let is_it = self.peek() == byte && self.at < self.text.len();
        self.at += usize::from(is_it);
        is_it
    }

    fn follows_a_word(&self) -> bool {
        let before = self.at.checked_sub(1).and_then(|at| self.text.get(at));
        before.is_some_and(|byte| is_word(*byte) || *byte == b'.')
    }

    /// Takes these words, if they come next.
    fn takes_words(&mut self, words: &[&[u8]]) -> bool {
        let before = self.at;
        let found = !self.follows_a_word()
            && words.iter().all(|word| {
                let is_next = self.rest().starts_with(word);
                self.at += if is_next { word.len() } else { 0 };
                self.blank();
                is_next
            });
        self.at = if found { self.at } else { before };
        found
    }

    /// Skips white space and comments.
    fn blank(&mut self) {
        loop {
            match self.rest() {
                [b' ' | b'\t' | b'\r' | b'\n', ..] => self.at += 1,
                [b'/', b'/' | b'*', ..] => self.step(),
                _ => return,
            }
        }
    }

    /// Skips one character, string, regular expression, template or comment.
    fn step(&mut self) {
        match self.rest() {
            [b'/', b'/', ..] => {
                self.at +=
                    self.rest().iter().position(|b| *b == b'\n').unwrap_or(self.rest().len());
            }
            [b'/', b'*', ..] => {
                let end = self.rest().windows(2).skip(2).position(|pair| pair == b"*/");
                self.at += end.map_or(self.rest().len(), |end| end + 4);
            }
            [b'/', ..] => self.at += self.regular_expression().unwrap_or(1),
            [b'`', ..] => self.template(),
            [quote @ (b'"' | b'\''), ..] => {
                let quote = *quote;
                self.at += 1;
                while self.at < self.text.len() && !self.take(quote) {
                    self.at += if self.peek() == b'\\' { 2 } else { 1 };
                }
            }
            [] => {}
            _ => self.at += 1,
        }
    }

    /// The length of the regular expression that begins here, or `None` if this is a division.
    fn regular_expression(&self) -> Option<usize> {
        if !self.may_begin_an_expression() {
            return None;
        }
        let (mut at, mut in_class) = (1, false);
        loop {
            match *self.rest().get(at)? {
                b'\n' => return None,
                b'\\' => at += 1,
                b'[' => in_class = true,
                b']' => in_class = false,
                b'/' if !in_class => return Some(at + 1),
                _ => {}
            }
            at += 1;
        }
    }

    /// Whether a value may begin here, by what stands before: behind a value an operator follows.
    fn may_begin_an_expression(&self) -> bool {
        const BEFORE_VALUES: [&[u8]; 13] = [
            b"return", b"typeof", b"case", b"in", b"of", b"delete", b"void", b"throw", b"new",
            b"else", b"do", b"await", b"yield",
        ];
        let before = self.text[..self.at.min(self.text.len())].trim_ascii_end();
        match before {
            [] | [.., b'*', b'/'] => true,
            [.., b')' | b']' | b'"' | b'\'' | b'`' | b'/'] => false,
            [.., last] if is_word(*last) => {
                let length = before.iter().rev().take_while(|byte| is_word(**byte)).count();
                BEFORE_VALUES.contains(&&before[before.len() - length..])
            }
            _ => true,
        }
    }

    /// Skips a template with the expressions in it, which may have templates of their own.
    fn template(&mut self) {
        // The templates and expressions that are open; of an expression, its open braces.
        enum Open {
            Template,
            Expression(usize),
        }
        self.at += 1;
        let mut open = vec![Open::Template];
        while self.at < self.text.len() {
            match (open.last_mut(), self.rest()) {
                (None, _) => return,
                (Some(Open::Template), [b'\\', ..]) => self.at += 2,
                (Some(Open::Template), [b'`', ..]) => {
                    self.at += 1;
                    open.pop();
                }
                (Some(Open::Template), [b'$', b'{', ..]) => {
                    self.at += 2;
                    open.push(Open::Expression(0));
                }
                (Some(Open::Template), _) => self.at += 1,
                (Some(Open::Expression(_)), [b'`', ..]) => {
                    self.at += 1;
                    open.push(Open::Template);
                }
                (Some(Open::Expression(0)), [b'}', ..]) => {
                    self.at += 1;
                    open.pop();
                }
                (Some(Open::Expression(braces)), rest) => {
                    match rest {
                        [b'{', ..] => *braces += 1,
                        [b'}', ..] => *braces -= 1,
                        _ => {}
                    }
                    self.step();
                }
            }
        }
    }

    /// Reads a value, up to the comma or bracket behind it.
    fn value(&mut self, depth: usize) -> Option<Literal> {
        self.blank();
        let start = self.at;
        let parts = match self.peek() {
            b'{' if depth < limits::DEPTH => self.fields(depth)?,
            b'[' if depth < limits::DEPTH => self.items(depth)?,
            _ => Parts::None,
        };
        let end = self.at;
        self.expression();
        // If something follows the closing bracket, the value is no literal.
        let is_literal = self.text[end..self.at].iter().all(u8::is_ascii_whitespace);
        let (parts, end) = match (parts, is_literal) {
            (parts @ (Parts::Fields(_) | Parts::Items(_)), true) => (parts, end),
            _ => (Parts::None, self.at),
        };
        let written = self.text[start..end].trim_ascii_end().len();
        Some(Literal { span: Span::new(start, start + written), parts })
    }

    /// Skips the rest of an expression, up to a comma or closing bracket outside nested brackets.
    fn expression(&mut self) {
        let mut open = 0usize;
        while self.at < self.text.len() {
            match self.peek() {
                b'(' | b'[' | b'{' => open += 1,
                b')' | b']' | b'}' if open == 0 => return,
                b')' | b']' | b'}' => open -= 1,
                b',' if open == 0 => return,
                _ => {}
            }
            self.step();
        }
    }

    fn items(&mut self, depth: usize) -> Option<Parts> {
        self.at += 1;
        let mut items = Vec::new();
        loop {
            self.blank();
            if self.take(b']') {
                return Some(Parts::Items(items));
            }
            // The length of a spread list is unknown here.
            if self.rest().starts_with(b"...") || self.at >= self.text.len() {
                return None;
            }
            items.push(self.value(depth + 1)?);
            self.separator(b']')?;
        }
    }

    /// Takes the comma behind a part, unless the closing bracket follows. Anything else means that
    /// the text was not understood.
    fn separator(&mut self, closing: u8) -> Option<()> {
        (self.take(b',') || self.peek() == closing).then_some(())
    }

    fn fields(&mut self, depth: usize) -> Option<Parts> {
        self.at += 1;
        let mut fields = Vec::new();
        loop {
            self.blank();
            if self.take(b'}') {
                return Some(Parts::Fields(fields));
            }
            if self.at >= self.text.len() {
                return None;
            }
            let key = self.key();
            self.blank();
            let value = match (&key, self.take(b':')) {
                (Some(_), true) => self.value(depth + 1)?,
                // A method, a shorthand name, or a computed or spread field: it ends where the next
                // field begins.
                (key, _) => {
                    let start = key.as_ref().map_or(self.at, |(_, span)| span.start);
                    self.expression();
                    Literal { span: Span::new(start, self.at), parts: Parts::None }
                }
            };
            fields.extend(key.map(|(name, span)| (name, span, value)));
            self.separator(b'}')?;
        }
    }

    /// The name of a field, if it is a literal.
    fn key(&mut self) -> Option<(String, Span)> {
        loop {
            let start = self.at;
            let quoted = matches!(self.peek(), b'"' | b'\'');
            if quoted {
                self.step()
            } else {
                let word = self.rest().iter().take_while(|byte| is_word(**byte)).count();
                self.at += word;
            }
            let span = Span::new(start, self.at);
            let inside =
                if quoted { start + 1..self.at.max(start + 2) - 1 } else { start..self.at };
            let name = std::str::from_utf8(self.text.get(inside)?).ok()?;
            if name.is_empty() {
                return None;
            }
            self.blank();
            // `async run(ctx) { … }` is called `run`.
            let is_modifier = !quoted && ["async", "get", "set", "static"].contains(&name);
            if !(is_modifier && (is_word(self.peek()) || self.peek() == b'*')) {
                return Some((name.to_owned(), span));
            }
            self.take(b'*');
            self.blank();
        }
    }
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'$' || byte >= 0x80
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The text at the end of a path, and the key before it.
    fn at<'t>(text: &'t str, way: &[&str]) -> Option<(&'t str, &'t str)> {
        let root = described(text)?;
        let (mut literal, mut key) = (&root, Span::default());
        for step in way {
            (key, literal) = match step.parse() {
                Ok(number) => (Span::default(), literal.item(number)?),
                Err(_) => literal.field(step)?,
            };
        }
        let slice = |span: Span| &text[span.start..span.end];
        Some((slice(key), slice(literal.span)))
    }

    #[test]
    fn parts_are_found_by_the_way_to_them() {
        let text = "// workflow({ name: \"no\" })\nexport default workflow({\n  name: \"a, b\", 'time-zone': \"x\", /* } */\n  \
                    steps: [{ id: 'one', delay: 60 * 5, }, { async script(ctx) { return [1, { a: '}' }]; }, last: true }],\n  \
                    producers: { ['x' + 1]: 1, poll, ...more, late: { at: fn(1, 2).x } },\n});\nworkflow({})";
        let cases: [(&[&str], &str, &str); 9] = [
            (&["name"], "name", "\"a, b\""),
            (&["time-zone"], "'time-zone'", "\"x\""),
            (&["steps", "0", "id"], "id", "'one'"),
            (&["steps", "0", "delay"], "delay", "60 * 5"),
            (&["steps", "1", "last"], "last", "true"),
            (&["steps", "1", "script"], "script", "script(ctx) { return [1, { a: '}' }]; }"),
            (&["producers", "poll"], "poll", "poll"),
            (&["producers", "late", "at"], "at", "fn(1, 2).x"),
            (&["producers", "late"], "late", "{ at: fn(1, 2).x }"),
        ];
        for (way, key, value) in cases {
            assert_eq!(at(text, way), Some((key, value)), "{way:?}");
        }
        assert_eq!(at(text, &["nothing"]), None);
    }

    #[test]
    fn brackets_and_quotes_in_expressions_and_templates_are_no_brackets_and_quotes() {
        for value in [
            r"/\(/",
            r"/[(]/g",
            r"/{/",
            r"/[}]/",
            r"/\//",
            r#"/["'`]/"#,
            r"f(x) / 2 + ')'",
            r"[1] / 2",
            r#"`${ "(" }${ `(` }`"#,
            r"`${ { a: /}/ } }`",
            r"async (ctx) => { return /\[/.test(ctx) }",
            r"() => { const a = 4 / 2, b = /\)/; return a / b }",
            r"/* ( */ /\(/",
        ] {
            let text =
                format!("const re = /[{{\"']/g;\nexport default workflow({{ a: {value}, b: 1 }})");
            let found = at(&text, &["a"]).map(|(_, found)| found);
            assert_eq!(found, Some(value.trim_start_matches("/* ( */ ")), "{value}");
            assert_eq!(at(&text, &["b"]), Some(("b", "1")), "{value}");
        }
        assert_eq!(at("export default { a: 1 }", &["a"]), Some(("a", "1")));
    }

    #[test]
    fn texts_that_are_no_scripts_end() {
        for text in [
            "",
            "workflow(",
            "workflow({",
            "workflow({a",
            "workflow({a:",
            "workflow([",
            "workflow({'a",
            "workflow({a: `",
            "workflow(/*",
            "workflow({a: [1)]})",
            "workflow([}])",
            "workflow({a: f(/[(/})",
            "workflow({a: `${`",
            "workflow({a: `${{`}`})",
            "workflow({a: 1 / 2)})",
            "export default {",
            "myworkflow({a: 1})",
        ] {
            assert!(described(text).is_none_or(|found| found.field("b").is_none()), "{text}");
        }
        let deep = format!("workflow({}", "[".repeat(100_000));
        assert!(described(&deep).is_none_or(|found| found.item(1).is_none()));
    }
}
