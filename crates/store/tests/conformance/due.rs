//! Due occurrences become runs.

use engine::schedule::Status;
use engine::turn::{Capacity, Recovered};

use crate::world::{World, begun, failed, minute, minutes, performs, succeeded};

pub(crate) async fn becomes_one_run_and_one_row(world: World) {
    let workflow = world.workflow("w").await;
    let id =
        world.schedule(workflow, r#"{"name": "s", "interval": "5m", "payload": {"a": 1}}"#).await;
    assert_eq!(world.next(id).await, Some(5));
    let early = world.turn(4).await;
    assert_eq!((early.claimed, begun(&early)), (0, vec![]));

    let turned = world.turn(5).await;
    assert_eq!(begun(&turned), [format!("sched-{id}-n0-rc0")]);
    // The mark, the next time and its wakeup were committed with the run.
    let schedule = world.seen(id).await;
    assert_eq!(minutes(schedule.progress.mark), 5);
    assert_eq!((schedule.progress.n, world.next(id).await), (1, Some(10)));
    assert_eq!(turned.next_wakeup, Some(minute(10)));
    assert_eq!(world.ledger(id).await, ["0 started 5"]);
    let run = world.run(&performs(&turned)[0].run_id).await.view.run;
    assert_eq!((run.nominal, run.effective), (Some(minute(5)), Some(minute(5))));
    assert!(run.input.get().contains(r#""payload":{"a": 1}"#), "{}", run.input);

    world.turn_with(6, vec![succeeded(&performs(&turned)[0])]).await;
    let progress = world.seen(id).await.progress;
    assert_eq!((progress.run_count, progress.current_repeat), (1, 1));
    assert_eq!(world.runs().await, [format!("sched-{id}-n0-rc0 succeeded")]);
}

pub(crate) async fn is_decided_once_however_often_it_is_claimed(world: World) {
    let workflow = world.workflow("w").await;
    let id =
        world.schedule(workflow, r#"{"name": "s", "interval": "5m", "overlap": "allow"}"#).await;
    for _ in 0..3 {
        world.turn(5).await;
    }
    assert_eq!(world.ledger(id).await, ["0 started 5"]);
    assert_eq!(world.runs().await, [format!("sched-{id}-n0-rc0 running")]);
}

pub(crate) async fn is_claimed_in_order_of_time_up_to_the_limit(world: World) {
    let workflow = world.workflow("w").await;
    let mut ids = Vec::new();
    for at in [9, 3, 7, 5, 1] {
        let at = minute(at);
        let fields = format!(r#"{{"name": "s", "at": "{at}"}}"#);
        ids.push(world.schedule(workflow, &fields).await);
    }
    let by_time = [ids[4], ids[1], ids[3], ids[2], ids[0]];
    for (claimed, left) in [(2, true), (2, true), (1, false)] {
        let turned = world.try_turn(10, Vec::new(), 2, Capacity::new(1_000)).await;
        assert_eq!(turned.claimed, claimed);
        let is_due = turned.next_wakeup.is_some_and(|at| at <= minute(10));
        assert_eq!(is_due, left, "due ones that were over the limit are still there");
    }
    let started: Vec<String> =
        by_time.iter().map(|id| format!("sched-{id}-n0-rc0 running")).collect();
    assert_eq!(world.runs().await, started);
}

pub(crate) async fn schedules_are_not_hidden_by_a_flood_of_runs(mut world: World) {
    let timers = "name: w\nsteps: [{id: t, type: timer, delay: 1m}]\n";
    let flood = world.publish(0, timers).await;
    for _ in 0..40 {
        world.start(0, flood).await.unwrap();
    }
    world.turn(0).await;
    let other = world.workflow("other").await;
    let fields = format!(r#"{{"name": "s", "at": "{}"}}"#, minute(5));
    let id = world.schedule(other, &fields).await;
    let turned = world.try_turn(10, Vec::new(), 8, Capacity::new(1_000)).await;
    assert!(turned.next_wakeup.is_some_and(|at| at <= minute(10)), "the flood is not worked off");
    assert_eq!(world.ledger(id).await, ["0 started 5"]);
    // The flood is worked off as well: nothing is left behind.
    world.settle(10).await;
    let open = world.runs().await.iter().filter(|run| !run.contains("succeeded")).count();
    assert_eq!(open, 1, "only the scheduled run, which nobody performs, is open");
}

pub(crate) async fn next_wakeup_is_the_earliest_left(world: World) {
    assert_eq!(world.turn(0).await.next_wakeup, None);
    let workflow = world.workflow("w").await;
    world.schedule(workflow, r#"{"name": "late", "interval": "7h"}"#).await;
    let new = world.new_schedule(workflow, r#"{"name": "soon", "interval": "10m"}"#);
    let create = engine::turn::Command::CreateSchedules(vec![new]);
    let commanded = world.commanded(0, create, None).await.unwrap();
    assert_eq!(commanded.next_wakeup, Some(minute(10)));
    // The run times out after ten minutes, before the next occurrence.
    assert_eq!(world.turn(11).await.next_wakeup, Some(minute(20)));
    assert_eq!(world.store().stats(minute(21)).await.unwrap().next_wakeup, Some(minute(20)));
}

pub(crate) async fn a_run_that_ends_at_an_instant_is_settled_before_what_is_due_at_it(
    world: World,
) {
    let workflow = world.workflow("w").await;
    let id = world.schedule(workflow, r#"{"name": "s", "interval": "5m"}"#).await;
    let turned = world.turn(5).await;
    world.turn_with(10, vec![succeeded(&performs(&turned)[0])]).await;
    assert_eq!(world.ledger(id).await, ["0 started 5", "1 started 10"]);
    world.turn(15).await;
    assert_eq!(world.ledger(id).await[2], "2 skipped 15");
}

pub(crate) async fn missed_ones_are_caught_up_once(mut world: World) {
    let workflow = world.workflow("w").await;
    let last = world.schedule(workflow, r#"{"name": "last", "interval": "5m"}"#).await;
    let none = r#"{"name": "none", "interval": "5m", "catch_up": "none"}"#;
    let none = world.schedule(workflow, none).await;
    let all = r#"{"name": "all", "interval": "10m", "catch_up": "all"}"#;
    let all = world.schedule(workflow, all).await;
    world.join(22).await;
    world.settle(22).await;
    assert_eq!(
        world.ledger(last).await,
        ["0 coalesced 5", "1 coalesced 10", "2 coalesced 15", "3 started 20"]
    );
    assert_eq!(
        world.ledger(none).await,
        ["0 missed 5", "1 missed 10", "2 missed 15", "3 missed 20"]
    );
    assert_eq!((world.next(last).await, world.next(none).await), (Some(25), Some(25)));
    // The counts are kept with the node that found the occurrences.
    let nodes = world.store().nodes().await.unwrap();
    let found = nodes.last().unwrap().recovered;
    // The first of `all` starts from its queue at once, and counts once.
    assert_eq!(world.ledger(all).await, ["0 started 10", "1 started 20"]);
    let expected = Recovered { missed: 4, made_up: 3, coalesced: 3, taken_over: 0 };
    assert_eq!(found, expected);
    // Occurrences that come due afterwards are not counted.
    world.settle(25).await;
    let nodes = world.store().nodes().await.unwrap();
    assert_eq!(nodes.last().unwrap().recovered, expected);
}

pub(crate) async fn a_clock_set_back_runs_nothing_again(world: World) {
    let workflow = world.workflow("w").await;
    let id = world.schedule(workflow, r#"{"name": "s", "cron": "*/5 * * * *"}"#).await;
    world.settle(5).await;
    world.settle(3).await;
    world.settle(5).await;
    assert_eq!(world.ledger(id).await, ["0 started 5"]);
    assert_eq!(world.next(id).await, Some(10));
}

pub(crate) async fn failures_are_tried_again_until_the_schedule_is_dead(world: World) {
    let definition = "name: w\nsteps: [{id: a, type: noop, retry: {max: 1}}]\n";
    let workflow = world.publish(0, definition).await;
    let fields =
        r#"{"name": "s", "cron": "0 * * * *", "max_retries": 1, "retry": {"delay": "2m"}}"#;
    let id = world.schedule(workflow, fields).await;
    let turned = world.turn(60).await;
    let turned = world.turn_with(61, vec![failed(&performs(&turned)[0])]).await;
    assert_eq!(turned.next_wakeup, Some(minute(63)), "the retry waits as a wakeup");
    assert_eq!(begun(&world.turn(62).await), Vec::<String>::new());
    let turned = world.turn(63).await;
    assert_eq!(begun(&turned), [format!("sched-{id}-n0-rc1")]);
    let turned = world.turn_with(64, vec![failed(&performs(&turned)[0])]).await;
    let schedule = world.seen(id).await;
    assert_eq!((schedule.status, schedule.progress.error_count), (Status::Dead, 2));
    assert_eq!(world.ledger(id).await, ["0 failed 60"]);
    assert_eq!((world.next(id).await, turned.next_wakeup), (None, None));
}
