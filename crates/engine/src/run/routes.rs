//! Gateways: which of the steps behind them run.

use language::definition::{Action, Gateway, GatewayKind};

use super::decide::Decider;
use super::input::{Retryability, RunHistory};
use super::start::raw;

impl<F: RunHistory> Decider<'_, F> {
    /// Takes the routes whose conditions hold.
    pub(super) fn route(&mut self, at: usize, gateway: &Gateway) -> Result<(), F::Error> {
        let step = self.run.state.active[at].step;
        self.run.state.active[at].attempt += 1;
        let taken = self.with_scope(step, |scope| {
            let mut taken = Vec::new();
            for route in &gateway.routes {
                let holds = match &route.condition {
                    Some(condition) if gateway.kind != GatewayKind::Parallel => {
                        language::expression::holds(condition, scope)?
                    }
                    _ => true,
                };
                if holds {
                    taken.push(route.target.as_str());
                    if gateway.kind == GatewayKind::Exclusive {
                        break;
                    }
                }
            }
            Ok(taken)
        });
        let mut taken = match taken {
            Ok(taken) => taken,
            Err(stop) => return self.failed(at, stop.refusal()?, Retryability::Permanent, None),
        };
        if taken.is_empty() {
            taken.extend(gateway.default_route.as_deref());
        }
        if taken.is_empty() {
            let message = "no route's condition holds, and there is no default_route";
            let error = self.error(step, "no_route", message);
            return self.failed(at, error, Retryability::Permanent, None);
        }
        let targets = taken.iter().filter_map(|target| self.graph.index(target));
        let routes: Vec<(u32, u32)> = targets.map(|target| (step, target)).collect();
        self.run.state.routes.extend(routes);
        let output = raw(&serde_json::json!({ "routes": taken }));
        self.succeeded(at, output)
    }

    /// Whether `gateway` has a route to `target` that it did not take.
    pub(super) fn is_route_not_taken(&self, gateway: u32, target: u32) -> bool {
        let Some(Action::Gateway(routes)) = self.step(gateway).map(|step| &step.action) else {
            return false;
        };
        let Some(id) = self.step(target).map(|step| step.id.as_str()) else { return false };
        let leads = routes.routes.iter().any(|route| route.target == id)
            || routes.default_route.as_deref() == Some(id);
        leads && !self.run.state.routes.contains(&(gateway, target))
    }

    pub(super) fn why_bypassed(&self, step: u32) -> String {
        let before = self.graph.dependencies(step);
        let gateway = before.iter().find(|on| self.is_route_not_taken(**on, step));
        match gateway.and_then(|gateway| self.step(*gateway)) {
            Some(gateway) => format!("{} took another route", gateway.id),
            None => "no route has led to what it depends on".to_owned(),
        }
    }
}
