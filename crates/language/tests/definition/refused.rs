//! What is refused: the path and the code of every flaw.

use crate::{refuse, refuse_bytes};

/// Checks that a text has exactly these flaws, as `path code`, in the order of the text.
#[track_caller]
fn check(text: &str, expected: &[&str]) {
    let flaws = refuse(text);
    let found: Vec<String> =
        flaws.iter().map(|flaw| format!("{} {}", flaw.path, flaw.code)).collect();
    assert_eq!(found, expected, "{text}");
    for flaw in flaws {
        let single_line = !flaw.message.is_empty() && !flaw.message.contains('\n');
        assert!(single_line && flaw.line > 0 && flaw.column > 0, "{text}: {flaw:?}");
    }
}

/// Checks one step in an otherwise valid definition.
#[track_caller]
fn check_step(step: &str, expected: &[&str]) {
    check(&format!("name: t\nsteps: [{{id: a, {step}}}]"), expected);
}

/// Checks one schedule trigger in an otherwise valid definition.
#[track_caller]
fn check_trigger(trigger: &str, expected: &[&str]) {
    check(
        &format!("name: t\nsteps: []\ntriggers: [{{id: a, type: schedule, {trigger}}}]"),
        expected,
    );
}

#[test]
fn the_top_level() {
    for (text, expected) in [
        ("steps: []", &["name missing"][..]),
        ("name: t", &["steps missing"]),
        ("name: t\nsteps:", &["steps type"]),
        ("name: t\nsteps: {}", &["steps type"]),
        ("name: T\nsteps: []", &["name name"]),
        ("name: 1t\nsteps: []", &["name name"]),
        ("name: a_b\nsteps: []", &["name name"]),
        ("name: ''\nsteps: []", &["name name"]),
        ("name: 5\nsteps: []", &["name type"]),
        ("name: t\nversion: 010\nsteps: []", &["version version"]),
        ("name: t\nversion: 1.2.3\nsteps: []", &["version version"]),
        ("name: t\nversion: -1\nsteps: []", &["version version"]),
        ("name: t\nversion: [1]\nsteps: []", &["version version"]),
        ("name: t\nconcurrency: 0\nsteps: []", &["concurrency range"]),
        ("name: t\nconcurrency: 1.5\nsteps: []", &["concurrency range"]),
        ("name: t\nconcurrency: 1e400\nsteps: []", &["concurrency range"]),
        ("name: t\nconcurrency: '1'\nsteps: []", &["concurrency type"]),
        ("name: t\ntimeout: 0\nsteps: []", &["timeout duration"]),
        ("name: t\ntimeout: 11000d\nsteps: []", &["timeout duration"]),
        ("name: t\ntimeout: 99999999999999999999d\nsteps: []", &["timeout duration"]),
        ("name: t\nretention: true\nsteps: []", &["retention type"]),
        ("name: t\ntimezone: Mars/Base\nsteps: []", &["timezone zone-unknown"]),
        ("name: t\ncalendar: nobody\nsteps: []", &["calendar calendar-unknown"]),
        ("name: t\nstep: []", &["step unknown-key"]),
        ("name: t\ndeadline: {}\nsteps: []", &["deadline missing"]),
        ("name: t\nsecrets: [a, a b]\nsteps: []", &["secrets[1] id"]),
        ("name: t\nsecrets: [a, a]\nsteps: []", &["secrets[1] repeated"]),
        ("name: t\nname: u\nsteps: []", &["name repeated-key"]),
        ("name: t\ndescription: '{{ x }}'\nsteps: []", &["description template"]),
        ("name: '{{ x }}'\nsteps: []", &["name template"]),
        ("Name: t\nsteps: [a]", &["Name unknown-key", "steps[0] type"]),
    ] {
        check(text, expected);
    }
    check(&format!("name: {}\nsteps: []", "a".repeat(65)), &["name name"]);
}

