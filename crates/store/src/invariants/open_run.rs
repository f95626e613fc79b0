//! Whether an open run agrees with the rows stored beside it.

use engine::run::{ActivityStatus, Part, Run, RunStatus, StepState};
use engine::{RunId, RunKey};

use super::findings::{Breach, Listed};
use crate::view::Finding;

/// The rows stored beside a run.
pub(crate) struct BesideRun {
    /// Whether the run wakes by the time its position asks for.
    pub(crate) wakes: bool,
    /// Whether the stored owners are the nodes that the run's position names.
    pub(crate) owners_agree: bool,
    /// The parts that wait for workers, each with its queue.
    pub(crate) queue: Vec<(Part, String)>,
    /// The steps that have an open approval.
    pub(crate) approvals: Vec<u32>,
    /// The parts that wait for events.
    pub(crate) waits: Vec<Part>,
    /// The open runs that this run started, each with the attempt it will report its end to.
    pub(crate) children: Vec<(RunKey, Option<u32>)>,
}

/// A disagreement between a run and the rows beside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RunBreach {
    Wakeup,
    Owners,
    /// The run has begun, and nothing will move it on: a person has to look.
    AtRest,
    /// Every part of the run waits for capacity, but the run is not marked so: no turn would pick
    /// it.
    WithoutSlot,
    QueueOfNothing(Part),
    QueueMissing(Part, String),
    ApprovalOfNothing(u32),
    /// The run waits for an approval whose row is gone: a person has to look.
    ApprovalMissing(u32),
    WaitOfNothing(Part),
    /// The run waits for an event, but has no row by which the event would wake it: a person has to
    /// look.
    WaitMissing(Part),
    /// The run waits for a child run that has ended or is gone: a person has to look.
    ChildGone(Part, RunKey),
    /// The run waits for a child run that would report its end to another attempt.
    ChildOfOther(Part, RunKey, u32),
}

impl Breach for RunBreach {
    fn code(&self) -> &'static str {
        match self {
            RunBreach::Wakeup => "run-without-wakeup",
            RunBreach::Owners => "run-owners",
            RunBreach::AtRest => "run-at-rest",
            RunBreach::WithoutSlot => "run-without-slot",
            RunBreach::QueueOfNothing(_) => "queue-of-nothing",
            RunBreach::QueueMissing(..) => "queue-missing",
            RunBreach::ApprovalOfNothing(_) => "approval-of-nothing",
            RunBreach::ApprovalMissing(_) => "approval-missing",
            RunBreach::WaitOfNothing(_) => "wait-of-nothing",
            RunBreach::WaitMissing(_) => "wait-missing",
            RunBreach::ChildGone(..) => "child-gone",
            RunBreach::ChildOfOther(..) => "child-of-other",
        }
    }

    fn message(&self, run: i64) -> String {
        match self {
            RunBreach::Wakeup => format!("run {run} does not wake when it should"),
            RunBreach::Owners => format!("run {run} is found by other nodes than perform it"),
            RunBreach::AtRest => format!(
                "run {run} has begun, but nothing of it is going on: cancel it (`punctual run cancel`) and \
                 start it again"
            ),
            RunBreach::WithoutSlot => {
                format!("run {run} waits for a slot, but no node would find it")
            }
            RunBreach::QueueOfNothing(part) => {
                format!("step {} of run {run} is in a queue, but waits for no worker", part.step)
            }
            RunBreach::QueueMissing(part, queue) => {
                format!("step {} of run {run} waits in queue {queue}, but is not in it", part.step)
            }
            RunBreach::ApprovalOfNothing(step) => {
                format!(
                    "people are asked by step {step} of run {run}, which does not wait for them"
                )
            }
            RunBreach::ApprovalMissing(step) => {
                format!(
                    "step {step} of run {run} waits for people, but they are not asked: cancel the run \
                     (`punctual run cancel`) and start it again"
                )
            }
            RunBreach::WaitOfNothing(part) => {
                format!("step {} of run {run} is told of events, but waits for none", part.step)
            }
            RunBreach::WaitMissing(part) => {
                format!(
                    "step {} of run {run} waits for an event, but is told of none: cancel the run \
                     (`punctual run cancel`) and start it again",
                    part.step
                )
            }
            RunBreach::ChildGone(part, child) => format!(
                "step {} of run {run} waits for run {}, which has ended or is gone: cancel run {run} \
                 (`punctual run cancel`) and start it again",
                part.step, child.0
            ),
            RunBreach::ChildOfOther(part, child, _) => format!(
                "step {} of run {run} waits for run {}, which would not tell it of its end",
                part.step, child.0
            ),
        }
    }

    fn can_be_mended(&self) -> bool {
        !matches!(
            self,
            RunBreach::AtRest
                | RunBreach::ApprovalMissing(_)
                | RunBreach::WaitMissing(_)
                | RunBreach::ChildGone(..)
        )
    }
}

