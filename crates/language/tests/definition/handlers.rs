//! Topics, producers and consumers, and the steps and triggers that refer to topics.

use jiff::SignedDuration;
use language::definition::{
    Action, Definition, ScriptAction, TimeSpan, TriggerKind, commands, locate, warnings,
};
use serde_json::json;

use crate::{accept, place, with_context};

/// A definition with one of everything.
pub(crate) const ORDERS: &str = r#"
name: orders
timezone: Europe/Berlin
calendar: DE-BY
topics:
  - orders.new
  - { name: orders.paid, max_attempts: 3 }
  - { name: audit, external: true }
  - { name: mail, shared: true }
secrets: [SHOP_KEY]
triggers:
  - { id: hook, type: webhook, secret: hook-key, publish: orders.paid }
  - id: large
    type: event
    topic: orders.new
    condition: event.payload.total > 1000
    payload: { order: "{{ event.message_id }}", total: "{{ event.payload.total }}" }
producers:
  poll-shop:
    schedule: { cron: "*/5 * * * *", catch_up: none }
    publishes: [orders.new, audit]
    handler: |
      const found = await ctx.fetch(`https://shop.example.com/${state.since}`);
      return {{...found}};
    timeout: 1m
  pollMail:
    schedule: { interval: 60, timezone: America/New_York }
    publishes: mail
    handler: { type: http, url: "https://mail.example.com/{{ secrets.MAIL }}" }
consumers:
  ship:
    subscribe: [orders.new, orders.paid]
    publishes: [audit]
    prepare: { script: "return {reservations: []}" }
    mutate: { type: http, method: POST, url: "https://x/{{ steps.prepare.output.data.id }}" }
    reconcile: { type: exec, command: [look, "{{ steps.prepare.output.data.id }}"] }
    next: { type: worker, queue: ships, input: { done: "{{ steps.mutation.status }}" } }
    timeout: 30s
  count:
    subscribe: orders.paid
    prepare: { type: script, source: return 1 }
    mutate: return ctx.mutate.http({})
    next: { type: exec, command: [count, "{{ steps.mutate.output }}"] }
steps:
  - { id: sum, type: script, script: "return {{a: steps}}", timeout: 10s }
  - id: tell
    type: publish
    topic: audit
    message_id: "{{ run.id }}"
    title: Order {{ input.order }}
    payload: { sum: "{{ steps.sum.output }}" }
    depends_on: sum
  - id: paid
    type: wait_for
    topic: orders.paid
    condition: event.payload.order == input.order and steps.tell.output.message_id
    within: 2 working days
    depends_on: tell
  - { id: again, type: wait_for, topic: orders.paid, timeout: 1h }
  - id: each
    type: for_each
    items: [1, 2]
    step: { type: publish, topic: audit, message_id: "{{ item }}" }
  - { id: all, type: for_each, items: [1], step: { type: script, script: return item } }
  - id: every
    type: for_each
    items: [1]
    step: { type: wait_for, topic: orders.paid, condition: event.payload.n == item, within: 1h }
"#;

fn script(text: &str) -> Action {
    Action::Script(ScriptAction { source: Some(text.into()), entry: Vec::new() })
}

fn action<'d>(definition: &'d Definition, id: &str) -> &'d Action {
    &definition.steps.iter().find(|step| step.id == id).expect("a step").action
}

