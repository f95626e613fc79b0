//! Notifications of failures: one when something has finally failed, and one when it succeeds
//! again.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use engine::WorkflowId;
use engine::incidents::{How, ToldOutcome};
use engine::run::TriggeredBy;
use engine::schedule::Status;
use engine::turn::{Answer, Command, Verb};
use jiff::SignedDuration;
use language::definition::{Action, Definition, IncidentAction, SubProcess};
use language::notification_setup::{Channels, Setup};
use serde_json::{Value, json};

use crate::world::{World, failure, success};

/// The names of the workflows that fail. All others succeed.
type Failing = Rc<RefCell<Vec<&'static str>>>;

fn world() -> (World, Failing) {
    let failing: Failing = Rc::default();
    let seen = failing.clone();
    let world = World::new("2026-03-02T09:00:00Z").working(move |perform| {
        let is_failing = seen.borrow().contains(&perform.definition.name.as_str());
        let end = if is_failing { failure("no luck") } else { success() };
        (SignedDuration::ZERO, end)
    });
    (world, failing)
}

fn told(text: &str) -> Vec<IncidentAction> {
    vec![IncidentAction::parse(text).unwrap()]
}

/// Publishes the workflow with one step again, with a change.
fn publish(world: &mut World, name: &str, change: impl FnOnce(&mut Definition)) -> WorkflowId {
    let id = world.workflow(name, None);
    let mut definition = (*world.memory.definitions[&(id, 1)]).clone();
    change(&mut definition);
    let definition = Arc::new(definition);
    let command =
        Command::SaveWorkflow { source: String::new(), definition, publish: true, folder: None };
    match world.command(command).unwrap() {
        Answer::Workflow { id, .. } => id,
        other => panic!("{other:?}"),
    }
}

fn start(world: &mut World, id: WorkflowId) {
    let run = world.new_run();
    world.command(Command::StartWorkflow { id, run }).unwrap();
    let now = world.now.to_string();
    world.advance_to(&now);
}

/// The subjects of the messages that were sent, in order, and the payloads of workflows that were
/// started.
fn messages(world: &World) -> Vec<String> {
    let runs = world.memory.runs.values();
    let told = runs.filter(|run| run.triggered_by == TriggeredBy::Incident);
    told.map(|run| {
        let input: Value = serde_json::from_str(run.input.get()).unwrap();
        let payload = &input["payload"];
        match payload["subject"].as_str() {
            Some(subject) => format!("{} {}: {subject}", payload["channel"], payload["to"]),
            None => format!("started by {} of {}", payload["event"], payload["workflow"]),
        }
    })
    .map(|line| line.replace('"', ""))
    .collect()
}

fn ends(world: &World) -> Vec<Option<How>> {
    let incidents = world.memory.incidents.values();
    incidents.map(|incident| incident.end.as_ref().map(|end| end.how)).collect()
}

const BOTH: &str = r#", "on_failure": [{"notify": {"email": "ops@example.com"}}],
    "on_recovery": {"notify": [{"email": "ops@example.com"}]}"#;

#[test]
fn an_incident_tells_once_that_it_begins_and_once_that_it_is_over() {
    let (mut world, failing) = world();
    let workflow = world.workflow("w", None);
    let id = world.schedule(
        workflow,
        &format!(
            r#"{{"name": "s", "cron": "*/10 * * * *", "max_retries": 2, "overlap": "allow"{BOTH}}}"#
        ),
    );
    failing.borrow_mut().push("w");
    world.advance_to("2026-03-02T09:12:00Z");
    assert_eq!(messages(&world), [""; 0], "it is tried again: nothing has finally failed");
    world.advance_to("2026-03-02T09:15:00Z");
    assert_eq!(messages(&world), ["email ops@example.com: s failed and is dead"]);
    let incident = world.memory.incidents.values().next().unwrap().clone();
    assert_eq!(incident.nominal.unwrap().to_string(), "2026-03-02T09:10:00Z");
    assert_eq!((incident.schedule, &*incident.error), (Some(id), "step only: no luck"));
    assert_eq!(incident.run.unwrap(), format!("sched-{id}-n0-rc2"));
    // Reviving the schedule does not end the incident. Its next success does.
    world.control(id, Verb::Revive).unwrap();
    assert_eq!(ends(&world), [None]);
    failing.borrow_mut().clear();
    world.advance_to("2026-03-02T09:20:00Z");
    let expected =
        ["email ops@example.com: s failed and is dead", "email ops@example.com: s works again"];
    assert_eq!(messages(&world), expected);
    assert_eq!(ends(&world), [Some(How::Recovered)]);
    assert_eq!(world.get(id).progress.incident, None);
    world.advance_to("2026-03-02T10:00:00Z");
    assert_eq!(messages(&world).len(), 2, "what goes well is not told");
}

