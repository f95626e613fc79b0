//! Deadlines in working time, and their actions.

use engine::run::{RunStatus, TriggeredBy};
use engine::turn::Command;
use language::definition::{
    Channel, Deadline, DeadlineAction, DeadlineEnd, From, HumanApproval, Limit, TimeSpan, When,
};
use serde_json::{Value, json};

use super::super::world::{World, at};
use super::*;

fn approval(id: &str) -> Step {
    let (title, description, assignees) = ("Approve?".to_owned(), None, Vec::new());
    step(id, Action::HumanApproval(HumanApproval { title, description, assignees }))
}

fn action(when: When) -> DeadlineAction {
    DeadlineAction { when, notify: Vec::new(), start: None, end: None }
}

fn mail(who: &str) -> Vec<Channel> {
    vec![Channel::Email(format!("{who}@example.com"))]
}

fn two_working_days(actions: Vec<DeadlineAction>) -> Deadline {
    Deadline {
        limit: Limit::Within(TimeSpan::WorkingDays(2.0)),
        calendar: None,
        from: From::Enabled,
        pausable: false,
        actions,
    }
}

/// A review within 2 working days: alerts at one working day remaining and at 80 %, the manager at
/// the deadline, the director two hours later, failure one day later.
fn invoice() -> Definition {
    let hours = |hours| TimeSpan::Elapsed(SignedDuration::from_hours(hours));
    let mut review = approval("review");
    review.deadline = Some(two_working_days(vec![
        DeadlineAction {
            notify: mail("approver"),
            ..action(When::Before(TimeSpan::WorkingDays(1.0)))
        },
        DeadlineAction { notify: mail("approver"), ..action(When::Share(80.0)) },
        DeadlineAction { notify: mail("manager"), ..action(When::Deadline) },
        DeadlineAction {
            start: Some("escalate-to-director".to_owned()),
            ..action(When::After(hours(2)))
        },
        DeadlineAction { end: Some(DeadlineEnd::Fail), ..action(When::After(hours(24))) },
    ]));
    Definition {
        timezone: Some("America/New_York".to_owned()),
        calendar: Some("US".to_owned()),
        ..definition("invoice", vec![review, noop("pay").after(&["review"])])
    }
}

fn invoice_from(begin: &str) -> (World, RunKey) {
    let (mut world, _) = taking(World::new(begin), &[]);
    publish(&mut world, definition("escalate-to-director", vec![noop("tell")]));
    let workflow = publish(&mut world, invoice());
    let run = start(&mut world, workflow, json!({ "invoice": 7 }));
    (world, run)
}

/// The index and the time of each action that happened, in order.
fn happened(world: &World) -> Vec<(u32, String)> {
    let alerts = world.memory.alerts.iter();
    alerts.map(|alert| (alert.alert.action, alert.at.to_string())).collect()
}

#[test]
fn the_invoice_over_a_long_weekend_with_a_holiday() {
    // Friday before Memorial Day, 15:00 in New York. Two working days end on Wednesday at 15:00.
    let (mut world, run) = invoice_from("2026-05-22T19:00:00Z");
    world.advance_to("2026-05-30T00:00:00Z");
    let expected = [
        (0, "2026-05-26T19:00:00Z"), // one working day before: Tuesday 15:00
        (1, "2026-05-27T15:48:00Z"), // 80 % of 16 hours: Wednesday 11:48
        (2, "2026-05-27T19:00:00Z"), // the deadline
        (3, "2026-05-27T21:00:00Z"), // two hours later
        (4, "2026-05-28T19:00:00Z"), // a day later
    ];
    assert_eq!(happened(&world), expected.map(|(place, at)| (place, at.to_owned())));
    let found = &world.memory.runs[&run];
    assert_eq!(
        (found.status, found.ended_at),
        (RunStatus::Failed, Some(at("2026-05-28T19:00:00Z")))
    );
    assert_eq!(found.error.clone().unwrap().code, "deadline");
    assert!(world.memory.approvals.is_empty(), "nobody is asked any more");
    let told = world.memory.runs.values().filter(|run| run.triggered_by == TriggeredBy::Deadline);
    let told: Vec<String> = told
        .map(|run| {
            let input: Value = serde_json::from_str(run.input.get()).unwrap();
            let to = input["payload"]["to"].as_str().unwrap_or("director").to_owned();
            format!("{} {to} {}", run.created_at, run.status.name())
        })
        .collect();
    assert_eq!(
        told,
        [
            "2026-05-26T19:00:00Z approver@example.com succeeded",
            "2026-05-27T15:48:00Z approver@example.com succeeded",
            "2026-05-27T19:00:00Z manager@example.com succeeded",
            "2026-05-27T21:00:00Z director succeeded",
        ]
    );
    let last = world.memory.runs.values().last().unwrap();
    let input: Value = serde_json::from_str(last.input.get()).unwrap();
    assert_eq!(input["payload"]["run"], found.id.to_string());
    assert_eq!(input["payload"]["input"]["payload"]["invoice"], 7);
}

