//! One thing that cannot be read or decided stops nothing else.

use engine::turn::{Places, Wakeup};
use store::{Failure, TurnRequest, Turned};

use crate::world::{World, begun, minute};

/// What a driver does: a turn, and whatever cannot be decided is set aside before the next. If it is not known what
/// it is, turns decide over one thing each.
async fn drive(world: &World, at: i64) -> Vec<Turned> {
    let (mut turns, mut limit) = (Vec::new(), 1_000);
    for _ in 0..50 {
        let request = TurnRequest {
            moment: engine::Moment::new(minute(at), world.awake_since),
            node: world.node,
            reports: Vec::new(),
            limit,
            begin: None,
            places: Places { look: limit > 1, ..Places::new(1_000) },
            performed: None,
            traced: false,
        };
        match world.store().turn(request).await {
            Ok(turned) => {
                let is_over = turned.next_wakeup.is_none_or(|next| next > minute(at));
                turns.push(turned);
                if is_over && limit > 1 {
                    return turns;
                }
                limit = if is_over { 1_000 } else { limit };
            }
            Err(Failure::Undecidable { what: Some(what), why }) => {
                world.store().set_aside(what, &why, minute(at)).await.unwrap();
            }
            Err(Failure::Undecidable { what: None, .. }) if limit > 1 => limit = 1,
            Err(failure) => panic!("{failure}"),
        }
    }
    panic!("there is always more to do");
}

fn began(turns: &[Turned]) -> Vec<String> {
    turns.iter().flat_map(begun).collect()
}

async fn aside(world: &World) -> Vec<(&'static str, String)> {
    let all = world.store().all_set_aside().await.unwrap();
    all.iter().map(|aside| (aside.kind(), aside.id.clone())).collect()
}

/// Nothing is remembered of what was there before the damage.
async fn damage(world: &mut World, at: i64, sql: &str) {
    world.place().execute(sql.to_owned()).await;
    world.join(at).await;
}

pub(crate) async fn a_schedule_that_cannot_be_read_stops_no_other(mut world: World) {
    let workflow = world.workflow("w").await;
    let fields = r#"{"name": "s", "interval": "1h"}"#;
    let (bad, good) =
        (world.schedule(workflow, fields).await, world.schedule(workflow, fields).await);
    let sql = format!("UPDATE schedules SET declared = '{{\"nonsense\":' WHERE id = {bad}");
    damage(&mut world, 1, &sql).await;
    assert_eq!(began(&drive(&world, 60).await), [format!("sched-{good}-n0-rc0")]);
    assert_eq!(aside(&world).await, [("schedule", bad.to_string())]);
    // It stays aside, and nothing wakes for it.
    world.join(61).await;
    drive(&world, 62).await;
    assert_eq!(aside(&world).await.len(), 1);
    let reason = world.store().all_set_aside().await.unwrap().remove(0).reason;
    assert!(!reason.is_empty());
}

pub(crate) async fn a_run_that_cannot_be_read_stops_no_other(mut world: World) {
    let workflow = world.publish(0, "name: w\nconcurrency: 5\nsteps: [{id: a, type: noop}]").await;
    let bad = world.start(0, workflow).await.unwrap();
    let good = world.start(0, workflow).await.unwrap();
    let sql = "UPDATE {open} SET state = '[' WHERE key = (SELECT min(key) FROM {open})";
    damage(&mut world, 1, sql).await;
    assert_eq!(began(&drive(&world, 1).await), [good.to_string()]);
    assert_eq!(aside(&world).await, [("run", bad.to_string())]);
}

pub(crate) async fn an_occurrence_that_was_run_before_is_not_run_again(mut world: World) {
    let workflow = world.workflow("w").await;
    let fields = r#"{"name": "s", "interval": "1m", "overlap": "allow"}"#;
    let (bad, good) =
        (world.schedule(workflow, fields).await, world.schedule(workflow, fields).await);
    drive(&world, 1).await;
    damage(&mut world, 1, &format!("UPDATE progress SET n = 0 WHERE id = {bad}")).await;
    let began = began(&drive(&world, 2).await);
    assert!(began.contains(&format!("sched-{good}-n1-rc0")), "{began:?}");
    let of_bad = format!("sched-{bad}-");
    let runs = world.runs().await;
    assert_eq!(runs.iter().filter(|run| run.starts_with(&of_bad)).count(), 1, "{runs:?}");
    assert_eq!(aside(&world).await, [("schedule", bad.to_string())]);
}

pub(crate) async fn a_command_about_what_cannot_be_read_says_so(mut world: World) {
    let workflow = world.workflow("w").await;
    let bad = world.schedule(workflow, r#"{"name": "s", "interval": "1h"}"#).await;
    let sql = format!("UPDATE schedules SET declared = '{{' WHERE id = {bad}");
    damage(&mut world, 1, &sql).await;
    drive(&world, 60).await;
    let pause = engine::turn::Command::ControlSchedule { id: bad, verb: engine::turn::Verb::Pause };
    let failure = world.try_command(60, pause).await.unwrap_err();
    assert!(matches!(failure, Failure::Undecidable { .. }), "{failure}");
    assert_eq!(
        world.store().all_set_aside().await.unwrap()[0].what,
        Wakeup::Schedule(bad),
        "still aside"
    );
}
