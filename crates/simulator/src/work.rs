//! Simulated work that takes time, fails, hangs, and answers twice or too late.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use engine::RunKey;
use engine::notices;
use engine::run::{AttemptEnd, Item, Part};
use engine::turn::Perform;
use serde_json::value::RawValue;
use server::Dispatch;
use store::Report;

use crate::clock::Time;
use crate::handlers::generate::PREFIX as WITH_HANDLERS;
use crate::handlers::phases::{self, Deed, Happens};
use crate::process::generate::PREFIX;
use crate::random::Random;

/// How the work of one world goes, per thousand attempts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Manners {
    pub(crate) at_once: u32,
    pub(crate) fails: u32,
    pub(crate) fails_for_good: u32,
    pub(crate) hangs: u32,
    pub(crate) answers_twice: u32,
    pub(crate) answers_late: u32,
    /// The longest time that work takes if it does not hang.
    pub(crate) longest: i64,
}

impl Manners {
    /// Everything succeeds at once.
    pub(crate) const CALM: Manners = Manners {
        at_once: 1000,
        fails: 0,
        fails_for_good: 0,
        hangs: 0,
        answers_twice: 0,
        answers_late: 0,
        longest: 1,
    };

    pub(crate) fn random(random: &mut Random) -> Manners {
        Manners {
            at_once: random.pick(&[0, 300, 700]),
            fails: random.pick(&[0, 50, 150, 400]),
            fails_for_good: random.pick(&[0, 0, 5, 30]),
            hangs: random.pick(&[0, 5, 30, 100]),
            answers_twice: random.pick(&[0, 20, 100]),
            answers_late: random.pick(&[0, 20, 100]),
            longest: random.pick(&[5_000, 60_000, 600_000, 7_200_000]),
        }
    }
}

/// An attempt that has begun.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Begun {
    pub(crate) run: i64,
    pub(crate) part: Part,
    pub(crate) token: u32,
    /// Whether the step may be performed twice.
    pub(crate) idempotent: bool,
}

/// Runs whose mutation has happened, whichever node has made it.
pub(crate) type Done = Arc<Mutex<BTreeSet<i64>>>;

/// All attempts that a node is performing.
pub(crate) struct Work {
    time: Arc<Time>,
    /// Whether steps that do nothing end in the turn that begins them. Otherwise they stand for
    /// work of any kind.
    ends_noops: bool,
    state: Mutex<State>,
}

struct State {
    random: Random,
    manners: Manners,
    /// Attempts that have not answered.
    going_on: BTreeSet<(i64, u32)>,
    /// Attempts that the node was given since it last joined.
    performed: BTreeSet<(i64, u32)>,
    /// Future answers, by time.
    answers: BTreeMap<(i64, u64), Report>,
    given: u64,
    begun: Vec<Begun>,
    /// What was done to the outside world since the last call of `deeds`.
    deeds: Vec<Deed>,
    /// Changes of the outside world that happen when their attempt ends.
    to_come: BTreeMap<(i64, u32), Deed>,
    done: Done,
    /// The latest mistake in the input of an attempt.
    wrong: Option<String>,
}

impl Work {
    pub(crate) fn new(time: Arc<Time>, mut random: Random, done: Done) -> Work {
        let manners = Manners::random(&mut random);
        let state = State {
            random,
            manners,
            going_on: BTreeSet::new(),
            performed: BTreeSet::new(),
            answers: BTreeMap::new(),
            given: 0,
            begun: Vec::new(),
            deeds: Vec::new(),
            to_come: BTreeMap::new(),
            done,
            wrong: None,
        };
        Work { time, ends_noops: false, state: Mutex::new(state) }
    }

    /// Work that is not told of steps that do nothing.
    pub(crate) fn without_noops(self) -> Work {
        Work { ends_noops: true, ..self }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn behave(&self, manners: Manners) {
        self.state().manners = manners;
    }

    /// When the next answer comes.
    pub(crate) fn next_answer(&self) -> Option<i64> {
        self.state().answers.keys().next().map(|(at, _)| *at)
    }

    /// The answers that have come.
    pub(crate) fn answers(&self) -> Vec<Report> {
        let mut state = self.state();
        let later = state.answers.split_off(&(self.time.elapsed() + 1, 0));
        let come = std::mem::replace(&mut state.answers, later);
        for report in come.values() {
            let attempt = (report.run.0, report.token);
            state.going_on.remove(&attempt);
            state.happens(attempt);
        }
        come.into_values().collect()
    }

    /// The attempts begun since the last call.
    pub(crate) fn begun(&self) -> Vec<Begun> {
        std::mem::take(&mut self.state().begun)
    }

    /// What was done to the outside world since the last call.
    pub(crate) fn deeds(&self) -> Vec<Deed> {
        std::mem::take(&mut self.state().deeds)
    }

    /// The latest mistake in the input of an attempt, if there was one.
    pub(crate) fn wrong(&self) -> Option<String> {
        self.state().wrong.take()
    }

    /// A worker has done something to the outside world.
    pub(crate) fn did(&self, deed: Deed) {
        let mut state = self.state();
        state.done().insert(deed.run);
        state.deeds.push(deed);
    }

    pub(crate) fn was_given(&self, run: i64, token: u32) -> bool {
        self.state().performed.contains(&(run, token))
    }

    /// The node is gone, with all its attempts.
    pub(crate) fn perish(&self) {
        let mut state = self.state();
        state.going_on.clear();
        state.performed.clear();
        state.answers.clear();
        state.to_come.clear();
    }
}

impl State {
    fn done(&self) -> MutexGuard<'_, BTreeSet<i64>> {
        self.done.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn answer_at(&mut self, at: i64, report: Report) {
        self.given += 1;
        self.answers.insert((at, self.given), report);
    }

