//! Steps: what is common to all of them. Each type of step has its own file.

mod action;
mod approval;
mod compensation;
mod exec;
mod for_each;
mod gateway;
pub(super) mod http;
pub(super) mod notification;
mod output_schema;
mod publish;
pub(super) mod script;
mod sub_process;
mod timer;
mod wait_for;
mod worker;

use jiff::SignedDuration;

use crate::definition::limits;
use crate::definition::model::{OnError, Step, StepRetry};
use crate::definition::order::{self, Dependency, Outline};
use crate::definition::reading::{Field, Fields, Ids, Reading};
use crate::definition::text::{Flaw, Kind, cut};
use crate::definition::time::deadlines;
use crate::definition::trigger::Defaults;
use crate::input_schema::InputSchema;

pub use action::{
    Action, AgentTask, Channel, ExecAction, ForEach, Gateway, GatewayKind, HttpAction,
    HumanApproval, Notification, Publish, Route, ScriptAction, SubProcess, Timer, WaitFor,
    WorkerAction,
};
pub use exec::EXEC_NOT_ALLOWED;
pub use http::{ANSWER_HEADERS, CONNECTION_HEADERS};
pub use output_schema::output_schema;

/// The types of steps.
pub(super) const TYPES: [&str; 14] = [
    "http",
    "exec",
    "script",
    "worker",
    "agent_task",
    "timer",
    "human_approval",
    "gateway",
    "notification",
    "sub_process",
    "publish",
    "wait_for",
    "for_each",
    "noop",
];
/// Types that a node or a worker performs in attempts. Only these can undo a step.
pub(super) const PERFORMED: [&str; 7] =
    ["http", "exec", "script", "worker", "agent_task", "notification", "noop"];
/// Types that can be performed for each item of a list.
pub(super) const EACH: [&str; 9] = [
    "http",
    "exec",
    "script",
    "worker",
    "agent_task",
    "notification",
    "publish",
    "wait_for",
    "noop",
];
/// Types whose attempts have no timeout: they wait, or take no time.
const WITHOUT_TIMEOUT: [&str; 4] = ["timer", "human_approval", "gateway", "publish"];
/// The default timeout of one attempt.
pub(super) const TIMEOUT: SignedDuration = SignedDuration::from_mins(5);

/// Reads all steps, and orders them so that dependencies come first.
pub(super) fn read_all(
    reading: &mut Reading<'_>,
    field: &Field<'_>,
    defaults: &Defaults<'_>,
) -> Vec<Step> {
    let Some(items) = reading.list(field, limits::STEPS) else { return Vec::new() };
    if !few_dependencies(reading, field, &items) {
        return Vec::new();
    }
    let mut ids = Ids::default();
    let mut steps = Vec::new();
    let mut outlines = Vec::new();
    for item in &items {
        let Some(fields) = Fields::of(reading, item, "{ id: first, type: noop }") else { continue };
        let (outline, step) = read(reading, fields, &mut ids, defaults);
        outlines.push(outline);
        steps.push(step);
    }
    let order = order::arrange(reading, &outlines);
    let mut steps: Vec<Option<Step>> = steps;
    order.into_iter().filter_map(|at| steps[at].take()).collect()
}

/// Checks the number of dependencies before anything is built from them.
fn few_dependencies(reading: &mut Reading<'_>, field: &Field<'_>, items: &[Field<'_>]) -> bool {
    let many = |item: &Field<'_>, key: &str| match item.node.entry(key).map(|e| &e.value.kind) {
        Some(Kind::List(named)) => named.len(),
        Some(_) => 1,
        None => 0,
    };
    let total: usize =
        items.iter().map(|item| many(item, "depends_on") + many(item, "routes")).sum();
    if total > limits::DEPENDENCIES {
        let flaw = Flaw::new("limit", format!("{total} dependencies between the steps"))
            .allow(format!("at most {}", limits::DEPENDENCIES));
        reading.refuse(field, flaw);
    }
    total <= limits::DEPENDENCIES
}

