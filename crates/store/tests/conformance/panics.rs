//! A row that makes the decision about it panic stops nothing else, whatever leads to the decision.
//!
//! The rows are planted: the number of a run's last attempt, or of the retry that a schedule waits
//! for, is as large as it can be, so counting the next one overflows.

use engine::run::RunStatus;
use engine::schedule::Status;
use engine::turn::{Answer, Command, Wakeup};
use engine::{Moment, RunId, ScheduleId};
use futures_util::future::join_all;
use serde_json::json;
use store::{ApprovalQuery, Failure, Report, RunQuery, TurnRequest};

use crate::messages::{consumer, plain, topic};
use crate::process::{approval, child, claim, claimed, noop, step, timer};
use crate::set_aside::{aside, began, damage, drive};
use crate::world::{World, minute, performs, succeeded};

/// The number of a run's last attempt, so that the attempt after it panics.
pub(crate) const LAST: u32 = u32::MAX;

/// Changes the number of the first open run's last attempt, and joins again.
pub(crate) async fn plant(world: &mut World, at: i64, number: u32) {
    let state = (0..4).fold("state".to_owned(), |state, token| {
        format!("replace({state}, '\"t\":{token}', '\"t\":{number}')")
    });
    let sql =
        format!("UPDATE {{open}} SET state = {state} WHERE key = (SELECT min(key) FROM {{open}})");
    damage(world, at, &sql).await;
}

const TWO_STEPS: &str =
    "name: w\nsteps: [{id: a, type: timer, delay: 5m}, {id: b, type: noop, depends_on: a}]";

pub(crate) async fn a_run_that_panics_when_it_is_due_is_one_of_a_thousand(mut world: World) {
    let workflow = world.publish(0, TWO_STEPS).await;
    let fields = r#"{"name": "s", "at": "2026-03-02T00:01Z"}"#;
    let new = vec![world.new_schedule(workflow, fields); 1_000];
    world.command(0, Command::CreateSchedules(new)).await;
    drive(&world, 1).await;
    plant(&mut world, 2, LAST).await;
    assert_eq!(began(&drive(&world, 7).await).len(), 999);
    let [(kind, bad)] = &aside(&world).await[..] else { panic!("one is set aside") };
    assert_eq!(*kind, "run");
    // It stays set aside when a node joins again, and can be cancelled.
    world.join(8).await;
    drive(&world, 9).await;
    assert_eq!(aside(&world).await.len(), 1);
    let id: RunId = bad.parse().unwrap();
    world.command(9, Command::CancelRun { id, reason: "it panics".to_owned() }).await;
    assert_eq!(aside(&world).await, []);
}

pub(crate) async fn a_run_that_panics_when_it_begins_holds_up_no_other(mut world: World) {
    let workflow = world.publish(0, "name: w\nsteps: [{id: a, type: noop}]").await;
    let bad = world.start(0, workflow).await.unwrap();
    let good = world.start(0, workflow).await.unwrap();
    plant(&mut world, 1, LAST).await;
    assert_eq!(began(&drive(&world, 1).await), [good.to_string()]);
    assert_eq!(aside(&world).await, [("run", bad.to_string())]);
}

/// A turn with these reports and plenty of capacity.
pub(crate) fn reporting(world: &World, at: i64, reports: Vec<Report>) -> TurnRequest {
    TurnRequest {
        moment: Moment::new(minute(at), world.awake_since),
        node: world.node,
        reports,
        limit: 1_000,
        begin: None,
        held: Default::default(),
        capacity: engine::turn::Capacity::new(2_000),
        performed: None,
        traced: false,
    }
}

/// How many runs there are, with the one that panics.
const MANY: usize = 1_000;

/// Lets many schedules start a run of this definition each. Returns the id of the first run.
async fn many(world: &World, definition: &str) -> RunId {
    let workflow = world.publish(0, definition).await;
    let fields = r#"{"name": "s", "at": "2026-03-02T00:01Z"}"#;
    let new = vec![world.new_schedule(workflow, fields); MANY];
    world.command(0, Command::CreateSchedules(new)).await;
    drive(world, 1).await;
    let query = RunQuery { limit: MANY, ..RunQuery::default() };
    let runs = world.store().runs(query).await.unwrap().items;
    assert_eq!(runs.len(), MANY);
    runs.into_iter().min_by_key(|view| view.run.key).unwrap().run.id
}

/// Checks that this run alone is set aside, also after a restart.
async fn stays_aside(world: &mut World, at: i64, bad: &RunId) {
    let expected = [("run", bad.to_string())];
    assert_eq!(aside(world).await, expected);
    world.join(at).await;
    drive(world, at).await;
    assert_eq!(aside(world).await, expected);
}

