//! The workflows and bursts of a world of bursts.

use engine::WorkflowId;
use engine::turn::NewSchedule;
use language::schedule::{Declared, read_written};
use serde_json::{Value, json};

use super::BURST;
use crate::clock::instant;
use crate::random::Random;

/// How many schedules share a burst of missed occurrences: the queue of one schedule is bounded.
const SCHEDULES: usize = 10;
/// How many steps a chain has.
const CHAIN: usize = 200;
/// How many items a step has.
const ITEMS: usize = 1_000;

/// Workflows whose runs end in the decision that starts them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Workflow {
    /// Its only step has a condition that is false.
    NotTaken,
    /// The step starts a workflow that does not exist, and goes on.
    Orphaned,
    /// The step goes over an empty list.
    OverNothing,
    /// The steps do nothing, one after the other and over a list.
    DoesNothing,
    /// The run waits for as many events as exist already, all at once.
    WaitsForAll,
    /// The run waits for one event after the other; all exist already.
    WaitsInTurn,
}

impl Workflow {
    pub(super) const ALL: [Workflow; 6] = [
        Workflow::NotTaken,
        Workflow::Orphaned,
        Workflow::OverNothing,
        Workflow::DoesNothing,
        Workflow::WaitsForAll,
        Workflow::WaitsInTurn,
    ];

    /// The name of the workflow and of its topic.
    pub(super) fn name(self) -> &'static str {
        match self {
            Workflow::NotTaken => "not-taken",
            Workflow::Orphaned => "orphaned",
            Workflow::OverNothing => "over-nothing",
            Workflow::DoesNothing => "does-nothing",
            Workflow::WaitsForAll => "waits-for-all",
            Workflow::WaitsInTurn => "waits-in-turn",
        }
    }

    pub(super) fn definition(self) -> String {
        let name = self.name();
        let wait = json!({ "type": "wait_for", "topic": name });
        let steps: Vec<Value> = match self {
            Workflow::NotTaken => vec![json!({ "id": "s", "type": "noop", "condition": "1 > 2" })],
            Workflow::Orphaned => vec![json!({ "id": "s", "type": "sub_process",
                "workflow": "nobody", "on_error": "skip_step", "retry": { "max": 1 } })],
            Workflow::OverNothing => vec![json!({ "id": "s", "type": "for_each", "items": [],
                "step": { "type": "noop" } })],
            Workflow::DoesNothing => vec![
                json!({ "id": "a", "type": "noop" }),
                json!({ "id": "b", "type": "for_each", "items": [1, 2], "depends_on": ["a"],
                    "step": { "type": "noop" } }),
            ],
            Workflow::WaitsForAll => vec![json!({ "id": "s", "type": "for_each",
                "items": (0..ITEMS).collect::<Vec<_>>(), "max_parallel": ITEMS, "step": wait })],
            Workflow::WaitsInTurn => (0..CHAIN)
                .map(|at| {
                    let mut step = wait.clone();
                    step["id"] = json!(format!("s{at}"));
                    if at > 0 {
                        step["depends_on"] = json!(format!("s{}", at - 1));
                    }
                    step
                })
                .collect(),
        };
        let mut definition = json!({ "name": name, "steps": steps });
        if matches!(self, Workflow::WaitsForAll | Workflow::WaitsInTurn) {
            definition["topics"] = json!([name]);
        }
        definition.to_string()
    }
}

/// Many things that are due at once.
#[derive(Clone, Debug)]
pub(super) enum Burst {
    /// Occurrences that were due while the node slept, all of which are made up for.
    Missed { workflow: Workflow, name: String, repeats: usize },
    /// Schedules that are due at the same instant.
    Together { workflow: Workflow, name: String, count: usize },
    /// Events that exist before a step waits for them.
    Events { workflow: Workflow, count: usize },
}

impl Burst {
    /// Each kind of burst, in random order.
    pub(super) fn all(random: &mut Random) -> Vec<Burst> {
        let works =
            [Workflow::NotTaken, Workflow::Orphaned, Workflow::OverNothing, Workflow::DoesNothing];
        let mut all = vec![
            Burst::Events { workflow: Workflow::WaitsForAll, count: ITEMS },
            Burst::Events { workflow: Workflow::WaitsInTurn, count: CHAIN },
        ];
        for workflow in works {
            let name = |what: &str| format!("{what} {}", workflow.name());
            let repeats = BURST / SCHEDULES;
            all.push(Burst::Missed { workflow, name: name("missed"), repeats });
            all.push(Burst::Together { workflow, name: name("together"), count: BURST });
        }
        for at in (1..all.len()).rev() {
            all.swap(at, random.below(at + 1));
        }
        all
    }

    /// How long the node sleeps, in milliseconds.
    pub(super) fn lasts(&self) -> i64 {
        match self {
            Burst::Missed { repeats, .. } => 1_000 * (*repeats as i64 + 10),
            Burst::Together { .. } => 10_000,
            Burst::Events { .. } => 0,
        }
    }

    pub(super) fn schedules(&self, workflow: WorkflowId, now: i64) -> Vec<NewSchedule> {
        let (count, declared) = match self {
            Burst::Missed { name, repeats, .. } => {
                let catch_up = json!({ "policy": "all", "limit": repeats });
                // `total_repeats` counts only successes, so `end` limits the occurrences to those
                // that are made up for.
                let end = instant(now + 1_000 * *repeats as i64 + 500).to_string();
                let declared = json!({ "name": name, "interval": "1s", "end": end,
                    "overlap": "queue_all", "queue_limit": repeats, "catch_up": catch_up });
                (SCHEDULES, declared)
            }
            Burst::Together { name, count, .. } => {
                let at = instant(now + 5_000).to_string();
                (*count, json!({ "name": name, "at": at, "catch_up": "all" }))
            }
            Burst::Events { .. } => (0, Value::Null),
        };
        let text = declared.to_string();
        let one = || NewSchedule { workflow, declared_by: None, declared: read_one(&text) };
        (0..count).map(|_| one()).collect()
    }

    /// The name of its schedules, how many there are, and how often each is due.
    pub(super) fn due(&self) -> Option<(&str, usize, usize)> {
        match self {
            Burst::Missed { name, repeats, .. } => Some((name, SCHEDULES, *repeats)),
            Burst::Together { name, count, .. } => Some((name, *count, 1)),
            Burst::Events { .. } => None,
        }
    }
}

fn read_one(text: &str) -> Box<Declared> {
    match read_written(text) {
        Ok(written) => written.declared,
        Err(mistakes) => {
            // A mistake in this file: the check then finds no schedule.
            debug_assert!(false, "{text}: {mistakes:?}");
            Box::default()
        }
    }
}
