//! Explains in sentences, from stored data, why a schedule ran, waited or did not run.

use calendar::{Fate, Zone};
use jiff::Timestamp;
use language::schedule::Plan;

use crate::ids::RunId;
use crate::ledger::{Entry, Outcome};
use crate::run::RunStatus;
use crate::schedule::{
    Active, Ahead, AheadFate, Outlook, Override, OverrideAction, Schedule, Status, Upcoming,
    just_before,
};

/// How many starts at one instant are told of.
const AT_ONE_INSTANT: usize = 8;

/// The data that an explanation uses.
pub struct ScheduleFacts<'a> {
    pub schedule: &'a Schedule,
    /// The name of the workflow.
    pub workflow: &'a str,
    pub workflow_is_paused: bool,
    /// The checked declaration; `None` if it can no longer be read.
    pub plan: Option<&'a Plan>,
    pub overrides: &'a [Override],
    /// Ledger rows, latest first: the last ones, or those about the time in question.
    pub rows: &'a [Row],
    pub now: Timestamp,
}

/// A row of the ledger, and the status of its run.
#[derive(Clone, Debug)]
pub struct Row {
    pub entry: Entry,
    /// The run that was created for it, if it still exists.
    pub run: Option<(RunId, RunStatus)>,
}

/// Explains the schedule's status, what happened last, and what comes next.
pub fn now(facts: &ScheduleFacts<'_>) -> Vec<String> {
    let mut told = vec![facts.identity()];
    told.extend(facts.standing());
    told.extend(facts.going_on());
    told.extend(facts.rows.iter().map(|row| facts.happened(row)));
    told.extend(facts.coming());
    told
}

/// Explains what happened, or will happen, at one time.
pub fn at(facts: &ScheduleFacts<'_>, at: Timestamp) -> Vec<String> {
    let mut told = vec![facts.identity()];
    told.extend(facts.rows.iter().map(|row| facts.happened(row)));
    if at > facts.schedule.progress.mark {
        told.extend(facts.future(at));
    } else if facts.rows.is_empty() {
        told.push(facts.nothing_then(at));
    }
    told
}

