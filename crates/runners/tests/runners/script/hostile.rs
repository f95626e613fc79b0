//! Tests of hostile scripts. Each fails with an error of its own, and does not affect the next
//! script.

use std::time::Duration;

use super::*;

/// Short, because these scripts use all of it.
const CPU: Duration = Duration::from_millis(300);

fn strict() -> ScriptLimits {
    ScriptLimits { cpu: CPU, ..ScriptLimits::default() }
}

/// Evaluates all sources one after the other on a pool with one child. After each, an unrelated
/// script must succeed.
async fn each_ends<T>(
    limits: ScriptLimits,
    sources: &[&str],
    told: impl Fn(Result<Evaluated, Failed>) -> T,
    check: impl Fn(&str, T),
) {
    let scripts = limited(limits);
    for source in sources {
        check(source, told(evaluate(&scripts, step(source)).await));
        let next = evaluate(&scripts, step("return [typeof x, Object.keys({}).length, input]"));
        let value = next.await.unwrap_or_else(|failed| panic!("after {source}: {failed:?}")).value;
        assert_eq!(value, json!(["undefined", 0, {"order": 7}]), "after {source}");
    }
}

async fn each_breaks(expected: Limit, limits: ScriptLimits, sources: &[&str]) {
    each_ends(limits, sources, limit, |source, (what, message)| {
        assert_eq!(what, expected, "{source}: {message}");
    })
    .await;
}

#[tokio::test]
async fn memory_bombs_end_at_the_heap() {
    each_breaks(
        Limit::Memory,
        ScriptLimits { cpu: Duration::from_secs(60), ..strict() },
        &[
            r#"let s="x";for(;;)s+=s;"#,
            r#"let s="x";for(;;)s=s.concat(s, "y");"#,
            r#""x".padEnd(2**29).repeat(8)"#,
            r#""x".repeat(2**29)"#,
            r#"return "x".repeat(1e8)"#,
            r#"console.log("x".repeat(1e8))"#,
            "const a=[];for(;;)a.push({});",
            "const a=[];for(;;)a.push('x'.repeat(1000)+a.length);",
            "const m=new Map();for(let i=0;;i++)m.set(i,{});",
            "const o={};for(let i=0;;i++)o['k'+i]=i;",
            "new Uint8Array(2**28)",
            "const a=[];for(;;)a.push(new ArrayBuffer(1e6));",
            "const f=()=>Promise.resolve().then(f); return f();",
            "const a=[];for(;;)a.push(new Promise(()=>{}));",
            "const a=[];for(;;)a.push(Symbol());",
            "const a=[];for(;;)a.push(()=>a);",
            "let f=(n)=>n;for(;;){const g=f;f=(n)=>g(n)}",
            "new Array(1e7).fill(0)",
            "[...Array(1e7).keys()]",
            "'x'.repeat(1e7).split('')",
            "JSON.parse('['+'0,'.repeat(4e6)+'0]')",
            "JSON.stringify(Array(3e6).fill('xxxx'))",
            "'x'.repeat(4e6).replace(/x/g, 'yyyyyyyyyyyyyyyy')",
            "escape('\\u{1F600}'.repeat(2e6))",
            "2n**(2n**34n)",
            "let n=2n;for(;;)n*=n;",
            "1n<<(2n**40n)",
            "new Function('return [' + '0,'.repeat(4e6) + ']')",
            "const r=[];for(;;)r.push(/x/.exec('x'));",
            "function* g(){for(;;)yield {}} ; return [...g()]",
            "const a=[];for(;;)a.push(new Error('x'));",
        ],
    )
    .await;
}

#[tokio::test]
async fn endless_computing_ends_at_the_cpu_time() {
    each_breaks(
        Limit::CpuTime,
        strict(),
        &[
            "for(;;);",
            "for(;;){try{for(;;);}catch{}finally{}}",
            "try{for(;;);}finally{for(;;);}",
            "const f=async()=>{for(;;)await null}; return f();",
            "const f=()=>{queueMicrotask(f)}; f(); return new Promise(()=>{})",
            "await {then(resolve){for(;;);}}",
            "return {get a(){for(;;);}}",
            "return {toJSON(){for(;;);}}",
            "return new Proxy({}, {ownKeys(){for(;;);}})",
            "throw {get message(){for(;;);}}",
            "throw Object.defineProperty(new Error('x'),'message',{get(){for(;;);}})",
            "let r=()=>{try{r()}finally{r()}};r()",
            "let a=[];for(;;){try{for(;;)a.push('x'.repeat(1000)+a.length)}catch{}}",
            "/(a+)+$/.test('a'.repeat(60)+'b')",
            "eval('for(;;);')",
            "new Function('for(;;);')()",
            "(async function*(){for(;;);})().next()",
            "for (const x of {[Symbol.iterator]:()=>({next:()=>({done:false})})});",
            "Array.prototype.forEach.call({length: 1e15}, () => {})",
            "[].concat.call({get length(){for(;;);}, [Symbol.isConcatSpreadable]: true})",
            "JSON.stringify({toJSON(){for(;;);}})",
            "JSON.parse('[1]', function(){for(;;);})",
            "'x'.replace(/x/, ()=>{for(;;);})",
            "[3,2,1].sort(()=>{for(;;);})",
            "console.log({get a(){for(;;);}})",
            "try{ctx.fetch({toString(){for(;;);}})}catch{};for(;;);",
            "Error.prepareStackTrace=()=>{for(;;);};null.x",
        ],
    )
    .await;
}

