//! Warnings: what people should know about a definition before they rely on it.

use calendar::{CatchUp, CatchUpSpec, Zone};
use serde_json::{Map, Value};

use crate::definition::handlers::Consumer;
use crate::definition::model::{Definition, Step, TriggerKind};
use crate::definition::steps::{Action, Timer};
use crate::definition::text::{Flaw, Kind, Node, Source, follow, join, tree};
use crate::definition::time::{Calendars, Until};
use crate::definition::trigger::{self, Defaults};
use crate::definition::{ReadContext, TimeSpan};
use crate::notification_setup::Setup;

/// Warnings, which prevent nothing: a trigger that never fires, a time in a daylight saving gap, a
/// timer that a timeout does not end. Their paths identify steps by id (`steps[wait].delay`);
/// [`locate`] turns them into positions in the text.
pub fn warnings(definition: &Definition, context: &ReadContext<'_>) -> Vec<Flaw> {
    let zone = definition.timezone.as_deref();
    let (calendars, _) = Calendars::build(definition.calendars.clone(), zone, context);
    let defaults = Defaults {
        timezone: definition.timezone.clone(),
        calendar: definition.calendar.clone(),
        calendars: &calendars,
        input: None,
        context,
    };
    let mut warnings = Vec::new();
    for (at, spec) in definition.calendars.iter().enumerate() {
        let calendar = defaults.calendars.find(&spec.id, context);
        if let Some(told) = calendar.and_then(|calendar| calendar.never_works(context.now)) {
            let path = format!("calendars[{at}].hours");
            warnings.push(Flaw { path, ..Flaw::new(told.code, told.message) });
        }
    }
    for (at, trigger) in definition.triggers.iter().enumerate() {
        if let TriggerKind::Webhook { secret: None, publish, .. } = &trigger.kind {
            let what = if publish.is_some() { "publish" } else { "start it" };
            let message = format!("calls are not signed: anyone who knows the address may {what}");
            let flaw = Flaw::new("not-signed", message).suggest("secret: hook-key");
            warnings.push(Flaw { path: format!("triggers[{at}].type"), ..flaw });
        }
        let TriggerKind::Schedule { declaration } = &trigger.kind else { continue };
        warnings.extend(of_rule(declaration, &defaults, &format!("triggers[{at}]"), "type"));
    }
    warnings.extend(definition.steps.iter().filter_map(|step| after_a_trigger(definition, step)));
    for producer in &definition.producers {
        if producer.publishes.is_empty() && definition.topics.is_empty() {
            let message = "it can publish nothing: the definition has no topics";
            let flaw = Flaw::new("publishes-nothing", message).suggest("topics: [orders.new]");
            let path = format!("producers.{}.schedule", producer.name);
            warnings.push(Flaw { path, ..flaw });
        }
        let path = format!("producers.{}.schedule", producer.name);
        warnings.extend(of_rule(&producer.schedule, &defaults, &path, ""));
    }
    warnings.extend(definition.consumers.iter().filter_map(of_consumer));
    warnings.extend(definition.topics.iter().enumerate().filter_map(|(at, topic)| {
        let unused = !is_named(definition, &topic.name);
        let message = format!("nothing in this workflow names the topic {}", topic.name);
        let flaw = Flaw { path: format!("topics[{at}]"), ..Flaw::new("unused", message) };
        unused.then_some(flaw)
    }));
    // A workflow with handlers needs no steps unless a trigger starts a run.
    let publishes =
        |kind: &TriggerKind| matches!(kind, TriggerKind::Webhook { publish: Some(_), .. });
    let starts = definition.triggers.iter().any(|trigger| !publishes(&trigger.kind));
    if definition.steps.is_empty() && (starts || !definition.has_handlers()) {
        let flaw = Flaw::new("no-steps", "there are no steps: a run ends as soon as it starts");
        warnings.push(Flaw { path: "steps".to_owned(), ..flaw });
    }
    for step in &definition.steps {
        warnings.extend(of_step(definition, step, context));
    }
    warnings
}

