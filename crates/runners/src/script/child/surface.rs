//! The host's interface for scripts: `ctx`, `console`, `workflow`.

use std::collections::BTreeMap;
use std::rc::Rc;

use rquickjs::function::Rest;
use rquickjs::object::Property;
use rquickjs::{Ctx, Exception, Function, Object, Result, Value};
use sha2::{Digest, Sha256};

use super::super::evaluation::{MutationKind, RegisteredInput};
use super::super::limits::{Limit, bytes};
use super::super::wire::{HostCall, PublishedText};
use super::super::world::FetchRequest;
use super::calls::ask;
use super::given::{AT_ONCE, field, items, name, names, object, text, title, unfit};
use super::json::{self, NoJson};
use super::log::log;
use super::meter::Ending;
use super::state::State;
use super::thrown::shortened;

/// HTTP methods that change nothing.
const READING: &[&str] = &["GET", "HEAD", "OPTIONS"];
const PEEKED: u32 = 100;

/// A host function that a script can call.
type Ours<'js> = fn(&Ctx<'js>, &State<'js>, &[Value<'js>]) -> Result<Value<'js>>;

/// Creates `ctx` and the global objects.
pub(super) fn make<'js>(ctx: &Ctx<'js>, state: &Rc<State<'js>>) -> Result<Object<'js>> {
    let globals = ctx.globals();
    // Shared memory is useless without other threads.
    globals.remove("SharedArrayBuffer")?;
    globals.remove("Atomics")?;
    let console = Object::new(ctx.clone())?;
    for name in ["log", "info", "warn", "error", "debug"] {
        add(ctx, state, &console, name, log)?;
    }
    globals.set("console", console)?;
    add(ctx, state, &globals, "workflow", |ctx, _, given| {
        Ok(given.first().cloned().unwrap_or_else(|| Value::new_undefined(ctx.clone())))
    })?;

    let surface = Object::new(ctx.clone())?;
    let functions: [(&str, Ours<'js>); 7] = [
        ("fetch", fetch),
        ("peek", peek),
        ("getByIds", get_by_ids),
        ("publish", publish),
        ("registerInput", register_input),
        ("log", log),
        ("now", |ctx, state, _| text(ctx, &state.now)),
    ];
    for (name, function) in functions {
        add(ctx, state, &surface, name, function)?;
    }
    let mutate = Object::new(ctx.clone())?;
    add(ctx, state, &mutate, "http", |ctx, state, given| {
        mutation(ctx, state, given, MutationKind::Http, "ctx.mutate.http")
    })?;
    add(ctx, state, &mutate, "worker", |ctx, state, given| {
        mutation(ctx, state, given, MutationKind::Worker, "ctx.mutate.worker")
    })?;
    surface.set("mutate", mutate)?;
    surface.set("secrets", secrets(ctx, state)?)?;
    Ok(surface)
}

fn add<'js>(
    ctx: &Ctx<'js>,
    state: &Rc<State<'js>>,
    to: &Object<'js>,
    name: &str,
    function: Ours<'js>,
) -> Result<()> {
    to.set(name, ours(ctx, state, name, function)?)
}

fn ours<'js>(
    ctx: &Ctx<'js>,
    state: &Rc<State<'js>>,
    name: &str,
    function: Ours<'js>,
) -> Result<Function<'js>> {
    let state = Rc::clone(state);
    let called = move |ctx: Ctx<'js>, given: Rest<Value<'js>>| function(&ctx, &state, &given.0);
    Function::new(ctx.clone(), called)?.with_name(name)
}

/// An object with each declared secret as a property, and a function `get`, which throws for other
/// names.
fn secrets<'js>(ctx: &Ctx<'js>, state: &Rc<State<'js>>) -> Result<Object<'js>> {
    let secrets = Object::new_proto(ctx.clone(), None)?;
    for (name, value) in &state.secrets {
        secrets.set(name.as_str(), value.as_str())?;
    }
    let get = ours(ctx, state, "get", |ctx, state, given| {
        let name = name(ctx, state, given.first(), "ctx.secrets.get: the name")?;
        match state.secrets.get(&name) {
            Some(value) => text(ctx, value),
            None => {
                let message = format!("the secret `{}` is not declared", shortened(&name, 60));
                Err(Exception::throw_reference(ctx, &message))
            }
        }
    })?;
    secrets.prop("get", Property::from(get))?;
    Ok(secrets)
}