/// Inside these built-in functions, the interpreter does not check whether it must stop.
#[tokio::test]
async fn endless_built_in_calls_are_ended_by_the_operating_system() {
    each_breaks(
        Limit::CpuTime,
        strict(),
        &[
            "Array.prototype.reverse.call({length: 2**53-1})",
            "try{Array.prototype.reverse.call({length: 2**53-1})}finally{for(;;);}",
            "Array.prototype.shift.call({length: 2**53-1})",
            "for(;;)(3n**600000n).toString()",
            "return {a: Array.prototype.copyWithin.call({length: 2**53-1}, 0, 1)}",
            "return {get a(){Array.prototype.unshift.call({length: 2**53-2}, 1)}}",
            "await null; Array.prototype.splice.call({length: 2**53-1}, 0, 1)",
            "Array.prototype.indexOf.call({length: 2**53-1}, 1)",
        ],
    )
    .await;
}

#[tokio::test]
async fn deep_recursion_ends_at_the_stack() {
    each_breaks(
        Limit::Stack,
        strict(),
        &[
            "const f=()=>f();f()",
            "JSON.parse('['.repeat(1e6)+']'.repeat(1e6))",
            "eval('('.repeat(1e6)+')'.repeat(1e6))",
            "class A{get x(){return this.x}} new A().x",
            "const p=new Proxy({},{get(t,k,r){return r[k]}});p.x",
            "const o={toString(){return ''+o}};''+o",
            "let a=[];for(let i=0;i<1e5;i++)a=[a];JSON.stringify(a)",
            "let a=[];for(let i=0;i<1e5;i++)a=[a];a.flat(Infinity)",
            "const e=()=>{console.log({get a(){return e()}});e()};e()",
        ],
    )
    .await;
}

#[tokio::test]
async fn results_end_at_their_limit() {
    each_breaks(
        Limit::Result,
        strict(),
        &[
            "return 'x'.repeat(1e6)",
            "return Array(3e5).fill(0)",
            "return new Array(2**32-1)",
            "return '\\u0000'.repeat(1e5)",
            "let a=[];for(let i=0;i<101;i++)a=[a];return a",
            "const a={};a.a=a;return a",
            "const a=[];a.push(a);return a",
            "const o={toJSON(){return o}};return o",
            "const f=()=>({get a(){return f()}});return f()",
            "return new Proxy([], {get:(t,k)=>k==='length'?2**40:undefined})",
            "const o={};for(let i=0;i<1e5;i++)o['k'+i]=i;return o",
        ],
    )
    .await;
    let scripts = limited(strict());
    let fits = "let a=[];for(let i=0;i<99;i++)a=[a];return a";
    assert!(evaluate(&scripts, step(fits)).await.is_ok());
    let fits = "return 'x'.repeat(256*1024-2)";
    assert!(evaluate(&scripts, step(fits)).await.is_ok());
    let (what, _) = limit(evaluate(&scripts, step("return 'x'.repeat(256*1024-1)")).await);
    assert_eq!(what, Limit::Result);
}

#[tokio::test]
async fn what_never_settles_ends_at_once() {
    each_ends(
        strict(),
        &[
            "await new Promise(()=>{})",
            "return new Promise(()=>{})",
            "await {then(){}}",
            "await Promise.race([])",
            "Promise.prototype.then=()=>{}; return new Promise(r=>r(1)).then()?.x ?? new Promise(()=>{})",
            "for await (const x of {[Symbol.asyncIterator]:()=>({next:()=>new Promise(()=>{})})});",
        ],
        mistake,
        |source, (message, ..)| assert!(message.contains("never settles"), "{source}: {message}"),
    )
    .await;
}

