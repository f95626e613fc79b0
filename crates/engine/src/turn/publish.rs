//! Workflows within a turn: their revisions, and the schedules that their triggers declare.

use std::collections::HashMap;
use std::sync::Arc;

use calendar::Mistake;
use jiff::Timestamp;
use language::Rules;
use language::definition::{DeclaredBy, Definition};
use language::policy::overlap::IfBusy;
use language::schedule::{Declared, read_written};

use super::children::Purpose;
use super::command::{
    Answer, CommandResult, NewRun, NewSchedule, Refused, Starter, unknown_workflow,
};
use super::worklist::Work;
use super::{
    Change, Damaged, IncidentWrite, Notice, Revision, TransactionReader, Turn, Workflow,
    WorkflowStatus,
};
use crate::ids::WorkflowId;
use crate::incidents::{How, IncidentEnd};
use crate::run;
use crate::schedule::{Input, Schedule, Status};
use crate::stop::{Stop, refuse};

impl<B: TransactionReader> Turn<'_, B> {
    pub(super) fn save_workflow(
        &mut self,
        source: String,
        definition: &Arc<Definition>,
        publish: bool,
        folder: Option<String>,
    ) -> CommandResult<B::Error> {
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

    /// Publishes the revision that `which` chooses.
    pub(super) fn publish_workflow(
        &mut self,
        id: WorkflowId,
        which: impl FnOnce(&Workflow) -> Option<u32>,
    ) -> CommandResult<B::Error> {
        let Some(known) = self.load_workflow(id)? else { return refuse(unknown_workflow(id)) };
        let Some(revision) = which(known) else {
            let message = "Cannot publish workflow that has no such revision.".to_owned();
            return refuse(Refused::WrongStatus(message));
        };
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

    /// Stops or restarts the clocks of deadlines that do not count while the workflow is paused:
    /// those of all active runs in this turn, since a run that is left for a later one would count
    /// the time in between.
    fn hold_clocks(&mut self, id: WorkflowId, live: Option<u32>) -> Result<(), B::Error> {
        let live = match live {
            Some(live) => self.definition_if_readable(id, live)?,
            None => None,
        };
        if !live.is_some_and(|live| live.has_pausable_deadline()) {
            return Ok(());
        }
        for key in self.reader.active_runs(id, usize::MAX)? {
            self.worklist.add(Work::Tell(key, run::Input::Wake));
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
        declared: Vec<DeclaredSchedule>,
        before: Option<&Definition>,
    ) -> Result<(), B::Error> {
        let known = self.reader.triggered_schedules(id)?;
        let mut known: HashMap<DeclaredBy, Box<Schedule>> = known
            .into_iter()
            .filter_map(|schedule| Some((schedule.declared_by.clone()?, schedule)))
            .collect();
        for declared in declared {
            match known.remove(&declared.by) {
                None => self.new_trigger(id, declared)?,
                Some(schedule) => self.known_trigger(schedule, declared, before)?,
            }
        }
        for schedule in known.into_values() {
            self.delete_schedule(schedule.id)?;
        }
        Ok(())
    }

    fn new_trigger(
        &mut self,
        workflow: WorkflowId,
        declared: DeclaredSchedule,
    ) -> Result<(), B::Error> {
        let DeclaredSchedule { by, enabled, declared } = declared;
        let plan = declared.plan(self.context.rules, self.context.moment.now, "");
        let unplanned = |_| Damaged(format!("schedule {by} was checked, and has no plan"));
        let plan = plan.map_err(unplanned)?;
        let produces = by.producer().is_some();
        let new = NewSchedule { workflow, declared_by: Some(by), declared };
        let id = self.create_schedule(new, plan);
        if !enabled {
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
            let input = Input::Start(IfBusy::Wait);
            self.worklist.add(Work::Schedule(id, input, Some(Box::new(run))));
        }
        Ok(())
    }

    fn known_trigger(
        &mut self,
        schedule: Box<Schedule>,
        declared: DeclaredSchedule,
        before: Option<&Definition>,
    ) -> Result<(), B::Error> {
        let id = schedule.id;
        let DeclaredSchedule { by, enabled, declared } = declared;
        if declared != schedule.declared {
            self.worklist.add(Work::Schedule(id, Input::Edit(declared), None));
        }
        // A trigger that a person paused stays paused unless the new definition changes `enabled`.
        let was_enabled = before.and_then(|before| match &by {
            DeclaredBy::Trigger(id) => {
                before.triggers.iter().find(|known| known.id == *id).map(|known| known.enabled)
            }
            DeclaredBy::Producer(name) => before.producer(name).map(|_| true),
        });
        // If the earlier definition cannot be read, the engine cannot tell what a person paused, so
        // the schedule keeps its status.
        if before.is_none() && enabled {
            return Ok(());
        }
        if was_enabled != Some(enabled) {
            let input = if enabled { Input::Resume { catch_up: false } } else { Input::Pause };
            self.worklist.add(Work::Schedule(id, input, None));
        }
        Ok(())
    }

    pub(super) fn archive_workflow(&mut self, id: WorkflowId) -> CommandResult<B::Error> {
        let now = self.context.moment.now;
        let Some(workflow) = self.load_workflow(id)? else { return refuse(unknown_workflow(id)) };
        let (revision, status) = (workflow.newest, workflow.status);
        if status == WorkflowStatus::Archived {
            let message = "Cannot archive workflow that is archived.".to_owned();
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
            self.delete_schedule(schedule)?;
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
    ) -> CommandResult<B::Error> {
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

/// A schedule that a trigger or producer declares.
#[derive(Clone, Debug)]
pub struct DeclaredSchedule {
    pub by: DeclaredBy,
    /// Whether a publication that creates the schedule makes it active. Schedules of producers
    /// always begin active.
    pub enabled: bool,
    pub declared: Box<Declared>,
}

/// The schedules that a definition declares: those of its triggers, then those of its producers.
/// Mistakes carry the index in this order.
pub fn declared_schedules(
    definition: &Definition,
    rules: &Rules,
    now: Timestamp,
) -> Result<Vec<DeclaredSchedule>, Vec<(usize, Vec<Mistake>)>> {
    let triggers = definition.triggers.iter().enumerate().filter_map(|(index, trigger)| {
        let by = DeclaredBy::Trigger(trigger.id.clone());
        let description = trigger.description.as_ref();
        Some((index, by, trigger.enabled, description, definition.declaration(trigger)?))
    });
    let producers = (definition.triggers.len()..).zip(&definition.producers);
    let producers = producers.map(|(index, producer)| {
        (index, producer.declares(), true, None, definition.producer_declaration(producer))
    });
    let (mut declared, mut invalid) = (Vec::new(), Vec::new());
    for (index, by, enabled, description, fields) in triggers.chain(producers) {
        let default_name = format!("{}/{by}", definition.name);
        match check_schedule(definition, default_name, description, &fields, rules, now) {
            Ok(schedule) => declared.push(DeclaredSchedule { by, enabled, declared: schedule }),
            Err(mistakes) => invalid.push((index, mistakes)),
        }
    }
    if invalid.is_empty() { Ok(declared) } else { Err(invalid) }
}

fn check_schedule(
    definition: &Definition,
    default_name: String,
    description: Option<&String>,
    fields: &serde_json::Map<String, serde_json::Value>,
    rules: &Rules,
    now: Timestamp,
) -> Result<Box<Declared>, Vec<Mistake>> {
    let text = serde_json::to_string(fields).unwrap_or_default();
    let mut declared = read_written(&text)?.declared;
    if declared.name.is_empty() {
        declared.name = default_name;
    }
    if declared.description.is_none() {
        declared.description = description.cloned();
    }
    declared.fill_for_definition(definition.timeout);
    declared.check(rules, now)?;
    Ok(declared)
}
