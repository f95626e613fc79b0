//! The dependencies between the steps of a definition, by index, for deciding runs.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use super::step_references;
use crate::definition::model::{Definition, OnError, Output, Step};
use crate::definition::steps::Action;

/// The dependencies between the steps of a definition. Steps are identified by their index in
/// [`Definition::steps`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Graph {
    indices: HashMap<String, u32>,
    dependencies: Vec<Vec<u32>>,
    dependents: Vec<Vec<u32>>,
    handlers: Vec<bool>,
    references: Vec<Vec<u32>>,
    undo_references: Vec<Vec<u32>>,
    output_references: Vec<u32>,
    has_templates: Vec<bool>,
    has_undo_templates: Vec<bool>,
}

impl Graph {
    /// The index of a step.
    pub fn index(&self, id: &str) -> Option<u32> {
        self.indices.get(id).copied()
    }

    /// The steps that must end before this one begins, in ascending order: those in its
    /// `depends_on`, and the gateways with a route to it.
    pub fn dependencies(&self, step: u32) -> &[u32] {
        row(&self.dependencies, step)
    }

    /// The steps that wait for this one, in ascending order. For a gateway, these include the
    /// targets of its routes.
    pub fn dependents(&self, step: u32) -> &[u32] {
        row(&self.dependents, step)
    }

    /// Whether the step begins only by a jump: an `on_error` names it, and it depends on nothing.
    /// It does not count if the jumping step depends on it, since the run then goes back to it.
    pub fn is_handler(&self, step: u32) -> bool {
        self.handlers.get(step as usize).copied().unwrap_or(false)
    }

    /// The steps that its condition and the texts of its action mention, in ascending order: their
    /// results must be known before it begins. For a script, all steps that may have run before it.
    pub fn references(&self, step: u32) -> &[u32] {
        row(&self.references, step)
    }

    /// The steps that the texts of its compensation mention, in ascending order. The step itself
    /// may be one of them.
    pub fn compensation_references(&self, step: u32) -> &[u32] {
        row(&self.undo_references, step)
    }

    /// The steps that the definition's outputs mention, in ascending order.
    pub fn output_references(&self) -> &[u32] {
        &self.output_references
    }

    /// Whether its action contains templates, or is a script, which reads results itself.
    pub fn has_templates(&self, step: u32) -> bool {
        self.has_templates.get(step as usize).copied().unwrap_or(false)
    }

    /// Whether its compensation contains templates, or is a script.
    pub fn has_compensation_templates(&self, step: u32) -> bool {
        self.has_undo_templates.get(step as usize).copied().unwrap_or(false)
    }

    fn of(steps: &[Step], outputs: &[Output]) -> Graph {
        let indices: HashMap<String, u32> =
            steps.iter().zip(0..).map(|(step, at)| (step.id.clone(), at)).collect();
        let index_of = |id: &str| indices.get(id).copied();
        let mut dependencies: Vec<Vec<u32>> = steps
            .iter()
            .map(|step| step.depends_on.iter().filter_map(|id| index_of(id)).collect())
            .collect();
        let mut jumps = Vec::new();
        for (step, at) in steps.iter().zip(0..) {
            for target in targets(&step.action).filter_map(index_of) {
                dependencies[target as usize].push(at);
            }
            if let OnError::GotoStep(target) = &step.on_error
                && let Some(target) = index_of(target)
            {
                jumps.push((at, target));
            }
        }
        let mut dependents = vec![Vec::new(); steps.len()];
        for (row, at) in dependencies.iter_mut().zip(0..) {
            row.sort_unstable();
            row.dedup();
            row.iter().for_each(|dependency| dependents[*dependency as usize].push(at));
        }
        let mut handlers = vec![false; steps.len()];
        for (_, target) in &jumps {
            handlers[*target as usize] = row(&dependencies, *target).is_empty();
        }
        // A step that the run goes back to has begun before.
        for &(from, target) in &jumps {
            if handlers[target as usize] && leads_to(&dependents, target, from) {
                handlers[target as usize] = false;
            }
        }
        let found = |mentioned: Vec<String>, more: Vec<u32>| {
            let mentioned = mentioned.iter().filter_map(|id| index_of(id));
            let mut found: Vec<u32> = mentioned.chain(more).collect();
            found.sort_unstable();
            found.dedup();
            found
        };
        // A step that jumps to another one comes before it as well.
        let mut before = dependencies.clone();
        jumps.iter().for_each(|(from, target)| before[*target as usize].push(*from));
        let seen = |at: u32, script: bool| if script { earlier(&before, at) } else { Vec::new() };
        let mut references = Vec::with_capacity(steps.len());
        let mut undo_references = Vec::with_capacity(steps.len());
        for (step, at) in steps.iter().zip(0..) {
            let scripts = does(step).any(step_references::is_script);
            references.push(found(step_references::of_step(step), seen(at, scripts)));
            let scripts = undoes(step).is_some_and(step_references::is_script);
            let mut known = seen(at, scripts);
            known.extend(scripts.then_some(at));
            undo_references.push(found(step_references::of_compensation(step), known));
        }
        let mentioned = outputs.iter().map(step_references::of_output);
        let output_references = found(mentioned.flatten().collect(), Vec::new());
        let has_templates = steps.iter().map(|step| does(step).any(step_references::has_template));
        let has_templates = has_templates.collect();
        let undoing =
            steps.iter().map(|step| undoes(step).is_some_and(step_references::has_template));
        let has_undo_templates = undoing.collect();
        Graph {
            indices,
            dependencies,
            dependents,
            handlers,
            references,
            undo_references,
            output_references,
            has_templates,
            has_undo_templates,
        }
    }
}

