//! The steps that wait for events of a topic, arranged so that an event is offered only to steps
//! that it may fit: a step whose condition compares a field of the event is found by the value that
//! it compares it with.

use std::collections::HashMap;

use language::expression::{Requirement, value_class};
use serde_json::Value;

use super::history::LoadedHistory;
use super::{TransactionReader, Turn, WaitWrite, not_there};
use crate::ids::{RunKey, TopicId};
use crate::run::{self, Part};
use crate::topics::Event;

/// How many steps that wait for a topic are read at a time.
const READ: usize = 1_000;
/// How many times one command may evaluate the condition of a step for an event, at about 10 µs
/// each: other commands and turns wait meanwhile.
const EVALUATED: usize = 20_000;
/// So many evaluations take as long as one start of a turn.
const EVALUATED_PER_START: usize = 8;

/// The steps that wait for events of one topic, oldest first.
pub(super) struct WaitingSteps {
    /// `None` for a step that has taken an event.
    steps: Vec<Option<(RunKey, Part)>>,
    /// The indexes of steps whose condition has to be evaluated for each event.
    evaluated: Vec<usize>,
    /// For each field of events that conditions name: the indexes of the steps that wait for a
    /// value, by the class of the value.
    by_field: HashMap<Vec<String>, HashMap<String, Vec<usize>>>,
    /// Whether steps are found by the field and value that they require.
    is_indexed: bool,
    /// How many of the turn's writes about waiting steps are taken into account.
    writes_seen: usize,
}

impl<B: TransactionReader> Turn<'_, B> {
    /// The steps that wait for events of a topic. With `is_indexed`, what each of them requires is
    /// looked at beforehand, which pays off for more than one event.
    pub(super) fn waiting_steps(
        &mut self,
        id: TopicId,
        is_indexed: bool,
    ) -> Result<WaitingSteps, B::Error> {
        let (steps, evaluated) = (Vec::new(), Vec::new());
        let by_field = HashMap::new();
        let mut waiting = WaitingSteps { steps, evaluated, by_field, is_indexed, writes_seen: 0 };
        let mut after = None;
        loop {
            let stored = self.reader.waiting_for(id, after, READ)?;
            for (run, part) in &stored {
                self.add_waiting(&mut waiting, *run, *part)?;
            }
            match stored.last() {
                Some(last) if stored.len() == READ => after = Some(*last),
                _ => break,
            }
        }
        self.add_new_waits(id, &mut waiting)?;
        Ok(waiting)
    }

    /// Parts that began to wait in this turn, without the first `seen` writes. The transaction
    /// reader does not know them yet.
    pub(super) fn new_waits(
        &self,
        id: TopicId,
        seen: usize,
    ) -> impl Iterator<Item = (RunKey, Part)> {
        self.output.writes.waits[seen..].iter().filter_map(move |write| match write {
            WaitWrite::Begin(topic, run, part) if *topic == id => Some((*run, *part)),
            _ => None,
        })
    }

    fn add_new_waits(&mut self, id: TopicId, waiting: &mut WaitingSteps) -> Result<(), B::Error> {
        let new: Vec<(RunKey, Part)> = self.new_waits(id, waiting.writes_seen).collect();
        waiting.writes_seen = self.output.writes.waits.len();
        for (run, part) in new {
            self.add_waiting(waiting, run, part)?;
        }
        Ok(())
    }

    fn add_waiting(
        &mut self,
        waiting: &mut WaitingSteps,
        run: RunKey,
        part: Part,
    ) -> Result<(), B::Error> {
        let required = if waiting.is_indexed {
            self.required_event(run, part)?
        } else {
            Requirement::Evaluation
        };
        let index = waiting.steps.len();
        match required {
            Requirement::Impossible => return Ok(()),
            Requirement::Evaluation => waiting.evaluated.push(index),
            Requirement::Field { path, class } => {
                let classes = waiting.by_field.entry(path).or_default();
                classes.entry(class).or_default().push(index);
            }
        }
        waiting.steps.push(Some((run, part)));
        Ok(())
    }

    fn required_event(&mut self, key: RunKey, part: Part) -> Result<Requirement, B::Error> {
        if !self.load_run(key)? {
            return Ok(Requirement::Impossible);
        }
        let run = self.run(key)?;
        let (workflow, version, handler) = (run.workflow, run.version, run.handler.clone());
        let definition = self.process(workflow, version, handler.as_deref())?;
        let entity = self.loaded.runs.loaded(key).ok_or_else(|| not_there::<B::Error>(key))?;
        let mut history = LoadedHistory::new(self.reader, key, &entity.notes.records);
        let known = &mut self.loaded.item_scope;
        run::required_event(&entity.now, &definition, part, &mut history, known)
    }

    /// Gives the event to the first step that waits for it, and returns whether there was one.
    pub(super) fn give_to_waiting(
        &mut self,
        id: TopicId,
        event: &Event,
        waiting: &mut WaitingSteps,
    ) -> Result<bool, B::Error> {
        if waiting.steps.is_empty() {
            return Ok(false);
        }
        let seen = self.event_seen(id, event)?;
        let evaluated = waiting.evaluated.len() / EVALUATED_PER_START;
        self.worklist.starts_left = self.worklist.starts_left.saturating_sub(evaluated);
        for index in waiting.may_fit(&seen) {
            let Some((run, part)) = waiting.steps[index] else { continue };
            if self.offer(run, part, event, &seen)? {
                waiting.steps[index] = None;
                self.add_new_waits(id, waiting)?;
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Why this many events cannot be published at once: too many steps wait for the topic with
    /// conditions that have to be evaluated for each event.
    pub(super) fn too_many_to_offer(
        &mut self,
        id: TopicId,
        events: usize,
    ) -> Result<Option<String>, B::Error> {
        let most = EVALUATED / events.max(1);
        if events < 2 || self.reader.waiting_for(id, None, most + 1)?.len() <= most {
            return Ok(None);
        }
        let evaluated = self.waiting_steps(id, true)?.evaluated.len();
        Ok((evaluated > most).then(|| {
            let fewer = (EVALUATED / evaluated).max(1);
            format!(
                "{evaluated} steps wait for events of this topic with conditions that must be \
                 evaluated for each event. Publish at most {fewer} events at once, or let the \
                 conditions compare a field, such as event.payload.order == input.order."
            )
        }))
    }
}

impl WaitingSteps {
    /// The indexes of the steps that an event may fit, oldest first.
    fn may_fit(&self, seen: &serde_json::value::RawValue) -> Vec<usize> {
        let mut indexes = self.evaluated.clone();
        if !self.by_field.is_empty() {
            let event: Value = serde_json::from_str(seen.get()).unwrap_or_default();
            for (path, classes) in &self.by_field {
                let field = path.iter().try_fold(&event, |at, name| at.get(name));
                let fitting = field.and_then(|field| classes.get(&value_class(field)));
                indexes.extend(fitting.into_iter().flatten());
            }
            indexes.sort_unstable();
        }
        indexes
    }
}
