//! Which steps run, and when.

use engine::run::RunStatus;
use language::definition::{Action, Definition, Gateway, GatewayKind, OnError, Route};
use serde_json::{Value, json};

use super::super::world::{World, at};
use super::*;

const BEGIN: &str = "2026-03-02T09:00:00Z";

#[test]
fn a_step_begins_the_moment_its_own_dependencies_have_ended() {
    let (mut world, order) = taking(World::new(BEGIN), &[("b", 60), ("c", 300)]);
    let steps = vec![
        noop("a"),
        noop("b").after(&["a"]),
        noop("c").after(&["a"]),
        noop("e").after(&["b"]),
        noop("d").after(&["b", "c"]),
    ];
    let workflow = publish(&mut world, definition("diamond", steps));
    let run = start(&mut world, workflow, Value::Null);
    world.advance_to("2026-03-02T09:01:00Z");
    assert_eq!(*order.borrow(), ["a", "b", "c", "e"], "e waits for b alone");
    assert_eq!(status(&world, run), RunStatus::Running);
    world.advance_to("2026-03-02T09:10:00Z");
    assert_eq!(order.borrow().last().unwrap(), "d");
    assert_eq!(status(&world, run), RunStatus::Succeeded);
    let ended = world.memory.runs[&run].ended_at.unwrap();
    assert_eq!(ended, "2026-03-02T09:05:00Z".parse().unwrap());
}

#[test]
fn records_do_not_go_back_when_transactions_overlap() {
    // Sets the clock back, like a transaction that read the clock before another one and is decided
    // after it.
    let before =
        |world: &mut World, by: SignedDuration| world.now = world.now.checked_sub(by).unwrap();
    let (mut world, _) = taking(World::new(BEGIN), &[("a", 60)]);
    let workflow = publish(&mut world, definition("short", vec![noop("a")]));
    world.capacity = 0;
    let run = start(&mut world, workflow, Value::Null);
    world.capacity = 1;
    before(&mut world, SignedDuration::from_millis(3));
    // Any command lets a run begin that waits for a free slot.
    publish(&mut world, definition("other", vec![noop("a")]));
    let found = &world.memory.runs[&run];
    assert_eq!((found.created_at, found.started_at), (at(BEGIN), Some(at(BEGIN))));
    let id = found.id.clone();
    before(&mut world, SignedDuration::from_millis(5));
    world.command(Command::CancelRun { id, reason: "enough".to_owned() }).unwrap();
    world.advance_to(BEGIN);
    let (found, record) = (&world.memory.runs[&run], &world.memory.records[&(run, 0, 0)]);
    assert_eq!((record.started_at, record.ended_at), (at(BEGIN), at(BEGIN)));
    assert_eq!((found.status, found.ended_at), (RunStatus::Cancelled, Some(at(BEGIN))));
}

#[test]
fn a_clock_that_was_set_back_is_believed() {
    let (mut world, _) = taking(World::new(BEGIN), &[("a", 60)]);
    let workflow = publish(&mut world, definition("short", vec![noop("a")]));
    world.capacity = 0;
    let run = start(&mut world, workflow, Value::Null);
    (world.capacity, world.now) = (1, at("2026-03-02T08:00:00Z"));
    publish(&mut world, definition("other", vec![noop("a")]));
    assert_eq!(world.memory.runs[&run].started_at, Some(at("2026-03-02T08:00:00Z")));
}

#[test]
fn no_more_steps_at_a_time_than_the_definition_says() {
    let (mut world, order) = taking(World::new(BEGIN), &[("a", 10), ("b", 10), ("c", 10)]);
    let steps = vec![noop("a"), noop("b"), noop("c")];
    let definition = Definition { max_concurrent_steps: Some(2), ..definition("narrow", steps) };
    let workflow = publish(&mut world, definition);
    let run = start(&mut world, workflow, Value::Null);
    world.advance_to("2026-03-02T09:00:09Z");
    assert_eq!(*order.borrow(), ["a", "b"]);
    world.advance_to("2026-03-02T09:00:15Z");
    assert_eq!(*order.borrow(), ["a", "b", "c"]);
    world.advance_to("2026-03-02T09:01:00Z");
    assert_eq!(status(&world, run), RunStatus::Succeeded);
}

#[test]
fn steps_wait_for_places_and_take_them_as_they_come() {
    let (mut world, order) = taking(World::new(BEGIN), &[("a", 10), ("b", 20), ("c", 10)]);
    world.capacity = 2;
    let workflow = publish(&mut world, definition("wide", vec![noop("a"), noop("b"), noop("c")]));
    let run = start(&mut world, workflow, Value::Null);
    world.advance_to("2026-03-02T09:00:05Z");
    assert_eq!(*order.borrow(), ["a", "b"]);
    assert!(world.memory.runs[&run].is_ready(), "c lacks a place");
    world.advance_to("2026-03-02T09:00:20Z");
    assert_eq!(status(&world, run), RunStatus::Succeeded);
    assert_eq!(world.memory.runs[&run].ended_at.unwrap(), "2026-03-02T09:00:20Z".parse().unwrap());
}

