//! Random processes: steps of every type, in any order without circles.

use serde_json::{Map, Value, json};

use crate::random::Random;

/// The name of processes, followed by a number; a process starts only those with a greater number.
pub(crate) const PREFIX: &str = "process-";
/// How many processes there are at most.
pub(crate) const MOST: usize = 4;
/// The queues that workers claim from.
pub(crate) const QUEUES: [&str; 2] = ["pack", "ship"];
/// The people who decide approvals.
pub(crate) const ASSIGNEES: [&str; 2] = ["ann", "bob"];

const REGIONS: [&str; 2] = ["US", "DE-BY"];
const ZONES: [&str; 3] = ["UTC", "America/New_York", "Europe/Berlin"];

pub(crate) fn payload(random: &mut Random) -> Value {
    let list: Vec<i64> = (0..random.between(0, 4)).collect();
    json!({ "v": random.between(0, 9), "list": list })
}

/// A process that is being generated.
struct Draft<'a> {
    random: &'a mut Random,
    index: usize,
    count: usize,
    /// The steps that each step waits for, directly or not.
    before: Vec<Vec<usize>>,
    /// Whether a step returns `{"v": …}` when it completes.
    giving: Vec<bool>,
    /// The gateways that lead to each step.
    led_by: Vec<Vec<usize>>,
}

/// The definition of the process with this number, as JSON.
pub(crate) fn definition(random: &mut Random, index: usize) -> String {
    let count = match random.below(3) {
        0 => random.between(1, 3),
        1 => random.between(2, 6),
        _ => random.between(4, 12),
    } as usize;
    let mut draft = Draft {
        random,
        index,
        count,
        before: Vec::new(),
        giving: Vec::new(),
        led_by: vec![Vec::new(); count],
    };
    let steps: Vec<Value> = (0..count).map(|at| draft.step(at)).collect();
    let mut whole = draft.head();
    whole.insert("steps".to_owned(), Value::Array(steps));
    if draft.random.chance(400) {
        whole.insert("outputs".to_owned(), draft.outputs());
    }
    Value::Object(whole).to_string()
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(object) => object,
        _ => Map::new(),
    }
}

fn id(at: usize) -> String {
    format!("s{at}")
}

