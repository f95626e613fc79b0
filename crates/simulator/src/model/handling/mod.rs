//! The model of topics, producers and consumers: written from the specification, independent of the
//! engine.
//!
//! | what | where |
//! |---|---|
//! | events: none lost, none twice, each change of state has its reason | `events` |
//! | what is published and kept, and by whom | `published` |
//! | when consumers look, sleep and wake, and which handler is next | `consumers` |
//! | mutations of the outside world: none twice, none guessed | `mutations` |

mod consumers;
mod events;
mod mutations;
mod published;

use std::collections::{BTreeMap, BTreeSet};

use engine::handlers::MutationStatus;
use engine::run::{AttemptEnd, Item, Part, RunStatus, StepState};
use engine::topics::EventState;
use engine::turn::Command;
use serde_json::Value;

use super::runs::Moved;
use super::{Cause, Checked, Model, broken};
use crate::handlers::rows::{EventRow, Handled, HandlerRow, TopicRow};
use crate::random::Random;
use crate::watch::RunRow;

/// Topics and handlers as of the last commit.
#[derive(Default)]
pub(super) struct Handling {
    pub(super) topics: BTreeMap<i64, TopicRow>,
    pub(super) events: BTreeMap<i64, EventRow>,
    /// Event keys by topic and message id.
    ids: BTreeMap<(i64, String), i64>,
    /// Events by topic and state, counted one by one.
    counts: BTreeMap<i64, [u64; 4]>,
    pub(super) handlers: BTreeMap<i64, HandlerRow>,
    mutations: BTreeMap<i64, MutationStatus>,
    /// The consumers of each topic.
    subscriptions: BTreeMap<i64, Vec<i64>>,
    /// The events that each run has ever reserved.
    had: BTreeMap<i64, BTreeSet<i64>>,
    /// What each run returned in `prepare`: how many events, and when to wake.
    prepared: BTreeMap<i64, (usize, Option<i64>)>,
    /// Causes, by consumer, for which no run has begun.
    credit: BTreeMap<i64, u32>,
    /// The run whose mutation has happened, by event.
    mutated: BTreeMap<i64, i64>,
    /// For each run, the first run of its chain of retries.
    roots: BTreeMap<i64, i64>,
    /// Runs whose mutation did not happen, according to somebody.
    denied: BTreeSet<i64>,
    /// Run keys by id, to find what a run is a retry of.
    keys: BTreeMap<String, i64>,
}

/// What a phase returned, with the commit that took it.
struct Gave<'a> {
    before: &'a RunRow,
    after: &'a RunRow,
    phase: String,
    part: Part,
    output: Value,
}

impl Gave<'_> {
    /// Whether the phase counted as a success.
    fn is_done(&self) -> bool {
        self.after.state.states.of(self.part.step) == StepState::Completed
    }
}

/// One commit, as far as handlers are concerned.
struct Seen<'a> {
    cause: &'a Cause,
    now: i64,
    moved: &'a [Moved],
    gave: Vec<Gave<'a>>,
    /// Whether the command changed anything: a repeated one does not.
    is_applied: bool,
}

impl<'a> Seen<'a> {
    fn command(&self) -> Option<&'a Command> {
        match self.cause {
            Cause::Command(command) if self.is_applied => Some(command),
            _ => None,
        }
    }

    fn of(&self, run: i64) -> Option<&'a Moved> {
        self.moved.iter().find(|moved| moved.row.key == run)
    }

    fn ended_now(&self, run: i64) -> Option<&'a RunRow> {
        self.of(run).map(|moved| &moved.row).filter(|row| row.status.has_ended())
    }
}

/// What the phases that ended with this commit returned.
fn gave<'a>(cause: &Cause, moved: &'a [Moved]) -> Vec<Gave<'a>> {
    let mut ends: Vec<(i64, u32, &AttemptEnd)> = Vec::new();
    match cause {
        Cause::Turn(reports) => {
            ends.extend(reports.iter().map(|report| (report.run, report.token, &report.end)));
        }
        Cause::Command(command) => {
            if let Command::EndAttempt { id, token, end, .. } = &**command
                && let Some(moved) = moved.iter().find(|moved| moved.row.id() == *id)
            {
                ends.push((moved.row.key, *token, end));
            }
        }
        Cause::Node => {}
    }
    let gave = |(run, token, end): (i64, u32, &AttemptEnd)| {
        let moved = moved.iter().find(|moved| moved.row.key == run)?;
        let before = moved.before.as_ref()?;
        let part = before.state.with_token(token)?.part();
        let AttemptEnd::Succeeded { output } = end else { return None };
        let phase = before.phase(part)?;
        let output = serde_json::from_str(output.get()).unwrap_or_default();
        Some(Gave { before, after: &moved.row, phase, part, output })
    };
    let mut seen = BTreeSet::new();
    ends.retain(|(run, token, _)| seen.insert((*run, *token)));
    ends.into_iter().filter_map(gave).collect()
}

