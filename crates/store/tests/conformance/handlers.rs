//! Producers and consumers: phases, turns, sleep, and what a failure leaves behind.

use engine::handlers::Cause;
use engine::run::{AttemptEnd, Ending, Resolution, RunStatus, TriggeredBy};
use engine::topics::EventState;
use engine::turn::{Command, WorkflowStatus};
use jiff::SignedDuration;
use serde_json::{Value, json};
use store::{MutationQuery, Report};

use crate::messages::{consumer, gave, input, only, phases, plain, reserves, topic};
use crate::process::noop;
use crate::world::{World, failed, minute, performs, refusal};

pub(crate) async fn events_are_reserved_worked_on_and_consumed(mut world: World) {
    let workflow = world.deploy(0, plain("w")).await;
    world.tell(1, "t", &["a", "b", "c"]).await;
    let mutation = world.up_to_mutation(2, &["c", "a"]).await;
    assert_eq!(world.counts("t").await, [1, 2, 0, 0]);
    assert_eq!(world.events("t").await, ["a reserved 0", "b pending 0", "c reserved 0"]);
    let reserved = world.event("t", "a").await;
    assert_eq!(reserved.event.status.run, Some(mutation.run));
    assert_eq!(reserved.run, Some(mutation.run_id.clone()));
    assert_eq!(world.mutations().await, ["c in_flight"]);
    let view = world.workflow_view(workflow).await.workflow;
    assert_eq!(view.handling, Some(mutation.run));
    let handler = world.handler(workflow, "c").await;
    assert_eq!((handler.run, handler.runs), (Some(mutation.run), 1));
    world.holds_together().await;

    let turned = world.turn_with(3, vec![gave(&mutation, &json!({"sent": true}))]).await;
    assert_eq!(world.mutations().await, ["c applied"]);
    let kept = json!({"state": {"seen": 2}, "publish": [{"topic": "t", "message_id": "d"}]});
    let turned = world.turn_with(4, vec![gave(&only(&turned), &kept)]).await;
    assert_eq!(
        world.events("t").await,
        ["a consumed 0", "b pending 0", "c consumed 0", "d pending 0"]
    );
    assert_eq!(world.event("t", "c").await.event.status.updated_at, minute(4));
    assert_eq!(world.status(&mutation.run_id).await, RunStatus::Succeeded);
    let detail = world.run(&mutation.run_id).await;
    assert_eq!(detail.view.run.handler.as_deref(), Some("c"));
    assert_eq!(detail.view.run.triggered_by, TriggeredBy::Event);
    assert_eq!(detail.steps.len(), 3, "a step for each phase");
    assert_eq!(detail.definition.steps[0].id, "prepare");
    // Events are left, so the next run has begun, with the state the last one returned.
    let next = only(&turned);
    assert_eq!(input(&next)["state"], json!({"seen": 2}));
    let handler = world.handler(workflow, "c").await;
    assert_eq!((handler.runs, handler.last_outcome), (2, Some(Ending::Succeeded)));
    assert_eq!(handler.state.get(), r#"{"seen":2}"#);
    world.join(5).await;
    assert_eq!(world.handler(workflow, "c").await.state.get(), r#"{"seen":2}"#);
    world.holds_together().await;
}

pub(crate) async fn what_a_failed_run_reserved_is_given_back(world: World) {
    let workflow = world.deploy(0, plain("w")).await;
    world.tell(1, "t", &["a", "b"]).await;
    let mutation = world.up_to_mutation(1, &["a"]).await;
    let turned = world.turn_with(1, vec![failed(&mutation)]).await;
    assert_eq!(phases(&turned), Vec::<String>::new());
    assert_eq!(world.events("t").await, ["a pending 1", "b pending 0"]);
    assert_eq!(world.event("t", "a").await.event.status.run, None);
    assert_eq!(world.mutations().await, ["c failed"]);
    let handler = world.handler(workflow, "c").await;
    let again = minute(1) + SignedDuration::from_secs(10);
    assert_eq!((handler.failures, handler.retry_at), (1, Some(again)));
    assert_eq!(turned.next_wakeup, Some(again), "it is tried again");
    world.holds_together().await;
    assert_eq!(phases(&world.turn(2).await), ["c prepare"]);
    let handler = world.handler(workflow, "c").await;
    assert_eq!((handler.run.is_some(), handler.retry_at), (true, None));
    world.holds_together().await;
}

pub(crate) async fn what_fails_too_often_is_skipped(world: World) {
    let definition =
        json!({"name": "w", "topics": [topic("t", 2)], "consumers": [consumer("c", &["t"])]});
    world.deploy(0, definition).await;
    world.tell(0, "t", &["bad", "good"]).await;
    for at in [1, 2] {
        let mutation = world.up_to_mutation(at, &["bad"]).await;
        world.turn_with(at, vec![failed(&mutation)]).await;
    }
    assert_eq!(world.events("t").await, ["bad skipped 2", "good pending 0"]);
    assert_eq!(world.counts("t").await, [1, 0, 0, 1]);
    let skipped = world.event("t", "bad").await.event.status;
    assert_eq!(skipped.reason.as_deref(), Some("poison"));
    world.consume(4, &["good"]).await;
    assert_eq!(world.counts("t").await, [0, 0, 1, 1]);
    world.holds_together().await;
}

pub(crate) async fn what_was_mutated_goes_on_and_is_not_mutated_again(mut world: World) {
    let workflow = world.deploy(0, plain("w")).await;
    world.tell(1, "t", &["a", "b"]).await;
    let next = world.up_to_next(1, &["a"]).await;
    world.turn_with(1, vec![failed(&next)]).await;
    assert_eq!(world.events("t").await, ["a reserved 0", "b pending 0"]);
    let handler = world.handler(workflow, "c").await;
    assert_eq!((handler.resumes, handler.run), (Some(next.run), None));
    world.holds_together().await;
    // The first run is kept, however old it is, because the handler will resume it.
    world.join(2).await;
    while world.store().expire(minute(2), SignedDuration::ZERO, 10).await.unwrap().more {}
    assert_eq!(world.status(&next.run_id).await, RunStatus::Failed);
    let turned = world.turn(3).await;
    assert_eq!(phases(&turned), ["c next"]);
    let again = only(&turned);
    assert_ne!(again.run, next.run);
    assert_eq!(world.run(&again.run_id).await.view.run.retry_of, Some(next.run_id.clone()));
    assert_eq!(world.event("t", "a").await.run, Some(again.run_id.clone()));
    assert_eq!(world.handler(workflow, "c").await.resumes, None);
    world.holds_together().await;
    world.turn_with(3, vec![gave(&again, &Value::Null)]).await;
    assert_eq!(world.counts("t").await, [1, 0, 1, 0]);
    world.holds_together().await;
}

pub(crate) async fn an_unknown_mutation_waits_for_a_person(mut world: World) {
    let workflow = world.deploy(0, plain("w")).await;
    world.tell(1, "t", &["a"]).await;
    let mutation = world.up_to_mutation(1, &["a"]).await;
    let end = AttemptEnd::Unknown { message: "the connection was lost".to_owned() };
    let report = Report { run: mutation.run, token: mutation.token, end };
    world.turn_with(2, vec![report]).await;
    assert_eq!(world.status(&mutation.run_id).await, RunStatus::Suspended);
    assert_eq!(world.mutations().await, ["c unknown"]);
    let query = MutationQuery { workflow: Some(workflow), limit: 10, ..MutationQuery::default() };
    let unknown = world.store().mutations(query).await.unwrap().items.remove(0);
    assert_eq!(unknown.run, mutation.run_id);
    assert_eq!(unknown.mutation.updated_at, minute(2));
    assert!(unknown.mutation.note.unwrap().contains("the connection was lost"));
    world.join(3).await;
    let paused = world.workflow_view(workflow).await.workflow;
    assert!(paused.paused && paused.paused_reason.is_some());
    assert_eq!((paused.paused_by, paused.handling), (Some(mutation.run), Some(mutation.run)));
    world.tell(3, "t", &["b"]).await;
    assert_eq!(phases(&world.turn(3).await), Vec::<String>::new());
    assert_eq!(world.events("t").await, ["a reserved 0", "b pending 0"]);
    world.holds_together().await;

    let (id, resolution) = (mutation.run_id.clone(), Resolution::Applied);
    let by = "ada".to_owned();
    world.command(4, Command::ResolveRun { id, resolution, by }).await;
    let turned = world.turn(4).await;
    assert_eq!(phases(&turned), ["c next"]);
    world.turn_with(4, vec![gave(&only(&turned), &Value::Null)]).await;
    assert_eq!(world.events("t").await, ["a consumed 0", "b pending 0"]);
    assert_eq!(world.mutations().await, ["c applied"]);
    let after = world.workflow_view(workflow).await.workflow;
    assert_eq!((after.paused, after.paused_reason, after.paused_by), (false, None, None));
    world.holds_together().await;
}

pub(crate) async fn a_consumer_sleeps_until_its_time(mut world: World) {
    let workflow = world.deploy(0, plain("w")).await;
    world.tell(1, "t", &["a"]).await;
    let turned = world.turn(1).await;
    let sleep = json!({"wakeAt": minute(60).to_string()});
    let turned = world.turn_with(1, vec![gave(&only(&turned), &sleep)]).await;
    assert_eq!(phases(&turned), Vec::<String>::new());
    assert_eq!(turned.next_wakeup, Some(minute(60)));
    assert_eq!(world.handler(workflow, "c").await.wake_at, Some(minute(60)));
    assert_eq!(world.turn(59).await.claimed, 0);
    world.holds_together().await;
    world.join(59).await;
    assert_eq!(world.turn(59).await.next_wakeup, Some(minute(60)));
    let turned = world.turn(60).await;
    assert_eq!((turned.claimed, phases(&turned)), (1, vec!["c prepare".to_owned()]));
    let run = world.run(&only(&turned).run_id).await.view.run;
    assert_eq!(run.triggered_by, TriggeredBy::Wakeup);
    assert_eq!(world.handler(workflow, "c").await.wake_at, None);
    world.holds_together().await;
    // A published event wakes the consumer sooner.
    let sleep = json!({"wakeAt": minute(120).to_string()});
    world.turn_with(60, vec![gave(&only(&turned), &sleep)]).await;
    world.tell(61, "t", &["b"]).await;
    let turned = world.turn(61).await;
    assert_eq!(phases(&turned), ["c prepare"]);
    assert_eq!(world.turn(121).await.claimed, 0, "it does not sleep any more");
    world.holds_together().await;
}

pub(crate) async fn a_wakeup_of_nobody_is_looked_at_once(world: World) {
    let workflow = world.deploy(0, plain("w")).await;
    world.tell(1, "t", &["a"]).await;
    let turned = world.turn(1).await;
    let sleep = json!({"wakeAt": minute(60).to_string()});
    world.turn_with(1, vec![gave(&only(&turned), &sleep)]).await;
    world.command(2, Command::ArchiveWorkflow(workflow)).await;
    let view = world.workflow_view(workflow).await;
    assert_eq!(view.workflow.status, WorkflowStatus::Archived);
    assert!(world.store().handlers(workflow).await.unwrap().is_empty());
    let turned = world.turn(61).await;
    assert_eq!((turned.claimed, turned.next_wakeup), (0, None));
    assert_eq!(world.counts("t").await, [1, 0, 0, 0], "what was published stays");
    world.tell(62, "t", &["b"]).await;
    assert_eq!(phases(&world.turn(62).await), Vec::<String>::new(), "nobody hears of it");
    world.holds_together().await;
}

pub(crate) async fn handlers_take_turns(mut world: World) {
    let definition = json!({"name": "w", "topics": [topic("t", 10), topic("u", 10)],
        "consumers": [consumer("c", &["t"]), consumer("d", &["u"])]});
    let workflow = world.deploy(0, definition).await;
    world.tell(1, "u", &["x"]).await;
    world.tell(2, "t", &["a"]).await;
    let turned = world.turn(2).await;
    assert_eq!(phases(&turned), ["d prepare"], "one at a time, the oldest event first");
    let called = world.start_handler(2, workflow, "c").await.unwrap();
    assert_eq!(called, None, "it will run when the workflow is free");
    assert_eq!(world.handler(workflow, "c").await.cause, Some(Cause::ByHand));
    let turned = world.turn_with(3, vec![gave(&only(&turned), &Value::Null)]).await;
    assert_eq!(phases(&turned), ["c prepare"]);
    let run = world.run(&only(&turned).run_id).await.view.run;
    assert_eq!(run.triggered_by, TriggeredBy::Manual);
    world.turn_with(3, vec![gave(&only(&turned), &Value::Null)]).await;
    let begun = world.start_handler(4, workflow, "d").await.unwrap().unwrap();
    assert_eq!(only(&world.turn(4).await).run_id, begun);
    refusal(world.start_handler(4, workflow, "nobody").await);
    world.holds_together().await;
}

/// A workflow with a producer that runs every ten minutes.
fn producing(name: &str) -> Value {
    let producer = json!({"name": "p", "schedule": {"interval": "10m"}, "publishes": ["t"],
                          "handler": noop()});
    json!({"name": name, "topics": [topic("t", 10)], "producers": [producer],
           "consumers": [consumer("c", &["t"])]})
}

pub(crate) async fn a_producer_publishes_with_its_success_alone(world: World) {
    let workflow = world.deploy(0, producing("w")).await;
    let turned = world.turn(0).await;
    assert_eq!(phases(&turned), ["p handler"], "a new one is due at once");
    let told = |id: &str| json!({"state": id, "publish": [{"topic": "t", "message_id": id}]});
    let turned = world.turn_with(1, vec![gave(&only(&turned), &told("a"))]).await;
    assert_eq!(world.events("t").await, ["a pending 0"]);
    assert_eq!(world.handler(workflow, "p").await.state.get(), "\"a\"");
    // The consumer has its turn; the producer that is due meanwhile waits.
    let prepare = only(&turned);
    assert_eq!(phases(&turned), ["c prepare"]);
    assert_eq!(phases(&world.turn(10).await), Vec::<String>::new());
    let turned = world.turn_with(11, vec![gave(&prepare, &Value::Null)]).await;
    assert_eq!(phases(&turned), ["p handler"]);
    world.turn_with(11, vec![failed(&only(&turned))]).await;
    assert_eq!(world.events("t").await, ["a pending 0"]);
    let handler = world.handler(workflow, "p").await;
    assert_eq!((handler.state.get(), handler.failures), ("\"a\"", 1));
    world.holds_together().await;
}

pub(crate) async fn a_new_version_keeps_what_it_has_and_forgets_the_rest(mut world: World) {
    let first = json!({"name": "w", "topics": [topic("t", 10), topic("u", 10)],
        "consumers": [consumer("c", &["t"]), consumer("d", &["u"])]});
    let workflow = world.deploy(0, first).await;
    world.tell(1, "t", &["a"]).await;
    let next = world.up_to_next(1, &["a"]).await;
    world.turn_with(1, vec![gave(&next, &json!({"state": [1]}))]).await;
    let ids = |handlers: Vec<store::HandlerView>| -> Vec<(String, i64)> {
        handlers.into_iter().map(|view| (view.handler.name, view.handler.id.0)).collect()
    };
    let before = ids(world.store().handlers(workflow).await.unwrap());
    let second = json!({"name": "w", "topics": [topic("t", 3), topic("u", 10)],
        "consumers": [consumer("b", &["u"]), consumer("c", &["t"])]});
    world.deploy(2, second).await;
    let after = ids(world.store().handlers(workflow).await.unwrap());
    assert_eq!(after.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["b", "c"]);
    assert_eq!(after[1], before[0]);
    assert_eq!(world.handler(workflow, "c").await.state.get(), "[1]");
    assert_eq!(world.topic("t").await.topic.max_attempts, 3);
    assert_eq!(world.counts("t").await, [0, 0, 1, 0]);
    world.tell(3, "u", &["x"]).await;
    let turned = world.turn(3).await;
    assert_eq!(phases(&turned), ["b prepare"]);
    world.turn_with(3, vec![gave(&only(&turned), &Value::Null)]).await;
    // A handler that is declared again gets a new id, even after all others of its kind are gone.
    world.command(4, Command::ArchiveWorkflow(workflow)).await;
    world.join(5).await;
    world.command(5, Command::PublishWorkflow(workflow)).await;
    let new = ids(world.store().handlers(workflow).await.unwrap());
    let greatest = before.iter().chain(&after).map(|(_, id)| *id).max().unwrap();
    assert!(new.iter().all(|(_, id)| *id > greatest), "{new:?} after {greatest}");
    world.holds_together().await;
}

pub(crate) async fn what_a_crash_interrupts_is_begun_again(mut world: World) {
    world.deploy(0, plain("w")).await;
    world.tell(1, "t", &["a"]).await;
    let next = world.up_to_next(1, &["a"]).await;
    world.join(2).await;
    let turned = world.turn(2).await;
    assert_eq!(phases(&turned), ["c next"]);
    assert_eq!(only(&turned).run, next.run);
    assert_eq!(world.events("t").await, ["a reserved 0"]);
    let refused = world.turn_with(2, vec![gave(&next, &Value::Null)]).await.refused;
    assert_eq!(refused, 1, "the life that had it is over");
    world.turn_with(2, vec![gave(&only(&turned), &Value::Null)]).await;
    assert_eq!(world.events("t").await, ["a consumed 0"]);
    assert_eq!(world.event("t", "a").await.event.status.state, EventState::Consumed);
    world.holds_together().await;
}

pub(crate) async fn at_one_instant_handlers_come_after_schedules(world: World) {
    // Producer and consumer are due at the same instant: the producer has begun when the consumer
    // looks.
    world.deploy(0, producing("w")).await;
    let turned = world.turn(0).await;
    let told = json!({"publish": [{"topic": "t", "message_id": "a"}]});
    let turned = world.turn_with(0, vec![gave(&only(&turned), &told)]).await;
    let sleep = json!({"wakeAt": minute(10).to_string()});
    world.turn_with(0, vec![gave(&only(&turned), &sleep)]).await;
    let turned = world.turn(10).await;
    assert_eq!(turned.claimed, 2);
    assert_eq!(phases(&turned), ["p handler"]);
    let turned = world.turn_with(10, vec![gave(&only(&turned), &Value::Null)]).await;
    assert_eq!(phases(&turned), ["c prepare"]);
    let reserve = reserves(&only(&turned), &["a"]);
    assert_eq!(performs(&world.turn_with(10, vec![reserve]).await).len(), 1);
    world.holds_together().await;
}
