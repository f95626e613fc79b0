//! Steps of every type: what is read, what it becomes, and what is refused.

use jiff::SignedDuration;
use language::definition::{
    Action, Channel, DeadlineEnd, Definition, From, GatewayKind, Limit, OnError, TimeSpan, Timer,
    TriggerKind, When,
};
use serde_json::json;

use crate::{accept, refuse};

/// A definition with one of everything.
pub(crate) const INVOICE: &str = r#"
name: invoice
timezone: Europe/Berlin
calendar: DE-BY
max_concurrent_steps: 4
deadline: { within: 2 working days, pausable: true }
triggers:
  - { id: hook, type: webhook, secret: hook-key, payload: { id: "{{ input.body.id }}" } }
steps:
  - id: look-up
    type: http
    url: "https://example.com/invoices/{{ input.id }}"
    headers: { Authorization: "Bearer {{ secrets.api_key }}" }
    on_error: { goto_step: tell }
    compensation:
      type: http
      method: DELETE
      url: "https://example.com/locks/{{ steps.look-up.output.body.lock }}"
      retry: { max: 5 }
      timeout: 10s
  - id: large
    type: gateway
    depends_on: look-up
    routes:
      - { condition: steps.look-up.output.body.total > 1000, target: approve }
    default_route: pay
  - id: approve
    type: human_approval
    title: Pay {{ steps.look-up.output.body.total }}?
    description: "From {{ workflow.name }}"
    assignees: [boss@example.com, "{{ input.owner }}"]
    deadline:
      within: 16 working hours
      calendar: US
      from: started
      actions:
        - { at: 80%, notify: { email: approver@example.com } }
        - { before: 1 working day, notify: [{ webhook: "https://example.com/late" }] }
        - { at: deadline, notify: [{ email: a@example.com }, { slack: "https://example.com/s" }] }
        - { after: 2h, start: escalate }
        - { after: 1d, fail: true }
  - id: pay
    type: worker
    queue: payments
    input: { total: "{{ steps.look-up.output.body.total }}", note: "run {{ run.id }}" }
    condition: "{{ steps.large.status == 'completed' }}"
    on_error: "goto_step: tell"
  - { id: wait, type: timer, delay: 2 working hours, depends_on: [pay, approve] }
  - { id: late, type: timer, until: "17:00", depends_on: wait }
  - { id: by, type: timer, delay: "{{ input.delay }}" }
  - id: each
    type: for_each
    items: "{{ steps.look-up.output.body.rows }}"
    max_parallel: 3
    step: { type: exec, command: [print, "{{ item.name }}", "{{ index }}"] }
    depends_on: look-up
  - id: ask
    type: agent_task
    agent: check-agent
    message: Check {{ input.id }}
    model: small
    temperature: 0.2
  - id: child
    type: sub_process
    workflow: archive
    input_mapping: { id: "{{ input.id }}" }
    output_key: archived
    wait_for_completion: false
  - id: tell
    type: notification
    to: [{ email: "{{ input.owner }}" }, { webhook: "https://{{ secrets.host }}/x" }]
    subject: Invoice {{ input.id }}
    message: "{{ steps.look-up.error | default('paid') }}"
outputs:
  - { name: total, source: "{{ steps.look-up.output.body.total }}" }
  - { name: all, source: { paid: "{{ steps.pay.status }}" } }
"#;

fn step<'d>(definition: &'d Definition, id: &str) -> &'d language::definition::Step {
    definition.steps.iter().find(|step| step.id == id).expect("a step")
}

