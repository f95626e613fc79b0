//! The patterns of consumers: when each runs, sleeps and wakes.

use engine::handlers::Cause;
use engine::run::RunStatus;
use engine::topics::EventState;
use engine::turn::Command;
use serde_json::{Value, json};

use super::*;
use crate::world::at;

/// The pending events in the input of a `worker` phase. Scripts query events themselves and get
/// none in their input.
fn given(perform: &engine::turn::Perform, topic: &str) -> Vec<String> {
    let events = input(perform)["events"].as_array().cloned().unwrap_or_default();
    let of = events.iter().filter(|event| event["topic"] == topic);
    of.map(|event| event["message_id"].as_str().unwrap().to_owned()).collect()
}

fn told(name: &str, subscribe: &[&str]) -> language::definition::Consumer {
    language::definition::Consumer {
        prepare: language::definition::Action::Noop,
        ..consumer(name, subscribe)
    }
}

#[test]
fn first_in_first_out_never_sleeps() {
    let (mut world, log) = world(|perform, phase| match phase {
        "each.prepare" => gives(reserve("t", &given(perform, "t")[..1])),
        _ => gives(Value::Null),
    });
    let id = publish_version(&mut world, workflow(&["t"], consumers(vec![told("each", &["t"])])));
    publish(&mut world, id, "t", &["a", "b", "c"]);
    assert_eq!(events(&world, id, "t", EventState::Consumed), ["a", "b", "c"]);
    assert_eq!(count(&log, "each.prepare"), 3);
    let each = handler(&world, "each");
    assert_eq!((each.cause, each.due()), (None, None), "nothing is left to look at");
    assert!(runs_of(&world, "each").iter().all(|run| run.status == RunStatus::Succeeded));
}

#[test]
fn correlation_sleeps_until_the_other_one_arrives_and_wakes_at_once() {
    let (mut world, log) = world(|perform, phase| match phase {
        "pair.prepare" => {
            let (a, b) = (given(perform, "a"), given(perform, "b"));
            match (a.first(), b.first()) {
                (Some(a), Some(b)) => gives(json!({ "reservations": [
                    { "topic": "a", "ids": [a] }, { "topic": "b", "ids": [b] },
                ] })),
                _ => gives(json!({ "reservations": [] })),
            }
        }
        _ => gives(Value::Null),
    });
    let pair = told("pair", &["a", "b"]);
    let id = publish_version(&mut world, workflow(&["a", "b"], consumers(vec![pair])));
    publish(&mut world, id, "a", &["1"]);
    assert_eq!(count(&log, "pair.prepare"), 1);
    assert_eq!(handler(&world, "pair").due(), Some(at("2026-03-02T09:05:00Z")));
    world.advance_to("2026-03-02T09:03:00Z");
    assert_eq!(count(&log, "pair.prepare"), 1, "it does not look without a cause");
    publish(&mut world, id, "b", &["2"]);
    assert_eq!(count(&log, "pair.prepare"), 2);
    assert_eq!(events(&world, id, "a", EventState::Consumed), ["1"]);
    assert_eq!(events(&world, id, "b", EventState::Consumed), ["2"]);
    assert_eq!(handler(&world, "pair").due(), None);
}

#[test]
fn a_time_window_wakes_by_its_time_or_after_five_minutes() {
    let (mut world, log) = world(|perform, phase| match phase {
        "window.prepare" => {
            let times = input(perform)["state"].as_u64().unwrap_or(0);
            let ids = given(perform, "t");
            match (times, ids.len()) {
                (_, 0) => gives(json!({ "reservations": [] })),
                (_, 1) => gives(json!({ "reservations": [], "wakeAt": "2026-03-02T10:00:00Z" })),
                _ => gives(reserve("t", &ids)),
            }
        }
        _ => gives(json!({ "state": 1 })),
    });
    let window = told("window", &["t"]);
    let id = publish_version(&mut world, workflow(&["t"], consumers(vec![window])));
    publish(&mut world, id, "t", &["a"]);
    assert_eq!(handler(&world, "window").due(), Some(at("2026-03-02T10:00:00Z")));
    world.advance_to("2026-03-02T09:59:59Z");
    assert_eq!(count(&log, "window.prepare"), 1);
    world.advance_to("2026-03-02T10:00:00Z");
    assert_eq!(count(&log, "window.prepare"), 2, "woken at its time");
    // The same wakeup time is now in the past. It is clamped, so that the consumer does not run in
    // a busy loop.
    assert_eq!(handler(&world, "window").due(), Some(at("2026-03-02T10:00:30Z")));
    publish(&mut world, id, "t", &["b"]);
    assert_eq!(events(&world, id, "t", EventState::Consumed), ["a", "b"]);
}

