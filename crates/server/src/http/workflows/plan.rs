//! What publishing a definition would do to the schedules that it declares.

use std::collections::BTreeMap;

use engine::schedule::{Input, Schedule, Status};
use engine::turn::{DeclaredSchedule, Refused, declared_schedules};
use engine::{ScheduleId, WorkflowId};
use jiff::Timestamp;
use language::Rules;
use language::definition::{DeclaredBy, Definition, Trigger};
use language::schedule::Plan;
use serde::Serialize;
use store::{ScheduleView, WorkflowView};
use utoipa::ToSchema;

use super::plan_times::{PlannedTimes, compare};
use crate::http::problem::Problem;
use crate::http::schedules::edit::{decided, edited};
use crate::http::{App, shown};

/// What publishing would do to one trigger or producer.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct PlannedTrigger {
    id: String,
    /// `new`, `changed`, `unchanged` or `removed`.
    change: &'static str,
    /// The status its schedule would have; null for triggers without a schedule.
    status: Option<&'static str>,
    /// Whether its schedule is done or dead, and the change gives it a next time again.
    lives_again: bool,
    /// When it would start the workflow next; for a removed trigger, when it would have.
    next_run_at: Option<String>,
    /// Its rule in words.
    words: Option<String>,
    /// The changes to its occurrences over the next 30 days; null for triggers without a schedule.
    next_30_days: Option<PlannedTimes>,
}

/// Plans every trigger and producer of the definition, and those that would be removed.
pub(super) async fn triggers(
    app: &App,
    before: Option<&WorkflowView>,
    definition: &Definition,
) -> Result<Vec<PlannedTrigger>, Problem> {
    let known = match before {
        Some(view) => app.store().triggered(view.workflow.id).await?,
        None => Vec::new(),
    };
    let known = known.into_iter();
    let mut known: BTreeMap<DeclaredBy, ScheduleView> =
        known.filter_map(|view| Some((view.schedule.declared_by.clone()?, view))).collect();
    let old = before.map(|view| &*view.definition);
    let old_rules = app.rules();
    let rules = old_rules.with(&definition.calendars);
    let planning = Planning {
        old,
        workflow: before.map_or(WorkflowId(0), |view| view.workflow.id),
        is_paused: before.is_some_and(|view| view.workflow.paused),
        old_rules: &old_rules,
        rules: &rules,
        now: app.now(),
    };
    let declared = declared_schedules(definition, planning.rules, planning.now);
    let declared = declared.map_err(Refused::Invalid)?;
    let mut declared: BTreeMap<DeclaredBy, DeclaredSchedule> =
        declared.into_iter().map(|declared| (declared.by.clone(), declared)).collect();
    let mut planned = Vec::new();
    for trigger in &definition.triggers {
        let by = DeclaredBy::Trigger(trigger.id.clone());
        let found = known.remove(&by);
        planned.push(match declared.remove(&by) {
            Some(declared) => planning.schedule(declared, found),
            None => planning.other(trigger),
        });
    }
    for producer in &definition.producers {
        let by = producer.declares();
        let found = known.remove(&by);
        let Some(declared) = declared.remove(&by) else { continue };
        planned.push(planning.schedule(declared, found));
    }
    let gone = old.iter().flat_map(|old| &old.triggers).map(|old| old.id.clone());
    let gone = gone.filter(|id| definition.triggers.iter().all(|trigger| trigger.id != *id));
    let gone: Vec<String> =
        gone.filter(|id| !known.contains_key(&DeclaredBy::Trigger(id.clone()))).collect();
    planned.extend(known.into_iter().map(|(by, view)| planning.removed(&by, view)));
    planned.extend(gone.into_iter().map(PlannedTrigger::removed));
    Ok(planned)
}

/// The inputs of a plan.
struct Planning<'a> {
    old: Option<&'a Definition>,
    workflow: WorkflowId,
    is_paused: bool,
    /// The rules with the calendars now in force.
    old_rules: &'a Rules,
    /// The rules with the definition's calendars as well.
    rules: &'a Rules,
    now: Timestamp,
}

