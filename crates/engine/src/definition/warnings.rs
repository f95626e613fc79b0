//! What someone should know about a definition before relying on it.

use super::action::{Action, Timer};
use super::calendars::Calendars;
use super::deadline::Limit;
use super::flaw::Flaw;
use super::model::{Definition, Step, TriggerKind};
use super::path::follow;
use super::source::Source;
use super::stretch::Stretch;
use super::tree::{Kind, Node};
use super::trigger::{self, Defaults};
use super::until::Until;
use super::{ReadContext, tree};

/// Remarks that stop nothing: a trigger that never fires, a time in a daylight saving gap, a timer
/// that is longer than the run may take. They have paths, in which steps are named by their ids
/// (`steps[wait].delay`); [`locate`] makes places in the text of them.
pub fn warnings(definition: &Definition, context: &ReadContext<'_>) -> Vec<Flaw> {
    let zone = definition.timezone.as_deref();
    let (calendars, _) = Calendars::build(definition.calendars.clone(), zone, context);
    let defaults = Defaults {
        timezone: definition.timezone.clone(),
        calendar: definition.calendar.clone(),
        calendars: &calendars,
        context,
    };
    let mut warnings = Vec::new();
    for (at, trigger) in definition.triggers.iter().enumerate() {
        if let TriggerKind::Webhook { secret: None, .. } = &trigger.kind {
            let message = "calls are not signed: anyone who knows the address may start it";
            let flaw = Flaw::new("not-signed", message).suggest("secret: hook-key");
            warnings.push(Flaw { path: format!("triggers[{at}].type"), ..flaw });
        }
        let TriggerKind::Schedule { declaration } = &trigger.kind else { continue };
        let Ok(timing) = trigger::check_rule(declaration, &defaults) else { continue };
        let key = trigger::rule_key(declaration).unwrap_or("type");
        for warning in timing.warnings(context.now) {
            let path = format!("triggers[{at}].{key}");
            warnings.push(Flaw { path, ..Flaw::new(warning.code, warning.message) });
        }
    }
    if definition.steps.is_empty() {
        let flaw = Flaw::new("no-steps", "there are no steps: a run ends as soon as it starts");
        warnings.push(Flaw { path: "steps".to_owned(), ..flaw });
    }
    warnings.extend(late_deadline(definition));
    for step in &definition.steps {
        warnings.extend(of_step(definition, step, context));
    }
    warnings
}

/// A deadline that no run reaches.
fn late_deadline(definition: &Definition) -> Option<Flaw> {
    let Limit::Within(Stretch::Elapsed(within)) = definition.deadline.as_ref()?.limit else {
        return None;
    };
    let timeout = definition.timeout.filter(|timeout| *timeout <= within)?;
    let timeout = calendar::format_duration(timeout);
    let message = format!("a run ends by its timeout of {timeout} before this deadline");
    Some(Flaw { path: "deadline.within".to_owned(), ..Flaw::new("after-timeout", message) })
}

fn of_step(definition: &Definition, step: &Step, context: &ReadContext<'_>) -> Option<Flaw> {
    let at = |key: &str, flaw: Flaw| Flaw { path: format!("steps[{}].{key}", step.id), ..flaw };
    match &step.action {
        Action::Timer(Timer::Delay(Stretch::Elapsed(delay))) => {
            let timeout = definition.timeout.filter(|timeout| timeout <= delay)?;
            let timeout = calendar::format_duration(timeout);
            let message = format!("a run ends by its timeout of {timeout} before this timer");
            Some(at("delay", Flaw::new("after-timeout", message)))
        }
        Action::Timer(Timer::Until(text)) if !text.contains("{{") => {
            let name = definition.timezone.as_deref().unwrap_or("UTC");
            let zone = context.zones.get(name).ok()?;
            let until = Until::parse(text).ok()?.instant(context.now, &zone, context.zones).ok()?;
            let over = until <= context.now;
            let message = "this time is over: the timer does not wait";
            over.then(|| at("until", Flaw::new("time-over", message)))
        }
        Action::SubProcess(child) if child.workflow == definition.name => {
            let message = "the workflow starts itself, again and again unless a condition ends it";
            let unconditional = step.condition.is_none();
            unconditional.then(|| at("workflow", Flaw::new("starts-itself", message)))
        }
        _ => None,
    }
}

/// The same flaws with line, column and excerpt, found in the text by their paths.
pub fn locate(mut flaws: Vec<Flaw>, text: &str) -> Vec<Flaw> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let source = Source::new(text);
    let Ok((root, _)) = tree::parse(&source) else { return flaws };
    for flaw in &mut flaws {
        flaw.path = by_place(&root, &flaw.path);
        let found = follow(&root, &flaw.path);
        let span = found.node.mark();
        (flaw.line, flaw.column) = source.position(span.start);
        flaw.excerpt = Some(source.excerpt(span));
    }
    flaws
}

/// A path in which a step is named by its place in the text instead of its id: the checked steps
/// are in the order in which they run.
fn by_place(root: &Node, path: &str) -> String {
    let named = path.strip_prefix("steps[").and_then(|rest| rest.split_once(']'));
    let Some((id, below)) = named else { return path.to_owned() };
    let is = |step: &Node| {
        let given = step.entry("id").map(|entry| &entry.value.kind);
        matches!(given, Some(Kind::Text(given)) if given == id)
    };
    let place = match root.entry("steps").map(|entry| &entry.value.kind) {
        Some(Kind::List(steps)) => steps.iter().position(is),
        _ => None,
    };
    place.map_or("steps".to_owned(), |place| format!("steps[{place}]{below}"))
}

/// Where steps run commands, as flaws with their places: for hosts that do not allow them.
pub fn commands(definition: &Definition, text: &str) -> Vec<Flaw> {
    let flaws = definition.steps.iter().flat_map(|step| {
        let undone = step.compensation.as_ref().map(|undo| &undo.action);
        let each = match &step.action {
            Action::ForEach(each) => Some(&*each.action),
            _ => None,
        };
        let all = [("", Some(&step.action)), ("step.", each), ("compensation.", undone)];
        let commands =
            all.into_iter().filter(|(_, action)| matches!(action, Some(Action::Exec(_))));
        commands.map(|(key, _)| {
            let flaw = Flaw::new("exec-not-allowed", "commands are not allowed on this node")
                .suggest("start the node with --allow-exec");
            Flaw { path: format!("steps[{}].{key}type", step.id), ..flaw }
        })
    });
    locate(flaws.collect(), text)
}
