//! Turns a thrown value into a failure. The script cannot interfere, whatever it has thrown.

use rquickjs::{Ctx, Object, Value};

use super::super::evaluation::ScriptFailure;
use super::super::limits::{Limit, MESSAGE_CHARS, bytes};
use super::json;
use super::state::State;
use crate::mask::BEYOND;

/// How much of a message is sent: a little more than the parent keeps, because the whole message
/// may have megabytes.
const SENT_CHARS: usize = MESSAGE_CHARS + BEYOND;
const STACK_LINES: usize = 20;
/// How many levels of an error's `cause` are followed.
const CAUSES: usize = 8;

/// Translates the interpreter's positions into positions of the script's own text.
pub(super) struct SourcePositions {
    /// The file name that the interpreter shows for the text.
    pub(super) name: String,
    /// The number of columns that the wrapping function adds before the first line.
    pub(super) indent: u32,
    /// The end of the text: line and column.
    pub(super) end: (u32, u32),
}

impl SourcePositions {
    pub(super) fn new(name: &str, source: &str, indent: usize) -> SourcePositions {
        let count = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        let last = source.rsplit('\n').next().unwrap_or_default();
        let rows = source.bytes().filter(|&byte| byte == b'\n').count() + 1;
        let end = (count(rows), count(last.chars().count() + 1));
        SourcePositions { name: name.to_owned(), indent: count(indent), end }
    }

    /// A logic failure, with the innermost position that is in the script's text.
    pub(super) fn logic(&self, message: String, stack: &str) -> ScriptFailure {
        let mut innermost = None;
        let mut lines = Vec::new();
        for line in stack.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let Some((before, row, column)) = self.read(line) else { continue };
            innermost = innermost.or(Some((row, column)));
            if lines.len() < STACK_LINES {
                lines.push(format!("{before}{}:{row}:{column}", self.name));
            }
        }
        let (line, column) = innermost.unzip();
        ScriptFailure::Logic { message, line, column, stack: lines.join("\n") }
    }

    /// A limit failure, with the position in its message.
    fn limit(&self, what: Limit, message: String, stack: &str) -> ScriptFailure {
        match stack.lines().find_map(|line| self.read(line.trim())) {
            Some((_, row, column)) => {
                ScriptFailure::limit(what, format!("line {row}, column {column}: {message}"))
            }
            None => ScriptFailure::limit(what, message),
        }
    }

    /// Parses `at f (name:1:40)` or `at name:1:40` into `f at `, line and column.
    fn read(&self, line: &str) -> Option<(String, u32, u32)> {
        let line = line.strip_prefix("at ")?;
        let start = line.rfind(&format!("{}:", self.name))?;
        let (function, position) = line.split_at(start);
        let position = position[self.name.len() + 1..].trim_end_matches(')');
        let (row, column) = position.split_once(':')?;
        let (row, column): (u32, u32) = (row.parse().ok()?, column.parse().ok()?);
        let column = if row == 1 { column.saturating_sub(self.indent).max(1) } else { column };
        // If something is missing at the end of the text, the interpreter reports the position of
        // the added closing brace. The last position of the text is used instead.
        let (row, column) = (row, column).min(self.end);
        let function = function.trim_end_matches('(').trim();
        let before = match function {
            "" | "<anonymous>" => String::new(),
            _ => format!("{} at ", shortened(function, 80)),
        };
        Some((before, row, column))
    }
}

/// Turns the value that ended a phase into a failure. The script, the interpreter or the host may
/// have thrown it.
pub(super) fn told<'js>(ctx: &Ctx<'js>, state: &State<'js>, thrown: &Value<'js>) -> ScriptFailure {
    let message = message_of(ctx, state, thrown);
    let stack = stack_of(state, thrown).unwrap_or_default();
    // Reading the value may have run code of the script, which may have exceeded a limit: its
    // exception is discarded.
    ctx.catch();
    if is_transient(state, thrown) {
        return ScriptFailure::Transient { message };
    }
    let limits = &state.meter.limits;
    match message.as_str() {
        "InternalError: out of memory"
        | "InternalError: string too long"
        | "RangeError: BigInt is too large"
        | "RangeError: BigInt is too large to allocate" => {
            let heap = bytes(limits.heap_bytes);
            let why = message.split_once(": ").map_or("", |(_, why)| why);
            let message = format!("the script needs more than its {heap} of memory ({why})");
            state.positions.limit(Limit::Memory, message, &stack)
        }
        "RangeError: Maximum call stack size exceeded" => {
            let size = bytes(limits.stack_bytes);
            let message = format!("the script's calls nest deeper than its {size} of stack allow");
            state.positions.limit(Limit::Stack, message, &stack)
        }
        // If there is no memory even for an error object, the interpreter throws null.
        _ if thrown.is_null() => memory(limits.heap_bytes),
        _ => state.positions.logic(message, &stack),
    }
}

/// The failure for a thrown null, which may mean that there was no memory for an error object.
pub(super) fn memory(heap: usize) -> ScriptFailure {
    let heap = bytes(heap);
    let message = format!(
        "the script threw null, or needs more than its {heap} of memory: both look the same"
    );
    ScriptFailure::limit(Limit::Memory, message)
}

/// The stack of an error; `None` if the value is not an error or has no stack.
pub(super) fn stack_of<'js>(state: &State<'js>, thrown: &Value<'js>) -> Option<String> {
    if !thrown.is_error() {
        return None;
    }
    let stack: Value = thrown.as_object()?.get("stack").ok()?;
    state.builtins().ok()?.text(&stack).ok()
}

fn message_of<'js>(ctx: &Ctx<'js>, state: &State<'js>, thrown: &Value<'js>) -> String {
    const GENERIC: &str = "the script threw something that is not an Error";
    let Ok(builtins) = state.builtins() else { return GENERIC.to_owned() };
    if thrown.is_error()
        && let Some(error) = thrown.as_object()
    {
        let part = |name: &str| -> Option<String> {
            let value: Value = error.get(name).ok()?;
            builtins.text(&value).ok().filter(|text| !text.is_empty())
        };
        let name = part("name").unwrap_or_else(|| "Error".to_owned());
        return match part("message") {
            Some(message) if name == "Error" => shortened(&message, SENT_CHARS),
            Some(message) => shortened(&format!("{name}: {message}"), SENT_CHARS),
            None => shortened(&name, SENT_CHARS),
        };
    }
    if thrown.is_undefined() {
        return "the script threw undefined".to_owned();
    }
    if let Ok(text) = builtins.text(thrown) {
        return shortened(&text, SENT_CHARS);
    }
    match json::text(ctx, state, thrown, MESSAGE_CHARS) {
        Ok(text) => format!("{GENERIC}: {text}"),
        Err(_) => GENERIC.to_owned(),
    }
}

/// Whether this error, or one in its chain of causes, was reported by the host as transient.
fn is_transient<'js>(state: &State<'js>, thrown: &Value<'js>) -> bool {
    let mut next = Some(thrown.clone());
    for _ in 0..CAUSES {
        let Some(error) = next else { return false };
        if state.transient.borrow().contains(&error) {
            return true;
        }
        next = error.is_error().then_some(error).and_then(Value::into_object).and_then(cause);
    }
    false
}

fn cause<'js>(error: Object<'js>) -> Option<Value<'js>> {
    error.get::<_, Value>("cause").ok()
}

/// The beginning of a text, with an ellipsis where it is cut.
pub(super) fn shortened(text: &str, chars: usize) -> String {
    match text.char_indices().nth(chars) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