fn read<'n>(
    reading: &mut Reading<'_>,
    mut fields: Fields<'n>,
    ids: &mut Ids,
    defaults: &Defaults<'_>,
) -> (Outline<'n>, Option<Step>) {
    let place = fields.place();
    let id = ids.take(reading, &mut fields, "id: first");
    let name = fields.take("name").and_then(|field| reading.title(&field));
    let kind = fields.require("type", "type: noop");
    let kind = kind.and_then(|field| step_type(reading, &field, &TYPES));
    let named = fields.take("depends_on");
    let dependencies = named.map(|field| dependencies(reading, &field)).unwrap_or_default();
    // The condition of a `wait_for` is about the event, and is read there.
    let condition = match kind {
        Some("wait_for") => None,
        _ => fields.take("condition").map(|field| reading.condition(&field)),
    };
    let retry = fields.take("retry").map(|field| retry(reading, &field));
    let timeout = timeout(reading, &mut fields, kind);
    let mut jump = None;
    let on_error = fields.take("on_error");
    let on_error = on_error.map(|field| on_error_of(reading, field, &mut jump));
    let idempotent = fields.boolean(reading, "idempotent");
    let deadline = fields.take("deadline");
    let deadline = deadline.map(|field| deadlines::read(reading, &field, defaults));
    let mut targets = Vec::new();
    let action = kind.and_then(|kind| action(reading, kind, &mut fields, defaults, &mut targets));
    let references = reading.templates.take();
    let undo = fields.take("compensation").map(|field| compensation::read(reading, &field));
    let undo_references = reading.templates.take();
    // Which keys are known depends on the type.
    if kind.is_some() {
        fields.finish(reading);
    } else {
        fields.rest(reading);
    }
    let depends_on = dependencies.iter().map(|named| named.id.to_owned()).collect();
    let on_error = on_error.flatten().unwrap_or_default();
    let output = match (&action, kind) {
        (Some(action), _) => output_schema(action, &on_error),
        (None, Some(kind)) => output_schema::of_type(kind),
        (None, None) => InputSchema::default(),
    };
    let outline = Outline {
        id: id.clone(),
        place,
        dependencies,
        targets,
        jump,
        references,
        output,
        undo_references,
    };
    let step = id.zip(action).map(|(id, action)| Step {
        id,
        name,
        depends_on,
        condition: condition.flatten(),
        retry: retry.unwrap_or_else(|| StepRetry::unwritten(&action, idempotent)),
        action,
        timeout,
        on_error,
        idempotent: idempotent.unwrap_or(true),
        compensation: undo.flatten().map(Box::new),
        reconcile: None,
        deadline: deadline.flatten(),
    });
    (outline, step)
}

fn step_type<'n>(
    reading: &mut Reading<'_>,
    field: &Field<'n>,
    allowed: &[&'static str],
) -> Option<&'n str> {
    let written = reading.text(field)?;
    if allowed.contains(&written) {
        return Some(written);
    }
    let flaw = if TYPES.contains(&written) {
        Flaw::new("step-type", format!("{written} is not possible here"))
    } else {
        Flaw::new("step-type", format!("unknown step type {}", cut(written)))
            .did_you_mean(written, allowed.iter().copied())
    };
    reading.refuse(field, flaw.allow(allowed.join(", ")));
    None
}

fn action<'n>(
    reading: &mut Reading<'_>,
    kind: &str,
    fields: &mut Fields<'n>,
    defaults: &Defaults<'_>,
    targets: &mut Vec<Dependency<'n>>,
) -> Option<Action> {
    match kind {
        "timer" => timer::read(reading, fields, defaults).map(Action::Timer),
        "human_approval" => approval::read(reading, fields).map(Action::HumanApproval),
        "gateway" => gateway::read(reading, fields, targets).map(Action::Gateway),
        "sub_process" => sub_process::read(reading, fields).map(Action::SubProcess),
        "for_each" => for_each::read(reading, fields, defaults).map(Action::ForEach),
        "wait_for" => wait_for::read(reading, fields, defaults).map(Action::WaitFor),
        other => plain_action(reading, other, fields),
    }
}

fn plain_action(reading: &mut Reading<'_>, kind: &str, fields: &mut Fields<'_>) -> Option<Action> {
    match kind {
        "noop" => Some(Action::Noop),
        "http" => http::read(reading, fields).map(Action::Http),
        "exec" => exec::read(reading, fields).map(Action::Exec),
        "script" => script::read(reading, fields).map(Action::Script),
        "publish" => publish::read(reading, fields).map(Action::Publish),
        "worker" => worker::worker(reading, fields).map(Action::Worker),
        "agent_task" => worker::agent_task(reading, fields).map(Action::AgentTask),
        "notification" => notification::read(reading, fields).map(Action::Notification),
        _ => None,
    }
}

