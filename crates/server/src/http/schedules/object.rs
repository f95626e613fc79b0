//! Schedules in API responses.

use calendar::{Warning, Zone};
use engine::schedule::{Schedule, Status};
use jiff::Timestamp;
use language::Rules;
use language::notification_setup::Setup;
use language::schedule::Plan;
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use store::ScheduleView;
use utoipa::ToSchema;

use crate::http::App;
use crate::http::shapes;
use crate::http::shown;

/// A schedule: its declaration as written, the defaults that apply, and its progress.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ScheduleObject {
    id: String,
    workflow_id: String,
    /// The workflow's name.
    workflow: String,
    /// Whether the workflow is paused: then nothing starts except by hand, and `next_run_at` is
    /// null.
    workflow_paused: bool,
    /// The trigger of the definition that declares it.
    trigger: Option<String>,
    /// The rule and everything else that was declared: `name`, `cron`, `timezone`, `overlap`, …
    #[serde(flatten)]
    #[schema(value_type = shapes::DeclaredSchedule)]
    declared: Map<String, Value>,
    /// The payload, exactly as it was written.
    #[schema(value_type = Option<Value>)]
    payload: Option<Box<RawValue>>,
    /// The zone that applies.
    zone: String,
    /// The rule in words; null if it can no longer be read.
    words: Option<String>,
    /// `active`, `paused`, `done` or `dead`.
    #[schema(value_type = shapes::ScheduleStatus)]
    status: &'static str,
    /// Whether it is not paused. `POST …/enable` and `…/disable` change it.
    enabled: bool,
    current_repeat: u64,
    current_retry: u32,
    /// How many occurrences have succeeded.
    run_count: u64,
    /// How many runs have failed.
    error_count: u64,
    last_error: Option<String>,
    #[schema(format = DateTime)]
    last_run_at: Option<String>,
    #[schema(value_type = Option<shapes::RunEnding>)]
    last_outcome: Option<&'static str>,
    /// When it starts a run next: an occurrence that is not skipped, or a retry. Null if it is not
    /// active, if its workflow is paused, or while a running occurrence may be the last that
    /// `total_repeats` allows.
    #[schema(format = DateTime)]
    next_run_at: Option<String>,
    /// The nominal time of that occurrence, as the rule says.
    #[schema(format = DateTime)]
    next_nominal_at: Option<String>,
    /// How many occurrences and runs by hand have begun and not ended.
    active: usize,
    /// How many occurrences wait.
    queued: usize,
    #[schema(format = DateTime)]
    created_at: String,
    #[schema(format = DateTime)]
    updated_at: String,
    /// When a change of its declaration last gave it a next time again, after it was done or dead.
    renewed_at: Option<String>,
    /// Warnings about the rule.
    #[serde(skip_serializing_if = "Option::is_none")]
    warnings: Option<Vec<Remark>>,
    /// The run that was started.
    #[serde(skip_serializing_if = "Option::is_none")]
    run_id: Option<String>,
    /// Set if it was done or dead, and a change has given it a next time again.
    #[serde(skip_serializing_if = "Option::is_none")]
    lives_again: Option<bool>,
    /// The position of the run among those that wait for the workflow's limit, if it waits.
    #[serde(skip_serializing_if = "Option::is_none")]
    position: Option<u64>,
}

/// A warning, which stops nothing.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Remark {
    pub(crate) code: &'static str,
    /// The warning in words.
    pub(crate) message: String,
}

impl From<Warning> for Remark {
    fn from(warning: Warning) -> Remark {
        Remark { code: warning.code, message: warning.message }
    }
}

/// The warnings about a plan.
pub(crate) fn remarks(plan: &Plan, now: Timestamp) -> Vec<Remark> {
    let warnings = plan.timing.warnings_with(now, Some(&plan.catch_up));
    warnings.into_iter().map(Remark::from).collect()
}

/// The plan of a stored schedule; `None` if it can no longer be read.
pub(crate) fn plan(schedule: &Schedule, rules: &Rules) -> Option<Plan> {
    let key = schedule.id.to_string();
    schedule.declared.plan(rules, schedule.progress.anchor, &key).ok()
}

/// When a schedule starts a run next.
pub(crate) fn next(view: &ScheduleView, rules: &Rules, now: Timestamp) -> Option<Timestamp> {
    view.outlook(&plan(&view.schedule, rules)?, now).next()?.effective
}

