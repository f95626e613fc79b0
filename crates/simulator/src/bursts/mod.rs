//! Thousands of runs that end inside the decision that starts them: no attempt is performed, so one
//! decision leads to the next. Driver, engine and store are the real ones; commits fail, and the
//! node dies.
//!
//! The outcome of a burst is known beforehand, and is compared with the file when nothing is left
//! to do.

mod check;
pub(crate) mod planted;
mod world;

use std::sync::Arc;

use engine::topics::Message;
use engine::turn::{Command, IfBusy, NewRun, Starter};
use engine::{TopicId, WorkflowId};
use language::definition::{ReadContext, read};
use serde_json::value::RawValue;
use store::Failure;
use tempfile::TempDir;

use self::world::{Burst, Workflow};
use crate::clock::{Time, instant};
use crate::faulty_store::Rates;
use crate::model::{Checked, Violation, broken};
use crate::node::{Machine, Node, StoreKind};
use crate::observe::is_of_watch;
use crate::random::Random;
use crate::sabotage::{Sabotage, Tampering};
use crate::simulation::{folder, unexpected};
use crate::trace::Trace;
use crate::work::Work;
use crate::{Failed, Summary};

/// The virtual clock begins at 2026-01-01T00:00Z.
const BEGINNING: i64 = 1_767_225_600_000;
/// How many occurrences, schedules or events a burst has: more than one turn begins.
pub(crate) const BURST: usize = 5_000;
/// A world that is still busy after this many turns will never be idle: each turn begins a thousand
/// runs or more.
const TURNS: u64 = 3_000;
/// How many times a caller repeats a command whose outcome is not known.
const TRIES: usize = 50;
/// A planted bug strikes once every this many turns.
const STRIKE_EVERY: u64 = 4;

struct Bursts {
    random: Random,
    machine: Machine,
    node: Option<Node>,
    sabotage: Option<Sabotage>,
    trace: Trace,
    step: u64,
    commands: u64,
    crashes: u64,
    bursts: Vec<Burst>,
    _folder: TempDir,
}

/// Simulates a world of bursts: each kind once, in an order that follows from the seed.
pub fn burst(seed: u64, sabotage: Option<Sabotage>) -> Result<Summary, Box<Failed>> {
    let failed =
        |violation, step, trace| Box::new(Failed { violation, step, trace, state: String::new() });
    let mut world =
        Bursts::new(seed, sabotage).map_err(|violation| failed(violation, 0, String::new()))?;
    match world.live() {
        Ok(runs) => Ok(Summary {
            occurrences: runs,
            runs,
            steps: world.step,
            crashes: world.crashes,
            days: 0,
        }),
        Err(violation) => Err(failed(violation, world.step, world.trace.render())),
    }
}

impl Bursts {
    fn new(seed: u64, sabotage: Option<Sabotage>) -> Result<Bursts, Violation> {
        let mut random = Random::new(seed);
        let time = Arc::new(Time::new(BEGINNING));
        let work = Work::new(time.clone(), random.fork(), Arc::default()).without_noops();
        let folder = folder().map_err(unexpected)?;
        let tampering = Tampering::new(sabotage);
        let machine = Machine::new(
            StoreKind::Embedded,
            folder.path(),
            time,
            random.fork(),
            tampering,
            Arc::new(work),
        );
        Ok(Bursts {
            random,
            machine: machine.map_err(unexpected)?,
            node: None,
            sabotage,
            trace: Trace::default(),
            step: 0,
            commands: 0,
            crashes: 0,
            bursts: Vec::new(),
            _folder: folder,
        })
    }

    /// Runs the world. Returns how many runs it created.
    fn live(&mut self) -> Result<u64, Violation> {
        self.join();
        for workflow in Workflow::ALL {
            self.save(workflow)?;
        }
        let rates = Rates { slow: 0, ..Rates::random(&mut self.random) };
        self.machine.desk.set_rates(rates);
        self.note(format!("faults begin: {rates:?}"));
        for burst in Burst::all(&mut self.random) {
            self.note(format!("{burst:?}"));
            self.begin(&burst)?;
            self.bursts.push(burst);
            self.come_to_rest()?;
        }
        self.machine.desk.set_rates(Rates::default());
        self.come_to_rest()?;
        let store = self.machine.store().map_err(unexpected)?;
        let now = instant(self.machine.time.wall());
        let findings = crate::faulty_store::answer(store.check(now, false)).map_err(unexpected)?;
        let bursts = std::mem::take(&mut self.bursts);
        let runs = self.machine.desk.look(|watch| check::all(watch.connection(), &bursts))?;
        match findings.iter().find(|finding| !is_of_watch(finding)) {
            Some(finding) => broken("store", finding.message.clone()),
            None => Ok(runs),
        }
    }

    fn note(&mut self, event: String) {
        self.trace.note(self.step, self.machine.time.wall(), event);
    }

    /// Joins until there is a node again.
    fn join(&mut self) {
        while self.node.is_none() {
            self.node = self.machine.join().ok();
            if self.machine.desk.take_crash() {
                self.node = None;
            }
            self.forget_records();
        }
    }