#[test]
fn one_of_everything() {
    let read = accept(INVOICE);
    let stored = serde_json::to_string(&read).unwrap();
    assert_eq!(serde_json::from_str::<Definition>(&stored).unwrap(), read);
    assert_eq!(read.max_concurrent_steps, Some(4));
    let TriggerKind::Webhook { secret, payload, .. } = &read.triggers[0].kind else { panic!() };
    assert_eq!(secret.as_deref(), Some("hook-key"));
    assert_eq!(payload, &Some(json!({"id": "{{ input.body.id }}"})));
    let look_up = step(&read, "look-up");
    assert_eq!(look_up.on_error, OnError::GotoStep("tell".into()));
    let undo = look_up.compensation.as_ref().unwrap();
    assert_eq!((undo.action.name(), undo.retry.max), ("http", 5));
    assert_eq!(undo.timeout, Some(SignedDuration::from_secs(10)));
    let Action::Gateway(gateway) = &step(&read, "large").action else { panic!() };
    assert_eq!((gateway.kind, gateway.routes.len()), (GatewayKind::Exclusive, 1));
    assert_eq!(gateway.default_route.as_deref(), Some("pay"));
    assert_eq!(step(&read, "pay").on_error, OnError::GotoStep("tell".into()));
    let Action::Timer(wait) = &step(&read, "wait").action else { panic!() };
    assert_eq!(wait, &Timer::Delay(TimeSpan::Working(SignedDuration::from_hours(2))));
    let Action::Timer(by) = &step(&read, "by").action else { panic!() };
    assert_eq!(by, &Timer::DelayBy("{{ input.delay }}".into()));
    for id in ["wait", "late", "approve", "large", "child"] {
        assert_eq!(step(&read, id).timeout, None, "{id}");
    }
    assert_eq!(step(&read, "ask").timeout, Some(SignedDuration::from_mins(5)));
    let Action::ForEach(each) = &step(&read, "each").action else { panic!() };
    assert_eq!((each.action.name(), each.max_parallel), ("exec", Some(3)));
    let Action::Notification(tell) = &step(&read, "tell").action else { panic!() };
    assert_eq!(tell.to[0], Channel::Email("{{ input.owner }}".into()));
    assert_eq!(read.outputs[1].source, json!({"paid": "{{ steps.pay.status }}"}));
}

#[test]
fn deadlines() {
    let read = accept(INVOICE);
    let whole = read.deadline.as_ref().unwrap();
    assert_eq!(whole.limit, Limit::Within(TimeSpan::WorkingDays(2.0)));
    assert!(whole.pausable && whole.from == From::Enabled && whole.calendar.is_none());
    let when: Vec<When> = whole.actions.iter().map(|action| action.when).collect();
    assert_eq!(when, [When::Share(80.0), When::Deadline]);
    assert!(whole.actions.iter().all(|action| action.notify.is_empty() && action.end.is_none()));
    let own = step(&read, "approve").deadline.as_ref().unwrap();
    assert_eq!((own.calendar.as_deref(), own.from), (Some("US"), From::Started));
    assert_eq!(own.actions[1].when, When::Before(TimeSpan::WorkingDays(1.0)));
    assert_eq!(own.actions[2].notify.len(), 2);
    assert_eq!(own.actions[3].start.as_deref(), Some("escalate"));
    assert_eq!(own.actions[4].end, Some(DeadlineEnd::Fail));
    let at = accept("name: t\ndeadline: { at: \"17:30\" }\nsteps: []");
    assert_eq!(at.deadline.unwrap().limit, Limit::At(17, 30));
}

#[test]
fn the_graph() {
    let read = accept(INVOICE);
    let graph = read.graph();
    let ids = |places: &[u32]| -> Vec<&str> {
        places.iter().map(|at| read.steps[*at as usize].id.as_str()).collect()
    };
    let at = |id: &str| graph.index(id).unwrap();
    assert_eq!(ids(graph.dependencies(at("approve"))), ["large"]);
    assert_eq!(ids(graph.dependents(at("large"))), ["approve", "pay"]);
    assert_eq!(ids(graph.references(at("pay"))), ["look-up", "large"]);
    assert_eq!(ids(graph.references(at("large"))), ["look-up"]);
    assert_eq!(ids(graph.references(at("each"))), ["look-up"]);
    assert!(graph.references(at("look-up")).is_empty());
    assert_eq!(ids(graph.compensation_references(at("look-up"))), ["look-up"]);
    assert!(graph.is_handler(at("tell")) && !graph.is_handler(at("look-up")));
    for (place, step) in read.steps.iter().enumerate() {
        let earlier = graph.dependencies(place as u32).iter().all(|at| (*at as usize) < place);
        assert!(earlier, "{} comes after what it depends on", step.id);
    }
}

/// Checks that steps behind a first one with the id `a` have exactly these flaws, as `path code`.
#[track_caller]
fn check(steps: &str, expected: &[&str]) {
    let text = format!("name: t\nsteps:\n- {{id: a, type: noop}}\n{steps}");
    let flaws = refuse(&text);
    let found: Vec<String> =
        flaws.iter().map(|flaw| format!("{} {}", flaw.path, flaw.code)).collect();
    assert_eq!(found, expected, "{text}");
    assert!(flaws.iter().all(|flaw| flaw.line > 0 && !flaw.message.is_empty()), "{flaws:?}");
}

