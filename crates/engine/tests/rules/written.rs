//! Definitions as others have written them, published unchanged, over virtual time.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use calendar::Zones;
use engine::run::{AttemptEnd, Claimant, RunStatus};
use engine::schedule::{Schedule, Status};
use engine::turn::{Answer, Command};
use engine::{RunId, WorkflowId};
use language::definition::{ReadContext, read};
use serde_json::value::RawValue;

use super::world::{World, at, failure, seconds, success};

const DAILY_REPORT: &str = r#"
name: daily-report
version: 1
description: Generate daily report

triggers:
  - id: morning-run
    type: schedule
    cron: "0 9 * * *"        # 9 AM daily
    timezone: America/New_York
    enabled: true
    description: "Generate report at 9 AM EST"

  - id: evening-backup
    type: schedule
    cron: "0 18 * * 1-5"     # 6 PM weekdays
    timezone: UTC
    enabled: true

steps:
  - id: generate
    type: agent_task
    agent: report-agent
    message: Generate the daily report
"#;

fn published(world: &mut World, text: &str) -> WorkflowId {
    let zones = Zones::bundled();
    let context = ReadContext { zones: &zones, now: world.now, known_calendar: &|_| None };
    let definition = Arc::new(read(text, &context).unwrap_or_else(|flaws| panic!("{flaws:?}")));
    let source = text.to_owned();
    match world
        .command(Command::SaveWorkflow { source, definition, publish: true, folder: None })
        .unwrap()
    {
        Answer::Workflow { id, .. } => id,
        other => panic!("{other:?}"),
    }
}

fn schedules(world: &World) -> BTreeMap<String, &Schedule> {
    let all = world.memory.schedules.values();
    all.filter_map(|schedule| Some((schedule.declared_by.as_ref()?.to_string(), schedule)))
        .collect()
}

fn next(world: &World, trigger: &str) -> String {
    schedules(world)[trigger].progress.next.map(|due| due.effective.to_string()).unwrap()
}

/// When the runs of this schedule were due.
fn due(world: &World, schedule: engine::ScheduleId) -> Vec<String> {
    let runs = world.memory.runs.values().filter(|run| run.schedule == Some(schedule));
    runs.map(|run| run.effective.unwrap().to_string()).collect()
}

/// Lets a worker perform everything that is queued.
fn work(world: &mut World, queue: &str) -> Vec<String> {
    let claim = Command::ClaimAttempts {
        queues: vec![queue.to_owned()],
        limit: 100,
        worker: "w".to_owned(),
        claimant: Claimant::default(),
        lease: seconds(60),
    };
    world.command(claim).unwrap();
    let mut done = Vec::new();
    for perform in std::mem::take(&mut world.claimed) {
        done.push(perform.step().id.clone());
        let (id, token): (RunId, u32) = (perform.run_id, perform.token);
        let end = AttemptEnd::Succeeded { output: RawValue::NULL.to_owned() };
        let claimant = Claimant::default();
        world.command(Command::EndAttempt { id, token, claimant, end }).unwrap();
    }
    done
}

#[test]
fn a_report_every_morning_and_a_backup_on_weekday_evenings() {
    // A Friday. The clocks in New York go forward on Sunday.
    let mut world = World::new("2026-03-06T12:00:00Z");
    published(&mut world, DAILY_REPORT);
    assert_eq!(world.memory.schedules.len(), 2, "publishing puts schedules in the store");
    assert_eq!(next(&world, "morning-run"), "2026-03-06T14:00:00Z");
    let (morning, evening) =
        (schedules(&world)["morning-run"].id, schedules(&world)["evening-backup"].id);
    for day in ["06", "07", "08", "09"] {
        world.advance_to(&format!("2026-03-{day}T23:00:00Z"));
        work(&mut world, "agent:report-agent");
    }
    assert_eq!(
        due(&world, morning),
        ["06T14", "07T14", "08T13", "09T13"].map(|day| format!("2026-03-{day}:00:00Z"))
    );
    assert_eq!(due(&world, evening), ["06", "09"].map(|day| format!("2026-03-{day}T18:00:00Z")));
    assert!(world.memory.runs.values().all(|run| run.status == RunStatus::Succeeded));
}

