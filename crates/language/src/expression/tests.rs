//! The rules of the language, its edges and its limits.

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn scope() -> Scope {
    let mut scope = Scope::default();
    let input = r#"{"a": 5, "b": 2.5, "name": "Ada", "rows": [1, 2, 3], "no": false, "nil": null,
                    "deep": {"list": [{"x": 1}]}, "steps": {"a": 3}, "big": 18446744073709551615}"#;
    scope.input(input).unwrap();
    scope.step("check-result", "completed", Some(r#"{"score": 90, "ok": true}"#), None).unwrap();
    scope.step("sent", "failed", None, Some("no answer")).unwrap();
    scope.run(json!({"id": "r1"}));
    scope.workflow(json!({"name": "report"}));
    scope
}

#[track_caller]
fn gives(expression: &str, expected: Value) {
    let template = Value::from(format!("{{{{ {expression} }}}}"));
    check_condition(expression).unwrap_or_else(|fault| panic!("{expression}: {fault:?}"));
    assert_eq!(value(&template, &scope()), Ok(expected), "{expression}");
}

#[track_caller]
fn fails(expression: &str, code: &str) {
    let template = Value::from(format!("{{{{ {expression} }}}}"));
    let error = value(&template, &scope()).expect_err(expression);
    assert_eq!(error.code, code, "{expression}: {error}");
}

#[track_caller]
fn refused(expression: &str, code: &str, part: &str) {
    let faults = check_condition(expression).expect_err(expression).faults;
    let told: Vec<_> = faults.iter().map(|f| (f.code, &expression[f.span.clone()])).collect();
    assert_eq!(told, [(code, part)], "{faults:?}");
}

#[test]
fn names_and_parts() {
    gives("input.a", json!(5));
    gives("input['name']", json!("Ada"));
    gives("input.rows[0]", json!(1));
    gives("input.rows[-1]", json!(3));
    gives("input.rows.1", json!(2));
    gives("input.deep.list[0].x", json!(1));
    gives("input.big", json!(u64::MAX));
    gives("run.id ~ workflow.name", json!("r1report"));
    gives("steps.check-result.output.score", json!(90));
    gives("steps[\"check-result\"].output.score", json!(90));
    gives("steps.check-result.output.score-1", json!(89));
    gives("steps.sent.error", json!("no answer"));
    gives("steps.sent.output", json!(null));
    gives("input.a-1", json!(4));
    gives("input.a - 1", json!(4));
    gives("input.steps.a-1", json!(2));
    fails("input.missing", "undefined");
    fails("input.missing.more", "undefined");
    fails("input.rows[3]", "undefined");
    fails("input.rows[99999999999999999999]", "number");
    fails("input.a.b", "undefined");
    fails("item", "undefined");
    fails("secrets.key", "undefined");
}

#[test]
fn conditions() {
    for (condition, expected) in [
        ("true or false and false", true),
        ("(true or false) and false", false),
        ("not false and true", true),
        ("input.a > 3 and input.b < 3", true),
        ("1 < input.a <= 5", true),
        ("1 < input.a < 5", false),
        ("input.a == 5.0", true),
        ("input.a != '5'", true),
        ("input.name == 'Ada'", true),
        ("'d' in input.name", true),
        ("2 in input.rows", true),
        ("2.0 in input.rows", true),
        ("9 not in input.rows", true),
        ("'deep' in input", true),
        ("input.missing is defined", false),
        ("input.missing.more is defined", false),
        ("input.missing is not defined", true),
        ("input.nil is none", true),
        ("input.nil == null", true),
        ("input.rows is sequence", true),
        ("steps.check-result.status == 'completed'", true),
        ("{{ steps.check-result.output.ok }}", true),
        ("input.no", false),
        ("input.nil", false),
        ("input.rows", true),
        ("''", false),
        ("0.0", false),
        ("input.missing is defined and input.missing > 3", false),
        ("input.no or input.a", true),
    ] {
        check_condition(condition).unwrap_or_else(|fault| panic!("{condition}: {fault:?}"));
        assert_eq!(holds(condition, &scope()), Ok(expected), "{condition}");
    }
    assert_eq!(holds("input.name > 3", &scope()).unwrap_err().code, "type");
    assert_eq!(check_condition("a {{ input.a }}").unwrap_err().faults[0].code, "condition");
    assert_eq!(check_condition("").unwrap_err().faults[0].code, "expression");
}

#[test]
fn calculations() {
    gives("1 + 2 * 3", json!(7));
    gives("7 / 2", json!(3.5));
    gives("7 // 2", json!(3));
    gives("-7 // 2", json!(-4));
    gives("7 // -2", json!(-4));
    gives("-7 % 3", json!(2));
    gives("7 % -3", json!(-2));
    gives("2 ** 10", json!(1024));
    gives("2 ** -1", json!(0.5));
    gives("-input.a", json!(-5));
    gives("'a' + 'b'", json!("ab"));
    gives("1 ~ true ~ none", json!("1truenull"));
    gives("input.name if input.a > 3 else 'x'", json!("Ada"));
    gives("[1, input.a, (2, 3)]", json!([1, 5, [2, 3]]));
    gives("{'k': input.rows}", json!({"k": [1, 2, 3]}));
    fails("1 / 0", "number");
    fails("1 % 0", "number");
    fails("input.big + 1", "number");
    fails("10 ** 400", "number");
    fails("1e308 * 10", "number");
    fails("'a' * 3", "type");
    fails("[1] * 3", "type");
    fails("'a' + 1", "type");
    fails("input.nil + 1", "type");
}

#[test]
fn filters_of_our_own() {
    gives("input.missing | default('x')", json!("x"));
    gives("input.missing.more | default(0)", json!(0));
    gives("input.nil | default('x')", json!(null));
    gives("input.nil | default('x', true)", json!("x"));
    gives("input.name | lower", json!("ada"));
    gives("input.name | upper", json!("ADA"));
    gives("' x ' | trim", json!("x"));
    gives("'äö' | length", json!(2));
    gives("input.rows | length", json!(3));
    gives("input.rows | join(', ')", json!("1, 2, 3"));
    gives("input.rows | first", json!(1));
    gives("input.rows | last", json!(3));
    gives("' 42 ' | int", json!(42));
    gives("2.9 | int", json!(2));
    gives("'2.5' | float", json!(2.5));
    gives("2.567 | round(1)", json!(2.6));
    gives("2.5 | round", json!(3.0));
    gives("5 | string", json!("5"));
    gives("input.deep | tojson", json!(r#"{"list":[{"x":1}]}"#));
    gives("'a-b' | replace('-', '+') | upper", json!("A+B"));
    fails("'x' | int", "type");
    fails("'inf' | float", "type");
    fails("[] | first", "type");
    fails("5 | lower", "type");
    fails("'a' | replace('', 'b')", "type");
    fails("2.5 | round(99)", "type");
}

#[test]
fn texts() {
    for (template, expected) in [
        ("no template }} {", "no template }} {"),
        ("{{ input.a }}/{{ input.no }}/{{ input.nil }}/{{ input.b }}", "5/false/null/2.5"),
        ("{{ input.deep }}", r#"{"list":[{"x":1}]}"#),
        ("{{ '{{' }}", "{{"),
        ("é{{ '}}' }}é", "é}}é"),
    ] {
        assert_eq!(text(template, &scope()).as_deref(), Ok(expected), "{template}");
    }
    let given = json!({"{{ key }}": ["{{ input.rows }}", "a {{ input.a }}", 1, null]});
    let expected = json!({"{{ key }}": [[1, 2, 3], "a 5", 1, null]});
    assert_eq!(value(&given, &scope()), Ok(expected));
}

#[test]
fn what_is_named() {
    let named = check_template("a {{ steps.a-b.output.x + input.n }} {{ secrets.key }}").unwrap();
    let roots: Vec<Root> = named.roots.iter().map(|(root, _)| *root).collect();
    assert_eq!(roots, [Root::Steps, Root::Input, Root::Secrets]);
    let step = StepReference {
        id: "a-b".into(),
        span: 5..21,
        value: ValueReference {
            path: Path {
                base: Base::Root(Root::Steps),
                keys: ["a-b", "output", "x"].map(|key| Key::Name(key.into())).to_vec(),
            },
            span: 5..23,
            optional_keys: 0,
        },
    };
    assert_eq!((named.steps, named.secrets), (vec![step], vec!["key".to_owned()]));
    let named = check_condition("input.x[steps['c'].status] is defined").unwrap();
    assert_eq!(named.steps[0].id, "c");
    assert_eq!(check_template("steps.a-b").unwrap(), References::default());
}

#[test]
fn what_is_refused_before_it_is_used() {
    refused("inptu.a > 1", "name", "inptu");
    refused("env.PATH", "name", "env");
    refused("steps", "step", "steps");
    refused("steps[input.a].output", "step", "steps");
    refused("steps.a-b.outptu == 1", "step", "steps.a-b.outptu");
    refused("input.a | batch(3)", "filter", "batch(3)");
    refused("input.a | round(1, 2)", "filter", "round(1, 2)");
    refused("input.a | default(value=1)", "filter", "default(value=1)");
    refused("input.a is odd", "test", "odd");
    refused("range(10)", "function", "range(10)");
    refused("input.a.items()", "function", ".items()");
    refused("input.rows[1:2]", "expression", ".rows[1:2]");
    refused("1 if input.a", "expression", "1 if input.a");
    refused("input.a +", "expression", "+");
    refused("input.a b", "expression", "b");
    refused("'a", "expression", "'a");
    refused("99999999999999999999 > 1", "number", "99999999999999999999");
    let all = "x {{ input.a }} {{ imput.b ~ nope.c }} {{ steps.x.outptu | each }}";
    let Invalid { faults, references } = check_template(all).unwrap_err();
    let codes: Vec<&str> = faults.iter().map(|fault| fault.code).collect();
    assert_eq!(codes, ["name", "name", "filter", "step"], "each fault is told");
    assert_eq!(references.roots.len(), 2, "what is valid is known");
    let fault = &faults[0];
    assert_eq!((fault.span.clone(), fault.remedy.as_deref()), (19..24, Some("input")));
}

#[test]
fn bounded() {
    let large = "x".repeat(200 << 10);
    let mut scope = Scope::default();
    scope.input(&json!({"large": large, "many": vec![0; 100_000]}).to_string()).unwrap();
    let code = |template: &str| text(template, &scope).map(|text| text.len()).map_err(|e| e.code);
    assert_eq!(code("{{ input.large }}"), Ok(200 << 10));
    assert_eq!(code("{{ input.many | length }}"), Ok(6));
    assert_eq!(code("{{ input.many }}"), Ok(200_001));
    assert_eq!(code("{{ input.large }}{{ input.large }}"), Err("limit"));
    assert_eq!(code("{{ input.large ~ input.large }}"), Err("limit"));
    let doubled = (0..8).fold("input.large".to_owned(), |text, _| format!("({text} ~ {text})"));
    assert_eq!(code(&format!("{{{{ {doubled} }}}}")), Err("limit"));
    let grown = "| replace('x', 'xxxxxxxxxx')".repeat(9);
    assert_eq!(code(&format!("{{{{ 'x' {grown} | length }}}}")), Err("limit"));
    let joined = "{{ input.many | join(input.large) | length }}";
    assert_eq!(code(joined), Err("limit"));
    let lists = format!("{{{{ [{}] | length }}}}", vec!["input.many"; 100].join(","));
    assert_eq!(code(&lists), Err("limit"));
    for deep in [
        "(".repeat(2_000),
        "[".repeat(2_000),
        "not ".repeat(1_000) + "true",
        "-".repeat(4_000) + "1",
        "1+".repeat(2_000) + "1",
        "a.".repeat(2_000) + "a",
        "x".repeat(5_000),
    ] {
        assert_eq!(check_condition(&deep).unwrap_err().faults[0].code, "limit", "{deep}");
        assert_eq!(holds(&deep, &scope).unwrap_err().code, "limit", "{deep}");
    }
    assert_eq!(check_template(&"{{ 1 }}".repeat(1_001)).unwrap_err().faults[0].code, "limit");
}

/// The deepest and longest allowed expressions do not overflow the stack of a small thread.
#[test]
fn the_deepest_that_are_allowed() {
    for text in [
        "not ".repeat(199) + "true",
        "- ".repeat(199) + "1",
        "1".to_owned() + &"+1".repeat(99),
        "input".to_owned() + &".a".repeat(99),
        "1".to_owned() + &"|string".repeat(99),
        "(".repeat(32) + "1" + &")".repeat(32),
        "[".repeat(32) + "1" + &"]".repeat(32),
        "1 if 1 else ".repeat(45) + "1",
    ] {
        let check = move || check_condition(&text).map(drop).and(Ok(holds(&text, &scope())));
        let small = std::thread::Builder::new().stack_size(1 << 20).spawn(check).unwrap();
        let held = small.join().unwrap();
        assert!(held.is_ok(), "{held:?}");
    }
}

#[test]
fn secrets_are_not_told_in_errors() {
    let mut scope = Scope::default();
    scope.secrets([("key", "hunter2")]);
    assert_eq!(text("Bearer {{ secrets.key }}", &scope).as_deref(), Ok("Bearer hunter2"));
    for template in ["{{ secrets.key | int }}", "{{ secrets.key + 1 }}", "{{ secrets.key.x }}"] {
        let error = text(template, &scope).unwrap_err();
        assert!(!error.to_string().contains("hunter2"), "{error}");
    }
}

/// Words and signs that have a meaning in expressions.
const WORDS: [&str; 44] = [
    "input",
    "steps",
    "check-result",
    "sent",
    "a",
    "rows",
    "output",
    ".",
    "[",
    "]",
    "(",
    ")",
    "{",
    "}",
    ",",
    ":",
    "'x'",
    "\"",
    "0",
    "1",
    "-1",
    "2.5",
    "1e308",
    "99999999999999999999",
    "+",
    "-",
    "*",
    "/",
    "//",
    "%",
    "**",
    "~",
    "==",
    "<",
    "in",
    "not",
    "and",
    "or",
    "is defined",
    "is none",
    "| default(1)",
    "| int",
    "| join(',')",
    "if 1 else",
];

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 3_000,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// Any text is either refused with a span or evaluated. Once checked, an expression can fail
    /// only because of its values or the limits.
    #[test]
    fn any_words_do_no_harm(
        words in prop::collection::vec((0..WORDS.len(), any::<bool>()), 1..14)
    ) {
        let word = |(word, space): &(usize, bool)| format!("{}{}", WORDS[*word], if *space { " " } else { "" });
        let written: String = words.iter().map(word).collect();
        let held = holds(&written, &scope());
        match check_condition(&written) {
            Ok(_) => if let Err(error) = held {
                let codes = ["undefined", "type", "number", "limit"];
                prop_assert!(codes.contains(&error.code), "{}: {:?}", written, error);
            },
            Err(Invalid { faults, .. }) => {
                prop_assert!(!faults.is_empty());
                let are_inside = faults.iter().all(|f| written.get(f.span.clone()).is_some());
                prop_assert!(are_inside, "{written}: {faults:?}");
            }
        }
    }
}

#[test]
fn an_error_names_the_whole_of_what_is_missing() {
    let mut scope = Scope::default();
    scope.input(r#"{"payload": {}}"#).unwrap();
    let error = text("at {{ input.payload.price }}", &scope).unwrap_err();
    assert_eq!(error.to_string(), "input.payload.price: price is not defined");
    let error = holds(r#"input["payload"].price > 1"#, &scope).unwrap_err();
    assert_eq!(error.to_string(), r#"input["payload"].price: price is not defined"#);
}

#[test]
fn what_a_condition_requires_of_an_event_is_known_before_the_event_is() {
    use super::{Requirement, requirement, value_class};
    let mut scope = Scope::default();
    scope.input(r#"{"order": 7, "name": "x", "rows": [1]}"#).unwrap();
    let field = |path: &[&str], value: serde_json::Value| Requirement::Field {
        path: path.iter().map(|name| (*name).to_owned()).collect(),
        class: value_class(&value),
    };
    let cases = [
        ("event.payload.order == input.order", field(&["payload", "order"], json!(7.0))),
        ("input.order == event.payload.order", field(&["payload", "order"], json!(7))),
        ("{{ event.title == 'a' }}", field(&["title"], json!("a"))),
        ("event[\"title\"] == input.name and event.x > 1", field(&["title"], json!("x"))),
        ("event.x > 1 and (event.title == null and event.y)", field(&["title"], json!(null))),
        ("event.payload == input.rows", field(&["payload"], json!([2, 3]))),
        ("event.payload.order == input.missing", Requirement::Impossible),
        ("event.a == event.b", Requirement::Evaluation),
        ("event.a == 1 or event.b == 2", Requirement::Evaluation),
        ("not event.a == 1", Requirement::Evaluation),
        ("event.a != 1", Requirement::Evaluation),
        ("event.a[0] == 1", Requirement::Evaluation),
        ("1 == event.a == 1", Requirement::Evaluation),
        ("input.order == 7", Requirement::Evaluation),
    ];
    for (condition, expected) in cases {
        assert_eq!(requirement(condition, &scope), expected, "{condition}");
    }
    assert_eq!(value_class(&json!(7)), value_class(&json!(7.0)));
    assert_ne!(value_class(&json!(7)), value_class(&json!("7")));
}
