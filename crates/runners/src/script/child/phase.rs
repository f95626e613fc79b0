//! Evaluates one phase in its own interpreter.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use rquickjs::{Context, Ctx, Error, Runtime, Value};

use super::super::evaluation::ScriptFailure;
use super::super::limits::{Limit, ScriptLimits, bytes};
use super::super::wire::{Done, FromChild, Outcome, Request};
use super::Channel;
use super::entry::{self, Stuck, Waited};
use super::json::{self, NoJson};
use super::meter::{Ending, Meter};
use super::state::{Builtins, State};
use super::thrown::{self, SourcePositions};

/// Evaluates a phase and sends the result. The result is sent before the interpreter is dropped, so
/// that the parent gets it even if a script made the interpreter crash on being dropped.
pub(super) fn evaluate(request: Request, limits: &ScriptLimits, channel: &Rc<RefCell<Channel>>) {
    let meter = Rc::new(Meter::start(limits));
    let interpreter = interpreter(limits, &meter);
    let done = match &interpreter {
        Ok((_, context)) => context.with(|ctx| {
            let state = Rc::new(state(&request, meter, channel));
            let done = run(&ctx, &state, &request);
            state.break_cycle();
            done
        }),
        Err(error) => {
            let message = format!("no interpreter can be made: {error}");
            Done {
                outcome: Outcome::Failed(ScriptFailure::Unavailable { message }),
                log_dropped: 0,
            }
        }
    };
    channel.borrow_mut().send(&FromChild::Done(Box::new(done)));
}

fn interpreter(limits: &ScriptLimits, meter: &Rc<Meter>) -> Result<(Runtime, Context), Error> {
    let runtime = Runtime::new()?;
    runtime.set_memory_limit(limits.heap_bytes);
    runtime.set_max_stack_size(limits.stack_bytes);
    let meter = Rc::clone(meter);
    runtime.set_interrupt_handler(Some(Box::new(move || meter.must_stop())));
    let context = Context::full(&runtime)?;
    Ok((runtime, context))
}

fn state<'js>(request: &Request, meter: Rc<Meter>, channel: &Rc<RefCell<Channel>>) -> State<'js> {
    let indent = entry::head(&request.entry).map_or(0, |head| head.len());
    State {
        meter,
        channel: Rc::clone(channel),
        phase: request.phase.clone(),
        positions: SourcePositions::new(&request.name, &request.source.0, indent),
        permits: request.permits,
        secrets: request.secrets.clone(),
        now: request.now.clone(),
        builtins: RefCell::default(),
        waiting: RefCell::default(),
        transient: RefCell::default(),
        calls: Cell::default(),
        asked_bytes: Cell::default(),
        published: RefCell::default(),
        published_bytes: Cell::default(),
        inputs: RefCell::default(),
        log_bytes: Cell::default(),
        log_dropped: Cell::default(),
    }
}

fn run<'js>(ctx: &Ctx<'js>, state: &Rc<State<'js>>, request: &Request) -> Done {
    let outcome = match ran(ctx, state, request) {
        Ok(outcome) => outcome,
        Err(failure) => Outcome::Failed(failure),
    };
    // The recorded ending takes precedence over what the script returned or threw.
    let outcome = match state.meter.take_ending() {
        Some(Ending::Failed(failure)) => Outcome::Failed(failure),
        Some(Ending::Mutation { kind, request }) => Outcome::Mutation { kind, request },
        None => outcome,
    };
    Done { outcome, log_dropped: state.log_dropped.get() }
}

fn ran<'js>(
    ctx: &Ctx<'js>,
    state: &Rc<State<'js>>,
    request: &Request,
) -> Result<Outcome, ScriptFailure> {
    let builtins = Builtins::take(ctx).map_err(|error| told(ctx, state, error))?;
    state.builtins.replace(Some(builtins));
    let waited = entry::run(ctx, state, request).map_err(|stuck| match stuck {
        Stuck::Thrown(error) => told(ctx, state, error),
        Stuck::Missing(message) => ScriptFailure::logic(message),
        Stuck::NeverSettles => ScriptFailure::logic(
            "the script never settles: it waits for a promise, and nothing is under way that \
             could settle it",
        ),
    })?;
    let limit = state.meter.limits.result_bytes;
    let value = match &waited {
        Waited::Result(value) => json::raw(ctx, state, value, limit),
        Waited::Description(value) => json::description(ctx, state, value, limit),
    };
    let value = value.map_err(|why| no_result(ctx, state, why))?;
    let (published, inputs) = (state.published.take(), state.inputs.take());
    Ok(Outcome::Value { value, published, inputs })
}

fn no_result<'js>(ctx: &Ctx<'js>, state: &State<'js>, why: NoJson) -> ScriptFailure {
    match why {
        NoJson::Thrown(error) => told(ctx, state, error),
        NoJson::Foreign(why) => ScriptFailure::logic(format!("the result is no JSON: {why}")),
        NoJson::TooDeep => {
            ScriptFailure::limit(Limit::Result, "the result is nested too deep, or in a circle")
        }
        NoJson::TooLong => {
            let limit = bytes(state.meter.limits.result_bytes);
            ScriptFailure::limit(Limit::Result, format!("the result has more than {limit}"))
        }
    }
}

fn told<'js>(ctx: &Ctx<'js>, state: &State<'js>, error: Error) -> ScriptFailure {
    match error {
        Error::Exception => {
            let thrown: Value = ctx.catch();
            thrown::told(ctx, state, &thrown)
        }
        Error::InvalidString(_) => ScriptFailure::logic("the text has a NUL character"),
        Error::Allocation => thrown::memory(state.meter.limits.heap_bytes),
        // A string that could not be copied out of the interpreter leaves an exception behind.
        _ if ctx.has_exception() => {
            let thrown: Value = ctx.catch();
            thrown::told(ctx, state, &thrown)
        }
        other => ScriptFailure::logic(other.to_string()),
    }
}
