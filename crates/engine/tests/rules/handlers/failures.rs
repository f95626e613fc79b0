//! Failures of a consumer: before its mutation, after it, and when its result is unknown.

use engine::handlers::MutationStatus;
use engine::run::{AttemptEnd, Resolution, RunStatus};
use engine::topics::EventState;
use engine::turn::Command;
use jiff::SignedDuration;
use serde_json::{Value, json};

use super::*;
use crate::world::at;

fn given(perform: &Perform) -> Vec<String> {
    let events = input(perform)["events"].as_array().cloned().unwrap_or_default();
    events.iter().map(|event| event["message_id"].as_str().unwrap().to_owned()).collect()
}

fn sends() -> Consumer {
    Consumer { prepare: Action::Noop, ..mutating("c", &["t"]) }
}

/// A consumer that sends all pending events with one mutation.
fn mutation(perform: &Perform, phase: &str) -> Option<(SignedDuration, AttemptEnd)> {
    match phase {
        "c.prepare" => Some(gives(reserve("t", &given(perform)))),
        "c.mutate" => Some(gives(json!({ "mutation": { "http": { "url": "http://out" } } }))),
        _ => None,
    }
}

fn result_of(log: &Rc<RefCell<Vec<Value>>>) -> Value {
    log.borrow().last().cloned().unwrap_or_default()
}

fn status(world: &World) -> Vec<RunStatus> {
    runs_of(world, "c").iter().map(|run| run.status).collect()
}

fn mutations(world: &World) -> Vec<MutationStatus> {
    world.memory.topics.mutations.values().map(|mutation| mutation.status).collect()
}

