//! Incidents are stored with the run that caused them, and listed.

use engine::incidents::{How, ToldOutcome};
use engine::run::TriggeredBy;
use engine::turn::{Command, Verb};
use engine::{RunId, ScheduleId};
use jiff::SignedDuration;
use language::definition::IncidentAction;
use language::notification_setup::{Channels, Setup};
use store::{IncidentQuery, IncidentView, RunQuery, WorkflowQuery};

use crate::world::{World, failed, minute, minutes, performs, succeeded};

const DEFINITION: &str = "name: w\nsteps: [{id: a, type: noop, retry: {max: 1}}]\n\
    on_failure: [{notify: {email: ops@example.com}}]\n\
    on_recovery: [{notify: {slack: 'https://hooks.example.com/T0'}}]\n";
const FIELDS: &str = r#"{"name": "s", "interval": "10m", "max_retries": 1, "retry": {"delay": "1m"}, "on_exhausted": "continue"}"#;

async fn incidents(world: &World, query: IncidentQuery) -> Vec<IncidentView> {
    let query = IncidentQuery { limit: 100, ..query };
    world.store().incidents(query).await.unwrap().items
}

async fn all(world: &World) -> Vec<IncidentView> {
    incidents(world, IncidentQuery::default()).await
}

/// One attempt at what is due at this minute. Runs that notify people always succeed.
async fn attempt(world: &World, at: i64, is_well: bool) {
    let mut reports = Vec::new();
    for _ in 0..10 {
        let turned = world.turn_with(at, reports).await;
        let end = |perform: &engine::turn::Perform| match is_well
            || perform.definition.name == "punctual-notice"
        {
            true => succeeded(perform),
            false => failed(perform),
        };
        reports = performs(&turned).iter().map(end).collect();
        if reports.is_empty() {
            return;
        }
    }
}

async fn told(world: &World) -> Vec<String> {
    let triggered_by = Some(TriggeredBy::Incident);
    let query = RunQuery { triggered_by, limit: 100, ..RunQuery::default() };
    let page = world.store().runs(query).await.unwrap();
    page.items.into_iter().map(|view| view.run.id.to_string()).collect()
}

pub(crate) async fn begin_and_end_with_runs_and_tell_once(mut world: World) {
    let workflow = world.publish(0, DEFINITION).await;
    let id = world.schedule(workflow, FIELDS).await;
    attempt(&world, 10, false).await;
    assert_eq!((all(&world).await, world.seen(id).await.progress.incident), (vec![], None));
    attempt(&world, 11, false).await;
    let found = all(&world).await;
    let [view] = &found[..] else { panic!("{found:?}") };
    assert_eq!(world.seen(id).await.progress.incident, Some(view.incident.key));
    assert_eq!(
        (view.workflow_name.as_deref(), view.schedule_name.as_deref()),
        (Some("w"), Some("s"))
    );
    let incident = &view.incident;
    assert_eq!((incident.schedule, incident.nominal.map(minutes)), (Some(id), Some(10)));
    assert_eq!((minutes(incident.began_at), &incident.end), (11, &None));
    assert_eq!(incident.run, Some(format!("sched-{id}-n0-rc1")));
    let [to] = &incident.told[..] else { panic!("{incident:?}") };
    assert_eq!(
        (to.what.as_str(), &to.outcome),
        ("email ops@example.com", &ToldOutcome::Run(told(&world).await[0].clone()))
    );
    // Another failure after a restart belongs to the same incident.
    world.join(12).await;
    attempt(&world, 20, false).await;
    attempt(&world, 21, false).await;
    assert_eq!((all(&world).await.len(), told(&world).await.len()), (1, 1));
    attempt(&world, 30, true).await;
    let ended = all(&world).await.remove(0).incident.end.unwrap();
    assert_eq!((ended.how, minutes(ended.at)), (How::Recovered, 30));
    assert_eq!(ended.run, Some(format!("sched-{id}-n2-rc0")));
    assert_eq!(ended.told[0].what, "slack hooks.example.com");
    assert_eq!(world.seen(id).await.progress.incident, None);
    attempt(&world, 40, true).await;
    assert_eq!(told(&world).await.len(), 2);
    world.holds_together().await;
}

pub(crate) async fn of_runs_without_a_schedule_are_the_workflows(mut world: World) {
    let workflow = world.publish(0, DEFINITION).await;
    world.workflow("other").await;
    let run = world.start(0, workflow).await.unwrap();
    attempt(&world, 0, false).await;
    let again = world.start(1, workflow).await.unwrap();
    attempt(&world, 1, false).await;
    let open = || IncidentQuery { open: Some(true), ..IncidentQuery::default() };
    let found = incidents(&world, open()).await;
    assert_eq!(found.len(), 1);
    assert_eq!(
        (found[0].incident.schedule, found[0].incident.run.clone()),
        (None, Some(run.to_string()))
    );
    let of = |run: &RunId| IncidentQuery { run: Some(run.clone()), ..IncidentQuery::default() };
    assert_eq!(incidents(&world, of(&run)).await, found);
    assert_eq!(incidents(&world, of(&again)).await, []);
    let of = |id: i64| IncidentQuery { schedule: Some(ScheduleId(id)), ..IncidentQuery::default() };
    assert_eq!(incidents(&world, of(1)).await, []);
    assert_eq!(world.workflow_view(workflow).await.workflow.incident, Some(found[0].incident.key));
    world.start(2, workflow).await.unwrap();
    attempt(&world, 2, true).await;
    assert_eq!(incidents(&world, open()).await, []);
    let over = IncidentQuery { open: Some(false), ..IncidentQuery::default() };
    assert_eq!(incidents(&world, over).await.len(), 1);
    let of = IncidentQuery { workflow: Some(workflow), ..IncidentQuery::default() };
    assert_eq!(incidents(&world, of).await.len(), 1);
    world.holds_together().await;
}

