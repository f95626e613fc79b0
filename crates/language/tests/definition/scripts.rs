//! Definitions that a script describes: functions, and the positions of flaws.

use language::definition::{
    Action, Definition, Flaw, ScriptAction, commands, locate, read_script, warnings,
};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::{place, with_context};

const SOURCE: &str = r#"export default workflow({
  name: "email-digest",
  topics: ["email.received"],
  producers: {
    pollEmail: {
      schedule: { interval: "5m" },
      publishes: ["email.received"],
      handler: async (ctx, state) => state,
    },
  },
  consumers: {
    digest: {
      subscribe: ["email.received"],
      prepare: async (ctx, state) => ({ reservations: [] }),
      mutate: async (ctx, prepared) => {},
      next: async (ctx, prepared, result) => ({}),
    },
  },
});
"#;

fn function(line: u32, column: u32) -> Value {
    json!({"function": true, "line": line, "column": column})
}

fn digest() -> Value {
    json!({
        "name": "email-digest",
        "topics": ["email.received"],
        "producers": {"pollEmail": {
            "schedule": {"interval": "5m"},
            "publishes": ["email.received"],
            "handler": function(8, 16),
        }},
        "consumers": {"digest": {
            "subscribe": ["email.received"],
            "prepare": function(14, 16),
            "mutate": function(15, 15),
            "next": function(16, 13),
        }},
    })
}

fn read(source: &str, described: &Value) -> Result<Definition, Vec<Flaw>> {
    with_context(|context| read_script(source, described, context))
}

fn entry(way: &[&str]) -> Action {
    let entry = way.iter().map(|part| (*part).to_owned()).collect();
    Action::Script(ScriptAction { source: None, entry })
}

/// The printed flaws of the digest after `edit`.
fn printed(edit: impl FnOnce(&mut Value)) -> String {
    let mut described = digest();
    edit(&mut described);
    let flaws = read(SOURCE, &described).expect_err("accepted");
    flaws.iter().map(place).collect::<Vec<_>>().join("\n")
}

#[test]
fn functions_become_entries() {
    let read = read(SOURCE, &digest()).unwrap();
    assert_eq!(read.script.as_deref(), Some(SOURCE));
    assert_eq!(read.producers[0].handler, entry(&["producers", "pollEmail", "handler"]));
    let digest = &read.consumers[0];
    assert_eq!(digest.prepare, entry(&["consumers", "digest", "prepare"]));
    assert_eq!(digest.mutate, Some(entry(&["consumers", "digest", "mutate"])));
    assert_eq!(digest.next, Some(entry(&["consumers", "digest", "next"])));
    let stored = serde_json::to_string(&read).unwrap();
    assert_eq!(serde_json::from_str::<Definition>(&stored).unwrap(), read);
    assert_eq!(read.handler("digest").unwrap().script.as_deref(), Some(SOURCE));
}

/// Functions in steps, beside texts, templates, numbers and everything else that YAML can express.
#[test]
fn a_process_as_well() {
    let described = json!({
        "name": "sums", "version": 1.5, "timezone": "Europe/Berlin", "concurrency": 2,
        "topics": {"done": {"external": true}},
        "triggers": [{"id": "t", "type": "schedule", "interval": 300, "payload": {"n": 9007199254740993_u64}}],
        "secrets": ["KEY"],
        "steps": [
            {"id": "add", "type": "script", "script": {"function": true}},
            {"id": "say", "type": "publish", "topic": "done", "payload": "{{ steps.add.output }}",
             "condition": "steps.add.output > 1", "depends_on": "add"},
            {"id": "each", "type": "for_each", "items": [1, 2],
             "step": {"type": "script", "script": {"function": true, "line": 1}}},
            {"id": "undo", "type": "noop", "compensation": {"type": "script", "source": {"function": true}}},
        ],
    });
    let read = read("x", &described).unwrap_or_else(|flaws| panic!("{flaws:?}"));
    assert_eq!((read.version.to_string().as_str(), read.concurrency), ("1.5", Some(2)));
    let step = |id: &str| read.steps.iter().find(|step| step.id == id).unwrap();
    assert_eq!(step("add").action, entry(&["steps", "0", "script"]));
    let Action::ForEach(each) = &step("each").action else { panic!("{read:?}") };
    assert_eq!(*each.action, entry(&["steps", "2", "step", "script"]));
    let undo = step("undo").compensation.as_ref().unwrap();
    assert_eq!(undo.action, entry(&["steps", "3", "compensation", "source"]));
    let Action::Publish(say) = &step("say").action else { panic!("{read:?}") };
    assert_eq!(say.payload, Some(json!("{{ steps.add.output }}")));
}

