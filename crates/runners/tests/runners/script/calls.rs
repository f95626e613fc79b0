//! Tests of a script's calls to its host, and of the changes that a script asks for.

use axum::Router;
use axum::http::StatusCode;
use axum::response::Redirect;
use axum::routing::get;
use runners::script::{Log, Mutation, MutationKind, Published, RegisteredInput};
use runners::{Policy, Runners};

use super::*;
use crate::peer::{Peer, loopback_listed};

/// Wraps a function into a module.
fn calling(body: &str, permits: Permits) -> Evaluation {
    let source = format!("export default {{ async run(ctx, state) {{ {body} }} }}");
    handler(&source, &["run"], permits)
}

async fn called(body: &str, permits: Permits) -> Result<Evaluated, Failed> {
    evaluate(&scripts(), calling(body, permits)).await
}

#[tokio::test]
async fn a_script_reads_from_outside() {
    let body = "const [a, b] = await Promise.all([\n\
                  ctx.fetch('http://a/?q=1', {headers: {'X-Key': 'k'}, method: 'options'}),\n\
                  ctx.fetch('http://text/'),\n\
                ]);\n\
                return [a.status, a.ok, a.headers, await a.json(), b.ok, await b.text(),\n\
                  await b.json().catch(e => e.name), b.body]";
    let value = called(body, Permits::PRODUCER).await.unwrap().value;
    let asked = json!({"url": "http://a/?q=1", "method": "OPTIONS", "headers": {"X-Key": "k"}});
    let refused = "SyntaxError";
    let expected =
        json!([200, true, {"etag": "1"}, asked, false, "not <JSON>", refused, "not <JSON>"]);
    assert_eq!(value, expected);
}

#[tokio::test]
async fn a_script_looks_at_topics() {
    let body = "return [await ctx.peek('t'), await ctx.peek('t', {limit: 3}), await ctx.getByIds('u', ['a', 'b'])]";
    let value = called(body, Permits::PREPARE).await.unwrap().value;
    let expected = json!([
        [{"topic": "t", "limit": 100}],
        [{"topic": "t", "limit": 3}],
        [{"topic": "u", "ids": ["a", "b"]}],
    ]);
    assert_eq!(value, expected);
}

#[tokio::test]
async fn events_and_inputs_are_collected() {
    let body = "const id = ctx.registerInput({source: 'imap', type: 'mail', id: '7', title: 'Hello'});\n\
                ctx.publish('t', {messageId: 'a', title: 'A', payload: {at: new Date(0)}, causes: [id]});\n\
                await ctx.publish('u', [{message_id: 'b', title: ''}, {messageId: 'c', payload: [1]}]);\n\
                return id === ctx.registerInput({source: 'imap', type: 'mail', id: '7'})";
    let evaluated = called(body, Permits::PRODUCER).await.unwrap();
    assert_eq!(evaluated.value, json!(true));
    let [first, second] = &evaluated.inputs[..] else { panic!("{evaluated:?}") };
    assert_eq!((first.input_id.as_str(), first.id.as_str()), (second.input_id.as_str(), "7"));
    assert_eq!((first.title.as_deref(), second.title.as_deref()), (Some("Hello"), None));
    let RegisteredInput { input_id, source, kind, .. } = first;
    assert_eq!((input_id.len(), source.as_str(), kind.as_str()), (32, "imap", "mail"));
    let event = |topic: &str, id: &str, title: Option<&str>, payload, causes| Published {
        topic: topic.to_owned(),
        message_id: id.to_owned(),
        title: title.map(str::to_owned),
        payload,
        causes,
    };
    let at = json!({"at": "1970-01-01T00:00:00.000Z"});
    let published = [
        event("t", "a", Some("A"), at, vec![input_id.clone()]),
        event("u", "b", None, Value::Null, vec![]),
        event("u", "c", None, json!([1]), vec![]),
    ];
    assert_eq!(evaluated.published, published);
}

#[tokio::test]
async fn events_of_a_failed_call_are_not_published() {
    let body = "try { ctx.publish('t', [{messageId: 'a'}, {messageId: 5}]) } catch (e) { return e.message }";
    let evaluated = called(body, Permits::NEXT).await.unwrap();
    assert_eq!(evaluated.value, json!("ctx.publish: `messageId` of event 1 must be a text"));
    assert_eq!(evaluated.published, []);
}

