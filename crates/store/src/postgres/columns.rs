//! The columns of what is read, in the order that `rows` reads them: literals, so that statements can be put
//! together from them before the program runs.

macro_rules! of_schedule {
    () => {
        "s.id, s.workflow, s.trigger, s.status, s.declared, s.created_at, s.updated_at, p.anchor,
         p.mark, p.next_nominal, p.next_effective, p.n, p.repeats, p.current_repeat, p.current_retry,
         p.run_count, p.error_count, p.last_error, p.last_run_at, p.last_outcome, p.live,
         p.has_overrides, p.recomputed_at"
    };
}

macro_rules! of_run {
    () => {
        "r.key, r.uuid, r.workflow, r.version, r.schedule, r.n, r.retry, r.triggered_by, r.by,
         r.nominal, r.effective, r.status, r.created_at, r.started_at, r.ended_at, r.timeout, r.state,
         r.lacks_place, r.overdue, r.parent, r.parent_token, r.depth, r.input, r.output, r.error,
         r.retry_of"
    };
}

macro_rules! of_step {
    () => {
        "step, item, status, attempts, started_at, ended_at, output, error, reason, overdue"
    };
}

macro_rules! of_workflow {
    () => {
        "w.id, w.name, w.status, w.paused, w.newest, w.live, w.concurrency, w.active, w.by_hand,
         w.retention, w.created_at, w.updated_at"
    };
}

macro_rules! of_ledger {
    () => {
        "l.schedule, l.n, l.count, l.nominal, l.last_nominal, l.effective, l.decided_at, l.outcome,
         l.reason, l.run"
    };
}

pub(super) use {of_ledger, of_run, of_schedule, of_step, of_workflow};
