//! Prints what happens on a node, in sentences.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::Write;
use std::sync::Arc;

use engine::ledger::Outcome;
use engine::run::RunStatus;
use engine::turn::Notice;
use engine::{RunId, ScheduleId};
use jiff::Timestamp;
use store::{LedgerQuery, Queries as _, RunDetail, Sqlite};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;

use crate::clock;
use crate::failure::Failure;
use crate::terminal::{BOLD, DIM, NOTE, OFF, duration};

/// Prints a sentence for each notice.
pub(super) struct Feed {
    store: Arc<Sqlite>,
    started: Timestamp,
    url: String,
    names: HashMap<ScheduleId, String>,
    /// Runs whose start was already printed.
    begun: HashSet<RunId>,
    /// How often each outcome and each ending occurred, by name.
    counts: BTreeMap<&'static str, u64>,
    has_explained: bool,
}

impl Feed {
    pub(super) fn new(store: Arc<Sqlite>, started: Timestamp, url: String) -> Feed {
        Feed {
            store,
            started,
            url,
            names: HashMap::new(),
            begun: HashSet::new(),
            counts: BTreeMap::new(),
            has_explained: false,
        }
    }

    /// Prints notices until the node stops.
    pub(super) async fn tell(
        &mut self,
        mut notices: Receiver<Arc<[Notice]>>,
        out: &mut dyn Write,
    ) -> Result<(), Failure> {
        loop {
            match notices.recv().await {
                Ok(batch) => {
                    for notice in batch.iter() {
                        self.tell_one(notice, out).await?;
                    }
                    out.flush()?;
                }
                Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => return Ok(()),
            }
        }
    }

    async fn tell_one(&mut self, notice: &Notice, out: &mut dyn Write) -> Result<(), Failure> {
        match notice {
            Notice::Occurrence { schedule, n, outcome, count } => {
                *self.counts.entry(outcome.name()).or_default() += count;
                match outcome {
                    // The run's own notices say the rest.
                    Outcome::Started | Outcome::Moved => Ok(()),
                    other => self.tell_outcome(*schedule, *n, *other, out).await,
                }
            }
            Notice::Run { id, status, .. } => self.tell_run(id, *status, out).await,
            Notice::Schedule { .. }
            | Notice::Turning { .. }
            | Notice::HandlersPaused { .. }
            | Notice::Undelivered { .. }
            | Notice::Workflow { .. }
            | Notice::Output { .. }
            | Notice::Steps { .. }
            | Notice::Queued { .. }
            | Notice::Published { .. }
            | Notice::Consumed { .. }
            | Notice::Deadline { .. }
            | Notice::Incident { .. } => Ok(()),
        }
    }

    async fn tell_outcome(
        &mut self,
        schedule: ScheduleId,
        n: u64,
        outcome: Outcome,
        out: &mut dyn Write,
    ) -> Result<(), Failure> {
        let name = self.name(schedule).await?;
        let query = LedgerQuery {
            schedule,
            outcome: Some(outcome),
            from: None,
            to: None,
            limit: 10,
            after: None,
        };
        let page = self.store.ledger(query).await.map_err(unavailable)?;
        let row = page.items.into_iter().find(|row| row.entry.n == n);
        let reason = row.as_ref().map(|row| row.entry.reason.to_string()).unwrap_or_default();
        let word = outcome.name();
        self.line(out, &format!("{name} {NOTE}{word}{NOTE:#} its occurrence {n}: {reason}"))?;
        if !self.has_explained
            && outcome == Outcome::Skipped
            && let Some(row) = row
        {
            self.has_explained = true;
            self.explain(&name, schedule, row.entry.nominal, &reason, out)?;
        }
        Ok(())
    }

