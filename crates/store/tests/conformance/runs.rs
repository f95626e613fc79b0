//! Runs, from their first step to their end.

use engine::run::{AttemptRecord, RunStatus, StepStatus};
use engine::turn::{Command, Effect};
use engine::{RunId, WorkflowId};
use jiff::SignedDuration;
use store::Turned;

use crate::world::{World, failed, minute, performs, refusal, run_id, succeeded};

const THREE: &str = "name: w\nsteps:
  - {id: a, type: noop}
  - {id: b, type: noop, depends_on: [a], retry: {max: 2, delay: 2m}}
  - {id: c, type: noop, depends_on: [b]}\n";

/// A run started by hand that has begun.
async fn begun_run(world: &mut World, text: &str) -> (WorkflowId, RunId, Turned) {
    let workflow = world.publish(0, text).await;
    let run = world.start(0, workflow).await.unwrap();
    let turned = world.turn(0).await;
    (workflow, run, turned)
}

fn cancels(effects: &[Effect]) -> usize {
    effects.iter().filter(|effect| matches!(effect, Effect::Cancel { .. })).count()
}

async fn cancel(world: &World, at: i64, id: &RunId) -> store::Commanded {
    let command = Command::CancelRun { id: id.clone(), reason: "cancelled by ada".to_owned() };
    world.commanded(at, command, None).await.unwrap()
}

