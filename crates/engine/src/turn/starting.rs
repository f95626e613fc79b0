//! Runs that a caller asks for: started by hand, retried, or started through the URL of a trigger.

use language::policy::overlap::IfBusy;

use super::command::{Answer, CommandResult, NewRun, Refused, unknown_run, unknown_workflow};
use super::creation::Origin;
use super::{TransactionReader, Turn, Wakeup, WorkflowStatus, not_there};
use crate::ids::{RunId, RunKey, ScheduleId, WorkflowId};
use crate::run::{self, Item, RunState, StepRecord, TriggeredBy};
use crate::schedule::Input;
use crate::stop::{Stop, refuse};

/// How many pending runs are read at a time.
const LOOKED_AT: usize = 128;

impl<B: TransactionReader> Turn<'_, B> {
    pub(super) fn start_schedule(
        &mut self,
        id: ScheduleId,
        new: &NewRun,
    ) -> CommandResult<B::Error> {
        if !self.load_schedule(id)? {
            return refuse(Refused::unknown_schedule(id));
        }
        self.check_payload_for_schedule(id, new.payload.as_deref())?;
        let schedule = self.schedule(id)?;
        let (workflow, is_producer) = (schedule.workflow, schedule.producer().is_some());
        if new.if_busy == IfBusy::Refuse {
            if !is_producer {
                self.check_limit(workflow)?;
            } else if let Some(run) = self.handler_in_the_way(workflow)? {
                return refuse(self.busy_handler(workflow, run)?);
            }
        }
        self.decide_schedule(id, Input::Start(new.if_busy), Some(new))?;
        Ok(Answer::Run(RunId::Other(new.id).to_string()))
    }

    /// Refuses a run of a caller who does not want to wait, if the workflow has reached its limit
    /// of runs. Pending runs count, since they begin first.
    fn check_limit(&mut self, id: WorkflowId) -> Result<(), Stop<Refused, B::Error>> {
        let Some(workflow) = self.load_workflow(id)? else { return refuse(unknown_workflow(id)) };
        // Without a limit, nothing is in the way.
        let Some(limit) = workflow.concurrency else { return Ok(()) };
        let active = workflow.active;
        let what = format!("Workflow {} runs at most {limit} at a time", workflow.name);
        let room = limit.saturating_sub(active) as usize;
        let pending = self.pending_processes(id, room)?;
        if pending.len() < room {
            return Ok(());
        }
        // All handlers of a workflow together have at most one active run, so one of two runs is a
        // process.
        let active = match active {
            0 => Vec::new(),
            _ => self.reader.active_runs(id, 2)?,
        };
        let mut in_the_way = pending.first().copied();
        for key in active {
            if self.load_run(key)? && !self.is_of_handler(key) {
                in_the_way = Some(key);
                break;
            }
        }
        let run = self.run_id(in_the_way)?;
        refuse(Refused::busy(what, run))
    }

    /// The oldest pending runs of a workflow that are not handler runs, at least `wanted` if there
    /// are so many.
    fn pending_processes(
        &mut self,
        id: WorkflowId,
        wanted: usize,
    ) -> Result<Vec<RunKey>, B::Error> {
        let mut processes = Vec::new();
        let mut after = RunKey(i64::MIN);
        while processes.len() < wanted {
            let page = self.reader.pending_after(id, after, LOOKED_AT)?;
            let Some(last) = page.last() else { break };
            after = *last;
            for key in page {
                if self.load_run(key)? && !self.is_of_handler(key) {
                    processes.push(key);
                }
            }
        }
        Ok(processes)
    }

    pub(super) fn start_workflow(
        &mut self,
        id: WorkflowId,
        new: &NewRun,
    ) -> CommandResult<B::Error> {
        let Some(workflow) = self.load_workflow(id)?.cloned() else {
            return refuse(unknown_workflow(id));
        };
        let Some(live) = workflow.live.filter(|_| workflow.status == WorkflowStatus::Published)
        else {
            let message = format!("Workflow {} has no published version.", workflow.name);
            return refuse(Refused::Conflict(message));
        };
        let definition = self.definition(id, live)?;
        if definition.steps.is_empty() {
            return self.start_all_handlers(id, &definition, new);
        }
        self.check_payload(id, new.payload.as_deref())?;
        if new.if_busy == IfBusy::Refuse {
            self.check_limit(id)?;
        }
        self.create_run(new, id, live, Origin::of(TriggeredBy::Manual))?;
        Ok(Answer::Run(RunId::Other(new.id).to_string()))
    }

    pub(super) fn retry_run(
        &mut self,
        id: &RunId,
        from_start: bool,
        new: &NewRun,
    ) -> CommandResult<B::Error> {
        let Some(key) = self.reader.run_key(id)? else { return refuse(unknown_run(id)) };
        self.load_run(key)?;
        let Some(run) = self.loaded.runs.get(key).cloned() else { return refuse(unknown_run(id)) };
        if !run.status.has_ended() || (!from_start && run.status == run::RunStatus::Succeeded) {
            let refusal = run::Refusal::WrongStatus { verb: "retry", status: run.status };
            return refuse(Refused::Run(refusal));
        }
        let records = if from_start { Vec::new() } else { self.reader.step_records(key)? };
        let undone = records.iter().filter(|record| record.item == Item::Undoing);
        let undone: Vec<u32> = undone.map(|record| record.step).collect();
        if let Some(unfinished) = self.unfinished(id)? {
            return self.retry_unfinished(unfinished, new);
        }
        if run.handler.is_some() {
            let message = "Runs of producers and consumers are tried again by their workflow: \
                           resume it, or start the handler.";
            return refuse(Refused::Conflict(message.to_owned()));
        }
        let origin = Origin {
            retry_of: Some(id.clone()),
            schedule: run.schedule,
            input: Some(run.input),
            state: if from_start {
                RunState::default()
            } else {
                run.state.where_it_failed(&undone)
            },
            ..Origin::of(TriggeredBy::Retry)
        };
        // The caller who retries may have another trace than the first caller.
        let new = NewRun { trace: new.trace.or(run.trace), ..new.clone() };
        let new_key = self.create_run(&new, run.workflow, run.version, origin)?;
        self.take_over_records(new_key, records)?;
        Ok(Answer::Run(RunId::Other(new.id).to_string()))
    }

    /// Continues a consumer's run where it failed, as a new run.
    pub(super) fn go_on_with(
        &mut self,
        earlier: RunKey,
        new: &NewRun,
    ) -> Result<Option<RunKey>, B::Error> {
        // A run that is set aside is continued when it can be read again.
        if !self.load_run(earlier)? && self.passes_over(Wakeup::Run(earlier)) {
            return Ok(None);
        }
        let run = self.run(earlier)?.clone();
        let records = self.all_step_records(earlier)?;
        let (version, state, records) = self.carried_over(&run, records)?;
        let origin = Origin {
            retry_of: Some(run.id),
            input: Some(run.input),
            state,
            handler: run.handler,
            ..Origin::of(TriggeredBy::Retry)
        };
        let new = NewRun { trace: new.trace.or(run.trace), ..new.clone() };
        let key = self.create_run(&new, run.workflow, version, origin)?;
        self.take_over_records(key, records)?;
        Ok(Some(key))
    }

    /// Copies the records of steps that have ended from the earlier run, so that they are not
    /// repeated.
    fn take_over_records(&mut self, key: RunKey, records: Vec<StepRecord>) -> Result<(), B::Error> {
        let loaded = self.loaded.runs.loaded_mut(key).ok_or_else(|| not_there(key))?;
        let states = &loaded.now.state.states;
        let is_done = |record: &StepRecord| {
            states.of(record.step).has_ended() && record.item != Item::Undoing
        };
        loaded.notes.records = records.into_iter().filter(is_done).collect();
        Ok(())
    }

    /// Starts a run of the live revision through a webhook trigger, unless the workflow or the
    /// trigger is paused.
    pub(super) fn call_trigger(
        &mut self,
        id: WorkflowId,
        trigger: &str,
        new: &NewRun,
    ) -> CommandResult<B::Error> {
        let Some(workflow) = self.load_workflow(id)? else { return refuse(unknown_workflow(id)) };
        let (name, paused) = (workflow.name.clone(), workflow.paused);
        let live = workflow.live.filter(|_| workflow.status == WorkflowStatus::Published);
        let definition = match live {
            Some(live) => Some(self.definition(id, live)?),
            None => None,
        };
        let known = definition.as_ref().and_then(|definition| {
            definition.triggers.iter().find(|known| known.id == trigger).cloned()
        });
        let (Some(live), Some(known)) = (live, known) else {
            return refuse(Refused::NotFound { what: "trigger", id: trigger.to_owned() });
        };
        if paused || !known.enabled {
            let what =
                if paused { format!("Workflow {name}") } else { format!("Trigger {trigger}") };
            return refuse(Refused::Conflict(format!("{what} is paused: nothing was started.")));
        }
        self.check_payload(id, new.payload.as_deref())?;
        self.create_run(new, id, live, Origin::of(TriggeredBy::Webhook))?;
        Ok(Answer::Run(RunId::Other(new.id).to_string()))
    }
}
