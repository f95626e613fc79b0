//! Large and deep texts: refused or read without a deep stack, a large tree or a quadratic search.
//! A regression here does not fail an assertion, but overflows the stack or never ends.

use crate::{accept, refuse};

#[track_caller]
fn check(text: &str, code: &str) {
    let flaws = refuse(text);
    assert!(flaws.iter().any(|flaw| flaw.code == code), "{:?}", flaws.first());
    assert!(flaws.len() <= 101);
    for flaw in flaws {
        assert!(flaw.to_string().len() < 2_000, "{flaw}");
    }
}

#[test]
fn deep() {
    check(&"[".repeat(100_000), "limit");
    check(&"{a: ".repeat(100_000), "limit");
    check(&"- ".repeat(100_000), "limit");
    check(&(0..1_000).map(|depth| " ".repeat(depth) + "a:\n").collect::<String>(), "limit");
    let nested = |depth: usize| {
        let (open, close) = ("[".repeat(depth), "]".repeat(depth));
        format!(
            "name: t\nsteps: []\ntriggers: [{{id: a, type: schedule, cron: daily, payload: {open}{close}}}]"
        )
    };
    accept(&nested(60));
    check(&nested(64), "limit");
}

#[test]
fn many() {
    let many = |count: usize, entry: &dyn Fn(usize) -> String| -> String {
        (0..count).map(entry).collect()
    };
    check(&"x".repeat((1 << 20) + 1), "limit");
    check(&many(100_000, &|at| format!("k{at}: 1\n")), "more");
    check(&"a: 1\n".repeat(100_000), "repeated-key");
    check(&format!("a: [{}]", "[],".repeat(300_000)), "limit");
    check(&format!("name: {}", "a".repeat(100_000)), "limit");
    check(&format!("{}{}]", " ".repeat(500_000), "- ".repeat(60)), "syntax");
    check(&format!("name: t\nsteps: [{}]", "{id: a, type: noop},".repeat(1_001)), "limit");
    check(
        &format!("name: t\nsteps: []\ntriggers: [{}]", "{id: a, type: manual},".repeat(1_001)),
        "limit",
    );
    let all = |at: usize| {
        let named = many(at.min(120), &|other| format!("s{other},"));
        format!("{{id: s{at}, type: noop, depends_on: [{named}]}},\n")
    };
    check(&format!("name: t\nsteps: [{}]", many(1_000, &all)), "limit");
    let ring =
        |at: usize| format!("{{id: s{at}, type: noop, depends_on: s{}}},\n", (at + 1) % 1_000);
    check(&format!("name: t\nsteps: [{}]", many(1_000, &ring)), "cycle");
    let payload = format!("[{}]", "123456789,".repeat(30_000));
    check(
        &format!(
            "name: t\nsteps: []\ntriggers: [{{id: a, type: schedule, cron: daily, payload: {payload}}}]"
        ),
        "limit",
    );
}

/// The first two are also among the vectors, and are kept for those who do not have them.
#[test]
fn bombs() {
    let laughs = (0..9).fold("a: &a [x,x,x,x,x,x,x,x,x]\n".to_owned(), |text, at| {
        let (this, before) = (char::from(b'b' + at), char::from(b'a' + at));
        text + &format!("{this}: &{this} [{}]\n", vec![format!("*{before}"); 9].join(","))
    });
    check(&laughs, "anchor");
    check("m0: &m0 {a0: 1}\nm1: &m1\n  <<: [*m0, *m0]\n", "anchor");
    check(
        &format!(
            "name: t\nsteps: []\ntriggers: [{{id: x, type: schedule, cron: \"{}\"}}]",
            "0 ".repeat(20_000)
        ),
        "cron-length",
    );
    check(
        "name: t\nsteps: []\ntriggers: [{id: x, type: schedule, rrule: \"FREQ=DAILY;COUNT=9223372036854775808\"}]",
        "rrule-range",
    );
}

/// Many, long and deeply nested templates and conditions.
#[test]
fn expressions() {
    let step = |keys: String| format!("name: t\nsteps: [{{id: a, type: noop, {keys}}}]");
    check(&step(format!("condition: '{}1{}'", "(".repeat(9_000), ")".repeat(9_000))), "limit");
    check(&step(format!("condition: '{}true'", "not ".repeat(15_000))), "limit");
    check(&step(format!("condition: '{}1'", "-".repeat(60_000))), "limit");
    check(&step(format!("condition: '{}'", "1+".repeat(1_500) + "1")), "limit");
    check(&step(format!("condition: '{}'", "[".repeat(60_000))), "limit");
    check(&step(format!("condition: 'input.{}'", "a".repeat(60_000))), "limit");
    let body = |text: &str| {
        format!("name: t\nsteps: [{{id: a, type: http, url: http://x, body: [{text}]}}]")
    };
    check(&body(&format!("'{}'", "{{".repeat(30_000))), "template");
    check(&body(&format!("'{}'", "{{1}}".repeat(12_000))), "limit");
    check(&body(&"'{{ input.a }}',".repeat(20_001)), "limit");
    check(&body(&"'{{ imput.a }}',".repeat(15_000)), "more");
    check(&body(&"'{{ \"',".repeat(50_000)), "more");
}

/// A thousand steps that lead to, jump to and mention each other.
#[test]
fn ways() {
    let steps = |entry: &dyn Fn(usize) -> String| -> String {
        format!("name: t\nsteps: [{}]", (0..1_000).map(entry).collect::<String>())
    };
    let before = |at: usize| (at + 999) % 1_000;
    check(
        &steps(&|at| {
            format!("{{id: s{at}, type: gateway, routes: [{{target: s{}}}]}},\n", before(at))
        }),
        "cycle",
    );
    check(
        &steps(&|at| {
            let (jump, late) = (before(at), 999);
            format!(
                "{{id: s{at}, type: noop, on_error: 'goto_step: s{jump}', condition: steps.s{late}.error == 1}},\n"
            )
        }),
        "unreachable",
    );
    let all: String = (1..1_000).map(|at| format!("{{target: s{at}}},")).collect();
    accept(&steps(&|at| match at {
        0 => format!("{{id: s0, type: gateway, kind: parallel, routes: [{all}]}},\n"),
        at => format!("{{id: s{at}, type: noop, condition: steps.s0.status == 'completed'}},\n"),
    }));
    let chain = |at: usize| match at {
        0 => "{id: s0, type: noop},\n".to_owned(),
        at => format!(
            "{{id: s{at}, type: worker, queue: q, depends_on: s{}, input: '{{{{ steps.s0.output }}}}'}},\n",
            at - 1
        ),
    };
    assert_eq!(accept(&steps(&chain)).graph().references(999), [0]);
}