impl ScheduleFacts<'_> {
    fn zone(&self) -> Zone {
        self.plan.map_or_else(Zone::utc, |plan| plan.timing.zone().clone())
    }

    fn time(&self, at: Timestamp) -> String {
        self.zone().rfc3339(at)
    }

    fn identity(&self) -> String {
        let Schedule { id, declared, .. } = self.schedule;
        let words = match self.plan {
            Some(plan) => plan.timing.words(),
            None => "its rule cannot be read any more".to_owned(),
        };
        format!("Schedule {id} ({}) starts workflow {}: {words}.", declared.name, self.workflow)
    }

    fn standing(&self) -> Vec<String> {
        let schedule = self.schedule;
        let since = self.time(schedule.updated_at);
        let error = schedule.progress.last_error.as_deref();
        let mut told = Vec::new();
        match schedule.status {
            Status::Active => told.extend(schedule.progress.renewed_at.map(|at| {
                let at = self.time(at);
                format!(
                    "It lives again since {at}: a change of its declaration gave it a next time."
                )
            })),
            Status::Paused if schedule.declared_by.is_some() => {
                told.push(format!(
                    "It is paused: enable or resume lets it go on. It was last changed at {since}."
                ));
            }
            Status::Paused => {
                told.push(format!(
                    "It is paused: resume lets it go on. It was last changed at {since}."
                ));
            }
            Status::Done => told
                .push(format!("It is done: {}. It was last changed at {since}.", self.why_done())),
            Status::Dead => told.push(format!(
                "It is dead: {}. It was last changed at {since}. Revive gives it a new life.",
                error.unwrap_or("its retries are exhausted")
            )),
        }
        if let Some(error) = error.filter(|_| schedule.status != Status::Dead) {
            told.push(format!("Its last run did not end well: {error}."));
        }
        if self.workflow_is_paused {
            let workflow = self.workflow;
            told.push(format!("Workflow {workflow} is paused: nothing starts but by hand."));
        }
        told
    }

    fn why_done(&self) -> String {
        let limit = self.schedule.declared.total_repeats;
        if limit > 0 && self.schedule.progress.current_repeat >= limit {
            format!("{limit} occurrences have succeeded, as many as total_repeats allows")
        } else {
            "its rule has no later time".to_owned()
        }
    }

    fn going_on(&self) -> Vec<String> {
        let progress = &self.schedule.progress;
        let retries = self.schedule.declared.max_retries();
        let mut told: Vec<String> = progress
            .active
            .iter()
            .map(|active| match active {
                Active::Running { occurrence, retry: 0, .. } => {
                    format!("Occurrence {} has not ended.", occurrence.n)
                }
                Active::Running { occurrence, retry, .. } => format!(
                    "Occurrence {} is tried again: retry {retry} of {retries} has not ended.",
                    occurrence.n
                ),
                Active::Retrying { occurrence, retry, at } => format!(
                    "Occurrence {} failed; retry {retry} of {retries} begins at {}.",
                    occurrence.n,
                    self.time(*at)
                ),
                Active::ByHand { .. } => {
                    format!("A run started by {} has not ended.", self.schedule.starts_besides())
                }
            })
            .collect();
        match progress.queued.as_slice() {
            [] => {}
            [one] => told.push(format!("Occurrence {} waits for its turn.", one.occurrence.n)),
            [first, ..] => told.push(format!(
                "{} occurrences wait for their turn, occurrence {} first.",
                progress.queued.len(),
                first.occurrence.n
            )),
        }
        told
    }

    fn happened(&self, Row { entry, run }: &Row) -> String {
        let what = match entry.outcome {
            Outcome::Started | Outcome::Moved => match run {
                Some((id, status)) => format!("started as run {id}, which {}", stands(*status)),
                None => "started; its run is not kept any more".to_owned(),
            },
            Outcome::Queued => "waits".to_owned(),
            Outcome::Skipped => "did not run".to_owned(),
            Outcome::Coalesced => "was merged into another".to_owned(),
            Outcome::Missed => "was missed".to_owned(),
            Outcome::Dropped => "waited and was given up".to_owned(),
            Outcome::Failed => "failed".to_owned(),
        };
        let moved = if entry.effective != entry.nominal && entry.count == 1 {
            format!(", due {}", self.time(entry.effective))
        } else {
            String::new()
        };
        let (n, nominal) = (entry.n, self.time(entry.nominal));
        let which = match entry.count {
            1 => format!("Occurrence {n} of {nominal}{moved}"),
            count => {
                let last = self.time(entry.last_nominal);
                format!("Each of {count} occurrences from {n} of {nominal} to {last}")
            }
        };
        let decided = self.time(entry.decided_at);
        format!("{which}, {what}: {} (decided {decided}).", entry.reason)
    }

    fn outlook(&self) -> Option<Outlook<'_>> {
        Some(Outlook {
            schedule: self.schedule,
            plan: self.plan?,
            overrides: self.overrides,
            workflow_is_paused: self.workflow_is_paused,
            now: self.now,
        })
    }

    fn coming(&self) -> Option<String> {
        let rows = self.outlook()?.coming(1);
        let starts = rows.iter().find_map(|next| Some((next, next.effective?)));
        let Some((next, at)) = starts else {
            // Earlier sentences already say that the schedule is over, or what is paused.
            let is_told = self.schedule.status != Status::Active || self.workflow_is_paused;
            return (!is_told).then(|| "Nothing comes after what is going on.".to_owned());
        };
        let (nominal, effective) = (self.time(next.nominal), self.time(at));
        let over = self.overrides.iter().find(|over| over.nominal == next.nominal);
        let how = match over.map(|over| (&over.action, &over.by)) {
            _ if matches!(next.fate, AheadFate::Retried | AheadFate::Queued) => {
                next.reason.as_ref().map(|reason| format!(", {reason}"))
            }
            Some((OverrideAction::Payload(_), by)) => {
                Some(format!(", with a payload given by {by}"))
            }
            Some((OverrideAction::Move(_), by)) => Some(format!(", moved by {by} from {nominal}")),
            Some((OverrideAction::Skip, _)) | None => (next.nominal != at)
                .then(|| format!(", moved from {nominal}{}", self.why_moved(next.nominal))),
        };
        let mut before = rows.iter().take_while(|row| row.effective.is_none());
        let skipped = before.find_map(|row| {
            let over = self.overrides.iter().find(|over| over.nominal == row.nominal)?;
            let skips = matches!(over.action, OverrideAction::Skip);
            skips.then(|| format!("; {} is skipped by {}", self.time(row.nominal), over.by))
        });
        Some(format!(
            "Next is {effective}{}{}.",
            how.unwrap_or_default(),
            skipped.unwrap_or_default()
        ))
    }

    fn why_moved(&self, nominal: Timestamp) -> String {
        match self.plan.map(|plan| plan.timing.fate(nominal)) {
            Some(Fate::Moved { reason, .. }) => format!(" by the calendar ({reason})"),
            _ => " inside its spread window".to_owned(),
        }
    }

    /// Explains a time that has not been decided yet: the occurrence that the rule has then, and
    /// what starts then.
    fn future(&self, at: Timestamp) -> Vec<String> {
        let is_new = self.rows.is_empty();
        let mut told = if is_new { self.standing() } else { Vec::new() };
        let Some(outlook) = self.outlook() else { return told };
        let upcoming = Upcoming { plan: outlook.plan, overrides: self.overrides };
        let ruled = upcoming.ruled(at);
        let lands = match upcoming.of(at).map(|over| &over.action) {
            Some(OverrideAction::Move(to)) => Some(*to),
            _ => ruled.map(|due| due.effective),
        };
        // Sentences show whole seconds, and a time is asked for as it was shown.
        let is_asked = |time: Timestamp| {
            time == at || (at.subsec_nanosecond() == 0 && time.as_second() == at.as_second())
        };
        let mut rows: Vec<Ahead> = Vec::new();
        for instant in [Some(at), lands.filter(|lands| *lands != at)].into_iter().flatten() {
            for row in outlook.coming_after(just_before(instant), AT_ONE_INSTANT) {
                let is_it = is_asked(row.nominal) || row.effective.is_some_and(is_asked);
                if is_it && !rows.contains(&row) {
                    rows.push(row);
                }
            }
        }
        told.extend(rows.iter().map(|row| self.to_come(row)));
        let limit = self.schedule.remaining().filter(|_| self.schedule.status == Status::Active);
        let shown = self.time(at);
        if rows.is_empty() && is_new {
            told.push(match (ruled, limit) {
                (None, _) => self.nothing_then(at),
                (Some(_), None) => format!("{shown} is a time of the rule."),
                (Some(_), Some(_)) => format!(
                    "{shown} is a time of the rule, and does not start unless one before it fails: \
                     total_repeats allows no more."
                ),
            });
        }
        told
    }

    fn to_come(&self, row: &Ahead) -> String {
        let nominal = self.time(row.nominal);
        let reason = row.reason.as_ref().map(|reason| format!(" ({reason})")).unwrap_or_default();
        match (row.fate, row.effective) {
            (_, Some(at)) if at == row.nominal => format!("{nominal} is to come{reason}."),
            (AheadFate::Kept, Some(at)) => {
                let at = self.time(at);
                format!("{nominal} is to come at {at}, inside its spread window{reason}.")
            }
            (_, Some(at)) => format!("{nominal} is to come at {}{reason}.", self.time(at)),
            (AheadFate::Queued, None) => format!("{nominal} is to come later{reason}."),
            (_, None) => format!("{nominal} does not start{reason}."),
        }
    }

    fn nothing_then(&self, at: Timestamp) -> String {
        let shown = self.time(at);
        if at < self.schedule.created_at {
            let created = self.time(self.schedule.created_at);
            return format!("Nothing is known of {shown}: the schedule was created at {created}.");
        }
        let Some(plan) = self.plan else { return format!("Nothing was due at {shown}.") };
        let upcoming = Upcoming { plan, overrides: self.overrides };
        let around = [
            plan.timing
                .previous_before(at)
                .map(|due| format!("before it {}", self.time(due.effective))),
            upcoming.after(at).map(|due| format!("after it {}", self.time(due.effective))),
        ];
        let around: Vec<String> = around.into_iter().flatten().collect();
        if around.is_empty() {
            return format!("Nothing is due at {shown}.");
        }
        format!("Nothing is due at {shown}; the rule's times are {}.", around.join(" and "))
    }
}

fn stands(status: RunStatus) -> &'static str {
    match status {
        RunStatus::Pending => "waits for a free slot",
        RunStatus::Running => "has not ended",
        RunStatus::Waiting => "waits",
        RunStatus::Suspended => "waits for a person to say what became of it",
        RunStatus::Succeeded => "succeeded",
        RunStatus::Failed => "failed",
        RunStatus::Cancelled => "was cancelled",
        RunStatus::TimedOut => "took too long and was ended",
    }
}

#[cfg(test)]
mod tests;
