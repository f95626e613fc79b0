//! Worlds in which several nodes share one PostgreSQL, with transactions that really overlap: row
//! locks are waited for and skipped, leases run out and are taken over, and commits are doubted.
//!
//! A world goes on in rounds. In a round every node takes its turns on a thread of its own, and
//! every command is given on another; then the world stands still. Triggers have logged each
//! changed row with its transaction. A transaction changes rows only while it holds their locks,
//! so the order of the last changes is one in which the transactions could have come one after the
//! other, and in that order the model checks them.
//!
//! The seed decides which commands the world sends. It does not decide which node is first to act
//! on them.

mod check;
mod planted;
mod replay;
mod round;
mod slot;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use calendar::Zones;
use jiff::SignedDuration;
use tempfile::TempDir;

use self::slot::Slot;
use crate::calendars::Calendars;
use crate::clock::{Time, instant};
use crate::commands::People;
use crate::faulty_store::{Rates, SharedWatch};
use crate::handlers::generate as handlers;
use crate::handlers::people;
use crate::model::{Checked, Model, Violation, broken};
use crate::postgres::schema::Schema;
use crate::process::Outside;
use crate::process::generate::{MOST, PREFIX};
use crate::random::Random;
use crate::sabotage::Sabotage;
use crate::simulation::{Failed, HOUR, Summary, folder, unexpected};
use crate::trace::Trace;
use crate::watch::Watch;
use crate::work::{Done, Manners};
use crate::world::Rhythm;

/// The virtual clock begins at 2026-01-01T00:00Z.
const BEGINNING: i64 = 1_767_225_600_000;
/// How long a node's lease lasts.
const LEASE: i64 = 600_000;
/// How long a node waits before it renews its lease.
const RENEWAL: i64 = LEASE / 3;
/// Long enough after the last fault for leases to run out, and for every run to be tried again.
const CALM: i64 = 2 * HOUR / 3;
const MINUTE: i64 = 60_000;

/// The kind of world.
#[derive(Clone, Copy, Debug)]
pub struct SharedOptions {
    /// How many nodes share the store.
    pub nodes: usize,
    /// How many minutes pass before the faults end.
    pub minutes: i64,
    /// How many schedules it begins with at most.
    pub schedules: usize,
    /// How many of its workflows are processes.
    pub processes: usize,
    /// How many of its workflows have topics, producers and consumers.
    pub handlers: usize,
    pub sabotage: Option<Sabotage>,
}

impl SharedOptions {
    /// A world whose size follows from the seed.
    pub fn new(seed: u64) -> SharedOptions {
        let mut random = Random::new(seed ^ 0x5eed);
        SharedOptions {
            nodes: random.pick(&[1, 2, 2, 3, 3]),
            minutes: random.spread(10, 60),
            schedules: random.between(3, 12) as usize,
            processes: random.pick(&[0, 1, 2, MOST]),
            handlers: random.pick(&[0, 1, handlers::MOST]),
            sabotage: None,
        }
    }
}

struct SharedWorld {
    options: SharedOptions,
    random: Random,
    schema: Arc<Schema>,
    watch: SharedWatch,
    /// The time that really passes, by a clock that is right.
    time: Time,
    slots: Vec<Slot>,
    model: Model,
    people: People,
    outside: Outside,
    trace: Trace,
    round: u64,
    given: u64,
    summary: Summary,
    next_command: i64,
    next_fault: i64,
    is_calm: bool,
    /// Whether the last round has changed anything.
    has_changed: bool,
    /// How often all nodes have come to rest.
    rests: u64,
    /// The nodes that are stored, by id.
    lives: BTreeMap<i64, Life>,
    /// The idempotency keys of all commands that were committed.
    committed: BTreeSet<String>,
    /// Every attempt that was ever begun, by run and token.
    begun: BTreeSet<(i64, u32)>,
    _folder: TempDir,
}

/// A node from when it has joined until it is removed.
struct Life {
    lease_until: i64,
}

