//! A node is gone, and the next one takes over its attempts.

use engine::run::{Resolution, RunStatus, StepStatus};
use engine::turn::{Capacity, Command};
use store::TurnRequest;

use crate::world::{World, minute, performs, refusal, succeeded};

const HARMLESS: &str =
    "name: w\nsteps: [{id: a, type: noop}, {id: b, type: noop, depends_on: [a]}]\n";
const ONCE: &str = "name: w\nsteps: [{id: a, type: noop, idempotent: false}, {id: b, type: noop, depends_on: [a]}]\n";

pub(crate) async fn attempts_of_an_earlier_life_are_handed_out_again(mut world: World) {
    let workflow = world.publish(0, HARMLESS).await;
    let run = world.start(0, workflow).await.unwrap();
    let before = performs(&world.turn(0).await)[0].clone();
    let joined = world.join(5).await;
    assert_eq!((joined.gone, joined.next_wakeup), (1, Some(crate::world::minute(5))));
    let turned = world.turn(5).await;
    assert_eq!(turned.recovered.taken_over, 1);
    let nodes = world.store().nodes().await.unwrap();
    assert_eq!(nodes.last().unwrap().recovered.taken_over, 1);
    let after = performs(&turned)[0].clone();
    assert_eq!((&after.run_id, after.part), (&run, before.part));
    assert_eq!(after.idempotency_key(), before.idempotency_key());
    // The report from before the restart is refused; its attempt does not count as a failure.
    let turned = world.turn_with(6, vec![succeeded(&before), succeeded(&after)]).await;
    assert_eq!(turned.refused, 1);
    let detail = world.run(&run).await;
    assert_eq!(detail.steps[0].attempts, 1);
    let lost = &detail.earlier[0];
    assert_eq!((lost.attempt, lost.status), (1, StepStatus::Cancelled));
    assert_eq!((lost.started_at, lost.ended_at), (minute(0), minute(5)));
    assert_eq!(lost.error.as_ref().unwrap().code, "lost");
    assert_eq!(world.turn(6).await.recovered.taken_over, 0, "once");
    assert_eq!(world.join(7).await.gone, 1, "only the life before is gone now");
}

pub(crate) async fn what_must_not_be_repeated_is_suspended_and_resolved(mut world: World) {
    let workflow = world.publish(0, ONCE).await;
    // The person's resolution, then the run's status, the next step, and the first step's status.
    for (resolution, status, next, first) in [
        (Resolution::Applied, RunStatus::Running, Some(1), Some(StepStatus::Completed)),
        (Resolution::DidNotHappen, RunStatus::Running, Some(0), None),
        (Resolution::Failed, RunStatus::Failed, None, Some(StepStatus::Failed)),
    ] {
        let run = world.start(0, workflow).await.unwrap();
        world.turn(0).await;
        world.join(1).await;
        let turned = world.turn(1).await;
        assert_eq!(performs(&turned).len(), 0);
        assert_eq!(world.status(&run).await, RunStatus::Suspended);

        let command = Command::ResolveRun { id: run.clone(), resolution, by: "ada".to_owned() };
        let commanded = world.commanded(2, command.clone(), None).await.unwrap();
        assert!(commanded.effects.is_empty() && commanded.look, "a place is found by the driver");
        let turned = world.turn(2).await;
        let steps = performs(&turned).iter().map(|perform| perform.part.step).collect::<Vec<_>>();
        assert_eq!(steps, Vec::from_iter(next), "{resolution:?}");
        let detail = world.run(&run).await;
        assert_eq!(detail.view.run.status, status, "{resolution:?}");
        assert_eq!(detail.steps.first().map(|step| step.status), first, "{resolution:?}");
        let is_tried_again = resolution == Resolution::DidNotHappen;
        assert_eq!(detail.earlier.len(), usize::from(is_tried_again), "{resolution:?}");
        refusal(world.try_command(2, command).await);
        if !status.has_ended() {
            let reason = "the next case comes".to_owned();
            world.command(2, Command::CancelRun { id: run.clone(), reason }).await;
            world.turn(3).await;
        }
        assert!(world.status(&run).await.has_ended());
    }
}

