//! Evaluates a script's text up to the value that the phase waits for.

use std::fmt::Display;
use std::rc::Rc;

use rquickjs::context::EvalOptions;
use rquickjs::function::Args;
use rquickjs::promise::PromiseState;
use rquickjs::{Ctx, Exception, Function, Module, Object, Promise, Value};

use super::super::evaluation::{Entry, STEP_ARGUMENTS};
use super::super::wire::Request;
use super::calls;
use super::state::State;
use super::surface;

/// The head of the function that wraps a body. It stands on the body's first line, so that line
/// numbers stay the same.
pub(super) fn head(entry: &Entry) -> Option<String> {
    match entry {
        Entry::Body => Some(function_of(&STEP_ARGUMENTS)),
        Entry::Phase(names) | Entry::Syntax(names) => Some(function_of(names)),
        Entry::Handler(_) | Entry::Describe => None,
    }
}

/// Opens the function. It is an operand of `? :` and not alone in parentheses; [`body`] explains
/// why.
fn function_of(names: &[impl Display]) -> String {
    let names: String = names.iter().map(|name| format!(", {name}")).collect();
    format!("(true ? async function (ctx{names}) {{")
}

const BODY_END: &str = "\n} : 0)";
/// Begins a text that is parsed but never executed: it throws before anything else in it runs.
const PARSED_HEAD: &str = "throw 0; ({ async body() {";
const PARSED_END: &str = "\n} })";

/// Wraps a text, which is the body of a function, into that function.
///
/// The interpreter cannot parse a body by itself: its `AsyncFunction` joins texts just as this
/// function does. A body could therefore close the function and continue with code of its own, as
/// in `}); f(); (async () => {`. To refuse that, the text is parsed twice, between two different
/// pairs of braces that a body cannot both close early. After the closing brace of a method in an
/// object, `,` or `}` must follow; after that of a function between `?` and `:`, neither may. Up to
/// that brace both texts are parsed alike, so a text that is accepted both times has no such brace
/// and is a whole body. Nothing is executed before both are parsed: the first text throws at once,
/// and the second is parsed before it runs.
fn body<'js>(ctx: &Ctx<'js>, request: &Request, source: &str) -> Result<Function<'js>, Stuck> {
    let evaluated = |text: String| -> rquickjs::Result<Value<'js>> {
        let mut options = EvalOptions::default();
        options.filename = Some(request.name.clone());
        ctx.eval_with_options(text, options)
    };
    let head = head(&request.entry).unwrap_or_default();
    // Padded to the width of the head, so that positions are the same in both texts.
    let width = head.len();
    match evaluated(format!("{PARSED_HEAD:>width$}{source}{PARSED_END}")) {
        Err(rquickjs::Error::Exception) => {
            let thrown = ctx.catch();
            if thrown.as_int() != Some(0) {
                return Err(ctx.throw(thrown).into());
            }
        }
        Err(error) => return Err(error.into()),
        Ok(_) => return Err(not_a_body()),
    }
    evaluated(format!("{head}{source}{BODY_END}"))?.into_function().ok_or_else(not_a_body)
}

fn not_a_body() -> Stuck {
    Stuck::Missing("the text is not the body of a function".to_owned())
}

/// The value that a phase waits for, and how it becomes the result.
pub(super) enum Waited<'js> {
    /// The value itself is the result.
    Result(Value<'js>),
    /// The description of the value is the result.
    Description(Value<'js>),
}

/// Why a phase has no value.
pub(super) enum Stuck {
    /// The script threw, or the phase was ended.
    Thrown(rquickjs::Error),
    /// The promise can never settle: no job and no call is left.
    NeverSettles,
    /// The module has no such function. The interpreter threw no exception for this.
    Missing(String),
}

impl From<rquickjs::Error> for Stuck {
    fn from(error: rquickjs::Error) -> Stuck {
        Stuck::Thrown(error)
    }
}

/// Runs the script until its value is available.
pub(super) fn run<'js>(
    ctx: &Ctx<'js>,
    state: &Rc<State<'js>>,
    request: &Request,
) -> Result<Waited<'js>, Stuck> {
    let given = surface::make(ctx, state)?;
    let source = readable(&request.source.0);
    match &request.entry {
        Entry::Body | Entry::Phase(_) | Entry::Syntax(_) => {
            let body = body(ctx, request, &source)?;
            if matches!(request.entry, Entry::Syntax(_)) {
                return Ok(Waited::Result(Value::new_null(ctx.clone())));
            }
            let value = call(ctx, state, &body, None, given, request)?;
            Ok(Waited::Result(value))
        }
        Entry::Handler(path) => {
            let export = exported(ctx, state, &request.name, source)?;
            let (holder, handler) = found(export, path)?;
            let value = call(ctx, state, &handler, Some(holder), given, request)?;
            Ok(Waited::Result(value))
        }
        Entry::Describe => Ok(Waited::Description(exported(ctx, state, &request.name, source)?)),
    }
}

