//! What a definition names and does not contain: other workflows, and secrets of the node. Whoever
//! publishes it is warned of names that nobody knows.

use std::collections::BTreeSet;

use serde_json::Value;

use super::model::{Definition, TriggerKind};
use super::read_incident_actions;
use super::steps::Action;
use super::text::Flaw;
use super::warnings::locate;
use crate::expression::check_template;

/// A name with the path of the key that mentions it.
type Named = (String, String);

impl Definition {
    /// The names of the other workflows that its runs, failures and deadlines start.
    pub fn workflows_named(&self) -> BTreeSet<String> {
        workflows(self)
            .into_iter()
            .map(|(_, name)| name)
            .filter(|name| *name != self.name)
            .collect()
    }
}

/// Flaws for workflows that the definition starts and that are `unknown`, with their positions.
pub fn unknown_workflows(
    definition: &Definition,
    text: &str,
    unknown: &BTreeSet<String>,
) -> Vec<Flaw> {
    let named = workflows(definition).into_iter().filter(|(_, name)| unknown.contains(name));
    let flaw = |(path, name): Named| {
        let message = format!("there is no workflow {name}: it cannot be started");
        let flaw = Flaw::new("unknown-workflow", message);
        Flaw { path, ..flaw.suggest(format!("publish {name}, or correct the name")) }
    };
    locate(named.map(flaw).collect(), text)
}

/// Flaws for secrets that the definition names and the node does not have, with their positions.
pub fn unknown_secrets(
    definition: &Definition,
    text: &str,
    is_known: impl Fn(&str) -> bool,
) -> Vec<Flaw> {
    let named = secrets(definition).into_iter().filter(|(_, name)| !is_known(name));
    let flaw = |(path, name): Named| {
        let message = format!("this node has no secret {name}: what needs it will fail");
        let flaw = Flaw::new("unknown-secret", message);
        let remedy = format!("start the node with PUNCTUAL_SECRET_{name}=…, or correct the name");
        Flaw { path, ..flaw.suggest(remedy) }
    };
    locate(named.map(flaw).collect(), text)
}

fn workflows(definition: &Definition) -> Vec<Named> {
    let mut named = Vec::new();
    for (key, actions) in
        [("on_failure", &definition.on_failure), ("on_recovery", &definition.on_recovery)]
    {
        let started = actions.iter().flatten().filter_map(|action| action.start.clone());
        named.extend(started.map(|name| (key.to_owned(), name)));
    }
    for (at, trigger) in definition.triggers.iter().enumerate() {
        let Some(declaration) = definition.declaration(trigger) else { continue };
        for key in ["on_failure", "on_recovery"] {
            let actions = declaration.get(key).map(read_incident_actions);
            let started = actions.into_iter().flatten().flatten().filter_map(|action| action.start);
            named.extend(started.map(|name| (format!("triggers[{at}].{key}"), name)));
        }
    }
    let own = definition.deadline.iter().map(|deadline| ("deadline".to_owned(), deadline));
    let of_steps = definition
        .steps
        .iter()
        .filter_map(|step| Some((format!("steps[{}].deadline", step.id), step.deadline.as_ref()?)));
    for (path, deadline) in own.chain(of_steps) {
        let started = deadline.actions.iter().filter_map(|action| action.start.clone());
        named.extend(started.map(|name| (path.clone(), name)));
    }
    for (path, action) in actions(definition) {
        if let Action::SubProcess(child) = action {
            named.push((format!("{path}workflow"), child.workflow.clone()));
        }
    }
    named
}

fn secrets(definition: &Definition) -> Vec<Named> {
    let declared = definition.secrets.iter().map(|name| ("secrets".to_owned(), name.clone()));
    let mut named: Vec<Named> = declared.collect();
    for (at, trigger) in definition.triggers.iter().enumerate() {
        if let TriggerKind::Webhook { secret: Some(name), .. } = &trigger.kind {
            named.push((format!("triggers[{at}].secret"), name.clone()));
        }
    }
    for (path, action) in actions(definition) {
        let mut left = vec![serde_json::to_value(action).unwrap_or_default()];
        let mut found = BTreeSet::new();
        while let Some(value) = left.pop() {
            match value {
                Value::String(text) if text.contains("{{") => {
                    found.extend(check_template(&text).into_iter().flat_map(|of| of.secrets));
                }
                Value::Array(items) => left.extend(items),
                Value::Object(fields) => left.extend(fields.into_iter().map(|(_, value)| value)),
                _ => {}
            }
        }
        named.extend(found.into_iter().map(|name| (format!("{path}type"), name)));
    }
    named
}

/// The actions of steps, of the items of a `for_each` and of compensations, with the paths under
/// which their keys are.
fn actions(definition: &Definition) -> Vec<(String, &Action)> {
    let mut all = Vec::new();
    for step in &definition.steps {
        let path = format!("steps[{}].", step.id);
        match &step.action {
            Action::ForEach(each) => all.push((format!("{path}step."), &*each.action)),
            action => all.push((path.clone(), action)),
        }
        let undone = step.compensation.as_ref().map(|undo| &undo.action);
        all.extend(undone.map(|action| (format!("{path}compensation."), action)));
    }
    all
}