/// Simulates one world of nodes that share a store.
pub fn simulate_shared(seed: u64, options: SharedOptions) -> Result<Summary, Box<Failed>> {
    let mut world = match SharedWorld::new(seed, options) {
        Ok(world) => world,
        Err(violation) => {
            let (trace, state) = (String::new(), String::new());
            return Err(Box::new(Failed { violation, step: 0, trace, state }));
        }
    };
    match world.live() {
        Ok(()) => Ok(Summary {
            occurrences: world.model.occurrences,
            runs: world.model.runs_created,
            steps: world.given,
            days: 0,
            ..world.summary
        }),
        Err(violation) => Err(Box::new(Failed {
            violation,
            step: world.round,
            trace: world.trace.render(),
            state: world.model.render(),
        })),
    }
}

impl SharedWorld {
    fn new(seed: u64, options: SharedOptions) -> Result<SharedWorld, Violation> {
        let mut random = Random::new(seed);
        let beginning =
            BEGINNING + random.between(0, 365) * 24 * HOUR + random.between(0, 24 * HOUR);
        let zones = Arc::new(Zones::bundled());
        let lease = SignedDuration::from_millis(LEASE);
        let schema = Arc::new(Schema::create(lease, &zones).map_err(unexpected)?);
        let folder = folder().map_err(unexpected)?;
        let watch = Watch::of_copy(folder.path(), &zones).map_err(unexpected)?;
        let (watch, time, done) =
            (Arc::new(Mutex::new(watch)), Time::new(beginning), Done::default());
        let mut slots = Vec::new();
        for number in 0..options.nodes {
            let ground =
                slot::Ground { schema: &schema, zones: &zones, watch: &watch, done: &done };
            slots.push(Slot::new(ground, number, &time, &mut random, options.sabotage));
        }
        let rules = slots[0].machine.store().map_err(unexpected)?.rules();
        let is_needed = options.processes + options.handlers > 0;
        Ok(SharedWorld {
            people: People::new(random.fork(), Rhythm::Quick, options.schedules * 2),
            outside: Outside::new(random.fork(), is_needed, beginning),
            model: Model::of_many(rules, beginning),
            options,
            schema,
            watch,
            time,
            slots,
            trace: Trace::default(),
            round: 0,
            given: 0,
            summary: Summary::default(),
            next_command: beginning,
            next_fault: beginning,
            is_calm: false,
            has_changed: false,
            rests: 0,
            lives: BTreeMap::new(),
            committed: BTreeSet::new(),
            begun: BTreeSet::new(),
            _folder: folder,
            random,
        })
    }

    fn note(&mut self, event: String) {
        self.trace.note(self.round, self.time.wall(), event);
    }

    fn live(&mut self) -> Checked {
        self.settle_in()?;
        for slot in &self.slots {
            let rates = Rates { slow: 0, ..Rates::random(&mut self.random) };
            slot.machine.desk.set_rates(rates);
        }
        let end = self.time.elapsed() + self.options.minutes * MINUTE;
        while self.time.elapsed() < end {
            self.step(end)?;
        }
        self.calm_down()
    }

    /// Creates the first workflows and schedules, one after the other: later ones refer to earlier
    /// ones.
    fn settle_in(&mut self) -> Checked {
        self.together(Vec::new())?;
        self.declare_calendars()?;
        let workflows =
            (0..1 + self.options.schedules / 4).map(|index| format!("workflow-{index}"));
        let processes = (0..self.options.processes).rev().map(|index| format!("{PREFIX}{index}"));
        let with_handlers =
            (0..self.options.handlers).map(|index| format!("{}{index}", handlers::PREFIX));
        for name in workflows.chain(processes).chain(with_handlers) {
            let command = self.people.save(&self.model, &name, self.time.wall());
            let commands = self.give(command);
            self.together(commands.into_iter().collect())?;
        }
        let mut commands = Vec::new();
        for _ in 0..self.options.schedules {
            let command = self.people.create(&self.model, self.time.wall());
            commands.extend(self.give(command));
        }
        self.together(commands)
    }

    fn declare_calendars(&mut self) -> Checked {
        let calendars = Calendars::new(self.random.fork());
        let slot = &mut self.slots[0];
        let Some(node) = &slot.node else { return broken("store", "the first node did not join") };
        for (id, spec) in calendars.all() {
            node.put_calendar(id, &spec).map_err(unexpected)?;
        }
        self.model.take_calendars(slot.machine.store().map_err(unexpected)?.rules())
    }