pub(crate) async fn a_report_that_panics_is_told_apart(mut world: World) {
    let text = "name: w\nsteps: [{id: a, type: noop, idempotent: true}, {id: b, type: noop, depends_on: a}]";
    let bad = many(&world, text).await;
    // The node that joins takes over the attempts, and each report leads to another one.
    plant(&mut world, 2, LAST - 1).await;
    let turns = drive(&world, 2).await;
    let reports: Vec<_> = turns.iter().flat_map(performs).map(|one| succeeded(&one)).collect();
    assert_eq!(reports.len(), MANY);
    let Err(Failure::Undecidable { what: Some(what), .. }) =
        world.store().turn(reporting(&world, 2, reports.clone())).await
    else {
        panic!("decided");
    };
    assert!(matches!(what, Wakeup::Run(_)));
    world.store().set_aside(what, "it panics", minute(2)).await.unwrap();
    let turned = world.store().turn(reporting(&world, 2, reports)).await.unwrap();
    assert_eq!((turned.refused, performs(&turned).len()), (1, MANY - 1));
    stays_aside(&mut world, 3, &bad).await;
}

pub(crate) async fn a_claim_passes_over_a_part_that_panics(mut world: World) {
    let bad = many(&world, "name: w\nsteps: [{id: a, type: worker, queue: q}]").await;
    plant(&mut world, 2, LAST).await;
    let mut given = Vec::new();
    for _ in 0..5 {
        match world.commanded(2, claim(&["q"], MANY), None).await {
            Ok(commanded) => given.extend(claimed(&commanded)),
            Err(Failure::Undecidable { what, why }) => {
                world.store().set_aside(what.unwrap(), &why, minute(2)).await.unwrap();
            }
            Err(failure) => panic!("{failure}"),
        }
    }
    assert_eq!(given.len(), MANY - 1);
    assert!(given.iter().all(|perform| perform.run_id != bad));
    stays_aside(&mut world, 2, &bad).await;
    assert_eq!(world.claim(2, &["q"], MANY).await.len(), 0);
}

pub(crate) async fn a_takeover_that_panics_leaves_the_others_to_the_next_node(mut world: World) {
    let bad = many(&world, "name: w\nsteps: [{id: a, type: noop, idempotent: true}]").await;
    plant(&mut world, 2, LAST).await;
    let began = began(&drive(&world, 2).await);
    assert_eq!(began.len(), MANY - 1);
    assert!(!began.contains(&bad.to_string()), "{began:?}");
    stays_aside(&mut world, 3, &bad).await;
}

/// A run fails five minutes after its occurrence, without being performed.
const FAILS: &str = r#"name: w
steps: [{id: a, type: timer, delay: 5m}, {id: b, type: noop, depends_on: a, condition: "1 / 0 > 1"}]"#;

/// Lets this many schedules start runs that fail at minute 6, and makes the decision of one of the
/// schedules panic then. Returns all of them, that one first.
async fn failing(world: &mut World, count: usize) -> Vec<ScheduleId> {
    let workflow = world.publish(0, FAILS).await;
    let fields = r#"{"name": "s", "at": "2026-03-02T00:01Z", "max_retries": 0}"#;
    let new = vec![world.new_schedule(workflow, fields); count];
    let Answer::Created(mut ids) = world.command(0, Command::CreateSchedules(new)).await else {
        panic!("not created");
    };
    drive(world, 1).await;
    ids.swap(0, count / 2);
    let live = format!("replace(live, '\"t\":0', '\"t\":{LAST}')");
    let sql = format!("UPDATE progress SET live = {live} WHERE id = {}", ids[0]);
    damage(world, 2, &sql).await;
    ids
}

pub(crate) async fn a_schedule_that_panics_when_its_run_ends_is_set_aside(mut world: World) {
    let ids = failing(&mut world, 1).await;
    drive(&world, 7).await;
    let expected = [("schedule", ids[0].to_string())];
    assert_eq!(aside(&world).await, expected);
    // Its run has ended all the same, and after a restart it is still set aside.
    let run: RunId = format!("sched-{}-n0-rc0", ids[0]).parse().unwrap();
    assert_eq!(world.status(&run).await, RunStatus::Failed);
    world.join(8).await;
    drive(&world, 9).await;
    assert_eq!(aside(&world).await, expected);
}

pub(crate) async fn a_schedule_that_panics_is_one_of_a_thousand(mut world: World) {
    let ids = failing(&mut world, 1_000).await;
    drive(&world, 7).await;
    let expected = [("schedule", ids[0].to_string())];
    assert_eq!(aside(&world).await, expected);
    world.join(8).await;
    drive(&world, 9).await;
    assert_eq!(aside(&world).await, expected);
    for id in &ids[1..] {
        assert_eq!(world.seen(*id).await.status, Status::Dead, "{id} is settled");
    }
}

/// The only run that is set aside.
async fn only_run_aside(world: &World) -> RunId {
    let [(kind, id)] = &aside(world).await[..] else { panic!("one is set aside") };
    assert_eq!(*kind, "run");
    id.parse().unwrap()
}

