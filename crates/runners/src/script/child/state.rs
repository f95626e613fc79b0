//! The state that the functions of `ctx` share during one phase.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use rquickjs::function::This;
use rquickjs::{Ctx, Error, Exception, Function, Object, Result, Value};

use super::super::evaluation::{Permits, RegisteredInput, ScriptFailure};
use super::super::limits::Limit;
use super::super::wire::PublishedText;
use super::Channel;
use super::meter::{Ending, Meter};
use super::thrown::{self, SourcePositions};

/// The state of one phase. Functions that the script holds refer to it, and it holds values of the
/// script. The garbage collector does not see that cycle;
/// [`break_cycle`](State::break_cycle) does away with it.
pub(super) struct State<'js> {
    pub(super) meter: Rc<Meter>,
    pub(super) channel: Rc<RefCell<Channel>>,
    pub(super) phase: String,
    pub(super) positions: SourcePositions,
    pub(super) permits: Permits,
    pub(super) secrets: BTreeMap<String, String>,
    pub(super) now: String,
    pub(super) builtins: RefCell<Option<Builtins<'js>>>,
    pub(super) waiting: RefCell<HashMap<u32, Waiting<'js>>>,
    /// Errors that the host reported as transient. They tell whether an uncaught error makes the
    /// phase fail as transient.
    pub(super) transient: RefCell<Vec<Value<'js>>>,
    pub(super) calls: Cell<u32>,
    pub(super) asked_bytes: Cell<usize>,
    pub(super) published: RefCell<Vec<PublishedText>>,
    pub(super) published_bytes: Cell<usize>,
    pub(super) inputs: RefCell<Vec<RegisteredInput>>,
    pub(super) log_bytes: Cell<usize>,
    pub(super) log_dropped: Cell<u64>,
}

/// A call that has not been answered yet.
pub(super) struct Waiting<'js> {
    pub(super) resolve: Function<'js>,
    pub(super) reject: Function<'js>,
    /// Created when the call was made, so that its stack shows where in the script that was.
    pub(super) error: Value<'js>,
}

/// Built-in functions of the interpreter, saved before the script could replace them.
#[derive(Clone)]
pub(super) struct Builtins<'js> {
    error: Function<'js>,
    tag: Function<'js>,
    iso: Function<'js>,
    well_formed: Function<'js>,
    define: Function<'js>,
}

impl<'js> Builtins<'js> {
    pub(super) fn take(ctx: &Ctx<'js>) -> Result<Builtins<'js>> {
        let globals = ctx.globals();
        let of = |class: &str, name: &str| -> Result<Function<'js>> {
            let class: Object = globals.get(class)?;
            let prototype: Object = class.get("prototype")?;
            prototype.get(name)
        };
        Ok(Builtins {
            error: globals.get("Error")?,
            tag: of("Object", "toString")?,
            iso: of("Date", "toISOString")?,
            well_formed: of("String", "toWellFormed")?,
            define: globals.get::<_, Object>("Object")?.get("defineProperty")?,
        })
    }

    /// A new `Error` whose stack shows the current position in the script.
    pub(super) fn error(&self) -> Result<Value<'js>> {
        self.error.call(())
    }

    /// Gives an object a property that is not enumerable.
    pub(super) fn hide(&self, of: &Object<'js>, name: &str, value: &Value<'js>) -> Result<()> {
        let property = Object::new(of.ctx().clone())?;
        property.set("value", value.clone())?;
        property.set("writable", true)?;
        property.set("configurable", true)?;
        self.define.call::<_, Value>((of.clone(), name, property))?;
        Ok(())
    }

    /// The type tag of a value: `Map` for a map, `Date` for a date. A script can choose the tag of
    /// its own objects.
    pub(super) fn tag(&self, value: &Value<'js>) -> Result<String> {
        let tag: Value = self.tag.call((This(value.clone()),))?;
        let text = self.text(&tag)?;
        Ok(text.trim_start_matches("[object ").trim_end_matches(']').to_owned())
    }

    pub(super) fn iso(&self, date: &Value<'js>) -> Result<Value<'js>> {
        self.iso.call((This(date.clone()),))
    }

    /// The text of a string. Unpaired surrogates, which JavaScript allows and UTF-8 does not, are
    /// replaced.
    pub(super) fn text(&self, value: &Value<'js>) -> Result<String> {
        let string =
            value.as_string().ok_or_else(|| Error::new_from_js(value.type_name(), "text"))?;
        match string.to_string() {
            Err(Error::Utf8(_)) => {
                let whole: rquickjs::String = self.well_formed.call((This(value.clone()),))?;
                whole.to_string()
            }
            text => text,
        }
    }
}

impl<'js> State<'js> {
    /// The saved built-in functions; available until the phase has ended.
    pub(super) fn builtins(&self) -> Result<Builtins<'js>> {
        self.builtins.borrow().clone().ok_or(Error::Unknown)
    }

    /// Ends the phase unless the call is permitted. The script cannot catch that.
    pub(super) fn permit(&self, ctx: &Ctx<'js>, permitted: bool, call: &str) -> Result<()> {
        if self.meter.has_ended() {
            return Err(Exception::throw_message(ctx, "the phase has ended"));
        }
        if permitted {
            return Ok(());
        }
        let message = format!("{call} may not be called in {}", self.phase);
        Err(self.abort(ctx, message))
    }

    /// Ends the phase because of a mistake that the script must not catch. The failure contains its
    /// position.
    pub(super) fn abort(&self, ctx: &Ctx<'js>, message: String) -> Error {
        let here = self.builtins().and_then(|builtins| builtins.error());
        let stack = here.ok().and_then(|here| thrown::stack_of(self, &here)).unwrap_or_default();
        self.meter.end(Ending::Failed(self.positions.logic(message, &stack)));
        Exception::throw_message(ctx, "the phase has ended")
    }

    /// Ends the phase because of a limit. The script cannot catch that.
    pub(super) fn exceed(&self, ctx: &Ctx<'js>, what: Limit, message: String) -> Error {
        let error = Exception::throw_range(ctx, &message);
        self.meter.end(Ending::Failed(ScriptFailure::limit(what, message)));
        error
    }

    /// Drops all values of the script.
    pub(super) fn break_cycle(&self) {
        self.builtins.take();
        self.waiting.take();
        self.transient.take();
    }
}
