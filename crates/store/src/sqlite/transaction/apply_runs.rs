//! Writes the runs that a turn decided, with their steps, queue entries, approvals and alerts.

use engine::RunId;
use engine::run::{Queueing, Run, RunState, RunStatus, StepStatus, TriggeredBy};
use engine::turn::{AlertWrite, ApprovalWrite, RunWrite, Writes};
use rusqlite::{Connection, Statement, params};

use crate::codes::WAKE_RUN;
use crate::failure::Failure;
use crate::sqlite::transaction::apply::PreparedStatements;
use crate::sqlite::transaction::many_rows::Insert;
use crate::stored::{code, deadline_step, end_name, json, milliseconds, ms};

pub(crate) fn runs(pen: &mut PreparedStatements<'_>, writes: &Writes) -> Result<(), Failure> {
    let mut plain: Vec<(&Run, u64)> = Vec::new();
    for write in &writes.runs {
        match write {
            RunWrite::Insert(new) => {
                match plain_number(new) {
                    Some(n) => plain.push((new, n)),
                    None => {
                        let mut statement = pen.connection.prepare_cached(INSERT_RUN)?;
                        insert_run(&mut statement, new)?;
                    }
                }
                pen.wake(WAKE_RUN, new.key.0, None, new.wake_at())?;
            }
            RunWrite::Update { after, old_wake, .. } => {
                update_run(&mut pen.update_run, after)?;
                pen.wake(WAKE_RUN, after.key.0, *old_wake, after.wake_at())?;
            }
        }
    }
    INSERT_PLAIN_RUNS.all(pen.connection, &plain, |row, (run, n)| {
        row.put(run.key.0)?;
        row.put(run.workflow.0)?;
        row.put(run.version)?;
        row.put(run.schedule.map(|id| id.0))?;
        row.put(n)?;
        row.put(code(&TriggeredBy::ALL, run.triggered_by))?;
        row.put(run.nominal.map(ms))?;
        row.put(run.effective.map(ms))?;
        row.put(ms(run.created_at))?;
        row.put(run.timeout.map(milliseconds))?;
        row.put(run.input.get())?;
        row.put(code(&RunStatus::ALL, run.status))?;
        row.put(run.started_at.map(ms))?;
        row.put(run.ended_at.map(ms))?;
        row.put(json(&run.state)?)?;
        row.put(owners(&run.state))?;
        row.put(run.waits_for_slot)?;
        row.put(run.overdue)?;
        row.put(run.output.as_ref().map(|output| output.get()))
    })
}

/// Runs as most schedules start them. The other columns are NULL, and `retry` is 0. With `OR FAIL`
/// SQLite keeps no copies of pages to undo this statement alone: if it fails, the turn is undone.
const INSERT_PLAIN_RUNS: Insert = Insert {
    into: "INSERT OR FAIL INTO runs (key, workflow, version, schedule, n, triggered_by, nominal, effective,
           created_at, timeout, input, status, started_at, ended_at, state, owners, waits_for_slot,
           overdue, output, retry)",
    columns: 19,
    constants: ", 0",
    then: "",
};

/// The number of the occurrence, if the run is the first of it and has only the columns of
/// [`INSERT_PLAIN_RUNS`].
fn plain_number(run: &Run) -> Option<u64> {
    let RunId::Occurrence { n, retry: 0, .. } = run.id else { return None };
    let is_plain = run.by.is_none()
        && run.retry_of.is_none()
        && run.parent.is_none()
        && run.error.is_none()
        && run.handler.is_none()
        && run.trace.is_none();
    is_plain.then_some(n)
}

const INSERT_RUN: &str = "INSERT INTO runs
    (key, uuid, workflow, version, schedule, n, retry, triggered_by, by, nominal, effective,
     created_at, timeout, input, retry_of, parent, parent_token, depth, status, started_at, ended_at,
     state, owners, waits_for_slot, overdue, output, error, handler, trace, root, hops)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20,
     ?21, ?22, ?23, ?24, ?25, ?26, ?27, ?28, ?29, ?30, ?31)";

fn insert_run(statement: &mut Statement<'_>, run: &Run) -> Result<(), Failure> {
    let (uuid, n, retry) = match &run.id {
        RunId::Occurrence { n, retry, .. } => (None, Some(*n), *retry),
        RunId::Other(uuid) => (Some(uuid.to_be_bytes()), None, 0),
    };
    statement.execute(params![
        run.key.0,
        uuid,
        run.workflow.0,
        run.version,
        run.schedule.map(|id| id.0),
        n,
        retry,
        code(&TriggeredBy::ALL, run.triggered_by),
        run.by,
        run.nominal.map(ms),
        run.effective.map(ms),
        ms(run.created_at),
        run.timeout.map(milliseconds),
        run.input.get(),
        run.retry_of.as_ref().map(ToString::to_string),
        run.parent.map(|parent| parent.run.0),
        run.parent.and_then(|parent| parent.token),
        run.parent.map(|parent| parent.depth),
        code(&RunStatus::ALL, run.status),
        run.started_at.map(ms),
        run.ended_at.map(ms),
        json(&run.state)?,
        owners(&run.state),
        run.waits_for_slot,
        run.overdue,
        run.output.as_ref().map(|output| output.get()),
        run.error.as_ref().map(json).transpose()?,
        run.handler,
        run.trace.map(|trace| trace.to_string()),
        run.parent.map(|parent| parent.root.0),
        run.parent.map(|parent| parent.hops),
    ])?;
    Ok(())
}

