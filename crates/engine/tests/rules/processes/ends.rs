//! How processes end that do not succeed.

use engine::run::RunStatus;
use engine::turn::Command;
use language::definition::{ForEach, OnError};
use serde_json::{Value, json};

use super::super::world::{World, at};
use super::*;

const BEGIN: &str = "2026-03-02T09:00:00Z";

fn booking(pay: Step) -> Vec<Step> {
    vec![
        noop("hotel").undone(),
        noop("car").undone(),
        noop("flight").after(&["hotel"]).undone(),
        pay.after(&["flight", "car"]),
        noop("thank").after(&["pay"]),
    ]
}

#[test]
fn what_was_done_is_undone_in_reverse_order_of_completion_past_errors() {
    let times = [("hotel", 10), ("car", 60), ("flight", 10), ("car/undo", 5), ("hotel/undo", 5)];
    let (mut world, order) = ending(World::new(BEGIN), &times, &["pay", "flight/undo"]);
    let workflow = publish(&mut world, definition("booking", booking(noop("pay"))));
    let run = start(&mut world, workflow, Value::Null);
    world.advance_to("2026-03-02T09:10:00Z");
    assert_eq!(status(&world, run), RunStatus::Failed);
    let order = order.borrow().clone();
    assert_eq!(
        order,
        ["hotel", "car", "flight", "pay", "car/undo", "flight/undo", "hotel/undo"],
        "the car was ready last"
    );
    let found = &world.memory.runs[&run];
    assert_eq!(found.error.clone().unwrap().step.as_deref(), Some("pay"));
    assert_eq!(found.ended_at, Some(at("2026-03-02T09:01:10Z")), "one after the other");
    assert_eq!(
        steps(&world, run),
        [
            "hotel undone",
            "hotel completed",
            "car undone",
            "car completed",
            "flight not undone: failed",
            "flight completed",
            "pay failed",
        ]
    );
    assert!(world.memory.runs[&run].state.active.is_empty());
}

#[test]
fn a_run_that_is_cancelled_or_too_slow_undoes_what_it_has_done() {
    for too_slow in [false, true] {
        let (mut world, order) = taking(World::new(BEGIN), &[("pay", 600)]);
        let timeout = too_slow.then(|| seconds(300));
        let definition = Definition { timeout, ..definition("booking", booking(noop("pay"))) };
        let workflow = publish(&mut world, definition);
        let run = start(&mut world, workflow, Value::Null);
        world.advance_to("2026-03-02T09:01:00Z");
        if !too_slow {
            let id = world.memory.runs[&run].id.clone();
            world.command(Command::CancelRun { id, reason: "changed my mind".to_owned() }).unwrap();
        }
        world.advance_to("2026-03-02T09:20:00Z");
        let end = if too_slow { RunStatus::TimedOut } else { RunStatus::Cancelled };
        assert_eq!(status(&world, run), end);
        assert!(
            order.borrow().ends_with(&["flight/undo", "car/undo", "hotel/undo"].map(str::to_owned)),
            "{order:?}"
        );
        assert_eq!(steps(&world, run).last().unwrap(), "pay cancelled");
    }
}

#[test]
fn a_failure_ends_what_goes_on_beside_it_and_what_was_done_all_the_same_is_undone() {
    let mut world = World::new(BEGIN);
    // The step ignores the request to end, and succeeds.
    world.deaf = vec!["slow".to_owned()];
    let (mut world, order) = ending(world, &[("slow", 5), ("bad", 1)], &["bad"]);
    let workflow = publish(
        &mut world,
        definition(
            "beside",
            vec![noop("slow").undone(), noop("bad"), noop("never").after(&["slow"])],
        ),
    );
    let run = start(&mut world, workflow, Value::Null);
    world.advance_to("2026-03-02T09:00:02Z");
    assert_eq!(status(&world, run), RunStatus::Running, "it is being ended");
    world.advance_to("2026-03-02T09:01:00Z");
    assert_eq!(status(&world, run), RunStatus::Failed);
    assert_eq!(*order.borrow(), ["slow", "bad", "slow/undo"]);
    assert_eq!(steps(&world, run), ["slow undone", "slow completed", "bad failed"]);
}