#[test]
fn a_batch_of_ten_sleeps_until_ten_are_there() {
    let (mut world, log) = world(|perform, phase| match phase {
        "batch.prepare" => match given(perform, "t") {
            ids if ids.len() >= 10 => gives(reserve("t", &ids[..10])),
            _ => gives(json!({ "reservations": [] })),
        },
        _ => gives(Value::Null),
    });
    let id = publish_version(&mut world, workflow(&["t"], consumers(vec![told("batch", &["t"])])));
    for n in 0..9 {
        publish(&mut world, id, "t", &[&n.to_string()]);
    }
    assert_eq!(count(&log, "batch.prepare"), 9, "once for each publish");
    assert!(events(&world, id, "t", EventState::Consumed).is_empty());
    world.advance_to("2026-03-02T09:04:59Z");
    assert_eq!(count(&log, "batch.prepare"), 9);
    world.advance_to("2026-03-02T09:05:00Z");
    assert_eq!(count(&log, "batch.prepare"), 10, "and after five minutes");
    publish(&mut world, id, "t", &["9", "10"]);
    assert_eq!(events(&world, id, "t", EventState::Consumed).len(), 10);
    assert_eq!(events(&world, id, "t", EventState::Pending), ["10"]);
    assert_eq!(count(&log, "batch.prepare"), 12, "one that reserves ten, one that finds one left");
}

#[test]
fn an_idle_consumer_does_nothing_at_all() {
    let (mut world, log) = world(|_, _| gives(json!({ "reservations": [] })));
    let id = publish_version(&mut world, workflow(&["t"], consumers(vec![told("idle", &["t"])])));
    world.advance_to("2026-03-03T09:00:00Z");
    assert!(log.borrow().is_empty());
    publish(&mut world, id, "t", &["a"]);
    world
        .command(Command::SkipEvent {
            topic: topic_id(&world, id, "t"),
            message_id: "a".to_owned(),
            by: "ada".to_owned(),
        })
        .unwrap();
    world.advance_to("2026-03-03T09:05:00Z");
    let looked = log.borrow().len();
    world.advance_to("2026-03-04T09:00:00Z");
    assert_eq!(log.borrow().len(), looked, "nothing is pending: it sleeps without an end");
}

#[test]
fn wake_times_are_clamped() {
    for (written, due) in [
        (json!("0001-01-01"), "2026-03-02T09:00:30Z"),
        (json!("+275760-09-13T00:00:00.000Z"), "2026-03-03T09:00:00Z"),
        (json!(-1e300), "2026-03-02T09:00:30Z"),
        (json!(1e300), "2026-03-03T09:00:00Z"),
        (json!("2026-03-02T09:10:00+01:00"), "2026-03-02T09:00:30Z"),
        (json!("2026-03-02T09:10:00Z"), "2026-03-02T09:10:00Z"),
    ] {
        let told_at = written.clone();
        let (mut world, _) =
            world(move |_, _| gives(json!({ "reservations": [], "wakeAt": told_at })));
        let id = publish_version(&mut world, workflow(&["t"], consumers(vec![told("c", &["t"])])));
        publish(&mut world, id, "t", &["a"]);
        assert_eq!(handler(&world, "c").due(), Some(at(due)), "{written}");
    }
}

