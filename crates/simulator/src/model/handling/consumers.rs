//! When consumers look for events, sleep and wake, and which handler is next.

use std::collections::BTreeMap;

use engine::handlers::MutationStatus;
use engine::run::{RunStatus, TriggeredBy};
use engine::topics::EventState;
use engine::turn::Command;
use language::definition::HandlerKind;

use super::published::Published;
use super::{Checked, Model, Seen, broken};
use crate::handlers::rows::{EventRow, HandlerRow};
use crate::model::quiet::Awake;
use crate::watch::RunRow;

const SHORTEST_SLEEP: i64 = 30_000;
const LONGEST_SLEEP: i64 = 24 * 3_600_000;
const LOOKS_AGAIN: i64 = 5 * 60_000;
const FIRST_RETRY: i64 = 10_000;
const LONGEST_RETRY: i64 = 600_000;

type Old = BTreeMap<i64, Option<HandlerRow>>;

impl HandlerRow {
    /// Whether the consumer would begin if its workflow were free.
    fn is_ready(&self) -> bool {
        let is_idle = self.run.is_none() && self.retry_at.is_none();
        self.kind == HandlerKind::Consumer && is_idle && self.cause.is_some()
    }

    fn has(&self, run: &RunRow) -> bool {
        run.workflow == self.workflow && run.handler.as_ref() == Some(&self.name)
    }
}

impl Model {
    pub(super) fn check_consumers(
        &mut self,
        seen: &Seen<'_>,
        old: &Old,
        published: &Published,
        listened: &BTreeMap<i64, Vec<i64>>,
    ) -> Checked {
        for gave in seen.gave.iter().filter(|gave| gave.phase == "prepare" && gave.is_done()) {
            let wake = gave.output["wakeAt"].as_i64();
            let ids = gave.output["reservations"].as_array().into_iter().flatten();
            let count = ids.filter_map(|of| of["ids"].as_array()).map(Vec::len).sum();
            self.handling.prepared.insert(gave.before.key, (count, wake));
        }
        self.handling.credit.retain(|id, _| self.handling.handlers.contains_key(id));
        let consumers = self.handling.handlers.values();
        let consumers = consumers.filter(|row| row.kind == HandlerKind::Consumer);
        let consumers: Vec<HandlerRow> = consumers.cloned().collect();
        for row in &consumers {
            let before = match old.get(&row.id) {
                Some(before) => before.clone(),
                None => Some(row.clone()),
            };
            let (called, must) = self.causes(seen, row, before.as_ref(), published, listened);
            let mut credit = self.handling.credit.get(&row.id).copied().unwrap_or(0) + called;
            let created = seen.moved.iter().filter(|moved| moved.is_new && row.has(&moved.row));
            let created = created.count() as u32;
            let is_given_up = self.is_given_up(seen, row, before.as_ref(), created);
            credit += u32::from(is_given_up);
            if created > credit {
                return broken("causes", format!("{row:?} looks without a cause"));
            }
            credit -= created;
            let was_called = before.as_ref().is_some_and(|before| before.cause.is_some());
            // A pending run that begins now serves as the look.
            let begins = seen.moved.iter().any(|moved| moved.has_begun && row.has(&moved.row));
            let need_not = begins || is_given_up && !self.has_pending(row);
            if (must || was_called) && row.cause.is_none() && created == 0 && !need_not {
                return broken("causes", format!("{row:?} was called, and does not look"));
            }
            if row.cause.is_some() && credit == 0 {
                return broken("causes", format!("{row:?} is called by nobody"));
            }
            if row.cause.is_none() {
                credit = 0;
            }
            self.handling.credit.insert(row.id, credit);
            self.check_sleep(seen, row, before.as_ref(), created > 0)?;
            self.check_retry(seen, row, before.as_ref())?;
        }
        Ok(())
    }

