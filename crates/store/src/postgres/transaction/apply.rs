//! Writes what a turn decided, as statements over arrays: one for each table, however many rows.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use engine::ledger::{Entry, Outcome};
use engine::schedule::{Schedule, Status};
use engine::turn::{ById, OverrideWrite, ScheduleWrite, WorkflowStatus, Writes};
use engine::{RunKey, ScheduleId};
use language::definition::DeclaredBy;
use tokio_postgres::types::{ToSql, Type};

use crate::failure::Failure;
use crate::postgres::connections::tx_connection::{Param, Query, param};
use crate::postgres::rows::narrow;
use crate::postgres::transaction::apply_progress::{self, PreviousRow};
use crate::postgres::transaction::apply_runs;
use crate::postgres::transaction::apply_topics;
use crate::postgres::transaction::apply_waiting;
use crate::postgres::transaction::bulk_insert::{BulkInsert, Table};
use crate::postgres::transaction::last_steps;
use crate::schedule_counts::ScheduleCounts;
use crate::stored::{json, milliseconds, ms};
use crate::words::words;

/// How many counter rows share the count of schedules. The server process of a connection decides
/// which one it uses, so that transactions rarely wait for each other's lock.
const SLOTS: i16 = 16;

/// What is known about the rows that are about to be written.
#[derive(Clone, Copy)]
pub(crate) struct Before<'a> {
    /// The schedules as they were loaded.
    pub(crate) schedules: &'a ById<ScheduleId, PreviousRow>,
    /// Runs that were not locked, with the stamp each row must still carry.
    pub(crate) unlocked: &'a ById<RunKey, i64>,
    /// An earlier try of this transaction found that rows it took for new were there already.
    pub(crate) may_be_there: bool,
    /// Whether the transaction holds locks that others wait for while they hold a run's lock. If
    /// so, it must not wait for a run.
    pub(crate) must_not_wait: bool,
}

/// The statements for all writes of a turn.
pub(crate) fn statements(
    writes: &Writes,
    stamp: i64,
    before: Before<'_>,
) -> Result<Vec<Query>, Failure> {
    let mut all = Vec::new();
    schedules(writes, stamp, before, &mut all)?;
    let last_steps = last_steps::of(writes);
    apply_runs::runs(writes, stamp, before, &last_steps, &mut all)?;
    apply_runs::steps(writes, &last_steps, before.may_be_there, &mut all)?;
    apply_runs::attempts(writes, &mut all)?;
    apply_waiting::waiting(writes, &mut all)?;
    apply_topics::topics(writes, &mut all)?;
    ledger(writes, before, &mut all)?;
    workflows(writes, &mut all)?;
    crate::postgres::transaction::incidents::write(writes, &mut all)?;
    overrides(writes, &mut all)?;
    // After everything else: whoever waits for these rows keeps them locked for a moment only.
    schedule_counts(writes, &mut all);
    if !writes.nodes_gone.is_empty() {
        let ids: Vec<i64> = writes.nodes_gone.iter().map(|node| node.0).collect();
        all.push(Query::new("DELETE FROM nodes WHERE id = ANY($1)", vec![param(ids)]));
    }
    Ok(all)
}

/// One column of many rows, as an array parameter.
pub(crate) fn column<T, R>(rows: &[R], value: impl Fn(&R) -> T) -> Param
where
    T: 'static,
    Vec<T>: ToSql + Sync + Send,
{
    param(rows.iter().map(value).collect::<Vec<T>>())
}

/// As [`column`], for values that may fail to serialize.
pub(crate) fn try_column<T, R>(
    rows: &[R],
    value: impl Fn(&R) -> Result<T, Failure>,
) -> Result<Param, Failure>
where
    T: 'static,
    Vec<T>: ToSql + Sync + Send,
{
    Ok(param(rows.iter().map(value).collect::<Result<Vec<T>, Failure>>()?))
}

/// The text with NUL replaced: PostgreSQL cannot store NUL, and such a text from outside must not
/// make a turn fail for ever.
pub(crate) fn plain(text: &str) -> Cow<'_, str> {
    if text.contains('\0') {
        Cow::Owned(text.replace('\0', "\u{fffd}"))
    } else {
        Cow::Borrowed(text)
    }
}

/// As [`plain`], as an owned text.
pub(crate) fn owned(text: &str) -> String {
    plain(text).into_owned()
}