#[test]
fn a_mutation_is_noted_before_it_is_performed_and_next_learns_its_result() {
    let results = Rc::new(RefCell::new(Vec::new()));
    let kept = results.clone();
    let (mut world, log) = world(move |perform, phase| {
        mutation(perform, phase).unwrap_or_else(|| match phase {
            "c.mutation" => {
                let asked = perform.mutation.as_ref().unwrap();
                assert_eq!(asked.get(), r#"{"http":{"url":"http://out"}}"#);
                takes(60, json!({ "sent": 1 }))
            }
            _ => {
                kept.borrow_mut().push(input(perform)["result"].clone());
                gives(json!({ "state": "new" }))
            }
        })
    });
    let id = publish_version(&mut world, workflow(&["t"], consumers(vec![sends()])));
    publish(&mut world, id, "t", &["a"]);
    assert_eq!(mutations(&world), [MutationStatus::InFlight]);
    assert_eq!(events(&world, id, "t", EventState::Reserved), ["a"]);
    world.advance_to("2026-03-02T09:02:00Z");
    assert_eq!(*log.borrow(), ["c.prepare", "c.mutate", "c.mutation", "c.next"]);
    assert_eq!(mutations(&world), [MutationStatus::Applied]);
    assert_eq!(result_of(&results), json!({ "status": "applied", "result": { "sent": 1 } }));
    assert_eq!(events(&world, id, "t", EventState::Consumed), ["a"]);
    assert_eq!(handler(&world, "c").state.get(), "\"new\"");
}

#[test]
fn without_a_mutation_next_runs_all_the_same() {
    let results = Rc::new(RefCell::new(Vec::new()));
    let kept = results.clone();
    let (mut world, log) = world(move |perform, phase| match phase {
        "c.prepare" => gives(reserve("t", &given(perform))),
        "c.mutate" => gives(Value::Null),
        _ => {
            kept.borrow_mut().push(input(perform)["result"].clone());
            gives(Value::Null)
        }
    });
    let id = publish_version(&mut world, workflow(&["t"], consumers(vec![sends()])));
    publish(&mut world, id, "t", &["a"]);
    assert_eq!(*log.borrow(), ["c.prepare", "c.mutate", "c.next"]);
    assert_eq!(result_of(&results), json!({ "status": "none" }));
    assert!(mutations(&world).is_empty());
}

#[test]
fn a_failure_before_the_mutation_gives_the_events_back_and_begins_anew_later() {
    let mut fails_left = 2;
    let (mut world, log) = world(move |perform, phase| {
        if phase == "c.mutate" && fails_left > 0 {
            fails_left -= 1;
            return fails(true);
        }
        mutation(perform, phase).unwrap_or_else(|| gives(Value::Null))
    });
    let id = publish_version(&mut world, workflow(&["t"], consumers(vec![sends()])));
    publish(&mut world, id, "t", &["a"]);
    assert_eq!(events(&world, id, "t", EventState::Pending), ["a"]);
    assert_eq!(handler(&world, "c").due(), Some(at("2026-03-02T09:00:10Z")));
    publish(&mut world, id, "t", &["b"]);
    assert_eq!(count(&log, "c.prepare"), 1, "a publish does not shorten the wait");
    world.advance_to("2026-03-02T09:00:29Z");
    assert_eq!(count(&log, "c.prepare"), 2);
    world.advance_to("2026-03-02T09:00:30Z");
    assert_eq!(events(&world, id, "t", EventState::Consumed), ["a", "b"]);
    let event = world.memory.topics.named(topic_id(&world, id, "t"), "a").unwrap();
    assert_eq!(event.status.attempt, 2);
    assert_eq!(handler(&world, "c").failures, 0);
}

#[test]
fn a_failure_after_the_mutation_goes_on_with_next_and_mutates_nothing_twice() {
    let mut fails_left = 3;
    let results = Rc::new(RefCell::new(Vec::new()));
    let kept = results.clone();
    let (mut world, log) = world(move |perform, phase| {
        if phase == "c.next" {
            kept.borrow_mut().push(input(perform)["result"].clone());
            if fails_left > 0 {
                fails_left -= 1;
                return fails(true);
            }
        }
        let otherwise = || gives(json!("result"));
        mutation(perform, phase).unwrap_or_else(otherwise)
    });
    let mut sends = sends();
    sends.next = Some(script());
    let id = publish_version(&mut world, workflow(&["t"], consumers(vec![sends])));
    publish(&mut world, id, "t", &["a"]);
    assert_eq!(events(&world, id, "t", EventState::Reserved), ["a"]);
    world.advance_to("2026-03-02T09:30:00Z");
    assert_eq!(count(&log, "c.mutation"), 1);
    assert_eq!(count(&log, "c.prepare"), 1);
    assert_eq!(count(&log, "c.next"), 4);
    let applied = json!({ "status": "applied", "result": "result" });
    assert!(results.borrow().iter().all(|result| *result == applied));
    let runs = runs_of(&world, "c");
    assert_eq!(runs[1].retry_of.as_ref(), Some(&runs[0].id));
    // The result of `next` is not an object. That is a mistake in the handler, so the workflow
    // waits for a person.
    assert_eq!(runs.last().unwrap().status, RunStatus::Failed);
    assert!(world.memory.workflows[&id].paused);
    assert_eq!(events(&world, id, "t", EventState::Reserved), ["a"]);
}

#[test]
fn after_five_retries_or_a_mistake_the_workflow_waits_for_a_person_who_resumes_it() {
    for (retryable, prepares) in [(true, 6), (false, 1)] {
        let mended = Rc::new(RefCell::new(false));
        let is_mended = mended.clone();
        let (mut world, log) = world(move |perform, phase| {
            if phase == "c.mutate" && !*is_mended.borrow() {
                return fails(retryable);
            }
            mutation(perform, phase).unwrap_or_else(|| gives(Value::Null))
        });
        let id = publish_version(&mut world, workflow(&["t"], consumers(vec![sends()])));
        publish(&mut world, id, "t", &["a"]);
        world.advance_to("2026-03-02T10:00:00Z");
        assert_eq!(count(&log, "c.prepare"), prepares);
        assert!(world.memory.workflows[&id].paused);
        publish(&mut world, id, "t", &["b"]);
        world.advance_to("2026-03-02T11:00:00Z");
        assert_eq!(count(&log, "c.prepare"), prepares, "nothing starts while it is paused");
        *mended.borrow_mut() = true;
        world.command(Command::PauseWorkflow { id, paused: false, reason: None }).unwrap();
        settle(&mut world);
        assert_eq!(events(&world, id, "t", EventState::Consumed), ["a", "b"]);
    }
}

#[test]
fn an_event_that_fails_ten_times_is_skipped_as_poison() {
    let (mut world, _) = world(|perform, phase| match phase {
        "c.mutate" => fails(false),
        _ => mutation(perform, phase).unwrap_or_else(|| gives(Value::Null)),
    });
    let id = publish_version(&mut world, workflow(&["t"], consumers(vec![sends()])));
    publish(&mut world, id, "t", &["a"]);
    for _ in 0..9 {
        assert_eq!(events(&world, id, "t", EventState::Pending), ["a"]);
        world.command(Command::PauseWorkflow { id, paused: false, reason: None }).unwrap();
        settle(&mut world);
    }
    assert_eq!(events(&world, id, "t", EventState::Skipped), ["a"]);
    let event = world.memory.topics.named(topic_id(&world, id, "t"), "a").unwrap();
    assert_eq!(event.status.reason.as_deref(), Some("poison"));
}

fn unknown() -> (SignedDuration, AttemptEnd) {
    let message = "no answer came".to_owned();
    (SignedDuration::ZERO, AttemptEnd::Unknown { message })
}

#[test]
fn an_unknown_outcome_suspends_the_run_until_a_person_says() {
    for (resolution, mutated, next, consumed) in [
        (Resolution::Applied, 1, Some(json!("applied")), true),
        (Resolution::Skip, 1, Some(json!("skipped")), true),
        (Resolution::DidNotHappen, 2, Some(json!("applied")), true),
        (Resolution::Failed, 1, None, false),
    ] {
        let results = Rc::new(RefCell::new(Vec::new()));
        let kept = results.clone();
        let mut is_first = true;
        let (mut world, log) = world(move |perform, phase| match phase {
            "c.mutation" if std::mem::take(&mut is_first) => unknown(),
            "c.next" => {
                kept.borrow_mut().push(input(perform)["result"]["status"].clone());
                gives(Value::Null)
            }
            _ => mutation(perform, phase).unwrap_or_else(|| gives(Value::Null)),
        });
        let id = publish_version(&mut world, workflow(&["t"], consumers(vec![sends()])));
        publish(&mut world, id, "t", &["a"]);
        assert_eq!(status(&world), [RunStatus::Suspended]);
        assert_eq!(mutations(&world), [MutationStatus::Unknown]);
        let paused = &world.memory.workflows[&id];
        assert!(paused.paused && paused.paused_by.is_some(), "{:?}", paused.paused_reason);
        let refused =
            world.command(Command::PauseWorkflow { id, paused: false, reason: None }).unwrap_err();
        assert!(refused.to_string().contains("resolve it"), "{refused}");
        world.advance_to("2026-03-04T09:00:00Z");
        assert_eq!(status(&world), [RunStatus::Suspended], "nothing is guessed");
        let run = runs_of(&world, "c")[0].id.clone();
        let by = "ada".to_owned();
        world.command(Command::ResolveRun { id: run, resolution, by }).unwrap();
        settle(&mut world);
        assert_eq!(count(&log, "c.mutation"), mutated, "{resolution:?}");
        assert_eq!(results.borrow().last().cloned(), next, "{resolution:?}");
        assert_eq!(!events(&world, id, "t", EventState::Consumed).is_empty(), consumed);
        assert_eq!(world.memory.workflows[&id].paused, resolution == Resolution::Failed);
        let noted = world.memory.topics.mutations.values().next().unwrap();
        assert_eq!(noted.said_by.as_deref(), Some("ada"));
    }
}

#[test]
fn a_node_that_dies_while_it_mutates_leaves_it_unknown_and_before_that_nothing_is_lost() {
    for (slow, expected) in [
        ("c.prepare", RunStatus::Succeeded),
        ("c.mutate", RunStatus::Succeeded),
        ("c.mutation", RunStatus::Suspended),
        ("c.next", RunStatus::Succeeded),
    ] {
        let (mut world, log) = world(move |perform, phase| {
            let (time, end) = mutation(perform, phase).unwrap_or_else(|| gives(Value::Null));
            (if phase == slow { seconds(60) } else { time }, end)
        });
        let id = publish_version(&mut world, workflow(&["t"], consumers(vec![sends()])));
        publish(&mut world, id, "t", &["a"]);
        world.advance_to("2026-03-02T09:00:10Z");
        world.lose_node();
        world.advance_to("2026-03-02T09:10:00Z");
        assert_eq!(status(&world), [expected], "{slow}");
        assert_eq!(count(&log, slow), if slow == "c.mutation" { 1 } else { 2 });
        let reserved = events(&world, id, "t", EventState::Reserved);
        assert_eq!(reserved.len(), usize::from(expected == RunStatus::Suspended));
    }
}

#[test]
fn reconcile_finds_out_what_became_of_a_mutation() {
    for (answer, mutated, ended) in [
        (json!({ "status": "applied", "result": 7 }), 1, RunStatus::Succeeded),
        (json!({ "status": "did_not_happen" }), 2, RunStatus::Succeeded),
        (json!({ "status": "unknown" }), 1, RunStatus::Suspended),
        (json!("what?"), 1, RunStatus::Suspended),
    ] {
        let mut is_first = true;
        let told = answer.clone();
        let (mut world, log) = world(move |perform, phase| match phase {
            "c.mutation" if std::mem::take(&mut is_first) => unknown(),
            "c.reconcile" => {
                assert_eq!(input(perform)["mutation"]["http"]["url"], "http://out");
                gives(told.clone())
            }
            _ => mutation(perform, phase).unwrap_or_else(|| gives(Value::Null)),
        });
        let finds = Consumer { reconcile: Some(script()), ..sends() };
        let id = publish_version(&mut world, workflow(&["t"], consumers(vec![finds])));
        publish(&mut world, id, "t", &["a"]);
        world.advance_to("2026-03-02T09:30:00Z");
        assert_eq!(count(&log, "c.reconcile"), 1);
        assert_eq!(count(&log, "c.mutation"), mutated, "{answer}");
        assert_eq!(runs_of(&world, "c").last().unwrap().status, ended, "{answer}");
        let suspended = ended == RunStatus::Suspended;
        assert_eq!(world.memory.workflows[&id].paused, suspended);
    }
}

#[test]
fn a_run_that_may_be_changing_something_outside_is_not_cancelled() {
    for end in [takes(600, Value::Null), unknown()] {
        let (mut world, _) = world(move |perform, phase| match phase {
            "c.mutation" => end.clone(),
            _ => mutation(perform, phase).unwrap_or_else(|| gives(Value::Null)),
        });
        let id = publish_version(&mut world, workflow(&["t"], consumers(vec![sends()])));
        publish(&mut world, id, "t", &["a"]);
        let run = runs_of(&world, "c")[0].id.clone();
        let cancel = Command::CancelRun { id: run, reason: "enough".to_owned() };
        let refused = world.command(cancel).unwrap_err();
        assert!(refused.to_string().contains("resolve it"), "{refused}");
        assert_eq!(events(&world, id, "t", EventState::Reserved), ["a"]);
    }
}

#[test]
fn a_cancelled_run_gives_its_events_back_and_the_workflow_waits() {
    let (mut world, _) = world(|perform, phase| match phase {
        "c.mutate" => takes(600, Value::Null),
        _ => mutation(perform, phase).unwrap_or_else(|| gives(Value::Null)),
    });
    let id = publish_version(&mut world, workflow(&["t"], consumers(vec![sends()])));
    publish(&mut world, id, "t", &["a"]);
    let run = runs_of(&world, "c")[0].id.clone();
    world.command(Command::CancelRun { id: run, reason: "enough".to_owned() }).unwrap();
    settle(&mut world);
    assert_eq!(events(&world, id, "t", EventState::Pending), ["a"]);
    let reason = world.memory.workflows[&id].paused_reason.clone().unwrap();
    assert!(reason.contains("was cancelled") && reason.contains("enough"), "{reason}");
}

#[test]
fn what_was_mutated_is_not_given_back_when_its_consumer_goes() {
    let (mut world, log) = world(|perform, phase| match phase {
        "c.next" => fails(true),
        _ => mutation(perform, phase).unwrap_or_else(|| gives(Value::Null)),
    });
    let id = publish_version(&mut world, workflow(&["t"], consumers(vec![sends()])));
    publish(&mut world, id, "t", &["a"]);
    assert_eq!(events(&world, id, "t", EventState::Reserved), ["a"]);
    let other = Consumer { name: "d".to_owned(), ..sends() };
    publish_version(&mut world, workflow(&["t"], consumers(vec![other])));
    assert_eq!(events(&world, id, "t", EventState::Skipped), ["a"]);
    let event = world.memory.topics.named(topic_id(&world, id, "t"), "a").unwrap();
    let reason = "its mutation was done, and the consumer c is gone";
    assert_eq!(event.status.reason.as_deref(), Some(reason));
    world.advance_to("2026-03-02T10:00:00Z");
    assert_eq!(count(&log, "c.mutation"), 1);
    assert_eq!(count(&log, "d.prepare"), 0);
}

#[test]
fn what_a_person_says_to_go_on_without_is_not_done_again_when_the_last_phase_fails() {
    let (mut is_first, mut fails_left) = (true, 1);
    let results = Rc::new(RefCell::new(Vec::new()));
    let kept = results.clone();
    let (mut world, log) = world(move |perform, phase| match phase {
        "c.mutation" if std::mem::take(&mut is_first) => unknown(),
        "c.next" => {
            kept.borrow_mut().push(input(perform)["result"]["status"].clone());
            if std::mem::take(&mut fails_left) > 0 { fails(true) } else { gives(Value::Null) }
        }
        _ => mutation(perform, phase).unwrap_or_else(|| gives(Value::Null)),
    });
    let id = publish_version(&mut world, workflow(&["t"], consumers(vec![sends()])));
    publish(&mut world, id, "t", &["a"]);
    let run = runs_of(&world, "c")[0].id.clone();
    let (resolution, by) = (Resolution::Skip, "ada".to_owned());
    world.command(Command::ResolveRun { id: run, resolution, by }).unwrap();
    world.advance_to("2026-03-02T09:30:00Z");
    assert_eq!(count(&log, "c.mutation"), 1);
    assert_eq!(*results.borrow(), ["skipped", "skipped"]);
    assert_eq!(events(&world, id, "t", EventState::Consumed), ["a"]);
}

/// A consumer whose last phase fails until `mended` is set, with one event reserved and its
/// mutation done.
fn stuck() -> (World, Log, engine::WorkflowId, Rc<RefCell<bool>>) {
    let mended = Rc::new(RefCell::new(false));
    let is_mended = mended.clone();
    let (mut world, log) = world(move |perform, phase| match phase {
        "c.next" if !*is_mended.borrow() => fails(false),
        _ => mutation(perform, phase).unwrap_or_else(|| gives(Value::Null)),
    });
    let id = publish_version(&mut world, workflow(&["t"], consumers(vec![sends()])));
    publish(&mut world, id, "t", &["a"]);
    assert!(world.memory.workflows[&id].paused);
    assert_eq!(events(&world, id, "t", EventState::Reserved), ["a"]);
    (world, log, id, mended)
}

#[test]
fn what_goes_on_after_its_mutation_uses_the_version_that_is_live() {
    let (mut world, log, id, mended) = stuck();
    *mended.borrow_mut() = true;
    // The new revision performs its mutation directly: the phase that asked for one is gone, and
    // the indexes of the others have changed.
    let fixed = Consumer { mutate: Some(Action::Noop), ..sends() };
    publish_version(&mut world, workflow(&["t"], consumers(vec![fixed])));
    world.command(Command::PauseWorkflow { id, paused: false, reason: None }).unwrap();
    settle(&mut world);
    assert_eq!(*log.borrow(), ["c.prepare", "c.mutate", "c.mutation", "c.next", "c.next"]);
    assert_eq!(events(&world, id, "t", EventState::Consumed), ["a"]);
    let versions: Vec<u32> = runs_of(&world, "c").iter().map(|run| run.version).collect();
    assert_eq!(versions, [1, 2]);
    assert_eq!(status(&world), [RunStatus::Failed, RunStatus::Succeeded]);
}

#[test]
fn what_was_mutated_is_known_also_if_the_live_version_mutates_nothing() {
    let (mut world, log, id, _) = stuck();
    let without = Consumer { mutate: None, ..sends() };
    publish_version(&mut world, workflow(&["t"], consumers(vec![without])));
    world.command(Command::PauseWorkflow { id, paused: false, reason: None }).unwrap();
    settle(&mut world);
    assert_eq!(count(&log, "c.mutation"), 1);
    assert_eq!(events(&world, id, "t", EventState::Reserved), ["a"], "it is not given back");
}

/// A command with which a person ends a run.
type Ends = Box<dyn Fn(engine::RunId) -> Command>;

#[test]
fn a_person_ends_what_is_stuck_after_its_mutation() {
    use EventState::{Consumed, Skipped};
    let cancel = |id| Command::CancelRun { id, reason: "enough".to_owned() };
    let resolve =
        |resolution| move |id| Command::ResolveRun { id, resolution, by: "ada".to_owned() };
    let cases: [(Ends, EventState, &str); 4] = [
        (Box::new(cancel), Skipped, "enough"),
        (Box::new(resolve(Resolution::Skip)), Skipped, "says ada"),
        (Box::new(resolve(Resolution::Failed)), Skipped, "says ada"),
        (Box::new(resolve(Resolution::Applied)), Consumed, ""),
    ];
    for (command, expected, why) in cases {
        let (mut world, log, id, _) = stuck();
        let run = runs_of(&world, "c")[0].id.clone();
        world.command(command(run.clone())).unwrap();
        settle(&mut world);
        assert_eq!(events(&world, id, "t", expected), ["a"]);
        let event = world.memory.topics.named(topic_id(&world, id, "t"), "a").unwrap();
        assert!(event.status.reason.clone().unwrap_or_default().contains(why), "{event:?}");
        assert_eq!(handler(&world, "c").resumes, None);
        world.command(command(run)).unwrap_err();
        // The consumer continues with other events.
        world.command(Command::PauseWorkflow { id, paused: false, reason: None }).unwrap();
        settle(&mut world);
        assert_eq!(count(&log, "c.prepare"), 1, "nothing calls it");
        publish(&mut world, id, "t", &["b"]);
        assert_eq!(count(&log, "c.prepare"), 2);
        assert_eq!(count(&log, "c.mutation"), 2);
    }
}

#[test]
fn an_event_that_is_stuck_after_its_mutation_can_be_skipped() {
    let (mut world, _, id, _) = stuck();
    let topic = topic_id(&world, id, "t");
    let skip = || Command::SkipEvent { topic, message_id: "a".to_owned(), by: "ada".to_owned() };
    world.command(skip()).unwrap();
    assert_eq!(events(&world, id, "t", EventState::Skipped), ["a"]);
    assert_eq!(handler(&world, "c").resumes, None, "nothing is left to go on with");
    let again = world.command(skip()).unwrap_err();
    assert!(again.to_string().contains("'skipped'"), "{again}");
}

#[test]
fn an_event_that_a_run_works_on_cannot_be_skipped() {
    let (mut world, _) = world(|perform, phase| match phase {
        "c.mutate" => takes(600, Value::Null),
        _ => mutation(perform, phase).unwrap_or_else(|| gives(Value::Null)),
    });
    let id = publish_version(&mut world, workflow(&["t"], consumers(vec![sends()])));
    publish(&mut world, id, "t", &["a"]);
    let (topic, run) = (topic_id(&world, id, "t"), runs_of(&world, "c")[0].id.to_string());
    let skip = Command::SkipEvent { topic, message_id: "a".to_owned(), by: "ada".to_owned() };
    let refused = world.command(skip).unwrap_err().to_string();
    assert!(refused.contains(&run), "{refused}");
}

#[test]
fn a_person_tries_the_last_phase_again_while_the_workflow_is_paused() {
    let retry = |world: &World, id| {
        let run = world.new_run();
        Command::RetryRun { id, from_start: false, run }
    };
    let start = |world: &World, id| {
        let run = world.new_run();
        Command::StartHandler { id, handler: "c".to_owned(), run }
    };
    for by_run in [true, false] {
        let (mut world, log, id, mended) = stuck();
        let run = runs_of(&world, "c")[0].id.clone();
        *mended.borrow_mut() = true;
        let command = if by_run { retry(&world, run.clone()) } else { start(&world, id) };
        world.command(command).unwrap();
        settle(&mut world);
        assert!(world.memory.workflows[&id].paused);
        assert_eq!((count(&log, "c.mutation"), count(&log, "c.next")), (1, 2));
        assert_eq!(events(&world, id, "t", EventState::Consumed), ["a"]);
        assert_eq!(runs_of(&world, "c")[1].retry_of.as_ref(), Some(&run));
        assert_eq!(handler(&world, "c").cause, None);
    }
}

#[test]
fn a_run_that_is_cancelled_after_its_mutation_gives_nothing_back() {
    let (mut world, log) = world(|perform, phase| match phase {
        "c.next" => takes(600, Value::Null),
        _ => mutation(perform, phase).unwrap_or_else(|| gives(Value::Null)),
    });
    let id = publish_version(&mut world, workflow(&["t"], consumers(vec![sends()])));
    publish(&mut world, id, "t", &["a"]);
    let run = runs_of(&world, "c")[0].id.clone();
    world.command(Command::CancelRun { id: run, reason: "enough".to_owned() }).unwrap();
    settle(&mut world);
    assert_eq!(events(&world, id, "t", EventState::Skipped), ["a"]);
    assert!(!world.memory.workflows[&id].paused, "nothing waits for a person");
    world.advance_to("2026-03-02T10:00:00Z");
    assert_eq!(count(&log, "c.prepare"), 1);
}

#[test]
fn a_mutation_of_unknown_outcome_began_when_it_did() {
    let (mut world, _) = world(|perform, phase| match phase {
        "c.mutation" => (seconds(60), unknown().1),
        _ => mutation(perform, phase).unwrap_or_else(|| gives(Value::Null)),
    });
    let id = publish_version(&mut world, workflow(&["t"], consumers(vec![sends()])));
    publish(&mut world, id, "t", &["a"]);
    world.advance_to("2026-03-02T09:05:00Z");
    let noted = world.memory.topics.mutations.values().next().unwrap().clone();
    assert_eq!(noted.status, MutationStatus::Unknown);
    assert_eq!(noted.started_at, at("2026-03-02T09:00:00Z"));
    assert_eq!(noted.updated_at, at("2026-03-02T09:01:00Z"));
}
