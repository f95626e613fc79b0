//! What the functions of `ctx` share during one phase.

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
use super::thrown::{self, Places};

/// One phase. The functions that the script holds have this, and this holds values of the script:
/// [`let_go`](State::let_go) ends that circle, which no collector sees.
pub(super) struct State<'js> {
    pub(super) meter: Rc<Meter>,
    pub(super) channel: Rc<RefCell<Channel>>,
    pub(super) phase: String,
    pub(super) places: Places,
    pub(super) permits: Permits,
    pub(super) secrets: BTreeMap<String, String>,
    pub(super) now: String,
    pub(super) builtins: RefCell<Option<Builtins<'js>>>,
    pub(super) waiting: RefCell<HashMap<u32, Waiting<'js>>>,
    /// Errors that the network caused, to be told apart from all others when one ends the phase.
    pub(super) transient: RefCell<Vec<Value<'js>>>,
    pub(super) calls: Cell<u32>,
    pub(super) asked_bytes: Cell<usize>,
    pub(super) published: RefCell<Vec<PublishedText>>,
    pub(super) published_bytes: Cell<usize>,
    pub(super) inputs: RefCell<Vec<RegisteredInput>>,
    pub(super) log_bytes: Cell<usize>,
    pub(super) log_dropped: Cell<u64>,
}

/// A call that has no answer yet.
pub(super) struct Waiting<'js> {
    pub(super) resolve: Function<'js>,
    pub(super) reject: Function<'js>,
    /// Made when the call was, so that it knows where that is in the script.
    pub(super) error: Value<'js>,
}

/// Functions of the interpreter, taken before the script could replace them.
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

    /// A new `Error` that knows where the script is now.
    pub(super) fn error(&self) -> Result<Value<'js>> {
        self.error.call(())
    }

    /// Gives an object a property that is not listed among its keys.
    pub(super) fn hide(&self, of: &Object<'js>, name: &str, value: &Value<'js>) -> Result<()> {
        let property = Object::new(of.ctx().clone())?;
        property.set("value", value.clone())?;
        property.set("writable", true)?;
        property.set("configurable", true)?;
        self.define.call::<_, Value>((of.clone(), name, property))?;
        Ok(())
    }

    /// `Map` for a map, `Date` for a date; what a script says of itself for anything else.
    pub(super) fn tag(&self, value: &Value<'js>) -> Result<String> {
        let tag: Value = self.tag.call((This(value.clone()),))?;
        let text = self.text(&tag)?;
        Ok(text.trim_start_matches("[object ").trim_end_matches(']').to_owned())
    }

    pub(super) fn iso(&self, date: &Value<'js>) -> Result<Value<'js>> {
        self.iso.call((This(date.clone()),))
    }

    /// The text of a string. Halves of characters, which scripts may have and UTF-8 may not, are
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
    /// Functions of the interpreter; there until the phase has ended.
    pub(super) fn builtins(&self) -> Result<Builtins<'js>> {
        self.builtins.borrow().clone().ok_or(Error::Unknown)
    }

    /// Ends the phase unless it may make this call. No script can catch that.
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

    /// Ends the phase for a mistake that must not be caught, told with its place.
    pub(super) fn abort(&self, ctx: &Ctx<'js>, message: String) -> Error {
        let here = self.builtins().and_then(|builtins| builtins.error());
        let stack = here.ok().and_then(|here| thrown::stack_of(self, &here)).unwrap_or_default();
        self.meter.end(Ending::Failed(self.places.logic(message, &stack)));
        Exception::throw_message(ctx, "the phase has ended")
    }

    /// Ends the phase because of a limit. No script can catch that.
    pub(super) fn exceed(&self, ctx: &Ctx<'js>, what: Limit, message: String) -> Error {
        let error = Exception::throw_range(ctx, &message);
        self.meter.end(Ending::Failed(ScriptFailure::limit(what, message)));
        error
    }

    /// Drops every value of the script.
    pub(super) fn let_go(&self) {
        self.builtins.take();
        self.waiting.take();
        self.transient.take();
    }
}
