//! Lists of schedules.

use engine::ScheduleId;
use engine::schedule::Status;
use engine::turn::{Answer, Command, Verb};
use store::{Cursor, Page, ScheduleQuery, ScheduleView, Total};

use crate::world::{World, minute};

async fn page(world: &World, query: ScheduleQuery) -> Page<ScheduleView> {
    world.store().schedules(query).await.unwrap()
}

fn ids(page: &Page<ScheduleView>) -> Vec<ScheduleId> {
    page.items.iter().map(|view| view.schedule.id).collect()
}

/// All pages of a query, `limit` at a time.
async fn all(world: &World, query: ScheduleQuery, limit: usize) -> Vec<ScheduleId> {
    let mut found = Vec::new();
    let mut after: Option<Cursor> = None;
    for _ in 0..100 {
        let page = page(world, ScheduleQuery { limit, after, ..query.clone() }).await;
        assert!(page.items.len() <= limit);
        found.extend(ids(&page));
        after = page.next;
        if after.is_none() {
            return found;
        }
    }
    panic!("the pages do not end");
}

pub(crate) async fn pages_are_stable_under_insertions(world: World) {
    let workflow = world.workflow("w").await;
    let mut known = Vec::new();
    for _ in 0..5 {
        known.push(world.schedule(workflow, r#"{"name": "s", "interval": "5m"}"#).await);
    }
    let query = || ScheduleQuery { limit: 2, ..ScheduleQuery::default() };
    let first = page(&world, query()).await;
    assert_eq!((ids(&first), first.total), (known[..2].to_vec(), Total::Exact(5)));
    let new = world.schedule(workflow, r#"{"name": "s", "interval": "5m"}"#).await;
    world.command(0, Command::DeleteSchedules(vec![known[1]])).await;
    let second = page(&world, ScheduleQuery { after: first.next, ..query() }).await;
    assert_eq!(ids(&second), known[2..4]);
    let third = page(&world, ScheduleQuery { after: second.next, ..query() }).await;
    assert_eq!((ids(&third), third.next), (vec![known[4], new], None));
    let by_offset = page(&world, ScheduleQuery { offset: 3, ..query() }).await;
    assert_eq!(ids(&by_offset), [known[4], new]);
    let beyond = page(&world, ScheduleQuery { offset: 99, ..query() }).await;
    assert_eq!((beyond.items.len(), beyond.total), (0, Total::Exact(5)));
}

pub(crate) async fn deep_pages_begin_where_they_should(world: World) {
    let workflow = world.workflow("w").await;
    let fields = r#"{"name": "s", "interval": "5m"}"#;
    let new = (0..3_000).map(|_| world.new_schedule(workflow, fields)).collect();
    let Answer::Created(created) = world.command(0, Command::CreateSchedules(new)).await else {
        panic!("not created");
    };
    let gone: Vec<ScheduleId> = created.iter().copied().step_by(7).collect();
    world.command(0, Command::DeleteSchedules(gone.clone())).await;
    let left: Vec<ScheduleId> = created.iter().copied().filter(|id| !gone.contains(id)).collect();
    let paused: Vec<ScheduleId> = left.iter().copied().step_by(3).take(40).collect();
    for id in &paused {
        world.control(0, *id, Verb::Pause).await;
    }
    let active: Vec<ScheduleId> = left.iter().copied().filter(|id| !paused.contains(id)).collect();
    for (status, expected) in
        [(None, &left), (Some(Status::Active), &active), (Some(Status::Paused), &paused)]
    {
        for offset in [0, 1, 39, 40, 877, 878, 1_023, 1_024, 1_025, 2_047, 2_048, 2_400, 9_999] {
            let query = ScheduleQuery { status, offset, limit: 3, ..ScheduleQuery::default() };
            let found = ids(&page(&world, query.clone()).await);
            let from = (offset as usize).min(expected.len());
            let to = (from + 3).min(expected.len());
            assert_eq!(found, expected[from..to], "{status:?} from {offset}");
            let search = Some("s".to_owned());
            let found = ids(&page(&world, ScheduleQuery { search, ..query }).await);
            assert_eq!(found, expected[from..to], "s, {status:?} from {offset}");
        }
    }
    assert_eq!(world.store().check(minute(0), false).await.unwrap(), []);
}

pub(crate) async fn filters_and_their_counts_agree(world: World) {
    let (one, two) = (world.workflow("one").await, world.workflow("two").await);
    for (place, workflow) in [one, two, one, two, one].into_iter().enumerate() {
        let id = world.schedule(workflow, r#"{"name": "s", "interval": "5m"}"#).await;
        if place >= 3 {
            world.control(0, id, Verb::Pause).await;
        }
    }
    let gone = world.schedule(one, r#"{"name": "s", "interval": "5m"}"#).await;
    world.command(0, Command::DeleteSchedules(vec![gone])).await;
    for (status, workflow, expected) in [
        (None, None, 5),
        (Some(Status::Active), None, 3),
        (Some(Status::Paused), None, 2),
        (Some(Status::Dead), None, 0),
        (None, Some(one), 3),
        (None, Some(two), 2),
        (Some(Status::Active), Some(one), 2),
        (Some(Status::Paused), Some(two), 1),
        (None, Some(engine::WorkflowId(99)), 0),
    ] {
        let query = ScheduleQuery { status, workflow, ..ScheduleQuery::default() };
        for limit in [1, 2, 50] {
            let found = all(&world, query.clone(), limit).await;
            assert_eq!(found.len(), expected, "{query:?}");
            assert!(found.is_sorted());
        }
        let total = page(&world, ScheduleQuery { limit: 1, ..query.clone() }).await.total;
        assert_eq!(total, Total::Exact(expected as u64), "{query:?}");
    }
}

pub(crate) async fn words_are_found_by_their_beginnings(world: World) {
    let workflow = world.workflow("w").await;
    let mut known = Vec::new();
    for name in ["Nightly report", "Report the reports", "nightly-backup", "Übung 12"] {
        let fields = format!(r#"{{"name": "{name}", "interval": "5m"}}"#);
        known.push(world.schedule(workflow, &fields).await);
    }
    let rename = r#"{"name": "weekly backup"}"#.to_owned();
    for (text, expected) in [
        ("rep", vec![0, 1]),
        ("NIGHT", vec![0, 2]),
        ("night rep", vec![0]),
        ("rep night", vec![0]),
        ("übu", vec![3]),
        ("1", vec![3]),
        ("eport", vec![]),
        ("-", vec![]),
        ("%", vec![]),
        ("nightlyreport", vec![]),
    ] {
        let search = Some(text.to_owned());
        let query = ScheduleQuery { search, ..ScheduleQuery::default() };
        let expected: Vec<ScheduleId> = expected.into_iter().map(|place| known[place]).collect();
        for limit in [1, 50] {
            let mut found = all(&world, query.clone(), limit).await;
            found.sort_unstable();
            assert_eq!(found, expected, "{text} by {limit}");
        }
        let whole = page(&world, ScheduleQuery { limit: 50, ..query.clone() }).await;
        assert_eq!(whole.total, Total::Exact(expected.len() as u64), "{text}: all are shown");
        let first = page(&world, ScheduleQuery { limit: 1, ..query }).await;
        match first.total {
            Total::Exact(total) => assert_eq!(total, expected.len() as u64, "{text}"),
            Total::AtLeast(total) => {
                let possible = first.items.len() as u64..=expected.len() as u64;
                assert!(possible.contains(&total), "{text}: {total}");
            }
        }
    }
    world.command(1, Command::EditSchedule { id: known[2], patch: rename }).await;
    world.command(1, Command::DeleteSchedules(vec![known[0]])).await;
    for (text, expected) in
        [("night", vec![]), ("weekly", vec![known[2]]), ("back", vec![known[2]])]
    {
        let search = Some(text.to_owned());
        let query = ScheduleQuery { search, ..ScheduleQuery::default() };
        assert_eq!(all(&world, query, 50).await, expected, "{text}");
    }
    let query = ScheduleQuery {
        search: Some("rep".to_owned()),
        status: Some(Status::Paused),
        ..ScheduleQuery::default()
    };
    assert_eq!(all(&world, query, 50).await, []);
}

pub(crate) async fn what_is_due_next_comes_first(world: World) {
    let workflow = world.workflow("w").await;
    let mut known = Vec::new();
    for interval in ["3h", "1h", "2h"] {
        let fields = format!(r#"{{"name": "s", "interval": "{interval}"}}"#);
        known.push(world.schedule(workflow, &fields).await);
    }
    let paused = world.schedule(workflow, r#"{"name": "s", "interval": "1m"}"#).await;
    world.control(0, paused, Verb::Pause).await;
    let coming = world.store().coming(2).await.unwrap();
    let coming: Vec<ScheduleId> = coming.iter().map(|view| view.schedule.id).collect();
    assert_eq!(coming, [known[1], known[2]]);
    let asked = vec![known[2], ScheduleId(99), known[0]];
    let found = world.store().schedules_by_id(asked).await.unwrap();
    assert_eq!(found.iter().map(|view| view.schedule.id).collect::<Vec<_>>(), [known[2], known[0]]);
    assert!(found.iter().all(|view| view.workflow_name == "w"));
}
