//! Fields of steps, runs and events that are known when a definition is read.

use crate::{accept, place, refuse};

/// A step `a` with these keys, and a step behind it with this condition.
fn behind(keys: &str, condition: &str) -> String {
    format!(
        "name: t\ntopics: [{{name: t, external: true}}]\nsteps:\n  - {{id: a, {keys}}}\n  \
         - {{id: b, type: noop, depends_on: a, condition: \"{condition}\"}}\n"
    )
}

/// The message and the remedy of the only flaw.
#[track_caller]
fn told(text: &str) -> (String, Option<String>) {
    let mut flaws = refuse(text);
    assert_eq!(flaws.len(), 1, "{text}: {flaws:?}");
    let flaw = flaws.remove(0);
    assert_eq!(flaw.code, "field", "{text}: {flaw:?}");
    (flaw.message, flaw.remedy)
}

const HTTP: &str = "type: http, url: https://example.com";
const EXEC: &str = "type: exec, command: [make]";
const TELL: &str = "type: notification, message: x, to: [{email: a@example.com}]";
const EACH: &str = "type: for_each, items: [1], step: {type: exec, command: [make]}";
const CHILD: &str = "type: sub_process, workflow: w";

#[test]
fn fields_that_the_output_of_a_step_does_not_have() {
    for (keys, right, wrong, message, remedy) in [
        (HTTP, "status", "statsu", "steps.a.output has no statsu", "status"),
        (HTTP, "body.x.y[0].z", "bdy", "steps.a.output has no bdy", "body"),
        (
            HTTP,
            "body_truncated",
            "customer",
            "steps.a.output has no customer",
            "steps.a.output.body.customer",
        ),
        (
            HTTP,
            "truncated",
            "status.x",
            "steps.a.output.status is a number and has no x",
            "steps.a.output.status",
        ),
        (
            HTTP,
            "headers['content-type']",
            "headers['Content-Type']",
            "steps.a.output.headers has no Content-Type",
            "content-type",
        ),
        (HTTP, "headers.etag", "headers.etags", "steps.a.output.headers has no etags", "etag"),
        (
            HTTP,
            "headers[input.name]",
            "headers.etag.x",
            "steps.a.output.headers.etag is a text and has no x",
            "steps.a.output.headers.etag",
        ),
        (EXEC, "stdout", "stdot", "steps.a.output has no stdot", "stdout"),
        (
            EXEC,
            "stderr_truncated",
            "stderr_trunkated",
            "steps.a.output has no stderr_trunkated",
            "stderr_truncated",
        ),
        (
            EXEC,
            "truncated",
            "exit_code.x",
            "steps.a.output.exit_code is a number or null and has no x",
            "steps.a.output.exit_code",
        ),
        (EXEC, "json.rows[0].id", "rows", "steps.a.output has no rows", "steps.a.output.json.rows"),
        (
            EXEC,
            "signal",
            "stdout.lines",
            "steps.a.output.stdout is a text and has no lines",
            "steps.a.output.stdout",
        ),
        (TELL, "channels[0].told", "chanels", "steps.a.output has no chanels", "channels"),
        (
            TELL,
            "channels[0].code",
            "channels[0].mesage",
            "steps.a.output.channels[…] has no mesage",
            "message",
        ),
        (
            TELL,
            "channels",
            "channels.told",
            "steps.a.output.channels is a list and has no told",
            "an item of it, such as steps.a.output.channels[0].told",
        ),
        (
            "type: human_approval, title: Go?",
            "decision",
            "decison",
            "steps.a.output has no decison",
            "decision",
        ),
        (
            "type: human_approval, title: Go?",
            "comment",
            "decision.x",
            "steps.a.output.decision is a text and has no x",
            "steps.a.output.decision",
        ),
        (
            "type: timer, delay: 1s",
            "waited_seconds",
            "waited_second",
            "steps.a.output has no waited_second",
            "waited_seconds",
        ),
        (
            "type: wait_for, topic: t",
            "payload.x",
            "paylod",
            "steps.a.output has no paylod",
            "payload",
        ),
        (
            "type: wait_for, topic: t",
            "truncated",
            "title.x",
            "steps.a.output.title is a text or null and has no x",
            "steps.a.output.title",
        ),
        (
            "type: publish, topic: t",
            "message_id",
            "id_of_message",
            "steps.a.output has no id_of_message",
            "",
        ),
        (
            "type: gateway, routes: [{target: b}]",
            "routes[0]",
            "route",
            "steps.a.output has no route",
            "routes",
        ),
        (CHILD, "anything.x", "", "", ""),
        (
            "type: sub_process, workflow: w, wait_for_completion: false",
            "run_id",
            "runid",
            "steps.a.output has no runid",
            "run_id",
        ),
        (
            "type: sub_process, workflow: w, output_key: made",
            "made.x.y",
            "mad",
            "steps.a.output has no mad",
            "made",
        ),
        (
            "type: sub_process, workflow: w, output_key: made, on_error: skip_step",
            "anything",
            "",
            "",
            "",
        ),
        (
            "type: sub_process, workflow: w, output_key: made, on_error: {goto_step: b}",
            "anything",
            "",
            "",
            "",
        ),
        ("type: worker, queue: q", "x.y", "", "", ""),
        ("type: agent_task, agent: a, message: m", "x.y", "", "", ""),
        ("type: script, script: 'return 1'", "x.y", "", "", ""),
    ] {
        let condition = |field: &str| behind(keys, &format!("steps.a.output.{field} == 1"));
        accept(&condition(right));
        if wrong.is_empty() {
            continue;
        }
        let remedy = Some(remedy.to_owned()).filter(|remedy| !remedy.is_empty());
        assert_eq!(told(&condition(wrong)), (message.to_owned(), remedy), "{keys} {wrong}");
        for allowed in [
            format!("steps.a.output.{wrong} is defined"),
            format!("steps.a.output.{wrong} | default(1) == 1"),
            format!("steps.a.output.{wrong} is defined and steps.a.output.{wrong} == 1"),
        ] {
            accept(&behind(keys, &allowed));
        }
    }
    let flaws = refuse(&behind(EXEC, "steps.a.output is defined and steps.a.output.stdot"));
    assert_eq!(flaws.len(), 1, "{flaws:?}");
}