    /// How many causes there were for a consumer to look, and whether one of them must not be
    /// forgotten.
    fn causes(
        &self,
        seen: &Seen<'_>,
        row: &HandlerRow,
        before: Option<&HandlerRow>,
        published: &Published,
        listened: &BTreeMap<i64, Vec<i64>>,
    ) -> (u32, bool) {
        let hears = |of: &BTreeMap<i64, Vec<i64>>, topic: &i64| {
            of.get(topic).is_some_and(|consumers| consumers.contains(&row.id))
        };
        let told = published.iter().filter(|(topic, _)| {
            hears(&self.handling.subscriptions, topic) || hears(listened, topic)
        });
        let told: u32 = told.map(|(_, times)| times).sum();
        let is_past = |at: Option<i64>| at.is_some_and(|at| at <= seen.now);
        let woken = before.map_or(0, |before| {
            let slept = is_past(before.wake_at) && row.wake_at != before.wake_at;
            u32::from(slept)
                + u32::from(is_past(before.retry_at) && row.retry_at != before.retry_at)
        });
        let by_hand = match seen.command() {
            Some(Command::StartHandler { id, handler, .. }) => {
                id.0 == row.workflow && *handler == row.name
            }
            Some(Command::StartWorkflow { id, .. }) => id.0 == row.workflow,
            Some(Command::PauseWorkflow { id, paused: false, .. }) => {
                let waits = before.is_some_and(|old| old.failures > 0 || old.resumes.is_some());
                id.0 == row.workflow && waits
            }
            _ => false,
        };
        let own = seen.moved.iter().filter(|moved| row.has(&moved.row));
        let ended: Vec<&RunRow> =
            own.map(|moved| &moved.row).filter(|run| run.status.has_ended()).collect();
        let failed = ended.iter().any(|run| run.status != RunStatus::Succeeded);
        let is_new = before.is_none();
        let all = told + woken + u32::from(by_hand) + ended.len() as u32 + u32::from(is_new);
        let started = matches!(seen.command(), Some(Command::StartHandler { .. })) && by_hand;
        (all, told > 0 || woken > 0 || started || failed)
    }

    /// Whether somebody gave up what a consumer was to resume: an ended run whose mutation was
    /// made, or a run that is cancelled after its mutation. Its failure is no longer a cause to
    /// look, but pending events are.
    fn is_given_up(
        &self,
        seen: &Seen<'_>,
        row: &HandlerRow,
        before: Option<&HandlerRow>,
        created: u32,
    ) -> bool {
        let resumed = before.is_some_and(|before| before.resumes.is_some());
        let is_cancelled = |run: &RunRow| {
            let mutation = self.handling.mutations.get(&run.key);
            let is_mutated =
                matches!(mutation, Some(MutationStatus::Applied | MutationStatus::Skipped));
            run.status == RunStatus::Cancelled && is_mutated
        };
        let mut own = seen.moved.iter().map(|moved| &moved.row).filter(|run| row.has(run));
        resumed && row.resumes.is_none() && created == 0 || own.any(is_cancelled)
    }

    /// Whether there is a pending event that the consumer could work on.
    fn has_pending(&self, row: &HandlerRow) -> bool {
        let mut events = self.handling.events.values();
        events.any(|event| event.state == EventState::Pending && self.hears(row, event.topic))
    }

    /// Checks that a consumer sleeps for as long as it said, within limits.
    fn check_sleep(
        &self,
        seen: &Seen<'_>,
        row: &HandlerRow,
        before: Option<&HandlerRow>,
        looks: bool,
    ) -> Checked {
        let now = seen.now;
        let mut own = seen.moved.iter().map(|moved| &moved.row).filter(|run| row.has(run));
        let done = own.rfind(|run| run.status == RunStatus::Succeeded);
        let was = before.and_then(|before| before.wake_at);
        let Some(run) = done.filter(|_| !looks) else {
            let is_over = row.wake_at.is_none() && (looks || was.is_some_and(|at| at <= now));
            if row.wake_at != was && !is_over {
                return broken("wake", format!("{row:?} slept until {was:?}, and had no run"));
            }
            return Ok(());
        };
        let (count, wake) = self.handling.prepared.get(&run.key).copied().unwrap_or_default();
        let pending = self.pending_before(row, now);
        let expected = match wake {
            Some(at) => vec![Some(at.clamp(now + SHORTEST_SLEEP, now + LONGEST_SLEEP))],
            None if count > 0 => vec![None],
            None if pending => vec![Some(now + LOOKS_AGAIN)],
            None => vec![None, Some(now + LOOKS_AGAIN)],
        };
        if expected.contains(&row.wake_at) {
            Ok(())
        } else {
            broken("wake", format!("{row:?} at {now}, expected {expected:?}"))
        }
    }

    /// Whether an event was pending before this commit that the consumer could work on.
    fn pending_before(&self, row: &HandlerRow, now: i64) -> bool {
        let events = self.handling.events.values();
        let mut pending = events.filter(|event| event.state == EventState::Pending);
        pending.any(|event| event.updated_at != now && self.hears(row, event.topic))
    }

    fn hears(&self, row: &HandlerRow, topic: i64) -> bool {
        let consumers = self.handling.subscriptions.get(&topic);
        consumers.is_some_and(|consumers| consumers.contains(&row.id))
    }

    /// Checks the backoff: 10 s, 20 s, 40 s, …, and at most 10 minutes.
    fn check_retry(
        &self,
        seen: &Seen<'_>,
        row: &HandlerRow,
        before: Option<&HandlerRow>,
    ) -> Checked {
        let was = before.and_then(|before| before.retry_at);
        let Some(at) = row.retry_at.filter(|_| row.retry_at != was) else { return Ok(()) };
        let doubled = FIRST_RETRY << row.failures.saturating_sub(1).min(20);
        let expected = seen.now + doubled.min(LONGEST_RETRY);
        let failed = before.map_or(0, |before| before.failures) + 1;
        if at == expected && row.failures == failed && row.failures <= 5 {
            Ok(())
        } else {
            broken("retry", format!("{row:?}, expected {expected} after {failed}"))
        }
    }