/// Warnings about the times of a schedule. `otherwise` is the key to point at if the rule's key is
/// not known.
fn of_rule(
    declaration: &Map<String, Value>,
    defaults: &Defaults<'_>,
    path: &str,
    otherwise: &str,
) -> Vec<Flaw> {
    let Ok(timing) = trigger::check_rule(declaration, defaults, &[]) else { return Vec::new() };
    let key = trigger::rule_key(declaration).unwrap_or(otherwise);
    let catch_up = declaration.get("catch_up").cloned();
    let catch_up = catch_up.and_then(|written| serde_json::from_value::<CatchUpSpec>(written).ok());
    let catch_up = catch_up.map_or_else(|| Ok(CatchUp::default()), |written| written.build()).ok();
    let warnings = timing.warnings_with(defaults.context.now, catch_up.as_ref()).into_iter();
    let flaw = |code, message| Flaw { path: format!("{path}.{key}"), ..Flaw::new(code, message) };
    warnings.map(|warning| flaw(warning.code, warning.message)).collect()
}

/// A warning about a consumer that consumes its events without doing anything with them.
fn of_consumer(consumer: &Consumer) -> Option<Flaw> {
    let only_reads = consumer.mutate.is_none() && consumer.next.is_none();
    let message = "there is neither mutate nor next: what it reserves is consumed, and that is all";
    let flaw = Flaw::new("only-prepares", message).suggest("next: { script: … }");
    only_reads.then(|| Flaw { path: format!("consumers.{}.prepare", consumer.name), ..flaw })
}

/// Whether something publishes or subscribes to a topic. A handler that does not list its topics
/// may use any.
fn is_named(definition: &Definition, topic: &str) -> bool {
    let named = |topics: &[String]| topics.iter().any(|name| name == topic);
    let mut producers = definition.producers.iter();
    let producers =
        producers.any(|producer| producer.publishes.is_empty() || named(&producer.publishes));
    let consumers = definition.consumers.iter().any(|consumer| {
        let open = consumer.publishes.is_empty() && consumer.next.is_some();
        open || named(&consumer.subscribe) || named(&consumer.publishes)
    });
    let triggers = definition.triggers.iter().any(|trigger| match &trigger.kind {
        TriggerKind::Webhook { publish, .. } => publish.as_deref() == Some(topic),
        TriggerKind::Event { topic: of, .. } => of == topic,
        TriggerKind::Schedule { .. } | TriggerKind::Manual => false,
    });
    producers
        || consumers
        || triggers
        || definition.steps.iter().any(|step| {
            let action = match &step.action {
                Action::ForEach(each) => &each.action,
                action => action,
            };
            match action {
                Action::Publish(publish) => publish.topic == topic,
                Action::WaitFor(wait) => wait.topic == topic,
                _ => false,
            }
        })
}

fn of_step(definition: &Definition, step: &Step, context: &ReadContext<'_>) -> Option<Flaw> {
    let at = |key: &str, flaw: Flaw| Flaw { path: format!("steps[{}].{key}", step.id), ..flaw };
    match &step.action {
        Action::Timer(Timer::Until(text)) if !text.contains("{{") => {
            let zone = zone_of(definition, context)?;
            let until = Until::parse(text).ok()?.instant(context.now, &zone, context.zones).ok()?;
            let over = until <= context.now;
            let message = "this time is over: the timer does not wait";
            over.then(|| at("until", Flaw::new("time-over", message)))
        }
        Action::WaitFor(wait) if wait.within.is_none() => {
            let endless = definition.deadline.is_none() && step.deadline.is_none();
            let message = "it waits without end if no such event comes";
            let flaw = Flaw::new("endless", message).suggest("within: 1d");
            endless.then(|| at("type", flaw))
        }
        Action::SubProcess(child) if child.workflow == definition.name => {
            let message = "the workflow starts itself, again and again unless a condition ends it";
            let unconditional = step.condition.is_none();
            unconditional.then(|| at("workflow", Flaw::new("starts-itself", message)))
        }
        _ => None,
    }
}

