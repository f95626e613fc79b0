//! The order in which a transaction waits for locks, so that nodes never deadlock.
//!
//! Schedules, then runs, then workflows, then topics; schedules, runs and topics by id. Workflows
//! without a limit come before those with one, each by id. What a transaction is known to need is
//! locked in this order before the engine decides. What the engine asks for afterwards is waited
//! for only if no lock is held that comes later in the order; otherwise it is locked if it is free.
//! If it is not free, it is noted in [`LockNeeds`], and the transaction begins anew and locks it in
//! order. A lock that is only taken if it is free may be taken at any time.
//!
//! Starts by callers hold no lock but that of their workflows, taken by id in one statement
//! ([`load::started_workflows`]), so whoever waits for one of them never waits in a circle.

use engine::turn::Workflow;
use engine::{RunKey, ScheduleId, WorkflowId};

use crate::failure::Failure;
use crate::postgres::connections::tx_connection::param;
use crate::postgres::transaction::load;
use crate::postgres::transaction::loaded::{Loaded, readable};
use crate::postgres::transaction::lock_retry::LockNeeds;
use crate::postgres::transaction::reader::PgTransactionReader;
use crate::rows::Row as _;

/// A transaction that began anew this many times waits for the rest in any order. If that makes a
/// deadlock, the database ends it and it is retried. No transaction is known to need as many.
const PATIENT_ROUNDS: usize = 10;

impl LockNeeds {
    /// Whether waiting out of order is better than beginning anew once more.
    fn is_out_of_patience(&self) -> bool {
        self.rounds >= PATIENT_ROUNDS
    }
}

impl Loaded {
    fn holds_topics(&self) -> bool {
        !self.topics.topics.is_empty()
    }

    /// Whether the transaction holds an exclusive lock of a workflow or a topic, which others wait
    /// for.
    pub(crate) fn holds_alone(&self) -> bool {
        !self.owned_workflows.is_empty() || self.holds_topics()
    }

    fn holds_workflows_or_topics(&self) -> bool {
        !self.workflows.is_empty() || self.holds_topics()
    }

    /// Whether all of these come after the schedules that are locked, and no lock is held that
    /// comes after schedules.
    fn may_wait_for_schedules(&self, ids: &[i64]) -> bool {
        let last = self.locked.iter().max();
        let is_after = |id: &i64| last.is_none_or(|last| *id > last.0);
        self.locked_runs.is_empty() && !self.holds_workflows_or_topics() && ids.iter().all(is_after)
    }
}

