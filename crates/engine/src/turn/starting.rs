//! Runs that somebody asks for: by hand, again, or by the address of a trigger.

use super::command::{Answer, Asked, NewRun, Refused, unknown_run, unknown_workflow};
use super::runs::Origin;
use super::{Book, Turn, WorkflowStatus};
use crate::ids::{RunId, RunKey, ScheduleId, WorkflowId};
use crate::run::{self, Position, StepRecord, TriggeredBy};
use crate::schedule::Input;

impl<B: Book> Turn<'_, B> {
    pub(super) fn start_schedule(&mut self, id: ScheduleId, new: &NewRun) -> Asked<B::Error> {
        if !self.load_schedule(id)? {
            return Ok(Err(Refused::unknown_schedule(id)));
        }
        if let Some(workflow) = self.schedules.get(&id).map(|slot| slot.schedule.workflow)
            && let Some(refused) = self.at_its_limit(workflow)?
        {
            return Ok(Err(refused));
        }
        let started = self.decide_schedule(id, Input::Start, Some(new))?;
        Ok(started.map(|()| Answer::Run(RunId::Other(new.id).to_string())))
    }

    /// Whoever starts something by hand is not put into a queue, but told who is in the way. Runs that
    /// have not begun yet have their places all the same.
    fn at_its_limit(&mut self, id: WorkflowId) -> Result<Option<Refused>, B::Error> {
        let Some(slot) = self.load_workflow(id)? else { return Ok(Some(unknown_workflow(id))) };
        let workflow = &slot.workflow;
        let Some(limit) = workflow.concurrency else { return Ok(None) };
        let active = workflow.active;
        let what = format!("Workflow {} runs at most {limit} at a time", workflow.name);
        let room = limit.saturating_sub(active) as usize;
        // Runs of handlers do not count. Each has one that waits, and one that somebody asked for.
        let besides = self.handlers_of(id)?.len() * 2 + 1;
        let waiting = self.book.pending_after(id, RunKey(i64::MIN), room.max(1) + besides)?;
        let waiting = self.processes_among(waiting)?;
        if waiting.len() < room {
            return Ok(None);
        }
        let in_the_way = match active {
            0 => waiting.first().copied(),
            _ => {
                let active = self.book.active_runs(id, 1 + besides)?;
                self.processes_among(active)?.first().copied()
            }
        };
        let run = self.run_id(in_the_way)?;
        Ok(Some(Refused::busy(what, run)))
    }

    /// Those of these runs that are not a handler's.
    fn processes_among(&mut self, runs: Vec<RunKey>) -> Result<Vec<RunKey>, B::Error> {
        let mut processes = Vec::with_capacity(runs.len());
        for key in runs {
            if self.load_run(key)? && !self.is_of_handler(key) {
                processes.push(key);
            }
        }
        Ok(processes)
    }

    pub(super) fn start_workflow(&mut self, id: WorkflowId, new: &NewRun) -> Asked<B::Error> {
        let Some(slot) = self.load_workflow(id)? else { return Ok(Err(unknown_workflow(id))) };
        let workflow = slot.workflow.clone();
        let Some(live) = workflow.live.filter(|_| workflow.status == WorkflowStatus::Published)
        else {
            let message = format!("Workflow {} has no published version.", workflow.name);
            return Ok(Err(Refused::Conflict(message)));
        };
        if let Some(refused) = self.at_its_limit(id)? {
            return Ok(Err(refused));
        }
        if let Some(by_hand) = workflow.by_hand.filter(|_| workflow.concurrency.is_none()) {
            let what = format!("Workflow {} runs one at a time by hand", workflow.name);
            let what = format!("{what} unless its definition says `concurrency`");
            let run = self.run_id(Some(by_hand))?;
            return Ok(Err(Refused::busy(what, run)));
        }
        if let Some(definition) = self.definition(id, live)?
            && definition.steps.is_empty()
        {
            return self.start_all_handlers(id, &definition, new);
        }
        let key = self.create_run(new, id, live, Origin::of(TriggeredBy::Manual))?;
        let has_ended = self.runs.get(&key).is_some_and(|slot| slot.run.status.has_ended());
        if workflow.concurrency.is_none()
            && !has_ended
            && let Some(slot) = self.workflows.get_mut(&id)
        {
            slot.workflow.by_hand = Some(key);
            slot.is_changed = true;
        }
        Ok(Ok(Answer::Run(RunId::Other(new.id).to_string())))
    }

    pub(super) fn retry_run(
        &mut self,
        id: &RunId,
        from_start: bool,
        new: &NewRun,
    ) -> Asked<B::Error> {
        let Some(key) = self.book.run_key(id)? else { return Ok(Err(unknown_run(id))) };
        self.load_run(key)?;
        let Some(slot) = self.runs.get(&key) else { return Ok(Err(unknown_run(id))) };
        let run = slot.run.clone();
        if !run.status.has_ended() || (!from_start && run.status == run::RunStatus::Succeeded) {
            let refusal = run::Refusal::WrongStatus { verb: "retry", status: run.status };
            return Ok(Err(Refused::Run(refusal)));
        }
        let records = match from_start {
            true => Vec::new(),
            false => self.book.step_records(key)?,
        };
        let undone = records.iter().filter(|record| record.item == run::UNDOING);
        let undone: Vec<u32> = undone.map(|record| record.step).collect();
        if run.handler.is_some() {
            let message = "Runs of producers and consumers are tried again by their workflow: \
                           resume it, or start the handler.";
            return Ok(Err(Refused::Conflict(message.to_owned())));
        }
        let origin = Origin {
            retry_of: Some(id.clone()),
            schedule: run.schedule,
            input: Some(run.input),
            position: match from_start {
                true => Position::default(),
                false => run.position.where_it_failed(&undone),
            },
            ..Origin::of(TriggeredBy::Retry)
        };
        // Whoever asks for it again may be tracing something else than who asked first.
        let new = NewRun { trace: new.trace.or(run.trace), ..new.clone() };
        let new_key = self.create_run(&new, run.workflow, run.version, origin)?;
        self.take_over_records(new_key, records);
        Ok(Ok(Answer::Run(RunId::Other(new.id).to_string())))
    }

    /// A run of a consumer goes on where it failed, as another.
    pub(super) fn go_on_with(
        &mut self,
        earlier: RunKey,
        new: &NewRun,
    ) -> Result<Option<RunKey>, B::Error> {
        if !self.load_run(earlier)? {
            return Ok(None);
        }
        let Some(run) = self.runs.get(&earlier).map(|slot| slot.run.clone()) else {
            return Ok(None);
        };
        let records = self.all_step_records(earlier)?;
        let origin = Origin {
            retry_of: Some(run.id),
            input: Some(run.input),
            position: run.position.where_it_failed(&[]),
            handler: run.handler,
            ..Origin::of(TriggeredBy::Retry)
        };
        let new = NewRun { trace: run.trace, ..new.clone() };
        let key = self.create_run(&new, run.workflow, run.version, origin)?;
        self.take_over_records(key, records);
        Ok(Some(key))
    }

    /// What was done in an earlier run is done in this one.
    fn take_over_records(&mut self, key: RunKey, records: Vec<StepRecord>) {
        let Some(slot) = self.runs.get_mut(&key) else { return };
        let states = &slot.run.position.states;
        let is_done =
            |record: &StepRecord| states.of(record.step).has_ended() && record.item != run::UNDOING;
        slot.records = records.into_iter().filter(is_done).collect();
    }

    /// A run of the version that is live, if the trigger is in use.
    pub(super) fn call_trigger(
        &mut self,
        id: WorkflowId,
        trigger: &str,
        new: &NewRun,
    ) -> Asked<B::Error> {
        let Some(slot) = self.load_workflow(id)? else { return Ok(Err(unknown_workflow(id))) };
        let (name, paused) = (slot.workflow.name.clone(), slot.workflow.paused);
        let live = slot.workflow.live.filter(|_| slot.workflow.status == WorkflowStatus::Published);
        let definition = match live {
            Some(live) => self.definition(id, live)?,
            None => None,
        };
        let known = definition.as_ref().and_then(|definition| {
            definition.triggers.iter().find(|known| known.id == trigger).cloned()
        });
        let (Some(live), Some(known)) = (live, known) else {
            return Ok(Err(Refused::NotFound { what: "trigger", id: trigger.to_owned() }));
        };
        if paused || !known.enabled {
            let what =
                if paused { format!("Workflow {name}") } else { format!("Trigger {trigger}") };
            return Ok(Err(Refused::Conflict(format!("{what} is paused: nothing was started."))));
        }
        self.create_run(new, id, live, Origin::of(TriggeredBy::Webhook))?;
        Ok(Ok(Answer::Run(RunId::Other(new.id).to_string())))
    }
}
