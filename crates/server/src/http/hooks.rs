//! Webhook triggers: calls from outside that start workflows, or are published to a topic.

use std::str::FromStr;
use std::time::Duration;

use axum::extract::{FromRequest, FromRequestParts, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, StatusCode};
use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use engine::WorkflowId;
use engine::topics::Message;
use engine::turn::{Answer, Command, IfBusy, NewRun, Starter, WorkflowStatus};
use jiff::Timestamp;
use language::definition::{TopicDeclaration, Trigger, TriggerKind};
use language::expression::{self, Scope};
use runners::WebhookKey;
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};
use store::Idempotency;
use tokio::time::{Instant, sleep_until};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::access::Uninvited;
use super::answer::{self, Answered};
use super::body::{RawBody, read_json};
use super::path::part;
use super::problem::{Problem, Wrong};
use super::query::Query;
use super::shapes;
use super::{App, topics};
use crate::webhooks::{Signed, verify};

/// A key that never signs anything. Calls are checked with it where there is no trigger, so that
/// the answer takes as long.
const NO_KEY: &str = "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
/// Refused calls are answered at multiples of this. It is ten times what finding a trigger takes in
/// a definition of 240 KB.
const REFUSAL_SLOT: Duration = Duration::from_millis(5);
/// The name shown as the starter of such runs.
const BY_CALL: &str = "webhook";
/// Parts of the names of headers that carry credentials. Such headers are not passed on.
const SECRET_BEARING: [&str; 7] =
    ["authorization", "cookie", "token", "secret", "signature", "password", "key"];

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(call))
}

#[derive(Serialize, ToSchema)]
pub(super) struct HookCalled {
    /// The run that was started.
    run_id: String,
}

/// Calls a webhook trigger: starts its workflow, or publishes the call to a topic.
/// If the trigger has a secret, the call must be signed as Standard Webhooks says, and needs no
/// token; otherwise the caller needs a token with the permission to operate. A repeated call with
/// the same `webhook-id` gets the same response, and has no effect. A published event has the
/// `webhook-id` as its message id, or a hash of the body if there is none.
#[utoipa::path(post, path = "/hooks/{workflow}/{trigger}", tag = "hooks",
    request_body(content((Value = "application/json"), (Option<String> = "text/plain")),
        description = "Any JSON, or a text; nothing is null"),
    params(("workflow" = String, Path, description = "Name or id of the workflow"),
        ("trigger" = String, Path, description = "Id of the trigger"),
        ("traceparent" = Option<String>, Header, description = "The run is in this trace")),
    responses((status = 202, body = shapes::HookAnswered, description = "The run; or, where calls are published, \
            how many are new and how many were replaced"),
        (status = 401, body = Problem, description = "Not signed with the secret, or no token"),
        (status = 403, body = Problem), (status = 404, body = Problem),
        (status = 409, body = Problem, description = "The trigger is paused"),
        (status = 421, body = Problem), (status = 422, body = Problem)))]
async fn call(State(app): State<App>, request: Request) -> Answered {
    let (mut parts, content) = request.into_parts();
    let (workflow, trigger) = names(&app, &mut parts).await?;
    let uninvited = parts.extensions.remove().map(|Uninvited(problem)| problem);
    let (headers, path) = (parts.headers.clone(), parts.uri.path().to_owned());
    let request = Request::from_parts(parts, content);
    // The body is read before anything is decided, so an error in it does not reveal whether the
    // trigger exists.
    let body = <RawBody as FromRequest<()>>::from_request(request, &()).await?;
    let begun = Instant::now();
    let found = find(&app, &workflow, trigger).await?;
    let secret = found.as_ref().and_then(|hook| hook.secret.as_deref());
    let believed = match secret {
        Some(secret) => believed(&app, secret, &headers, &body).map(Some),
        None => {
            disbelieve(&headers, &body, app.now());
            Ok(Signed::from(&headers).id)
        }
    };
    // A caller without permission must not learn which triggers exist: the response is the same for
    // all, and takes as long.
    let is_let_in = secret.is_some() && believed.is_ok();
    if let Some(problem) = uninvited.filter(|_| !is_let_in) {
        sleep_until(begun + refused_after(begun.elapsed())).await;
        return Err(problem);
    }
    let hook = found.ok_or_else(|| Problem::not_found("webhook trigger", &path))?;
    let id = believed?;
    let payload = payload(&hook, &headers, &body)?;
    if let Some(topic) = &hook.publishes {
        return publish(&app, &hook, topic, id, payload, &body).await;
    }
    let idempotency = id.map(|id| once(&hook, id, &body)).or_else(|| body.idempotency.clone());
    let (by, trace) = (BY_CALL.to_owned(), body.trace);
    let run = NewRun {
        id: app.new_run_id(),
        payload,
        by: Starter::Caller(by),
        trace,
        if_busy: IfBusy::Wait,
    };
    let command = Command::CallTrigger { id: hook.workflow, trigger: hook.trigger, run };
    let commanded = app.hub().command(command, idempotency).await?;
    let Answer::Run(run_id) = commanded.answer else {
        return Err(Problem::unavailable("The store answers something else."));
    };
    accepted(&HookCalled { run_id }, commanded.replayed)
}

