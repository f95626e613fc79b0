//! Chains of consequences: whatever their length, they need no more stack, and a turn ends.

use engine::run::{RunStatus, TriggeredBy};
use engine::topics::EventState;
use engine::turn::Command;
use language::definition::{
    Action, ForEach, OnError, Publish, SubProcess, Trigger, TriggerKind, WaitFor,
};
use serde_json::{Value, json};

use super::handlers::{events, gives, publish as publish_events, publish_version, workflow, world};
use super::processes::{Written as _, definition, noop, publish, start, status, step};
use super::world::{World, at, empty};

const BEGIN: &str = "2026-03-02T09:00:00Z";

/// Runs the test on a stack that is too small for a chain of a few dozen nested decisions.
fn on_a_small_stack(test: impl FnOnce() + Send + 'static) {
    let thread = std::thread::Builder::new().stack_size(256 << 10).spawn(test).unwrap();
    thread.join().unwrap();
}

fn only_if_false() -> language::definition::Step {
    noop("only").when("false")
}

fn runs_of(world: &World, id: engine::WorkflowId) -> impl Iterator<Item = &engine::run::Run> {
    world.memory.runs.values().filter(move |run| run.workflow == id)
}

fn all_ended_well(world: &World, id: engine::WorkflowId, count: usize) {
    let ended = runs_of(world, id).filter(|run| run.status == RunStatus::Succeeded).count();
    assert_eq!((ended, runs_of(world, id).count()), (count, count));
}

