//! The workers and people that processes need: workers that claim, die and answer too late, and
//! people who decide or do not.

use std::collections::BTreeMap;

use engine::RunId;
use engine::run::{Activity, ActivityStatus, AttemptEnd, Claimant};
use engine::turn::Command;
use jiff::SignedDuration;

use super::generate::{ASSIGNEES, QUEUES};
use crate::handlers::phases::{Deed, MUTATION};
use crate::model::{Checked, Model};
use crate::random::Random;
use crate::simulation::Simulation;
use crate::watch::RunRow;
use crate::work::{failed, succeeded};

/// The longest pause between two looks for work.
const LONGEST: i64 = 600_000;
/// Longer than any lease.
const TOO_LATE: i64 = 700_000;

/// All workers and people.
pub(crate) struct Outside {
    random: Random,
    /// What workers are going to report, by time.
    plans: BTreeMap<(i64, u64), Command>,
    next: i64,
    workers: u64,
    planned: u64,
}

impl Outside {
    /// Without processes, nobody ever acts.
    pub(crate) fn new(random: Random, is_needed: bool, now: i64) -> Outside {
        let next = if is_needed { now } else { i64::MAX };
        Outside { random, plans: BTreeMap::new(), next, workers: 0, planned: 0 }
    }

    /// When somebody acts next, in time that really passes.
    pub(crate) fn next(&self) -> i64 {
        self.plans.keys().next().map_or(self.next, |(at, _)| self.next.min(*at))
    }

    fn plan(&mut self, at: i64, command: Command) {
        self.planned += 1;
        self.plans.insert((at, self.planned), command);
    }

    /// The report that a worker sends at this step of the simulation.
    pub(crate) fn due(&mut self, now: i64) -> Option<Command> {
        let first = self.plans.first_entry().filter(|first| first.key().0 <= now)?;
        Some(first.remove())
    }

    fn claim(&mut self) -> (String, SignedDuration, Command) {
        self.workers += 1;
        let worker = format!("worker {}", self.workers);
        let lease = SignedDuration::from_secs(self.random.pick(&[5, 30, 600]));
        let queues = match self.random.below(3) {
            0 => vec![QUEUES[0].to_owned()],
            _ => QUEUES.map(str::to_owned).to_vec(),
        };
        let limit = self.random.between(1, 3) as usize;
        let claimant = claimant(&worker);
        let claim =
            Command::ClaimAttempts { queues, limit, worker: worker.clone(), claimant, lease };
        (worker, lease, claim)
    }

    /// Plans how an attempt goes that a worker has just claimed. Returns what it does to the
    /// outside world, if it is a mutation.
    fn work(
        &mut self,
        now: i64,
        id: &RunId,
        token: u32,
        (worker, lease): (&str, SignedDuration),
        is_calm: bool,
        mutates: Option<i64>,
    ) -> Option<Deed> {
        let lease_ms = i64::try_from(lease.as_millis()).unwrap_or(LONGEST);
        let takes = if is_calm { 1 } else { self.random.spread(1, LONGEST) };
        let said_by = claimant(worker);
        let heartbeat =
            || Command::Heartbeat { id: id.clone(), token, claimant: said_by.clone(), lease };
        let dies = !is_calm && self.random.chance(150);
        let mut at = now + lease_ms / 2;
        while !dies && at < now + takes {
            self.plan(at, heartbeat());
            at += (lease_ms / 2).max(1_000);
        }
        let end_by = |end: &AttemptEnd, claimant: &Claimant| Command::EndAttempt {
            id: id.clone(),
            token,
            claimant: claimant.clone(),
            end: end.clone(),
        };
        let end = |answer: &AttemptEnd| end_by(answer, &said_by);
        let said = if dies {
            // Some workers are only taken for dead, and answer too late.
            self.random.chance(500).then_some(TOO_LATE)
        } else {
            Some(takes)
        };
        let answer = match self.random.below(6) {
            0 if !is_calm => failed("trouble", true),
            1 if !is_calm && self.random.chance(300) => failed("refused", false),
            _ => succeeded(self.random.between(0, 9)),
        };
        // An intruder knows the attempt's token, and perhaps the claim's key.
        if !is_calm && self.random.chance(100) {
            let name = Some("an intruder".to_owned());
            let key = if self.random.chance(500) { said_by.key.clone() } else { String::new() };
            let at = now + self.random.spread(1, takes.max(2));
            self.plan(at, end_by(&succeeded(0), &Claimant { name, key }));
        }
        if let Some(after) = said {
            self.plan(now + after, end(&answer));
            if self.random.chance(150) {
                let again = now + after + self.random.spread(1, LONGEST);
                self.plan(again, end(&answer));
            }
        }
        // A worker that dies may have made the mutation before.
        let happens = match said {
            Some(_) => matches!(answer, AttemptEnd::Succeeded { .. }),
            None => self.random.chance(500),
        };
        let key = format!("{id}/mutation");
        mutates.filter(|_| happens).map(|run| Deed { run, key })
    }

