//! A shared list of hostile scripts, unchanged, each with its expected end.

use super::*;

/// How a script ends.
enum Ends {
    With(Value),
    Logging(&'static str),
    Saying(&'static str),
    At(Limit),
}

#[tokio::test]
async fn agreed_hostile_scripts_end_as_documented() {
    use Ends::*;
    let cases = [
        ("h073", "const f=()=>Promise.resolve().then(f); return f();", At(Limit::Memory)),
        ("h075", r#"let s="x";for(;;)s+=s;"#, At(Limit::Memory)),
        ("h077", r#""x".padEnd(2**29).repeat(8)"#, At(Limit::Memory)),
        ("h079", r#"JSON.parse("[".repeat(1e6)+"]".repeat(1e6))"#, At(Limit::Stack)),
        ("h081", "2n**(2n**34n)", At(Limit::Memory)),
        ("h083", "await new Promise(()=>{})", Saying("never settles")),
        (
            "h085",
            "throw new Proxy({}, {get(){throw 1}, ownKeys(){throw 2}})",
            Saying("the script threw something that is not an Error"),
        ),
        ("h085, null", "throw null", At(Limit::Memory)),
        ("h087", r#"return "x".repeat(1e8)"#, At(Limit::Memory)),
        (
            "h089",
            "return {a:1n,b:undefined,c:NaN,d:new Date(0),e:new Map()}",
            Saying("`a` is a BigInt"),
        ),
        ("h091", r#"console.log("x".repeat(1e8))"#, At(Limit::Memory)),
        (
            "h093",
            r#"return this.constructor.constructor("return process")()"#,
            Saying("cannot read property 'constructor' of undefined"),
        ),
        (
            "h095",
            r#"return ctx.fetch.constructor("return globalThis")()"#,
            Saying("the result is no JSON"),
        ),
        (
            "h097",
            r#"return [typeof require, typeof process, typeof Deno, await import("fs").catch(e=>String(e))]"#,
            With(json!([
                "undefined",
                "undefined",
                "undefined",
                "ReferenceError: could not load module 'fs'"
            ])),
        ),
        (
            "h099",
            "return [typeof WebAssembly, typeof SharedArrayBuffer]",
            With(json!(["undefined", "undefined"])),
        ),
        (
            "h101",
            "for(let i=0;i<1e4;i++)setTimeout(()=>{},1e9)",
            Saying("setTimeout is not defined"),
        ),
        // Secrets are not masked here. The node masks both values, the secret and its base64 form
        // (docs/scripts.md).
        (
            "h103",
            "console.log(ctx.secrets.token, btoa(ctx.secrets.token))",
            Logging("s3cret czNjcmV0"),
        ),
        (
            "h107",
            "#!/usr/bin/env node\n//# sourceMappingURL=file:///etc/passwd\nreturn 1",
            With(json!(1)),
        ),
    ];
    let scripts = limited(ScriptLimits::default());
    for (id, source, ends) in cases {
        let secrets = BTreeMap::from([("token".to_owned(), "s3cret".to_owned())]);
        let ended = evaluate(&scripts, Evaluation { secrets, ..step(source) }).await;
        match ends {
            With(value) => assert_eq!(ended.unwrap().value, value, "{id}"),
            Logging(line) => assert_eq!(ended.unwrap().log.lines, [line], "{id}"),
            Saying(text) => {
                let (message, ..) = mistake(ended);
                assert!(message.contains(text), "{id}: {message}");
            }
            At(what) => assert_eq!(limit(ended).0, what, "{id}"),
        }
        assert_eq!(evaluate(&scripts, step("return 1")).await.unwrap().value, json!(1), "{id}");
    }
}
