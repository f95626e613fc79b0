//! Routes of topics and their events.

pub(crate) mod events;
mod find;
mod object;
mod publish;

use axum::extract::State;
use language::definition::limits;
use store::TopicQuery;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use self::find::TopicPath;
pub(super) use self::find::declared;
pub(crate) use self::find::find;
pub(crate) use self::find::of_workflow;
pub(super) use self::object::TopicObject;
pub(super) use self::publish::{EventInput, check_event, published};
use super::App;
use super::answer::{self, Answered, Listed};
use super::problem::{Problem, Wrong};
use super::query::{Paging, Parameters, Query, Values};

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(get))
        .routes(routes!(events::list, publish::publish))
        .routes(routes!(events::get))
        .routes(routes!(events::skip))
}

/// The query parameters of the list of topics.
pub(crate) struct TopicListParams {
    pub(crate) name: Option<String>,
    pub(crate) workflow: Option<String>,
    paging: Paging,
}

impl Parameters for TopicListParams {
    fn read(values: &mut Values) -> TopicListParams {
        TopicListParams {
            name: values.text("name"),
            workflow: values.text("workflow"),
            paging: values.paging(),
        }
    }
}

impl TopicListParams {
    pub(crate) fn query(&self) -> TopicQuery {
        let Paging { limit, after } = self.paging.clone();
        let (name, workflow) = (self.name.clone(), self.workflow.clone());
        TopicQuery { id: None, name, workflow, limit, after }
    }
}

/// Lists topics, by name. With `workflow`, only those of that workflow; shared topics have none.
#[utoipa::path(get, path = "/topics", tag = "topics",
    params(("name" = Option<String>, Query, description = "With this name"),
        ("workflow" = Option<String>, Query, description = "Id or name of a workflow"),
        ("limit" = Option<u64>, Query), ("cursor" = Option<String>, Query)),
    responses((status = 200, body = Listed<TopicObject>), (status = 400, body = Problem)))]
async fn list(State(app): State<App>, Query(params): Query<TopicListParams>) -> Answered {
    if let Some(Err(why)) = params.name.as_deref().map(limits::check_topic_name) {
        let wrong = Wrong::new("name", "topic", "is not the name of a topic");
        return Err(Problem::bad_query(vec![wrong.allow(why)]));
    }
    let page = app.store().topics(params.query()).await?;
    let items = page.items.into_iter().map(TopicObject::from).collect();
    answer::ok(&Listed::new(items, page.total, page.next.as_ref()))
}

/// The workflow whose topic is meant, where several have topics of the same name.
struct Whose {
    workflow: Option<String>,
}

impl Parameters for Whose {
    fn read(values: &mut Values) -> Whose {
        Whose { workflow: values.text("workflow") }
    }
}

/// Gets a topic: its events counted by state, and the age of the oldest pending event.
#[utoipa::path(get, path = "/topics/{topic}", tag = "topics",
    params(("topic" = String, Path, description = "Name or id"),
        ("workflow" = Option<String>, Query, description = "Whose, if several have one of that name")),
    responses((status = 200, body = TopicObject), (status = 404, body = Problem),
        (status = 409, body = Problem, description = "Several workflows have one of that name"),
        (status = 422, body = Problem, description = "Not a name")))]
async fn get(
    State(app): State<App>,
    TopicPath(topic): TopicPath,
    Query(whose): Query<Whose>,
) -> Answered {
    let view = find(&app, &topic, whose.workflow.as_deref()).await?;
    answer::ok(&TopicObject::from(view))
}
