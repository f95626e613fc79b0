//! Measures events published per second, consumer runs per second, and the time of a script.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use engine::TopicId;
use engine::topics::Message;
use engine::turn::Command;
use futures_util::future::BoxFuture;
use language::definition::{self, ReadContext};
use runners::script::{
    Entry, Evaluation, FetchAnswer, FetchRequest, Permits, ScriptWorld, Scripts, WorldFailure,
};
use serde_json::Value;
use serde_json::value::RawValue;
use server::Stopwatch;
use server::serve::{Server, ServerOptions};
use store::TopicQuery;
use tokio_util::sync::CancellationToken;

use super::store_target::StoreTarget;
use crate::failure::Failure;

/// Events published in one transaction.
const BATCH: u64 = 1_000;
/// Workflows that work concurrently, each with one run at a time.
pub(super) const WORKFLOWS: u64 = 32;
const CONSUMER: &str = r#"
    consumers: { one: {
      subscribe: [t],
      prepare: { script: "const [e] = await ctx.peek('t', {limit: 1}); return {reservations: [{topic: 't', ids: [e.messageId]}]}" },
      next: { script: "return {last: prepared.reservations[0].ids[0]}" },
    } }"#;

pub(super) struct Rates {
    pub(super) published: f64,
    pub(super) runs: f64,
    /// Milliseconds per script in a new context.
    pub(super) script: f64,
}

/// Publishes `events` events, and lets consumers work on `runs` others, one by one.
pub(super) async fn rates(target: &StoreTarget, events: u64, runs: u64) -> Result<Rates, Failure> {
    let store = target.open().await?;
    let scripts = crate::scripts::scripts()?;
    let listen = (Ipv4Addr::LOCALHOST, 0).into();
    let options =
        ServerOptions { listen, scripts: Some(scripts.clone()), ..ServerOptions::new(store) };
    let server = Server::start(options).await;
    let server = server.map_err(|error| Failure::Environment(error.to_string()))?;
    let script = evaluated(&scripts).await?;
    let published = published(&server, events).await?;
    let runs = consumed(&server, runs).await?;
    server.stop().await?;
    Ok(Rates { published, runs, script })
}

async fn evaluated(scripts: &Arc<Scripts>) -> Result<f64, Failure> {
    const TIMES: u32 = 200;
    let evaluate = || async {
        let evaluation = Evaluation {
            source: "return 1".into(),
            name: "bench".to_owned(),
            phase: "bench".to_owned(),
            entry: Entry::Body,
            arguments: Vec::new(),
            permits: Permits::NONE,
            secrets: std::collections::BTreeMap::new(),
            now: jiff::Timestamp::UNIX_EPOCH,
            timeout: None,
        };
        let done = scripts.evaluate(evaluation, &Nothing, &CancellationToken::new()).await;
        done.map_err(|failed| Failure::Environment(failed.to_string()))
    };
    evaluate().await?;
    let watch = Stopwatch::start();
    for _ in 0..TIMES {
        evaluate().await?;
    }
    Ok(watch.elapsed().as_secs_f64() * 1_000.0 / f64::from(TIMES))
}

async fn published(server: &Server, events: u64) -> Result<f64, Failure> {
    save(server, "name: told\ntopics: [{name: t, external: true}]\nsteps: [{id: s, type: noop}]")
        .await?;
    let topic = topic(server, "told").await?;
    let watch = Stopwatch::start();
    for from in (0..events).step_by(BATCH as usize) {
        publish(server, topic, from..(from + BATCH).min(events)).await?;
    }
    Ok(events as f64 / watch.elapsed().as_secs_f64())
}

/// Measures consumer runs per second. The events are divided among the workflows, and all are
/// published before the first is worked on.
async fn consumed(server: &Server, runs: u64) -> Result<f64, Failure> {
    let each = (runs / WORKFLOWS).max(1);
    let mut topics = Vec::new();
    for number in 0..WORKFLOWS {
        let name = format!("worked-{number}");
        let source = format!("name: {name}\ntopics: [t]\n{}", CONSUMER.trim());
        let id = save(server, &source).await?;
        command(server, Command::PauseWorkflow { id, paused: true, reason: None }).await?;
        let topic = topic(server, &name).await?;
        publish(server, topic, 0..each).await?;
        topics.push((id, topic));
    }
    let watch = Stopwatch::start();
    for (id, _) in &topics {
        command(server, Command::PauseWorkflow { id: *id, paused: false, reason: None }).await?;
    }
    loop {
        let query =
            TopicQuery { name: Some("t".to_owned()), limit: 1_000, ..TopicQuery::default() };
        let found = server.hub().store().topics(query).await?;
        let ours =
            found.items.iter().filter(|view| topics.iter().any(|(_, t)| *t == view.topic.id));
        let consumed: u64 = ours.map(|view| view.topic.counts.consumed).sum();
        if consumed == each * WORKFLOWS {
            return Ok(consumed as f64 / watch.elapsed().as_secs_f64());
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn command(server: &Server, command: Command) -> Result<engine::turn::Answer, Failure> {
    Ok(server.hub().command(command, None).await?.answer)
}

async fn save(server: &Server, source: &str) -> Result<engine::WorkflowId, Failure> {
    let rules = server.hub().store().rules();
    let now = server.hub().now();
    let context = ReadContext { zones: rules.zones(), now, known_calendar: &|_| None };
    let read = definition::read(source, &context);
    let definition = read.map_err(|flaws| Failure::Environment(flaws[0].to_string()))?;
    let (source, definition) = (source.to_owned(), Arc::new(definition));
    let saved =
        command(server, Command::SaveWorkflow { source, definition, publish: true, folder: None })
            .await?;
    match saved {
        engine::turn::Answer::Workflow { id, .. } => Ok(id),
        other => Err(Failure::Environment(format!("{other:?}"))),
    }
}

async fn topic(server: &Server, workflow: &str) -> Result<TopicId, Failure> {
    let query = TopicQuery {
        name: Some("t".to_owned()),
        workflow: Some(workflow.to_owned()),
        limit: 1,
        ..TopicQuery::default()
    };
    let found = server.hub().store().topics(query).await?;
    let first = found.items.first().map(|view| view.topic.id);
    first.ok_or_else(|| Failure::Environment("there is no topic".to_owned()))
}

async fn publish(
    server: &Server,
    topic: TopicId,
    numbers: std::ops::Range<u64>,
) -> Result<(), Failure> {
    let message = |number: u64| Message {
        message_id: format!("message-{number}"),
        title: None,
        payload: RawValue::from_string(format!(r#"{{"number":{number}}}"#)).unwrap_or_default(),
        causes: Vec::new(),
    };
    let events = numbers.map(message).collect();
    command(server, Command::PublishEvents { topic, events }).await?;
    Ok(())
}

/// A world for scripts that make no calls.
struct Nothing;

impl ScriptWorld for Nothing {
    fn fetch(&self, _: FetchRequest) -> BoxFuture<'_, Result<FetchAnswer, WorldFailure>> {
        Box::pin(async { Err(nothing()) })
    }

    fn peek(&self, _: String, _: u32) -> BoxFuture<'_, Result<Value, WorldFailure>> {
        Box::pin(async { Err(nothing()) })
    }

    fn get_by_ids(&self, _: String, _: Vec<String>) -> BoxFuture<'_, Result<Value, WorldFailure>> {
        Box::pin(async { Err(nothing()) })
    }
}

fn nothing() -> WorldFailure {
    WorldFailure::Logic("there is nothing here".to_owned())
}
