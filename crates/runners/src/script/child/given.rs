//! Reads the arguments that a script passes to host functions. Wrong arguments throw an error that
//! the script may catch.

use rquickjs::{Ctx, Exception, Object, Result, Value};

use super::super::limits::bytes;
use super::json::NoJson;
use super::state::State;

/// The longest text that names something: a topic, id, title or URL.
const NAME_BYTES: usize = 8 << 10;
/// The most events that one call may pass or ask for.
pub(super) const AT_ONCE: u32 = 1_000;

/// Converts a text into a value of the script.
pub(super) fn text<'js>(ctx: &Ctx<'js>, text: &str) -> Result<Value<'js>> {
    Ok(rquickjs::String::from_str(ctx.clone(), text)?.into_value())
}

/// Reads a required text of limited length.
pub(super) fn name<'js>(
    ctx: &Ctx<'js>,
    state: &State<'js>,
    value: Option<&Value<'js>>,
    what: &str,
) -> Result<String> {
    let text = match value {
        Some(value) if value.is_string() => state.builtins()?.text(value)?,
        _ => return Err(Exception::throw_type(ctx, &format!("{what} must be a text"))),
    };
    if text.is_empty() {
        return Err(Exception::throw_type(ctx, &format!("{what} is empty")));
    }
    if text.len() > NAME_BYTES {
        let message = format!("{what} has more than {}", bytes(NAME_BYTES));
        return Err(Exception::throw_range(ctx, &message));
    }
    Ok(text)
}

/// The `title` of an object of fields. An empty title counts as none, because data from outside
/// often has an empty one.
pub(super) fn title<'js>(
    ctx: &Ctx<'js>,
    state: &State<'js>,
    fields: &Object<'js>,
    what: &str,
) -> Result<Option<String>> {
    let Some(title) = field(fields, "title")? else { return Ok(None) };
    if title.as_string().is_some() && state.builtins()?.text(&title)?.is_empty() {
        return Ok(None);
    }
    name(ctx, state, Some(&title), what).map(Some)
}

/// Reads a list of texts, each checked by [`name`].
pub(super) fn names<'js>(
    ctx: &Ctx<'js>,
    state: &State<'js>,
    list: &Value<'js>,
    what: &str,
) -> Result<Vec<String>> {
    let each = format!("each of {what}");
    items(ctx, list, what)?.iter().map(|item| name(ctx, state, Some(item), &each)).collect()
}

/// The items of a list of limited length.
pub(super) fn items<'js>(ctx: &Ctx<'js>, list: &Value<'js>, what: &str) -> Result<Vec<Value<'js>>> {
    let Some(array) = list.as_array() else {
        return Err(Exception::throw_type(ctx, &format!("{what} must be a list")));
    };
    if array.len() > AT_ONCE as usize {
        return Err(Exception::throw_range(ctx, &format!("{what} are more than {AT_ONCE}")));
    }
    (0..array.len()).map(|at| array.get(at)).collect()
}

/// Reads an object that is neither a list nor a function.
pub(super) fn object<'js>(ctx: &Ctx<'js>, value: &Value<'js>, what: &str) -> Result<Object<'js>> {
    match value.as_object() {
        Some(object) if !value.is_array() && !value.is_function() => Ok(object.clone()),
        _ => Err(Exception::throw_type(ctx, &format!("{what} must be an object"))),
    }
}

/// A field, unless it is missing, undefined or null.
pub(super) fn field<'js>(object: &Object<'js>, key: &str) -> Result<Option<Value<'js>>> {
    let value: Value = object.get(key)?;
    Ok(Some(value).filter(|value| !value.is_undefined() && !value.is_null()))
}

/// Turns a failed conversion to JSON into an error that the script may catch.
pub(super) fn unfit(ctx: &Ctx<'_>, why: NoJson, what: &str) -> rquickjs::Error {
    match why {
        NoJson::Thrown(error) => error,
        NoJson::Foreign(why) => Exception::throw_type(ctx, &format!("{what} is no JSON: {why}")),
        NoJson::TooDeep => {
            Exception::throw_range(ctx, &format!("{what} is nested too deep or in a circle"))
        }
        NoJson::TooLong => Exception::throw_range(ctx, &format!("{what} is too long")),
    }
}