#[test]
fn what_cannot_be_reserved_fails_the_run_and_moves_nothing() {
    for (result, message) in [
        (reserve("t", &["nope".into(), "nope".into()]), "there is no event nope in topic t"),
        (reserve("t", &["a".into(), "a".into()]), "an event of topic t is reserved twice"),
        (reserve("other", &["a".into()]), "this handler may not reserve from topic other"),
        (json!({ "reservations": 7 }), "the result is not an object with `reservations`"),
        (json!({ "reservations": [], "wakeAt": "soon" }), "wakeAt \"soon\" is no time"),
        (json!(["a"]), "the result is not an object with `reservations`"),
    ] {
        let (mut world, _) = world(move |_, _| gives(result.clone()));
        let topics = workflow(&["t", "other"], consumers(vec![told("c", &["t"])]));
        let id = publish_version(&mut world, topics);
        publish(&mut world, id, "t", &["a"]);
        let run = runs_of(&world, "c")[0];
        assert_eq!(run.status, RunStatus::Failed);
        let error = run.error.as_ref().unwrap();
        assert!(error.message.starts_with(message), "{}", error.message);
        assert_eq!(events(&world, id, "t", EventState::Pending), ["a"]);
        let workflow = &world.memory.workflows[&id];
        assert!(workflow.paused, "a mistake in the handler is for a person to mend");
        assert!(workflow.paused_reason.as_ref().unwrap().contains(message));
    }
}

