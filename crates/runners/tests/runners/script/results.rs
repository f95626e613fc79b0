//! Tests of the results of scripts, and of the error messages for wrong ones.

use super::*;

#[tokio::test]
async fn a_result_is_json() {
    for (source, value) in [
        ("return 1", json!(1)),
        ("", json!(null)),
        ("return undefined", json!(null)),
        ("return null", json!(null)),
        ("return 2 ** 53", json!(9_007_199_254_740_992_u64)),
        ("return [-0, 0.5, 1e300, -1]", json!([0, 0.5, 1e300, -1])),
        ("return {a: undefined, b: [undefined, , 1]}", json!({"b": [null, null, 1]})),
        ("return new Date(0)", json!("1970-01-01T00:00:00.000Z")),
        ("return {at: new Date(0)}", json!({"at": "1970-01-01T00:00:00.000Z"})),
        ("return {toJSON() { return {a: 1} }}", json!({"a": 1})),
        ("return {a: {toJSON() {}}, b: 1}", json!({"b": 1})),
        ("return new class { x = 1; #y = 2; get z() { return 3 } }", json!({"x": 1})),
        (r#"return "\uD800 \u0000 \u{1F600} \" \\""#, json!("\u{FFFD} \0 \u{1F600} \" \\")),
        (r#"return {"\uDFFF": 1, "": 2, "a.b": 3}"#, json!({"\u{FFFD}": 1, "": 2, "a.b": 3})),
        ("return JSON.parse('{\"__proto__\": {\"a\": 1}}')", json!({"__proto__": {"a": 1}})),
        ("return Object.assign(Object.create(null), {a: 1})", json!({"a": 1})),
        ("const a = {x: 1}; return [a, a]", json!([{"x": 1}, {"x": 1}])),
        ("return input.order + steps.length", json!(null)),
        ("return [input, steps, ctx.now()]", json!([{"order": 7}, {}, "2026-03-01T09:00:00Z"])),
        ("return await Promise.all([1, Promise.resolve(2)])", json!([1, 2])),
        ("return {then(resolve) { resolve(5) }}", json!(5)),
        ("#!/usr/bin/env node\nreturn 1 // the end", json!(1)),
    ] {
        if source.contains("steps.length") {
            // 7 + undefined is not a number.
            assert!(refused(source).await.contains("NaN"));
            continue;
        }
        assert_eq!(result(source).await, value, "{source}");
    }
}

#[tokio::test]
async fn what_json_does_not_have_is_refused_with_its_path() {
    for (source, said) in [
        ("return 1n", "it is a BigInt"),
        ("return {a: [1, {b: 1n}]}", "`a[1].b` is a BigInt"),
        ("return {a: NaN}", "`a` is NaN"),
        ("return [1/0]", "`[0]` is inf"),
        ("return {f() {}}", "`f` is a function"),
        ("return {f: class {}}", "`f` is a function"),
        ("return {m: new Map()}", "`m` is of type Map"),
        ("return new Set([1])", "it is of type Set"),
        ("return {p: Promise.resolve(1)}", "`p` is of type Promise"),
        ("return {e: new TypeError('x')}", "`e` is of type Error"),
        ("return {r: /x/}", "`r` is of type RegExp"),
        ("return new Uint8Array(3)", "it is of type Uint8Array"),
        ("return Symbol('x')", "it is a symbol"),
        ("return {d: new Date(NaN)}", "`d` is a Date that is no time"),
        ("return {toJSON() { return {x: 1n} }}", "`x` is a BigInt"),
    ] {
        let message = refused(source).await;
        assert!(message.starts_with("the result is no JSON: "), "{source}: {message}");
        assert!(message.contains(said), "{source}: {message}");
    }
}

#[tokio::test]
async fn mistakes_have_their_place_in_the_text() {
    let scripts = scripts();
    for (source, message, line, column) in [
        ("throw new Error('boom')", "boom", 1, 11),
        ("\n\n  null.x", "TypeError: cannot read property 'x' of null", 3, 3),
        ("const a = 1;\nconst f = () => { a.b.c };\nf()", "'c' of undefined", 2, 19),
        ("await null;\n await Promise.reject(new RangeError('r'))", "RangeError: r", 2, 27),
        ("return 1 +", "SyntaxError", 1, 11),
        ("let x = 1;\nlet x = 2;", "SyntaxError", 2, 7),
        ("\nundefinedName", "undefinedName is not defined", 2, 1),
        ("\n\nctx.secrets.get('x')", "the secret `x` is not declared", 3, 13),
        ("\nawait ctx.fetch(5)", "the URL must be a text", 2, 11),
    ] {
        let (said, at_line, at_column) = mistake(evaluate(&scripts, step(source)).await);
        assert!(said.contains(message), "{source}: {said}");
        assert_eq!((at_line, at_column), (Some(line), Some(column)), "{source}: {said}");
    }
}

#[tokio::test]
async fn a_mistake_tells_the_way_to_it() {
    let source =
        "function outer() {\n  inner()\n}\nfunction inner() {\n  throw new Error('x')\n}\nouter()";
    let failed = evaluate(&scripts(), step(source)).await.unwrap_err();
    assert_eq!(failed.to_string(), "line 5, column 13: x");
    let ScriptFailure::Logic { stack, .. } = failed.failure else { panic!("{failed:?}") };
    assert_eq!(stack, "inner at step.js:5:13\nouter at step.js:2:3\nstep.js:7:1");
}

#[tokio::test]
async fn whatever_is_thrown_is_told() {
    for (source, message) in [
        ("throw 'text'", "text"),
        ("throw 5", "not an Error: 5"),
        ("throw {code: 7}", "not an Error: {\"code\":7}"),
        ("throw undefined", "threw undefined"),
        ("throw Symbol('x')", "not an Error"),
        ("throw () => {}", "not an Error"),
        ("throw new Proxy({}, {get(){throw 1}, ownKeys(){throw 2}})", "not an Error"),
        ("throw {get x() { throw 1 }}", "not an Error"),
        ("throw {toJSON() { throw 1 }}", "not an Error"),
        ("throw Object.defineProperty(new Error('a'), 'message', {get() { throw 1 }})", "Error"),
        ("throw Object.defineProperty(new Error('a'), 'stack', {get() { throw 1 }})", "a"),
        ("throw Object.assign(new Error('a'), {name: {}, message: 5})", "Error"),
        ("class Mine extends Error { name = 'Mine' }; throw new Mine('own')", "Mine: own"),
        ("Error.prepareStackTrace = () => { throw 1 }; throw new Error('x')", ""),
        ("Error.prepareStackTrace = () => 5; throw new Error('x')", "x"),
        ("Error.stackTraceLimit = 0; throw new Error('x')", "x"),
    ] {
        let said = refused(source).await;
        assert!(said.contains(message), "{source}: {said}");
    }
    let long = refused("throw new Error('é'.repeat(1e5))").await;
    assert_eq!(long.chars().count(), 2_001);
}

#[tokio::test]
async fn the_log_is_kept_also_of_what_fails() {
    let source = "console.log('a', 1, {b: [null]}, undefined, new Error('e'), 5n, () => {});\n\
                  console.warn(new Proxy({}, {get() { throw 1 }})); ctx.log(); throw new Error('x')";
    let failed = evaluate(&scripts(), step(source)).await.unwrap_err();
    let lines = ["a 1 {\"b\":[null]} undefined e (big_int) (function)", "(proxy)", ""];
    assert_eq!((failed.log.lines, failed.log.dropped), (lines.map(str::to_owned).to_vec(), 0));
}

#[tokio::test]
async fn a_module_is_described_without_being_called() {
    let source = "const topics = ['t'];\nexport default workflow({\n  name: 'mail', topics,\n  producers: {\n    poll: { schedule: { interval: '5m' }, handler: async (ctx) => { throw 1 } },\n  },\n  consumers: { digest: { prepare() {}, next: null } },\n});";
    let described = Evaluation { entry: Entry::Describe, ..handler(source, &[], Permits::NONE) };
    let evaluated = evaluate(&scripts(), described).await.unwrap();
    assert_eq!(
        evaluated.value,
        json!({
            "name": "mail",
            "topics": ["t"],
            "producers": {"poll": {
                "schedule": {"interval": "5m"},
                "handler": {"function": true, "line": 5, "column": 52},
            }},
            "consumers": {"digest": {
                "prepare": {"function": true, "line": 7, "column": 26},
                "next": null,
            }},
        })
    );
}

#[tokio::test]
async fn a_handler_is_found_and_called_with_its_holder() {
    let source = "export default workflow({\n  producers: { poll: { step: 2, async handler(ctx, state) { return state.seen + this.step } } },\n  plain: (ctx, state) => state,\n});";
    let scripts = scripts();
    let poll = handler(source, &["producers", "poll", "handler"], Permits::PRODUCER);
    assert_eq!(evaluate(&scripts, poll).await.unwrap().value, json!(5));
    let plain = handler(source, &["plain"], Permits::PRODUCER);
    assert_eq!(evaluate(&scripts, plain).await.unwrap().value, json!({"seen": 3}));
}

#[tokio::test]
async fn a_module_without_the_function_is_a_mistake() {
    let scripts = scripts();
    for (source, path, message) in [
        ("export default {}", &["a", "b"][..], "no function `a.b`"),
        ("export default {a: 1}", &["a"], "no function `a`"),
        ("export default null", &["a"], "no function `a`"),
        ("export const a = 1", &["a"], "export default workflow"),
        ("import fs from 'fs'; export default {}", &["a"], "could not load module 'fs'"),
        ("await new Promise(() => {}); export default {}", &["a"], "never settles"),
        ("throw new Error('at once')", &["a"], "at once"),
        ("export default workflow({", &["a"], "SyntaxError"),
    ] {
        let (said, ..) = mistake(evaluate(&scripts, handler(source, path, Permits::NONE)).await);
        assert!(said.contains(message), "{source}: {said}");
    }
}

#[tokio::test]
async fn a_text_with_nul_is_refused() {
    assert!(refused("return '\0'").await.contains("NUL"));
    let name = "a\0b".to_owned();
    let ended = evaluate(&scripts(), Evaluation { name, ..step("return 1") }).await;
    assert!(mistake(ended).0.contains("NUL"));
}