/// Publishes the call as an event. Its message id is the call's id, or a hash of the body.
async fn publish(
    app: &App,
    hook: &Hook,
    topic: &TopicDeclaration,
    id: Option<&str>,
    payload: Option<Box<RawValue>>,
    body: &RawBody,
) -> Answered {
    if !hook.enabled {
        let trigger = &hook.trigger;
        let detail = format!("Trigger {trigger} is paused: nothing was published.");
        return Err(Problem::conflict(detail));
    }
    let found = topics::declared(app, hook.workflow, topic).await?;
    let found = found.ok_or_else(|| Problem::not_found("topic", &topic.name))?;
    let by_content = || format!("sha256-{}", URL_SAFE_NO_PAD.encode(Sha256::digest(&body.text)));
    let event = Message {
        message_id: id.filter(|id| !id.is_empty()).map_or_else(by_content, str::to_owned),
        title: None,
        payload: payload.unwrap_or_else(|| RawValue::NULL.to_owned()),
        causes: Vec::new(),
    };
    topics::check_event(&event)?;
    let idempotency = id.map(|id| once(hook, id, body)).or_else(|| body.idempotency.clone());
    let events = vec![event];
    let command = Command::PublishEvents { topic: found.topic.id, events };
    let commanded = app.hub().command(command, idempotency).await?;
    topics::published(commanded, StatusCode::ACCEPTED)
}

fn accepted(called: &HookCalled, is_replayed: bool) -> Result<Response, Problem> {
    let response = answer::json(StatusCode::ACCEPTED, called)?;
    Ok(answer::replayed(response, is_replayed))
}

struct Hook {
    workflow: WorkflowId,
    trigger: String,
    /// Whether the definition enables the trigger.
    enabled: bool,
    /// The name of the secret that calls are signed with.
    secret: Option<String>,
    /// The template of the run's payload; the body, if there is none.
    payload: Option<Value>,
    /// The topic that calls are published to, if they start no run.
    publishes: Option<TopicDeclaration>,
}

/// The names of the workflow and the trigger, from the path.
async fn names(app: &App, parts: &mut Parts) -> Result<(String, String), Problem> {
    let workflow = part(parts, app, "workflow").await?;
    let trigger = part(parts, app, "trigger").await?;
    Query::<()>::from_request_parts(parts, app).await?;
    Ok((workflow, trigger))
}

/// How long after reading a call its refusal is answered: at the end of the current slot.
///
/// Finding a trigger takes longer than finding none, and longer for a large definition. From the
/// response time a caller without permission could tell what exists. So a refusal waits until its
/// slot ends. Work that fits into one slot takes the same time for all, and where a busy node needs
/// longer, the time reveals only the number of slots. The definition is not cached for this: nodes
/// on one store would have to notify each other of every change. The caller's own upload does not
/// count, because the body is read before.
fn refused_after(passed: Duration) -> Duration {
    let slots = passed.as_micros() / REFUSAL_SLOT.as_micros() + 1;
    REFUSAL_SLOT.saturating_mul(u32::try_from(slots).unwrap_or(u32::MAX))
}

async fn find(app: &App, workflow: &str, trigger: String) -> Result<Option<Hook>, Problem> {
    let Some(view) = app.store().workflow(workflow, None).await? else { return Ok(None) };
    let is_it = |known: &&Trigger| known.id == trigger;
    let known = view.definition.triggers.iter().find(is_it);
    let Some(known) = known else { return Ok(None) };
    let TriggerKind::Webhook { secret, payload, publish } = &known.kind else { return Ok(None) };
    let is_live = view.workflow.live == Some(view.revision);
    let publishes = publish.as_ref().and_then(|name| view.definition.topic(name).cloned());
    // The engine refuses to start runs of a workflow that is not live. Publishing to a topic has no
    // such check, so it is made here.
    if publishes.is_some() && !(is_live && view.workflow.status == WorkflowStatus::Published) {
        return Ok(None);
    }
    Ok(Some(Hook {
        workflow: view.workflow.id,
        trigger,
        enabled: known.enabled,
        secret: secret.clone(),
        payload: payload.clone(),
        publishes,
    }))
}