    /// Does what was to be done when this attempt ends.
    fn happens(&mut self, attempt: (i64, u32)) {
        if let Some(deed) = self.to_come.remove(&attempt) {
            self.done().insert(deed.run);
            self.deeds.push(deed);
        }
    }

    /// How an attempt at a phase of a handler ends, and what it does to the outside world.
    fn phase(&mut self, now: i64, perform: &Perform) -> AttemptEnd {
        let manners = self.manners;
        self.wrong = phases::wrong_input(perform).or(self.wrong.take());
        if !phases::mutates(perform) {
            let was_done = self.done().contains(&perform.run.0);
            return phases::end(&mut self.random, manners, now, perform, was_done);
        }
        let (end, happens) = phases::mutation(&mut self.random, manners);
        let attempt = (perform.run.0, perform.token);
        if happens != Happens::Never {
            self.to_come.insert(attempt, Deed::of(perform));
        }
        if happens == Happens::AtOnce {
            self.happens(attempt);
        }
        end
    }

    fn end(&mut self) -> AttemptEnd {
        let (fails, for_good) = (self.manners.fails, self.manners.fails_for_good);
        if self.random.chance(for_good) {
            return failed("refused", false);
        }
        if self.random.chance(fails) {
            return failed("trouble", true);
        }
        succeeded(self.random.between(0, 9))
    }

    /// Adds answers that must be refused: duplicates, and answers of old attempts.
    fn nuisances(&mut self, now: i64, report: &Report) {
        if self.random.chance(self.manners.answers_twice) {
            let at = now + self.random.spread(1, 60_000);
            self.answer_at(at, report.clone());
        }
        let is_own = self.performed.contains(&(report.run.0, report.token.saturating_sub(1)));
        if is_own && self.random.chance(self.manners.answers_late) {
            let at = now + self.random.spread(1, 60_000);
            let end = AttemptEnd::Succeeded { output: RawValue::NULL.to_owned() };
            self.answer_at(at, Report { run: report.run, token: report.token - 1, end });
        }
    }
}

pub(crate) fn succeeded(v: i64) -> AttemptEnd {
    let output = RawValue::from_string(format!("{{\"v\":{v}}}"));
    AttemptEnd::Succeeded { output: output.unwrap_or_else(|_| RawValue::NULL.to_owned()) }
}

pub(crate) fn failed(code: &str, retryable: bool) -> AttemptEnd {
    let (code, message) = (code.to_owned(), "simulated".to_owned());
    AttemptEnd::Failed { code, message, retryable, output: None }
}

impl Dispatch for Work {
    fn perform(&self, perform: Perform) -> Option<Report> {
        let now = self.time.elapsed();
        let mut state = self.state();
        let (run, token) = (perform.run, perform.token);
        let part = perform.part;
        let idempotent = perform.step().idempotent || part.item == Item::Undoing;
        state.begun.push(Begun { run: run.0, part, token, idempotent });
        state.performed.insert((run.0, token));
        let (hangs, at_once) = (state.manners.hangs, state.manners.at_once);
        let end = match perform.handler {
            Some(_) => state.phase(self.time.wall(), &perform),
            None => state.end(),
        };
        let report = Report { run, token, end };
        state.nuisances(now, &report);
        if state.random.chance(hangs) {
            state.going_on.insert((run.0, token));
            // The runner ends attempts that take too long; runs of other workflows have a timeout
            // of their own.
            let is_process = perform.definition.name.starts_with(PREFIX);
            let is_process = is_process || perform.definition.name.starts_with(WITH_HANDLERS);
            let is_process = is_process || perform.definition.name == notices::NAME;
            if let Some(limit) = perform.timeout().filter(|_| is_process) {
                let at = now + i64::try_from(limit.as_millis()).unwrap_or(0);
                state.answer_at(at, Report { end: phases::too_long(&perform), ..report });
            }
            return None;
        }
        if state.random.chance(at_once) {
            state.happens((run.0, token));
            return Some(report);
        }
        let longest = state.manners.longest;
        let at = now + state.random.spread(1, longest);
        state.going_on.insert((run.0, token));
        state.answer_at(at, report);
        None
    }

    fn cancel(&self, run: RunKey, token: u32) {
        let now = self.time.elapsed();
        let mut state = self.state();
        if !state.going_on.contains(&(run.0, token)) {
            return;
        }
        if state.random.chance(500) {
            state.to_come.remove(&(run.0, token));
        }
        // Some attempts end at once, some only after nobody waits for them any more.
        let at = now + state.random.spread(1, 40_000);
        let end = if state.random.chance(200) {
            AttemptEnd::Succeeded { output: RawValue::NULL.to_owned() }
        } else {
            AttemptEnd::Cancelled { message: "simulated".to_owned() }
        };
        state.answers.retain(|_, report| (report.run, report.token) != (run, token));
        state.answer_at(at, Report { run, token, end });
    }

    fn abandon(&self) {
        self.perish();
    }

    fn ends_noops(&self) -> bool {
        self.ends_noops
    }
}