impl RunBreach {
    /// Every disagreement between the run and the rows beside it.
    pub(crate) fn all(run: &Run, beside: &BesideRun) -> Vec<RunBreach> {
        let mut found = Vec::new();
        if !beside.wakes {
            found.push(RunBreach::Wakeup);
        }
        if !beside.owners_agree {
            found.push(RunBreach::Owners);
        }
        let active = &run.state.active;
        if run.status != RunStatus::Pending && active.is_empty() {
            found.push(RunBreach::AtRest);
        } else if !active.is_empty() && !run.waits_for_slot {
            let nothing_goes_on =
                active.iter().all(|active| active.status == ActivityStatus::Ready);
            found.extend(nothing_goes_on.then_some(RunBreach::WithoutSlot));
        }
        found.extend(breaches_of_queue(run, &beside.queue));
        let is_asked = |status: &ActivityStatus| matches!(status, ActivityStatus::Asked { .. });
        let asked = active.iter().filter(|active| is_asked(&active.status));
        let asked: Vec<u32> = asked.map(|active| active.step).collect();
        let of_nothing = beside.approvals.iter().filter(|step| !asked.contains(step));
        found.extend(of_nothing.map(|step| RunBreach::ApprovalOfNothing(*step)));
        let missing = asked.iter().filter(|step| !beside.approvals.contains(step));
        found.extend(missing.map(|step| RunBreach::ApprovalMissing(*step)));
        found.extend(breaches_of_waits(run, &beside.waits));
        found.extend(breaches_of_children(run, &beside.children));
        found
    }
}

fn breaches_of_queue(run: &Run, queue: &[(Part, String)]) -> Vec<RunBreach> {
    let queued = run.state.active.iter().filter_map(|active| match &active.status {
        ActivityStatus::Queued { queue } => Some((active.part(), queue.clone())),
        _ => None,
    });
    let queued: Vec<(Part, String)> = queued.collect();
    let of_nothing = queue.iter().filter(|known| !queued.contains(known));
    let missing = queued.iter().filter(|known| !queue.contains(known));
    let of_nothing = of_nothing.map(|(part, _)| RunBreach::QueueOfNothing(*part));
    let missing = missing.map(|(part, queue)| RunBreach::QueueMissing(*part, queue.clone()));
    of_nothing.chain(missing).collect()
}

fn breaches_of_children(run: &Run, children: &[(RunKey, Option<u32>)]) -> Vec<RunBreach> {
    let breach = |part: Part, run: RunKey, token: u32| match children
        .iter()
        .find(|(child, _)| *child == run)
    {
        None => Some(RunBreach::ChildGone(part, run)),
        Some((_, told)) if *told == Some(token) => None,
        Some(_) => Some(RunBreach::ChildOfOther(part, run, token)),
    };
    let active = run.state.active.iter();
    let breaches = active.filter_map(|active| match &active.status {
        ActivityStatus::Child { run, token, .. } => breach(active.part(), *run, *token),
        _ => None,
    });
    breaches.collect()
}

fn breaches_of_waits(run: &Run, waits: &[Part]) -> Vec<RunBreach> {
    let active = run.state.active.iter();
    let awaiting = active.filter(|active| matches!(active.status, ActivityStatus::Awaiting { .. }));
    let awaiting: Vec<Part> = awaiting.map(|active| active.part()).collect();
    let of_nothing = waits.iter().filter(|part| !awaiting.contains(part));
    let missing = awaiting.iter().filter(|part| !waits.contains(part));
    let of_nothing = of_nothing.map(|part| RunBreach::WaitOfNothing(*part));
    of_nothing.chain(missing.map(|part| RunBreach::WaitMissing(*part))).collect()
}

/// The steps that were performed to their end but have no record. `recorded` are the steps that
/// have one.
pub(crate) fn lost_steps(run: &Run, recorded: &[u32]) -> Vec<u32> {
    let states = run.state.states.iter();
    let performed =
        states.filter(|(_, state)| matches!(state, StepState::Completed | StepState::Failed));
    performed.map(|(step, _)| step).filter(|step| !recorded.contains(step)).collect()
}

/// The findings for missing step records.
pub(super) fn steps_gone(found: &[(RunId, Vec<u32>)]) -> Vec<Finding> {
    let mut listed = Listed::new("steps-gone");
    for (run, steps) in found {
        let steps: Vec<String> = steps.iter().map(u32::to_string).collect();
        listed.add(|| {
            format!(
                "run {run} has no record of its steps {} (counted from 0), which have ended: restore a \
                 copy if you need them",
                steps.join(", ")
            )
        });
    }
    listed.findings(false, false)
}