#[track_caller]
fn check_step(keys: &str, expected: &[&str]) {
    check(&format!("- {{id: b, {keys}}}\n"), expected);
}

#[test]
fn types_with_flaws() {
    for (keys, expected) in [
        ("type: timer, delay: 0s", &["steps[1].delay duration"][..]),
        ("type: timer, delay: 99999999999999999999d", &["steps[1].delay duration"]),
        ("type: timer, delay: 5m, until: '17:00'", &["steps[1].until timer"]),
        ("type: timer, delay: 2 working hours", &["steps[1].delay no-calendar"]),
        ("type: timer, delay: [5m]", &["steps[1].delay type"]),
        ("type: timer, delay: 5m, timeout: 1m", &["steps[1].timeout timeout"]),
        ("type: timer, until: '25:00'", &["steps[1].until time"]),
        ("type: timer, until: 2026-03-01", &["steps[1].until time"]),
        ("type: timer, until: tomorrow", &["steps[1].until time"]),
        ("type: timer, until: '2026-03-01T09:00[Mars/Base]'", &["steps[1].until zone-unknown"]),
        ("type: worker", &["steps[1].queue missing"]),
        ("type: worker, queue: 'a b'", &["steps[1].queue queue"]),
        ("type: worker, queue: ''", &["steps[1].queue queue"]),
        ("type: worker, queue: q, input: '{{ x }}'", &["steps[1].input name"]),
        ("type: agent_task, agent: x", &["steps[1].message missing"]),
        ("type: agent_task, agent: x, message: y, temperature: 3", &["steps[1].temperature range"]),
        ("type: human_approval", &["steps[1].title missing"]),
        ("type: human_approval, title: ''", &["steps[1].title title"]),
        ("type: human_approval, title: 'x {{ secrets.a }}'", &["steps[1].title secret"]),
        ("type: human_approval, title: x, assignees: [1]", &["steps[1].assignees[0] type"]),
        ("type: notification, to: [], message: x", &["steps[1].to notify"]),
        ("type: notification, to: {fax: 1}, message: x", &["steps[1].to.fax unknown-key"]),
        (
            "type: notification, to: {email: a@b, slack: 'http://x'}, message: x",
            &["steps[1].to notify"],
        ),
        ("type: notification, to: {email: nobody}, message: x", &["steps[1].to.email email"]),
        ("type: notification, to: {slack: x}, message: x", &["steps[1].to.slack url"]),
        ("type: sub_process", &["steps[1].workflow missing"]),
        ("type: sub_process, workflow: A", &["steps[1].workflow name"]),
        ("type: sub_process, workflow: a, input_mapping: [1]", &["steps[1].input_mapping type"]),
        (
            "type: sub_process, workflow: a, input_mapping: {x: '{{ secrets.a }}'}",
            &["steps[1].input_mapping.x secret"],
        ),
        ("type: for_each, items: x, step: {type: noop}", &["steps[1].items items"]),
        ("type: for_each, items: [1], step: {type: timer}", &["steps[1].step.type step-type"]),
        (
            "type: for_each, items: [1], step: {type: noop, id: x}",
            &["steps[1].step.id unknown-key"],
        ),
        ("type: for_each, items: ['{{ item }}'], step: {type: noop}", &["steps[1].items[0] name"]),
        ("type: gateway, routes: []", &["steps[1].routes route"]),
        ("type: gateway, routes: [{target: x}]", &["steps[1].routes[0].target no-step"]),
        ("type: gateway, routes: [{target: b}]", &["steps[1].routes[0].target cycle"]),
        (
            "type: gateway, routes: [{target: a}], default_route: x",
            &["steps[1].default_route no-step"],
        ),
        (
            "type: gateway, routes: [{target: a, conditon: x}]",
            &["steps[1].routes[0].conditon unknown-key"],
        ),
        ("type: gateway, kind: some, routes: [{target: a}]", &["steps[1].kind choice"]),
        (
            "type: gateway, kind: parallel, routes: [{target: a, condition: 'true'}]",
            &["steps[1].routes[0] route"],
        ),
        (
            "type: gateway, routes: [{target: a}, {target: a, condition: 'true'}]",
            &["steps[1].routes[1] route"],
        ),
        (
            "type: gateway, routes: [{target: a}], depends_on: a",
            &["steps[1].routes[0].target cycle"],
        ),
    ] {
        check_step(keys, expected);
    }
}

