//! Events are kept for a while after they are finished.

use engine::EventKey;
use engine::turn::Command;
use jiff::SignedDuration;
use serde_json::{Value, json};

use crate::messages::{consumer, gave, only, plain, reserves, topic};
use crate::world::{World, minute};

/// Expires until nothing is left to remove. Returns the most that one pass removed.
async fn expire(world: &World, now: i64, keep: i64, limit: usize) -> u64 {
    let keep = SignedDuration::from_mins(keep);
    let mut most = 0;
    for _ in 0..1_000 {
        let expired = world.store().expire(minute(now), keep, limit).await.unwrap();
        most = most.max(expired.removed);
        if !expired.more {
            return most;
        }
    }
    panic!("there is always more to expire");
}

pub(crate) async fn what_is_done_with_goes_in_small_batches(world: World) {
    world.deploy(0, plain("w")).await;
    let ids: Vec<String> = (0..30).map(|n| format!("e{n:02}")).collect();
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    world.tell(1, "t", &ids).await;
    for id in &ids[..10] {
        world.skip(2, "t", id).await.unwrap();
    }
    let turned = world.consume(3, &ids[10..20]).await;
    world.turn_with(4, vec![reserves(&only(&turned), &ids[20..24])]).await;
    assert_eq!(world.counts("t").await, [6, 4, 10, 10]);
    // Nothing is old enough yet.
    assert_eq!(expire(&world, 10, 8, 4).await, 0);
    // The events that were skipped first are old enough.
    assert!(expire(&world, 10, 7, 4).await <= 4);
    assert_eq!(world.counts("t").await, [6, 4, 10, 0]);
    expire(&world, 1_000, 0, 4).await;
    assert_eq!(world.counts("t").await, [6, 4, 0, 0]);
    let left: Vec<String> = world.events("t").await;
    assert_eq!(left.len(), 10, "what is pending or reserved stays: {left:?}");
    world.holds_together().await;
    // A message id that was removed is new again.
    assert_eq!(world.tell(1_001, "t", &["e00", "e29"]).await, (1, 1));
    world.holds_together().await;
}

pub(crate) async fn a_workflow_says_how_long_its_events_are_kept(world: World) {
    let definition = |name: &str, topic_name: &str, retention: Value| {
        json!({"name": name, "retention": retention, "topics": [topic(topic_name, 10)],
               "consumers": [consumer("c", &[topic_name])]})
    };
    world.deploy(0, definition("short", "s", json!("PT4M"))).await;
    world.deploy(0, definition("long", "l", json!("PT1H"))).await;
    world.deploy(0, definition("plain", "p", Value::Null)).await;
    for name in ["s", "l", "p"] {
        world.tell(1, name, &["a", "b"]).await;
        world.skip(1, name, "a").await.unwrap();
        world.skip(7, name, "b").await.unwrap();
    }
    expire(&world, 10, 8, 10).await;
    assert_eq!(world.events("s").await, ["b skipped 0"]);
    assert_eq!(world.events("l").await, ["a skipped 0", "b skipped 0"]);
    assert_eq!(world.events("p").await, ["b skipped 0"]);
    world.holds_together().await;
}

pub(crate) async fn keys_of_events_are_not_given_again(mut world: World) {
    world.deploy(0, plain("w")).await;
    world.tell(1, "t", &["a", "b"]).await;
    let greatest = |views: Vec<store::EventView>| -> EventKey {
        views.iter().map(|view| view.event.status.key).max().unwrap()
    };
    let before = greatest(world.event_views("t").await);
    for id in ["a", "b"] {
        world.skip(2, "t", id).await.unwrap();
    }
    expire(&world, 10, 0, 10).await;
    assert_eq!(world.events("t").await, Vec::<String>::new());
    world.join(11).await;
    world.tell(11, "t", &["a"]).await;
    assert!(greatest(world.event_views("t").await) > before);
}

pub(crate) async fn mutations_go_with_their_runs(world: World) {
    world.deploy(0, plain("w")).await;
    world.tell(1, "t", &["a", "b"]).await;
    world.consume(1, &["a"]).await;
    assert_eq!(world.mutations().await, ["c applied"]);
    expire(&world, 100, 0, 10).await;
    assert_eq!(world.mutations().await, Vec::<String>::new());
    assert_eq!(world.runs().await.len(), 1, "the run that goes on stays");
    world.holds_together().await;
}

pub(crate) async fn the_run_of_an_event_may_be_gone(world: World) {
    world.deploy(0, plain("w")).await;
    world.tell(1, "t", &["a"]).await;
    let next = world.up_to_next(1, &["a"]).await;
    // The run ended long ago; the event is finished only now.
    world.turn_with(2, vec![gave(&next, &Value::Null)]).await;
    assert_eq!(world.event("t", "a").await.run, Some(next.run_id.clone()));
    let workflow = world.store().workflow("w", None).await.unwrap().unwrap().workflow.id;
    world.command(3, Command::ArchiveWorkflow(workflow)).await;
    for (keep, is_there) in [(5, true), (0, false)] {
        expire(&world, 4, keep, 10).await;
        assert_eq!(world.runs().await.is_empty(), !is_there);
        assert_eq!(world.counts("t").await[2], u64::from(is_there));
    }
    world.holds_together().await;
}