fn schedules(
    writes: &Writes,
    stamp: i64,
    before: Before<'_>,
    all: &mut Vec<Query>,
) -> Result<(), Failure> {
    let (mut new, mut changed, mut moved, mut gone) = (vec![], vec![], vec![], vec![]);
    let mut renamed = vec![];
    for write in &writes.schedules {
        match write {
            ScheduleWrite::Insert(schedule) => {
                new.push(&**schedule);
            }
            ScheduleWrite::Update { after, old_status, declared, .. } => {
                let bump = i32::from(old_status.is_some() || *declared);
                if bump > 0 {
                    changed.push(&**after);
                }
                // The name may have changed, and with it the search words.
                if *declared {
                    renamed.push(&**after);
                }
                moved.push((&**after, bump));
            }
            ScheduleWrite::Delete { before } => {
                gone.push(before.id.0);
            }
        }
    }
    insert_schedules(&new, stamp, all)?;
    update_schedules(&changed, all)?;
    rename(&renamed, all)?;
    apply_progress::update(&moved, before.schedules, stamp, all)?;
    if !gone.is_empty() {
        for sql in [
            "DELETE FROM progress WHERE id = ANY($1)",
            "DELETE FROM schedules WHERE id = ANY($1)",
            "DELETE FROM overrides WHERE schedule = ANY($1)",
            "DELETE FROM words WHERE schedule = ANY($1)",
        ] {
            all.push(Query::new(sql, vec![param(gone.clone())]));
        }
    }
    Ok(())
}

static SCHEDULES: Table = Table {
    types: &[
        Type::INT8,
        Type::INT8,
        Type::TEXT,
        Type::INT2,
        Type::TEXT,
        Type::INT8,
        Type::TEXT,
        Type::INT8,
        Type::INT8,
        Type::INT4,
    ],
    insert: "INSERT INTO schedules (id, workflow, trigger, status, calendar, retention, declared,
               created_at, updated_at, version)
             SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::smallint[],
               $5::text[], $6::bigint[], $7::text[], $8::bigint[], $9::bigint[], $10::integer[])",
    copy: "COPY schedules (id, workflow, trigger, status, calendar, retention, declared,
             created_at, updated_at, version) FROM STDIN (FORMAT binary)",
};

fn insert_schedules(new: &[&Schedule], stamp: i64, all: &mut Vec<Query>) -> Result<(), Failure> {
    if new.is_empty() {
        return Ok(());
    }
    let mut rows = BulkInsert::new_rows(&SCHEDULES, new.len(), false);
    for schedule in new {
        rows.put(schedule.id.0)?;
        rows.put(schedule.workflow.0)?;
        rows.put(schedule.declared_by.as_ref().map(DeclaredBy::to_string))?;
        rows.put(narrow(&Status::ALL, schedule.status))?;
        rows.put(schedule.declared.timing.calendar.as_deref())?;
        rows.put(schedule.declared.retention().map(milliseconds))?;
        rows.put(json(&schedule.declared)?)?;
        rows.put(ms(schedule.created_at))?;
        rows.put(ms(schedule.updated_at))?;
        rows.put(0_i32)?;
    }
    all.push(rows.queries());
    all.push(apply_progress::insert(new, stamp)?);
    put_words(new, false, all)
}

static WORDS: Table = Table {
    types: &[Type::TEXT, Type::INT8],
    insert: "INSERT INTO words (word, schedule) SELECT * FROM unnest($1::text[], $2::bigint[])
             ON CONFLICT DO NOTHING",
    copy: "COPY words (word, schedule) FROM STDIN (FORMAT binary)",
};

/// Writes the search words of schedules' names. They may be there already unless the schedules are
/// new.
fn put_words(
    schedules: &[&Schedule],
    may_be_there: bool,
    all: &mut Vec<Query>,
) -> Result<(), Failure> {
    let of = |schedule: &&Schedule| {
        let id = schedule.id.0;
        words(&schedule.declared.name).map(move |word| (word, id)).collect::<BTreeSet<_>>()
    };
    let found: Vec<_> = schedules.iter().flat_map(of).collect();
    let mut rows = BulkInsert::new_rows(&WORDS, found.len(), may_be_there);
    for (word, id) in found {
        rows.put(word)?;
        rows.put(id)?;
    }
    all.push(rows.queries());
    Ok(())
}

