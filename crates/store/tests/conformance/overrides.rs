//! Overrides: single occurrences changed by hand.

use engine::ScheduleId;
use engine::schedule::{Override, OverrideAction, Status};
use engine::turn::{Answer, Command};
use store::Failure;

use crate::set_aside::{aside, damage, drive};
use crate::world::{World, minute, raw, refusal};

async fn put(
    world: &World,
    at: i64,
    id: ScheduleId,
    nominal: i64,
    action: Option<OverrideAction>,
) -> Result<Answer, Failure> {
    let by = "ada".to_owned();
    world.try_command(at, Command::Override { id, nominal: minute(nominal), action, by }).await
}

async fn overrides(world: &World, id: ScheduleId) -> Vec<Override> {
    world.store().schedule(id).await.unwrap().unwrap().overrides
}

pub(crate) async fn one_occurrence_is_skipped_moved_or_given_a_payload(world: World) {
    let workflow = world.workflow("w").await;
    let id = world.schedule(workflow, r#"{"name": "s", "cron": "*/10 * * * *"}"#).await;
    put(&world, 1, id, 10, Some(OverrideAction::Skip)).await.unwrap();
    put(&world, 1, id, 20, Some(OverrideAction::Move(minute(25)))).await.unwrap();
    put(&world, 1, id, 40, Some(OverrideAction::Move(minute(37)))).await.unwrap();
    let payload = OverrideAction::Payload(raw(r#"{"big": 9007199254740993}"#));
    put(&world, 1, id, 50, Some(payload)).await.unwrap();
    let actions = overrides(&world, id).await;
    assert_eq!(actions.len(), 4);
    world.settle_each(1, 60).await;
    assert_eq!(
        world.ledger(id).await,
        [
            "0 skipped 10",
            "1 moved 20",
            "2 started 30",
            "3 moved 40",
            "4 started 50",
            "5 started 60"
        ]
    );
    let run = format!("sched-{id}-n4-rc0").parse().unwrap();
    let input = world.run(&run).await.view.run.input;
    assert!(input.get().contains(r#""payload":{"big": 9007199254740993}"#), "{input}");
    let moved = format!("sched-{id}-n1-rc0").parse().unwrap();
    let moved = world.run(&moved).await.view.run;
    assert_eq!((moved.nominal, moved.effective), (Some(minute(20)), Some(minute(25))));
    assert_eq!(moved.created_at, minute(25));
}

pub(crate) async fn those_moved_onto_one_time_have_one_run_and_a_row_each(world: World) {
    let workflow = world.workflow("w").await;
    let fields = r#"{"name": "s", "cron": "*/10 * * * *", "calendar": "DE-BY",
                     "roll": "skip"}"#;
    for order in [[30, 20], [20, 30]] {
        let id = world.schedule(workflow, fields).await;
        for nominal in order {
            let action = OverrideAction::Move(minute(20));
            put(&world, 1, id, nominal, Some(action)).await.unwrap();
        }
        world.settle_each(1, 45).await;
        let ledger = world.ledger(id).await;
        assert_eq!(ledger[1..4], ["1 moved 20", "2 coalesced 30", "3 started 40"], "{order:?}");
    }
}

/// Saturday's occurrence happens on Friday, before Friday's own.
pub(crate) async fn a_rolled_occurrence_stands_before_one_that_is_not(world: World) {
    let workflow = world.workflow("w").await;
    let rule = r#"{"name": "s", "rules": [{"cron": "0 10 * * FRI"}, {"cron": "0 9 * * SAT"}],
                   "calendar": "DE-BY", "roll": "previous"}"#;
    let id = world.schedule(workflow, rule).await;
    let day = 24 * 60;
    let (friday, saturday) = (4 * day + 10 * 60, 5 * day + 9 * 60);
    assert_eq!(world.next(id).await, Some(friday - 60));
    for nominal in [friday, saturday] {
        put(&world, 1, id, nominal, Some(OverrideAction::Skip)).await.unwrap();
    }
    assert!(
        !refusal(put(&world, 1, id, saturday - day, Some(OverrideAction::Skip)).await).is_empty()
    );
}

pub(crate) async fn a_withdrawn_override_leaves_nothing(world: World) {
    let workflow = world.workflow("w").await;
    let id = world.schedule(workflow, r#"{"name": "s", "cron": "*/10 * * * *"}"#).await;
    put(&world, 1, id, 10, Some(OverrideAction::Move(minute(15)))).await.unwrap();
    assert_eq!(world.next(id).await, Some(15));
    put(&world, 2, id, 10, Some(OverrideAction::Skip)).await.unwrap();
    assert_eq!(overrides(&world, id).await.len(), 1, "the later one counts");
    put(&world, 3, id, 10, None).await.unwrap();
    assert!(overrides(&world, id).await.is_empty());
    assert_eq!(world.turn(3).await.next_wakeup, Some(minute(10)));
    world.settle(10).await;
    assert_eq!(world.ledger(id).await, ["0 started 10"]);
}

pub(crate) async fn a_schedule_whose_last_occurrence_is_withdrawn_is_done(world: World) {
    let workflow = world.workflow("w").await;
    let id = world.schedule(workflow, r#"{"name": "s", "cron": "*/10 * * * *"}"#).await;
    let over = |action| Command::Override { id, nominal: minute(10), action, by: "ada".to_owned() };
    world.command(0, over(Some(OverrideAction::Move(minute(100))))).await;
    let patch = r#"{"at": "2026-03-02T00:20Z"}"#.to_owned();
    world.command(0, Command::EditSchedule { id, patch }).await;
    world.settle(20).await;
    assert_eq!((world.seen(id).await.status, world.next(id).await), (Status::Active, Some(100)));
    world.command(30, over(None)).await;
    assert_eq!((world.seen(id).await.status, world.next(id).await), (Status::Done, None));
}

pub(crate) async fn only_what_comes_can_be_overridden(world: World) {
    let workflow = world.workflow("w").await;
    let id = world.schedule(workflow, r#"{"name": "s", "cron": "*/10 * * * *"}"#).await;
    world.settle(10).await;
    for (nominal, action) in [
        (10, OverrideAction::Skip),
        (0, OverrideAction::Skip),
        (25, OverrideAction::Skip),
        (30, OverrideAction::Move(minute(9))),
        (30, OverrideAction::Move(minute(11))),
    ] {
        let said = refusal(put(&world, 11, id, nominal, Some(action.clone())).await);
        assert!(!said.is_empty(), "{nominal} {action:?}");
    }
    let unknown = put(&world, 11, ScheduleId(99), 20, Some(OverrideAction::Skip)).await;
    assert_eq!(refusal(unknown), "There is no schedule 99.");
    assert!(overrides(&world, id).await.is_empty());
}

pub(crate) async fn frequent_and_far_occurrences_can_be_overridden(world: World) {
    let workflow = world.workflow("w").await;
    let year = 365 * 24 * 60;
    for (fields, nominal) in [
        (r#"{"name": "s", "interval_seconds": 5}"#, 1),
        (r#"{"name": "s", "interval_seconds": 5}"#, year),
        (r#"{"name": "m", "cron": "* * * * *"}"#, year),
        (r#"{"name": "m", "cron": "* * * * *", "spread": "50s"}"#, year),
    ] {
        let id = world.schedule(workflow, fields).await;
        put(&world, 0, id, nominal, Some(OverrideAction::Skip)).await.unwrap();
    }
}

pub(crate) async fn those_that_cannot_be_read_are_cleared_one_by_one(mut world: World) {
    let workflow = world.workflow("w").await;
    let fields = r#"{"name": "s", "cron": "*/10 * * * *", "overlap": "allow"}"#;
    let id = world.schedule(workflow, fields).await;
    for nominal in [30, 40, 50] {
        put(&world, 1, id, nominal, Some(OverrideAction::Skip)).await.unwrap();
    }
    let before = minute(50).as_millisecond();
    let sql = format!("UPDATE overrides SET action = '{{bad' WHERE nominal < {before}");
    damage(&mut world, 2, &sql).await;
    drive(&world, 10).await;
    let known = [("schedule", id.to_string())];
    assert_eq!(aside(&world).await, known);
    // The schedule is shown, and what cannot be read of it is named.
    let view = world.store().schedule(id).await.unwrap().unwrap();
    assert_eq!(view.unreadable_overrides, [minute(30), minute(40)]);
    assert_eq!(view.overrides.len(), 1);
    let found = world.store().check(minute(10), true).await.unwrap();
    let told: Vec<&str> = found.iter().map(|finding| finding.message.as_str()).collect();
    let told = told.join("; ");
    let named = format!("override of occurrence {} of schedule {id} cannot be read", minute(30));
    assert!(told.contains(&named), "{told}");
    assert!(told.contains("--clear") && !told.contains("is there again"), "{told}");
    assert_eq!(aside(&world).await, known, "a repair does not bring it back");
    put(&world, 11, id, 30, None).await.unwrap();
    assert_eq!(aside(&world).await, known, "another is left");
    put(&world, 11, id, 40, None).await.unwrap();
    assert_eq!(aside(&world).await, []);
    assert_eq!(world.store().check(minute(11), false).await.unwrap(), []);
    world.join(11).await;
    for at in [20, 30, 40, 50, 60] {
        drive(&world, at).await;
    }
    let ledger = world.ledger(id).await;
    assert!(ledger.iter().any(|row| row.ends_with("skipped 50")), "{ledger:?}");
    assert!(ledger.iter().any(|row| row.ends_with("started 60")), "{ledger:?}");
    assert!(!ledger.iter().any(|row| row.ends_with("skipped 30")), "{ledger:?}");
}
