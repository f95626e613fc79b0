//! Schedules: their declaration, their progress, and the transition function.

mod catch_up;
mod control;
mod due;
mod last_plan;
mod numbered;
mod outlook;
mod refusal;
mod settle;
mod upcoming;

use std::collections::BTreeMap;

use jiff::Timestamp;
use language::definition::DeclaredBy;
use language::schedule::{Declared, Plan};
use serde::{Deserialize, Serialize};

pub use last_plan::LastPlan;
pub use numbered::Numbered;
pub use outlook::{Ahead, AheadFate, Outlook};
pub use refusal::Refusal;
pub use settle::Verdict;
pub(crate) use upcoming::just_before;
pub use upcoming::{Due, Override, OverrideAction, Upcoming};

use crate::ids::{IncidentKey, RunKey, ScheduleId, WorkflowId};
use crate::ledger::{Entry, Outcome};
use crate::moment::Moment;
use crate::run::{Ending, Retryability};
use language::policy::overlap::IfBusy;

/// The status of a schedule. Only [`decide`] changes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// The schedule has a next time, or waits for its active run. A pause, its end or a failure
    /// moves it on.
    Active,
    /// Nothing new starts. `resume` moves it on.
    Paused,
    /// The repeat limit or the rule's end is reached. `revive` moves it on.
    Done,
    /// Its retries are exhausted, or overlap `error` applied. `revive` moves it on.
    Dead,
}

impl Status {
    /// Every status, in the order of their stored numbers.
    pub const ALL: [Status; 4] = [Status::Active, Status::Paused, Status::Done, Status::Dead];

    /// The name in the API and on pages.
    pub fn name(self) -> &'static str {
        match self {
            Status::Active => "active",
            Status::Paused => "paused",
            Status::Done => "done",
            Status::Dead => "dead",
        }
    }
}

/// A schedule: its declaration and its progress.
#[derive(Clone, Debug, PartialEq)]
pub struct Schedule {
    pub id: ScheduleId,
    /// The workflow that it starts.
    pub workflow: WorkflowId,
    /// The trigger or producer of a definition that declares it, if one does.
    pub declared_by: Option<DeclaredBy>,
    /// The declaration. It is boxed because a turn moves schedules around, and this is their
    /// largest part.
    pub declared: Box<Declared>,
    pub created_at: Timestamp,
    /// When its declaration or status was last changed.
    pub updated_at: Timestamp,
    pub status: Status,
    pub progress: Progress,
    /// The plan by which it was decided last.
    pub last_plan: LastPlan,
}

/// The progress of a schedule: everything that changes when it fires.
#[derive(Clone, Debug, PartialEq)]
pub struct Progress {
    /// The instant from which intervals count: when the schedule was created, edited or resumed.
    pub anchor: Timestamp,
    /// Everything due up to here is decided. It only advances.
    pub mark: Timestamp,
    pub next: Option<Due>,
    /// The number of the next occurrence.
    pub n: u64,
    /// The number of successful occurrences that count towards the repeat limit. Those of a
    /// backfill do not.
    pub current_repeat: u64,
    /// The current retry of the active occurrence.
    pub current_retry: u32,
    /// The number of successful occurrences.
    pub run_count: u64,
    /// The number of failed runs.
    pub error_count: u64,
    /// The last error, until a success.
    pub last_error: Option<String>,
    pub last_run_at: Option<Timestamp>,
    pub last_outcome: Option<Ending>,
    /// Occurrences that have started and not ended, and runs started by hand.
    pub active: Vec<Active>,
    /// Waiting occurrences, first in, first out.
    pub queued: Vec<Queued>,
    /// Whether the store has overrides for this schedule.
    pub has_overrides: bool,
    /// When the next time was recomputed and changed, until a ledger row mentions it.
    pub recomputed_at: Option<Timestamp>,
    /// The open incident: an occurrence has finally failed, and none has succeeded since.
    pub incident: Option<IncidentKey>,
    /// When an edit last gave the schedule a next time after it was done or dead.
    pub renewed_at: Option<Timestamp>,
}