#[tokio::test]
async fn what_waits_for_the_world_ends_at_the_wall_time() {
    let limits = ScriptLimits { wall: Duration::from_millis(200), ..strict() };
    each_breaks(
        Limit::WallTime,
        limits,
        &[
            "await ctx.fetch('http://never')",
            "ctx.fetch('http://never'); await new Promise(()=>{})",
        ],
    )
    .await;
}

#[tokio::test]
async fn no_part_of_a_secret_is_left_where_text_is_cut() {
    let scripts = scripts();
    for before in (8 << 10) - 10..8 << 10 {
        let source = format!("console.log('x'.repeat({before}) + 'tops3cret'.padEnd(99))");
        let evaluated = evaluate(&scripts, step(&source)).await.unwrap();
        let line = &evaluated.log.lines[0];
        assert!(!line.contains("to"), "{before}: {}", &line[before - 5..]);
    }
    for before in 1_990..2_001 {
        let source = format!("throw new Error('x'.repeat({before}) + 'tops3cret'.padEnd(99))");
        let (message, ..) = mistake(evaluate(&scripts, step(&source)).await);
        assert!(!message.contains('t'), "{before}: {}", &message[before - 5..]);
    }
}

#[tokio::test]
async fn logs_are_cut_and_counted() {
    let scripts = limited(strict());
    let evaluated =
        evaluate(&scripts, step("console.log('é'.repeat(1e6)); return 1")).await.unwrap();
    let [line] = &evaluated.log.lines[..] else { panic!("{:?}", evaluated.log.lines.len()) };
    assert!(line.ends_with("é… (1991808 bytes more)"), "{}", &line[line.len() - 40..]);
    let flood = "for(let i=0;i<20000;i++)console.log('x'.repeat(99))";
    let log = evaluate(&scripts, step(flood)).await.unwrap().log;
    let kept = 64 * 1024 / 100;
    assert_eq!((log.lines.len(), log.dropped), (kept, 20_000 - kept as u64));
    let ended = evaluate(&scripts, step("console.log('before');for(;;)console.log('x')")).await;
    let failed = ended.unwrap_err();
    assert_eq!(failed.log.lines[0], "before");
    assert!(matches!(failed.failure, ScriptFailure::Limit { what: Limit::CpuTime, .. }));
    let ended = evaluate(
        &scripts,
        step("console.log('before');Array.prototype.reverse.call({length:2**53-1})"),
    );
    assert_eq!(ended.await.unwrap_err().log.lines, ["before"]);
}

#[tokio::test]
async fn floods_of_calls_and_events_end_at_their_limit() {
    let scripts = limited(strict());
    let cases = [
        (Limit::Calls, Permits::STEP, "for(;;)ctx.fetch('http://a')"),
        (Limit::Calls, Permits::STEP, "for(;;)await ctx.fetch('http://a')"),
        (Limit::Calls, Permits::STEP, "for(;;){try{await ctx.fetch('http://a')}catch{}}"),
        (Limit::Calls, Permits::STEP, "for(;;)ctx.fetch('http://a/'+'x'.repeat(8000))"),
        (
            Limit::Calls,
            Permits::STEP,
            "const h={};for(let i=0;i<1000;i++)h['h'+i]='x'.repeat(8000);ctx.fetch('http://a',{headers:h})",
        ),
        (
            Limit::Calls,
            Permits::PREPARE,
            "for(;;)ctx.getByIds('t',Array(500).fill('x'.repeat(8000)))",
        ),
        (Limit::Events, Permits::NEXT, "for(let i=0;;i++)ctx.publish('t',{messageId:'m'+i})"),
        (Limit::Events, Permits::NEXT, "for(;;){try{ctx.publish('t',{messageId:'m'})}catch{}}"),
        (
            Limit::Events,
            Permits::NEXT,
            "for(;;)ctx.publish('t',{messageId:'m',payload:'x'.repeat(1e5)})",
        ),
        (Limit::Events, Permits::NEXT, "ctx.publish('t',{messageId:'m',payload:'x'.repeat(2e6)})"),
        (
            Limit::Events,
            Permits::PRODUCER,
            "for(;;)ctx.registerInput({source:'s',type:'t',id:'i'})",
        ),
        (Limit::Result, Permits::MUTATE, "ctx.mutate.http({body:'x'.repeat(1e6)})"),
    ];
    for (expected, permits, source) in cases {
        let ended = evaluate(&scripts, Evaluation { permits, ..step(source) }).await;
        let (what, message) = limit(ended);
        assert_eq!(what, expected, "{source}: {message}");
        assert_eq!(evaluate(&scripts, step("return 1")).await.unwrap().value, json!(1));
    }
}

