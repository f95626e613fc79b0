//! The actions of deadlines happen once each, and are recorded.

use engine::run::RunStatus;
use jiff::SignedDuration;
use language::definition::DeadlineEnd;
use serde_json::{Value, json};
use store::{AlertView, ApprovalQuery, RunQuery};

use crate::process::{noop, step, timer, with};
use crate::world::{World, minute, minutes};

fn deadline(actions: &Value) -> Value {
    json!({"limit": {"within": {"elapsed": "PT10M"}}, "from": "enabled", "actions": actions})
}

async fn alerts(world: &World, run: &engine::RunId) -> Vec<AlertView> {
    world.store().alerts(run.clone()).await.unwrap()
}

async fn overdue(world: &World) -> Vec<String> {
    let query = RunQuery { overdue: Some(true), limit: 10, ..RunQuery::default() };
    let page = world.store().runs(query).await.unwrap();
    page.items.into_iter().map(|view| view.run.id.to_string()).collect()
}

pub(crate) async fn alerts_come_once_and_are_recorded(mut world: World) {
    let actions = json!([
        {"when": {"share": 50.0}, "notify": [{"webhook": "https://example.com/x"}]},
        {"when": "deadline", "start": "nowhere"},
        {"when": {"after": {"elapsed": "PT5M"}}, "end": "fail"},
    ]);
    let definition = json!({"name": "w", "steps": [step("wait", &[], timer(600))],
                            "deadline": deadline(&actions)});
    let workflow = world.process_with(definition).await;
    let run = world.start(0, workflow).await.unwrap();
    assert_eq!(world.turn(0).await.next_wakeup, Some(minute(5)));
    world.settle(4).await;
    assert_eq!(alerts(&world, &run).await, []);
    world.settle(5).await;
    world.settle(5).await;
    world.join(6).await;
    world.settle(6).await;
    let first = alerts(&world, &run).await;
    let [told] = &first[..] else { panic!("{first:?}") };
    assert_eq!((minutes(told.at), minutes(told.due), minutes(told.happened_at)), (5, 10, 5));
    let [notice] = &told.started[..] else { panic!("{told:?}") };
    let view = world.run(notice).await.view;
    assert_eq!((view.workflow_name.as_str(), view.parent), ("punctual-notice", Some(run.clone())));
    assert_eq!(view.run.status, RunStatus::Succeeded);
    assert_eq!(overdue(&world).await, Vec::<String>::new());

    // The node sleeps through two of the actions.
    world.settle(15).await;
    let all = alerts(&world, &run).await;
    assert_eq!(all[0], *told);
    let [at_deadline, after] = &all[1..] else { panic!("{all:?}") };
    assert_eq!((minutes(at_deadline.at), minutes(at_deadline.happened_at)), (10, 15));
    assert_eq!(at_deadline.refused.as_deref(), Some("there is no workflow nowhere"));
    assert_eq!((minutes(after.at), after.ended), (15, Some(DeadlineEnd::Fail)));
    let ended = world.run(&run).await.view.run;
    assert_eq!((ended.status, ended.overdue), (RunStatus::Failed, true));
    assert_eq!(ended.error.unwrap().code, "deadline");
    assert_eq!(overdue(&world).await, [run.to_string()]);
    let in_time = RunQuery { overdue: Some(false), limit: 10, ..RunQuery::default() };
    let in_time = world.store().runs(in_time).await.unwrap().items;
    assert!(!in_time.is_empty() && in_time.iter().all(|view| view.run.id != run));
    world.settle(30).await;
    assert_eq!(alerts(&world, &run).await.len(), 3);
    world.holds_together().await;
}

pub(crate) async fn those_of_one_instant_are_told_by_one_workflow(mut world: World) {
    let actions = json!([{"when": "deadline", "notify": [{"slack": "https://example.com/a"},
                                                        {"email": "ada@example.com"}]}]);
    let definition = json!({"name": "w", "steps": [step("wait", &[], timer(600))],
                            "deadline": deadline(&actions)});
    let workflow = world.process_with(definition).await;
    let runs = [world.start(0, workflow).await.unwrap(), world.start(0, workflow).await.unwrap()];
    world.settle(0).await;
    world.settle(10).await;
    let mut told = Vec::new();
    for run in &runs {
        for notice in &alerts(&world, run).await[0].started {
            let view = world.run(notice).await.view;
            assert_eq!(view.run.status, RunStatus::Succeeded);
            told.push((view.run.workflow, view.workflow_name));
        }
    }
    assert_eq!(told.len(), 4);
    told.dedup();
    assert_eq!((told.len(), told[0].1.as_str()), (1, "punctual-notice"));
    world.holds_together().await;
}

