//! Lists, shows and skips events.

use axum::extract::{FromRequestParts, State};
use axum::http::StatusCode;
use axum::http::request::Parts;
use engine::TopicId;
use engine::topics::EventState;
use engine::turn::{Command, Refused};
use serde::Deserialize;
use store::{EventQuery, Failure, TopicView};
use utoipa::ToSchema;

use super::find::{TopicPath, find};
use super::object::EventObject;
use super::{Whose, limits};
use crate::http::App;
use crate::http::access::Caller;
use crate::http::answer::{self, Answered, Listed};
use crate::http::body::JsonBody;
use crate::http::path::part;
use crate::http::problem::Problem;
use crate::http::query::{Paging, Parameters, Query, Values};
use crate::http::shapes;

/// The order of a list of events.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    Latest,
    Oldest,
}

/// The query parameters of the list of events.
pub(crate) struct EventListParams {
    whose: Whose,
    pub(crate) state: Option<EventState>,
    pub(crate) order: Option<Order>,
    paging: Paging,
}

impl Parameters for EventListParams {
    fn read(values: &mut Values) -> EventListParams {
        let orders = [Order::Latest, Order::Oldest];
        EventListParams {
            whose: Whose::read(values),
            state: values.one_of("state", &EventState::ALL, EventState::name),
            order: values.one_of("order", &orders, |order| match order {
                Order::Latest => "latest",
                Order::Oldest => "oldest",
            }),
            paging: values.paging(),
        }
    }
}

impl EventListParams {
    /// Finds the topic with this name or id, among those of the workflow that is given.
    pub(crate) async fn topic(&self, app: &App, topic: &str) -> Result<TopicView, Problem> {
        find(app, topic, self.whose.workflow.as_deref()).await
    }

    pub(crate) fn query(&self, topic: TopicId) -> EventQuery {
        let Paging { limit, after } = self.paging.clone();
        let oldest_first = self.order == Some(Order::Oldest);
        EventQuery { topic, state: self.state, oldest_first, limit, after }
    }
}

/// Lists the events of a topic, latest first unless `order` says otherwise.
#[utoipa::path(get, path = "/topics/{topic}/events", tag = "topics",
    params(("topic" = String, Path, description = "Name or id"),
        ("workflow" = Option<String>, Query, description = "Whose, if several have one of that name"),
        ("state" = Option<shapes::EventState>, Query, description = "Only those in this state"),
        ("order" = Option<shapes::EventOrder>, Query, description = "Which come first; the latest if left out"),
        ("limit" = Option<u64>, Query), ("cursor" = Option<String>, Query)),
    responses((status = 200, body = Listed<EventObject>), (status = 400, body = Problem),
        (status = 404, body = Problem), (status = 409, body = Problem),
        (status = 422, body = Problem, description = "Not a name")))]
pub(super) async fn list(
    State(app): State<App>,
    TopicPath(topic): TopicPath,
    Query(params): Query<EventListParams>,
) -> Answered {
    let topic = params.topic(&app, &topic).await?.topic.id;
    let page = app.views().events(params.query(topic)).await?;
    let items: Vec<EventObject> = page.items.into_iter().map(Into::into).collect();
    answer::ok(&Listed::new(items, page.total, page.next.as_ref()))
}

/// The topic and the message id in the path.
pub(super) struct EventPath {
    topic: String,
    message_id: String,
}

impl<S: Send + Sync> FromRequestParts<S> for EventPath {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<EventPath, Problem> {
        let TopicPath(topic) = TopicPath::from_request_parts(parts, state).await?;
        let message_id = part(parts, state, "message_id").await?;
        // No event can have this id, so the store need not be asked.
        if limits::check_message(&message_id, None, "").is_err() {
            return Err(Problem::not_found("event", &message_id));
        }
        Ok(EventPath { topic, message_id })
    }
}

async fn event(app: &App, topic: &TopicView, message_id: &str) -> Result<EventObject, Problem> {
    let found = app.views().events_by_id(topic.topic.id, vec![message_id.to_owned()]).await?;
    let found = found.into_iter().next().map(EventObject::from);
    found.ok_or_else(|| Problem::not_found("event", message_id))
}

/// Gets an event.
#[utoipa::path(get, path = "/topics/{topic}/events/{message_id}", tag = "topics",
    params(("topic" = String, Path, description = "Name or id"),
        ("message_id" = String, Path, description = "The event"),
        ("workflow" = Option<String>, Query, description = "Whose, if several have one of that name")),
    responses((status = 200, body = EventObject), (status = 404, body = Problem),
        (status = 409, body = Problem), (status = 422, body = Problem, description = "Not a name")))]
pub(super) async fn get(
    State(app): State<App>,
    EventPath { topic, message_id }: EventPath,
    Query(whose): Query<Whose>,
) -> Answered {
    let topic = find(&app, &topic, whose.workflow.as_deref()).await?;
    answer::ok(&event(&app, &topic, &message_id).await?)
}

#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Skipping {
    /// Who skips it; the caller, if left out. The name of the caller's token is added.
    #[schema(min_length = 1, max_length = 256)]
    by: Option<String>,
}

/// Skips a pending event: no consumer will work on it.
#[utoipa::path(post, path = "/topics/{topic}/events/{message_id}/skip", tag = "topics",
    request_body = Option<Skipping>,
    params(("topic" = String, Path, description = "Name or id"),
        ("message_id" = String, Path, description = "The event"),
        ("workflow" = Option<String>, Query, description = "Whose, if several have one of that name"),
        ("Idempotency-Key" = Option<String>, Header, description = "Asking twice does once")),
    responses((status = 200, body = EventObject),
        (status = 400, body = Problem, description = "It is not pending"),
        (status = 404, body = Problem), (status = 409, body = Problem),
        (status = 422, body = Problem)))]
pub(super) async fn skip(
    State(app): State<App>,
    caller: Caller,
    EventPath { topic, message_id }: EventPath,
    Query(whose): Query<Whose>,
    body: JsonBody,
) -> Answered {
    let Skipping { by } = body.read_or_default()?;
    let by = caller.said_by(by.as_deref())?;
    let topic = find(&app, &topic, whose.workflow.as_deref()).await?;
    let command = Command::SkipEvent { topic: topic.topic.id, message_id: message_id.clone(), by };
    let commanded = app.command(&caller, command, body.idempotency).await.map_err(not_pending)?;
    let response = answer::ok(&event(&app, &topic, &message_id).await?)?;
    Ok(answer::replayed(response, commanded.replayed))
}

/// A conflict means that the event is in another state.
fn not_pending(failure: Failure) -> Problem {
    match failure {
        Failure::Refused(Refused::Conflict(detail)) => {
            Problem::new(StatusCode::BAD_REQUEST, "wrong-status", "Not in this status", detail)
        }
        other => other.into(),
    }
}
