//! What a turn has loaded or created: each entity as it is now, what the store has to be told of how it was, and whether
//! it has to be written.

use std::hash::Hash;

use jiff::Timestamp;

use super::book::Workflow;
use super::{ById, Change};
use crate::handlers::Handler;
use crate::ids::{HandlerId, RunKey, ScheduleId, TopicId, WorkflowId};
use crate::run::{AttemptRecord, Decision, Run, RunStatus, StepRecord};
use crate::schedule::{Schedule, Status};
use crate::topics::Topic;

/// Something that a turn can load, change and write.
pub(super) trait Entity {
    type Id: Copy + Eq + Hash;
    /// What the store is told of how it was.
    type Before;
    /// Data about the entity that only this turn needs.
    type Notes: Default;

    fn id(&self) -> Self::Id;
    fn before(&self) -> Self::Before;
}

/// One entity.
pub(super) struct Loaded<T: Entity> {
    pub(super) now: T,
    pub(super) before: T::Before,
    pub(super) notes: T::Notes,
    pub(super) is_new: bool,
    pub(super) change: Change,
}

/// All entities of one kind that the turn has touched.
pub(super) struct Table<T: Entity> {
    rows: ById<T::Id, Loaded<T>>,
    /// In the order in which they were touched, so that the same inputs give the same writes.
    order: Vec<T::Id>,
}

impl<T: Entity> Default for Table<T> {
    fn default() -> Table<T> {
        Table { rows: ById::default(), order: Vec::new() }
    }
}

impl<T: Entity> Table<T> {
    pub(super) fn reserve(&mut self, more: usize) {
        self.rows.reserve(more);
        self.order.reserve(more);
    }

    /// Takes in an entity that the store has.
    pub(super) fn insert_stored(&mut self, now: T) {
        self.insert(now, false, Change::None);
    }

    /// Takes in an entity that the turn has created.
    pub(super) fn insert_new(&mut self, now: T) {
        self.insert(now, true, Change::Declaration);
    }

    fn insert(&mut self, now: T, is_new: bool, change: Change) {
        let (id, before) = (now.id(), now.before());
        self.order.push(id);
        self.rows.insert(id, Loaded { now, before, notes: T::Notes::default(), is_new, change });
    }

    pub(super) fn contains(&self, id: T::Id) -> bool {
        self.rows.contains_key(&id)
    }

    pub(super) fn get(&self, id: T::Id) -> Option<&T> {
        self.rows.get(&id).map(|loaded| &loaded.now)
    }

    /// The entity, which is written at the end of the turn.
    pub(super) fn change(&mut self, id: T::Id, change: Change) -> Option<&mut T> {
        let loaded = self.rows.get_mut(&id)?;
        loaded.change = loaded.change.max(change);
        Some(&mut loaded.now)
    }

    pub(super) fn loaded(&self, id: T::Id) -> Option<&Loaded<T>> {
        self.rows.get(&id)
    }

    pub(super) fn loaded_mut(&mut self, id: T::Id) -> Option<&mut Loaded<T>> {
        self.rows.get_mut(&id)
    }

    /// All of them, in no order.
    pub(super) fn values(&self) -> impl Iterator<Item = &T> {
        self.rows.values().map(|loaded| &loaded.now)
    }

    /// How many the turn has touched.
    pub(super) fn len(&self) -> usize {
        self.order.len()
    }

    /// The one that was touched at this place in the order.
    pub(super) fn nth(&self, at: usize) -> Option<T::Id> {
        self.order.get(at).copied()
    }

    /// Whatever has changed, in the order in which it was touched.
    pub(super) fn take_changed(&mut self) -> Vec<Loaded<T>> {
        let order = std::mem::take(&mut self.order);
        let all = order.into_iter().filter_map(|id| self.rows.remove(&id));
        all.filter(|loaded| loaded.change != Change::None).collect()
    }
}

impl<T: Entity> Loaded<T> {
    pub(super) fn touch(&mut self, change: Change) {
        self.change = self.change.max(change);
    }

    /// Whether the entity is there no more once the turn is written.
    pub(super) fn is_deleted(&self) -> bool {
        self.change == Change::Deleted
    }
}

/// When it was to be woken, and its status.
pub(super) struct WokenAt<S> {
    pub(super) wake: Option<Timestamp>,
    pub(super) status: S,
}

/// Boxed, as runs are: a turn hands them on from the book to what is written, and they are large.
impl Entity for Box<Schedule> {
    type Id = ScheduleId;
    type Before = WokenAt<Status>;
    type Notes = ();

    fn id(&self) -> ScheduleId {
        self.id
    }

    fn before(&self) -> WokenAt<Status> {
        WokenAt { wake: self.wake_at(), status: self.status }
    }
}

/// Step records and attempts of a run that this turn will write.
#[derive(Default)]
pub(super) struct StepNotes {
    pub(super) records: Vec<StepRecord>,
    /// Attempts that ended and that others follow.
    pub(super) earlier: Vec<AttemptRecord>,
    /// Whether something about the steps may have changed.
    pub(super) steps_changed: bool,
}

impl StepNotes {
    /// What a decision says of the steps is written with the run.
    pub(super) fn keep(&mut self, decision: &mut Decision, steps_changed: bool) {
        self.steps_changed |= steps_changed;
        self.records.append(&mut decision.records);
        self.earlier.append(&mut decision.earlier);
    }
}

impl Entity for Box<Run> {
    type Id = RunKey;
    type Before = WokenAt<RunStatus>;
    type Notes = StepNotes;

    fn id(&self) -> RunKey {
        self.key
    }

    fn before(&self) -> WokenAt<RunStatus> {
        WokenAt { wake: self.wake_at(), status: self.status }
    }
}

impl Entity for Workflow {
    type Id = WorkflowId;
    type Before = ();
    type Notes = ();

    fn id(&self) -> WorkflowId {
        self.id
    }

    fn before(&self) {}
}

/// Counts of the events of a topic that this turn has changed.
#[derive(Default)]
pub(super) struct EventNotes {
    /// How many of them have moved.
    pub(super) moved: usize,
    /// How many of them are done with.
    pub(super) consumed: usize,
    /// When the first one was published.
    pub(super) first_new: Option<Timestamp>,
}

impl Entity for Topic {
    type Id = TopicId;
    type Before = ();
    type Notes = EventNotes;

    fn id(&self) -> TopicId {
        self.id
    }

    fn before(&self) {}
}

impl Entity for Handler {
    type Id = HandlerId;
    /// When it was due.
    type Before = Option<Timestamp>;
    type Notes = ();

    fn id(&self) -> HandlerId {
        self.id
    }

    fn before(&self) -> Option<Timestamp> {
        self.due()
    }
}
