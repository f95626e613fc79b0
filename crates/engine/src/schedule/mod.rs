//! Schedules: what is declared, how far it has come, and the one transition function.

mod catch_up;
mod control;
mod due;
mod numbered;
mod refusal;
mod settle;
mod upcoming;

use jiff::Timestamp;
use language::definition::EXEC_NOT_ALLOWED;
use language::schedule::{Declared, Plan};
use serde::{Deserialize, Serialize};

pub use control::backfilled;
pub use numbered::Numbered;
pub use refusal::Refusal;
pub use settle::Verdict;
pub use upcoming::{Due, Override, OverrideAction, Upcoming};

use crate::ids::{IncidentKey, RunKey, ScheduleId, WorkflowId};
use crate::ledger::{Entry, Outcome};
use crate::moment::Moment;
use crate::run::{Ending, RunError};
use language::policy::overlap::IfBusy;

/// Where a schedule stands. Only [`decide`] changes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// It has a next time, or waits for its active run. Moved on by `pause`, by its end, by failure.
    Active,
    /// Nothing new starts. Moved on by `resume`.
    Paused,
    /// The repeat limit or the rule's end is reached. Moved on by `revive`.
    Done,
    /// Retries exhausted, or overlap `error`. Moved on by `revive`.
    Dead,
}

impl Status {
    /// Every status, in the order of their stored numbers.
    pub const ALL: [Status; 4] = [Status::Active, Status::Paused, Status::Done, Status::Dead];

    /// As it is shown.
    pub fn name(self) -> &'static str {
        match self {
            Status::Active => "active",
            Status::Paused => "paused",
            Status::Done => "done",
            Status::Dead => "dead",
        }
    }
}

/// A schedule: what was declared and how far it has come.
#[derive(Clone, Debug, PartialEq)]
pub struct Schedule {
    /// Its id.
    pub id: ScheduleId,
    /// What it starts.
    pub workflow: WorkflowId,
    /// The trigger of the definition that declares it, if one does.
    pub trigger: Option<String>,
    /// What was declared. In a box of its own: a turn moves schedules about, and this is most of one.
    pub declared: Box<Declared>,
    /// When it was created.
    pub created_at: Timestamp,
    /// When its declaration or status was last changed.
    pub updated_at: Timestamp,
    /// Where it stands.
    pub status: Status,
    /// How far it has come.
    pub progress: Progress,
}

/// How far a schedule has come: all that changes when it fires.
#[derive(Clone, Debug, PartialEq)]
pub struct Progress {
    /// Where intervals begin: created, edited or resumed.
    pub anchor: Timestamp,
    /// Everything due up to here is decided. It only advances.
    pub mark: Timestamp,
    /// What is due next.
    pub next: Option<Due>,
    /// The number of the next occurrence.
    pub n: u64,
    /// Occurrences that succeeded, as far as they count towards the repeat limit: not those of a backfill.
    pub current_repeat: u64,
    /// The retry the active occurrence is at.
    pub current_retry: u32,
    /// Successful occurrences.
    pub run_count: u64,
    /// Failed runs.
    pub error_count: u64,
    /// What went wrong last, until a success.
    pub last_error: Option<String>,
    /// When the last run started.
    pub last_run_at: Option<Timestamp>,
    /// How the last run ended.
    pub last_outcome: Option<Ending>,
    /// Occurrences that have started and not ended, and runs by hand.
    pub active: Vec<Active>,
    /// Occurrences that wait, first in first out.
    pub queued: Vec<Queued>,
    /// Whether there are overrides to look at.
    pub has_overrides: bool,
    /// When the next time was computed again and changed, until the ledger has said so.
    pub recomputed_at: Option<Timestamp>,
    /// The incident that is open: it has finally failed, and not succeeded since.
    pub incident: Option<IncidentKey>,
    /// When a change of the declaration last gave it a next time again after it was done or dead.
    pub renewed_at: Option<Timestamp>,
}

impl Progress {
    /// Occurrences that have started or wait and will count towards the repeat limit if they succeed.
    fn counting(&self) -> u64 {
        let active = self.active.iter().filter(|active| match active {
            Active::Running { occurrence, .. } | Active::Retrying { occurrence, .. } => {
                !occurrence.backfilled
            }
            Active::ByHand { .. } => false,
        });
        let queued = self.queued.iter().filter(|queued| !queued.occurrence.backfilled);
        (active.count() + queued.count()) as u64
    }

