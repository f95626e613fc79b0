//! Writes what a turn decided.

use engine::ledger::Outcome;
use engine::run::Ending;
use engine::schedule::{Schedule, Status};
use engine::turn::{OverrideWrite, ScheduleWrite, Workflow, WorkflowStatus, Writes};
use jiff::Timestamp;
use language::definition::DeclaredBy;
use rusqlite::{CachedStatement, Connection, Statement, params};

use crate::codes::{WAKE_NODE, WAKE_SCHEDULE};
use crate::failure::Failure;
use crate::rows::Row as _;
use crate::schedule_counts::ScheduleCounts;
use crate::sqlite::connections::query;
use crate::sqlite::transaction::apply_runs::{self, UPDATE_RUN};
use crate::sqlite::transaction::apply_topics;
use crate::sqlite::transaction::many_rows::Insert;
use crate::sqlite::transaction::minute_counts;
use crate::stored::{code, json, milliseconds, ms};
use crate::words::words;

pub(crate) fn apply(
    connection: &Connection,
    writes: &Writes,
    now: Timestamp,
) -> Result<(), Failure> {
    let mut pen = PreparedStatements::new(connection)?;
    for write in &writes.schedules {
        schedule(&mut pen, write)?;
    }
    schedule_counts(connection, writes)?;
    apply_runs::runs(&mut pen, writes)?;
    apply_runs::steps(connection, writes)?;
    apply_runs::attempts(connection, writes)?;
    apply_runs::waiting(connection, writes)?;
    apply_topics::apply(&mut pen, writes)?;
    pen.insert_wakeups()?;
    ledger(connection, writes)?;
    minute_counts::write(connection, writes)?;
    for write in &writes.workflows {
        workflow(connection, write)?;
    }
    crate::sqlite::transaction::incidents::write(connection, writes)?;
    revisions(connection, writes)?;
    overrides(connection, writes)?;
    for node in &writes.nodes_gone {
        connection.prepare_cached("DELETE FROM nodes WHERE id = ?1")?.execute([node.0])?;
        // Only due wakeups are searched: those of a gone node are all due.
        let sql = "DELETE FROM wakeups WHERE due <= ?1 AND kind = ?2 AND id = ?3";
        connection.prepare_cached(sql)?.execute(params![ms(now), WAKE_NODE, node.0])?;
    }
    Ok(())
}

/// The statements that every occurrence uses, prepared once for the whole turn.
pub(crate) struct PreparedStatements<'c> {
    pub(crate) connection: &'c Connection,
    update_progress: CachedStatement<'c>,
    pub(crate) update_run: CachedStatement<'c>,
    delete_wakeup: CachedStatement<'c>,
    /// Wakeups to insert when all others were deleted: kind, time and id.
    new_wakeups: Vec<(i16, i64, i64)>,
}

const INSERT_WAKEUPS: Insert = Insert {
    into: "INSERT OR IGNORE INTO wakeups (kind, due, id)",
    columns: 3,
    constants: "",
    then: "",
};

