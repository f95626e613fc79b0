//! Several events at one instant, and events that arrive while a run or step is already ending or
//! jumping.

use engine::run::{Claimant, RunStatus};
use engine::schedule::Status;
use engine::turn::Command;
use language::definition::{
    Channel, Deadline, DeadlineAction, DeadlineEnd, ForEach, From, HumanApproval, Limit, TimeSpan,
    When, WorkerAction,
};
use serde_json::{Value, json};

use super::super::world::World;
use super::*;

const BEGIN: &str = "2026-03-02T09:00:00Z";

fn within(time: i64, from: From, action: DeadlineAction) -> Option<Deadline> {
    let limit = Limit::Within(TimeSpan::Elapsed(seconds(time)));
    Some(Deadline { limit, calendar: None, from, pausable: false, actions: vec![action] })
}

fn ends(end: DeadlineEnd) -> DeadlineAction {
    let (when, end) = (When::Deadline, Some(end));
    DeadlineAction { when, notify: Vec::new(), start: None, end }
}

fn approval(id: &str) -> Step {
    let (title, description, assignees) = ("Go on?".to_owned(), None, Vec::new());
    step(id, Action::HumanApproval(HumanApproval { title, description, assignees }))
}

fn goto(id: &str) -> OnError {
    OnError::GotoStep(id.to_owned())
}

fn worker(id: &str, idempotent: bool) -> Step {
    let action = Action::Worker(WorkerAction { queue: "mail".to_owned(), input: None });
    Step { idempotent, timeout: Some(seconds(20)), ..step(id, action) }
}

fn claim(world: &mut World) -> usize {
    world.claimed.clear();
    let (worker, queues) = ("one".to_owned(), vec!["mail".to_owned()]);
    let lease = seconds(600);
    let claimant = Claimant::default();
    world.command(Command::ClaimAttempts { queues, limit: 10, worker, claimant, lease }).unwrap();
    world.claimed.len()
}

#[test]
fn two_steps_that_fail_at_one_instant_both_lead_on() {
    let (mut world, order) = taking(World::new(BEGIN), &[]);
    let mut steps = vec![
        approval("a").on_error(goto("x")),
        approval("b").on_error(goto("y")),
        noop("x"),
        noop("y"),
    ];
    for step in &mut steps[..2] {
        step.deadline = within(60, From::Enabled, ends(DeadlineEnd::Fail));
    }
    let workflow = publish(&mut world, definition("both", steps));
    let run = start(&mut world, workflow, Value::Null);
    world.advance_to("2026-03-02T09:02:00Z");
    assert_eq!(*order.borrow(), ["x", "y"]);
    assert_eq!(status(&world, run), RunStatus::Succeeded);
}

#[test]
fn people_are_asked_again_when_the_run_goes_back() {
    let (mut world, _) = ending(World::new(BEGIN), &[("check", 60)], &["check"]);
    let steps = vec![
        noop("a"),
        approval("ask").after(&["a"]),
        noop("check").after(&["a"]).on_error(goto("ask")),
    ];
    let workflow = publish(&mut world, definition("back", steps));
    let run = start(&mut world, workflow, Value::Null);
    world.advance_to("2026-03-02T09:00:30Z");
    assert!(world.memory.approvals.contains_key(&(run, 1)));
    world.advance_to("2026-03-02T09:02:00Z");
    assert_eq!(status(&world, run), RunStatus::Waiting);
    assert!(world.memory.approvals.contains_key(&(run, 1)), "what was withdrawn is asked anew");
}

#[test]
fn what_is_given_up_before_it_begins_is_not_performed() {
    let (mut world, order) = taking(World::new(BEGIN), &[]);
    let steps = vec![
        noop("a"),
        noop("b").after(&["a"]),
        noop("c").after(&["a"]).when("input.x > 1").on_error(goto("b")),
    ];
    let workflow = publish(&mut world, definition("at once", steps));
    let run = start(&mut world, workflow, json!({}));
    world.advance_to("2026-03-02T09:01:00Z");
    assert_eq!(*order.borrow(), ["a", "b"], "b begins once");
    assert_eq!(status(&world, run), RunStatus::Succeeded);
}

#[test]
fn a_deadline_counts_from_the_start_of_what_a_node_performs() {
    let (mut world, _) = taking(World::new(BEGIN), &[("slow", 300)]);
    let mut slow = noop("slow");
    slow.deadline = within(60, From::Started, ends(DeadlineEnd::Skip));
    let workflow = publish(&mut world, definition("late", vec![slow, noop("b").after(&["slow"])]));
    let run = start(&mut world, workflow, Value::Null);
    world.advance_to("2026-03-02T09:01:30Z");
    assert_eq!(steps(&world, run), ["slow skipped", "b completed"]);
    assert_eq!(world.memory.alerts.len(), 1);
}

#[test]
fn a_late_run_that_counts_as_done_undoes_nothing() {
    let (mut world, order) = taking(World::new(BEGIN), &[]);
    let steps = vec![noop("a").undone(), approval("ask").after(&["a"])];
    let deadline = within(60, From::Enabled, ends(DeadlineEnd::Complete));
    let workflow = publish(&mut world, Definition { deadline, ..definition("enough", steps) });
    let run = start(&mut world, workflow, Value::Null);
    world.advance_to("2026-03-02T09:02:00Z");
    assert_eq!(status(&world, run), RunStatus::Succeeded);
    assert_eq!(*order.borrow(), ["a"]);
}

