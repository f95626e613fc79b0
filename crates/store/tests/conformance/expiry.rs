//! History is kept for a while.

use engine::turn::Command;
use jiff::SignedDuration;

use crate::world::{World, minute, performs, succeeded};

/// Expires until nothing is left to remove. Returns the most that one pass removed.
async fn expire(world: &World, before: i64, limit: usize) -> u64 {
    let mut most = 0;
    for _ in 0..1_000 {
        let expired =
            world.store().expire(minute(before), SignedDuration::ZERO, limit).await.unwrap();
        most = most.max(expired.removed);
        if !expired.more {
            return most;
        }
    }
    panic!("there is always more to expire");
}

pub(crate) async fn what_ended_before_is_removed_in_small_batches(world: World) {
    let workflow = world.workflow("w").await;
    let mut ids = Vec::new();
    for _ in 0..7 {
        ids.push(world.schedule(workflow, r#"{"name": "s", "interval": "5m"}"#).await);
    }
    world.settle_each(5, 20).await;
    assert_eq!(world.runs().await.len(), 28);
    // One pass removes at most three runs and three ledger rows.
    assert!(expire(&world, 15, 3).await <= 6);
    assert_eq!(world.runs().await.len(), 14);
    for id in &ids {
        assert_eq!(world.ledger(*id).await, ["2 started 15", "3 started 20"]);
    }
    let gone = format!("sched-{}-n0-rc0", ids[0]).parse().unwrap();
    assert!(world.store().run(gone).await.unwrap().is_none());
    assert_eq!(world.store().expire(minute(15), SignedDuration::ZERO, 3).await.unwrap().removed, 0);
    world.settle(25).await;
    assert_eq!(world.ledger(ids[6]).await.last().unwrap(), "4 started 25");
    assert_eq!(world.store().check(minute(25), false).await.unwrap(), []);
}

pub(crate) async fn what_has_not_ended_stays_and_stops_nobody(world: World) {
    let workflow = world.workflow("w").await;
    let mut kept = Vec::new();
    for _ in 0..5 {
        let fields = r#"{"name": "long", "at": "2026-03-02T00:01Z", "timeout_seconds": 86400}"#;
        kept.push(world.schedule(workflow, fields).await);
    }
    let long = world.turn(1).await;
    let short = world.schedule_at(1, workflow, r#"{"name": "short", "interval": "5m"}"#).await;
    let mut turned = world.turn(1).await;
    for at in [6, 11, 16] {
        turned = world.turn_with(at, Vec::new()).await;
        let reports = performs(&turned).iter().map(succeeded).collect();
        world.turn_with(at, reports).await;
    }
    drop(turned);
    expire(&world, 12, 2).await;
    let left = world.runs().await;
    assert_eq!(left.len(), 6, "{left:?}");
    assert_eq!(world.ledger(short).await, ["2 started 16"]);
    let reports = performs(&long).iter().map(succeeded).collect();
    assert_eq!(world.turn_with(17, reports).await.refused, 0);
    expire(&world, 18, 2).await;
    assert_eq!(world.runs().await, Vec::<String>::new());
}

pub(crate) async fn a_schedule_that_cannot_be_read_does_not_stop_the_expiry_of_others(
    mut world: World,
) {
    let workflow = world.workflow("w").await;
    let fields = r#"{"name": "s", "interval": "5m"}"#;
    let (bad, good) =
        (world.schedule(workflow, fields).await, world.schedule(workflow, fields).await);
    world.settle_each(5, 20).await;
    assert_eq!(world.runs().await.len(), 8);
    let sql = format!("UPDATE progress SET live = '{{{{{{' WHERE id = {bad}");
    crate::set_aside::damage(&mut world, 21, &sql).await;
    expire(&world, 30, 100).await;
    assert_eq!(world.runs().await, Vec::<String>::new());
    assert_eq!(world.ledger(good).await, Vec::<String>::new());
}

pub(crate) async fn ids_are_not_given_again(mut world: World) {
    let workflow = world.workflow("w").await;
    let id = world.schedule(workflow, r#"{"name": "s", "interval": "5m"}"#).await;
    let turned = world.turn(5).await;
    let key = performs(&turned)[0].run;
    world.turn_with(5, vec![succeeded(&performs(&turned)[0])]).await;
    world.command(6, Command::DeleteSchedules(vec![id])).await;
    expire(&world, 10, 10).await;
    world.join(11).await;
    let new = world.schedule_at(11, workflow, r#"{"name": "s", "interval": "5m"}"#).await;
    let turned = world.turn(16).await;
    assert!(new > id && performs(&turned)[0].run > key);
}

pub(crate) async fn a_schedule_says_itself_how_long_its_history_is_kept(world: World) {
    let workflow = world.workflow("w").await;
    let short =
        world.schedule(workflow, r#"{"name": "s", "interval": "5m", "retention": "4m"}"#).await;
    let long =
        world.schedule(workflow, r#"{"name": "l", "interval": "5m", "retention": "1h"}"#).await;
    let plain = world.schedule(workflow, r#"{"name": "p", "interval": "5m"}"#).await;
    world.settle_each(5, 20).await;
    let keep = SignedDuration::from_mins(8);
    while world.store().expire(minute(21), keep, 10).await.unwrap().more {}
    assert_eq!(world.ledger(short).await, ["3 started 20"]);
    assert_eq!(world.ledger(plain).await, ["2 started 15", "3 started 20"]);
    assert_eq!(world.ledger(long).await.len(), 4);
    assert_eq!(world.runs().await.len(), 7);
}

pub(crate) async fn the_row_of_what_is_going_on_stays(world: World) {
    let workflow = world.workflow("w").await;
    let fields = r#"{"name": "s", "interval": "5m", "overlap": "queue", "timeout_seconds": 86400}"#;
    let id = world.schedule(workflow, fields).await;
    let turned = world.turn(5).await;
    world.turn(10).await;
    expire(&world, 60, 10).await;
    assert_eq!(world.ledger(id).await, ["0 started 5", "1 queued 10"]);
    world.turn_with(61, vec![succeeded(&performs(&turned)[0])]).await;
    expire(&world, 61, 10).await;
    let left = world.ledger(id).await;
    assert!(!left.contains(&"0 started 5".to_owned()), "{left:?}");
    assert_eq!(left[0], "1 started 10");
}