impl<'c> PreparedStatements<'c> {
    fn new(connection: &'c Connection) -> Result<PreparedStatements<'c>, Failure> {
        Ok(PreparedStatements {
            connection,
            update_progress: connection.prepare_cached(UPDATE_PROGRESS)?,
            update_run: connection.prepare_cached(UPDATE_RUN)?,
            delete_wakeup: connection
                .prepare_cached("DELETE FROM wakeups WHERE due = ?1 AND kind = ?2 AND id = ?3")?,
            new_wakeups: Vec::new(),
        })
    }

    /// Inserts the wakeups that [`Self::wake`] was told of. Each entity has at most one, so that
    /// none of them is deleted again.
    fn insert_wakeups(&mut self) -> Result<(), Failure> {
        self.new_wakeups.sort_unstable();
        INSERT_WAKEUPS.all(self.connection, &self.new_wakeups, |row, (kind, due, id)| {
            row.put(kind)?;
            row.put(due)?;
            row.put(id)
        })?;
        self.new_wakeups.clear();
        Ok(())
    }

    /// Moves a wakeup from its old time to its new one.
    pub(crate) fn wake(
        &mut self,
        kind: i16,
        id: i64,
        old: Option<Timestamp>,
        new: Option<Timestamp>,
    ) -> Result<(), Failure> {
        if old == new {
            return Ok(());
        }
        if let Some(old) = old {
            self.delete_wakeup.execute(params![ms(old), kind, id])?;
        }
        if let Some(new) = new {
            self.new_wakeups.push((kind, ms(new), id));
        }
        Ok(())
    }
}

fn schedule(pen: &mut PreparedStatements<'_>, write: &ScheduleWrite) -> Result<(), Failure> {
    let connection = pen.connection;
    match write {
        ScheduleWrite::Insert(new) => {
            insert_schedule(connection, new)?;
            let mut statement = connection.prepare_cached(INSERT_PROGRESS)?;
            write_progress(&mut statement, new)?;
            pen.wake(WAKE_SCHEDULE, new.id.0, None, new.wake_at())?;
        }
        ScheduleWrite::Update { after, old_wake, old_status, declared } => {
            if *declared {
                update_schedule(connection, after)?;
            }
            if old_status.is_some() {
                update_status(connection, after)?;
            }
            write_progress(&mut pen.update_progress, after)?;
            pen.wake(WAKE_SCHEDULE, after.id.0, *old_wake, after.wake_at())?;
        }
        ScheduleWrite::Delete { before } => {
            let id = before.id.0;
            put_words(connection, id, &before.declared.name, false)?;
            for sql in [
                "DELETE FROM schedules WHERE id = ?1",
                "DELETE FROM progress WHERE id = ?1",
                "DELETE FROM overrides WHERE schedule = ?1",
            ] {
                connection.prepare_cached(sql)?.execute([id])?;
            }
            pen.wake(WAKE_SCHEDULE, id, before.wake_at(), None)?;
            remember_greatest(connection, "greatest_schedule", id)?;
        }
    }
    Ok(())
}

/// Overwrites a schedule's progress and status.
pub(crate) fn rewrite_schedule(connection: &Connection, to: &Schedule) -> Result<(), Failure> {
    update_status(connection, to)?;
    let mut statement = connection.prepare_cached(UPDATE_PROGRESS)?;
    write_progress(&mut statement, to)
}

/// Remembers the greatest id that was given, so that it is not given again even when every row that
/// had it is gone.
pub(crate) fn remember_greatest(
    connection: &Connection,
    key: &str,
    id: i64,
) -> Result<(), Failure> {
    let sql = "INSERT INTO meta (key, value) VALUES (?1, ?2) ON CONFLICT DO UPDATE
               SET value = max(CAST(value AS INTEGER), CAST(excluded.value AS INTEGER))";
    connection.prepare_cached(sql)?.execute(params![key, id.to_string()])?;
    Ok(())
}

fn insert_schedule(connection: &Connection, new: &Schedule) -> Result<(), Failure> {
    let sql = "INSERT INTO schedules
               (id, workflow, trigger, status, calendar, retention, declared, created_at, updated_at)
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)";
    connection.prepare_cached(sql)?.execute(params![
        new.id.0,
        new.workflow.0,
        new.declared_by.as_ref().map(DeclaredBy::to_string),
        code(&Status::ALL, new.status),
        new.declared.timing.calendar,
        new.declared.retention().map(milliseconds),
        json(&new.declared)?,
        ms(new.created_at),
        ms(new.updated_at),
    ])?;
    put_words(connection, new.id.0, &new.declared.name, true)
}

