//! Copies the embedded store to the shared one: everything is there, and goes on.

use engine::ScheduleId;
use engine::run::RunStatus;
use engine::schedule::OverrideAction;
use engine::turn::{Answer, Command};
use store::{
    ApprovalQuery, AuditQuery, CopySource, Failure, IncidentQuery, LedgerQuery, RunQuery,
    ScheduleQuery, Store, WorkflowQuery, copy_to_postgres,
};

use crate::postgres::Schema;
use crate::process::{approval, step};
use crate::sqlite::Folder;
use crate::world::{World, codes, failed, minute, performs, raw, refusal, succeeded};

/// Everything that can be queried, as text.
async fn all(store: &dyn Store) -> String {
    let schedules = store.schedules(ScheduleQuery { limit: 100, ..ScheduleQuery::default() }).await;
    let schedules = schedules.unwrap();
    let mut text = format!("{schedules:#?}");
    for view in &schedules.items {
        let schedule = view.schedule.id;
        let query =
            LedgerQuery { schedule, outcome: None, from: None, to: None, limit: 100, after: None };
        text += &format!("{:#?}", store.ledger(query).await.unwrap());
        text += &format!("{:#?}", view.overrides);
    }
    let runs = store.runs(RunQuery { limit: 100, ..RunQuery::default() }).await.unwrap();
    for view in &runs.items {
        text += &format!("{:#?}", store.run(view.run.id.clone()).await.unwrap());
        text += &format!("{:#?}", store.alerts(view.run.id.clone()).await.unwrap());
    }
    let incidents = IncidentQuery { limit: 100, ..IncidentQuery::default() };
    text += &format!("{:#?}", store.incidents(incidents).await.unwrap());
    let approvals =
        store.approvals(ApprovalQuery { limit: 100, ..ApprovalQuery::default() }).await.unwrap();
    text += &format!("{approvals:#?}{:#?}", store.queues().await.unwrap());
    text += &crate::keeping::topics_pictured(store).await;
    let audit = store.audit(AuditQuery { limit: 100, ..AuditQuery::default() }).await.unwrap();
    let by_hash = store.token_by_hash([7; 32]).await.unwrap();
    text += &format!("{audit:#?}{:#?}{by_hash:#?}", store.tokens().await.unwrap());
    let workflows =
        store.workflows(WorkflowQuery { limit: 100, ..WorkflowQuery::default() }).await.unwrap();
    text += &format!("{workflows:#?}{:#?}", store.calendars().await.unwrap());
    let (from, to) = (minute(0), minute(10_000));
    text += &format!("{:#?}", store.tallies(from, to).await.unwrap());
    let searched = ScheduleQuery { search: Some("hou".to_owned()), limit: 9, ..Default::default() };
    text + &format!("{:#?}", store.schedules(searched).await.unwrap().total)
}