impl PgTransactionReader<'_> {
    /// Ends this try of the transaction; the next one locks what was noted from its beginning.
    pub(crate) fn begin_anew(&mut self, why: &str) -> Failure {
        self.needs.rounds += 1;
        self.tx.again(why)
    }

    /// Loads and locks schedules. Those that no longer exist are not loaded.
    pub(crate) fn take_schedules(&mut self, ids: Vec<i64>) -> Result<(), Failure> {
        let is_unread = |id: &i64| !self.loaded.schedules.contains_key(&ScheduleId(*id));
        let is_ours = |id: &i64| self.loaded.locked.contains(&ScheduleId(*id));
        let (ours, new): (Vec<i64>, Vec<i64>) =
            ids.into_iter().filter(is_unread).partition(is_ours);
        // Schedules that were handed to the engine already are locked: they are read again as they
        // are stored.
        load::schedules(self.tx, &mut self.loaded, ours)?;
        if new.is_empty() {
            return Ok(());
        }
        if self.loaded.may_wait_for_schedules(&new) || self.needs.is_out_of_patience() {
            return load::schedules(self.tx, &mut self.loaded, new);
        }
        let taken = load::free_schedules(self.tx, &mut self.loaded, new)?;
        if taken.is_empty() {
            return Ok(());
        }
        self.needs.schedules.extend(taken);
        Err(self.begin_anew("a schedule is in use"))
    }

    /// Loads and locks runs, their schedules, and the runs that wait for their end. Ended runs need
    /// no lock.
    pub(crate) fn take_runs(&mut self, keys: Vec<i64>) -> Result<(), Failure> {
        let is_new = |key: &i64| !self.loaded.locked_runs.contains(&RunKey(*key));
        let new: Vec<i64> = keys.into_iter().filter(is_new).collect();
        if new.is_empty() {
            return Ok(());
        }
        let holds_nothing =
            self.loaded.may_wait_for_schedules(&[]) && self.loaded.locked.is_empty();
        if holds_nothing || self.needs.is_out_of_patience() {
            return load::runs(self.tx, &mut self.loaded, new);
        }
        let sql = "SELECT key FROM open_runs WHERE key = ANY($1)";
        let open = self.tx.one(sql, vec![param(new.clone())])?;
        let open: Vec<i64> = open.iter().map(|row| row.single()).collect::<Result<_, _>>()?;
        let ended: Vec<i64> = new.into_iter().filter(|key| !open.contains(key)).collect();
        if !ended.is_empty() {
            load::ended_runs(self.tx, &mut self.loaded, ended)?;
        }
        let free = load::free_runs(self.tx, &mut self.loaded, open.clone())?;
        if free.len() == open.len() {
            return Ok(());
        }
        self.needs.runs.extend(open);
        Err(self.begin_anew("a run is in use"))
    }

    /// Loads and locks a workflow.
    pub(crate) fn locked_workflow(&mut self, id: WorkflowId) -> Result<Option<Workflow>, Failure> {
        if !self.loaded.workflows.contains_key(&id) {
            let may_wait = !self.loaded.holds_workflows_or_topics();
            if may_wait || self.needs.is_out_of_patience() {
                load::workflows(self.tx, &mut self.loaded, vec![id.0])?
            } else {
                self.free_workflow(id)?
            }
        }
        readable(self.loaded.workflows.get(&id))
    }

    /// Locks a workflow exclusively, because it or its handlers will be changed.
    pub(crate) fn own_workflow(&mut self, id: WorkflowId) -> Result<(), Failure> {
        if self.loaded.owned_workflows.contains(&id) || self.needs.own.contains(&id.0) {
            return Ok(());
        }
        if self.loaded.workflows.contains_key(&id) {
            // The workflow had no handlers when it was loaded, so it was locked only shared.
            self.needs.own.insert(id.0);
            return Err(self.begin_anew("a workflow has handlers now"));
        }
        if !self.needs.workflows.contains(&id.0) {
            load::free_own_workflows(self.tx, &mut self.loaded, vec![id.0])?;
        }
        let is_gone = self.needs.workflows.contains(&id.0);
        if is_gone || self.loaded.owned_workflows.contains(&id) {
            return Ok(());
        }
        self.needs.workflows.insert(id.0);
        Err(self.begin_anew("a workflow with handlers is in use"))
    }

    pub(crate) fn free_workflow(&mut self, id: WorkflowId) -> Result<(), Failure> {
        let is_known = self.loaded.workflows.contains_key(&id)
            || self.needs.own.contains(&id.0)
            || self.needs.workflows.contains(&id.0);
        if is_known {
            return Ok(());
        }
        load::free_workflows(self.tx, &mut self.loaded, vec![id.0])?;
        if self.loaded.workflows.contains_key(&id) {
            return Ok(());
        }
        self.needs.workflows.insert(id.0);
        Err(self.begin_anew("a workflow is in use"))
    }

    /// Those of these workflows that are locked already or free. Another node begins the runs of
    /// the others.
    pub(crate) fn free_of(&mut self, mut workflows: Vec<i64>) -> Result<Vec<i64>, Failure> {
        let is_new = |id: &i64| !self.loaded.workflows.contains_key(&WorkflowId(*id));
        let new: Vec<i64> = workflows.iter().copied().filter(is_new).collect();
        if !new.is_empty() {
            load::free_workflows(self.tx, &mut self.loaded, new)?;
        }
        let before = workflows.len();
        workflows.retain(|id| self.loaded.workflows.contains_key(&WorkflowId(*id)));
        self.loaded.passed_over |= workflows.len() < before;
        Ok(workflows)
    }
}
