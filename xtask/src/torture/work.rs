//! The workflows that are published, as clients send them.

use serde_json::{Value, json};

use super::history::{Rule, Wish, Work};

/// Runs of each limited workflow that may be active at a time.
pub(super) const LIMIT: usize = 2;
/// As many as there ever are: with a limit, runs by hand need not wait for one another.
const PLENTY: usize = 1_000;
/// How long the timer waits, in milliseconds.
pub(super) const TIMER: i64 = 1_000;
/// How often a failing step is attempted.
pub(super) const FAILING_ATTEMPTS: usize = 2;
/// How often an occurrence of a failing workflow is tried again.
pub(super) const FAILING_RETRIES: u64 = 1;
/// The topic, and the workflow whose consumer works on it.
pub(super) const ORDERS: &str = "orders";

/// The token of a run, which is in its payload.
const TOKEN: &str = "{{ input.token }}";

/// The definition of a workflow, with the sink at this port. `revision` is that of `evolving`.
pub(super) fn definition(work: Work, port: u16, revision: u64) -> Value {
    let name = work.name();
    let url = |path: &str| format!("http://127.0.0.1:{port}/{path}/{TOKEN}");
    let post =
        |path: &str| json!({ "id": "work", "type": "http", "method": "POST", "url": url(path) });
    let after = |first: Value, then: Value| {
        let mut then = then;
        then["depends_on"] = first["id"].clone();
        vec![first, then]
    };
    let retried = |max: usize| {
        let mut step = post(name);
        step["retry"] = json!({ "max": max, "delay": "200ms", "factor": 1 });
        vec![step]
    };
    let steps = match work {
        Work::Quick => vec![json!({ "id": "work", "type": "noop" })],
        Work::Empty => vec![json!({ "id": "work", "type": "noop", "condition": "1 > 2" })],
        Work::Post | Work::Child | Work::LimitedA | Work::LimitedB => vec![post(name)],
        Work::Flaky => retried(5),
        Work::Failing => retried(FAILING_ATTEMPTS),
        Work::Timer => {
            let timer = json!({ "id": "wait", "type": "timer", "delay": format!("{TIMER}ms") });
            after(timer, post(name))
        }
        Work::Approval => {
            let asked = json!({ "id": "ask", "type": "human_approval", "title": TOKEN });
            after(asked, post(name))
        }
        Work::Parent => {
            let child = json!({ "id": "begin", "type": "sub_process", "workflow": "child",
                "input_mapping": { "token": TOKEN } });
            after(child, post(name))
        }
        Work::Each => vec![json!({
            "id": "work",
            "type": "for_each",
            "items": [0, 1, 2],
            "max_parallel": 2,
            "step": { "type": "http", "method": "POST", "url": url("each") },
        })],
        Work::Evolving => vec![post(&format!("evolving/{revision}"))],
    };
    let mut definition = json!({ "name": name, "steps": steps });
    match work {
        Work::LimitedA | Work::LimitedB => definition["concurrency"] = json!(LIMIT),
        Work::Post | Work::Flaky | Work::Timer | Work::Approval => {
            definition["concurrency"] = json!(PLENTY);
        }
        _ => {}
    }
    definition
}

/// A consumer whose script tells the sink of up to three events at a time.
pub(super) fn orders(port: u16) -> Value {
    json!({
        "name": ORDERS,
        "topics": { ORDERS: { "max_attempts": 1000 } },
        "consumers": { "tell": {
            "subscribe": ORDERS,
            "prepare": "const events = await ctx.peek('orders', { limit: 3 });
                const ids = events.map((event) => event.messageId);
                return { reservations: [{ topic: 'orders', ids }], data: ids };",
            "mutate": format!("if (prepared.data.length === 0) return;
                await ctx.mutate.http({{ method: 'POST', url: 'http://127.0.0.1:{port}/orders',
                    body: {{ ids: prepared.data }} }});"),
            "next": "return { told: true };",
        } },
    })
}

impl Wish {
    /// As it is sent.
    pub(super) fn to_json(&self) -> Value {
        let mut schedule = json!({
            "name": self.token,
            "workflow_id": self.work.name(),
            "payload": { "token": self.token },
            "catch_up": "all",
            "overlap": "queue_all",
        });
        match self.rule {
            Rule::At(at) => schedule["at"] = json!(rfc3339(at)),
            Rule::Every(every) => schedule["every"] = json!(format!("{every}ms")),
            Rule::Cron(every) => schedule["cron"] = json!(format!("*/{} * * * * *", every / 1_000)),
        }
        if !matches!(self.rule, Rule::At(_)) {
            schedule["total_repeats"] = json!(self.repeats);
        }
        if self.work == Work::Failing {
            schedule["max_retries"] = json!(FAILING_RETRIES);
            schedule["retry"] = json!({ "delay": "500ms" });
        }
        schedule
    }
}

/// An instant as the API reads it.
pub(super) fn rfc3339(at: i64) -> String {
    jiff::Timestamp::from_millisecond(at).map(|at| at.to_string()).unwrap_or_default()
}