#[test]
fn ids_and_dependencies() {
    for (steps, expected) in [
        ("{type: noop}", &["steps[0].id missing"][..]),
        ("{id: a}", &["steps[0].type missing"]),
        ("{id: '', type: noop}", &["steps[0].id id"]),
        ("{id: -a, type: noop}", &["steps[0].id id"]),
        ("{id: ../a, type: noop}", &["steps[0].id id"]),
        ("{id: é, type: noop}", &["steps[0].id id"]),
        ("{id: a, type: noop}, {id: a, type: noop}", &["steps[1].id repeated-id"]),
        ("{id: a, type: noop, depends_on: b}", &["steps[0].depends_on no-step"]),
        ("{id: a, type: noop, depends_on: [a]}", &["steps[0].depends_on[0] cycle"]),
        ("{id: a, type: noop, depends_on: 1}", &["steps[0].depends_on type"]),
        (
            "{id: a, type: noop}, {id: b, type: noop, depends_on: [a, a]}",
            &["steps[1].depends_on[1] repeated"],
        ),
        (
            "{id: a, type: noop, depends_on: b}, {id: b, type: noop, depends_on: a}",
            &["steps[0].depends_on cycle"],
        ),
        // A step that only waits for a cycle is not part of it.
        (
            "{id: c, type: noop, depends_on: a}, {id: a, type: noop, depends_on: b}, {id: b, type: script, depends_on: a}",
            &["steps[1].depends_on cycle", "steps[2].script missing"],
        ),
    ] {
        check(&format!("name: t\nsteps: [{steps}]"), expected);
    }
}

#[test]
fn what_all_steps_share() {
    for (step, expected) in [
        ("type: nop", &["steps[0].type step-type"][..]),
        ("type: 5", &["steps[0].type type"]),
        ("type: script", &["steps[0].script missing"]),
        ("type: noop, url: x", &["steps[0].url unknown-key"]),
        (
            "type: noop, condition: x, compensation: {}",
            &["steps[0].condition name", "steps[0].compensation.type missing"],
        ),
        ("type: noop, timeout: 0s", &["steps[0].timeout duration"]),
        ("type: noop, timeout: 1 working day", &["steps[0].timeout duration"]),
        ("type: noop, retry: 3", &["steps[0].retry type"]),
        ("type: noop, retry: {max: 101}", &["steps[0].retry.max range"]),
        ("type: noop, retry: {max: -1}", &["steps[0].retry.max range"]),
        ("type: noop, retry: {factor: 0.5}", &["steps[0].retry.factor range"]),
        ("type: noop, retry: {factor: .inf}", &["steps[0].retry.factor range"]),
        ("type: noop, retry: {delay: 1m, max_delay: 1s}", &["steps[0].retry.max_delay retry"]),
        ("type: noop, retry: {dealy: 1m}", &["steps[0].retry.dealy unknown-key"]),
        ("type: noop, on_error: skip", &["steps[0].on_error on-error"]),
        ("type: noop, on_error: {goto_step: a}", &["steps[0].on_error.goto_step cycle"]),
        ("type: noop, idempotent: 1", &["steps[0].idempotent type"]),
        ("type: noop, name: ''", &["steps[0].name title"]),
        ("type: noop, name: \"a\\nb\"", &["steps[0].name title"]),
    ] {
        check_step(step, expected);
    }
}

#[test]
fn requests() {
    for (keys, expected) in [
        ("", &["steps[0].url missing"][..]),
        ("url: ftp://x/", &["steps[0].url url"]),
        ("url: 'file:///etc/passwd'", &["steps[0].url url"]),
        ("url: 'http:x.com'", &["steps[0].url url"]),
        ("url: 'http:///x'", &["steps[0].url url"]),
        ("url: 'http://'", &["steps[0].url url"]),
        ("url: 'http://a b/'", &["steps[0].url url"]),
        ("url: \"http://a/\\r\\nHost: b\"", &["steps[0].url url"]),
        ("url: 'http://[::1'", &["steps[0].url url"]),
        ("url: 'http://x:99999/'", &["steps[0].url url"]),
        ("url: 'javascript:alert(1)'", &["steps[0].url url"]),
        ("url: http://x, method: FETCH", &["steps[0].method method"]),
        ("url: http://x, headers: []", &["steps[0].headers type"]),
        ("url: http://x, headers: {'': x}", &["steps[0].headers. header"]),
        ("url: http://x, headers: {\"a:b\": x}", &["steps[0].headers.a:b header"]),
        ("url: http://x, headers: {X: \"a\\r\\nY: b\"}", &["steps[0].headers.X header"]),
        ("url: http://x, headers: {X: a, x: b}", &["steps[0].headers.x header"]),
        (
            "url: http://x, headers: {content-length: '5'}",
            &["steps[0].headers.content-length header"],
        ),
        (
            "url: http://x, headers: {Transfer-Encoding: chunked}",
            &["steps[0].headers.Transfer-Encoding header"],
        ),
        ("url: http://x, expect: 99", &["steps[0].expect range"]),
        ("url: http://x, expect: []", &["steps[0].expect expect"]),
        ("url: http://x, expect: ok", &["steps[0].expect type"]),
        ("url: http://x, redirects: 11", &["steps[0].redirects range"]),
        ("url: http://x, max_bytes: 0", &["steps[0].max_bytes range"]),
        ("url: http://x, max_bytes: 262145", &["steps[0].max_bytes range"]),
        (
            "url: http://x, body: {n: 1e400, m: 010}",
            &["steps[0].body.n number", "steps[0].body.m number"],
        ),
        ("url: http://x, body: null", &["steps[0].body type"]),
        ("url: http://x, command: [a]", &["steps[0].command unknown-key"]),
    ] {
        check_step(&format!("type: http, {keys}"), expected);
    }
}

