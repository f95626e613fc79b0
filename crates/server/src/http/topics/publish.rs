//! Publishes events: one or many, all of them or none.

use axum::extract::State;
use axum::http::StatusCode;
use engine::topics::Message;
use engine::turn::{Answer, Command};
use language::definition::limits;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::error::Category;
use serde_json::value::RawValue;
use store::Commanded;
use utoipa::ToSchema;

use super::Whose;
use super::find::{TopicPath, find};
use crate::http::App;
use crate::http::access::Caller;
use crate::http::answer::{self, Answered};
use crate::http::body::{LARGEST_BATCH, RawBody, read_json, unreadable};
use crate::http::problem::{Problem, Wrong};
use crate::http::query::Query;
use crate::http::shapes;

/// How many errors a response lists.
const TOLD: usize = 100;

/// An event to publish.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct EventInput {
    /// An id that is unique in the topic. Publishing the same id again replaces the content, and
    /// keeps the state.
    #[serde(alias = "messageId")]
    #[schema(value_type = String, min_length = 1)]
    message_id: Option<String>,
    /// A line for people.
    title: Option<String>,
    /// The content, for programs: any JSON.
    #[schema(value_type = Option<Value>)]
    payload: Option<Box<RawValue>>,
    /// Ids of the inputs or other events that caused it.
    #[serde(default)]
    causes: Vec<String>,
}

/// The result of publishing events.
#[derive(Debug, Serialize, ToSchema)]
struct Published {
    /// How many events are new.
    published: u64,
    /// How many events existed already, and were replaced.
    replaced: u64,
}

/// Publishes one event or a list of up to 10,000: all of them or none. Subscribers are woken.
#[utoipa::path(post, path = "/topics/{topic}/events", tag = "topics",
    request_body(content = shapes::EventsInput, description = "A list of events, or one"),
    params(("topic" = String, Path, description = "Name or id"),
        ("workflow" = Option<String>, Query, description = "Whose, if several have one of that name"),
        ("Idempotency-Key" = Option<String>, Header, description = "Asking twice does once")),
    responses((status = 201, body = Published), (status = 404, body = Problem),
        (status = 409, body = Problem,
            description = "Several have that name, or too many steps wait for so many events"),
        (status = 413, body = Problem, description = "The body, or a payload"),
        (status = 422, body = Problem)))]
pub(super) async fn publish(
    State(app): State<App>,
    caller: Caller,
    TopicPath(topic): TopicPath,
    Query(whose): Query<Whose>,
    body: RawBody<LARGEST_BATCH>,
) -> Answered {
    body.require_json()?;
    let topic = find(&app, &topic, whose.workflow.as_deref()).await?.topic.id;
    let RawBody { text, idempotency, .. } = body;
    // Parsing thousands of events takes a while, so it must not block other requests.
    let read = tokio::task::spawn_blocking(move || read(&text));
    let events = read.await.map_err(|_| Problem::unavailable("The events were not read."))??;
    let command = Command::PublishEvents { topic, events };
    let commanded = app.command(&caller, command, idempotency).await?;
    published(commanded, StatusCode::CREATED)
}

/// Responds with the result of publishing events.
pub(in crate::http) fn published(commanded: Commanded, status: StatusCode) -> Answered {
    let Answer::Published { published, replaced } = commanded.answer else {
        return Err(Problem::unavailable("The store answers something else."));
    };
    let response = answer::json(status, &Published { published, replaced })?;
    Ok(answer::replayed(response, commanded.replayed))
}

/// The events in a body, or everything that is wrong with them.
fn read(text: &str) -> Result<Vec<Message>, Problem> {
    match text.trim_start().as_bytes().first() {
        None => Err(Problem::bad_request("The body is empty. Send an event, or a list of them.")),
        Some(b'{') => {
            serde_json::from_str::<IgnoredAny>(text).map_err(|error| unreadable(&error))?;
            let event = read_one(text)?;
            check_event(&event)?;
            Ok(vec![event])
        }
        Some(_) => read_list(text),
    }
}

