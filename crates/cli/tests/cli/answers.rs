//! Commands print more than the fields of a response: its warnings, the status, and why something
//! was not done.

use crate::node::Home;

const REPORT: &str = "name: report\nsteps: [{ id: send, type: noop }]\n";

#[test]
fn a_schedule_is_shown_with_its_warnings_and_its_new_life() {
    let home = Home::new().with("report.yaml", REPORT);
    let node = home.serve();
    let of_report = ["--workflow", "report"];
    let region = ["schedule", "create", "tokyo", "--cron", "0 9 * * *", "--calendar", "JP"];
    let warning = "! the calendar JP has no zone of its own: 09:00 is UTC; write timezone\n";
    let created = node.shown(&[&region[..], &of_report].concat());
    assert!(created.ends_with(warning), "{created}");
    assert!(node.shown(&["schedule", "show", "tokyo"]).ends_with(warning));
    let edited = node.shown(&["schedule", "edit", "tokyo", "--cron", "0 10 * * *"]);
    assert!(edited.contains("10:00 is UTC") && !edited.contains("lives again"), "{edited}");
    let edited = node.shown(&["schedule", "edit", "tokyo", "--tz", "Asia/Tokyo"]);
    assert!(!edited.contains('!') && edited.contains("timeout"), "{edited}");
    let past = ["schedule", "create", "past", "--at", "2020-01-01T09:00:00Z", "--catch-up", "none"];
    let created = node.shown(&[&past[..], &of_report].concat());
    assert!(created.contains("does not run it, because its catch_up is none"), "{created}");
    node.wait_for(&["schedule", "show", "past"], |schedule| schedule["status"] == "done");
    let edited = node.shown(&["schedule", "edit", "past", "--at", "2090-01-01T09:00:00Z"]);
    assert!(edited.contains("active") && edited.contains("lives again"), "{edited}");
    assert!(!node.shown(&["schedule", "show", "past"]).contains("lives again"));
}

#[test]
fn the_status_of_the_moment_is_said() {
    let waits = "name: patient\nsteps: [{ id: wait, type: timer, delay: 1h }]\n";
    let home = Home::new().with("report.yaml", REPORT).with("patient.yaml", waits);
    let node = home.serve();
    node.shown(&["workflow", "pause", "report"]);
    assert!(node.shown(&["workflow", "list"]).contains("paused"));
    assert_eq!(node.shown(&["workflow", "archive", "report"]), "workflow report 1: archived\n");
    let list = node.shown(&["workflow", "list"]);
    assert!(list.contains("archived") && !list.contains("paused"), "{list}");
    let run = node.json(&["run", "patient"])["id"].as_str().expect("an id").to_owned();
    node.wait_for(&["run", "show", &run], |run| run["status"] == "waiting");
    let said = node.shown(&["run", "cancel", &run]);
    assert_eq!(said, format!("run {run} has ended (cancelled)\n"));
}

#[test]
fn a_test_message_that_is_not_taken_says_what_to_check() {
    let home = Home::new().with("report.yaml", REPORT);
    let node = home.serve();
    // No server listens on this port.
    let said = node.refused(&["notify", "test", "slack:http://127.0.0.1:1/hook"]);
    assert!(said.contains("was not sent") && said.contains("try: check the URL"), "{said}");
    assert!(!said.contains("readyz"), "{said}");
}

#[test]
fn a_plan_says_until_when_it_compared() {
    let home = Home::new().with("report.yaml", REPORT);
    let node = home.serve();
    let plan = |every: &str| {
        let text = format!(
            "name: often\ntriggers: [{{ id: tick, type: schedule, interval: {every} }}]\n\
             steps: [{{ id: a, type: noop }}]\n"
        );
        let file = crate::file(&format!("often-{every}.yaml"), &text);
        node.shown(&["apply", "--plan", &file])
    };
    let daily = plan("1d");
    assert!(daily.contains("30 days: ") && !daily.contains("until"), "{daily}");
    let often = plan("2s");
    assert!(often.contains("until 20") && !often.contains("30 days"), "{often}");
}