    /// Whether something is active or waits that is made up for.
    pub(crate) fn has_made_up(&self) -> bool {
        let active = self.active.iter().any(|active| match active {
            Active::Running { occurrence, .. } | Active::Retrying { occurrence, .. } => {
                occurrence.made_up
            }
            Active::ByHand { .. } => false,
        });
        active || self.queued.iter().any(|queued| queued.occurrence.made_up)
    }
}

/// What has started and not ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Active {
    /// An occurrence's run.
    #[serde(rename = "r")]
    Running {
        /// Which.
        #[serde(rename = "o")]
        occurrence: Numbered,
        /// Which retry.
        #[serde(rename = "t")]
        retry: u32,
        /// Its run.
        #[serde(rename = "k")]
        run: RunKey,
    },
    /// An occurrence whose run failed waits to be tried again.
    #[serde(rename = "w")]
    Retrying {
        /// Which.
        #[serde(rename = "o")]
        occurrence: Numbered,
        /// The retry that comes.
        #[serde(rename = "t")]
        retry: u32,
        /// When.
        #[serde(with = "crate::moment::milliseconds")]
        at: Timestamp,
    },
    /// A run that was started by hand.
    #[serde(rename = "h")]
    ByHand {
        /// Its run.
        #[serde(rename = "k")]
        run: RunKey,
    },
}

impl Active {
    /// The run that is going on, if one is.
    pub fn run(&self) -> Option<RunKey> {
        match self {
            Active::Running { run, .. } | Active::ByHand { run } => Some(*run),
            Active::Retrying { .. } => None,
        }
    }
}

/// What waits to start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Queued {
    /// Which.
    pub occurrence: Numbered,
    /// The pace of catching up does not let it start earlier.
    pub not_before: Option<Timestamp>,
}

/// Whether trying a failed run again can help.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hope {
    /// It can: the next attempt may end differently.
    Again,
    /// Not as the run's workflow is: every attempt ends the same.
    None,
    /// It can, once the node is set up otherwise: the work itself was not tried.
    OtherSetup,
}

impl Hope {
    /// What to hope for after a run has failed with this error.
    pub(crate) fn after(error: Option<&RunError>, retryable: bool) -> Hope {
        match error {
            Some(error) if error.code == EXEC_NOT_ALLOWED => Hope::OtherSetup,
            _ if retryable => Hope::Again,
            _ => Hope::None,
        }
    }
}

/// What can happen to a schedule.
#[derive(Clone, Debug)]
pub enum Input<'a> {
    /// Its wakeup has come.
    Due,
    /// A run of it has ended.
    RunEnded {
        /// Which run.
        run: RunKey,
        /// How.
        ending: Ending,
        /// What went wrong, if something did.
        error: Option<&'a str>,
        /// Whether trying again can help, if it failed.
        hope: Hope,
    },
    /// Someone pauses it.
    Pause,
    /// Someone resumes it; what was missed meanwhile is caught up only if asked.
    Resume {
        /// Whether to catch up.
        catch_up: bool,
    },
    /// Someone gives it a new life.
    Revive,
    /// Someone changes the declaration.
    Edit(Box<Declared>),
    /// Someone starts it by hand: beside whatever is active, unless they would rather be refused.
    Start(IfBusy),
    /// Someone wants past occurrences to run after all.
    Backfill {
        /// From here on.
        from: Timestamp,
        /// Up to here.
        to: Timestamp,
        /// At most so many.
        limit: u32,
        /// Time between two starts.
        pace: Option<jiff::SignedDuration>,
        /// Nominal times of the range that do not run once more.
        passed_over: Vec<Timestamp>,
    },
    /// The zone database, a calendar or an override has changed.
    Recompute,
}

/// What follows from an input.
#[derive(Debug, Default)]
pub struct Decision {
    /// Ledger rows: new ones, or in place of the row with the same number.
    pub ledger: Vec<Entry>,
    /// Runs to create.
    pub starts: Vec<Start>,
    /// Runs to cancel.
    pub cancels: Vec<RunKey>,
    /// Whether it has finally failed, or succeeded.
    pub verdict: Option<Verdict>,
    /// What people should hear of.
    pub turnings: Vec<Turning>,
}

/// A turn for the worse or the better that people should hear of. This is where everything that tells of failures
/// begins: the log, the metrics, notifications.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Turning {
    /// An occurrence failed and is not tried again; the next one comes as usual.
    OccurrenceFailed {
        /// Its number.
        n: u64,
        /// What went wrong.
        error: String,
    },
    /// The schedule died: nothing more comes until someone revives it.
    Died {
        /// Why.
        reason: String,
    },
    /// The schedule paused itself after a failure.
    PausedByFailure {
        /// What went wrong.
        reason: String,
    },
    /// An occurrence succeeded after a failure.
    Recovered {
        /// Its number.
        n: u64,
    },
}

