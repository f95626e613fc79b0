//! The place of one node: its machine, on which it lives, dies, hangs and comes back.

use std::sync::Arc;

use calendar::Zones;
use store::Failure;

use crate::clock::Time;
use crate::faulty_store::{Desk, SharedWatch, answer};
use crate::node::{Machine, Node};
use crate::postgres::schema::Schema;
use crate::random::Random;
use crate::sabotage::{Sabotage, Tampering};
use crate::wait::wait_for;
use crate::work::{Done, Work};

/// How many turns a node takes in one round at most.
const TURNS: usize = 10;
/// If the node wakes later than this after its alarm, it was not awake.
const ASLEEP: i64 = 5_000;

/// The state that the node threads of one world share.
pub(super) struct Ground<'a> {
    pub(super) schema: &'a Arc<Schema>,
    pub(super) zones: &'a Arc<Zones>,
    pub(super) watch: &'a SharedWatch,
    pub(super) done: &'a Done,
}

/// A machine, and its node while there is one.
pub(super) struct Slot {
    pub(super) machine: Machine,
    pub(super) node: Option<Node>,
    /// The id of the node, as the store knows it.
    pub(super) life: i64,
    /// When a dead node comes back, and until when one hangs.
    pub(super) back_at: i64,
    pub(super) stalled_until: i64,
    /// Whether the node renews its lease in the next round.
    pub(super) renews: bool,
    pub(super) renewed_at: i64,
    /// Whether the node leaves in good order in the next round.
    pub(super) leaves: bool,
}

impl Slot {
    pub(super) fn new(
        ground: Ground<'_>,
        number: usize,
        time: &Time,
        random: &mut Random,
        sabotage: Option<Sabotage>,
    ) -> Slot {
        let time = Arc::new(time.of_another());
        let work = Work::new(time.clone(), random.fork(), ground.done.clone());
        let tampering = Tampering::new(sabotage);
        let desk = Desk::new(time.clone(), random.fork(), ground.watch.clone(), true, tampering);
        let (schema, zones) = (ground.schema.clone(), ground.zones.clone());
        let machine = Machine::sharing(schema, number, zones, desk, work);
        let now = time.elapsed();
        Slot {
            machine,
            node: None,
            life: 0,
            back_at: 0,
            stalled_until: 0,
            renews: false,
            renewed_at: now,
            leaves: false,
        }
    }

    fn elapsed(&self) -> i64 {
        self.machine.time.elapsed()
    }

    /// Whether the node lives and does not hang.
    pub(super) fn is_awake(&self) -> bool {
        self.node.is_some() && self.stalled_until <= self.elapsed()
    }

    /// Whether the node acts in this round.
    pub(super) fn acts(&self, now: i64) -> bool {
        if self.node.is_some() { self.stalled_until <= now } else { self.back_at <= now }
    }

    /// Whether the node is awake, and has not slept past its alarm.
    pub(super) fn was_awake(&self) -> bool {
        let Some(node) = self.node.as_ref().filter(|_| self.is_awake()) else { return false };
        let alarm = node.driver.next_wakeup().map(|at| at.as_millisecond());
        alarm.is_none_or(|alarm| self.machine.time.wall() - alarm <= ASLEEP)
    }

    /// When something has to be done for the node, in time that really passes.
    pub(super) fn next(&self, now: i64) -> Option<i64> {
        let Some(node) = &self.node else { return Some(self.back_at.max(now)) };
        if self.stalled_until > now {
            return Some(self.stalled_until);
        }
        let offset = self.machine.time.offset();
        let alarm = node.driver.next_wakeup().map(|at| at.as_millisecond() - offset);
        [alarm, self.machine.work.next_answer()].into_iter().flatten().min()
    }

    /// Whether the node is at rest: it is dead, hangs, or sleeps until a wakeup.
    pub(super) fn is_at_rest(&mut self) -> bool {
        let now = self.machine.time.wall();
        let has_answer = self.machine.work.next_answer().is_some_and(|at| at <= self.elapsed());
        if self.node.is_none() {
            return self.back_at > self.elapsed();
        }
        if !self.is_awake() {
            return true;
        }
        let renewed = self.renewed_at == self.elapsed();
        let Some(node) = &mut self.node else { return true };
        let is_signalled = node.has_signals();
        let is_due = node.driver.next_wakeup().is_some_and(|at| at.as_millisecond() <= now);
        renewed && !has_answer && !is_signalled && !is_due && !node.driver.has_more()
    }

    /// The node is gone with everything in memory.
    pub(super) fn die(&mut self, back_at: i64) {
        self.node = None;
        self.machine.work.perish();
        self.back_at = back_at;
    }

    /// Lets the node act once: it joins, renews its lease or takes a turn. `others_awake` says
    /// whether another node has been running since this one last acted.
    pub(super) fn act(&mut self, others_awake: bool) -> Result<(), Failure> {
        if self.node.is_none() {
            self.node = Some(self.machine.join()?);
            // Dying early often is not what this world is about.
            let name = self.machine.name().to_owned();
            answer(self.machine.store()?.has_settled(&name))?;
        }
        if std::mem::take(&mut self.leaves) {
            self.node = None;
            self.machine.work.perish();
            let left = self.machine.leave(self.life);
            self.machine.close();
            return left;
        }
        let Some(node) = &mut self.node else { return Ok(()) };
        if std::mem::take(&mut self.renews) {
            // A failure is told to the driver, which takes a turn.
            let _ = wait_for(node.driver.renewals().run_once());
            self.renewed_at = self.machine.time.elapsed();
        }
        if !others_awake {
            node.driver.wake_up(node.driver.next_wakeup());
        }
        for _ in 0..TURNS {
            node.take_signals();
            for report in self.machine.work.answers() {
                node.driver.take_report(report);
            }
            node.turn()?;
            node.take_signals();
            if self.machine.desk.has_crashed() || !node.driver.has_more() {
                break;
            }
        }
        Ok(())
    }
}
