//! Everything that is stored survives reopening and backups.

use engine::turn::Command;
use store::{EventQuery, RunQuery, ScheduleQuery, Store};

use crate::world::{World, begun, failed, minute, performs};

/// Everything that can be queried, as one text.
async fn picture(store: &dyn Store) -> String {
    let schedules = ScheduleQuery { limit: 100, ..ScheduleQuery::default() };
    let runs = RunQuery { limit: 100, ..RunQuery::default() };
    let workflows = store::WorkflowQuery { limit: 100, ..Default::default() };
    let schedules = store.schedules(schedules).await.unwrap().items;
    let mut text = format!("{schedules:#?}\n{:#?}\n", store.workflows(workflows).await.unwrap());
    for view in schedules {
        let ledger = store::LedgerQuery {
            schedule: view.schedule.id,
            outcome: None,
            from: None,
            to: None,
            limit: 100,
            after: None,
        };
        text += &format!("{:#?}\n", store.ledger(ledger).await.unwrap());
        text += &format!("{:#?}\n", view.overrides);
    }
    for view in store.runs(runs).await.unwrap().items {
        text += &format!("{:#?}\n", store.run(view.run.id).await.unwrap());
    }
    text += &topics_pictured(store).await;
    text + &format!("{:#?}", store.calendars().await.unwrap())
}

pub(crate) async fn topics_pictured(store: &dyn Store) -> String {
    let topics = store::TopicQuery { limit: 100, ..store::TopicQuery::default() };
    let topics = store.topics(topics).await.unwrap().items;
    let mut text = format!("{topics:#?}\n");
    for view in topics {
        let topic = view.topic.id;
        let query = EventQuery { topic, state: None, oldest_first: true, limit: 100, after: None };
        text += &format!("{:#?}\n", store.events(query).await.unwrap());
    }
    let workflows = store::WorkflowQuery { limit: 100, ..Default::default() };
    for view in store.workflows(workflows).await.unwrap().items {
        text += &format!("{:#?}\n", store.handlers(view.workflow.id).await.unwrap());
    }
    let mutations = store::MutationQuery { limit: 100, ..store::MutationQuery::default() };
    text + &format!("{:#?}\n", store.mutations(mutations).await.unwrap())
}

/// Fills the store with a little of everything.
async fn fill(world: &mut World) {
    let text = "name: w\nconcurrency: 3
triggers: [{id: t, type: schedule, cron: '0 * * * *', timezone: Europe/Berlin}]
steps: [{id: a, type: noop}, {id: b, type: noop, depends_on: [a]}]\n";
    let workflow = world.publish(0, text).await;
    let fields = r#"{"name": "s", "interval": "5m", "overlap": "queue", "payload": [1, 2.50]}"#;
    let id = world.schedule(workflow, fields).await;
    let (nominal, by) = (minute(30), "ada".to_owned());
    let action = Some(engine::schedule::OverrideAction::Skip);
    world.command(0, Command::Override { id, nominal, action, by }).await;
    let moment = engine::Moment::new(minute(0), minute(0));
    let spec = r#"{"timezone": "UTC", "hours": {"mon-fri": ["09:00-17:00"]}}"#;
    world.store().put_calendar("mine", spec, moment, None).await.unwrap();
    let turned = world.turn(5).await;
    world.turn_with(6, vec![failed(&performs(&turned)[0])]).await;
    world.turn(10).await;
    world.start(10, workflow).await.unwrap();
    world.turn(10).await;
}

pub(crate) async fn everything_is_there_after_reopening(mut world: World) {
    fill(&mut world).await;
    let before = picture(world.store()).await;
    let due = world.store().stats(minute(10)).await.unwrap().next_wakeup;
    let joined = world.join(10).await;
    assert_eq!(picture(world.store()).await, before);
    assert!(due.is_some() && joined.next_wakeup.is_some());
    world.settle_each(10, 20).await;
    assert_eq!(world.store().check(minute(20), false).await.unwrap(), []);
}

/// A backup has everything that waits, too.
#[tokio::test]
async fn what_waits_is_there_in_a_copy() {
    let place = crate::sqlite::Folder::new(true);
    let world = World::waiting(Box::new(place)).await;
    world.store().backup(world.place().path_for_copy().unwrap()).await.unwrap();
    let copy = world.place().open_copy().unwrap();
    assert_eq!(picture(&*copy).await, picture(world.store()).await);
    assert_eq!(copy.queues().await.unwrap(), world.store().queues().await.unwrap());
    assert_eq!(copy.check(minute(60), false).await.unwrap(), []);
}

/// A backup has topics and handlers, too.
#[tokio::test]
async fn topics_are_there_in_a_copy() {
    let place = crate::sqlite::Folder::new(true);
    let world = World::topical(Box::new(place)).await;
    world.store().backup(world.place().path_for_copy().unwrap()).await.unwrap();
    let copy = world.place().open_copy().unwrap();
    assert_eq!(picture(&*copy).await, picture(world.store()).await);
    assert_eq!(copy.check(minute(60), false).await.unwrap(), []);
}

pub(crate) async fn a_copy_opens_and_equals(mut world: World) {
    fill(&mut world).await;
    let Some(path) = world.place().path_for_copy() else {
        let refused = world.store().backup("copy".into()).await;
        assert!(crate::world::refusal(refused).contains("pg_dump"));
        return;
    };
    let bytes = world.store().backup(path.clone()).await.unwrap();
    assert!(bytes > 0);
    let again = world.store().backup(path).await;
    assert!(crate::world::refusal(again).contains("exists already"));
    let copy = world.place().open_copy().unwrap();
    assert_eq!(picture(&*copy).await, picture(world.store()).await);
    assert_eq!(copy.check(minute(10), false).await.unwrap(), []);
}

pub(crate) async fn what_holds_together_has_no_findings(mut world: World) {
    assert_eq!(world.store().check(minute(0), false).await.unwrap(), []);
    fill(&mut world).await;
    assert_eq!(world.store().check(minute(10), false).await.unwrap(), []);
    assert_eq!(world.store().check(minute(10), true).await.unwrap(), []);
    assert_eq!(begun(&world.turn(10).await), Vec::<String>::new());
}
