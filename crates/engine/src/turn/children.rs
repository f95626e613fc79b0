//! Runs that a run starts: for one of its steps, or because one of its deadlines is reached.

use std::hash::{BuildHasher as _, Hasher as _};
use std::sync::Arc;

use language::definition::{Deadline, DeadlineAction, Definition};
use language::policy::overlap::IfBusy;
use serde_json::json;
use serde_json::value::RawValue;

use super::command::{NewRun, Starter};
use super::creation::Origin;
use super::families::Link;
use super::writes::{AlertWrite, Notice};
use super::{Damaged, TransactionReader, Turn, WorkflowStatus};
use crate::ids::{RunKey, WorkflowId};
use crate::notices;
use crate::run::{Alert, Input, NewChild, Run, TriggeredBy};
use crate::stop::{Stop, refuse, unless_refused};

/// The reason for which a run id is derived from a row. Two ids of the same row differ if their
/// purposes do, and an id stays the same when the decision is repeated. The numbers are ASCII
/// letters of a word, and must not change.
#[derive(Clone, Copy)]
pub(super) enum Purpose {
    /// Another try of a producer's run that its schedule did not start.
    ProducerRetry = 0x7072,
    /// The first run of a producer, when its workflow is published.
    FirstProduce = 0x7062,
    /// The run that resumes a consumer's run.
    ConsumerResume = 0x7265,
    /// A run of a consumer.
    ConsumerRun = 0x6863,
    /// A notice that an incident has begun.
    IncidentNotice = 0x696e_6369,
    /// A notice that an incident is over: one more than the last.
    RecoveryNotice = 0x696e_636a,
}

