//! Secrets of the host are never shown, in whatever form they are written.

use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::sync::mpsc::{Receiver, channel};

use serde_json::json;

use crate::node::{Home, Node};
use crate::{punctual, run};

const PASS: &str = "Hunter22/pa \"ss\"&<ö>";
const HOST: &str = "HunterHost22";
const KEY: &str = "-----BEGIN KEY-----\nMIIBVgIBADANBgkq\nAgEAAkEAq7BFUpkG\n-----END KEY-----";

/// Prints the secrets in all forms, and requests an address with them in its host, path and query.
const SAY: &str = r#"
name: say
steps:
  - id: shout
    type: exec
    command:
      - sh
      - -c
      - |
        printf '%s\n' "$1" "$2"
        printf 'user:%s' "$1" | base64 -w0; echo
        printf '%s' "$1" | base64 -w0; echo
        printf '%s\n' "$2" | sed -n 3p
        printf '%s' "$1" >&2
        echo "the end of it"
      - sh
      - "{{ secrets.PASS }}"
      - "{{ secrets.KEY }}"
  - id: ask
    type: http
    depends_on: [shout]
    url: "http://{{ secrets.HOST }}.invalid:1/a/{{ secrets.PASS }}?q={{ secrets.PASS }}"
    retry: { max: 1 }
"#;
const SLOW: &str = "name: slow\nsteps: [{id: a, type: exec, command: [sleep, '600']}]\n";

/// Texts that no output may contain.
const FORBIDDEN: [&str; 12] = [
    PASS,
    "Hunter22",
    "Hunter22%2Fpa",
    "Hunter22/pa%20",
    "hunter22",
    "HunterHost22",
    "hunterhost22",
    "MIIBVgIBADANBgkq",
    "AgEAAkEAq7BFUpkG",
    // The base64 form of `Hunter22/pa`, by itself and after `user:`.
    "SHVudGVyMjIvcGE",
    "dW50ZXIyMi9wY",
    "pa \\\"ss\\\"",
];

/// A trace collector. Returns everything that is sent to it.
fn collector() -> (String, Receiver<Vec<u8>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let (tell, told) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let mut reader = BufReader::new(stream);
            let mut length = 0;
            let mut line = String::new();
            while reader.read_line(&mut line).is_ok_and(|read| read > 2) {
                let lower = line.to_ascii_lowercase();
                if let Some(value) = lower.strip_prefix("content-length:") {
                    length = value.trim().parse().unwrap_or(0);
                }
                line.clear();
            }
            let mut body = vec![0; length];
            let _ = reader.read_exact(&mut body);
            let answer = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
            let _ = reader.get_mut().write_all(answer.as_bytes());
            if tell.send(body).is_err() {
                break;
            }
        }
    });
    (url, told)
}

