//! The columns that queries select, in the order in which `rows` reads them. They are macros that
//! expand to literals, so that statements are put together at compile time.

macro_rules! of_schedule {
    () => {
        "s.id, s.workflow, s.trigger, s.status, s.declared, s.created_at, s.updated_at, p.anchor,
         p.mark, p.next_nominal, p.next_effective, p.n, p.renewed_at, p.current_repeat, p.current_retry,
         p.run_count, p.error_count, p.last_error, p.last_run_at, p.last_outcome, p.live,
         p.has_overrides, p.recomputed_at, p.incident"
    };
}

macro_rules! of_run {
    () => {
        "r.key, r.uuid, r.workflow, r.version, r.schedule, r.n, r.retry, r.triggered_by, r.by,
         r.nominal, r.effective, r.status, r.created_at, r.started_at, r.ended_at, r.timeout, r.state,
         r.lacks_place, r.overdue, r.parent, r.parent_token, r.depth, r.input, r.output, r.error,
         r.retry_of, r.handler, r.trace, r.root, r.hops"
    };
}

macro_rules! of_step {
    () => {
        "step, item, status, attempts, started_at, ended_at, output, error, reason, overdue"
    };
}

macro_rules! of_workflow {
    () => {
        "w.id, w.name, w.status, w.paused, w.newest, w.live, w.concurrency, w.active,
         w.retention, w.created_at, w.updated_at, w.paused_reason, w.paused_by, w.handling,
         w.incident"
    };
}

macro_rules! of_incident {
    () => {
        "i.key, i.workflow, i.schedule, i.run, i.nominal, i.error, i.began_at, i.told, i.ending,
         i.ended_at, i.ended_by, i.ended_told"
    };
}

macro_rules! of_ledger {
    () => {
        "l.schedule, l.n, l.count, l.nominal, l.last_nominal, l.effective, l.decided_at, l.outcome,
         l.reason, l.run"
    };
}

macro_rules! of_topic {
    () => {
        "t.id, t.workflow, t.name, t.max_attempts, t.pending, t.reserved, t.consumed, t.skipped,
         t.created_at"
    };
}

macro_rules! of_fate {
    () => {
        "e.key, e.topic, e.state, e.attempt, e.run, e.reason, e.updated_at, e.hops"
    };
}

/// An event's fate, then its message.
macro_rules! of_event {
    () => {
        "e.key, e.topic, e.state, e.attempt, e.run, e.reason, e.updated_at, e.hops,
         e.created_at, e.message_id, m.title, m.payload, m.causes"
    };
}

macro_rules! of_handler {
    () => {
        "h.id, h.workflow, h.name, h.kind, h.state, h.cause, h.wake_at, h.retry_at, h.failures,
         h.resumes, h.run, h.last_run_at, h.last_outcome, h.runs"
    };
}

pub(crate) use {
    of_event, of_fate, of_handler, of_incident, of_ledger, of_run, of_schedule, of_step, of_topic,
    of_workflow,
};