#[tokio::test]
async fn a_long_text_is_refused_before_it_is_read() {
    let source = format!("/*{}*/", "x".repeat(50_000_000));
    let (what, message) = limit(evaluate(&scripts(), step(&source)).await);
    assert_eq!((what, message.as_str()), (Limit::Source, "the script has more than 1 MiB"));
    let most = format!("/*{}*/return 1", "x".repeat((1 << 20) - 12));
    assert_eq!(evaluate(&scripts(), step(&most)).await.unwrap().value, json!(1));
}

#[tokio::test]
async fn nothing_of_the_host_is_there() {
    let nothing = "typeof require, typeof process, typeof Deno, typeof Bun, typeof WebAssembly, \
                   typeof SharedArrayBuffer, typeof Atomics, typeof setTimeout, typeof fetch, \
                   typeof XMLHttpRequest, typeof std, typeof os, typeof __filename, typeof Worker";
    let value = result(&format!("return [{nothing}]")).await;
    assert!(value.as_array().unwrap().iter().all(|kind| kind == "undefined"), "{value}");
    for (source, said) in [
        ("return this.constructor.constructor('return process')()", "undefined"),
        ("return (()=>{}).constructor('return process')()", "process is not defined"),
        ("return ctx.fetch.constructor('return process')()", "process is not defined"),
        ("for(let i=0;i<1e4;i++)setTimeout(()=>{},1e9)", "setTimeout is not defined"),
        ("await import('fs')", "could not load module 'fs'"),
        ("await import('/etc/passwd')", "could not load module"),
        ("await import('file:///etc/passwd')", "could not load module"),
        ("await import('data:text/javascript,export default 1')", "could not load module"),
        ("await import('./step.js')", "could not load module"),
        ("await import('/proc/self/environ', {with: {type: 'json'}})", ""),
    ] {
        let message = refused(source).await;
        assert!(message.contains(said), "{source}: {message}");
    }
    let realm = "return ctx.fetch.constructor('return globalThis')() === globalThis";
    assert_eq!(result(realm).await, json!(true));
    let source = "#!/usr/bin/env node\n//# sourceMappingURL=file:///etc/passwd\nreturn 1";
    assert_eq!(result(source).await, json!(1));
}

#[tokio::test]
async fn what_a_script_tampers_with_is_its_own() {
    let scripts = limited(strict());
    for (tamper, expected) in [
        ("JSON.stringify = JSON.parse = () => { throw 1 };", json!({"a": [1, "x"]})),
        ("delete globalThis.JSON; delete globalThis.Error;", json!({"a": [1, "x"]})),
        ("Promise.prototype.then = () => { throw 1 };", json!({"a": [1, "x"]})),
        ("Promise.prototype.constructor = function() { throw 1 };", json!({"a": [1, "x"]})),
        ("globalThis.Promise = class { constructor() { throw 1 } };", json!({"a": [1, "x"]})),
        ("Array.prototype[Symbol.iterator] = () => { throw 1 };", json!({"a": [1, "x"]})),
        ("Array.prototype.push = Array.prototype.map = () => { throw 1 };", json!({"a": [1, "x"]})),
        ("Object.defineProperty(Array.prototype, 0, {set() { throw 1 }});", json!({"a": [1, "x"]})),
        ("Object.prototype.toString = () => { throw 1 };", json!({"a": [1, "x"]})),
        ("Object.prototype.toJSON = () => 5;", json!(5)),
        ("Object.keys = Reflect.ownKeys = () => { throw 1 };", json!({"a": [1, "x"]})),
        ("Function.prototype.call = Function.prototype.apply = null;", json!({"a": [1, "x"]})),
        ("String.prototype.toWellFormed = () => { throw 1 };", json!({"a": [1, "x"]})),
        (
            "Object.freeze(Object.prototype); Object.freeze(Array.prototype);",
            json!({"a": [1, "x"]}),
        ),
        ("globalThis.ctx = null; globalThis.undefined2 = 1;", json!({"a": [1, "x"]})),
        ("Object.setPrototypeOf(Array.prototype, null);", json!({"a": [1, "x"]})),
    ] {
        let source = format!(
            "{tamper} const r = await ctx.fetch('http://a/'); ctx.log(r.status); return {{a: [1, 'x']}}"
        );
        let evaluated = evaluate(&scripts, step(&source)).await;
        let evaluated = evaluated.unwrap_or_else(|failed| panic!("{tamper}: {failed:?}"));
        assert_eq!(evaluated.value, expected, "{tamper}");
        assert_eq!(evaluated.log.lines, ["200"], "{tamper}");
        let after = evaluate(&scripts, step("return JSON.stringify([...[1]])")).await.unwrap();
        assert_eq!(after.value, json!("[1]"), "after {tamper}");
    }
}

