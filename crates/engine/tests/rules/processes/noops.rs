//! Steps that do nothing, on a node that ends them in the turn that begins them.

use engine::run::RunStatus;
use language::definition::{Definition, ScriptAction};

use super::super::world::{World, at};
use super::*;

const BEGIN: &str = "2026-03-02T09:00:00Z";

fn world() -> World {
    let refuses = |perform: &Perform| panic!("{} was handed out", perform.step().id);
    let mut world = World::new(BEGIN).working(refuses);
    world.ends_noops = true;
    world
}

#[test]
fn a_run_that_does_nothing_ends_in_the_turn_that_begins_it() {
    let mut world = world();
    let steps = vec![noop("a"), noop("b").after(&["a"]), noop("c").when("1 > 2")];
    let workflow = publish(&mut world, definition("nothing", steps));
    let run = start(&mut world, workflow, Value::Null);
    assert_eq!(status(&world, run), RunStatus::Succeeded);
    assert_eq!(super::steps(&world, run), ["a completed", "b completed", "c skipped"]);
    assert_eq!(world.noops, [None, None], "nothing was due");
    let run = &world.memory.runs[&run];
    assert_eq!((run.started_at, run.ended_at), (Some(at(BEGIN)), Some(at(BEGIN))));
}

#[test]
fn an_occurrence_begins_with_its_first_attempt() {
    let mut world = world();
    let workflow = publish(&mut world, definition("nothing", vec![noop("a"), noop("b")]));
    let schedule = world.schedule(workflow, r#"{"name": "s", "interval": "1h"}"#);
    world.advance_to("2026-03-02T11:30:00Z");
    assert_eq!(world.ledger(schedule), ["10:00 started", "11:00 started"]);
    let due = |text| Some(at(text));
    let expected = [due("2026-03-02T10:00:00Z"), None, due("2026-03-02T11:00:00Z"), None];
    assert_eq!(world.noops, expected);
    assert_eq!(world.memory.schedules[&schedule].progress.run_count, 2);
}

#[test]
fn steps_that_do_something_are_handed_out_as_ever() {
    let mut world = world().working(|perform| {
        assert_eq!(perform.step().id, "call");
        (seconds(60), success())
    });
    let source = Some("return null".to_owned());
    let call = Action::Script(ScriptAction { source, entry: Vec::new() });
    let steps = vec![noop("a"), step("call", call).after(&["a"]), noop("b").after(&["call"])];
    let workflow = publish(&mut world, definition("mixed", steps));
    world.capacity = 1;
    let run = start(&mut world, workflow, Value::Null);
    assert_eq!(super::steps(&world, run), ["a completed"]);
    assert_eq!(status(&world, run), RunStatus::Running);
    // The only slot is taken, so another run does not begin, although it needs none.
    let other = publish(&mut world, definition("nothing", vec![noop("a")]));
    let other = start(&mut world, other, Value::Null);
    assert_eq!(status(&world, other), RunStatus::Pending);
    world.advance_to("2026-03-02T09:01:00Z");
    assert_eq!(status(&world, run), RunStatus::Succeeded);
    assert_eq!(status(&world, other), RunStatus::Succeeded);
}

#[test]
fn many_of_them_are_spread_over_several_turns() {
    let mut world = world();
    let steps = (0..9_000).map(|n| noop(&format!("s{n}"))).collect();
    let definition = Definition { max_concurrent_steps: Some(1), ..definition("long", steps) };
    let workflow = publish(&mut world, definition);
    let run = start(&mut world, workflow, Value::Null);
    world.advance_to(BEGIN);
    assert_eq!(status(&world, run), RunStatus::Succeeded);
    assert_eq!(world.noops.len(), 9_000);
    assert!(world.turns >= 2, "{} turns", world.turns);
}