#[test]
fn topics_and_handlers() {
    let read = accept(ORDERS);
    let stored = serde_json::to_string(&read).unwrap();
    assert_eq!(serde_json::from_str::<Definition>(&stored).unwrap(), read);
    let topics: Vec<(&str, bool, bool, u32)> = read
        .topics
        .iter()
        .map(|topic| (&*topic.name, topic.shared, topic.external, topic.max_attempts))
        .collect();
    let expected = [
        ("orders.new", false, false, 10),
        ("orders.paid", false, false, 3),
        ("audit", false, true, 10),
        ("mail", true, false, 10),
    ];
    assert_eq!(topics, expected);
    assert_eq!(read.secrets, ["SHOP_KEY"]);
    let [poll, mail] = &read.producers[..] else { panic!("{read:?}") };
    assert_eq!(
        (&*poll.name, &poll.publishes[..]),
        ("poll-shop", &["orders.new", "audit"].map(String::from)[..])
    );
    assert_eq!(
        serde_json::to_value(&poll.schedule).unwrap(),
        json!({"cron": "*/5 * * * *", "catch_up": "none"})
    );
    assert_eq!(poll.timeout, Some(SignedDuration::from_mins(1)));
    let Action::Script(text) = &poll.handler else { panic!("{poll:?}") };
    assert!(text.source.as_ref().unwrap().contains("{{...found}}"));
    assert_eq!((mail.handler.name(), &*mail.publishes[0]), ("http", "mail"));
    assert_eq!(mail.schedule["interval"], "60s");
    let [ship, count] = &read.consumers[..] else { panic!("{read:?}") };
    assert_eq!(ship.prepare, script("return {reservations: []}"));
    let names =
        [&ship.mutate, &ship.reconcile, &ship.next].map(|phase| phase.as_ref().unwrap().name());
    assert_eq!(names, ["http", "exec", "worker"]);
    assert_eq!((count.prepare.clone(), count.publishes.len()), (script("return 1"), 0));
    assert_eq!(count.mutate, Some(script("return ctx.mutate.http({})")));
}

#[test]
fn triggers_and_steps() {
    let read = accept(ORDERS);
    let TriggerKind::Webhook { publish, .. } = &read.triggers[0].kind else { panic!("{read:?}") };
    assert_eq!(publish.as_deref(), Some("orders.paid"));
    let expected = TriggerKind::Event {
        topic: "orders.new".into(),
        condition: Some("event.payload.total > 1000".into()),
        payload: Some(
            json!({"order": "{{ event.message_id }}", "total": "{{ event.payload.total }}"}),
        ),
    };
    assert_eq!(read.triggers[1].kind, expected);
    assert_eq!(action(&read, "sum"), &script("return {{a: steps}}"));
    let Action::Publish(tell) = action(&read, "tell") else { panic!("{read:?}") };
    assert_eq!((&*tell.topic, tell.message_id.as_deref()), ("audit", Some("{{ run.id }}")));
    assert_eq!(tell.payload, Some(json!({"sum": "{{ steps.sum.output }}"})));
    let Action::WaitFor(paid) = action(&read, "paid") else { panic!("{read:?}") };
    assert_eq!((&*paid.topic, paid.within), ("orders.paid", Some(TimeSpan::WorkingDays(2.0))));
    assert!(paid.condition.as_ref().unwrap().starts_with("event.payload.order"));
    let Action::WaitFor(again) = action(&read, "again") else { panic!("{read:?}") };
    assert_eq!(again.within, Some(TimeSpan::Elapsed(SignedDuration::from_hours(1))));
    for id in ["paid", "again", "tell"] {
        let step = read.steps.iter().find(|step| step.id == id).unwrap();
        assert_eq!((step.timeout, &step.condition), (None, &None), "{id}");
    }
    for (id, kind) in [("each", "publish"), ("all", "script"), ("every", "wait_for")] {
        let Action::ForEach(each) = action(&read, id) else { panic!("{read:?}") };
        assert_eq!(each.action.name(), kind);
    }
}

/// The process of a handler knows which phases each phase mentions.
#[test]
fn phases_know_what_they_name() {
    let read = accept(ORDERS);
    let references = |handler: &str, step: &str| {
        let process = read.handler(handler).unwrap();
        let graph = process.graph();
        let at = graph.index(step).unwrap_or_else(|| panic!("{handler} has no {step}"));
        let known = graph.references(at).iter();
        let known: Vec<String> =
            known.map(|step| process.steps[*step as usize].id.clone()).collect();
        (known.join(" "), graph.has_templates(at))
    };
    assert_eq!(references("ship", "prepare"), (String::new(), true));
    assert_eq!(references("ship", "mutation"), ("prepare".into(), true));
    assert_eq!(references("ship", "next"), ("prepare mutation".into(), true));
    assert_eq!(references("count", "mutate"), ("prepare".into(), true));
    assert_eq!(references("count", "mutation"), ("prepare mutate".into(), false));
    assert_eq!(references("count", "next"), ("prepare mutate".into(), true));
    assert_eq!(references("pollMail", "handler"), (String::new(), true));
    // A step of the process, and one that waits.
    let graph = read.graph();
    let before = |id: &str| {
        let known = graph.references(graph.index(id).unwrap()).iter();
        known.map(|step| &*read.steps[*step as usize].id).collect::<Vec<_>>()
    };
    assert_eq!((before("paid"), before("sum")), (vec!["tell"], vec![]));
}