fn rename(schedules: &[&Schedule], all: &mut Vec<Query>) -> Result<(), Failure> {
    if schedules.is_empty() {
        return Ok(());
    }
    let sql = "DELETE FROM words WHERE schedule = ANY($1)";
    all.push(Query::new(sql, vec![column(schedules, |s| s.id.0)]));
    put_words(schedules, true, all)
}

fn update_schedules(changed: &[&Schedule], all: &mut Vec<Query>) -> Result<(), Failure> {
    if changed.is_empty() {
        return Ok(());
    }
    let sql = "UPDATE schedules s SET status = u.status, calendar = u.calendar,
                 retention = u.retention, declared = u.declared, updated_at = u.updated_at,
                 version = s.version + 1
               FROM unnest($1::bigint[], $2::smallint[], $3::text[], $4::bigint[], $5::text[],
                 $6::bigint[]) AS u (id, status, calendar, retention, declared, updated_at)
               WHERE s.id = u.id";
    all.push(Query::new(
        sql,
        vec![
            column(changed, |s| s.id.0),
            column(changed, |s| narrow(&Status::ALL, s.status)),
            column(changed, |s| s.declared.timing.calendar.clone()),
            column(changed, |s| s.declared.retention().map(milliseconds)),
            try_column(changed, |s| json(&s.declared))?,
            column(changed, |s| ms(s.updated_at)),
        ],
    ));
    Ok(())
}

static LEDGER: Table = Table {
    types: &[
        Type::INT8,
        Type::INT8,
        Type::INT8,
        Type::INT8,
        Type::INT8,
        Type::INT8,
        Type::INT8,
        Type::INT2,
        Type::TEXT,
        Type::INT8,
    ],
    insert: "INSERT INTO ledger (schedule, n, count, nominal, last_nominal, effective, decided_at,
               outcome, reason, run)
             SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[],
               $5::bigint[], $6::bigint[], $7::bigint[], $8::smallint[], $9::text[], $10::bigint[])
             ON CONFLICT (schedule, n) DO UPDATE SET count = excluded.count,
               nominal = excluded.nominal, last_nominal = excluded.last_nominal,
               effective = excluded.effective, decided_at = excluded.decided_at,
               outcome = excluded.outcome, reason = excluded.reason,
               run = coalesce(ledger.run, excluded.run)",
    copy: "COPY ledger (schedule, n, count, nominal, last_nominal, effective, decided_at, outcome,
             reason, run) FROM STDIN (FORMAT binary)",
};

fn ledger(writes: &Writes, before: Before<'_>, all: &mut Vec<Query>) -> Result<(), Failure> {
    // If a turn writes a ledger row twice, the last version counts, but the run of the first is
    // kept.
    let mut latest: BTreeMap<_, (&Entry, Option<RunKey>)> = BTreeMap::new();
    for entry in &writes.ledger {
        let row = latest.entry((entry.schedule, entry.n)).or_insert((entry, None));
        *row = (entry, row.1.or(entry.run));
    }
    // Occurrences numbered from the schedule's next number on have no row yet.
    let is_new = |(entry, _): &(&Entry, Option<RunKey>)| {
        before.schedules.get(&entry.schedule).is_some_and(|was| entry.n >= was.n())
    };
    let (new, again): (Vec<_>, Vec<_>) = latest.into_values().partition(is_new);
    for (rows, may_be_there) in [(new, before.may_be_there), (again, true)] {
        if rows.is_empty() {
            continue;
        }
        let mut out = BulkInsert::new_rows(&LEDGER, rows.len(), may_be_there);
        for (entry, run) in rows {
            put_entry(entry, run, &mut out)?;
        }
        all.push(out.queries());
    }
    Ok(())
}

fn put_entry(entry: &Entry, run: Option<RunKey>, row: &mut BulkInsert) -> Result<(), Failure> {
    row.put(entry.schedule.0)?;
    row.put(entry.n.cast_signed())?;
    row.put(entry.count.cast_signed())?;
    row.put(ms(entry.nominal))?;
    row.put(ms(entry.last_nominal))?;
    row.put(ms(entry.effective))?;
    row.put(ms(entry.decided_at))?;
    row.put(narrow(&Outcome::ALL, entry.outcome))?;
    row.put(plain(&entry.reason))?;
    row.put(run.map(|run| run.0))
}

