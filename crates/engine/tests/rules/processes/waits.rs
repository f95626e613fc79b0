//! Steps that wait for timers, people and workers.

use engine::run::{ActivityStatus, Claimant, RunStatus};
use engine::turn::{Answer, Command, Refused};
use language::definition::{HumanApproval, TimeSpan, Timer, WorkerAction};
use serde_json::{Value, json};

use super::super::world::{World, at};
use super::*;

const BEGIN: &str = "2026-03-02T09:00:00Z";

fn waited(timer: Timer, payload: Value, until: &str) -> (World, RunKey) {
    let mut world = World::new(BEGIN);
    let definition = Definition {
        timezone: Some("America/New_York".to_owned()),
        calendar: Some("US".to_owned()),
        ..definition(
            "waiting",
            vec![step("wait", Action::Timer(timer)), noop("b").after(&["wait"])],
        )
    };
    let workflow = publish(&mut world, definition);
    let run = start(&mut world, workflow, payload);
    world.advance_to(until);
    (world, run)
}

fn end_of(timer: Timer, payload: Value) -> String {
    let (world, run) = waited(timer, payload, "2026-04-01T00:00:00Z");
    assert_eq!(status(&world, run), RunStatus::Succeeded, "{:?}", world.memory.runs[&run].error);
    world.memory.runs[&run].ended_at.unwrap().to_string()
}

#[test]
fn a_timer_waits_as_long_as_it_says_and_holds_nothing_meanwhile() {
    let delay = Timer::Delay(TimeSpan::Elapsed(seconds(300)));
    let (world, run) = waited(delay.clone(), Value::Null, "2026-03-02T09:04:59Z");
    assert_eq!(status(&world, run), RunStatus::Waiting);
    assert_eq!(world.memory.runs[&run].wake_at(), Some(at("2026-03-02T09:05:00Z")));
    let (world, run) = waited(delay, Value::Null, "2026-03-02T09:05:00Z");
    assert_eq!(status(&world, run), RunStatus::Succeeded);
    let output = world.memory.records[&(run, 0, 0)].output.clone().unwrap();
    let output: Value = serde_json::from_str(output.get()).unwrap();
    assert_eq!(output, json!({ "waited_seconds": 300.0, "delay_formatted": "5m" }));
}

#[test]
fn a_timer_counts_working_time_and_knows_times_of_the_day() {
    // A Monday, four in the morning in New York. One hour after noon there, after the change to
    // daylight saving time, is 17:00 UTC.
    let hours = Timer::Delay(TimeSpan::Working(SignedDuration::from_hours(2)));
    assert_eq!(end_of(hours, Value::Null), "2026-03-02T16:00:00Z");
    let days = Timer::Delay(TimeSpan::WorkingDays(1.5));
    assert_eq!(end_of(days, Value::Null), "2026-03-03T18:00:00Z");
    let by = Timer::DelayBy("{{ input.wait }}".to_owned());
    assert_eq!(end_of(by.clone(), json!({ "wait": "90m" })), "2026-03-02T10:30:00Z");
    assert_eq!(end_of(by, json!({ "wait": "2 working hours" })), "2026-03-02T16:00:00Z");
    let until = Timer::Until("17:00".to_owned());
    assert_eq!(end_of(until, Value::Null), "2026-03-02T22:00:00Z");
    let until = Timer::Until("{{ input.at }}".to_owned());
    assert_eq!(
        end_of(until.clone(), json!({ "at": "2026-03-08T12:00:00" })),
        "2026-03-08T16:00:00Z"
    );
    assert_eq!(end_of(until, json!({ "at": "2020-01-01T00:00:00Z" })), BEGIN, "past already");
}

#[test]
fn a_timer_that_cannot_be_told_fails_with_a_remedy() {
    let until = Timer::Until("{{ input.at }}".to_owned());
    let (world, run) = waited(until, json!({ "at": "soon" }), "2026-03-02T10:00:00Z");
    let error = world.memory.runs[&run].error.clone().unwrap();
    assert_eq!(status(&world, run), RunStatus::Failed);
    assert!(error.message.contains("soon is no time; write 2026-03-01T09:00"), "{error:?}");
}

fn asked() -> (World, RunKey) {
    let (mut world, _) = taking(World::new(BEGIN), &[]);
    let approval = Action::HumanApproval(HumanApproval {
        title: "Pay {{ input.amount }}?".to_owned(),
        description: None,
        assignees: vec!["ada@example.com".to_owned()],
    });
    let steps = vec![step("ask", approval), noop("pay").after(&["ask"])];
    let workflow = publish(&mut world, definition("approval", steps));
    let run = start(&mut world, workflow, json!({ "amount": 12 }));
    (world, run)
}

fn decide(world: &mut World, run: RunKey, approves: bool, by: &str) -> Result<Answer, Refused> {
    let (id, step) = (world.memory.runs[&run].id.clone(), "ask".to_owned());
    let comment = Some("fine".to_owned());
    let (by, roles) = (by.to_owned(), Vec::new());
    world.command(Command::DecideApproval { id, step, approves, by, roles, comment })
}

