//! Runs that other runs start.

use engine::run::{RunStatus, TriggeredBy};
use engine::turn::Command;
use language::definition::SubProcess;
use serde_json::{Value, json};

use super::super::world::World;
use super::*;

const BEGIN: &str = "2026-03-02T09:00:00Z";

fn child(workflow: &str, waits: bool, output_key: Option<&str>) -> Step {
    let mapping = [("n".to_owned(), Value::from("{{ input.n + 1 }}"))];
    step(
        "call",
        Action::SubProcess(SubProcess {
            workflow: workflow.to_owned(),
            input_mapping: Some(mapping.into_iter().collect()),
            output_key: output_key.map(str::to_owned),
            wait_for_completion: waits,
        }),
    )
}

/// The workflow `parent` calls `child`, whose step takes a minute.
fn world(call: Step, failing: &[&'static str]) -> (World, RunKey) {
    let (mut world, _) = ending(World::new(BEGIN), &[("work", 60)], failing);
    publish(&mut world, definition("child", vec![noop("work")]));
    let workflow =
        publish(&mut world, definition("parent", vec![call, noop("b").after(&["call"])]));
    let run = start(&mut world, workflow, json!({ "n": 1 }));
    world.advance_to("2026-03-02T09:00:30Z");
    (world, run)
}

fn child_of(world: &World, run: RunKey) -> RunKey {
    let is_child = |found: &&engine::run::Run| found.parent.is_some_and(|p| p.run == run);
    world.memory.runs.values().find(is_child).expect("a child").key
}

#[test]
fn a_step_waits_for_the_run_it_has_started_and_takes_its_output() {
    let (mut world, run) = world(child("child", true, Some("result")), &[]);
    assert_eq!(status(&world, run), RunStatus::Waiting);
    let child = child_of(&world, run);
    let found = &world.memory.runs[&child];
    assert_eq!(
        (found.triggered_by, found.input.get()),
        (TriggeredBy::SubProcess, r#"{"payload":{"n":2}}"#)
    );
    world.advance_to("2026-03-02T09:02:00Z");
    assert_eq!(
        (status(&world, child), status(&world, run)),
        (RunStatus::Succeeded, RunStatus::Succeeded)
    );
    let output = world.memory.records[&(run, 0, 0)].output.clone().unwrap();
    assert_eq!(output.get(), r#"{"result":"work"}"#);
}

#[test]
fn a_child_is_not_started_if_the_run_ends_with_the_one_before_it() {
    let (mut world, _) = ending(World::new(BEGIN), &[], &[]);
    publish(&mut world, definition("child", vec![noop("work")]));
    let missing = Step { id: "missing".to_owned(), ..child("nowhere", true, None) };
    let parent = definition("parent", vec![missing, child("child", true, None)]);
    let workflow = publish(&mut world, parent);
    let run = start(&mut world, workflow, json!({ "n": 1 }));
    world.advance_to("2026-03-02T09:01:00Z");
    assert_eq!(status(&world, run), RunStatus::Failed);
    let error = world.memory.runs[&run].error.clone().unwrap();
    assert!(error.message.contains("there is no workflow nowhere"), "{}", error.message);
    assert_eq!(world.memory.runs.len(), 1, "nobody would wait for it");
}

#[test]
fn a_child_that_fails_fails_its_step() {
    let (mut world, run) = world(child("child", true, None), &["work"]);
    world.advance_to("2026-03-02T09:02:00Z");
    assert_eq!(status(&world, run), RunStatus::Failed);
    let error = world.memory.runs[&run].error.clone().unwrap();
    assert_eq!(error.message, "the run it started has failed: it broke");
}

#[test]
fn cancel_reaches_the_child() {
    let (mut world, run) = world(child("child", true, None), &[]);
    let id = world.memory.runs[&run].id.clone();
    world.command(Command::CancelRun { id, reason: "enough".to_owned() }).unwrap();
    world.advance_to("2026-03-02T09:00:31Z");
    let child = child_of(&world, run);
    assert_eq!(
        (status(&world, child), status(&world, run)),
        (RunStatus::Cancelled, RunStatus::Cancelled)
    );
}

#[test]
fn a_step_that_does_not_wait_goes_on_at_once() {
    let (mut world, run) = world(child("child", false, None), &[]);
    assert_eq!(status(&world, run), RunStatus::Succeeded);
    let child = child_of(&world, run);
    assert_eq!(status(&world, child), RunStatus::Running);
    let output = world.memory.records[&(run, 0, 0)].output.clone().unwrap();
    let id = &world.memory.runs[&child].id;
    assert_eq!(output.get(), format!(r#"{{"run_id":"{id}","started":"child"}}"#));
    world.advance_to("2026-03-02T09:02:00Z");
    assert_eq!(status(&world, child), RunStatus::Succeeded);
}

#[test]
fn what_is_not_there_cannot_be_started_whether_it_is_waited_for_or_not() {
    for waits in [true, false] {
        let (world, run) = world(child("nobody", waits, None), &[]);
        assert_eq!(status(&world, run), RunStatus::Failed, "waits: {waits}");
        let error = world.memory.runs[&run].error.clone().unwrap();
        assert_eq!(
            error.message, "the run could not be started: there is no workflow nobody",
            "waits: {waits}"
        );
        assert!(!world.memory.records.contains_key(&(run, 1, 0)), "what follows does not begin");
    }
}

#[test]
fn a_workflow_that_starts_itself_is_stopped() {
    let (mut world, _) = taking(World::new(BEGIN), &[]);
    let workflow = publish(&mut world, definition("parent", vec![child("parent", true, None)]));
    let run = start(&mut world, workflow, json!({ "n": 0 }));
    world.advance_to("2026-03-02T10:00:00Z");
    assert_eq!(status(&world, run), RunStatus::Failed);
    assert_eq!(world.memory.runs.len(), 9);
}
