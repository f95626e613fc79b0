//! Runs one world from its seed: events in order of time, faults in between, checks after every
//! step.

use std::sync::Arc;

use rusqlite::Connection;
use tempfile::TempDir;

use crate::calendars::Calendars;
use crate::clock::{Time, instant};
use crate::commands::People;
use crate::faulty_store::{Rates, answer};
use crate::handlers::{generate as handlers, people};
use crate::model::{Awake, Checked, Model, Violation, broken};
use crate::node::{CAPACITY, Machine, Node, StoreKind};
use crate::process::Outside;
use crate::process::generate::{MOST, PREFIX};
use crate::random::Random;
use crate::sabotage::{Sabotage, Tampering};
use crate::trace::Trace;
use crate::work::{Manners, Work};
use crate::world::Rhythm;

/// The virtual clock begins at 2026-01-01T00:00Z.
const BEGINNING: i64 = 1_767_225_600_000;
pub(crate) const HOUR: i64 = 3_600_000;
const DAY: i64 = 24 * HOUR;
/// If the node wakes later than this after its alarm, it was not awake.
const ASLEEP: i64 = 5_000;
/// From this difference on the clock was set back.
const SET_BACK: i64 = 1_000;
/// Long enough after the last fault for every run to end by its timeout.
const CALM: i64 = 3 * HOUR;
/// More turns than this at one instant mean an endless loop.
const TURNS_AT_ONCE: u32 = 50;

/// How many commands in a thousand are about a calendar.
const EDITS: u32 = 60;

/// The kind of world.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// How many days it lasts.
    pub days: i64,
    /// How many schedules it begins with at most.
    pub schedules: usize,
    /// How many of its workflows are processes.
    pub processes: usize,
    /// How many of its workflows have topics, producers and consumers.
    pub handlers: usize,
    /// How often its schedules are due.
    pub rhythm: Rhythm,
    pub store: StoreKind,
    /// How many steps pass between two checks of the store by itself.
    pub check_every: u64,
    pub sabotage: Option<Sabotage>,
}

impl Options {
    /// A small world: its size follows from the seed.
    pub fn small(seed: u64) -> Options {
        let mut random = Random::new(seed ^ 0x5eed);
        Options {
            days: random.pick(&[1, 1, 1, 2, 4]),
            schedules: random.between(2, 8) as usize,
            processes: random.pick(&[0, 0, 1, 2, MOST]),
            handlers: random.pick(&[0, 0, 1, handlers::MOST]),
            rhythm: Rhythm::Quick,
            store: StoreKind::Embedded,
            check_every: 100,
            sabotage: None,
        }
    }

    /// A year of a hundred schedules.
    pub fn year() -> Options {
        Options {
            days: 365,
            schedules: 100,
            processes: 2,
            handlers: 1,
            rhythm: Rhythm::Slow,
            store: StoreKind::Embedded,
            check_every: 20_000,
            sabotage: None,
        }
    }
}

/// Totals of a world.
#[derive(Clone, Copy, Debug, Default)]
pub struct Summary {
    /// Occurrences that were decided.
    pub occurrences: u64,
    /// Runs that were created.
    pub runs: u64,
    pub steps: u64,
    /// How often the node died.
    pub crashes: u64,
    /// How many virtual days the world lasts.
    pub days: i64,
}

/// A world in which a checker found a violation.
#[derive(Debug)]
pub struct Failed {
    pub violation: Violation,
    /// The step at which it was found.
    pub step: u64,
    pub trace: String,
    /// The whole state at that step, as text.
    pub state: String,
}

pub(crate) struct Simulation {
    pub(crate) options: Options,
    pub(crate) random: Random,
    pub(crate) machine: Machine,
    pub(crate) node: Option<Node>,
    pub(crate) people: People,
    pub(crate) model: Model,
    pub(crate) calendars: Calendars,
    pub(crate) outside: Outside,
    /// How long history is kept if a schedule or workflow does not say.
    pub(crate) keep: i64,
    pub(crate) trace: Trace,
    pub(crate) step: u64,
    pub(crate) summary: Summary,
    /// When the next command and the next trouble come, in time that really passes.
    pub(crate) next_command: i64,
    pub(crate) next_trouble: i64,
    pub(crate) next_maintenance: i64,
    last_seen: i64,
    node_id: i64,
    turns_at_once: u32,
    pub(crate) is_calm: bool,
    _folder: TempDir,
}