pub(crate) async fn a_step_that_is_late_is_flagged(mut world: World) {
    let late = deadline(&json!([{"when": "deadline"}, {"when": {"before": {"elapsed": "PT1M"}}}]));
    let steps = vec![with(step("wait", &[], timer(20)), "deadline", late), step("b", &[], noop())];
    let workflow = world.process("w", steps).await;
    let run = world.start(0, workflow).await.unwrap();
    for at in [0, 9, 10, 20] {
        world.settle(at).await;
    }
    let all = alerts(&world, &run).await;
    let seen: Vec<_> = all.iter().map(|a| (a.step.as_deref(), a.action, minutes(a.at))).collect();
    assert_eq!(seen, [(Some("wait"), 1, 9), (Some("wait"), 0, 10)]);
    let detail = world.run(&run).await;
    let flags: Vec<bool> = detail.steps.iter().map(|step| step.overdue).collect();
    assert_eq!((flags, detail.view.run.overdue), (vec![true, false], true));
    assert_eq!(detail.view.run.status, RunStatus::Succeeded);
    // A run that is not stored has no alerts.
    let unknown = "sched-9-n0-rc0".parse().unwrap();
    assert_eq!(alerts(&world, &unknown).await, []);
}

pub(crate) async fn what_is_late_is_found_among_runs(mut world: World) {
    let late = deadline(&json!([{"when": "deadline"}]));
    let workflow = world
        .process_with(
            json!({"name": "w", "steps": [step("wait", &[], timer(20))], "deadline": late}),
        )
        .await;
    world.process("other", vec![step("a", &[], noop())]).await;
    let mut runs = Vec::new();
    for at in [0, 5, 15] {
        runs.push(world.start(at, workflow).await.unwrap().to_string());
        world.settle(at).await;
    }
    world.settle(20).await;
    // The first run has ended, the second is late, the third still has time.
    let (waiting, succeeded) = (RunStatus::Waiting, RunStatus::Succeeded);
    for (status, workflow, expected) in [
        (vec![], None, vec![&runs[1], &runs[0]]),
        (vec![], Some(workflow), vec![&runs[1], &runs[0]]),
        (vec![], Some(engine::WorkflowId(99)), vec![]),
        (vec![waiting], None, vec![&runs[1]]),
        (vec![waiting], Some(workflow), vec![&runs[1]]),
        (vec![succeeded], None, vec![&runs[0]]),
        (vec![RunStatus::Failed], None, vec![]),
        (vec![RunStatus::Failed, waiting, succeeded], Some(workflow), vec![&runs[1], &runs[0]]),
    ] {
        for limit in [1, 2, 10] {
            let (mut found, mut after) = (Vec::new(), None);
            loop {
                let query = RunQuery {
                    overdue: Some(true),
                    status: status.clone(),
                    workflow,
                    limit,
                    after,
                    ..RunQuery::default()
                };
                let page = world.store().runs(query.clone()).await.unwrap();
                found.extend(page.items.iter().map(|view| view.run.id.to_string()));
                // None of the runs was started by another run.
                let parent = Some(engine::RunKey(1));
                let children = RunQuery { parent, ..query };
                assert_eq!(world.store().runs(children).await.unwrap().items.len(), 0);
                after = page.next;
                if after.is_none() {
                    break;
                }
            }
            assert_eq!(found.iter().collect::<Vec<_>>(), expected, "{status:?} by {limit}");
        }
    }
}

pub(crate) async fn an_approval_is_overdue_with_its_run(mut world: World) {
    let asks = "name: asks\ndeadline: {within: 10m}\nsteps:\n  \
                - {id: a, type: human_approval, title: May I, deadline: {within: 1h}}\n";
    let workflow = world.publish(0, asks).await;
    world.start(0, workflow).await.unwrap();
    for (at, is_overdue) in [(0, false), (10, true)] {
        world.settle(at).await;
        let query = ApprovalQuery { limit: 10, ..ApprovalQuery::default() };
        let asked = world.store().approvals(query).await.unwrap().items.remove(0);
        assert_eq!((asked.deadline, asked.overdue), (Some(minute(10)), is_overdue));
    }
}

pub(crate) async fn alerts_go_with_their_runs(mut world: World) {
    let late = deadline(&json!([{"when": "deadline"}]));
    let definition =
        json!({"name": "w", "steps": [step("wait", &[], timer(20))], "deadline": late});
    let workflow = world.process_with(definition).await;
    let run = world.start(0, workflow).await.unwrap();
    for at in [0, 10, 20] {
        world.settle(at).await;
    }
    assert_eq!(alerts(&world, &run).await.len(), 1);
    let expired = world.store().expire(minute(30), SignedDuration::ZERO, 10).await.unwrap();
    assert!(expired.removed > 0);
    assert_eq!(alerts(&world, &run).await, []);
    assert!(world.store().run(run).await.unwrap().is_none());
    world.holds_together().await;
}
