//! Checks that parent runs and child runs agree.

use std::collections::BTreeMap;

use engine::run::{ActivityStatus, Item, StepState};

use crate::model::{Checked, broken};
use crate::process::Detail;
use crate::watch::RunRow;

fn children(run: &RunRow) -> impl Iterator<Item = (i64, u32)> {
    run.state.active.iter().filter_map(|active| match active.status {
        ActivityStatus::Child { token, run, .. } => Some((run.0, token)),
        _ => None,
    })
}

/// Checks a commit: `open` are the runs that have not ended, `changed` the runs it has changed,
/// each with its row before.
pub(crate) fn check_family<'a>(
    open: &BTreeMap<i64, RunRow>,
    changed: impl Iterator<Item = (Option<&'a RunRow>, &'a RunRow)>,
) -> Checked {
    for (before, after) in changed {
        let key = after.key;
        for (child, token) in children(after).filter(|_| !after.status.has_ended()) {
            let known = open.get(&child).is_some_and(|run| run.parent == Some((key, Some(token))));
            if !known {
                return broken("family", format!("run {key} waits for {child}, which has ended"));
            }
        }
        let left = before.into_iter().flat_map(children).map(|(child, _)| child);
        let now: Vec<i64> = children(after).map(|(child, _)| child).collect();
        let forgotten = |child: &i64| {
            !now.contains(child) && open.get(child).is_some_and(|child| !child.is_ending())
        };
        if let Some(child) = left.into_iter().find(forgotten) {
            return broken("family", format!("run {key} has left {child}, and it goes on"));
        }
        if let Some((parent, Some(_))) = after.parent.filter(|_| after.status.has_ended()) {
            let waits = |run: &RunRow| children(run).any(|(child, _)| child == key);
            if open.get(&parent).is_some_and(waits) {
                return broken("family", format!("run {parent} was not told of the end of {key}"));
            }
        }
    }
    Ok(())
}

/// Checks a retried run: steps that completed and were not undone stay completed, unless the run
/// starts over.
pub(crate) fn check_retried(old: &RunRow, new: &RunRow, from_start: bool) -> Checked {
    let (Some(was), Some(is)) = (&old.detail, &new.detail) else { return Ok(()) };
    for step in 0..is.definition.steps.len() as u32 {
        let state = old.state.states.of(step);
        let stays = match state {
            StepState::Completed => was.row(step, Item::Undoing).is_none(),
            StepState::Skipped | StepState::Bypassed => true,
            _ => false,
        };
        let expected = if stays && !from_start { state } else { StepState::Pending };
        let found = new.state.states.of(step);
        let row = |detail: &Detail| detail.row(step, Item::Whole).cloned();
        let has_its_row = expected == StepState::Pending || row(was) == row(is);
        if found != expected || !has_its_row {
            let (key, of) = (new.key, old.key);
            let message = format!("step {step} is {found:?} in {key}, and was {state:?} in {of}");
            return broken("retried", message);
        }
    }
    Ok(())
}
