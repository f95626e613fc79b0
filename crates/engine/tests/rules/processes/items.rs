//! Steps with `for_each`.

use engine::run::RunStatus;
use language::definition::{ForEach, Notification};
use serde_json::{Value, json};

use super::super::world::{World, at};
use super::*;

const BEGIN: &str = "2026-03-02T09:00:00Z";

fn each(items: Value, max_parallel: Option<u32>) -> Step {
    step("each", Action::ForEach(ForEach { items, action: Box::new(Action::Noop), max_parallel }))
}

fn over_items(
    list: Value,
    max_parallel: Option<u32>,
    failing: &[&'static str],
) -> (World, RunKey, Vec<String>) {
    let times = [("each/1", 30), ("each/2", 10), ("each/3", 10)];
    let (mut world, order) = ending(World::new(BEGIN), &times, failing);
    let items = Value::from("{{ input.list }}");
    let steps = vec![each(items, max_parallel), noop("b").after(&["each"])];
    let workflow = publish(&mut world, definition("items", steps));
    let run = start(&mut world, workflow, json!({ "list": list }));
    world.advance_to("2026-03-02T09:10:00Z");
    let order = order.borrow().clone();
    (world, run, order)
}

fn step_output(world: &World, run: RunKey) -> Value {
    let output = world.memory.records[&(run, 0, 0)].output.clone().unwrap();
    serde_json::from_str(output.get()).unwrap()
}

#[test]
fn items_run_side_by_side_and_their_outputs_are_in_order() {
    let (world, run, order) = over_items(json!(["x", "y", "z"]), None, &[]);
    assert_eq!(status(&world, run), RunStatus::Succeeded);
    assert_eq!(order, ["each/1", "each/2", "each/3", "b"]);
    assert_eq!(step_output(&world, run), json!(["each/1", "each/2", "each/3"]));
    assert_eq!(world.memory.records[&(run, 1, 0)].ended_at, at("2026-03-02T09:00:30Z"));
}

#[test]
fn no_more_at_a_time_than_it_says() {
    let (world, run, order) = over_items(json!([1, 2, 3]), Some(1), &[]);
    assert_eq!(order, ["each/1", "each/2", "each/3", "b"]);
    assert_eq!(world.memory.records[&(run, 1, 0)].ended_at, at("2026-03-02T09:00:50Z"));
    let (world, run, _) = over_items(json!([1, 2, 3]), Some(2), &[]);
    assert_eq!(world.memory.records[&(run, 1, 0)].ended_at, at("2026-03-02T09:00:30Z"));
}

#[test]
fn an_empty_list_is_done_at_once_and_what_is_no_list_fails() {
    let (world, run, order) = over_items(json!([]), None, &[]);
    assert_eq!((status(&world, run), order), (RunStatus::Succeeded, vec!["b".to_owned()]));
    assert_eq!(step_output(&world, run), json!([]));
    let (world, run, _) = over_items(json!("abc"), None, &[]);
    assert_eq!(world.memory.runs[&run].error.clone().unwrap().message, "items is not a list");
    let (world, run, _) = over_items(json!(vec![0; 10_001]), None, &[]);
    let error = world.memory.runs[&run].error.clone().unwrap();
    assert_eq!(error.message, "the list has 10001 items, at most 10000 are done");
}

#[test]
fn an_item_that_fails_for_good_fails_the_step_and_the_others_are_given_up() {
    let (world, run, order) = over_items(json!([1, 2, 3]), Some(2), &["each/2"]);
    assert_eq!(status(&world, run), RunStatus::Failed);
    assert_eq!(order, ["each/1", "each/2"], "the third does not begin");
    assert_eq!(steps(&world, run), ["each failed", "each[1] cancelled", "each[2] failed"],);
}

#[test]
fn a_long_list_goes_on_a_hundred_at_a_time() {
    let (mut world, order) = taking(World::new(BEGIN), &[("each/1", 60)]);
    let list: Vec<u32> = (0..250).collect();
    let workflow = publish(&mut world, definition("long", vec![each(json!(list), None)]));
    let run = start(&mut world, workflow, Value::Null);
    assert_eq!(world.memory.runs[&run].state.active.len(), 101, "the step and its items");
    world.advance_to("2026-03-02T09:02:00Z");
    assert_eq!((status(&world, run), order.borrow().len()), (RunStatus::Succeeded, 250));
}

#[test]
fn each_item_of_a_long_list_gets_its_own() {
    let asked = std::rc::Rc::new(std::cell::RefCell::new(Vec::new()));
    let seen = asked.clone();
    let mut world = World::new(BEGIN).working(move |perform| {
        let scope = perform.scope.as_ref().unwrap().as_ref().unwrap();
        let Ok(Action::Notification(told)) = perform.action().filled(scope) else {
            panic!("{scope:?}");
        };
        seen.borrow_mut().push(told.message);
        (jiff::SignedDuration::from_secs(1), output(&Value::Null))
    });
    let message = "{{ item.id }} of {{ input.list | length }}".to_owned();
    let told = Notification { to: Vec::new(), subject: None, message, data: None };
    let items = Value::from("{{ input.list }}");
    let action = Box::new(Action::Notification(told));
    let each = step("each", Action::ForEach(ForEach { items, action, max_parallel: None }));
    let workflow = publish(&mut world, definition("long", vec![each]));
    let list: Vec<Value> = (0..2_000).map(|id| json!({ "id": id })).collect();
    let run = start(&mut world, workflow, json!({ "list": list }));
    world.advance_to("2026-03-02T09:10:00Z");
    assert_eq!(status(&world, run), RunStatus::Succeeded);
    let expected: Vec<String> = (0..2_000).map(|id| format!("{id} of 2000")).collect();
    assert_eq!(*asked.borrow(), expected);
}
