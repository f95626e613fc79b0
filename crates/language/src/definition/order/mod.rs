//! Dependencies between steps: each step exists, none waits for itself, and there is a valid order.

mod graph;
mod reach;
mod step_references;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet};

use crate::definition::model::Step;
use crate::definition::reading::{Field, Reading};
use crate::definition::steps::output_schema;
use crate::definition::templates::StepReference;
use crate::definition::text::{Flaw, cut};
use crate::input_schema::InputSchema;

pub use graph::{Graph, Kept};

/// Longer cycles are shown without their middle.
const SHOWN: usize = 8;

/// The part of a step that matters for the order.
pub(super) struct Outline<'n> {
    pub(super) id: Option<String>,
    pub(super) place: Field<'n>,
    pub(super) dependencies: Vec<Dependency<'n>>,
    /// The steps that a gateway leads to. They depend on it.
    pub(super) targets: Vec<Dependency<'n>>,
    /// The step with which the run continues if this one fails.
    pub(super) jump: Option<Dependency<'n>>,
    /// Steps that its condition and its texts reference.
    pub(super) references: Vec<StepReference>,
    /// The schema of the step's output.
    pub(super) output: InputSchema,
    /// Steps that the texts of its compensation reference.
    pub(super) undo_references: Vec<StepReference>,
}

/// A reference to another step.
pub(super) struct Dependency<'n> {
    pub(super) id: &'n str,
    pub(super) field: Field<'n>,
}

/// The indexes of the steps, dependencies first. Among those that could come next, the one written
/// first comes first. Reports references to unknown steps, cycles, steps that are never reached,
/// and mentions of steps that cannot have run.
pub(super) fn arrange(reading: &mut Reading<'_>, steps: &[Outline<'_>]) -> Vec<usize> {
    let mut indices = HashMap::new();
    for (at, step) in steps.iter().enumerate() {
        if let Some(id) = &step.id {
            indices.entry(id.as_str()).or_insert(at);
        }
    }
    let mut waits_for: Vec<Vec<usize>> =
        steps.iter().enumerate().map(|(at, step)| resolve(reading, &indices, at, step)).collect();
    let mut jumps = vec![None; steps.len()];
    for (at, step) in steps.iter().enumerate() {
        for target in &step.targets {
            let found = find(reading, &indices, target, at, "a gateway cannot lead to itself");
            if let Some(found) = found
                && !waits_for[found].contains(&at)
            {
                waits_for[found].push(at);
            }
        }
        let itself = "a step cannot go on with itself; retry does that";
        jumps[at] = step.jump.as_ref().and_then(|jump| find(reading, &indices, jump, at, itself));
    }
    let order = sorted(&waits_for);
    let graph = reach::Ways::new(&waits_for, jumps);
    if order.len() < steps.len() {
        report_cycles(reading, steps, &waits_for, &order);
    } else {
        graph.report_unreachable(reading, steps);
    }
    graph.report_step_references(reading, steps, &indices);
    order
}

/// Reports mentions of unknown steps and of parts that a step cannot have, for texts that are
/// filled in after all steps have ended. `steps` are those without flaws.
pub(super) fn all_known(reading: &mut Reading<'_>, ids: &HashSet<&str>, steps: &[Step]) {
    let references = reading.templates.take();
    if references.is_empty() {
        return;
    }
    let steps: HashMap<&str, &Step> = steps.iter().map(|step| (step.id.as_str(), step)).collect();
    for reference in references {
        if !ids.contains(reference.id.as_str()) {
            let flaw = no_step(reading, &reference.id, ids.iter().copied());
            reading.report(&reference.path, reference.span, flaw);
        } else if let Some(step) = steps.get(reference.id.as_str()) {
            reference.report_missing(reading, &output_schema(&step.action, &step.on_error));
        }
    }
}

fn resolve(
    reading: &mut Reading<'_>,
    indices: &HashMap<&str, usize>,
    at: usize,
    step: &Outline<'_>,
) -> Vec<usize> {
    let mut found = Vec::with_capacity(step.dependencies.len());
    let mut seen = HashSet::new();
    for Dependency { id, field } in &step.dependencies {
        let flaw = match indices.get(id) {
            _ if !seen.insert(*id) => Flaw::new("repeated", format!("{} is named twice", cut(id))),
            Some(index) if *index == at => {
                Flaw::new("cycle", format!("step {id} waits for itself")).suggest("leave it out")
            }
            Some(index) => {
                found.push(*index);
                continue;
            }
            None => no_step(reading, id, others(indices, at)),
        };
        reading.refuse(field, flaw);
    }
    found
}

