//! Flaws of topics, producers and consumers, and of what refers to topics.

use crate::{accept, place, refuse};

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

#[test]
fn refused_topics() {
    for (topics, expected) in [
        ("a", &["topics type"][..]),
        ("[5]", &["topics[0] type"]),
        ("[a b]", &["topics[0] topic"]),
        ("['']", &["topics[0] topic"]),
        ("[.a]", &["topics[0] topic"]),
        ("[a, a]", &["topics[1] repeated"]),
        ("[{nam: a}]", &["topics[0].nam unknown-key"]),
        ("[{}]", &["topics[0].name missing"]),
        ("[{name: a, shared: yes}]", &["topics[0].shared type"]),
        ("[{name: a, max_attempts: 0}]", &["topics[0].max_attempts range"]),
        ("[{name: a, max_attempts: 1001}]", &["topics[0].max_attempts range"]),
        ("{a b: {}}", &["topics.a b topic"]),
        ("{a: {name: b}}", &["topics.a.name unknown-key"]),
        ("{a: 5}", &["topics.a type"]),
        ("{a: , a: }", &["topics.a repeated-key"]),
    ] {
        check(&format!("name: t\nsteps: []\ntopics: {topics}"), expected);
    }
    let many: Vec<String> = (0..101).map(|n| format!("t{n}")).collect();
    check(&format!("name: t\nsteps: []\ntopics: [{}]", many.join(", ")), &["topics limit"]);
    let many: Vec<String> = (0..101).map(|n| format!("t{n}: ")).collect();
    check(&format!("name: t\nsteps: []\ntopics: {{{}}}", many.join(", ")), &["topics limit"]);
}

#[test]
fn refused_producers() {
    let good = "schedule: {interval: 5m}, publishes: a, handler: x";
    for (producer, expected) in [
        ("5", &["producers.p type"][..]),
        ("{}", &["producers.p.schedule missing", "producers.p.handler missing"]),
        ("{schedule: 5m, publishes: a, handler: x}", &["producers.p.schedule type"]),
        ("{schedule: {}, publishes: a, handler: x}", &["producers.p.schedule rule"]),
        (
            "{schedule: {corn: daily}, publishes: a, handler: x}",
            &["producers.p.schedule.corn unknown-key"],
        ),
        (
            "{schedule: {cron: 61 * * * *}, publishes: a, handler: x}",
            &["producers.p.schedule.cron cron-range"],
        ),
        (
            "{schedule: {interval: 5m, id: x}, publishes: a, handler: x}",
            &["producers.p.schedule.id unknown-key"],
        ),
        (
            "{schedule: {interval: 5m, timezone: Mars/Base}, publishes: a, handler: x}",
            &["producers.p.schedule.timezone zone-unknown"],
        ),
        (
            "{schedule: {interval: 5m, overlap: maybe}, publishes: a, handler: x}",
            &["producers.p.schedule.overlap type"],
        ),
        (
            "{schedule: {interval: '{{ x }}'}, publishes: a, handler: x}",
            &["producers.p.schedule.interval template"],
        ),
        ("{schedule: {interval: 5m}, publishes: [], handler: x}", &["producers.p.publishes topic"]),
        (
            "{schedule: {interval: 5m}, publishes: [a, a], handler: x}",
            &["producers.p.publishes[1] repeated"],
        ),
        (
            "{schedule: {interval: 5m}, publishes: b, handler: x}",
            &["producers.p.publishes no-topic"],
        ),
        (
            "{schedule: {interval: 5m}, publishes: [a, c], handler: x}",
            &["producers.p.publishes[1] no-subscriber"],
        ),
        ("{schedule: {interval: 5m}, publishes: a, handler: 5}", &["producers.p.handler type"]),
        ("{schedule: {interval: 5m}, publishes: a, handler: ' '}", &["producers.p.handler script"]),
        (
            "{schedule: {interval: 5m}, publishes: a, handler: {type: timer, delay: 5m}}",
            &["producers.p.handler.type step-type"],
        ),
        (
            "{schedule: {interval: 5m}, publishes: a, handler: {type: scirpt}}",
            &["producers.p.handler.type step-type"],
        ),
        (
            "{schedule: {interval: 5m}, publishes: a, handler: {}}",
            &["producers.p.handler.type missing"],
        ),
        (
            "{schedule: {interval: 5m}, publishes: a, handler: {script: x, type: script, source: y}}",
            &["producers.p.handler.source script"],
        ),
        (
            "{schedule: {interval: 5m}, publishes: a, handler: {script: x, retry: {}}}",
            &["producers.p.handler.retry unknown-key"],
        ),
        (
            "{schedule: {interval: 5m}, publishes: a, handler: {type: http, url: 'https://x/{{ steps.s.output }}'}}",
            &["producers.p.handler.url no-step"],
        ),
        (
            "{schedule: {interval: 5m}, publishes: a, handler: x, timeout: 0}",
            &["producers.p.timeout duration"],
        ),
    ] {
        let around =
            "name: t\ntopics: [{name: a, external: true}, c]\nsteps: [{id: s, type: noop}]\n";
        check(&format!("{around}producers: {{p: {producer}}}"), expected);
    }
    for (names, expected) in [
        ("1p", &["producers.1p name"][..]),
        ("p.q", &["producers.p.q name"]),
        ("''", &["producers. name"]),
    ] {
        let around = "name: t\ntopics: [{name: a, external: true}]\n";
        check(&format!("{around}producers: {{{names}: {{{good}}}}}"), expected);
    }
    check("name: t\nproducers: []", &["producers type"]);
    check("name: t\nproducers: {}\nconsumers: {}", &["steps missing"]);
}

