//! The engine gives expressions the fields that `language` knows when it reads a definition.

use calendar::Zones;
use engine::run::{Item, RunStatus};
use language::definition::{ReadContext, limits, output_schema, read};
use language::expression;
use language::input_schema::InputSchema;
use serde_json::{Value, json};

use super::super::world::World;
use super::*;

const BEGIN: &str = "2026-03-02T09:00:00Z";

fn written(text: &str) -> Definition {
    let now = BEGIN.parse().unwrap();
    let context = ReadContext { zones: &Zones::bundled(), now, known_calendar: &|_| None };
    read(text, &context).unwrap_or_else(|flaws| panic!("{flaws:?}"))
}

/// The fields of a schema, with those inside of others, that a value has nowhere. Only an output
/// that was cut has the field `truncated`.
fn unseen(schema: &InputSchema, value: &Value) -> Vec<String> {
    let mut unseen = Vec::new();
    for (name, field) in schema.properties.iter().filter(|(name, _)| *name != "truncated") {
        match value.get(name) {
            Some(value) => unseen.extend(self::unseen(field, value)),
            None => unseen.push(name.clone()),
        }
    }
    if let Some(items) = &schema.items {
        let list = value.as_array().into_iter().flatten();
        unseen.extend(list.flat_map(|item| self::unseen(items, item)));
    }
    unseen
}

/// Checks that a value has the fields that the schema lists, and no others.
#[track_caller]
fn check(what: &str, schema: &InputSchema, value: &Value) {
    let wrong: Vec<String> = schema.check(value).iter().map(|m| format!("{m:?}")).collect();
    assert_eq!((wrong, unseen(schema, value)), (vec![], vec![]), "{what}: {value}");
    assert_ne!(schema, &InputSchema::default(), "{what}: nothing is known");
}

fn output_of_step(world: &World, run: RunKey, id: &str) -> Value {
    let found = &world.memory.runs[&run];
    let definition = world.definition(found.workflow, found.version);
    let step = definition.steps.iter().position(|step| step.id == id).unwrap() as u32;
    let record = &world.memory.records[&(run, step, Item::Whole.number())];
    serde_json::from_str(record.output.as_ref().unwrap().get()).unwrap()
}

const EVERYTHING: &str = "
name: everything
topics: [t]
steps:
  - { id: ask, type: human_approval, title: Go? }
  - { id: rest, type: timer, delay: 1s }
  - { id: way, type: gateway, kind: parallel, routes: [{ target: nothing }] }
  - { id: nothing, type: noop }
  - { id: tell, type: publish, topic: t, title: x }
  - { id: hear, type: wait_for, topic: t, condition: event.title == 'x', depends_on: tell }
  - { id: each, type: for_each, items: [1], step: { type: publish, topic: t } }
  - { id: keyed, type: sub_process, workflow: child, output_key: made }
  - { id: begun, type: sub_process, workflow: child, wait_for_completion: false }
";

#[test]
fn outputs_have_the_fields_that_are_known_of_them() {
    let mut world = World::new(BEGIN);
    world.ends_noops = true;
    publish(&mut world, written("name: child\nsteps: [{ id: work, type: noop }]"));
    let definition = written(EVERYTHING);
    let workflow = publish(&mut world, definition.clone());
    let run = start(&mut world, workflow, json!({}));
    world.advance_to("2026-03-02T09:00:02Z");
    let id = world.memory.runs[&run].id.clone();
    let (step, by, roles) = ("ask".to_owned(), "ada".to_owned(), Vec::new());
    let comment = Some("fine".to_owned());
    world
        .command(Command::DecideApproval { id, step, approves: true, by, roles, comment })
        .unwrap();
    world.advance_to("2026-03-02T09:00:03Z");
    assert_eq!(status(&world, run), RunStatus::Succeeded, "{:?}", world.memory.runs[&run].error);
    for step in definition.steps.iter().filter(|step| step.action != Action::Noop) {
        let schema = output_schema(&step.action, &step.on_error);
        check(&step.id, &schema, &output_of_step(&world, run, &step.id));
    }
}

#[test]
fn a_run_and_its_event_have_the_fields_that_are_known_of_them() {
    let mut world = World::new(BEGIN);
    world.ends_noops = true;
    let definition = written(
        "name: t\ntopics: [t]\ntriggers: [{ id: told, type: event, topic: t }]\n\
         steps: [{ id: a, type: noop }]\noutputs:\n- { name: run, source: '{{ run }}' }\n\
         - { name: workflow, source: '{{ workflow }}' }\n",
    );
    let workflow = publish(&mut world, definition);
    crate::handlers::publish(&mut world, workflow, "t", &["x"]);
    world.advance_to("2026-03-02T09:00:01Z");
    let run = *world.memory.runs.keys().next().unwrap();
    let seen = output_of(&world, run);
    assert_eq!(seen["run"]["event"]["message_id"], "x");
    check("run", &expression::run(), &seen["run"]);
    check("workflow", &expression::workflow(), &seen["workflow"]);
}

#[test]
fn a_rejection_has_the_same_fields() {
    let mut world = World::new(BEGIN);
    let definition = written("name: t\nsteps: [{ id: ask, type: human_approval, title: Go? }]");
    let workflow = publish(&mut world, definition.clone());
    let run = start(&mut world, workflow, json!({}));
    let id = world.memory.runs[&run].id.clone();
    let (step, by, roles) = ("ask".to_owned(), "ada".to_owned(), Vec::new());
    world
        .command(Command::DecideApproval { id, step, approves: false, by, roles, comment: None })
        .unwrap();
    let ask = &definition.steps[0];
    let schema = output_schema(&ask.action, &ask.on_error);
    check("ask", &schema, &output_of_step(&world, run, "ask"));
}

/// An event may be longer than what is kept of an output.
#[test]
fn an_output_that_was_cut_says_so_in_a_known_field() {
    let mut world = World::new(BEGIN);
    let definition = written(
        "name: t\ntopics: [t]\nsteps:\n\
         - { id: tell, type: publish, topic: t, payload: '{{ input.x }}' }\n\
         - { id: hear, type: wait_for, topic: t, depends_on: tell }\n",
    );
    let workflow = publish(&mut world, definition.clone());
    let long = "x".repeat(limits::PAYLOAD_BYTES - 2);
    let run = start(&mut world, workflow, json!({ "x": long }));
    world.advance_to("2026-03-02T09:00:01Z");
    assert_eq!(status(&world, run), RunStatus::Succeeded, "{:?}", world.memory.runs[&run].error);
    let output = output_of_step(&world, run, "hear");
    assert_eq!(output["truncated"], true);
    let hear = definition.steps.iter().find(|step| step.id == "hear").unwrap();
    check("hear", &output_schema(&hear.action, &hear.on_error), &output);
}
