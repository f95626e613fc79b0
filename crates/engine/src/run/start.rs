//! What a part does when it begins, by the type of its action.

use language::definition::handlers::MUTATE;
use language::definition::{Action, Definition, HumanApproval, SubProcess};
use serde_json::value::RawValue;

use super::decide::Decider;
use super::input::{Approval, NewChild, Part, Queueing, Retryability, RunHistory};
use super::item::Item;
use super::state::ActivityStatus;
use super::stored_input::StoredInput;
use crate::turn::Damaged;

impl<F: RunHistory> Decider<'_, F> {
    pub(super) fn part(&self, at: usize) -> Part {
        let active = &self.run.state.active[at];
        Part { step: active.step, item: active.item }
    }

    /// Begins a ready part for which [`Self::can_start`] holds.
    pub(super) fn start(&mut self, at: usize) -> Result<(), F::Error> {
        let Part { step, item } = self.part(at);
        let definition = self.definition;
        let Some(action) = action_of(definition, Part { step, item }) else {
            let error = self.error(step, "definition", "the definition has no such step");
            return self.failed(at, error, Retryability::Permanent, None);
        };
        match action {
            Action::Noop if self.capacity.ends_noops => self.end_noop(at),
            Action::Noop
            | Action::Http(_)
            | Action::Exec(_)
            | Action::Script(_)
            | Action::Notification(_) => {
                self.perform(at);
                Ok(())
            }
            Action::Publish(publish) => self.publish(at, publish),
            Action::WaitFor(wait) => self.wait_for(at, wait),
            Action::Mutation => self.start_mutation(at),
            Action::Worker(worker) => {
                self.queue(at, worker.queue.clone());
                Ok(())
            }
            Action::AgentTask(task) => {
                self.queue(at, task.queue());
                Ok(())
            }
            Action::Timer(timer) => self.start_timer(at, timer),
            Action::HumanApproval(approval) => self.ask(at, approval),
            Action::Gateway(gateway) => self.route(at, gateway),
            Action::SubProcess(child) => self.start_child(at, child),
            Action::ForEach(each) => self.start_items(at, each),
        }
    }

    /// Hands the mutation that the mutate phase asks for to a node, or to a worker if it names a
    /// queue.
    fn start_mutation(&mut self, at: usize) -> Result<(), F::Error> {
        #[derive(serde::Deserialize)]
        struct MutationRequest {
            queue: Option<String>,
        }
        let missing = || Damaged(format!("run {} has no {MUTATE} phase", self.run.id));
        let before = self.graph.index(MUTATE).ok_or_else(missing)?;
        let record = self.known_record(before)?;
        let output = record.as_ref().and_then(|record| record.output.as_deref());
        match output.map(|output| serde_json::from_str(output.get())) {
            Some(Ok(MutationRequest { queue: Some(queue) })) => self.queue(at, queue),
            _ => self.perform(at),
        }
        Ok(())
    }

    fn new_token(&mut self) -> u32 {
        self.run.state.token += 1;
        self.run.state.token
    }

    fn perform(&mut self, at: usize) {
        *self.capacity.free = self.capacity.free.saturating_sub(1);
        let attempt = self.begin_attempt(at);
        self.decision.perform.push(attempt);
    }

    /// Begins and ends a part that does nothing.
    fn end_noop(&mut self, at: usize) -> Result<(), F::Error> {
        let (part, token) = self.begin_attempt(at);
        self.decision.noops.push(token);
        let output = RawValue::NULL;
        match part.item {
            Item::Reconciling => self.reconciled(at, output),
            _ => self.succeeded(at, output.to_owned()),
        }
    }

    fn begin_attempt(&mut self, at: usize) -> (Part, u32) {
        let (token, part) = (self.new_token(), self.part(at));
        let active = &mut self.run.state.active[at];
        active.attempt += 1;
        let (since, owner) = (self.stamp, self.capacity.node);
        active.status = ActivityStatus::Performed { token, since, owner };
        if part.item == Item::Whole {
            self.watch_started_step(part.step);
        }
        (part, token)
    }

    fn queue(&mut self, at: usize, queue: String) {
        let part = self.part(at);
        self.decision.queueing.push(Queueing::Put(queue.clone(), part));
        self.run.state.active[at].status = ActivityStatus::Queued { queue };
    }

    fn ask(&mut self, at: usize, asked: &HumanApproval) -> Result<(), F::Error> {
        let step = self.run.state.active[at].step;
        let rendered = self.with_scope(step, |scope| {
            let text = |template: &str| language::expression::text(template, scope);
            let description = asked.description.as_deref().map(text).transpose()?;
            let assignees = asked.assignees.iter().map(|who| text(who));
            Ok((text(&asked.title)?, description, assignees.collect::<Result<Vec<_>, _>>()?))
        });
        let (title, description, assignees) = match rendered {
            Ok(rendered) => rendered,
            Err(stop) => return self.failed(at, stop.refusal()?, Retryability::Permanent, None),
        };
        let active = &mut self.run.state.active[at];
        active.attempt += 1;
        active.status = ActivityStatus::Asked { since: self.stamp, assignees: assignees.clone() };
        self.watch_started_step(step);
        self.decision.approvals.push(Approval { step, title, description, assignees });
        Ok(())
    }

    fn start_child(&mut self, at: usize, child: &SubProcess) -> Result<(), F::Error> {
        let part = self.part(at);
        let payload = match &child.input_mapping {
            None => Ok(self.own_payload()),
            Some(mapping) => {
                let value = serde_json::to_value(mapping).unwrap_or_default();
                self.with_part_scope(part, |scope| {
                    Ok(raw(&language::expression::value(&value, scope)?))
                })
            }
        };
        let payload = match payload {
            Ok(payload) => payload,
            Err(stop) => return self.failed(at, stop.refusal()?, Retryability::Permanent, None),
        };
        let (token, key, since) = (self.new_token(), self.history.new_run_key(), self.stamp);
        let waits = child.wait_for_completion;
        self.run.state.active[at].attempt += 1;
        self.run.state.active[at].status = ActivityStatus::Child { token, since, run: key };
        self.watch_started_step(part.step);
        let workflow = child.workflow.clone();
        let attempt = self.run.state.active[at].attempt;
        let child_run = NewChild { key, part, attempt, since, workflow, payload, token, waits };
        self.decision.children.push(child_run);
        Ok(())
    }

    /// The payload in this run's input.
    pub(super) fn own_payload(&self) -> Box<RawValue> {
        StoredInput::of(self.run).payload_for(self.definition)
    }
}

/// The action of a part.
pub fn action_of(definition: &Definition, part: Part) -> Option<&Action> {
    let step = definition.steps.get(part.step as usize)?;
    match (part.item, &step.action) {
        (Item::Undoing, _) => step.compensation.as_ref().map(|undoing| &undoing.action),
        (Item::Reconciling, _) => step.reconcile.as_deref(),
        (Item::Whole, action) => Some(action),
        (_, Action::ForEach(each)) => Some(&each.action),
        (_, _) => None,
    }
}

pub(super) fn raw(value: &serde_json::Value) -> Box<RawValue> {
    serde_json::value::to_raw_value(value).unwrap_or_else(|_| RawValue::NULL.to_owned())
}
