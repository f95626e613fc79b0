//! One schedule, run or handler that cannot be read or decided stops nothing else.

use engine::schedule::Status;
use engine::turn::{Answer, Capacity, Command, Verb, Wakeup};
use language::definition::DeclaredBy;
use store::{ApprovalQuery, Failure, RunQuery, TurnRequest, Turned, WorkflowQuery};

use crate::messages::{gave, only, plain};
use crate::world::{World, begun, minute};

/// Takes turns as a driver does: whatever cannot be decided is set aside before the next turn. If
/// it is not known what that is, turns decide one thing each.
pub(crate) async fn drive(world: &World, at: i64) -> Vec<Turned> {
    let (mut turns, mut limit) = (Vec::new(), 1_000);
    for _ in 0..50 {
        let request = TurnRequest {
            moment: engine::Moment::new(minute(at), world.awake_since),
            node: world.node,
            reports: Vec::new(),
            limit,
            begin: None,
            held: Default::default(),
            capacity: Capacity { rescan: limit > 1, ..Capacity::new(2_000) },
            performed: None,
            traced: false,
        };
        match world.store().turn(request).await {
            Ok(turned) => {
                let is_over = turned.next_wakeup.is_none_or(|next| next > minute(at));
                turns.push(turned);
                if is_over && limit > 1 {
                    return turns;
                }
                limit = if is_over { 1_000 } else { limit };
            }
            Err(Failure::Undecidable { what: Some(what), why }) => {
                world.store().set_aside(what, &why, minute(at)).await.unwrap();
            }
            Err(Failure::Undecidable { what: None, .. }) if limit > 1 => limit = 1,
            Err(failure) => panic!("{failure}"),
        }
    }
    panic!("there is always more to do");
}

pub(crate) fn began(turns: &[Turned]) -> Vec<String> {
    turns.iter().flat_map(begun).collect()
}

pub(crate) async fn aside(world: &World) -> Vec<(&'static str, String)> {
    let all = world.store().all_set_aside().await.unwrap();
    all.iter().map(|aside| (aside.kind(), aside.id.clone())).collect()
}

/// Damages the store, and joins again, so that nothing is cached from before the damage.
pub(crate) async fn damage(world: &mut World, at: i64, sql: &str) {
    world.place().execute(sql.to_owned()).await;
    world.join(at).await;
}

pub(crate) async fn a_schedule_that_cannot_be_read_stops_no_other(mut world: World) {
    let workflow = world.workflow("w").await;
    let fields = r#"{"name": "s", "interval": "1h"}"#;
    let (bad, good) =
        (world.schedule(workflow, fields).await, world.schedule(workflow, fields).await);
    let sql = format!("UPDATE schedules SET declared = '{{\"nonsense\":' WHERE id = {bad}");
    damage(&mut world, 1, &sql).await;
    assert_eq!(began(&drive(&world, 60).await), [format!("sched-{good}-n0-rc0")]);
    assert_eq!(aside(&world).await, [("schedule", bad.to_string())]);
    // It stays set aside, and nothing wakes for it.
    world.join(61).await;
    drive(&world, 62).await;
    assert_eq!(aside(&world).await.len(), 1);
    let reason = world.store().all_set_aside().await.unwrap().remove(0).reason;
    assert!(!reason.is_empty());
}

pub(crate) async fn a_run_that_cannot_be_read_stops_no_other(mut world: World) {
    let workflow = world.publish(0, "name: w\nconcurrency: 5\nsteps: [{id: a, type: noop}]").await;
    let bad = world.start(0, workflow).await.unwrap();
    let good = world.start(0, workflow).await.unwrap();
    let sql = "UPDATE {open} SET state = '[' WHERE key = (SELECT min(key) FROM {open})";
    damage(&mut world, 1, sql).await;
    assert_eq!(began(&drive(&world, 1).await), [good.to_string()]);
    assert_eq!(aside(&world).await, [("run", bad.to_string())]);
}

