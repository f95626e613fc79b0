//! Runs with many active steps: in parallel, over time, with workers, people and other runs.

use engine::run::{AttemptEnd, Claimant, RunStatus, StepStatus, TriggeredBy};
use engine::turn::{Answer, Command};
use engine::{RunId, RunKey};
use jiff::SignedDuration;
use serde_json::json;
use store::{ApprovalQuery, ApprovalView, RunQuery};

use crate::process::{approval, child, grace, keys, noop, step, timer, undo, with, worker};
use crate::world::{World, failed, minute, performs, raw, refusal, run_id, succeeded};

pub(crate) async fn steps_go_on_side_by_side(mut world: World) {
    let steps =
        vec![step("a", &[], noop()), step("b", &[], noop()), step("c", &["a", "b"], noop())];
    let workflow = world.process("w", steps).await;
    let run = world.start(0, workflow).await.unwrap();
    let turned = world.turn(0).await;
    assert_eq!(keys(&performs(&turned)), ["a", "b"]);
    let node = world.store().nodes().await.unwrap().pop().unwrap();
    assert_eq!(node.attempts, 2, "of one run");
    // Both attempts are taken over after the restart; a report from before it is refused.
    world.join(1).await;
    let taken_over = world.turn(1).await;
    assert_eq!((taken_over.recovered.taken_over, keys(&performs(&taken_over)).len()), (2, 2));
    assert_eq!(world.turn_with(1, vec![succeeded(&performs(&turned)[0])]).await.refused, 1);
    let [a, b] = &performs(&taken_over)[..] else { panic!("two") };
    assert_eq!(performs(&world.turn_with(2, vec![succeeded(b)]).await).len(), 0);
    world.holds_together().await;
    let turned = world.turn_with(3, vec![succeeded(a)]).await;
    assert_eq!(keys(&performs(&turned)), ["c"]);
    world.turn_with(4, vec![succeeded(&performs(&turned)[0])]).await;
    let detail = world.run(&run).await;
    assert_eq!(detail.view.run.status, RunStatus::Succeeded);
    let ended: Vec<_> = detail.steps.iter().map(|step| (step.step, step.ended_at)).collect();
    assert_eq!(ended, [(0, minute(3)), (1, minute(2)), (2, minute(4))]);
    world.holds_together().await;
}

pub(crate) async fn what_is_done_again_is_known_from_before(mut world: World) {
    let b = with(step("b", &["a"], noop()), "on_error", json!({"goto_step": "a"}));
    let workflow = world.process("w", vec![step("a", &[], noop()), b]).await;
    let run = world.start(0, workflow).await.unwrap();
    let mut performed = performs(&world.turn(0).await);
    for at in [1, 3] {
        performed = performs(&world.turn_with(at, vec![succeeded(&performed[0])]).await);
        let report = if at == 1 { failed(&performed[0]) } else { succeeded(&performed[0]) };
        performed = performs(&world.turn_with(at + 1, vec![report]).await);
    }
    let detail = world.run(&run).await;
    assert_eq!(detail.view.run.status, RunStatus::Succeeded);
    let last: Vec<_> = detail.steps.iter().map(|s| (s.step, s.attempts, s.started_at)).collect();
    assert_eq!(last, [(0, 1, minute(2)), (1, 1, minute(3))]);
    let earlier: Vec<_> =
        detail.earlier.iter().map(|a| (a.step, a.attempt, a.status, a.started_at)).collect();
    let expected =
        [(0, 1, StepStatus::Completed, minute(0)), (1, 1, StepStatus::Failed, minute(1))];
    assert_eq!(earlier, expected);
    world.holds_together().await;
}

pub(crate) async fn a_place_that_is_missing_is_found_later(mut world: World) {
    let steps = vec![step("a", &[], noop()), step("b", &[], noop())];
    let workflow = world.process("w", steps).await;
    let run = world.start(0, workflow).await.unwrap();
    let one = engine::turn::Capacity::new(1);
    let turned = world.try_turn(0, Vec::new(), 10, one).await;
    assert_eq!(keys(&performs(&turned)), ["a"]);
    assert_eq!((world.status(&run).await, turned.capacity.rescan), (RunStatus::Running, true));
    world.holds_together().await;
    let turned = world.try_turn(1, Vec::new(), 10, one).await;
    assert_eq!(keys(&performs(&turned)), ["b"], "though something of it is going on");
    assert_eq!(performs(&world.try_turn(1, Vec::new(), 10, one).await).len(), 0);
}

