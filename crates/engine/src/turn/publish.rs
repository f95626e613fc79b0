//! Workflows within a turn: their revisions, and the schedules that their triggers declare.

use std::collections::HashMap;
use std::sync::Arc;

use calendar::Mistake;
use jiff::Timestamp;
use language::Rules;
use language::definition::handlers::producer_of_trigger;
use language::definition::{Definition, Trigger, TriggerKind};
use language::policy::overlap::IfBusy;
use language::schedule::{Declared, read_written};

use super::children::Purpose;
use super::command::{Answer, Asked, NewRun, NewSchedule, Refused, Starter, unknown_workflow};
use super::{
    Change, IncidentWrite, Notice, Revision, TransactionReader, Turn, Workflow, WorkflowStatus,
};
use crate::ids::WorkflowId;
use crate::incidents::{How, IncidentEnd};
use crate::schedule::{Input, Schedule, Status};
use crate::stop::{Stop, refuse, unless_refused};

impl<B: TransactionReader> Turn<'_, B> {
    pub(super) fn save_workflow(
        &mut self,
        source: String,
        definition: &Arc<Definition>,
        publish: bool,
        folder: Option<String>,
    ) -> Asked<B::Error> {
        let now = self.context.moment.now;
        let known = self.reader.workflow_named(&definition.name)?;
        let (id, is_new) = match known {
            Some(id) => (id, false),
            None => (self.reader.new_workflow_id(), true),
        };
        if is_new {
            self.loaded.workflows.insert_new(Workflow {
                id,
                name: definition.name.clone(),
                status: WorkflowStatus::Draft,
                paused: false,
                paused_reason: None,
                paused_by: None,
                handling: None,
                newest: 0,
                live: None,
                concurrency: None,
                active: 0,
                retention: None,
                incident: None,
                created_at: now,
                updated_at: now,
            });
        }
        let Some(known) = self.load_workflow(id)? else { return refuse(unknown_workflow(id)) };
        let newest = known.newest;
        let same = match newest {
            0 => false,
            newest => {
                let known = self.definition_if_readable(id, newest)?;
                known.is_some_and(|known| known == *definition)
            }
        };
        let revision = if same { newest } else { newest + 1 };
        if !same {
            self.loaded.definitions.insert((id, revision), definition.clone());
            let definition = definition.clone();
            self.output.writes.revisions.push(Revision {
                workflow: id,
                revision,
                source,
                definition,
                folder,
                created_at: now,
            });
            let workflow = self.workflow_mut(id)?;
            workflow.newest = revision;
            workflow.updated_at = now;
        }
        if publish {
            self.publish(id, revision)?;
        }
        self.output.notices.push(Notice::Workflow { id });
        Ok(Answer::Workflow { id, revision, is_new })
    }

    pub(super) fn publish_newest(&mut self, id: WorkflowId) -> Asked<B::Error> {
        let Some(known) = self.load_workflow(id)? else { return refuse(unknown_workflow(id)) };
        let revision = known.newest;
        self.publish(id, revision)?;
        self.output.notices.push(Notice::Workflow { id });
        Ok(Answer::Workflow { id, revision, is_new: false })
    }

    /// Makes a revision live, and updates the schedules of its triggers.
    fn publish(&mut self, id: WorkflowId, revision: u32) -> Result<(), Stop<Refused, B::Error>> {
        let definition = self.definition(id, revision)?;
        let now = self.context.moment.now;
        let declared = declared_schedules(&definition, self.context.rules, now);
        let declared = declared.map_err(|invalid| Stop::Refused(Refused::Invalid(invalid)))?;
        let live = self.load_workflow(id)?.and_then(|workflow| workflow.live);
        let before = match live {
            Some(live) => self.definition_if_readable(id, live)?,
            None => None,
        };
        let limited = definition.concurrency.is_some();
        let active = if limited { self.active_processes(id)? } else { 0 };
        let workflow = self.workflow_mut(id)?;
        if limited && workflow.concurrency.is_none() {
            workflow.active = u32::try_from(active).unwrap_or(u32::MAX);
        }
        workflow.concurrency = definition.concurrency;
        workflow.retention = definition.retention;
        workflow.live = Some(revision);
        workflow.status = WorkflowStatus::Published;
        workflow.updated_at = now;
        self.capacity.rescan = true;
        // An earlier revision that cannot be read may have had handlers.
        let had_handlers = before.as_ref().map_or(live.is_some(), |before| before.hears());
        if definition.hears() || had_handlers {
            self.move_handlers(id, &definition)?;
        }
        self.move_schedules(id, declared, before.as_deref())?;
        Ok(())
    }

    /// Stops or restarts the clocks of deadlines that do not count while the workflow is paused.
    fn hold_clocks(&mut self, id: WorkflowId, live: Option<u32>) -> Result<(), B::Error> {
        let live = match live {
            Some(live) => self.definition_if_readable(id, live)?,
            None => None,
        };
        if !live.is_some_and(|live| live.has_pausable_deadline()) {
            return Ok(());
        }
        for key in self.reader.active_runs(id, usize::MAX)? {
            self.wake_run(key)?;
        }
        Ok(())
    }

    /// The number of active runs of a workflow, not counting handler runs.
    fn active_processes(&mut self, id: WorkflowId) -> Result<usize, B::Error> {
        let mut active = 0;
        for key in self.reader.active_runs(id, usize::MAX)? {
            self.load_run(key)?;
            let handles = self.loaded.runs.get(key).is_some_and(|run| run.handler.is_some());
            active += usize::from(!handles);
        }
        Ok(active)
    }

    /// Updates schedules to the new triggers: an unchanged trigger keeps its next time and
    /// counters, a changed one is recomputed, a removed one is deleted, a new one is created.
    fn move_schedules(
        &mut self,
        id: WorkflowId,
        declared: Vec<(Trigger, Box<Declared>)>,
        before: Option<&Definition>,
    ) -> Result<(), B::Error> {
        let known = self.reader.triggered_schedules(id)?;
        let mut known: HashMap<String, Box<Schedule>> = known
            .into_iter()
            .filter_map(|schedule| Some((schedule.trigger.clone()?, schedule)))
            .collect();
        for (trigger, declared) in declared {
            match known.remove(&trigger.id) {
                None => self.new_trigger(id, trigger, declared)?,
                Some(schedule) => self.known_trigger(schedule, &trigger, declared, before)?,
            }
        }
        for schedule in known.into_values() {
            if self.load_schedule(schedule.id)?
                && self.loaded.schedules.change(schedule.id, Change::Deleted).is_some()
            {
            }
        }
        Ok(())
    }

    fn new_trigger(
        &mut self,
        workflow: WorkflowId,
        trigger: Trigger,
        declared: Box<Declared>,
    ) -> Result<(), B::Error> {
        // The declaration was just checked with the same rules.
        let Ok(plan) = declared.plan(self.context.rules, self.context.moment.now, "") else {
            return Ok(());
        };
        let produces = producer_of_trigger(&trigger.id).is_some();
        let new = NewSchedule { workflow, trigger: Some(trigger.id), declared };
        let id = self.create_schedule(new, plan);
        if !trigger.enabled {
            let schedule = self.schedule_mut(id, Change::Declaration)?;
            schedule.status = Status::Paused;
            schedule.progress.next = None;
        }
        if produces {
            // A new producer runs at once.
            let run = NewRun {
                id: self.derived_id(crate::ids::RunKey(id.0), Purpose::FirstProduce as u64, 0),
                payload: None,
                by: Starter::Publish,
                trace: None,
                if_busy: IfBusy::Wait,
            };
            unless_refused(self.decide_schedule(id, Input::Start(IfBusy::Wait), Some(&run)))?;
        }
        Ok(())
    }

    fn known_trigger(
        &mut self,
        schedule: Box<Schedule>,
        trigger: &Trigger,
        declared: Box<Declared>,
        before: Option<&Definition>,
    ) -> Result<(), B::Error> {
        let id = schedule.id;
        if declared != schedule.declared {
            unless_refused(self.decide_schedule(id, Input::Edit(declared), None))?;
        }
        // A trigger that a person paused stays paused unless the new definition changes `enabled`.
        let producer = producer_of_trigger(&trigger.id);
        if producer.is_some_and(|name| before.is_some_and(|b| b.producer(name).is_some())) {
            return Ok(());
        }
        // If the earlier definition cannot be read, the engine cannot tell what a person paused, so
        // the schedule keeps its status.
        if before.is_none() && trigger.enabled {
            return Ok(());
        }
        let old = before.and_then(|b| b.triggers.iter().find(|known| known.id == trigger.id));
        if old.is_none_or(|old| old.enabled != trigger.enabled) {
            let input = match trigger.enabled {
                true => Input::Resume { catch_up: false },
                false => Input::Pause,
            };
            // The schedule refuses if it already has that status, which is fine.
            unless_refused(self.decide_schedule(id, input, None))?;
        }
        Ok(())
    }

    pub(super) fn archive_workflow(&mut self, id: WorkflowId) -> Asked<B::Error> {
        let now = self.context.moment.now;
        let Some(workflow) = self.load_workflow(id)? else { return refuse(unknown_workflow(id)) };
        let (revision, status) = (workflow.newest, workflow.status);
        if status == WorkflowStatus::Archived {
            let message = format!("Workflow {} is archived already.", workflow.name);
            return refuse(Refused::WrongStatus(message));
        }
        let workflow = self.workflow_mut(id)?;
        let live = workflow.live.take();
        let incident = workflow.incident.take();
        workflow.status = WorkflowStatus::Archived;
        workflow.updated_at = now;
        if let Some(live) = live
            && self.definition_if_readable(id, live)?.is_none_or(|definition| definition.hears())
        {
            self.remove_handlers(id)?;
        }
        for schedule in self.reader.schedules_of(id)? {
            if self.load_schedule(schedule)?
                && self.loaded.schedules.change(schedule, Change::Deleted).is_some()
            {}
        }
        if let Some(key) = incident {
            let end = IncidentEnd::of_itself(How::Removed, now);
            self.output.writes.incidents.push(IncidentWrite::End(key, Box::new(end)));
        }
        self.output.notices.push(Notice::Workflow { id });
        Ok(Answer::Workflow { id, revision, is_new: false })
    }

    pub(super) fn pause_workflow(
        &mut self,
        id: WorkflowId,
        paused: bool,
        reason: Option<String>,
    ) -> Asked<B::Error> {
        let now = self.context.moment.now;
        let Some(workflow) = self.load_workflow(id)? else { return refuse(unknown_workflow(id)) };
        if workflow.paused == paused {
            let (verb, state) = if paused { ("pause", "paused") } else { ("resume", "not paused") };
            let message = format!("Cannot {verb} workflow that is {state}.");
            return refuse(Refused::WrongStatus(message));
        }
        if let Some(run) = workflow.paused_by.filter(|_| !paused) {
            let run = self.run_id(Some(run))?.map(|id| id.to_string()).unwrap_or_default();
            let message = format!(
                "Run {run} does not know what became of its mutation. Say so first: resolve it."
            );
            return refuse(Refused::Conflict(message));
        }
        let workflow = self.workflow_mut(id)?;
        workflow.paused = paused;
        workflow.paused_reason = reason.filter(|_| paused);
        workflow.updated_at = now;
        let (revision, live) = (workflow.newest, workflow.live);
        self.hold_clocks(id, live)?;
        // Pending handler runs may begin now, even if the workflow was archived meanwhile.
        self.capacity.rescan |= !paused;
        if let Some(live) = live.filter(|_| !paused)
            && let Some(definition) = self.definition_if_readable(id, live)?
            && definition.has_handlers()
        {
            self.resume_handlers(id)?;
        }
        self.output.notices.push(Notice::Workflow { id });
        Ok(Answer::Workflow { id, revision, is_new: false })
    }
}

