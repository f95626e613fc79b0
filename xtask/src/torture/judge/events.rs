//! Rules about events and what was done because of them.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::hits::MUTATION;
use super::{Case, Finding, Rule};
use crate::torture::history::{Reply, What};

pub(super) fn judge(case: &Case<'_>, findings: &mut Vec<Finding>) {
    published(case, findings);
    consumed(case, findings);
}

/// What was acknowledged is there once, nothing else is, and of one request all or nothing.
fn published(case: &Case<'_>, findings: &mut Vec<Finding>) {
    let mut there: BTreeMap<&str, usize> = BTreeMap::new();
    for event in &case.history.end.events {
        *there.entry(&event.id).or_default() += 1;
    }
    for ask in &case.history.asks {
        let What::Events(ids) = &ask.what else { continue };
        let found: Vec<usize> = ids.iter().map(|id| there.remove(&**id).unwrap_or(0)).collect();
        let all = found.iter().all(|count| *count == 1);
        let none = found.iter().all(|count| *count == 0);
        let is_fine = all && ask.reply.may_be_done() || none && ask.reply != Reply::Acknowledged;
        Rule("events that are not there as they were published", findings)
            .wrong_if(!is_fine, || format!("{ids:?}: {found:?}, {:?}", ask.reply));
    }
    Rule("events that nobody published", findings)
        .wrong_if(!there.is_empty(), || format!("{there:?}"));
}

/// Each event was consumed by one run, whose mutation was applied and told the sink of it, once.
fn consumed(case: &Case<'_>, findings: &mut Vec<Finding>) {
    let mut told: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for hit in case.history.hits.iter().filter(|hit| hit.key.ends_with(MUTATION)) {
        let body: Value = serde_json::from_str(&hit.body).unwrap_or_default();
        let ids = body["ids"].as_array().into_iter().flatten().filter_map(Value::as_str);
        ids.for_each(|id| told.entry(id.to_owned()).or_default().push(&hit.key));
    }
    let applied: BTreeSet<&str> = case
        .history
        .end
        .mutations
        .iter()
        .filter(|mutation| mutation.status == "applied")
        .map(|mutation| &*mutation.run)
        .collect();
    for event in &case.history.end.events {
        Rule("an event that was not consumed", findings)
            .wrong_if(event.state != "consumed", || format!("{event:?}"));
        let keys = told.remove(&event.id).unwrap_or_default();
        let run = event.run.as_deref().unwrap_or("");
        let is_once = keys[..] == [format!("{run}{MUTATION}")];
        Rule("an event that the sink was not told of once, by the run that consumed it", findings)
            .wrong_if(!is_once, || format!("{event:?}: {keys:?}"));
        Rule("an event whose mutation was not applied", findings)
            .wrong_if(!applied.contains(run), || format!("{event:?}"));
    }
    Rule("a mutation because of events that are not there", findings)
        .wrong_if(!told.is_empty(), || format!("{told:?}"));
}