/// Turns a first line for the shell (`#!`) into a comment of the same length.
fn readable(source: &str) -> String {
    match source.strip_prefix("#!") {
        Some(rest) => format!("//{rest}"),
        None => source.to_owned(),
    }
}

fn exported<'js>(
    ctx: &Ctx<'js>,
    state: &State<'js>,
    name: &str,
    source: String,
) -> Result<Value<'js>, Stuck> {
    let (module, evaluated) = Module::declare(ctx.clone(), name, source)?.eval()?;
    settled(ctx, state, &evaluated)?;
    let export: Value = module.namespace()?.get("default")?;
    if export.is_undefined() {
        let message = "the module exports nothing; write `export default workflow({ … })`";
        return Err(Stuck::Missing(message.to_owned()));
    }
    Ok(export)
}

/// The function at the end of a path, and the object that holds it.
fn found<'js>(export: Value<'js>, path: &[String]) -> Result<(Value<'js>, Function<'js>), Stuck> {
    let (mut holder, mut found) = (export.clone(), export);
    for step in path {
        let Some(object) = found.as_object() else { return Err(missing(path)) };
        let next: Value = object.get(step.as_str())?;
        holder = std::mem::replace(&mut found, next);
    }
    match found.into_function() {
        Some(function) => Ok((holder, function)),
        None => Err(missing(path)),
    }
}

fn missing(path: &[String]) -> Stuck {
    Stuck::Missing(format!("the workflow has no function `{}`", path.join(".")))
}

fn call<'js>(
    ctx: &Ctx<'js>,
    state: &State<'js>,
    function: &Function<'js>,
    this: Option<Value<'js>>,
    given: Object<'js>,
    request: &Request,
) -> Result<Value<'js>, Stuck> {
    let mut args = Args::new(ctx.clone(), request.arguments.len() + 1);
    if let Some(this) = this {
        args.this(this)?;
    }
    args.push_arg(given)?;
    for (at, argument) in request.arguments.iter().enumerate() {
        let argument = calls::parsed(ctx, argument)?;
        if at == 0 && is_step(&request.entry) {
            also_payload(state, &argument)?;
        }
        args.push_arg(argument)?;
    }
    let value: Value = function.call_arg(args)?;
    if let Some(promise) = value.as_promise() {
        return settled(ctx, state, promise);
    }
    // A promise of the host wraps the value, because the value may have its own `then`.
    let (promise, resolve, _) = ctx.promise()?;
    resolve.call::<_, ()>((value,))?;
    settled(ctx, state, &promise)
}

/// Whether the entry is a step, whose first argument is the run's payload.
fn is_step(entry: &Entry) -> bool {
    match entry {
        Entry::Body => true,
        Entry::Handler(path) => path.first().is_some_and(|first| first == "steps"),
        Entry::Phase(_) | Entry::Syntax(_) | Entry::Describe => false,
    }
}

/// Makes `input.payload` refer to `input` itself, unless the payload has that key. The property is
/// not enumerable.
fn also_payload<'js>(state: &State<'js>, input: &Value<'js>) -> rquickjs::Result<()> {
    match input.as_object() {
        Some(object) if !object.contains_key("payload")? => {
            state.builtins()?.hide(object, "payload", input)
        }
        _ => Ok(()),
    }
}

/// Runs pending jobs, and waits for answers if there are none, until the promise is settled.
fn settled<'js>(
    ctx: &Ctx<'js>,
    state: &State<'js>,
    promise: &Promise<'js>,
) -> Result<Value<'js>, Stuck> {
    loop {
        if state.meter.must_stop() {
            return Err(Exception::throw_message(ctx, "the phase has ended").into());
        }
        if promise.state() != PromiseState::Pending {
            return match promise.result() {
                Some(result) => Ok(result?),
                None => Err(Stuck::NeverSettles),
            };
        }
        if !ctx.execute_pending_job() && !calls::settle_next(ctx, state)? {
            return Err(Stuck::NeverSettles);
        }
    }
}
