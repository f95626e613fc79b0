//! A script's calls to its host: each is sent at once, and answers may arrive in any order.

use rquickjs::function::This;
use rquickjs::{Ctx, Function, Object, Result, Value};
use serde_json::value::RawValue;

use super::super::limits::{Limit, bytes};
use super::super::wire::{Answered, FromChild, HostCall, ToChild};
use super::super::world::{FetchAnswer, WorldFailure};
use super::state::{State, Waiting};

/// Sends a call and returns the promise of its answer.
pub(super) fn ask<'js>(ctx: &Ctx<'js>, state: &State<'js>, call: HostCall) -> Result<Value<'js>> {
    let id = state.calls.get();
    let allowed = state.meter.limits.calls;
    if id >= allowed {
        let message = format!("the script asks its host more than the {allowed} times it may");
        return Err(state.exceed(ctx, Limit::Calls, message));
    }
    let (asked, most) = (state.asked_bytes.get() + call.bytes(), state.meter.limits.calls_bytes);
    if asked > most {
        let message = format!("the script asks its host with more than {} of text", bytes(most));
        return Err(state.exceed(ctx, Limit::Calls, message));
    }
    state.calls.set(id + 1);
    state.asked_bytes.set(asked);
    let error = state.builtins()?.error()?;
    let (promise, resolve, reject) = ctx.promise()?;
    state.waiting.borrow_mut().insert(id, Waiting { resolve, reject, error });
    state.channel.borrow_mut().send(&FromChild::Call { id, call });
    Ok(promise.into_value())
}

/// Waits for the next answer and settles its promise. Returns false if no call is open.
pub(super) fn settle_next<'js>(ctx: &Ctx<'js>, state: &State<'js>) -> Result<bool> {
    if state.waiting.borrow().is_empty() {
        return Ok(false);
    }
    let message = state.channel.borrow_mut().receive();
    // Any other message, or an answer to no open call, means that the parent does not follow the
    // protocol.
    let ToChild::Answer { id, result } = message else { std::process::exit(1) };
    let waiting = state.waiting.borrow_mut().remove(&id);
    let Some(waiting) = waiting else { std::process::exit(1) };
    match result {
        Ok(Answered::Fetch(answer)) => {
            let response = response(ctx, answer)?;
            waiting.resolve.call::<_, ()>((response,))?;
        }
        Ok(Answered::Json(json)) => {
            let value = parsed(ctx, &json)?;
            waiting.resolve.call::<_, ()>((value,))?;
        }
        Err(failure) => {
            let (message, is_transient) = match failure {
                WorldFailure::Transient(message) => (message, true),
                WorldFailure::Logic(message) => (message, false),
            };
            if let Some(error) = waiting.error.as_object() {
                error.set("message", message)?;
            }
            if is_transient {
                state.transient.borrow_mut().push(waiting.error.clone());
            }
            waiting.reject.call::<_, ()>((waiting.error,))?;
        }
    }
    Ok(true)
}

/// Parses JSON text into a value of the script.
pub(super) fn parsed<'js>(ctx: &Ctx<'js>, json: &RawValue) -> Result<Value<'js>> {
    ctx.json_parse(json.get())
}

/// The response object of `fetch`: as in browsers, but with the body already loaded.
fn response<'js>(ctx: &Ctx<'js>, answer: FetchAnswer) -> Result<Object<'js>> {
    let response = Object::new(ctx.clone())?;
    response.set("status", answer.status)?;
    response.set("ok", (200..300).contains(&answer.status))?;
    let headers = Object::new(ctx.clone())?;
    for (name, value) in answer.headers {
        headers.set(name, value)?;
    }
    response.set("headers", headers)?;
    let body = rquickjs::String::from_str(ctx.clone(), &answer.body)?;
    drop(answer.body);
    // The functions read the body from the object instead of capturing it, so that the garbage
    // collector can free it.
    let body_of = |this: &Object<'js>| this.get::<_, rquickjs::String>("body");
    response.set("body", body)?;
    let text = move |ctx: Ctx<'js>, this: This<Object<'js>>| {
        let text = body_of(&this.0)?;
        promised(&ctx, Ok(text.into_value()))
    };
    response.set("text", Function::new(ctx.clone(), text)?.with_name("text")?)?;
    let json = move |ctx: Ctx<'js>, this: This<Object<'js>>| {
        let text = body_of(&this.0)?.to_string()?;
        let parsed = ctx.json_parse(text);
        promised(&ctx, parsed)
    };
    response.set("json", Function::new(ctx.clone(), json)?.with_name("json")?)?;
    Ok(response)
}

/// A promise that is already settled.
fn promised<'js>(ctx: &Ctx<'js>, result: Result<Value<'js>>) -> Result<Value<'js>> {
    // The exception is taken before anything else is called, because a call would replace it.
    let result = result.map_err(|_| ctx.catch());
    let (promise, resolve, reject) = ctx.promise()?;
    match result {
        Ok(value) => resolve.call::<_, ()>((value,))?,
        Err(error) => reject.call::<_, ()>((error,))?,
    }
    Ok(promise.into_value())
}
