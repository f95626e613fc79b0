//! What someone should know about a definition before relying on it.

use super::calendars::Calendars;
use super::flaw::Flaw;
use super::model::{Definition, TriggerKind};
use super::path::follow;
use super::source::Source;
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
