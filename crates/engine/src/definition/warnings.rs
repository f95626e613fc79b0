//! What someone should know about a definition before relying on it.

use super::action::Action;
use super::calendars::Calendars;
use super::flaw::Flaw;
use super::model::{Definition, Step, TriggerKind};
use super::path::follow;
use super::source::Source;
use super::tree::{Kind, Node};
use super::trigger::{self, Defaults};
use super::{ReadContext, tree};

/// Remarks that stop nothing: a trigger that never fires, a time in a daylight saving gap, no steps.
/// They have paths; [`locate`] adds the places in the text.
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
    warnings
}

/// The same flaws with line, column and excerpt, found in the text by their paths.
pub fn locate(mut flaws: Vec<Flaw>, text: &str) -> Vec<Flaw> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let source = Source::new(text);
    let Ok((root, _)) = tree::parse(&source) else { return flaws };
    for flaw in &mut flaws {
        let found = follow(&root, &flaw.path);
        let span = found.node.mark();
        (flaw.line, flaw.column) = source.position(span.start);
        flaw.excerpt = Some(source.excerpt(span));
    }
    flaws
}

/// The steps that run commands, as flaws with their places: for hosts that do not allow them.
pub fn commands(definition: &Definition, text: &str) -> Vec<Flaw> {
    let runs_commands = |step: &&Step| matches!(step.action, Action::Exec(_));
    let ids: Vec<&str> =
        definition.steps.iter().filter(runs_commands).map(|step| &*step.id).collect();
    if ids.is_empty() {
        return Vec::new();
    }
    let found = tree::parse(&Source::new(text.strip_prefix('\u{feff}').unwrap_or(text)));
    // The checked steps are in the order in which they run, not in the order of the text.
    let in_text =
        found.as_ref().ok().and_then(|(root, _)| match &root.entry("steps")?.value.kind {
            Kind::List(steps) => Some(steps),
            _ => None,
        });
    let place = |id: &str| {
        let is = |step: &Node| {
            step.entry("id")
                .is_some_and(|entry| matches!(&entry.value.kind, Kind::Text(t) if t == id))
        };
        in_text.and_then(|steps| steps.iter().position(is))
    };
    let flaws = ids.iter().map(|id| {
        let path = place(id).map_or("steps".to_owned(), |place| format!("steps[{place}].type"));
        let flaw = Flaw::new("exec-not-allowed", "commands are not allowed on this node")
            .suggest("start the node with --allow-exec");
        Flaw { path, ..flaw }
    });
    locate(flaws.collect(), text)
}