impl RunRow {
    /// The phase of its handler that a part is.
    pub(crate) fn phase(&self, part: Part) -> Option<String> {
        let process = self.whole.as_ref()?.handler(self.handler.as_deref()?)?;
        let step = process.steps.get(part.step as usize)?;
        Some(if part.item == Item::Whole { step.id.clone() } else { "reconcile".to_owned() })
    }

    /// The index of a phase.
    fn step_of(&self, phase: &str) -> Option<u32> {
        let process = self.whole.as_ref()?.handler(self.handler.as_deref()?)?;
        process.steps.iter().position(|step| step.id == phase).map(|at| at as u32)
    }

    /// Whether the run belongs to a consumer.
    fn consumes(&self) -> bool {
        let whole = self.whole.as_ref();
        let name = self.handler.as_deref();
        whole.zip(name).is_some_and(|(whole, name)| whole.consumer(name).is_some())
    }
}

impl Model {
    /// Takes over what a commit has done to topics and handlers, or returns the violation.
    pub(super) fn check_handling(
        &mut self,
        cause: &Cause,
        now: i64,
        moved: &[Moved],
        handled: Handled,
        is_applied: bool,
    ) -> Checked {
        for moved in moved.iter().filter(|moved| moved.row.handler.is_some()) {
            self.handling.keys.insert(moved.row.id().to_string(), moved.row.key);
        }
        let gave = gave(cause, moved);
        let seen = Seen { cause, now, moved, gave, is_applied };
        let Handled { topics, events, handlers, mutations, subscriptions } = handled;
        for topic in topics {
            self.handling.topics.insert(topic.id, topic);
        }
        let before: Vec<(i64, Option<EventRow>)> =
            events.iter().map(|(key, _)| (*key, self.handling.events.get(key).cloned())).collect();
        self.check_events(&seen, events)?;
        self.check_counts()?;
        let old: BTreeMap<i64, Option<HandlerRow>> =
            handlers.iter().map(|(id, _)| (*id, self.handling.handlers.get(id).cloned())).collect();
        let listened = self.handling.subscriptions.clone();
        for (topic, consumers) in subscriptions {
            self.handling.subscriptions.insert(topic, consumers);
        }
        for (id, row) in handlers {
            match row {
                Some(row) => self.handling.handlers.insert(id, row),
                None => self.handling.handlers.remove(&id),
            };
        }
        for (run, status) in mutations {
            match status {
                Some(status) => self.handling.mutations.insert(run, status),
                None => self.handling.mutations.remove(&run),
            };
        }
        let published = self.check_published(&seen, &before, &old)?;
        self.check_consumers(&seen, &old, &published, &listened)?;
        self.check_turns(&seen, &old)?;
        self.check_mutations(&seen)
    }

    /// Whether something open refers to the ended run.
    pub(super) fn is_needed(&self, run: i64) -> bool {
        let handling = &self.handling;
        let by_handler = |row: &HandlerRow| row.resumes == Some(run) || row.run == Some(run);
        let holds = |row: &EventRow| row.state == EventState::Reserved && row.run == Some(run);
        handling.handlers.values().any(by_handler) || handling.events.values().any(holds)
    }

    /// Whether there are any topics.
    pub(crate) fn has_handlers(&self) -> bool {
        !self.handling.topics.is_empty()
    }

    pub(crate) fn topics(&self) -> Vec<i64> {
        self.handling.topics.keys().copied().collect()
    }

    /// All handlers, each with its workflow.
    pub(crate) fn handler_names(&self) -> Vec<(i64, String)> {
        self.handling.handlers.values().map(|row| (row.workflow, row.name.clone())).collect()
    }

    /// A random event: its topic and message id.
    pub(crate) fn some_event(&self, random: &mut Random) -> Option<(i64, String)> {
        let events = &self.handling.events;
        let row = events.values().nth(random.below(events.len()))?;
        Some((row.topic, row.message_id.clone()))
    }

    /// The handler's run that has its workflow's turn: the one that has begun, or else a pending
    /// one of a consumer. While the workflow is paused, a run started by hand goes before it.
    pub(super) fn has_the_turn(&self, workflow: i64) -> Option<&RunRow> {
        let of = self.runs.values().filter(|run| run.workflow == workflow);
        let handled: Vec<&RunRow> = of.filter(|run| run.handler.is_some()).collect();
        let begun = handled.iter().find(|run| run.status != RunStatus::Pending);
        begun.or_else(|| handled.iter().find(|run| run.consumes())).copied()
    }

    /// The first run of a chain of retries.
    fn root(&self, run: i64) -> i64 {
        self.handling.roots.get(&run).copied().unwrap_or(run)
    }
}