pub(crate) async fn timers_wait_across_reopening(mut world: World) {
    let steps = vec![step("wait", &[], timer(10)), step("b", &["wait"], noop())];
    let workflow = world.process("w", steps).await;
    let run = world.start(0, workflow).await.unwrap();
    let turned = world.turn(0).await;
    assert_eq!((performs(&turned).len(), turned.next_wakeup), (0, Some(minute(10))));
    assert_eq!(world.status(&run).await, RunStatus::Waiting);
    world.holds_together().await;
    world.join(5).await;
    assert_eq!(performs(&world.turn(9).await).len(), 0);
    let turned = world.turn(10).await;
    assert_eq!(keys(&performs(&turned)), ["b"]);
    let waited = world.run(&run).await.steps[0].output.clone().unwrap();
    assert!(waited.get().contains(r#""waited_seconds":600"#), "{waited}");
}

pub(crate) async fn items_are_done_a_few_at_a_time(mut world: World) {
    let each = json!({"type": "for_each", "items": ["x", "y", "z"], "action": noop(),
                      "max_parallel": 2});
    let workflow = world.process("w", vec![step("each", &[], each)]).await;
    let run = world.start(0, workflow).await.unwrap();
    let first = performs(&world.turn(0).await);
    assert_eq!(keys(&first), ["each/1", "each/2"]);
    let second = performs(&world.turn_with(1, vec![succeeded(&first[1])]).await);
    assert_eq!(keys(&second), ["each/3"]);
    world.turn_with(2, vec![succeeded(&first[0]), succeeded(&second[0])]).await;
    let detail = world.run(&run).await;
    assert_eq!(detail.view.run.status, RunStatus::Succeeded);
    let parts: Vec<i32> = detail.steps.iter().map(|step| step.item.number()).collect();
    assert_eq!(parts, [0, 1, 2, 3]);
    let ok = r#"{"ok":true}"#;
    assert_eq!(detail.steps[0].output.as_ref().unwrap().get(), format!("[{ok},{ok},{ok}]"));
}

pub(crate) async fn workers_take_what_is_queued_the_oldest_first(mut world: World) {
    let steps = vec![step("a", &[], worker("one")), step("b", &[], worker("two"))];
    let workflow = world.process("w", steps).await;
    let mut runs = Vec::new();
    for _ in 0..2 {
        runs.push(world.start(0, workflow).await.unwrap());
    }
    world.turn(0).await;
    assert_eq!(world.queues().await, [("one".to_owned(), 2), ("two".to_owned(), 2)]);
    world.holds_together().await;
    assert_eq!(world.claim(1, &["three"], 5).await.len(), 0);
    assert_eq!(world.claim(1, &[], 5).await.len(), 0);
    let mut order = Vec::new();
    for _ in 0..3 {
        for taken in world.claim(1, &["two", "one", "two"], 1).await {
            order.push((taken.run_id.clone(), taken.step().id.clone()));
        }
    }
    let of = |run: usize, step: &str| (runs[run].clone(), step.to_owned());
    assert_eq!(order, [of(0, "a"), of(0, "b"), of(1, "a")]);
    assert_eq!(world.queues().await, [("two".to_owned(), 1)]);
    assert_eq!(world.claim(1, &["one", "two"], 5).await.len(), 1);
    assert_eq!(world.claim(1, &["one", "two"], 5).await.len(), 0, "each once");
    assert_eq!(world.status(&runs[0]).await, RunStatus::Running);
    world.holds_together().await;
}

pub(crate) async fn an_attempt_is_reported_on_by_its_claimant_alone(mut world: World) {
    let workflow = world.process("w", vec![step("a", &[], worker("q"))]).await;
    let run = world.start(0, workflow).await.unwrap();
    world.turn(0).await;
    let token = world.claim(1, &["q"], 1).await.remove(0).token;
    // The claimant is stored, so it outlives the node that served the claim.
    world.join(1).await;
    world.turn(1).await;
    let other_name = Claimant { name: Some("eve".to_owned()), ..grace() };
    let other_key = Claimant { key: "guessed".to_owned(), ..grace() };
    for (claimant, said) in [(other_name, "with another token"), (other_key, "is too late")] {
        let (lease, of) = (SignedDuration::from_mins(9), claimant.clone());
        let beat = Command::Heartbeat { id: run.clone(), token, claimant: of, lease };
        let end = AttemptEnd::Succeeded { output: raw("1") };
        for command in [beat, Command::EndAttempt { id: run.clone(), token, claimant, end }] {
            let refused = refusal(world.try_command(1, command).await);
            assert!(refused.contains(said), "{refused}");
        }
    }
    assert_eq!(world.turn(1).await.next_wakeup, Some(minute(2)), "no lease was renewed");
    world.end(1, &run, token).await.unwrap();
    assert_eq!(world.status(&run).await, RunStatus::Succeeded);
    world.holds_together().await;
}

pub(crate) async fn a_worker_that_is_silent_loses_its_attempt(mut world: World) {
    let workflow = world.process("w", vec![step("a", &[], worker("q"))]).await;
    let run = world.start(0, workflow).await.unwrap();
    world.turn(0).await;
    let first = world.claim(1, &["q"], 1).await.remove(0);
    // No attempt is the node's own, so a restart takes over nothing.
    world.join(1).await;
    assert_eq!(world.turn(1).await.recovered.taken_over, 0);
    assert_eq!(world.queues().await, []);
    let lease = Answer::Lease { until: minute(3), must_cancel: false };
    assert_eq!(world.heartbeat(2, &run, first.token).await.unwrap(), lease);
    assert_eq!(world.turn(2).await.next_wakeup, Some(minute(3)));
    world.turn(3).await;
    assert_eq!(world.queues().await, [("q".to_owned(), 1)], "it waits for another one");
    world.holds_together().await;
    let late = "is too late";
    assert!(refusal(world.heartbeat(3, &run, first.token).await).contains(late));
    assert!(refusal(world.end(3, &run, first.token).await).contains(late));
    let second = world.claim(4, &["q"], 1).await.remove(0);
    assert!(second.token > first.token);
    assert!(refusal(world.end(4, &run, first.token).await).contains(late));
    assert_eq!(world.status(&run).await, RunStatus::Running);
    world.end(4, &run, second.token).await.unwrap();
    let detail = world.run(&run).await;
    assert_eq!(detail.view.run.status, RunStatus::Succeeded);
    assert_eq!(detail.steps[0].output.as_ref().unwrap().get(), r#"{"by":"worker"}"#);
    assert!(refusal(world.end(4, &run, second.token).await).contains(late));
    world.holds_together().await;
}

pub(crate) async fn a_worker_hears_of_a_cancel(mut world: World) {
    let steps = vec![step("a", &[], worker("q")), step("b", &[], worker("other"))];
    let workflow = world.process("w", steps).await;
    let run = world.start(0, workflow).await.unwrap();
    world.turn(0).await;
    let taken = world.claim(0, &["q"], 1).await.remove(0);
    world.cancel(0, &run).await;
    assert_eq!(world.queues().await, [], "what nobody has taken is given up at once");
    world.holds_together().await;
    let Answer::Lease { must_cancel: true, .. } =
        world.heartbeat(0, &run, taken.token).await.unwrap()
    else {
        panic!("it is not told")
    };
    world.end(0, &run, taken.token).await.unwrap();
    assert_eq!(world.status(&run).await, RunStatus::Cancelled);
}

async fn asked(world: &World) -> Vec<ApprovalView> {
    let query = ApprovalQuery { limit: 100, ..ApprovalQuery::default() };
    world.store().approvals(query).await.unwrap().items
}

pub(crate) async fn people_are_asked_and_decide(mut world: World) {
    let deadline = json!({"limit": {"within": {"elapsed": "PT1H"}}, "from": "enabled",
                          "actions": [{"when": "deadline"}]});
    let steps = vec![
        with(step("ask", &[], approval("Ship it?", &["ada"])), "deadline", deadline),
        step("b", &["ask"], noop()),
    ];
    let workflow = world.process("w", steps).await;
    let run = world.start(0, workflow).await.unwrap();
    world.turn(0).await;
    let view = ApprovalView {
        run: run.clone(),
        workflow_name: "w".to_owned(),
        step: "ask".to_owned(),
        title: "Ship it?".to_owned(),
        description: Some("Is it right?".to_owned()),
        assignees: vec!["ada".to_owned()],
        asked_at: minute(0),
        deadline: Some(minute(60)),
        overdue: false,
    };
    assert_eq!(asked(&world).await, std::slice::from_ref(&view));
    world.join(5).await;
    assert_eq!(asked(&world).await, [view], "after reopening");
    for (names, expected) in [(&["ada"][..], 1), (&["bob", "ada"], 1), (&["bob"], 0), (&["a\0"], 0)]
    {
        let assignees = names.iter().map(|name| (*name).to_owned()).collect();
        let query = ApprovalQuery { assignees, limit: 100, after: None };
        let page = world.store().approvals(query).await.unwrap();
        assert_eq!(page.items.len(), expected, "{names:?}");
    }
    world.holds_together().await;
    let theirs = refusal(world.decide(5, &run, "ask", "bob", true).await);
    assert_eq!(theirs, "This is for ada to decide, not for bob.");
    assert!(refusal(world.decide(5, &run, "x", "ada", true).await).contains("no step x"));
    refusal(world.decide(5, &run, "b", "ada", true).await);
    world.decide(5, &run, "ask", "ada", true).await.unwrap();
    assert_eq!(asked(&world).await, []);
    refusal(world.decide(5, &run, "ask", "ada", false).await);
    assert_eq!(keys(&performs(&world.turn(5).await)), ["b"]);

    let rejected = world.start(6, workflow).await.unwrap();
    world.turn(6).await;
    world.decide(6, &rejected, "ask", "ada", false).await.unwrap();
    let ended = world.run(&rejected).await.view.run;
    assert_eq!((ended.status, ended.error.unwrap().code.as_str()), (RunStatus::Failed, "rejected"));
    let cancelled = world.start(7, workflow).await.unwrap();
    world.turn(7).await;
    assert_eq!(asked(&world).await.len(), 1);
    world.cancel(7, &cancelled).await;
    assert_eq!(asked(&world).await, []);
    world.holds_together().await;
}

pub(crate) async fn a_damaged_approval_hides_no_other(mut world: World) {
    let asks = vec![
        step("a", &[], approval("A", &["ada"])),
        step("b", &[], approval("B", &["bo \"b\" b", "ada"])),
        step("c", &[], approval("C", &["bo"])),
    ];
    let workflow = world.process("w", asks).await;
    world.start(0, workflow).await.unwrap();
    world.turn(0).await;
    world.close();
    let sql = "UPDATE approvals SET assignees = 'x{' WHERE step = 0";
    world.place().execute(sql.to_owned()).await;
    world.join(1).await;
    let query = ApprovalQuery { limit: 9, assignees: vec!["ada".to_owned()], after: None };
    let found = world.store().approvals(query).await.unwrap().items;
    assert_eq!(found.iter().map(|view| view.step.as_str()).collect::<Vec<_>>(), ["b"]);
    // The total counts what is listed.
    let all = ApprovalQuery { limit: 9, ..ApprovalQuery::default() };
    let page = world.store().approvals(all).await.unwrap();
    assert_eq!((page.items.len(), page.total), (2, store::Total::Exact(2)));
}

pub(crate) async fn an_approval_with_an_unreadable_time_can_be_decided(world: World) {
    can_be_decided(world, "UPDATE approvals SET asked_at = 9223372036854775807").await;
}

/// Damage to what is shown of an approval does not hide it.
pub(crate) async fn can_be_decided(mut world: World, damage: &str) {
    let workflow = world.process("w", vec![step("a", &[], approval("A", &["ada"]))]).await;
    world.start(0, workflow).await.unwrap();
    world.turn(0).await;
    world.close();
    world.place().execute(damage.to_owned()).await;
    world.join(1).await;
    let query = ApprovalQuery { limit: 9, assignees: vec!["ada".to_owned()], after: None };
    let found = world.store().approvals(query).await.unwrap().items;
    assert_eq!(found.iter().map(|view| view.step.as_str()).collect::<Vec<_>>(), ["a"], "{damage}");
    assert_eq!(world.store().stats(minute(1)).await.unwrap().approvals, 1);
}

pub(crate) async fn approvals_are_paged_by_run_and_step(mut world: World) {
    let steps = vec![
        step("a", &[], approval("A", &[])),
        step("b", &[], approval("B", &[])),
        step("c", &[], approval("C", &[])),
    ];
    let workflow = world.process("w", steps).await;
    let mut expected = Vec::new();
    for _ in 0..2 {
        let run = world.start(0, workflow).await.unwrap();
        expected.extend(["a", "b", "c"].map(|step| (run.clone(), step.to_owned())));
    }
    world.turn(0).await;
    for limit in [1, 2, 4, 6, 7] {
        let (mut found, mut after) = (Vec::new(), None);
        loop {
            let page = world
                .store()
                .approvals(ApprovalQuery { limit, after, ..ApprovalQuery::default() })
                .await
                .unwrap();
            assert!(page.items.len() <= limit);
            found.extend(page.items.into_iter().map(|view| (view.run, view.step)));
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        assert_eq!(found, expected, "by {limit}");
    }
}

async fn children(world: &World, parent: RunKey) -> Vec<RunId> {
    let query = RunQuery { parent: Some(parent), limit: 10, ..RunQuery::default() };
    let page = world.store().runs(query).await.unwrap();
    page.items.into_iter().map(|view| view.run.id).collect()
}

/// A run of `parent` that waits for a run of `child`, whose attempt is being performed.
async fn with_child(world: &mut World) -> (RunId, RunId, engine::turn::Perform) {
    world.process("child", vec![step("work", &[], noop())]).await;
    let steps = vec![step("a", &[], child("child")), step("b", &["a"], noop())];
    let workflow = world.process("parent", steps).await;
    let parent = world.start(0, workflow).await.unwrap();
    // The child is created with the step that waits for it, and gets capacity at once.
    let turned = world.turn(0).await;
    let key = world.run(&parent).await.view.run.key;
    let children = children(world, key).await;
    let [child] = &children[..] else { panic!("{children:?}") };
    let attempt = match &performs(&turned)[..] {
        [one] => one.clone(),
        none => panic!("{none:?}"),
    };
    (parent, child.clone(), attempt)
}

pub(crate) async fn a_child_that_ends_lets_its_parent_go_on(mut world: World) {
    let (parent, child, attempt) = with_child(&mut world).await;
    assert_eq!(attempt.run_id, child);
    let view = world.run(&child).await.view;
    assert_eq!(view.parent, Some(parent.clone()));
    assert_eq!(
        (view.run.triggered_by, view.run.parent.unwrap().depth),
        (TriggeredBy::SubProcess, 1)
    );
    assert_eq!(world.status(&parent).await, RunStatus::Waiting);
    world.holds_together().await;
    world.join(1).await;
    let attempt = performs(&world.turn(1).await).remove(0);
    let turned = world.turn_with(2, vec![succeeded(&attempt)]).await;
    assert_eq!(keys(&performs(&turned)), ["b"]);
    world.turn_with(3, vec![succeeded(&performs(&turned)[0])]).await;
    let detail = world.run(&parent).await;
    assert_eq!(detail.view.run.status, RunStatus::Succeeded);
    assert_eq!(detail.steps[0].output.as_ref().unwrap().get(), r#"{"ok":true}"#);
    // Both have ended: the child is still found.
    assert_eq!(children(&world, detail.view.run.key).await, [child]);
    world.holds_together().await;
}

pub(crate) async fn a_cancelled_parent_cancels_its_child(mut world: World) {
    let (parent, child, attempt) = with_child(&mut world).await;
    let commanded = world.cancel(1, &parent).await;
    assert!(commanded.effects.iter().any(|effect| effect.is_of(attempt.run, attempt.token)));
    assert_eq!(world.status(&parent).await, RunStatus::Waiting, "for its child");
    world.turn_with(1, vec![succeeded(&attempt)]).await;
    for run in [&child, &parent] {
        assert_eq!(world.status(run).await, RunStatus::Cancelled);
    }
    world.holds_together().await;
}

pub(crate) async fn a_child_that_fails_fails_its_step(mut world: World) {
    let (parent, _, attempt) = with_child(&mut world).await;
    world.turn_with(1, vec![failed(&attempt)]).await;
    let ended = world.run(&parent).await.view.run;
    assert_eq!(ended.status, RunStatus::Failed);
    assert_eq!(ended.error.unwrap().code, "sub_process");
}

pub(crate) async fn a_retry_from_the_failed_step_keeps_what_was_done(mut world: World) {
    let steps = vec![
        step("a", &[], noop()),
        with(step("skipped", &[], noop()), "condition", json!("false")),
        step("b", &["a"], noop()),
    ];
    let workflow = world.process("w", steps).await;
    let run = world.start(0, workflow).await.unwrap();
    let turned = world.turn(0).await;
    let turned = world.turn_with(1, vec![succeeded(&performs(&turned)[0])]).await;
    world.turn_with(2, vec![failed(&performs(&turned)[0])]).await;
    let new = world.new_run();
    let command = Command::RetryRun { id: run.clone(), from_start: false, run: new };
    let again = run_id(&world.command(3, command).await);
    world.join(3).await;
    let turned = world.turn(3).await;
    assert_eq!(keys(&performs(&turned)), ["b"]);
    world.turn_with(4, vec![succeeded(&performs(&turned)[0])]).await;
    let detail = world.run(&again).await;
    assert_eq!(detail.view.run.status, RunStatus::Succeeded);
    let place = |id: &str| detail.definition.graph().index(id).unwrap();
    let of = |id: &str| detail.steps.iter().find(|step| step.step == place(id)).unwrap();
    assert_eq!(of("a").output.as_ref().unwrap().get(), r#"{"ok":true}"#);
    assert_eq!((of("a").ended_at, of("b").ended_at), (minute(1), minute(4)));
    let skipped = of("skipped");
    assert_eq!(skipped.status, StepStatus::Skipped);
    assert_eq!(skipped.reason.as_deref(), Some("its condition does not hold: false"));
}

pub(crate) async fn what_was_done_is_undone_in_reverse_order(mut world: World) {
    let steps = vec![
        with(step("a", &[], noop()), "compensation", undo()),
        with(step("b", &["a"], noop()), "compensation", undo()),
        step("c", &["b"], noop()),
    ];
    let workflow = world.process("w", steps).await;
    let run = world.start(0, workflow).await.unwrap();
    let mut turned = world.turn(0).await;
    for at in [1, 2] {
        turned = world.turn_with(at, vec![succeeded(&performs(&turned)[0])]).await;
    }
    let turned = world.turn_with(3, vec![failed(&performs(&turned)[0])]).await;
    assert_eq!(keys(&performs(&turned)), ["b/undo"]);
    assert_eq!(world.status(&run).await, RunStatus::Running);
    world.holds_together().await;
    // The node that performed the compensation is gone: it is performed again, and its failure then
    // stops nothing.
    world.join(4).await;
    let turned = world.turn(4).await;
    assert_eq!(keys(&performs(&turned)), ["b/undo"]);
    let turned = world.turn_with(5, vec![failed(&performs(&turned)[0])]).await;
    assert_eq!(keys(&performs(&turned)), ["a/undo"]);
    world.turn_with(6, vec![succeeded(&performs(&turned)[0])]).await;
    let detail = world.run(&run).await;
    assert_eq!(detail.view.run.status, RunStatus::Failed);
    let steps = detail.steps.iter().map(|step| (step.step, step.item.number(), step.status));
    let expected = [
        (0, -1, StepStatus::Completed),
        (0, 0, StepStatus::Completed),
        (1, -1, StepStatus::Failed),
        (1, 0, StepStatus::Completed),
        (2, 0, StepStatus::Failed),
    ];
    assert_eq!(steps.collect::<Vec<_>>(), expected);
}

pub(crate) async fn lost_effects_that_undo_are_handed_out_again(mut world: World) {
    let steps =
        vec![with(step("a", &[], noop()), "compensation", undo()), step("b", &["a"], noop())];
    let workflow = world.process("w", steps).await;
    world.start(0, workflow).await.unwrap();
    let turned = world.turn(0).await;
    let turned = world.turn_with(1, vec![succeeded(&performs(&turned)[0])]).await;
    world.turn_with(2, vec![failed(&performs(&turned)[0])]).await;
    let request = store::TurnRequest {
        moment: engine::Moment::new(minute(3), world.awake_since),
        node: world.node,
        reports: Vec::new(),
        limit: 10,
        begin: None,
        held: Default::default(),
        capacity: engine::turn::Capacity::new(10),
        performed: Some(Vec::new()),
        traced: false,
    };
    let found = world.store().turn(request).await.unwrap();
    assert_eq!(keys(&performs(&found)), ["a/undo"]);
    assert_eq!(found.effects.len(), 1, "and nothing is told to end");
}
