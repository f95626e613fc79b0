//! Finds the topic that a request names.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use engine::WorkflowId;
use language::definition::{Definition, TopicDeclaration, limits};
use store::{TopicQuery, TopicView};

use crate::http::App;
use crate::http::path::part;
use crate::http::problem::{Problem, Wrong};
use crate::http::query::LARGEST_LIMIT;
use crate::http::workflows::find_workflow;

/// How many workflows with a topic of the same name are listed.
const TOLD: usize = 20;

/// The part of the path that names a topic, checked to be a valid name.
pub(super) struct TopicPath(pub(super) String);

impl<S: Send + Sync> FromRequestParts<S> for TopicPath {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<TopicPath, Problem> {
        let name = part(parts, state, "topic").await?;
        limits::check_topic_name(&name).map_err(|why| {
            let wrong = Wrong::new("topic", "topic", "this is not the name of a topic");
            Problem::invalid([wrong.allow(why)])
        })?;
        Ok(TopicPath(name))
    }
}

/// The topic with this name that `workflow` uses, if one is given; otherwise the shared topic, the
/// only one with this name, or the one with this id.
pub(crate) async fn find(
    app: &App,
    topic: &str,
    workflow: Option<&str>,
) -> Result<TopicView, Problem> {
    let unknown = || Problem::not_found("topic", topic);
    if let Some(workflow) = workflow {
        let view = find_workflow(app, workflow, None).await?;
        let own = owned(app, topic, view.workflow.id).await?;
        let found = match own {
            Some(own) => Some(own),
            None if is_shared(&view.definition, topic) => shared(app, topic).await?,
            None => None,
        };
        return found.ok_or_else(unknown);
    }
    let mut named = of_name(app, topic).await?;
    if let Some(at) = named.iter().position(|view| view.topic.workflow.is_none()) {
        return Ok(named.swap_remove(at));
    }
    match (named.pop(), named.is_empty()) {
        (Some(only), true) => Ok(only),
        (Some(last), false) => Err(several(topic, named.into_iter().chain([last]))),
        (None, _) => by_id(app, topic).await?.ok_or_else(unknown),
    }
}

fn several(topic: &str, all: impl Iterator<Item = TopicView>) -> Problem {
    let mut names: Vec<String> = all.filter_map(|view| view.workflow).collect();
    let more = names.len().saturating_sub(TOLD);
    names.truncate(TOLD);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let names = names.join(", ");
    Problem::conflict(format!(
        "Several workflows have a topic {topic}: {names}{more}. Say which: ?workflow=NAME."
    ))
}

fn is_shared(definition: &Definition, topic: &str) -> bool {
    definition.topic(topic).is_some_and(|declared| declared.shared)
}

/// The topic that a workflow's declaration means, if it exists already.
pub(in crate::http) async fn declared(
    app: &App,
    workflow: WorkflowId,
    declared: &TopicDeclaration,
) -> Result<Option<TopicView>, Problem> {
    if declared.shared {
        shared(app, &declared.name).await
    } else {
        owned(app, &declared.name, workflow).await
    }
}

/// All topics of a workflow, and the shared ones that its definition names, by name.
pub(crate) async fn of_workflow(
    app: &App,
    workflow: WorkflowId,
    definition: &Definition,
) -> Result<Vec<TopicView>, Problem> {
    let query = TopicQuery { workflow: Some(workflow.to_string()), ..TopicQuery::default() };
    let mut found = all(app, query).await?;
    for topic in definition.topics.iter().filter(|topic| topic.shared) {
        found.extend(shared(app, &topic.name).await?);
    }
    found.sort_by(|a, b| a.topic.name.cmp(&b.topic.name));
    Ok(found)
}

async fn owned(app: &App, topic: &str, workflow: WorkflowId) -> Result<Option<TopicView>, Problem> {
    let query = TopicQuery {
        name: Some(topic.to_owned()),
        workflow: Some(workflow.to_string()),
        limit: 1,
        ..TopicQuery::default()
    };
    Ok(app.store().topics(query).await?.items.pop())
}

async fn shared(app: &App, topic: &str) -> Result<Option<TopicView>, Problem> {
    let named = of_name(app, topic).await?;
    Ok(named.into_iter().find(|view| view.topic.workflow.is_none()))
}

async fn of_name(app: &App, topic: &str) -> Result<Vec<TopicView>, Problem> {
    all(app, TopicQuery { name: Some(topic.to_owned()), ..TopicQuery::default() }).await
}

async fn by_id(app: &App, topic: &str) -> Result<Option<TopicView>, Problem> {
    let Ok(id) = topic.parse() else { return Ok(None) };
    let query = TopicQuery { id: Some(id), limit: 1, ..TopicQuery::default() };
    Ok(app.store().topics(query).await?.items.pop())
}

async fn all(app: &App, query: TopicQuery) -> Result<Vec<TopicView>, Problem> {
    let (mut found, mut after) = (Vec::new(), None);
    loop {
        let query = TopicQuery { limit: LARGEST_LIMIT, after, ..query.clone() };
        let page = app.store().topics(query).await?;
        found.extend(page.items);
        after = page.next;
        if after.is_none() {
            return Ok(found);
        }
    }
}
