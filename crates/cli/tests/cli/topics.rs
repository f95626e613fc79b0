//! Tests of topics, producers and consumers, and the scripts that declare them, through the command
//! line.

use std::fs;
use std::io::Write as _;
use std::process::Stdio;

use serde_json::json;

use crate::node::Home;
use crate::{finished, punctual, refused, run, shown};

const DIGEST: &str = r#"
export default workflow({
  name: "digest",
  topics: { mail: {}, told: { external: true } },
  producers: {
    poll: {
      schedule: { interval: "1h" },
      publishes: ["mail"],
      handler: async (ctx, state) => {
        ctx.publish("mail", { messageId: "first", payload: { from: "ann" } });
        return state;
      },
    },
  },
  consumers: {
    read: {
      subscribe: ["mail"],
      prepare: async (ctx) => {
        const mails = await ctx.peek("mail", { limit: 10 });
        return { reservations: [{ topic: "mail", ids: mails.map((mail) => mail.messageId) }] };
      },
      next: async (ctx) => ({ at: ctx.now() }),
    },
  },
});
"#;

#[test]
fn topics_and_handlers_are_shown_and_used() {
    let home = Home::new().with("digest.js", DIGEST);
    let node = home.serve();
    let is_quiet = |workflow: &serde_json::Value| {
        let consumer = &workflow["consumers"][0];
        consumer["state"] == "sleeping" && workflow["topics"][0]["consumed"] == 1
    };
    node.wait_for(&["workflow", "show", "digest"], is_quiet);
    let sheet = node.shown(&["workflow", "show", "digest"]);
    for said in [
        "PRODUCER",
        "poll",
        "waits",
        "WHEN",
        "every 1h from",
        "CONSUMER",
        "read",
        "sleeping",
        "TOPIC",
        "mail",
        "told",
    ] {
        assert!(sheet.contains(said), "{said}: {sheet}");
    }
    let one =
        ["topic", "publish", "told", "--id", "a/1", "--title", "One", "--payload", "{\"n\": 1.50}"];
    assert_eq!(node.shown(&one), "1 published, 0 replaced in told\n");
    let events = node.shown(&["topic", "events", "told", "--state", "pending"]);
    assert!(events.contains("a/1") && events.contains("One"), "{events}");
    let event = node.shown(&["topic", "event", "told", "a/1"]);
    assert!(event.contains("pending") && event.contains("payload"), "{event}");
    let said = node.shown(&["topic", "skip", "told", "a/1", "--by", "ann"]);
    assert_eq!(said, "event a/1 of told is skipped (skipped by ann)\n");
    let again = node.refused(&["topic", "skip", "told", "a/1"]);
    assert!(again.contains("Cannot skip event with state 'skipped'"), "{again}");
    let listed = node.shown(&["topic", "list"]);
    assert!(listed.contains("digest") && listed.contains("OLDEST PENDING"), "{listed}");
    let topic = node.json(&["topic", "show", "told", "--workflow", "digest"]);
    assert_eq!((&topic["skipped"], &topic["pending"]), (&json!(1), &json!(0)));
    let mut publishing = punctual()
        .args(["topic", "publish", "told", "--file", "-"])
        .env("PUNCTUAL_URL", &node.url)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    let lines = b"{\"message_id\": \"b\"}\n{\"message_id\": \"c\"}\n";
    publishing.stdin.take().expect("a pipe").write_all(lines).expect("it reads");
    let (code, out, err) = finished(publishing.wait_with_output().expect("it ends"));
    assert_eq!((code, out.as_str()), (0, "2 published, 0 replaced in told\n"), "{err}");
    let wrong = node.refused(&["topic", "publish", "told", "--id", "x", "--payload", "{n: 1}"]);
    assert!(wrong.contains("--payload: not JSON"), "{wrong}");
    assert!(node.refused(&["topic", "show", "nothing"]).contains("There is no topic nothing"));
    assert!(node.refused(&["topic", "show", "a b"]).contains("not the name of a topic"));
}

