//! One round: all nodes and all callers act at the same time.

use std::sync::Arc;
use std::thread;

use engine::turn::Command;
use jiff::SignedDuration;
use server::Hub;
use store::{Commanded, Failure, Idempotency};

use super::SharedWorld;
use crate::model::{Checked, broken};
use crate::wait::wait_for;

/// How often a caller that does not know the outcome asks again.
const REPEATS: usize = 3;

/// A command that somebody gives through a node.
pub(super) struct Given {
    slot: usize,
    key: String,
    command: Command,
    /// The worker that claims, and for how long.
    claims: Option<(String, SignedDuration)>,
}

impl SharedWorld {
    /// Gives the command to a node that is awake, if there is one.
    pub(super) fn give(&mut self, command: Option<Command>) -> Option<Given> {
        let awake: Vec<usize> =
            (0..self.slots.len()).filter(|number| self.slots[*number].is_awake()).collect();
        let command = command.filter(|_| !awake.is_empty())?;
        self.given += 1;
        let key = format!("command {}", self.given);
        Some(Given { slot: self.random.pick(&awake), key, command, claims: None })
    }

    /// What people and workers ask for now.
    pub(super) fn commands(&mut self) -> Vec<Given> {
        let now = self.time.elapsed();
        let mut all = Vec::new();
        while let Some(command) = self.outside.due(now) {
            all.extend(self.give(Some(command)));
        }
        if self.outside.visits(now, self.is_calm) {
            let command = self.outside.decides(&self.model, self.is_calm);
            all.extend(self.give(command));
            if let Some((worker, lease, command)) = self.outside.claims(&self.model)
                && let Some(given) = self.give(Some(command))
            {
                all.push(Given { claims: Some((worker, lease)), ..given });
            }
        }
        if !self.is_calm && self.next_command <= now {
            self.next_command = now + self.random.spread(1_000, 120_000);
            for _ in 0..self.random.pick(&[1, 1, 2, 4, 6]) {
                let command = self.people.ask(&self.model, self.time.wall());
                all.extend(self.give(command));
            }
        }
        all
    }

    /// All nodes and the callers of these commands act at the same time; then everything that was
    /// committed is checked.
    pub(super) fn together(&mut self, commands: Vec<Given>) -> Checked {
        self.round += 1;
        let now = self.time.elapsed();
        let was_awake: Vec<bool> = self.slots.iter().map(|slot| slot.was_awake()).collect();
        let hubs: Vec<Option<Arc<Hub>>> =
            self.slots.iter().map(|slot| Some(slot.node.as_ref()?.hub.clone())).collect();
        let (ended, answers) = thread::scope(|scope| {
            let call = |given: &Given| {
                let (hub, command, key) =
                    (hubs[given.slot].clone(), given.command.clone(), given.key.clone());
                scope.spawn(move || hub.map(|hub| call(&hub, &command, &key)))
            };
            let callers: Vec<_> = commands.iter().map(call).collect();
            let acting = self.slots.iter_mut().enumerate().filter(|(_, slot)| slot.acts(now));
            let act = acting.map(|(number, slot)| {
                let mut others = was_awake.iter().enumerate();
                let others_awake = others.any(|(other, was_awake)| other != number && *was_awake);
                (number, scope.spawn(move || slot.act(others_awake)))
            });
            let nodes: Vec<_> = act.collect();
            let ended: Vec<_> =
                nodes.into_iter().map(|(number, node)| (number, node.join())).collect();
            let answers: Vec<_> = callers.into_iter().map(|caller| caller.join()).collect();
            (ended, answers)
        });
        for (number, ended) in ended {
            match ended {
                Ok(Ok(())) => {}
                Ok(Err(failure)) => self.note(format!("node {number}: {failure}")),
                Err(_) => return broken("panic", format!("node {number} has panicked")),
            }
        }
        self.replay()?;
        for (given, answer) in commands.iter().zip(answers) {
            match answer {
                Ok(answer) => self.check_answer(given, answer)?,
                Err(_) => return broken("panic", format!("{:?}", given.command)),
            }
        }
        self.bury();
        Ok(())
    }

    /// Checks that a command which was acknowledged is stored. A worker begins what it has claimed.
    fn check_answer(
        &mut self,
        given: &Given,
        answer: Option<Result<Commanded, Failure>>,
    ) -> Checked {
        let Some(Ok(_)) = answer else { return Ok(()) };
        if !self.committed.contains(&given.key) {
            let message =
                format!("{} was acknowledged, and is not stored: {:?}", given.key, given.command);
            return broken("acknowledged", message);
        }
        if let Some((worker, lease)) = &given.claims {
            let now = self.time.elapsed();
            let work = &self.slots[given.slot].machine.work;
            let deeds = self.outside.begin(&self.model, now, (worker, *lease), self.is_calm);
            deeds.into_iter().for_each(|deed| work.did(deed));
        }
        Ok(())
    }

    /// Notices which nodes have died in this round.
    fn bury(&mut self) {
        let now = self.time.elapsed();
        for number in 0..self.slots.len() {
            if self.slots[number].machine.desk.take_crash() {
                let lasts = self.random.pick(&[0, 1_000, 60_000, super::LEASE, 3 * super::LEASE]);
                self.slots[number].die(if self.is_calm { now } else { now + lasts });
                if self.random.chance(300) {
                    self.slots[number].machine.close();
                }
                self.summary.crashes += 1;
                self.note(format!("node {number} has died, for {} s", lasts / 1_000));
            }
        }
    }
}

/// Gives a command, and asks again while its outcome is not known.
fn call(hub: &Hub, command: &Command, key: &str) -> Result<Commanded, Failure> {
    let mut answer = Err(Failure::Unknown("not asked".to_owned()));
    for _ in 0..REPEATS {
        let idempotency = Idempotency { key: key.to_owned(), fingerprint: [0; 32] };
        answer = wait_for(hub.carry_out(command.clone(), Some(idempotency), None));
        if !matches!(answer, Err(Failure::Unknown(_))) {
            break;
        }
    }
    answer
}