#[test]
fn common_keys_with_flaws() {
    for (keys, expected) in [
        ("type: noop, condition: ''", &["steps[1].condition expression"][..]),
        ("type: noop, condition: 'input.a >'", &["steps[1].condition expression"]),
        ("type: noop, condition: 5", &["steps[1].condition type"]),
        ("type: noop, condition: secrets.a == 'x'", &["steps[1].condition secret"]),
        ("type: noop, condition: imput.a", &["steps[1].condition name"]),
        ("type: noop, condition: item > 1", &["steps[1].condition name"]),
        ("type: noop, condition: steps.a.status == 'x'", &["steps[1].condition not-before"]),
        ("type: noop, condition: steps.b.status == 'x'", &["steps[1].condition not-before"]),
        ("type: noop, condition: steps.c.status == 'x'", &["steps[1].condition no-step"]),
        (
            "type: noop, condition: steps.a.state == 'x', depends_on: a",
            &["steps[1].condition step"],
        ),
        ("type: noop, on_error: goto_step", &["steps[1].on_error on-error"]),
        ("type: noop, on_error: 'goto_step: x'", &["steps[1].on_error no-step"]),
        ("type: noop, on_error: {goto_step: b}", &["steps[1].on_error.goto_step cycle"]),
        ("type: noop, on_error: {goto_stp: b}", &["steps[1].on_error.goto_stp unknown-key"]),
        ("type: noop, on_error: {goto_step: 1}", &["steps[1].on_error.goto_step type"]),
        ("type: noop, compensation: {type: timer}", &["steps[1].compensation.type step-type"]),
        (
            "type: noop, compensation: {type: noop, id: x}",
            &["steps[1].compensation.id unknown-key"],
        ),
        ("type: noop, compensation: noop", &["steps[1].compensation type"]),
        ("type: noop, deadline: 2h", &["steps[1].deadline type"]),
        ("type: noop, deadline: {within: 2h, at: '17:00'}", &["steps[1].deadline.at deadline"]),
        (
            "type: noop, deadline: {within: 1 working day}",
            &["steps[1].deadline.within no-calendar"],
        ),
        (
            "type: noop, deadline: {within: 2h, calendar: nobody}",
            &["steps[1].deadline.calendar calendar-unknown"],
        ),
        ("type: noop, deadline: {within: 2h, from: now}", &["steps[1].deadline.from choice"]),
        (
            "type: noop, deadline: {within: 2h, actions: [{at: 0%, fail: true}]}",
            &["steps[1].deadline.actions[0].at deadline"],
        ),
        (
            "type: noop, deadline: {within: 2h, actions: [{at: 80, fail: true}]}",
            &["steps[1].deadline.actions[0].at deadline"],
        ),
        (
            "type: noop, deadline: {within: 2h, actions: [{fail: true}]}",
            &["steps[1].deadline.actions[0] deadline"],
        ),
        (
            "type: noop, deadline: {within: 2h, actions: [{after: 1h, start: A}]}",
            &["steps[1].deadline.actions[0].start name"],
        ),
        (
            "type: noop, deadline: {within: 2h, actions: [{after: 1h, notify: {email: '{{ input.a }}'}}]}",
            &["steps[1].deadline.actions[0].notify.email template"],
        ),
        ("type: http, url: 'ftp://{{ input.a }}'", &["steps[1].url url"]),
        ("type: http, url: 'http://x/{{ input.a'", &["steps[1].url template"]),
        ("type: http, url: http://x, headers: {A: '{{ x }}'}", &["steps[1].headers.A name"]),
        ("type: http, url: http://x, method: '{{ input.a }}'", &["steps[1].method template"]),
        (
            "type: http, url: http://x, body: {'{{ input.a }}': 1}",
            &["steps[1].body.{{ input.a }} template"],
        ),
        ("type: exec, command: ['{{ x }}']", &["steps[1].command[0] injection"]),
        ("type: exec, command: [a, '{{ x }}']", &["steps[1].command[1] name"]),
        ("type: exec, command: [a], env: {A: '{{ steps.c.output }}'}", &["steps[1].env.A no-step"]),
        (
            "type: exec, command: [a], stdin: '{% if input.a %}{{ input.a }}'",
            &["steps[1].stdin template"],
        ),
        // A template does not hide other flaws.
        (
            "type: http, url: http://x, headers: {A: ' {{ input.a }}'}",
            &["steps[1].headers.A header"],
        ),
        ("type: exec, command: [a, \"{{ input.a }}\\0\"]", &["steps[1].command[1] command"]),
        ("type: human_approval, title: \"{{ input.a }}\\n\"", &["steps[1].title title"]),
        ("type: worker, queue: '{{ input.a }}'", &["steps[1].queue template"]),
        ("type: sub_process, workflow: '{{ input.a }}'", &["steps[1].workflow template"]),
        ("type: timer, delay: '{{ input.a }}', until: '{{ input.a }}'", &["steps[1].until timer"]),
        ("type: noop, name: '{{ input.a }}'", &["steps[1].name template"]),
    ] {
        check_step(keys, expected);
    }
}