    /// Somebody decides an approval, or tries to.
    fn decide(&mut self, model: &Model, is_calm: bool) -> Option<Command> {
        let asked = |run: &RunRow| -> Option<(RunId, u32, Vec<String>)> {
            let active = run.state.active.iter();
            active.clone().find_map(|active| match &active.status {
                ActivityStatus::Asked { assignees, .. } => {
                    Some((run.id(), active.step, assignees.clone()))
                }
                _ => None,
            })
        };
        let open: Vec<_> =
            model.runs.values().filter_map(|run| Some((run.key, asked(run)?))).collect();
        if open.is_empty() {
            return None;
        }
        let (key, (id, step, assignees)) = &open[self.random.below(open.len())];
        let definition = &model.runs.get(key)?.detail.as_ref()?.definition;
        let step = definition.steps.get(*step as usize)?.id.clone();
        let by = match assignees.first() {
            _ if !is_calm && self.random.chance(200) => "somebody else".to_owned(),
            Some(first) => first.clone(),
            None => ASSIGNEES[0].to_owned(),
        };
        let approves = is_calm || self.random.chance(700);
        let (id, roles, comment) = (id.clone(), Vec::new(), None);
        Some(Command::DecideApproval { id, step, approves, by, roles, comment })
    }
}

impl Outside {
    /// Whether somebody looks now for something to do. They look again after a while.
    pub(crate) fn visits(&mut self, now: i64, is_calm: bool) -> bool {
        if self.next > now {
            return false;
        }
        let longest = if is_calm { 30_000 } else { LONGEST };
        self.next = now + self.random.spread(1_000, longest);
        true
    }

    /// Somebody decides an approval, if anybody does.
    pub(crate) fn decides(&mut self, model: &Model, is_calm: bool) -> Option<Command> {
        let decides = self.random.chance(if is_calm { 1000 } else { 400 });
        if decides { self.decide(model, is_calm) } else { None }
    }

    /// A worker claims, with its name and the lease it asks for, if attempts wait in a queue.
    pub(crate) fn claims(&mut self, model: &Model) -> Option<(String, SignedDuration, Command)> {
        let queued = |active: &Activity| matches!(active.status, ActivityStatus::Queued { .. });
        let is_waiting = |run: &RunRow| run.state.active.iter().any(queued);
        model.runs.values().any(is_waiting).then(|| self.claim())
    }

    /// A worker begins what it has claimed. Returns what it does to the outside world.
    pub(crate) fn begin(
        &mut self,
        model: &Model,
        now: i64,
        (worker, lease): (&str, SignedDuration),
        is_calm: bool,
    ) -> Vec<Deed> {
        let taken = model.runs.values().flat_map(|run| taken(run, worker));
        let deed = |((id, mutates), token): ((RunId, Option<i64>), u32)| {
            self.work(now, &id, token, (worker, lease), is_calm, mutates)
        };
        taken.filter_map(deed).collect()
    }
}

impl Simulation {
    /// Lets workers and people act.
    pub(crate) fn outside(&mut self) -> Checked {
        let now = self.machine.time.elapsed();
        while let Some(command) = self.outside.due(now) {
            self.show_claims();
            self.command(Some(command))?;
        }
        if !self.outside.visits(now, self.is_calm) {
            return Ok(());
        }
        let command = self.outside.decides(&self.model, self.is_calm);
        self.command(command)?;
        let Some((worker, lease, claim)) = self.outside.claims(&self.model) else {
            return Ok(());
        };
        // A worker that does not get the answer knows nothing of its claim.
        if self.command_once(claim)? {
            let now = self.machine.time.elapsed();
            let deeds = self.outside.begin(&self.model, now, (&worker, lease), self.is_calm);
            deeds.into_iter().for_each(|deed| self.machine.work.did(deed));
        }
        Ok(())
    }
}

/// Each simulated worker has an access token of its own.
fn claimant(worker: &str) -> Claimant {
    Claimant { name: Some(worker.to_owned()), key: format!("key of {worker}") }
}

fn taken(run: &RunRow, by: &str) -> Vec<((RunId, Option<i64>), u32)> {
    let active = run.state.active.iter();
    let tokens = active.filter_map(|active| match &active.status {
        ActivityStatus::Claimed { token, worker, .. } if worker == by => {
            let mutates = run.phase(active.part()).is_some_and(|phase| phase == MUTATION);
            Some(((run.id(), mutates.then_some(run.key)), *token))
        }
        _ => None,
    });
    tokens.collect()
}
