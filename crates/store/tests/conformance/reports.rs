//! Reports and heartbeats of workers that arrive at the same time.

use engine::run::{AttemptEnd, Claimant, RunStatus};
use engine::turn::Command;
use futures_util::future::join_all;
use jiff::SignedDuration;
use store::Failure;

use crate::panics::{LAST, plant};
use crate::process::{grace, step, worker};
use crate::set_aside::damage;
use crate::world::{World, begun, minute, performs, raw, refusal, succeeded};

/// How many runs are reported on at once: more than a store has connections for commands.
const MANY: usize = 60;

pub(crate) async fn those_that_arrive_at_once_are_answered_each_for_itself(mut world: World) {
    let workflow = world.process("w", vec![step("a", &[], worker("q"))]).await;
    for _ in 0..MANY / 2 {
        world.schedule(workflow, r#"{"name": "s", "at": "2026-03-02T00:01Z"}"#).await;
        world.start(1, workflow).await.unwrap();
    }
    // The definition's limit of ten is for schedules alone: these runs begin over several turns.
    let mut claimed = Vec::new();
    while claimed.len() < MANY {
        world.turn(1).await;
        let more = world.claim(1, &["q"], MANY).await;
        assert!(!more.is_empty(), "{} were claimed", claimed.len());
        let done = |index: usize| {
            let (run, token) = (more[index].run_id.clone(), more[index].token);
            let end = AttemptEnd::Succeeded { output: raw("1") };
            let eve = Claimant { key: "guessed".to_owned(), ..grace() };
            let by = |claimant| Command::EndAttempt {
                id: run.clone(),
                token,
                claimant,
                end: end.clone(),
            };
            let lease = SignedDuration::from_mins(1);
            let beat = Command::Heartbeat { id: run.clone(), token, claimant: grace(), lease };
            let (wrong, right, again) = (by(eve), by(grace()), by(grace()));
            let world = &world;
            async move {
                // All four are waiting at the same time, in this order.
                let all = [beat, wrong, right, again];
                join_all(all.map(|command| world.try_command(1, command))).await
            }
        };
        for answers in join_all((0..more.len()).map(done)).await {
            let [_beat, wrong, right, again] = answers.try_into().unwrap();
            assert!(refusal(wrong).contains("is too late"));
            // Whichever of the two comes first is taken.
            let taken = [right, again].into_iter().filter(Result::is_ok).count();
            assert_eq!(taken, 1, "an attempt ends once");
        }
        claimed.extend(more);
    }
    for attempt in &claimed {
        assert_eq!(world.status(&attempt.run_id).await, RunStatus::Succeeded);
    }
    world.holds_together().await;
}

/// A claim is a command, and commands leave what the node has cached alone: the run's row has
/// changed since the turn that began both steps.
pub(crate) async fn one_on_a_run_that_the_node_performs_too_is_taken(world: World) {
    let text = "name: w\nsteps: [{id: here, type: noop}, {id: there, type: worker, queue: q}]";
    let workflow = world.publish(0, text).await;
    for beats in [true, false] {
        let at = if beats { 60 } else { 120 };
        let fields = format!(r#"{{"name": "s", "at": "{}"}}"#, minute(at));
        let id = world.schedule_at(at - 1, workflow, &fields).await;
        let turned = world.turn(at).await;
        let here = performs(&turned);
        assert_eq!(begun(&turned), [format!("sched-{id}-n0-rc0")]);
        let there = world.claim(at, &["q"], 1).await;
        let (run, token) = (&there[0].run_id, there[0].token);
        if beats {
            world.heartbeat(at, run, token).await.unwrap();
        }
        world.end(at, run, token).await.unwrap();
        world.turn_with(at, vec![succeeded(&here[0])]).await;
        assert_eq!(world.status(run).await, RunStatus::Succeeded);
    }
    world.holds_together().await;
}

pub(crate) async fn one_on_the_child_of_a_run_that_cannot_be_read_is_taken(mut world: World) {
    world.publish(0, "name: child\nsteps: [{id: a, type: worker, queue: q}]").await;
    let text = "name: w\nsteps: [{id: b, type: sub_process, workflow: child}]";
    let workflow = world.publish(0, text).await;
    let parent = world.start(0, workflow).await.unwrap();
    world.turn(0).await;
    let claimed = world.claim(0, &["q"], 1).await;
    let (child, token) = (&claimed[0].run_id, claimed[0].token);
    let key = world.run(&parent).await.view.run.key.0;
    damage(&mut world, 0, &format!("UPDATE {{open}} SET state = '{{' WHERE key = {key}")).await;
    world.heartbeat(0, child, token).await.unwrap();
    world.end(0, child, token).await.unwrap();
    assert_eq!(world.status(child).await, RunStatus::Succeeded);
}

pub(crate) async fn one_that_panics_harms_no_other_beside_it(mut world: World) {
    world.publish(0, "name: child\nsteps: [{id: a, type: noop}]").await;
    let text = "name: w\nsteps: [{id: a, type: worker, queue: q},
        {id: b, type: sub_process, workflow: child, depends_on: a}]";
    let workflow = world.publish(0, text).await;
    let bad = world.start(0, workflow).await.unwrap();
    for _ in 1..MANY {
        world.start(0, workflow).await.unwrap();
    }
    world.turn(0).await;
    let claimed = world.claim(0, &["q"], MANY).await;
    assert_eq!(claimed.len(), MANY);
    // The child of the first run would have a number that cannot be counted.
    plant(&mut world, 0, LAST).await;
    let reports = claimed.iter().map(|attempt| {
        let token = if attempt.run_id == bad { LAST } else { attempt.token };
        world.end(0, &attempt.run_id, token)
    });
    for (attempt, answer) in claimed.iter().zip(join_all(reports).await) {
        match answer {
            Ok(_) => assert_ne!(attempt.run_id, bad),
            Err(Failure::Undecidable { .. }) => assert_eq!(attempt.run_id, bad),
            Err(failure) => panic!("{}: {failure}", attempt.run_id),
        }
    }
}
