//! Capacity: how many attempts a node may still start, and which workflow comes next when slots are
//! scarce.

use super::{ById, TransactionReader, Turn};
use crate::ids::{RunKey, WorkflowId};

/// How many workflows with pending runs are read at a time, and how many pending handler runs of
/// one workflow.
const LOOKED_AT: usize = 128;

/// How many times a turn looks for runs that wait for a slot. After each time it leaves out the
/// workflows that have reached their share, so that their backlogs do not hide others.
const READY_LOOKS: usize = 8;

/// The maximum number of runs and parts of steps that begin in one turn. Each may end at once and
/// cause others without end, so this limit bounds how long a turn takes and how much it writes. The
/// rest begins with the next turn. It is twice what a full turn of due occurrences with one step
/// needs.
pub const STARTED: usize = 4_000;

/// With this many active parts of a run, a decision about it costs as much as another start.
pub(super) const PARTS: usize = 64;

/// The free capacity of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacity {
    /// How many attempts may still be started.
    pub free_slots: usize,
    /// How many more slots of the node are free, which this turn must leave alone. They count for
    /// the share of each workflow.
    pub other_free_slots: usize,
    /// The workflow that was served last. The one after it comes next.
    pub last_served: Option<WorkflowId>,
    /// Whether runs may be waiting for a slot: a run has ended, or was created and could not begin.
    pub rescan: bool,
    /// Whether more could have begun in this turn, so that the next turn should follow at once.
    pub has_more: bool,
    /// How many runs and parts of steps may begin or be cancelled in this turn.
    pub starts: usize,
    /// Whether steps that do nothing end in the turn that begins them. Otherwise the node performs
    /// them like any other step.
    pub ends_noops: bool,
}

/// A workflow may hold this many times as many slots of a node as are free there. However many
/// workflows want every slot, some stay free for those that hold few: with one such workflow about
/// a ninth, with two about a seventeenth. A node of up to eight slots gives all of them.
const SHARE: usize = 8;

/// How many more slots a workflow may take that holds `held` of them, when `free` are free on the
/// node.
fn share(held: usize, free: usize) -> usize {
    // The greatest number that leaves SHARE × free ≥ held, rounded up so that a single free slot is
    // of use.
    (SHARE * free).saturating_sub(held).div_ceil(SHARE + 1).min(free)
}

impl Capacity {
    /// A node with this many free slots that has served no workflow yet.
    pub fn new(free_slots: usize) -> Capacity {
        Capacity {
            free_slots,
            other_free_slots: 0,
            last_served: None,
            rescan: true,
            has_more: false,
            starts: STARTED,
            ends_noops: false,
        }
    }
}

/// How far the pending runs of one workflow have been examined while slots are filled.
#[derive(Default)]
struct Served {
    /// The last run that was examined. Later ones come next.
    after: Option<RunKey>,
    /// Earlier handler runs that could not begin because their workflow was occupied. They may be
    /// able to now.
    waiting: Vec<RunKey>,
    /// Whether nothing more of this workflow can begin.
    is_full: bool,
}