impl Planning<'_> {
    /// Plans a trigger without a schedule.
    fn other(&self, trigger: &Trigger) -> PlannedTrigger {
        let change = match self.was(&trigger.id) {
            None => "new",
            Some(old) if old == trigger => "unchanged",
            Some(_) => "changed",
        };
        PlannedTrigger { change, ..PlannedTrigger::removed(trigger.id.clone()) }
    }

    fn was(&self, id: &str) -> Option<&Trigger> {
        self.old.and_then(|old| old.triggers.iter().find(|known| known.id == id))
    }

    /// Plans a trigger or producer with a schedule, as the engine would decide.
    fn schedule(&self, declared: DeclaredSchedule, found: Option<ScheduleView>) -> PlannedTrigger {
        let Some(found) = found else { return self.new_schedule(declared) };
        let DeclaredSchedule { by, enabled, declared } = declared;
        let before = &found.schedule;
        let is_same = declared == before.declared;
        let switched = match &by {
            DeclaredBy::Trigger(id) => self.was(id).is_some_and(|old| old.enabled != enabled),
            DeclaredBy::Producer(_) => false,
        };
        let overrides = &found.overrides;
        let after = match (is_same, self.plan(before)) {
            // The definition may change the calendar that the trigger uses.
            (true, Some(plan)) => decided(before, Input::Recompute, &plan, overrides, self.now),
            (true, None) => Ok(before.clone()),
            (false, _) => {
                edited(before, declared, overrides, self.rules, self.now).map(|edit| edit.0)
            }
        };
        let mut after = after.unwrap_or_else(|_| before.clone());
        let plan = self.plan(&after);
        if let Some(plan) = plan.as_ref().filter(|_| switched) {
            let input = if enabled { Input::Resume { catch_up: false } } else { Input::Pause };
            // If the schedule is already paused or active as wanted, it stays as it is.
            after = decided(&after, input, plan, overrides, self.now).unwrap_or(after);
        }
        let was_over = matches!(before.status, Status::Done | Status::Dead);
        let lives_again = was_over && after.status == Status::Active;
        let after = ScheduleView { schedule: after, ..found.clone() };
        let old_plan = plan_of(before, self.old_rules);
        PlannedTrigger {
            change: if is_same && !switched { "unchanged" } else { "changed" },
            lives_again,
            next_30_days: self.times(
                old_plan.as_ref().map(|plan| (&found, plan)),
                plan.as_ref().map(|plan| (&after, plan)),
            ),
            ..self.shown(&by, &after, plan.as_ref())
        }
    }

    fn new_schedule(&self, declared: DeclaredSchedule) -> PlannedTrigger {
        let DeclaredSchedule { by, enabled, declared } = declared;
        let Ok(plan) = declared.plan(self.rules, self.now, "") else {
            return PlannedTrigger { change: "new", ..PlannedTrigger::removed(by.to_string()) };
        };
        let id = ScheduleId(0);
        let declared_by = Some(by.clone());
        let mut new = Schedule::new(id, self.workflow, declared_by, declared, &plan, self.now);
        if !enabled {
            new.status = Status::Paused;
        }
        // If its time has passed, the catch-up policy decides as soon as the schedule exists.
        let is_late = new.progress.next.is_some_and(|due| due.effective < self.now);
        if is_late && plan.catch_up.policy == calendar::Policy::None {
            new = decided(&new, Input::Due, &plan, &[], self.now).unwrap_or(new);
        }
        let new = ScheduleView {
            schedule: new,
            workflow_name: String::new(),
            workflow_is_paused: self.is_paused,
            overrides: Vec::new(),
            unreadable_overrides: Vec::new(),
        };
        PlannedTrigger {
            change: "new",
            next_30_days: self.times(None, Some((&new, &plan))),
            ..self.shown(&by, &new, Some(&plan))
        }
    }

    /// Plans a schedule that goes away, with the time of its next occurrence that will not come.
    fn removed(&self, by: &DeclaredBy, found: ScheduleView) -> PlannedTrigger {
        let plan = plan_of(&found.schedule, self.old_rules);
        let next_30_days = self.times(plan.as_ref().map(|plan| (&found, plan)), None);
        let shown = self.shown(by, &found, plan.as_ref());
        PlannedTrigger { change: "removed", status: None, next_30_days, ..shown }
    }

    /// Compares the occurrences of a schedule before and after, in the zone it would have after.
    fn times(
        &self,
        before: Option<(&ScheduleView, &Plan)>,
        after: Option<(&ScheduleView, &Plan)>,
    ) -> Option<PlannedTimes> {
        let before = before.map(|(found, plan)| found.outlook(plan, self.now));
        let after = after.map(|(found, plan)| found.outlook(plan, self.now));
        let zone = after.as_ref().or(before.as_ref())?.plan.timing.zone();
        Some(compare(before.as_ref(), after.as_ref(), zone, self.now))
    }

    fn plan(&self, schedule: &Schedule) -> Option<Plan> {
        plan_of(schedule, self.rules)
    }

    fn shown(&self, by: &DeclaredBy, found: &ScheduleView, plan: Option<&Plan>) -> PlannedTrigger {
        let next = plan.and_then(|plan| {
            let at = found.outlook(plan, self.now).next()?.effective?;
            Some(shown::time(plan.timing.zone(), at))
        });
        PlannedTrigger {
            status: Some(found.schedule.status.name()),
            next_run_at: next,
            words: plan.map(|plan| plan.timing.words()),
            ..PlannedTrigger::removed(by.to_string())
        }
    }
}

fn plan_of(schedule: &Schedule, rules: &Rules) -> Option<Plan> {
    schedule.declared.plan(rules, schedule.progress.anchor, &schedule.spread_key()).ok()
}

impl PlannedTrigger {
    fn removed(id: String) -> PlannedTrigger {
        let (next_run_at, words) = (None, None);
        PlannedTrigger {
            id,
            change: "removed",
            status: None,
            lives_again: false,
            next_run_at,
            words,
            next_30_days: None,
        }
    }
}
