//! Processes and events: steps that publish, steps that wait, triggers.

use engine::run::{RunStatus, TriggeredBy};
use engine::turn::Command;
use serde_json::{Value, json};

use crate::messages::{message, topic};
use crate::process::{noop, step};
use crate::world::{World, performs, succeeded};

fn wait_for(topic: &str) -> Value {
    json!({"type": "wait_for", "topic": topic})
}

/// A process whose first step waits for an event of topic `t`.
fn waiting(name: &str, wait: Value) -> Value {
    json!({"name": name, "concurrency": 10, "topics": [topic("t", 10)],
           "steps": [step("wait", &[], wait), step("go", &["wait"], noop())]})
}

pub(crate) async fn a_step_that_waits_takes_the_event(mut world: World) {
    let workflow = world.deploy(0, waiting("w", wait_for("t"))).await;
    let first = world.start(0, workflow).await.unwrap();
    world.turn(0).await;
    let second = world.start(1, workflow).await.unwrap();
    world.turn(1).await;
    world.holds_together().await;
    world.join(2).await;
    world.turn(2).await;
    // Each event goes to one waiting run, the oldest first.
    assert_eq!(world.tell(3, "t", &["a"]).await, (1, 0));
    let turned = world.turn(3).await;
    assert_eq!(performs(&turned)[0].run_id, first);
    assert_eq!(world.events("t").await, ["a consumed 0"]);
    assert_eq!(world.event("t", "a").await.run, Some(first.clone()));
    world.turn_with(4, performs(&turned).iter().map(succeeded).collect()).await;
    assert_eq!(world.status(&first).await, RunStatus::Succeeded);
    world.holds_together().await;
    // A cancelled run takes no event.
    world.cancel(5, &second).await;
    world.settle(5).await;
    world.tell(6, "t", &["b"]).await;
    assert_eq!(world.counts("t").await, [1, 0, 1, 0]);
    // An event that exists already is taken at once.
    let third = world.start(7, workflow).await.unwrap();
    world.settle(7).await;
    assert_eq!(world.status(&third).await, RunStatus::Succeeded);
    assert_eq!(world.counts("t").await, [0, 0, 2, 0]);
    world.holds_together().await;
}

pub(crate) async fn a_step_waits_for_the_event_that_it_means(mut world: World) {
    let wait = json!({"type": "wait_for", "topic": "t", "condition": "event.payload.n > 1",
                      "within": {"elapsed": "PT30M"}});
    let workflow = world.deploy(0, waiting("w", wait)).await;
    let run = world.start(0, workflow).await.unwrap();
    world.turn(0).await;
    let id = world.topic_id("t").await;
    let told = vec![message("a", r#"{"n": 1}"#), message("b", r#"{"n": 2}"#)];
    world.try_tell(1, id, told).await.unwrap();
    assert_eq!(world.events("t").await, ["a pending 0", "b consumed 0"]);
    world.settle(1).await;
    assert_eq!(world.status(&run).await, RunStatus::Succeeded);
    // A wait that takes too long times out.
    let late = world.start(2, workflow).await.unwrap();
    let turned = world.turn(2).await;
    assert_eq!(turned.next_wakeup, Some(crate::world::minute(32)));
    world.settle(32).await;
    assert_eq!(world.status(&late).await, RunStatus::Failed);
    world.try_tell(33, id, vec![message("c", r#"{"n": 3}"#)]).await.unwrap();
    assert_eq!(world.counts("t").await, [2, 0, 1, 0]);
    world.holds_together().await;
}

pub(crate) async fn many_wait_for_one_topic(mut world: World) {
    let workflow = world.deploy(0, waiting("w", wait_for("t"))).await;
    let mut runs = Vec::new();
    for _ in 0..5 {
        runs.push(world.start(0, workflow).await.unwrap());
        world.turn(0).await;
    }
    world.tell(1, "t", &["a", "b", "c"]).await;
    for (n, run) in runs.iter().enumerate() {
        let expected = if n < 3 { 1 } else { 0 };
        assert_eq!(world.run(run).await.steps.len(), expected, "run {n}");
    }
    assert_eq!(world.counts("t").await, [0, 0, 3, 0]);
    world.holds_together().await;
}

pub(crate) async fn an_event_starts_a_workflow(world: World) {
    let trigger = json!({"id": "e", "type": "event", "topic": "t", "enabled": true,
                         "condition": "event.payload.n > 1"});
    let definition = json!({"name": "w", "topics": [topic("t", 10)], "triggers": [trigger],
        "steps": [step("a", &[], noop())]});
    let workflow = world.deploy(0, definition).await;
    let id = world.topic_id("t").await;
    let told = vec![message("a", r#"{"n": 1}"#), message("b", r#"{"n": 2}"#)];
    world.try_tell(1, id, told).await.unwrap();
    assert_eq!(world.events("t").await, ["a pending 0", "b consumed 0"]);
    world.settle(1).await;
    let run = world.event("t", "b").await.run.unwrap();
    let run = world.run(&run).await.view.run;
    assert_eq!((run.triggered_by, run.status), (TriggeredBy::Event, RunStatus::Succeeded));
    // Triggers of an archived workflow do not fire.
    world.command(2, Command::ArchiveWorkflow(workflow)).await;
    world.try_tell(3, id, vec![message("c", r#"{"n": 3}"#)]).await.unwrap();
    assert_eq!(world.counts("t").await, [2, 0, 1, 0]);
    assert_eq!(world.runs().await.len(), 1);
    world.holds_together().await;
}

pub(crate) async fn a_step_publishes_once(mut world: World) {
    let publish = json!({"type": "publish", "topic": "t", "payload": {"n": 1}});
    let definition = json!({"name": "w", "topics": [topic("t", 10)],
        "steps": [step("tell", &[], publish), step("a", &["tell"], noop())]});
    let workflow = world.deploy(0, definition).await;
    let run = world.start(0, workflow).await.unwrap();
    world.settle(0).await;
    let views = world.event_views("t").await;
    assert_eq!(views.len(), 1);
    assert_eq!(views[0].event.message.message_id, format!("{run}/tell"));
    assert_eq!(views[0].event.message.payload.get(), r#"{"n":1}"#);
    assert_eq!(world.status(&run).await, RunStatus::Succeeded);
    world.holds_together().await;
}