#[tokio::test]
async fn what_is_given_wrongly_is_told() {
    for (body, said) in [
        ("ctx.publish()", "ctx.publish: the topic must be a text"),
        ("ctx.publish('t')", "ctx.publish: the event must be an object"),
        ("ctx.publish('', {})", "the topic is empty"),
        (
            "ctx.publish('t', {messageId: 'a', payload: 1n})",
            "`payload` of the event is no JSON: it is a BigInt",
        ),
        ("ctx.publish('t', {messageId: 'a', payload: {x: () => 1}})", "`x` is a function"),
        ("ctx.publish('t', {messageId: 'a', causes: 'b'})", "`causes` of the event must be a list"),
        ("ctx.publish('t', {messageId: 'a', causes: [1]})", "must be a text"),
        ("ctx.publish('t', {messageId: 'x'.repeat(1e4)})", "more than 8 KiB"),
        ("const a = {}; a.a = a; ctx.publish('t', {messageId: 'a', payload: a})", "in a circle"),
        ("ctx.publish('t', {get messageId() { throw new Error('own') }})", "own"),
        ("ctx.registerInput({source: 's', type: 't'})", "ctx.registerInput: `id` must be a text"),
        ("ctx.registerInput()", "the input must be an object"),
        ("await ctx.fetch()", "the URL must be a text"),
        ("await ctx.fetch('http://a', {headers: {a: 1}})", "the value of a header must be a text"),
        ("await ctx.fetch('http://a', [])", "the options must be an object"),
    ] {
        let (message, ..) = mistake(called(body, Permits::PRODUCER).await);
        assert!(message.contains(said), "{body}: {message}");
    }
    for (body, said) in [
        ("await ctx.peek('t', {limit: 0})", "from 1 to 1000"),
        ("await ctx.peek('t', {limit: 1.5})", "from 1 to 1000"),
        ("await ctx.getByIds('t')", "the ids must be a list"),
        ("await ctx.getByIds('t', new Array(1001).fill('a'))", "more than 1000"),
    ] {
        let (message, ..) = mistake(called(body, Permits::PREPARE).await);
        assert!(message.contains(said), "{body}: {message}");
    }
}

#[tokio::test]
async fn a_mutation_ends_the_phase() {
    for (body, kind, request) in [
        (
            "await ctx.mutate.http({url: 'http://a', body: {x: 1}}); throw new Error('behind')",
            MutationKind::Http,
            json!({"url": "http://a", "body": {"x": 1}}),
        ),
        (
            "try { ctx.mutate.worker({queue: 'q', input: 1}) } catch {} ; \
             try { ctx.mutate.http({}) } catch {} ; return 5",
            MutationKind::Worker,
            json!({"queue": "q", "input": 1}),
        ),
        (
            "ctx.mutate.http({url: 'http://a'}).catch(() => {}); for (;;);",
            MutationKind::Http,
            json!({"url": "http://a"}),
        ),
        ("try { ctx.mutate.http({}) } finally { for (;;); }", MutationKind::Http, json!({})),
    ] {
        let evaluated = called(body, Permits::MUTATE).await.unwrap();
        assert_eq!(evaluated.mutation, Some(Mutation { kind, request }), "{body}");
        assert_eq!(evaluated.value, Value::Null);
    }
    let (message, ..) = mistake(called("ctx.mutate.http('x')", Permits::MUTATE).await);
    assert!(message.contains("the request must be an object"), "{message}");
    assert_eq!(called("return 1", Permits::MUTATE).await.unwrap().mutation, None);
}

#[tokio::test]
async fn a_forbidden_call_cannot_be_caught() {
    for (call, name) in [
        ("ctx.fetch('http://a')", "ctx.fetch"),
        ("ctx.peek('t')", "ctx.peek"),
        ("ctx.getByIds('t', [])", "ctx.getByIds"),
        ("ctx.publish('t', {messageId: 'a'})", "ctx.publish"),
        ("ctx.registerInput({})", "ctx.registerInput"),
        ("ctx.mutate.http({})", "ctx.mutate.http"),
        ("ctx.mutate.worker({})", "ctx.mutate.worker"),
    ] {
        for body in [
            format!("\n {call}"),
            format!("\n try {{ {call} }} catch {{}} return 1"),
            format!("\n (async () => {call})().catch(() => {{}}); return 1"),
            format!("\n try {{ {call} }} finally {{ for (;;); }}"),
        ] {
            let (message, line, _) = mistake(called(&body, Permits::NONE).await);
            assert_eq!(message, format!("{name} may not be called in this phase"), "{body}");
            assert_eq!(line, Some(2), "{body}");
        }
    }
    for method in ["POST", "delete", "PATCH", "x"] {
        let body = format!("try {{ ctx.fetch('http://a', {{method: '{method}'}}) }} catch {{}}");
        let (message, ..) = mistake(called(&body, Permits::PRODUCER).await);
        assert!(message.starts_with("ctx.fetch only reads"), "{message}");
    }
    let body = "try { ctx.fetch('http://a', {body: 'x'}) } catch {}";
    assert!(mistake(called(body, Permits::PRODUCER).await).0.contains("sends no body"));
}

