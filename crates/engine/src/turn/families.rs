//! Families: a run, the runs that it starts by steps, events and deadlines, and their descendants.
//! A family has limits, so that a workflow that starts itself ends with a reason instead of filling
//! the store.

use jiff::SignedDuration;
use language::definition::Definition;

use super::{ById, TransactionReader, Turn};
use crate::ids::RunKey;
use crate::run::Parent;
use crate::run::family::{HOPS, too_many_hops};
use crate::stop::{Stop, refuse};
use crate::topics::Subscriber;

/// The maximum number of ancestors of a run, each waiting for the next. It stops a workflow that
/// starts itself.
const DEPTH: u8 = 8;
/// The maximum number of descendants of one run. It allows `for_each` over ten thousand items, each
/// with a few runs of its own.
const DESCENDANTS: usize = 50_000;
/// A circle whose runs take a minute each leaves its family when the first run is this old.
/// Otherwise, one that has gone on for a month would end because its family is full.
const OLD: SignedDuration = SignedDuration::from_hours(24);
/// The number of descendants of each root, as far as this turn has counted.
pub(super) type Families = ById<RunKey, usize>;

/// Topics to which a run must not publish, and why.
#[derive(Default)]
pub(super) struct ClosedTopics {
    pub(super) names: Vec<String>,
    pub(super) why: String,
}

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
        let parent = match link {
            Link::Step(token) => Parent::by_step(self.run(of)?, token),
            Link::Hop => self.parent_by_hop(of)?,
        };
        if parent.depth > DEPTH {
            return refuse(format!("more than {DEPTH} runs would stand above each other"));
        }
        if parent.hops > HOPS {
            return refuse(too_many_hops());
        }
        if let Some(why) = self.why_full(parent.root)? {
            return refuse(why);
        }
        *self.descendants_of(parent.root)? += 1;
        Ok(parent)
    }

    /// The parent of a run that an event or a deadline of `of` starts.
    fn parent_by_hop(&mut self, of: RunKey) -> Result<Parent, B::Error> {
        let run = self.run(of)?;
        let parent = Parent::by_hop(run, self.context.moment.now);
        let counts_from_itself = parent.hops == 1 && run.parent.is_some();
        if counts_from_itself && self.is_old(parent.root)? {
            return Ok(Parent { root: of, ..parent });
        }
        Ok(parent)
    }

    /// Whether a slow circle may leave the family of this root.
    fn is_old(&mut self, root: RunKey) -> Result<bool, B::Error> {
        if !self.load_run(root)? {
            return Ok(true);
        }
        Ok(self.context.moment.now.duration_since(self.run(root)?.created_at) > OLD)
    }

    /// Why the family of this root may not grow, if it has as many runs as it may have.
    fn why_full(&mut self, root: RunKey) -> Result<Option<String>, B::Error> {
        if *self.descendants_of(root)? < DESCENDANTS {
            return Ok(None);
        }
        let root = self.run_id(Some(root))?.map(|id| id.to_string()).unwrap_or_default();
        Ok(Some(format!("run {root} has led to {DESCENDANTS} runs already, the most")))
    }

    /// The topics to which the steps of this run must not publish: its family may not grow, and an
    /// event would only start another run.
    pub(super) fn closed_topics(
        &mut self,
        of: RunKey,
        definition: &Definition,
    ) -> Result<ClosedTopics, B::Error> {
        let mut closed = ClosedTopics::default();
        let run = self.run(of)?;
        let is_handler = run.handler.is_some();
        if run.parent.is_none() || is_handler || definition.published_topics().next().is_none() {
            return Ok(closed);
        }
        let root = self.parent_by_hop(of)?.root;
        // A family that may grow may publish everywhere.
        let Some(why) = self.why_full(root)? else { return Ok(closed) };
        let workflow = self.run(of)?.workflow;
        for name in definition.published_topics() {
            let Some(topic) = self.topic_meant(workflow, definition, name)? else { continue };
            let subscribers = self.reader.subscribers(topic)?;
            let starts = |subscriber: &Subscriber| matches!(subscriber, Subscriber::Triggers(_));
            if !subscribers.is_empty() && subscribers.iter().all(starts) {
                closed.names.push(name.to_owned());
            }
        }
        closed.why = why;
        Ok(closed)
    }

    fn descendants_of(&mut self, root: RunKey) -> Result<&mut usize, B::Error> {
        if !self.loaded.families.contains_key(&root) {
            let known = self.reader.descendants(root, DESCENDANTS)?;
            self.loaded.families.insert(root, known);
        }
        Ok(self.loaded.families.entry(root).or_default())
    }
}
