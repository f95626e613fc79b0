//! A process of many steps, whose node is killed again and again: every step that must not be
//! repeated runs once, and the result is right.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::hash::{BuildHasher as _, RandomState};
use std::time::Duration;

use serde_json::{Value, json};

use crate::node::{Home, Node, until};

/// The size of the test.
struct Size {
    layers: u64,
    /// Steps of a layer that calculate; as many others write a line.
    width: u64,
    kills: u64,
    /// The longest time that a node runs once it is ready, in milliseconds.
    life: u64,
}

fn size() -> Size {
    match std::env::var("PUNCTUAL_CRASH").as_deref() {
        Ok("full") => Size { layers: 20, width: 5, kills: 30, life: 1_200 },
        _ => Size { layers: 6, width: 3, kills: 6, life: 900 },
    }
}

/// Builds layers of steps: `c` steps add up the results of the layer before, and `m` steps write a
/// line, which must not be written twice.
fn definition(size: &Size, lines: &str) -> String {
    let mut text = String::from("name: layers\nsteps:\n");
    for layer in 0..size.layers {
        for at in 0..size.width {
            let before = |kind: char| {
                let ids = (0..size.width).map(|at| format!("{kind}{}-{at}", layer - 1));
                ids.collect::<Vec<String>>()
            };
            let (sum, depends) = match layer {
                0 => (at.to_string(), String::new()),
                _ => {
                    let terms: Vec<String> = before('c')
                        .iter()
                        .map(|id| format!("{{{{ steps.{id}.output.json }}}}"))
                        .collect();
                    let depends = [before('c'), before('m')].concat().join(", ");
                    (format!("({} + {at}) % 1000", terms.join(" + ")), depends)
                }
            };
            let _ = writeln!(
                text,
                "  - {{ id: c{layer}-{at}, type: exec, shell: true, depends_on: [{depends}], \
                 env: {{ SUM: '{sum}' }}, command: 'sleep 0.05; echo $(( $SUM ))' }}"
            );
            let _ = writeln!(
                text,
                "  - {{ id: m{layer}-{at}, type: exec, shell: true, depends_on: [{depends}], \
                 idempotent: false, command: 'sleep 0.05; echo m{layer}-{at} >> {lines}; sleep 0.05' }}"
            );
        }
        if layer == size.layers / 2 {
            let depends: Vec<String> = (0..size.width).map(|at| format!("c{layer}-{at}")).collect();
            let _ = writeln!(
                text,
                "  - {{ id: pause, type: timer, delay: 3s, depends_on: [{}] }}",
                depends.join(", ")
            );
        }
    }
    let last = size.layers - 1;
    let _ = writeln!(text, "outputs:");
    for at in 0..size.width {
        let _ = writeln!(
            text,
            "  - {{ name: c{at}, source: '{{{{ steps.c{last}-{at}.output.json }}}}' }}"
        );
    }
    text
}

/// The expected results of the steps that calculate.
fn expected(size: &Size) -> BTreeMap<String, u64> {
    let mut values: Vec<u64> = (0..size.width).collect();
    for _ in 1..size.layers {
        let sum: u64 = values.iter().sum();
        values = (0..size.width).map(|at| (sum + at) % 1_000).collect();
    }
    (0..).zip(values).map(|(at, value)| (format!("c{at}"), value)).collect()
}

fn shown(node: &Node, run: &str) -> Value {
    let (status, answer) = node.get(&format!("/api/v1/runs/{run}"));
    assert_eq!(status, 200, "{answer}");
    serde_json::from_str(&answer).expect("JSON")
}

/// Does what a person would do: checks whether the line was written, and resolves the step
/// accordingly.
fn resolve(node: &Node, run: &str, lines: &str) {
    let found = shown(node, run);
    for step in found["steps"].as_array().expect("steps") {
        let reason = step["reason"].as_str().unwrap_or_default();
        if step["status"] != "waiting" || !reason.contains("must not be repeated") {
            continue;
        }
        let id = step["id"].as_str().expect("an id");
        let is_done = lines.lines().any(|line| line == id);
        let resolution = if is_done { "applied" } else { "did_not_happen" };
        let body = json!({ "resolution": resolution, "step": id });
        let (status, answer) = node.post(&format!("/api/v1/runs/{run}/resolve"), &body);
        assert_eq!(status, 200, "{answer}");
    }
}

#[test]
fn a_process_killed_again_and_again() {
    let size = size();
    let home = Home::new();
    let path = home.path("lines");
    std::fs::write(&path, "").expect("it is written");
    let home = home.with("layers.yaml", &definition(&size, &path.display().to_string()));
    let read = || std::fs::read_to_string(&path).expect("lines");
    let mut run = None;
    for _ in 0..size.kills {
        let node = home.serve();
        let run = run.get_or_insert_with(|| {
            let (status, answer) = node.post("/api/v1/workflows/layers/runs", &json!({}));
            assert_eq!(status, 201, "{answer}");
            let answer: Value = serde_json::from_str(&answer).expect("JSON");
            answer["id"].as_str().expect("an id").to_owned()
        });
        // Commands that an earlier node left running have been killed, so the lines no longer
        // change.
        resolve(&node, run, &read());
        // The node is killed at a random moment.
        std::thread::sleep(Duration::from_millis(RandomState::new().hash_one(0_u8) % size.life));
        node.kill();
    }
    let run = run.expect("a run");
    let node = home.serve();
    resolve(&node, &run, &read());
    until("the run has ended", || shown(&node, &run)["ended_at"] != Value::Null);
    let found = shown(&node, &run);
    assert_eq!(found["status"], "succeeded", "{:#}", found["error"]);
    let outputs: BTreeMap<String, u64> =
        serde_json::from_value(found["output"].clone()).expect("numbers");
    assert_eq!(outputs, expected(&size));
    let mut written: HashMap<String, u64> = HashMap::new();
    for line in read().lines() {
        *written.entry(line.to_owned()).or_default() += 1;
    }
    assert_eq!(written.len() as u64, size.layers * size.width);
    assert!(written.values().all(|count| *count == 1), "{written:?}");
    let waited =
        &found["steps"].as_array().expect("steps").iter().find(|step| step["id"] == "pause");
    let waited = waited.expect("the timer")["output"]["waited_seconds"].as_f64();
    assert!(waited.is_some_and(|seconds| seconds >= 3.0), "{waited:?}");
    assert!(node.stop().success());
    home.doctor();
}
