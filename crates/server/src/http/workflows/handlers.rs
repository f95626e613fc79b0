//! Producers and consumers in API responses: what each does now, and when it runs next.

use std::collections::HashMap;

use engine::RunId;
use engine::handlers::Handler;
use engine::run::Ending;
use engine::schedule::Schedule;
use engine::turn::Workflow;
use jiff::Timestamp;
use language::Rules;
use language::definition::{Consumer, DeclaredBy, Definition, HandlerKind, Producer};
use serde::Serialize;
use serde_json::{Map, Value};
use store::{HandlerView, ScheduleView, TopicView};
use utoipa::ToSchema;

use crate::http::schedules::object;
use crate::http::{shapes, shown};

/// A producer: it queries the outside world on a schedule, and publishes events.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ProducerObject {
    pub(crate) name: String,
    /// Its rule and options, as written.
    #[schema(value_type = Object)]
    pub(crate) schedule: Map<String, Value>,
    /// Its rule in words; null if the revision is not live.
    pub(crate) words: Option<String>,
    /// When it runs next.
    #[schema(format = DateTime)]
    pub(crate) next_run_at: Option<String>,
    /// When its last run began.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub(crate) last_run_at: Option<Timestamp>,
    /// `succeeded`, `failed`, `cancelled` or `timed_out`.
    #[schema(value_type = Option<shapes::RunEnding>)]
    pub(crate) last_outcome: Option<&'static str>,
    /// Whether one of its runs waits for the workflow to be free.
    pub(crate) queued: bool,
    /// Its run that has not ended.
    pub(crate) run_id: Option<String>,
    /// The schedule that starts it.
    pub(crate) schedule_id: Option<String>,
    /// How many of its runs have failed in a row.
    pub(crate) failures: u32,
    /// The topics it publishes to.
    pub(crate) publishes: Vec<String>,
}

/// A consumer: it works on events.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ConsumerObject {
    pub(crate) name: String,
    /// `ready`, `sleeping`, `running`, `suspended` or `paused`.
    #[schema(value_type = shapes::ConsumerState)]
    pub(crate) state: &'static str,
    /// When it looks for events again, if nothing wakes it before.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub(crate) wake_at: Option<Timestamp>,
    /// The topics whose events wake it.
    pub(crate) wake_on: Vec<String>,
    /// How many events of these topics are pending.
    pub(crate) pending: u64,
    /// Its run that has not ended.
    pub(crate) run_id: Option<String>,
    /// When its last run began.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub(crate) last_run_at: Option<Timestamp>,
    /// `succeeded`, `failed`, `cancelled` or `timed_out`.
    #[schema(value_type = Option<shapes::RunEnding>)]
    pub(crate) last_outcome: Option<&'static str>,
    /// How many of its runs have failed in a row.
    pub(crate) failures: u32,
    /// After a failure, the time before which none of its runs begins.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub(crate) retry_at: Option<Timestamp>,
    /// Whether the next run only finishes an earlier one, whose mutation is already done.
    pub(crate) resumes: bool,
}

/// What is needed to show the handlers of a workflow.
pub(super) struct Handlers<'a> {
    pub(super) workflow: &'a Workflow,
    pub(super) definition: &'a Definition,
    pub(super) views: &'a [HandlerView],
    /// The workflow's own topics, and the shared ones it names.
    pub(super) topics: &'a [TopicView],
    /// The schedules that the workflow declares, by what declares them.
    pub(super) schedules: &'a HashMap<DeclaredBy, ScheduleView>,
}

