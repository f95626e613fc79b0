//! The results that phases of a handler return, and the errors for malformed ones.

use jiff::Timestamp;
use jiff::civil;
use language::definition::limits;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::run::family::too_many_hops;
use crate::topics::Message;

/// Why the result of a phase is invalid.
pub(super) struct Wrong {
    pub(super) code: &'static str,
    pub(super) message: String,
    pub(super) retryable: bool,
}

impl Wrong {
    fn result(message: impl Into<String>) -> Wrong {
        Wrong { code: "result", message: message.into(), retryable: false }
    }

    pub(super) fn reservation(message: impl Into<String>) -> Wrong {
        Wrong { code: "reservation", message: message.into(), retryable: false }
    }

    pub(super) fn in_a_loop() -> Wrong {
        Wrong { code: "loop", ..Wrong::result(too_many_hops()) }
    }

    pub(super) fn twice(topic: &str) -> Wrong {
        Wrong::reservation(format!("an event of topic {topic} is reserved twice"))
    }

    pub(super) fn topic(name: &str, what: &str) -> Wrong {
        let name: String = name.chars().take(80).collect();
        Wrong {
            code: "topic",
            ..Wrong::result(format!("this handler may not {what} topic {name}"))
        }
    }
}

/// The result of a producer, or of the last phase of a consumer.
pub(super) struct Produced {
    /// The new state; `None` keeps the earlier one.
    pub(super) state: Option<Box<RawValue>>,
    pub(super) publish: Vec<ToPublish>,
    /// The inputs from which the published events were derived.
    pub(super) inputs: Option<Value>,
    pub(super) log: Option<Value>,
}

/// An event to publish.
pub(super) struct ToPublish {
    pub(super) topic: String,
    pub(super) message: Message,
}

#[derive(Deserialize)]
struct WrittenProduced {
    state: Option<Box<RawValue>>,
    #[serde(default)]
    publish: Vec<WrittenEvent>,
    inputs: Option<Value>,
    log: Option<Value>,
}

#[derive(Deserialize)]
struct WrittenEvent {
    topic: String,
    #[serde(alias = "messageId")]
    message_id: String,
    title: Option<String>,
    payload: Option<Box<RawValue>>,
    #[serde(default, alias = "causedBy", alias = "caused_by")]
    causes: Vec<String>,
}

impl Produced {
    pub(super) fn read(output: &RawValue) -> Result<Produced, Wrong> {
        // A command or a server without a result returns null.
        if output.get() == "null" {
            return Ok(Produced { state: None, publish: Vec::new(), inputs: None, log: None });
        }
        let shape = "an object with `state` and `publish`, a list of events";
        let mut written: WrittenProduced = serde_json::from_str(output.get()).map_err(|error| {
            let error = calendar::without_type_names(&error.to_string());
            Wrong::result(format!("the result is not {shape}: {error}"))
        })?;
        if written.publish.len() > limits::EVENTS {
            let count = written.publish.len();
            let most = limits::EVENTS;
            return Err(Wrong::result(format!("{count} events are published, at most {most}")));
        }
        if written.state.as_ref().is_some_and(|s| s.get().len() > limits::OUTPUT_BYTES) {
            let most = limits::OUTPUT_BYTES;
            return Err(Wrong::result(format!("the state is larger than {most} bytes")));
        }
        let publish = std::mem::take(&mut written.publish).into_iter().map(WrittenEvent::checked);
        let publish = publish.collect::<Result<Vec<_>, _>>()?;
        let WrittenProduced { state, inputs, log, .. } = written;
        Ok(Produced { state, publish, inputs, log })
    }
}

impl WrittenEvent {
    fn checked(self) -> Result<ToPublish, Wrong> {
        let WrittenEvent { topic, message_id, title, payload, causes } = self;
        let payload = payload.unwrap_or_else(|| RawValue::NULL.to_owned());
        let checked = limits::check_message(&message_id, title.as_deref(), payload.get());
        checked.map_err(|why| Wrong::result(format!("an event cannot be published: {why}")))?;
        if causes.len() > limits::CAUSES {
            let most = limits::CAUSES;
            return Err(Wrong::result(format!("an event has more than {most} causes")));
        }
        Ok(ToPublish { topic, message: Message { message_id, title, payload, causes } })
    }
}

/// The result of a consumer's prepare phase.
pub(super) struct Reserved {
    pub(super) reservations: Vec<Reservation>,
    pub(super) data: Value,
    pub(super) wake_at: Option<Timestamp>,
    pub(super) log: Option<Value>,
}

/// Events of one topic that a run reserves.
#[derive(Deserialize, Serialize)]
pub(super) struct Reservation {
    pub(super) topic: String,
    pub(super) ids: Vec<String>,
}

#[derive(Deserialize)]
struct WrittenReserved {
    #[serde(default)]
    reservations: Option<Vec<Reservation>>,
    #[serde(default)]
    data: Value,
    #[serde(default, alias = "wakeAt")]
    wake_at: Value,
    log: Option<Value>,
}

impl Reserved {
    pub(super) fn read(output: &RawValue) -> Result<Reserved, Wrong> {
        let shape = "an object with `reservations`, a list of {topic, ids}";
        let text = if output.get() == "null" { "{}" } else { output.get() };
        let written: WrittenReserved = serde_json::from_str(text).map_err(|error| {
            let error = calendar::without_type_names(&error.to_string());
            Wrong::result(format!("the result is not {shape}: {error}"))
        })?;
        let wake_at = wake_at(&written.wake_at)?;
        let mut reservations = written.reservations.unwrap_or_default();
        reservations.retain(|reservation| !reservation.ids.is_empty());
        Ok(Reserved { reservations, data: written.data, wake_at, log: written.log })
    }
}

/// Reads the time at which a consumer wants to wake. A time outside the representable range becomes
/// the first or last representable one; the caller clamps it anyway.
pub(super) fn wake_at(written: &Value) -> Result<Option<Timestamp>, Wrong> {
    match written {
        Value::Null => Ok(None),
        Value::Number(ms) => {
            let ms = ms.as_f64().unwrap_or_default();
            let (first, last) = (Timestamp::MIN, Timestamp::MAX);
            let ms = ms.clamp(first.as_millisecond() as f64, last.as_millisecond() as f64);
            Ok(Some(Timestamp::from_millisecond(ms as i64).unwrap_or(last)))
        }
        Value::String(text) => read_time(text).map(Some).ok_or_else(|| {
            let text: String = text.chars().take(80).collect();
            Wrong::result(format!("wakeAt {text:?} is no time such as 2026-03-01T09:00:00Z"))
        }),
        _ => Err(Wrong::result("wakeAt is neither a text nor a number of milliseconds")),
    }
}

fn read_time(text: &str) -> Option<Timestamp> {
    if let Ok(at) = text.parse() {
        return Some(at);
    }
    let utc = jiff::tz::TimeZone::UTC;
    if let Ok(at) = text.parse::<civil::DateTime>() {
        return at.to_zoned(utc).ok().map(|at| at.timestamp());
    }
    // JavaScript writes years beyond four digits with a sign and six digits.
    let (sign, rest) = text.split_at_checked(1)?;
    let year = rest.split('-').next()?;
    let is_far = year.len() == 6 && year.bytes().all(|b| b.is_ascii_digit());
    match sign {
        "+" if is_far => Some(Timestamp::MAX),
        "-" if is_far => Some(Timestamp::MIN),
        _ => None,
    }
}