#[test]
fn what_fails_again_is_not_told_again() {
    let (mut world, failing) = world();
    failing.borrow_mut().push("w");
    let workflow = publish(&mut world, "w", |definition| {
        definition.on_failure = Some(told("webhook:https://hooks.example.com/x"));
        definition.on_recovery = Some(Vec::new());
    });
    for _ in 0..3 {
        start(&mut world, workflow);
    }
    assert_eq!(messages(&world), ["webhook https://hooks.example.com/x: w failed"]);
    failing.borrow_mut().clear();
    start(&mut world, workflow);
    failing.borrow_mut().push("w");
    start(&mut world, workflow);
    assert_eq!(messages(&world).len(), 2, "another incident");
    assert_eq!(ends(&world), [Some(How::Recovered), None]);
}

#[test]
fn what_is_written_nearest_holds() {
    let cases = [
        (None, None, "email node@example.com"),
        (None, Some(told("email:flow@example.com")), "email flow@example.com"),
        (
            Some(r#"{"notify": {"slack": "https://hooks.example.com/T0"}}"#),
            Some(told("email:flow@example.com")),
            "slack https://hooks.example.com/T0",
        ),
        (Some("[]"), Some(told("email:flow@example.com")), ""),
        (None, Some(Vec::new()), ""),
    ];
    for (trigger, workflow, expected) in cases {
        let (mut world, failing) = world();
        world.setup.on_failure = told("email:node@example.com");
        failing.borrow_mut().push("w");
        let id = publish(&mut world, "w", |definition| definition.on_failure = workflow);
        let own = trigger.map(|text| format!(r#", "on_failure": {text}"#)).unwrap_or_default();
        world.schedule(id, &format!(r#"{{"name": "s", "interval": "1m", "max_retries": 0{own}}}"#));
        world.advance_to("2026-03-02T09:02:00Z");
        let messages = messages(&world);
        let (to, _) = messages.first().map_or(("", ""), |line| line.rsplit_once(": ").unwrap());
        assert_eq!(to, expected);
        assert_eq!(world.memory.incidents.len(), 1, "it is an incident whoever is told");
    }
}

#[test]
fn a_schedule_that_dies_is_told_also_while_an_incident_is_open() {
    let (mut world, failing) = world();
    world.setup.on_failure = told("email:ops@example.com");
    failing.borrow_mut().push("w");
    let workflow = world.workflow("w", None);
    let text = r#"{"name": "s", "interval": "1m", "max_retries": 0, "pause_on_failure": true}"#;
    let id = world.schedule(workflow, text);
    world.advance_to("2026-03-02T09:02:00Z");
    assert_eq!((world.get(id).status, messages(&world).len()), (Status::Paused, 1));
    // The next run takes too long, and overlap is an error.
    let patch = r#"{"overlap": "error", "pause_on_failure": false}"#.to_owned();
    world.command(Command::EditSchedule { id, patch }).unwrap();
    world.control(id, Verb::Resume { catch_up: false }).unwrap();
    world = world.working(|_| (SignedDuration::from_mins(10), success()));
    world.advance_to("2026-03-02T09:05:00Z");
    assert_eq!(world.get(id).status, Status::Dead);
    let expected =
        ["email ops@example.com: s failed", "email ops@example.com: s failed and is dead"];
    assert_eq!(messages(&world), expected);
    assert_eq!(ends(&world), [Some(How::Died), None]);
    // The run that was in the way succeeds, so the schedule has recovered.
    world.advance_to("2026-03-02T09:20:00Z");
    assert_eq!(ends(&world), [Some(How::Died), Some(How::Recovered)]);
}

#[test]
fn what_tells_of_a_failure_may_fail_without_being_told() {
    let (mut world, failing) = world();
    world.setup.on_failure =
        [told("email:ops@example.com"), told("start:repair")].into_iter().flatten().collect();
    failing.borrow_mut().extend(["w", "repair", "punctual-notice"]);
    world.workflow("repair", None);
    let workflow = world.workflow("w", None);
    start(&mut world, workflow);
    world.advance_to("2026-03-02T12:00:00Z");
    let expected = ["email ops@example.com: w failed", "started by failure of w"];
    assert_eq!(messages(&world), expected);
    assert_eq!(world.memory.incidents.len(), 1);
}

#[test]
fn a_child_that_is_waited_for_is_told_with_its_parent() {
    let (mut world, failing) = world();
    world.setup.on_failure = told("email:ops@example.com");
    failing.borrow_mut().push("child");
    world.workflow("child", None);
    let parent = publish(&mut world, "parent", |definition| {
        definition.steps[0].action = Action::SubProcess(SubProcess {
            workflow: "child".to_owned(),
            input_mapping: None,
            output_key: None,
            wait_for_completion: true,
        });
    });
    start(&mut world, parent);
    assert_eq!(messages(&world), ["email ops@example.com: parent failed"]);
}

#[test]
fn channels_that_are_not_set_up_are_refused_with_the_reason() {
    let (mut world, failing) = world();
    failing.borrow_mut().push("w");
    let hosts = vec!["known.example.com".to_owned()];
    let channels = Channels { mail: false, webhook_hosts: hosts, webhooks: false };
    let texts = [
        "email:a@example.com",
        "webhook:https://known.example.com/x",
        "webhook:https://other.example.com/x",
        "start:nobody",
    ];
    let on_failure = texts.into_iter().flat_map(told).collect();
    world.setup = Setup { on_failure, channels: Some(channels), ..Setup::NONE };
    let workflow = world.workflow("w", None);
    start(&mut world, workflow);
    let incident = world.memory.incidents.values().next().unwrap();
    let outcomes: Vec<(&str, &str)> = incident
        .told
        .iter()
        .map(|told| {
            (
                &*told.what,
                match &told.outcome {
                    ToldOutcome::Run(_) => "run",
                    ToldOutcome::Refused(why) => why.split(';').next().unwrap(),
                },
            )
        })
        .collect();
    assert_eq!(
        outcomes,
        [
            ("email a@example.com", "this node has no mail server"),
            ("webhook known.example.com", "run"),
            (
                "webhook other.example.com",
                "this node has no secret to sign webhooks to this host with"
            ),
            ("start nobody", "there is no workflow nobody"),
        ]
    );
}

#[test]
fn an_incident_ends_with_what_it_is_about() {
    let (mut world, failing) = world();
    world.setup.on_recovery = told("email:ops@example.com");
    failing.borrow_mut().push("w");
    let workflow = world.workflow("w", None);
    let id = world.schedule(workflow, r#"{"name": "s", "interval": "1m", "max_retries": 0}"#);
    world.advance_to("2026-03-02T09:02:00Z");
    start(&mut world, workflow);
    world.command(Command::DeleteSchedules(vec![id])).unwrap();
    world.command(Command::ArchiveWorkflow(workflow)).unwrap();
    assert_eq!(ends(&world), [Some(How::Removed), Some(How::Removed)]);
    assert_eq!(messages(&world), [""; 0], "nothing has recovered");
}

#[test]
fn the_message_says_what_when_and_why() {
    let (mut world, _) = world();
    world = world.working(|_| {
        let output = json!({"stdout": "copied 3 of 9", "stderr": "disk full\n"});
        let output = Some(serde_json::value::to_raw_value(&output).unwrap());
        let (code, message) = ("exit_code".to_owned(), "`cp` ended with code 1".to_owned());
        let retryable = true;
        (SignedDuration::ZERO, engine::run::AttemptEnd::Failed { code, message, retryable, output })
    });
    world.setup.on_failure = told("email:ops@example.com");
    world.setup.public_url = Some("https://punctual.example.com".to_owned());
    let workflow = world.workflow("backup", None);
    let nightly = r#"{"name": "nightly", "interval": "1m", "max_retries": 0,
        "timezone": "America/New_York"}"#;
    let id = world.schedule(workflow, nightly);
    world.advance_to("2026-03-02T09:01:00Z");
    let run = world.memory.runs.values().find(|run| run.triggered_by == TriggeredBy::Incident);
    let input: Value = serde_json::from_str(run.unwrap().input.get()).unwrap();
    assert_eq!(
        input["payload"]["message"].as_str().unwrap(),
        format!(
            "nightly failed and is dead.\n\nWorkflow: backup\nSchedule: nightly\n\
             Due: 2026-03-02T04:01:00-05:00 (America/New_York)\nRun: sched-{id}-n0-rc0\n\
             Ended: 2026-03-02T09:01:00Z\nError: step only: `cp` ended with code 1\n\n\
             The schedule is dead: it does not run again until somebody revives it.\n\n\
             The end of the output:\ncopied 3 of 9\ndisk full\n\nhttps://punctual.example.com/runs/sched-{id}-n0-rc0\n"
        )
    );
    let about = &input["payload"]["about"];
    let keys: BTreeMap<&str, bool> =
        ["workflow", "run", "nominal_at", "error", "output_end", "link", "input"]
            .into_iter()
            .map(|key| (key, !about[key].is_null()))
            .collect();
    assert!(keys.values().all(|is_there| *is_there), "{keys:?}");
}
