//! Steps of type `gateway`.

use super::action::{Gateway, GatewayKind, Route};
use crate::definition::limits;
use crate::definition::order::Dependency;
use crate::definition::reading::{Field, Fields, Reading};
use crate::definition::text::{Flaw, cut};

const KINDS: [&str; 3] = ["exclusive", "parallel", "inclusive"];

/// Reads the gateway, and the steps that it leads to with their positions.
pub(super) fn read<'n>(
    reading: &mut Reading<'_>,
    fields: &mut Fields<'n>,
    targets: &mut Vec<Dependency<'n>>,
) -> Option<Gateway> {
    let kind = match fields.take("kind") {
        Some(field) => kind(reading, &field),
        None => Some(GatewayKind::default()),
    };
    let field = fields.require("routes", "routes: [ { condition: input.total > 100, target: b } ]");
    let items = field.as_ref().and_then(|field| reading.list(field, limits::STEPS));
    if let (Some(field), Some([])) = (&field, items.as_deref()) {
        let flaw = Flaw::new("route", "a gateway without routes");
        reading.refuse(field, flaw.suggest("[ { condition: input.total > 100, target: b } ]"));
    }
    let mut routes = Vec::new();
    let mut always = false;
    for item in items.unwrap_or_default() {
        if always && kind == Some(GatewayKind::Exclusive) {
            let flaw = Flaw::new("route", "never tried: the route before has no condition");
            reading.refuse(&item, flaw.suggest("a condition before, or default_route"));
        }
        let route = route(reading, &item, targets);
        always = route.as_ref().is_some_and(|route| route.condition.is_none());
        if let (Some(GatewayKind::Parallel), Some(condition)) = (kind, item.node.entry("condition"))
        {
            let flaw = Flaw::new("route", "a parallel gateway takes all of its routes")
                .suggest("leave the condition out, or kind: inclusive");
            reading.report(&item.path, condition.key_span, flaw);
        }
        routes.extend(route);
    }
    let default_route = fields.take("default_route");
    if let (Some(field), Some(GatewayKind::Parallel)) = (&default_route, kind) {
        let flaw = Flaw::new("route", "a parallel gateway takes all of its routes");
        reading.refuse(field, flaw.suggest("leave it out"));
    }
    let default_route = default_route.and_then(|field| target(reading, field, targets));
    Some(Gateway { kind: kind?, routes, default_route })
}

fn kind(reading: &mut Reading<'_>, field: &Field<'_>) -> Option<GatewayKind> {
    let written = reading.text(field)?;
    match written {
        "exclusive" => Some(GatewayKind::Exclusive),
        "parallel" => Some(GatewayKind::Parallel),
        "inclusive" => Some(GatewayKind::Inclusive),
        _ => {
            let flaw = Flaw::new("choice", format!("{} is not known here", cut(written)))
                .allow(KINDS.join(", "))
                .did_you_mean(written, KINDS);
            reading.refuse(field, flaw);
            None
        }
    }
}

fn route<'n>(
    reading: &mut Reading<'_>,
    item: &Field<'n>,
    targets: &mut Vec<Dependency<'n>>,
) -> Option<Route> {
    let mut fields = Fields::of(reading, item, "{ condition: input.total > 100, target: b }")?;
    let condition = fields.take("condition");
    let given = condition.is_some();
    let condition = condition.and_then(|field| reading.condition(&field));
    let to = fields.require("target", "target: b");
    let to = to.and_then(|field| target(reading, field, targets));
    fields.finish(reading);
    (given == condition.is_some()).then_some(Route { condition, target: to? })
}

fn target<'n>(
    reading: &mut Reading<'_>,
    field: Field<'n>,
    targets: &mut Vec<Dependency<'n>>,
) -> Option<String> {
    let id = reading.text_such_as(&field, "a text, the id of a step")?;
    targets.push(Dependency { id, field });
    Some(id.to_owned())
}
