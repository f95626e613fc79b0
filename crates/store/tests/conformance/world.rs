//! A store with a node in it, and helpers to work with both.

use std::sync::Arc;

use engine::run::{AttemptEnd, RunStatus};
use engine::schedule::Schedule;
use engine::turn::{
    Answer, Capacity, Command, Effect, NewRun, NewSchedule, Perform, Starter, Verb,
};
use engine::{Moment, NodeId, RunId, ScheduleId, WorkflowId};
use futures_util::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};
use language::definition::{self, Definition, ReadContext};
use language::schedule::read_written;
use serde_json::json;
use serde_json::value::RawValue;
use store::{
    CommandRequest, Failure, Idempotency, LedgerQuery, Report, RunDetail, RunQuery, Store,
    TurnRequest, Turned, WorkflowView,
};

use crate::process::{approval, child, noop, step, timer, worker};

/// Where a store of one kind is kept.
pub(crate) trait Place {
    /// Opens the store, or creates it.
    fn open(&self) -> BoxFuture<'_, Result<Arc<dyn Store>, Failure>>;
    /// Makes the leases of all nodes run out by this instant. Does nothing on a store without
    /// leases.
    fn end_leases(&self, at: Timestamp) -> BoxFuture<'_, ()>;
    /// Runs a statement in the database. In it, `{open}` and `{ended}` are the tables of runs, and
    /// `{bytes}`, `{yes}` and `{no}` are values.
    fn execute(&self, sql: String) -> BoxFuture<'_, ()>;
    /// A path for a backup, if the store can make one.
    fn path_for_copy(&self) -> Option<std::path::PathBuf>;
    /// Opens a backup.
    fn open_copy(&self) -> Result<Arc<dyn Store>, Failure>;
}

/// The instant this many minutes after Monday 2026-03-02T00:00Z.
pub(crate) fn minute(minutes: i64) -> Timestamp {
    let start: Timestamp = "2026-03-02T00:00:00Z".parse().unwrap();
    start + SignedDuration::from_mins(minutes)
}

/// How many minutes after that Monday an instant is.
pub(crate) fn minutes(at: Timestamp) -> i64 {
    at.duration_since(minute(0)).as_mins()
}

pub(crate) struct World {
    place: Box<dyn Place>,
    store: Option<Arc<dyn Store>>,
    pub(crate) node: NodeId,
    pub(crate) awake_since: Timestamp,
    given: u128,
}

impl World {
    pub(crate) async fn new(place: Box<dyn Place>) -> World {
        let mut world =
            World { place, store: None, node: NodeId(0), awake_since: minute(0), given: 0 };
        world.join(0).await;
        world
    }