#[test]
fn refused_consumers() {
    for (consumer, expected) in [
        ("{}", &["consumers.c.subscribe missing", "consumers.c.prepare missing"][..]),
        ("{subscribe: [], prepare: x}", &["consumers.c.subscribe topic"]),
        ("{subscribe: {a: 1}, prepare: x}", &["consumers.c.subscribe type"]),
        ("{subscribe: aa, prepare: x}", &["consumers.c.subscribe no-topic"]),
        ("{subscribe: a, publishes: b, prepare: x}", &["consumers.c.publishes no-subscriber"]),
        ("{subscribe: a, prepare: x, reconcile: y}", &["consumers.c.reconcile reconcile"]),
        ("{subscribe: a, prepare: x, nxet: y}", &["consumers.c.nxet unknown-key"]),
        ("{subscribe: a, prepare: {type: noop}}", &["consumers.c.prepare.type step-type"]),
        (
            "{subscribe: a, prepare: {type: exec, command: [a, '{{ steps.prepare.output }}']}}",
            &["consumers.c.prepare.command[1] no-step"],
        ),
        (
            "{subscribe: a, prepare: x, next: {type: exec, command: [a, '{{ steps.mutation.output }}']}}",
            &["consumers.c.next.command[1] no-step"],
        ),
        (
            "{subscribe: a, prepare: x, mutate: {type: http, url: 'http://x'}, next: {type: exec, command: [a, '{{ steps.mutate.output }}']}}",
            &["consumers.c.next.command[1] no-step"],
        ),
        ("{subscribe: a, prepare: x, mutate: {type: http}}", &["consumers.c.mutate.url missing"]),
    ] {
        check(&format!("name: t\ntopics: [a, b]\nconsumers: {{c: {consumer}}}"), expected);
    }
    let both = "name: t\ntopics: [a]\nproducers: {p: {schedule: {interval: 1m}, publishes: a, handler: x}}\nconsumers: {p: {subscribe: a, prepare: x}}";
    check(both, &["consumers.p repeated"]);
    let many: Vec<String> =
        (0..101).map(|n| format!("c{n}: {{subscribe: a, prepare: x}}")).collect();
    check(
        &format!("name: t\ntopics: [a]\nconsumers: {{{}}}", many.join(", ")),
        &["consumers limit"],
    );
}