#[test]
fn commands() {
    for (keys, expected) in [
        ("", &["steps[0].command missing"][..]),
        ("command: []", &["steps[0].command command"]),
        ("command: ['']", &["steps[0].command[0] command"]),
        ("command: ls -l", &["steps[0].command command"]),
        ("command: [ls, -1]", &["steps[0].command[1] type"]),
        ("command: [ls, \"a\\0b\"]", &["steps[0].command[1] command"]),
        ("command: [ls], shell: true", &["steps[0].command command"]),
        ("command: '', shell: true", &["steps[0].command command"]),
        ("command: [ls], env: {A=B: x}", &["steps[0].env.A=B env"]),
        ("command: [ls], env: {A: 1}", &["steps[0].env.A type"]),
        ("command: [ls], env: {A: \"\\0\"}", &["steps[0].env.A command"]),
        ("command: [ls], cwd: ''", &["steps[0].cwd command"]),
        ("command: [ls], stdin: [1]", &["steps[0].stdin type"]),
        ("command: [ls], max_output: 1GB", &["steps[0].max_output type"]),
    ] {
        check_step(&format!("type: exec, {keys}"), expected);
    }
}

#[test]
fn triggers() {
    for (trigger, expected) in [
        ("", &["triggers[0] rule"][..]),
        ("cron: daily, interval: 5m", &["triggers[0] rule"]),
        ("cron: 5", &["triggers[0].cron type"]),
        ("cron: dayly", &["triggers[0].cron cron-preset"]),
        ("cron: '* * * *'", &["triggers[0].cron cron-fields"]),
        ("cron: daily, timezone: Mars/Base", &["triggers[0].timezone zone-unknown"]),
        ("cron: daily, timezone: localtime", &["triggers[0].timezone zone-unknown"]),
        ("cron: daily, calendar: nobody", &["triggers[0].calendar calendar-unknown"]),
        ("cron: daily, roll: next", &["triggers[0].roll no-calendar"]),
        ("cron: daily, roll: nxt, calendar: US", &["triggers[0].roll choice"]),
        ("cron: daily, crno: x", &["triggers[0].crno unknown-key"]),
        ("interval: 0s", &["triggers[0].interval interval-short"]),
        ("interval: 0", &["triggers[0].interval interval-short"]),
        ("interval: 99ms", &["triggers[0].interval interval-short"]),
        ("every: 1ms", &["triggers[0].interval interval-short"]),
        ("interval: 50ms, from: completion", &["triggers[0].interval interval-short"]),
        ("interval: -5", &["triggers[0].interval type"]),
        ("interval_seconds: 1.5", &["triggers[0].interval_seconds type"]),
        ("rrule: FREQ=SOMETIMES", &["triggers[0].rrule rrule-freq"]),
        ("daily: {att: '09:00'}", &["triggers[0].daily.att unknown-key"]),
        ("rules: [{cron: daily}, {crn: daily}]", &["triggers[0].rules[1].crn unknown-key"]),
        ("rules: [{cron: daily}, {cron: '0 25 * * *'}]", &["triggers[0].rules[1].cron cron-range"]),
        ("cron: daily, overlap: maybe", &["triggers[0].overlap type"]),
        ("cron: daily, catch_up: some", &["triggers[0].catch_up type"]),
        ("cron: daily, catch_up: {window: 5x}", &["triggers[0].catch_up.window duration"]),
        ("cron: daily, catch_up: {limit: 0}", &["triggers[0].catch_up.limit catch-up"]),
        ("cron: daily, total_repeats: -1", &["triggers[0].total_repeats type"]),
        ("cron: daily, max_retries: 1001", &["triggers[0].max_retries type"]),
        ("cron: daily, timeout_seconds: -1", &["triggers[0].timeout_seconds type"]),
        ("cron: daily, on_exhausted: dye", &["triggers[0].on_exhausted type"]),
        ("cron: daily, retry: {delay: 0}", &["triggers[0].retry.delay duration"]),
        ("cron: daily, retry: {jitter: 2}", &["triggers[0].retry.jitter type"]),
        ("cron: daily, retry: {max_delay: soon}", &["triggers[0].retry.max_delay duration"]),
        ("cron: daily, retry: {max_delay: 59}", &["triggers[0].retry.max_delay retry"]),
        ("every: 1h, retry: {max_delay: 59m}", &["triggers[0].retry.max_delay retry"]),
        ("every: 1h, retry: {delay: 9, max_delay: 8s}", &["triggers[0].retry.max_delay retry"]),
        ("cron: daily, retry: 5", &["triggers[0].retry type"]),
        ("cron: daily, queue_limit: many", &["triggers[0].queue_limit type"]),
        ("cron: daily, pause_on_failure: 'on'", &["triggers[0].pause_on_failure type"]),
        ("cron: daily, retention: 11000d", &["triggers[0].retention duration"]),
        ("cron: daily, enabled: 'no'", &["triggers[0].enabled type"]),
        ("cron: daily, payload: {a: '{{ x }}'}", &["triggers[0].payload.a template"]),
        ("cron: daily, payload: 99999999999999999999", &["triggers[0].payload number"]),
        ("cron: '{{ x }}'", &["triggers[0].cron template"]),
    ] {
        check_trigger(trigger, expected);
    }
    for (trigger, expected) in [
        ("{id: a, type: event, topic: x}", &["triggers[0].topic no-topic"][..]),
        ("{id: a, type: event}", &["triggers[0].topic missing"]),
        ("{id: a, type: manual, payload: 1}", &["triggers[0].payload unknown-key"]),
        ("{id: a, type: webhook, path: /x}", &["triggers[0].path unknown-key"]),
        ("{id: a, type: shedule}", &["triggers[0].type trigger-type"]),
        ("{id: a, cron: daily}", &["triggers[0].type missing"]),
        ("{id: a, type: manual, cron: daily}", &["triggers[0].cron unknown-key"]),
        ("{id: a, type: manual}, {id: a, type: manual}", &["triggers[1].id repeated-id"]),
    ] {
        check(&format!("name: t\nsteps: []\ntriggers: [{trigger}]"), expected);
    }
}

