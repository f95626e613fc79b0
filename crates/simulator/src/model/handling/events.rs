//! Checks events: none is lost or doubled, and each change of state has its reason.

use engine::handlers::MutationStatus;
use engine::run::{RunStatus, StepState};
use engine::topics::EventState::{self, Consumed, Pending, Reserved, Skipped};
use engine::turn::Command;
use language::definition::Action;

use super::{Checked, Model, Seen, broken};
use crate::handlers::rows::{EventRow, Handled};

impl Model {
    pub(super) fn check_events(
        &mut self,
        seen: &Seen<'_>,
        events: Vec<(i64, Option<EventRow>)>,
    ) -> Checked {
        for (key, row) in events {
            let before = self.handling.events.remove(&key);
            let Some(row) = row else {
                return match before {
                    Some(before) => broken("lost", format!("{before:?} is gone")),
                    None => continue,
                };
            };
            match &before {
                Some(before) => self.count(before, -1),
                None => self.check_new_event(&row)?,
            }
            self.check_event(seen, before.as_ref(), &row)?;
            self.count(&row, 1);
            if let Some(run) = row.run.filter(|_| row.state == Reserved) {
                self.handling.had.entry(run).or_default().insert(key);
            }
            self.handling.events.insert(key, row);
        }
        self.check_ended(seen)?;
        self.check_taken(seen)
    }

    fn count(&mut self, row: &EventRow, by: i64) {
        let counts = self.handling.counts.entry(row.topic).or_default();
        let count = &mut counts[row.state as usize];
        *count = count.saturating_add_signed(by);
    }

    /// Checks that a topic's counts are those of its events.
    pub(super) fn check_counts(&self) -> Checked {
        for topic in self.handling.topics.values() {
            let counted = self.handling.counts.get(&topic.id).copied().unwrap_or_default();
            if counted != topic.counts {
                let (name, counts) = (&topic.name, topic.counts);
                return broken(
                    "counts",
                    format!("topic {name}: {counts:?}, there are {counted:?}"),
                );
            }
        }
        Ok(())
    }

    fn check_new_event(&mut self, row: &EventRow) -> Checked {
        let message = (row.topic, row.message_id.clone());
        match self.handling.ids.insert(message, row.key) {
            Some(other) => broken("twice", format!("{row:?} is there already, as {other}")),
            None => Ok(()),
        }
    }

    fn check_event(&self, seen: &Seen<'_>, before: Option<&EventRow>, row: &EventRow) -> Checked {
        let from = before.map_or(Pending, |before| before.state);
        let (was_attempt, was_run) =
            before.map_or((0, None), |before| (before.attempt, before.run));
        // The event was given back, and then taken in the same commit by a step that began to wait.
        let given_back = from == Reserved && was_run.is_some_and(|run| self.gives_back(seen, run));
        let attempt = was_attempt + u32::from(given_back);
        let fits = match (from, row.state) {
            (Pending | Reserved, Consumed) => self.may_consume(seen, from, was_run, row),
            (Pending, Pending) => true,
            (Pending, Reserved) => self.may_reserve(seen, row),
            (Pending, Skipped) => skips(seen, row),
            (Reserved, Pending) => given_back && attempt < self.most_attempts(row.topic),
            (Reserved, Reserved) => row.run == was_run || self.goes_on(seen, was_run, row.run),
            (Reserved, Skipped) => {
                let is_poison = row.reason.as_deref() == Some("poison");
                given_back && is_poison == (attempt >= self.most_attempts(row.topic))
                    || self.is_left_behind(was_run)
            }
            (Consumed, Consumed) | (Skipped, Skipped) => was_run == row.run,
            (Consumed | Skipped, _) => false,
        };
        if !fits {
            return broken("events", format!("{before:?} became {row:?}"));
        }
        let is_as_often = row.attempt == attempt || self.is_left_behind(was_run);
        if is_as_often && (row.state == Reserved) <= row.run.is_some() {
            Ok(())
        } else {
            broken("events", format!("{before:?} became {row:?}, given back {attempt}"))
        }
    }

    fn most_attempts(&self, topic: i64) -> u32 {
        self.handling.topics.get(&topic).map_or(u32::MAX, |topic| topic.max_attempts)
    }

    /// Whether the run ends now without success: it then gives back the events it had reserved.
    fn gives_back(&self, seen: &Seen<'_>, run: i64) -> bool {
        seen.ended_now(run).is_some_and(|row| row.status != RunStatus::Succeeded)
    }

    /// Whether the consumer that was to resume this run is gone.
    fn is_left_behind(&self, run: Option<i64>) -> bool {
        run.is_some_and(|run| self.resumes(run))
    }

    /// Whether the event may be consumed: by the run that reserved it and succeeded or by a retry
    /// of that run, by a step that waited for it, or by the run that it started.
    fn may_consume(
        &self,
        seen: &Seen<'_>,
        from: EventState,
        was_run: Option<i64>,
        row: &EventRow,
    ) -> bool {
        let Some(moved) = row.run.and_then(|run| seen.of(run)) else { return false };
        match moved.row.handler {
            Some(_) => {
                let has_reserved = was_run == row.run || self.goes_on(seen, was_run, row.run);
                let had = from == Reserved && has_reserved || self.reserves(seen, row);
                had && moved.row.status == RunStatus::Succeeded
            }
            None => true,
        }
    }

