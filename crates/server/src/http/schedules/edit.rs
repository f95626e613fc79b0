//! Changes to a schedule.

use std::collections::BTreeMap;

use axum::extract::State;
use engine::schedule::{DecideContext, Input, Override, Schedule, decide};
use engine::turn::{Command, Refused};
use engine::{Moment, RunKey};
use jiff::Timestamp;
use language::Rules;
use language::schedule::{Declared, Plan, Written, is_read_only, patch};
use serde::Serialize;
use serde_json::value::RawValue;
use store::ScheduleView;
use utoipa::ToSchema;

use super::coming::{Coming, shown_rows};
use super::list::{object, view};
use super::object::ScheduleObject;
use crate::http::App;
use crate::http::access::Caller;
use crate::http::answer::{self, Answered};
use crate::http::body::JsonBody;
use crate::http::path::SchedulePath;
use crate::http::problem::{Problem, Wrong};
use crate::http::query::{Parameters, Query, Values};
use crate::http::shapes;

/// How many upcoming occurrences are compared before an edit.
const COMPARED: usize = 5;

pub(super) struct Way {
    dry_run: bool,
}

impl Parameters for Way {
    fn read(values: &mut Values) -> Way {
        Way { dry_run: values.flag("dry_run") }
    }
}

/// What an edit would change.
#[derive(Serialize, ToSchema)]
pub(crate) struct Difference {
    dry_run: bool,
    /// Fields whose value changes.
    pub(crate) changes: BTreeMap<String, Change>,
    /// The upcoming occurrences before.
    before: Vec<Coming>,
    /// The upcoming occurrences after.
    after: Vec<Coming>,
}

/// A field's value before and after.
#[derive(Serialize, ToSchema)]
pub(crate) struct Change {
    /// The value before; null if the field was not there.
    #[schema(value_type = Option<Value>)]
    pub(crate) before: Option<Box<RawValue>>,
    /// The value after; null if the field is removed.
    #[schema(value_type = Option<Value>)]
    pub(crate) after: Option<Box<RawValue>>,
}

/// Changes fields of a schedule, and computes its next time again.
#[utoipa::path(patch, path = "/schedules/{id}", tag = "schedules",
    params(("id" = String, Path, description = "The schedule"),
        ("dry_run" = Option<bool>, Query, description = "Only shows what would change")),
    request_body(content = shapes::ScheduleChange,
        description = "Fields of a schedule; null takes one away, a rule replaces the rule"),
    responses((status = 200, body = shapes::ScheduleEdited, description = "The schedule; or, with \
            dry_run, what would change"), (status = 400, body = Problem),
        (status = 401, body = Problem), (status = 404, body = Problem),
        (status = 409, body = Problem), (status = 415, body = Problem),
        (status = 422, body = Problem), (status = 503, body = Problem)))]
pub(super) async fn edit(
    State(app): State<App>,
    caller: Caller,
    SchedulePath(id): SchedulePath,
    Query(way): Query<Way>,
    body: JsonBody,
) -> Answered {
    let found = view(&app, id).await?;
    let text = without_what_is_shown(&app, &found, body.required()?);
    if way.dry_run {
        return answer::ok(&would_change(&app, &found, &text)?.difference);
    }
    after_patch(&found, &text)?;
    app.command(&caller, Command::EditSchedule { id, patch: text }, None).await?;
    answer::ok(&object(&app, id).await?.after(found.schedule.status))
}

/// Removes read-only fields whose values are those shown, so that a client may send back an object
/// as it received it. Read-only fields that differ are kept, and refused with the route that
/// changes them.
fn without_what_is_shown(app: &App, found: &ScheduleView, text: &str) -> String {
    type Fields = BTreeMap<String, Box<RawValue>>;
    let Ok(mut fields) = serde_json::from_str::<Fields>(text) else { return text.to_owned() };
    if !fields.keys().any(|key| is_read_only(key)) {
        return text.to_owned();
    }
    let shown = ScheduleObject::alone(found.clone(), app);
    let Ok(shown) = serde_json::to_value(&shown) else { return text.to_owned() };
    fields.retain(|key, value| {
        let given = serde_json::from_str::<serde_json::Value>(value.get()).ok();
        !is_read_only(key) || given.as_ref() != shown.get(key)
    });
    serde_json::to_string(&fields).unwrap_or_else(|_| text.to_owned())
}

/// A schedule as it would be after an edit.
pub(crate) struct Edited {
    pub(crate) after: ScheduleView,
    pub(crate) plan: Plan,
    pub(crate) difference: Difference,
}