    /// A store with a schedule, a pending run, a running one, and a workflow with a limit.
    pub(crate) async fn busy(place: Box<dyn Place>) -> World {
        let mut world = World::new(place).await;
        let plain = world.workflow("plain").await;
        world.schedule(plain, r#"{"name": "every hour", "interval": "1h"}"#).await;
        let limited = "name: limited\nconcurrency: 2\nsteps: [{id: a, type: noop}]\n";
        let limited = world.publish(0, limited).await;
        world.start(0, limited).await.unwrap();
        world.start(0, plain).await.unwrap();
        let turned = world.turn(60).await;
        world.turn_with(60, vec![failed(&performs(&turned)[1])]).await;
        world
    }

    /// A store with a run that waits for workers, people and capacity, and missed its deadline.
    pub(crate) async fn waiting(place: Box<dyn Place>) -> World {
        let mut world = World::new(place).await;
        let late = json!({"limit": {"within": {"elapsed": "PT1H"}}, "from": "enabled",
                          "actions": [{"when": "deadline"}]});
        let steps = [
            step("work", &[], worker("q")),
            step("ask", &[], approval("Ship it?", &["ada"])),
            step("plain", &[], noop()),
            step("undone", &[], child("child")),
        ];
        world.process("child", vec![step("wait", &[], timer(600))]).await;
        let definition = json!({"name": "waiting", "steps": steps, "deadline": late});
        let workflow = world.process_with(definition).await;
        world.start(0, workflow).await.unwrap();
        world.try_turn(0, Vec::new(), 10, Capacity::new(1)).await;
        world.settle(60).await;
        world.start(60, workflow).await.unwrap();
        world.try_turn(60, Vec::new(), 10, Capacity::new(1)).await;
        let ready = world.process("ready", vec![step("a", &[], noop())]).await;
        world.start(60, ready).await.unwrap();
        let begun = world.turn(60).await;
        let begun = performs(&begun).pop().unwrap();
        assert_eq!(begun.definition.name, "ready");
        // The node that performed it is gone, and the next one has no capacity to go on.
        world.join(60).await;
        world.try_turn(60, Vec::new(), 10, Capacity::new(0)).await;
        world
    }

    /// The node dies without notice, and joins again.
    pub(crate) async fn join(&mut self, at: i64) -> store::Joined {
        self.store = None;
        let store = self.place.open().await.unwrap();
        self.place.end_leases(minute(at)).await;
        let moment = Moment::new(minute(at), minute(at));
        let joined = store.join("node", moment).await.unwrap();
        (self.node, self.awake_since) = (joined.node, minute(at));
        self.store = Some(store);
        joined
    }

    pub(crate) fn close(&mut self) {
        self.store = None;
    }

    /// Opens the store again, as the same node.
    pub(crate) async fn open(&mut self) {
        self.store = Some(self.place.open().await.unwrap());
    }

    pub(crate) fn place(&self) -> &dyn Place {
        &*self.place
    }

    pub(crate) fn store(&self) -> &dyn Store {
        &**self.store.as_ref().unwrap()
    }

    pub(crate) fn moment(&self, at: i64) -> Moment {
        Moment::new(minute(at), self.awake_since)
    }

    pub(crate) fn definition(&self, text: &str) -> Arc<Definition> {
        let rules = self.store().rules();
        let known = |id: &str| rules.calendar(id).cloned();
        let context = ReadContext { zones: rules.zones(), now: minute(0), known_calendar: &known };
        Arc::new(definition::read(text, &context).unwrap())
    }

    pub(crate) async fn try_command(&self, at: i64, command: Command) -> Result<Answer, Failure> {
        self.commanded(at, command, None).await.map(|commanded| commanded.answer)
    }

    pub(crate) async fn command(&self, at: i64, command: Command) -> Answer {
        self.try_command(at, command).await.unwrap()
    }

    pub(crate) async fn commanded(
        &self,
        at: i64,
        command: Command,
        idempotency: Option<Idempotency>,
    ) -> Result<store::Commanded, Failure> {
        let request = CommandRequest {
            command,
            moment: self.moment(at),
            node: self.node,
            idempotency,
            traced: true,
            audit: None,
        };
        self.store().command(request).await
    }

    /// Saves a definition, and publishes it.
    pub(crate) async fn publish(&self, at: i64, text: &str) -> WorkflowId {
        let command = Command::SaveWorkflow {
            source: text.to_owned(),
            definition: self.definition(text),
            publish: true,
            folder: None,
        };
        match self.command(at, command).await {
            Answer::Workflow { id, .. } => id,
            other => panic!("{other:?}"),
        }
    }

    /// A workflow with one step that does nothing.
    pub(crate) async fn workflow(&self, name: &str) -> WorkflowId {
        self.publish(0, &format!("name: {name}\nsteps: [{{id: a, type: noop}}]\n")).await
    }

    pub(crate) fn new_schedule(&self, workflow: WorkflowId, fields: &str) -> NewSchedule {
        let declared = read_written(fields).unwrap().declared;
        NewSchedule { workflow, declared_by: None, declared }
    }

    /// A schedule, created at minute 0.
    pub(crate) async fn schedule(&self, workflow: WorkflowId, fields: &str) -> ScheduleId {
        self.schedule_at(0, workflow, fields).await
    }

    pub(crate) async fn schedule_at(
        &self,
        at: i64,
        workflow: WorkflowId,
        fields: &str,
    ) -> ScheduleId {
        let new = self.new_schedule(workflow, fields);
        match self.command(at, Command::CreateSchedules(vec![new])).await {
            Answer::Created(ids) => ids[0],
            other => panic!("{other:?}"),
        }
    }

    pub(crate) async fn control(&self, at: i64, id: ScheduleId, verb: Verb) -> Answer {
        self.command(at, Command::ControlSchedule { id, verb }).await
    }

    pub(crate) fn new_run(&mut self) -> NewRun {
        self.given += 1;
        NewRun {
            id: self.given,
            payload: None,
            by: Starter::Caller("ada".to_owned()),
            trace: None,
            if_busy: Default::default(),
        }
    }

    /// Starts the workflow by hand.
    pub(crate) async fn start(&mut self, at: i64, id: WorkflowId) -> Result<RunId, Failure> {
        let run = self.new_run();
        let answer = self.try_command(at, Command::StartWorkflow { id, run }).await?;
        Ok(run_id(&answer))
    }

    /// A turn with plenty of capacity and a high limit.
    pub(crate) async fn turn(&self, at: i64) -> Turned {
        self.turn_with(at, Vec::new()).await
    }

    pub(crate) async fn turn_with(&self, at: i64, reports: Vec<Report>) -> Turned {
        self.try_turn(at, reports, 1_000, Capacity::new(1_000)).await
    }

    pub(crate) async fn try_turn(
        &self,
        at: i64,
        reports: Vec<Report>,
        limit: usize,
        capacity: Capacity,
    ) -> Turned {
        let request = TurnRequest {
            moment: self.moment(at),
            node: self.node,
            reports,
            limit,
            begin: None,
            held: Default::default(),
            capacity,
            performed: None,
            traced: true,
        };
        self.store().turn(request).await.unwrap()
    }

    /// Takes turns until nothing is left to do at this minute; every attempt succeeds.
    pub(crate) async fn settle(&self, at: i64) {
        let mut reports = Vec::new();
        for _ in 0..100 {
            let turned = self.turn_with(at, reports).await;
            reports = performs(&turned).iter().map(succeeded).collect();
            let is_due = turned.next_wakeup.is_some_and(|due| due <= minute(at));
            if reports.is_empty() && !is_due {
                return;
            }
        }
        panic!("there is always more to do at minute {at}");
    }

    /// Settles every minute from `from` to `to`.
    pub(crate) async fn settle_each(&self, from: i64, to: i64) {
        for at in from..=to {
            self.settle(at).await;
        }
    }

    pub(crate) async fn seen(&self, id: ScheduleId) -> Schedule {
        self.store().schedule(id).await.unwrap().unwrap().schedule
    }

    /// The minute of the next occurrence.
    pub(crate) async fn next(&self, id: ScheduleId) -> Option<i64> {
        self.seen(id).await.progress.next.map(|due| minutes(due.effective))
    }

    /// Rows of the ledger, first to last: number, outcome, nominal minute.
    pub(crate) async fn ledger(&self, id: ScheduleId) -> Vec<String> {
        let row = |entry: &engine::ledger::Entry| {
            format!("{} {} {}", entry.n, entry.outcome.name(), minutes(entry.nominal))
        };
        self.entries(id).await.iter().map(row).collect()
    }

    pub(crate) async fn reasons(&self, id: ScheduleId) -> Vec<String> {
        self.entries(id).await.into_iter().map(|entry| entry.reason.into_owned()).collect()
    }

    async fn entries(&self, id: ScheduleId) -> Vec<engine::ledger::Entry> {
        let query = LedgerQuery {
            schedule: id,
            outcome: None,
            from: None,
            to: None,
            limit: 1_000,
            after: None,
        };
        let page = self.store().ledger(query).await.unwrap();
        page.items.into_iter().rev().map(|row| row.entry).collect()
    }

    pub(crate) async fn run(&self, id: &RunId) -> RunDetail {
        self.store().run(id.clone()).await.unwrap().unwrap()
    }

    pub(crate) async fn status(&self, id: &RunId) -> RunStatus {
        self.run(id).await.view.run.status
    }

    /// All runs, first to last: id and status.
    pub(crate) async fn runs(&self) -> Vec<String> {
        let query = RunQuery { limit: 1_000, ..RunQuery::default() };
        let page = self.store().runs(query).await.unwrap();
        let line = |view: &store::RunView| format!("{} {}", view.run.id, view.run.status.name());
        page.items.iter().rev().map(line).collect()
    }

    pub(crate) async fn workflow_view(&self, id: WorkflowId) -> WorkflowView {
        self.store().workflow(&id.to_string(), None).await.unwrap().unwrap()
    }
}

pub(crate) fn run_id(answer: &Answer) -> RunId {
    match answer {
        Answer::Run(id) => id.parse().unwrap(),
        other => panic!("{other:?}"),
    }
}

/// The attempts that a turn hands out.
pub(crate) fn performs(turned: &Turned) -> Vec<Perform> {
    let perform = |effect: &Effect| match effect {
        Effect::Perform(perform) => Some((**perform).clone()),
        Effect::Claimed { .. } | Effect::Cancel { .. } => None,
    };
    turned.effects.iter().filter_map(perform).collect()
}

/// The ids of the runs whose attempts a turn hands out.
pub(crate) fn begun(turned: &Turned) -> Vec<String> {
    performs(turned).iter().map(|perform| perform.run_id.to_string()).collect()
}

pub(crate) fn raw(text: &str) -> Box<RawValue> {
    RawValue::from_string(text.to_owned()).unwrap()
}

fn report(perform: &Perform, end: AttemptEnd) -> Report {
    Report { run: perform.run, token: perform.token, end }
}

pub(crate) fn succeeded(perform: &Perform) -> Report {
    report(perform, AttemptEnd::Succeeded { output: raw(r#"{"ok":true}"#) })
}

pub(crate) fn failed(perform: &Perform) -> Report {
    report(
        perform,
        AttemptEnd::Failed {
            code: "exit_code".to_owned(),
            message: "exit code 1".to_owned(),
            retryable: true,
            output: None,
        },
    )
}

/// The codes of findings, and whether each was repaired.
pub(crate) fn codes(findings: Vec<store::Finding>) -> Vec<(&'static str, bool)> {
    findings.into_iter().map(|found| (found.code, found.repaired)).collect()
}

/// The message of a refused command.
pub(crate) fn refusal<T: std::fmt::Debug>(result: Result<T, Failure>) -> String {
    match result {
        Err(Failure::Refused(refused)) => refused.to_string(),
        other => panic!("not refused: {other:?}"),
    }
}