#[test]
fn whoever_does_not_answer_is_not_waited_for() {
    let mut world = World::new(BEGIN);
    world.deaf = vec!["slow".to_owned()];
    let (mut world, _) = ending(world, &[("slow", 3_600), ("bad", 1)], &["bad"]);
    let workflow = publish(&mut world, definition("beside", vec![noop("slow"), noop("bad")]));
    let run = start(&mut world, workflow, Value::Null);
    world.advance_to("2026-03-02T09:01:00Z");
    assert_eq!(status(&world, run), RunStatus::Failed);
    assert_eq!(world.memory.runs[&run].ended_at, Some(at("2026-03-02T09:00:16Z")));
    world.advance_to("2026-03-02T10:10:00Z");
    assert_eq!(steps(&world, run), ["slow cancelled", "bad failed"], "the late report is refused");
}

#[test]
fn a_step_may_fail_if_the_definition_says_so() {
    let (mut world, order) = ending(World::new(BEGIN), &[], &["a"]);
    let workflow = publish(
        &mut world,
        definition("lenient", vec![noop("a").on_error(OnError::SkipStep), noop("b").after(&["a"])]),
    );
    let run = start(&mut world, workflow, Value::Null);
    world.advance_to("2026-03-02T09:01:00Z");
    assert_eq!((status(&world, run), order.borrow().len()), (RunStatus::Succeeded, 2));
    assert_eq!(steps(&world, run), ["a skipped", "b completed"]);
    let record = &world.memory.records[&(run, 0, 0)];
    assert_eq!(record.error.clone().unwrap().message, "it broke");
}

#[test]
fn a_step_is_tried_again_while_the_others_go_on() {
    let mut world = World::new(BEGIN);
    let tries = std::rc::Rc::new(std::cell::RefCell::new(Vec::new()));
    let seen = tries.clone();
    world = world.working(move |perform: &Perform| {
        let id = perform.step().id.clone();
        seen.borrow_mut().push(format!("{id} {}", perform.attempt));
        let is_bad = id == "a" && perform.attempt < 3;
        (seconds(1), if is_bad { failure("not yet") } else { success() })
    });
    let mut a = noop("a");
    a.retry = StepRetry { max: 3, ..StepRetry::default() };
    let workflow =
        publish(&mut world, definition("retrying", vec![a, noop("b"), noop("c").after(&["b"])]));
    let run = start(&mut world, workflow, Value::Null);
    world.advance_to("2026-03-02T09:01:00Z");
    assert_eq!(*tries.borrow(), ["a 1", "b 1", "c 1", "a 2", "a 3"]);
    assert_eq!(world.memory.runs[&run].ended_at, Some(at("2026-03-02T09:00:18Z")), "1+5+1+10+1");
}

#[test]
fn a_failed_run_goes_on_where_it_failed_as_a_new_one() {
    let (mut world, order) = ending(World::new(BEGIN), &[], &["b"]);
    let steps_of = vec![noop("a"), noop("b").after(&["a"]), noop("c").after(&["b"])];
    let workflow = publish(&mut world, definition("again", steps_of));
    let run = start(&mut world, workflow, serde_json::json!({ "n": 1 }));
    world.advance_to("2026-03-02T09:01:00Z");
    assert_eq!(status(&world, run), RunStatus::Failed);
    let (id, before) = (world.memory.runs[&run].id.clone(), order.borrow().len());
    let (mut world, order) = {
        let (world, order) = taking(world, &[]);
        (world, order)
    };
    let new = world.new_run();
    world.command(Command::RetryRun { id: id.clone(), from_start: false, run: new }).unwrap();
    world.advance_to("2026-03-02T09:02:00Z");
    assert_eq!((before, order.borrow().clone()), (2, vec!["b".to_owned(), "c".to_owned()]));
    let again = world.memory.runs.values().last().unwrap();
    assert_eq!((again.status, again.retry_of.clone()), (RunStatus::Succeeded, Some(id)));
    assert_eq!(steps(&world, again.key), ["a completed", "b completed", "c completed"]);
    assert_eq!(again.input.get(), world.memory.runs[&run].input.get());
}