/// A warning about a timer that waits longer than the timeout of a trigger's runs, which people may
/// expect to end it. A trigger without a timeout has the workflow's.
fn after_a_trigger(definition: &Definition, step: &Step) -> Option<Flaw> {
    let Action::Timer(Timer::Delay(TimeSpan::Elapsed(delay))) = &step.action else { return None };
    let shortest = definition.triggers.iter().filter_map(|trigger| {
        let TriggerKind::Schedule { declaration } = &trigger.kind else { return None };
        match declaration.get("timeout_seconds").and_then(serde_json::Value::as_u64) {
            Some(0) => None,
            Some(seconds) => {
                let of = format!("`timeout_seconds: {seconds}` of the trigger {}", trigger.id);
                Some((jiff::SignedDuration::from_secs(i64::try_from(seconds).ok()?), of))
            }
            None => {
                let timeout = definition.timeout?;
                let of =
                    format!("`timeout: {}` of the workflow", calendar::format_duration(timeout));
                Some((timeout, of))
            }
        }
    });
    let (timeout, of) = shortest.min_by_key(|(timeout, _)| *timeout)?;
    let is_limited = definition.deadline.is_some() || step.deadline.is_some();
    let is_short = timeout <= *delay && !is_limited;
    let message = format!(
        "the timer waits {}; {of} does not end it, because it counts only while something is performed",
        calendar::format_duration(*delay)
    );
    let flaw =
        Flaw::new("after-timeout", message).suggest("a deadline, which limits the whole time");
    is_short.then(|| Flaw { path: format!("steps[{}].delay", step.id), ..flaw })
}

/// The zone of times that name none: the definition's, or else its calendar's.
fn zone_of(definition: &Definition, context: &ReadContext<'_>) -> Option<Zone> {
    if let Some(name) = &definition.timezone {
        return context.zones.get(name).ok();
    }
    let (own, _) = Calendars::build(definition.calendars.clone(), None, context);
    let calendar = definition.calendar.as_deref().and_then(|id| own.find(id, context));
    Some(calendar.map_or_else(Zone::utc, |calendar| calendar.zone().clone()))
}

/// Adds line, column and excerpt to flaws, found in the text by their paths.
pub fn locate(mut flaws: Vec<Flaw>, text: &str) -> Vec<Flaw> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let source = Source::new(text);
    let Ok((root, _)) = tree::parse(&source) else { return flaws };
    // A script is no tree, even if YAML can parse it.
    if root.entry("name").is_none() {
        return flaws;
    }
    for flaw in &mut flaws {
        flaw.path = by_place(&root, &flaw.path);
        let found = follow(&root, &flaw.path);
        let span = found.node.mark();
        (flaw.line, flaw.column) = source.position(span.start);
        flaw.excerpt = Some(source.excerpt(span));
    }
    flaws
}

/// The path with a step's index in the text instead of its id, since checked steps are in the order
/// in which they run. A topic in a mapping is identified by its key.
fn by_place(root: &Node, path: &str) -> String {
    let topic = path.strip_prefix("topics[").and_then(|rest| rest.strip_suffix(']'));
    if let Some(at) = topic
        && let Some(Kind::Map(topics)) = root.entry("topics").map(|entry| &entry.value.kind)
        && let Some(topic) = at.parse().ok().and_then(|at: usize| topics.get(at))
    {
        return join("topics", &topic.key);
    }
    let named = path.strip_prefix("steps[").and_then(|rest| rest.split_once(']'));
    let Some((id, below)) = named else { return path.to_owned() };
    let is = |step: &Node| {
        let given = step.entry("id").map(|entry| &entry.value.kind);
        matches!(given, Some(Kind::Text(given)) if given == id)
    };
    let index = match root.entry("steps").map(|entry| &entry.value.kind) {
        Some(Kind::List(steps)) => steps.iter().position(is),
        _ => None,
    };
    index.map_or("steps".to_owned(), |index| format!("steps[{index}]{below}"))
}

