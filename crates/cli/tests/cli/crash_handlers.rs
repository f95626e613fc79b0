//! A producer and a consumer whose node is killed again and again: no event is lost or worked on
//! twice, and the outside world is notified of each event once.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher as _, RandomState};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rusqlite::Connection;
use serde_json::{Value, json};

use crate::node::{Home, Node, until};
use crate::punctual;

/// How often the node is killed, and the longest time in milliseconds that it runs once it is
/// ready.
fn size() -> (u64, u64) {
    match std::env::var("PUNCTUAL_CRASH").as_deref() {
        Ok("full") => (30, 2_500),
        _ => (5, 2_000),
    }
}

/// The producer counts and publishes each number; the consumer sends up to three events at a time
/// to a peer.
fn definition(port: u16) -> String {
    format!(
        r#"name: counted
topics: {{ counted: {{ max_attempts: 1000 }} }}
producers:
  count:
    schedule: {{ interval: 2s }}
    publishes: counted
    handler: |
      const n = state?.n ?? 0;
      ctx.publish("counted", [0, 1, 2].map((more) => ({{ messageId: String(n + more) }})));
      return {{ n: n + 3 }};
consumers:
  tell:
    subscribe: counted
    prepare: |
      const events = await ctx.peek("counted", {{ limit: 2 }});
      const ids = events.map((event) => event.messageId);
      return {{ reservations: [{{ topic: "counted", ids }}], data: ids }};
    mutate:
      type: http
      method: POST
      url: http://127.0.0.1:{port}/
      body: {{ ids: "{{{{ steps.prepare.output.data }}}}" }}
    next: "return {{ told: true }};"
"#
    )
}

/// The requests that the peer received: the idempotency key, and the ids of the events.
type Told = Arc<Mutex<Vec<(String, Vec<String>)>>>;

/// A peer that records its requests and delays its answers. It outlives every node.
fn peer() -> (u16, Told) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("an address").port();
    let told = Told::default();
    let known = told.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let told = known.clone();
            std::thread::spawn(move || serve(stream, &told));
        }
    });
    (port, told)
}

fn serve(stream: TcpStream, told: &Told) {
    let mut reader = BufReader::new(stream);
    loop {
        let (mut key, mut length) = (String::new(), 0);
        loop {
            let mut line = String::new();
            // The node was killed and closed the connection.
            if !matches!(reader.read_line(&mut line), Ok(1..)) {
                return;
            }
            let Some((name, value)) = line.split_once(':') else {
                if line.trim().is_empty() {
                    break;
                }
                continue;
            };
            match name.to_ascii_lowercase().as_str() {
                "idempotency-key" => key = value.trim().to_owned(),
                "content-length" => length = value.trim().parse().expect("a length"),
                _ => {}
            }
        }
        let mut body = vec![0; length];
        if reader.read_exact(&mut body).is_err() {
            return;
        }
        let body: Value = serde_json::from_slice(&body).expect("JSON");
        let ids = serde_json::from_value(body["ids"].clone()).expect("ids");
        told.lock().expect("no panic").push((key, ids));
        // The delay makes it possible that the node is killed between the request and its answer.
        std::thread::sleep(Duration::from_millis(chance(80)));
        let answer = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}";
        if reader.get_mut().write_all(answer.as_bytes()).is_err() {
            return;
        }
    }
}

fn chance(end: u64) -> u64 {
    RandomState::new().hash_one(0_u8) % end
}

fn serve_node(home: &Home) -> Node {
    let mut command = punctual();
    command.args(home.serve_args()).args(["--egress", "127.0.0.1/32"]);
    Node::start(command)
}

fn asked(node: &Node, path: &str) -> Value {
    let (status, answer) = node.get(path);
    assert_eq!(status, 200, "{answer}");
    serde_json::from_str(&answer).expect("JSON")
}

/// Does what a person would do: checks whether the peer received the request, and resolves the run
/// accordingly. Returns how many runs were suspended.
fn resolve(node: &Node, told: &Told) -> usize {
    let suspended = asked(node, "/api/v1/runs?status=suspended");
    let suspended = suspended["items"].as_array().expect("a list").clone();
    for run in &suspended {
        let id = run["id"].as_str().expect("an id");
        let key = format!("{id}/mutation");
        let was_told = told.lock().expect("no panic").iter().any(|(known, _)| *known == key);
        let resolution = if was_told { "applied" } else { "did_not_happen" };
        let (status, answer) =
            node.post(&format!("/api/v1/runs/{id}/resolve"), &json!({ "resolution": resolution }));
        assert_eq!(status, 200, "{answer}");
    }
    suspended.len()
}

#[test]
fn handlers_killed_again_and_again() {
    let (kills, life) = size();
    let (port, told) = peer();
    let home = Home::new().with("counted.yaml", &definition(port));
    for _ in 0..kills {
        let node = serve_node(&home);
        resolve(&node, &told);
        // The node is killed at a random moment.
        std::thread::sleep(Duration::from_millis(chance(life)));
        node.kill();
    }
    let node = serve_node(&home);
    resolve(&node, &told);
    let before = consumed(&home);
    until("it goes on", || consumed(&home) > before + 3);
    let (status, answer) = node.post("/api/v1/workflows/counted/pause", &json!({}));
    assert_eq!(status, 200, "{answer}");
    until("nothing goes on", || {
        asked(&node, "/api/v1/runs?status=running")["items"] == json!([])
            && resolve(&node, &told) == 0
    });
    assert!(node.stop().success());
    check(&home, &told);
    home.doctor();
}

fn numbers(home: &Home, sql: &str) -> Vec<(String, i64)> {
    let db = Connection::open(home.db()).expect("a store");
    let mut statement = db.prepare(sql).expect("SQL");
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).expect("rows");
    rows.collect::<Result<_, _>>().expect("rows")
}

/// The number of consumed events.
fn consumed(home: &Home) -> i64 {
    numbers(home, "SELECT name, consumed FROM topics").iter().map(|(_, count)| count).sum()
}

fn check(home: &Home, told: &Told) {
    let events = numbers(home, "SELECT message_id, state FROM events");
    let counted = numbers(home, "SELECT state, 0 FROM handlers WHERE name = 'count'");
    let counted: Value = serde_json::from_str(&counted[0].0).expect("JSON");
    let n = counted["n"].as_u64().expect("a number");
    let ids: BTreeSet<String> = events.iter().map(|(id, _)| id.clone()).collect();
    let expected: BTreeSet<String> = (0..n).map(|n| n.to_string()).collect();
    assert_eq!(ids, expected, "what is kept and what is published is of the same runs");
    assert_eq!(events.len() as u64, n, "none is there twice");
    let mut times: BTreeMap<String, u32> = BTreeMap::new();
    for (_, ids) in told.lock().expect("no panic").iter() {
        ids.iter().for_each(|id| *times.entry(id.clone()).or_default() += 1);
    }
    let twice: Vec<_> = times.iter().filter(|(_, times)| **times > 1).collect();
    assert!(twice.is_empty(), "told twice: {twice:?}");
    // State 2 means consumed.
    let consumed: BTreeSet<&String> =
        events.iter().filter(|(_, state)| *state == 2).map(|(id, _)| id).collect();
    let told: BTreeSet<&String> = times.keys().collect();
    assert_eq!(consumed, told, "what is consumed was told, and the other way round");
}