#[test]
fn refused_steps_and_triggers() {
    for (step, expected) in [
        ("type: script, script: 5", &["steps[0].script type"][..]),
        ("type: script, script: ''", &["steps[0].script script"]),
        ("type: script, scirpt: x", &["steps[0].scirpt unknown-key"]),
        ("type: publish", &["steps[0].topic missing"]),
        ("type: publish, topic: no", &["steps[0].topic no-topic"]),
        ("type: publish, topic: lonely", &["steps[0].topic no-subscriber"]),
        ("type: publish, topic: a, timeout: 5m", &["steps[0].timeout timeout"]),
        ("type: publish, topic: a, message_id: ''", &["steps[0].message_id event"]),
        ("type: publish, topic: a, title: '{{ secrets.x }}'", &["steps[0].title secret"]),
        ("type: publish, topic: a, payload: '{{ event }}'", &["steps[0].payload name"]),
        ("type: wait_for, topic: b", &["steps[0].topic no-topic"]),
        ("type: wait_for, topic: a, condition: input.x", &["steps[0].condition condition"]),
        (
            "type: wait_for, topic: a, condition: event.payload == item",
            &["steps[0].condition name"],
        ),
        (
            "type: wait_for, topic: a, condition: event.payload == steps.z.output",
            &["steps[0].condition no-step"],
        ),
        ("type: wait_for, topic: a, within: 1h, timeout: 1h", &["steps[0].timeout wait_for"]),
        ("type: wait_for, topic: a, within: 2 working days", &["steps[0].within no-calendar"]),
        ("type: noop, condition: event.payload", &["steps[0].condition name"]),
        (
            "type: noop, compensation: {type: publish, topic: a}",
            &["steps[0].compensation.type step-type"],
        ),
        (
            "type: for_each, items: [1], step: {type: publish, topic: lonely}",
            &["steps[0].step.topic no-subscriber"],
        ),
    ] {
        let around = "name: t\ntopics: [{name: a, shared: true}, lonely]\n";
        check(&format!("{around}steps: [{{id: s, {step}}}]"), expected);
    }
    for (trigger, expected) in [
        ("type: event, topic: a, condition: input.x", &["triggers[0].condition name"][..]),
        ("type: event, topic: a, payload: '{{ steps.x.output }}'", &["triggers[0].payload name"]),
        ("type: event, topic: a, cron: daily", &["triggers[0].cron unknown-key"]),
        ("type: webhook, publish: b", &["triggers[0].publish no-topic"]),
        ("type: webhook, publish: a", &["triggers[0].publish no-subscriber"]),
    ] {
        check(
            &format!("name: t\ntopics: [a]\nsteps: []\ntriggers: [{{id: x, {trigger}}}]"),
            expected,
        );
    }
}

/// A topic without a subscriber is reported once, and subscribers are found wherever they are.
#[test]
fn subscribers() {
    check(
        "name: t\ntopics: [a]\nsteps: [{id: s, type: publish, topic: a}, {id: u, type: publish, topic: a}]",
        &["steps[0].topic no-subscriber"],
    );
    for subscriber in [
        "triggers: [{id: x, type: event, topic: a}]",
        "consumers: {c: {subscribe: a, prepare: x, next: x}}",
    ] {
        accept(&format!(
            "name: t\ntopics: [a]\nsteps: [{{id: s, type: publish, topic: a}}]\n{subscriber}"
        ));
    }
    accept(
        "name: t\ntopics: [a]\nsteps: [{id: s, type: publish, topic: a}, {id: w, type: wait_for, topic: a}]",
    );
}

#[test]
fn how_it_looks() {
    let text = "name: t\ntopics: [email.received, digests]\nproducers:\n  poll email:\n    schedule: { intervall: 5m }\n    publishes: [email.recieved]\n    handler: { type: htpp }\nconsumers:\n  digest:\n    subscribe: [email.received]\n    publishes: [digests]\n    prepare: { type: exec, command: [cat, \"{{ steps.x.output }}\"] }\n    reconcile: return 1\n";
    let printed: Vec<String> = refuse(text).iter().map(place).collect();
    insta::assert_snapshot!(printed.join("\n"), @r#"
    4:3 producers.poll email: poll email is not the name of a handler
        poll email:
        ^^^^^^^^^^
      allowed: letters, digits, _ and -, beginning with a letter, at most 64 characters
    5:17 producers.poll email.schedule.intervall: unknown key intervall
          schedule: { intervall: 5m }
                      ^^^^^^^^^
      try: interval
    6:17 producers.poll email.publishes[0]: the topic email.recieved is not declared
          publishes: [email.recieved]
                      ^^^^^^^^^^^^^^
      try: email.received
    7:22 producers.poll email.handler.type: unknown step type htpp
          handler: { type: htpp }
                           ^^^^
      allowed: script, http, exec, worker
      try: http
    11:17 consumers.digest.publishes[0]: nobody subscribes to the topic digests
          publishes: [digests]
                      ^^^^^^^
      try: a consumer that does, or external: true where it is declared
    12:47 consumers.digest.prepare.command[1]: steps.x is not known here
          prepare: { type: exec, command: [cat, "{{ steps.x.output }}"] }
                                                    ^^^^^^^^^^^^^^
      allowed: no steps: nothing runs before this phase
    13:16 consumers.digest.reconcile: there is no mutate whose outcome could be unknown
          reconcile: return 1
                     ^^^^^^^^
      try: leave it out
    "#);
}
