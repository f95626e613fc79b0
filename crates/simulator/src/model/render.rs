//! Renders the whole state as text.

use std::fmt::Write as _;

use super::Model;
use crate::trace::shown;

impl Model {
    pub(crate) fn render(&self) -> String {
        let mut text = String::new();
        // Writing into a string cannot fail.
        for row in self.workflows.values() {
            let begun = self.begun.get(&row.id).copied().unwrap_or(0);
            let paused = if row.paused { ", paused" } else { "" };
            let _ = writeln!(
                text,
                "workflow {} {}: live {:?}, concurrency {:?}, {begun} active{paused}",
                row.id, row.name, row.live, row.concurrency
            );
        }
        for (id, kept) in &self.schedules {
            let next =
                kept.next.map(|(nominal, at)| format!("{} at {}", shown(nominal), shown(at)));
            let _ = writeln!(
                text,
                "schedule {id} of workflow {} {}: n {}, next {}, mark {}, active {:?}, by hand {:?}, \
                 queued {:?}\n    {}",
                kept.row.workflow,
                kept.row.status.name(),
                kept.next_n,
                next.as_deref().unwrap_or("never"),
                shown(kept.cursor),
                kept.active,
                kept.by_hand,
                kept.queued,
                kept.row.declared
            );
        }
        for topic in self.handling.topics.values() {
            let _ = writeln!(text, "{topic:?}");
        }
        for event in self.handling.events.values().filter(|event| (event.state as usize) < 2) {
            let _ = writeln!(text, "{event:?}");
        }
        for handler in self.handling.handlers.values() {
            let _ = writeln!(text, "{handler:?}");
        }
        for run in self.runs.values() {
            let _ = writeln!(
                text,
                "run {} {} of workflow {}: {}, {}",
                run.key,
                run.id(),
                run.workflow,
                run.status.name(),
                serde_json::to_string(&run.state).unwrap_or_default()
            );
        }
        text
    }
}