#[test]
fn a_person_decides_once_and_only_who_is_asked() {
    let (mut world, run) = asked();
    assert_eq!(world.memory.approvals[&(run, 0)].title, "Pay 12?");
    let refused = decide(&mut world, run, true, "eve@example.com").unwrap_err();
    assert_eq!(
        refused.to_string(),
        "This is for ada@example.com to decide, not for eve@example.com."
    );
    decide(&mut world, run, true, "ada@example.com").unwrap();
    world.advance_to("2026-03-02T09:01:00Z");
    assert_eq!(status(&world, run), RunStatus::Succeeded);
    assert!(world.memory.approvals.is_empty());
    let output = world.memory.records[&(run, 0, 0)].output.clone().unwrap();
    let output: Value = serde_json::from_str(output.get()).unwrap();
    let decided =
        json!({ "decision": "approved", "decided_by": "ada@example.com", "comment": "fine" });
    assert_eq!(output, decided);
    let refused = decide(&mut world, run, false, "ada@example.com").unwrap_err();
    assert_eq!(refused.to_string(), "Cannot decide over step 'ask': it is not waiting for that.");
}

#[test]
fn a_rejection_fails_the_step_and_is_not_tried_again() {
    let (mut world, run) = asked();
    decide(&mut world, run, false, "ada@example.com").unwrap();
    world.advance_to("2026-03-02T09:01:00Z");
    assert_eq!(status(&world, run), RunStatus::Failed);
    let error = world.memory.runs[&run].error.clone().unwrap();
    assert_eq!((&*error.code, &*error.message), ("rejected", "rejected by ada@example.com: fine"));
}

#[test]
fn nobody_is_asked_any_more_when_the_run_ends() {
    let (mut world, run) = asked();
    let id = world.memory.runs[&run].id.clone();
    world.command(Command::CancelRun { id, reason: "enough".to_owned() }).unwrap();
    assert_eq!(status(&world, run), RunStatus::Cancelled);
    assert!(world.memory.approvals.is_empty());
    assert_eq!(steps(&world, run), ["ask cancelled"]);
}

fn queued(idempotent: bool) -> (World, RunKey) {
    let (mut world, _) = taking(World::new(BEGIN), &[]);
    let worker = Action::Worker(WorkerAction { queue: "mail".to_owned(), input: None });
    let mut work = step("send", worker);
    (work.retry.max, work.idempotent) = (2, idempotent);
    let workflow =
        publish(&mut world, definition("mailing", vec![work, noop("b").after(&["send"])]));
    let run = start(&mut world, workflow, Value::Null);
    (world, run)
}

fn ours() -> Claimant {
    Claimant { name: Some("ours".to_owned()), key: "key".to_owned() }
}

/// Claims a queued attempt and returns its token.
fn claim(world: &mut World, worker: &str) -> Option<u32> {
    world.claimed.clear();
    let (worker, queues) = (worker.to_owned(), vec!["mail".to_owned()]);
    let lease = seconds(30);
    let claimant = ours();
    world.command(Command::ClaimAttempts { queues, limit: 10, worker, claimant, lease }).unwrap();
    world.claimed.first().map(|claimed| claimed.token)
}

fn report(world: &mut World, run: RunKey, token: u32, end: AttemptEnd) -> Result<Answer, Refused> {
    let id = world.memory.runs[&run].id.clone();
    world.command(Command::EndAttempt { id, token, claimant: ours(), end })
}

fn beat(world: &mut World, run: RunKey, token: u32) -> Result<Answer, Refused> {
    let id = world.memory.runs[&run].id.clone();
    world.command(Command::Heartbeat { id, token, claimant: ours(), lease: seconds(30) })
}

#[test]
fn an_attempt_is_reported_on_by_whoever_has_claimed_it() {
    let (mut world, run) = queued(true);
    let token = claim(&mut world, "one").unwrap();
    let id = world.memory.runs[&run].id.clone();
    let other_name = Claimant { name: Some("other".to_owned()), ..ours() };
    let no_name = Claimant { name: None, ..ours() };
    let other_key = Claimant { key: "guessed".to_owned(), ..ours() };
    for (claimant, expected) in [
        (other_name, "with another token"),
        (no_name, "with another token"),
        (other_key, "too late, or its token is not the attempt's"),
    ] {
        let before = world.memory.runs[&run].state.clone();
        let (of, lease, end) = (id.clone(), seconds(600), success());
        let beat = Command::Heartbeat { id: of.clone(), token, claimant: claimant.clone(), lease };
        for command in [beat, Command::EndAttempt { id: of, token, claimant, end }] {
            let refused = world.command(command).unwrap_err().to_string();
            assert!(refused.contains(expected), "{refused}");
        }
        assert_eq!(world.memory.runs[&run].state, before, "nothing has changed");
    }
    report(&mut world, run, token, success()).unwrap();
}

