//! Versions of workflows, and the schedules that their triggers declare.

use engine::schedule::{Schedule, Status};
use engine::turn::{Answer, Command, Verb, WorkflowStatus};
use engine::{ScheduleId, WorkflowId};
use language::definition::DeclaredBy;

use crate::world::{World, begun, failed, performs, refusal, succeeded};

fn save(world: &World, text: &str, publish: bool) -> Command {
    let definition = world.definition(text);
    Command::SaveWorkflow { source: text.to_owned(), definition, publish, folder: None }
}

async fn triggered(world: &World, workflow: WorkflowId, trigger: &str) -> Option<Schedule> {
    let found = world.store().triggered(workflow).await.unwrap();
    let mut schedules = found.into_iter().map(|view| view.schedule);
    let by = Some(DeclaredBy::Trigger(trigger.to_owned()));
    schedules.find(|schedule| schedule.declared_by == by)
}

async fn id_of(world: &World, workflow: WorkflowId, trigger: &str) -> ScheduleId {
    triggered(world, workflow, trigger).await.unwrap().id
}

const STEPS: &str = "steps: [{id: a, type: noop}]\n";

pub(crate) async fn the_same_definition_is_no_new_revision(world: World) {
    let text = format!("name: w\n{STEPS}");
    let other = format!("name: w\ndescription: more\n{STEPS}");
    // The text, whether it is published, the revision, whether the workflow is new, and the live
    // revision.
    for (text, publish, revision, is_new, live) in [
        (&text, false, 1, true, None),
        (&text, false, 1, false, None),
        (&text, true, 1, false, Some(1)),
        (&other, false, 2, false, Some(1)),
        (&other, true, 2, false, Some(2)),
        (&text, true, 3, false, Some(3)),
    ] {
        let answer = world.command(0, save(&world, text, publish)).await;
        let Answer::Workflow { id, .. } = answer else { panic!("{answer:?}") };
        assert_eq!(answer, Answer::Workflow { id, revision, is_new });
        let view = world.workflow_view(id).await;
        assert_eq!((view.workflow.newest, view.workflow.live), (revision, live));
    }
    let by_name = |revision| world.store().workflow("w", revision);
    assert_eq!(by_name(None).await.unwrap().unwrap().source, text);
    assert_eq!(by_name(Some(2)).await.unwrap().unwrap().source, other);
    assert!(by_name(Some(9)).await.unwrap().is_none());
    assert!(world.store().workflow("nobody", None).await.unwrap().is_none());
}

