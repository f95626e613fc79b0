//! Whether an open run agrees with the rows stored beside it; the same check for every store.

use std::collections::BTreeMap;

use engine::run::{ActivityStatus, Part, Run, RunStatus, StepState};
use engine::{RunId, RunKey};

use crate::view::Finding;

/// At most this many findings of one kind are listed one by one; the rest are counted.
pub(crate) const TOLD: usize = 20;

/// What a person can do about a revision of a workflow that cannot be read.
pub(crate) const REPUBLISH: &str = "publish the definition of its workflow again (`punctual apply`); \
     for runs that began with this revision, restore a copy that has it";

/// The rows stored beside a run.
pub(crate) struct Beside {
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
pub(crate) enum Breach {
    Wakeup,
    Owners,
    /// The run has begun, and nothing will move it on: a person has to look.
    AtRest,
    /// Every part of the run waits for capacity, but the run is not marked so: no turn would pick
    /// it.
    WithoutPlace,
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

impl Breach {
    pub(crate) fn code(&self) -> &'static str {
        match self {
            Breach::Wakeup => "run-without-wakeup",
            Breach::Owners => "run-owners",
            Breach::AtRest => "run-at-rest",
            Breach::WithoutPlace => "run-without-place",
            Breach::QueueOfNothing(_) => "queue-of-nothing",
            Breach::QueueMissing(..) => "queue-missing",
            Breach::ApprovalOfNothing(_) => "approval-of-nothing",
            Breach::ApprovalMissing(_) => "approval-missing",
            Breach::WaitOfNothing(_) => "wait-of-nothing",
            Breach::WaitMissing(_) => "wait-missing",
            Breach::ChildGone(..) => "child-gone",
            Breach::ChildOfOther(..) => "child-of-other",
        }
    }

    pub(crate) fn message(&self, run: i64) -> String {
        match self {
            Breach::Wakeup => format!("run {run} does not wake when it should"),
            Breach::Owners => format!("run {run} is found by other nodes than perform it"),
            Breach::AtRest => format!(
                "run {run} has begun, but nothing of it is going on: cancel it (`punctual run cancel`) and \
                 start it again"
            ),
            Breach::WithoutPlace => format!("run {run} waits for a place, but is not looked for"),
            Breach::QueueOfNothing(part) => {
                format!("step {} of run {run} is in a queue, but waits for no worker", part.step)
            }
            Breach::QueueMissing(part, queue) => {
                format!("step {} of run {run} waits in queue {queue}, but is not in it", part.step)
            }
            Breach::ApprovalOfNothing(step) => {
                format!(
                    "people are asked by step {step} of run {run}, which does not wait for them"
                )
            }
            Breach::ApprovalMissing(step) => {
                format!(
                    "step {step} of run {run} waits for people, but they are not asked: cancel the run \
                     (`punctual run cancel`) and start it again"
                )
            }
            Breach::WaitOfNothing(part) => {
                format!("step {} of run {run} is told of events, but waits for none", part.step)
            }
            Breach::WaitMissing(part) => {
                format!(
                    "step {} of run {run} waits for an event, but is told of none: cancel the run \
                     (`punctual run cancel`) and start it again",
                    part.step
                )
            }
            Breach::ChildGone(part, child) => format!(
                "step {} of run {run} waits for run {}, which has ended or is gone: cancel run {run} \
                 (`punctual run cancel`) and start it again",
                part.step, child.0
            ),
            Breach::ChildOfOther(part, child, _) => format!(
                "step {} of run {run} waits for run {}, which would not tell it of its end",
                part.step, child.0
            ),
        }
    }

