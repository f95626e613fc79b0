//! Workflows in API responses.

use std::collections::HashMap;

use calendar::Zone;
use engine::schedule::Schedule;
use jiff::Timestamp;
use language::Rules;
use language::definition::{DeclaredBy, Trigger, TriggerKind, Version};
use serde::Serialize;
use serde_json::Value;
use store::{HandlerView, ScheduleView, TopicView, WorkflowView};
use utoipa::ToSchema;

use super::handlers::{ConsumerObject, Handlers, ProducerObject};
use crate::http::schedules::object;
use crate::http::shapes;
use crate::http::topics::TopicObject;

/// The version that the author gave: a whole number, or a text such as `1.10`.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(untagged)]
pub(crate) enum AuthorVersion {
    /// A whole number, such as `3`.
    Whole(u32),
    /// A text, such as `1.10`.
    Text(String),
}

impl Default for AuthorVersion {
    fn default() -> AuthorVersion {
        author_version(Version::default())
    }
}

/// The version as it is shown.
pub(in crate::http) fn author_version(version: Version) -> AuthorVersion {
    match version.minor {
        None => AuthorVersion::Whole(version.major),
        Some(_) => AuthorVersion::Text(version.to_string()),
    }
}

/// A workflow without the text of its definition.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct WorkflowSummary {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) description: Option<String>,
    /// The version that its author gave.
    pub(crate) version: AuthorVersion,
    /// The number of this revision: the live one, or the newest if none is live.
    pub(crate) revision: u32,
    /// Whether new runs use this revision.
    pub(crate) live: bool,
    /// The revision that new runs use.
    pub(crate) live_revision: Option<u32>,
    /// How many revisions there are.
    pub(crate) versions: u32,
    /// `draft`, `published` or `archived`.
    #[schema(value_type = shapes::WorkflowStatus)]
    pub(crate) status: &'static str,
    /// Whether nothing starts except by hand.
    pub(crate) paused: bool,
    /// Why the workflow is paused.
    pub(crate) paused_reason: Option<String>,
    /// How many runs may be active at a time; if null, one per schedule.
    pub(crate) concurrency: Option<u32>,
    /// How many runs are active, if their number is limited.
    pub(crate) active: u32,
    /// How many schedules start it.
    pub(crate) schedules: u64,
    #[schema(value_type = String, format = DateTime)]
    pub(crate) created_at: Timestamp,
    #[schema(value_type = String, format = DateTime)]
    pub(crate) updated_at: Timestamp,
    /// When this revision was saved.
    #[schema(value_type = String, format = DateTime)]
    pub(crate) saved_at: Timestamp,
}

/// A workflow with one of its revisions.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct WorkflowObject {
    #[serde(flatten)]
    pub(crate) summary: WorkflowSummary,
    pub(crate) triggers: Vec<TriggerObject>,
    /// The text of the definition, as it was sent.
    pub(crate) source: String,
    /// The parsed definition.
    #[schema(value_type = Object)]
    pub(crate) definition: Value,
    /// Its producers, in the order of the definition.
    pub(crate) producers: Vec<ProducerObject>,
    /// Its consumers, in the order of the definition.
    pub(crate) consumers: Vec<ConsumerObject>,
    /// Its own topics, and the shared ones it names.
    pub(crate) topics: Vec<TopicObject>,
    /// What resuming will do; null if the workflow is not paused.
    pub(crate) on_resume: Option<String>,
}

/// What is read from the store beside a workflow's definition.
#[derive(Default)]
pub(super) struct Around {
    /// The schedules that triggers and producers of the live revision declare.
    pub(super) schedules: Vec<ScheduleView>,
    pub(super) handlers: Vec<HandlerView>,
    /// Its own topics, and the shared ones it names.
    pub(super) topics: Vec<TopicView>,
}

