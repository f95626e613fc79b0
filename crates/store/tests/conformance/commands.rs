//! Commands of people and programs about schedules.

use engine::ScheduleId;
use engine::schedule::Status;
use engine::turn::{Answer, Command, IfBusy, NewRun, Refused, Verb};
use jiff::Timestamp;
use store::{Failure, Idempotency, ScheduleQuery, ScheduleView};

use crate::world::{World, begun, minute, performs, refusal, succeeded};

fn key(key: &str, of: u8) -> Option<Idempotency> {
    Some(Idempotency { key: key.to_owned(), fingerprint: [of; 32] })
}

async fn count(world: &World) -> usize {
    let query = ScheduleQuery { limit: 1_000, ..ScheduleQuery::default() };
    world.store().schedules(query).await.unwrap().items.len()
}

pub(crate) async fn schedules_are_created_all_or_none(world: World) {
    let workflow = world.workflow("w").await;
    let good = world.new_schedule(workflow, r#"{"name": "good", "interval": "5m"}"#);
    let bad = world.new_schedule(workflow, r#"{"name": "bad", "cron": "61 * * * *"}"#);
    let worse =
        world.new_schedule(workflow, r#"{"name": "", "timezone": "Mars/Base", "interval": "5m"}"#);
    let all = vec![good.clone(), bad, good.clone(), worse];
    let Err(Failure::Refused(Refused::Invalid(invalid))) =
        world.try_command(0, Command::CreateSchedules(all)).await
    else {
        panic!("created");
    };
    assert_eq!(invalid.iter().map(|(index, _)| *index).collect::<Vec<_>>(), [1, 3]);
    assert_eq!((count(&world).await, world.turn(5).await.claimed), (0, 0));

    let mut elsewhere = good.clone();
    elsewhere.workflow = engine::WorkflowId(99);
    let all = vec![good.clone(), elsewhere];
    refusal(world.try_command(0, Command::CreateSchedules(all)).await);
    assert_eq!(count(&world).await, 0);

    let Answer::Created(ids) = world.command(0, Command::CreateSchedules(vec![good; 3])).await
    else {
        panic!("not created");
    };
    assert!(ids.is_sorted() && ids.len() == 3);
    assert_eq!(count(&world).await, 3);
}

pub(crate) async fn a_key_answers_again_and_does_nothing(mut world: World) {
    let workflow = world.workflow("w").await;
    let new = world.new_schedule(workflow, r#"{"name": "s", "interval": "5m"}"#);
    let create = Command::CreateSchedules(vec![new]);
    let first = world.commanded(0, create.clone(), key("k", 1)).await.unwrap();
    let again = world.commanded(1, create.clone(), key("k", 1)).await.unwrap();
    assert_eq!((first.replayed, again.replayed), (false, true));
    assert_eq!(again.answer, first.answer);
    assert!(again.effects.is_empty() && again.notices.is_empty());
    let reused = world.commanded(1, create.clone(), key("k", 2)).await;
    assert!(matches!(reused, Err(Failure::KeyReused)), "{reused:?}");
    assert_eq!(count(&world).await, 1);

    // The idempotency key outlives the node.
    world.join(2).await;
    assert!(world.commanded(2, create, key("k", 1)).await.unwrap().replayed);

    // Starting a run twice with one key starts one run.
    let run = world.new_run();
    let start = Command::StartWorkflow { id: workflow, run };
    let first = world.commanded(3, start.clone(), key("r", 1)).await.unwrap();
    let again = world.commanded(3, start, key("r", 1)).await.unwrap();
    assert_eq!((first.answer, again.replayed), (again.answer, true));
    assert_eq!(world.runs().await.len(), 1);
}

pub(crate) async fn a_refused_command_leaves_its_key_free(world: World) {
    let workflow = world.workflow("w").await;
    let id = world.schedule(workflow, r#"{"name": "s", "interval": "5m"}"#).await;
    let resume = Command::ControlSchedule { id, verb: Verb::Resume { catch_up: false } };
    refusal(world.commanded(0, resume.clone(), key("k", 1)).await);
    world.control(0, id, Verb::Pause).await;
    assert!(!world.commanded(0, resume, key("k", 1)).await.unwrap().replayed);
}

pub(crate) async fn deleted_schedules_are_gone_and_their_ids_stay_unused(mut world: World) {
    let workflow = world.workflow("w").await;
    let keep = world.schedule(workflow, r#"{"name": "keep", "interval": "7m"}"#).await;
    let go = world.schedule(workflow, r#"{"name": "go", "interval": "5m"}"#).await;
    let turned = world.turn(5).await;
    let ids = vec![go, ScheduleId(999), go];
    let answer = world.command(6, Command::DeleteSchedules(ids)).await;
    assert_eq!(answer, Answer::Count(1));
    assert!(world.store().schedule(go).await.unwrap().is_none());
    assert_eq!(world.turn(6).await.next_wakeup, Some(minute(7)));
    // The run of a deleted schedule goes on, and its history stays.
    world.turn_with(6, vec![succeeded(&performs(&turned)[0])]).await;
    assert_eq!(world.runs().await, [format!("sched-{go}-n0-rc0 succeeded")]);
    assert_eq!(world.ledger(go).await, ["0 started 5"]);
    world.join(6).await;
    let new = world.schedule_at(6, workflow, r#"{"name": "new", "interval": "5m"}"#).await;
    assert!(new > go && go > keep);
    assert_eq!(world.ledger(new).await, Vec::<String>::new());
}

pub(crate) async fn an_edit_moves_the_next_time(world: World) {
    let workflow = world.workflow("w").await;
    let id = world.schedule(workflow, r#"{"name": "old name", "interval": "5m"}"#).await;
    world.settle(5).await;
    let edit = |patch: &str| Command::EditSchedule { id, patch: patch.to_owned() };
    world.command(7, edit(r#"{"interval": "20m", "name": "new name"}"#)).await;
    let schedule = world.seen(id).await;
    assert_eq!(world.next(id).await, Some(27), "an interval counts from its edit");
    assert_eq!((schedule.progress.n, schedule.progress.run_count), (1, 1));
    assert_eq!(schedule.declared.name, "new name");
    // An edit that does not change the rule keeps the next time.
    world.command(9, edit(r#"{"description": "d", "max_retries": 7}"#)).await;
    assert_eq!(world.next(id).await, Some(27));
    for (patch, message) in
        [(r#"{"cron": "x"}"#, "1 mistakes"), (r#"{"overlap": "never"}"#, "1 mistakes")]
    {
        let said = refusal(world.try_command(9, edit(patch)).await);
        assert!(said.contains(message), "{patch}: {said}");
    }
    let unknown = Command::EditSchedule { id: ScheduleId(999), patch: "{}".to_owned() };
    assert_eq!(refusal(world.try_command(9, unknown).await), "There is no schedule 999.");
    assert_eq!(world.turn(26).await.claimed, 0);
    assert_eq!(begun(&world.turn(27).await), [format!("sched-{id}-n1-rc0")]);
}

pub(crate) async fn schedules_change_their_status_only_where_they_may(world: World) {
    let workflow = world.workflow("w").await;
    let fields = r#"{"name": "s", "interval": "5m", "total_repeats": 1}"#;
    let id = world.schedule(workflow, fields).await;
    let resume = Verb::Resume { catch_up: false };
    // At which minute, the verb, whether it is carried out, and the schedule's status and next time
    // afterwards.
    for (at, verb, is_done, status, next) in [
        (1, resume, false, Status::Active, Some(5)),
        (1, Verb::Revive, false, Status::Active, Some(5)),
        (2, Verb::Pause, true, Status::Paused, None),
        (2, Verb::Pause, false, Status::Paused, None),
        (2, Verb::Disable, false, Status::Paused, None),
        (2, Verb::Revive, false, Status::Paused, None),
        (9, resume, true, Status::Active, Some(14)),
        (14, resume, false, Status::Done, None),
        (14, Verb::Pause, false, Status::Done, None),
        (14, Verb::Revive, true, Status::Active, Some(19)),
    ] {
        world.settle(at).await;
        let answer = world.try_command(at, Command::ControlSchedule { id, verb }).await;
        assert_eq!(answer.is_ok(), is_done, "{verb:?} at {at}: {answer:?}");
        let seen = (world.seen(id).await.status, world.next(id).await);
        assert_eq!(seen, (status, next), "{verb:?} at {at}");
    }
    let said = world.try_command(15, Command::ControlSchedule { id, verb: resume }).await;
    assert_eq!(refusal(said), "Cannot resume schedule with status 'active'.");
}

pub(crate) async fn pausing_drops_what_waits(world: World) {
    let workflow = world.workflow("w").await;
    let id =
        world.schedule(workflow, r#"{"name": "s", "interval": "5m", "overlap": "queue"}"#).await;
    let turned = world.turn(5).await;
    world.turn(10).await;
    assert_eq!(world.ledger(id).await, ["0 started 5", "1 queued 10"]);
    world.control(11, id, Verb::Pause).await;
    assert_eq!(world.ledger(id).await, ["0 started 5", "1 dropped 10"]);
    let turned = world.turn_with(12, vec![succeeded(&performs(&turned)[0])]).await;
    assert_eq!((begun(&turned), turned.next_wakeup), (vec![], None));
    assert_eq!(world.seen(id).await.progress.run_count, 1);
}

pub(crate) async fn a_schedule_is_started_by_hand_beside_its_occurrences(mut world: World) {
    let workflow = world.workflow("w").await;
    let id = world.schedule(workflow, r#"{"name": "s", "interval": "5m"}"#).await;
    world.control(1, id, Verb::Pause).await;
    let run = world.new_run();
    world.command(1, Command::StartSchedule { id, run }).await;
    let turned = world.turn(1).await;
    let by_hand = performs(&turned)[0].clone();
    let second = NewRun { if_busy: IfBusy::Refuse, ..world.new_run() };
    let said = refusal(world.try_command(1, Command::StartSchedule { id, run: second }).await);
    assert!(said.contains(&by_hand.run_id.to_string()), "{said}");
    let third = world.new_run();
    world.command(1, Command::StartSchedule { id, run: third }).await;
    let beside = performs(&world.turn(1).await)[0].clone();
    world.turn_with(2, vec![succeeded(&by_hand), succeeded(&beside)]).await;
    world.control(2, id, Verb::Resume { catch_up: false }).await;
    let schedule = world.seen(id).await;
    assert_eq!((schedule.progress.n, world.next(id).await), (0, Some(7)));
    assert_eq!(world.ledger(id).await, Vec::<String>::new());
}

pub(crate) async fn past_occurrences_run_after_all(world: World) {
    let workflow = world.workflow("w").await;
    let id = world.schedule(workflow, r#"{"name": "s", "cron": "0 * * * *"}"#).await;
    let backfill = |from: i64, to: i64, limit: u32| Command::Backfill {
        id,
        from: minute(from),
        to: minute(to),
        limit,
        pace: None,
        again: false,
    };
    world.command(10, backfill(-180, -60, 10)).await;
    world.settle(10).await;
    assert_eq!(world.ledger(id).await, ["0 started -180", "1 started -120", "2 started -60"]);
    assert_eq!((world.next(id).await, world.runs().await.len()), (Some(60), 3));
    // The same backfill again runs only occurrences that have not run.
    world.command(10, backfill(-240, -60, 10)).await;
    world.settle(10).await;
    assert_eq!(world.ledger(id).await[3..], ["3 started -240"]);
    world.command(10, backfill(-240, -60, 10)).await;
    world.settle(10).await;
    assert_eq!(world.runs().await.len(), 4);
    for (command, message) in
        [(backfill(-59, -1, 10), "no occurrence"), (backfill(-600, -1, 3), "more than 3")]
    {
        let said = refusal(world.try_command(10, command).await);
        assert!(said.contains(message), "{said}");
    }
}

/// The resumption with catch-up would run the same times again.
pub(crate) async fn a_backfill_of_what_fell_due_during_a_pause_is_refused(world: World) {
    let workflow = world.workflow("w").await;
    let id = world.schedule(workflow, r#"{"name": "s", "cron": "*/7 * * * *"}"#).await;
    world.control(10, id, Verb::Pause).await;
    let ask = |from| {
        let (from, to) = (minute(from), minute(40));
        Command::Backfill { id, from, to, limit: 10, pace: None, again: true }
    };
    let said = refusal(world.try_command(40, ask(15)).await);
    assert!(said.contains("after the schedule was paused"), "{said}");
    world.control(41, id, Verb::Resume { catch_up: true }).await;
    world.settle(41).await;
    let caught_up = world.ledger(id).await.len();
    assert_eq!(world.store().check(minute(41), true).await.unwrap(), []);
    // What the resumption has decided can be run once more.
    world.command(41, ask(15)).await;
    world.settle(41).await;
    assert!(world.ledger(id).await.len() > caught_up);
    assert_eq!(world.store().check(minute(41), true).await.unwrap(), []);
}

pub(crate) async fn a_change_that_gives_a_future_brings_a_schedule_back_to_life(world: World) {
    let workflow = world.workflow("w").await;
    let fields = r#"{"name": "s", "interval": "5m", "total_repeats": 1}"#;
    let id = world.schedule(workflow, fields).await;
    world.settle(5).await;
    let schedule = world.seen(id).await;
    assert_eq!((schedule.status, schedule.progress.current_repeat), (Status::Done, 1));
    let edit = |patch: &str| Command::EditSchedule { id, patch: patch.to_owned() };
    world.command(21, edit(r#"{"description": "d"}"#)).await;
    assert_eq!(world.seen(id).await.status, Status::Done);
    world.command(22, edit(r#"{"total_repeats": 2}"#)).await;
    let schedule = world.seen(id).await;
    assert_eq!((schedule.status, world.next(id).await), (Status::Active, Some(25)));
    assert_eq!(schedule.progress.renewed_at, Some(minute(22)));
    world.settle(25).await;
    let schedule = world.seen(id).await;
    assert_eq!((schedule.status, schedule.progress.current_repeat), (Status::Done, 2));
    assert_eq!(schedule.progress.renewed_at, Some(minute(22)), "it stays to be seen");
    assert_eq!(world.ledger(id).await, ["0 started 5", "1 started 25"]);
    assert!(world.store().check(minute(25), false).await.unwrap().is_empty());
}

pub(crate) async fn what_a_definition_declares_is_not_deleted_by_itself(world: World) {
    let text = "name: w\ntriggers: [{id: t, type: schedule, every: 5m}]\nsteps: []\n";
    let workflow = world.publish(0, text).await;
    let own = world.schedule(workflow, r#"{"name": "own", "interval": "5m"}"#).await;
    let declared = world.store().triggered(workflow).await.unwrap()[0].schedule.id;
    let said = refusal(world.try_command(1, Command::DeleteSchedules(vec![own, declared])).await);
    assert!(said.contains(&format!("/schedules/{declared}/disable")), "{said}");
    assert_eq!(world.next(own).await, Some(5), "a refusal changes nothing");
    world.command(1, Command::DeleteSchedules(vec![own])).await;
}

fn next(world: &World, view: &ScheduleView) -> Option<Timestamp> {
    let schedule = &view.schedule;
    let (rules, key) = (world.store().rules(), schedule.spread_key());
    let plan = schedule.declared.plan(&rules, schedule.progress.anchor, &key).unwrap();
    view.outlook(&plan, minute(2)).next()?.effective
}

pub(crate) async fn nothing_comes_of_a_paused_workflow(world: World) {
    let workflow = world.workflow("w").await;
    let other = world.workflow("other").await;
    let held = world.schedule(workflow, r#"{"name": "held", "interval": "5m"}"#).await;
    let free = world.schedule(other, r#"{"name": "free", "interval": "10m"}"#).await;
    let pause = |paused| Command::PauseWorkflow { id: workflow, paused, reason: None };
    world.command(1, pause(true)).await;
    let coming = |all: Vec<ScheduleView>| -> Vec<ScheduleId> {
        all.iter().map(|view| view.schedule.id).collect()
    };
    assert_eq!(coming(world.store().coming(9).await.unwrap()), [free]);
    let view = world.store().schedule(held).await.unwrap().unwrap();
    assert!(view.workflow_is_paused && next(&world, &view).is_none());
    world.command(2, pause(false)).await;
    assert_eq!(coming(world.store().coming(9).await.unwrap()), [held, free]);
    let view = world.store().schedule(held).await.unwrap().unwrap();
    assert_eq!(next(&world, &view), Some(minute(5)));
}