#[test]
fn calendars() {
    for (calendar, expected) in [
        ("timezone: UTC", &["calendars[0].id missing"][..]),
        ("id: a", &["calendars[0].timezone calendar-zone"]),
        ("id: a, timezone: UTC, huors: {}", &["calendars[0].huors unknown-key"]),
        ("id: a, timezone: UTC, hours: [1]", &["calendars[0].hours[0] type"]),
        (
            "id: a, timezone: UTC, exceptions: [{date: 2026-01-01}]",
            &["calendars[0].exceptions[0] missing"],
        ),
        (
            "id: a, timezone: UTC, holidays: [{ics: x.ics}]",
            &["calendars[0].holidays[0].ics ics-file"],
        ),
    ] {
        check(&format!("name: t\nsteps: []\ncalendars: [{{{calendar}}}]"), expected);
    }
}

#[test]
fn yaml() {
    for (text, expected) in [
        ("", &[" empty"][..]),
        ("# only a remark\n", &[" empty"]),
        ("~", &[" empty"]),
        ("text", &[" type"]),
        ("a: &a [*a]", &["a anchor"]),
        ("a: *b", &["a quotes"]),
        ("[*b]", &["[0] alias"]),
        ("<<: {a: 1}", &[" merge"]),
        ("name: !!str t", &["name tag"]),
        ("? [a]\n: b", &[" key"]),
        ("{{ a }}", &[" quotes"]),
        ("name: a\n---\nname: b\n", &[" documents"]),
        ("%TAG ! x\n---\nname: a\n", &[" directive"]),
        ("name: \"\\ud800\"", &["name syntax"]),
        ("name: \"t", &["name syntax"]),
        ("name: t\n\tsteps: []", &["name syntax"]),
        ("cron: * * * * *", &["cron quotes"]),
        ("- * * * * *", &["[0] quotes"]),
        ("cron: @daily", &["cron quotes"]),
        ("name: \u{0}", &["name syntax"]),
        (": a", &[" key"]),
    ] {
        check(text, expected);
    }
    assert_eq!(refuse_bytes(b"name: t\nsteps: \xff")[0].code, "encoding");
    assert_eq!((refuse_bytes(b"a\n\xff")[0].line, refuse_bytes(b"a\n\xff")[0].column), (2, 1));
}

