//! Incidents within a turn: they begin and end with the runs that cause them.

use jiff::Timestamp;
use language::definition::{Channel, IncidentAction};
use language::notification_setup::Setup;
use language::policy::overlap::IfBusy;
use serde_json::{Value, json};

use super::children::Purpose;
use super::command::{NewRun, Starter};
use super::creation::Origin;
use super::writes::{IncidentWrite, Notice};
use super::{Change, Damaged, TransactionReader, Turn};
use crate::ids::{IncidentKey, RunKey, ScheduleId, WorkflowId};
use crate::incidents::{How, Incident, IncidentEnd, Told, ToldOutcome};
use crate::notices;
use crate::run::{Ending, Run, RunError, TriggeredBy};
use crate::schedule::{Due, Status};

/// How many characters of a failed step's output a message includes. It takes them from the end,
/// where the cause usually stands.
const OUTPUT_CHARS: usize = 2_000;

/// The setup of a turn whose node has configured no notifications.
pub(super) static NO_SETUP: Setup = Setup::NONE;

/// A failure that is final.
pub(super) struct Failed {
    /// The run, if there was one.
    pub(super) run: Option<RunKey>,
    pub(super) due: Option<Due>,
    pub(super) error: String,
    /// Whether the schedule is dead because of the failure.
    pub(super) has_died: bool,
}

/// The schedule or workflow that an incident is about.
#[derive(Clone, Copy)]
enum Subject {
    Schedule(ScheduleId, WorkflowId),
    /// Runs of this workflow that no schedule started.
    Workflow(WorkflowId),
}

impl Subject {
    fn workflow(self) -> WorkflowId {
        match self {
            Subject::Schedule(_, workflow) | Subject::Workflow(workflow) => workflow,
        }
    }

    fn schedule(self) -> Option<ScheduleId> {
        match self {
            Subject::Schedule(id, _) => Some(id),
            Subject::Workflow(_) => None,
        }
    }
}

/// Whether an incident begins or ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Event {
    Failure,
    Recovery,
}

