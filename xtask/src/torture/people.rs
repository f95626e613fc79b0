//! People: two who decide whatever is asked, at the same time, and one who looks into what is
//! suspended.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Value, json};

use super::client::{Client, Shared};
use super::history::{Millis, What};
use crate::http::{Request, ask};

/// The time between two looks for approvals.
const LOOKS: Duration = Duration::from_millis(300);
/// A person says that a mutation did not happen only when nobody who was disturbed can still
/// perform it.
const SETTLED: Millis = 3_000;

/// Decides until nothing is expected any more. One approves what the other rejects; who is first is
/// left to chance.
pub(super) fn decider(shared: &Shared, seed: u64, is_second: bool) {
    let mut client = Client::new(shared, seed, format!("decider{}", u8::from(is_second)));
    let mut decided = BTreeSet::new();
    while !shared.is_over() {
        for approval in list(&mut client, "/api/v1/approvals?limit=1000") {
            let (Some(run), Some(token)) =
                (approval["run_id"].as_str(), approval["title"].as_str())
            else {
                continue;
            };
            // Whoever was refused, or has no answer, asks again only half of the time.
            if !decided.insert(run.to_owned()) && client.random.below(2) == 0 {
                continue;
            }
            let is_even = token.as_bytes().last().is_some_and(|last| last % 2 == 0);
            let approve = is_even != is_second;
            let verb = if approve { "approve" } else { "reject" };
            let path = format!("/api/v1/approvals/{run}/ask/{verb}");
            let what = What::Decide { token: token.to_owned(), approve };
            let body = json!({ "by": "somebody" }).to_string();
            let request =
                Request { method: "POST", path: &path, body: &body, ..Request::default() };
            client.ask(what, &request);
        }
        std::thread::sleep(LOOKS);
    }
}

/// Says of each suspended run what the sink knows about its mutation.
pub(super) fn resolver(shared: &Shared, seed: u64) {
    let mut client = Client::new(shared, seed, "resolver".to_owned());
    while !shared.is_over() {
        std::thread::sleep(LOOKS);
        if shared.calm_for() < SETTLED {
            continue;
        }
        for run in list(&mut client, "/api/v1/runs?status=suspended&limit=1000") {
            let Some(id) = run["id"].as_str() else { continue };
            let was_told = shared.sink.has(&format!("{id}/mutation"));
            let resolution = if was_told { "applied" } else { "did_not_happen" };
            let body = json!({ "resolution": resolution }).to_string();
            if let Some(address) = shared.any_address(&mut client.random) {
                // Whoever has no answer finds it suspended again.
                let _ = ask(&address, "POST", &format!("/api/v1/runs/{id}/resolve"), &body);
            }
        }
    }
}

/// The items of a list; none while nobody answers.
fn list(client: &mut Client<'_>, path: &str) -> Vec<Value> {
    let Some(address) = client.shared.any_address(&mut client.random) else { return Vec::new() };
    let Ok((200, text)) = ask(&address, "GET", path, "") else { return Vec::new() };
    let answer: Value = serde_json::from_str(&text).unwrap_or_default();
    answer["items"].as_array().cloned().unwrap_or_default()
}