impl Draft<'_> {
    fn head(&mut self) -> Map<String, Value> {
        let mut head = Map::new();
        let mut put = |key: &str, value: Value| head.insert(key.to_owned(), value);
        put("name", Value::from(format!("{PREFIX}{}", self.index)));
        put("timezone", Value::from(self.random.pick(&ZONES)));
        put("calendar", Value::from(self.random.pick(&REGIONS)));
        if self.random.chance(300) {
            put("concurrency", Value::from(self.random.between(1, 3)));
        }
        if self.random.chance(400) {
            let timeout = self.random.pick(&["2m", "1h", "8h"]);
            put("timeout", Value::from(timeout));
        }
        if self.random.chance(300) {
            put("max_concurrent_steps", Value::from(self.random.between(1, 3)));
        }
        if self.random.chance(250) {
            put("deadline", self.deadline(false));
        }
        head
    }

    fn step(&mut self, at: usize) -> Value {
        let mut depends: Vec<usize> = Vec::new();
        // Steps without dependencies never complete in the decision that starts the run: runs that
        // end there are tested in `bursts`.
        let is_root = at == 0 || self.random.chance(100);
        if !is_root {
            for _ in 0..self.random.between(1, 3) {
                depends.push(self.random.below(at));
            }
        }
        depends.sort_unstable();
        depends.dedup();
        let mut before: Vec<usize> = Vec::new();
        for on in depends.iter().chain(&self.led_by[at]) {
            before.push(*on);
            before.extend(&self.before[*on]);
        }
        before.sort_unstable();
        before.dedup();
        self.before.push(before);
        self.giving.push(false);
        let mut step = if is_root { self.root(at) } else { self.action(at) };
        step.insert("id".to_owned(), Value::from(id(at)));
        if !depends.is_empty() {
            let depends: Vec<String> = depends.into_iter().map(id).collect();
            step.insert("depends_on".to_owned(), json!(depends));
        }
        if !is_root && self.random.chance(250) {
            step.insert("condition".to_owned(), Value::from(self.condition(at)));
        }
        self.common(at, &mut step);
        Value::Object(step)
    }

    fn common(&mut self, at: usize, step: &mut Map<String, Value>) {
        let retry = json!({
            "max": self.random.between(1, 3),
            "delay": self.random.pick(&["1s", "5s", "2m"]),
            "factor": self.random.pick(&[1.0, 2.0, 3.0]),
        });
        step.insert("retry".to_owned(), retry);
        match self.random.below(8) {
            0 | 1 => {
                step.insert("on_error".to_owned(), Value::from("skip_step"));
            }
            2 if self.count > 1 => {
                let mut target = self.random.below(self.count);
                if target == at {
                    target = (target + 1) % self.count;
                }
                step.insert("on_error".to_owned(), json!({ "goto_step": id(target) }));
            }
            _ => {}
        }
        if self.random.chance(200) {
            step.insert("idempotent".to_owned(), Value::from(false));
        }
        if self.random.chance(250) {
            let undo = match self.random.below(3) {
                0 => json!({ "type": "worker", "queue": self.random.pick(&QUEUES) }),
                _ => json!({ "type": "noop", "retry": { "max": 2, "delay": "1s" } }),
            };
            step.insert("compensation".to_owned(), undo);
        }
        if self.random.chance(150) {
            step.insert(
                "deadline".to_owned(),
                self.deadline(at > 0 && !self.before[at].is_empty()),
            );
        }
    }

    fn root(&mut self, at: usize) -> Map<String, Value> {
        self.giving[at] = at == 0;
        let action = match self.random.below(3) {
            0 if at > 0 => json!({ "type": "timer", "delay": self.stretch() }),
            1 if at > 0 => json!({ "type": "human_approval", "title": "Begin?" }),
            _ => json!({ "type": "noop", "timeout": "5m" }),
        };
        object(action)
    }

    fn action(&mut self, at: usize) -> Map<String, Value> {
        let further = self.count - at - 1;
        let action = match self.random.below(24) {
            0..=3 => {
                self.giving[at] = true;
                json!({ "type": "worker", "queue": self.random.pick(&QUEUES),
                        "timeout": self.random.pick(&["30s", "5m", "1h"]) })
            }
            4..=6 => json!({ "type": "timer", "delay": self.stretch() }),
            7 | 8 => {
                let assignees = &ASSIGNEES[..self.random.below(3)];
                json!({ "type": "human_approval", "title": "Go on?", "assignees": assignees })
            }
            9..=11 if further > 0 => self.gateway(at),
            12 | 13 => {
                let child = match self.index + 1 + self.random.below(MOST) {
                    index @ 0..MOST => format!("{PREFIX}{index}"),
                    _ => self.random.pick(&["workflow-0", "workflow-0", "nobody"]).to_owned(),
                };
                let mut action = json!({ "type": "sub_process", "workflow": child,
                    "wait_for_completion": self.random.chance(700) });
                if self.random.chance(300) {
                    action["output_key"] = Value::from("child");
                }
                if self.random.chance(300) {
                    action["input_mapping"] = json!({ "v": 3, "list": [1], "of": "{{ run.id }}" });
                }
                action
            }
            14..=16 => self.for_each(),
            _ => {
                self.giving[at] = true;
                json!({ "type": "noop", "timeout": self.random.pick(&["10s", "5m", "1h"]) })
            }
        };
        object(action)
    }

    fn for_each(&mut self) -> Value {
        let items = match self.random.below(3) {
            0 => Value::from("{{ input.list }}"),
            _ => json!((0..self.random.between(0, 5)).collect::<Vec<i64>>()),
        };
        let step = match self.random.below(3) {
            0 => json!({ "type": "worker", "queue": self.random.pick(&QUEUES) }),
            _ => json!({ "type": "noop" }),
        };
        let mut action = json!({ "type": "for_each", "items": items, "step": step });
        if self.random.chance(600) {
            action["max_parallel"] = Value::from(self.random.between(1, 3));
        }
        action
    }

    fn gateway(&mut self, at: usize) -> Value {
        let kind = self.random.pick(&["exclusive", "parallel", "inclusive"]);
        let mut routes = Vec::new();
        for _ in 0..self.random.between(1, 3) {
            let target = self.target(at);
            let mut route = json!({ "target": id(target) });
            if kind != "parallel" {
                route["condition"] = Value::from(self.condition(at));
            }
            routes.push(route);
        }
        let mut action = json!({ "type": "gateway", "kind": kind, "routes": routes });
        if kind != "parallel" && self.random.chance(600) {
            action["default_route"] = Value::from(id(self.target(at)));
        }
        action
    }

    fn target(&mut self, at: usize) -> usize {
        let target = at + 1 + self.random.below(self.count - at - 1);
        self.led_by[target].push(at);
        target
    }

    /// A condition on the payload, or on the outputs of earlier steps.
    fn condition(&mut self, at: usize) -> String {
        let before = &self.before[at];
        let bound = self.random.between(0, 9);
        if before.is_empty() || self.random.chance(400) {
            return format!("input.v > {bound}");
        }
        let on = before[self.random.below(before.len())];
        let is_done = format!("steps.{}.status == 'completed'", id(on));
        if self.giving[on] && self.random.chance(600) {
            format!("{is_done} and steps.{}.output.v > {bound}", id(on))
        } else {
            is_done
        }
    }

    /// A duration, in wall clock or working time.
    fn stretch(&mut self) -> String {
        match self.random.below(5) {
            0 => format!("{} working minutes", self.random.between(1, 240)),
            1 => "1 working day".to_owned(),
            2 | 3 => format!("{}s", self.random.between(1, 120)),
            _ => format!("{}m", self.random.between(1, 180)),
        }
    }

    /// A deadline. If it may be, it can be due as soon as it begins to count.
    fn deadline(&mut self, may_be_at_once: bool) -> Value {
        let mut deadline = json!({ "within": self.stretch() });
        if self.random.chance(400) {
            deadline["from"] = Value::from("started");
        }
        if self.random.chance(200) {
            return deadline;
        }
        let mut actions = Vec::new();
        for _ in 0..self.random.between(1, 3) {
            let mut action = match self.random.below(4) {
                0 => json!({ "at": format!("{}%", self.random.pick(&[10, 50, 80])) }),
                1 if may_be_at_once => json!({ "before": self.random.pick(&["10s", "5m"]) }),
                2 => json!({ "at": "deadline" }),
                _ => json!({ "after": self.random.pick(&["10s", "30m", "10 working minutes"]) }),
            };
            match self.random.below(7) {
                0 => action["notify"] = json!([{ "webhook": "https://example.com/" }]),
                1 => action["start"] = Value::from(self.random.pick(&["workflow-0", "nobody"])),
                2 => action["start"] = Value::from("workflow-0"),
                3 => action["fail"] = Value::from(true),
                4 => action["skip"] = Value::from(true),
                5 => action["complete"] = Value::from(true),
                _ => action["cancel"] = Value::from(true),
            }
            actions.push(action);
        }
        deadline["actions"] = Value::Array(actions);
        deadline
    }

    fn outputs(&mut self) -> Value {
        let (one, other) = (self.random.below(self.count), self.random.below(self.count));
        json!([
            { "name": "how", "source": format!("{{{{ steps.{}.status }}}}", id(one)) },
            { "name": "what", "source": format!("{{{{ steps.{}.output }}}}", id(other)) },
        ])
    }
}
