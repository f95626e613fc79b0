//! Records what was asked and committed, and checks it against the model.

use engine::turn::Command;
use jiff::Timestamp;
use store::{Failure, Finding, Store};

use crate::clock::instant;
use crate::faulty_store::{Record, StoreRequest, Told, answer};
use crate::model::{Cause, Checked, Reported, Violation, broken};
use crate::simulation::{Simulation, unexpected};
use crate::watch::Changes;

/// How many callers in a thousand are gone before they are answered.
const GONE: u32 = 100;

impl Simulation {
    /// Somebody gives a command.
    pub(crate) fn command(&mut self, command: Option<Command>) -> Checked {
        let Some(command) = command else { return Ok(()) };
        self.summary.steps += 1;
        let key = format!("command {} {}", self.step, self.summary.steps);
        let Some(node) = &mut self.node else { return Ok(()) };
        if self.random.chance(GONE) && !self.is_calm {
            node.command_and_leave(command, &key);
            return self.command_done();
        }
        let mut answered = node.command(command.clone(), &key);
        // A caller that does not know the outcome asks again.
        for _ in 0..3 {
            self.observe()?;
            if self.machine.desk.take_crash() {
                return self.crash();
            }
            let Some(node) = &mut self.node else { return Ok(()) };
            if !matches!(answered, Err(Failure::Unknown(_))) {
                break;
            }
            answered = node.command(command.clone(), &key);
        }
        self.command_done()
    }

    /// Gives a command once, whatever becomes of it. Returns whether an answer has come.
    pub(crate) fn command_once(&mut self, command: Command) -> Result<bool, Violation> {
        self.summary.steps += 1;
        let key = format!("command {} {}", self.step, self.summary.steps);
        let Some(node) = &mut self.node else { return Ok(false) };
        let answered = node.command(command, &key);
        self.command_done()?;
        Ok(answered.is_ok())
    }

    fn command_done(&mut self) -> Checked {
        self.observe()?;
        if self.machine.desk.take_crash() {
            return self.crash();
        }
        if let Some(node) = &mut self.node {
            node.take_signals();
        }
        self.see_work().map(drop)
    }

    /// Checks the attempts begun and the deeds done outside against the model. Returns whether any
    /// attempt was begun.
    pub(crate) fn see_work(&mut self) -> Result<bool, Violation> {
        let begun = self.machine.work.begun();
        self.model.check_begun(&begun)?;
        self.model.check_deeds(&self.machine.work.deeds())?;
        if let Some(wrong) = self.machine.work.wrong() {
            return broken("given", wrong);
        }
        Ok(!begun.is_empty())
    }

    /// Checks what was committed against the model. Returns whether anything was.
    pub(crate) fn observe(&mut self) -> Result<bool, Violation> {
        let mut changed = false;
        for record in self.machine.desk.records() {
            changed |= self.observe_one(record)?;
        }
        Ok(self.see_work()? || changed)
    }

    fn observe_one(&mut self, record: Record) -> Result<bool, Violation> {
        let Record { asked, now, reached, told: answer, changes, failure, is_simulated, .. } =
            record;
        let changes = changes.map_err(unexpected)?;
        // A planted bug has changed the file before this request came.
        let is_planted = !reached && !changes.is_empty() && self.options.sabotage.is_some();
        if !reached && !changes.is_empty() && !is_planted {
            return broken("store", format!("nothing was committed, yet {changes:?}"));
        }
        self.trace.note(self.step, now, event(&asked, &changes, answer, failure.as_ref()));
        let may_be_refused = matches!(asked, StoreRequest::Command(..) | StoreRequest::Join);
        if let Some(failure) = failure.filter(|_| reached && !may_be_refused && !is_simulated) {
            return broken("store", format!("{asked:?} failed: {failure}"));
        }
        let changed = !changes.is_empty();
        if is_planted {
            self.model.commit(&Cause::Turn(Vec::new()), now, None, changes)?;
            return Ok(changed);
        }
        if !reached {
            return Ok(changed);
        }
        let cause = match asked {
            StoreRequest::Turn { reports, .. } => Cause::Turn(reported(&reports)),
            StoreRequest::Command(command, _) => Cause::Command(command),
            StoreRequest::Join | StoreRequest::Outdated => Cause::Node,
            StoreRequest::PutCalendar => {
                self.model.take_calendars(self.machine.store().map_err(unexpected)?.rules())?;
                Cause::Node
            }
            StoreRequest::Expire { keep } => {
                let more = if let Some(Told::More(more)) = answer { Some(more) } else { None };
                self.model.expire(now, keep, more, changes)?;
                return Ok(changed);
            }
        };
        let refused = if let Some(Told::Refused(refused)) = answer { Some(refused) } else { None };
        self.model.commit(&cause, now, refused, changes)?;
        Ok(changed)
    }

