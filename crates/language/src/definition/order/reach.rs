//! Which steps can come before which: finds steps that are never reached, and mentions of steps
//! that cannot have run.

use std::collections::HashMap;

use super::{Outline, no_step};
use crate::definition::reading::Reading;
use crate::definition::templates::StepReference;
use crate::definition::text::Flaw;

/// The dependencies and jumps between steps.
pub(super) struct Ways<'w> {
    waits_for: &'w [Vec<usize>],
    jumps: Vec<Option<usize>>,
    jumped_from: Vec<Vec<usize>>,
}

impl<'w> Ways<'w> {
    pub(super) fn new(waits_for: &'w [Vec<usize>], jumps: Vec<Option<usize>>) -> Ways<'w> {
        let mut jumped_from = vec![Vec::new(); waits_for.len()];
        for (from, to) in jumps.iter().enumerate().filter_map(|(from, to)| Some((from, (*to)?))) {
            jumped_from[to].push(from);
        }
        Ways { waits_for, jumps, jumped_from }
    }

    /// Reports steps that are never reached. The dependencies must have no cycle.
    pub(super) fn report_unreachable(&self, reading: &mut Reading<'_>, steps: &[Outline<'_>]) {
        let reached = self.reached();
        for (at, step) in steps.iter().enumerate().filter(|(at, _)| !reached[*at]) {
            let message = if self.jumped_from[at].is_empty() {
                "never reached: it waits for a step that is never reached"
            } else {
                "never reached: it begins by a jump from a step that is never reached"
            };
            reading.refuse(&step.place, Flaw::new("unreachable", message));
        }
    }

    /// Reports mentions of steps that do not exist, cannot have run or have no such part.
    pub(super) fn report_step_references(
        &self,
        reading: &mut Reading<'_>,
        steps: &[Outline<'_>],
        indices: &HashMap<&str, usize>,
    ) {
        for (at, step) in steps.iter().enumerate() {
            if step.references.is_empty() && step.undo_references.is_empty() {
                continue;
            }
            let before = self.before(at);
            for reference in &step.references {
                let itself = "a step does not know its own result before it has run";
                known(reading, steps, indices, &before, (at, Some(itself)), reference);
            }
            for reference in &step.undo_references {
                known(reading, steps, indices, &before, (at, None), reference);
            }
        }
    }

    /// Which steps are reached. A step is reached if all steps it waits for are, or a step that
    /// jumps to it is. A step that only a jump begins is reached by the jump alone; one that a run
    /// goes back to is treated like any other.
    fn reached(&self) -> Vec<bool> {
        let count = self.waits_for.len();
        let mut followers = vec![Vec::new(); count];
        for (at, dependencies) in self.waits_for.iter().enumerate() {
            dependencies.iter().for_each(|dependency| followers[*dependency].push(at));
        }
        let mut open: Vec<usize> = self.waits_for.iter().map(Vec::len).collect();
        let begins = |at: &usize| {
            let jumps = &self.jumped_from[*at];
            open[*at] == 0 && (jumps.is_empty() || leads_to_one(&followers, *at, jumps))
        };
        let mut next: Vec<usize> = (0..count).filter(begins).collect();
        let mut reached = vec![false; count];
        while let Some(at) = next.pop() {
            if std::mem::replace(&mut reached[at], true) {
                continue;
            }
            next.extend(self.jumps[at]);
            for follower in &followers[at] {
                open[*follower] -= 1;
                if open[*follower] == 0 {
                    next.push(*follower);
                }
            }
        }
        reached
    }

    /// The steps that may have run when this one begins.
    fn before(&self, at: usize) -> Vec<bool> {
        let mut before = vec![false; self.waits_for.len()];
        let mut next = vec![at];
        while let Some(at) = next.pop() {
            for earlier in self.waits_for[at].iter().chain(&self.jumped_from[at]) {
                if !std::mem::replace(&mut before[*earlier], true) {
                    next.push(*earlier);
                }
            }
        }
        before
    }
}

/// Whether one of `ends` waits for `from`, directly or indirectly.
fn leads_to_one(followers: &[Vec<usize>], from: usize, ends: &[usize]) -> bool {
    let mut seen = vec![false; followers.len()];
    let mut next = vec![from];
    while let Some(at) = next.pop() {
        for follower in &followers[at] {
            if !std::mem::replace(&mut seen[*follower], true) {
                next.push(*follower);
            }
        }
    }
    ends.iter().any(|end| seen[*end])
}

/// Reports a mention of a step that does not exist, cannot have run or has no such part. If
/// `itself` has a message, a step must not mention itself, unless a jump leads back to it.
fn known(
    reading: &mut Reading<'_>,
    steps: &[Outline<'_>],
    indices: &HashMap<&str, usize>,
    before: &[bool],
    (at, itself): (usize, Option<&str>),
    reference: &StepReference,
) {
    let flaw = match (indices.get(reference.id.as_str()), itself) {
        (Some(index), itself) if before[*index] || (*index == at && itself.is_none()) => {
            return reference.report_missing(reading, &steps[*index].output);
        }
        (Some(index), Some(message)) if *index == at => Flaw::new("not-before", message),
        (Some(_), _) => {
            let id = &reference.id;
            Flaw::new("not-before", format!("step {id} cannot have run before this one"))
                .suggest(format!("depends_on: [{id}]"))
        }
        (None, _) => no_step(reading, &reference.id, indices.keys().copied()),
    };
    reading.report(&reference.path, reference.span, flaw);
}