#[test]
fn names_that_cannot_be_known() {
    for (step, code, remedy) in [
        ("type: worker, queue: q, input: '{{ run.sched_id }}'", "field", Some("schedule_id")),
        ("type: worker, queue: q, input: '{{ workflow.nam }}'", "field", Some("name")),
        ("type: worker, queue: q, input: '{{ inptu.x }}'", "name", Some("input")),
        ("type: wait_for, topic: t, condition: event.payloda.x", "field", Some("payload")),
        ("type: worker, queue: q, input: '{{ run.event.paylod }}'", "field", Some("payload")),
    ] {
        let flaws = refuse(&format!("name: t\ntopics: [t]\nsteps: [{{id: a, {step}}}]"));
        let [flaw] = &flaws[..] else { panic!("{step}: {flaws:?}") };
        assert_eq!((flaw.code, flaw.remedy.as_deref()), (code, remedy), "{step}");
    }
    for step in [
        "type: worker, queue: q, input: '{{ run.schedule_id }} {{ run.n }} {{ run.merged }}'",
        "type: worker, queue: q, input: '{{ input.anything }} {{ input.payload.anything }}'",
    ] {
        crate::accept(&format!("name: t\nsteps: [{{id: a, {step}}}]"));
    }
    let hook = |payload: &str| {
        format!(
            "name: t\nsteps: []\ntriggers: [{{id: a, type: webhook, secret: k, payload: '{payload}'}}]"
        )
    };
    crate::accept(&hook("{{ input.body.x }}"));
    assert_eq!(refuse(&hook("{{ input.payload.x }}"))[0].code, "field");
}