fn fetch<'js>(ctx: &Ctx<'js>, state: &State<'js>, given: &[Value<'js>]) -> Result<Value<'js>> {
    state.permit(ctx, state.permits.fetch, "ctx.fetch")?;
    let url = name(ctx, state, given.first(), "ctx.fetch: the URL")?;
    let mut request = FetchRequest { url, method: "GET".to_owned(), headers: BTreeMap::new() };
    if let Some(options) = given.get(1).filter(|options| !options.is_undefined()) {
        let options = object(ctx, options, "ctx.fetch: the options")?;
        if let Some(method) = field(&options, "method")? {
            let method = name(ctx, state, Some(&method), "ctx.fetch: `method`")?;
            request.method = method.to_ascii_uppercase();
        }
        if let Some(headers) = field(&options, "headers")? {
            let headers = object(ctx, &headers, "ctx.fetch: `headers`")?;
            for key in headers.keys::<Value>() {
                let key = key?;
                let value: Value = headers.get(key.clone())?;
                let key = name(ctx, state, Some(&key), "ctx.fetch: the name of a header")?;
                let value = name(ctx, state, Some(&value), "ctx.fetch: the value of a header")?;
                request.headers.insert(key, value);
            }
        }
        if field(&options, "body")?.is_some() {
            return Err(state.abort(ctx, "ctx.fetch sends no body: it only reads".to_owned()));
        }
    }
    if !READING.contains(&request.method.as_str()) {
        let method = shortened(&request.method, 20);
        let message = format!("ctx.fetch only reads: GET, HEAD and OPTIONS, not {method}");
        return Err(state.abort(ctx, message));
    }
    ask(ctx, state, HostCall::Fetch(request))
}

fn peek<'js>(ctx: &Ctx<'js>, state: &State<'js>, given: &[Value<'js>]) -> Result<Value<'js>> {
    state.permit(ctx, state.permits.peek, "ctx.peek")?;
    let topic = name(ctx, state, given.first(), "ctx.peek: the topic")?;
    let mut limit = PEEKED;
    if let Some(options) = given.get(1).filter(|options| !options.is_undefined()) {
        let options = object(ctx, options, "ctx.peek: the options")?;
        if let Some(wanted) = field(&options, "limit")? {
            let wanted = wanted.as_number().filter(|wanted| wanted.fract() == 0.0);
            limit = match wanted {
                Some(wanted) if (1.0..=f64::from(AT_ONCE)).contains(&wanted) => wanted as u32,
                _ => {
                    let message = format!("ctx.peek: `limit` is a number from 1 to {AT_ONCE}");
                    return Err(Exception::throw_range(ctx, &message));
                }
            };
        }
    }
    ask(ctx, state, HostCall::Peek { topic, limit })
}

fn get_by_ids<'js>(ctx: &Ctx<'js>, state: &State<'js>, given: &[Value<'js>]) -> Result<Value<'js>> {
    state.permit(ctx, state.permits.get_by_ids, "ctx.getByIds")?;
    let topic = name(ctx, state, given.first(), "ctx.getByIds: the topic")?;
    let ids = given.get(1).cloned().unwrap_or_else(|| Value::new_undefined(ctx.clone()));
    let ids = names(ctx, state, &ids, "ctx.getByIds: the ids")?;
    ask(ctx, state, HostCall::GetByIds { topic, ids })
}

fn publish<'js>(ctx: &Ctx<'js>, state: &State<'js>, given: &[Value<'js>]) -> Result<Value<'js>> {
    state.permit(ctx, state.permits.publish, "ctx.publish")?;
    let topic = name(ctx, state, given.first(), "ctx.publish: the topic")?;
    let nothing = Value::new_undefined(ctx.clone());
    let events = given.get(1).unwrap_or(&nothing);
    // The batch is published as a whole or not at all, because the script may catch an error in one
    // of its events.
    let batch = if events.is_array() {
        let items = items(ctx, events, "ctx.publish: the events")?;
        let numbered = items.iter().enumerate();
        numbered
            .map(|(at, item)| event(ctx, state, &topic, item, &format!("event {at}")))
            .collect::<Result<Vec<_>>>()?
    } else {
        vec![event(ctx, state, &topic, events, "the event")?]
    };
    state.published.borrow_mut().extend(batch);
    let limit = state.meter.limits.events;
    if state.published.borrow().len() > limit as usize {
        let message = format!("the script publishes more than {limit} events");
        return Err(state.exceed(ctx, Limit::Events, message));
    }
    Ok(nothing)
}