impl<B: TransactionReader> Turn<'_, B> {
    /// Handles an occurrence that has finally failed, or a schedule that has died.
    pub(super) fn schedule_failed(
        &mut self,
        id: ScheduleId,
        failed: Failed,
    ) -> Result<(), B::Error> {
        let schedule = self.schedule(id)?;
        let subject = Subject::Schedule(id, schedule.workflow);
        match schedule.progress.incident {
            Some(_) if !failed.has_died => return Ok(()),
            Some(open) => {
                // The schedule will not run again. People are notified of that, even if they were
                // notified of an earlier failure.
                let end = IncidentEnd::of_itself(How::Died, self.context.moment.now);
                self.output.writes.incidents.push(IncidentWrite::End(open, Box::new(end)));
            }
            None => {}
        }
        self.begin_incident(subject, failed)
    }

    /// Ends the schedule's incident after a run of it has succeeded.
    pub(super) fn schedule_succeeded(
        &mut self,
        id: ScheduleId,
        run: Option<RunKey>,
    ) -> Result<(), B::Error> {
        let schedule = self.schedule(id)?;
        let subject = Subject::Schedule(id, schedule.workflow);
        // Only a success after a failure ends an incident.
        let Some(open) = schedule.progress.incident else { return Ok(()) };
        self.schedule_mut(id, Change::Progress)?.progress.incident = None;
        self.end_incident(subject, open, run)
    }

    /// Begins or ends the incident of a workflow after a run that no schedule started has ended.
    /// Runs that notify people of incidents, or that an incident started, begin none.
    pub(super) fn judge_run(&mut self, key: RunKey) -> Result<(), B::Error> {
        let run = self.run(key)?.clone();
        match run.ending() {
            Some(Ending::Succeeded) => self.workflow_succeeded(&run),
            Some(Ending::Failed | Ending::TimedOut) => self.workflow_failed(&run),
            Some(Ending::Cancelled) | None => Ok(()),
        }
    }

    /// Handles a handler's run that has failed and will not be retried: its workflow waits for a
    /// person.
    pub(super) fn handler_failed(&mut self, run: &Run) -> Result<(), B::Error> {
        match run.schedule {
            Some(id) if self.load_schedule(id)? => {
                let due = run.nominal.zip(run.effective);
                let due = due.map(|(nominal, effective)| Due { nominal, effective });
                let failed = Failed { run: Some(run.key), due, error: said(run), has_died: false };
                self.schedule_failed(id, failed)
            }
            _ => self.workflow_failed(run),
        }
    }

    fn workflow_failed(&mut self, run: &Run) -> Result<(), B::Error> {
        let workflow = self.workflow(run.workflow)?;
        let is_message = workflow.name == notices::NAME;
        let tells = run.triggered_by == TriggeredBy::Incident || is_message;
        let is_open = workflow.incident.is_some();
        if is_message {
            let subject = notices::subject(run.input.get());
            let (run, error) = (run.id.clone(), said(run));
            self.output.notices.push(Notice::Undelivered { run, subject, error });
        }
        if tells || is_open {
            return Ok(());
        }
        let error = said(run);
        let failed = Failed { run: Some(run.key), due: None, error, has_died: false };
        self.begin_incident(Subject::Workflow(run.workflow), failed)
    }

    pub(super) fn workflow_succeeded(&mut self, run: &Run) -> Result<(), B::Error> {
        // Only a success after a failure ends an incident.
        let Some(open) = self.workflow(run.workflow)?.incident else { return Ok(()) };
        self.workflow_mut(run.workflow)?.incident = None;
        self.end_incident(Subject::Workflow(run.workflow), open, Some(run.key))
    }

    fn begin_incident(&mut self, subject: Subject, failed: Failed) -> Result<(), B::Error> {
        let key = self.reader.new_incident_key();
        match subject {
            Subject::Schedule(id, _) => {
                self.schedule_mut(id, Change::Progress)?.progress.incident = Some(key);
            }
            Subject::Workflow(id) => {
                self.workflow(id)?;
                self.workflow_mut(id)?.incident = Some(key);
            }
        }
        let mut about = self.about(subject, key, failed.run)?;
        about["event"] = "failure".into();
        about["error"] = failed.error.clone().into();
        about["due"] = json!(failed.due.map(|due| self.wall_time(subject, due.nominal)));
        about["nominal_at"] = json!(failed.due.map(|due| due.nominal.to_string()));
        about["effective_at"] = json!(failed.due.map(|due| due.effective.to_string()));
        about["output_end"] = json!(self.output_end(failed.run)?);
        let told = self.tell(subject, key, Event::Failure, failed.run, &about)?;
        let run = self.run_id(failed.run)?.map(|id| id.to_string());
        self.notice_incident(subject, key, true, &told);
        self.output.writes.incidents.push(IncidentWrite::Begin(Box::new(Incident {
            key,
            workflow: subject.workflow(),
            schedule: subject.schedule(),
            run,
            nominal: failed.due.map(|due| due.nominal),
            error: failed.error,
            began_at: self.context.moment.now,
            told,
            end: None,
        })));
        Ok(())
    }

    fn end_incident(
        &mut self,
        subject: Subject,
        key: IncidentKey,
        run: Option<RunKey>,
    ) -> Result<(), B::Error> {
        let before = self.incident(key)?;
        let mut about = self.about(subject, key, run)?;
        about["event"] = "recovery".into();
        about["failed_since"] =
            json!(before.as_ref().map(|incident| incident.began_at.to_string()));
        about["error"] = json!(before.map(|incident| incident.error));
        let told = self.tell(subject, key, Event::Recovery, run, &about)?;
        let run = self.run_id(run)?.map(|id| id.to_string());
        self.notice_incident(subject, key, false, &told);
        let end = IncidentEnd { how: How::Recovered, at: self.context.moment.now, run, told };
        self.output.writes.incidents.push(IncidentWrite::End(key, Box::new(end)));
        Ok(())
    }

    /// An incident, including one that began in this turn.
    fn incident(&mut self, key: IncidentKey) -> Result<Option<Incident>, B::Error> {
        let begun = self.output.writes.incidents.iter().find_map(|write| match write {
            IncidentWrite::Begin(incident) if incident.key == key => Some((**incident).clone()),
            _ => None,
        });
        match begun {
            Some(incident) => Ok(Some(incident)),
            None => self.reader.incident(key),
        }
    }

    fn notice_incident(
        &mut self,
        subject: Subject,
        key: IncidentKey,
        is_open: bool,
        told: &[Told],
    ) {
        let refused = told.iter().filter_map(Told::refusal).collect();
        let (workflow, schedule) = (subject.workflow(), subject.schedule());
        self.output.notices.push(Notice::Incident { key, workflow, schedule, is_open, refused });
    }

    /// The actions for an incident. The declaration nearest to it applies: the trigger's, else the
    /// workflow's, else the node's.
    fn actions(
        &mut self,
        subject: Subject,
        event: Event,
        run: Option<RunKey>,
    ) -> Result<Vec<IncidentAction>, B::Error> {
        let schedule = subject.schedule().and_then(|id| self.loaded.schedules.get(id));
        let own = schedule.and_then(|schedule| match event {
            Event::Failure => schedule.declared.on_failure.clone(),
            Event::Recovery => schedule.declared.on_recovery.clone(),
        });
        if let Some(actions) = own {
            return Ok(actions);
        }
        let workflow = subject.workflow();
        let version = run.and_then(|key| self.loaded.runs.get(key)).map(|run| run.version);
        let definition = match version {
            Some(version) => Some(self.definition(workflow, version)?),
            None => self.live_definition(workflow)?,
        };
        let written = definition.as_ref().and_then(|definition| match event {
            Event::Failure => definition.on_failure.clone(),
            Event::Recovery => definition.on_recovery.clone(),
        });
        let setup = self.context.setup;
        Ok(written.unwrap_or_else(|| match event {
            Event::Failure => setup.on_failure.clone(),
            Event::Recovery => setup.on_recovery.clone(),
        }))
    }

    fn tell(
        &mut self,
        subject: Subject,
        key: IncidentKey,
        event: Event,
        run: Option<RunKey>,
        about: &Value,
    ) -> Result<Vec<Told>, B::Error> {
        let mut told = Vec::new();
        for action in self.actions(subject, event, run)? {
            for channel in &action.notify {
                let outcome = self.tell_channel(key, (event, told.len()), run, channel, about)?;
                told.push(Told { what: channel.shown(), outcome });
            }
            let Some(name) = action.start else { continue };
            let outcome = match self.live_workflow(&name) {
                Ok(workflow) => {
                    let new = self.incident_run(key, (event, told.len()), run, about);
                    self.start_of_incident(run, workflow, &new)?
                }
                Err(stop) => ToldOutcome::Refused(stop.refusal()?),
            };
            told.push(Told { what: format!("start {name}"), outcome });
        }
        Ok(told)
    }

    fn tell_channel(
        &mut self,
        key: IncidentKey,
        (event, index): (Event, usize),
        run: Option<RunKey>,
        channel: &Channel,
        about: &Value,
    ) -> Result<ToldOutcome, B::Error> {
        if let Some(why) = self.context.setup.refusal(channel) {
            return Ok(ToldOutcome::Refused(why.to_owned()));
        }
        let workflow = self.notice_workflow()?;
        let payload = notices::incident_payload(channel, event == Event::Recovery, about);
        let new = self.incident_run(key, (event, index), run, &payload);
        self.start_of_incident(run, workflow, &new)
    }

    fn incident_run(
        &self,
        key: IncidentKey,
        (event, index): (Event, usize),
        run: Option<RunKey>,
        payload: &Value,
    ) -> NewRun {
        let purpose = match event {
            Event::Failure => Purpose::IncidentNotice,
            Event::Recovery => Purpose::RecoveryNotice,
        };
        NewRun {
            id: self.derived_id(
                RunKey(key.0),
                purpose as u64,
                i64::try_from(index).unwrap_or(i64::MAX),
            ),
            payload: serde_json::value::to_raw_value(payload).ok(),
            by: Starter::Caller(
                run.map_or_else(|| format!("incident {key}"), |run| self.by_run(run)),
            ),
            trace: run.and_then(|run| self.trace_of_run(run)),
            if_busy: IfBusy::Wait,
        }
    }

    fn start_of_incident(
        &mut self,
        run: Option<RunKey>,
        workflow: (WorkflowId, u32),
        new: &NewRun,
    ) -> Result<ToldOutcome, B::Error> {
        let why = TriggeredBy::Incident;
        let run = run.and_then(|key| self.loaded.runs.get(key)).cloned();
        let started = match run {
            Some(run) => self.start_for(&run, workflow, new, why),
            None => Ok(self.create_run(new, workflow.0, workflow.1, Origin::of(why))?),
        };
        Ok(match started {
            Ok(_) => ToldOutcome::Run(crate::ids::RunId::Other(new.id).to_string()),
            Err(stop) => ToldOutcome::Refused(stop.refusal()?),
        })
    }

    /// The payload for the people who are notified and the workflow that is started.
    fn about(
        &mut self,
        subject: Subject,
        key: IncidentKey,
        run: Option<RunKey>,
    ) -> Result<Value, B::Error> {
        let workflow = self.workflow(subject.workflow())?.name.clone();
        let failed = subject.schedule().and_then(|id| self.loaded.schedules.get(id));
        let schedule = failed.map(|schedule| {
            json!({
                "id": schedule.id.to_string(),
                "name": schedule.declared.name,
                "status": schedule.status.name(),
                "is_dead": schedule.status == Status::Dead,
            })
        });
        let run = run.and_then(|key| self.loaded.runs.get(key));
        // The notice only quotes the input. One that cannot be parsed, such as a number that is too
        // large, is left out, and the notice is still sent.
        let input = run.and_then(|run| serde_json::from_str::<Value>(run.input.get()).ok());
        let time = |at: Option<Timestamp>| at.map(|at| at.to_string());
        let link = self.context.setup.public_url.as_ref().map(|url| match (run, failed) {
            (Some(run), _) => format!("{url}/runs/{}", run.id),
            (None, Some(schedule)) => format!("{url}/schedules/{}", schedule.id),
            (None, None) => format!("{url}/workflows/{workflow}"),
        });
        Ok(json!({
            "incident": key.to_string(),
            "workflow": workflow,
            "schedule": schedule,
            "run": run.map(|run| run.id.to_string()),
            "status": run.map(|run| run.status.name()),
            "ended_at": time(run.and_then(|run| run.ended_at)),
            "at": self.context.moment.now.to_string(),
            "input": input,
            "link": link,
        }))
    }

    /// A time as people read it: in the zone of the schedule, if it has one that can be read.
    fn wall_time(&self, subject: Subject, at: Timestamp) -> String {
        let schedule = subject.schedule().and_then(|id| self.loaded.schedules.get(id));
        let plan = schedule.and_then(|schedule| {
            let (anchor, key) = (schedule.progress.anchor, schedule.id.to_string());
            schedule.declared.plan(self.context.rules, anchor, &key).ok()
        });
        match plan.as_ref().map(|plan| plan.timing.zone()) {
            Some(zone) if zone.name() != "UTC" => format!("{} ({})", zone.rfc3339(at), zone.name()),
            _ => at.to_string(),
        }
    }

    /// The end of the output of the step that failed: `None` if no step did, for example because
    /// the run exceeded its timeout.
    fn output_end(&mut self, run: Option<RunKey>) -> Result<Option<String>, B::Error> {
        let Some(run) = run.and_then(|key| self.loaded.runs.get(key)).cloned() else {
            return Ok(None);
        };
        let Some(step) = run.error.as_ref().and_then(|error| error.step.clone()) else {
            return Ok(None);
        };
        let process = self.process(run.workflow, run.version, run.handler.as_deref())?;
        let at = process.steps.iter().position(|known| known.id == step);
        let at = at.and_then(|at| u32::try_from(at).ok()).ok_or_else(|| {
            Damaged(format!("run {} failed in step {step}, which its version lacks", run.id))
        })?;
        let output = self.step_record(run.key, at)?.and_then(|record| record.output);
        // As with the input, what cannot be parsed is not quoted.
        let output = output.and_then(|output| serde_json::from_str::<Value>(output.get()).ok());
        Ok(output.as_ref().and_then(written))
    }
}

/// The end of the kept output of a command or a server. A command has two outputs; standard error
/// comes last, since it usually explains the failure.
fn written(output: &Value) -> Option<String> {
    let text = |key: &str| output.get(key).and_then(Value::as_str);
    let texts = [text("stdout"), text("stderr"), text("body"), output.as_str()];
    let mut texts = texts.into_iter().flatten().map(str::trim_end).filter(|text| !text.is_empty());
    let (first, second) = (texts.next()?, texts.next());
    Some(match second {
        None => last_chars(first, OUTPUT_CHARS).to_owned(),
        Some(second) => {
            let second = last_chars(second, OUTPUT_CHARS / 2);
            let rest = OUTPUT_CHARS - second.chars().count();
            format!("{}\n{second}", last_chars(first, rest))
        }
    })
}

fn last_chars(text: &str, most: usize) -> &str {
    let start = text.char_indices().rev().nth(most - 1).map_or(0, |(at, _)| at);
    &text[start..]
}

fn said(run: &Run) -> String {
    run.error.as_ref().map_or_else(|| run.status.name().to_owned(), RunError::said)
}
