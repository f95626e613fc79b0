//! What clients do: a seeded mix of everything that can be asked for.

use std::time::Duration;

use serde_json::json;

use super::client::{Client, HangsUp, Shared};
use super::history::{Millis, Rule, What, Wish, Work};
use super::work::{self, ORDERS, definition};
use crate::http::Request;
use crate::steps::wall_millis;

/// A client thinks for at most so many milliseconds before it asks for something else.
const THINKS: usize = 250;
/// Schedules of one batch.
const BATCH: usize = 15;
/// What each of those who hang up asks for, and each of a crowd.
const IMPATIENT_ASKS: usize = 30;
const CROWD_ASKS: usize = 2;
/// The designer publishes a revision, then waits for so long.
const DESIGNER: Duration = Duration::from_millis(1_500);

/// A schedule that a client may change later.
struct Own {
    id: String,
    token: String,
    /// When it is due, if it is due once.
    due: Option<Millis>,
}

/// Asks for one thing after the other until the load stops.
pub(super) fn client(shared: &Shared, seed: u64, name: String) {
    let mut client = Client::new(shared, seed, name);
    let mut own = Vec::new();
    while !shared.has_stopped() {
        act(&mut client, &mut own);
        std::thread::sleep(Duration::from_millis(client.random.below(THINKS) as u64));
    }
}

fn act(client: &mut Client<'_>, own: &mut Vec<Own>) {
    match client.random.below(20) {
        0..5 => once(client, own),
        5..7 => repeated(client, own),
        7 => batch(client),
        8..13 => start(client),
        13..15 => events(client),
        15 | 16 => edit(client, own),
        17 => delete(client, own),
        _ => burst(client),
    }
}

/// A schedule that is due once, soon.
fn once(client: &mut Client<'_>, own: &mut Vec<Own>) {
    const WORKS: [Work; 11] = [
        Work::Quick,
        Work::Empty,
        Work::Post,
        Work::Post,
        Work::Flaky,
        Work::Failing,
        Work::Timer,
        Work::Approval,
        Work::Parent,
        Work::Each,
        Work::Evolving,
    ];
    let work = WORKS[client.random.below(WORKS.len())];
    let at = wall_millis() + 300 + client.random.below(4_000) as Millis;
    let token = client.token();
    create(client, own, Wish { token, work, rule: Rule::At(at), repeats: 1 });
}

/// A schedule that is due several times.
fn repeated(client: &mut Client<'_>, own: &mut Vec<Own>) {
    let rule = match client.random.below(2) {
        0 => Rule::Every(500 + 100 * client.random.below(15) as Millis),
        _ => Rule::Cron(1_000 * (1 + client.random.below(2) as Millis)),
    };
    let work = [Work::Quick, Work::Post][client.random.below(2)];
    let repeats = 2 + client.random.below(4) as u64;
    let token = client.token();
    create(client, own, Wish { token, work, rule, repeats });
}

fn create(client: &mut Client<'_>, own: &mut Vec<Own>, wish: Wish) {
    let (token, rule, work) = (wish.token.clone(), wish.rule, wish.work);
    let body = wish.to_json().to_string();
    let key = format!("create-{token}");
    let request = Request {
        method: "POST",
        path: "/api/v1/schedules",
        body: &body,
        key: &key,
        ..Request::default()
    };
    let answer = client.ask(What::Create(vec![wish]), &request);
    if let Some(id) = answer.and_then(|answer| Some(answer["id"].as_str()?.to_owned())) {
        // What is edited too late runs twice: failures end a schedule, and people know approvals by
        // their token.
        let due = match (rule, work) {
            (_, Work::Approval | Work::Failing) => None,
            (Rule::At(at), _) => Some(at),
            _ => None,
        };
        own.push(Own { id, token, due });
    }
}

/// Many at once, all of them or none.
fn batch(client: &mut Client<'_>) {
    let now = wall_millis();
    let wishes: Vec<Wish> = (0..BATCH)
        .map(|_| {
            let at = now + 500 + client.random.below(3_000) as Millis;
            let work = [Work::Quick, Work::Empty, Work::Post][client.random.below(3)];
            Wish { token: client.token(), work, rule: Rule::At(at), repeats: 1 }
        })
        .collect();
    many(client, wishes);
}

/// Both limited workflows at the same instant.
fn burst(client: &mut Client<'_>) {
    let at = wall_millis() + 500;
    let wishes: Vec<Wish> = [Work::LimitedA, Work::LimitedB]
        .into_iter()
        .map(|work| Wish { token: client.token(), work, rule: Rule::At(at), repeats: 1 })
        .collect();
    many(client, wishes);
}

fn many(client: &mut Client<'_>, wishes: Vec<Wish>) {
    let body: Vec<_> = wishes.iter().map(Wish::to_json).collect();
    let body = json!(body).to_string();
    let key = format!("batch-{}", wishes[0].token);
    let path = "/api/v1/schedules/batch";
    let request = Request { method: "POST", path, body: &body, key: &key, ..Request::default() };
    client.ask(What::Create(wishes), &request);
}

