//! Spans of the runs and attempts that end in a turn.

use jiff::Timestamp;
use language::definition::Definition;

use super::entities::Loaded;
use super::{TransactionReader, Turn};
use crate::ids::RunKey;
use crate::run::{Decision, Part, Run, StepRecord};
use crate::trace::{AttemptOf, Span, TraceContext};

impl<B: TransactionReader> Turn<'_, B> {
    /// The trace context that a run passes on: its own span if runs are traced, otherwise its
    /// caller's.
    pub(super) fn trace_of_run(&self, key: RunKey) -> Option<TraceContext> {
        let run = self.loaded.runs.get(key)?;
        if self.context.is_traced {
            Some(TraceContext::of_run(&run.id, run.trace))
        } else {
            run.trace
        }
    }

    /// The trace context of an attempt that began at this instant.
    pub(super) fn trace_of_attempt(
        &self,
        key: RunKey,
        part: Part,
        attempt: u32,
        since: Timestamp,
    ) -> Option<TraceContext> {
        let run = self.trace_of_run(key)?;
        Some(if self.context.is_traced { run.of_attempt(part, attempt, since) } else { run })
    }

    /// Adds the span of a run that has ended in this turn.
    pub(super) fn trace_run(&mut self, loaded: &Loaded<Box<Run>>) {
        let run = &loaded.now;
        let has_ended =
            run.status.has_ended() && (loaded.is_new || !loaded.before.status.has_ended());
        if !has_ended || run.trace.is_some_and(|caller| !caller.is_recorded) {
            return;
        }
        let definition = self.loaded.definitions.get(&(run.workflow, run.version));
        let workflow = definition.map(|definition| definition.name.as_str()).unwrap_or_default();
        let ended_at = run.ended_at.unwrap_or(self.context.moment.now);
        self.output.spans.push(Span::of_run(run, workflow, ended_at));
    }
}

/// Adds the spans of the attempts that have ended with this decision.
pub(super) fn trace_attempts(
    spans: &mut Vec<Span>,
    run: &Run,
    definition: &Definition,
    decision: &Decision,
) {
    let root = TraceContext::of_run(&run.id, run.trace);
    if !root.is_recorded {
        return;
    }
    for record in decision.begun.iter().filter_map(|at| decision.records.get(*at)) {
        let StepRecord { step, item, attempts: attempt, started_at, .. } = *record;
        let Some(id) = definition.steps.get(step as usize).map(|step| &step.id) else { continue };
        spans.push(Span {
            context: root.of_attempt(Part { step, item }, attempt, started_at),
            parent: Some(root.span),
            attempt: Some(AttemptOf { step: id.clone(), item, attempt }),
            from: started_at,
            status: record.status.name(),
            error: record.error.clone(),
            ..Span::of_run(run, &definition.name, record.ended_at)
        });
    }
}