#[test]
fn fields_that_the_schema_of_the_input_does_not_list() {
    let text = |rest: &str| {
        format!(
            "name: t\ninput: {{type: object, required: [amount], properties: {{amount: {{type: number}}, \
             order: {{properties: {{id: {{}}}}}}}}}}\n{rest}\n"
        )
    };
    let step = |input: &str| {
        text(&format!("steps: [{{id: a, type: worker, queue: q, input: '{input}'}}]"))
    };
    for good in [
        "{{ input.amount }}",
        "{{ input.payload.order.id }}",
        "{{ input.note | default(1) }}",
        "{{ input.note is defined }}",
        "{{ input.order.z if input.order.z is defined else 1 }}",
        "{{ input.order.z is defined and input.order.z.y == 1 }}",
        "{{ 0 if input.note is undefined else input.note }}",
        "{{ input }}",
    ] {
        crate::accept(&step(good));
    }
    let flaws = refuse(&step("{{ input.order.ib }} {{ input.amuont }}"));
    let told: Vec<_> = flaws.iter().map(|f| (f.message.as_str(), f.remedy.as_deref())).collect();
    assert_eq!(
        told,
        [("input.order has no ib", Some("id")), ("input has no amuont", Some("amount")),]
    );
    for (wrong, message) in [
        ("{{ input.order.z is defined and input.order.y }}", "input.order has no y"),
        ("{{ input.order.id is defined }}{{ input.order.z }}", "input.order has no z"),
        ("{{ input.order is defined and input.order.z }}", "input.order has no z"),
    ] {
        assert_eq!(refuse(&step(wrong))[0].message, message, "{wrong}");
    }
    for field in ["enum: [daily, null]", "const: daily", "enum: [1, 2], title: x"] {
        let text = format!(
            "name: t\ninput: {{type: object, properties: {{kind: {{{field}}}}}}}\n\
             steps: [{{id: a, type: http, url: 'https://example.com/{{{{ input.kind.x }}}}'}}]\n"
        );
        assert_eq!(refuse(&text)[0].message, "input.kind has no x", "{field}");
        crate::accept(&text.replace(field, "enum: [{x: 1}]"));
    }
    let over = |items: &str, message: &str| {
        let input = "input: {type: object, properties: {s: {type: string}, o: {type: object}, \
                     rows: {type: array, items: {type: object, \
                     properties: {id: {type: integer}}}}}}";
        let step = format!("{{type: http, url: \"https://example.com/{message}\"}}");
        format!(
            "name: t\n{input}\nsteps: [{{id: a, type: for_each, items: {items}, step: {step}}}]\n"
        )
    };
    let rows = "'{{ input.rows }}'";
    let written = "[{id: 1}, {id: 2, name: x}]";
    for (items, good) in [
        (rows, "{{ item.id }}/{{ index }}/{{ input.rows[0].id }}/{{ input.rows[index].id }}"),
        (rows, "{{ item.z | default(0) }}"),
        (rows, "{{ (input.rows | first).id }}/{{ (input.rows or input.o).z }}"),
        (rows, "{{ input.rows[0].z is defined and input.rows[0].z }}"),
        ("'{{ input.rows | default([]) }}'", "{{ item.id }}"),
        ("'{{ input.rows if input.s else input.o.rows }}'", "{{ item.z }}"),
        ("'{{ input.payload.rows }}'", "{{ item.id }}"),
        (written, "{{ item.id }}{{ item.name | default(0) }}"),
        ("['{{ input.rows[0] }}']", "{{ item.z }}"),
    ] {
        crate::accept(&over(items, good));
    }
    for (items, wrong, message) in [
        (rows, "{{ input.rows[0].z }}", "input.rows[…] has no z"),
        (rows, "{{ input.rows[index].z }}", "input.rows[…] has no z"),
        (rows, "{{ input.rows.id }}", "input.rows is a list and has no id"),
        (rows, "{{ item.z }}", "item has no z"),
        (rows, "{{ item.id.z }}", "item.id is a whole number and has no z"),
        ("'{{ input.payload.rows }}'", "{{ item.z }}", "item has no z"),
        (rows, "{{ (input.rows | first).z }}", "input.rows[…] has no z"),
        (rows, "{{ (input.rows | last).z }}", "input.rows[…] has no z"),
        (
            rows,
            "{{ (input.rows[0] if input.s else input.rows[1]).z }}",
            "input.rows[…] or input.rows[…] has no z",
        ),
        (rows, "{{ index.z }}", "index is a number and has no z"),
        ("'{{ input.rows | default([]) }}'", "{{ item.z }}", "item has no z"),
        ("'{{ input.rows if input.s else [] }}'", "{{ item.z }}", "item has no z"),
        ("'{{ input.s }}'", "{{ item.z }}", "input.s is not a list by the input's schema"),
        ("'{{ input.o }}'", "{{ item }}", "input.o is not a list by the input's schema"),
        (written, "{{ item.z }}", "item has no z"),
        ("[a, b]", "{{ item.z }}", "item is a text and has no z"),
    ] {
        let flaws = refuse(&over(items, wrong));
        let told: Vec<&str> = flaws.iter().map(|flaw| flaw.message.as_str()).collect();
        assert_eq!(told, [message], "{items} {wrong}");
    }
    check(
        &text("steps: []\ntriggers: [{id: a, type: schedule, cron: daily, payload: {amount: x}}]"),
        &["triggers[0].payload.amount type"],
    );
    check(
        &text("steps: []\ntriggers: [{id: a, type: schedule, cron: daily}]"),
        &["triggers[0].payload.amount missing"],
    );
    check("name: t\ninput: {type: objekt}\nsteps: []", &["input.type type"]);
    check("name: t\ninput: {anyOf: []}\nsteps: []", &["input.anyOf unknown-key"]);
}