pub(crate) async fn the_clock_of_a_timeout_stands_while_a_run_is_suspended(mut world: World) {
    let workflow = world.publish(0, &format!("timeout: 5m\n{ONCE}")).await;
    let run = world.start(0, workflow).await.unwrap();
    world.turn(0).await;
    world.join(1).await;
    assert_eq!(world.turn(1).await.next_wakeup, None, "only a person moves it on");
    let resolution = Resolution::Applied;
    let resolve = Command::ResolveRun { id: run.clone(), resolution, by: "ada".to_owned() };
    world.command(9, resolve).await;
    let turned = world.turn(9).await;
    assert_eq!(performs(&turned).len(), 1);
    // The attempt ran for one minute before it was lost: four minutes of the timeout are left.
    assert_eq!(turned.next_wakeup, Some(minute(13)));
    world.turn(13).await;
    world.turn_with(13, vec![succeeded(&performs(&turned)[0])]).await;
    assert_eq!(world.status(&run).await, RunStatus::TimedOut);
}

pub(crate) async fn no_more_is_taken_over_than_there_are_places(mut world: World) {
    let mut runs = Vec::new();
    for name in ["a", "b", "c"] {
        let workflow = world.workflow(name).await;
        runs.push(world.start(0, workflow).await.unwrap());
    }
    world.turn(0).await;
    world.join(1).await;
    let first = world.try_turn(1, Vec::new(), 1_000, Capacity::new(2)).await;
    assert_eq!((first.recovered.taken_over, performs(&first).len()), (3, 2));
    assert_eq!(world.status(&runs[2]).await, RunStatus::Waiting);
    let reports = vec![succeeded(&performs(&first)[0])];
    let second =
        world.try_turn(2, reports, 1_000, Capacity { free_slots: 1, ..first.capacity }).await;
    assert_eq!(crate::world::begun(&second), [runs[2].to_string()]);
}

pub(crate) async fn what_was_lost_has_its_place(mut world: World) {
    let first = world.workflow("first").await;
    let run = world.start(0, first).await.unwrap();
    world.turn(0).await;
    let second = world.workflow("second").await;
    world.start(0, second).await.unwrap();
    let request = TurnRequest {
        moment: engine::Moment::new(crate::world::minute(1), world.awake_since),
        node: world.node,
        reports: Vec::new(),
        limit: 10,
        begin: None,
        held: Default::default(),
        capacity: Capacity::new(1),
        performed: Some(Vec::new()),
        traced: false,
    };
    let turned = world.store().turn(request).await.unwrap();
    assert_eq!(crate::world::begun(&turned), [run.to_string()]);
}

pub(crate) async fn lost_effects_are_handed_out_again(mut world: World) {
    let workflow = world.publish(0, HARMLESS).await;
    world.start(0, workflow).await.unwrap();
    let lost = performs(&world.turn(0).await)[0].clone();
    let turn = |performed: Vec<_>| {
        let moment = engine::Moment::new(crate::world::minute(1), world.awake_since);
        world.store().turn(TurnRequest {
            moment,
            node: world.node,
            reports: Vec::new(),
            limit: 10,
            begin: None,
            held: Default::default(),
            capacity: Capacity::new(10),
            performed: Some(performed),
            traced: false,
        })
    };
    let known = turn(vec![(lost.run, lost.token)]).await.unwrap();
    assert_eq!(performs(&known).len(), 0);
    let found = turn(Vec::new()).await.unwrap();
    let found = performs(&found)[0].clone();
    assert_eq!((found.run, found.token), (lost.run, lost.token), "the same attempt");
    let turned = world.turn_with(2, vec![succeeded(&found)]).await;
    assert_eq!((turned.refused, performs(&turned).len()), (0, 1));
}

pub(crate) async fn what_was_being_cancelled_has_ended(mut world: World) {
    let workflow = world.publish(0, ONCE).await;
    let run = world.start(0, workflow).await.unwrap();
    world.turn(0).await;
    let reason = "enough".to_owned();
    world.command(0, Command::CancelRun { id: run.clone(), reason }).await;
    world.join(0).await;
    let turned = world.turn(0).await;
    assert_eq!(performs(&turned).len(), 0);
    assert_eq!(world.status(&run).await, RunStatus::Cancelled);
}

pub(crate) async fn a_node_that_leaves_is_not_taken_over(mut world: World) {
    let workflow = world.publish(0, HARMLESS).await;
    world.settle(0).await;
    world.store().leave(world.node).await.unwrap();
    assert_eq!(world.join(1).await.gone, 0);
    // A node that leaves while it still performs an attempt is treated like one that is gone.
    world.start(1, workflow).await.unwrap();
    world.turn(1).await;
    world.store().leave(world.node).await.unwrap();
    assert_eq!(world.join(2).await.gone, 1);
    assert_eq!(world.turn(2).await.recovered.taken_over, 1);
}