/// A trigger or producer with the schedule that it declares.
pub type DeclaredSchedule = (Trigger, Box<Declared>);

/// The schedules that a definition declares: those of its triggers, then those of its producers.
/// Mistakes carry the index in this order.
pub fn declared_schedules(
    definition: &Definition,
    rules: &Rules,
    now: Timestamp,
) -> Result<Vec<DeclaredSchedule>, Vec<(usize, Vec<Mistake>)>> {
    let triggers = definition.triggers.iter().enumerate().filter_map(|(index, trigger)| {
        Some((index, trigger.clone(), definition.declaration(trigger)?))
    });
    let producers = (definition.triggers.len()..).zip(&definition.producers);
    let producers = producers.map(|(index, producer)| {
        let fields = definition.producer_declaration(producer);
        let kind = TriggerKind::Schedule { declaration: fields.clone() };
        let trigger = Trigger { id: producer.trigger(), kind, enabled: true, description: None };
        (index, trigger, fields)
    });
    let (mut declared, mut invalid) = (Vec::new(), Vec::new());
    for (index, trigger, fields) in triggers.chain(producers) {
        match declared_schedule(definition, &trigger, &fields, rules, now) {
            Ok(schedule) => declared.push((trigger, schedule)),
            Err(mistakes) => invalid.push((index, mistakes)),
        }
    }
    if invalid.is_empty() { Ok(declared) } else { Err(invalid) }
}

fn declared_schedule(
    definition: &Definition,
    trigger: &Trigger,
    fields: &serde_json::Map<String, serde_json::Value>,
    rules: &Rules,
    now: Timestamp,
) -> Result<Box<Declared>, Vec<Mistake>> {
    let text = serde_json::to_string(fields).unwrap_or_default();
    let mut declared = read_written(&text)?.declared;
    if declared.name.is_empty() {
        declared.name = format!("{}/{}", definition.name, trigger.id);
    }
    if declared.description.is_none() {
        declared.description.clone_from(&trigger.description);
    }
    declared.fill_for_definition(definition.timeout);
    declared.check(rules, now)?;
    Ok(declared)
}