    /// Prints, once, the command that gives the same explanation.
    fn explain(
        &self,
        name: &str,
        schedule: ScheduleId,
        nominal: Timestamp,
        reason: &str,
        out: &mut dyn Write,
    ) -> Result<(), Failure> {
        let due = nominal.strftime("%H:%M:%S");
        writeln!(out, "\n  {BOLD}Why did {name} not run at {due}?{BOLD:#}")?;
        writeln!(
            out,
            "  It was due, but {reason}. Its overlap policy is `skip`: it waits for the next time \
             instead of running beside itself."
        )?;
        let url = &self.url;
        writeln!(
            out,
            "  {DIM}$ PUNCTUAL_URL={url} punctual explain {schedule} --at {nominal}{DIM:#}\n"
        )?;
        Ok(())
    }

    async fn tell_run(
        &mut self,
        id: &RunId,
        status: RunStatus,
        out: &mut dyn Write,
    ) -> Result<(), Failure> {
        if status.has_ended() {
            *self.counts.entry(status.name()).or_default() += 1;
        }
        let Some(detail) = self.store.run(id.clone()).await.map_err(unavailable)? else {
            return Ok(());
        };
        let is_new = self.begun.insert(id.clone());
        if let Some(sentence) = sentence(&detail, status, is_new) {
            self.line(out, &sentence)?;
        }
        Ok(())
    }

    async fn name(&mut self, schedule: ScheduleId) -> Result<String, Failure> {
        if let Some(name) = self.names.get(&schedule) {
            return Ok(name.clone());
        }
        let view = self.store.schedule(schedule).await.map_err(unavailable)?;
        let name = view.map_or_else(|| schedule.to_string(), |view| view.workflow_name);
        self.names.insert(schedule, name.clone());
        Ok(name)
    }

    fn line(&self, out: &mut dyn Write, sentence: &str) -> Result<(), Failure> {
        let since = clock::instant().duration_since(self.started).as_secs_f64();
        Ok(writeln!(out, "  {DIM}{since:>5.1}s{DIM:#}  {sentence}")?)
    }

    /// Prints a summary in one sentence.
    pub(super) fn sum_up(&self, now: Timestamp, out: &mut dyn Write) -> Result<(), Failure> {
        let count = |name: &str| self.counts.get(name).copied().unwrap_or(0);
        let time = duration(now.duration_since(self.started));
        writeln!(
            out,
            "\nIn {time}: {} occurrences started, {} skipped; {} runs succeeded, {} failed.",
            count("started"),
            count("skipped"),
            count("succeeded"),
            count("failed"),
        )?;
        writeln!(
            out,
            "{DIM}`punctual serve DIR` for your own; `punctual tour` about times and calendars.{DIM:#}"
        )?;
        Ok(out.flush()?)
    }
}

/// The sentence for a run's status, if the status deserves one.
fn sentence(detail: &RunDetail, status: RunStatus, is_new: bool) -> Option<String> {
    let (run, name) = (&detail.view.run, &detail.view.workflow_name);
    match status {
        RunStatus::Running if is_new => Some(format!("{name} starts {DIM}({}){DIM:#}", run.id)),
        RunStatus::Running => Some(format!("{name} tries again")),
        RunStatus::Waiting => Some(format!("{name} {NOTE}waits{NOTE:#}: {}", last_failure(detail))),
        RunStatus::Succeeded => {
            let attempts = detail.steps.iter().map(|step| step.attempts).max().unwrap_or(1);
            let tries =
                if attempts > 1 { format!(" at attempt {attempts}") } else { String::new() };
            Some(format!("{name} succeeded{tries}"))
        }
        RunStatus::Failed | RunStatus::TimedOut | RunStatus::Cancelled | RunStatus::Suspended => {
            Some(format!("{name} {OFF}{}{OFF:#}", status.name()))
        }
        RunStatus::Pending => None,
    }
}

/// Which step failed, at which attempt, and why.
fn last_failure(detail: &RunDetail) -> String {
    let Some(record) = detail.steps.last() else { return "a step failed".to_owned() };
    let step = detail.definition.steps.get(record.step as usize);
    let step = step.map(|step| step.id.as_str()).unwrap_or_default();
    let why = record.error.as_ref().map(|error| error.message.as_str()).unwrap_or_default();
    format!("attempt {} of step {step} failed ({why})", record.attempts)
}

fn unavailable(failure: store::Failure) -> Failure {
    Failure::Environment(failure.to_string())
}