#[test]
fn outputs_that_are_no_mapping() {
    for (keys, wrong, message) in [
        (EACH, "steps.a.output.stdout", "steps.a.output is a list and has no stdout"),
        (EACH, "steps.a.output[0].stdot", "steps.a.output[…] has no stdot"),
        (EXEC, "steps.a.status.x", "steps.a.status is a text and has no x"),
        (CHILD, "steps.a.error.code", "steps.a.error is a text or null and has no code"),
        (EXEC, "steps['a'].output['stdot']", "steps.a.output has no stdot"),
    ] {
        assert_eq!(told(&behind(keys, wrong)).0, message);
    }
    for (keys, right) in [
        ("type: noop", "steps.a.output.x"),
        (EACH, "steps.a.output[0].stdout"),
        (EACH, "steps.a.output[input.at].json.x"),
        (EACH, "(steps.a.output | first).anything"),
        (EACH, "steps.a.output | length"),
        ("type: for_each, items: [1], step: {type: worker, queue: q}", "steps.a.output[0].x"),
        (EXEC, "steps.a.output[input.name] == 1"),
        (EXEC, "(steps.a.output if input.x else input).anything"),
        (EXEC, "steps.a.error is defined and steps.a.status == 'completed'"),
    ] {
        accept(&behind(keys, right));
    }
}

#[test]
fn outputs_and_compensations_are_checked_as_well() {
    let text = |field: &str| {
        format!(
            "name: t\nsteps:\n  - {{id: a, {EXEC}, compensation: {{type: exec, command: [undo, \
             '{{{{ steps.a.output.{field} }}}}']}}}}\noutputs:\n  \
             - {{name: x, source: ['{{{{ steps.a.output.{field} }}}}']}}\n"
        )
    };
    accept(&text("stdout"));
    let paths: Vec<String> = refuse(&text("stdot")).into_iter().map(|flaw| flaw.path).collect();
    assert_eq!(paths, ["steps[0].compensation.command[1]", "outputs[0].source[0]"]);
}