#[test]
fn handlers_are_started_by_hand_and_explained() {
    let home = Home::new().with("digest.js", DIGEST);
    let node = home.serve();
    let is_quiet = |workflow: &serde_json::Value| {
        let consumer = &workflow["consumers"][0];
        consumer["state"] == "sleeping" && workflow["topics"][0]["consumed"] == 1
    };
    node.wait_for(&["workflow", "show", "digest"], is_quiet);
    let event = node.json(&["topic", "event", "mail", "first"]);
    let worked = event["run_id"].as_str().expect("a run");
    let why = node.shown(&["explain", worked]);
    for said in ["of read of digest", "published to one of its topics", "It reserved 1 event."] {
        assert!(why.contains(said), "{said}: {why}");
    }
    let sheet = node.shown(&["run", "show", worked]);
    assert!(sheet.contains("of read of digest") && sheet.contains("prepare"), "{sheet}");
    assert!(node.shown(&["run", "list"]).contains("digest/read"));
    let run = node.json(&["run", "digest", "--handler", "read"]);
    let run = run["id"].as_str().expect("an id").to_owned();
    node.wait_for(&["run", "show", &run], |run| run["status"] == "succeeded");
    let why = node.shown(&["explain", &run]);
    for said in ["somebody asked for it", "found nothing to work on"] {
        assert!(why.contains(said), "{said}: {why}");
    }
    let started = node.json(&["workflow", "start", "digest", "--handler", "poll"]);
    assert_eq!(started["handler"], "poll");
    assert!(
        node.refused(&["workflow", "start", "digest", "--handler", "x"]).contains("no handler x")
    );
    assert!(node.shown(&["workflow", "mutations", "digest"]).contains("CONSUMER"));
}

#[test]
fn what_nobody_knows_is_resolved_by_name() {
    let text = "name: paid\ntopics: {bills: {external: true}}\nconsumers:\n  pay:\n    \
        subscribe: [bills]\n    \
        prepare: 'return { reservations: [{ topic: \"bills\", ids: [\"a\"] }] }'\n    \
        mutate: {type: worker, queue: bank}\n";
    let home = Home::new().with("paid.yaml", text);
    let node = home.serve();
    node.shown(&["topic", "publish", "bills", "--id", "a"]);
    let claim = json!({"queues": ["bank"], "wait_seconds": 30, "worker": "w", "lease_seconds": 1});
    let (_, claimed) = node.post("/api/v1/attempts/claim", &claim);
    let claimed: serde_json::Value = serde_json::from_str(&claimed).expect("JSON");
    let run = claimed["attempts"][0]["run_id"].as_str().expect("a run").to_owned();
    node.wait_for(&["workflow", "show", "paid"], |workflow| workflow["paused"] == true);
    let sheet = node.shown(&["workflow", "show", "paid"]);
    for said in ["does not know what became of its mutation", "resuming", "suspended"] {
        assert!(sheet.contains(said), "{said}: {sheet}");
    }
    assert!(node.shown(&["explain", &run]).contains("punctual run resolve"));
    let (code, _, without) = node.command(&["run", "resolve", &run]);
    assert!(code == 2 && without.contains("RESOLUTION"), "{without}");
    node.shown(&["run", "resolve", &run, "--as", "applied", "--by", "ann"]);
    node.wait_for(&["run", "show", &run], |run| run["status"] == "succeeded");
    let mutations = node.shown(&["workflow", "mutations", "paid"]);
    assert!(mutations.contains("applied") && mutations.contains("ann"), "{mutations}");
    assert!(node.shown(&["explain", &run]).contains("has happened, says ann"));
}

#[test]
fn a_script_is_validated_planned_and_applied() {
    let home = Home::new();
    let node = home.serve();
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("digest.js");
    let file = path.display().to_string();
    fs::write(&path, DIGEST).expect("it is written");
    assert_eq!(shown(&["validate", &file]), "1 definition fine\n");
    assert!(node.shown(&["apply", &file, "--plan"]).contains("digest 1 would be new"));
    assert!(node.shown(&["apply", &file]).contains("digest 1 is published"));
    assert!(node.shown(&["apply", &file, "--plan"]).contains("stays as it is"));
    assert_eq!(node.json(&["workflow", "validate", &file])[0]["valid"], true);
    fs::write(&path, "export default workflow({\n  name: nobody,\n});\n").expect("it is written");
    let told = refused(&["validate", &file]);
    assert!(told.contains("digest.js:2:") && told.contains("nobody"), "{told}");
    assert!(told.contains("  name: nobody,\n"), "{told}");
    assert!(node.refused(&["apply", &file]).contains("digest.js:2:"));
    let (code, out, _) = run(&["validate", "--json", &file]);
    let told: serde_json::Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!((code, &told[0]["errors"][0]["line"]), (1, &json!(2)));
}