    fn may_reserve(&self, seen: &Seen<'_>, row: &EventRow) -> bool {
        let is_active = row.run.and_then(|run| self.runs.get(&run)).is_some();
        is_active && self.reserves(seen, row)
    }

    /// Whether the run's `prepare` named this event and succeeded.
    fn reserves(&self, seen: &Seen<'_>, row: &EventRow) -> bool {
        let name = self.handling.topics.get(&row.topic).map(|topic| topic.name.as_str());
        seen.gave.iter().any(|gave| {
            let is_it = Some(gave.after.key) == row.run && gave.phase == "prepare";
            is_it
                && gave.is_done()
                && gave.output["reservations"].as_array().is_some_and(|all| {
                    all.iter().any(|of| {
                        of["topic"].as_str() == name
                            && of["ids"].as_array().is_some_and(|ids| {
                                ids.iter().any(|id| id.as_str() == Some(&row.message_id))
                            })
                    })
                })
        })
    }

    /// Whether the new run of the event is a retry of the old one. Such a retry ends in the commit
    /// that creates it if the live revision of its consumer has no `next` phase any more.
    fn goes_on(&self, seen: &Seen<'_>, was: Option<i64>, is: Option<i64>) -> bool {
        let changed = is.and_then(|run| seen.of(run)).map(|moved| &moved.row);
        let Some(new) = changed.or_else(|| is.and_then(|run| self.runs.get(&run))) else {
            return false;
        };
        let earlier = new.retry_of.as_ref().and_then(|id| self.handling.keys.get(id));
        earlier.copied() == was
    }

    /// Checks that events are consumed exactly if their run succeeded. A run that ended otherwise
    /// holds no events, unless its last phase will be retried.
    fn check_ended(&self, seen: &Seen<'_>) -> Checked {
        for moved in seen.moved.iter().filter(|moved| moved.row.handler.is_some()) {
            let row = &moved.row;
            if !row.status.has_ended() {
                continue;
            }
            let goes_on = self.handling.handlers.values().any(|h| h.resumes == Some(row.key));
            let had = self.handling.had.get(&row.key).into_iter().flatten();
            for event in had.filter_map(|key| self.handling.events.get(key)) {
                let is_its = event.run == Some(row.key);
                let fits = match row.status {
                    RunStatus::Succeeded => !is_its || event.state == Consumed,
                    _ => !is_its || event.state == Reserved && (goes_on || self.resumes(row.key)),
                };
                if !fits {
                    let status = row.status.name();
                    return broken("events", format!("run {} has {status}: {event:?}", row.key));
                }
            }
        }
        Ok(())
    }

    /// Whether a retry of this run began in the same commit, or will: its mutation was made, or
    /// somebody said to go on without it.
    fn resumes(&self, run: i64) -> bool {
        let noted = self.handling.mutations.get(&run);
        let is_over = matches!(noted, Some(MutationStatus::Applied | MutationStatus::Skipped));
        is_over || self.root(run) != run
    }

    /// Checks that each waiting step gets at most one event, and an event goes to at most one step.
    fn check_taken(&self, seen: &Seen<'_>) -> Checked {
        for moved in seen.moved {
            let (Some(whole), None) = (&moved.row.whole, &moved.row.handler) else { continue };
            let waits = (0..).zip(&whole.steps).filter(|(step, waits)| {
                let is_done = moved.row.state.states.of(*step) == StepState::Completed;
                matches!(waits.action, Action::WaitFor(_)) && is_done
            });
            let has = |event: &&EventRow| event.run == Some(moved.row.key);
            let events = self.handling.events.values().filter(has).count();
            let by_trigger = usize::from(moved.row.triggered_by == engine::run::TriggeredBy::Event);
            let waited = waits.count();
            if events > waited + by_trigger {
                let key = moved.row.key;
                return broken("taken", format!("run {key} has {events} events, {waited} waited"));
            }
        }
        Ok(())
    }

    /// Checks that only finished events expire, and only after their retention.
    pub(in super::super) fn events_go(&mut self, now: i64, keep: i64, handled: Handled) -> Checked {
        for topic in handled.topics {
            self.handling.topics.insert(topic.id, topic);
        }
        for (key, row) in handled.events {
            let Some(before) = self.handling.events.remove(&key) else { continue };
            let topic = self.handling.topics.get(&before.topic);
            let workflow = topic.and_then(|topic| self.workflows.get(&topic.workflow?));
            let keep = workflow.and_then(|workflow| workflow.retention).unwrap_or(keep);
            let is_done = matches!(before.state, Consumed | Skipped);
            if row.is_some() || !is_done || before.updated_at >= now - keep {
                return broken("expiry", format!("{before:?} was removed at {now}"));
            }
            self.count(&before, -1);
            self.handling.ids.remove(&(before.topic, before.message_id));
        }
        for (run, _) in handled.mutations {
            self.handling.mutations.remove(&run);
        }
        if !handled.handlers.is_empty() || !handled.subscriptions.is_empty() {
            return broken("expiry", "handlers were changed".to_owned());
        }
        self.check_counts()
    }
}

fn skips(seen: &Seen<'_>, row: &EventRow) -> bool {
    match seen.command() {
        Some(Command::SkipEvent { topic, message_id, .. }) => {
            topic.0 == row.topic && *message_id == row.message_id
        }
        _ => false,
    }
}