/// A computed value has the position of something nearby, and the excerpt shows the value instead.
#[test]
fn places() {
    insta::assert_snapshot!(printed(|described| {
        described["name"] = json!("Email digest");
        described["nmae"] = json!(1);
        described["producers"]["pollEmail"]["schedule"] = json!({"cron": "61 * * * *"});
        described["consumers"]["digest"]["subscribe"] = json!(["email.recieved"]);
        described["consumers"]["digest"]["timeout"] = function(16, 13);
        described["consumers"]["digest"]["prepare"] = json!({"type": "http", "url": "{{ imput }}"});
        described["description"] = json!("{{ x }}");
    }), @r#"
    1:1 nmae: unknown key nmae
      allowed: name, version, description, timezone, calendars, calendar, concurrency, timeout, retention, input, triggers, topics, secrets, producers, consumers, steps, max_concurrent_steps, deadline, on_failure, on_recovery, outputs
    1:1 description: templates ({{ … }}) are not filled in here
      try: a text without {{
    2:9 name: Email digest is not a name
        name: "email-digest",
              ^^^^^^^^^^^^^^
      allowed: a-z, 0-9 and -, beginning with a letter, at most 64 characters
      try: email-digest
    6:17 producers.pollEmail.schedule.cron: minute 61 is out of range
      61 * * * *
      ^^
      allowed: 0-59
      try: 59 * * * *
    13:19 consumers.digest.subscribe[0]: the topic email.recieved is not declared
            subscribe: ["email.received"],
                        ^^^^^^^^^^^^^^^^
      try: email.received
    14:16 consumers.digest.prepare.url: unknown name imput
      {{ imput }}
         ^^^^^
      allowed: input, steps, run, workflow, secrets
      try: input
    16:13 consumers.digest.timeout: expected a duration such as 30s, 5m or 1h30m, found a function
            next: async (ctx, prepared, result) => ({}),
                  ^
    "#);
}

/// A literal has its exact position, however far the next function is.
#[test]
fn places_of_what_is_written_out() {
    let source = r#"// A digest.
export default workflow({
  name: "email-digest",
  timezone: "Europe/Berlni",
  topics: ["email.received"],
  producers: {
    pollEmail: {
      schedule: { cron: "61 * * * *", overlpa: "skip" },
      publishes: ["email.recieved"],
      handler: async (ctx, state) => state,
    },
  },
  steps: [
    { id: "one", type: "noop" },
    { id: "two", type: "worker", queue: "q", input: { n: "{{ inptu.n }}" } },
  ],
});
"#;
    let described = json!({
        "name": "email-digest",
        "timezone": "Europe/Berlni",
        "topics": ["email.received"],
        "producers": {"pollEmail": {
            "schedule": {"cron": "61 * * * *", "overlpa": "skip"},
            "publishes": ["email.recieved"],
            "handler": function(10, 16),
        }},
        "steps": [
            {"id": "one", "type": "noop"},
            {"id": "two", "type": "worker", "queue": "q", "input": {"n": "{{ inptu.n }}"}},
        ],
    });
    let flaws = read(source, &described).expect_err("accepted");
    let places: Vec<_> =
        flaws.iter().map(|flaw| (flaw.path.as_str(), flaw.line, flaw.column)).collect();
    assert_eq!(
        places,
        [
            ("timezone", 4, 14),
            ("producers.pollEmail.schedule.cron", 8, 26),
            ("producers.pollEmail.schedule.overlpa", 8, 39),
            ("producers.pollEmail.publishes[0]", 9, 19),
            ("steps[1].input.n", 15, 62),
        ]
    );
    let shown = flaws[1].excerpt.as_ref().map(|(line, span)| &line[span.clone()]);
    assert_eq!(shown, Some("61"));
}

#[test]
fn a_handler_that_is_not_there() {
    insta::assert_snapshot!(printed(|described| {
        described["producers"]["pollEmail"]["handler"] = Value::Null;
        described["consumers"]["digest"].as_object_mut().unwrap().remove("prepare");
    }), @r#"
    8:16 producers.pollEmail.handler: expected a script or an action, found nothing
            handler: async (ctx, state) => state,
                     ^^^^^^^^^^^^^^^^^^^^^^^^^^^
      try: async (ctx, state) => { … }
    15:7 consumers.digest.prepare: prepare is missing
            mutate: async (ctx, prepared) => {},
            ^^^^^^
      try: prepare: async (ctx, state) => { … }
    "#);
}

#[test]
fn functions_where_none_belongs() {
    insta::assert_snapshot!(printed(|described| {
        described["name"] = function(1, 1);
        described["description"] = json!({"function": true});
        described["triggers"] = json!([{"id": "a", "type": "schedule", "interval": "5m", "payload": {"x": function(8, 16)}}]);
        described["steps"] = json!([
            {"id": "a", "type": "worker", "queue": "q", "input": {"f": function(14, 16)}},
            {"id": "a", "type": "noop", "condition": function(15, 15)},
        ]);
    }), @r#"
    1:1 name: expected a text, found a function
      export default workflow({
      ^
    1:1 description: expected a text, found a function
    8:16 triggers[0].payload.x: a function is not possible here
            handler: async (ctx, state) => state,
                     ^
      try: a value that JSON can say
    14:16 steps[0].input.f: a function is not possible here
            prepare: async (ctx, state) => ({ reservations: [] }),
                     ^
      try: a value that JSON can say
    15:15 steps[1].id: the id a is used twice
    15:15 steps[1].condition: expected a text such as input.total > 100, found a function
            mutate: async (ctx, prepared) => {},
                    ^
    "#);
}

#[test]
fn nonsense_is_refused() {
    let codes = |source: &str, described: &Value| {
        let flaws = read(source, described).expect_err("accepted");
        for flaw in &flaws {
            let text = source.lines().count().max(1);
            assert!(flaw.line as usize <= text, "{flaw:?}");
        }
        flaws.iter().map(|flaw| flaw.code).collect::<Vec<_>>().join(" ")
    };
    for described in [json!(null), json!(5), json!([]), json!("x"), function(1, 1)] {
        assert_eq!(codes("x", &described), "type", "{described}");
    }
    assert_eq!(codes("x", &json!({})), "missing missing");
    let deep = (0..100).fold(json!(1), |inner, _| json!([inner]));
    assert_eq!(codes("x", &json!({"name": deep})), "limit");
    assert_eq!(codes("x", &json!({"name": "a".repeat(70_000)})), "limit");
    assert_eq!(codes("x", &json!({"name": vec![0; 250_001]})), "limit");
    assert_eq!(codes(&"x".repeat((1 << 20) + 1), &digest()), "limit");
    // Positions that the script does not have.
    for (line, column) in [(0, 0), (99, 1), (1, 99), (u32::MAX, u32::MAX)] {
        let mut described = digest();
        described["name"] = function(line, column);
        assert_eq!(codes(SOURCE, &described), "type");
    }
    // A marker with other keys is an ordinary mapping, whose type is missing.
    let mut described = digest();
    described["producers"]["pollEmail"]["handler"] = json!({"function": true, "of": 1});
    assert_eq!(codes(SOURCE, &described), "missing");
}

/// Warnings about a script have paths, but no lines.
#[test]
fn warnings_have_paths_alone() {
    let mut described = digest();
    described["consumers"]["digest"] =
        json!({"subscribe": "email.received", "prepare": {"type": "exec", "command": ["x"]}});
    let read = read(SOURCE, &described).unwrap();
    let found = with_context(|context| locate(warnings(&read, context), SOURCE));
    let all: Vec<(&str, u32)> = found.iter().map(|flaw| (&*flaw.path, flaw.line)).collect();
    assert_eq!(all, [("consumers.digest.prepare", 0)]);
    let found = commands(&read, SOURCE);
    assert_eq!((&*found[0].path, found.len()), ("consumers.digest.prepare.type", 1));
}

/// Values of all kinds, some with keys that have a meaning in definitions.
fn anything() -> impl Strategy<Value = Value> {
    const KEYS: [&str; 9] =
        ["name", "type", "script", "function", "line", "schedule", "interval", "topic", "id"];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "[a-z{} .]{0,12}".prop_map(Value::from),
        (0..30_u32, 0..60_u32).prop_map(|(line, column)| function(line, column)),
    ];
    leaf.prop_recursive(4, 24, 5, |inner| {
        let key = proptest::sample::select(&KEYS[..]).prop_map(str::to_owned);
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(key, inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Whatever the value and its place, each flaw has a position in the script.
    #[test]
    fn anything_is_read_or_refused(at in 0..12_usize, value in anything()) {
        let ways = [
            "/name", "/topics", "/topics/0", "/producers", "/producers/pollEmail",
            "/producers/pollEmail/schedule", "/producers/pollEmail/publishes",
            "/producers/pollEmail/handler", "/consumers", "/consumers/digest",
            "/consumers/digest/subscribe", "/consumers/digest/mutate",
        ];
        let mut described = digest();
        *described.pointer_mut(ways[at]).expect("a way") = value;
        if let Err(flaws) = read(SOURCE, &described) {
            let lines = SOURCE.lines().count();
            for flaw in flaws {
                prop_assert!((1..=lines).contains(&(flaw.line as usize)) && flaw.column > 0, "{flaw:?}");
            }
        }
    }
}