#[test]
fn an_attempt_that_must_not_be_repeated_waits_for_a_person_while_others_go_on() {
    use engine::run::Resolution;
    let (mut world, order) = taking(World::new(BEGIN), &[("pay", 600), ("note", 30)]);
    let mut pay = noop("pay");
    pay.idempotent = false;
    let workflow = publish(
        &mut world,
        definition("careful", vec![pay, noop("note"), noop("end").after(&["pay", "note"])]),
    );
    let run = start(&mut world, workflow, Value::Null);
    world.advance_to("2026-03-02T09:00:10Z");
    world.lose_node();
    assert_eq!(status(&world, run), RunStatus::Running, "note is done again");
    world.advance_to("2026-03-02T09:02:00Z");
    assert_eq!(status(&world, run), RunStatus::Suspended);
    let error = world.memory.runs[&run].error.clone().unwrap();
    assert_eq!((&*error.code, error.step.as_deref()), ("unknown_outcome", Some("pay")));
    let id = world.memory.runs[&run].id.clone();
    world
        .command(Command::ResolveRun { id, resolution: Resolution::Applied, by: "ada".to_owned() })
        .unwrap();
    world.advance_to("2026-03-02T09:03:00Z");
    assert_eq!(status(&world, run), RunStatus::Succeeded);
    assert_eq!(*order.borrow(), ["pay", "note", "note", "end"]);
}

#[test]
fn of_several_unknown_attempts_a_person_says_which_is_meant() {
    use engine::run::Resolution;
    let (mut world, order) = taking(World::new(BEGIN), &[("pay", 600), ("ship", 600)]);
    let (mut pay, mut ship) = (noop("pay"), noop("ship"));
    (pay.idempotent, ship.idempotent) = (false, false);
    let workflow = publish(&mut world, definition("careful", vec![pay, ship]));
    let run = start(&mut world, workflow, Value::Null);
    world.advance_to("2026-03-02T09:00:10Z");
    world.lose_node();
    let id = world.memory.runs[&run].id.clone();
    let resolution = Resolution::Applied;
    let refused = world
        .command(Command::ResolveRun { id: id.clone(), resolution, by: "ada".to_owned() })
        .unwrap_err();
    assert_eq!(refused.to_string(), "Say which step is meant: pay, ship.");
    let resolve = |step: &str, resolution| Command::ResolveStep {
        id: id.clone(),
        step: step.to_owned(),
        resolution,
        by: "ada".to_owned(),
    };
    let refused = world.command(resolve("nothing", resolution)).unwrap_err();
    assert_eq!(refused.to_string(), "Cannot resolve step 'nothing': it is not waiting for that.");
    world.command(resolve("ship", resolution)).unwrap();
    let error = world.memory.runs[&run].error.clone().unwrap();
    assert_eq!((status(&world, run), error.step.as_deref()), (RunStatus::Suspended, Some("pay")));
    world.command(resolve("pay", Resolution::DidNotHappen)).unwrap();
    world.advance_to("2026-03-02T09:20:00Z");
    assert_eq!(status(&world, run), RunStatus::Succeeded);
    assert_eq!(*order.borrow(), ["pay", "ship", "pay"]);
}

#[test]
fn an_unknown_item_that_is_skipped_lets_the_other_items_and_the_run_end() {
    use engine::run::Resolution;
    let (mut world, _) = taking(World::new(BEGIN), &[("each/1", 600), ("each/2", 600)]);
    let items = json!([1, 2, 3]);
    let (action, max_parallel) = (Box::new(Action::Noop), Some(2));
    let mut each = step("each", Action::ForEach(ForEach { items, action, max_parallel }));
    each.idempotent = false;
    let workflow =
        publish(&mut world, definition("careful", vec![each, noop("end").after(&["each"])]));
    let run = start(&mut world, workflow, Value::Null);
    world.advance_to("2026-03-02T09:00:10Z");
    world.lose_node();
    assert_eq!(status(&world, run), RunStatus::Suspended);
    let id = world.memory.runs[&run].id.clone();
    for _ in 0..2 {
        let resolve = Command::ResolveStep {
            id: id.clone(),
            step: "each".to_owned(),
            resolution: Resolution::Skip,
            by: "ada".to_owned(),
        };
        world.command(resolve).unwrap();
    }
    world.advance_to("2026-03-02T10:00:00Z");
    assert_eq!(status(&world, run), RunStatus::Succeeded);
}