/// A trigger, which starts a workflow.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct TriggerObject {
    pub(crate) id: String,
    /// `schedule`, `manual`, `webhook` or `event`.
    #[serde(rename = "type")]
    #[schema(value_type = shapes::TriggerType)]
    pub(crate) kind: &'static str,
    /// Whether it may start anything. The schedule of a trigger can be disabled and enabled by
    /// hand; other triggers are as the definition says.
    pub(crate) enabled: bool,
    pub(crate) description: Option<String>,
    /// When it starts the workflow, in words.
    pub(crate) words: Option<String>,
    /// The schedule it declares, if this revision is live.
    pub(crate) schedule_id: Option<String>,
    /// The status of that schedule.
    #[schema(value_type = Option<shapes::ScheduleStatus>)]
    pub(crate) status: Option<&'static str>,
    /// When it starts the workflow next.
    #[schema(format = DateTime)]
    pub(crate) next_run_at: Option<String>,
    /// The nominal time of that occurrence, as the rule says.
    #[schema(format = DateTime)]
    pub(crate) next_nominal_at: Option<String>,
}

impl WorkflowSummary {
    pub(super) fn new(view: &WorkflowView) -> WorkflowSummary {
        let workflow = &view.workflow;
        WorkflowSummary {
            id: workflow.id.to_string(),
            name: workflow.name.clone(),
            description: view.definition.description.clone(),
            version: author_version(view.definition.version),
            revision: view.revision,
            live: workflow.live == Some(view.revision),
            live_revision: workflow.live,
            versions: workflow.newest,
            status: workflow.status.name(),
            paused: workflow.paused,
            paused_reason: workflow.paused.then(|| {
                workflow.paused_reason.clone().unwrap_or_else(|| "paused by hand".to_owned())
            }),
            concurrency: workflow.concurrency,
            active: workflow.active,
            schedules: view.schedules,
            created_at: workflow.created_at,
            updated_at: workflow.updated_at,
            saved_at: view.saved_at,
        }
    }
}

impl WorkflowObject {
    pub(super) fn new(
        view: WorkflowView,
        around: Around,
        rules: &Rules,
        now: Timestamp,
    ) -> WorkflowObject {
        let Around { schedules, handlers, topics } = around;
        let schedules: HashMap<DeclaredBy, ScheduleView> = schedules
            .into_iter()
            .filter_map(|found| Some((found.schedule.declared_by.clone()?, found)))
            .collect();
        let definition = &view.definition;
        let triggers = definition.triggers.iter().map(|trigger| {
            let found = schedules.get(&DeclaredBy::Trigger(trigger.id.clone()));
            TriggerObject::new(trigger, found, rules, now)
        });
        let triggers = triggers.collect();
        let of_it = Handlers {
            workflow: &view.workflow,
            definition,
            views: &handlers,
            topics: &topics,
            schedules: &schedules,
        };
        WorkflowObject {
            triggers,
            definition: serde_json::to_value(&**definition).unwrap_or_default(),
            summary: WorkflowSummary::new(&view),
            producers: of_it.producers(rules, now),
            consumers: of_it.consumers(),
            on_resume: of_it.on_resume(),
            topics: topics.into_iter().map(TopicObject::from).collect(),
            source: view.source,
        }
    }
}

impl TriggerObject {
    fn new(
        trigger: &Trigger,
        found: Option<&ScheduleView>,
        rules: &Rules,
        now: Timestamp,
    ) -> TriggerObject {
        let schedule = found.map(|found| &found.schedule);
        let plan = schedule.and_then(|schedule| object::plan(schedule, rules));
        let next =
            plan.as_ref().zip(found).and_then(|(plan, found)| found.outlook(plan, now).next());
        let zone = plan.as_ref().map_or_else(Zone::utc, |plan| plan.timing.zone().clone());
        let words = plan.as_ref().map(|plan| plan.timing.words());
        TriggerObject {
            id: trigger.id.clone(),
            kind: match trigger.kind {
                TriggerKind::Schedule { .. } => "schedule",
                TriggerKind::Manual => "manual",
                TriggerKind::Webhook { .. } => "webhook",
                TriggerKind::Event { .. } => "event",
            },
            enabled: schedule.map_or(trigger.enabled, Schedule::is_enabled),
            description: trigger.description.clone(),
            words,
            schedule_id: schedule.map(|schedule| schedule.id.to_string()),
            status: schedule.map(|schedule| schedule.status.name()),
            next_run_at: next.as_ref().and_then(|next| Some(zone.rfc3339(next.effective?))),
            next_nominal_at: next.map(|next| zone.rfc3339(next.nominal)),
        }
    }
}
