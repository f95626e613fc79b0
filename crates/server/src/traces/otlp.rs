//! Spans in OTLP: only the messages of `opentelemetry/proto` 1.x that spans need, with the tag
//! numbers of the published files.

use engine::run::Item;
use engine::trace::Span;
use jiff::Timestamp;
use prost::Message;

/// The codes that OTLP defines for `Status`.
const OK: i32 = 1;
const ERROR: i32 = 2;
/// The span kind for neither a request nor a response.
const INTERNAL: i32 = 1;
/// Bits of `flags`: whether it is known where the parent is, and whether the parent is remote.
const REMOTE_KNOWN: u32 = 0x100;
const REMOTE: u32 = 0x200;
const RECORDED: u32 = 1;

#[derive(Clone, PartialEq, Message)]
pub(super) struct Export {
    #[prost(message, repeated, tag = "1")]
    resource_spans: Vec<ResourceSpans>,
}

#[derive(Clone, PartialEq, Message)]
struct ResourceSpans {
    #[prost(message, optional, tag = "1")]
    resource: Option<Resource>,
    #[prost(message, repeated, tag = "2")]
    scope_spans: Vec<ScopeSpans>,
}

#[derive(Clone, PartialEq, Message)]
struct Resource {
    #[prost(message, repeated, tag = "1")]
    attributes: Vec<KeyValue>,
}

#[derive(Clone, PartialEq, Message)]
struct ScopeSpans {
    #[prost(message, optional, tag = "1")]
    scope: Option<Scope>,
    #[prost(message, repeated, tag = "2")]
    spans: Vec<OtlpSpan>,
}

#[derive(Clone, PartialEq, Message)]
struct Scope {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    version: String,
}

#[derive(Clone, PartialEq, Message)]
struct OtlpSpan {
    #[prost(bytes = "vec", tag = "1")]
    trace_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    span_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "4")]
    parent_span_id: Vec<u8>,
    #[prost(string, tag = "5")]
    name: String,
    #[prost(int32, tag = "6")]
    kind: i32,
    #[prost(fixed64, tag = "7")]
    start_time_unix_nano: u64,
    #[prost(fixed64, tag = "8")]
    end_time_unix_nano: u64,
    #[prost(message, repeated, tag = "9")]
    attributes: Vec<KeyValue>,
    #[prost(message, optional, tag = "15")]
    status: Option<Status>,
    #[prost(fixed32, tag = "16")]
    flags: u32,
}

#[derive(Clone, PartialEq, Message)]
struct Status {
    #[prost(string, tag = "2")]
    message: String,
    #[prost(int32, tag = "3")]
    code: i32,
}

#[derive(Clone, PartialEq, Message)]
struct KeyValue {
    #[prost(string, tag = "1")]
    key: String,
    #[prost(message, optional, tag = "2")]
    value: Option<AnyValue>,
}

#[derive(Clone, PartialEq, Message)]
struct AnyValue {
    #[prost(oneof = "Kind", tags = "1, 3")]
    kind: Option<Kind>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
enum Kind {
    #[prost(string, tag = "1")]
    Text(String),
    #[prost(int64, tag = "3")]
    Number(i64),
}

/// The export request for these spans of this node.
pub(super) fn export(service: &str, node: &str, spans: Vec<Span>) -> Export {
    let version = env!("CARGO_PKG_VERSION");
    let attributes = vec![
        text("service.name", service),
        text("service.version", version),
        text("service.instance.id", node),
    ];
    let scope = Scope { name: "punctual".to_owned(), version: version.to_owned() };
    let spans = spans.into_iter().map(written).collect();
    let scope_spans = vec![ScopeSpans { scope: Some(scope), spans }];
    let resource = Some(Resource { attributes });
    Export { resource_spans: vec![ResourceSpans { resource, scope_spans }] }
}

fn written(span: Span) -> OtlpSpan {
    let parent = span.parent.map(|parent| parent.to_be_bytes().to_vec());
    // The parent of a run's span is a caller elsewhere; the parent of an attempt's span is its run.
    let remote = if span.attempt.is_none() && span.parent.is_some() { REMOTE } else { 0 };
    OtlpSpan {
        trace_id: span.context.trace.to_be_bytes().to_vec(),
        span_id: span.context.span.to_be_bytes().to_vec(),
        parent_span_id: parent.unwrap_or_default(),
        name: span.attempt.as_ref().map_or(&span.workflow, |attempt| &attempt.step).clone(),
        kind: INTERNAL,
        start_time_unix_nano: nanoseconds(span.from),
        end_time_unix_nano: nanoseconds(span.to.max(span.from)),
        attributes: attributes(&span),
        status: Some(status(&span)),
        flags: RECORDED | REMOTE_KNOWN | remote,
    }
}

/// A cancelled run or attempt does not count as an error.
fn status(span: &Span) -> Status {
    match &span.error {
        None if matches!(span.status, "succeeded" | "completed") => {
            Status { message: String::new(), code: OK }
        }
        Some(error) if span.status != "cancelled" => {
            Status { message: error.message.clone(), code: ERROR }
        }
        _ => Status::default(),
    }
}

fn attributes(span: &Span) -> Vec<KeyValue> {
    let mut attributes = vec![
        text("punctual.workflow", &span.workflow),
        number("punctual.version", span.version.into()),
        text("punctual.run_id", span.run.to_string()),
        text("punctual.triggered_by", span.triggered_by.name()),
        text("punctual.status", span.status),
    ];
    let handler = span.handler.as_deref().map(|handler| text("punctual.handler", handler));
    attributes.extend(handler);
    attributes.extend(span.schedule.map(|id| text("punctual.schedule_id", id.to_string())));
    attributes.extend(span.occurrence.map(|at| text("punctual.occurrence", at.to_string())));
    if let Some(attempt) = &span.attempt {
        attributes.push(text("punctual.step", &*attempt.step));
        attributes.push(number("punctual.attempt", attempt.attempt.into()));
        if attempt.item != Item::Whole {
            attributes.push(number("punctual.item", attempt.item.number().into()));
        }
    }
    attributes.extend(span.error.as_ref().map(|error| text("error.type", &*error.code)));
    attributes
}

fn text(key: &str, value: impl Into<String>) -> KeyValue {
    let value = AnyValue { kind: Some(Kind::Text(value.into())) };
    KeyValue { key: key.to_owned(), value: Some(value) }
}

fn number(key: &str, value: i64) -> KeyValue {
    let value = AnyValue { kind: Some(Kind::Number(value)) };
    KeyValue { key: key.to_owned(), value: Some(value) }
}

/// Nanoseconds since 1970; zero for anything before.
fn nanoseconds(at: Timestamp) -> u64 {
    u64::try_from(at.as_nanosecond()).unwrap_or_default()
}