fn update_schedule(connection: &Connection, after: &Schedule) -> Result<(), Failure> {
    let known = "SELECT declared ->> 'name' FROM schedules WHERE id = ?1";
    let known: String = query::only(connection, known, [after.id.0], |row| row.single())?;
    if known != after.declared.name {
        put_words(connection, after.id.0, &known, false)?;
        put_words(connection, after.id.0, &after.declared.name, true)?;
    }
    let sql = "UPDATE schedules SET calendar = ?2, retention = ?3, declared = ?4 WHERE id = ?1";
    let retention = after.declared.retention().map(milliseconds);
    let declared = json(&after.declared)?;
    let params = params![after.id.0, after.declared.timing.calendar, retention, declared];
    connection.prepare_cached(sql)?.execute(params)?;
    Ok(())
}

fn update_status(connection: &Connection, after: &Schedule) -> Result<(), Failure> {
    let sql = "UPDATE schedules SET status = ?2, updated_at = ?3 WHERE id = ?1";
    let status = code(&Status::ALL, after.status);
    connection.prepare_cached(sql)?.execute([after.id.0, status, ms(after.updated_at)])?;
    Ok(())
}

pub(crate) fn put_words(
    connection: &Connection,
    id: i64,
    name: &str,
    there: bool,
) -> Result<(), Failure> {
    let sql = if there {
        "INSERT OR IGNORE INTO words (word, schedule) VALUES (?1, ?2)"
    } else {
        "DELETE FROM words WHERE word = ?1 AND schedule = ?2"
    };
    let mut statement = connection.prepare_cached(sql)?;
    for word in words(name) {
        statement.execute(params![word, id])?;
    }
    Ok(())
}

const INSERT_PROGRESS: &str = "INSERT INTO progress
    (anchor, mark, next_nominal, next_effective, n, renewed_at, current_repeat, current_retry, run_count,
     error_count, last_error, last_run_at, last_outcome, live, has_overrides, recomputed_at, incident, id)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18)";

const UPDATE_PROGRESS: &str = "UPDATE progress SET anchor = ?1, mark = ?2, next_nominal = ?3,
    next_effective = ?4, n = ?5, renewed_at = ?6, current_repeat = ?7, current_retry = ?8,
    run_count = ?9, error_count = ?10, last_error = ?11, last_run_at = ?12, last_outcome = ?13,
    live = ?14, has_overrides = ?15, recomputed_at = ?16, incident = ?17
    WHERE id = ?18";

fn write_progress(statement: &mut Statement<'_>, schedule: &Schedule) -> Result<(), Failure> {
    let progress = &schedule.progress;
    let idle = progress.active.is_empty() && progress.queued.is_empty();
    let live = (!idle).then(|| json(&(&progress.active, &progress.queued))).transpose()?;
    statement.execute(params![
        ms(progress.anchor),
        ms(progress.mark),
        progress.next.map(|due| ms(due.nominal)),
        progress.next.map(|due| ms(due.effective)),
        progress.n,
        progress.renewed_at.map(ms),
        progress.current_repeat,
        progress.current_retry,
        progress.run_count,
        progress.error_count,
        progress.last_error,
        progress.last_run_at.map(ms),
        progress.last_outcome.map(|ending| code(&Ending::ALL, ending)),
        live,
        progress.has_overrides,
        progress.recomputed_at.map(ms),
        progress.incident.map(|key| key.0),
        schedule.id.0,
    ])?;
    Ok(())
}

// A later write of the same occurrence keeps the run that was created for it.
const INSERT_LEDGER: Insert = Insert {
    into: "INSERT INTO ledger (schedule, n, count, nominal, last_nominal, effective, decided_at,
           outcome, reason, run)",
    columns: 10,
    constants: "",
    then: "ON CONFLICT DO UPDATE SET decided_at = excluded.decided_at, outcome = excluded.outcome,
           reason = excluded.reason, run = coalesce(run, excluded.run)",
};

