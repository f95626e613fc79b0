//! A row that makes the decision about it panic stops nothing else, whatever leads to the decision.
//!
//! The rows are planted: the number of a run's last attempt, or of the retry that a schedule waits
//! for, is as large as it can be, so counting the next one overflows.

use engine::run::RunStatus;
use engine::schedule::Status;
use engine::turn::{Answer, Command, Wakeup};
use engine::{Moment, RunId, ScheduleId};
use store::{Failure, TurnRequest};

use crate::process::{claim, claimed};
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

pub(crate) async fn a_report_that_panics_is_told_apart(mut world: World) {
    let text = "name: w\nsteps: [{id: a, type: noop, idempotent: true}, {id: b, type: noop, depends_on: a}]";
    let workflow = world.publish(0, text).await;
    let bad = world.start(0, workflow).await.unwrap();
    world.start(0, workflow).await.unwrap();
    world.turn(0).await;
    // The node that joins takes over the attempts, and each report leads to another one.
    plant(&mut world, 1, LAST - 1).await;
    let turned = world.turn(1).await;
    let reports: Vec<_> = performs(&turned).iter().map(succeeded).collect();
    assert_eq!(reports.len(), 2);
    let request = |reports| TurnRequest {
        moment: Moment::new(minute(1), world.awake_since),
        node: world.node,
        reports,
        limit: 1_000,
        begin: None,
        held: Default::default(),
        capacity: engine::turn::Capacity::new(1_000),
        performed: None,
        traced: false,
    };
    let Err(Failure::Undecidable { what: Some(what), .. }) =
        world.store().turn(request(reports.clone())).await
    else {
        panic!("decided");
    };
    assert!(matches!(what, Wakeup::Run(_)));
    world.store().set_aside(what, "it panics", minute(1)).await.unwrap();
    let turned = world.store().turn(request(reports)).await.unwrap();
    assert_eq!((turned.refused, performs(&turned).len()), (1, 1));
    assert_eq!(aside(&world).await, [("run", bad.to_string())]);
}

pub(crate) async fn a_claim_passes_over_a_part_that_panics(mut world: World) {
    let workflow = world.publish(0, "name: w\nsteps: [{id: a, type: worker, queue: q}]").await;
    let bad = world.start(0, workflow).await.unwrap();
    let good = world.start(0, workflow).await.unwrap();
    world.turn(0).await;
    plant(&mut world, 1, LAST).await;
    let mut given = Vec::new();
    for at in 1..5 {
        match world.commanded(at, claim(&["q"], 10), None).await {
            Ok(commanded) => given.extend(claimed(&commanded)),
            Err(Failure::Undecidable { what, why }) => {
                world.store().set_aside(what.unwrap(), &why, minute(at)).await.unwrap();
            }
            Err(failure) => panic!("{failure}"),
        }
    }
    assert_eq!(given.len(), 1);
    assert_eq!(given[0].run_id, good);
    assert_eq!(aside(&world).await, [("run", bad.to_string())]);
}

pub(crate) async fn a_takeover_that_panics_leaves_the_others_to_the_next_node(mut world: World) {
    let workflow =
        world.publish(0, "name: w\nsteps: [{id: a, type: noop, idempotent: true}]").await;
    let bad = world.start(0, workflow).await.unwrap();
    let good = world.start(0, workflow).await.unwrap();
    world.turn(0).await;
    plant(&mut world, 1, LAST).await;
    let began = began(&drive(&world, 2).await);
    assert!(began.contains(&good.to_string()), "{began:?}");
    assert_eq!(aside(&world).await, [("run", bad.to_string())]);
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