#[tokio::test]
async fn only_what_the_network_did_is_transient() {
    let transient = |body: &'static str| async move {
        match called(body, Permits::PRODUCER).await {
            Err(Failed { failure: ScriptFailure::Transient { .. }, .. }) => true,
            Err(Failed { failure: ScriptFailure::Logic { .. }, .. }) => false,
            other => panic!("{body}: {other:?}"),
        }
    };
    for (body, expected) in [
        ("await ctx.fetch('http://away')", true),
        ("await Promise.all([ctx.fetch('http://a'), ctx.fetch('http://away')])", true),
        ("try { await ctx.fetch('http://away') } catch (e) { throw e }", true),
        (
            "try { await ctx.fetch('http://away') } catch (e) { throw new Error('no', {cause: e}) }",
            true,
        ),
        ("try { await ctx.fetch('http://away') } catch (e) { throw new Error(e.message) }", false),
        ("const e = new Error('a'); e.cause = e; throw e", false),
        ("await ctx.fetch('http://wrong')", false),
        ("throw new Error('no connection for away')", false),
        ("throw {transient: true}", false),
    ] {
        assert_eq!(transient(body).await, expected, "{body}");
    }
    let caught = "try { await ctx.fetch('http://away') } catch (e) { return e.message }";
    let evaluated = called(caught, Permits::PRODUCER).await.unwrap();
    assert_eq!(evaluated.value, json!("no connection for away"));
}

#[tokio::test]
async fn secrets_are_the_declared_ones() {
    let secrets = BTreeMap::from([("TOKEN".to_owned(), "s3cret".to_owned())]);
    let source = "return [ctx.secrets.TOKEN, ctx.secrets.get('TOKEN'), ctx.secrets.OTHER, \
                  ctx.secrets.constructor, Object.keys(ctx.secrets)]";
    let evaluated =
        evaluate(&scripts(), Evaluation { secrets, ..step(source) }).await.unwrap().value;
    assert_eq!(evaluated, json!(["s3cret", "s3cret", null, null, ["TOKEN"]]));
    assert!(refused("return ctx.secrets.get('HOME')").await.contains("`HOME` is not declared"));
}

/// A world that performs real requests.
struct Real(Runners);

impl ScriptWorld for Real {
    fn fetch(&self, request: FetchRequest) -> BoxFuture<'_, Result<FetchAnswer, WorldFailure>> {
        self.0.fetch(request).boxed()
    }

    fn peek(&self, _: String, _: u32) -> BoxFuture<'_, Result<Value, WorldFailure>> {
        ready(Err(WorldFailure::Logic("no topics".to_owned()))).boxed()
    }

    fn get_by_ids(&self, _: String, _: Vec<String>) -> BoxFuture<'_, Result<Value, WorldFailure>> {
        ready(Err(WorldFailure::Logic("no topics".to_owned()))).boxed()
    }
}

async fn fetched(policy: Policy, source: &str) -> Result<Evaluated, Failed> {
    let world = Real(Runners::new(policy).unwrap());
    scripts().evaluate(step(source), &world, &CancellationToken::new()).await
}

#[tokio::test]
async fn fetch_goes_where_the_egress_policy_admits_it() {
    let router = Router::new()
        .route("/", get(|| async { ([("set-cookie", "s=1"), ("x-own", "é")], "hello") }))
        .route("/moved", get(|| async { Redirect::temporary("/") }))
        .route("/missing", get(|| async { (StatusCode::NOT_FOUND, "no") }))
        .route("/large", get(|| async { "x".repeat((1 << 20) + 1) }));
    let peer = Peer::serve(router).await;
    let source = |path: &str| {
        let url = peer.url(path);
        format!(
            "const r = await ctx.fetch('{url}'); return [r.status, r.ok, await r.text(), r.headers['set-cookie']]"
        )
    };
    let value = |ended: Result<Evaluated, Failed>| ended.unwrap().value;
    for path in ["/", "/moved"] {
        let answer = value(fetched(loopback_listed(), &source(path)).await);
        assert_eq!(answer, json!([200, true, "hello", null]), "{path}");
    }
    let answer = value(fetched(loopback_listed(), &source("/missing")).await);
    assert_eq!(answer, json!([404, false, "no", null]));

    let (message, ..) = mistake(fetched(loopback_listed(), &source("/large")).await);
    assert!(message.contains("1048576 bytes"), "{message}");
    let (message, line, _) = mistake(fetched(Policy::default(), &source("/")).await);
    assert!(message.contains("was not sent"), "{message}");
    assert_eq!(line, Some(1));
    let (message, ..) =
        mistake(fetched(loopback_listed(), "await ctx.fetch('file:///etc/passwd')").await);
    assert!(message.contains("http:// and https:// only"), "{message}");

    let closed = source("/");
    drop(peer);
    let ended = fetched(loopback_listed(), &closed).await;
    let Err(Failed { failure: ScriptFailure::Transient { message }, log }) = ended else {
        panic!("not transient: {ended:?}");
    };
    assert!(message.contains("no connection"), "{message}");
    assert_eq!(log, Log::default());
}