#[test]
fn parts_of_plain_values() {
    let sends = |input: &str| {
        format!("name: t\nsteps: [{{id: a, type: worker, queue: q, input: \"{input}\"}}]")
    };
    for (wrong, message) in [
        ("run.id.x", "run.id is a text and has no x"),
        ("run.n.x", "run.n is a number or null and has no x"),
        ("run.merged.x", "run.merged is a number and has no x"),
        ("run.schedule_id.x", "run.schedule_id is a text or null and has no x"),
        ("run['by'].name", "run.by is a text or null and has no name"),
        ("run.event.title.x", "run.event.title is a text or null and has no x"),
        ("run.event.causes.x", "run.event.causes is a list and has no x"),
        ("run.event.causes[0].x", "run.event.causes[…] is a text and has no x"),
        ("run.event.order", "run.event has no order"),
        ("run.sched_id | default(1)", "run has no sched_id"),
        ("workflow.name.x", "workflow.name is a text and has no x"),
        ("secrets.key.x", "secrets.key is a text and has no x"),
        ("(run.id or run.by).x", "run.id or run.by is a text and has no x"),
    ] {
        assert_eq!(told(&sends(&format!("{{{{ {wrong} }}}}"))).0, message, "{wrong}");
    }
    for right in [
        "run.event.payload.x.y",
        "run.id.x | default(run.id)",
        "run.by.name is defined",
        "run[input.x].y",
        "(run.event or input).x",
        "(run.event | default({})).x",
        "secrets.key",
    ] {
        accept(&sends(&format!("{{{{ {right} }}}}")));
    }
    let awaits = |part: &str| {
        format!(
            "name: t\ntopics: [t]\nsteps: [{{id: a, type: wait_for, topic: t, condition: event.{part} == 1}}]"
        )
    };
    accept(&awaits("payload.x.y"));
    assert_eq!(told(&awaits("topic.x")).0, "event.topic is a text and has no x");
    let (message, remedy) = told(&awaits("order"));
    assert_eq!((&*message, remedy.as_deref()), ("event has no order", Some("event.payload.order")));
    let hook = |value: &str| {
        format!(
            "name: t\nsteps: []\ntriggers: [{{id: a, type: webhook, secret: k, payload: '{{{{ {value} }}}}'}}]"
        )
    };
    accept(&hook("input.body.x.y ~ input.headers.anything"));
    let message = "input.headers.kind is a text and has no x";
    assert_eq!(told(&hook("input.headers.kind.x")).0, message);
    let each = |items: &str| {
        format!(
            "name: t\nsteps: [{{id: a, type: for_each, items: '{{{{ {items} }}}}', step: {{type: noop}}}}]"
        )
    };
    accept(&each("run.event.payload"));
    assert_eq!(refuse(&each("run.id"))[0].message, "run.id is not a list");
}

/// All that is wrong in one text is told at once, with its own place.
#[test]
fn several_in_one_template() {
    let text = "name: t\nsteps:\n  - { id: build, type: exec, command: [make] }\n  - id: tell\n    \
                type: worker\n    queue: q\n    depends_on: build\n    \
                input: \"{{ steps.build.output.stdot ~ inptu.x }} {{ run.idd ~ run.id.x }} {{ steps.no.output | each }}\"\n";
    let printed: Vec<String> = refuse(text).iter().map(place).collect();
    insta::assert_snapshot!(printed.join("\n"), @r#"
    8:16 steps[1].input: steps.build.output has no stdot
          input: "{{ steps.build.output.stdot ~ inptu.x }} {{ run.idd ~ run.id…
                     ^^^^^^^^^^^^^^^^^^^^^^^^
      allowed: exit_code, json, signal, stderr, stderr_bytes, stderr_truncated, stdout, stdout_bytes, stdout_truncated, truncated
      try: stdout
    8:43 steps[1].input: unknown name inptu
      …ps.build.output.stdot ~ inptu.x }} {{ run.idd ~ run.id.x }} {{ steps.no.…
                               ^^^^^
      allowed: input, steps, run, workflow, secrets
      try: input
    8:57 steps[1].input: run has no idd
      …t.stdot ~ inptu.x }} {{ run.idd ~ run.id.x }} {{ steps.no.output | each …
                               ^^^^^^^
      allowed: by, created_at, effective_at, event, handler, id, merged, n, nominal_at, retry, schedule_id, schedule_name, started_at, trigger_id, triggered_by
      try: id
    8:67 steps[1].input: run.id is a text and has no x
      …inptu.x }} {{ run.idd ~ run.id.x }} {{ steps.no.output | each }}"
                               ^^^^^^^^
      try: run.id
    8:82 steps[1].input: there is no step no
      …un.idd ~ run.id.x }} {{ steps.no.output | each }}"
                               ^^^^^^^^^^^^^^^
    8:100 steps[1].input: unknown filter each
      …}} {{ steps.no.output | each }}"
                               ^^^^
      allowed: default, first, float, int, join, last, length, lower, replace, round, string, tojson, trim, upper
    "#);
}