/// The zone in which a schedule's times are shown.
pub(crate) fn zone(schedule: &Schedule, rules: &Rules) -> Zone {
    let timing = &schedule.declared.timing;
    match (&timing.timezone, &timing.calendar) {
        (Some(name), _) => rules.zones().get(name).ok(),
        (None, Some(id)) => rules.calendar(id).map(|calendar| calendar.zone().clone()),
        (None, None) => None,
    }
    .unwrap_or_else(Zone::utc)
}

/// Remarks about people whom the schedule tells of failures and this node cannot reach.
fn unreachable(schedule: &Schedule, setup: &Setup) -> Vec<Remark> {
    let declared = &schedule.declared;
    let actions = [("on_failure", &declared.on_failure), ("on_recovery", &declared.on_recovery)];
    let channels = actions.into_iter().flat_map(|(key, actions)| {
        let channels = actions.iter().flatten().flat_map(|action| &action.notify);
        channels.map(move |channel| (key, channel))
    });
    let refused = channels.filter_map(|(key, channel)| {
        let message =
            format!("{key}: {} is not told: {}", channel.shown(), setup.refusal(channel)?);
        Some(Remark { code: "channel-not-set-up", message })
    });
    refused.collect()
}

impl ScheduleObject {
    /// As an item of a list.
    pub(super) fn new(view: ScheduleView, rules: &Rules, now: Timestamp) -> ScheduleObject {
        let plan = plan(&view.schedule, rules);
        ScheduleObject::with_plan(view, rules, plan.as_ref(), now)
    }

    /// As a single object, with warnings.
    pub(super) fn alone(view: ScheduleView, app: &App) -> ScheduleObject {
        let (rules, now) = (app.rules(), app.now());
        let plan = plan(&view.schedule, &rules);
        let mut warnings = plan.as_ref().map(|plan| remarks(plan, now)).unwrap_or_default();
        warnings.extend(unreachable(&view.schedule, &app.reach().setup));
        let object = ScheduleObject::with_plan(view, &rules, plan.as_ref(), now);
        ScheduleObject { warnings: Some(warnings), ..object }
    }

    pub(super) fn with_remark(mut self, remark: Option<Remark>) -> ScheduleObject {
        self.warnings.get_or_insert_default().extend(remark);
        self
    }

    /// Adds the run that was started, and its position if it waits.
    pub(super) fn with_run(self, run: String, position: Option<u64>) -> ScheduleObject {
        ScheduleObject { run_id: Some(run), position, ..self }
    }

    /// Notes whether an edit made a schedule active that was done or dead before.
    pub(super) fn after(self, before: Status) -> ScheduleObject {
        let was_over = matches!(before, Status::Done | Status::Dead);
        let lives_again = was_over && self.status == Status::Active.name();
        ScheduleObject { lives_again: lives_again.then_some(true), ..self }
    }

    fn with_plan(
        view: ScheduleView,
        rules: &Rules,
        plan: Option<&Plan>,
        now: Timestamp,
    ) -> ScheduleObject {
        let next = plan.and_then(|plan| view.outlook(plan, now).next());
        let ScheduleView {
            schedule,
            workflow_name,
            workflow_is_paused,
            overrides: _,
            unreadable_overrides: _,
        } = view;
        let zone = match plan {
            Some(plan) => plan.timing.zone().clone(),
            None => zone(&schedule, rules),
        };
        let shown = |at: Timestamp| shown::time(&zone, at);
        let enabled = schedule.is_enabled();
        let progress = schedule.progress;
        ScheduleObject {
            id: schedule.id.to_string(),
            workflow_id: schedule.workflow.to_string(),
            workflow: workflow_name,
            workflow_paused: workflow_is_paused,
            trigger: schedule.declared_by.map(|by| by.to_string()),
            declared: schedule.declared.to_written(),
            payload: schedule.declared.payload,
            zone: zone.name().to_owned(),
            words: plan.map(|plan| plan.timing.words()),
            status: schedule.status.name(),
            enabled,
            current_repeat: progress.current_repeat,
            current_retry: progress.current_retry,
            run_count: progress.run_count,
            error_count: progress.error_count,
            last_error: progress.last_error,
            last_run_at: progress.last_run_at.map(shown),
            last_outcome: progress.last_outcome.map(|ending| ending.status().name()),
            next_run_at: next.as_ref().and_then(|next| next.effective).map(shown),
            next_nominal_at: next.map(|next| shown(next.nominal)),
            active: progress.active.len(),
            queued: progress.queued.len(),
            created_at: shown(schedule.created_at),
            updated_at: shown(schedule.updated_at),
            renewed_at: progress.renewed_at.map(shown),
            warnings: None,
            run_id: None,
            lives_again: None,
            position: None,
        }
    }
}