fn workflows(writes: &Writes, all: &mut Vec<Query>) -> Result<(), Failure> {
    for w in &writes.workflows {
        let sql =
            "INSERT INTO workflows (id, name, status, paused, newest, live, concurrency, active,
                     retention, created_at, updated_at, paused_reason, paused_by, handling,
                     incident)
                   VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)
                   ON CONFLICT (id) DO UPDATE SET status = excluded.status,
                     paused = excluded.paused, newest = excluded.newest, live = excluded.live,
                     concurrency = excluded.concurrency, active = excluded.active,
                     retention = excluded.retention,
                     updated_at = excluded.updated_at, paused_reason = excluded.paused_reason,
                     paused_by = excluded.paused_by, handling = excluded.handling,
                     incident = excluded.incident";
        let params = vec![
            param(w.id.0),
            param(w.name.clone()),
            param(narrow(&WorkflowStatus::ALL, w.status)),
            param(w.paused),
            param(w.newest.cast_signed()),
            param(w.live.map(u32::cast_signed)),
            param(w.concurrency.map(u32::cast_signed)),
            param(w.active.cast_signed()),
            param(w.retention.map(milliseconds)),
            param(ms(w.created_at)),
            param(ms(w.updated_at)),
            param(w.paused_reason.as_deref().map(owned)),
            param(w.paused_by.map(|run| run.0)),
            param(w.handling.map(|run| run.0)),
            param(w.incident.map(|key| key.0)),
        ];
        all.push(Query::new(sql, params));
    }
    for revision in &writes.revisions {
        let sql =
            "INSERT INTO revisions (workflow, revision, source, definition, folder, created_at)
                   VALUES ($1, $2, $3, $4, $5, $6)";
        let params = vec![
            param(revision.workflow.0),
            param(revision.revision.cast_signed()),
            param(owned(&revision.source)),
            param(json(&*revision.definition)?),
            param(revision.folder.as_deref().map(owned)),
            param(ms(revision.created_at)),
        ];
        all.push(Query::new(sql, params));
    }
    Ok(())
}

fn overrides(writes: &Writes, all: &mut Vec<Query>) -> Result<(), Failure> {
    for write in &writes.overrides {
        all.push(match write {
            OverrideWrite::Put(id, over) => Query::new(
                "INSERT INTO overrides (schedule, nominal, action, by) VALUES ($1, $2, $3, $4)
                 ON CONFLICT (schedule, nominal) DO UPDATE
                 SET action = excluded.action, by = excluded.by",
                vec![
                    param(id.0),
                    param(ms(over.nominal)),
                    param(json(&over.action)?),
                    param(owned(&over.by)),
                ],
            ),
            OverrideWrite::Delete(id, nominal) => Query::new(
                "DELETE FROM overrides WHERE schedule = $1 AND nominal = $2",
                vec![param(id.0), param(ms(*nominal))],
            ),
        });
    }
    Ok(())
}

fn schedule_counts(writes: &Writes, all: &mut Vec<Query>) {
    let counts = ScheduleCounts::of(writes);
    let by_workflow = "INSERT INTO schedule_counts AS c (workflow, status, slot, count)
                       SELECT workflow, status, pg_backend_pid() % $3::smallint, count
                       FROM unnest($1::bigint[], $2::smallint[], $4::bigint[])
                         AS u (workflow, status, count)
                       ON CONFLICT (workflow, status, slot) DO UPDATE
                       SET count = c.count + excluded.count";
    let by_block = "INSERT INTO schedule_blocks AS c (status, block, slot, count)
                    SELECT status, block, pg_backend_pid() % $3::smallint, count
                    FROM unnest($1::smallint[], $2::bigint[], $4::bigint[])
                      AS u (status, block, count)
                    ON CONFLICT (status, block, slot) DO UPDATE
                    SET count = c.count + excluded.count";
    all.extend(add_up(by_workflow, counts.by_workflow));
    all.extend(add_up(by_block, counts.by_block));
}

/// The statement that adds these changes to the counts of one slot, if there are any.
fn add_up<A, B>(sql: &'static str, changes: BTreeMap<(A, B), i64>) -> Option<Query>
where
    A: ToSql + Copy + Sync + Send + 'static,
    B: ToSql + Copy + Sync + Send + 'static,
{
    if changes.is_empty() {
        return None;
    }
    let rows: Vec<_> = changes.into_iter().collect();
    let params = vec![
        column(&rows, |((first, _), _)| *first),
        column(&rows, |((_, second), _)| *second),
        param(SLOTS),
        column(&rows, |(_, change)| *change),
    ];
    Some(Query::new(sql, params))
}
