//! Checks what is published, and what handlers keep: both only when their run succeeds.

use std::collections::BTreeMap;

use engine::run::{RunStatus, StepState};
use engine::turn::Command;
use language::definition::Action;
use serde_json::Value;

use super::{Checked, Model, Seen, broken};
use crate::handlers::rows::{EventRow, HandlerRow};
use crate::model::Violation;
use crate::watch::RunRow;

/// How often events were published to each topic.
pub(super) type Published = BTreeMap<i64, u32>;

impl Model {
    /// Checks that every new event was published by someone allowed to, and that everything
    /// published is stored.
    pub(super) fn check_published(
        &mut self,
        seen: &Seen<'_>,
        changed: &[(i64, Option<EventRow>)],
        old: &BTreeMap<i64, Option<HandlerRow>>,
    ) -> Result<Published, Violation> {
        let mut told: Vec<(i64, String)> = Vec::new();
        let mut published = Published::new();
        if let Some(Command::PublishEvents { topic, events }) = seen.command() {
            let ids = events.iter().map(|message| (topic.0, message.message_id.clone()));
            told.extend(ids);
            *published.entry(topic.0).or_default() += 1;
        }
        for gave in &seen.gave {
            let publishes = gave.phase == "handler" || gave.phase == "next";
            if !publishes || gave.after.status != RunStatus::Succeeded {
                continue;
            }
            let all = gave.output["publish"].as_array().cloned().unwrap_or_default();
            let mut topics = Vec::new();
            for event in &all {
                let (Some(topic), Some(id)) =
                    (event["topic"].as_str(), event["messageId"].as_str())
                else {
                    continue;
                };
                let Some(topic) = self.topic_of(gave.after.workflow, topic) else { continue };
                told.push((topic, id.to_owned()));
                topics.push(topic);
            }
            topics.sort_unstable();
            topics.dedup();
            topics.into_iter().for_each(|topic| *published.entry(topic).or_default() += 1);
        }
        for (topic, id) in self.by_steps(seen) {
            told.push((topic, id));
            *published.entry(topic).or_default() += 1;
        }
        self.check_states(seen, old)?;
        if let Some((topic, id)) =
            told.iter().find(|message| !self.handling.ids.contains_key(*message))
        {
            return broken(
                "lost",
                format!("{id} was published to topic {topic}, and is not there"),
            );
        }
        for (key, _) in changed.iter().filter(|(_, before)| before.is_none()) {
            let Some(row) = self.handling.events.get(key) else { continue };
            let message = (row.topic, row.message_id.clone());
            if !told.contains(&message) {
                return broken("published", format!("nobody has published {row:?}"));
            }
        }
        Ok(published)
    }

    /// The topic that a name means in a workflow.
    fn topic_of(&self, workflow: i64, name: &str) -> Option<i64> {
        let means = |owner: Option<i64>| owner.is_none_or(|owner| owner == workflow);
        let all = self.handling.topics.values();
        let mut named = all.filter(|topic| topic.name == name && means(topic.workflow));
        named.next().map(|topic| topic.id)
    }

    /// What steps have published: such a step completes in the commit that publishes.
    fn by_steps(&self, seen: &Seen<'_>) -> Vec<(i64, String)> {
        let mut told = Vec::new();
        for moved in seen.moved.iter().filter(|moved| moved.row.handler.is_none()) {
            let Some(whole) = &moved.row.whole else { continue };
            // In a retry, steps that an earlier run completed publish nothing.
            if moved.is_new && moved.row.retry_of.is_some() {
                continue;
            }
            for (at, step) in (0..).zip(&whole.steps) {
                let is_done = |run: &RunRow| run.state.states.of(at) == StepState::Completed;
                if !is_done(&moved.row) || moved.before.as_ref().is_some_and(is_done) {
                    continue;
                }
                let Action::Publish(publish) = &step.action else { continue };
                let own = format!("{}/{}", moved.row.id(), step.id);
                let id = publish.message_id.clone().unwrap_or(own);
                let topic = self.topic_of(moved.row.workflow, &publish.topic);
                told.extend(topic.map(|topic| (topic, id)));
            }
        }
        told
    }

    /// Checks that a handler's state changes only when one of its runs succeeds, to what that run
    /// returned.
    fn check_states(&self, seen: &Seen<'_>, old: &BTreeMap<i64, Option<HandlerRow>>) -> Checked {
        for (id, before) in old {
            let Some(row) = self.handling.handlers.get(id) else { continue };
            let before = before.as_ref().map_or("null", |before| before.state.as_str());
            let given = seen.gave.iter().rev().find(|gave| {
                let run = gave.after;
                let ends = gave.phase == "handler" || gave.phase == "next";
                let is_its =
                    run.workflow == row.workflow && run.handler.as_ref() == Some(&row.name);
                ends && is_its && run.status == RunStatus::Succeeded
            });
            let given = given.map(|gave| &gave.output["state"]).filter(|state| !state.is_null());
            let expected = given.map_or_else(|| before.to_owned(), Value::to_string);
            if row.state != expected {
                let (name, state) = (&row.name, &row.state);
                return broken("state", format!("{name} keeps {state}, expected {expected}"));
            }
        }
        Ok(())
    }
}