/// The action of a step and its reconciliation.
fn does(step: &Step) -> impl Iterator<Item = &Action> {
    [&step.action].into_iter().chain(step.reconcile.as_deref())
}

fn undoes(step: &Step) -> Option<&Action> {
    step.compensation.as_ref().map(|undoing| &undoing.action)
}

/// The steps that come before a step, directly or indirectly.
fn earlier(before: &[Vec<u32>], step: u32) -> Vec<u32> {
    let mut seen = vec![false; before.len()];
    let mut open = vec![step];
    let mut found = Vec::new();
    while let Some(step) = open.pop() {
        for next in row(before, step) {
            if !std::mem::replace(&mut seen[*next as usize], true) {
                found.push(*next);
                open.push(*next);
            }
        }
    }
    found
}

fn row(rows: &[Vec<u32>], step: u32) -> &[u32] {
    rows.get(step as usize).map_or(&[], Vec::as_slice)
}

/// Whether `to` waits for `from`, directly or indirectly.
fn leads_to(dependents: &[Vec<u32>], from: u32, to: u32) -> bool {
    let mut seen = vec![false; dependents.len()];
    let mut open = vec![from];
    while let Some(step) = open.pop() {
        if step == to {
            return true;
        }
        for next in row(dependents, step) {
            if !std::mem::replace(&mut seen[*next as usize], true) {
                open.push(*next);
            }
        }
    }
    false
}

/// The ids of the steps that a gateway leads to; none for other actions.
pub(crate) fn targets(action: &Action) -> impl Iterator<Item = &str> {
    let gateway = match action {
        Action::Gateway(gateway) => Some(gateway),
        _ => None,
    };
    gateway.into_iter().flat_map(|gateway| {
        let routes = gateway.routes.iter().map(|route| route.target.as_str());
        routes.chain(gateway.default_route.as_deref())
    })
}

/// Values derived from a definition once, when they are first needed. They add nothing to the
/// definition, so they are not stored and compare as equal.
#[derive(Clone, Debug, Default)]
pub struct Kept {
    graph: OnceLock<Arc<Graph>>,
    pub(crate) handlers: OnceLock<Vec<Arc<Definition>>>,
}

impl PartialEq for Kept {
    fn eq(&self, _: &Kept) -> bool {
        true
    }
}

impl Definition {
    /// The dependencies between its steps; computed once.
    pub fn graph(&self) -> &Graph {
        self.kept.graph.get_or_init(|| Arc::new(Graph::of(&self.steps, &self.outputs)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn step(id: &str, depends_on: &[&str], action: &Value, on_error: &Value) -> Value {
        let retry = serde_json::to_value(crate::definition::StepRetry::default()).unwrap();
        json!({"id": id, "depends_on": depends_on, "action": action, "retry": retry,
               "on_error": on_error, "idempotent": true})
    }

    #[test]
    fn routes_are_dependencies_and_jumps_are_not() {
        let (noop, fail) = (json!({"type": "noop"}), json!("fail_process"));
        let said = json!({"type": "worker", "queue": "q",
                          "input": {"a": ["{{ steps.c.output }} {{ steps.a.status }}", "steps.b"]}});
        let gateway = json!({"type": "gateway", "kind": "exclusive", "default_route": "c",
                             "routes": [{"target": "b"}, {"target": "b"}]});
        let steps = [
            step("a", &[], &gateway, &fail),
            step("b", &["a"], &noop, &json!({"goto_step": "e"})),
            step("c", &[], &noop, &json!({"goto_step": "d"})),
            step("d", &["b", "c"], &said, &fail),
            step("e", &[], &noop, &fail),
        ];
        let definition = json!({"name": "t", "version": "1", "steps": steps});
        let definition: Definition = serde_json::from_value(definition).unwrap();
        let graph = definition.graph();
        let dependencies: Vec<&[u32]> = (0..5).map(|at| graph.dependencies(at)).collect();
        assert_eq!(dependencies, [&[][..], &[0], &[0], &[1, 2], &[]]);
        let dependents: Vec<&[u32]> = (0..5).map(|at| graph.dependents(at)).collect();
        assert_eq!(dependents, [&[1, 2][..], &[3], &[3], &[], &[]]);
        let handlers: Vec<bool> = (0..6).map(|at| graph.is_handler(at)).collect();
        assert_eq!(handlers, [false, false, false, false, true, false]);
        assert_eq!((graph.references(3), graph.references(1)), (&[0, 2][..], &[][..]));
        assert_eq!((graph.index("d"), graph.index("x")), (Some(3), None));
        assert!(std::ptr::eq(graph, definition.graph()), "worked out once");
        assert_eq!(definition.clone(), definition);
    }
}