/// What an edit would change.
pub(crate) fn would_change(
    app: &App,
    before: &ScheduleView,
    text: &str,
) -> Result<Edited, Problem> {
    let declared = after_patch(before, text)?;
    let (rules, now) = (app.rules(), app.now());
    let (after, plan) = edited(&before.schedule, declared, &before.overrides, &rules, now)?;
    let after = ScheduleView { schedule: after, ..before.clone() };
    let times = |view: &ScheduleView, plan: &Plan| {
        shown_rows(&view.outlook(plan, now).coming(COMPARED), &plan.timing)
    };
    let old_plan = super::object::plan(&before.schedule, &rules);
    let shown = |view: &ScheduleView| ScheduleObject::new(view.clone(), &rules, now);
    let difference = Difference {
        dry_run: true,
        changes: changes(&shown(before), &shown(&after)),
        before: old_plan.map(|plan| times(before, &plan)).unwrap_or_default(),
        after: times(&after, &plan),
    };
    Ok(Edited { after, plan, difference })
}

/// The declaration after an edit. A schedule's workflow and trigger cannot change.
fn after_patch(found: &ScheduleView, text: &str) -> Result<Box<Declared>, Problem> {
    let schedule = &found.schedule;
    if let Some(trigger) = &schedule.declared_by {
        let id = schedule.id;
        return Err(Problem::conflict(format!(
            "Schedule {id} is declared by trigger {trigger} of its workflow. Change it there. POST \
             /api/v1/schedules/{id}/disable and /enable turn it off and on."
        )));
    }
    let declared = schedule.declared.clone();
    let trigger = declared.trigger_node_id.clone();
    let before = Written { declared, trigger, ..Written::default() };
    let after = patch(&before, text)?;
    let ours = [schedule.workflow.to_string(), found.workflow_name.clone()];
    let mut named = after.workflow.iter().chain(&after.also_workflow);
    if named.any(|named| !ours.contains(named)) {
        let message = "a schedule keeps its workflow; create another one";
        return Err(Problem::invalid([Wrong::new("workflow_id", "fixed", message)]));
    }
    if after.trigger != before.trigger {
        let message = "a schedule keeps its trigger; create another one";
        return Err(Problem::invalid([Wrong::new("trigger_node_id", "fixed", message)]));
    }
    Ok(after.declared)
}

/// The schedule after the edit, as the engine would decide it now.
pub(crate) fn edited(
    before: &Schedule,
    declared: Box<Declared>,
    overrides: &[Override],
    rules: &Rules,
    now: Timestamp,
) -> Result<(Schedule, Plan), Problem> {
    declared.check(rules, now)?;
    let anchor = before.anchor_after_edit(&declared, now);
    let plan = declared.plan(rules, anchor, &before.id.to_string())?;
    let after = decided(before, Input::Edit(declared), &plan, overrides, now)?;
    Ok((after, plan))
}

/// The schedule after this input, as the engine would decide it now.
pub(crate) fn decided(
    before: &Schedule,
    input: Input,
    plan: &Plan,
    overrides: &[Override],
    now: Timestamp,
) -> Result<Schedule, Problem> {
    let mut after = before.clone();
    let mut context = DecideContext {
        plan,
        overrides,
        hold: None,
        moment: Moment::new(now, now),
        new_key: &mut || RunKey(0),
    };
    decide(&mut after, input, &mut context)
        .map_err(|refusal| Problem::from(Refused::Schedule(refusal)))?;
    Ok(after)
}

/// The fields that differ. They are compared as JSON text, so that numbers keep all their digits.
fn changes(before: &ScheduleObject, after: &ScheduleObject) -> BTreeMap<String, Change> {
    let fields = |object: &ScheduleObject| -> BTreeMap<String, Box<RawValue>> {
        let text = serde_json::to_string(object).unwrap_or_default();
        serde_json::from_str(&text).unwrap_or_default()
    };
    let (mut before, after) = (fields(before), fields(after));
    let mut changes = BTreeMap::new();
    for (key, after) in after {
        let before = before.remove(&key);
        if before.as_ref().map(|value| value.get()) != Some(after.get()) {
            changes.insert(key, Change { before, after: Some(after) });
        }
    }
    let gone = before.into_iter().map(|(key, before)| (key, Change::gone(before)));
    changes.extend(gone);
    changes.remove("updated_at");
    changes
}

impl Change {
    fn gone(before: Box<RawValue>) -> Change {
        Change { before: Some(before), after: None }
    }
}