#[test]
fn publishing_again_replaces_what_an_event_says_and_keeps_where_it_stands() {
    let (mut world, _) = world(|perform, phase| match phase {
        "c.prepare" => gives(reserve("t", &given(perform, "t"))),
        _ => gives(Value::Null),
    });
    let id = publish_version(&mut world, workflow(&["t"], consumers(vec![told("c", &["t"])])));
    publish(&mut world, id, "t", &["a"]);
    assert_eq!(events(&world, id, "t", EventState::Consumed), ["a"]);
    let topic = topic_id(&world, id, "t");
    let again = Message {
        message_id: "a".to_owned(),
        title: Some("new".to_owned()),
        payload: to_raw_value(&json!({ "new": true })).unwrap(),
        causes: Vec::new(),
    };
    let answer = world.command(Command::PublishEvents { topic, events: vec![again] }).unwrap();
    assert_eq!(answer, Answer::Published { published: 0, replaced: 1 });
    let event = world.memory.topics.named(topic, "a").unwrap();
    assert_eq!(event.status.state, EventState::Consumed);
    assert_eq!(event.message.payload.get(), r#"{"new":true}"#);
}

#[test]
fn among_consumers_the_one_with_the_oldest_event_is_first() {
    let (mut world, log) = world(|perform, phase| match phase {
        "slow.prepare" => takes(60, reserve("s", &given(perform, "s"))),
        "one.prepare" => gives(reserve("a", &given(perform, "a"))),
        "two.prepare" => gives(reserve("b", &given(perform, "b"))),
        _ => gives(Value::Null),
    });
    let all = vec![told("slow", &["s"]), told("one", &["a"]), told("two", &["b"])];
    let id = publish_version(&mut world, workflow(&["s", "a", "b"], consumers(all)));
    publish(&mut world, id, "s", &["0"]);
    world.advance_to("2026-03-02T09:00:10Z");
    publish(&mut world, id, "b", &["1"]);
    world.advance_to("2026-03-02T09:00:20Z");
    publish(&mut world, id, "a", &["2"]);
    assert_eq!(log.borrow().len(), 1, "one at a time");
    world.advance_to("2026-03-02T09:02:00Z");
    let expected =
        ["slow.prepare", "slow.next", "two.prepare", "two.next", "one.prepare", "one.next"];
    assert_eq!(*log.borrow(), expected);
}

#[test]
fn a_consumer_started_by_hand_looks_at_once_or_when_its_workflow_is_free() {
    let (mut world, log) = world(|_, phase| match phase {
        "c.prepare" => takes(60, json!({ "reservations": [] })),
        _ => gives(Value::Null),
    });
    let id = publish_version(&mut world, workflow(&["t"], consumers(vec![told("c", &["t"])])));
    let start = |world: &mut World| {
        let run = world.new_run();
        world.command(Command::StartHandler { id, handler: "c".to_owned(), run }).unwrap()
    };
    assert!(matches!(start(&mut world), Answer::Run(_)));
    assert_eq!(start(&mut world), Answer::Called("c".to_owned()));
    assert_eq!(handler(&world, "c").cause, Some(Cause::ByHand));
    world.advance_to("2026-03-02T09:10:00Z");
    assert_eq!(count(&log, "c.prepare"), 2);
}

#[test]
fn a_consumer_called_during_a_run_that_fails_does_not_wait_for_the_backoff() {
    let (mut world, log) = world(|_, phase| match phase {
        "c.prepare" => (seconds(60), fails(true).1),
        _ => gives(Value::Null),
    });
    let id = publish_version(&mut world, workflow(&["t"], consumers(vec![told("c", &["t"])])));
    publish(&mut world, id, "t", &["a"]);
    world.advance_to("2026-03-02T09:00:30Z");
    let run = world.new_run();
    let start = Command::StartHandler { id, handler: "c".to_owned(), run };
    assert_eq!(world.command(start).unwrap(), Answer::Called("c".to_owned()));
    world.advance_to("2026-03-02T09:01:01Z");
    assert_eq!(count(&log, "c.prepare"), 2, "at once");
    world.advance_to("2026-03-02T09:02:05Z");
    assert_eq!(count(&log, "c.prepare"), 2, "nobody has called it again");
}

#[test]
fn what_is_consumed_and_what_is_published_is_one_commit() {
    let (mut world, _) = world(|perform, phase| match phase {
        "first.prepare" => gives(reserve("in", &given(perform, "in"))),
        "first.next" => {
            let prepared = &input(perform)["prepared"];
            let ids = prepared["reservations"][0]["ids"].as_array().unwrap().clone();
            let publish = |id: &Value| json!({ "topic": "out", "messageId": id, "payload": {} });
            gives(json!({ "publish": ids.iter().map(publish).collect::<Vec<_>>() }))
        }
        "second.prepare" => gives(reserve("out", &given(perform, "out"))),
        _ => gives(Value::Null),
    });
    let all = vec![told("first", &["in"]), told("second", &["out"])];
    let id = publish_version(&mut world, workflow(&["in", "out"], consumers(all)));
    publish(&mut world, id, "in", &["a", "b"]);
    assert_eq!(events(&world, id, "in", EventState::Consumed), ["a", "b"]);
    assert_eq!(events(&world, id, "out", EventState::Consumed), ["a", "b"]);
}

#[test]
fn what_is_given_names_its_topic_also_when_nothing_was_published_just_now() {
    let seen = Rc::new(RefCell::new(Vec::new()));
    let kept = seen.clone();
    let (mut world, _) = world(move |perform, phase| {
        if phase == "c.prepare" {
            kept.borrow_mut().push(input(perform)["events"][0]["topic"].clone());
        }
        gives(Value::Null)
    });
    let id = publish_version(&mut world, workflow(&["t"], consumers(vec![told("c", &["t"])])));
    publish(&mut world, id, "t", &["a"]);
    world.advance_to("2026-03-02T09:05:00Z");
    assert_eq!(*seen.borrow(), ["t", "t"], "called by an event, and by the time");
}

#[test]
fn what_is_started_by_hand_runs_while_the_pause_keeps_another_run_from_beginning() {
    let (mut world, log) = world(|perform, phase| match phase {
        "c.prepare" => gives(reserve("t", &given(perform, "t"))),
        "p.handler" => gives(json!({})),
        _ => gives(Value::Null),
    });
    let definition = Definition {
        producers: vec![producer("p", json!({ "interval": "1d" }), "t")],
        ..consumers(vec![told("c", &["t"])])
    };
    let id = publish_version(&mut world, workflow(&["t"], definition));
    // There is no free slot for the consumer's run, and then its workflow is paused.
    world.capacity = 0;
    publish(&mut world, id, "t", &["a"]);
    world.command(Command::PauseWorkflow { id, paused: true, reason: None }).unwrap();
    world.capacity = 10;
    world.advance_to("2026-03-02T09:01:00Z");
    assert_eq!(*log.borrow(), ["p.handler"], "its first run, when it was new");
    let start = |world: &mut World, handler: &str| {
        let run = world.new_run();
        world.command(Command::StartHandler { id, handler: handler.to_owned(), run }).unwrap();
        settle(world);
    };
    start(&mut world, "p");
    assert_eq!(*log.borrow(), ["p.handler", "p.handler"]);
    start(&mut world, "c");
    assert_eq!(log.borrow()[2..], ["c.prepare", "c.next"]);
    assert_eq!(events(&world, id, "t", EventState::Consumed), ["a"]);
    assert_eq!(handler(&world, "c").cause, None, "it was asked for once");
}
