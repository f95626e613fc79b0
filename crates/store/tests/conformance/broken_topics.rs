//! Damage to the rows of topics and handlers, the same for every store.

use engine::run::{AttemptEnd, RunStatus};
use serde_json::json;
use store::{Failure, Report};

use crate::messages::{consumer, gave, message, only, plain, reserves, topic};
use crate::panics::reporting;
use crate::process::{noop, step, timer};
use crate::set_aside::{aside, drive};
use crate::world::{Place, World, failed, minute, refusal};

/// The damaging statement, the code of the finding, and whether it is mended.
pub(crate) const OF_TOPICS: [(&str, &str, bool); 25] = [
    ("UPDATE topics SET pending = pending + 1", "topic-counts", true),
    ("UPDATE topics SET reserved = 0, consumed = consumed + 1", "topic-counts", true),
    ("UPDATE topics SET skipped = 7", "topic-counts", true),
    ("UPDATE events SET state = 2 WHERE state = 0", "topic-counts", true),
    ("UPDATE events SET state = 99 WHERE state = 0", "event-state", true),
    (
        "UPDATE messages SET payload = 'x{'
         WHERE event IN (SELECT key FROM events WHERE state = 0)",
        "event-unreadable",
        false,
    ),
    ("UPDATE events SET attempt = -1 WHERE state = 0", "event-unreadable", false),
    ("UPDATE events SET attempt = -1 WHERE state = 0", "event-numbers", true),
    (
        "UPDATE events SET created_at = 9223372036854775807, updated_at = 9223372036854775807,
           hops = 300 WHERE state = 2",
        "event-numbers",
        true,
    ),
    ("UPDATE events SET run = 999 WHERE state = 1", "reserved-by-nobody", true),
    ("UPDATE events SET state = 1 WHERE state = 2", "topic-counts", true),
    ("UPDATE events SET topic = 999 WHERE state = 0", "event-without-topic", false),
    ("UPDATE handlers SET run = 999 WHERE run IS NULL", "handler-of-nothing", true),
    ("UPDATE handlers SET resumes = 999 WHERE resumes IS NOT NULL", "resumed-run-gone", false),
    ("UPDATE workflows SET handling = 999", "handling-of-nothing", true),
    ("UPDATE workflows SET handling = NULL", "handling-forgotten", true),
    ("UPDATE workflows SET paused_by = 999 WHERE paused_by IS NOT NULL", "paused-by-nothing", true),
    ("UPDATE subscriptions SET topic = 999", "not-as-published", true),
    ("UPDATE subscriptions SET handler = 999", "not-as-published", true),
    ("UPDATE subscriptions SET workflow = 999", "subscription-of-nothing", true),
    (
        "INSERT INTO waits (run, step, item, topic) SELECT 999, 0, 0, topic FROM waits",
        "wait-of-nothing",
        true,
    ),
    (
        "INSERT INTO waits (run, step, item, topic) SELECT run, 1, 0, topic FROM waits",
        "wait-of-nothing",
        true,
    ),
    (
        "INSERT INTO waits (run, step, item, topic) SELECT run, step, -3, topic FROM waits",
        "wait-of-nothing",
        true,
    ),
    ("DELETE FROM waits", "wait-missing", false),
    ("UPDATE waits SET topic = 999", "wait-without-topic", false),
];

/// A workflow like [`plain`], with a topic of another name.
fn named(name: &str, topic_name: &str) -> serde_json::Value {
    json!({"name": name, "topics": [topic(topic_name, 10)],
           "consumers": [consumer("c", &[topic_name])]})
}

impl World {
    /// A store with events in every state, a consumer that sleeps, one that works, one that will
    /// resume a run after its mutation, one whose mutation is unknown, and a step that waits for an
    /// event.
    pub(crate) async fn topical(place: Box<dyn Place>) -> World {
        let mut world = World::new(place).await;
        let prepare = |name: &str| json!({"reservations": [{"topic": name, "ids": ["a"]}]});
        // One consumer works on an event; other events are skipped, consumed and pending.
        world.deploy(0, plain("works")).await;
        world.tell(0, "t", &["a", "b", "c", "d"]).await;
        world.skip(0, "t", "c").await.unwrap();
        let turned = world.consume(0, &["b"]).await;
        world.turn_with(1, vec![reserves(&only(&turned), &["a"])]).await;
        // One consumer sleeps.
        world.deploy(1, named("sleeps", "s")).await;
        world.tell(1, "s", &["a"]).await;
        let turned = world.turn(1).await;
        let sleep = json!({"wakeAt": minute(600).to_string()});
        world.turn_with(1, vec![gave(&only(&turned), &sleep)]).await;
        // One consumer's last phase has failed.
        world.deploy(1, named("resumes", "r")).await;
        world.tell(1, "r", &["a"]).await;
        let turned = world.turn(1).await;
        let turned = world.turn_with(1, vec![gave(&only(&turned), &prepare("r"))]).await;
        let turned = world.turn_with(1, vec![gave(&only(&turned), &json!(null))]).await;
        world.turn_with(1, vec![failed(&only(&turned))]).await;
        // The outcome of one consumer's mutation is unknown.
        world.deploy(1, named("asks", "q")).await;
        world.tell(1, "q", &["a"]).await;
        let turned = world.turn(1).await;
        let turned = world.turn_with(1, vec![gave(&only(&turned), &prepare("q"))]).await;
        let mutation = only(&turned);
        let end = AttemptEnd::Unknown { message: "no answer".to_owned() };
        let report = Report { run: mutation.run, token: mutation.token, end };
        world.turn_with(1, vec![report]).await;
        // A step waits for an event.
        let wait = json!({"type": "wait_for", "topic": "w"});
        let steps = [step("wait", &[], wait), step("go", &["wait"], noop())];
        let waits = json!({"name": "waits", "topics": [topic("w", 10)], "steps": steps});
        let waits = world.deploy(1, waits).await;
        world.start(1, waits).await.unwrap();
        world.turn(1).await;
        world
    }
}

