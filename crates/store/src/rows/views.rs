//! Rows that are joined for the views of both stores.

use engine::run::RunStatus;
use engine::topics::{Event, EventState, Message};
use jiff::Timestamp;
use serde_json::value::RawValue;

use crate::access::{
    AuditEntry, AuditView, SignInView, SignedInWith, TokenRow, TokenView, UnreadableToken,
};
use crate::rows::{
    Read, Row, RunIdColumns, columns, entry, event_columns, event_status_columns, event_status_in,
    handler, message, mutation, or_why, run, schedule,
};
use crate::topic_view::{EventView, HandlerView, MutationView};
use crate::view::{AlertView, LedgerRow, RunView, ScheduleView};

columns! {
    /// A schedule, and what its workflow says.
    schedule_view_columns = schedule_columns,
        workflow_name: "w.name",
        workflow_is_paused: "w.paused",
}

/// Without the overrides, which are read separately.
pub(crate) fn schedule_view(row: &impl Row) -> Read<ScheduleView> {
    Ok(ScheduleView {
        schedule: schedule(row)?,
        workflow_name: row.read(schedule_view_columns::workflow_name)?,
        workflow_is_paused: row.read(schedule_view_columns::workflow_is_paused)?,
        overrides: Vec::new(),
        unreadable_overrides: Vec::new(),
    })
}

columns! {
    /// A ledger row, and the status and id of its run.
    ledger_row_columns = ledger_columns, status: "r.status"; run_id of "r"
}

pub(crate) fn ledger_row(row: &impl Row) -> Read<LedgerRow> {
    let run = match row.read::<Option<RunStatus>>(ledger_row_columns::status)? {
        None => None,
        Some(status) => Some((RunIdColumns::from(ledger_row_columns::key).read(row)?, status)),
    };
    Ok(LedgerRow { entry: entry(row)?, run })
}

columns! {
    /// A run, its workflow's name, and its parent's id.
    run_view_columns = run_columns, workflow_name: "w.name"; run_id of "p"
}

pub(crate) fn run_view(row: &impl Row) -> Read<RunView> {
    Ok(RunView {
        run: run(row)?,
        workflow_name: row.read(run_view_columns::workflow_name)?,
        parent: RunIdColumns::from(run_view_columns::key).maybe(row)?,
    })
}

columns! {
    /// An event, and the id of the run that works on it, or worked on it last.
    event_view_columns = event_columns; run_id of "r"
}

pub(crate) fn event_view(row: &impl Row) -> Read<EventView> {
    let run = RunIdColumns::from(event_view_columns::key).maybe(row)?;
    let (message, unreadable) = match or_why(message(row))? {
        Ok(message) => (message, None),
        Err(why) => {
            let message_id = row.read(event_columns::message_id)?;
            let title = row.read(event_columns::title).unwrap_or_default();
            let payload = RawValue::NULL.to_owned();
            (Message { message_id, title, payload, causes: Vec::new() }, Some(why))
        }
    };
    // Nobody works on an event in a state that is not known, as if it were skipped, which is what a
    // repair makes of it.
    let (state, unreadable) = match or_why(row.read(event_status_columns::state))? {
        Ok(state) => (state, unreadable),
        Err(why) => (EventState::Skipped, Some(why)),
    };
    let status = event_status_in(row, state)?;
    let created_at = row.read(event_columns::created_at)?;
    Ok(EventView { event: Event { message, status, created_at }, run, unreadable })
}

columns! {
    /// A handler, and the id of its open run.
    handler_view_columns = handler_columns; run_id of "r"
}

pub(crate) fn handler_view(row: &impl Row) -> Read<HandlerView> {
    let run = RunIdColumns::from(handler_view_columns::key).maybe(row)?;
    Ok(HandlerView { handler: handler(row)?, run })
}

columns! {
    /// A mutation, and the id of its run.
    mutation_view_columns = mutation_columns; run_id of "r"
}

pub(crate) fn mutation_view(row: &impl Row) -> Read<MutationView> {
    let run = RunIdColumns::from(mutation_view_columns::key).read(row)?;
    Ok(MutationView { mutation: mutation(row)?, run })
}