/// Reads an action inside another mapping, `{ type: http, … }`, of one of these types.
pub(super) fn action_within(
    reading: &mut Reading<'_>,
    mut fields: Fields<'_>,
    types: &[&'static str],
    defaults: Option<&Defaults<'_>>,
) -> Option<Action> {
    let kind = fields.require("type", "type: http");
    let kind = kind.and_then(|field| step_type(reading, &field, types));
    let Some(kind) = kind else {
        fields.rest(reading);
        return None;
    };
    let action = match defaults {
        Some(defaults) => action(reading, kind, &mut fields, defaults, &mut Vec::new()),
        None => plain_action(reading, kind, &mut fields),
    };
    fields.finish(reading);
    action
}

fn timeout(
    reading: &mut Reading<'_>,
    fields: &mut Fields<'_>,
    kind: Option<&str>,
) -> Option<SignedDuration> {
    let kind = kind.unwrap_or_default();
    // The timeout of a `wait_for` is how long it waits, and is read there.
    if kind == "wait_for" {
        return None;
    }
    let Some(field) = fields.take("timeout") else {
        let unlimited = WITHOUT_TIMEOUT.contains(&kind) || kind == "sub_process";
        return (!unlimited).then_some(TIMEOUT);
    };
    if WITHOUT_TIMEOUT.contains(&kind) {
        let flaw = Flaw::new("timeout", format!("a step of type {kind} has no timeout")).suggest(
            "leave it out, or deadline: { within: 1h, actions: [ { at: deadline, fail: true } ] }",
        );
        reading.refuse(&field, flaw);
        return None;
    }
    reading.duration(&field)
}

fn dependencies<'n>(reading: &mut Reading<'_>, field: &Field<'n>) -> Vec<Dependency<'n>> {
    let items = reading.one_or_many(field, limits::STEPS).unwrap_or_default();
    let mut dependencies: Vec<Dependency<'n>> = Vec::with_capacity(items.len());
    for field in items {
        if let Some(id) = reading.text_such_as(&field, "a text, the id of a step") {
            dependencies.push(Dependency { id, field });
        }
    }
    dependencies
}

pub(super) fn retry(reading: &mut Reading<'_>, field: &Field<'_>) -> StepRetry {
    let default = StepRetry::default();
    let remedy = "retry: { max: 3, delay: 5s }";
    let Some(mut fields) = Fields::of(reading, field, remedy) else { return default };
    let max = fields.whole(reading, "max", 1..=limits::ATTEMPTS);
    let delay = fields.duration(reading, "delay");
    let factor = fields.take("factor").and_then(|field| reading.decimal(&field, 1.0..=100.0));
    let longest = fields.take("max_delay");
    let max_delay = longest.as_ref().and_then(|field| reading.duration(field));
    let delay = delay.unwrap_or(default.delay);
    if let (Some(field), Some(max_delay)) = (&longest, max_delay)
        && max_delay < delay
    {
        let delay = calendar::format_duration(delay);
        let flaw = Flaw::new("retry", "the longest delay is shorter than the first one");
        reading.refuse(field, flaw.allow(format!("at least {delay}")));
    }
    fields.finish(reading);
    StepRetry {
        max: max.map_or(default.max, |max| max as u32),
        delay,
        factor: factor.unwrap_or(default.factor),
        max_delay: max_delay.unwrap_or((delay * 10).min(limits::DURATION)),
        by_default: false,
    }
}

/// `fail_process`, `skip_step`, `{ goto_step: id }` or `"goto_step: id"`.
fn on_error_of<'n>(
    reading: &mut Reading<'_>,
    field: Field<'n>,
    jump: &mut Option<Dependency<'n>>,
) -> Option<OnError> {
    const WORDS: [&str; 3] = ["fail_process", "skip_step", "goto_step"];
    if let Kind::Map(_) = &field.node.kind {
        let mut fields = Fields::of(reading, &field, "{ goto_step: cleanup }")?;
        let target = fields.require("goto_step", "goto_step: cleanup");
        let id = target
            .as_ref()
            .and_then(|target| reading.text_such_as(target, "a text, the id of a step"));
        fields.finish(reading);
        let (id, field) = (id?, target?);
        *jump = Some(Dependency { id, field });
        return Some(OnError::GotoStep(id.to_owned()));
    }
    let written = reading.text_such_as(&field, "a text, such as skip_step")?;
    match (written, written.split_once(':')) {
        ("fail_process", _) => return Some(OnError::FailProcess),
        ("skip_step", _) => return Some(OnError::SkipStep),
        (_, Some((word, id))) if word.trim() == "goto_step" && !id.trim().is_empty() => {
            let id = id.trim();
            *jump = Some(Dependency { id, field });
            return Some(OnError::GotoStep(id.to_owned()));
        }
        _ => {}
    }
    let flaw = Flaw::new("on-error", format!("{} is not known here", cut(written)))
        .allow("fail_process, skip_step, { goto_step: id }");
    reading.refuse(
        &field,
        if written.starts_with("goto_step") {
            flaw.suggest("{ goto_step: cleanup }")
        } else {
            flaw.did_you_mean(written, WORDS)
        },
    );
    None
}