impl Progress {
    /// The number of active and queued occurrences that will count towards the repeat limit if they
    /// succeed.
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

    /// Whether a made-up occurrence is active or queued.
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

/// An occurrence or run that has started and not ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Active {
    /// The run of an occurrence.
    #[serde(rename = "r")]
    Running {
        #[serde(rename = "o")]
        occurrence: Numbered,
        /// The number of the retry; 0 for the first run.
        #[serde(rename = "t")]
        retry: u32,
        #[serde(rename = "k")]
        run: RunKey,
    },
    /// An occurrence whose run failed and that waits for its retry.
    #[serde(rename = "w")]
    Retrying {
        #[serde(rename = "o")]
        occurrence: Numbered,
        /// The number of the coming retry.
        #[serde(rename = "t")]
        retry: u32,
        #[serde(with = "crate::moment::milliseconds")]
        at: Timestamp,
    },
    /// A run that was started by hand.
    #[serde(rename = "h")]
    ByHand {
        #[serde(rename = "k")]
        run: RunKey,
    },
}

impl Active {
    /// The active run, if there is one.
    pub fn run(&self) -> Option<RunKey> {
        match self {
            Active::Running { run, .. } | Active::ByHand { run } => Some(*run),
            Active::Retrying { .. } => None,
        }
    }
}

/// An occurrence that waits to start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Queued {
    pub occurrence: Numbered,
    /// The earliest start that the pace of a catch-up or backfill allows.
    pub not_before: Option<Timestamp>,
}

/// An input to a schedule.
#[derive(Clone, Debug)]
pub enum Input {
    /// The schedule's wakeup is due.
    Due,
    /// A run of the schedule has ended.
    RunEnded {
        run: RunKey,
        ending: Ending,
        error: Option<String>,
        /// Whether a retry can help, if the run failed.
        retryability: Retryability,
    },
    Pause,
    /// A person resumes it. Missed occurrences are caught up only on request.
    Resume {
        catch_up: bool,
    },
    /// A person makes a done or dead schedule active again.
    Revive,
    /// A person changes the declaration.
    Edit(Box<Declared>),
    /// A person starts it by hand: beside active runs, unless the caller prefers to be refused.
    Start(IfBusy),
    /// A person asks for past occurrences to run after all.
    Backfill {
        from: Timestamp,
        to: Timestamp,
        /// The maximum number of occurrences.
        limit: u32,
        /// The time between two starts.
        pace: Option<jiff::SignedDuration>,
        /// Nominal times in the range that do not run again.
        passed_over: Vec<Timestamp>,
    },
    /// The zone database, a calendar or an override has changed.
    Recompute,
}

/// The consequences of an input.
#[derive(Debug, Default)]
pub struct Decision {
    /// Ledger rows. A row replaces an earlier one with the same number.
    pub ledger: Vec<Entry>,
    pub starts: Vec<Start>,
    pub cancels: Vec<RunKey>,
    /// Whether an occurrence has finally failed, or a run has succeeded.
    pub verdict: Option<Verdict>,
    /// Events that people should know about.
    pub turnings: Vec<Turning>,
}

/// A change for the worse or the better that people should know about. The log, the metrics and
/// notifications all start here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Turning {
    /// An occurrence has failed and is not retried. The next one comes as usual.
    OccurrenceFailed { n: u64, error: String },
    /// The schedule is dead: nothing more starts until a person revives it.
    Died { reason: String },
    /// The schedule paused itself after a failure.
    PausedByFailure { reason: String },
    /// An occurrence succeeded after a failure.
    Recovered { n: u64 },
}

/// A run to create.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Start {
    pub run: RunKey,
    /// The occurrence and its retry number; `None` for a start by hand.
    pub occurrence: Option<(Numbered, u32)>,
}

/// What a decision needs besides the schedule itself.
pub struct DecideContext<'a> {
    /// The checked declaration. For [`Input::Edit`], the new one.
    pub plan: &'a Plan,
    pub overrides: &'a [Override],
    /// Why nothing can start at present, regardless of the schedule: for example, its workflow is
    /// paused.
    pub hold: Option<&'static str>,
    pub moment: Moment,
    /// Generates the keys of new runs.
    pub new_key: &'a mut dyn FnMut() -> RunKey,
}

