//! Checks which steps run, which are skipped, and in which order.

use engine::run::{Item, RunStatus, StepState};
use language::definition::{Action, Gateway, GatewayKind};
use serde_json::Value;

use super::Seen;
use super::expressions::Unknown;
use crate::model::Checked;

impl Seen<'_> {
    pub(super) fn check_flow(&self) -> Checked {
        let has_begun = self.after.started_at.is_some();
        let is_ending = self.after.is_ending() && self.after.status != RunStatus::Succeeded;
        // Runs that end badly or early are checked in `ending`.
        if !has_begun || is_ending || self.after.error.is_some() {
            return Ok(());
        }
        for step in self.steps() {
            if self.was_looked_at(step) {
                self.check_begun(step)?;
            }
            self.check_not_stuck(step)?;
            self.check_jump(step)?;
            self.check_again(step)?;
            if let Action::Gateway(gateway) = &self.is.definition.steps[step as usize].action {
                self.check_routes(step, gateway)?;
            }
        }
        Ok(())
    }

    /// Whether this commit decided what becomes of the step.
    fn was_looked_at(&self, step: u32) -> bool {
        let (was, is) = (self.old_state(step), self.state(step));
        let begins = is != StepState::Pending && is != StepState::Cancelled;
        begins && (was == StepState::Pending || was.has_ended() && is == StepState::Active)
    }

    fn check_begun(&self, step: u32) -> Checked {
        let goes_here = self.plan.goes_to.contains(&Some(step));
        if self.has_jumped() && goes_here {
            return Ok(());
        }
        let state = self.state(step);
        let is_never_reached = self.after.status == RunStatus::Succeeded
            && state == StepState::Bypassed
            && self.plan.waits_for_a_handler(step);
        if is_never_reached {
            return Ok(());
        }
        let needs = &self.plan.needs[step as usize];
        if let Some(on) = needs.iter().find(|on| !self.state(**on).has_ended()) {
            let message = format!("{state:?}, and step {on} is {:?}", self.state(*on));
            return self.broken("order", step, &message);
        }
        if self.plan.is_handler[step as usize] {
            return self.broken("order", step, "begins though nothing has led to it");
        }
        let leads_nowhere = |on: &u32| self.is_dead_end(*on, step);
        let is_bypassed = !needs.is_empty() && needs.iter().all(leads_nowhere);
        if is_bypassed != (state == StepState::Bypassed) {
            let message = format!("{state:?}, passed by: {is_bypassed}");
            return self.broken("flow", step, &message);
        }
        if is_bypassed { Ok(()) } else { self.check_condition(step) }
    }

    fn is_dead_end(&self, from: u32, to: u32) -> bool {
        if matches!(self.state(from), StepState::Bypassed | StepState::Failed) {
            return true;
        }
        let definition = &self.is.definition;
        let Action::Gateway(gateway) = &definition.steps[from as usize].action else {
            return false;
        };
        let id = &definition.steps[to as usize].id;
        let mut leads = gateway.routes.iter().map(|route| &route.target);
        if !leads.any(|target| target == id) && gateway.default_route.as_ref() != Some(id) {
            return false;
        }
        let taken = self.is.row(from, Item::Whole).and_then(|row| row.output.as_ref());
        let taken = taken.and_then(|output| output["routes"].as_array());
        !taken.is_some_and(|taken| taken.iter().any(|target| target.as_str() == Some(id)))
    }

    fn check_condition(&self, step: u32) -> Checked {
        let row = self.is.row(step, Item::Whole);
        let is_skipped =
            self.state(step) == StepState::Skipped && row.is_some_and(|row| row.reason.is_some());
        let code = row.and_then(|row| row.error.as_ref()).map(|error| error.code.as_str());
        let condition = self.is.definition.steps[step as usize].condition.as_deref();
        let holds = condition.map_or(Ok(true), |condition| self.holds(condition));
        let fits = match holds {
            Ok(true) => !is_skipped && (code != Some("expression") || self.may_be_wrong(step)),
            Ok(false) => is_skipped,
            Err(Unknown) => code == Some("expression"),
        };
        if fits {
            Ok(())
        } else {
            let message = format!("{condition:?} is {holds:?}, its row: {row:?}");
            self.broken("flow", step, &message)
        }
    }

    /// Whether something other than its condition may be impossible to evaluate.
    fn may_be_wrong(&self, step: u32) -> bool {
        matches!(
            self.is.definition.steps[step as usize].action,
            Action::Gateway(_) | Action::ForEach(_)
        )
    }

    /// Checks that a step begins as soon as everything it needs has ended.
    fn check_not_stuck(&self, step: u32) -> Checked {
        let is_waiting = self.state(step) == StepState::Pending;
        if !is_waiting || self.plan.is_handler[step as usize] {
            return Ok(());
        }
        let needs = &self.plan.needs[step as usize];
        if needs.iter().all(|on| self.state(*on).has_ended()) {
            self.broken("flow", step, "waits, and everything it needs has ended")
        } else {
            Ok(())
        }
    }

    /// Checks that the step to which a failed step leads has begun.
    fn check_jump(&self, step: u32) -> Checked {
        let has_failed =
            self.state(step) == StepState::Failed && self.old_state(step) != StepState::Failed;
        let target = self.plan.goes_to[step as usize].filter(|_| has_failed);
        match target.filter(|target| self.state(*target) == StepState::Pending) {
            Some(target) => {
                self.broken("again", step, &format!("it has failed, and step {target} waits"))
            }
            None => Ok(()),
        }
    }

    /// Checks that after a jump back all later steps run again: a step that has ended has ended
    /// anew.
    fn check_again(&self, step: u32) -> Checked {
        if !self.has_jumped() || !self.old_state(step).has_ended() {
            return Ok(());
        }
        // If the run jumped back several times, the last target counts.
        let back = self.steps().filter(|target| {
            self.plan.goes_to.contains(&Some(*target))
                && self.old_state(*target).has_ended()
                && matches!(self.state(*target), StepState::Active | StepState::Pending)
        });
        let mut behind = back.filter(|target| self.plan.waits_for(step, *target));
        let is_behind = behind.any(|target| target != step);
        let is_old =
            self.state(step) == StepState::Completed && self.new_row(step, Item::Whole).is_none();
        if is_behind && is_old {
            self.broken("again", step, "the run went back before it, and it stays done")
        } else {
            Ok(())
        }
    }

    fn check_routes(&self, step: u32, gateway: &Gateway) -> Checked {
        let Some(row) = self.new_row(step, Item::Whole) else { return Ok(()) };
        let mut taken = Vec::new();
        let mut is_known = true;
        for route in &gateway.routes {
            let holds = match &route.condition {
                Some(condition) if gateway.kind != GatewayKind::Parallel => self.holds(condition),
                _ => Ok(true),
            };
            is_known &= holds.is_ok();
            if holds == Ok(true) {
                taken.push(route.target.clone());
            }
            if !is_known || holds == Ok(true) && gateway.kind == GatewayKind::Exclusive {
                break;
            }
        }
        if taken.is_empty() {
            taken.extend(gateway.default_route.clone());
        }
        let code = row.error.as_ref().map(|error| error.code.as_str());
        let output = row.output.as_ref().map(|output| &output["routes"]);
        let fits = match code {
            None if row.reason.is_some() => true,
            None => is_known && output == Some(&Value::from(taken.clone())),
            Some("expression") => true,
            Some("no_route") => is_known && taken.is_empty(),
            Some(_) => true,
        };
        if fits {
            Ok(())
        } else {
            self.broken("flow", step, &format!("takes {taken:?}, its row: {row:?}"))
        }
    }
}