#[test]
fn a_second_version_does_not_leave_the_first_one_firing_and_archiving_ends_all() {
    let mut world = World::new("2026-03-06T12:00:00Z");
    let id = published(&mut world, DAILY_REPORT);
    world.advance_to("2026-03-06T23:00:00Z");
    work(&mut world, "agent:report-agent");
    let (morning, evening) =
        (schedules(&world)["morning-run"].id, schedules(&world)["evening-backup"].id);
    let second =
        DAILY_REPORT.replace("version: 1", "version: 2").replace("0 18 * * 1-5", "0 20 * * 1-5");
    assert_eq!(published(&mut world, &second), id);
    let now = schedules(&world);
    assert_eq!((now.len(), now["morning-run"].id), (2, morning));
    let kept = &now["morning-run"].progress;
    assert_eq!((kept.n, kept.run_count), (1, 1), "what has not changed keeps its counters");
    assert_eq!(
        next(&world, "evening-backup"),
        "2026-03-09T20:00:00Z",
        "what has, is computed again"
    );
    world.advance_to("2026-03-09T23:00:00Z");
    let evenings = due(&world, evening);
    assert_eq!(evenings, ["2026-03-06T18:00:00Z", "2026-03-09T20:00:00Z"]);
    let third = second.replace("version: 2", "version: 3");
    let cut = third.find("  - id: evening-backup").unwrap()..third.find("steps:").unwrap();
    published(&mut world, &format!("{}{}", &third[..cut.start], &third[cut.end..]));
    assert_eq!(schedules(&world).keys().collect::<Vec<_>>(), ["morning-run"]);
    world.command(Command::ArchiveWorkflow(id)).unwrap();
    assert!(world.memory.schedules.is_empty(), "archiving removes schedules");
    let runs = world.memory.runs.len();
    world.advance_to("2026-03-20T00:00:00Z");
    assert_eq!(world.memory.runs.len(), runs);
}

