//! A schedule as it is shown.

use calendar::{Timing, Warning, Zone};
use engine::Rules;
use engine::schedule::{Plan, Schedule};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use store::ScheduleView;
use utoipa::ToSchema;

use crate::http::shown;

/// A schedule: its declaration as it was written, with the defaults that apply, and how far it has come.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ScheduleObject {
    id: String,
    workflow_id: String,
    /// The workflow's name.
    workflow: String,
    /// The trigger of the definition that declares it.
    trigger: Option<String>,
    /// The rule and everything else that was declared: `name`, `cron`, `timezone`, `overlap`, …
    #[serde(flatten)]
    #[schema(value_type = Object)]
    declared: Map<String, Value>,
    /// Exactly as it was written.
    #[schema(value_type = Option<Object>)]
    payload: Option<Box<RawValue>>,
    /// The zone that applies.
    zone: String,
    /// The rule in words; nothing if it cannot be read any more.
    words: Option<String>,
    /// `active`, `paused`, `done` or `dead`.
    status: &'static str,
    current_repeat: u64,
    current_retry: u32,
    /// Successful occurrences.
    run_count: u64,
    /// Failed runs.
    error_count: u64,
    last_error: Option<String>,
    last_run_at: Option<String>,
    last_outcome: Option<&'static str>,
    /// When it happens next.
    next_run_at: Option<String>,
    /// What the rule says about that.
    next_nominal_at: Option<String>,
    /// Occurrences and runs by hand that have begun and not ended.
    active: usize,
    /// Occurrences that wait.
    queued: usize,
    created_at: String,
    updated_at: String,
    /// What one should know about the rule.
    #[serde(skip_serializing_if = "Option::is_none")]
    warnings: Option<Vec<Remark>>,
    /// The run that was started.
    #[serde(skip_serializing_if = "Option::is_none")]
    run_id: Option<String>,
}

/// A remark that stops nothing.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Remark {
    code: &'static str,
    /// In words.
    pub(crate) message: String,
}

impl From<Warning> for Remark {
    fn from(warning: Warning) -> Remark {
        Remark { code: warning.code, message: warning.message }
    }
}

/// What a timing should make one know.
pub(crate) fn remarks(timing: &Timing, now: Timestamp) -> Vec<Remark> {
    timing.warnings(now).into_iter().map(Remark::from).collect()
}

/// The plan of a stored schedule; nothing if it cannot be read any more.
pub(crate) fn plan(schedule: &Schedule, rules: &Rules) -> Option<Plan> {
    let key = schedule.id.to_string();
    schedule.declared.plan(rules, schedule.progress.anchor, &key).ok()
}

/// The zone that a schedule's times are shown in.
pub(crate) fn zone(schedule: &Schedule, rules: &Rules) -> Zone {
    let named = schedule.declared.timing.timezone.as_deref();
    named.and_then(|name| rules.zones().get(name).ok()).unwrap_or_else(Zone::utc)
}

impl ScheduleObject {
    /// As it is shown in a list.
    pub(super) fn new(view: ScheduleView, rules: &Rules) -> ScheduleObject {
        let plan = plan(&view.schedule, rules);
        ScheduleObject::with_plan(view, rules, plan.as_ref())
    }

    /// As it is shown alone: with what one should know.
    pub(super) fn alone(view: ScheduleView, rules: &Rules, now: Timestamp) -> ScheduleObject {
        let plan = plan(&view.schedule, rules);
        let warnings = plan.as_ref().map(|plan| remarks(&plan.timing, now)).unwrap_or_default();
        let object = ScheduleObject::with_plan(view, rules, plan.as_ref());
        ScheduleObject { warnings: Some(warnings), ..object }
    }

    /// With the run that was started.
    pub(super) fn with_run(self, run: String) -> ScheduleObject {
        ScheduleObject { run_id: Some(run), ..self }
    }

    fn with_plan(view: ScheduleView, rules: &Rules, plan: Option<&Plan>) -> ScheduleObject {
        let ScheduleView { schedule, workflow_name } = view;
        let zone = match plan {
            Some(plan) => plan.timing.zone().clone(),
            None => zone(&schedule, rules),
        };
        let shown = |at: Timestamp| shown::time(&zone, at);
        let progress = schedule.progress;
        ScheduleObject {
            id: schedule.id.to_string(),
            workflow_id: schedule.workflow.to_string(),
            workflow: workflow_name,
            trigger: schedule.trigger,
            declared: schedule.declared.to_written(),
            payload: schedule.declared.payload,
            zone: zone.name().to_owned(),
            words: plan.map(|plan| plan.timing.words()),
            status: schedule.status.name(),
            current_repeat: progress.current_repeat,
            current_retry: progress.current_retry,
            run_count: progress.run_count,
            error_count: progress.error_count,
            last_error: progress.last_error,
            last_run_at: progress.last_run_at.map(shown),
            last_outcome: progress.last_outcome.map(|ending| ending.status().name()),
            next_run_at: progress.next.map(|due| shown(due.effective)),
            next_nominal_at: progress.next.map(|due| shown(due.nominal)),
            active: progress.active.len(),
            queued: progress.queued.len(),
            created_at: shown(schedule.created_at),
            updated_at: shown(schedule.updated_at),
            warnings: None,
            run_id: None,
        }
    }
}