#[test]
fn a_script_may_look_at_all_that_ran_before() {
    let read = accept(
        "name: t\nsteps:\n- {id: a, type: noop, on_error: {goto_step: c}}\n- {id: b, type: noop, depends_on: a}\n- {id: c, type: script, script: x}\n- {id: d, type: script, script: x, depends_on: b, compensation: {type: script, script: y}}\n",
    );
    let graph = read.graph();
    let index = |id| graph.index(id).unwrap();
    let ids =
        |known: &[u32]| known.iter().map(|at| &*read.steps[*at as usize].id).collect::<String>();
    assert_eq!(ids(graph.references(index("c"))), "a");
    assert_eq!(ids(graph.references(index("d"))), "ab");
    assert_eq!(ids(graph.references(index("b"))), "");
    assert_eq!(ids(graph.compensation_references(index("d"))), "abd");
    assert!(graph.has_compensation_templates(index("d")));
}

#[test]
fn handlers_alone_and_topics_as_a_mapping() {
    let read = accept(
        "name: t\ntopics: {a.b: , c: {external: true, max_attempts: 1}}\nconsumers: {x: {subscribe: [a.b], prepare: x}}\n",
    );
    assert!(read.steps.is_empty() && read.has_handlers());
    let topics: Vec<(&str, u32)> =
        read.topics.iter().map(|topic| (&*topic.name, topic.max_attempts)).collect();
    assert_eq!(topics, [("a.b", 10), ("c", 1)]);
    accept("name: t\ntopics: []\nproducers: {}\nconsumers: {}\nsecrets: []\nsteps: []");
}

#[test]
fn what_to_know() {
    let text = "name: t\ntopics: {a: , b: {shared: true}}\ntriggers: [{id: h, type: webhook, publish: a}]\nproducers: {p: {schedule: {cron: 0 0 30 2 *}, publishes: b, handler: {type: exec, command: [x]}}}\nconsumers: {c: {subscribe: a, prepare: x}}\n";
    let read = accept(text);
    let found = with_context(|context| locate(warnings(&read, context), text));
    let printed: Vec<String> = found.iter().map(place).collect();
    insta::assert_snapshot!(printed.join("\n"), @r#"
    3:26 triggers[0].type: calls are not signed: anyone who knows the address may publish
      triggers: [{id: h, type: webhook, publish: a}]
                               ^^^^^^^
      try: secret: hook-key
    4:34 producers.p.schedule.cron: never fires: no such time was found
      …: {p: {schedule: {cron: 0 0 30 2 *}, publishes: b, handler: {type: exec,…
                               ^^^^^^^^^^
    5:40 consumers.c.prepare: there is neither mutate nor next: what it reserves is consumed, and that is all
      consumers: {c: {subscribe: a, prepare: x}}
                                             ^
      try: next: { script: … }
    "#);
    let found = commands(&read, text);
    assert_eq!((&*found[0].path, found[0].line, found.len()), ("producers.p.handler.type", 4, 1));
}

#[test]
fn what_to_know_of_steps() {
    let text = "name: t\ntopics: [unused, b]\nsteps: [{id: w, type: wait_for, topic: b}]\n";
    let read = accept(text);
    let found = with_context(|context| locate(warnings(&read, context), text));
    let printed: Vec<String> = found.iter().map(place).collect();
    insta::assert_snapshot!(printed.join("\n"), @r#"
    2:10 topics[0]: nothing in this workflow names the topic unused
      topics: [unused, b]
               ^^^^^^
    3:23 steps[0].type: it waits without end if no such event comes
      steps: [{id: w, type: wait_for, topic: b}]
                            ^^^^^^^^
      try: within: 1d
    "#);
    // A trigger that starts a run of a workflow without steps.
    let text = "name: t\ntopics: [a]\ntriggers: [{id: e, type: event, topic: a}]\nconsumers: {c: {subscribe: a, prepare: x, next: y}}\n";
    let read = accept(text);
    let found = with_context(|context| warnings(&read, context));
    let codes: Vec<&str> = found.iter().map(|flaw| flaw.code).collect();
    assert_eq!(codes, ["no-steps"]);
}
