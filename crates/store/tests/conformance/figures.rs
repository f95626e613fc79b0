//! Queries for pages of figures: tallies, occurrences that did not run, last runs, names.

use engine::ledger::Outcome;
use engine::run::RunStatus;
use engine::turn::Command;
use jiff::SignedDuration;
use store::{NotRunQuery, RunQuery, TallyKind, Total, WorkflowQuery};

use crate::world::{World, failed, minute, minutes, performs};

/// The tallies of these minutes as text: minute, kind, count.
async fn tallies(world: &World, from: i64, to: i64) -> Vec<String> {
    let found = world.store().tallies(minute(from), minute(to)).await.unwrap();
    let line = |tally: &store::Tally| {
        let what = match tally.kind {
            TallyKind::Occurrence(outcome) => outcome.name().to_owned(),
            TallyKind::Run(status) => format!("run {}", status.name()),
        };
        format!("{} {what} {}", minutes(tally.minute), tally.count)
    };
    found.iter().map(line).collect()
}

pub(crate) async fn what_happens_is_counted_by_the_minute(mut world: World) {
    let text = "name: w\nsteps: [{id: a, type: noop, retry: {max: 1}}]\n";
    let workflow = world.publish(0, text).await;
    for _ in 0..3 {
        world.schedule(workflow, r#"{"name": "s", "cron": "*/5 * * * *"}"#).await;
    }
    let queues = r#"{"name": "q", "cron": "*/5 * * * *", "overlap": "queue"}"#;
    world.schedule(workflow, queues).await;
    let turned = world.turn(5).await;
    assert_eq!(tallies(&world, 0, 60).await, ["5 started 4"]);
    let first = performs(&turned);
    // Three are skipped and one is queued: all earlier runs are still running.
    world.turn(10).await;
    assert_eq!(tallies(&world, 6, 60).await, ["10 queued 1", "10 skipped 3"]);
    world.turn_with(11, vec![failed(&first[0])]).await;
    world.turn_with(12, first[1..].iter().map(crate::world::succeeded).collect()).await;
    let later = tallies(&world, 11, 60).await;
    assert_eq!(later, ["11 run failed 1", "12 started 1", "12 run succeeded 3"]);
    world.settle(12).await;
    // Missed occurrences have one ledger row each or for many, and are counted one by one.
    world.start(13, workflow).await.unwrap();
    world.settle(13).await;
    world.join(120).await;
    world.settle(120).await;
    let found = tallies(&world, 100, 200).await;
    let of = |what: &str| found.iter().filter(|line| line.contains(what)).count();
    assert!(of("started") == 1 && of("run succeeded") == 1, "{found:?}");
    // A minute belongs to the range if it begins in it.
    assert_eq!(tallies(&world, 5, 6).await, ["5 started 4"]);
    let odd = minute(4) + SignedDuration::from_secs(1);
    assert_eq!(world.store().tallies(odd, minute(6)).await.unwrap().len(), 1);
    let odd = minute(5) + SignedDuration::from_secs(1);
    assert_eq!(world.store().tallies(odd, minute(6)).await.unwrap(), []);
    assert_eq!(sums(&world).await, tallied(&world).await);
}

/// How many occurrences the ledger of all schedules records as skipped, coalesced, missed, dropped
/// or failed.
async fn sums(world: &World) -> u64 {
    let query = NotRunQuery { limit: 10_000, ..NotRunQuery::default() };
    let page = world.store().not_run(query).await.unwrap();
    page.items.iter().map(|row| row.entry.count).sum()
}

/// How many the tallies count.
async fn tallied(world: &World) -> u64 {
    let runs = [Outcome::Started, Outcome::Moved, Outcome::Queued];
    let found = world.store().tallies(minute(0), minute(10_000)).await.unwrap();
    let did_not = |tally: &&store::Tally| match tally.kind {
        TallyKind::Occurrence(outcome) => !runs.contains(&outcome),
        _ => false,
    };
    found.iter().filter(did_not).map(|tally| tally.count).sum()
}

/// Checks that each ended run is counted once. No run may have been removed.
pub(crate) async fn every_end_is_tallied(world: &World) {
    let query = RunQuery { limit: 10_000, ..RunQuery::default() };
    let runs = world.store().runs(query).await.unwrap().items;
    let found = world.store().tallies(minute(0), minute(10_000)).await.unwrap();
    for status in RunStatus::ALL {
        let ended = runs.iter().filter(|view| view.run.status == status).count() as u64;
        let counted = found.iter().filter(|tally| tally.kind == TallyKind::Run(status));
        assert_eq!(counted.map(|tally| tally.count).sum::<u64>(), ended, "{}", status.name());
    }
}

pub(crate) async fn tallies_go_after_eight_days(world: World) {
    let workflow = world.workflow("w").await;
    world.schedule(workflow, r#"{"name": "s", "cron": "*/5 * * * *"}"#).await;
    world.settle_each(5, 20).await;
    let before = tallies(&world, 0, 60).await;
    assert_eq!(before.len(), 8);
    let days = |days: i64| minute(days * 24 * 60);
    let expire = async |at, limit| {
        let keep = SignedDuration::from_hours(1_000);
        while world.store().expire(at, keep, limit).await.unwrap().more {}
    };
    // Adding up past minutes does not change the tallies.
    expire(days(7), 2).await;
    assert_eq!(tallies(&world, 0, 60).await, before);
    world.settle(21).await;
    expire(days(8) + SignedDuration::from_mins(11), 2).await;
    assert_eq!(tallies(&world, 0, 60).await, before[4..]);
    expire(days(9), 2).await;
    assert_eq!(tallies(&world, 0, 60).await, Vec::<String>::new());
}

/// All pages of occurrences that did not run, `limit` at a time.
async fn not_run(world: &World, query: NotRunQuery, limit: usize) -> Vec<String> {
    let (mut found, mut after) = (Vec::new(), None);
    for _ in 0..1_000 {
        let query = NotRunQuery { limit, after, ..query.clone() };
        let page = world.store().not_run(query).await.unwrap();
        assert!(page.items.len() <= limit);
        found.extend(page.items.iter().map(|row| {
            let (at, outcome) = (minutes(row.entry.decided_at), row.entry.outcome.name());
            assert_eq!(row.entry.run, None);
            let names =
                row.names.as_ref().map(|(schedule, workflow)| format!("{schedule} {workflow}"));
            format!("{at} {outcome} {}", names.unwrap_or_default())
        }));
        after = page.next;
        if after.is_none() {
            return found;
        }
    }
    panic!("the pages do not end");
}

pub(crate) async fn what_did_not_run_is_listed_latest_first(mut world: World) {
    let workflow = world.workflow("w").await;
    let skips = r#"{"name": "skips", "cron": "*/5 * * * *"}"#;
    let gone = world.schedule(workflow, skips).await;
    let queues = r#"{"name": "queues", "cron": "*/5 * * * *", "overlap": "queue"}"#;
    let queues = world.schedule(workflow, queues).await;
    for at in [5, 10, 15] {
        world.turn(at).await;
    }
    world.control(16, queues, engine::turn::Verb::Pause).await;
    let any = NotRunQuery::default;
    let whole = not_run(&world, any(), 50).await;
    let expected = [
        "16 dropped queues w",
        "15 coalesced queues w",
        "15 skipped skips w",
        "10 skipped skips w",
    ];
    assert_eq!(whole, expected);
    for limit in 1..5 {
        assert_eq!(not_run(&world, any(), limit).await, whole, "by {limit}");
    }
    let of = |outcome| NotRunQuery { outcome: Some(outcome), ..any() };
    assert_eq!(not_run(&world, of(Outcome::Skipped), 1).await, whole[2..]);
    assert_eq!(not_run(&world, of(Outcome::Started), 1).await, Vec::<String>::new());
    let since = NotRunQuery { since: Some(minute(15)), ..any() };
    assert_eq!(not_run(&world, since, 2).await, whole[..3]);
    world.command(17, Command::DeleteSchedules(vec![gone])).await;
    assert_eq!(not_run(&world, of(Outcome::Skipped), 5).await, ["15 skipped ", "10 skipped "]);
    world.join(18).await;
    assert_eq!(sums(&world).await, tallied(&world).await);
}

pub(crate) async fn an_occurrence_that_failed_keeps_its_run(world: World) {
    let text = "name: w\nsteps: [{id: a, type: noop, retry: {max: 1}}]\n";
    let workflow = world.publish(0, text).await;
    let fields =
        r#"{"name": "s", "cron": "*/5 * * * *", "max_retries": 1, "retry": {"delay": "1m"}}"#;
    let id = world.schedule(workflow, fields).await;
    for at in 5..9 {
        let turned = world.turn(at).await;
        world.turn_with(at, performs(&turned).iter().map(failed).collect()).await;
    }
    let ledger = world.ledger(id).await;
    assert_eq!(ledger, ["0 failed 5"]);
    assert_eq!(not_run(&world, NotRunQuery::default(), 5).await, Vec::<String>::new());
}

/// A workflow that can be started by hand many times.
fn several(name: &str) -> String {
    format!("name: {name}\nconcurrency: 100\nsteps: [{{id: a, type: noop}}]\n")
}

pub(crate) async fn runs_are_found_by_when_they_were_created(mut world: World) {
    let one = world.publish(0, &several("one")).await;
    let two = world.publish(0, &several("two")).await;
    let mut all = Vec::new();
    for at in 0..20 {
        let workflow = if at % 2 == 0 { one } else { two };
        all.push((at, workflow, world.start(at, workflow).await.unwrap()));
        match at {
            0..10 => world.settle(at).await,
            _ => drop(world.turn(at).await),
        }
    }
    let any = RunQuery::default;
    let (since, until) = (|at| Some(minute(at)), |at| Some(minute(at)));
    for (query, wanted) in [
        (RunQuery { since: since(3), until: until(7), ..any() }, 3..7),
        (RunQuery { since: since(7), ..any() }, 7..20),
        (RunQuery { until: until(12), ..any() }, 0..12),
        (RunQuery { since: since(30), ..any() }, 0..0),
        (RunQuery { until: until(-5), ..any() }, 0..0),
        (RunQuery { since: since(-5), until: until(90), ..any() }, 0..20),
        (
            RunQuery {
                since: since(8),
                until: until(13),
                status: vec![RunStatus::Running],
                ..any()
            },
            10..13,
        ),
        (
            RunQuery {
                since: since(8),
                until: until(13),
                status: vec![RunStatus::Succeeded],
                ..any()
            },
            8..10,
        ),
    ] {
        for workflow in [None, Some(one), Some(two)] {
            let is_of = |of| workflow.is_none_or(|wanted| wanted == of);
            let expected: Vec<String> = all
                .iter()
                .rev()
                .filter(|(at, of, _)| wanted.contains(at) && is_of(*of))
                .map(|(_, _, id)| id.to_string())
                .collect();
            for limit in [1, 3, 50] {
                let query = RunQuery { workflow, ..query.clone() };
                assert_eq!(
                    crate::views::all(&world, query.clone(), limit).await,
                    expected,
                    "{query:?}"
                );
            }
        }
    }
}

pub(crate) async fn the_last_run_of_each_workflow_is_found(mut world: World) {
    let one = world.publish(0, &several("one")).await;
    let two = world.publish(0, &several("two")).await;
    let never = world.workflow("never").await;
    world.start(0, one).await.unwrap();
    let last_of_one = world.start(1, one).await.unwrap();
    world.settle(1).await;
    world.start(2, two).await.unwrap();
    world.settle(2).await;
    let last_of_two = world.start(3, two).await.unwrap();
    world.turn(3).await;
    let found = world.store().last_runs(vec![two, never, one]).await.unwrap();
    let found: Vec<_> =
        found.iter().map(|(id, view)| (*id, &view.run.id, view.run.status)).collect();
    let expected =
        [(two, &last_of_two, RunStatus::Running), (one, &last_of_one, RunStatus::Succeeded)];
    assert_eq!(found, expected);
}

pub(crate) async fn workflows_are_found_by_parts_of_their_names(world: World) {
    for name in ["daily-report", "daily-backup", "report-weekly", "other"] {
        world.workflow(name).await;
    }
    for (search, expected) in [
        ("report", vec!["daily-report", "report-weekly"]),
        ("DAILY", vec!["daily-backup", "daily-report"]),
        (" ly-r ", vec!["daily-report"]),
        ("", vec!["daily-backup", "daily-report", "other", "report-weekly"]),
        ("%", vec![]),
        ("nul\0", vec![]),
    ] {
        let (mut found, mut after) = (Vec::new(), None);
        loop {
            let query = WorkflowQuery {
                search: Some(search.to_owned()),
                limit: 1,
                after,
                ..WorkflowQuery::default()
            };
            let page = world.store().workflows(query).await.unwrap();
            assert_eq!(page.total, Total::Exact(expected.len() as u64), "{search}");
            found.extend(page.items.into_iter().map(|view| view.workflow.name));
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        assert_eq!(found, expected, "{search}");
    }
}

pub(crate) async fn a_damaged_row_hides_no_other_figure(mut world: World) {
    let workflow = world.publish(0, "name: w\nsteps: [{id: a, type: noop}]").await;
    for name in ["a", "b"] {
        let fields = format!(r#"{{"name": "{name}", "cron": "*/5 * * * *", "overlap": "skip"}}"#);
        world.schedule(workflow, &fields).await;
    }
    world.turn(5).await;
    world.turn(10).await;
    world.close();
    for sql in [
        "UPDATE schedules SET declared = '{bad' WHERE id = 1",
        "UPDATE tallies SET count = -1 WHERE minute = (SELECT min(minute) FROM tallies)",
    ] {
        world.place().execute(sql.to_owned()).await;
    }
    world.join(11).await;
    let found = world.store().not_run(NotRunQuery { limit: 10, ..NotRunQuery::default() }).await;
    let names = |row: &store::NotRunRow| row.names.clone().map(|(schedule, _)| schedule);
    let names: Vec<_> = found.unwrap().items.iter().map(names).collect();
    assert_eq!(names, [Some("b".to_owned()), None]);
    assert_eq!(tallies(&world, 0, 60).await, ["10 skipped 2"]);
}