    pub(crate) fn can_be_mended(&self) -> bool {
        !matches!(
            self,
            Breach::AtRest
                | Breach::ApprovalMissing(_)
                | Breach::WaitMissing(_)
                | Breach::ChildGone(..)
        )
    }
}

/// Every disagreement between the run and the rows beside it.
pub(crate) fn breaches(run: &Run, beside: &Beside) -> Vec<Breach> {
    let mut found = Vec::new();
    if !beside.wakes {
        found.push(Breach::Wakeup);
    }
    if !beside.owners_agree {
        found.push(Breach::Owners);
    }
    let active = &run.position.active;
    if run.status != RunStatus::Pending && active.is_empty() {
        found.push(Breach::AtRest);
    } else if !active.is_empty() && !run.lacks_place {
        let nothing_goes_on = active.iter().all(|active| active.doing == ActivityStatus::Ready);
        found.extend(nothing_goes_on.then_some(Breach::WithoutPlace));
    }
    let queued: Vec<(Part, &str)> = active
        .iter()
        .filter_map(|active| match &active.doing {
            ActivityStatus::Queued { queue } => Some((active.part(), queue.as_str())),
            _ => None,
        })
        .collect();
    for (part, queue) in &beside.queue {
        if !queued.contains(&(*part, queue)) {
            found.push(Breach::QueueOfNothing(*part));
        }
    }
    for (part, queue) in queued {
        if !beside.queue.iter().any(|(known, name)| *known == part && name == queue) {
            found.push(Breach::QueueMissing(part, queue.to_owned()));
        }
    }
    let is_asked = |doing: &ActivityStatus| matches!(doing, ActivityStatus::Asked { .. });
    let asked = active.iter().filter(|active| is_asked(&active.doing));
    let asked: Vec<u32> = asked.map(|active| active.step).collect();
    let of_nothing = beside.approvals.iter().filter(|step| !asked.contains(step));
    found.extend(of_nothing.map(|step| Breach::ApprovalOfNothing(*step)));
    let missing = asked.iter().filter(|step| !beside.approvals.contains(step));
    found.extend(missing.map(|step| Breach::ApprovalMissing(*step)));
    found.extend(breaches_of_waits(run, &beside.waits));
    found.extend(active.iter().filter_map(|active| match &active.doing {
        ActivityStatus::Child { run, token, .. } => {
            match beside.children.iter().find(|(child, _)| child == run) {
                None => Some(Breach::ChildGone(active.part(), *run)),
                Some((_, told)) if *told != Some(*token) => {
                    Some(Breach::ChildOfOther(active.part(), *run, *token))
                }
                Some(_) => None,
            }
        }
        _ => None,
    }));
    found
}

fn breaches_of_waits(run: &Run, waits: &[Part]) -> Vec<Breach> {
    let active = run.position.active.iter();
    let awaiting = active.filter(|active| matches!(active.doing, ActivityStatus::Awaiting { .. }));
    let awaiting: Vec<Part> = awaiting.map(|active| active.part()).collect();
    let of_nothing = waits.iter().filter(|part| !awaiting.contains(part));
    let missing = awaiting.iter().filter(|part| !waits.contains(part));
    let of_nothing = of_nothing.map(|part| Breach::WaitOfNothing(*part));
    of_nothing.chain(missing.map(|part| Breach::WaitMissing(*part))).collect()
}

/// The steps that were performed to their end but have no record. `recorded` are the steps that
/// have one.
pub(crate) fn lost_steps(run: &Run, recorded: &[u32]) -> Vec<u32> {
    let states = run.position.states.iter();
    let performed =
        states.filter(|(_, state)| matches!(state, StepState::Completed | StepState::Failed));
    performed.map(|(step, _)| step).filter(|step| !recorded.contains(step)).collect()
}

/// The findings for missing step records.
pub(crate) fn steps_gone(found: &[(RunId, Vec<u32>)]) -> Vec<Finding> {
    let code = "steps-gone";
    let finding = |message| Finding { code, message, repaired: false };
    let told = found.iter().take(TOLD).map(|(run, steps)| {
        let steps: Vec<String> = steps.iter().map(u32::to_string).collect();
        finding(format!(
            "run {run} has no record of its steps {} (counted from 0), which have ended: restore a copy if \
             you need them",
            steps.join(", ")
        ))
    });
    told.chain(more(found.len(), code).map(finding)).collect()
}

/// The findings for breaches, by kind.
pub(crate) fn findings<'a>(
    found: impl Iterator<Item = (i64, &'a Breach)>,
    repair: bool,
) -> Vec<Finding> {
    let mut kinds: BTreeMap<&'static str, (usize, Vec<Finding>)> = BTreeMap::new();
    for (run, breach) in found {
        let (count, told) = kinds.entry(breach.code()).or_default();
        *count += 1;
        let repaired = repair && breach.can_be_mended();
        let finding = |message| Finding { code: breach.code(), message, repaired };
        if *count <= TOLD {
            told.push(finding(breach.message(run)));
        }
    }
    let mut findings = Vec::new();
    for (code, (count, told)) in kinds {
        let repaired = told.first().is_some_and(|finding| finding.repaired);
        findings.extend(told);
        let more = more(count, code).map(|message| Finding { code, message, repaired });
        findings.extend(more);
    }
    findings
}

/// The line that counts the findings not listed one by one; `None` if all are listed.
pub(crate) fn more(all: usize, code: &str) -> Option<String> {
    let more = all.checked_sub(TOLD).filter(|more| *more > 0)?;
    Some(format!("… and {more} more of the kind {code}"))
}
