//! Log lines of a script: long lines are cut, and lines past the limit are only counted.

use rquickjs::{Ctx, Result, Value};

use super::super::limits::LINE_BYTES;
use super::super::wire::FromChild;
use super::json;
use super::state::State;
use crate::mask::BEYOND;

/// `ctx.log` and `console.log`: logs all arguments as one line.
pub(super) fn log<'js>(
    ctx: &Ctx<'js>,
    state: &State<'js>,
    given: &[Value<'js>],
) -> Result<Value<'js>> {
    let nothing = Value::new_undefined(ctx.clone());
    let limit = state.meter.limits.log_bytes;
    if state.meter.has_ended() || state.log_bytes.get() >= limit {
        state.log_dropped.set(state.log_dropped.get() + 1);
        return Ok(nothing);
    }
    let mut line = String::new();
    for (at, value) in given.iter().enumerate() {
        if at > 0 {
            line.push(' ');
        }
        line.push_str(&shown(ctx, state, value));
        if line.len() > LINE_BYTES {
            break;
        }
    }
    let bytes = line.len();
    // The parent, which knows the secrets, masks the line and cuts it to its final length.
    line.truncate(line.floor_char_boundary(LINE_BYTES + BEYOND));
    let total = state.log_bytes.get() + bytes.min(LINE_BYTES) + 1;
    state.log_bytes.set(total);
    if total > limit {
        state.log_dropped.set(state.log_dropped.get() + 1);
    } else {
        state.channel.borrow_mut().send(&FromChild::Log { line, bytes });
    }
    Ok(nothing)
}

/// Formats a value for the log. Never fails, whatever the value.
fn shown<'js>(ctx: &Ctx<'js>, state: &State<'js>, value: &Value<'js>) -> String {
    let Ok(builtins) = state.builtins() else { return String::new() };
    if let Ok(text) = builtins.text(value) {
        return text;
    }
    if value.is_undefined() {
        return "undefined".to_owned();
    }
    if value.is_error() {
        let message = value.as_object().and_then(|error| error.get::<_, Value>("message").ok());
        let message = message.and_then(|message| builtins.text(&message).ok());
        ctx.catch();
        return message.unwrap_or_else(|| "an Error".to_owned());
    }
    match json::text(ctx, state, value, LINE_BYTES + BEYOND) {
        Ok(text) => text,
        Err(_) => {
            ctx.catch();
            format!("({})", value.type_name())
        }
    }
}