#[test]
fn a_step_whose_condition_does_not_hold_is_skipped_and_says_why() {
    let (mut world, order) = taking(World::new(BEGIN), &[]);
    let steps = vec![noop("a").when("input.amount > 100"), noop("b").after(&["a"])];
    let workflow = publish(&mut world, definition("conditional", steps));
    let run = start(&mut world, workflow, json!({"amount": 7}));
    world.advance_to("2026-03-02T09:01:00Z");
    assert_eq!(*order.borrow(), ["b"], "what depends on a skipped step runs");
    let why = world.memory.records[&(run, 0, 0)].reason.clone().unwrap();
    assert_eq!(why, "its condition does not hold: input.amount > 100");
    start(&mut world, workflow, json!({"amount": 700}));
    assert_eq!(*order.borrow(), ["b", "a"]);
}

#[test]
fn a_condition_that_cannot_be_told_fails_its_step() {
    let (mut world, order) = taking(World::new(BEGIN), &[]);
    let workflow = publish(&mut world, definition("odd", vec![noop("a").when("input.amount > 1")]));
    let run = start(&mut world, workflow, json!({}));
    world.advance_to("2026-03-02T09:01:00Z");
    assert_eq!(status(&world, run), RunStatus::Failed);
    let error = world.memory.runs[&run].error.clone().unwrap();
    assert_eq!((&*error.code, error.step.as_deref()), ("expression", Some("a")));
    assert!(order.borrow().is_empty());
}

fn gateway(kind: GatewayKind, routes: &[(&str, &str)], default: Option<&str>) -> Action {
    let routes = routes.iter().map(|(condition, target)| Route {
        condition: (!condition.is_empty()).then(|| (*condition).to_owned()),
        target: (*target).to_owned(),
    });
    let default_route = default.map(str::to_owned);
    Action::Gateway(Gateway { kind, routes: routes.collect(), default_route })
}

/// A gateway to `cheap` or `dear`, each with a step behind it; both lead to `end`.
fn priced(kind: GatewayKind, default: Option<&str>) -> Definition {
    let routes = [("input.price < 10", "cheap"), ("input.price < 100", "dear")];
    definition(
        "priced",
        vec![
            step("choose", gateway(kind, &routes, default)),
            noop("cheap"),
            noop("cheap-too").after(&["cheap"]),
            noop("dear"),
            noop("other").after(&[]),
            noop("end").after(&["cheap-too", "dear"]),
        ],
    )
}

fn ran(kind: GatewayKind, default: Option<&str>, price: i64) -> (RunStatus, Vec<String>) {
    let (mut world, order) = taking(World::new(BEGIN), &[]);
    let workflow = publish(&mut world, priced(kind, default));
    let run = start(&mut world, workflow, json!({ "price": price }));
    world.advance_to("2026-03-02T09:01:00Z");
    let order = order.borrow().clone();
    (status(&world, run), order)
}

#[test]
fn an_exclusive_gateway_takes_the_first_route_that_holds() {
    let (end, order) = ran(GatewayKind::Exclusive, None, 5);
    assert_eq!(
        (end, order),
        (RunStatus::Succeeded, ["other", "cheap", "cheap-too", "end"].map(str::to_owned).to_vec())
    );
    let (_, order) = ran(GatewayKind::Exclusive, None, 50);
    assert_eq!(order, ["other", "dear", "end"], "nothing behind the route not taken runs");
    let (end, order) = ran(GatewayKind::Exclusive, Some("dear"), 500);
    assert_eq!((end, order.contains(&"dear".to_owned())), (RunStatus::Succeeded, true));
    let (end, _) = ran(GatewayKind::Exclusive, None, 500);
    assert_eq!(end, RunStatus::Failed, "no route and no default");
}

#[test]
fn an_inclusive_gateway_takes_all_that_hold_and_a_parallel_one_all() {
    let (_, order) = ran(GatewayKind::Inclusive, None, 5);
    assert_eq!(order, ["other", "cheap", "dear", "cheap-too", "end"]);
    let (_, order) = ran(GatewayKind::Parallel, None, 5_000);
    assert_eq!(order, ["other", "cheap", "dear", "cheap-too", "end"]);
}