pub(crate) async fn a_consumer_that_cannot_be_read_stops_no_other(mut world: World) {
    let workflow = world.deploy(0, plain("c")).await;
    world.tell(1, "t", &["a"]).await;
    let turned = world.turn(1).await;
    let sleep = serde_json::json!({"wakeAt": minute(60).to_string()});
    world.turn_with(1, vec![gave(&only(&turned), &sleep)]).await;
    let bad = world.handler(workflow, "c").await.id;
    let plain = world.workflow("w").await;
    let good = world.schedule(plain, r#"{"name": "s", "interval": "1h"}"#).await;
    damage(&mut world, 2, &format!("UPDATE handlers SET kind = 9 WHERE id = {}", bad.0)).await;
    assert_eq!(began(&drive(&world, 60).await), [format!("sched-{good}-n0-rc0")]);
    let all = world.store().all_set_aside().await.unwrap();
    assert_eq!(all.iter().map(|aside| aside.what).collect::<Vec<_>>(), [Wakeup::Handler(bad)]);
    // It stays set aside, and nothing wakes for it.
    world.join(61).await;
    drive(&world, 62).await;
    assert_eq!(aside(&world).await.len(), 1);
}

pub(crate) async fn an_occurrence_that_was_run_before_is_not_run_again(mut world: World) {
    let workflow = world.workflow("w").await;
    let fields = r#"{"name": "s", "interval": "1m", "overlap": "allow"}"#;
    let (bad, good) =
        (world.schedule(workflow, fields).await, world.schedule(workflow, fields).await);
    drive(&world, 1).await;
    damage(&mut world, 1, &format!("UPDATE progress SET n = 0 WHERE id = {bad}")).await;
    let began = began(&drive(&world, 2).await);
    assert!(began.contains(&format!("sched-{good}-n1-rc0")), "{began:?}");
    let of_bad = format!("sched-{bad}-");
    let runs = world.runs().await;
    assert_eq!(runs.iter().filter(|run| run.starts_with(&of_bad)).count(), 1, "{runs:?}");
    assert_eq!(aside(&world).await, [("schedule", bad.to_string())]);
}

pub(crate) async fn a_command_about_what_cannot_be_read_says_so(mut world: World) {
    let workflow = world.workflow("w").await;
    let bad = world.schedule(workflow, r#"{"name": "s", "interval": "1h"}"#).await;
    let sql = format!("UPDATE schedules SET declared = '{{' WHERE id = {bad}");
    damage(&mut world, 1, &sql).await;
    drive(&world, 60).await;
    let pause = engine::turn::Command::ControlSchedule { id: bad, verb: engine::turn::Verb::Pause };
    let failure = world.try_command(60, pause).await.unwrap_err();
    assert!(matches!(failure, Failure::Undecidable { .. }), "{failure}");
    assert_eq!(
        world.store().all_set_aside().await.unwrap()[0].what,
        Wakeup::Schedule(bad),
        "still aside"
    );
}

/// The names of workflows, two to a page.
async fn listed(world: &World) -> Vec<String> {
    let (mut names, mut after) = (Vec::new(), None);
    loop {
        let query = WorkflowQuery { limit: 2, after, ..WorkflowQuery::default() };
        let page = world.store().workflows(query).await.unwrap();
        names.extend(page.items.into_iter().map(|view| view.workflow.name));
        match page.next {
            Some(next) => after = Some(next),
            None => return names,
        }
    }
}

const DEFINITION: &str = "triggers:
  - {id: t, type: schedule, interval: 1h}
  - {id: paused, type: schedule, interval: 1h}
steps: [{id: ask, type: human_approval, title: Ship, assignees: [ada]}]";

pub(crate) async fn a_definition_that_cannot_be_read_hides_no_other_and_is_published_again(
    mut world: World,
) {
    let text = |name: &str| format!("name: {name}\n{DEFINITION}\n");
    let mut ids = Vec::new();
    for name in ["a", "b", "c", "d"] {
        ids.push(world.publish(0, &text(name)).await);
        world.start(0, ids[ids.len() - 1]).await.unwrap();
    }
    drive(&world, 1).await;
    let declared = world.store().triggered(ids[0]).await.unwrap();
    let by = Some(DeclaredBy::Trigger("paused".to_owned()));
    let paused = declared.iter().find(|view| view.schedule.declared_by == by);
    let paused = paused.unwrap().schedule.id;
    world.control(1, paused, Verb::Pause).await;
    let [a, b] = [ids[0].0, ids[1].0];
    let sql = format!("UPDATE revisions SET definition = '{{' WHERE workflow IN ({a}, {b})");
    damage(&mut world, 2, &sql).await;

    assert_eq!(listed(&world).await, ["c", "d"], "those on the next page are not hidden");
    let query = RunQuery { limit: 10, ..RunQuery::default() };
    assert_eq!(world.store().runs(query).await.unwrap().items.len(), 4);
    let query = ApprovalQuery { limit: 10, ..ApprovalQuery::default() };
    let asked = world.store().approvals(query).await.unwrap().items;
    let asked: Vec<String> = asked.into_iter().map(|view| view.workflow_name).collect();
    assert_eq!(asked, ["c", "d"]);
    let told = world.store().check(minute(2), false).await.unwrap();
    let told: Vec<&str> = told.iter().map(|finding| finding.message.as_str()).collect();
    let told = told.join("; ");
    assert!(told.contains("revision 1 of workflow a cannot be read"), "{told}");
    assert!(told.contains("punctual apply"), "{told}");

    world.publish(3, &text("a")).await;
    assert_eq!(listed(&world).await, ["a", "c", "d"]);
    assert_eq!(world.workflow_view(ids[0]).await.revision, 2);
    assert_eq!(world.seen(paused).await.status, Status::Paused, "paused by hand, before that");
    let began = began(&drive(&world, 60).await);
    assert!(world.runs().await.len() > 4, "{began:?}");
}

pub(crate) async fn a_workflow_that_cannot_be_read_is_paused_and_archived(mut world: World) {
    let workflow = world.publish(0, &format!("name: a\n{DEFINITION}\n")).await;
    let steps = "[{id: wait, type: timer, delay: 1h}, {id: go, type: noop}]";
    let begun = world.publish(0, &format!("name: b\nsteps: {steps}\n")).await;
    let begun = world.start(0, begun).await.unwrap();
    let performed = world.publish(0, "name: c\nsteps: [{id: go, type: noop}]\n").await;
    let performed = world.start(0, performed).await.unwrap();
    drive(&world, 0).await;
    let pending = world.start(0, workflow).await.unwrap();
    damage(&mut world, 1, "UPDATE revisions SET definition = '{'").await;
    for id in [begun, performed, pending] {
        let reason = "by hand".to_owned();
        world.command(1, Command::CancelRun { id: id.clone(), reason }).await;
        let run = world.store().run(id).await.unwrap().unwrap();
        assert_eq!(run.view.run.status.name(), "cancelled");
    }
    for paused in [true, false] {
        let command = Command::PauseWorkflow { id: workflow, paused, reason: None };
        world.command(1, command).await;
    }
    world.command(2, Command::ArchiveWorkflow(workflow)).await;
    assert!(world.store().triggered(workflow).await.unwrap().is_empty());
}

/// The findings of `check` as text, with what a person is told to do.
async fn told(world: &World, at: i64, repair: bool) -> String {
    let found = world.store().check(minute(at), repair).await.unwrap();
    let told: Vec<String> =
        found.iter().map(|finding| format!("{}: {}", finding.code, finding.message)).collect();
    told.join("; ")
}

pub(crate) async fn a_schedule_that_is_broken_is_deleted(mut world: World) {
    let workflow = world.workflow("w").await;
    let other = world.workflow("other").await;
    let fields = r#"{"name": "s", "interval": "1h"}"#;
    let good = world.schedule(workflow, fields).await;
    // The first two are due when a turn is taken, and the third is not.
    for (at, created, sql, code) in [
        (62, 1, "UPDATE schedules SET declared = '{' WHERE id = ID", "schedule-unreadable"),
        (124, 63, "DELETE FROM progress WHERE id = ID", "schedule-without-progress"),
        (186, 180, "DELETE FROM workflows WHERE id = WORKFLOW", "schedule-without-workflow"),
    ] {
        let bad = world.schedule_at(created, other, fields).await;
        let sql = sql.replace("ID", &bad.0.to_string()).replace("WORKFLOW", &other.0.to_string());
        damage(&mut world, created + 1, &sql).await;
        drive(&world, at).await;
        let said = told(&world, at, true).await;
        assert!(said.contains(code), "{said}");
        assert!(said.contains("punctual schedule delete"), "{said}");
        assert!(!said.contains("--repair"), "{said}");
        let deleted = world.command(at, Command::DeleteSchedules(vec![bad])).await;
        assert_eq!(deleted, Answer::Count(1), "{sql}");
        assert_eq!(aside(&world).await, []);
        let left = told(&world, at, false).await;
        assert!(!left.contains("schedule"), "{sql}: {left}");
        let again = world.command(at, Command::DeleteSchedules(vec![bad])).await;
        assert_eq!(again, Answer::Count(0), "it is gone");
    }
    assert!(world.store().schedule(good).await.unwrap().is_some());
}

pub(crate) async fn a_run_that_cannot_be_read_is_cancelled(mut world: World) {
    let workflow = world.publish(0, "name: w\nconcurrency: 5\nsteps: [{id: a, type: noop}]").await;
    for (at, column) in [(0, "state"), (10, "input")] {
        let bad = world.start(at, workflow).await.unwrap();
        let sql = format!(
            "UPDATE {{open}} SET {column} = '[' WHERE key = (SELECT max(key) FROM {{open}})"
        );
        damage(&mut world, at + 1, &sql).await;
        drive(&world, at + 1).await;
        assert_eq!(aside(&world).await, [("run", bad.to_string())]);
        let said = told(&world, at + 1, true).await;
        assert!(said.contains(&format!("punctual run cancel {bad}")), "{said}");
        assert!(!said.contains("--repair"), "{said}");
        let cancel = Command::CancelRun { id: bad.clone(), reason: "by ada".to_owned() };
        world.command(at + 2, cancel).await;
        assert!(world.runs().await.contains(&format!("{bad} cancelled")), "{column}");
        let ended = world.store().run(bad).await.unwrap().unwrap().view.run;
        let error = ended.error.map(|error| error.message).unwrap_or_default();
        assert!(error.contains("by ada"), "{column}: {error}");
        assert_eq!(aside(&world).await, []);
        assert_eq!(told(&world, at + 2, false).await, "");
    }
}

/// A run that cannot be read does not keep its parent or child from being ended, and hides no other
/// rows.
pub(crate) async fn a_family_of_which_one_cannot_be_read_is_ended(mut world: World) {
    let asks = "[{id: ask, type: human_approval, title: Ship}]";
    world.publish(0, &format!("name: child\nsteps: {asks}\n")).await;
    let parent = "name: parent\nsteps: [{id: call, type: sub_process, workflow: child}]\n";
    let parent = world.publish(0, parent).await;
    let definition = "UPDATE revisions SET definition = '{' WHERE workflow = PARENT";
    let state = "UPDATE {open} SET state = '{' WHERE workflow = PARENT AND key = RUN";
    let state_of_child = "UPDATE {open} SET state = '{' WHERE parent = RUN";
    for (at, sql, first_the_child) in [
        (0, state, true),
        (10, state, false),
        (20, state_of_child, true),
        (30, state_of_child, false),
        (40, definition, true),
        (50, definition, false),
    ] {
        if at == 50 {
            let text = "name: parent\nsteps: [{id: again, type: sub_process, workflow: child}]\n";
            world.publish(at, text).await;
        }
        let run = world.start(at, parent).await.unwrap();
        drive(&world, at).await;
        let parent_key = world.store().run(run.clone()).await.unwrap().unwrap().view.run.key;
        let query = RunQuery { limit: 10, ..RunQuery::default() };
        let runs = world.store().runs(query).await.unwrap().items;
        let is_child =
            |view: &&store::RunView| view.run.parent.is_some_and(|parent| parent.run == parent_key);
        let child = runs.iter().find(is_child).expect("a child").run.id.clone();
        let sql = sql.replace("PARENT", &parent.0.to_string());
        damage(&mut world, at + 1, &sql.replace("RUN", &parent_key.0.to_string())).await;
        let query = ApprovalQuery { limit: 10, ..ApprovalQuery::default() };
        world.store().approvals(query).await.unwrap();
        let order = if first_the_child { [child, run] } else { [run, child] };
        for id in &order {
            let cancel = Command::CancelRun { id: id.clone(), reason: "by ada".to_owned() };
            // The child of a cancelled parent was cancelled with it.
            match world.try_command(at + 2, cancel).await {
                Ok(_) | Err(Failure::Refused(_)) => {}
                Err(failure) => panic!("{sql}: {failure}"),
            }
        }
        for id in order {
            let ended = world.store().run(id).await.unwrap().unwrap().view.run;
            assert!(ended.status.has_ended(), "{sql}: {}", ended.status.name());
        }
    }
}