#[test]
fn what_was_undone_is_done_again_when_the_run_is_tried_again() {
    let (mut world, _) = ending(World::new(BEGIN), &[], &["c"]);
    let flow = vec![noop("a").undone(), noop("b").after(&["a"]), noop("c").after(&["b"])];
    let workflow = publish(&mut world, definition("again", flow));
    let run = start(&mut world, workflow, Value::Null);
    world.advance_to("2026-03-02T09:01:00Z");
    assert_eq!(steps(&world, run), ["a undone", "a completed", "b completed", "c failed"]);
    let id = world.memory.runs[&run].id.clone();
    let (mut world, order) = taking(world, &[]);
    let new = world.new_run();
    world.command(Command::RetryRun { id, from_start: false, run: new }).unwrap();
    world.advance_to("2026-03-02T09:02:00Z");
    assert_eq!(*order.borrow(), ["a", "c"], "b was done, and is");
}

#[test]
fn a_worker_that_takes_too_long_over_what_must_not_be_repeated_leaves_it_to_a_person() {
    let (mut world, _) = taking(World::new(BEGIN), &[]);
    let mut send = worker("send", false);
    send.retry.max = 3;
    let workflow = publish(&mut world, definition("once", vec![send]));
    let run = start(&mut world, workflow, Value::Null);
    assert_eq!(claim(&mut world), 1);
    world.advance_to("2026-03-02T09:05:00Z");
    assert_eq!((claim(&mut world), status(&world, run)), (0, RunStatus::Suspended));
}

#[test]
fn a_cancelled_run_is_not_failed_by_a_worker_that_takes_too_long() {
    let (mut world, order) = taking(World::new(BEGIN), &[]);
    let send = worker("send", true).on_error(goto("other"));
    let workflow = publish(&mut world, definition("cancelled", vec![send, noop("other")]));
    let run = start(&mut world, workflow, Value::Null);
    claim(&mut world);
    world.advance_to("2026-03-02T09:00:15Z");
    let id = world.memory.runs[&run].id.clone();
    world.command(Command::CancelRun { id, reason: "enough".to_owned() }).unwrap();
    world.advance_to("2026-03-02T09:05:00Z");
    assert_eq!(status(&world, run), RunStatus::Cancelled);
    assert!(order.borrow().is_empty());
}

#[test]
fn a_run_whose_item_failed_is_tried_again_by_its_schedule() {
    let (mut world, _) = ending(World::new(BEGIN), &[], &["each/1"]);
    let (items, action) = (json!([1]), Box::new(Action::Noop));
    let each = step("each", Action::ForEach(ForEach { items, action, max_parallel: None }));
    let workflow = publish(&mut world, definition("items", vec![each]));
    let schedule = world
        .schedule(workflow, r#"{"name": "hourly", "interval_seconds": 3600, "max_retries": 3}"#);
    world.advance_to("2026-03-02T10:00:30Z");
    assert_eq!(world.get(schedule).status, Status::Active, "what may heal is tried again");
    assert_eq!(world.get(schedule).progress.error_count, 1);
}

#[test]
fn several_are_told_at_one_instant_by_one_workflow() {
    let (mut world, _) = taking(World::new(BEGIN), &[]);
    let mail = |who: &str| vec![Channel::Email(format!("{who}@example.com"))];
    let told = |who| {
        let (when, notify) = (When::Deadline, mail(who));
        DeadlineAction { when, notify, start: None, end: None }
    };
    let mut steps = vec![approval("a"), approval("b")];
    steps[0].deadline = within(60, From::Enabled, told("ann"));
    steps[1].deadline = within(60, From::Enabled, told("bob"));
    let workflow = publish(&mut world, definition("two", steps));
    start(&mut world, workflow, Value::Null);
    world.advance_to("2026-03-02T09:02:00Z");
    let notices = world.memory.workflows.values().filter(|w| w.name == engine::notices::NAME);
    assert_eq!(notices.count(), 1);
    let of: Vec<WorkflowId> = world.memory.runs.values().skip(1).map(|run| run.workflow).collect();
    assert_eq!(of.len(), 2);
    assert!(of.iter().all(|id| world.memory.workflows.contains_key(id)));
}

#[test]
fn what_is_due_before_its_deadline_when_a_step_begins_happens_with_its_beginning() {
    let (mut world, _) = taking(World::new(BEGIN), &[]);
    let early = When::Before(TimeSpan::Elapsed(seconds(600)));
    let mut ask = approval("ask");
    ask.deadline =
        within(60, From::Enabled, DeadlineAction { when: early, ..ends(DeadlineEnd::Skip) });
    let workflow = publish(&mut world, definition("early", vec![ask, noop("b").after(&["ask"])]));
    let run = start(&mut world, workflow, Value::Null);
    world.advance_to("2026-03-02T09:00:01Z");
    assert_eq!(steps(&world, run), ["ask skipped", "b completed"]);
    assert_eq!(world.memory.alerts.len(), 1);
    assert_eq!(world.memory.alerts[0].at.to_string(), BEGIN);
    assert!(world.memory.approvals.is_empty());
}
