//! Many at once: what a turn with hundreds of everything leaves behind is what a small one does.

use engine::run::{RunStatus, StepStatus};
use engine::turn::{Answer, Command, Places};
use engine::{RunId, ScheduleId};
use store::{Report, Turned};

use crate::world::{World, failed, minute, performs, succeeded};

/// More than are written row by row.
const MANY: usize = 300;

async fn schedules(world: &World, fields: &str) -> Vec<ScheduleId> {
    let workflow = world.workflow("w").await;
    let new = (0..MANY).map(|_| world.new_schedule(workflow, fields)).collect();
    match world.command(0, Command::CreateSchedules(new)).await {
        Answer::Created(ids) => ids,
        other => panic!("{other:?}"),
    }
}

/// A turn in which nothing is scarce.
async fn turn(world: &World, at: i64, reports: Vec<Report>) -> Turned {
    world.try_turn(at, reports, 1_000, Places::new(4_000)).await
}

pub(crate) async fn are_decided_and_settled_like_one(world: World) {
    let ids = schedules(&world, r#"{"name": "a b", "interval": "5m", "payload": {"ä": 1}}"#).await;
    let begun = performs(&turn(&world, 5, Vec::new()).await);
    assert_eq!(begun.len(), MANY);
    world.holds_together().await;
    let open = world.run(&begun[7].run_id).await;
    assert_eq!(open.view.run.status, RunStatus::Running);
    assert!(open.view.run.input.get().contains(r#""payload":{"ä": 1}"#));

    // Settled together with what is due at the same time.
    let mut reports: Vec<Report> = begun.iter().map(succeeded).collect();
    reports[3] = failed(&begun[3]);
    let mut again = performs(&turn(&world, 10, reports).await);
    // What was locked by one half is left to the next turn.
    again.extend(performs(&turn(&world, 10, Vec::new()).await));
    assert_eq!(again.len(), MANY - 1, "one is tried again, the others have ended");
    world.holds_together().await;

    assert_eq!(world.status(&begun[3].run_id).await, RunStatus::Waiting);
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

/// A ledger row is written when an occurrence has to wait, and once more when it begins.
pub(crate) async fn rows_that_are_there_are_replaced(world: World) {
    let ids = schedules(&world, r#"{"name": "s", "interval": "5m"}"#).await;
    let waiting = world.try_turn(5, Vec::new(), 1_000, Places::new(0)).await;
    assert_eq!((waiting.claimed, performs(&waiting).len()), (MANY, 0));
    assert_eq!(world.ledger(ids[9]).await, ["0 queued 5"]);
    let begun = turn(&world, 6, Vec::new()).await;
    assert_eq!(performs(&begun).len(), MANY);
    for id in ids {
        assert_eq!(world.ledger(id).await, ["0 started 5"]);
    }
    world.holds_together().await;
}