#[test]
fn a_backfill_of_runs_that_end_at_once_is_done_in_order() {
    on_a_small_stack(|| {
        let mut world = World::new(BEGIN);
        let id = publish(&mut world, definition("short", vec![only_if_false()]));
        let schedule = world.schedule(id, r#"{"name":"s","cron":"* * * * *"}"#);
        let (from, to) = (at("2026-03-01T00:00:00Z"), at("2026-03-01T15:59:00Z"));
        let command =
            Command::Backfill { id: schedule, from, to, limit: 1_000, pace: None, again: false };
        world.command(command).unwrap();
        let last = runs_of(&world, id).filter_map(|run| run.nominal).max();
        assert_eq!(last, Some(at("2026-03-01T15:59:00Z")));
        let count = runs_of(&world, id).count();
        assert_eq!(count, 960);
        all_ended_well(&world, id, count);
    });
}

#[test]
fn children_that_cannot_be_started_end_their_step_without_depth() {
    on_a_small_stack(|| {
        let mut world = World::new(BEGIN);
        let child = |id: &str| {
            let missing = SubProcess {
                workflow: "missing".to_owned(),
                input_mapping: None,
                output_key: None,
                wait_for_completion: true,
            };
            step(id, Action::SubProcess(missing))
        };
        let mut steps = vec![child("s0").on_error(OnError::SkipStep)];
        for n in 1..6 {
            let step = child(&format!("s{n}")).on_error(OnError::SkipStep);
            steps.push(step.after(&[&format!("s{}", n - 1)]));
        }
        let back = OnError::GotoStep("s0".to_owned());
        steps.push(child("s6").after(&["s5"]).on_error(back));
        let id = publish(&mut world, definition("circle", steps));
        let run = start(&mut world, id, Value::Null);
        world.advance_to("2026-03-02T09:01:00Z");
        assert_eq!(status(&world, run), RunStatus::Failed);
        let error = world.memory.runs[&run].error.clone().unwrap();
        assert_eq!(error.code, "too_many_jumps", "{error:?}");
    });
}

fn wait(id: &str) -> language::definition::Step {
    step(id, Action::WaitFor(waits_for_t()))
}

fn waits_for_t() -> WaitFor {
    WaitFor { topic: "t".to_owned(), condition: None, within: None }
}

fn with_topic(
    name: &str,
    steps: Vec<language::definition::Step>,
) -> language::definition::Definition {
    workflow(&["t", "u"], language::definition::Definition { steps, ..empty(name) })
}

fn ids(count: usize) -> Vec<String> {
    (0..count).map(|n| format!("e{n:05}")).collect()
}

fn publish_many(world: &mut World, id: engine::WorkflowId, topic: &str, count: usize) {
    let ids = ids(count);
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    publish_events(world, id, topic, &ids);
}

#[test]
fn an_item_takes_each_of_many_pending_events() {
    on_a_small_stack(|| {
        let (mut world, _) = world(|_, _| gives(Value::Null));
        let each = ForEach {
            items: json!((0..600).collect::<Vec<u32>>()),
            action: Box::new(Action::WaitFor(waits_for_t())),
            max_parallel: Some(1),
        };
        let steps = vec![step("each", Action::ForEach(each))];
        let id = publish_version(&mut world, with_topic("items", steps));
        publish_many(&mut world, id, "t", 600);
        let run = start(&mut world, id, Value::Null);
        world.advance_to("2026-03-02T09:01:00Z");
        assert_eq!(status(&world, run), RunStatus::Succeeded);
        assert_eq!(events(&world, id, "t", EventState::Consumed).len(), 600);
    });
}

#[test]
fn steps_that_wait_one_after_the_other_each_take_an_event_of_their_own() {
    on_a_small_stack(|| {
        let (mut world, _) = world(|_, _| gives(Value::Null));
        let mut steps = vec![wait("w0")];
        for n in 1..300 {
            steps.push(wait(&format!("w{n}")).after(&[&format!("w{}", n - 1)]));
        }
        let id = publish_version(&mut world, with_topic("chained", steps));
        publish_many(&mut world, id, "t", 299);
        let run = start(&mut world, id, Value::Null);
        assert_eq!(status(&world, run), RunStatus::Waiting, "one event is missing");
        publish_events(&mut world, id, "t", &["last"]);
        assert_eq!(status(&world, run), RunStatus::Succeeded);
        assert_eq!(events(&world, id, "t", EventState::Consumed).len(), 300);
    });
}

#[test]
fn runs_that_pass_an_event_on_are_as_many_as_they_are() {
    on_a_small_stack(|| {
        let (mut world, _) = world(|_, _| gives(Value::Null));
        let pass = Publish { topic: "t".to_owned(), message_id: None, title: None, payload: None };
        let steps = vec![wait("wait"), step("pass", Action::Publish(pass)).after(&["wait"])];
        let of_many = language::definition::Definition {
            concurrency: Some(500),
            ..with_topic("passing", steps)
        };
        let id = publish_version(&mut world, of_many);
        for _ in 0..500 {
            start(&mut world, id, Value::Null);
        }
        publish_events(&mut world, id, "t", &["first"]);
        world.advance_to("2026-03-02T09:01:00Z");
        all_ended_well(&world, id, 500);
        assert_eq!(events(&world, id, "t", EventState::Pending).len(), 1, "the last one's own");
    });
}

#[test]
fn a_backlog_of_one_workflow_is_worked_off_in_turns_of_limited_size() {
    on_a_small_stack(|| {
        let (mut world, _) = world(|_, _| gives(Value::Null));
        let trigger = Trigger {
            id: "heard".to_owned(),
            kind: TriggerKind::Event { topic: "t".to_owned(), condition: None, payload: None },
            enabled: true,
            description: None,
        };
        let of_one = language::definition::Definition {
            concurrency: Some(1),
            triggers: vec![trigger],
            ..with_topic("backlog", vec![only_if_false()])
        };
        let id = publish_version(&mut world, of_one);
        world.capacity = 0;
        publish_many(&mut world, id, "t", 5_000);
        assert!(runs_of(&world, id).all(|run| run.status == RunStatus::Pending));
        (world.capacity, world.turns, world.written) = (10, 0, 0);
        world.schedule(id, r#"{"name":"s","at":"2026-03-02T09:00:01Z"}"#);
        world.advance_to("2026-03-02T09:00:02Z");
        all_ended_well(&world, id, 5_001);
        assert!(world.written <= 4_001, "{} runs in one turn", world.written);
    });
}

fn circle(name: &str, hears: &str, tells: &str) -> language::definition::Definition {
    let topics = [hears, tells].map(|name| language::definition::TopicDeclaration {
        shared: true,
        ..super::handlers::topic(name)
    });
    let trigger = Trigger {
        id: "heard".to_owned(),
        kind: TriggerKind::Event { topic: hears.to_owned(), condition: None, payload: None },
        enabled: true,
        description: None,
    };
    let tell = Publish { topic: tells.to_owned(), message_id: None, title: None, payload: None };
    language::definition::Definition {
        topics: topics.into(),
        triggers: vec![trigger],
        steps: vec![step("tell", Action::Publish(tell))],
        ..empty(name)
    }
}

#[test]
fn workflows_that_publish_to_each_other_end_with_a_reason() {
    on_a_small_stack(|| {
        let (mut world, _) = world(|_, _| gives(Value::Null));
        let ping = publish_version(&mut world, circle("ping", "ping", "pong"));
        let pong = publish_version(&mut world, circle("pong", "pong", "ping"));
        start(&mut world, ping, Value::Null);
        world.advance_to("2026-03-02T09:01:00Z");
        let runs: Vec<_> = world.memory.runs.values().collect();
        assert_eq!(runs.len(), 33, "the first, and one for each hop");
        assert!(runs.iter().skip(1).all(|run| run.triggered_by == TriggeredBy::Event));
        let failed: Vec<_> = runs.iter().filter(|run| run.status == RunStatus::Failed).collect();
        let [last] = failed[..] else { panic!("{failed:?}") };
        let error = last.error.clone().unwrap();
        assert_eq!(error.code, "loop");
        assert!(error.message.contains("32 events or deadlines in a row"), "{error:?}");
        assert!([ping, pong].contains(&last.workflow));
    });
}

#[test]
fn a_circle_that_takes_its_time_goes_on() {
    let (mut world, _) = world(|_, _| gives(Value::Null));
    let mut slow = circle("slow", "again", "again");
    let delay =
        language::definition::Timer::Delay(language::definition::TimeSpan::parse("2m").unwrap());
    slow.topics.truncate(1);
    slow.steps.insert(0, step("wait", Action::Timer(delay)));
    slow.steps[1] = slow.steps[1].clone().after(&["wait"]);
    let id = publish_version(&mut world, slow);
    start(&mut world, id, Value::Null);
    world.advance_to("2026-03-02T12:00:30Z");
    assert_eq!(runs_of(&world, id).count(), 91);
    assert!(runs_of(&world, id).all(|run| run.status != RunStatus::Failed));
}

/// A circle of one topic with a timer before each event, of one run at a time.
fn timed_circle(name: &str, delay: &str) -> language::definition::Definition {
    let delay = language::definition::TimeSpan::parse(delay).unwrap();
    let mut circle = circle(name, "again", "again");
    circle.topics.truncate(1);
    circle.steps.insert(0, step("wait", Action::Timer(language::definition::Timer::Delay(delay))));
    circle.steps[1] = circle.steps[1].clone().after(&["wait"]);
    circle.concurrency = Some(1);
    circle
}

#[test]
fn time_that_a_run_waits_to_begin_does_not_make_its_circle_slow() {
    let (mut world, _) = world(|_, _| gives(Value::Null));
    let id = publish_version(&mut world, timed_circle("crowded", "40s"));
    for _ in 0..4 {
        start(&mut world, id, Value::Null);
    }
    world.advance_to("2026-03-02T10:00:00Z");
    let hops: Vec<u8> = runs_of(&world, id).filter_map(|run| Some(run.parent?.hops)).collect();
    assert!(hops.contains(&20), "each run waits two minutes for the others: {hops:?}");
}

#[test]
fn runs_of_a_full_family_publish_nothing_that_would_start_more() {
    let (mut world, _) = world(|_, _| gives(Value::Null));
    let each = |action| {
        Action::ForEach(ForEach {
            items: json!([1, 2, 3]),
            action: Box::new(action),
            max_parallel: None,
        })
    };
    let mut wide = circle("wide", "again", "again");
    wide.topics = vec![super::handlers::topic("again")];
    let Action::Publish(tell) = wide.steps[0].action.clone() else { unreachable!() };
    wide.steps = vec![step("tell", each(Action::Publish(tell)))];
    let id = publish_version(&mut world, wide);
    world.memory.descendants_besides = 49_990;
    start(&mut world, id, Value::Null);
    world.advance_to("2026-03-02T09:10:00Z");
    assert_eq!(runs_of(&world, id).count(), 11, "the first, and ten that are left");
    let failed = runs_of(&world, id).filter(|run| run.status == RunStatus::Failed);
    let errors: Vec<_> = failed.filter_map(|run| run.error.clone()).collect();
    assert!(errors.len() >= 6, "{errors:?}");
    let why = "has led to 50000 runs already";
    assert!(errors.iter().all(|error| error.code == "loop" && error.message.contains(why)));
    let skipped = events(&world, id, "again", EventState::Skipped);
    assert!(skipped.len() <= 2, "only events of the run that filled the family: {skipped:?}");
}

#[test]
fn a_workflow_that_starts_itself_many_times_has_a_limited_family() {
    on_a_small_stack(|| {
        let mut world = World::new(BEGIN);
        let itself = |id: &str| {
            let child = SubProcess {
                workflow: "tree".to_owned(),
                input_mapping: None,
                output_key: None,
                wait_for_completion: false,
            };
            step(id, Action::SubProcess(child))
        };
        let steps = (0..30).map(|n| itself(&format!("c{n}"))).collect();
        let id = publish(&mut world, definition("tree", steps));
        world.memory.descendants_besides = 49_900;
        start(&mut world, id, Value::Null);
        world.advance_to("2026-03-02T09:10:00Z");
        assert_eq!(runs_of(&world, id).count(), 101, "the first, and 100 that are left");
        let refused = runs_of(&world, id).filter(|run| run.status == RunStatus::Failed);
        let refused: Vec<_> = refused.filter_map(|run| run.error.clone()).collect();
        assert!(refused.len() > 50, "those beyond the limit were not started: {refused:?}");
        let why = "has led to 50000 runs already";
        assert!(refused.iter().all(|error| error.message.contains(why)), "{refused:?}");
    });
}

/// A step that starts this workflow and waits for it.
fn child_of(id: &str, workflow: &str) -> language::definition::Step {
    let child = SubProcess {
        workflow: workflow.to_owned(),
        input_mapping: None,
        output_key: None,
        wait_for_completion: true,
    };
    step(id, Action::SubProcess(child))
}

#[test]
fn a_large_family_is_cancelled_in_turns_of_limited_size() {
    on_a_small_stack(|| {
        let mut world = World::new(BEGIN);
        publish(&mut world, definition("leaf", vec![wait_an_hour("wait")]));
        let hundred =
            |of: &str| (0..100).map(|n| child_of(&format!("c{n}"), of)).collect::<Vec<_>>();
        publish(&mut world, definition("branch", hundred("leaf")));
        let id = publish(&mut world, definition("tree", hundred("branch")));
        let run = start(&mut world, id, Value::Null);
        world.advance_to("2026-03-02T09:01:00Z");
        assert_eq!(world.memory.runs.len(), 1 + 100 + 10_000);
        (world.turns, world.written) = (0, 0);
        let id = world.memory.runs[&run].id.clone();
        world.command(Command::CancelRun { id, reason: "enough".to_owned() }).unwrap();
        world.advance_to("2026-03-02T09:01:00Z");
        let open = world.memory.runs.values().filter(|run| run.status != RunStatus::Cancelled);
        assert_eq!(open.count(), 0, "every descendant is cancelled");
        assert!(world.turns >= 2, "{} turns", world.turns);
        assert!(world.written <= 4_200, "{} runs in one turn", world.written);
    });
}

fn wait_an_hour(id: &str) -> language::definition::Step {
    let hour = language::definition::TimeSpan::parse("1h").unwrap();
    step(id, Action::Timer(language::definition::Timer::Delay(hour)))
}

/// A world in which runs wait for the event whose payload fits theirs.
fn waiting_runs(condition: &str, count: u32) -> (World, engine::WorkflowId) {
    let (mut world, _) = world(|_, _| gives(Value::Null));
    let waits = WaitFor { condition: Some(condition.to_owned()), ..waits_for_t() };
    let steps = vec![step("paid", Action::WaitFor(waits))];
    let id = publish_version(&mut world, with_topic("orders", steps));
    for order in 0..count {
        start(&mut world, id, json!({ "order": order }));
    }
    (world, id)
}

fn publish_orders(
    world: &mut World,
    id: engine::WorkflowId,
    orders: impl Iterator<Item = f64>,
) -> Result<engine::turn::Answer, engine::turn::Refused> {
    let topic = super::handlers::topic_id(world, id, "t");
    let payload = |order: f64| serde_json::value::to_raw_value(&json!({ "order": order })).unwrap();
    let message = |(n, order)| engine::topics::Message {
        message_id: format!("m{n}"),
        title: None,
        payload: payload(order),
        causes: Vec::new(),
    };
    let events = orders.enumerate().map(message).collect();
    world.command(Command::PublishEvents { topic, events })
}

#[test]
fn each_of_many_events_reaches_the_step_that_waits_for_it() {
    let (mut world, id) = waiting_runs("event.payload.order == input.order", 300);
    // Numbers are equal by value, and the order of the steps is not that of the events.
    publish_orders(&mut world, id, (0..600).rev().map(f64::from)).unwrap();
    all_ended_well(&world, id, 300);
    assert_eq!(events(&world, id, "t", EventState::Consumed).len(), 300);
    assert_eq!(events(&world, id, "t", EventState::Pending).len(), 300);
}

#[test]
fn steps_that_need_more_than_one_field_are_asked_too() {
    let condition = "run.triggered_by != 'x' and input.order == event.payload.order and \
                     event.message_id != 'm1'";
    let (mut world, id) = waiting_runs(condition, 3);
    publish_orders(&mut world, id, [0.0, 1.0, 2.0, 7.0].into_iter()).unwrap();
    let ended: Vec<bool> =
        runs_of(&world, id).map(|run| run.status == RunStatus::Succeeded).collect();
    assert_eq!(ended, [true, false, true], "m1 has the second one's order");
}

#[test]
fn too_many_events_for_conditions_that_are_tried_one_by_one_are_refused_whole() {
    let (mut world, id) = waiting_runs("event.payload.order > input.order + 5000", 30);
    let refused = publish_orders(&mut world, id, (0..1_000).map(f64::from)).unwrap_err();
    let said = refused.to_string();
    assert!(said.contains("30 steps wait") && said.contains("at most 666 events"), "{said}");
    assert!(events(&world, id, "t", EventState::Pending).is_empty(), "nothing is published");
    publish_orders(&mut world, id, (0..600).map(f64::from)).unwrap();
    assert_eq!(events(&world, id, "t", EventState::Pending).len(), 600);
}

#[test]
fn an_event_that_fits_nobody_writes_no_run() {
    let (mut world, id) = waiting_runs("event.payload.order == input.order", 50);
    world.written = 0;
    publish_orders(&mut world, id, std::iter::once(99.0)).unwrap();
    assert_eq!(world.written, 0);
}

#[test]
fn items_that_take_thousands_of_events_do_so_in_several_turns() {
    let (mut world, _) = world(|_, _| gives(Value::Null));
    let each = ForEach {
        items: json!((0..2_000).collect::<Vec<u32>>()),
        action: Box::new(Action::WaitFor(waits_for_t())),
        max_parallel: Some(1),
    };
    let steps = vec![step("each", Action::ForEach(each))];
    let id = publish_version(&mut world, with_topic("items", steps));
    publish_many(&mut world, id, "t", 2_000);
    world.turns = 0;
    let run = start(&mut world, id, Value::Null);
    world.advance_to("2026-03-02T09:01:00Z");
    assert_eq!(status(&world, run), RunStatus::Succeeded);
    assert!(world.turns >= 3, "{} turns", world.turns);
}