/// The call's id, if the call was signed with the secret. The secret may hold several keys,
/// separated by spaces, for a rotation from one to the next.
fn believed<'a>(
    app: &App,
    secret: &str,
    headers: &'a HeaderMap,
    body: &RawBody,
) -> Result<&'a str, Problem> {
    let unusable = |why: &str| {
        tracing::error!(secret, why, "calls of a webhook trigger cannot be checked");
        Problem::unavailable("Calls cannot be checked now. Try again later.")
    };
    let value = app.secrets().get(secret).ok_or_else(|| unusable("there is no such secret"))?;
    let keys = value.split_whitespace().map(WebhookKey::from_str).collect::<Result<Vec<_>, _>>();
    let keys = keys.map_err(|error| unusable(&error.to_string()))?;
    let verified = verify(&keys, Signed::from(headers), body.text.as_bytes(), app.now());
    verified.map_err(|why| {
        // The caller learns the reason only if they may operate.
        tracing::debug!(secret, %why, "a call of a webhook trigger is not believed");
        let status = StatusCode::UNAUTHORIZED;
        Problem::new(status, "unauthorized", "Unauthorized", why.to_string())
    })
}

/// Takes as long as a real check, where there is no secret to check a call with.
fn disbelieve(headers: &HeaderMap, body: &RawBody, now: Timestamp) {
    let none = WebhookKey::from_str(NO_KEY).into_iter().collect::<Vec<_>>();
    let _ = verify(&none, Signed::from(headers), body.text.as_bytes(), now);
}

/// Makes a repeated call take effect once. Keys that callers send have no spaces, so they never
/// collide with these.
fn once(hook: &Hook, id: &str, body: &RawBody) -> Idempotency {
    let key = format!("hook {} {} {id}", hook.workflow, hook.trigger);
    Idempotency { key, fingerprint: Sha256::digest(&body.text).into() }
}

fn payload(
    hook: &Hook,
    headers: &HeaderMap,
    body: &RawBody,
) -> Result<Option<Box<RawValue>>, Problem> {
    let kind = body.content_type.as_deref().unwrap_or_default();
    let is_json = kind == "application/json" || kind.ends_with("+json");
    let content: Box<RawValue> = match &*body.text {
        "" => RawValue::NULL.to_owned(),
        text if is_json => {
            body.require_json()?;
            read_json(text)?
        }
        text => written(&Value::from(text))?,
    };
    let Some(template) = &hook.payload else { return Ok(Some(content)) };
    let input = json!({ "body": content, "headers": passed_on(headers) }).to_string();
    let mut scope = Scope::default();
    let filled = scope.call(&input).and_then(|()| expression::value(template, &scope));
    let filled = filled.map_err(|error| {
        Problem::invalid([Wrong::new("", "expression", format!("the trigger's payload: {error}"))])
    })?;
    written(&filled).map(Some)
}

fn written(value: &Value) -> Result<Box<RawValue>, Problem> {
    to_raw_value(value).map_err(|_| Problem::bad_request("The body cannot be passed on."))
}

/// The headers that the payload may contain: all but those that carry credentials.
fn passed_on(headers: &HeaderMap) -> Map<String, Value> {
    let is_plain =
        |name: &&HeaderName| !SECRET_BEARING.iter().any(|part| name.as_str().contains(part));
    let shown = headers.keys().filter(is_plain).map(|name| {
        let values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
        let value = values.collect::<Vec<_>>().join(", ");
        (name.as_str().to_owned(), Value::String(value))
    });
    shown.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_come_at_the_end_of_a_slot() {
        for (passed, after) in [
            (0, 5_000),
            (228, 5_000),
            (540, 5_000),
            (4_999, 5_000),
            (5_000, 10_000),
            (12_345, 15_000),
        ] {
            let found = refused_after(Duration::from_micros(passed));
            assert_eq!(found, Duration::from_micros(after), "{passed}");
        }
        assert!(refused_after(Duration::MAX) > Duration::from_secs(3_600));
    }

    #[test]
    fn what_lets_somebody_in_is_not_passed_on() {
        let mut headers = HeaderMap::new();
        for name in [
            "authorization",
            "proxy-authorization",
            "cookie",
            "x-api-key",
            "x-auth-token",
            "webhook-signature",
            "x-hub-signature-256",
        ] {
            headers.insert(HeaderName::from_static(name), "secret".parse().unwrap());
        }
        headers.insert("content-type", "text/plain".parse().unwrap());
        headers.append("x-tag", "a".parse().unwrap());
        headers.append("x-tag", "b".parse().unwrap());
        let shown = Value::Object(passed_on(&headers));
        assert_eq!(shown, json!({"content-type": "text/plain", "x-tag": "a, b"}));
    }
}
