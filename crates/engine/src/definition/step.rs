//! Steps: what is common to all of them. What each type does is in a file of its own.

use jiff::SignedDuration;

use super::action::Action;
use super::fields::Fields;
use super::flaw::Flaw;
use super::limits;
use super::model::{OnError, Step, StepRetry};
use super::names::Ids;
use super::order::{self, Dependency, Outline};
use super::reading::{Field, Reading};
use super::tree::{Kind, cut};
use super::{exec, http};

/// Types that can run.
const TYPES: [&str; 3] = ["http", "exec", "noop"];
/// Types that the product will have.
const LATER_TYPES: [&str; 11] = [
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
];
/// Keys that the product will have.
const LATER: [&str; 3] = ["condition", "compensation", "deadline"];
/// How long one attempt may take if nothing is said.
const TIMEOUT: SignedDuration = SignedDuration::from_mins(5);

/// All steps, in an order in which dependencies come first.
pub(super) fn read_all(reading: &mut Reading<'_>, field: &Field<'_>) -> Vec<Step> {
    let Some(items) = reading.list(field, limits::STEPS) else { return Vec::new() };
    if !few_dependencies(reading, field, &items) {
        return Vec::new();
    }
    let mut ids = Ids::default();
    let mut steps = Vec::new();
    let mut outlines = Vec::new();
    for item in &items {
        let Some(fields) = Fields::of(reading, item, "{ id: first, type: noop }") else { continue };
        let (outline, step) = read(reading, fields, &mut ids);
        outlines.push(outline);
        steps.push(step);
    }
    let order = order::arrange(reading, &outlines);
    let mut steps: Vec<Option<Step>> = steps;
    order.into_iter().filter_map(|at| steps[at].take()).collect()
}

/// Counted before anything is made of them.
fn few_dependencies(reading: &mut Reading<'_>, field: &Field<'_>, items: &[Field<'_>]) -> bool {
    let count = |item: &Field<'_>| match item.node.entry("depends_on").map(|e| &e.value.kind) {
        Some(Kind::List(named)) => named.len(),
        Some(_) => 1,
        None => 0,
    };
    let total: usize = items.iter().map(count).sum();
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
) -> (Outline<'n>, Option<Step>) {
    let place = fields.place();
    let id = ids.take(reading, &mut fields, "id: first");
    let name = fields.take("name").and_then(|field| reading.title(&field));
    let kind = fields.require("type", "type: noop");
    let kind = kind.and_then(|field| step_type(reading, &field));
    let named = fields.take("depends_on");
    let dependencies = named.map(|field| dependencies(reading, &field)).unwrap_or_default();
    let retry = fields.take("retry").map(|field| retry(reading, &field));
    let timeout = fields.duration(reading, "timeout");
    let on_error = fields.take("on_error").and_then(|field| on_error(reading, &field));
    let idempotent = fields.boolean(reading, "idempotent");
    let action = match kind {
        Some("noop") => Some(Action::Noop),
        Some("http") => http::read(reading, &mut fields).map(Action::Http),
        Some("exec") => exec::read(reading, &mut fields).map(Action::Exec),
        _ => None,
    };
    // Which keys a type has is only known for those that can run.
    if kind.is_some() {
        fields.finish(reading, &LATER);
    } else {
        fields.rest(reading);
    }
    let depends_on = dependencies.iter().map(|named| named.id.to_owned()).collect();
    let outline = Outline { id: id.clone(), place, dependencies };
    let step = id.zip(action).map(|(id, action)| Step {
        id,
        name,
        depends_on,
        action,
        retry: retry.unwrap_or_default(),
        timeout: Some(timeout.unwrap_or(TIMEOUT)),
        condition: None,
        compensation: None,
        deadline: None,
        on_error: on_error.unwrap_or_default(),
        idempotent: idempotent.unwrap_or(true),
    });
    (outline, step)
}

fn step_type<'n>(reading: &mut Reading<'_>, field: &Field<'n>) -> Option<&'n str> {
    let written = reading.text(field)?;
    if TYPES.contains(&written) {
        return Some(written);
    }
    let flaw = if LATER_TYPES.contains(&written) {
        Flaw::unavailable(format!("step type {written} is"))
    } else {
        let known = TYPES.iter().chain(&LATER_TYPES).copied();
        Flaw::new("step-type", format!("unknown step type {}", cut(written)))
            .did_you_mean(written, known)
    };
    reading.refuse(field, flaw.allow(TYPES.join(", ")));
    None
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

fn retry(reading: &mut Reading<'_>, field: &Field<'_>) -> StepRetry {
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
    fields.finish(reading, &[]);
    StepRetry {
        max: max.map_or(default.max, |max| max as u32),
        delay,
        factor: factor.unwrap_or(default.factor),
        max_delay: max_delay.unwrap_or((delay * 10).min(limits::DURATION)),
    }
}

fn on_error(reading: &mut Reading<'_>, field: &Field<'_>) -> Option<OnError> {
    const ALLOWED: &str = "fail_process, skip_step";
    let goes_to = field.node.entry("goto_step").is_some();
    let written = match &field.node.kind {
        Kind::Text(text) => text.as_str(),
        _ if goes_to => "goto_step",
        _ => reading.text_such_as(field, "a text, fail_process or skip_step")?,
    };
    let flaw = match written {
        "fail_process" => return Some(OnError::FailProcess),
        "skip_step" => return Some(OnError::SkipStep),
        "goto_step" => Flaw::unavailable("on_error goto_step is"),
        _ => Flaw::new("on-error", format!("{} is not known here", cut(written)))
            .did_you_mean(written, ["fail_process", "skip_step"]),
    };
    reading.refuse(field, flaw.allow(ALLOWED));
    None
}