pub(crate) async fn a_consumer_that_panics_is_set_aside(mut world: World) {
    let workflow = world.deploy(0, plain("w")).await;
    world.tell(0, "t", &["a"]).await;
    plant(&mut world, 1, LAST).await;
    assert_eq!(began(&drive(&world, 1).await).len(), 0);
    let bad = only_run_aside(&world).await;
    world.join(2).await;
    drive(&world, 3).await;
    assert_eq!(only_run_aside(&world).await, bad);
    // A person who cancels it frees the workflow, and the event is consumed by the next run.
    world.cancel(4, &bad).await;
    assert_eq!(aside(&world).await, []);
    let command = Command::PauseWorkflow { id: workflow, paused: false, reason: None };
    world.command(4, command).await;
    world.consume(5, &["a"]).await;
    assert_eq!(world.counts("t").await, [0, 0, 1, 0]);
    world.holds_together().await;
}

pub(crate) async fn a_consumer_that_panics_is_one_of_many(mut world: World) {
    for n in 0..50 {
        let t = format!("t{n}");
        let consumers = [consumer("c", &[&t])];
        let definition =
            json!({"name": format!("w{n}"), "topics": [topic(&t, 10)], "consumers": consumers});
        world.deploy(0, definition).await;
        world.tell(0, &t, &["a"]).await;
    }
    plant(&mut world, 1, LAST).await;
    assert_eq!(began(&drive(&world, 1).await).len(), 49);
    let bad = only_run_aside(&world).await;
    world.join(2).await;
    drive(&world, 3).await;
    assert_eq!(only_run_aside(&world).await, bad);
    // Its events wait, and those of the others are worked on.
    assert_eq!(world.counts("t0").await, [1, 0, 0, 0]);
}

pub(crate) async fn a_producer_that_panics_holds_up_no_other(mut world: World) {
    for n in 0..3 {
        let producer = json!({"name": "p", "schedule": {"interval": "10m"},
                              "publishes": [format!("t{n}")], "handler": noop()});
        let topics = [topic(&format!("t{n}"), 10)];
        let definition =
            json!({"name": format!("w{n}"), "topics": topics, "producers": [producer]});
        world.deploy(0, definition).await;
    }
    plant(&mut world, 1, LAST).await;
    assert_eq!(began(&drive(&world, 1).await).len(), 2);
    let bad = only_run_aside(&world).await;
    world.join(2).await;
    // The schedule is due again meanwhile, and nothing panics once more.
    drive(&world, 11).await;
    assert_eq!(only_run_aside(&world).await, bad);
}

/// A run that a turn has created is not there any more when the turn has failed: the schedule or
/// the parent that led to it is set aside.
pub(crate) async fn a_new_run_that_cannot_begin_sets_its_origin_aside(mut world: World) {
    let wait = json!({"type": "wait_for", "topic": "t"});
    let definition =
        json!({"name": "w", "topics": [topic("t", 10)], "steps": [step("wait", &[], wait)]});
    let broken = world.deploy(0, definition).await;
    let schedule = world.schedule(broken, r#"{"name": "bad", "interval": "1h"}"#).await;
    let good = world.workflow("good").await;
    let good = world.schedule(good, r#"{"name": "good", "interval": "1h"}"#).await;
    let parent = world.process("parent", vec![step("call", &[], child("w"))]).await;
    damage(&mut world, 1, "DELETE FROM topics").await;
    let parent = world.start(1, parent).await.unwrap();
    assert_eq!(began(&drive(&world, 60).await), [format!("sched-{good}-n0-rc0")]);
    let expected = [("run", parent.to_string()), ("schedule", schedule.to_string())];
    assert_eq!(aside(&world).await, expected);
    world.join(61).await;
    drive(&world, 62).await;
    assert_eq!(aside(&world).await, expected);
}

pub(crate) async fn a_command_that_panics_leaves_the_others_alone(mut world: World) {
    world.process("child", vec![step("wait", &[], timer(600))]).await;
    let steps =
        vec![step("ask", &[], approval("Go?", &["ada"])), step("call", &["ask"], child("child"))];
    let workflow = world.process("w", steps).await;
    let mut runs = Vec::new();
    for _ in 0..10 {
        runs.push(world.start(0, workflow).await.unwrap());
    }
    world.turn(0).await;
    plant(&mut world, 1, LAST).await;
    let is_undecidable =
        |answer: &Result<Answer, Failure>| matches!(answer, Err(Failure::Undecidable { .. }));
    // Alone.
    let alone = world.decide(1, &runs[0], "ask", "ada", true).await;
    assert!(is_undecidable(&alone), "{alone:?}");
    // One of many that come at once, and may share a commit.
    let decided = join_all(runs.iter().map(|id| world.decide(1, id, "ask", "ada", true))).await;
    assert!(is_undecidable(&decided[0]), "{:?}", decided[0]);
    assert!(decided[1..].iter().all(Result::is_ok), "{decided:?}");
    // It changed nothing, and does the same after a restart.
    world.join(2).await;
    let again = world.decide(2, &runs[0], "ask", "ada", true).await;
    assert!(is_undecidable(&again), "{again:?}");
    let query = ApprovalQuery { limit: 10, ..ApprovalQuery::default() };
    assert_eq!(world.store().approvals(query).await.unwrap().items.len(), 1);
    assert_eq!(aside(&world).await, [], "the driver has not met it");
    world.cancel(3, &runs[0]).await;
    assert_eq!(world.status(&runs[0]).await, RunStatus::Cancelled);
}