fn read_list(text: &str) -> Result<Vec<Message>, Problem> {
    let listed: Vec<&RawValue> =
        serde_json::from_str(text).map_err(|error| match error.classify() {
            Category::Data => {
                Problem::invalid([Wrong::new("", "type", "expected an event, or a list of them")])
            }
            _ => unreadable(&error),
        })?;
    if listed.len() > limits::EVENTS {
        let message = format!("{} events at once", listed.len());
        let wrong = Wrong::new("", "limit", message).allow(format!("up to {}", limits::EVENTS));
        return Err(Problem::invalid([wrong]));
    }
    let (mut events, mut wrong, mut too_large) = (Vec::with_capacity(listed.len()), vec![], None);
    for (index, item) in listed.into_iter().enumerate() {
        let path = format!("[{index}]");
        let read = read_one(item.get()).and_then(|event| check_event(&event).map(|()| event));
        match read {
            Ok(event) => events.push(event),
            Err(problem) => {
                if problem.status() == StatusCode::PAYLOAD_TOO_LARGE {
                    too_large.get_or_insert(wrong.len());
                }
                let mistakes = problem.into_errors().into_iter().map(|wrong| under(&path, wrong));
                wrong.extend(mistakes);
            }
        }
    }
    match (too_large, wrong.is_empty()) {
        (_, true) => Ok(events),
        // A value that is too large is reported first: the other errors do not matter until it
        // fits.
        (Some(at), _) => Err(Problem::too_large_value(wrong.swap_remove(at))),
        (None, _) => Err(many(wrong)),
    }
}

fn many(mut wrong: Vec<Wrong>) -> Problem {
    let all = wrong.len();
    wrong.truncate(TOLD);
    let mut problem = Problem::invalid(wrong);
    if all > TOLD {
        problem.add_detail(&format!("{all} mistakes in all; the first {TOLD} are told."));
    }
    problem
}

/// Prefixes the path of an error.
fn under(path: &str, mut wrong: Wrong) -> Wrong {
    let dot = if wrong.path.is_empty() { "" } else { "." };
    wrong.path = format!("{path}{dot}{}", wrong.path);
    wrong
}

fn read_one(text: &str) -> Result<Message, Problem> {
    // Serde would also accept a list of values in the order of the fields.
    if !text.trim_start().starts_with('{') {
        return Err(Problem::invalid([Wrong::new("", "type", "expected an object")]));
    }
    let EventInput { message_id, title, payload, causes } = read_json(text)?;
    let message_id = message_id.ok_or_else(|| {
        let wrong = Wrong::new("message_id", "missing", "what tells it from others is missing");
        Problem::invalid([wrong.suggest("\"message_id\": \"order-4711\"")])
    })?;
    let payload = payload.unwrap_or_else(|| RawValue::NULL.to_owned());
    Ok(Message { message_id, title, payload, causes })
}

/// Checks that an event can be stored and read again later.
pub(in crate::http) fn check_event(event: &Message) -> Result<(), Problem> {
    let Message { message_id, title, payload, causes } = event;
    let bytes = payload.get().len();
    if bytes > limits::PAYLOAD_BYTES {
        let wrong = Wrong::new("payload", "too-large", format!("has {bytes} bytes"));
        let allowed = format!("at most {} KiB", limits::PAYLOAD_BYTES / 1024);
        return Err(Problem::too_large_value(wrong.allow(allowed)));
    }
    let mut wrong = Vec::new();
    let mut check = |path: &str, found: Result<(), String>| {
        if let Err(allowed) = found {
            wrong.push(Wrong::new(path, "limit", "cannot be kept").allow(allowed));
        }
    };
    check("message_id", limits::check_message(message_id, None, ""));
    check("title", limits::check_message("m", title.as_deref(), ""));
    if causes.len() > limits::CAUSES {
        check("causes", Err(format!("at most {}", limits::CAUSES)));
    }
    for (at, cause) in causes.iter().enumerate().take(limits::CAUSES) {
        check(&format!("causes[{at}]"), limits::check_message(cause, None, ""));
    }
    if let Err(error) = serde_json::from_str::<Value>(payload.get()) {
        let message = format!("cannot be read again: {error}");
        wrong.push(Wrong::new("payload", "json", message));
    }
    if wrong.is_empty() { Ok(()) } else { Err(Problem::invalid(wrong)) }
}