impl Handlers<'_> {
    pub(super) fn producers(&self, rules: &Rules, now: Timestamp) -> Vec<ProducerObject> {
        let declared = self.definition.producers.iter();
        declared.map(|producer| self.producer(producer, rules, now)).collect()
    }

    pub(super) fn consumers(&self) -> Vec<ConsumerObject> {
        self.definition.consumers.iter().map(|consumer| self.consumer(consumer)).collect()
    }

    fn view(&self, name: &str, kind: HandlerKind) -> Option<&HandlerView> {
        self.views.iter().find(|view| view.handler.name == name && view.handler.kind == kind)
    }

    fn producer(&self, producer: &Producer, rules: &Rules, now: Timestamp) -> ProducerObject {
        let view = self.view(&producer.name, HandlerKind::Producer);
        let handler = view.map(|view| &view.handler);
        let found = self.schedules.get(&producer.declares());
        let schedule = found.map(|found| &found.schedule);
        let plan = schedule.and_then(|schedule| object::plan(schedule, rules));
        let next = plan.as_ref().zip(found).and_then(|(plan, found)| {
            let at = found.outlook(plan, now).next()?.effective?;
            Some(shown::time(plan.timing.zone(), at))
        });
        ProducerObject {
            name: producer.name.clone(),
            schedule: producer.schedule.clone(),
            words: plan.as_ref().map(|plan| plan.timing.words()),
            next_run_at: next,
            last_run_at: handler.and_then(|handler| handler.last_run_at),
            last_outcome: outcome(handler),
            queued: schedule.is_some_and(|schedule| waits(schedule, handler)),
            run_id: run_id(view),
            schedule_id: schedule.map(|schedule| schedule.id.to_string()),
            failures: handler.map_or(0, |handler| handler.failures),
            publishes: producer.publishes.clone(),
        }
    }

    fn consumer(&self, consumer: &Consumer) -> ConsumerObject {
        let view = self.view(&consumer.name, HandlerKind::Consumer);
        let handler = view.map(|view| &view.handler);
        ConsumerObject {
            name: consumer.name.clone(),
            state: self.state(handler),
            wake_at: handler.and_then(Handler::due),
            wake_on: consumer.subscribe.clone(),
            pending: consumer.subscribe.iter().map(|topic| self.pending(topic)).sum(),
            run_id: run_id(view),
            last_run_at: handler.and_then(|handler| handler.last_run_at),
            last_outcome: outcome(handler),
            failures: handler.map_or(0, |handler| handler.failures),
            retry_at: handler.and_then(|handler| handler.retry_at),
            resumes: handler.is_some_and(|handler| handler.resumes.is_some()),
        }
    }

    fn state(&self, handler: Option<&Handler>) -> &'static str {
        let Workflow { paused, paused_by, .. } = self.workflow;
        let run = handler.and_then(|handler| handler.run);
        match run {
            Some(_) if run == *paused_by => "suspended",
            Some(_) => "running",
            None if *paused => "paused",
            None if handler.is_some_and(Handler::is_ready) => "ready",
            None => "sleeping",
        }
    }

    /// How many events are pending in the topic that the workflow means by this name.
    fn pending(&self, topic: &str) -> u64 {
        let shared = self.definition.topic(topic).is_some_and(|declared| declared.shared);
        let is_it =
            |view: &&TopicView| view.topic.name == topic && view.topic.workflow.is_none() == shared;
        self.topics.iter().find(is_it).map_or(0, |view| view.topic.counts.pending)
    }

    /// What resuming the workflow will do, in words; `None` if it is not paused.
    pub(super) fn on_resume(&self) -> Option<String> {
        if !self.workflow.paused {
            return None;
        }
        if let Some(run) = self.workflow.paused_by {
            let is_it = |view: &&HandlerView| view.handler.run == Some(run);
            let id = self.views.iter().find(is_it).and_then(|view| view.run.as_ref());
            return Some(until_resolved(id));
        }
        let mut told: Vec<String> = self.views.iter().filter_map(resumed).collect();
        let is_ready = |view: &&HandlerView| view.handler.is_ready() && resumed(view).is_none();
        let ready: Vec<&str> =
            self.views.iter().filter(is_ready).map(|view| view.handler.name.as_str()).collect();
        if !ready.is_empty() {
            told.push(format!("There is something to do for {}.", ready.join(", ")));
        }
        told.insert(0, "Everything starts again.".to_owned());
        Some(told.join(" "))
    }
}

fn until_resolved(run: Option<&RunId>) -> String {
    let run = run.map_or_else(|| "its run".to_owned(), |id| format!("run {id}"));
    format!(
        "Nothing yet: somebody has to say what became of the mutation of {run} (applied, \
         did_not_happen, failed or skip). Then the workflow goes on by itself."
    )
}

/// What a failed handler does when its workflow is resumed.
fn resumed(view: &HandlerView) -> Option<String> {
    let Handler { name, kind, failures, resumes, .. } = &view.handler;
    match (kind, resumes, failures) {
        (_, None, 0) => None,
        (HandlerKind::Producer, ..) => {
            Some(format!("Producer {name} runs again, once for all that it has missed."))
        }
        (HandlerKind::Consumer, Some(_), _) => Some(format!(
            "Consumer {name} does the last phase of its run again; its mutation is done, and is \
             not done twice."
        )),
        (HandlerKind::Consumer, None, _) => {
            Some(format!("Consumer {name} tries again, with a new run."))
        }
    }
}

/// Whether a run of a producer waits for its turn.
fn waits(schedule: &Schedule, handler: Option<&Handler>) -> bool {
    let own = handler.and_then(|handler| handler.run);
    let mut runs = schedule.progress.active.iter().filter_map(|active| active.run());
    !schedule.progress.queued.is_empty() || runs.any(|run| Some(run) != own)
}

fn outcome(handler: Option<&Handler>) -> Option<&'static str> {
    handler?.last_outcome.map(Ending::status).map(|status| status.name())
}

fn run_id(view: Option<&HandlerView>) -> Option<String> {
    view?.run.as_ref().map(ToString::to_string)
}