fn ledger(connection: &Connection, writes: &Writes) -> Result<(), Failure> {
    INSERT_LEDGER.all(connection, &writes.ledger, |row, entry| {
        row.put(entry.schedule.0)?;
        row.put(entry.n)?;
        row.put(entry.count)?;
        row.put(ms(entry.nominal))?;
        row.put(ms(entry.last_nominal))?;
        row.put(ms(entry.effective))?;
        row.put(ms(entry.decided_at))?;
        row.put(code(&Outcome::ALL, entry.outcome))?;
        row.put(&*entry.reason)?;
        row.put(entry.run.map(|run| run.0))
    })
}

fn workflow(connection: &Connection, workflow: &Workflow) -> Result<(), Failure> {
    // Upserts by id, not by name: a workflow with the same name may be another workflow.
    let sql = "INSERT INTO workflows
               (id, name, status, paused, newest, live, concurrency, active, retention,
                created_at, updated_at, paused_reason, paused_by, handling, incident)
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)
               ON CONFLICT (id) DO UPDATE SET name = excluded.name, status = excluded.status,
                paused = excluded.paused, newest = excluded.newest, live = excluded.live,
                concurrency = excluded.concurrency, active = excluded.active,
                retention = excluded.retention,
                created_at = excluded.created_at, updated_at = excluded.updated_at,
                paused_reason = excluded.paused_reason, paused_by = excluded.paused_by,
                handling = excluded.handling, incident = excluded.incident";
    connection.prepare_cached(sql)?.execute(params![
        workflow.id.0,
        workflow.name,
        code(&WorkflowStatus::ALL, workflow.status),
        workflow.paused,
        workflow.newest,
        workflow.live,
        workflow.concurrency,
        workflow.active,
        workflow.retention.map(milliseconds),
        ms(workflow.created_at),
        ms(workflow.updated_at),
        workflow.paused_reason,
        workflow.paused_by.map(|run| run.0),
        workflow.handling.map(|run| run.0),
        workflow.incident.map(|key| key.0),
    ])?;
    Ok(())
}

fn revisions(connection: &Connection, writes: &Writes) -> Result<(), Failure> {
    let sql = "INSERT INTO revisions (workflow, revision, source, definition, folder, created_at)
               VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
    for revision in &writes.revisions {
        connection.prepare_cached(sql)?.execute(params![
            revision.workflow.0,
            revision.revision,
            revision.source,
            json(&*revision.definition)?,
            revision.folder,
            ms(revision.created_at),
        ])?;
    }
    Ok(())
}

fn overrides(connection: &Connection, writes: &Writes) -> Result<(), Failure> {
    for write in &writes.overrides {
        match write {
            OverrideWrite::Put(id, over) => {
                let sql = "INSERT OR REPLACE INTO overrides (schedule, nominal, action, by)
                           VALUES (?1, ?2, ?3, ?4)";
                let action = json(&over.action)?;
                let params = params![id.0, ms(over.nominal), action, over.by];
                connection.prepare_cached(sql)?.execute(params)?;
            }
            OverrideWrite::Delete(id, nominal) => {
                let sql = "DELETE FROM overrides WHERE schedule = ?1 AND nominal = ?2";
                connection.prepare_cached(sql)?.execute([id.0, ms(*nominal)])?;
            }
        }
    }
    Ok(())
}

fn schedule_counts(connection: &Connection, writes: &Writes) -> Result<(), Failure> {
    let counts = ScheduleCounts::of(writes);
    let sql = "INSERT INTO schedule_counts (workflow, status, count) VALUES (?1, ?2, ?3)
               ON CONFLICT DO UPDATE SET count = count + excluded.count";
    for ((workflow, status), change) in counts.by_workflow {
        connection.prepare_cached(sql)?.execute(params![workflow, status, change])?;
    }
    let sql = "INSERT INTO schedule_blocks (status, block, count) VALUES (?1, ?2, ?3)
               ON CONFLICT DO UPDATE SET count = count + excluded.count";
    for ((status, block), change) in counts.by_block {
        connection.prepare_cached(sql)?.execute(params![status, block, change])?;
    }
    Ok(())
}