/// The message of an event is damaged: consumers work on the others, and it can be skipped.
pub(crate) async fn an_unreadable_event_is_passed_over(mut world: World) {
    world.deploy(0, plain("w")).await;
    world.tell(1, "t", &["a", "b", "c"]).await;
    world.close();
    let sql = "UPDATE messages SET payload = 'x{' WHERE event = (SELECT min(key) FROM events)";
    world.place().execute(sql.to_owned()).await;
    world.join(2).await;
    world.consume(3, &["b", "c"]).await;
    let listed = ["a pending 0", "b consumed 0", "c consumed 0"];
    assert_eq!(world.events("t").await, listed);
    assert!(world.event("t", "a").await.unreadable.is_some());
    world.skip(4, "t", "a").await.unwrap();
    assert_eq!(world.events("t").await[0], "a skipped 0");
    assert_eq!(world.store().check(minute(5), false).await.unwrap(), []);
}

/// A run that would publish to a topic that is not stored, or give events back to it, is set aside
/// instead of losing the events.
pub(crate) async fn what_needs_a_topic_that_is_gone_is_not_decided(mut world: World) {
    let publish = json!({"type": "publish", "topic": "u", "payload": {"n": 1}});
    let steps = [step("wait", &[], timer(5)), step("tell", &["wait"], publish)];
    let definition = json!({"name": "p", "topics": [topic("u", 10)], "steps": steps});
    let workflow = world.deploy(0, definition).await;
    let run = world.start(0, workflow).await.unwrap();
    world.turn(0).await;
    world.deploy(0, plain("w")).await;
    world.tell(1, "t", &["a"]).await;
    let mutation = world.up_to_mutation(1, &["a"]).await;
    world.place().execute("DELETE FROM topics".to_owned()).await;
    let reports = vec![failed(&mutation)];
    match world.store().turn(reporting(&world, 1, reports)).await {
        Err(Failure::Undecidable { why, .. }) => assert!(why.contains("is not stored"), "{why}"),
        other => panic!("{other:?}"),
    }
    drive(&world, 6).await;
    assert!(aside(&world).await.contains(&("run", run.to_string())));
    assert_eq!(world.status(&run).await, RunStatus::Waiting);
}

/// The first and the last of four events are damaged: consumers and lists pass over them. The
/// checks name them, and after a repair consumers work on them.
pub(crate) async fn events_with_unreadable_numbers_are_passed_over(mut world: World) {
    world.deploy(0, plain("w")).await;
    world.tell(1, "t", &["a", "b", "c", "d"]).await;
    world.close();
    for sql in [
        "UPDATE events SET attempt = -1 WHERE message_id = 'a'",
        "UPDATE events SET created_at = -9223372036854775807 WHERE message_id = 'd'",
    ] {
        world.place().execute(sql.to_owned()).await;
    }
    world.join(2).await;
    world.consume(3, &["b", "c"]).await;
    assert_eq!(world.events("t").await, ["b consumed 0", "c consumed 0"]);
    let found = world.store().check(minute(4), false).await.unwrap();
    for name in ["event a ", "event d "] {
        assert!(found.iter().any(|finding| finding.message.contains(name)), "{name}: {found:#?}");
    }
    world.store().check(minute(4), true).await.unwrap();
    assert_eq!(world.store().check(minute(4), false).await.unwrap(), []);
    let mut listed = world.events("t").await;
    listed.sort();
    assert_eq!(listed, ["a pending 0", "b consumed 0", "c consumed 0", "d pending 0"]);
}

/// The state of an event is damaged: it is listed as unreadable, and commands about it say what to
/// do. A repair skips it.
pub(crate) async fn an_event_in_no_state_is_shown_and_repaired(mut world: World) {
    world.deploy(0, plain("w")).await;
    world.tell(1, "t", &["a", "b"]).await;
    world.close();
    let sql = "UPDATE events SET state = 99 WHERE message_id = 'a'";
    world.place().execute(sql.to_owned()).await;
    world.join(2).await;
    world.consume(3, &["b"]).await;
    assert_eq!(world.events("t").await, ["a skipped 0", "b consumed 0"]);
    let why = world.event("t", "a").await.unreadable.unwrap();
    assert!(why.contains("unknown code 99"), "{why}");
    let topic = world.topic_id("t").await;
    let again = world.try_tell(4, topic, vec![message("a", "{}")]).await;
    assert!(refusal(again).contains("punctual doctor --repair"));
    assert!(refusal(world.skip(4, "t", "a").await).contains("punctual doctor --repair"));
    world.store().check(minute(5), true).await.unwrap();
    assert!(world.event("t", "a").await.unreadable.is_none());
    assert_eq!(world.store().check(minute(5), false).await.unwrap(), []);
}
