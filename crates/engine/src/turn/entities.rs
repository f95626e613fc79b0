//! Entities that a turn has loaded or created: each with its current value, the earlier values that
//! the store needs, and whether it must be written.

use std::hash::Hash;

use jiff::Timestamp;

use super::transaction_reader::Workflow;
use super::{ById, Change};
use crate::handlers::Handler;
use crate::ids::{HandlerId, RunKey, ScheduleId, TopicId, WorkflowId};
use crate::run::{AttemptRecord, Decision, Run, RunStatus, StepRecord};
use crate::schedule::{Schedule, Status};
use crate::topics::Topic;

/// An entity that a turn can load, change and write.
pub(super) trait Entity {
    type Id: Copy + Eq + Hash;
    /// The earlier values that the store needs when it writes the entity.
    type Before;
    /// Data about the entity that only this turn needs.
    type Notes: Default;

    fn id(&self) -> Self::Id;
    fn before(&self) -> Self::Before;
}

/// One entity that the turn has touched.
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
    /// Ids in the order in which the turn touched them, so that the same inputs give the same
    /// writes.
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

    /// Adds an entity that was read from the store.
    pub(super) fn insert_stored(&mut self, now: T) {
        self.insert(now, false, Change::None);
    }

    /// Adds an entity that the turn has created.
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

    /// The entity, to be changed. It is written at the end of the turn.
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

    /// All entities, in no particular order.
    pub(super) fn values(&self) -> impl Iterator<Item = &T> {
        self.rows.values().map(|loaded| &loaded.now)
    }

    /// The number of entities that the turn has touched.
    pub(super) fn len(&self) -> usize {
        self.order.len()
    }

    /// The id of the entity that was touched at this position in the order.
    pub(super) fn nth(&self, at: usize) -> Option<T::Id> {
        self.order.get(at).copied()
    }

    /// Removes and returns the changed entities, in the order in which they were touched.
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

    /// Whether this turn deletes the entity.
    pub(super) fn is_deleted(&self) -> bool {
        self.change == Change::Deleted
    }
}

/// The wakeup time and status that an entity had before the turn.
pub(super) struct WokenAt<S> {
    pub(super) wake: Option<Timestamp>,
    pub(super) status: S,
}

/// Schedules and runs are boxed because they are large and a turn moves them from the reader to the
/// writes.
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
    /// Attempts that ended and were followed by another attempt.
    pub(super) earlier: Vec<AttemptRecord>,
    /// Whether the run's steps may have changed.
    pub(super) steps_changed: bool,
}

impl StepNotes {
    /// Takes the step and attempt records of a decision, to be written with the run.
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

/// What this turn did to the events of a topic.
#[derive(Default)]
pub(super) struct EventNotes {
    /// The number of events that changed state.
    pub(super) moved: usize,
    /// The number of events that were consumed.
    pub(super) consumed: usize,
    /// When the first new event was published.
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
    /// When the handler was due before the turn.
    type Before = Option<Timestamp>;
    type Notes = ();

    fn id(&self) -> HandlerId {
        self.id
    }

    fn before(&self) -> Option<Timestamp> {
        self.due()
    }
}