/// A run to create.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Start {
    /// Its key.
    pub run: RunKey,
    /// The occurrence and which retry of it; none for a start by hand.
    pub occurrence: Option<(Numbered, u32)>,
}

/// All a decision needs besides the schedule itself.
pub struct Situation<'a> {
    /// The declaration, checked. For [`Input::Edit`], the new one.
    pub plan: &'a Plan,
    /// What was overridden by hand.
    pub overrides: &'a [Override],
    /// Why nothing starts at present, whatever the schedule says: its workflow is paused.
    pub hold: Option<&'static str>,
    /// Now.
    pub moment: Moment,
    /// Gives the keys of new runs.
    pub new_key: &'a mut dyn FnMut() -> RunKey,
}

/// The transition function: total over status and input. A refusal changes nothing.
pub fn decide(
    schedule: &mut Schedule,
    input: Input<'_>,
    situation: &mut Situation<'_>,
) -> Result<Decision, Refusal> {
    let mut decider = Decider { schedule, situation, decision: Decision::default() };
    match input {
        Input::Due => decider.due(),
        Input::RunEnded { run, ending, error, hope } => {
            decider.run_ended(run, ending, error, hope);
        }
        Input::Pause => decider.pause()?,
        Input::Resume { catch_up } => decider.resume(catch_up)?,
        Input::Revive => decider.revive()?,
        Input::Edit(declared) => decider.edit(declared),
        Input::Start(if_busy) => decider.start_by_hand(if_busy)?,
        Input::Backfill { from, to, limit, pace, passed_over } => {
            decider.backfill((from, to), limit, pace, &passed_over)?;
        }
        Input::Recompute => decider.recompute(),
    }
    Ok(decider.decision)
}

/// One decision in the making.
struct Decider<'a, 'b> {
    schedule: &'a mut Schedule,
    situation: &'a mut Situation<'b>,
    decision: Decision,
}

impl Schedule {
    /// A new schedule; its next time is computed.
    pub fn new(
        id: ScheduleId,
        workflow: WorkflowId,
        trigger: Option<String>,
        declared: Box<Declared>,
        plan: &Plan,
        now: Timestamp,
    ) -> Schedule {
        let progress = Progress {
            anchor: now,
            mark: now,
            next: None,
            n: 0,
            current_repeat: 0,
            current_retry: 0,
            run_count: 0,
            error_count: 0,
            last_error: None,
            last_run_at: None,
            last_outcome: None,
            active: Vec::new(),
            queued: Vec::new(),
            has_overrides: false,
            recomputed_at: None,
            incident: None,
            renewed_at: None,
        };
        let status = Status::Active;
        let (created_at, updated_at) = (now, now);
        let mut schedule =
            Schedule { id, workflow, trigger, declared, created_at, updated_at, status, progress };
        schedule.progress.next = upcoming::first(plan, &schedule.progress);
        // What is due once, and was due before it was declared, is late but still due.
        if schedule.progress.next.is_none() {
            schedule.progress.next = upcoming::overdue_once(plan);
            if let Some(due) = schedule.progress.next {
                schedule.progress.mark = upcoming::just_before(due.effective).min(now);
            }
        }
        schedule.status = if schedule.progress.next.is_some() { status } else { Status::Done };
        schedule
    }

    /// Ends it if nothing can come any more.
    pub(crate) fn finish_if_exhausted(&mut self, now: Timestamp) {
        let progress = &self.progress;
        let idle = progress.active.is_empty() && progress.queued.is_empty();
        if self.status == Status::Active && progress.next.is_none() && idle {
            (self.status, self.updated_at) = (Status::Done, now);
        }
    }

    /// What its declaration says is due next, if everything up to `after` is decided.
    pub fn next_after(&self, plan: &Plan, overrides: &[Override], after: Timestamp) -> Option<Due> {
        let progress = &self.progress;
        let is_idle = progress.active.is_empty() && progress.queued.is_empty();
        let next = match self.follows_completion(plan) {
            // It counts from the end of what is going on, and nothing of it can be moved.
            true if !is_idle => None,
            true => plan.timing.next_after(after).map(Due::from),
            false => Upcoming { plan, overrides }.after(after),
        };
        next.filter(|_| !self.has_reached_its_limit())
    }

    /// Whether as many occurrences have succeeded as its repeat limit allows.
    pub fn has_reached_its_limit(&self) -> bool {
        let total = self.declared.total_repeats;
        total > 0 && self.progress.current_repeat >= total
    }