/// The index of a referenced step. A step must not refer to itself.
fn find(
    reading: &mut Reading<'_>,
    indices: &HashMap<&str, usize>,
    named: &Dependency<'_>,
    from: usize,
    itself: &str,
) -> Option<usize> {
    let flaw = match indices.get(named.id) {
        Some(index) if *index == from => Flaw::new("cycle", itself),
        Some(index) => return Some(*index),
        None => no_step(reading, named.id, others(indices, from)),
    };
    reading.refuse(&named.field, flaw);
    None
}

/// The ids that the step at this index may refer to: all but its own.
fn others<'a>(indices: &HashMap<&'a str, usize>, at: usize) -> impl Iterator<Item = &'a str> {
    indices.iter().filter(move |(_, index)| **index != at).map(|(id, _)| *id)
}

pub(super) fn no_step<'a>(
    reading: &Reading<'_>,
    id: &str,
    known: impl IntoIterator<Item = &'a str>,
) -> Flaw {
    // Further flaws are only counted, and finding the nearest id is costly.
    if reading.is_full() {
        return Flaw::new("no-step", "");
    }
    Flaw::new("no-step", format!("there is no step {}", cut(id))).did_you_mean(id, known)
}

/// Kahn's algorithm with a heap, which keeps the order of the text where possible.
fn sorted(waits_for: &[Vec<usize>]) -> Vec<usize> {
    let mut followers = vec![Vec::new(); waits_for.len()];
    let mut open: Vec<usize> = waits_for.iter().map(Vec::len).collect();
    for (at, dependencies) in waits_for.iter().enumerate() {
        dependencies.iter().for_each(|dependency| followers[*dependency].push(at));
    }
    let free = open.iter().enumerate().filter(|(_, open)| **open == 0);
    let mut ready: BinaryHeap<Reverse<usize>> = free.map(|(at, _)| Reverse(at)).collect();
    let mut order = Vec::with_capacity(waits_for.len());
    while let Some(Reverse(at)) = ready.pop() {
        order.push(at);
        for follower in &followers[at] {
            open[*follower] -= 1;
            if open[*follower] == 0 {
                ready.push(Reverse(*follower));
            }
        }
    }
    order
}

/// Reports cycles by depth-first search: a step that is met again on the current path closes one.
/// Of cycles that share a step, only one is reported, since fixing it often fixes the others.
fn report_cycles(
    reading: &mut Reading<'_>,
    steps: &[Outline<'_>],
    waits_for: &[Vec<usize>],
    order: &[usize],
) {
    let mut visited = vec![false; steps.len()];
    let mut told = vec![false; steps.len()];
    order.iter().for_each(|at| visited[*at] = true);
    for start in 0..steps.len() {
        // Each step on the path, with the number of its dependencies already followed.
        let mut way: Vec<(usize, usize)> = Vec::new();
        if !visited[start] {
            visited[start] = true;
            way.push((start, 0));
        }
        while let Some((at, followed)) = way.last_mut() {
            let Some(next) = waits_for[*at].get(*followed).copied() else {
                way.pop();
                continue;
            };
            *followed += 1;
            if !visited[next] {
                visited[next] = true;
                way.push((next, 0));
            } else if let Some(begin) = way.iter().position(|(seen, _)| *seen == next) {
                let cycle: Vec<usize> = way[begin..].iter().map(|(at, _)| *at).collect();
                if !cycle.iter().any(|at| told[*at]) {
                    cycle.iter().for_each(|at| told[*at] = true);
                    report_cycle(reading, steps, &cycle);
                }
            }
        }
    }
}

fn report_cycle(reading: &mut Reading<'_>, steps: &[Outline<'_>], cycle: &[usize]) {
    // The cycle is reported starting from the step that is written first.
    let first = (0..cycle.len()).min_by_key(|at| cycle[*at]).unwrap_or(0);
    let mut around: Vec<usize> = cycle[first..].iter().chain(&cycle[..first]).copied().collect();
    around.extend(around.first().copied());
    let mut ids: Vec<String> =
        around.iter().map(|at| steps[*at].id.clone().unwrap_or_default()).collect();
    if ids.len() > SHOWN {
        let middle = SHOWN / 2..ids.len() - SHOWN / 2;
        let left_out = format!("… {} more …", middle.len());
        ids.splice(middle, [left_out]);
    }
    let message = format!("steps wait for each other: {}", ids.join(" → "));
    let step = &steps[around[0]];
    let second = around.get(1).and_then(|at| steps[*at].id.as_deref());
    let named = step.dependencies.iter().find(|named| Some(named.id) == second);
    // If the step does not name the dependency itself, a gateway leads to it.
    let led = || {
        let gateway = around.get(1).map(|at| &steps[*at])?;
        gateway.targets.iter().find(|target| Some(target.id) == step.id.as_deref())
    };
    let field = named.or_else(led).map_or(&step.place, |named| &named.field);
    reading.refuse(field, Flaw::new("cycle", message));
}