#[test]
fn ways_between_steps() {
    // A step may mention the step that jumps to it and those before that, but not later ones.
    accept(
        "name: t\nsteps:\n- {id: a, type: noop, on_error: {goto_step: h}}\n- {id: h, type: noop, condition: steps.a.error is defined}\n- {id: b, type: noop, depends_on: h, condition: steps.a.status == 'failed'}",
    );
    // After a jump back, the second pass has a result.
    accept(
        "name: t\nsteps:\n- {id: a, type: noop}\n- {id: b, type: noop, depends_on: a, condition: \"steps.c.error | default('') == ''\"}\n- {id: c, type: noop, depends_on: b, on_error: {goto_step: b}}",
    );
    check(
        "- {id: h, type: noop}\n- {id: b, type: noop, on_error: {goto_step: h}, condition: steps.h.status == 'x'}\n",
        &["steps[2].condition not-before"],
    );
    // A jump back to the first step, which begins with the run.
    accept(
        "name: t\nsteps:\n- {id: x, type: noop, depends_on: y, on_error: {goto_step: y}}\n- {id: y, type: noop}\n",
    );
    check(
        "- {id: x, type: noop, on_error: {goto_step: y}}\n- {id: y, type: noop, on_error: {goto_step: x}}\n",
        &["steps[1] unreachable", "steps[2] unreachable"],
    );
    check(
        "- {id: g, type: gateway, routes: [{target: x}], depends_on: y}\n- {id: x, type: noop}\n- {id: y, type: noop, depends_on: x}\n",
        &["steps[1].depends_on cycle"],
    );
    let outputs = "name: t\nsteps: [{id: make, type: noop}]\noutputs:\n- {name: a, source: '{{ steps.mak.output }}'}\n- {name: a, source: '{{ secrets.x }}'}\n- {nam: b}";
    let found: Vec<String> =
        refuse(outputs).iter().map(|flaw| format!("{} {}", flaw.path, flaw.code)).collect();
    let expected = [
        "outputs[0].source no-step",
        "outputs[1].name repeated-id",
        "outputs[1].source secret",
        "outputs[2].nam unknown-key",
        "outputs[2].source missing",
    ];
    assert_eq!(found, expected);
}

#[test]
fn times_to_wait_for() {
    use calendar::Zones;
    use language::definition::Until;
    let zones = Zones::bundled();
    let berlin = zones.get("Europe/Berlin").unwrap();
    let now = "2026-03-28T17:30:00Z".parse().unwrap();
    for (text, expected) in [
        ("2026-04-01T09:00:00Z", "2026-04-01T09:00:00Z"),
        ("2026-04-01T09:00:00+05:30", "2026-04-01T03:30:00Z"),
        ("2026-04-01T09:00", "2026-04-01T07:00:00Z"),
        ("2026-04-01 09:00", "2026-04-01T07:00:00Z"),
        ("2026-04-01T09:00[America/New_York]", "2026-04-01T13:00:00Z"),
        ("18:31", "2026-03-28T17:31:00Z"),
        ("18:30", "2026-03-29T16:30:00Z"),
        // The clock jumps over this time, so it is the first instant after the gap.
        ("02:30", "2026-03-29T01:00:00Z"),
    ] {
        let until = Until::parse(text).unwrap_or_else(|problem| panic!("{text}: {problem}"));
        let found = until.instant(now, &berlin, &zones).unwrap();
        assert_eq!(found.to_string(), expected, "{text}");
    }
    for text in ["", "25:00", "9:00", "2026-04-01", "2026-13-01T09:00", "17:00:00", "noon"] {
        assert!(Until::parse(text).is_err(), "{text}");
    }
}