/// The transition function: total over status and input. A refusal changes nothing.
pub fn decide(
    schedule: &mut Schedule,
    input: Input,
    context: &mut DecideContext<'_>,
) -> Result<Decision, Refusal> {
    let skips = |over: &&Override| matches!(over.action, OverrideAction::Skip);
    let skips = context.overrides.iter().filter(skips);
    let skipped = skips.map(|over| (over.nominal, over.by.as_str())).collect();
    let mut decider = Decider { schedule, context, skipped, decision: Decision::default() };
    match input {
        Input::Due => decider.due(),
        Input::RunEnded { run, ending, error, retryability } => {
            decider.run_ended(run, ending, error.as_deref(), retryability);
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

/// A decision in progress.
struct Decider<'a, 'b> {
    schedule: &'a mut Schedule,
    context: &'a mut DecideContext<'b>,
    /// The nominal times of occurrences that people have skipped, with who did: a catch-up looks up
    /// each of up to 100,000 occurrences several times.
    skipped: BTreeMap<Timestamp, &'b str>,
    decision: Decision,
}

impl Schedule {
    /// Gives up the occurrences that wait to start or to be tried again, and the run that has
    /// ended, without deciding anything. Returns the ledger rows of the occurrences.
    pub(crate) fn forget_waiting(
        &mut self,
        ended: Option<RunKey>,
        now: Timestamp,
        reason: &'static str,
    ) -> Vec<Entry> {
        let queued = std::mem::take(&mut self.progress.queued);
        let mut given_up: Vec<Numbered> = queued.iter().map(|queued| queued.occurrence).collect();
        self.progress.active.retain(|active| {
            if let Active::Retrying { occurrence, .. } = active {
                given_up.push(*occurrence);
            }
            active.run().is_some_and(|run| Some(run) != ended)
        });
        let entry = |occurrence: &Numbered| {
            Entry::of(self.id, occurrence, now, Outcome::Dropped, reason.into(), None)
        };
        given_up.iter().map(entry).collect()
    }
}

impl Schedule {
    /// A new schedule with its first time computed.
    pub fn new(
        id: ScheduleId,
        workflow: WorkflowId,
        declared_by: Option<DeclaredBy>,
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
        let mut schedule = Schedule {
            id,
            workflow,
            declared_by,
            declared,
            created_at,
            updated_at,
            status,
            progress,
            last_plan: LastPlan::default(),
        };
        schedule.progress.next = upcoming::first(plan, &schedule.progress);
        // A single time that had passed before the declaration is late, but still due.
        if schedule.progress.next.is_none() {
            schedule.progress.next = upcoming::overdue_once(plan);
            if let Some(due) = schedule.progress.next {
                schedule.progress.mark = upcoming::just_before(due.effective).min(now);
            }
        }
        schedule.status = if schedule.progress.next.is_some() { status } else { Status::Done };
        schedule
    }

    /// Marks the schedule as done if nothing more can come.
    pub(crate) fn finish_if_exhausted(&mut self, now: Timestamp) {
        let progress = &self.progress;
        let idle = progress.active.is_empty() && progress.queued.is_empty();
        if self.status == Status::Active && progress.next.is_none() && idle {
            (self.status, self.updated_at) = (Status::Done, now);
        }
    }

    /// The next occurrence according to the declaration, if everything up to `after` is decided.
    pub fn next_after(&self, plan: &Plan, overrides: &[Override], after: Timestamp) -> Option<Due> {
        let progress = &self.progress;
        let is_idle = progress.active.is_empty() && progress.queued.is_empty();
        let next = if !self.follows_completion(plan) {
            Upcoming { plan, overrides }.after(after)
        } else if is_idle {
            plan.timing.next_after(after).map(Due::from)
        } else {
            // The next time counts from the end of the active run, and cannot be overridden.
            None
        };
        next.filter(|_| !self.has_reached_its_limit())
    }

    /// Whether as many occurrences have succeeded as the repeat limit allows.
    pub fn has_reached_its_limit(&self) -> bool {
        let total = self.declared.total_repeats;
        total > 0 && self.progress.current_repeat >= total
    }

    /// How many more occurrences the repeat limit allows to start, assuming that every active and
    /// queued one succeeds. `None` if there is no limit.
    pub fn remaining(&self) -> Option<u64> {
        let total = self.declared.total_repeats;
        let taken = self.progress.current_repeat.saturating_add(self.progress.counting());
        (total > 0).then(|| total.saturating_sub(taken))
    }

    /// Whether the schedule is not paused: what `enable` and `disable` change.
    pub fn is_enabled(&self) -> bool {
        self.status != Status::Paused
    }

    /// Whether the next time counts from the end of the last run.
    pub fn follows_completion(&self, plan: &Plan) -> bool {
        matches!(plan.timing.rule(), calendar::Rule::AfterCompletion(_))
    }

    /// The name of the producer that declares it, if one does.
    pub fn producer(&self) -> Option<&str> {
        self.declared_by.as_ref().and_then(DeclaredBy::producer)
    }

    /// Who starts the runs of this schedule that are none of its occurrences: a person, and for a
    /// producer also the publish that adds or changes the producer.
    pub fn starts_besides(&self) -> &'static str {
        if self.producer().is_some() { "hand or by a publish" } else { "hand" }
    }

    /// The key that determines the position of its occurrences inside a spread window.
    pub fn spread_key(&self) -> String {
        spread_key(&self.declared, self.id)
    }

    /// When the schedule must be woken next.
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

/// The spread key of a schedule with this declaration and id.
pub(crate) fn spread_key(declared: &Declared, id: ScheduleId) -> String {
    if declared.timing.spread.is_some() { id.to_string() } else { String::new() }
}

impl Decider<'_, '_> {
    fn now(&self) -> Timestamp {
        self.context.moment.now
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
        let (id, now) = (self.schedule.id, self.context.moment.now);
        self.decision.ledger.push(Entry::of(id, occurrence, now, outcome, reason, run));
    }

    /// Creates the run of an occurrence.
    fn start(&mut self, occurrence: Numbered, retry: u32) -> RunKey {
        let run = (self.context.new_key)();
        self.decision.starts.push(Start { run, occurrence: Some((occurrence, retry)) });
        let progress = &mut self.schedule.progress;
        progress.active.push(Active::Running { occurrence, retry, run });
        progress.current_retry = retry;
        progress.last_run_at = Some(self.context.moment.now);
        run
    }

    /// Computes the next time of an active schedule that has lost it, though its rule has one. Such
    /// a schedule is damaged, and goes on where its mark is.
    fn restore_next(&mut self) {
        if self.schedule.status == Status::Active && self.schedule.progress.next.is_none() {
            let follows_completion = self.follows_completion();
            let after = if follows_completion { self.now() } else { self.schedule.progress.mark };
            self.schedule.progress.next = self.next_after(after);
        }
    }

    /// Marks the schedule as done if nothing more can come.
    fn finish_if_exhausted(&mut self) {
        self.restore_next();
        self.schedule.finish_if_exhausted(self.context.moment.now);
    }

    fn tell(&mut self, turning: Turning) {
        self.decision.turnings.push(turning);
    }

    fn set_status(&mut self, status: Status) {
        self.schedule.status = status;
        self.schedule.updated_at = self.context.moment.now;
    }

    /// Drops all queued occurrences, with the reason.
    fn drop_queued(&mut self, reason: &'static str) {
        for queued in std::mem::take(&mut self.schedule.progress.queued) {
            self.record(&queued.occurrence, Outcome::Dropped, reason, None);
        }
    }

    /// Drops queued occurrences and pending retries. Active runs continue.
    fn drop_waiting(&mut self, reason: &'static str) {
        self.drop_queued(reason);
        for active in std::mem::take(&mut self.schedule.progress.active) {
            match active {
                // `current_retry` stays, so that people can see which retry was reached.
                Active::Retrying { occurrence, .. } => {
                    self.record(&occurrence, Outcome::Dropped, reason, None);
                }
                running => self.schedule.progress.active.push(running),
            }
        }
    }
}
