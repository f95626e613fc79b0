//! Families: a run, the runs that it starts by steps, events and deadlines, and their descendants.
//! A family has limits, so that a workflow that starts itself ends with a reason instead of filling
//! the store.

use super::{ById, TransactionReader, Turn};
use crate::ids::RunKey;
use crate::run::Parent;
use crate::run::family::{HOPS, too_many_hops};
use crate::stop::{Stop, refuse};

/// The maximum number of ancestors of a run, each waiting for the next. It stops a workflow that
/// starts itself.
const DEPTH: u8 = 8;
/// The maximum number of descendants of one run. It allows `for_each` over ten thousand items, each
/// with a few runs of its own.
const DESCENDANTS: usize = 50_000;
/// The number of descendants of each root, as far as this turn has counted.
pub(super) type Families = ById<RunKey, usize>;

/// How one run starts another.
#[derive(Clone, Copy)]
pub(super) enum Link {
    /// By a step. The token names the attempt that waits for the new run, if one does.
    Step(Option<u32>),
    /// By an event that a step or a handler published, or by a deadline.
    Hop,
}

impl<B: TransactionReader> Turn<'_, B> {
    /// The parent of a run that `of` starts, or why the run must not be started.
    pub(super) fn join_family(
        &mut self,
        of: RunKey,
        link: Link,
    ) -> Result<Parent, Stop<String, B::Error>> {
        if !self.load_run(of)? {
            return refuse(format!("the run {of:?} that starts it is gone"));
        }
        let Some(run) = self.loaded.runs.get(of) else {
            return refuse(format!("the run {of:?} that starts it is gone"));
        };
        let parent = match link {
            Link::Step(token) => Parent::by_step(run, token),
            Link::Hop => Parent::by_hop(run, self.context.moment.now),
        };
        if parent.depth > DEPTH {
            return refuse(format!("more than {DEPTH} runs would stand above each other"));
        }
        if parent.hops > HOPS {
            return refuse(too_many_hops());
        }
        let count = self.descendants_of(parent.root)?;
        if *count >= DESCENDANTS {
            let root = self.run_id(Some(parent.root))?.map(|id| id.to_string());
            let root = root.unwrap_or_default();
            return refuse(format!("run {root} has led to {DESCENDANTS} runs already, the most"));
        }
        *count += 1;
        Ok(parent)
    }

    fn descendants_of(&mut self, root: RunKey) -> Result<&mut usize, B::Error> {
        if !self.loaded.families.contains_key(&root) {
            let known = self.reader.descendants(root, DESCENDANTS)?;
            self.loaded.families.insert(root, known);
        }
        Ok(self.loaded.families.entry(root).or_default())
    }
}