#[test]
fn a_step_behind_two_ways_runs_if_one_of_them_leads_to_it() {
    for (flag, expected) in [(true, vec!["detour", "end"]), (false, vec!["end"])] {
        let (mut world, order) = taking(World::new(BEGIN), &[]);
        let routes = [("input.flag", "detour")];
        let workflow = publish(
            &mut world,
            definition(
                "merge",
                vec![
                    step("choose", gateway(GatewayKind::Exclusive, &routes, Some("end"))),
                    noop("detour"),
                    noop("end").after(&["detour"]),
                ],
            ),
        );
        let run = start(&mut world, workflow, json!({ "flag": flag }));
        world.advance_to("2026-03-02T09:01:00Z");
        assert_eq!(*order.borrow(), expected);
        assert_eq!(status(&world, run), RunStatus::Succeeded);
    }
}

#[test]
fn after_an_error_the_run_goes_on_with_its_handler() {
    let steps = |failing: &[&'static str]| {
        let (mut world, order) = ending(World::new(BEGIN), &[], failing);
        let workflow = publish(
            &mut world,
            definition(
                "handled",
                vec![
                    noop("pay").on_error(OnError::GotoStep("apologise".to_owned())),
                    noop("ship").after(&["pay"]),
                    noop("apologise"),
                ],
            ),
        );
        let run = start(&mut world, workflow, Value::Null);
        world.advance_to("2026-03-02T09:01:00Z");
        let order = order.borrow().clone();
        (status(&world, run), order, super::steps(&world, run))
    };
    let (end, order, records) = steps(&["pay"]);
    assert_eq!(
        (end, order),
        (RunStatus::Succeeded, vec!["pay".to_owned(), "apologise".to_owned()])
    );
    assert_eq!(records, ["pay failed", "ship skipped", "apologise completed"]);
    let (end, order, records) = steps(&[]);
    assert_eq!((end, order), (RunStatus::Succeeded, vec!["pay".to_owned(), "ship".to_owned()]));
    assert_eq!(records, ["pay completed", "ship completed", "apologise skipped"]);
}

#[test]
fn going_back_does_everything_behind_it_again_but_not_for_ever() {
    let mut world = World::new(BEGIN);
    let tries = std::rc::Rc::new(std::cell::RefCell::new(0));
    let seen = tries.clone();
    world = world.working(move |perform: &Perform| {
        let is_check = perform.step().id == "check";
        *seen.borrow_mut() += i32::from(is_check);
        let is_bad = is_check && *seen.borrow() < 4;
        (seconds(1), if is_bad { failure("not yet") } else { success() })
    });
    let steps = vec![
        noop("ask"),
        noop("check").after(&["ask"]).on_error(OnError::GotoStep("ask".to_owned())),
        noop("done").after(&["check"]),
    ];
    let workflow = publish(&mut world, definition("polling", steps.clone()));
    let run = start(&mut world, workflow, Value::Null);
    world.advance_to("2026-03-02T09:01:00Z");
    assert_eq!((status(&world, run), *tries.borrow()), (RunStatus::Succeeded, 4));

    let (mut world, order) = ending(World::new(BEGIN), &[], &["check"]);
    let workflow = publish(&mut world, definition("polling", steps));
    let run = start(&mut world, workflow, Value::Null);
    world.advance_to("2026-03-02T09:01:00Z");
    assert_eq!(status(&world, run), RunStatus::Failed);
    assert_eq!(world.memory.runs[&run].error.clone().unwrap().code, "too_many_jumps");
    assert_eq!(order.borrow().len(), 202);
}

#[test]
fn a_run_gives_what_its_definition_says() {
    let (mut world, _) = taking(World::new(BEGIN), &[]);
    let outputs = serde_json::from_value(json!([
        { "name": "who", "source": "{{ input.who }}" },
        { "name": "twice", "source": { "n": "{{ input.n * 2 }}" } },
    ]));
    let definition =
        Definition { outputs: outputs.unwrap(), ..definition("gives", vec![noop("a")]) };
    let workflow = publish(&mut world, definition);
    let run = start(&mut world, workflow, json!({ "who": "Ada", "n": 21 }));
    world.advance_to("2026-03-02T09:01:00Z");
    assert_eq!(output_of(&world, run), json!({ "who": "Ada", "twice": { "n": 42 } }));
}

#[test]
fn no_payload_is_an_empty_object_where_one_is_expected() {
    for (kind, expected) in [
        (json!({ "type": ["object"] }), json!({})),
        (json!({ "type": ["object", "null"] }), Value::Null),
        (json!({}), Value::Null),
    ] {
        let (mut world, _) = taking(World::new(BEGIN), &[]);
        let outputs = serde_json::from_value(json!([{ "name": "all", "source": "{{ input }}" }]));
        let definition = Definition {
            input: Some(serde_json::from_value(kind.clone()).unwrap()),
            outputs: outputs.unwrap(),
            ..definition("gives", vec![noop("a")])
        };
        let workflow = publish(&mut world, definition);
        let run = start(&mut world, workflow, Value::Null);
        world.advance_to("2026-03-02T09:01:00Z");
        assert_eq!(output_of(&world, run), json!({ "all": expected }), "{kind}");
    }
}
