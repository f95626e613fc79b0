//! Definitions: the text of a workflow as people write it, and its checked form.
//!
//! [`read`] turns a text into a checked [`Definition`], or returns all its flaws, each with its
//! position; [`read_script`] does the same with the description that a script gives of itself. The
//! checked form is stored as JSON and read back without checking again.
//!
//! The stages of reading a text: `text` (values with their positions) → `reading` (typed values,
//! all flaws) → `document`, `trigger`, `handlers` and `steps` (the meaning of keys) → `order` (the
//! dependencies between steps) and `handlers/topics.rs` (publishers and subscribers).

mod document;
pub mod handlers;
mod incident_actions;
pub mod limits;
mod model;
mod named_elsewhere;
mod order;
mod outputs;
mod reading;
mod schema;
mod steps;
mod templates;
mod text;
mod time;
mod trigger;
mod version;
mod warnings;

use calendar::{Calendar, Zones};
use jiff::Timestamp;

pub use handlers::{Consumer, DeclaredBy, Handled, HandlerKind, Producer, TopicDeclaration};
pub(crate) use incident_actions::read as read_incident_actions;
pub use incident_actions::{IncidentAction, host_of};
pub use model::{Compensation, Definition, OnError, Output, Step, StepRetry, Trigger, TriggerKind};
pub use named_elsewhere::{unknown_secrets, unknown_workflows};
pub use order::{Graph, Kept};
pub(crate) use reading::shape;
pub use schema::{calendar_schema, schedule_keys, schedule_schema, schema};
pub(crate) use schema::{rule_keys, timing_keys};
pub use steps::{
    ANSWER_HEADERS, Action, AgentTask, CONNECTION_HEADERS, Channel, EXEC_NOT_ALLOWED, ExecAction,
    ForEach, Gateway, GatewayKind, HttpAction, HumanApproval, Notification, Publish, Route,
    ScriptAction, SubProcess, Timer, WaitFor, WorkerAction, output_schema,
};
pub use text::{Flaw, ScriptText, cut, described_script_texts, script_texts};
pub(crate) use time::duration;
pub use time::{Deadline, DeadlineAction, DeadlineEnd, From, Limit, TimeSpan, Until, When};
pub use version::Version;
pub use warnings::{calendars_of_others, commands, locate, unreachable_channels, warnings};

use reading::Reading;
use text::{Source, Span, described, tree};

/// The context that a definition is checked against.
pub struct ReadContext<'a> {
    pub zones: &'a Zones,
    /// The current time: intervals without an anchor begin here, and warnings look ahead from here.
    pub now: Timestamp,
    /// Looks up calendars from outside the definition by id.
    pub known_calendar: &'a dyn Fn(&str) -> Option<Calendar>,
}

/// Reads a definition in YAML or JSON, or returns all its flaws.
///
/// ```
/// use calendar::Zones;
/// use language::definition::{ReadContext, read};
///
/// let zones = Zones::bundled();
/// let now = "2026-03-01T00:00:00Z".parse().unwrap();
/// let context = ReadContext { zones: &zones, now, known_calendar: &|_| None };
///
/// let flaws = read("name: report\nsteps:\n  - {id: a, type: nop}\n", &context).unwrap_err();
/// assert_eq!(
///     flaws[0].to_string(),
///     [
///         "unknown step type nop",
///         "    - {id: a, type: nop}",
///         "                    ^^^",
///         "  allowed: http, exec, script, worker, agent_task, timer, human_approval, gateway, notification, sub_process, publish, wait_for, for_each, noop",
///         "  try: noop",
///     ]
///     .join("\n"),
/// );
/// assert_eq!((flaws[0].line, flaws[0].column, &*flaws[0].path), (3, 19, "steps[0].type"));
/// ```
pub fn read(text: &str, context: &ReadContext<'_>) -> Result<Definition, Vec<Flaw>> {
    small_enough(text)?;
    // Some editors put a byte order mark in front. It is ignored.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let source = Source::new(text);
    let parsed = tree::parse(&source);
    let mut reading = Reading::new(source);
    let root = match parsed {
        Ok((root, repeated)) => {
            repeated.into_iter().for_each(|misplaced| reading.keep(misplaced));
            root
        }
        Err(misplaced) => {
            reading.keep(*misplaced);
            return Err(reading.finish());
        }
    };
    checked(reading, &root, context)
}

/// Makes a definition of a script's own description, or returns all its flaws.
///
/// `source` is the script. `described` is its default export as JSON, in which each function is
/// `{"function": true, "line": 3, "column": 14}`; line and column, counted from 1, may be omitted.
/// The keys are those of [`read`]. A function is allowed wherever a script is: it becomes a
/// [`ScriptAction`] with the path to it. A flaw in anything but a function has the position of a
/// nearby function, or else that of the beginning.
///
/// ```
/// use calendar::Zones;
/// use language::definition::{Action, ReadContext, read_script};
/// use serde_json::json;
///
/// let zones = Zones::bundled();
/// let now = "2026-03-01T00:00:00Z".parse().unwrap();
/// let context = ReadContext { zones: &zones, now, known_calendar: &|_| None };
///
/// let source = "export default workflow({ name: \"sum\", steps: [{ … script: async (ctx) => 1 }] })";
/// let described = json!({
///     "name": "sum",
///     "steps": [{ "id": "add", "type": "script", "script": { "function": true, "line": 1 } }],
/// });
/// let definition = read_script(source, &described, &context).unwrap();
/// let Action::Script(script) = &definition.steps[0].action else { panic!() };
/// assert_eq!(script.entry, ["steps", "0", "script"]);
/// assert_eq!(definition.script.as_deref(), Some(source));
/// ```
pub fn read_script(
    source: &str,
    described: &serde_json::Value,
    context: &ReadContext<'_>,
) -> Result<Definition, Vec<Flaw>> {
    small_enough(source)?;
    let text = Source::new(source);
    let parsed = described::tree(&text, described);
    let mut reading = Reading::of_script(text);
    let root = match parsed {
        Ok(root) => root,
        Err(misplaced) => {
            reading.keep(*misplaced);
            return Err(reading.finish());
        }
    };
    let definition = checked(reading, &root, context)?;
    Ok(Definition { script: Some(source.to_owned()), ..definition })
}

fn small_enough(text: &str) -> Result<(), Vec<Flaw>> {
    if text.len() <= limits::TEXT_BYTES {
        return Ok(());
    }
    let flaw = Flaw::new("limit", format!("the definition has {} bytes", text.len()));
    Err(vec![flaw.allow(format!("at most {}", limits::TEXT_BYTES))])
}

fn checked(
    mut reading: Reading<'_>,
    root: &tree::Node,
    context: &ReadContext<'_>,
) -> Result<Definition, Vec<Flaw>> {
    let definition = document::read(&mut reading, root, context);
    reading.no_other_templates(root);
    let flaws = reading.finish();
    definition.filter(|_| flaws.is_empty()).ok_or(flaws)
}

/// The text of a file with a definition, which must be UTF-8.
pub fn text_of(bytes: &[u8]) -> Result<&str, Vec<Flaw>> {
    let error = match str::from_utf8(bytes) {
        Ok(text) => return Ok(text),
        Err(error) => error,
    };
    let valid = error.valid_up_to();
    let before = str::from_utf8(&bytes[..valid]).unwrap_or("");
    let mut reading = Reading::new(Source::new(before));
    let message = format!("the byte 0x{:02X} is not UTF-8", bytes[valid]);
    let flaw = Flaw::new("encoding", message).suggest("save the text as UTF-8");
    reading.report("", Span::new(valid, valid), flaw);
    Err(reading.finish())
}
