//! Calls from outside that start workflows, or are published to a topic: webhook triggers.

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
use engine::turn::{Answer, Command, IfBusy, NewRun, WorkflowStatus};
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

/// Signs nothing: calls are checked with it where there is no trigger, so that the answer takes as long.
const NO_KEY: &str = "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
/// Refused calls are answered at multiples of this. Ten times what it takes to find a trigger in a
/// definition of 240 KB.
const REFUSAL_SLOT: Duration = Duration::from_millis(5);
/// Who the runs are said to come from.
const BY_CALL: &str = "webhook";
/// Parts of names of headers that hold what lets somebody in: they are not passed on.
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

/// Starts a workflow by one of its webhook triggers, or publishes the call to a topic, as the trigger says. If the trigger has a secret, the call is signed as Standard
/// Webhooks says, and needs no token; else one is needed whose holder may operate. A call that comes again
/// with the same `webhook-id` gets the same answer, and does nothing. What is published has the `webhook-id` as its
/// message id, or else a hash of the body.
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
    // Read before anything is decided: what is wrong with a body does not tell whether somebody would have taken it.
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
    // Whoever may not ask does not learn which triggers there are: the answer is the same for all, and as late.
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
    let run = NewRun { id: app.new_run_id(), payload, by, trace, if_busy: IfBusy::Wait };
    let command = Command::CallTrigger { id: hook.workflow, trigger: hook.trigger, run };
    let commanded = app.hub().command(command, idempotency).await?;
    let Answer::Run(run_id) = commanded.answer else {
        return Err(Problem::unavailable("The store answers something else."));
    };
    accepted(&HookCalled { run_id }, commanded.replayed)
}

/// The call is an event: its own id tells it from others, or what it says.
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

/// A trigger that calls start.
struct Hook {
    workflow: WorkflowId,
    trigger: String,
    /// Whether the definition lets it do anything.
    enabled: bool,
    /// The name of what calls are signed with.
    secret: Option<String>,
    /// What the run works on, to be filled in; the body, if nothing.
    payload: Option<Value>,
    /// The topic that calls are published to, if they start no run.
    publishes: Option<TopicDeclaration>,
}

/// The names of the workflow and of the trigger that are called.
async fn names(app: &App, parts: &mut Parts) -> Result<(String, String), Problem> {
    let workflow = part(parts, app, "workflow").await?;
    let trigger = part(parts, app, "trigger").await?;
    Query::<()>::from_request_parts(parts, app).await?;
    Ok((workflow, trigger))
}

/// When a call is refused, counted from where it was read: at the next full slot after what has
/// passed.
///
/// To find a trigger takes longer than to find none, and longer for a large definition: a caller
/// who may not ask could tell from the time what there is. So an answer waits until its slot is
/// over. Work that fits into one slot cannot be told from other such work, and where a busy node
/// needs longer, the time tells the number of slots and no more. The definition is not kept in
/// memory for this: nodes on one store would have to tell each other of every change. The caller's
/// own upload does not count, because the body is read before.
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
    // What starts runs is for the engine to refuse; a topic has nobody who would.
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

/// The call's id, if it was signed with the secret. Several, with spaces between them, are for a change from one to
/// the next.
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
        // Whoever calls is not told, unless they may ask.
        tracing::debug!(secret, %why, "a call of a webhook trigger is not believed");
        let status = StatusCode::UNAUTHORIZED;
        Problem::new(status, "unauthorized", "Unauthorized", why.to_string())
    })
}

/// Takes the time of a check, where there is nothing to check a call with.
fn disbelieve(headers: &HeaderMap, body: &RawBody, now: Timestamp) {
    let none = WebhookKey::from_str(NO_KEY).into_iter().collect::<Vec<_>>();
    let _ = verify(&none, Signed::from(headers), body.text.as_bytes(), now);
}

/// The same call does once. Keys that callers give themselves have no spaces, so they are never these.
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

/// Headers for people and programs, without those that let somebody in.
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