impl<B: TransactionReader> Turn<'_, B> {
    /// Starts a run of another workflow for a step.
    pub(super) fn create_child(&mut self, of: RunKey, child: NewChild) -> Result<(), B::Error> {
        // An earlier child of the same decision may have been refused, and the run ends because of
        // that.
        let is_ending = |run: &Run| run.state.ending.is_some() || run.status.has_ended();
        let token = child.token;
        if self.loaded.runs.get(of).is_some_and(|run| is_ending(run)) {
            let message = "the run ends".to_owned();
            self.tell_starter(of, Input::ChildRefused { token, message });
            return Ok(());
        }
        let (workflow, live) = match self.live_workflow(&child.workflow) {
            Ok(found) => found,
            Err(stop) => {
                let message = stop.refusal()?;
                self.tell_starter(of, Input::ChildRefused { token, message });
                return Ok(());
            }
        };
        let parent = match self.join_family(of, Link::Step(child.waits.then_some(token))) {
            Ok(parent) => parent,
            Err(stop) => {
                let message = stop.refusal()?;
                self.tell_starter(of, Input::ChildRefused { token, message });
                return Ok(());
            }
        };
        let new = NewRun {
            id: self.derived_id(of, u64::from(token), child.key.0),
            payload: Some(child.payload),
            by: Starter::Caller(self.by_run(of)),
            trace: self.trace_of_attempt(of, child.part, child.attempt, child.since),
            if_busy: IfBusy::Wait,
        };
        let origin = Origin {
            key: Some(child.key),
            parent: Some(parent),
            ..Origin::of(TriggeredBy::SubProcess)
        };
        let key = self.create_run(&new, workflow, live, origin)?;
        if !child.waits {
            let run = self.loaded.runs.get(key).map(|run| run.id.to_string());
            let output = json!({ "started": child.workflow, "run_id": run });
            let output = serde_json::value::to_raw_value(&output);
            let output = output.unwrap_or_else(|_| RawValue::NULL.to_owned());
            self.tell_starter(of, Input::ChildStarted { token, output });
        }
        Ok(())
    }

    /// The id and live revision of the published workflow with this name, or why there is none.
    pub(super) fn live_workflow(
        &mut self,
        name: &str,
    ) -> Result<(WorkflowId, u32), Stop<String, B::Error>> {
        // The transaction reader does not know workflows that this turn has created.
        let created = self.loaded.workflows.values().find(|workflow| workflow.name == name);
        let id = match created.map(|workflow| workflow.id) {
            Some(id) => Some(id),
            None => self.reader.workflow_named(name)?,
        };
        let Some(id) = id else { return refuse(format!("there is no workflow {name}")) };
        let Some(workflow) = self.load_workflow(id)? else {
            return refuse(format!("there is no workflow {name}"));
        };
        let is_published = workflow.status == WorkflowStatus::Published;
        let live = workflow.live.filter(|_| is_published);
        let Some(live) = live else { return refuse(format!("workflow {name} is not published")) };
        Ok((id, live))
    }

    /// Carries out the actions of a deadline: notifies people and starts a workflow. The run's own
    /// state machine has already decided how the run or step itself ends.
    pub(super) fn alert(&mut self, of: RunKey, alert: Alert) -> Result<(), B::Error> {
        let run = self.run(of)?.clone();
        let definition = self.definition(run.workflow, run.version)?;
        let missing = || Damaged(format!("run {} has no action of a deadline {alert:?}", run.id));
        let action = action_of(&definition, alert).cloned().ok_or_else(missing)?;
        let public_url = self.context.setup.public_url.as_deref();
        let about = about(&run, &definition, alert, public_url);
        let (mut started, mut refused) = (Vec::new(), Vec::new());
        if !action.notify.is_empty() {
            let workflow = self.notice_workflow()?;
            for (index, channel) in (0_u64..).zip(&action.notify) {
                if let Some(why) = self.context.setup.refusal(channel) {
                    refused.push(format!("{}: {why}", channel.shown()));
                    continue;
                }
                let payload = notices::payload(channel, &about);
                let new = self.alert_run(&run, alert, index, payload);
                match self.start_for(&run, workflow, &new, TriggeredBy::Deadline) {
                    Ok(key) => started.push(key),
                    Err(stop) => refused.push(format!("{}: {}", channel.shown(), stop.refusal()?)),
                }
            }
        }
        if let Some(name) = &action.start {
            let begun = self.live_workflow(name).and_then(|workflow| {
                let new = self.alert_run(&run, alert, u64::MAX, about.clone());
                self.start_for(&run, workflow, &new, TriggeredBy::Deadline)
            });
            match begun {
                Ok(key) => started.push(key),
                Err(stop) => refused.push(stop.refusal()?),
            }
        }
        let refused = (!refused.is_empty()).then(|| refused.join("; "));
        let step = alert.step.and_then(|step| definition.steps.get(step as usize));
        self.output.notices.push(Notice::Deadline {
            run: run.id.clone(),
            workflow: definition.name.clone(),
            step: step.map(|step| step.id.clone()),
            due: alert.due,
            refused: refused.clone(),
        });
        self.output.writes.alerts.push(AlertWrite {
            run: of,
            alert,
            at: self.context.moment.now,
            end: action.end,
            started,
            refused,
        });
        Ok(())
    }

    fn alert_run(&self, run: &Run, alert: Alert, index: u64, payload: serde_json::Value) -> NewRun {
        let step = alert.step.map_or(u64::MAX, u64::from);
        let what = step.wrapping_mul(0x1_0001).wrapping_add(u64::from(alert.action));
        NewRun {
            id: self.derived_id(run.key, what, index.cast_signed()),
            payload: serde_json::value::to_raw_value(&payload).ok(),
            by: Starter::Caller(self.by_run(run.key)),
            trace: self.trace_of_run(run.key),
            if_busy: IfBusy::Wait,
        }
    }

    pub(super) fn start_for(
        &mut self,
        run: &Run,
        (workflow, live): (WorkflowId, u32),
        new: &NewRun,
        why: TriggeredBy,
    ) -> Result<RunKey, Stop<String, B::Error>> {
        let parent = self.join_family(run.key, Link::Hop)?;
        let origin = Origin { parent: Some(parent), ..Origin::of(why) };
        Ok(self.create_run(new, workflow, live, origin)?)
    }

    /// The workflow that delivers notifications. The engine creates it when it is first needed.
    pub(super) fn notice_workflow(&mut self) -> Result<(WorkflowId, u32), B::Error> {
        if let Some(found) = unless_refused(self.live_workflow(notices::NAME))? {
            return Ok(found);
        }
        let definition: Arc<Definition> = Arc::new(notices::definition());
        unless_refused(self.save_workflow(notices::SOURCE.to_owned(), &definition, true, None))?;
        let found = self.loaded.workflows.values().find(|workflow| workflow.name == notices::NAME);
        let found = found.map(|found| (found.id, found.live.unwrap_or(found.newest)));
        Ok(found.unwrap_or((WorkflowId(0), 0)))
    }

    pub(super) fn by_run(&self, key: RunKey) -> String {
        let id = self.loaded.runs.get(key).map(|run| run.id.to_string());
        format!("run {}", id.unwrap_or_default())
    }

    /// A time-ordered id that depends only on its arguments and the time of the turn, so that
    /// repeating the same decision gives the same id.
    pub(super) fn derived_id(&self, of: RunKey, what: u64, which: i64) -> u128 {
        let mut high = foldhash::quality::FixedState::with_seed(1).build_hasher();
        for part in [of.0, what.cast_signed(), which] {
            high.write_i64(part);
        }
        let mut low = foldhash::quality::FixedState::with_seed(2).build_hasher();
        low.write_u64(high.finish());
        low.write_i64(which);
        let random = (u128::from(high.finish()) << 64) | u128::from(low.finish());
        let time = u128::from(self.context.moment.now.as_millisecond().unsigned_abs()) << 80;
        let version = 7_u128 << 76;
        let variant = 2_u128 << 62;
        let bits = (random & (0xfff << 64)) | (random & 0x3fff_ffff_ffff_ffff);
        time | version | variant | bits
    }
}

fn deadline_of(definition: &Definition, step: Option<u32>) -> Option<&Deadline> {
    match step {
        None => definition.deadline.as_ref(),
        Some(step) => definition.steps.get(step as usize)?.deadline.as_ref(),
    }
}

fn action_of(definition: &Definition, alert: Alert) -> Option<&DeadlineAction> {
    deadline_of(definition, alert.step)?.actions.get(alert.action as usize)
}

/// The payload for the people who are notified and the workflow that is started.
fn about(
    run: &Run,
    definition: &Definition,
    alert: Alert,
    public_url: Option<&str>,
) -> serde_json::Value {
    let step = alert.step.and_then(|step| definition.steps.get(step as usize));
    let input: &RawValue = &run.input;
    json!({
        "workflow": definition.name,
        "run": run.id.to_string(),
        "step": step.map(|step| step.id.clone()),
        "status": run.status.name(),
        "deadline": alert.due.to_string(),
        "at": alert.at.to_string(),
        "overdue": alert.at >= alert.due,
        "input": serde_json::from_str::<serde_json::Value>(input.get()).unwrap_or_default(),
        "link": public_url.map(|url| format!("{url}/runs/{}", run.id)),
    })
}