/// A run by hand; sometimes it is cancelled at once.
fn start(client: &mut Client<'_>) {
    let work = Work::ALL[client.random.below(Work::ALL.len())];
    let Some((id, token)) = start_of(client, work) else { return };
    if matches!(work, Work::Timer | Work::Approval) && client.random.below(4) == 0 {
        let path = format!("/api/v1/runs/{id}/cancel");
        let key = format!("cancel-{token}");
        let request = Request { method: "POST", path: &path, key: &key, ..Request::default() };
        client.ask(What::Cancel { token }, &request);
    }
}

/// The id of the run and its token, if it was acknowledged.
fn start_of(client: &mut Client<'_>, work: Work) -> Option<(String, String)> {
    let token = client.token();
    let path = format!("/api/v1/workflows/{}/runs", work.name());
    let body = json!({ "payload": { "token": token } }).to_string();
    let key = format!("start-{token}");
    let request =
        Request { method: "POST", path: &path, body: &body, key: &key, ..Request::default() };
    let answer = client.ask(What::Start { token: token.clone(), work }, &request);
    Some((answer?["id"].as_str()?.to_owned(), token))
}

/// Whether a node acknowledges a start.
pub(super) fn start_at(client: &mut Client<'_>) -> bool {
    start_of(client, Work::Empty).is_some()
}

/// Events for the consumer.
fn events(client: &mut Client<'_>) {
    let ids: Vec<String> = (0..1 + client.random.below(4)).map(|_| client.token()).collect();
    let body: Vec<_> = ids.iter().map(|id| json!({ "message_id": id })).collect();
    let body = json!(body).to_string();
    let key = format!("events-{}", ids[0]);
    let path = format!("/api/v1/topics/{ORDERS}/events");
    let request =
        Request { method: "POST", path: &path, body: &body, key: &key, ..Request::default() };
    client.ask(What::Events(ids), &request);
}

/// Another time for a schedule that is due once.
fn edit(client: &mut Client<'_>, own: &mut [Own]) {
    let now = wall_millis();
    let soon: Vec<usize> = (0..own.len()).filter(|at| own[*at].due > Some(now + 500)).collect();
    let Some(index) = soon.get(client.random.below(soon.len().max(1))) else { return };
    let at = now + 800 + client.random.below(3_000) as Millis;
    let (path, token) =
        (format!("/api/v1/schedules/{}", own[*index].id), own[*index].token.clone());
    let body = json!({ "at": work::rfc3339(at) }).to_string();
    let request = Request { method: "PATCH", path: &path, body: &body, ..Request::default() };
    let answer = client.ask(What::Edit { token, at }, &request);
    // When it is due is not known any more if nobody answered.
    own[*index].due = answer.map(|_| at);
}

/// A schedule goes, whatever has become of it.
fn delete(client: &mut Client<'_>, own: &mut Vec<Own>) {
    if own.is_empty() {
        return;
    }
    let Own { id, token, .. } = own.swap_remove(client.random.below(own.len()));
    let path = format!("/api/v1/schedules/{id}");
    let request = Request { method: "DELETE", path: &path, ..Request::default() };
    client.ask(What::Delete { token }, &request);
}

/// Asks in quick succession, and hangs up each time: for work that begins at once, for schedules
/// that are due soon, and with events.
pub(super) fn impatient(shared: &Shared, seed: u64, name: String) {
    let mut client = Client::new(shared, seed, name).hanging_up(HangsUp::Always);
    for _ in 0..IMPATIENT_ASKS {
        hang_up_once(&mut client);
    }
}

/// A client for [`hang_up_once`].
pub(super) fn quiet(shared: &Shared, seed: u64) -> Client<'_> {
    Client::new(shared, seed, "quiet".to_owned()).hanging_up(HangsUp::Always)
}

/// Asks for something without waiting for the answer.
pub(super) fn hang_up_once(client: &mut Client<'_>) {
    match client.random.below(4) {
        0 => events(client),
        1 => once(client, &mut Vec::new()),
        _ => drop(start_of(client, Work::Post)),
    }
}

/// One of many who ask at the same time, and wait for their answers.
pub(super) fn one_of_a_crowd(shared: &Shared, seed: u64, name: String) {
    let mut client = Client::new(shared, seed, name).hanging_up(HangsUp::Never);
    for _ in 0..CROWD_ASKS {
        match client.random.below(3) {
            0 => once(&mut client, &mut Vec::new()),
            1 => burst(&mut client),
            _ => drop(start_of(&mut client, Work::Post)),
        }
    }
}

/// Publishes one revision of `evolving` after the other, the next one only when this one is known
/// to be live.
pub(super) fn designer(shared: &Shared, seed: u64) {
    let mut client = Client::new(shared, seed, "designer".to_owned());
    let mut revision = 2;
    while !shared.has_stopped() {
        let text = definition(Work::Evolving, shared.sink.port, revision).to_string();
        let path = "/api/v1/workflows?publish=true";
        let request = Request { method: "POST", path, body: &text, ..Request::default() };
        if client.ask(What::Republish { revision }, &request).is_some() {
            revision += 1;
            std::thread::sleep(DESIGNER);
        } else {
            std::thread::sleep(DESIGNER / 5);
        }
    }
}
