//! Schedules that people and programs create, change, delete and control.

use jiff::SignedDuration;
use language::schedule::{self as written, Plan, Written};

use super::command::{Answer, CommandResult, NewSchedule, Refused, Verb};
use super::{Change, TransactionReader, Turn};
use crate::ids::{ScheduleId, WorkflowId};
use crate::schedule::{Input, Refusal, Schedule};
use crate::stop::{Stop, refuse};

impl<B: TransactionReader> Turn<'_, B> {
    pub(super) fn create_schedules(&mut self, new: Vec<NewSchedule>) -> CommandResult<B::Error> {
        let now = self.context.moment.now;
        let mut plans = Vec::with_capacity(new.len());
        let mut invalid = Vec::new();
        for (index, schedule) in new.iter().enumerate() {
            match schedule.declared.check(self.context.rules, now) {
                Ok(plan) => plans.push(plan),
                Err(mistakes) => invalid.push((index, mistakes)),
            }
        }
        for (index, schedule) in new.iter().enumerate() {
            let known = self.load_workflow(schedule.workflow)?.map(|workflow| workflow.live);
            if known.flatten().is_none() {
                let message = format!("Workflow {} has no published version.", schedule.workflow);
                return refuse(Refused::Conflict(message));
            }
            let payload = schedule.declared.payload.as_deref();
            let unfit = self.payload_mistakes(schedule.workflow, payload)?;
            if !unfit.is_empty() {
                invalid.push((index, unfit));
            }
        }
        if !invalid.is_empty() {
            return refuse(Refused::Invalid(invalid));
        }
        let mut ids = Vec::with_capacity(new.len());
        self.loaded.schedules.reserve(new.len());
        for (mut schedule, plan) in new.into_iter().zip(plans) {
            let timeout = self.timeout_of(schedule.workflow)?;
            schedule.declared.fill_for_api(timeout);
            ids.push(self.create_schedule(schedule, plan));
        }
        Ok(Answer::Created(ids))
    }

    pub(super) fn create_schedule(&mut self, new: NewSchedule, mut plan: Plan) -> ScheduleId {
        let id = self.reader.new_schedule_id();
        if new.declared.timing.spread.is_some() {
            plan.timing = plan.timing.for_schedule(&id.to_string());
        }
        let NewSchedule { workflow, declared_by, declared } = new;
        let schedule =
            Schedule::new(id, workflow, declared_by, declared, &plan, self.context.moment.now);
        self.loaded.schedules.insert_new(Box::new(schedule));
        id
    }

    pub(super) fn edit_schedule(&mut self, id: ScheduleId, patch: &str) -> CommandResult<B::Error> {
        if !self.load_schedule(id)? {
            return refuse(Refused::unknown_schedule(id));
        }
        let schedule = self.schedule(id)?;
        if let Some(trigger) = &schedule.declared_by {
            let message = format!(
                "Schedule {id} is declared by trigger {trigger} of its workflow. Change it there. \
                 POST /api/v1/schedules/{id}/disable and /enable turn it off and on."
            );
            return refuse(Refused::Conflict(message));
        }
        let declared = schedule.declared.clone();
        let trigger = declared.trigger_node_id.clone();
        let before = Written { declared, trigger, ..Written::default() };
        let invalid = |mistakes| Stop::Refused(Refused::Invalid(vec![(0, mistakes)]));
        let after = written::patch(&before, patch).map_err(invalid)?;
        let checked = after.declared.check(self.context.rules, self.context.moment.now);
        checked.map_err(invalid)?;
        let workflow = schedule.workflow;
        if let Some(named) = after.workflow
            && named != workflow.to_string()
            && self.reader.workflow_named(&named)? != Some(workflow)
        {
            let message = "A schedule stays with its workflow. Create another schedule instead.";
            return refuse(Refused::Conflict(message.to_owned()));
        }
        if after.trigger != before.trigger {
            let message = "A schedule keeps its trigger_node_id. Create another schedule instead.";
            return refuse(Refused::Conflict(message.to_owned()));
        }
        self.check_payload(workflow, after.declared.payload.as_deref())?;
        let mut declared = after.declared;
        declared.fill_for_api(self.timeout_of(workflow)?);
        self.decide_schedule(id, Input::Edit(declared), None)?;
        Ok(Answer::Schedule(id))
    }

    /// The timeout that the live revision of a workflow declares.
    fn timeout_of(&mut self, workflow: WorkflowId) -> Result<Option<SignedDuration>, B::Error> {
        Ok(match self.workflow(workflow)?.live {
            Some(live) => self.definition(workflow, live)?.timeout,
            None => None,
        })
    }

    /// Refuses to delete a schedule that a definition declares, since the next publication would
    /// create it again.
    fn refuse_if_declared(&mut self, id: ScheduleId) -> Result<(), Stop<Refused, B::Error>> {
        let schedule = self.schedule(id)?;
        // A schedule that a person created may be deleted.
        let Some(by) = schedule.declared_by.clone() else { return Ok(()) };
        let workflow = self.workflow(schedule.workflow)?.name.clone();
        Err(Stop::Refused(Refused::Conflict(format!(
            "Schedule {id} is declared by {by} in the definition of workflow {workflow}. Disable it \
             with POST /api/v1/schedules/{id}/disable, or take it out of the definition and publish \
             that."
        ))))
    }

    pub(super) fn delete_schedules(&mut self, ids: &[ScheduleId]) -> CommandResult<B::Error> {
        for id in ids {
            if self.load_schedule(*id)? {
                self.refuse_if_declared(*id)?;
            }
        }
        let mut deleted = 0;
        for id in ids {
            deleted += u64::from(self.delete_schedule(*id)?);
        }
        Ok(Answer::Count(deleted))
    }

    /// Deletes a schedule, and returns whether there was one to delete.
    pub(super) fn delete_schedule(&mut self, id: ScheduleId) -> Result<bool, B::Error> {
        let exists = self.load_schedule(id)?;
        if exists {
            self.schedule_mut(id, Change::Deleted)?;
        }
        Ok(exists)
    }

    pub(super) fn control_schedule(
        &mut self,
        id: ScheduleId,
        verb: Verb,
    ) -> CommandResult<B::Error> {
        let (input, name) = match verb {
            Verb::Pause => (Input::Pause, None),
            Verb::Resume { catch_up } => (Input::Resume { catch_up }, None),
            Verb::Revive => (Input::Revive, None),
            Verb::Enable => (Input::Resume { catch_up: false }, Some("enable")),
            Verb::Disable => (Input::Pause, Some("disable")),
        };
        let decided = self.decide_schedule(id, input, None);
        decided.map_err(|stop| match (stop, name) {
            (Stop::Refused(Refused::Schedule(Refusal::WrongStatus { status, .. })), Some(verb)) => {
                Stop::Refused(Refused::Schedule(Refusal::WrongStatus { verb, status }))
            }
            (other, _) => other,
        })?;
        Ok(Answer::Schedule(id))
    }
}
