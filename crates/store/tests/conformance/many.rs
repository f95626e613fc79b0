//! A turn with hundreds of everything leaves behind the same as a small one.

use engine::run::{Ending, RunStatus, StepStatus};

use engine::turn::{Answer, Capacity, Command, Verb};
use engine::{RunId, ScheduleId};
use store::{Report, Turned};

use crate::world::{World, failed, minute, performs, succeeded};

/// More rows than are written one by one.
const MANY: usize = 300;

async fn schedules(world: &World, fields: &str) -> Vec<ScheduleId> {
    let workflow = world.workflow("w").await;
    let new = (0..MANY).map(|_| world.new_schedule(workflow, fields)).collect();
    match world.command(0, Command::CreateSchedules(new)).await {
        Answer::Created(ids) => ids,
        other => panic!("{other:?}"),
    }
}

/// A turn with plenty of capacity.
async fn turn(world: &World, at: i64, reports: Vec<Report>) -> Turned {
    world.try_turn(at, reports, 1_000, Capacity::new(4_000)).await
}

pub(crate) async fn are_decided_and_settled_like_one(world: World) {
    let ids = schedules(&world, r#"{"name": "a b", "interval": "5m", "payload": {"ä": 1}}"#).await;
    let begun = performs(&turn(&world, 5, Vec::new()).await);
    assert_eq!(begun.len(), MANY);
    world.holds_together().await;
    let open = world.run(&begun[7].run_id).await;
    assert_eq!(open.view.run.status, RunStatus::Running);
    assert!(open.view.run.input.get().contains(r#""payload":{"ä": 1}"#));

    // Reports are settled together with occurrences that are due at the same time.
    let mut reports: Vec<Report> = begun.iter().map(succeeded).collect();
    reports[3] = failed(&begun[3]);
    let again = performs(&turn(&world, 10, reports).await);
    assert_eq!(again.len(), MANY - 1, "one is tried again, the others have ended");
    world.holds_together().await;

    // The schedule retries the whole run, so the step is not retried.
    assert_eq!(world.status(&begun[3].run_id).await, RunStatus::Failed);
    let failed = schedule_of(&begun[3].run_id);
    for id in ids.into_iter().filter(|id| *id != failed) {
        let progress = world.seen(id).await.progress;
        assert_eq!((progress.run_count, progress.error_count), (1, 0), "{id}");
        assert_eq!(world.ledger(id).await, ["0 started 5", "1 started 10"]);
    }
    let ended = world.run(&begun[7].run_id).await;
    assert_eq!(ended.view.run.status, RunStatus::Succeeded);
    assert_eq!(ended.view.run.ended_at, Some(minute(10)));
    let [step] = &ended.steps[..] else { panic!("{:?}", ended.steps) };
    assert_eq!((step.status, step.attempts), (StepStatus::Completed, 1));
}

fn schedule_of(run: &RunId) -> ScheduleId {
    let RunId::Occurrence { schedule, .. } = run else { panic!("{run}") };
    *schedule
}

/// A ledger row is written when an occurrence has to wait, and again when it begins.
pub(crate) async fn rows_that_are_there_are_replaced(world: World) {
    let ids = schedules(&world, r#"{"name": "s", "interval": "5m"}"#).await;
    let waiting = world.try_turn(5, Vec::new(), 1_000, Capacity::new(0)).await;
    assert_eq!((waiting.claimed, performs(&waiting).len()), (MANY, 0));
    assert_eq!(world.ledger(ids[9]).await, ["0 queued 5"]);
    let begun = turn(&world, 6, Vec::new()).await;
    assert_eq!(performs(&begun).len(), MANY);
    for id in ids {
        assert_eq!(world.ledger(id).await, ["0 started 5"]);
    }
    world.holds_together().await;
}

/// A node goes on with the rows it wrote last, unless somebody else has written them since.
pub(crate) async fn what_others_wrote_meanwhile_counts(world: World) {
    schedules(&world, r#"{"name": "s", "interval": "5m"}"#).await;
    let begun = performs(&turn(&world, 5, Vec::new()).await);
    let cancel = |run: &RunId| Command::CancelRun { id: run.clone(), reason: "enough".to_owned() };
    world.command(6, cancel(&begun[3].run_id)).await;
    let (paused, gone) = (schedule_of(&begun[4].run_id), schedule_of(&begun[5].run_id));
    world.control(6, paused, Verb::Pause).await;
    world.command(6, Command::DeleteSchedules(vec![gone])).await;
    turn(&world, 7, begun.iter().map(succeeded).collect()).await;
    world.holds_together().await;
    for (place, perform) in begun.iter().enumerate() {
        let status = match place {
            3 => RunStatus::Cancelled,
            _ => RunStatus::Succeeded,
        };
        assert_eq!(world.status(&perform.run_id).await, status, "{place}");
    }
    let progress = world.seen(paused).await.progress;
    assert_eq!((progress.run_count, progress.active.len()), (1, 0));
}

/// Runs with nothing to perform begin and end in one turn, however many they are.
pub(crate) async fn begin_and_end_in_one_turn_if_nothing_is_performed(world: World) {
    let ids = schedules(&world, r#"{"name": "s", "interval": "5m"}"#).await;
    let capacity = Capacity { ends_noops: true, ..Capacity::new(4_000) };
    for (at, times) in [(5, 1), (10, 2)] {
        let turned = world.try_turn(at, Vec::new(), 1_000, capacity).await;
        assert_eq!((turned.claimed, turned.effects.len()), (MANY, 0));
        assert_eq!(turned.noops, vec![Some(minute(at)); MANY]);
        world.holds_together().await;
        for id in &ids {
            let progress = world.seen(*id).await.progress;
            assert_eq!((progress.run_count, progress.n, progress.active.len()), (times, times, 0));
            assert_eq!(progress.last_outcome, Some(Ending::Succeeded));
        }
    }
    assert_eq!(world.ledger(ids[7]).await, ["0 started 5", "1 started 10"]);
    let run = RunId::Occurrence { schedule: ids[7], n: 1, retry: 0 };
    let ended = world.run(&run).await;
    assert_eq!(ended.view.run.status, RunStatus::Succeeded);
    assert_eq!(ended.view.run.started_at, ended.view.run.ended_at);
    let [step] = &ended.steps[..] else { panic!("{:?}", ended.steps) };
    assert_eq!((step.status, step.attempts), (StepStatus::Completed, 1));
}

/// Runs of several steps go on from one to the next, also if somebody else has written one
/// meanwhile.
pub(crate) async fn go_on_from_step_to_step(world: World) {
    let text =
        "name: chain\nsteps:\n  - {id: a, type: noop}\n  - {id: b, type: noop, depends_on: [a]}\n";
    let workflow = world.publish(0, text).await;
    let new = (0..MANY).map(|_| world.new_schedule(workflow, r#"{"name": "s", "interval": "5m"}"#));
    world.command(0, Command::CreateSchedules(new.collect())).await;
    let first = performs(&turn(&world, 5, Vec::new()).await);
    let second = performs(&turn(&world, 6, first.iter().map(succeeded).collect()).await);
    assert_eq!((first.len(), second.len()), (MANY, MANY));
    let cancel = Command::CancelRun { id: second[9].run_id.clone(), reason: "enough".to_owned() };
    world.command(6, cancel).await;
    turn(&world, 7, second.iter().map(succeeded).collect()).await;
    world.holds_together().await;
    for perform in &second {
        let ended = world.run(&perform.run_id).await;
        let cancelled = perform.run_id == second[9].run_id;
        let status = if cancelled { RunStatus::Cancelled } else { RunStatus::Succeeded };
        assert_eq!(ended.view.run.status, status);
        let steps: Vec<_> = ended.steps.iter().map(|step| (step.step, step.attempts)).collect();
        assert_eq!(steps, [(0, 1), (1, 1)], "{}", perform.run_id);
    }
}

/// The last error is kept until a run succeeds.
pub(crate) async fn fail_and_are_tried_again(world: World) {
    let text = "name: w\nsteps: [{id: a, type: noop, retry: {max: 1}}]\n";
    let workflow = world.publish(0, text).await;
    let fields = r#"{"name": "s", "interval": "5m", "max_retries": 3, "retry": {"delay": "2m"}}"#;
    let new = (0..MANY).map(|_| world.new_schedule(workflow, fields)).collect();
    let Answer::Created(ids) = world.command(0, Command::CreateSchedules(new)).await else {
        panic!("not created")
    };
    let begun = performs(&turn(&world, 5, Vec::new()).await);
    let turned = turn(&world, 6, begun.iter().map(failed).collect()).await;
    world.holds_together().await;
    for id in &ids {
        let progress = world.seen(*id).await.progress;
        assert_eq!(progress.last_outcome, Some(Ending::Failed));
        assert!(progress.last_error.unwrap().contains("exit code 1"));
        assert_eq!((progress.run_count, progress.error_count, progress.current_retry), (0, 1, 1));
    }
    // The retry comes before the next occurrence.
    let retried = turned.next_wakeup.expect("they are tried again");
    assert!(retried < minute(10), "{retried}");
    let again = performs(&turn(&world, 9, Vec::new()).await);
    assert_eq!(again.len(), MANY);
    turn(&world, 9, again.iter().map(succeeded).collect()).await;
    world.holds_together().await;
    for id in &ids {
        let progress = world.seen(*id).await.progress;
        assert_eq!((progress.last_outcome, progress.last_error), (Some(Ending::Succeeded), None));
        assert_eq!((progress.run_count, progress.error_count, progress.current_retry), (1, 1, 0));
        assert_eq!((progress.n, progress.current_repeat), (1, 1));
    }
}