    pub(crate) fn check_store(&mut self) -> Checked {
        let now = instant(self.now());
        check_store(&*self.machine.store().map_err(unexpected)?, now)?;
        match self.machine.desk.look(|watch| watch.leftovers()).map_err(unexpected)? {
            Some(run) => broken("expiry", format!("run {run} is gone, and not all of it")),
            None => Ok(()),
        }
    }
}

/// Lets the store check itself.
pub(crate) fn check_store(store: &dyn Store, now: Timestamp) -> Checked {
    let findings = answer(store.check(now, false)).map_err(unexpected)?;
    let is_wrong = |finding: &&Finding| !is_of_watch(finding) && !is_of_history(finding);
    match findings.iter().find(is_wrong) {
        Some(finding) => broken("store", format!("{}: {}", finding.code, finding.message)),
        None => Ok(()),
    }
}

/// Whether a finding is about the simulator's own triggers and table, by which it watches the
/// store: they are not part of its schema.
pub(crate) fn is_of_watch(finding: &Finding) -> bool {
    let own = ["trigger watch_", "table watched "];
    finding.code == "schema" && own.iter().any(|own| finding.message.starts_with(own))
}

/// Whether a finding is about missing history. In these worlds retentions change and clocks are set
/// back, so some records expire before others that refer to them. The model checks the ledger and
/// the history that must exist.
fn is_of_history(finding: &Finding) -> bool {
    matches!(finding.code, "run-gone" | "run-without-occurrence" | "ledger-gap" | "parent-gone")
}

/// One line about a request, for the trace.
pub(crate) fn event(
    asked: &StoreRequest,
    changes: &Changes,
    told: Option<Told>,
    failure: Option<&Failure>,
) -> String {
    let outcome = failure.map_or_else(|| "committed".to_owned(), ToString::to_string);
    match asked {
        StoreRequest::Turn { reports, .. } => {
            let reports: Vec<(i64, u32)> = reports.iter().map(|r| (r.run.0, r.token)).collect();
            let runs = changes.runs.iter();
            let runs: Vec<String> =
                runs.map(|run| format!("{} {}", run.id(), run.status.name())).collect();
            format!("turn, reports {reports:?}: {outcome}; {}", runs.join(", "))
        }
        StoreRequest::Command(command, _) => format!("{}: {outcome}", brief(command)),
        StoreRequest::Join | StoreRequest::PutCalendar | StoreRequest::Outdated => {
            format!("{asked:?}: {outcome}")
        }
        StoreRequest::Expire { .. } => {
            let (runs, rows) = (changes.runs_gone.len(), changes.ledger.len());
            format!("expire: {outcome}, {told:?}; {runs} runs, {rows} rows")
        }
    }
}

pub(crate) fn reported(reports: &[store::Report]) -> Vec<Reported> {
    let reported = |report: &store::Report| Reported {
        run: report.run.0,
        token: report.token,
        end: report.end.clone(),
    };
    reports.iter().map(reported).collect()
}

/// A short form of a command: definitions are long, and rarely what one looks for.
fn brief(command: &Command) -> String {
    match command {
        Command::SaveWorkflow { source, publish, .. } => {
            let line = source.lines().collect::<Vec<_>>().join(" | ");
            format!("SaveWorkflow publish: {publish} {line}")
        }
        other => format!("{other:?}"),
    }
}