pub(crate) async fn steps_follow_each_other(mut world: World) {
    let (_, run, mut turned) = begun_run(&mut world, THREE).await;
    for (at, step) in [(1, "a"), (2, "b"), (3, "c")] {
        let perform = performs(&turned)[0].clone();
        assert_eq!(perform.idempotency_key(), format!("{run}/{step}"));
        turned = world.turn_with(at, vec![succeeded(&perform)]).await;
    }
    let detail = world.run(&run).await;
    let ended = &detail.view.run;
    assert_eq!((ended.status, ended.ended_at), (RunStatus::Succeeded, Some(minute(3))));
    assert_eq!(ended.output.as_ref().unwrap().get(), r#"{"ok":true}"#);
    assert_eq!((detail.steps.len(), detail.definition.steps.len()), (3, 3));
    assert!(detail.steps.iter().all(|step| step.status == StepStatus::Completed));
    assert_eq!(turned.next_wakeup, None, "an ended run wakes nobody");
}

pub(crate) async fn reports_with_old_tokens_are_refused(mut world: World) {
    let (_, run, turned) = begun_run(&mut world, THREE).await;
    let first = performs(&turned)[0].clone();
    let turned = world.turn_with(1, vec![succeeded(&first), succeeded(&first)]).await;
    assert_eq!((turned.refused, performs(&turned).len()), (1, 1));
    let mut made_up = succeeded(&performs(&turned)[0]);
    made_up.token += 1;
    let mut unknown = succeeded(&performs(&turned)[0]);
    unknown.run = engine::RunKey(999);
    let late = world.turn_with(2, vec![succeeded(&first), made_up, unknown, failed(&first)]).await;
    assert_eq!((late.refused, late.effects.len()), (4, 0));
    let detail = world.run(&run).await;
    let going_on: Vec<u32> = detail.view.run.state.active.iter().map(|a| a.step).collect();
    assert_eq!((going_on, detail.steps.len()), (vec![1], 1));
}

pub(crate) async fn a_failing_step_waits_and_is_tried_again(mut world: World) {
    let (_, run, turned) = begun_run(&mut world, THREE).await;
    let turned = world.turn_with(1, vec![succeeded(&performs(&turned)[0])]).await;
    let turned = world.turn_with(2, vec![failed(&performs(&turned)[0])]).await;
    assert_eq!(world.status(&run).await, RunStatus::Waiting);
    assert_eq!(turned.next_wakeup, Some(minute(4)));
    assert_eq!(world.turn(3).await.effects.len(), 0);
    let turned = world.turn(4).await;
    let perform = performs(&turned)[0].clone();
    assert_eq!((world.status(&run).await, perform.part.step), (RunStatus::Running, 1));
    world.turn_with(5, vec![failed(&perform)]).await;
    let detail = world.run(&run).await;
    assert_eq!(detail.view.run.status, RunStatus::Failed);
    assert_eq!(detail.view.run.error.as_ref().unwrap().step.as_deref(), Some("b"));
    assert_eq!((detail.steps[1].attempts, detail.steps.len()), (2, 2));
    let earlier = |attempt: &AttemptRecord| {
        let AttemptRecord { step, item, attempt, status, started_at, ended_at, .. } = *attempt;
        (step, item.number(), attempt, status, started_at, ended_at)
    };
    let first = (1, 0, 1, StepStatus::Failed, minute(1), minute(2));
    assert_eq!(detail.earlier.iter().map(earlier).collect::<Vec<_>>(), [first]);
    assert_eq!(detail.earlier[0].error, detail.steps[1].error);
}

pub(crate) async fn a_step_may_be_skipped_on_error(mut world: World) {
    let text = "name: w\nsteps:
  - {id: a, type: noop, retry: {max: 1}, on_error: skip_step}
  - {id: b, type: noop, depends_on: [a]}\n";
    let (_, run, turned) = begun_run(&mut world, text).await;
    let turned = world.turn_with(1, vec![failed(&performs(&turned)[0])]).await;
    world.turn_with(2, vec![succeeded(&performs(&turned)[0])]).await;
    let detail = world.run(&run).await;
    assert_eq!(detail.view.run.status, RunStatus::Succeeded);
    assert_eq!(detail.steps[0].status, StepStatus::Skipped);
    assert_eq!(detail.steps[0].error.as_ref().unwrap().message, "exit code 1");
}

pub(crate) async fn a_cancelled_run_waits_for_its_attempt_but_not_for_ever(mut world: World) {
    let (workflow, polite, turned) = begun_run(&mut world, THREE).await;
    let commanded = cancel(&world, 1, &polite).await;
    assert_eq!(cancels(&commanded.effects), 1);
    assert_eq!(world.status(&polite).await, RunStatus::Running);
    assert_eq!(cancels(&cancel(&world, 1, &polite).await.effects), 0, "told once");
    world.turn_with(1, vec![succeeded(&performs(&turned)[0])]).await;
    let detail = world.run(&polite).await;
    assert_eq!(detail.view.run.status, RunStatus::Cancelled);
    assert_eq!(detail.view.run.error.unwrap().message, "cancelled by ada");
    assert_eq!(detail.steps[0].status, StepStatus::Cancelled);

    let deaf = world.start(2, workflow).await.unwrap();
    let turned = world.turn(2).await;
    let commanded = cancel(&world, 2, &deaf).await;
    let limit = minute(2) + SignedDuration::from_secs(15);
    assert_eq!(commanded.next_wakeup, Some(limit));
    world.turn(3).await;
    assert_eq!(world.status(&deaf).await, RunStatus::Cancelled);
    let late = world.turn_with(3, vec![succeeded(&performs(&turned)[0])]).await;
    assert_eq!(late.refused, 1);

    let pending = world.start(4, workflow).await.unwrap();
    cancel(&world, 4, &pending).await;
    assert_eq!(world.status(&pending).await, RunStatus::Cancelled);
    assert_eq!(world.turn(4).await.effects.len(), 0);
}

pub(crate) async fn what_takes_too_long_is_ended(mut world: World) {
    let text = format!("timeout: 10m\n{THREE}");
    let (_, run, turned) = begun_run(&mut world, &text).await;
    assert_eq!(turned.next_wakeup, Some(minute(10)));
    let ended = world.turn(10).await;
    assert_eq!(cancels(&ended.effects), 1);
    world.turn_with(10, vec![failed(&performs(&turned)[0])]).await;
    let ended = world.run(&run).await.view.run;
    assert_eq!(ended.status, RunStatus::TimedOut);
    assert_eq!(ended.error.unwrap().code, "timeout");
}

pub(crate) async fn an_ended_run_is_retried_from_its_start_or_its_failed_step(mut world: World) {
    let (_, run, turned) = begun_run(&mut world, THREE).await;
    let turned = world.turn_with(1, vec![succeeded(&performs(&turned)[0])]).await;
    let retry = |world: &mut World, from_start| {
        let new = world.new_run();
        Command::RetryRun { id: run.clone(), from_start, run: new }
    };
    let too_early = retry(&mut world, true);
    assert_eq!(
        refusal(world.try_command(1, too_early).await),
        "Cannot retry run with status 'running'."
    );
    world.turn_with(2, vec![failed(&performs(&turned)[0])]).await;
    let turned = world.turn(4).await;
    world.turn_with(5, vec![failed(&performs(&turned)[0])]).await;

    for (from_start, steps) in [(true, vec!["a", "b", "c"]), (false, vec!["b", "c"])] {
        let command = retry(&mut world, from_start);
        let again = run_id(&world.command(6, command).await);
        let mut turned = world.turn(6).await;
        for step in steps {
            let perform = performs(&turned)[0].clone();
            assert_eq!(perform.idempotency_key(), format!("{again}/{step}"));
            turned = world.turn_with(7, vec![succeeded(&perform)]).await;
        }
        let view = world.run(&again).await.view.run;
        assert_eq!((view.status, view.retry_of), (RunStatus::Succeeded, Some(run.clone())));
        assert_eq!(view.triggered_by, engine::run::TriggeredBy::Retry);
    }
    assert_eq!(world.status(&run).await, RunStatus::Failed, "the failed one stays as it is");
}

pub(crate) async fn refusals_change_nothing(mut world: World) {
    let (_, run, turned) = begun_run(&mut world, "name: w\nsteps: [{id: a, type: noop}]\n").await;
    world.turn_with(1, vec![succeeded(&performs(&turned)[0])]).await;
    let unknown: RunId = "sched-9-n0-rc0".parse().unwrap();
    let reason = String::new;
    let resolution = engine::run::Resolution::Applied;
    let (one, two) = (world.new_run(), world.new_run());
    for (command, message) in [
        (
            Command::CancelRun { id: run.clone(), reason: reason() },
            "Cannot cancel run with status 'succeeded'.",
        ),
        (
            Command::ResolveRun { id: run.clone(), resolution, by: "ada".to_owned() },
            "Cannot resolve run with status 'succeeded'.",
        ),
        (
            Command::RetryRun { id: run.clone(), from_start: false, run: one },
            "Cannot retry run with status 'succeeded'.",
        ),
        (
            Command::CancelRun { id: unknown.clone(), reason: reason() },
            "There is no run sched-9-n0-rc0.",
        ),
        (
            Command::RetryRun { id: unknown, from_start: true, run: two },
            "There is no run sched-9-n0-rc0.",
        ),
    ] {
        assert_eq!(refusal(world.try_command(2, command).await), message);
    }
    assert_eq!(world.runs().await, [format!("{run} succeeded")]);
}