pub fn simulate(seed: u64, options: Options) -> Result<Summary, Box<Failed>> {
    let mut simulation = match Simulation::new(seed, options) {
        Ok(simulation) => simulation,
        Err(violation) => {
            let (trace, state) = (String::new(), String::new());
            return Err(Box::new(Failed { violation, step: 0, trace, state }));
        }
    };
    match simulation.live() {
        Ok(()) => Ok(simulation.summary()),
        Err(violation) => Err(Box::new(Failed {
            violation,
            step: simulation.step,
            trace: simulation.trace.render(),
            state: simulation.model.render(),
        })),
    }
}

pub(crate) fn unexpected(error: impl std::fmt::Display) -> Violation {
    Violation { checker: "store", message: error.to_string() }
}

/// A temporary folder, in memory if the host has one there.
pub(crate) fn folder() -> std::io::Result<TempDir> {
    let memory = std::path::Path::new("/dev/shm");
    if memory.is_dir() { TempDir::new_in(memory) } else { TempDir::new() }
}

impl Simulation {
    fn new(seed: u64, options: Options) -> Result<Simulation, Violation> {
        let mut random = Random::new(seed);
        let beginning = BEGINNING + random.between(0, 365) * DAY + random.between(0, DAY);
        let time = Arc::new(Time::new(beginning));
        let tampering = Tampering::new(options.sabotage);
        let chance = random.fork();
        let work = Arc::new(Work::new(time.clone(), random.fork(), Arc::default()));
        let folder = folder().map_err(unexpected)?;
        let mut machine = Machine::new(options.store, folder.path(), time, chance, tampering, work)
            .map_err(unexpected)?;
        let rules = machine.store().map_err(unexpected)?.rules();
        let people = People::new(random.fork(), options.rhythm, options.schedules * 2);
        Ok(Simulation {
            people,
            machine,
            node: None,
            model: Model::new(rules, beginning),
            calendars: Calendars::new(random.fork()),
            outside: Outside::new(
                random.fork(),
                options.processes + options.handlers > 0,
                beginning,
            ),
            keep: random.pick(&[2 * HOUR, 12 * HOUR, 30 * DAY]),
            trace: Trace::default(),
            step: 0,
            summary: Summary::default(),
            next_command: beginning,
            next_trouble: beginning,
            next_maintenance: beginning,
            last_seen: beginning,
            node_id: 0,
            turns_at_once: 0,
            is_calm: false,
            _folder: folder,
            random,
            options,
        })
    }

    fn summary(&self) -> Summary {
        Summary {
            occurrences: self.model.occurrences,
            runs: self.model.runs_created,
            steps: self.step,
            days: self.options.days,
            ..self.summary
        }
    }

    pub(crate) fn now(&self) -> i64 {
        self.machine.time.wall()
    }

    pub(crate) fn note(&mut self, event: String) {
        let now = self.now();
        self.trace.note(self.step, now, event);
    }

    fn live(&mut self) -> Checked {
        self.settle_in()?;
        let rates = Rates::random(&mut self.random);
        self.machine.desk.set_rates(rates);
        self.note(format!("faults begin: {rates:?}"));
        let end = self.machine.time.elapsed() + self.options.days * DAY;
        while self.machine.time.elapsed() < end {
            self.step(end)?;
        }
        self.calm_down()
    }

    /// Creates the first workflows and schedules.
    fn settle_in(&mut self) -> Checked {
        self.join()?;
        self.declare_calendars()?;
        for index in 0..1 + self.options.schedules / 4 {
            let now = self.now();
            let command = self.people.save(&self.model, &format!("workflow-{index}"), now);
            self.command(command)?;
        }
        for index in (0..self.options.processes).rev() {
            let now = self.now();
            let command = self.people.save(&self.model, &format!("{PREFIX}{index}"), now);
            self.command(command)?;
        }
        for index in 0..self.options.handlers {
            let now = self.now();
            let name = format!("{}{index}", handlers::PREFIX);
            let command = self.people.save(&self.model, &name, now);
            self.command(command)?;
        }
        for _ in 0..self.options.schedules {
            let now = self.now();
            let command = self.people.create(&self.model, now);
            self.command(command)?;
        }
        Ok(())
    }