/// Flaws for channels that a node with this setup cannot reach, with their positions.
pub fn unreachable_channels(definition: &Definition, text: &str, setup: &Setup) -> Vec<Flaw> {
    let flaw = |(path, channel, why): (String, String, &str)| {
        let (what, remedy) = why.split_once("; ").unwrap_or((why, ""));
        let flaw = Flaw::new("channel-not-set-up", format!("{channel} is not told: {what}"));
        Flaw { path, ..flaw.suggest(remedy) }
    };
    locate(setup.unreachable(definition).into_iter().map(flaw).collect(), text)
}

/// Flaws for calendars of the definition whose change affects other workflows, with their
/// positions. Each entry has the calendar's index, how many schedules of other workflows use it,
/// and names of these workflows.
pub fn calendars_of_others(
    changed: &[(usize, u64, Vec<String>)],
    definition: &Definition,
    text: &str,
) -> Vec<Flaw> {
    let flaw = |(index, count, names): &(usize, u64, Vec<String>)| {
        let id = definition.calendars.get(*index).map_or("", |calendar| &calendar.id);
        let users = match count {
            1 => "a schedule of another workflow uses it".to_owned(),
            count => format!("{count} schedules of other workflows use it"),
        };
        let message = format!(
            "calendar {id} is declared otherwise already, and {users} ({}): what they do changes with \
             this definition",
            names.join(", ")
        );
        let flaw = Flaw::new("calendar-of-others", message);
        Flaw {
            path: format!("calendars[{index}]"),
            ..flaw.suggest("another id, if that is not meant")
        }
    };
    locate(changed.iter().map(flaw).collect(), text)
}

/// Flaws for steps and handlers that run commands, with their positions, for nodes that do not
/// allow commands.
pub fn commands(definition: &Definition, text: &str) -> Vec<Flaw> {
    let by_steps = definition.steps.iter().flat_map(|step| {
        let undone = step.compensation.as_ref().map(|undo| &undo.action);
        let each = match &step.action {
            Action::ForEach(each) => Some(&*each.action),
            _ => None,
        };
        let all = [("", Some(&step.action)), ("step.", each), ("compensation.", undone)];
        let commands =
            all.into_iter().filter(|(_, action)| matches!(action, Some(Action::Exec(_))));
        commands.map(|(key, _)| format!("steps[{}].{key}type", step.id))
    });
    let by_producers = definition.producers.iter().flat_map(|producer| {
        let all = [("handler", Some(&producer.handler))];
        of_handler(format!("producers.{}", producer.name), all)
    });
    let by_consumers = definition.consumers.iter().flat_map(|consumer| {
        let (mutate, next) = (consumer.mutate.as_ref(), consumer.next.as_ref());
        let all = [
            ("prepare", Some(&consumer.prepare)),
            ("mutate", mutate),
            ("reconcile", consumer.reconcile.as_ref()),
            ("next", next),
        ];
        of_handler(format!("consumers.{}", consumer.name), all)
    });
    let flaw = |path| {
        let flaw = Flaw::new("exec-not-allowed", "commands are not allowed on this node");
        Flaw { path, ..flaw.suggest("start the node with --allow-exec") }
    };
    locate(by_steps.chain(by_producers).chain(by_consumers).map(flaw).collect(), text)
}

/// The paths of a handler's phases that run a command.
fn of_handler<'d, const N: usize>(
    handler: String,
    phases: [(&'static str, Option<&'d Action>); N],
) -> impl Iterator<Item = String> + 'd {
    let commands = phases.into_iter();
    let commands = commands.filter(|(_, action)| matches!(action, Some(Action::Exec(_))));
    commands.map(move |(phase, _)| format!("{handler}.{phase}.type"))
}
