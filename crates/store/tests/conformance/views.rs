//! Lists of runs, ledger rows and workflows, and figures.

use engine::ledger::Outcome;
use engine::run::{RunStatus, TriggeredBy};
use engine::schedule::Status;
use store::{Cursor, LedgerQuery, RunQuery, Total, WorkflowQuery};

use crate::world::{World, failed, minute, minutes, performs};

/// All pages of a query, `limit` at a time.
pub(crate) async fn all(world: &World, query: RunQuery, limit: usize) -> Vec<String> {
    let mut found = Vec::new();
    let mut after: Option<Cursor> = None;
    for _ in 0..100 {
        let page = world.store().runs(RunQuery { limit, after, ..query.clone() }).await.unwrap();
        assert!(page.items.len() <= limit);
        found.extend(page.items.iter().map(|view| view.run.id.to_string()));
        after = page.next;
        if after.is_none() {
            return found;
        }
    }
    panic!("the pages do not end");
}

pub(crate) async fn runs_are_listed_by_what_is_asked(mut world: World) {
    let text = "name: one\nsteps: [{id: a, type: noop, retry: {max: 1}}]\n";
    let one = world.publish(0, text).await;
    let two = world.workflow("two").await;
    let schedule = world.schedule(one, r#"{"name": "s", "interval": "5m"}"#).await;
    world.settle_each(5, 10).await;
    let bad = world.start(11, one).await.unwrap();
    let turned = world.turn(11).await;
    world.turn_with(11, vec![failed(&performs(&turned)[0])]).await;
    let going_on = world.start(12, two).await.unwrap();
    world.turn(12).await;
    let (n0, n1) = (format!("sched-{schedule}-n0-rc0"), format!("sched-{schedule}-n1-rc0"));
    let (bad, going_on) = (bad.to_string(), going_on.to_string());

    let any = RunQuery::default;
    for (query, expected) in [
        (any(), vec![&going_on, &bad, &n1, &n0]),
        (RunQuery { workflow: Some(one), ..any() }, vec![&bad, &n1, &n0]),
        (RunQuery { schedule: Some(schedule), ..any() }, vec![&n1, &n0]),
        (RunQuery { status: vec![RunStatus::Failed], ..any() }, vec![&bad]),
        (
            RunQuery { status: vec![RunStatus::Failed, RunStatus::Running], ..any() },
            vec![&going_on, &bad],
        ),
        (RunQuery { status: vec![RunStatus::Succeeded], ..any() }, vec![&n1, &n0]),
        (
            RunQuery { status: vec![RunStatus::Pending, RunStatus::Running], ..any() },
            vec![&going_on],
        ),
        (RunQuery { status: vec![RunStatus::Failed], workflow: Some(two), ..any() }, vec![]),
        (RunQuery { status: vec![RunStatus::Failed], schedule: Some(schedule), ..any() }, vec![]),
        (RunQuery { triggered_by: Some(TriggeredBy::Manual), ..any() }, vec![&going_on, &bad]),
        (RunQuery { since: Some(minute(10)), ..any() }, vec![&going_on, &bad, &n1]),
        (RunQuery { since: Some(minute(10)), workflow: Some(one), ..any() }, vec![&bad, &n1]),
    ] {
        for limit in [1, 2, 50] {
            let found = all(&world, query.clone(), limit).await;
            assert_eq!(found.iter().collect::<Vec<_>>(), expected, "{query:?}");
        }
    }
    let view = world.run(&bad.parse().unwrap()).await.view;
    assert_eq!((view.workflow_name.as_str(), view.run.by.as_deref()), ("one", Some("ada")));
    assert!(world.store().run("sched-9-n0-rc0".parse().unwrap()).await.unwrap().is_none());
}

pub(crate) async fn runs_of_a_schedule_are_paged_without_gaps(mut world: World) {
    let text = "name: w\nsteps: [{id: a, type: noop, retry: {max: 1}}]\n";
    let workflow = world.publish(0, text).await;
    let fields =
        r#"{"name": "s", "cron": "* * * * *", "overlap": "allow", "retry": {"delay": "3m"}}"#;
    let id = world.schedule(workflow, fields).await;
    // The first occurrence fails and is retried after later ones: its retry has a greater key.
    let turned = world.turn(1).await;
    world.turn_with(1, vec![failed(&performs(&turned)[0])]).await;
    for at in 2..=4 {
        world.turn(at).await;
    }
    let run = world.new_run();
    world.command(4, engine::turn::Command::StartSchedule { id, run }).await;
    world.turn(5).await;
    let query = RunQuery { schedule: Some(id), ..RunQuery::default() };
    let whole = all(&world, query.clone(), 50).await;
    assert_eq!(whole.len(), 7, "{whole:?}");
    for limit in 1..8 {
        assert_eq!(all(&world, query.clone(), limit).await, whole, "by {limit}");
    }
}

pub(crate) async fn ledger_rows_are_found_by_their_times(world: World) {
    let workflow = world.workflow("w").await;
    let id = world.schedule(workflow, r#"{"name": "s", "cron": "*/10 * * * *"}"#).await;
    let action = Some(engine::schedule::OverrideAction::Move(minute(45)));
    let (nominal, by) = (minute(20), "ada".to_owned());
    world.command(0, engine::turn::Command::Override { id, nominal, action, by }).await;
    world.settle_each(1, 60).await;
    let any =
        LedgerQuery { schedule: id, outcome: None, from: None, to: None, limit: 2, after: None };
    let (from, to) = (|at| Some(minute(at)), |at| Some(minute(at)));
    // Latest first; 20 was moved to 45 and is found by either time.
    for (query, expected) in [
        (any.clone(), vec![60, 50, 20, 40, 30, 10]),
        (LedgerQuery { outcome: Some(Outcome::Moved), ..any.clone() }, vec![20]),
        (LedgerQuery { outcome: Some(Outcome::Missed), ..any.clone() }, vec![]),
        (LedgerQuery { from: from(50), ..any.clone() }, vec![60, 50]),
        (LedgerQuery { to: to(30), ..any.clone() }, vec![20, 30, 10]),
        (LedgerQuery { from: from(40), to: to(45), ..any.clone() }, vec![20, 40]),
        (LedgerQuery { from: from(61), ..any.clone() }, vec![]),
    ] {
        let mut found = Vec::new();
        let mut after = None;
        loop {
            let page = LedgerQuery { after, ..query.clone() };
            let page = world.store().ledger(page).await.unwrap();
            found.extend(page.items.iter().map(|row| minutes(row.entry.nominal)));
            assert!(page.items.iter().all(|row| row.run.is_some()));
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        assert_eq!(found, expected, "{query:?}");
    }
}

pub(crate) async fn workflows_are_paged_by_name(world: World) {
    for name in ["delta", "alpha", "charlie", "bravo"] {
        world.workflow(name).await;
    }
    let mut names = Vec::new();
    let mut after = None;
    loop {
        let page = world
            .store()
            .workflows(WorkflowQuery { limit: 3, after, ..WorkflowQuery::default() })
            .await
            .unwrap();
        assert_eq!(page.total, Total::Exact(4));
        names.extend(page.items.into_iter().map(|view| view.workflow.name));
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(names, ["alpha", "bravo", "charlie", "delta"]);
}

pub(crate) async fn figures_count_what_is_there(mut world: World) {
    let workflow = world.workflow("w").await;
    world.workflow("other").await;
    for interval in ["5m", "5m", "9m"] {
        let fields = format!(r#"{{"name": "s", "interval": "{interval}"}}"#);
        world.schedule(workflow, &fields).await;
    }
    world.start(0, workflow).await.unwrap();
    let stats = world.store().stats(minute(5)).await.unwrap();
    assert_eq!((stats.workflows, stats.due, stats.next_wakeup), (2, 2, Some(minute(5))));
    assert!(stats.schedules.contains(&(Status::Active, 3)), "{stats:?}");
    assert!(stats.runs.contains(&(RunStatus::Pending, 1)), "{stats:?}");
    assert!(stats.bytes > 0);
    world.turn(5).await;
    let stats = world.store().stats(minute(5)).await.unwrap();
    assert_eq!(stats.due, 0);
    assert!(stats.runs.contains(&(RunStatus::Running, 3)), "{stats:?}");
}