#[test]
fn no_sink_has_a_secret_in_it() {
    let home = Home::new().with("say.yaml", SAY).with("slow.yaml", SLOW);
    let (otlp, spans) = collector();
    let mut command = punctual();
    command
        .args(home.serve_args())
        .args(["--otlp", &otlp])
        .env("PUNCTUAL_LOG", "trace")
        .env("PUNCTUAL_SECRET_PASS", PASS)
        .env("PUNCTUAL_SECRET_HOST", HOST)
        .env("PUNCTUAL_SECRET_KEY", KEY);
    let node = Node::start(command);
    let run = node.json(&["run", "say"])["id"].as_str().expect("an id").to_owned();
    let ended = node.wait_for(&["run", "show", &run], |run| !run["ended_at"].is_null());
    assert_eq!(ended["status"], "failed", "{ended:#}");
    let slow = node.json(&["run", "slow"])["id"].as_str().expect("an id").to_owned();
    let reason = format!("because of {PASS}");
    let cancelled = node.post(&format!("/api/v1/runs/{slow}/cancel"), &json!({ "reason": reason }));
    assert_eq!(cancelled.0, 200, "{}", cancelled.1);
    let mut sinks = vec![
        ("run", node.get(&format!("/api/v1/runs/{run}")).1),
        ("cancelled run", node.get(&format!("/api/v1/runs/{slow}")).1),
        ("output", node.get(&format!("/api/v1/runs/{run}/steps/shout/output")).1),
        ("page", node.get(&format!("/runs/{run}")).1),
        ("step page", node.get(&format!("/runs/{run}/steps/shout")).1),
        ("runs page", node.get("/runs").1),
        ("audit", node.get("/api/v1/audit").1),
        ("audit page", node.get("/audit").1),
        ("metrics", node.get("/metrics").1),
        ("explained", node.command(&["explain", &run]).1),
        ("shown", node.shown(&["run", "show", &run])),
    ];
    assert!(sinks[0].1.contains("the end of it") && sinks[2].1.contains("the end of it"));
    assert!(sinks[0].1.contains("***"), "{}", sinks[0].1);
    assert!(sinks[6].1.contains("because of ***"), "{}", sinks[6].1);
    let mut traced = String::new();
    while !traced.contains("ask") {
        let body = spans.recv_timeout(crate::node::DEADLINE).expect("spans");
        traced.push_str(&String::from_utf8_lossy(&body));
    }
    sinks.push(("traces", traced));
    // The node has written its last log line by then.
    let stopped = node.stop_and_read();
    let log = stopped.iter().fold(String::new(), |mut log, line| {
        let _ = writeln!(log, "{line}");
        log
    });
    assert!(log.contains("GET http://***.invalid:1/a/***"), "the request is logged: {log}");
    sinks.push(("log", log));
    for (sink, text) in &sinks {
        for forbidden in FORBIDDEN {
            let found = text.find(forbidden);
            let around = found.map(|at| {
                let from = text.floor_char_boundary(at.saturating_sub(200));
                &text[from..text.ceil_char_boundary(at + 200)]
            });
            assert_eq!(around, None, "{sink} has {forbidden}");
        }
    }
    assert!(sinks.iter().all(|(_, text)| !text.is_empty()), "{sinks:#?}");
}

#[test]
fn refusals_at_start_have_no_secret_in_them() {
    let home = Home::new();
    let db = home.db().display().to_string();
    for agent in [
        "a=http://user:Hunter22@agents.example.org/x",
        "a=https://user:Hunter22@169.254.169.254/",
        "a=ftp://h/?key=Hunter22",
        "http://user:Hunter22@h/",
        "a=http://user:Hunter22?Pass@h/x",
        "a=http://user:Hunter22#Pass@h/x",
        "a=http://user:x?Hunter22@h/x",
        "a=http://user:Hunter22@[::/",
    ] {
        let (code, _, err) = run(&["serve", "--db", &db, "--agent", agent]);
        assert_eq!(code, 1, "{agent}: {err}");
        assert!(err.contains("--agent") && !err.contains("Hunter22"), "{agent}: {err}");
    }
    let (code, _, err) = run(&["serve", "--db", &db, "--otlp", "ftp://user:Hunter22@h/"]);
    assert!(code == 1 && !err.contains("Hunter22"), "{err}");
    for (option, given) in [
        ("--egress", "u:Hunter22@h"),
        ("--egress", "u:pass,Hunter22@h"),
        ("--on-failure", "slak:https://hooks.test/services/T000/Hunter22"),
        ("--db", "host=h user=u password=Hunter22"),
        ("--public-url", "http://u:Hunter22@h h/"),
        ("--public-url", "http://u:Hunter22@h/"),
    ] {
        let (code, _, err) = run(&["serve", option, given]);
        assert!(code == 1 && !err.contains("Hunter22"), "{option} {given}: {err}");
    }
    for url in ["http://u:Hunter22@127.0.0.1:1", "http://u:Hunter22?x@127.0.0.1:1", "u:Hunter22@h"]
    {
        let output = punctual().args(["run", "list"]).env("PUNCTUAL_URL", url).output();
        let (code, _, err) = crate::finished(output.expect("the binary starts"));
        assert!(code != 0 && !err.contains("Hunter22"), "{url}: {err}");
    }
    // The value is masked wherever it stands.
    let output = punctual()
        .args(["serve", "--db", &db, "--listen", "Hunter22:x"])
        .env("PUNCTUAL_SECRET_PASS", "Hunter22")
        .output();
    let (code, _, err) = crate::finished(output.expect("the binary starts"));
    assert!(code == 1 && err.contains("***") && !err.contains("Hunter22"), "{err}");
}