    /// Lets time pass until something is to be done, and does it.
    fn step(&mut self, end: i64) -> Checked {
        self.wait(end);
        self.strike()?;
        let commands = self.commands();
        self.together(commands)?;
        self.come_to_rest()?;
        if !self.is_calm && self.next_fault <= self.time.elapsed() {
            self.next_fault = self.time.elapsed() + self.random.spread(30_000, HOUR);
            self.fault();
        }
        Ok(())
    }

    fn wait(&mut self, end: i64) {
        let now = self.time.elapsed();
        let mut next = end.min(now + RENEWAL).min(self.outside.next());
        if !self.is_calm {
            next = next.min(self.next_command).min(self.next_fault);
        }
        for slot in &self.slots {
            next = slot.next(now).map_or(next, |at| next.min(at));
        }
        // Several things are then due at once, and nobody counts as asleep.
        let more = self.random.pick(&[0, 0, 1_000, 3_000]);
        self.time.pass(next - now + more);
    }

    /// Takes rounds until no node has anything to do, and checks that nothing is left.
    fn come_to_rest(&mut self) -> Checked {
        for _ in 0..ROUNDS {
            for slot in &mut self.slots {
                slot.renews = true;
            }
            let is_at_rest = self.slots.iter_mut().all(|slot| slot.is_at_rest());
            if is_at_rest && !self.has_changed {
                return self.check_rest();
            }
            self.together(Vec::new())?;
        }
        broken("busy", format!("{ROUNDS} rounds at one instant"))
    }

    /// Stops the faults; everything that was left must then end.
    fn calm_down(&mut self) -> Checked {
        for slot in &mut self.slots {
            slot.machine.desk.set_rates(Rates::default());
            slot.machine.work.behave(Manners::CALM);
            // Work that hangs would do so until its timeout; that of dead nodes is taken over.
            slot.die(0);
            slot.stalled_until = 0;
        }
        self.is_calm = true;
        self.note("faults end".to_owned());
        let oldest: Vec<i64> = self.model.runs.keys().copied().collect();
        let last = self.time.elapsed() + 3 * CALM;
        loop {
            self.stay_calm()?;
            let now = self.time.wall();
            match oldest.iter().find(|key| self.model.is_stuck(**key, now)) {
                // A run that was held up until now may still have steps that wait for a worker.
                Some(_) if self.time.elapsed() < last => {}
                Some(key) => return broken("drained", format!("run {key} never ends")),
                None => return self.check_store(),
            }
        }
    }

    /// Lives for a while without faults, with people who resolve and resume what needs it.
    fn stay_calm(&mut self) -> Checked {
        let end = self.time.elapsed() + CALM;
        let mut resumed_at = 0;
        while self.time.elapsed() < end {
            let mut commands = Vec::new();
            let command = self.people.resolve(&self.model);
            commands.extend(self.give(command));
            if self.time.elapsed() >= resumed_at {
                resumed_at = self.time.elapsed() + 60_000;
                let command = people::resume(&self.model);
                commands.extend(self.give(command));
            }
            self.together(commands)?;
            self.step(end)?;
        }
        Ok(())
    }

    /// Something happens to a node.
    fn fault(&mut self) {
        let number = self.random.below(self.slots.len());
        let now = self.time.elapsed();
        let lasts = self.random.spread(1_000, 4 * LEASE);
        let fault = self.random.below(6);
        let slot = &mut self.slots[number];
        let event = match fault {
            0 => {
                slot.die(now + lasts);
                self.summary.crashes += 1;
                format!("node {number} is dead for {} s", lasts / 1_000)
            }
            1 => {
                slot.leaves = true;
                format!("node {number} is to leave")
            }
            2 | 3 => {
                slot.stalled_until = now + lasts;
                format!("node {number} hangs for {} s", lasts / 1_000)
            }
            4 => {
                let offset = self.random.between(-2_000, 2_000);
                let by = offset - slot.machine.time.offset();
                slot.machine.time.set_clock_by(by);
                format!("the clock of node {number} is wrong by {offset} ms")
            }
            _ => {
                self.time.pass(lasts);
                format!("all are asleep for {} s", lasts / 1_000)
            }
        };
        self.note(event);
    }

    fn check_store(&mut self) -> Checked {
        let now = instant(self.time.wall());
        let store = self.slots[0].machine.store().map_err(unexpected)?;
        crate::observe::check_store(&*store, now)?;
        check::leftovers(&self.watch)
    }
}

/// More rounds than this at one instant mean an endless loop.
const ROUNDS: usize = 60;