impl<B: TransactionReader> Turn<'_, B> {
    /// How many slots a workflow may still take.
    pub(super) fn slots_for(&self, workflow: WorkflowId) -> usize {
        let held = self.held.get(&workflow).copied().unwrap_or_default();
        let Capacity { free_slots, other_free_slots, .. } = self.capacity;
        share(held, free_slots + other_free_slots).min(free_slots)
    }

    /// Counts slots that a workflow has taken.
    pub(super) fn take_slots(&mut self, workflow: WorkflowId, taken: usize) {
        self.capacity.free_slots = self.capacity.free_slots.saturating_sub(taken);
        *self.held.entry(workflow).or_default() += taken;
    }

    /// Counts a slot that a workflow took in this turn and does not need after all.
    pub(super) fn return_slot(&mut self, workflow: WorkflowId) {
        self.capacity.free_slots += 1;
        let held = self.held.entry(workflow).or_default();
        *held = held.saturating_sub(1);
    }

    /// Whether a run that waits for a slot can continue.
    fn can_go_on(&self, key: RunKey) -> bool {
        let run = self.loaded.runs.get(key).filter(|run| run.is_ready());
        run.is_some_and(|run| self.slots_for(run.workflow) > 0)
    }

    /// Fills free slots: runs that have begun continue first, then pending runs begin. Within a
    /// workflow the oldest comes first, and workflows take turns, so that a busy one cannot starve
    /// the others.
    pub fn fill_slots(&mut self) -> Result<(), B::Error> {
        if !self.capacity.rescan {
            return Ok(());
        }
        self.serve_all()?;
        for at in 0..self.loaded.runs.len() {
            let Some(key) = self.loaded.runs.nth(at) else { break };
            if self.is_new(key) && self.is_pending(key) {
                self.note_waiting(key)?;
            }
        }
        Ok(())
    }

    fn is_new(&self, key: RunKey) -> bool {
        self.loaded.runs.loaded(key).is_some_and(|loaded| loaded.is_new)
    }

    fn serve_all(&mut self) -> Result<(), B::Error> {
        // A run that ends below sets it again.
        self.capacity.rescan = false;
        self.capacity.has_more = false;
        self.go_on()?;
        let is_over = self.worklist.starts_left == 0;
        self.worklist.release_reserved_starts();
        self.serve_in_turn()?;
        if is_over {
            // Runs that could have continued were left for the next turn.
            (self.capacity.rescan, self.capacity.has_more) = (true, true);
        }
        // The transaction reader does not know of runs that became ready in this turn.
        self.capacity.rescan |= self.loaded.runs.values().any(|run| run.is_ready());
        Ok(())
    }

    /// Begins pending runs, one of each workflow after the other. The transaction reader is asked
    /// for the workflows once, and once more when no run of those can begin: others may have fallen
    /// below their limits meanwhile.
    fn serve_in_turn(&mut self) -> Result<(), B::Error> {
        let mut served = ById::default();
        while self.capacity.free_slots > 0 {
            if self.worklist.starts_left == 0 {
                (self.capacity.rescan, self.capacity.has_more) = (true, true);
                return Ok(());
            }
            let mut found = Vec::new();
            if !self.serve_each(&mut served, &mut found)? {
                return self.begin_new_ones();
            }
            while self.serve_again(&mut served, &found)? {}
        }
        self.capacity.rescan = true;
        Ok(())
    }

    /// Whether another run may begin in this turn.
    fn may_begin_another(&self) -> bool {
        self.capacity.free_slots > 0 && self.worklist.starts_left > 0
    }

    /// Begins one more run of each of these workflows, and returns whether any began.
    fn serve_again(
        &mut self,
        served: &mut ById<WorkflowId, Served>,
        found: &[(WorkflowId, RunKey)],
    ) -> Result<bool, B::Error> {
        let mut begun = false;
        for (workflow, oldest) in found {
            if !self.may_begin_another() {
                return Ok(false);
            }
            let of_it = served.entry(*workflow).or_default();
            if !of_it.is_full {
                begun |= self.serve(*workflow, *oldest, of_it)?;
                self.work_through()?;
            }
        }
        Ok(begun)
    }

    /// Begins a pending run, or continues one that waits for a slot, if a slot is free.
    pub fn begin_or_go_on(&mut self, key: RunKey) -> Result<(), B::Error> {
        if !self.load_run(key)? {
            return Ok(());
        }
        if self.is_pending(key) {
            self.try_begin(key)?;
        } else if self.can_go_on(key) {
            self.wake_run(key)?;
        }
        self.work_through()
    }

    /// Continues runs that have begun. They already hold a slot of their workflow, so they come
    /// before pending ones.
    fn go_on(&mut self) -> Result<(), B::Error> {
        if self.capacity.free_slots == 0 {
            return Ok(());
        }
        let mut at_share = Vec::new();
        for _ in 0..READY_LOOKS {
            // Some of these runs may have ended in this turn, which the transaction reader does not
            // know yet.
            let limit = self.capacity.free_slots + self.loaded.runs.len();
            let found = self.reader.ready(&at_share, limit)?;
            let (is_all, known) = (found.len() < limit, at_share.len());
            for key in found {
                self.go_on_with_ready(key, &mut at_share)?;
            }
            if is_all || self.capacity.free_slots == 0 {
                return Ok(());
            }
            // Runs that were not looked at may be ready.
            self.capacity.rescan = true;
            if at_share.len() == known {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Continues a run that waits for a slot, if one is free. Adds its workflow to `at_share` if it
    /// may take no more slots.
    fn go_on_with_ready(
        &mut self,
        key: RunKey,
        at_share: &mut Vec<WorkflowId>,
    ) -> Result<(), B::Error> {
        if self.capacity.free_slots == 0 || !self.load_run(key)? {
            return Ok(());
        }
        if self.can_go_on(key) {
            self.wake_run(key)?;
            self.work_through()?;
        }
        // A run that still waits is looked at again when a slot becomes free.
        self.capacity.rescan |= self.is_ready(key);
        let workflow = self.run(key)?.workflow;
        if self.slots_for(workflow) == 0 && !at_share.contains(&workflow) {
            at_share.push(workflow);
        }
        Ok(())
    }

    /// Begins runs that this turn created and could not begin at first, and the runs that those
    /// create. The transaction reader does not know them yet.
    fn begin_new_ones(&mut self) -> Result<(), B::Error> {
        let mut at = 0;
        while let Some(key) = self.loaded.runs.nth(at) {
            at += 1;
            if self.is_new(key) && self.is_pending(key) {
                self.try_begin(key)?;
                self.work_through()?;
            }
        }
        Ok(())
    }

    /// Begins one run of each workflow that has a pending one, and returns whether any began. Adds
    /// the workflows to `known`, each with its oldest pending run.
    fn serve_each(
        &mut self,
        served: &mut ById<WorkflowId, Served>,
        known: &mut Vec<(WorkflowId, RunKey)>,
    ) -> Result<bool, B::Error> {
        let mut begun = false;
        let first = self.capacity.last_served;
        let mut after = first;
        let mut wrapped = first.is_none();
        loop {
            let found = self.reader.pending(after, LOOKED_AT)?;
            let last = found.last().map(|(workflow, _)| *workflow);
            let is_whole = found.len() < LOOKED_AT;
            for (workflow, oldest) in found {
                if wrapped && first.is_some_and(|first| workflow > first) {
                    return Ok(begun);
                }
                if !self.may_begin_another() {
                    return Ok(begun);
                }
                known.push((workflow, oldest));
                let of_it = served.entry(workflow).or_default();
                if !of_it.is_full {
                    begun |= self.serve(workflow, oldest, of_it)?;
                    self.work_through()?;
                }
            }
            match (is_whole, wrapped) {
                (true, true) => return Ok(begun),
                (true, false) => (after, wrapped) = (None, true),
                (false, _) => after = last,
            }
        }
    }

    /// Begins the workflow's oldest run that is still pending in this turn. Handler runs wait until
    /// their workflow is free, not for a slot, so they do not hold up other runs, nor do other runs
    /// hold up them.
    fn serve(
        &mut self,
        workflow: WorkflowId,
        oldest: RunKey,
        served: &mut Served,
    ) -> Result<bool, B::Error> {
        for at in 0..served.waiting.len() {
            let key = served.waiting[at];
            if self.is_pending(key) && self.try_begin(key)? {
                served.waiting.remove(at);
                self.capacity.last_served = Some(workflow);
                return Ok(true);
            }
        }
        loop {
            // Runs that were examined before are skipped: the transaction reader still reports them
            // as pending.
            let key = match served.after {
                None => Some(oldest),
                Some(after) => self.reader.pending_after(workflow, after, 1)?.first().copied(),
            };
            let Some(key) = key else {
                served.is_full = served.waiting.is_empty();
                return Ok(false);
            };
            if self.load_run(key)? && self.is_pending(key) {
                if self.try_begin(key)? {
                    served.after = Some(key);
                    self.capacity.last_served = Some(workflow);
                    return Ok(true);
                }
                if !self.is_of_handler(key) {
                    served.is_full = true;
                    return if self.is_held(key, workflow)? {
                        self.serve_by_hand(workflow)
                    } else {
                        self.serve_handler(workflow)
                    };
                }
                served.waiting.push(key);
            }
            served.after = Some(key);
        }
    }

    /// Begins runs of a paused workflow that do not wait for its resumption.
    fn serve_by_hand(&mut self, workflow: WorkflowId) -> Result<bool, B::Error> {
        let mut begun = false;
        for key in self.reader.pending_while_paused(workflow, LOOKED_AT)? {
            if self.load_run(key)? && self.is_pending(key) && self.try_begin(key)? {
                self.capacity.last_served = Some(workflow);
                begun = true;
            }
        }
        Ok(begun)
    }

    /// Begins a handler run of a workflow that has reached its limit of active runs. Runs of
    /// producers and consumers do not count towards that limit.
    fn serve_handler(&mut self, workflow: WorkflowId) -> Result<bool, B::Error> {
        for key in self.reader.pending_of_handlers(workflow, LOOKED_AT)? {
            if self.load_run(key)? && self.is_pending(key) && self.try_begin(key)? {
                self.capacity.last_served = Some(workflow);
                return Ok(true);
            }
        }
        Ok(false)
    }
}

#[cfg(test)]
mod tests {
    use super::share;

    /// Lets workflows that want every slot take them, and returns how many stay free.
    fn left(capacity: usize, workflows: usize) -> usize {
        let mut held = vec![0; workflows];
        let mut free = capacity;
        loop {
            let before = free;
            for held in &mut held {
                let taken = share(*held, free).min(1);
                *held += taken;
                free -= taken;
            }
            if free == before {
                return free;
            }
        }
    }

    #[test]
    fn a_workflow_leaves_slots_for_others() {
        let cases =
            [(1, 1, 0), (8, 1, 0), (9, 1, 1), (10, 1, 1), (256, 1, 28), (256, 2, 15), (256, 20, 1)];
        for (capacity, workflows, expected) in cases {
            let left = left(capacity, workflows);
            assert_eq!(left, expected, "{workflows} workflows with {capacity} slots");
        }
        assert_eq!(share(0, 1), 1, "whoever holds nothing may take the last slot");
        assert_eq!(share(0, 0), 0);
    }
}