fn event<'js>(
    ctx: &Ctx<'js>,
    state: &State<'js>,
    topic: &str,
    given: &Value<'js>,
    which: &str,
) -> Result<PublishedText> {
    let limits = &state.meter.limits;
    let fields = object(ctx, given, &format!("ctx.publish: {which}"))?;
    let message_id = match field(&fields, "messageId")? {
        Some(id) => Some(id),
        None => field(&fields, "message_id")?,
    };
    let message_id =
        name(ctx, state, message_id.as_ref(), &format!("ctx.publish: `messageId` of {which}"))?;
    let title = title(ctx, state, &fields, &format!("ctx.publish: `title` of {which}"))?;
    let causes = field(&fields, "causes")?
        .map(|causes| names(ctx, state, &causes, &format!("ctx.publish: `causes` of {which}")))
        .transpose()?
        .unwrap_or_default();
    let payload: Value = fields.get("payload")?;
    let room = limits.events_bytes.saturating_sub(state.published_bytes.get());
    let too_long =
        || format!("the script publishes more than {} of events", bytes(limits.events_bytes));
    let payload = match json::raw(ctx, state, &payload, room) {
        Ok(payload) => payload,
        Err(NoJson::TooLong) => return Err(state.exceed(ctx, Limit::Events, too_long())),
        Err(why) => return Err(unfit(ctx, why, &format!("ctx.publish: `payload` of {which}"))),
    };
    let texts = topic.len() + message_id.len() + title.as_ref().map_or(0, String::len);
    let size = texts + payload.get().len() + causes.iter().map(String::len).sum::<usize>();
    if size > room {
        return Err(state.exceed(ctx, Limit::Events, too_long()));
    }
    state.published_bytes.set(state.published_bytes.get() + size);
    Ok(PublishedText { topic: topic.to_owned(), message_id, title, payload, causes })
}

fn register_input<'js>(
    ctx: &Ctx<'js>,
    state: &State<'js>,
    given: &[Value<'js>],
) -> Result<Value<'js>> {
    state.permit(ctx, state.permits.register_input, "ctx.registerInput")?;
    let limit = state.meter.limits.events;
    if state.inputs.borrow().len() >= limit as usize {
        let message = format!("the script registers more than {limit} inputs");
        return Err(state.exceed(ctx, Limit::Events, message));
    }
    let nothing = Value::new_undefined(ctx.clone());
    let fields = object(ctx, given.first().unwrap_or(&nothing), "ctx.registerInput: the input")?;
    let named = |key: &str| -> Result<String> {
        let value = field(&fields, key)?;
        name(ctx, state, value.as_ref(), &format!("ctx.registerInput: `{key}`"))
    };
    let (source, kind, id) = (named("source")?, named("type")?, named("id")?);
    let title = title(ctx, state, &fields, "ctx.registerInput: `title`")?;
    let input_id = input_id(&source, &kind, &id);
    let answer = text(ctx, &input_id)?;
    state.inputs.borrow_mut().push(RegisteredInput { input_id, source, kind, id, title });
    Ok(answer)
}

/// The id of an input. Equal source, kind and id give the same id, whoever registers the input and
/// whenever.
fn input_id(source: &str, kind: &str, id: &str) -> String {
    let mut hash = Sha256::new();
    for part in [source, kind, id] {
        hash.update(part.len().to_le_bytes());
        hash.update(part);
    }
    hash.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

fn mutation<'js>(
    ctx: &Ctx<'js>,
    state: &State<'js>,
    given: &[Value<'js>],
    kind: MutationKind,
    call: &str,
) -> Result<Value<'js>> {
    state.permit(ctx, state.permits.mutate, call)?;
    let nothing = Value::new_undefined(ctx.clone());
    let given = given.first().unwrap_or(&nothing);
    object(ctx, given, &format!("{call}: the request"))?;
    let limit = state.meter.limits.result_bytes;
    match json::raw(ctx, state, given, limit) {
        Ok(request) => {
            state.meter.end(Ending::Mutation { kind, request });
            Err(Exception::throw_message(ctx, "the phase has ended with its mutation"))
        }
        Err(NoJson::TooLong) => {
            let message = format!("{call}: the request has more than {}", bytes(limit));
            Err(state.exceed(ctx, Limit::Result, message))
        }
        Err(why) => Err(unfit(ctx, why, &format!("{call}: the request"))),
    }
}