    /// Stops the faults; everything that was left must then end.
    fn calm_down(&mut self) -> Checked {
        self.machine.desk.set_rates(Rates::default());
        self.machine.work.behave(Manners::CALM);
        self.is_calm = true;
        self.note("faults end".to_owned());
        let oldest: Vec<i64> = self.model.runs.keys().copied().collect();
        let end = self.machine.time.elapsed() + CALM;
        let mut patience = 0;
        while self.machine.time.elapsed() < end {
            let command = self.people.resolve(&self.model);
            self.command(command)?;
            // Resuming something that fails again at once must not fill the time: it is done once a
            // minute.
            if self.machine.time.elapsed() >= patience {
                patience = self.machine.time.elapsed() + 60_000;
                self.command(people::resume(&self.model))?;
            }
            self.step(end)?;
        }
        let now = self.now();
        if let Some(key) = oldest.into_iter().find(|key| self.model.is_stuck(*key, now)) {
            return broken("drained", format!("run {key} never ends"));
        }
        self.check_store()
    }

    /// One step: the next thing happens, and the driver takes a turn.
    fn step(&mut self, end: i64) -> Checked {
        self.step += 1;
        if self.step.is_multiple_of(self.options.check_every) {
            self.check_store()?;
        }
        self.strike()?;
        let Some(node) = &mut self.node else { return self.join() };
        let is_signalled = node.was_signalled();
        self.see_work()?;
        let Some(node) = &mut self.node else { return Ok(()) };
        if !node.driver.has_more() {
            let alarm = node.driver.next_wakeup().map(|at| at.as_millisecond());
            if !is_signalled {
                self.check_quiet(alarm)?;
                self.wait(alarm, end);
                self.happen()?;
            }
            let Some(node) = &mut self.node else { return Ok(()) };
            node.driver.wake_up(alarm.map(instant));
            self.wake_up(alarm);
        }
        self.turn()
    }

    fn wait(&mut self, alarm: Option<i64>, end: i64) {
        self.turns_at_once = 0;
        let time = &self.machine.time;
        let alarm = alarm.map(|at| at - time.offset());
        let mut next = end.min(alarm.unwrap_or(end)).min(self.next_maintenance);
        next = next.min(self.machine.work.next_answer().unwrap_or(end)).min(self.outside.next());
        if !self.is_calm {
            next = next.min(self.next_command).min(self.next_trouble);
        }
        time.pass(next - time.elapsed());
    }

    /// Does everything that has come due, apart from wakeups.
    fn happen(&mut self) -> Checked {
        let elapsed = self.machine.time.elapsed();
        if self.next_maintenance <= elapsed {
            self.maintenance()?;
        }
        if self.outside.next() <= elapsed {
            self.outside()?;
        }
        if self.is_calm {
            return Ok(());
        }
        if self.next_command <= elapsed {
            let longest = (self.options.days * DAY / 200).max(60_000);
            self.next_command = elapsed + self.random.spread(1_000, longest);
            if self.random.chance(EDITS) {
                self.edit_calendar()?;
            } else {
                let now = self.now();
                let command = self.people.ask(&self.model, now);
                self.command(command)?;
            }
        }
        if self.next_trouble <= elapsed {
            let longest = (self.options.days * DAY / 20).max(60_000);
            self.next_trouble = elapsed + self.random.spread(60_000, longest);
            self.trouble()?;
        }
        Ok(())
    }

    /// The driver's rule, written from the specification: what was due while no node was awake was
    /// missed, and a clock set forward counts as sleep.
    pub(crate) fn wake_up(&mut self, alarm: Option<i64>) {
        let now = self.now();
        if alarm.is_some_and(|alarm| now - alarm > ASLEEP) {
            self.model.awake_since = now;
        }
        if self.last_seen - now > SET_BACK {
            self.model.awake_since = self.model.awake_since.min(now);
        }
        self.last_seen = now;
    }

