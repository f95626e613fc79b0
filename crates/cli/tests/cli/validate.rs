//! Tests of `punctual validate`, without a node.

use crate::{file, refused, run, shown};

#[test]
fn everything_wrong_with_all_files() {
    let first = file(
        "validate-first.yaml",
        "name: report\ntriggers:\n  - id: morning\n    type: schedule\n    cron: \"0 25 * * MON\"\n    \
         timezone: Europe/Berln\nsteps:\n  - { id: send, type: http, ur: https://example.com }\n",
    );
    let second = file("validate-second.yaml", "name: [x\n");
    let said = refused(&["validate", &first, &second]);
    let folder = env!("CARGO_TARGET_TMPDIR");
    insta::assert_snapshot!(said.replace(folder, "DIR"), @r#"
    DIR/validate-first.yaml:5:14: hour 25 is out of range
          cron: "0 25 * * MON"
                   ^^
      allowed: 0-23
      try: 0 23 * * MON

    DIR/validate-first.yaml:6:15: no such time zone
          timezone: Europe/Berln
                    ^^^^^^^^^^^^
      allowed: an IANA name such as Europe/Berlin, or UTC
      try: Europe/Berlin

    DIR/validate-first.yaml:8:29: unknown key ur
        - { id: send, type: http, ur: https://example.com }
                                  ^^
      try: url

    DIR/validate-second.yaml:1:7: not readable: unclosed bracket '['
      name: [x
            ^
    "#);
}

#[test]
fn what_is_fine_and_what_to_know() {
    let path = file(
        "validate-fine.yaml",
        "name: report\ntimezone: Europe/Berlin\ntriggers:\n  - { id: x, type: schedule, cron: \"0 0 31 2 *\" }\n\
         steps:\n  - { id: a, type: noop }\n",
    );
    let said = shown(&["validate", &path]);
    insta::assert_snapshot!(said.replace(env!("CARGO_TARGET_TMPDIR"), "DIR"), @r#"
    DIR/validate-fine.yaml:4:36: never fires: no such time was found
        - { id: x, type: schedule, cron: "0 0 31 2 *" }
                                         ^^^^^^^^^^^^
    1 definition fine
    "#);
}

#[test]
fn a_file_that_is_not_utf_8() {
    let good = file("validate-good.yaml", "name: [x\n");
    let path = file("validate-latin.yaml", "");
    std::fs::write(&path, b"name: t\nsteps: [{ id: \xe4 }]\n").expect("written");
    let told = refused(&["validate", &path, &good]);
    for expected in [
        "validate-latin.yaml:2:15: the byte 0xE4 is not UTF-8",
        "try: save the text as UTF-8",
        "validate-good.yaml:1:7: not readable",
    ] {
        assert!(told.contains(expected), "{told}");
    }
    let (code, out, told) = run(&["validate", "--json", &path, &good]);
    assert_eq!(code, 1, "{told}");
    for expected in [":2:15: the byte 0xE4", "\"unreadable\"", "validate-good.yaml"] {
        assert!(out.contains(expected), "{expected}: {out}");
    }
    assert!(told.contains("2 of 2 definitions wrong"), "{told}");
}

#[test]
fn calendars_from_a_file() {
    let calendars = file(
        "validate-calendars.yaml",
        "id: office\ntimezone: UTC\nhours: { mon-fri: [\"09:00-17:00\"] }\n",
    );
    let path = file(
        "validate-calendar.yaml",
        "name: report\ncalendar: office\ntriggers: [{ id: x, type: schedule, cron: daily }]\nsteps: [{ id: a, type: noop }]\n",
    );
    assert!(refused(&["validate", &path]).contains("office"));
    assert_eq!(shown(&["validate", &path, "--calendars", &calendars]), "1 definition fine\n");
}

#[test]
fn for_programs() {
    let path = file("validate-json.yaml", "name: report\nsteps: [{ id: a, type: nop }]\n");
    let (code, out, _) = run(&["validate", "--json", &path]);
    assert_eq!(code, 1);
    let told: serde_json::Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!(told[0]["valid"], false);
    let error = &told[0]["errors"][0];
    assert_eq!((&error["line"], &error["column"]), (&2.into(), &24.into()), "{error}");
    assert_eq!(error["try"], "noop");
}

#[test]
fn files_that_are_not_there() {
    let (code, _, err) = run(&["validate", "/nowhere/x.yaml"]);
    assert!(code == 3 && err.contains("/nowhere/x.yaml"), "{err}");
    assert_eq!(run(&["validate"]).0, 2);
}
