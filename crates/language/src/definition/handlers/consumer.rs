//! Consumers: handlers that work on events.

use super::phase::{self, Names};
use super::topics::{self, Role};
use super::{Consumer, MUTATE, MUTATION, PREPARE};
use crate::definition::reading::{Field, Fields, Reading};
use crate::definition::steps::Action;
use crate::definition::text::Flaw;

const REMEDY: &str = "{ subscribe: [orders.new], prepare: { script: … }, next: { script: … } }";

/// Reads all consumers, in order.
pub(crate) fn read_all<'n>(
    reading: &mut Reading<'_>,
    field: &Field<'n>,
    names: &mut Names<'n>,
) -> Vec<Consumer> {
    let consumers = names.read(reading, field).into_iter();
    consumers.filter_map(|(name, field)| read(reading, name, &field)).collect()
}

fn read(reading: &mut Reading<'_>, name: &str, field: &Field<'_>) -> Option<Consumer> {
    let mut fields = Fields::of(reading, field, REMEDY)?;
    let remedy = "subscribe: [orders.new]";
    let subscribe = fields.require("subscribe", remedy);
    let subscribe =
        subscribe.and_then(|field| topics::list(reading, &field, Role::Subscribes, remedy));
    let remedy = "publishes: [orders.done], or leave it out";
    let publishes = fields.take("publishes");
    let publishes =
        publishes.and_then(|field| topics::list(reading, &field, Role::Publishes, remedy));
    let function = "prepare: async (ctx, state) => { … }";
    let remedy = phase::remedy(reading, function, "prepare: { script: … }");
    let prepare = fields.require("prepare", remedy);
    let prepare = prepare.and_then(|field| phase::read(reading, &field, &[]));
    let written = fields.take("mutate");
    let mutate = written.as_ref().and_then(|field| phase::read(reading, field, &[PREPARE]));
    // A script returns the mutation to perform; any other action is the mutation itself.
    let before: &[&str] = match &mutate {
        Some(Action::Script(_)) => &[PREPARE, MUTATE, MUTATION],
        Some(_) => &[PREPARE, MUTATION],
        None if written.is_some() => &[PREPARE, MUTATE, MUTATION],
        None => &[PREPARE],
    };
    let reconcile = fields.take("reconcile");
    if let (Some(field), None) = (&reconcile, &written) {
        let flaw = Flaw::new("reconcile", "there is no mutate whose outcome could be unknown");
        reading.report(&field.path, field.node.mark(), flaw.suggest("leave it out"));
    }
    let looked: Vec<&str> = before.iter().copied().filter(|phase| *phase != MUTATION).collect();
    let reconcile = reconcile.and_then(|field| phase::read(reading, &field, &looked));
    let next = fields.take("next").and_then(|field| phase::read(reading, &field, before));
    let timeout = fields.duration(reading, "timeout");
    fields.finish(reading);
    Some(Consumer {
        name: name.to_owned(),
        subscribe: subscribe?,
        publishes: publishes.unwrap_or_default(),
        prepare: prepare?,
        mutate,
        reconcile,
        next,
        timeout,
    })
}