    fn turn(&mut self) -> Checked {
        let answers = self.machine.work.answers();
        self.show_tokens();
        let Some(node) = &mut self.node else { return Ok(()) };
        node.was_signalled();
        self.see_work()?;
        let Some(node) = &mut self.node else { return Ok(()) };
        for report in answers {
            node.driver.take_report(report);
        }
        let taken = node.turn();
        let (has_more, going_on) = (node.driver.has_more(), node.driver.going_on());
        // A node that decides one thing at a time looks at each thing once, whether or not that
        // changes anything.
        let has_more = has_more && !node.driver.is_alone();
        let changed = self.observe()?;
        if going_on > CAPACITY {
            return broken("slots", format!("{going_on} attempts in {CAPACITY} slots"));
        }
        if self.machine.desk.take_crash() {
            return self.crash();
        }
        match taken {
            Err(_) => {
                let wait = self.random.between(50, 2_000);
                self.machine.time.pass(wait);
                Ok(())
            }
            Ok(_) if has_more => self.check_progress(changed),
            Ok(_) => Ok(()),
        }
    }

    fn check_progress(&mut self, changed: bool) -> Checked {
        self.turns_at_once += 1;
        if !changed && self.turns_at_once > 2 || self.turns_at_once > TURNS_AT_ONCE {
            return broken("busy", format!("{} turns at one instant", self.turns_at_once));
        }
        if changed && self.turns_at_once > 2 {
            // Answers that come at once are a good reason to be busy.
            self.turns_at_once = 2;
        }
        Ok(())
    }

    fn check_quiet(&mut self, alarm: Option<i64>) -> Checked {
        let Some(node) = &self.node else { return Ok(()) };
        let free = CAPACITY.saturating_sub(node.driver.going_on());
        let nodes = vec![(self.node_id, &*self.machine.work)];
        let now = self.now();
        self.model.check_quiet(&Awake { now, free, nodes, leased: Vec::new(), alarm })
    }

    pub(crate) fn join(&mut self) -> Checked {
        let now = self.now();
        let joined = self.machine.join();
        self.observe()?;
        if self.machine.desk.take_crash() {
            return self.crash();
        }
        match joined {
            Ok(node) => {
                self.bring_back()?;
                (self.model.awake_since, self.last_seen) = (now, now);
                self.node = Some(node);
                self.next_maintenance = self.machine.time.elapsed();
                self.node_id = self.newest_node()?;
            }
            Err(_) => self.machine.time.pass(1_000),
        }
        Ok(())
    }

    /// If faults hit the node three times while it decides the same thing, that is taken for the
    /// cause and set aside. This takes it back, as `punctual doctor --repair` does.
    fn bring_back(&mut self) -> Checked {
        let now = instant(self.now());
        let store = self.machine.store().map_err(unexpected)?;
        if !answer(store.all_set_aside()).map_err(unexpected)?.is_empty() {
            answer(store.check(now, true)).map_err(unexpected)?;
            self.observe()?;
        }
        Ok(())
    }

    fn newest_node(&self) -> Result<i64, Violation> {
        let sql = "SELECT max(id) FROM nodes";
        let newest = |connection: &Connection| connection.query_row(sql, [], |row| row.get(0));
        self.machine.desk.look(|watch| newest(watch.connection())).map_err(unexpected)
    }

    pub(crate) fn node_id(&self) -> i64 {
        self.node_id
    }

    fn strike(&mut self) -> Checked {
        if let Some(sabotage) = self.options.sabotage.filter(|_| self.step % 40 == 30) {
            let now = self.now();
            let struck = self.machine.desk.look(|watch| sabotage.strike(watch.connection(), now));
            if struck.map_err(unexpected)? {
                self.note(format!("sabotage: {sabotage:?}"));
            }
        }
        Ok(())
    }

    /// Gives the current claims to the planted bugs that need them.
    pub(crate) fn show_claims(&self) {
        let of_claims = [Sabotage::AcceptOldClaims, Sabotage::AcceptOtherClaimants];
        if self.options.sabotage.is_some_and(|sabotage| of_claims.contains(&sabotage))
            && let Ok(mut claims) = self.machine.desk.tampering.claims.lock()
        {
            let runs = self.model.runs.values();
            *claims = runs.map(|run| (run.id().to_string(), run.claimed())).collect();
        }
    }

    fn show_tokens(&self) {
        if self.options.sabotage == Some(Sabotage::AcceptOldTokens)
            && let Ok(mut tokens) = self.machine.desk.tampering.tokens.lock()
        {
            *tokens = self.model.runs.values().map(|run| (run.key, run.current())).collect();
        }
    }
}