#[tokio::test]
async fn traps_in_prototypes_harm_only_their_script() {
    let scripts = limited(strict());
    for source in [
        "for (const k of ['status','ok','headers','body','text','json','then','message','stack','cause','default','get','url','length']) Object.defineProperty(Object.prototype, k, {get() { throw new Error('trap') }, set() { throw new Error('trap') }}); await ctx.fetch('http://a'); return {a: 1}",
        "Object.defineProperty(Object.prototype, 'then', {get() { for (;;); }}); return {a: 1}",
        "Object.prototype.then = function(resolve) { resolve(this) }; return {a: 1}",
        "Object.defineProperty(Error.prototype, 'message', {get() { throw null }}); Object.defineProperty(Error.prototype, 'name', {get() { throw null }}); throw new Error()",
        "Error = class { constructor() { throw 1 } }; await ctx.fetch('http://away')",
        "Object.defineProperty(Error, Symbol.hasInstance, {value() { throw 1 }}); await ctx.fetch('http://away')",
        "throw new Proxy(new Error('x'), {get() { throw null }, getPrototypeOf() { throw null }})",
        "throw new Proxy(() => {}, {apply() { throw null }})",
        "const {proxy, revoke} = Proxy.revocable({}, {}); revoke(); throw proxy",
        "const {proxy, revoke} = Proxy.revocable([], {}); revoke(); return {a: proxy}",
        "const {proxy, revoke} = Proxy.revocable([], {}); revoke(); ctx.log(proxy); throw 1",
        "return new Proxy({}, {getOwnPropertyDescriptor() { throw null }, ownKeys() { return ['a'] }})",
        "throw class extends null {}",
        "ctx.log.call(null, null); Reflect.construct(ctx.log, [])",
        "new ctx.fetch('http://a')",
        "ctx.fetch.call({}, {toString: null})",
        "const r = await ctx.fetch('http://a'); const json = r.json; json()",
        "const r = await ctx.fetch('http://a'); r.body = 5; await r.json()",
        "const r = await ctx.fetch('http://a'); r.json.call(null)",
    ] {
        let failed = match evaluate(&scripts, step(source)).await {
            Err(failed) => failed,
            Ok(evaluated) => panic!("{source}: {evaluated:?}"),
        };
        assert!(!matches!(failed.failure, ScriptFailure::Unavailable { .. }), "{source}");
        let broke_down =
            matches!(failed.failure, ScriptFailure::Limit { what: Limit::Process, .. });
        assert!(!broke_down, "{source}: {failed:?}");
        assert_eq!(evaluate(&scripts, step("return 1")).await.unwrap().value, json!(1), "{source}");
    }
}

/// Texts that close the function whose body they are and continue with code of their own. They are
/// refused before any of it runs, also where the text is only parsed.
#[tokio::test]
async fn a_text_that_is_no_whole_body_is_refused_before_it_runs() {
    let scripts = limited(strict());
    for (source, line) in [
        ("}); (async()=>{", 1),
        ("}, async (ctx)=>{ return 7", 1),
        ("}); while(1){}; (async()=>{", 1),
        ("return 1\n}); while(1){}; (async()=>{", 2),
        ("}, x: async (ctx)=>{ return 7", 1),
        ("}, x() { return 7", 1),
        ("}}); while(1){}; ({ async body() {", 1),
        ("} : 0); while(1){}; (true ? async function () {", 1),
        ("} [Object.name] = async function () { return 7", 1),
        ("}(), async function () { return 7", 1),
        ("} /* */ }) //", 1),
        ("}`${(() => { while(1){} })()}` + async function () {", 1),
    ] {
        for entry in [Entry::Body, Entry::Phase(vec![]), Entry::Syntax(vec!["input".to_owned()])] {
            let evaluation = Evaluation { entry: entry.clone(), ..step(source) };
            let (said, at_line, at_column) = mistake(evaluate(&scripts, evaluation).await);
            assert!(said.contains("SyntaxError"), "{source}: {said}");
            assert_eq!(at_line, Some(line), "{source}: {said}");
            assert!(at_column.is_some(), "{source}: {said}");
        }
    }
    for source in ["{ } return 7", "return (() => { return {a: 7} })().a", "return `}` && 7 // }"] {
        assert_eq!(evaluate(&scripts, step(source)).await.unwrap().value, json!(7), "{source}");
    }
}
