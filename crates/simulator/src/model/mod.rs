//! The model, worked out from the specification independently of the engine: after each commit the
//! stored rows are compared with it. Only the times of rules come from the calendar crate, which
//! has tests of its own; no policy is asked of the engine.

mod calendars;
mod commit;
mod handling;
mod history;
mod incidents;
mod kept;
mod ledger;
mod quiet;
mod render;
mod runs;
mod schedules;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use engine::run::{AttemptEnd, Part};
use engine::turn::Command;
use language::Rules;

pub(crate) use kept::Kept;
pub(crate) use quiet::Awake;

use self::handling::Handling;
use self::history::History;
use self::incidents::Incidents;
use crate::process::reference::Reference;
use crate::watch::{RunRow, WorkflowRow};

/// How many ended runs are remembered, for commands about them.
const REMEMBERED: usize = 20;

/// Something that must not be.
#[derive(Clone, Debug)]
pub struct Violation {
    /// The checker that found it.
    pub checker: &'static str,
    pub message: String,
}

pub(crate) type Checked = Result<(), Violation>;

pub(crate) fn broken<T>(checker: &'static str, message: impl Into<String>) -> Result<T, Violation> {
    Err(Violation { checker, message: message.into() })
}

/// Why something was committed.
#[derive(Debug)]
pub(crate) enum Cause {
    /// The driver's turn, with these reports.
    Turn(Vec<Reported>),
    Command(Box<Command>),
    /// A node has joined or left, or asks what is left to do.
    Node,
}

/// A report as the work gave it.
#[derive(Clone, Debug)]
pub(crate) struct Reported {
    pub(crate) run: i64,
    pub(crate) token: u32,
    pub(crate) end: AttemptEnd,
}

/// Everything that is known, as of the last commit.
pub(crate) struct Model {
    pub(crate) rules: Arc<Rules>,
    pub(crate) workflows: BTreeMap<i64, WorkflowRow>,
    pub(crate) schedules: BTreeMap<i64, Kept>,
    /// Runs that have not ended.
    pub(crate) runs: BTreeMap<i64, RunRow>,
    pub(crate) ended: VecDeque<RunRow>,
    /// How many runs have begun and not ended, by workflow.
    begun: BTreeMap<i64, u32>,
    /// When each schedule has to be looked at, at the latest.
    due: BTreeSet<(i64, i64)>,
    /// Steps that must not be performed twice, were performed, and whose outcome is not known.
    unsettled: BTreeSet<(i64, Part)>,
    greatest_run: i64,
    greatest_schedule: i64,
    history: History,
    reference: Reference,
    handling: Handling,
    incidents: Incidents,
    /// Occurrences due before this instant were due while no node was awake.
    pub(crate) awake_since: i64,
    /// The latest time that any commit has seen.
    latest: i64,
    /// How many occurrences the ledger rows stand for.
    pub(crate) occurrences: u64,
    pub(crate) runs_created: u64,
    /// Whether several nodes decide at the same time: ids and keys are then given in another order
    /// than that of commits.
    has_many_nodes: bool,
}

impl Model {
    pub(crate) fn new(rules: Arc<Rules>, now: i64) -> Model {
        Model {
            rules,
            workflows: BTreeMap::new(),
            schedules: BTreeMap::new(),
            runs: BTreeMap::new(),
            ended: VecDeque::new(),
            begun: BTreeMap::new(),
            due: BTreeSet::new(),
            unsettled: BTreeSet::new(),
            greatest_run: 0,
            greatest_schedule: 0,
            history: History::default(),
            reference: Reference::default(),
            handling: Handling::default(),
            incidents: Incidents::default(),
            awake_since: now,
            latest: now,
            occurrences: 0,
            runs_created: 0,
            has_many_nodes: false,
        }
    }

    /// The model of a world in which several nodes decide at the same time.
    pub(crate) fn of_many(rules: Arc<Rules>, now: i64) -> Model {
        Model { has_many_nodes: true, ..Model::new(rules, now) }
    }

    fn remember_ended(&mut self, run: RunRow) {
        self.history.ended(&run);
        if self.ended.len() == REMEMBERED {
            self.ended.pop_front();
        }
        self.ended.push_back(run);
    }
}