pub(crate) const UPDATE_RUN: &str = "UPDATE runs SET status = ?2, started_at = ?3, ended_at = ?4,
    state = ?5, owners = ?6, waits_for_slot = ?7, overdue = ?8, output = ?9, error = ?10
    WHERE key = ?1";

fn update_run(statement: &mut Statement<'_>, run: &Run) -> Result<(), Failure> {
    statement.execute(params![
        run.key.0,
        code(&RunStatus::ALL, run.status),
        run.started_at.map(ms),
        run.ended_at.map(ms),
        json(&run.state)?,
        owners(&run.state),
        run.waits_for_slot,
        run.overdue,
        run.output.as_ref().map(|output| output.get()),
        run.error.as_ref().map(json).transpose()?,
    ])?;
    Ok(())
}

/// The nodes that perform attempts of the run, with a comma before and after each.
pub(crate) fn owners(position: &RunState) -> Option<String> {
    use std::fmt::Write as _;
    let mut text = String::new();
    for owner in position.owners() {
        // Writing into a string cannot fail.
        let _ = write!(text, "{}{owner},", if text.is_empty() { "," } else { "" });
    }
    (!text.is_empty()).then_some(text)
}

/// The text by which one node is searched for in the owners.
pub(crate) fn owner(node: engine::NodeId) -> String {
    format!(",{node},")
}

const INSERT_STEPS: Insert = Insert {
    into: "INSERT OR REPLACE INTO steps (run, step, item, status, attempts, started_at, ended_at,
           output, error, reason, overdue)",
    columns: 11,
    constants: "",
    then: "",
};

pub(crate) fn steps(connection: &Connection, writes: &Writes) -> Result<(), Failure> {
    INSERT_STEPS.all(connection, &writes.steps, |row, (run, step)| {
        row.put(run.0)?;
        row.put(step.step)?;
        row.put(step.item.number())?;
        row.put(code(&StepStatus::ALL, step.status))?;
        row.put(step.attempts)?;
        row.put(ms(step.started_at))?;
        row.put(ms(step.ended_at))?;
        row.put(step.output.as_ref().map(|output| output.get()))?;
        row.put(step.error.as_ref().map(json).transpose()?)?;
        row.put(step.reason.as_deref())?;
        row.put(step.overdue)
    })
}

pub(crate) fn attempts(connection: &Connection, writes: &Writes) -> Result<(), Failure> {
    let sql = "INSERT OR IGNORE INTO attempts
               (run, step, item, started_at, attempt, status, ended_at, error)
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
    for (run, attempt) in &writes.attempts {
        connection.prepare_cached(sql)?.execute(params![
            run.0,
            attempt.step,
            attempt.item.number(),
            ms(attempt.started_at),
            attempt.attempt,
            code(&StepStatus::ALL, attempt.status),
            ms(attempt.ended_at),
            attempt.error.as_ref().map(json).transpose()?,
        ])?;
    }
    Ok(())
}

/// Writes queue entries, approvals, and the alerts of deadlines.
pub(crate) fn waiting(connection: &Connection, writes: &Writes) -> Result<(), Failure> {
    for (run, queueing) in &writes.queueing {
        match queueing {
            Queueing::Put(queue, part) => {
                let sql = "INSERT OR REPLACE INTO queue (run, step, item, queue)
                           VALUES (?1, ?2, ?3, ?4)";
                let params = params![run.0, part.step, part.item.number(), queue];
                connection.prepare_cached(sql)?.execute(params)?;
            }
            Queueing::Take(part) => {
                let sql = "DELETE FROM queue WHERE run = ?1 AND step = ?2 AND item = ?3";
                connection.prepare_cached(sql)?.execute(params![
                    run.0,
                    part.step,
                    part.item.number()
                ])?;
            }
        }
    }
    for write in &writes.approvals {
        approval(connection, write)?;
    }
    for write in &writes.alerts {
        alert(connection, write)?;
    }
    Ok(())
}

fn approval(connection: &Connection, write: &ApprovalWrite) -> Result<(), Failure> {
    match write {
        ApprovalWrite::Ask(run, at, asked) => {
            let sql = "INSERT OR REPLACE INTO approvals
                       (run, step, title, description, assignees, asked_at)
                       VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
            connection.prepare_cached(sql)?.execute(params![
                run.0,
                asked.step,
                asked.title,
                asked.description,
                json(&asked.assignees)?,
                ms(*at),
            ])?;
        }
        ApprovalWrite::Withdraw(run, step) => {
            let sql = "DELETE FROM approvals WHERE run = ?1 AND step = ?2";
            connection.prepare_cached(sql)?.execute(params![run.0, step])?;
        }
    }
    Ok(())
}

fn alert(connection: &Connection, write: &AlertWrite) -> Result<(), Failure> {
    let sql = "INSERT OR REPLACE INTO alerts
               (run, step, action, at, due, happened_at, ended, started, refused)
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)";
    connection.prepare_cached(sql)?.execute(params![
        write.run.0,
        deadline_step(write.alert.step),
        write.alert.action,
        ms(write.alert.at),
        ms(write.alert.due),
        ms(write.at),
        write.end.map(end_name),
        json(&write.started)?,
        write.refused,
    ])?;
    Ok(())
}
