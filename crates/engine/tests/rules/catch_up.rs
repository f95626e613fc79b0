//! Catching up after downtime, and when a node is late.

use engine::schedule::{OverrideAction, Status};
use engine::turn::{Command, Verb};

use crate::world::{World, at, seconds, success};

fn down_for_five_hours(more: &str) -> (World, engine::ScheduleId) {
    let mut world = World::new("2026-03-02T08:30:00Z").working(|_| (seconds(60), success()));
    let workflow = world.workflow("w", None);
    let id = world.schedule(workflow, &format!(r#"{{"name": "s", "cron": "0 * * * *"{more}}}"#));
    world.advance_to("2026-03-02T09:30:00Z");
    world.down_until("2026-03-02T14:30:00Z");
    (world, id)
}

#[test]
fn the_latest_missed_one_runs_by_default_and_stands_for_the_others() {
    let (mut world, id) = down_for_five_hours("");
    let expected = [
        "09:00 started",
        "10:00 coalesced",
        "11:00 coalesced",
        "12:00 coalesced",
        "13:00 coalesced",
        "14:00 started",
    ];
    assert_eq!(world.ledger(id), expected);
    let run = world.memory.runs.values().last().unwrap();
    assert!(run.input.get().contains(r#""coalesced":4"#), "{}", run.input);
    world.advance_to("2026-03-02T15:30:00Z");
    assert_eq!(world.runs(id).last().unwrap(), "n6-rc0 15:00 succeeded");
}

#[test]
fn none_misses_them_all() {
    let (mut world, id) = down_for_five_hours(r#", "catch_up": "none""#);
    assert_eq!(world.ledger(id)[1..].iter().filter(|row| row.ends_with("missed")).count(), 5);
    world.advance_to("2026-03-02T15:30:00Z");
    assert_eq!(world.ledger(id)[6], "15:00 started");
}

#[test]
fn none_still_runs_what_is_only_late() {
    let mut world = World::new("2026-03-02T08:30:00Z");
    let workflow = world.workflow("w", None);
    let id = world.schedule(workflow, r#"{"name": "s", "cron": "0 * * * *", "catch_up": "none"}"#);
    // The node is awake, but busy with other things for a while.
    world.now = at("2026-03-02T09:00:45Z");
    world.advance_to("2026-03-02T09:01:00Z");
    assert_eq!(world.ledger(id), ["09:00 started"]);
}

/// A schedule that is due every minute. Its node is awake, but looks at it only after several
/// minutes.
fn late(more: &str, takes: i64) -> (World, engine::ScheduleId) {
    let mut world =
        World::new("2026-03-02T08:30:30Z").working(move |_| (seconds(takes), success()));
    let workflow = world.workflow("w", None);
    let id = world.schedule(workflow, &format!(r#"{{"name": "s", "cron": "* * * * *"{more}}}"#));
    world.advance_to("2026-03-02T08:31:30Z");
    world.now = at("2026-03-02T08:34:10Z");
    world.advance_to("2026-03-02T08:34:50Z");
    (world, id)
}

#[test]
fn each_of_several_that_are_only_late_runs_whatever_catch_up_says() {
    for catch_up in [r#""none""#, r#""last""#, r#""all""#, r#"{"policy": "last", "window": "1s"}"#]
    {
        for overlap in ["skip", "queue", "queue_all", "cancel", "allow", "error"] {
            let more = format!(r#", "catch_up": {catch_up}, "overlap": "{overlap}""#);
            let (mut world, id) = late(&more, 2);
            let started = ["08:31 started", "08:32 started", "08:33 started", "08:34 started"];
            assert_eq!(world.ledger(id), started, "{more}");
            assert_eq!(world.memory.schedules[&id].status, Status::Active, "{more}");
            world.advance_to("2026-03-02T08:35:30Z");
            assert_eq!(world.ledger(id)[4], "08:35 started", "{more}");
        }
    }
}

#[test]
fn late_ones_run_one_after_the_other_or_side_by_side_where_that_is_allowed() {
    for (overlap, begins) in [("skip", ["10", "15", "20"]), ("allow", ["10", "10", "10"])] {
        let (world, _) = late(&format!(r#", "overlap": "{overlap}""#), 5);
        let began = world.memory.runs.values().skip(1).filter_map(|run| run.started_at);
        let began: Vec<String> = began.map(|at| at.to_string()[17..19].to_owned()).collect();
        assert_eq!(began, begins, "{overlap}");
    }
}

#[test]
fn what_was_active_before_late_ones_is_in_their_way() {
    let (world, id) = late(r#", "timeout_seconds": 86400"#, 10_000);
    assert_eq!(world.ledger(id)[1..], ["08:32 skipped", "08:33 skipped", "08:34 skipped"]);
    assert_eq!(reasons(&world, "skipped"), vec!["occurrence 0 was active".to_owned(); 3]);
}

#[test]
fn the_latest_late_one_stands_for_what_was_missed_before() {
    let (mut world, id) = late("", 2);
    world.now = at("2026-03-02T08:40:30Z");
    world.awake_since = at("2026-03-02T08:38:30Z");
    world.advance_to("2026-03-02T08:40:50Z");
    let expected = [
        "08:35 coalesced",
        "08:36 coalesced",
        "08:37 coalesced",
        "08:38 coalesced",
        "08:39 started",
        "08:40 started",
    ];
    assert_eq!(world.ledger(id)[4..], expected);
    let run = world.memory.runs.values().last().unwrap();
    assert!(run.input.get().contains(r#""coalesced":4"#), "{}", run.input);
}

#[test]
fn all_runs_one_after_the_other_within_limit_and_pace() {
    let (mut world, id) =
        down_for_five_hours(r#", "catch_up": {"policy": "all", "limit": 3, "pace": "1/10m"}"#);
    world.advance_to("2026-03-02T14:55:00Z");
    let runs = [
        "n0-rc0 09:00 succeeded",
        "n3-rc0 14:30 succeeded",
        "n4-rc0 14:40 succeeded",
        "n5-rc0 14:50 succeeded",
    ];
    assert_eq!(world.runs(id), runs);
    assert_eq!(world.ledger(id)[1..3], ["10:00 coalesced", "11:00 coalesced"]);
}

#[test]
fn older_than_the_window_is_missed() {
    let (world, id) = down_for_five_hours(r#", "catch_up": {"policy": "last", "window": "2h"}"#);
    let expected =
        ["10:00 missed", "11:00 missed", "12:00 missed", "13:00 coalesced", "14:00 started"];
    assert_eq!(world.ledger(id)[1..], expected);
}

#[test]
fn once_is_late_but_still_due() {
    let mut world = World::new("2026-03-02T08:30:00Z");
    let workflow = world.workflow("w", None);
    let id = world.schedule(workflow, r#"{"name": "s", "at": "2026-03-02T09:00"}"#);
    world.down_until("2026-03-03T12:00:00Z");
    world.advance_to("2026-03-03T12:00:01Z");
    assert_eq!(world.ledger(id), ["09:00 started"]);
    assert_eq!(world.get(id).status, Status::Done);
    // The same holds when it is declared too late.
    let id = world.schedule(workflow, r#"{"name": "s", "at": "2026-03-02T09:00"}"#);
    world.advance_to("2026-03-03T12:00:02Z");
    assert_eq!(world.ledger(id), ["09:00 started"]);
}

#[test]
fn more_than_can_be_listed_share_one_row() {
    let mut world = World::new("2026-03-02T00:00:00Z");
    let workflow = world.workflow("w", None);
    let id = world.schedule(workflow, r#"{"name": "s", "interval": "1s"}"#);
    world.down_until("2026-03-03T00:00:00Z");
    let rows: Vec<_> =
        world.memory.ledger.values().map(|e| (e.n, e.count, e.outcome.name())).collect();
    assert_eq!(rows, [(0, 86_399, "coalesced"), (86_399, 1, "started")]);
    assert_eq!(world.get(id).progress.n, 86_400);
}

#[test]
fn a_clock_set_back_makes_nothing_run_again() {
    let mut world = World::new("2026-03-02T08:30:00Z");
    let workflow = world.workflow("w", None);
    let id = world.schedule(workflow, r#"{"name": "s", "cron": "*/10 * * * *"}"#);
    world.advance_to("2026-03-02T10:05:00Z");
    let before = world.ledger(id).len();
    world.now = at("2026-03-02T09:05:00Z");
    world.advance_to("2026-03-02T10:09:00Z");
    assert_eq!(world.ledger(id).len(), before);
    world.advance_to("2026-03-02T10:11:00Z");
    assert_eq!(world.ledger(id).len(), before + 1);
}

#[test]
fn days_off_are_in_the_ledger() {
    let mut world = World::new("2026-03-06T12:00:00Z");
    let workflow = world.workflow("w", None);
    let text = r#"{"name": "s", "cron": "0 9 * * *", "calendar": "US"}"#;
    let skipping = world.schedule(workflow, text);
    let text = r#"{"name": "s", "cron": "0 9 * * *", "calendar": "US", "roll": "next"}"#;
    let rolling = world.schedule(workflow, text);
    world.advance_to("2026-03-09T12:00:00Z");
    assert_eq!(world.ledger(skipping), ["09:00 skipped", "09:00 skipped", "09:00 started"]);
    let reasons: Vec<&str> = world
        .memory
        .ledger
        .values()
        .filter(|entry| entry.schedule == skipping)
        .map(|entry| &*entry.reason)
        .collect();
    assert_eq!(reasons, ["Saturday", "Sunday", "due"]);
    let mut rolled = world.ledger(rolling);
    rolled.sort();
    assert_eq!(rolled, ["09:00 coalesced", "09:00 coalesced", "09:00 moved"]);
}

#[test]
fn days_off_within_downtime_are_in_the_ledger_too() {
    let mut world = World::new("2026-03-05T12:00:00Z");
    let workflow = world.workflow("w", None);
    let text = r#"{"name": "s", "cron": "0 9 * * *", "calendar": "US"}"#;
    let id = world.schedule(workflow, text);
    world.down_until("2026-03-10T12:00:00Z");
    let rows: Vec<String> = world.ledger(id);
    let expected = ["coalesced", "skipped", "skipped", "coalesced", "started"];
    assert_eq!(rows, expected.map(|outcome| format!("09:00 {outcome}")));
}

#[test]
fn an_occurrence_can_be_skipped_moved_or_given_another_payload() {
    let mut world = World::new("2026-03-02T08:30:00Z");
    let workflow = world.workflow("w", None);
    let id = world.schedule(workflow, r#"{"name": "s", "cron": "0 * * * *", "payload": 1}"#);
    let mut say = |nominal: &str, action| {
        let (nominal, by) = (at(nominal), "ann".to_owned());
        world.command(Command::Override { id, nominal, action: Some(action), by })
    };
    say("2026-03-02T09:00:00Z", OverrideAction::Skip).unwrap();
    say("2026-03-02T10:00:00Z", OverrideAction::Move(at("2026-03-02T11:30:00Z"))).unwrap();
    let payload = serde_json::value::to_raw_value(&2).unwrap();
    say("2026-03-02T12:00:00Z", OverrideAction::Payload(payload)).unwrap();
    assert!(say("2026-03-02T12:30:00Z", OverrideAction::Skip).is_err());
    assert!(say("2026-03-02T13:00:00Z", OverrideAction::Move(at("2026-03-02T08:00:00Z"))).is_err());
    world.advance_to("2026-03-02T12:10:00Z");
    let ledger = ["09:00 skipped", "11:00 started", "10:00 moved", "12:00 started"];
    assert_eq!(world.ledger(id), ledger);
    let payloads: Vec<bool> =
        world.memory.runs.values().map(|run| run.input.get().contains(r#""payload":2"#)).collect();
    assert_eq!(payloads, [false, false, true]);
}

/// Hourly occurrences of a day; a person skips those of `skipped` before the node is down from
/// 09:30 until 14:30.
fn skipped_while_down(more: &str, skipped: &[u8]) -> (World, engine::ScheduleId) {
    let mut world = World::new("2026-03-02T08:30:00Z").working(|_| (seconds(60), success()));
    let workflow = world.workflow("w", None);
    let id = world.schedule(workflow, &format!(r#"{{"name": "s", "cron": "0 * * * *"{more}}}"#));
    world.advance_to("2026-03-02T09:30:00Z");
    for hour in skipped {
        skip(&mut world, id, &format!("2026-03-02T{hour:02}:00:00Z"));
    }
    world.down_until("2026-03-02T14:30:00Z");
    (world, id)
}

fn skip(world: &mut World, id: engine::ScheduleId, nominal: &str) {
    let (nominal, by) = (at(nominal), "ann".to_owned());
    let action = Some(OverrideAction::Skip);
    world.command(Command::Override { id, nominal, action, by }).unwrap();
}

/// What the last run stands for, according to its input.
fn stands_for(world: &World) -> Option<u64> {
    let input = &world.memory.runs.values().last().unwrap().input;
    let input: serde_json::Value = serde_json::from_str(input.get()).unwrap();
    input["coalesced"].as_u64()
}

#[test]
fn a_missed_one_that_a_person_skipped_counts_for_nothing() {
    let window = r#", "catch_up": {"policy": "last", "window": "2h"}"#;
    let limit = r#", "catch_up": {"policy": "all", "limit": 2}"#;
    let none = r#", "catch_up": "none""#;
    /// The policy, the hours that are skipped, the outcomes from 10:00 on, and the merged ones.
    type Case = (&'static str, &'static [u8], [&'static str; 5], Option<u64>);
    let cases: [Case; 8] = [
        ("", &[12], ["coalesced", "coalesced", "skipped", "coalesced", "started"], Some(3)),
        // The latest that nobody skipped is made up for.
        ("", &[14], ["coalesced", "coalesced", "coalesced", "started", "skipped"], Some(3)),
        ("", &[11, 13, 14], ["coalesced", "skipped", "started", "skipped", "skipped"], Some(1)),
        ("", &[10, 11, 12, 13, 14], ["skipped"; 5], None),
        (window, &[11, 14], ["missed", "skipped", "missed", "started", "skipped"], None),
        (none, &[11, 14], ["missed", "skipped", "missed", "missed", "skipped"], None),
        (limit, &[13], ["coalesced", "coalesced", "started", "skipped", "started"], None),
        (limit, &[14], ["coalesced", "coalesced", "started", "started", "skipped"], None),
    ];
    for (more, skipped, expected, merged) in cases {
        let (mut world, id) = skipped_while_down(more, skipped);
        world.advance_to("2026-03-02T14:40:00Z");
        let hours = expected.iter().zip(10..).map(|(outcome, hour)| format!("{hour}:00 {outcome}"));
        assert_eq!(world.ledger(id)[1..], hours.collect::<Vec<_>>(), "{more} {skipped:?}");
        let reasons = reasons(&world, "skipped");
        assert_eq!(reasons, vec!["skipped by ann"; skipped.len()], "{more} {skipped:?}");
        if let Some(count) = merged {
            assert_eq!(stands_for(&world), merged, "{more} {skipped:?}");
            let started = world.memory.ledger.values().rfind(|row| row.run.is_some()).unwrap();
            let were = if count == 1 { "was" } else { "were" };
            let told = format!("; stands for {count} more that {were} missed");
            assert!(started.reason.ends_with(&told), "{}", started.reason);
        }
    }
}

#[test]
fn a_single_missed_one_that_a_person_skipped_is_skipped_whatever_catch_up_says() {
    for catch_up in ["none", "last", "all"] {
        let mut world = World::new("2026-03-02T08:30:00Z");
        let workflow = world.workflow("w", None);
        let text = format!(r#"{{"name": "s", "cron": "0 * * * *", "catch_up": "{catch_up}"}}"#);
        let id = world.schedule(workflow, &text);
        skip(&mut world, id, "2026-03-02T09:00:00Z");
        world.down_until("2026-03-02T09:30:00Z");
        assert_eq!(world.ledger(id), ["09:00 skipped"], "{catch_up}");
        assert_eq!(reasons(&world, "skipped"), ["skipped by ann"], "{catch_up}");
    }
}

#[test]
fn a_late_one_that_a_person_skipped_stands_for_nothing() {
    for (skipped, expected) in [
        (vec![40], ["coalesced", "coalesced", "started", "skipped"]),
        // A missed one is made up for if no late one runs.
        (vec![39, 40], ["coalesced", "started", "skipped", "skipped"]),
    ] {
        let mut world = World::new("2026-03-02T08:36:30Z");
        let workflow = world.workflow("w", None);
        let id = world.schedule(workflow, r#"{"name": "s", "cron": "* * * * *"}"#);
        for minute in skipped {
            skip(&mut world, id, &format!("2026-03-02T08:{minute}:00Z"));
        }
        world.now = at("2026-03-02T08:40:30Z");
        world.awake_since = at("2026-03-02T08:38:30Z");
        world.advance_to("2026-03-02T08:40:50Z");
        let minutes = expected.iter().zip(37..);
        let rows = minutes.map(|(outcome, minute)| format!("08:{minute} {outcome}"));
        assert_eq!(world.ledger(id), rows.collect::<Vec<_>>());
        let merged = expected.iter().filter(|outcome| **outcome == "coalesced").count() as u64;
        assert_eq!(stands_for(&world), Some(merged));
    }
}

#[test]
fn skipped_ones_among_many_that_share_rows_have_rows_of_their_own() {
    let mut world = World::new("2026-03-02T00:00:30Z");
    let workflow = world.workflow("w", None);
    let id = world.schedule(workflow, r#"{"name": "s", "cron": "* * * * *"}"#);
    for nominal in ["2026-03-02T01:00:00Z", "2026-03-02T04:59:00Z", "2026-03-02T05:00:00Z"] {
        skip(&mut world, id, nominal);
    }
    world.down_until("2026-03-02T05:00:30Z");
    let rows: Vec<_> =
        world.memory.ledger.values().map(|e| (e.n, e.count, e.outcome.name())).collect();
    let expected = [
        (0, 59, "coalesced"),
        (59, 1, "skipped"),
        (60, 237, "coalesced"),
        (297, 1, "started"),
        (298, 1, "skipped"),
        (299, 1, "skipped"),
    ];
    assert_eq!(rows, expected);
    assert_eq!((world.get(id).progress.n, stands_for(&world)), (300, Some(296)));
}

#[test]
fn what_is_made_up_for_with_a_payload_of_its_own_says_both() {
    let mut world = World::new("2026-03-02T08:30:00Z");
    let workflow = world.workflow("w", None);
    let id = world.schedule(workflow, r#"{"name": "s", "cron": "0 * * * *"}"#);
    for nominal in ["2026-03-02T09:00:00Z", "2026-03-02T10:00:00Z"] {
        let (nominal, by) = (at(nominal), "ann".to_owned());
        let action = Some(OverrideAction::Payload(serde_json::value::to_raw_value(&2).unwrap()));
        world.command(Command::Override { id, nominal, action, by }).unwrap();
    }
    world.down_until("2026-03-02T09:30:00Z");
    world.advance_to("2026-03-02T10:30:00Z");
    let expected = [
        "made up for: due while no node was running, with a payload given by ann",
        "due, with a payload given by ann",
    ];
    assert_eq!(reasons(&world, "started"), expected);
}

/// A node that is down for five hours; each run takes 50 minutes.
fn slow_with_error(more: &str) -> (World, engine::ScheduleId) {
    let mut world = World::new("2026-03-02T08:30:00Z").working(|_| (seconds(3_000), success()));
    let workflow = world.workflow("w", None);
    let text = format!(
        r#"{{"name": "s", "cron": "0 * * * *", "overlap": "error", "timeout_seconds": 86400{more}}}"#
    );
    let id = world.schedule(workflow, &text);
    world.advance_to("2026-03-02T09:55:00Z");
    world.down_until("2026-03-02T14:30:00Z");
    (world, id)
}

#[test]
fn an_overlap_with_what_is_made_up_for_is_no_error() {
    let (mut world, id) = slow_with_error("");
    // The occurrence of 14:00 is made up from 14:30 to 15:20.
    world.advance_to("2026-03-02T16:30:00Z");
    assert_eq!(world.get(id).status, Status::Active);
    assert_eq!(world.ledger(id)[5..], ["14:00 started", "15:00 skipped", "16:00 started"]);
    let skipped = world.memory.ledger.values().find(|row| row.outcome.name() == "skipped").unwrap();
    let reason = "occurrence 5 was active; no error of the schedule, because others that are late \
                  or made up for go first";
    assert_eq!(skipped.reason, reason);
}

#[test]
fn all_that_is_made_up_for_runs_one_after_the_other_also_if_overlap_is_an_error() {
    let (mut world, id) = slow_with_error(r#", "catch_up": "all""#);
    world.advance_to("2026-03-02T19:30:00Z");
    let expected = [
        "09:00 started",
        "10:00 started",
        "11:00 started",
        "12:00 started",
        "13:00 started",
        "14:00 started",
        "15:00 skipped",
        "16:00 skipped",
        "17:00 skipped",
        "18:00 skipped",
        "19:00 started",
    ];
    assert_eq!(world.ledger(id), expected);
    assert_eq!(world.get(id).status, Status::Active);
}

#[test]
fn an_overlap_of_its_own_is_still_an_error_after_downtime() {
    let (mut world, id) = slow_with_error("");
    world.advance_to("2026-03-02T16:55:00Z");
    // From here on runs take longer than an hour.
    let mut world = world.working(|_| (seconds(5_000), success()));
    world.advance_to("2026-03-02T18:30:00Z");
    assert_eq!(world.get(id).status, Status::Dead);
    assert_eq!(world.ledger(id).last().unwrap(), "18:00 failed");
}

#[test]
fn a_backfill_does_not_kill_a_schedule_whose_overlap_is_an_error() {
    let mut world = World::new("2026-03-02T08:30:00Z").working(|_| (seconds(3_000), success()));
    let workflow = world.workflow("w", None);
    let text =
        r#"{"name": "s", "cron": "0 * * * *", "overlap": "error", "timeout_seconds": 86400}"#;
    let id = world.schedule(workflow, text);
    let backfill = Command::Backfill {
        id,
        from: at("2026-03-01T00:00:00Z"),
        to: at("2026-03-01T02:00:00Z"),
        limit: 10,
        pace: None,
        again: false,
    };
    world.command(backfill).unwrap();
    world.advance_to("2026-03-02T12:30:00Z");
    assert_eq!(world.get(id).status, Status::Active, "{:?}", world.ledger(id));
}

#[test]
fn what_a_limit_leaves_out_says_so() {
    let (world, id) = down_for_five_hours(r#", "catch_up": {"policy": "all", "limit": 3}"#);
    assert_eq!(world.ledger(id)[1..3], ["10:00 coalesced", "11:00 coalesced"]);
    let row = world.memory.ledger.values().find(|row| row.outcome.name() == "coalesced").unwrap();
    let reason =
        "missed: catch_up makes up for the latest 3 only; raise its limit, up to 10000, for more";
    assert_eq!(row.reason, reason);
    let mut world = World::new("2026-03-02T00:00:00Z");
    let workflow = world.workflow("w", None);
    world.schedule(workflow, r#"{"name": "s", "interval": "1m", "catch_up": "all"}"#);
    world.down_until("2026-03-03T00:00:00Z");
    let row = world.memory.ledger.values().next().unwrap();
    assert!(row.reason.contains("occurrences: missed: catch_up makes up for the latest 100 only"));
}

fn reasons(world: &World, outcome: &str) -> Vec<String> {
    let rows = world.memory.ledger.values().filter(|row| row.outcome.name() == outcome);
    rows.map(|row| row.reason.to_string()).collect()
}

#[test]
fn what_stands_for_nothing_is_not_said_to() {
    let (world, _) = down_for_five_hours("");
    let merged = vec!["missed: occurrence 5 stands for it".to_owned(); 4];
    assert_eq!(reasons(&world, "coalesced"), merged);
    // The run of 09:00 continues while no node is awake, so the latest occurrence is skipped.
    let mut world = World::new("2026-03-02T08:30:00Z").working(|_| (seconds(30_000), success()));
    let workflow = world.workflow("w", None);
    let text = r#"{"name": "s", "cron": "0 * * * *", "timeout_seconds": 86400}"#;
    let id = world.schedule(workflow, text);
    world.advance_to("2026-03-02T09:30:00Z");
    world.now = at("2026-03-02T14:30:00Z");
    world.awake_since = world.now;
    world.advance_to("2026-03-02T14:31:00Z");
    assert_eq!(world.ledger(id)[5], "14:00 skipped");
    let correct = "only the latest one is made up for, and that was skipped";
    assert_eq!(reasons(&world, "missed"), vec![correct.to_owned(); 4]);
    assert_eq!(reasons(&world, "coalesced"), Vec::<String>::new());
}

#[test]
fn the_one_that_stands_for_others_is_named_although_a_later_one_was_skipped() {
    let (mut world, _) = skipped_while_down("", &[14]);
    world.advance_to("2026-03-02T14:40:00Z");
    let told = vec!["missed: occurrence 4 stands for it".to_owned(); 3];
    assert_eq!(reasons(&world, "coalesced"), told);
}

#[test]
fn what_a_pause_left_out_says_so() {
    for (catch_up, outcome, told) in [
        ("last", "coalesced", "missed while the schedule was paused: occurrence 2 stands for it"),
        (
            "last",
            "started",
            "made up for: due while the schedule was paused; stands for 1 more that was missed",
        ),
        ("all", "started", "made up for: due while the schedule was paused"),
        ("none", "missed", "due while the schedule was paused, and catch_up is none"),
    ] {
        let mut world = World::new("2026-03-02T08:30:00Z");
        let workflow = world.workflow("w", None);
        let text = format!(r#"{{"name": "s", "cron": "0 * * * *", "catch_up": "{catch_up}"}}"#);
        let id = world.schedule(workflow, &text);
        world.advance_to("2026-03-02T09:30:00Z");
        world.control(id, Verb::Pause).unwrap();
        world.advance_to("2026-03-02T11:30:00Z");
        world.control(id, Verb::Resume { catch_up: true }).unwrap();
        world.advance_to("2026-03-02T11:31:00Z");
        let all = reasons(&world, outcome);
        assert!(all.iter().any(|reason| reason.starts_with(told)), "{catch_up}: {all:?}");
    }
}

#[test]
fn a_full_queue_is_said_to_be_full() {
    for (limit, row, told) in
        [(1, 2, "1 occurrence was waiting already"), (2, 3, "2 occurrences were waiting already")]
    {
        let mut world =
            World::new("2026-03-02T08:30:00Z").working(|_| (seconds(30_000), success()));
        let workflow = world.workflow("w", None);
        let text = format!(
            r#"{{"name": "s", "cron": "0 * * * *", "overlap": "queue_all", "queue_limit": {limit},
                 "timeout_seconds": 86400}}"#
        );
        let id = world.schedule(workflow, &text);
        world.advance_to("2026-03-02T12:30:00Z");
        let rows = ["09:00 started", "10:00 queued", "11:00 queued"];
        assert_eq!(world.ledger(id)[..row], rows[..row]);
        assert!(world.ledger(id)[row].ends_with("skipped"));
        assert_eq!(reasons(&world, "skipped")[0], format!("the queue was full: {told}"));
    }
}
