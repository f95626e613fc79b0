//! How the steps of a definition depend on each other, worked out from the definition alone.

use language::definition::{Action, Definition, OnError};

/// Steps by their indexes.
#[derive(Debug)]
pub(super) struct Plan {
    /// What has to end before a step begins: the steps it names, and the gateways that lead to it.
    pub(super) needs: Vec<Vec<u32>>,
    /// Whether a step begins only when another step has failed.
    pub(super) is_handler: Vec<bool>,
    /// The step with which the run goes on when a step has failed.
    pub(super) goes_to: Vec<Option<u32>>,
}

impl Plan {
    pub(super) fn of(definition: &Definition) -> Plan {
        let steps = &definition.steps;
        let index_of =
            |id: &String| steps.iter().position(|step| step.id == *id).map(|at| at as u32);
        let mut needs: Vec<Vec<u32>> = steps
            .iter()
            .map(|step| step.depends_on.iter().filter_map(index_of).collect())
            .collect();
        for (at, step) in steps.iter().enumerate() {
            if let Action::Gateway(gateway) = &step.action {
                let routes = gateway.routes.iter().map(|route| &route.target);
                for target in routes.chain(&gateway.default_route).filter_map(index_of) {
                    needs[target as usize].push(at as u32);
                }
            }
        }
        let goes_to: Vec<Option<u32>> = steps
            .iter()
            .map(|step| match &step.on_error {
                OnError::GotoStep(id) => index_of(id),
                _ => None,
            })
            .collect();
        let mut plan = Plan { needs, is_handler: vec![false; steps.len()], goes_to };
        for target in 0..steps.len() as u32 {
            let mut jumpers = (0..steps.len() as u32)
                .filter(|from| plan.goes_to[*from as usize] == Some(target))
                .peekable();
            let is_named = jumpers.peek().is_some();
            let comes_back = jumpers.any(|from| plan.waits_for(from, target));
            let needs_nothing = plan.needs[target as usize].is_empty();
            plan.is_handler[target as usize] = is_named && needs_nothing && !comes_back;
        }
        plan
    }

    /// Whether one step waits for another, directly or not.
    pub(super) fn waits_for(&self, step: u32, on: u32) -> bool {
        step == on || self.needs[step as usize].iter().any(|need| self.waits_for(*need, on))
    }

    /// Whether a step waits for an error handler, which may never begin.
    pub(super) fn waits_for_a_handler(&self, step: u32) -> bool {
        let steps = 0..self.needs.len() as u32;
        steps.clone().any(|on| self.is_handler[on as usize] && self.waits_for(step, on))
    }
}