#[test]
fn what_was_claimed_without_an_access_token_belongs_to_whoever_has_its_key() {
    let (mut world, run) = queued(true);
    let id = world.memory.runs[&run].id.clone();
    let claimant = Claimant { name: None, ..ours() };
    let (worker, queues, lease) = ("one".to_owned(), vec!["mail".to_owned()], seconds(30));
    world.command(Command::ClaimAttempts { queues, limit: 1, worker, claimant, lease }).unwrap();
    let (token, end) = (world.claimed[0].token, success());
    world.command(Command::EndAttempt { id, token, claimant: ours(), end }).unwrap();
}

#[test]
fn a_worker_takes_what_is_queued_and_reports() {
    let (mut world, run) = queued(true);
    assert_eq!(status(&world, run), RunStatus::Waiting);
    let token = claim(&mut world, "one").unwrap();
    assert_eq!(status(&world, run), RunStatus::Running);
    assert_eq!(claim(&mut world, "two"), None, "it is taken");
    report(&mut world, run, token, output(&json!({ "sent": 3 }))).unwrap();
    world.advance_to("2026-03-02T09:01:00Z");
    assert_eq!(status(&world, run), RunStatus::Succeeded);
    assert!(report(&mut world, run, token, success()).is_err(), "once");
}

#[test]
fn a_worker_that_dies_loses_its_lease_and_its_late_report_is_refused() {
    let (mut world, run) = queued(true);
    let first = claim(&mut world, "one").unwrap();
    world.advance_to("2026-03-02T09:00:20Z");
    let Answer::Lease { until, must_cancel } = beat(&mut world, run, first).unwrap() else {
        panic!("no lease");
    };
    assert_eq!((until, must_cancel), (at("2026-03-02T09:00:50Z"), false));
    world.advance_to("2026-03-02T09:00:49Z");
    assert_eq!(claim(&mut world, "two"), None);
    world.advance_to("2026-03-02T09:00:50Z");
    let second = claim(&mut world, "two").unwrap();
    assert_eq!(world.claimed[0].attempt, 1, "the lost attempt is no failure");
    let refused = report(&mut world, run, first, success()).unwrap_err();
    assert!(refused.to_string().contains("too late"), "{refused}");
    assert!(beat(&mut world, run, first).is_err());
    report(&mut world, run, second, success()).unwrap();
    assert_eq!(steps(&world, run)[0], "send completed");
}

#[test]
fn a_worker_that_dies_over_what_must_not_be_repeated_leaves_it_to_a_person() {
    let (mut world, run) = queued(false);
    claim(&mut world, "one").unwrap();
    world.advance_to("2026-03-02T09:01:00Z");
    assert_eq!(status(&world, run), RunStatus::Suspended);
    assert_eq!(claim(&mut world, "two"), None);
    let error = world.memory.runs[&run].error.clone().unwrap();
    assert!(error.message.contains("nothing is heard of the worker"), "{error:?}");
}

#[test]
fn a_worker_that_takes_too_long_has_failed_however_often_it_is_heard_of() {
    let (mut world, run) = queued(true);
    let token = claim(&mut world, "one").unwrap();
    for second in (0..300).step_by(20) {
        world.advance_to(&at(BEGIN).checked_add(seconds(second)).unwrap().to_string());
        beat(&mut world, run, token).unwrap();
    }
    world.advance_to("2026-03-02T09:05:00Z");
    assert!(beat(&mut world, run, token).is_err());
    let doing = &world.memory.runs[&run].state.active[0].status;
    assert_eq!(*doing, ActivityStatus::Retrying { at: at("2026-03-02T09:05:05Z") });
    assert_eq!(world.memory.records[&(run, 0, 0)].error.clone().unwrap().code, "timeout");
    world.advance_to("2026-03-02T09:05:05Z");
    assert!(claim(&mut world, "two").is_some());
}

#[test]
fn a_worker_hears_that_it_is_to_give_up() {
    let (mut world, run) = queued(true);
    let token = claim(&mut world, "one").unwrap();
    let id = world.memory.runs[&run].id.clone();
    world.command(Command::CancelRun { id, reason: "enough".to_owned() }).unwrap();
    let beaten = beat(&mut world, run, token).unwrap();
    assert!(matches!(beaten, Answer::Lease { must_cancel: true, .. }), "{beaten:?}");
    let end = AttemptEnd::Cancelled { message: "gave up".to_owned() };
    report(&mut world, run, token, end).unwrap();
    assert_eq!(status(&world, run), RunStatus::Cancelled);

    let (mut world, run) = queued(true);
    let id = world.memory.runs[&run].id.clone();
    world.command(Command::CancelRun { id, reason: "enough".to_owned() }).unwrap();
    assert_eq!((status(&world, run), world.memory.queue.len()), (RunStatus::Cancelled, 0));
}

#[test]
fn a_timer_that_is_noticed_late_says_how_long_it_waited() {
    let delay = Timer::Delay(TimeSpan::Elapsed(seconds(300)));
    let (mut world, run) = waited(delay, Value::Null, "2026-03-02T09:04:00Z");
    world.down_until("2026-03-02T10:30:00Z");
    let output = world.memory.records[&(run, 0, 0)].output.clone().unwrap();
    let output: Value = serde_json::from_str(output.get()).unwrap();
    assert_eq!(output, json!({ "waited_seconds": 5400.0, "delay_formatted": "1h30m" }));
}