columns! {
    /// The id of a run that waits for an approval, what is asked, and where the run is.
    approval_columns = run_id_columns,
        run: "a.run",
        step: "a.step",
        title: "a.title",
        description: "a.description",
        assignees: "a.assignees",
        asked_at: "a.asked_at",
        workflow: "r.workflow",
        version: "r.version",
        state: "r.state",
        workflow_name: "w.name",
        created_at: "r.created_at",
}

columns! {
    /// What a person is asked.
    asked_columns = a approvals: title, description, assignees, asked_at;
}

/// Fails if a row of `asked_columns` cannot be read.
pub(crate) fn check_asked(row: &impl Row) -> Read<()> {
    use asked_columns as column;
    row.read::<String>(column::title)?;
    row.read::<Option<String>>(column::description)?;
    row.json::<Vec<String>>(column::assignees)?;
    row.read::<Timestamp>(column::asked_at)?;
    Ok(())
}

columns! {
    alert_columns = a alerts: step, action, due, at, happened_at, ended, started, refused;
}

/// Without the step and the runs that the alert started, which have to be looked up.
pub(crate) fn alert_view(row: &impl Row) -> Read<AlertView> {
    use alert_columns as column;
    Ok(AlertView {
        step: None,
        action: row.read(column::action)?,
        due: row.read(column::due)?,
        at: row.read(column::at)?,
        happened_at: row.read(column::happened_at)?,
        ended: row.read(column::ended)?,
        started: Vec::new(),
        refused: row.read(column::refused)?,
    })
}

columns! {
    token_columns = t tokens: id, name, roles, queues, created_at, created_by, expires_at,
        revoked_at;
}

pub(crate) fn token_view(row: &impl Row) -> Read<TokenView> {
    use token_columns as column;
    Ok(TokenView {
        id: row.read(column::id)?,
        name: row.read(column::name)?,
        roles: row.json(column::roles)?,
        queues: row.maybe_json(column::queues)?,
        created_at: row.read(column::created_at)?,
        created_by: row.read(column::created_by)?,
        expires_at: row.read(column::expires_at)?,
        revoked_at: row.read(column::revoked_at)?,
    })
}

/// A token, or what can be read of it.
pub(crate) fn token_row(row: &impl Row) -> Read<TokenRow> {
    use token_columns as column;
    let why = match or_why(token_view(row))? {
        Ok(view) => return Ok(Ok(view)),
        Err(why) => why,
    };
    let id: i64 = row.read(column::id)?;
    let name = row.read(column::name).unwrap_or_else(|_| id.to_string());
    // A time that cannot be read tells of a revocation too: whoever wrote it meant one.
    let is_revoked = !matches!(row.maybe_integer(column::revoked_at), Ok(None));
    Ok(Err(UnreadableToken { id, name, is_revoked, why }))
}

columns! {
    audit_columns = a audit: key, at, who, from_address, action, target, detail;
}

pub(crate) fn audit_view(row: &impl Row) -> Read<AuditView> {
    use audit_columns as column;
    Ok(AuditView {
        key: row.read(column::key)?,
        at: row.read(column::at)?,
        entry: AuditEntry {
            who: row.read(column::who)?,
            from: row.read(column::from_address)?,
            action: row.read(column::action)?,
            target: row.read(column::target)?,
            detail: row.read(column::detail)?,
        },
    })
}

columns! {
    sign_in_columns = i sign_ins: token, node, created_at, expires_at;
}

/// Without the token, which is read separately.
pub(crate) fn sign_in_view(row: &impl Row) -> Read<SignInView> {
    use sign_in_columns as column;
    let with = match row.read(column::token)? {
        Some(id) => SignedInWith::Token(id),
        None => {
            let hash = row.maybe_bytes(column::node)?.and_then(|hash| hash.try_into().ok());
            SignedInWith::Node(hash.ok_or_else(|| column::node.damaged("no hash"))?)
        }
    };
    let (created_at, expires_at) = (row.read(column::created_at)?, row.read(column::expires_at)?);
    Ok(SignInView { with, token: None, created_at, expires_at })
}

columns! {
    set_aside_columns = a set_aside: kind, id, reason, at;
}
