//! Calendars and the zone database: what next times depend on besides the rule.

use engine::Moment;
use engine::ScheduleId;
use engine::turn::{Answer, Command};
use store::Failure;

use crate::world::{World, minute, performs, refusal, succeeded};

const DAY: i64 = 24 * 60;
const WORKING_WEEK: &str = r#"{"timezone": "UTC", "hours": {"mon-fri": ["09:00-17:00"]}}"#;
const NO_TUESDAY: &str = r#"{"timezone": "UTC", "hours": {"mon-fri": ["09:00-17:00"]},
    "holidays": [{"date": "2026-03-03", "name": "Off"}]}"#;

fn at() -> Moment {
    Moment::new(minute(0), minute(0))
}

async fn put(world: &World, id: &str, spec: &str) -> Result<Vec<ScheduleId>, Failure> {
    world.store().put_calendar(id, spec, at(), None).await
}

pub(crate) async fn a_changed_calendar_moves_what_uses_it(mut world: World) {
    assert_eq!(put(&world, "mine", WORKING_WEEK).await.unwrap(), []);
    let workflow = world.workflow("w").await;
    let fields =
        r#"{"name": "s", "cron": "0 9 * * *", "calendar": "mine", "start": "2026-03-03T00:00Z"}"#;
    let id = world.schedule(workflow, fields).await;
    let other = world.schedule(workflow, r#"{"name": "o", "cron": "0 9 * * *"}"#).await;
    assert_eq!(world.next(id).await, Some(DAY + 540));
    let to_recompute = put(&world, "mine", NO_TUESDAY).await.unwrap();
    assert!(to_recompute.contains(&id) && !to_recompute.contains(&other));
    let answer = world.command(0, Command::Recompute(vec![id, ScheduleId(99)])).await;
    assert_eq!(answer, Answer::Count(1));
    assert_eq!(world.next(id).await, Some(2 * DAY + 540));
    // The calendar is still known after the store was opened again.
    world.join(0).await;
    assert!(world.store().rules().calendar("mine").is_some());
    let known = world.store().calendars().await.unwrap();
    assert_eq!(
        (known.len(), known[0].id.as_str(), known[0].spec.as_str()),
        (1, "mine", NO_TUESDAY)
    );
    world.settle(0).await;
    assert_eq!(world.turn(DAY + 540).await.claimed, 1, "only the other one is due");
    // The ledger records the change of the calendar once.
    world.settle(2 * DAY + 540).await;
    let reasons = world.reasons(id).await;
    let again = reasons.iter().filter(|reason| reason.contains("computed again")).count();
    assert_eq!(again, 1, "{reasons:?}");
}

pub(crate) async fn a_calendar_in_use_is_not_forgotten(world: World) {
    put(&world, "base", WORKING_WEEK).await.unwrap();
    let composed = r#"{"union": ["base"]}"#;
    put(&world, "composed", composed).await.unwrap();
    put(&world, "used", WORKING_WEEK).await.unwrap();
    let workflow = world.workflow("w").await;
    let fields = r#"{"name": "s", "cron": "0 9 * * *", "calendar": "used"}"#;
    let id = world.schedule(workflow, fields).await;
    let said = refusal(world.store().delete_calendar("used", at(), None).await);
    assert!(said.contains(&format!("schedule {id}")), "{said}");
    let said = refusal(world.store().delete_calendar("base", at(), None).await);
    assert!(said.contains("composed"), "{said}");
    assert_eq!(world.store().calendars().await.unwrap().len(), 3);

    world.command(0, Command::DeleteSchedules(vec![id])).await;
    for (calendar, was_there) in
        [("used", true), ("used", false), ("composed", true), ("base", true), ("nobody", false)]
    {
        assert_eq!(
            world.store().delete_calendar(calendar, at(), None).await.unwrap(),
            was_there,
            "{calendar}"
        );
        assert!(world.store().rules().calendar(calendar).is_none());
    }
}

pub(crate) async fn a_calendar_that_cannot_be_built_is_refused(world: World) {
    put(&world, "a", WORKING_WEEK).await.unwrap();
    put(&world, "b", r#"{"union": ["a"]}"#).await.unwrap();
    for (id, spec) in [
        ("c", r#"{"timezone": "Mars/Base"}"#),
        ("c", r#"{"union": ["nobody"]}"#),
        // Each would be built from the other.
        ("a", r#"{"union": ["b"]}"#),
        ("a", r#"{"union": ["a"]}"#),
    ] {
        let said = put(&world, id, spec).await;
        assert!(matches!(said, Err(Failure::Refused(_))), "{id} {spec}: {said:?}");
    }
    assert_eq!(world.store().calendars().await.unwrap().len(), 2);
    let rules = world.store().rules();
    assert!(rules.calendar("a").is_some() && rules.calendar("b").is_some());
}

pub(crate) async fn another_zone_release_recomputes_each_schedule_once(mut world: World) {
    let workflow = world.workflow("w").await;
    let mut known = Vec::new();
    for _ in 0..3 {
        known.push(world.schedule(workflow, r#"{"name": "s", "cron": "0 9 * * *"}"#).await);
    }
    let ask = async |world: &World, zones: &str, after: ScheduleId| {
        world.store().outdated(zones, after, 2).await.unwrap()
    };
    assert_eq!(ask(&world, "2025b", ScheduleId(0)).await, [], "a new store is up to date");
    assert_eq!(ask(&world, "2026a", ScheduleId(0)).await, known[..2]);
    world.command(0, Command::Recompute(known[..2].to_vec())).await;
    assert_eq!(world.next(known[0]).await, Some(540), "the same rule, the same time");
    assert_eq!(ask(&world, "2026a", known[1]).await, known[2..]);
    world.join(0).await;
    assert_eq!(
        ask(&world, "2026a", ScheduleId(0)).await,
        known[..2],
        "not finished, not remembered"
    );
    assert_eq!(ask(&world, "2026a", known[2]).await, []);
    assert_eq!(ask(&world, "2026a", ScheduleId(0)).await, [], "remembered");
}

pub(crate) async fn an_interval_from_completion_is_not_moved(world: World) {
    let workflow = world.workflow("w").await;
    let fields = r#"{"name": "s", "interval": "10m", "from": "completion"}"#;
    let id = world.schedule(workflow, fields).await;
    let turned = world.turn(10).await;
    world.turn_with(17, vec![succeeded(&performs(&turned)[0])]).await;
    assert_eq!(world.next(id).await, Some(27));
    world.command(18, Command::Recompute(vec![id])).await;
    assert_eq!(world.next(id).await, Some(27));
}

pub(crate) async fn a_changed_calendar_is_not_forgotten_by_a_crash(mut world: World) {
    put(&world, "mine", WORKING_WEEK).await.unwrap();
    let workflow = world.workflow("w").await;
    let fields = r#"{"name": "s", "cron": "0 9 * * *", "calendar": "mine"}"#;
    let mut known = Vec::new();
    for _ in 0..3 {
        known.push(world.schedule(workflow, fields).await);
    }
    let ask = async |world: &World, after: ScheduleId| {
        world.store().outdated("2026a", after, 2).await.unwrap()
    };
    assert_eq!(ask(&world, ScheduleId(0)).await, [], "they were made with this calendar");
    put(&world, "mine", NO_TUESDAY).await.unwrap();
    world.command(0, Command::Recompute(known[..1].to_vec())).await;
    // The node dies while it recomputes.
    world.join(0).await;
    assert_eq!(ask(&world, ScheduleId(0)).await, known[1..]);
    assert_eq!(ask(&world, known[1]).await, known[2..]);
    world.command(0, Command::Recompute(known[1..].to_vec())).await;
    assert_eq!(ask(&world, ScheduleId(0)).await, []);
}

pub(crate) async fn nothing_is_decided_by_a_calendar_that_is_no_more(world: World) {
    put(&world, "mine", WORKING_WEEK).await.unwrap();
    let workflow = world.workflow("w").await;
    let fields =
        r#"{"name": "s", "cron": "0 9 * * *", "calendar": "mine", "start": "2026-03-03T00:00Z"}"#;
    let id = world.schedule(workflow, fields).await;
    put(&world, "mine", NO_TUESDAY).await.unwrap();
    assert_eq!(world.next(id).await, Some(DAY + 540), "nobody has computed it again yet");
    world.settle(DAY + 540).await;
    assert_eq!(world.runs().await, Vec::<String>::new(), "Tuesday is off");
    assert_eq!(world.next(id).await, Some(2 * DAY + 540));
    assert_eq!(world.store().outdated("2026a", ScheduleId(0), 9).await.unwrap(), []);
}

pub(crate) async fn what_had_no_next_time_may_have_one_again(world: World) {
    put(&world, "mine", NO_TUESDAY).await.unwrap();
    let workflow = world.workflow("w").await;
    let fields = r#"{"name": "s", "cron": "0 9 * * *", "calendar": "mine",
        "end": "2026-03-03T12:00Z"}"#;
    let id = world.schedule(workflow, fields).await;
    let turned = world.turn(540).await;
    assert_eq!(world.next(id).await, None, "it is over when its run is");
    put(&world, "mine", WORKING_WEEK).await.unwrap();
    world.command(541, Command::Recompute(vec![id])).await;
    assert_eq!(world.next(id).await, Some(DAY + 540));
    world.turn_with(542, vec![succeeded(&performs(&turned)[0])]).await;
    world.settle(DAY + 540).await;
    assert_eq!(world.runs().await.len(), 2);
}