    /// Drops the records of single commits: the model of these does not cover bursts, which are
    /// checked at the end.
    fn forget_records(&self) {
        drop(self.machine.desk.records());
        drop(self.machine.work.begun());
    }

    fn crash(&mut self) {
        self.crashes += 1;
        self.node = None;
        self.machine.work.perish();
        if self.random.chance(300) {
            self.machine.close();
        }
        self.note("the node was dead".to_owned());
    }

    /// Repeats a command until its outcome is known.
    fn command(&mut self, command: &Command) -> Checked {
        self.commands += 1;
        let key = format!("command {}", self.commands);
        for _ in 0..TRIES {
            self.join();
            let Some(node) = &mut self.node else { continue };
            let answered = node.command(command.clone(), &key);
            node.take_signals();
            let has_crashed = self.machine.desk.take_crash();
            self.forget_records();
            if has_crashed {
                self.crash();
            }
            match answered {
                Ok(()) => return Ok(()),
                Err(Failure::Refused(why)) => {
                    return broken("refused", format!("{command:?}: {why:?}"));
                }
                Err(why) => self.note(format!("asked again: {why}")),
            }
        }
        broken("busy", format!("{TRIES} tries: {command:?}"))
    }

    fn save(&mut self, workflow: Workflow) -> Checked {
        let source = workflow.definition();
        let rules = self.machine.store().map_err(unexpected)?.rules();
        let now = instant(self.machine.time.wall());
        let context = ReadContext { zones: rules.zones(), now, known_calendar: &|_| None };
        let definition = read(&source, &context).map_err(|flaws| Violation {
            checker: "refused",
            message: format!("{source}: {flaws:?}"),
        })?;
        let definition = Arc::new(definition);
        self.command(&Command::SaveWorkflow { source, definition, publish: true, folder: None })
    }

    fn id(&self, table: &str, name: &str) -> Result<i64, Violation> {
        let sql = format!("SELECT id FROM {table} WHERE name = ?1");
        self.machine.desk.look(|watch| {
            watch.connection().query_row(&sql, [name], |row| row.get(0)).map_err(unexpected)
        })
    }

    fn begin(&mut self, burst: &Burst) -> Checked {
        let now = self.machine.time.wall();
        match *burst {
            Burst::Missed { workflow, .. } | Burst::Together { workflow, .. } => {
                let id = WorkflowId(self.id("workflows", workflow.name())?);
                let schedules = burst.schedules(id, now);
                self.command(&Command::CreateSchedules(schedules))?;
            }
            Burst::Events { workflow, count } => {
                let topic = TopicId(self.id("topics", workflow.name())?);
                let events = (0..count).map(|number| Message {
                    message_id: number.to_string(),
                    title: None,
                    payload: RawValue::NULL.to_owned(),
                    causes: Vec::new(),
                });
                let events = events.collect();
                self.command(&Command::PublishEvents { topic, events })?;
                let id = WorkflowId(self.id("workflows", workflow.name())?);
                let run = NewRun {
                    id: u128::from(self.random.next()) << 64 | u128::from(self.random.next()),
                    payload: None,
                    by: Starter::Caller("someone".to_owned()),
                    trace: None,
                    if_busy: IfBusy::Wait,
                };
                self.command(&Command::StartWorkflow { id, run })?;
            }
        }
        // The node sleeps until the whole burst is due.
        self.machine.time.pass(burst.lasts());
        Ok(())
    }

    /// Takes turns until nothing is left to do now or later.
    fn come_to_rest(&mut self) -> Checked {
        let begin = self.step;
        loop {
            self.step += 1;
            if self.step - begin > TURNS {
                return broken("busy", format!("{TURNS} turns, and no end"));
            }
            self.join();
            self.strike()?;
            let Some(node) = &mut self.node else { continue };
            let is_signalled = node.was_signalled();
            if !node.driver.has_more() && !is_signalled {
                let alarm = node.driver.next_wakeup();
                let now = self.machine.time.wall();
                match alarm.map(|at| at.as_millisecond()) {
                    Some(at) if at > now => self.machine.time.pass(at - now),
                    Some(_) => {}
                    None if self.step - begin > 2 => return Ok(()),
                    None => {}
                }
                node.driver.wake_up(alarm);
            }
            let taken = node.turn();
            let has_crashed = self.machine.desk.take_crash();
            self.forget_records();
            if has_crashed {
                self.crash();
            } else if taken.is_err() {
                self.machine.time.pass(1_000);
            }
        }
    }

    fn strike(&mut self) -> Checked {
        let Some(sabotage) = self.sabotage.filter(|_| self.step.is_multiple_of(STRIKE_EVERY))
        else {
            return Ok(());
        };
        let now = self.machine.time.wall();
        let struck = self.machine.desk.look(|watch| sabotage.strike(watch.connection(), now));
        if struck.map_err(unexpected)? {
            self.note(format!("sabotage: {sabotage:?}"));
        }
        Ok(())
    }
}
