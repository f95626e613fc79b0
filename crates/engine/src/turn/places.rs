//! Places: how many attempts a node may still take on, and whose turn it is when they are scarce.

use std::collections::HashSet;

use super::{Book, Turn};
use crate::definition::handlers::producer_of_trigger;
use crate::ids::{RunKey, WorkflowId};

/// Workflows whose oldest pending run is looked at in one go.
const LOOKED_AT: usize = 128;

/// Runs that begin in one turn: they may start others without end.
const BEGUN: usize = 10_000;

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

impl<B: Book> Turn<'_, B> {
    /// While there are places, runs that have begun go on, and pending ones begin: oldest first in
    /// each workflow, and workflow by workflow in turn, so that a busy one cannot starve the others.
    pub fn fill_places(&mut self) -> Result<(), B::Error> {
        if !self.places.look {
            return Ok(());
        }
        // What has ended meanwhile sets it again.
        self.places.look = false;
        self.places.more = false;
        self.go_on()?;
        let mut full = HashSet::new();
        while self.places.free > 0 {
            if !self.serve_each(&mut full)? {
                return self.begin_new_ones();
            }
        }
        self.places.look = true;
        Ok(())
    }

    /// What has begun has its place in its workflow already: it goes before what has not.
    fn go_on(&mut self) -> Result<(), B::Error> {
        if self.places.free == 0 {
            return Ok(());
        }
        // Some of them may have ended in this turn: the book does not know yet.
        let limit = self.places.free + self.run_order.len();
        for key in self.book.ready(limit)? {
            if self.places.free > 0 && self.load_run(key)? && self.is_ready(key) {
                self.wake_run(key)?;
            }
        }
        Ok(())
    }

    /// Runs of this turn that found no place at first, and those that they start in turn: the book does not
    /// know them yet.
    fn begin_new_ones(&mut self) -> Result<(), B::Error> {
        let (mut at, mut begun) = (0, 0);
        while let Some(key) = self.run_order.get(at).copied() {
            at += 1;
            let is_new = self.runs.get(&key).is_some_and(|slot| slot.is_new);
            if is_new && self.is_pending(key) {
                begun += usize::from(self.try_begin(key)?);
            }
            if begun >= BEGUN {
                (self.places.look, self.places.more) = (true, true);
                return Ok(());
            }
        }
        Ok(())
    }

    /// One run for each workflow that has a pending one; whether any began.
    fn serve_each(&mut self, full: &mut HashSet<WorkflowId>) -> Result<bool, B::Error> {
        let mut begun = false;
        let first = self.places.served;
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
                if self.places.free == 0 {
                    return Ok(begun);
                }
                if !full.contains(&workflow) {
                    begun |= self.serve(workflow, oldest, full)?;
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
        full: &mut HashSet<WorkflowId>,
    ) -> Result<bool, B::Error> {
        let mut key = oldest;
        loop {
            if self.load_run(key)? && self.is_pending(key) {
                if self.try_begin(key)? {
                    self.places.served = Some(workflow);
                    return Ok(true);
                }
                if !self.is_of_handler(key) {
                    full.insert(workflow);
                    return self.serve_handler(workflow);
                }
            }
            // Begun earlier in this turn, which the book does not know yet, or not its turn.
            match self.book.pending_after(workflow, key, 1)?.first() {
                Some(next) => key = *next,
                None => {
                    full.insert(workflow);
                    return Ok(false);
                }
            }
        }
    }

    /// The workflow has as many active runs as it may: those of its handlers do not count among them.
    fn serve_handler(&mut self, workflow: WorkflowId) -> Result<bool, B::Error> {
        let live = self.live_definition(workflow)?;
        if live.is_none_or(|live| !live.has_handlers()) {
            return Ok(false);
        }
        let handling = self.load_workflow(workflow)?.and_then(|slot| slot.workflow.handling);
        let mut waiting: Vec<RunKey> = handling.into_iter().collect();
        for schedule in self.book.triggered_schedules(workflow)? {
            if schedule.trigger.as_deref().and_then(producer_of_trigger).is_some() {
                waiting.extend(schedule.progress.active.iter().filter_map(|active| active.run()));
            }
        }
        waiting.sort_unstable();
        for key in waiting {
            if self.load_run(key)? && self.is_pending(key) && self.try_begin(key)? {
                self.places.served = Some(workflow);
                return Ok(true);
            }
        }
        Ok(false)
    }
}