#[test]
fn a_mail_about_a_deadline_has_a_link_to_the_run() {
    let mut world = World::new("2026-05-22T19:00:00Z");
    world.setup.public_url = Some("https://punctual.example.com".to_owned());
    let workflow = publish(&mut world, invoice());
    let run = start(&mut world, workflow, Value::Null);
    world.advance_to("2026-05-26T20:00:00Z");
    let mut told =
        world.memory.runs.values().filter(|run| run.triggered_by == TriggeredBy::Deadline);
    let input: Value = serde_json::from_str(told.next().unwrap().input.get()).unwrap();
    let link = format!("https://punctual.example.com/runs/{}", world.memory.runs[&run].id);
    let message = input["payload"]["message"].as_str().unwrap();
    assert!(message.ends_with(&format!(".\n\n{link}\n")), "{message}");
    assert_eq!(input["payload"]["about"]["link"], link);
}

#[test]
fn from_a_saturday_two_working_days_are_tuesday_evening() {
    let (mut world, run) = invoice_from("2026-02-28T19:00:00Z");
    assert_eq!(world.memory.runs[&run].state.watches[0].due, at("2026-03-03T22:00:00Z"));
    world.advance_to("2026-03-03T22:00:00Z");
    assert_eq!(happened(&world)[1], (1, "2026-03-03T18:48:00Z".to_owned()));
    let watch = &world.memory.runs[&run].state.watches[0];
    assert!(watch.overdue, "past the deadline");
    assert!(world.memory.runs[&run].overdue, "and so is its run");
}

#[test]
fn what_is_done_in_time_brings_nothing_about() {
    let (mut world, run) = invoice_from("2026-03-02T14:00:00Z");
    world.advance_to("2026-03-03T15:00:00Z");
    let before = happened(&world);
    let (id, step) = (world.memory.runs[&run].id.clone(), "review".to_owned());
    let by = "ada".to_owned();
    let (roles, comment) = (Vec::new(), None);
    let decide = Command::DecideApproval { id, step, approves: true, by, roles, comment };
    world.command(decide).unwrap();
    world.advance_to("2026-03-20T00:00:00Z");
    assert_eq!((happened(&world), before.len()), (before, 1));
    assert_eq!(status(&world, run), RunStatus::Succeeded);
    assert!(!world.memory.records[&(run, 0, 0)].overdue);
}

#[test]
fn each_happens_once_also_if_nobody_was_awake() {
    let (mut world, run) = invoice_from("2026-05-22T19:00:00Z");
    world.down_until("2026-06-10T00:00:00Z");
    assert_eq!(
        happened(&world).iter().map(|(place, _)| *place).collect::<Vec<_>>(),
        [0, 1, 2, 3, 4]
    );
    assert_eq!(status(&world, run), RunStatus::Failed);
    world.advance_to("2026-06-20T00:00:00Z");
    assert_eq!(happened(&world).len(), 5);
}

fn late_step(end: DeadlineEnd) -> (RunStatus, Vec<String>, bool) {
    let (mut world, _) = taking(World::new("2026-03-02T09:00:00Z"), &[("slow", 600)]);
    let mut slow = noop("slow");
    slow.deadline = Some(Deadline {
        limit: Limit::Within(TimeSpan::Elapsed(seconds(60))),
        calendar: None,
        from: From::Enabled,
        pausable: false,
        actions: vec![DeadlineAction { end: Some(end), ..action(When::Deadline) }],
    });
    let workflow = publish(&mut world, definition("late", vec![slow, noop("b").after(&["slow"])]));
    let run = start(&mut world, workflow, Value::Null);
    world.advance_to("2026-03-02T09:05:00Z");
    let record = &world.memory.records[&(run, 0, 0)];
    let overdue = record.overdue;
    assert_eq!(record.started_at, at("2026-03-02T09:00:00Z"), "when its attempt began");
    assert_eq!(record.ended_at, at("2026-03-02T09:01:00Z"));
    assert!(world.memory.runs[&run].overdue, "a run is late if one of its steps is");
    (status(&world, run), steps(&world, run), overdue)
}

#[test]
fn a_late_step_fails_is_skipped_counts_as_done_or_takes_the_run_along() {
    let (end, records, overdue) = late_step(DeadlineEnd::Fail);
    assert_eq!((end, records, overdue), (RunStatus::Failed, vec!["slow failed".to_owned()], true));
    let (end, records, _) = late_step(DeadlineEnd::Skip);
    assert_eq!(
        (end, &*records),
        (RunStatus::Succeeded, &["slow skipped".to_owned(), "b completed".to_owned()][..])
    );
    let (end, records, _) = late_step(DeadlineEnd::Complete);
    assert_eq!(
        (end, &*records),
        (RunStatus::Succeeded, &["slow completed".to_owned(), "b completed".to_owned()][..])
    );
    let (end, records, _) = late_step(DeadlineEnd::Cancel);
    assert_eq!((end, &*records), (RunStatus::Cancelled, &["slow cancelled".to_owned()][..]));
}