pub(crate) async fn are_paged_and_kept_for_a_while(mut world: World) {
    let workflow = world.publish(0, DEFINITION).await;
    for _ in 0..3 {
        world.schedule(workflow, FIELDS).await;
    }
    attempt(&world, 10, false).await;
    attempt(&world, 11, false).await;
    let mut query = IncidentQuery { limit: 2, ..IncidentQuery::default() };
    let first = world.store().incidents(query.clone()).await.unwrap();
    query.after = first.next;
    let second = world.store().incidents(query).await.unwrap();
    assert_eq!((first.items.len(), second.items.len(), second.next), (2, 1, None));
    let mut keys: Vec<i64> =
        first.items.iter().chain(&second.items).map(|view| view.incident.key.0).collect();
    keys.dedup();
    assert!(keys.len() == 3 && keys.is_sorted_by(|a, b| a > b), "{keys:?}");
    // Two incidents are over, one of them because its schedule was deleted.
    world.command(12, Command::DeleteSchedules(vec![ScheduleId(1)])).await;
    world.command(12, Command::ControlSchedule { id: ScheduleId(2), verb: Verb::Pause }).await;
    attempt(&world, 20, true).await;
    let hows: Vec<Option<How>> = all(&world)
        .await
        .iter()
        .map(|view| view.incident.end.as_ref().map(|end| end.how))
        .collect();
    assert_eq!(hows, [Some(How::Recovered), None, Some(How::Removed)]);
    let expired = world.store().expire(minute(21), SignedDuration::ZERO, 100).await.unwrap();
    assert!(!expired.more && expired.removed > 0);
    let left = all(&world).await;
    assert_eq!(
        (left.len(), left[0].incident.schedule),
        (1, Some(ScheduleId(2))),
        "what is open stays"
    );
    // The keys of removed incidents are not given again, also not after a restart.
    world.command(22, Command::DeleteSchedules(vec![ScheduleId(2)])).await;
    world.store().expire(minute(23), SignedDuration::ZERO, 100).await.unwrap();
    world.join(24).await;
    world.start(24, workflow).await.unwrap();
    attempt(&world, 24, false).await;
    let new = all(&world).await;
    assert!(new.len() == 1 && new[0].incident.key.0 > keys[0], "{new:?}");
    world.holds_together().await;
}

pub(crate) async fn tell_as_the_node_says_and_record_what_it_cannot(mut world: World) {
    let workflow = world.workflow("w").await;
    let on_failure = ["email:a@example.com", "slack:https://hooks.example.com/T0"]
        .map(|text| IncidentAction::parse(text).unwrap());
    let setup =
        Setup { on_failure: on_failure.into(), channels: Some(Channels::default()), ..Setup::NONE };
    world.store().set_notify_setup(setup.into());
    world.start(0, workflow).await.unwrap();
    for at in [0, 1, 2, 3] {
        attempt(&world, at, false).await;
    }
    let found = all(&world).await;
    let told = &found[0].incident.told;
    let refused = told[0].refusal().unwrap();
    assert!(refused.starts_with("email a@example.com: this node has no mail server"), "{refused}");
    assert!(matches!(told[1].outcome, ToldOutcome::Run(_)), "{told:?}");
}

pub(crate) async fn what_tells_people_is_hidden_if_asked(mut world: World) {
    let workflow = world.publish(0, DEFINITION).await;
    let run = world.start(0, workflow).await.unwrap();
    attempt(&world, 0, false).await;
    for status in
        [Vec::new(), vec![engine::run::RunStatus::Failed, engine::run::RunStatus::Succeeded]]
    {
        let query = RunQuery { hides_system: true, limit: 100, status, ..RunQuery::default() };
        let page = world.store().runs(query.clone()).await.unwrap();
        let seen: Vec<String> = page.items.iter().map(|view| view.run.id.to_string()).collect();
        assert_eq!(seen, [run.to_string()]);
        let query = RunQuery { hides_system: false, ..query };
        assert_eq!(world.store().runs(query).await.unwrap().items.len(), 2);
    }
    for (hides_system, count) in [(true, 1), (false, 2)] {
        let query = WorkflowQuery { hides_system, limit: 100, ..WorkflowQuery::default() };
        let page = world.store().workflows(query).await.unwrap();
        assert_eq!((page.items.len(), page.total), (count, store::Total::Exact(count as u64)));
    }
}