    /// Checks that handlers run one at a time, and the right one: consumers before producers, the
    /// oldest event first.
    pub(super) fn check_turns(&self, seen: &Seen<'_>, old: &Old) -> Checked {
        for moved in seen.moved.iter().filter(|moved| moved.row.handler.is_some()) {
            let (run, workflow) = (&moved.row, moved.row.workflow);
            let others = self.runs.values().filter(|other| other.workflow == workflow);
            let others = others.filter(|other| other.handler.is_some());
            let active: Vec<i64> = others
                .filter(|other| other.status != RunStatus::Pending)
                .map(|other| other.key)
                .collect();
            if active.len() > 1 {
                return broken("turns", format!("workflow {workflow} handles {active:?}"));
            }
            let asked_for = run.triggered_by == TriggeredBy::Manual;
            let by_hand = matches!(
                seen.command(),
                Some(Command::StartHandler { .. } | Command::StartWorkflow { .. })
            );
            if asked_for || by_hand || !(moved.has_begun || moved.is_new && run.consumes()) {
                continue;
            }
            self.check_next(seen, old, run)?;
        }
        Ok(())
    }

    fn check_next(&self, seen: &Seen<'_>, old: &Old, run: &RunRow) -> Checked {
        let handlers = self.handling.handlers.values();
        let of = handlers.filter(|row| row.workflow == run.workflow && row.is_ready());
        let known = |row: &&HandlerRow| {
            let before = old.get(&row.id).map_or(Some(*row), |before| before.as_ref());
            before.is_some_and(HandlerRow::is_ready)
        };
        // A run that was chosen earlier only begins now.
        let is_new = seen.of(run.key).is_some_and(|moved| moved.is_new);
        let is_paused = self.workflows.get(&run.workflow).is_none_or(|row| row.paused);
        for waiting in of.filter(known).filter(|_| !is_paused) {
            if !run.consumes() {
                let message = format!("producer's run {} begins before {waiting:?}", run.key);
                return broken("next", message);
            }
            let chosen = self.handling.handlers.values().find(|row| row.has(run));
            let Some(chosen) = chosen.filter(|_| is_new) else { continue };
            let first = self.oldest_chosen(chosen, seen.now);
            let other = self.oldest(waiting, seen.now);
            if other.is_some_and(|other| first.is_none_or(|first| other < first)) {
                let message =
                    format!("{chosen:?} ({first:?}) begins before {waiting:?} ({other:?})");
                return broken("next", message);
            }
        }
        Ok(())
    }

    /// When the oldest pending event that a consumer could work on was published, without those of
    /// this very instant.
    fn oldest(&self, row: &HandlerRow, now: i64) -> Option<i64> {
        let events = self.handling.events.values();
        let pending = events.filter(|event| event.state == EventState::Pending);
        let old = pending.filter(|event| event.created_at != now);
        old.filter(|event| self.hears(row, event.topic)).map(|event| event.created_at).min()
    }

    /// The same for a consumer that was chosen. Events that this commit published may be older, if
    /// the clock was set back, and events that were pending may have been reserved since by a
    /// consumer of another workflow.
    fn oldest_chosen(&self, row: &HandlerRow, now: i64) -> Option<i64> {
        let was_pending =
            |event: &&EventRow| event.state == EventState::Pending || event.updated_at == now;
        let events = self.handling.events.values().filter(was_pending);
        events.filter(|event| self.hears(row, event.topic)).map(|event| event.created_at).min()
    }

    /// Checks that no ready consumer waits while its workflow is free, and none oversleeps.
    pub(in super::super) fn check_handlers_quiet(&self, awake: &Awake<'_>) -> Checked {
        for row in self.handling.handlers.values() {
            let workflow = self.workflows.get(&row.workflow);
            let is_open = workflow.is_some_and(|row| !row.paused && row.live.is_some());
            let is_free = self.has_the_turn(row.workflow).is_none();
            if is_open && is_free && row.is_ready() {
                return broken("ready", format!("{row:?} is ready, and nothing is in its way"));
            }
            let Some(due) = row.retry_at.or(row.wake_at) else { continue };
            if due <= awake.now {
                return broken("late", format!("{row:?} was to be looked at by {due}"));
            }
            if awake.alarm.is_none_or(|alarm| alarm > due) {
                return broken("alarm", format!("{row:?}: the alarm is {:?}", awake.alarm));
            }
        }
        Ok(())
    }
}