#[test]
fn a_timer_between_two_tasks_waits_five_minutes() {
    let text = "name: t\nsteps:\n  - id: start-task\n    type: agent_task\n    agent: task-agent\n    message: Start the task\n\n  - id: wait-5min\n    type: timer\n    delay: 5m\n    depends_on: [start-task]\n\n  - id: check-result\n    type: agent_task\n    agent: check-agent\n    message: Check if task completed\n    depends_on: [wait-5min]\n";
    let mut world = World::new("2026-03-02T09:00:00Z");
    let id = published(&mut world, text);
    let run = world.new_run();
    world.command(Command::StartWorkflow { id, run }).unwrap();
    world.advance_to("2026-03-02T09:00:30Z");
    assert_eq!(work(&mut world, "agent:task-agent"), ["start-task"]);
    world.advance_to("2026-03-02T09:05:29Z");
    assert!(work(&mut world, "agent:check-agent").is_empty());
    world.advance_to("2026-03-02T09:05:30Z");
    assert_eq!(work(&mut world, "agent:check-agent"), ["check-result"]);
    let run = world.memory.runs.values().next().unwrap();
    assert_eq!(run.status, RunStatus::Succeeded);
    let waited = &world.memory.records[&(run.key, 1, 0)];
    let waited = waited.output.as_ref().unwrap().get();
    assert_eq!(waited, r#"{"delay_formatted":"5m","waited_seconds":300.0}"#);
}

#[test]
fn presets_and_zones_mean_what_they_say() {
    for (preset, first) in [
        ("daily", "2026-03-03T00:00:00Z"),
        ("hourly", "2026-03-02T10:00:00Z"),
        ("weekly", "2026-03-08T00:00:00Z"),
        ("monthly", "2026-04-01T00:00:00Z"),
        ("every_5min", "2026-03-02T09:05:00Z"),
        ("every_15min", "2026-03-02T09:15:00Z"),
    ] {
        let mut world = World::new("2026-03-02T09:00:00Z");
        let text = format!(
            "name: t\nsteps: []\ntriggers:\n  - id: daily-check\n    type: schedule\n    cron: {preset}           # Uses preset\n    timezone: UTC\n"
        );
        published(&mut world, &text);
        assert_eq!(next(&world, "daily-check"), first, "{preset}");
    }
    let text = "name: t\nsteps: []\ntriggers:\n  - id: tokyo-morning\n    type: schedule\n    cron: \"0 9 * * *\"\n    timezone: Asia/Tokyo\n\n  - id: london-evening\n    type: schedule\n    cron: \"0 18 * * *\"\n    timezone: Europe/London\n";
    let mut world = World::new("2026-03-28T12:00:00Z");
    published(&mut world, text);
    assert_eq!(next(&world, "tokyo-morning"), "2026-03-29T00:00:00Z");
    assert_eq!(next(&world, "london-evening"), "2026-03-28T18:00:00Z");
    world.advance_to("2026-03-28T19:00:00Z");
    assert_eq!(next(&world, "london-evening"), "2026-03-29T17:00:00Z", "summer time has begun");
    assert!(world.now > at("2026-03-28T12:00:00Z"));
}

/// Each attempt takes this many seconds and then fails or succeeds. The cell counts them.
fn counting(takes: i64, fails: bool) -> (World, Rc<Cell<u32>>) {
    let attempts = Rc::new(Cell::new(0));
    let seen = attempts.clone();
    let world = World::new("2026-03-02T09:00:00Z").working(move |_| {
        seen.set(seen.get() + 1);
        (seconds(takes), if fails { failure("exit code 1") } else { success() })
    });
    (world, attempts)
}

fn hourly(more: &str, step: &str) -> String {
    format!(
        "name: t\ntriggers: [ {{ id: hourly, type: schedule, every: 1h{more} }} ]\n\
         steps: [ {{ id: only, {step} }} ]\n"
    )
}

#[test]
fn a_failing_command_of_a_trigger_runs_once_for_each_occurrence() {
    let (mut world, attempts) = counting(1, true);
    published(&mut world, &hourly("", "type: exec, command: [backup]"));
    world.advance_to("2026-03-02T12:30:00Z");
    let id = schedules(&world)["hourly"].id;
    let runs = ["n0-rc0 10:00 failed", "n1-rc0 11:00 failed", "n2-rc0 12:00 failed"];
    assert_eq!(world.runs(id), runs);
    assert_eq!(attempts.get(), 3);
    assert_eq!(world.get(id).status, Status::Active);
    assert_eq!(world.ledger(id), ["10:00 failed", "11:00 failed", "12:00 failed"]);
}

#[test]
fn a_trigger_may_say_that_it_is_tried_again_and_dies() {
    let (mut world, attempts) = counting(1, true);
    let more = ", max_retries: 1, on_exhausted: die, retry: { delay: 1m }";
    published(&mut world, &hourly(more, "type: exec, command: [backup]"));
    world.advance_to("2026-03-02T12:30:00Z");
    assert_eq!(schedules(&world)["hourly"].status, Status::Dead);
    assert_eq!(attempts.get(), 2);
}

#[test]
fn retries_of_steps_and_of_schedules_do_not_multiply_unless_both_are_written() {
    let get = "type: http, url: \"https://example.com\"";
    for (step, more, expected) in [
        // The three attempts of the step.
        (get, "", 3),
        // The four runs of the schedule.
        (get, ", max_retries: 3, retry: { delay: 1m }", 4),
        ("type: http, method: POST, url: \"https://example.com\"", "", 1),
        ("type: exec, command: [backup], idempotent: true", "", 3),
        // Both the step and the schedule declare retries.
        (
            "type: exec, command: [backup], retry: { max: 2 }",
            ", max_retries: 1, retry: { delay: 1m }",
            4,
        ),
    ] {
        let (mut world, attempts) = counting(1, true);
        published(&mut world, &hourly(more, step));
        world.advance_to("2026-03-02T10:59:00Z");
        assert_eq!(attempts.get(), expected, "{step} {more}");
    }
}

#[test]
fn a_trigger_has_no_limit_but_what_is_written() {
    for (more, timeout, shown, ends) in [
        ("", "", None, RunStatus::Succeeded),
        (", timeout_seconds: 600", "", Some(600), RunStatus::TimedOut),
        ("", "timeout: 1h\n", Some(3600), RunStatus::TimedOut),
        (", timeout_seconds: 10800", "timeout: 1h\n", Some(10800), RunStatus::Succeeded),
    ] {
        let (mut world, _) = counting(7_200, false);
        let text = hourly(more, "type: exec, command: [backup], timeout: 5h");
        published(&mut world, &format!("{timeout}{text}"));
        let written = schedules(&world)["hourly"].declared.to_written();
        assert_eq!(written["timeout_seconds"].as_u64(), shown, "{more} {timeout}");
        world.advance_to("2026-03-02T12:30:00Z");
        let first = world.memory.runs.values().next().unwrap();
        assert_eq!(first.status, ends, "{more} {timeout}");
    }
}

#[test]
fn waiting_does_not_count_towards_a_timeout() {
    let text = "name: t\ntimeout: 10m\nsteps:\n\
         \x20 - { id: first, type: exec, command: [a] }\n\
         \x20 - { id: wait, type: timer, delay: 1d, depends_on: first }\n\
         \x20 - { id: second, type: exec, command: [b], depends_on: wait }\n\
         \x20 - { id: outside, type: worker, queue: q, depends_on: second }\n";
    for (takes, works, expected) in [
        (240, 60, RunStatus::Succeeded),
        // Two steps of five and a half minutes take more than ten.
        (330, 60, RunStatus::TimedOut),
        // The worker's time counts from its claim.
        (240, 180, RunStatus::TimedOut),
    ] {
        let (mut world, _) = counting(takes, false);
        let id = published(&mut world, text);
        let run = world.new_run();
        world.command(Command::StartWorkflow { id, run }).unwrap();
        world.advance_to("2026-03-05T09:00:00Z");
        let claim = Command::ClaimAttempts {
            queues: vec!["q".to_owned()],
            limit: 1,
            worker: "w".to_owned(),
            claimant: Claimant::default(),
            lease: seconds(3_600),
        };
        world.command(claim).unwrap();
        if let Some(perform) = world.claimed.pop() {
            let end = world.now.checked_add(seconds(works)).unwrap();
            world.advance_to(&end.to_string());
            let end = AttemptEnd::Succeeded { output: RawValue::NULL.to_owned() };
            let (id, token) = (perform.run_id, perform.token);
            // The command is refused if the run has ended meanwhile.
            let claimant = Claimant::default();
            let _ = world.command(Command::EndAttempt { id, token, claimant, end });
            world.advance_to("2026-03-05T12:00:00Z");
        }
        let run = world.memory.runs.values().next().unwrap();
        assert_eq!(run.status, expected, "{takes} {works}");
    }
}

#[test]
fn nothing_begins_when_the_time_was_used_up_before_a_wait() {
    let text = "name: t\ntimeout: 10m\nsteps:\n\
         \x20 - { id: first, type: exec, command: [a], timeout: 1h }\n\
         \x20 - { id: wait, type: timer, delay: 1h, depends_on: first }\n";
    let second = "\x20 - { id: second, type: exec, command: [b], timeout: 1h, depends_on: wait }\n";
    for (takes, more, expected, attempts) in [
        // Exactly as long as the timeout, to the millisecond. The remaining steps take no time.
        (600, "", RunStatus::Succeeded, 1),
        (600, second, RunStatus::TimedOut, 1),
        (300, second, RunStatus::Succeeded, 2),
        (599, second, RunStatus::TimedOut, 2),
    ] {
        let (mut world, begun) = counting(takes, false);
        let id = published(&mut world, &format!("{text}{more}"));
        let run = world.new_run();
        world.command(Command::StartWorkflow { id, run }).unwrap();
        world.advance_to("2026-03-03T09:00:00Z");
        let run = world.memory.runs.values().next().unwrap();
        assert_eq!(run.status, expected, "{takes} {more}");
        assert_eq!(begun.get(), attempts, "{takes} {more}");
    }
}

#[test]
fn what_goes_on_side_by_side_counts_once() {
    let text = "name: t\ntimeout: 10m\nsteps:\n\
         \x20 - { id: a, type: exec, command: [a] }\n\
         \x20 - { id: b, type: exec, command: [b] }\n\
         \x20 - { id: c, type: exec, command: [c], depends_on: a }\n";
    for (takes, expected) in [(299, RunStatus::Succeeded), (301, RunStatus::TimedOut)] {
        let (mut world, _) = counting(takes, false);
        let id = published(&mut world, text);
        let run = world.new_run();
        world.command(Command::StartWorkflow { id, run }).unwrap();
        world.advance_to("2026-03-02T10:00:00Z");
        assert_eq!(world.memory.runs.values().next().unwrap().status, expected, "{takes}");
    }
}

#[test]
fn a_run_of_a_trigger_s_schedule_knows_the_trigger() {
    let text = "name: t\ntriggers: [{id: x, type: schedule, cron: '0 9 * * *'}]\n\
                steps: [{id: a, type: noop}]\n\
                outputs: [{name: of, source: '{{ run.trigger_id }}'}]\n";
    let mut world = World::new("2026-03-02T08:30:00Z");
    published(&mut world, text);
    let id = schedules(&world)["x"].id;
    let run = world.new_run();
    world.command(Command::StartSchedule { id, run }).unwrap();
    world.advance_to("2026-03-02T09:01:00Z");
    let runs: Vec<_> = world.memory.runs.values().collect();
    assert_eq!(runs.len(), 2);
    for run in runs {
        let output: serde_json::Value =
            serde_json::from_str(run.output.as_ref().unwrap().get()).unwrap();
        assert_eq!(output, serde_json::json!({ "of": "x" }));
    }
}
