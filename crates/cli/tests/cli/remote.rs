//! Tests of commands that call a node.

use serde_json::json;

use crate::node::{Home, Node};
use crate::{file, punctual, run};

const REPORT: &str = "\
name: report
description: What happened yesterday
triggers:
  - { id: morning, type: schedule, cron: \"0 9 * * *\", timezone: America/New_York, calendar: US }
steps:
  - { id: collect, type: noop }
  - { id: send, type: noop, depends_on: collect }
";
const FAILING: &str = "\
name: failing
steps:
  - { id: first, type: noop }
  - { id: second, type: exec, command: [sh, -c, 'echo no >&2; exit 3'], depends_on: first, retry: { max: 1 } }
";

fn node() -> (Home, Node) {
    let home = Home::new().with("report.yaml", REPORT).with("failing.yaml", FAILING);
    let node = home.serve();
    (home, node)
}

/// Replaces times, ids and distances, which differ each time.
fn steady(text: &str) -> String {
    let digits = |word: &str, mask: &str| {
        word.len() == mask.len()
            && word.bytes().zip(mask.bytes()).all(|(byte, mask)| match mask {
                b'9' => byte.is_ascii_digit(),
                b'x' => byte.is_ascii_hexdigit(),
                _ => byte == mask,
            })
    };
    let is_length = |word: &str| {
        word.ends_with(['s', 'm', 'h', 'd']) && word.starts_with(|c: char| c.is_ascii_digit())
    };
    let masks = [
        ("9999-99-99", "DATE"),
        ("9999-99-99T99:99:99Z", "INSTANT"),
        ("99:99:99Z", "TIME"),
        ("99:99:99", "TIME"),
        ("-99:99", "OFFSET"),
        ("+99:99", "OFFSET"),
        ("xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx", "RUN"),
    ];
    let word = |word: &str| match masks.iter().find(|(mask, _)| digits(word, mask)) {
        Some((_, name)) => (*name).to_owned(),
        None if is_length(word) => "LONG".to_owned(),
        None => word.to_owned(),
    };
    let line = |line: &str| {
        let indent = if line.starts_with(' ') { "  " } else { "" };
        let cells = line.split("  ").map(str::trim).filter(|cell| !cell.is_empty());
        let cells = cells.map(|cell| {
            let words = cell.split(' ').map(word).collect::<Vec<_>>().join(" ");
            words.replace("LONG LONG", "LONG")
        });
        format!("{indent}{}", cells.collect::<Vec<_>>().join("  ")).trim_end().to_owned()
    };
    // Whether a step is seen while it runs depends on timing.
    let lines = text.lines().filter(|line| !line.trim_end().ends_with(" running"));
    lines.map(line).collect::<Vec<_>>().join("\n")
}

#[test]
fn lists_and_sheets() {
    let (_home, node) = node();
    insta::assert_snapshot!(steady(&node.shown(&["schedule", "list"])), @r"
    ID  NAME  WORKFLOW  STATUS  NEXT  LAST  WHEN
    1  report/morning  report  active  in LONG  at 09:00 every day, New York time; on days off (US) skipped
    ");
    insta::assert_snapshot!(steady(&node.shown(&["schedule", "show", "report/morning"])), @r"
    schedule 1: report/morning
      starts  report
      when  at 09:00 every day, New York time; on days off (US) skipped
      status  active
      next  DATE TIME OFFSET
      in LONG
      runs  0 succeeded, 0 failed
      overlap  skip
      catch-up  last
    ");
    insta::assert_snapshot!(steady(&node.shown(&["workflow", "list"])), @r"
    ID  NAME  VERSION  STATUS  FOR
    1  failing  1  published
    2  report  1  published  What happened yesterday
    ");
    insta::assert_snapshot!(steady(&node.shown(&["workflow", "show", "report"])), @r"
    workflow report 1
      id  2
      for  What happened yesterday
      status  published
      created  DATE TIME
      updated  DATE TIME

      SCHEDULE  NAME  STATUS  NEXT
      1  report/morning  active  DATE TIME OFFSET  in LONG
    ");
    assert!(node.shown(&["workflow", "show", "report", "--source"]).contains(REPORT));
    assert_eq!(node.json(&["schedule", "list"])["total"], 1);
    assert_eq!(node.json(&["workflow", "list", "-n", "1"])["items"][0]["name"], "failing");
}

#[test]
fn a_run_by_hand() {
    let (_home, node) = node();
    let shown = node.shown(&["run", "report", "--payload", "{\"day\": 7}", "--follow"]);
    insta::assert_snapshot!(steady(&shown), @r"
    run RUN
      collect  completed LONG
      send  completed LONG
    succeeded in LONG
    ");
    let runs = node.json(&["run", "list", "--workflow", "report"]);
    let id = runs["items"][0]["id"].as_str().expect("an id");
    assert_eq!(runs["items"][0]["input"]["payload"], json!({"day": 7}));
    insta::assert_snapshot!(steady(&node.shown(&["run", "show", id])), @r#"
    run RUN of report
      status  succeeded
      started by  manual
      created  DATE TIME
      started  DATE TIME
      ended  DATE TIME
      took  LONG
      input  {"payload":{"day":7}}

      STEP  TYPE  STATUS  ATTEMPTS  TOOK  WHY  DUE
      collect  noop  completed  1  LONG
      send  noop  completed  1  LONG
    "#);
    let told = node.shown(&["explain", id]);
    assert!(told.contains("was started by hand; it has succeeded."), "{told}");
}

#[test]
fn a_run_that_fails_and_is_tried_again() {
    let (_home, node) = node();
    let (code, out, err) = node.command(&["run", "failing", "--follow"]);
    assert_eq!(code, 1, "{out}");
    insta::assert_snapshot!(steady(&format!("{out}{err}")), @r"
    run RUN
      first  completed LONG
      second  | no
      second  failed LONG `sh` ended with code 3: no
    failed in LONG
    run RUN failed: `sh` ended with code 3: no
    ");
    let failed = node.json(&["run", "list", "--status", "failed"]);
    let id = failed["items"][0]["id"].as_str().expect("an id");
    let (code, out, _) = node.command(&["run", "retry", id, "--follow", "--json"]);
    let again: serde_json::Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!((code, &again["retry_of"]), (1, &id.into()));
    let before = node.json(&["run", "show", id]);
    for field in ["status", "started_at", "ended_at"] {
        let (before, after) = (&before["steps"][0][field], &again["steps"][0][field]);
        assert_eq!(before, after, "what was done is not done again: {field}");
    }
    let err = node.refused(&["run", "cancel", id]);
    assert!(err.contains("failed"), "{err}");
    let err = node.refused(&["run", "resolve", id, "applied"]);
    assert!(err.contains("failed"), "{err}");
}

#[test]
fn a_schedule_from_its_creation_to_its_end() {
    let (_home, node) = node();
    let create = ["schedule", "create", "poll", "--workflow", "report", "--every", "5h"];
    let poll =
        node.json(&[&create[..], &["--overlap", "queue", "--set", "max_retries=1"]].concat());
    assert_eq!((&poll["overlap"], &poll["max_retries"]), (&"queue".into(), &1.into()));
    let id = poll["id"].as_str().expect("an id");
    let status = |args: &[&str]| node.json(args)["status"].clone();
    assert_eq!(status(&["schedule", "pause", "poll"]), "paused");
    assert_eq!(
        node.refused(&["schedule", "pause", id]),
        "Cannot pause schedule with status 'paused'.\n"
    );
    assert_eq!(status(&["schedule", "resume", "poll", "--catch-up"]), "active");
    assert_eq!(status(&["schedule", "disable", id]), "paused");
    assert_eq!(status(&["schedule", "enable", id]), "active");
    assert!(node.refused(&["schedule", "revive", id]).contains("'active'"));
    let plan = node.shown(&["schedule", "edit", id, "--every", "7h", "--dry-run"]);
    assert!(plan.contains("interval") && plan.contains("→"), "{plan}");
    assert_eq!(node.json(&["schedule", "show", id])["interval"], "5h");
    assert_eq!(node.json(&["schedule", "edit", id, "--every", "7h"])["interval"], "7h");
    let run = node.json(&["schedule", "trigger", "poll", "--payload", "[1]", "--follow"]);
    assert_eq!((&run["status"], &run["input"]["payload"]), (&"succeeded".into(), &json!([1])));
    assert_eq!(node.shown(&["schedule", "delete", "poll"]), format!("deleted: {id}\n"));
    assert!(node.refused(&["schedule", "show", id]).contains("There is no schedule"));
}

#[test]
fn coming_and_past_occurrences() {
    let (_home, node) = node();
    let yearly = ["schedule", "create", "yearly", "--workflow", "report", "--cron", "0 9 1 7 *"];
    node.shown(&[&yearly[..], &["--tz", "Europe/Berlin"]].concat());
    let next = node.json(&["schedule", "next", "yearly", "-n", "3"]);
    let times: Vec<&str> = next["items"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|due| due["nominal_at"].as_str())
        .collect();
    assert_eq!(times.len(), 3);
    let (first, second) = (times[0], times[1]);
    let moved = first.replace("T09:00:00", "T11:00:00");
    let shown = node.shown(&["schedule", "override", "yearly", first, "--move-to", &moved]);
    assert!(shown.contains("is moved to"), "{shown}");
    node.shown(&["schedule", "override", "yearly", second, "--skip"]);
    let next = node.json(&["schedule", "next", "yearly", "-n", "2"]);
    assert_eq!(next["items"][0]["effective_at"], moved.as_str());
    assert_eq!(next["items"][1]["fate"], "skipped");
    node.shown(&["schedule", "override", "yearly", second, "--clear"]);
    let next = node.json(&["schedule", "next", "yearly", "-n", "2"]);
    assert_eq!(next["items"][1]["fate"], "kept");
    node.shown(&["schedule", "override", "yearly", second, "--payload", "{\"x\": 1}"]);
    let range = ["--from", "2020-01-01T00:00:00Z", "--to", "2022-01-01T00:00:00Z"];
    let backfill = [&["schedule", "backfill", "yearly"][..], &range].concat();
    let plan = node.shown(&[&backfill[..], &["--dry-run"]].concat());
    insta::assert_snapshot!(plan, @r"
      2020-07-01 09:00:00 +02:00
      2021-07-01 09:00:00 +02:00
    2 occurrences would run
    ");
    assert_eq!(node.json(&backfill)["count"], 2);
    let ledger = node.wait_for(&["schedule", "occurrences", "yearly"], |page| page["total"] == 2);
    assert_eq!(ledger["items"][1]["nominal_at"], "2020-07-01T09:00:00+02:00");
    let told = node.shown(&["explain", "yearly", "--at", "2020-07-01T09:00:00+02:00"]);
    assert!(told.contains("report"), "{told}");
    assert!(!node.shown(&["explain", "yearly"]).is_empty());
}

#[test]
fn definitions_go_to_the_node() {
    let (_home, node) = node();
    let version = |number: u32, triggers: &str| {
        file(
            &format!("apply-{number}.yaml"),
            &format!(
                "name: applied\nversion: {number}\ntriggers: [{triggers}]\nsteps: [{{ id: a, type: noop }}]\n"
            ),
        )
    };
    let daily = "{ id: daily, type: schedule, cron: \"0 9 * * *\" }";
    let weekly = "{ id: weekly, type: schedule, cron: \"0 9 * * MON\" }";
    let first = version(1, &format!("{daily}, {weekly}"));
    let second = version(
        2,
        &format!("{}, {{ id: new, type: schedule, every: 1h }}", daily.replace("9", "10")),
    );
    let here = |text: String| text.replace(env!("CARGO_TARGET_TMPDIR"), "DIR");
    // The number of occurrences within 30 days depends on the day.
    let uncounted = |text: String| {
        let cell = |cell: &str| {
            if cell.starts_with("30 days: ") { "30 days".to_owned() } else { cell.to_owned() }
        };
        let line = |line: &str| line.split("  ").map(cell).collect::<Vec<_>>().join("  ");
        steady(&here(text)).lines().map(line).collect::<Vec<_>>().join("\n")
    };
    insta::assert_snapshot!(uncounted(node.shown(&["apply", &first, "--plan"])), @r"
    applied 1 would be new (DIR/apply-1.yaml)
      +  daily  new  DATE TIME  30 days  at 09:00 every day, UTC
      +  weekly  new  DATE TIME  30 days  at 09:00 on Monday, UTC
    ");
    assert!(node.refused(&["workflow", "show", "applied"]).contains("no workflow applied"));
    insta::assert_snapshot!(uncounted(node.shown(&["apply", &first])), @r"
    applied 1 is published (DIR/apply-1.yaml)
      +  daily  new  DATE TIME  30 days  at 09:00 every day, UTC
      +  weekly  new  DATE TIME  30 days  at 09:00 on Monday, UTC
    ");
    insta::assert_snapshot!(steady(&here(node.shown(&["apply", &first]))), @"applied 1 stays as it is (DIR/apply-1.yaml)");
    insta::assert_snapshot!(uncounted(node.shown(&["apply", &second, "--plan"])), @r"
    applied 2 would change (DIR/apply-2.yaml)
      ~  daily  changed  DATE TIME  30 days  at 10:00 every day, UTC
      +  new  new  DATE TIME  30 days  every LONG from INSTANT
      -  weekly  removed  DATE TIME  30 days  at 09:00 on Monday, UTC
    ");
    node.shown(&["apply", &second]);
    let wrong = file("apply-wrong.yaml", "name: applied\nsteps:\n  - { id: a, type: nop }\n");
    let err = here(node.refused(&["apply", &wrong, &second]));
    insta::assert_snapshot!(err, @r"
    DIR/apply-wrong.yaml:3:20: unknown step type nop
        - { id: a, type: nop }
                         ^^^
      allowed: http, exec, script, worker, agent_task, timer, human_approval, gateway, notification, sub_process, publish, wait_for, for_each, noop
      try: noop
    ");
    let err = node.refused(&["workflow", "validate", &wrong, &second]);
    assert!(err.contains("apply-wrong.yaml:3:20: "), "{err}");
    assert_eq!(node.json(&["workflow", "pause", "applied"])["paused"], true);
    assert_eq!(node.json(&["workflow", "resume", "applied"])["paused"], false);
    assert_eq!(node.json(&["workflow", "archive", "applied"])["status"], "archived");
    assert_eq!(node.json(&["workflow", "publish", "applied"])["status"], "published");
}

#[test]
fn a_draft_is_saved_compared_and_published() {
    let (_home, node) = node();
    let version = |number: u32, minutes: u32| {
        let text = format!(
            "name: drafted\nversion: {number}\nsteps:\n  - {{ id: a, type: noop }}\n  - {{ id: wait, type: timer, delay: {minutes}m }}\n"
        );
        file(&format!("draft-{number}.yaml"), &text)
    };
    node.shown(&["apply", &version(1, 5)]);
    let said = node.shown(&["apply", "--draft", &version(2, 7)]);
    assert!(said.starts_with("drafted 2 is saved as a draft"), "{said}");
    let workflow = node.json(&["workflow", "show", "drafted"]);
    assert_eq!((&workflow["live_revision"], &workflow["versions"]), (&json!(1), &json!(2)));
    let versions = node.json(&["workflow", "versions", "drafted"]);
    let revisions: Vec<_> = shown_items(&versions).map(|v| v["revision"].as_u64()).collect();
    assert_eq!(revisions, [Some(2), Some(1)]);
    insta::assert_snapshot!(node.shown(&["workflow", "diff", "drafted"]), @r"
    --- drafted revision 1
    +++ drafted revision 2
    @@ -1,5 +1,5 @@
     name: drafted
    -version: 1
    +version: 2
     steps:
       - { id: a, type: noop }
    -  - { id: wait, type: timer, delay: 5m }
    +  - { id: wait, type: timer, delay: 7m }
    ");
    let plan = node.shown(&["workflow", "publish", "drafted", "--plan"]);
    assert!(plan.starts_with("drafted: revision 2 would go live"), "{plan}");
    assert_eq!(node.json(&["workflow", "show", "drafted"])["live_revision"], 1);
    assert_eq!(node.json(&["workflow", "publish", "drafted"])["live_revision"], 2);
    let diff = node.json(&["workflow", "diff", "drafted", "2", "1"]);
    assert!(diff["diff"].as_str().unwrap().contains("-version: 2\n+version: 1\n"), "{diff}");
    let same = node.shown(&["workflow", "diff", "drafted", "2", "2"]);
    assert_eq!(same.trim(), "revisions 2 and 2 of drafted say the same");
    assert!(node.refused(&["workflow", "diff", "drafted", "9"]).contains("no"));
}

fn shown_items(page: &serde_json::Value) -> impl Iterator<Item = &serde_json::Value> {
    page["items"].as_array().into_iter().flatten()
}

/// A trigger's schedule has a name with a slash, and another workflow's schedule may have the same
/// name.
#[test]
fn schedules_of_one_name_are_told_apart() {
    let (_home, node) = node();
    for workflow in ["report", "failing"] {
        let create = ["schedule", "create", "morning", "--workflow", workflow, "--every", "1h"];
        node.shown(&create);
    }
    let said = node.refused(&["schedule", "pause", "morning"]);
    assert!(said.contains("several schedules are named morning"), "{said}");
    assert!(said.contains("or failing/morning"), "{said}");
    assert!(!said.contains("report/morning"), "that is the trigger's: {said}");
    // The trigger's own name means the trigger, whatever others are named.
    let named = ["schedule", "create", "report/morning", "--workflow", "failing", "--every", "1h"];
    node.shown(&named);
    let paused = node.json(&["schedule", "pause", "report/morning"]);
    assert_eq!((&paused["workflow"], &paused["trigger"]), (&json!("report"), &json!("morning")));
    let paused = node.json(&["schedule", "pause", "failing/morning"]);
    assert_eq!((&paused["workflow"], &paused["status"]), (&json!("failing"), &json!("paused")));
}

#[test]
fn a_trigger_with_a_name_is_found_by_its_workflow_and_id() {
    let (_home, node) = node();
    let text = "name: named\nsteps: [{ id: x, type: noop }]\ntriggers:\n  - { id: early, name: \
                The early one, type: schedule, cron: daily }\n";
    node.shown(&["apply", &crate::file("named.yaml", text)]);
    for (named, verb) in [("The early one", "pause"), ("named/early", "resume")] {
        let changed = node.json(&["schedule", verb, named]);
        assert_eq!(changed["name"], "The early one", "{named}: {changed}");
    }
    let said = node.refused(&["schedule", "pause", "named/late"]);
    assert!(said.contains("there is no schedule named named/late"), "{said}");
}

#[test]
fn what_is_refused() {
    let (_home, node) = node();
    for (args, said) in [
        (&["schedule", "show", "999"][..], "There is no schedule 999."),
        (&["schedule", "show", "no such"], "there is no schedule named no such"),
        (&["schedule", "list", "--status", "sleeping"], "status"),
        (&["schedule", "list", "--cursor", "x"], "cursor"),
        (&["schedule", "edit", "1"], "nothing is to be changed"),
        (&["schedule", "edit", "1", "--every", "1h"], "Change it there."),
        (
            &["schedule", "create", "x", "--workflow", "none", "--every", "1h"],
            "there is no such workflow",
        ),
        (&["schedule", "create", "x", "--workflow", "report", "--cron", "0 25 * * *"], "hour 25"),
        (
            &[
                "schedule",
                "create",
                "x",
                "--workflow",
                "report",
                "--every",
                "1h",
                "--set",
                "overlpa=skip",
            ],
            "try: overlap",
        ),
        (
            &[
                "schedule",
                "create",
                "x",
                "--workflow",
                "report",
                "--every",
                "1h",
                "--set",
                "overlap",
            ],
            "no value",
        ),
        (&["schedule", "override", "1", "yesterday", "--skip"], "nominal: not a time"),
        (&["schedule", "backfill", "1", "--from", "x", "--to", "y"], "from"),
        (&["schedule", "trigger", "1", "--payload", "{x}"], "--payload: not JSON"),
        (&["run", "none"], "There is no workflow none."),
        (&["run", "report", "--payload", "'"], "--payload: not JSON"),
        (&["run", "show", "sched-1-n0-rc0"], "There is no run"),
        (&["run", "--", "list"], "There is no workflow list."),
        (&["run", "list", "--workflow", "none"], "none"),
        (&["workflow", "publish", "none"], "none"),
        (&["explain", "019a8f00-1234-7abc-8def-0123456789ab"], "There is no run"),
        (&["explain", "nothing"], "there is no schedule named nothing"),
    ] {
        let err = node.refused(args);
        assert!(err.contains(said), "{args:?}: {err}");
    }
}

#[test]
fn what_is_typed_wrong() {
    for args in [
        &["schedule"][..],
        &["schedule", "create", "x"],
        &["schedule", "create", "x", "--workflow", "r", "--cron", "daily", "--every", "5m"],
        &["schedule", "override", "1", "2026-01-01T00:00:00Z"],
        &["schedule", "next", "1", "-n", "0"],
        &["run"],
        &["run", "resolve", "x", "perhaps"],
        &["run", "list", "-n", "0"],
        &["workflow", "show"],
        &["node"],
        &["apply"],
        &["explain"],
        &["backup"],
        &["demo", "--seconds", "0"],
    ] {
        let (code, out, err) = run(args);
        assert_eq!((code, out.as_str()), (2, ""), "{args:?}: {err}");
    }
}

#[test]
fn no_node() {
    let asked = |url: &str| {
        let output = punctual().args(["schedule", "list"]).env("PUNCTUAL_URL", url).output();
        crate::finished(output.expect("the binary starts"))
    };
    let (code, _, err) = asked("http://127.0.0.1:1");
    insta::assert_snapshot!(format!("{code}: {err}"), @r"
    3: no node answers at http://127.0.0.1:1: Connection refused (os error 111)
      try: `punctual serve` starts one; PUNCTUAL_URL names another address
    ");
    for url in ["nonsense", "ftp://x", ""] {
        let (code, _, err) = asked(url);
        assert!(code == 1 && err.contains("not an address of a node"), "{url}: {err}");
    }
}