    /// How many more occurrences the repeat limit lets start: each one that is active or waits may be one of
    /// those that are left. Nothing if there is no limit.
    pub fn remaining(&self) -> Option<u64> {
        let total = self.declared.total_repeats;
        let taken = self.progress.current_repeat.saturating_add(self.progress.counting());
        (total > 0).then(|| total.saturating_sub(taken))
    }

    /// What comes next, as it is shown. Nothing comes of a schedule that is not active or whose workflow is
    /// paused, nor while what is going on may be the last that the repeat limit allows.
    pub fn coming(&self, workflow_is_paused: bool) -> Option<Due> {
        let comes = self.status == Status::Active && !workflow_is_paused;
        self.progress.next.filter(|_| comes && self.remaining() != Some(0))
    }

    /// Whether it is not paused: what `enable` and `disable` change.
    pub fn is_enabled(&self) -> bool {
        self.status != Status::Paused
    }

    /// Whether its next time counts from the end of its last run.
    pub fn follows_completion(&self, plan: &Plan) -> bool {
        matches!(plan.timing.rule(), calendar::Rule::AfterCompletion(_))
    }

    /// The key that gives the place of its occurrences inside a spread window.
    pub fn spread_key(&self) -> String {
        spread_key(&self.declared, self.id)
    }

    /// When to look at it again.
    pub fn wake_at(&self) -> Option<Timestamp> {
        let progress = &self.progress;
        let next = progress.next.filter(|_| self.status == Status::Active).map(|due| due.effective);
        let retries = progress.active.iter().filter_map(|active| match active {
            Active::Retrying { at, .. } => Some(*at),
            _ => None,
        });
        let free = progress.active.is_empty();
        let queued = progress.queued.first().filter(|_| free);
        let queued =
            queued.map(|queued| queued.not_before.unwrap_or(queued.occurrence.due.effective));
        next.into_iter().chain(retries).chain(queued).min()
    }
}

/// The key of a schedule with this declaration and id.
pub(crate) fn spread_key(declared: &Declared, id: ScheduleId) -> String {
    if declared.timing.spread.is_some() { id.to_string() } else { String::new() }
}

impl Decider<'_, '_> {
    fn now(&self) -> Timestamp {
        self.situation.moment.now
    }

    /// Writes a ledger row about one occurrence.
    fn record(
        &mut self,
        occurrence: &Numbered,
        outcome: Outcome,
        reason: impl Into<std::borrow::Cow<'static, str>>,
        run: Option<RunKey>,
    ) {
        let mut reason = reason.into();
        if let Some(at) = self.schedule.progress.recomputed_at.take() {
            let why = "a calendar or the zone database had changed";
            reason = format!("{reason} (computed again at {at}: {why})").into();
        }
        self.decision.ledger.push(Entry {
            schedule: self.schedule.id,
            n: occurrence.n,
            count: 1,
            nominal: occurrence.due.nominal,
            last_nominal: occurrence.due.nominal,
            effective: occurrence.due.effective,
            decided_at: self.situation.moment.now,
            outcome,
            reason,
            run,
        });
    }

    /// Creates the run of an occurrence.
    fn start(&mut self, occurrence: Numbered, retry: u32) -> RunKey {
        let run = (self.situation.new_key)();
        self.decision.starts.push(Start { run, occurrence: Some((occurrence, retry)) });
        let progress = &mut self.schedule.progress;
        progress.active.push(Active::Running { occurrence, retry, run });
        progress.current_retry = retry;
        progress.last_run_at = Some(self.situation.moment.now);
        run
    }

    /// Ends the schedule if nothing can come any more.
    fn finish_if_exhausted(&mut self) {
        self.schedule.finish_if_exhausted(self.situation.moment.now);
    }

    fn tell(&mut self, turning: Turning) {
        self.decision.turnings.push(turning);
    }

    fn set_status(&mut self, status: Status) {
        self.schedule.status = status;
        self.schedule.updated_at = self.situation.moment.now;
    }

    /// Gives up what waits for its turn, with the reason.
    fn drop_queued(&mut self, reason: &'static str) {
        for queued in std::mem::take(&mut self.schedule.progress.queued) {
            self.record(&queued.occurrence, Outcome::Dropped, reason, None);
        }
    }

    /// Gives up what waits for its turn and what waits to be tried again; what runs goes on.
    fn drop_waiting(&mut self, reason: &'static str) {
        self.drop_queued(reason);
        for active in std::mem::take(&mut self.schedule.progress.active) {
            match active {
                // Which retry it had come to stays to be seen.
                Active::Retrying { occurrence, .. } => {
                    self.record(&occurrence, Outcome::Dropped, reason, None);
                }
                running => self.schedule.progress.active.push(running),
            }
        }
    }
}