#[test]
fn a_run_has_a_deadline_of_its_own_which_counts_while_it_waits_for_a_place() {
    let (mut world, _) = taking(World::new("2026-03-02T09:00:00Z"), &[("slow", 600)]);
    world.capacity = 0;
    let deadline = Deadline {
        limit: Limit::At(9, 30),
        calendar: None,
        from: From::Enabled,
        pausable: false,
        actions: vec![action(When::Share(50.0)), action(When::Deadline)],
    };
    let definition =
        Definition { deadline: Some(deadline), ..definition("own", vec![noop("slow")]) };
    let workflow = publish(&mut world, definition);
    let run = start(&mut world, workflow, Value::Null);
    world.advance_to("2026-03-02T09:20:00Z");
    assert_eq!(happened(&world), [(0, "2026-03-02T09:15:00Z".to_owned())]);
    assert_eq!((status(&world, run), world.memory.runs[&run].overdue), (RunStatus::Pending, false));
    world.capacity = 10;
    world.advance_to("2026-03-02T09:40:00Z");
    assert!(world.memory.runs[&run].overdue);
    assert_eq!(happened(&world).len(), 2);
}

#[test]
fn a_pausable_clock_stands_while_a_person_is_waited_for() {
    use engine::run::Resolution;
    for (pausable, due) in [(true, "2026-03-04T22:00:00Z"), (false, "2026-03-03T22:00:00Z")] {
        let (mut world, _) = taking(World::new("2026-03-02T14:00:00Z"), &[("pay", 36_000)]);
        let mut pay = noop("pay");
        pay.idempotent = false;
        let deadline = two_working_days(vec![action(When::Deadline)]);
        let definition = Definition {
            timezone: Some("America/New_York".to_owned()),
            calendar: Some("US".to_owned()),
            deadline: Some(Deadline { pausable, ..deadline }),
            ..definition("held", vec![pay])
        };
        let workflow = publish(&mut world, definition);
        let run = start(&mut world, workflow, Value::Null);
        // The clock is stopped from Monday noon, three working hours after the beginning in New
        // York, until Tuesday noon. Thirteen hours are left.
        world.advance_to("2026-03-02T17:00:00Z");
        world.lose_node();
        assert_eq!(status(&world, run), RunStatus::Suspended);
        let is_held = world.memory.runs[&run].state.watches[0].held_since.is_some();
        assert_eq!(is_held, pausable);
        world.advance_to("2026-03-03T17:00:00Z");
        let id = world.memory.runs[&run].id.clone();
        let resolution = Resolution::DidNotHappen;
        world.command(Command::ResolveRun { id, resolution, by: "ada".to_owned() }).unwrap();
        assert_eq!(world.memory.runs[&run].state.watches[0].due, at(due), "{pausable}");
    }
}

#[test]
fn a_pausable_clock_stands_while_the_workflow_is_paused() {
    for (pausable, due) in [(true, "2026-03-04T22:00:00Z"), (false, "2026-03-03T22:00:00Z")] {
        let (mut world, _) = taking(World::new("2026-03-02T14:00:00Z"), &[("pay", 300_000)]);
        let deadline = two_working_days(vec![action(When::Deadline)]);
        let definition = Definition {
            timezone: Some("America/New_York".to_owned()),
            calendar: Some("US".to_owned()),
            deadline: Some(Deadline { pausable, ..deadline }),
            ..definition("held", vec![noop("pay")])
        };
        let id = publish(&mut world, definition);
        let run = start(&mut world, id, Value::Null);
        world.advance_to("2026-03-02T17:00:00Z");
        world.command(Command::PauseWorkflow { id, paused: true, reason: None }).unwrap();
        let is_held = world.memory.runs[&run].state.watches[0].held_since.is_some();
        assert_eq!(is_held, pausable);
        world.advance_to("2026-03-03T17:00:00Z");
        assert_eq!(status(&world, run), RunStatus::Running, "what has begun goes on");
        world.command(Command::PauseWorkflow { id, paused: false, reason: None }).unwrap();
        assert_eq!(world.memory.runs[&run].state.watches[0].due, at(due), "{pausable}");
    }
}

#[test]
fn nobody_else_tells_of_deadlines() {
    let mut world = World::new("2026-03-02T09:00:00Z");
    let definition = std::sync::Arc::new(definition(engine::notices::NAME, vec![noop("a")]));
    let command =
        Command::SaveWorkflow { source: String::new(), definition, publish: true, folder: None };
    let refused = world.command(command).unwrap_err();
    assert!(refused.to_string().contains("Choose another name"), "{refused}");
}