/// A store with one of everything.
async fn full(folder: &Folder) -> World {
    let mut world = World::busy(Box::new(folder.clone())).await;
    let workflow = world.workflow("odd").await;
    let odd = r#"{"name": "a \\ and — №", "cron": "*/10 * * * *",
                  "payload": {"lines": "a\n\tb\\N", "big": 9007199254740993, "nul": "\u0000"}}"#;
    let id = world.schedule_at(60, workflow, odd).await;
    let action = OverrideAction::Payload(raw(r#"{"x": "\\N"}"#));
    let by = "ada".to_owned();
    let over = Command::Override { id, nominal: minute(90), action: Some(action), by };
    world.command(61, over).await;
    let gone = world.schedule_at(61, workflow, r#"{"name": "gone", "interval": "1h"}"#).await;
    world.command(62, Command::DeleteSchedules(vec![gone])).await;
    let spec = r#"{"hours": {"mon-fri": "09:00-17:00"}}"#;
    world
        .store()
        .put_calendar("works", spec, engine::Moment::new(minute(62), minute(62)), None)
        .await
        .unwrap();
    let audit = store::AuditEntry {
        who: "ada".to_owned(),
        from: None,
        action: "POST /api/v1/tokens".to_owned(),
        target: "/api/v1/tokens".to_owned(),
        detail: Some("ci".to_owned()),
    };
    let token = store::NewToken {
        name: "ci".to_owned(),
        hash: [7; 32],
        roles: vec!["worker".to_owned()],
        queues: Some(vec!["mail".to_owned()]),
        created_by: "ada".to_owned(),
        expires_at: None,
    };
    world.store().create_token(token, minute(62), Some(audit)).await.unwrap();
    world.settle_each(63, 75).await;
    let fails = "name: fails\nsteps: [{id: a, type: noop, retry: {max: 1}}]\n";
    let fails = world.publish(74, fails).await;
    world.start(74, fails).await.unwrap();
    let turned = world.turn(74).await;
    world.turn_with(74, performs(&turned).iter().map(failed).collect()).await;
    world.start(75, workflow).await.unwrap();
    world.turn(75).await;
    world
}

async fn copied(from: &Folder, to: &Schema) -> Result<store::Moved, Failure> {
    copy_to_postgres(CopySource::open(&from.path())?, &to.options()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_is_copied_and_goes_on() {
    let (folder, schema) = (Folder::new(false), Schema::new());
    let world = full(&folder).await;
    let before = all(world.store()).await;
    let in_use = copied(&folder, &schema).await.unwrap();
    assert!(in_use.source_in_use);
    drop(world);
    let again = copied(&folder, &schema).await;
    assert!(refusal(again).contains("in use already"));
    let schema = Schema::new();
    let moved = copied(&folder, &schema).await.unwrap();
    assert!(!moved.source_in_use);
    let rows = |name: &str| moved.tables.iter().find(|table| table.name == name).unwrap().rows;
    assert_eq!((rows("workflows"), rows("schedules"), rows("overrides")), (4, 2, 1));
    assert_eq!(rows("incidents"), 1);
    assert_eq!((rows("open_runs") > 0, rows("ended_runs") > 0), (true, true));

    let mut world = World::new(Box::new(schema)).await;
    assert_eq!(all(world.store()).await, before);
    assert_eq!(codes(world.store().check(minute(75), false).await.unwrap()), []);
    // Attempts that were performed there are taken over here, and ids are not given again.
    world.join(76).await;
    let turned = world.turn(76).await;
    assert!(turned.recovered.taken_over > 0);
    world.turn_with(76, performs(&turned).iter().map(succeeded).collect()).await;
    world.settle_each(77, 100).await;
    let runs = world.store().runs(RunQuery { limit: 100, ..RunQuery::default() }).await.unwrap();
    assert!(runs.items.iter().all(|view| view.run.status != RunStatus::Running), "{runs:#?}");
    let new = world.new_schedule(engine::WorkflowId(1), r#"{"name": "new", "interval": "1h"}"#);
    let answer = world.command(101, Command::CreateSchedules(vec![new])).await;
    assert_eq!(answer, Answer::Created(vec![ScheduleId(4)]));
    assert_eq!(codes(world.store().check(minute(101), false).await.unwrap()), []);
    let token = store::NewToken {
        name: "another".to_owned(),
        hash: [8; 32],
        roles: Vec::new(),
        queues: None,
        created_by: "ada".to_owned(),
        expires_at: None,
    };
    let made = world.store().create_token(token, minute(101), None).await.unwrap();
    assert_eq!(made.id, 2, "ids go on");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_waits_is_copied_and_goes_on() {
    let (folder, schema) = (Folder::new(false), Schema::new());
    let world = World::waiting(Box::new(folder.clone())).await;
    let before = all(world.store()).await;
    drop(world);
    let moved = copied(&folder, &schema).await.unwrap();
    let rows = |name: &str| moved.tables.iter().find(|table| table.name == name).unwrap().rows;
    assert_eq!((rows("queue"), rows("approvals"), rows("alerts")), (2, 2, 1));
    let mut world = World::new(Box::new(schema)).await;
    assert_eq!(all(world.store()).await, before);
    world.holds_together().await;
    world.join(76).await;
    assert_eq!(world.claim(76, &["q"], 10).await.len(), 2);
    let lost = world.turn(76).await;
    assert!(!performs(&lost).is_empty());
    world.holds_together().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn topics_are_copied_and_go_on() {
    let (folder, schema) = (Folder::new(false), Schema::new());
    let world = World::topical(Box::new(folder.clone())).await;
    let before = all(world.store()).await;
    drop(world);
    let moved = copied(&folder, &schema).await.unwrap();
    let rows = |name: &str| moved.tables.iter().find(|table| table.name == name).unwrap().rows;
    assert_eq!((rows("topics"), rows("events"), rows("messages")), (5, 7, 7));
    assert_eq!((rows("handlers"), rows("subscriptions"), rows("waits")), (4, 4, 1));
    assert!(rows("mutations") > 0);
    let mut world = World::new(Box::new(schema)).await;
    assert_eq!(all(world.store()).await, before);
    world.holds_together().await;
    // A waiting step takes an event that is published here, and keys are not given again.
    world.join(2).await;
    world.turn(2).await;
    assert_eq!(world.tell(3, "w", &["b"]).await, (1, 0));
    assert_eq!(world.counts("w").await, [0, 0, 1, 0]);
    assert_eq!(world.tell(3, "s", &["b"]).await, (1, 0));
    world.holds_together().await;
}

/// PostgreSQL cannot store the character NUL in a text.
#[tokio::test(flavor = "multi_thread")]
async fn odd_texts_are_copied_as_far_as_they_can_be() {
    let title = async |world: &World| {
        let query = ApprovalQuery { limit: 1, ..ApprovalQuery::default() };
        world.store().approvals(query).await.unwrap().items.remove(0).title
    };
    let ask = async |place: Box<dyn crate::world::Place>| {
        let mut world = World::new(place).await;
        let steps = vec![step("ask", &[], approval("odd\0\\N\t—", &[]))];
        let workflow = world.process("w", steps).await;
        world.start(0, workflow).await.unwrap();
        world.turn(0).await;
        world
    };
    let (folder, schema) = (Folder::new(false), Schema::new());
    let world = ask(Box::new(folder.clone())).await;
    assert_eq!(title(&world).await, "odd\0\\N\t—");
    drop(world);
    copied(&folder, &schema).await.unwrap();
    for world in [World::new(Box::new(schema)).await, ask(Box::new(Schema::new())).await] {
        assert_eq!(title(&world).await, "odd\u{fffd}\\N\t—");
        world.holds_together().await;
    }
}

#[tokio::test]
async fn nothing_is_copied_from_a_file_that_is_no_store() {
    let (folder, schema) = (Folder::new(false), Schema::new());
    std::fs::write(folder.path(), "no store").unwrap();
    assert!(copied(&folder, &schema).await.is_err());
    let nowhere = std::path::Path::new("/nowhere/x.db");
    assert!(CopySource::open(nowhere).is_err());
}
