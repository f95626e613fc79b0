//! Places: how many attempts a node may still take on, and whose turn it is when they are scarce.

use super::{Book, ById, Turn};
use crate::ids::{RunKey, WorkflowId};

/// Workflows whose oldest pending run is looked at in one go, and pending runs of one workflow's handlers.
const LOOKED_AT: usize = 128;

/// Runs and parts of steps that begin in one turn. Each may end at once and bring others about without end, so
/// this bounds how long a turn takes and how much it writes; the rest begins with the next turn. Twice what a full
/// turn of due occurrences with one step needs.
pub(super) const STARTED: usize = 4_000;

/// What a node can take on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Places {
    /// Attempts that may still be started.
    pub free: usize,
    /// The workflow that was served last: the one after it is next.
    pub served: Option<WorkflowId>,
    /// Whether runs may be waiting for a place: something ended, or was created and could not begin.
    pub look: bool,
    /// Whether more could begin than did in this turn: the next one is to be taken at once.
    pub more: bool,
}

impl Places {
    /// So many places, nobody served yet, to be looked at.
    pub fn new(free: usize) -> Places {
        Places { free, served: None, look: true, more: false }
    }
}

/// How far the pending runs of one workflow have been looked at while places are filled.
#[derive(Default)]
struct Served {
    /// The last run that was looked at; those after it are next.
    after: Option<RunKey>,
    /// Runs of handlers before it that did not have their turn: they may have it by now.
    waiting: Vec<RunKey>,
    /// Nothing more of this workflow can begin.
    is_full: bool,
}

impl<B: Book> Turn<'_, B> {
    /// While there are places, runs that have begun go on, and pending ones begin: oldest first in
    /// each workflow, and workflow by workflow in turn, so that a busy one cannot starve the others.
    pub fn fill_places(&mut self) -> Result<(), B::Error> {
        if !self.capacity.look {
            return Ok(());
        }
        // What has ended meanwhile sets it again.
        self.capacity.look = false;
        self.capacity.more = false;
        self.go_on()?;
        let mut served = ById::default();
        while self.capacity.free > 0 {
            if self.worklist.starts_left == 0 {
                (self.capacity.look, self.capacity.more) = (true, true);
                return Ok(());
            }
            if !self.serve_each(&mut served)? {
                return self.begin_new_ones();
            }
        }
        self.capacity.look = true;
        Ok(())
    }

    /// A pending run begins, or one that lacks a place goes on, if there is a place for it.
    pub fn begin_or_go_on(&mut self, key: RunKey) -> Result<(), B::Error> {
        if !self.load_run(key)? {
            return Ok(());
        }
        if self.is_pending(key) {
            self.try_begin(key)?;
        } else if self.is_ready(key) && self.capacity.free > 0 {
            self.wake_run(key)?;
        }
        self.work_through()
    }

    /// What has begun has its place in its workflow already: it goes before what has not.
    fn go_on(&mut self) -> Result<(), B::Error> {
        if self.capacity.free == 0 {
            return Ok(());
        }
        // Some of them may have ended in this turn: the book does not know yet.
        let limit = self.capacity.free + self.loaded.runs.len();
        for key in self.book.ready(limit)? {
            if self.capacity.free > 0 && self.load_run(key)? && self.is_ready(key) {
                self.wake_run(key)?;
                self.work_through()?;
            }
        }
        Ok(())
    }

    /// Runs of this turn that found no place at first, and those that they start in turn: the book does not
    /// know them yet.
    fn begin_new_ones(&mut self) -> Result<(), B::Error> {
        let mut at = 0;
        while let Some(key) = self.loaded.runs.nth(at) {
            at += 1;
            let is_new = self.loaded.runs.loaded(key).is_some_and(|loaded| loaded.is_new);
            if is_new && self.is_pending(key) {
                self.try_begin(key)?;
                self.work_through()?;
            }
        }
        Ok(())
    }

    /// One run for each workflow that has a pending one; whether any began.
    fn serve_each(&mut self, served: &mut ById<WorkflowId, Served>) -> Result<bool, B::Error> {
        let mut begun = false;
        let first = self.capacity.served;
        let mut after = first;
        let mut wrapped = first.is_none();
        loop {
            let found = self.book.pending(after, LOOKED_AT)?;
            let last = found.last().map(|(workflow, _)| *workflow);
            let is_whole = found.len() < LOOKED_AT;
            for (workflow, oldest) in found {
                if wrapped && first.is_some_and(|first| workflow > first) {
                    return Ok(begun);
                }
                if self.capacity.free == 0 || self.worklist.starts_left == 0 {
                    return Ok(begun);
                }
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

    /// Begins the workflow's oldest run that is still pending in this turn. Runs of handlers wait for their turn,
    /// and not for a place: they keep nobody else from beginning, and nobody else keeps them.
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
                self.capacity.served = Some(workflow);
                return Ok(true);
            }
        }
        loop {
            // What was looked at before is passed over at once: the book still knows it as pending.
            let key = match served.after {
                None => Some(oldest),
                Some(after) => self.book.pending_after(workflow, after, 1)?.first().copied(),
            };
            let Some(key) = key else {
                served.is_full = served.waiting.is_empty();
                return Ok(false);
            };
            if self.load_run(key)? && self.is_pending(key) {
                if self.try_begin(key)? {
                    served.after = Some(key);
                    self.capacity.served = Some(workflow);
                    return Ok(true);
                }
                if !self.is_of_handler(key) {
                    served.is_full = true;
                    return self.serve_handler(workflow);
                }
                served.waiting.push(key);
            }
            served.after = Some(key);
        }
    }

    /// The workflow has as many active runs as it may. Runs of its producers and consumers do not count among them,
    /// and begin all the same.
    fn serve_handler(&mut self, workflow: WorkflowId) -> Result<bool, B::Error> {
        for key in self.book.pending_of_handlers(workflow, LOOKED_AT)? {
            if self.load_run(key)? && self.is_pending(key) && self.try_begin(key)? {
                self.capacity.served = Some(workflow);
                return Ok(true);
            }
        }
        Ok(false)
    }
}