pub(crate) async fn triggers_move_with_the_published_revision(world: World) {
    let first = format!(
        "name: w\ntriggers:
  - {{id: same, type: schedule, interval: 10m}}
  - {{id: changed, type: schedule, interval: 10m}}
  - {{id: removed, type: schedule, interval: 10m}}\n{STEPS}"
    );
    let workflow = world.publish(0, &first).await;
    world.settle(10).await;
    let same = id_of(&world, workflow, "same").await;
    let changed = id_of(&world, workflow, "changed").await;
    let removed = id_of(&world, workflow, "removed").await;
    world.schedule(workflow, r#"{"name": "by hand", "interval": "1h"}"#).await;
    let declared = world.store().triggered(workflow).await.unwrap();
    let declared: Vec<ScheduleId> = declared.iter().map(|view| view.schedule.id).collect();
    assert_eq!(declared, [same, changed, removed], "not what somebody else has made");
    let second = format!(
        "name: w\ntriggers:
  - {{id: new, type: schedule, interval: 3m}}
  - {{id: changed, type: schedule, interval: 7m}}
  - {{id: same, type: schedule, interval: 10m}}\n{STEPS}"
    );
    let saved = world.command(12, save(&world, &second, false)).await;
    assert_eq!(world.next(changed).await, Some(20), "what is not published changes nothing");
    assert!(matches!(saved, Answer::Workflow { revision: 2, .. }));
    world.command(12, Command::PublishWorkflow(workflow)).await;

    let unchanged = world.seen(same).await;
    assert_eq!((world.next(same).await, unchanged.progress.n), (Some(20), 1));
    assert_eq!(unchanged.progress.run_count, 1);
    let moved = world.seen(changed).await;
    assert_eq!((world.next(changed).await, moved.progress.n), (Some(19), 1));
    assert!(world.store().schedule(removed).await.unwrap().is_none());
    let new = id_of(&world, workflow, "new").await;
    assert_eq!((world.next(new).await, world.seen(new).await.progress.n), (Some(15), 0));
    assert_eq!(world.workflow_view(workflow).await.schedules, 4);
    // Each schedule wakes at its own time and at no other.
    world.settle_each(12, 30).await;
    assert_eq!(world.ledger(same).await, ["0 started 10", "1 started 20", "2 started 30"]);
    assert_eq!(world.ledger(changed).await, ["0 started 10", "1 started 19", "2 started 26"]);
    assert_eq!(world.ledger(removed).await, ["0 started 10"]);

    let edit = Command::EditSchedule { id: same, patch: r#"{"interval": "1m"}"#.to_owned() };
    let said = refusal(world.try_command(30, edit).await);
    assert!(said.contains("trigger same"), "{said}");
}

pub(crate) async fn a_trigger_is_disabled_by_its_definition_or_by_hand(world: World) {
    let text = |enabled: bool, more: &str| {
        let trigger = format!("{{id: t, type: schedule, interval: 10m, enabled: {enabled}}}");
        format!("name: w\n{more}triggers: [{trigger}]\n{STEPS}")
    };
    let workflow = world.publish(0, &text(false, "")).await;
    let id = id_of(&world, workflow, "t").await;
    assert_eq!((world.seen(id).await.status, world.next(id).await), (Status::Paused, None));
    world.publish(1, &text(true, "")).await;
    assert_eq!((world.seen(id).await.status, world.next(id).await), (Status::Active, Some(11)));
    world.control(2, id, Verb::Disable).await;
    world.publish(3, &text(true, "description: other\n")).await;
    assert_eq!(world.seen(id).await.status, Status::Paused, "what a hand paused stays paused");
    world.control(4, id, Verb::Enable).await;
    assert_eq!(world.next(id).await, Some(14));
    assert_eq!(id_of(&world, workflow, "t").await, id);
}

pub(crate) async fn an_archived_workflow_keeps_its_history_alone(mut world: World) {
    let text = format!("name: w\ntriggers: [{{id: t, type: schedule, interval: 10m}}]\n{STEPS}");
    let workflow = world.publish(0, &text).await;
    let trigger = id_of(&world, workflow, "t").await;
    let own = world.schedule(workflow, r#"{"name": "own", "interval": "10m"}"#).await;
    let turned = world.turn(10).await;
    world.command(11, Command::ArchiveWorkflow(workflow)).await;
    let view = world.workflow_view(workflow).await;
    assert_eq!((view.workflow.status, view.schedules), (WorkflowStatus::Archived, 0));
    for id in [trigger, own] {
        assert!(world.store().schedule(id).await.unwrap().is_none());
        assert_eq!(world.ledger(id).await, ["0 started 10"]);
    }
    let reports = performs(&turned).iter().map(succeeded).collect();
    let turned = world.turn_with(12, reports).await;
    assert_eq!(turned.next_wakeup, None, "nothing is left to wake up for");
    assert!(world.runs().await.iter().all(|run| run.ends_with("succeeded")));
    let said = refusal(world.start(12, workflow).await);
    assert!(said.contains("no published version"), "{said}");
    let again = world.try_command(12, Command::ArchiveWorkflow(workflow)).await;
    assert!(refusal(again).contains("that is archived"));
    let new = world.new_schedule(workflow, r#"{"name": "s", "interval": "5m"}"#);
    refusal(world.try_command(12, Command::CreateSchedules(vec![new])).await);
    // An archived workflow that is published again is in use again.
    world.command(13, Command::PublishWorkflow(workflow)).await;
    let trigger = id_of(&world, workflow, "t").await;
    assert_eq!(world.next(trigger).await, Some(23));
}

pub(crate) async fn nothing_of_a_paused_workflow_starts_but_by_hand(mut world: World) {
    let workflow = world.workflow("w").await;
    let id = world.schedule(workflow, r#"{"name": "s", "interval": "10m"}"#).await;
    let pause = |paused| Command::PauseWorkflow { id: workflow, paused, reason: None };
    refusal(world.try_command(1, pause(false)).await);
    world.command(1, pause(true)).await;
    refusal(world.try_command(1, pause(true)).await);
    world.settle(10).await;
    let by_hand = world.start(11, workflow).await.unwrap();
    assert_eq!(begun(&world.turn(11).await), [by_hand.to_string()]);
    world.command(12, pause(false)).await;
    world.settle(20).await;
    assert_eq!(world.ledger(id).await, ["0 skipped 10", "1 started 20"]);
}

pub(crate) async fn what_waits_in_a_paused_workflow_is_dropped(world: World) {
    let text = "name: w\nsteps: [{id: a, type: noop, retry: {max: 1}}]\n";
    let workflow = world.publish(0, text).await;
    let once = r#"{"name": "once", "at": "2026-03-02T00:10Z", "retry": {"delay": "30m"}}"#;
    let retried = world.schedule(workflow, once).await;
    let queue = r#"{"name": "often", "interval": "10m", "overlap": "queue"}"#;
    let queued = world.schedule(workflow, queue).await;
    let turned = world.turn(10).await;
    let [bad, long] = &performs(&turned)[..] else { panic!("{turned:?}") };
    world.turn_with(10, vec![failed(bad)]).await;
    world.turn(15).await;
    world.turn(19).await;
    world.command(19, Command::PauseWorkflow { id: workflow, paused: true, reason: None }).await;
    assert_eq!(world.seen(retried).await.progress.active.len(), 1, "it waits to be tried again");
    world.turn_with(19, vec![succeeded(long)]).await;
    world.settle_each(20, 50).await;
    assert_eq!(world.ledger(retried).await, ["0 dropped 10"]);
    assert_eq!(world.seen(retried).await.status, Status::Done);
    let ledger = world.ledger(queued).await;
    assert_eq!(ledger[..3], ["0 started 10", "1 skipped 20", "2 skipped 30"]);
    assert_eq!(world.runs().await.len(), 2);
}

pub(crate) async fn a_queue_stands_still_while_its_workflow_is_paused(world: World) {
    let workflow = world.workflow("w").await;
    let queue =
        r#"{"name": "often", "interval": "10m", "overlap": "queue", "timeout_seconds": 3600}"#;
    let id = world.schedule(workflow, queue).await;
    let turned = world.turn(10).await;
    world.turn(20).await;
    assert_eq!(world.ledger(id).await, ["0 started 10", "1 queued 20"]);
    world.command(20, Command::PauseWorkflow { id: workflow, paused: true, reason: None }).await;
    let turned = world.turn_with(21, vec![succeeded(&performs(&turned)[0])]).await;
    assert_eq!(begun(&turned), Vec::<String>::new());
    assert_eq!(world.ledger(id).await, ["0 started 10", "1 dropped 20"]);
    assert_eq!(turned.next_wakeup, Some(crate::world::minute(30)), "nothing is looked at again");
}

pub(crate) async fn a_bad_trigger_stores_nothing(world: World) {
    let text = format!(
        "name: w\ntriggers: [{{id: t, type: schedule, cron: '0 9 * * *', calendar: mine}}]\n{STEPS}"
    );
    let spec = r#"{"timezone": "UTC", "hours": {"mon-fri": ["09:00-17:00"]}}"#;
    let moment = engine::Moment::new(crate::world::minute(0), crate::world::minute(0));
    world.store().put_calendar("mine", spec, moment, None).await.unwrap();
    let command = save(&world, &text, true);
    world.store().delete_calendar("mine", moment, None).await.unwrap();
    refusal(world.try_command(0, command).await);
    assert!(world.store().workflow("w", None).await.unwrap().is_none());
    assert_eq!(world.turn(1_000).await.claimed, 0);
}

pub(crate) async fn runs_keep_the_version_they_began_with(mut world: World) {
    let one = world
        .publish(0, "name: w\nsteps: [{id: a, type: noop}, {id: b, type: noop, depends_on: [a]}]\n")
        .await;
    let run = world.start(0, one).await.unwrap();
    let turned = world.turn(0).await;
    world.publish(1, "name: w\nsteps: [{id: c, type: noop}]\n").await;
    let turned = world.turn_with(2, vec![succeeded(&performs(&turned)[0])]).await;
    assert_eq!(performs(&turned)[0].idempotency_key(), format!("{run}/b"));
    world.turn_with(3, vec![succeeded(&performs(&turned)[0])]).await;
    let detail = world.run(&run).await;
    assert_eq!((detail.view.run.version, detail.steps.len()), (1, 2));
    let next = world.start(3, one).await.unwrap();
    assert_eq!(world.run(&next).await.view.run.version, 2);
}
