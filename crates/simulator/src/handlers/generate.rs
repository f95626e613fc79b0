//! Random workflows with topics: handlers and steps come and go from version to version.

use serde_json::{Map, Value, json};

use crate::random::Random;

/// The name of such workflows, followed by a number.
pub(crate) const PREFIX: &str = "handlers-";
/// How many such workflows there are at most.
pub(crate) const MOST: usize = 2;
/// The topics that each of them has; the last one is shared by all.
pub(crate) const TOPICS: [&str; 3] = ["t0", "t1", "common"];
/// The only topic that triggers subscribe to. Steps do not publish to it, so that no workflow
/// starts itself again and again.
const HEARD: &str = "t1";
/// How many handlers of each kind a workflow has at most.
const HANDLERS: usize = 3;

/// A random message id, out of few, so that the same ones are published again.
pub(crate) fn message_id(random: &mut Random) -> String {
    format!("m{}", random.below(120))
}

/// The definition of the workflow with this number, as JSON.
pub(crate) fn definition(random: &mut Random, index: usize) -> String {
    let mut whole = Map::new();
    whole.insert("name".to_owned(), Value::from(format!("{PREFIX}{index}")));
    whole.insert("topics".to_owned(), topics(random));
    if random.chance(200) {
        whole.insert("retention".to_owned(), Value::from("3h"));
    }
    let mut producers = named(random, "p", 600, producer);
    let consumers = named(random, "c", 700, consumer);
    if producers.is_empty() && consumers.is_empty() {
        producers.insert("p0".to_owned(), producer(random));
    }
    if !producers.is_empty() {
        whole.insert("producers".to_owned(), Value::Object(producers));
    }
    if !consumers.is_empty() {
        whole.insert("consumers".to_owned(), Value::Object(consumers));
    }
    if random.chance(500) {
        whole.insert("concurrency".to_owned(), Value::from(random.between(1, 3)));
        whole.insert("timeout".to_owned(), Value::from("2h"));
        whole.insert("steps".to_owned(), steps(random));
        if random.chance(600) {
            whole.insert("triggers".to_owned(), json!([trigger(random)]));
        }
    }
    Value::Object(whole).to_string()
}

fn topics(random: &mut Random) -> Value {
    let mut topics = Map::new();
    for name in TOPICS {
        let attempts = random.pick(&[1, 2, 3, 10]);
        let mut options = json!({ "max_attempts": attempts, "external": true });
        if name == TOPICS[2] {
            options = json!({ "max_attempts": 3, "shared": true });
        }
        topics.insert(name.to_owned(), options);
    }
    Value::Object(topics)
}

fn named(
    random: &mut Random,
    letter: &str,
    often: u32,
    make: fn(&mut Random) -> Value,
) -> Map<String, Value> {
    let mut all = Map::new();
    for index in 0..HANDLERS {
        if random.chance(often) {
            all.insert(format!("{letter}{index}"), make(random));
        }
    }
    all
}

fn script() -> Value {
    json!({ "script": "return null" })
}

fn http() -> Value {
    json!({ "type": "http", "method": "POST", "url": "https://example.com/" })
}

fn producer(random: &mut Random) -> Value {
    let schedule = match random.below(4) {
        0 => json!({ "cron": "*/10 * * * *" }),
        1 => json!({ "interval": "1h" }),
        2 => json!({ "interval": "7m", "catch_up": "none" }),
        _ => json!({ "interval": format!("{}m", random.between(3, 40)) }),
    };
    let handler = match random.below(6) {
        0 => json!({ "type": "worker", "queue": "pack" }),
        1 => http(),
        _ => script(),
    };
    let publishes = if random.chance(100) { &TOPICS[..1] } else { &TOPICS[..] };
    let mut producer = json!({ "schedule": schedule, "publishes": publishes, "handler": handler });
    timeout(random, &mut producer);
    producer
}

fn consumer(random: &mut Random) -> Value {
    let mut subscribe: Vec<&str> = TOPICS.into_iter().filter(|_| random.chance(500)).collect();
    if subscribe.is_empty() {
        subscribe.push(random.pick(&TOPICS));
    }
    // A script reserves events itself; other handlers are given the pending ones.
    let prepare = if random.chance(100) { script() } else { http() };
    let mut consumer = json!({ "subscribe": subscribe, "prepare": prepare });
    match random.below(5) {
        0 => {}
        1 | 2 => consumer["mutate"] = script(),
        3 => consumer["mutate"] = http(),
        _ => consumer["mutate"] = json!({ "type": "worker", "queue": "ship" }),
    }
    if consumer.get("mutate").is_some() && random.chance(400) {
        consumer["reconcile"] = script();
    }
    if random.chance(850) {
        consumer["next"] = script();
    }
    timeout(random, &mut consumer);
    consumer
}

fn timeout(random: &mut Random, handler: &mut Value) {
    if random.chance(500) {
        handler["timeout"] = Value::from(random.pick(&["20s", "2m", "20m"]));
    }
}

fn steps(random: &mut Random) -> Value {
    let mut steps = vec![json!({ "id": "begin", "type": "noop", "timeout": "5m" })];
    let mut before = "begin";
    if random.chance(700) {
        let topic = random.pick(&["t0", "common"]);
        let mut tell = json!({ "id": "tell", "type": "publish", "topic": topic,
            "payload": { "v": random.between(0, 9) }, "depends_on": [before] });
        if random.chance(300) {
            tell["message_id"] = Value::from(message_id(random));
        }
        steps.push(tell);
        before = "tell";
    }
    if random.chance(700) {
        let topic = random.pick(&TOPICS);
        let mut wait = json!({ "id": "wait", "type": "wait_for", "topic": topic,
            "depends_on": [before] });
        if random.chance(500) {
            wait["condition"] = Value::from(format!("event.payload.v > {}", random.between(0, 9)));
        }
        if random.chance(700) {
            wait["within"] = Value::from(random.pick(&["30s", "20m", "3h"]));
        }
        steps.push(wait);
        steps.push(json!({ "id": "after", "type": "noop", "depends_on": ["wait"] }));
    }
    Value::Array(steps)
}

fn trigger(random: &mut Random) -> Value {
    let mut trigger = json!({ "id": "on", "type": "event", "topic": HEARD });
    if random.chance(700) {
        let bound = random.between(0, 9);
        trigger["condition"] = Value::from(format!("event.payload.v > {bound}"));
    }
    trigger
}
