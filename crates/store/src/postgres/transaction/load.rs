//! The queries by which a transaction loads and locks rows in bulk.

use engine::turn::Wakeup;
use engine::{RunKey, ScheduleId, WorkflowId};
use tokio_postgres::Row;

use crate::codes::sql;
use crate::failure::Failure;
use crate::postgres::connections::tx_connection::{Query, TxConnection, param};
use crate::postgres::transaction::loaded::Loaded;
use crate::rows::{
    self, Row as _, columns, override_columns, run_columns, schedule_columns, workflow_columns,
};

columns! {
    /// A schedule, and whether its two rows have the same version.
    loaded_schedule_columns = schedule_columns, is_same_version: "s.version = p.version"
}

/// The macros that select rows take the end of the statement: an outer `concat!` could not expand
/// the list of columns inside them.
macro_rules! select_schedules {
    ($rest:literal) => {
        concat!(
            "SELECT ",
            loaded_schedule_columns!(),
            " FROM progress p JOIN schedules s ON s.id = p.id ",
            $rest
        )
    };
}

macro_rules! select_runs {
    ($rest:literal) => {
        concat!("SELECT ", run_columns!(), " ", $rest)
    };
}

macro_rules! select_workflows {
    ($rest:literal) => {
        concat!("SELECT ", workflow_columns!(), " FROM workflows w ", $rest)
    };
}

/// Locks schedules, and returns the stamps that show whether they were written since.
pub(crate) const LOCK_SCHEDULES: &str =
    "SELECT id, stamp FROM progress WHERE id = ANY($1) ORDER BY id FOR UPDATE";
pub(crate) const LOCK_RUNS: &str =
    "SELECT key, stamp FROM open_runs WHERE key = ANY($1) ORDER BY key FOR UPDATE";
/// Reads runs that are locked already.
pub(crate) const LOCKED_RUNS: &str = select_runs!("FROM open_runs r WHERE r.key = ANY($1)");
const SCHEDULES: &str = select_schedules!("WHERE p.id = ANY($1) ORDER BY p.id FOR UPDATE OF p");
/// Run in a statement of its own after the lock, so that it sees what was committed while the lock
/// was waited for.
pub(crate) const SCHEDULES_AGAIN: &str = select_schedules!("WHERE p.id = ANY($1)");
/// Skips rows that other nodes have locked before it joins their declarations.
const DUE_SCHEDULES: &str = concat!(
    "WITH due AS MATERIALIZED (SELECT * FROM progress WHERE wake_at <= $1 AND wake_at >= $3
       ORDER BY wake_at, id LIMIT $2 FOR UPDATE SKIP LOCKED)
     SELECT ",
    loaded_schedule_columns!(),
    " FROM due p JOIN schedules s ON s.id = p.id"
);
const FREE_SCHEDULES: &str =
    select_schedules!("WHERE p.id = ANY($1) ORDER BY p.id FOR UPDATE OF p SKIP LOCKED");
const RUNS: &str = select_runs!("FROM open_runs r WHERE r.key = ANY($1) ORDER BY r.key FOR UPDATE");
const DUE_RUNS: &str = select_runs!(
    "FROM open_runs r WHERE r.wake_at <= $1 AND r.wake_at >= $3 ORDER BY r.wake_at LIMIT $2
     FOR UPDATE SKIP LOCKED"
);
const FREE_RUNS: &str =
    select_runs!("FROM open_runs r WHERE r.key = ANY($1) ORDER BY r.key FOR UPDATE SKIP LOCKED");
const ENDED_RUNS: &str = select_runs!("FROM ended_runs r WHERE r.key = ANY($1)");
/// These runs, the runs that wait for their end, and so on upwards: the end of one lets the next go
/// on.
const WAITING_FOR: &str = "WITH RECURSIVE up AS (
       SELECT key, schedule, parent, parent_token FROM open_runs WHERE key = ANY($1)
       UNION ALL
       SELECT o.key, o.schedule, o.parent, o.parent_token FROM up
       CROSS JOIN LATERAL (SELECT key, schedule, parent, parent_token FROM open_runs
         WHERE key = up.parent OFFSET 0) o
       WHERE up.parent_token IS NOT NULL)
     SELECT key, schedule FROM up";
/// Workflows without a limit. A shared lock lets several nodes decide their runs at the same time,
/// while no transaction changes the workflow.
macro_rules! unlimited {
    ($how:literal) => {
        concat!(
            "SELECT ",
            workflow_columns!(),
            " FROM workflows w WHERE w.id = ANY($1) AND w.concurrency IS NULL
               AND NOT EXISTS (SELECT 1 FROM handlers h WHERE h.workflow = w.id)
             ORDER BY w.id FOR ",
            $how
        )
    };
}

/// Workflows with a limit or with handlers. An exclusive lock makes nodes take turns, because
/// active runs are counted and handlers run one at a time. It leaves [`KEY_SHARED`] free, with
/// which callers start runs.
macro_rules! limited {
    ($how:literal) => {
        concat!(
            "SELECT ",
            workflow_columns!(),
            " FROM workflows w WHERE w.id = ANY($1) AND (w.concurrency IS NOT NULL
               OR EXISTS (SELECT 1 FROM handlers h WHERE h.workflow = w.id))
             ORDER BY w.id FOR ",
            $how
        )
    };
}

const UNLIMITED: &str = unlimited!("SHARE OF w");
const OWN_UNLIMITED: &str = unlimited!("UPDATE OF w");
const LIMITED: &str = limited!("NO KEY UPDATE OF w");
const OWN_LIMITED: &str = limited!("UPDATE OF w");
const FREE_UNLIMITED: &str = unlimited!("SHARE OF w SKIP LOCKED");
const FREE_LIMITED: &str = limited!("NO KEY UPDATE OF w SKIP LOCKED");
/// Workflows of which callers start runs that the driver's next turn begins. The lock waits only
/// for commands that publish, archive or pause the workflow, not for turns.
const KEY_SHARED: &str = select_workflows!("WHERE w.id = ANY($1) ORDER BY w.id FOR KEY SHARE");
const OWN_WORKFLOWS: &str = select_workflows!("WHERE w.id = ANY($1) ORDER BY w.id FOR UPDATE");
const FREE_OWN_WORKFLOWS: &str =
    select_workflows!("WHERE w.id = ANY($1) ORDER BY w.id FOR UPDATE SKIP LOCKED");
pub(crate) const OVERRIDES: &str = concat!(
    "SELECT ",
    override_columns!(),
    " FROM overrides o WHERE schedule = ANY($1) ORDER BY schedule, nominal"
);
/// Workflows with pending runs, from one to the next by the index, so that many runs cost no more.
/// Workflows at their limit are left out, unless a handler's run is pending: whoever ends one of
/// their runs begins the next. Nobody waits for their locks, so they stay free for the transactions
/// that end their runs.
macro_rules! with_pending {
    ($which:literal) => {
        sql!(
            "WITH RECURSIVE w AS (
               (SELECT workflow FROM open_runs WHERE status = {pending} AND workflow > $1
                ORDER BY workflow LIMIT 1)
               UNION ALL
               SELECT (SELECT o.workflow FROM open_runs o
                       WHERE o.status = {pending} AND o.workflow > w.workflow
                       ORDER BY o.workflow LIMIT 1)
               FROM w WHERE w.workflow IS NOT NULL)
             SELECT w.workflow FROM w JOIN LATERAL (SELECT id, concurrency, active,
                 EXISTS (SELECT 1 FROM open_runs h WHERE h.workflow = x.id AND h.status = {pending}
                   AND h.handler IS NOT NULL) AS handles
               FROM workflows x WHERE x.id = w.workflow OFFSET 0) x ON true
             WHERE ",
            $which,
            " LIMIT $2"
        )
    };
}

/// Workflows in which a run may begin, and the workflows in `$3` in any case.
pub(crate) const WITH_PENDING: &str = with_pending!(
    "x.concurrency IS NULL OR x.active < x.concurrency OR x.handles OR x.id = ANY($3)"
);
/// Only those with a limit or a handler's run, which need an exclusive lock.
const LIMITED_WITH_PENDING: &str = with_pending!("x.active < x.concurrency OR x.handles");
const PENDING: &str = sql!(
    "SELECT c.workflow, c.key FROM unnest($1::bigint[]) AS w (id)
     CROSS JOIN LATERAL (SELECT o.workflow, o.key FROM open_runs o
       WHERE o.status = {pending} AND o.workflow = w.id AND o.key + 0 > $2
       ORDER BY o.key + 0 LIMIT $3) c
     ORDER BY c.workflow, c.key"
);

/// The queries that claim due schedules and runs that are free.
pub(crate) fn ask_due(now: i64, limit: i64, low: i64) -> [Query; 2] {
    [
        Query::new(DUE_SCHEDULES, vec![param(now), param(limit), param(low)]),
        Query::new(DUE_RUNS, vec![param(now), param(limit), param(low)]),
    ]
}

/// The query for workflows that have pending runs and must be locked exclusively before one can
/// begin.
pub(crate) fn ask_limited_with_pending(after: Option<WorkflowId>, limit: usize) -> Query {
    let after = after.map_or(i64::MIN, |workflow| workflow.0);
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    Query::new(LIMITED_WITH_PENDING, vec![param(after), param(limit)])
}

pub(crate) fn ask_schedules(ids: Vec<i64>) -> Query {
    Query::new(SCHEDULES, vec![param(ids)])
}

pub(crate) fn ask_runs(keys: Vec<i64>) -> Query {
    Query::new(RUNS, vec![param(keys)])
}

/// The keys of these runs and of those that wait for their end, and the schedules of all of them.
pub(crate) fn related(
    tx: &mut TxConnection,
    keys: Vec<i64>,
) -> Result<(Vec<i64>, Vec<i64>), Failure> {
    let (mut runs, mut schedules) = (keys.clone(), Vec::new());
    for row in &tx.one(WAITING_FOR, vec![param(keys)])? {
        let (run, schedule): (i64, Option<i64>) = row.tuple()?;
        runs.push(run);
        schedules.extend(schedule);
    }
    for ids in [&mut runs, &mut schedules] {
        ids.sort_unstable();
        ids.dedup();
    }
    Ok((runs, schedules))
}

/// Keeps schedules that were read with their lock; a schedule whose declaration was read too early
/// is read again. Returns their ids in the order of the rows.
pub(crate) fn keep_schedules(
    tx: &mut TxConnection,
    loaded: &mut Loaded,
    found: &[Row],
) -> Result<Vec<ScheduleId>, Failure> {
    let mut ids = Vec::with_capacity(found.len());
    let mut again = Vec::new();
    for row in found {
        let id = row.read(schedule_columns::id)?;
        ids.push(id);
        loaded.locked.insert(id);
        if row.read(loaded_schedule_columns::is_same_version)? {
            let Some(schedule) = loaded.readable(Wakeup::Schedule(id), rows::schedule(row))? else {
                ids.pop();
                continue;
            };
            loaded.schedules.insert(id, Box::new(schedule));
        } else {
            again.push(id.0);
        }
    }
    if !again.is_empty() {
        for row in &tx.one(SCHEDULES_AGAIN, vec![param(again)])? {
            let what = Wakeup::Schedule(row.read(schedule_columns::id)?);
            if let Some(schedule) = loaded.readable(what, rows::schedule(row))? {
                loaded.schedules.insert(schedule.id, Box::new(schedule));
            }
        }
    }
    Ok(ids)
}

pub(crate) fn keep_runs(loaded: &mut Loaded, found: &[Row]) -> Result<Vec<RunKey>, Failure> {
    let mut keys = Vec::with_capacity(found.len());
    for row in found {
        let key = row.read(run_columns::key)?;
        if keep_run(loaded, key, row)? {
            loaded.locked_runs.insert(key);
            keys.push(key);
        }
    }
    Ok(keys)
}

/// Keeps a run that was read, and returns whether it is not set aside. That it cannot be read is
/// reported only if the run itself is needed: it may have been loaded as a relative of another run.
pub(crate) fn keep_run(loaded: &mut Loaded, key: RunKey, row: &Row) -> Result<bool, Failure> {
    match loaded.readable(Wakeup::Run(key), rows::run(row)) {
        Ok(None) => return Ok(false),
        Ok(Some(run)) => drop(loaded.runs.insert(key, Box::new(run))),
        Err(Failure::Undecidable { why, .. }) => drop(loaded.unreadable.insert(key, why)),
        Err(failure) => return Err(failure),
    }
    Ok(true)
}

/// Loads and locks schedules; waits for the locks.
pub(crate) fn schedules(
    tx: &mut TxConnection,
    loaded: &mut Loaded,
    ids: Vec<i64>,
) -> Result<(), Failure> {
    if ids.is_empty() {
        return Ok(());
    }
    let found = tx.ask(vec![ask_schedules(ids)])?.pop().unwrap_or_default();
    keep_schedules(tx, loaded, &found).map(drop)
}

/// Loads and locks the free ones of these schedules. Returns the ids of those that another
/// transaction holds.
pub(crate) fn free_schedules(
    tx: &mut TxConnection,
    loaded: &mut Loaded,
    ids: Vec<i64>,
) -> Result<Vec<i64>, Failure> {
    let found = tx.one(FREE_SCHEDULES, vec![param(ids.clone())])?;
    keep_schedules(tx, loaded, &found)?;
    let taken: Vec<i64> =
        ids.into_iter().filter(|id| !loaded.locked.contains(&ScheduleId(*id))).collect();
    if taken.is_empty() {
        return Ok(taken);
    }
    // A schedule that is gone has no lock that another transaction could hold.
    let sql = "SELECT id FROM progress WHERE id = ANY($1)";
    tx.one(sql, vec![param(taken)])?.iter().map(|row| row.single()).collect()
}

/// Loads and locks runs, with the runs that wait for their end, and before them their schedules;
/// waits for the locks. Ended runs need no lock.
pub(crate) fn runs(
    tx: &mut TxConnection,
    loaded: &mut Loaded,
    keys: Vec<i64>,
) -> Result<(), Failure> {
    schedules_and_runs(tx, loaded, Vec::new(), keys)
}

/// As [`runs`], with other schedules besides.
pub(crate) fn schedules_and_runs(
    tx: &mut TxConnection,
    loaded: &mut Loaded,
    besides: Vec<i64>,
    keys: Vec<i64>,
) -> Result<(), Failure> {
    if keys.is_empty() {
        return schedules(tx, loaded, besides);
    }
    let (all, mut of) = related(tx, keys.clone())?;
    of.extend(besides);
    of.sort_unstable();
    of.dedup();
    let unlocked: Vec<i64> =
        of.into_iter().filter(|id| !loaded.locked.contains(&ScheduleId(*id))).collect();
    schedules(tx, loaded, unlocked)?;
    let unlocked: Vec<i64> =
        all.into_iter().filter(|key| !loaded.locked_runs.contains(&RunKey(*key))).collect();
    let found = tx.ask(vec![ask_runs(unlocked)])?.pop().unwrap_or_default();
    keep_runs(loaded, &found)?;
    let ended: Vec<i64> = keys.into_iter().filter(|key| !loaded.has_run(RunKey(*key))).collect();
    if ended.is_empty() { Ok(()) } else { ended_runs(tx, loaded, ended) }
}

/// Loads ended runs: nobody changes them any more.
pub(crate) fn ended_runs(
    tx: &mut TxConnection,
    loaded: &mut Loaded,
    keys: Vec<i64>,
) -> Result<(), Failure> {
    for row in &tx.one(ENDED_RUNS, vec![param(keys)])? {
        let what = Wakeup::Run(row.read(run_columns::key)?);
        if let Some(run) = loaded.readable(what, rows::run(row))? {
            loaded.runs.insert(run.key, Box::new(run));
        }
    }
    Ok(())
}

/// Loads and locks those of these runs, with their schedules, that no other node holds.
pub(crate) fn free_runs(
    tx: &mut TxConnection,
    loaded: &mut Loaded,
    keys: Vec<i64>,
) -> Result<Vec<RunKey>, Failure> {
    let (ours, others): (Vec<i64>, Vec<i64>) =
        keys.iter().partition(|key| loaded.locked_runs.contains(&RunKey(**key)));
    let mut free: Vec<RunKey> = ours.into_iter().map(RunKey).collect();
    if !others.is_empty() {
        let found = tx.one(FREE_RUNS, vec![param(others.clone())])?;
        loaded.passed_over |= found.len() < others.len();
        let found = keep_runs(loaded, &found)?;
        free.extend(with_free_others(tx, loaded, found)?);
    }
    free.sort_unstable();
    Ok(free)
}

/// Those of these locked runs for which everything their end may change is free: their schedules,
/// and the runs that wait for them. The others are passed over.
pub(crate) fn with_free_others(
    tx: &mut TxConnection,
    loaded: &mut Loaded,
    keys: Vec<RunKey>,
) -> Result<Vec<RunKey>, Failure> {
    let keys = with_free_schedules(tx, loaded, keys)?;
    let waits = |loaded: &Loaded, key: &RunKey| {
        let parent = loaded.runs.get(key)?.parent?;
        parent.token.map(|_| parent.run)
    };
    let mut wanted: Vec<i64> = keys
        .iter()
        .filter_map(|key| waits(loaded, key))
        .filter(|parent| !loaded.locked_runs.contains(parent))
        .map(|parent| parent.0)
        .collect();
    if wanted.is_empty() {
        return Ok(keys);
    }
    wanted.sort_unstable();
    wanted.dedup();
    let found = tx.one(FREE_RUNS, vec![param(wanted.clone())])?;
    let found = keep_runs(loaded, &found)?;
    let free = with_free_schedules(tx, loaded, found)?;
    if free.len() == wanted.len() {
        return Ok(keys);
    }
    // A run that has ended has no lock that another transaction could hold.
    let sql = "SELECT key FROM open_runs WHERE key = ANY($1)";
    let there = tx.one(sql, vec![param(wanted)])?;
    let there: Vec<i64> = there.iter().map(|row| row.single()).collect::<Result<_, _>>()?;
    let is_taken = |parent: RunKey| there.contains(&parent.0) && !free.contains(&parent);
    let (taken, keys): (Vec<RunKey>, Vec<RunKey>) =
        keys.into_iter().partition(|key| waits(loaded, key).is_some_and(is_taken));
    loaded.passed_over |= !taken.is_empty();
    Ok(keys)
}

/// Those of these locked runs whose schedules are free as well. The others are passed over.
fn with_free_schedules(
    tx: &mut TxConnection,
    loaded: &mut Loaded,
    keys: Vec<RunKey>,
) -> Result<Vec<RunKey>, Failure> {
    let schedule_of =
        |loaded: &Loaded, key: &RunKey| loaded.runs.get(key).and_then(|run| run.schedule);
    let mut wanted: Vec<i64> = keys
        .iter()
        .filter_map(|key| schedule_of(loaded, key))
        .filter(|id| !loaded.locked.contains(id))
        .map(|id| id.0)
        .collect();
    wanted.sort_unstable();
    wanted.dedup();
    if wanted.is_empty() {
        return Ok(keys);
    }
    let taken = free_schedules(tx, loaded, wanted)?;
    loaded.passed_over |= !taken.is_empty();
    let is_free = |key: &RunKey| schedule_of(loaded, key).is_none_or(|id| !taken.contains(&id.0));
    Ok(keys.into_iter().filter(is_free).collect())
}

/// The oldest pending runs of each workflow that no other node holds.
pub(crate) fn pending(
    tx: &mut TxConnection,
    loaded: &mut Loaded,
    workflows: Vec<i64>,
    after: i64,
    each: usize,
) -> Result<(), Failure> {
    let limit = i64::try_from(each).unwrap_or(i64::MAX);
    let params = vec![param(workflows.clone()), param(after), param(limit)];
    let found = tx.one(PENDING, params)?;
    let mut of = std::collections::HashMap::new();
    let mut counts = std::collections::HashMap::new();
    for row in &found {
        let (workflow, key): (WorkflowId, RunKey) = row.tuple()?;
        of.insert(key, workflow);
        *counts.entry(workflow).or_insert(0_usize) += 1;
    }
    for workflow in workflows.into_iter().map(WorkflowId) {
        let more = counts.get(&workflow).copied().unwrap_or(0) >= each;
        loaded.pending.entry(workflow).or_default().1 = more;
    }
    let free = free_runs(tx, loaded, of.keys().map(|key| key.0).collect())?;
    for key in free {
        if let Some(workflow) = of.get(&key) {
            loaded.pending.entry(*workflow).or_default().0.push_back(key);
        }
    }
    Ok(())
}

/// The queries for workflows. If one without a limit will be changed, all of those are locked
/// exclusively in one statement, so that they are locked by id.
pub(crate) fn ask_workflows(ids: Vec<i64>, is_alone: bool) -> [Query; 2] {
    let (unlimited, limited) = match is_alone {
        true => (OWN_UNLIMITED, OWN_LIMITED),
        false => (UNLIMITED, LIMITED),
    };
    [Query::new(unlimited, vec![param(ids.clone())]), Query::new(limited, vec![param(ids)])]
}

/// Loads workflows of which callers start runs, and locks them against being published, archived or
/// paused meanwhile.
pub(crate) fn started_workflows(
    tx: &mut TxConnection,
    loaded: &mut Loaded,
    ids: Vec<i64>,
) -> Result<(), Failure> {
    let found = tx.one(KEY_SHARED, vec![param(ids)])?;
    keep_workflows(loaded, &found, &[])
}

pub(crate) fn keep_workflows(
    loaded: &mut Loaded,
    unlimited: &[Row],
    owned: &[Row],
) -> Result<(), Failure> {
    for row in unlimited.iter().chain(owned) {
        let id = row.read(workflow_columns::id)?;
        loaded.workflows.insert(id, rows::or_why(rows::workflow(row))?);
    }
    for row in owned {
        loaded.owned_workflows.insert(row.read(workflow_columns::id)?);
    }
    Ok(())
}

pub(crate) fn workflows(
    tx: &mut TxConnection,
    loaded: &mut Loaded,
    ids: Vec<i64>,
) -> Result<(), Failure> {
    let wanted = ids.len();
    let mut found = tx.ask(ask_workflows(ids.clone(), false).into())?;
    let (limited, unlimited) = (found.pop().unwrap_or_default(), found.pop().unwrap_or_default());
    keep_workflows(loaded, &unlimited, &limited)?;
    if unlimited.len() + limited.len() < wanted {
        // A workflow gained or lost its limit between the two statements, so neither returned it.
        own_workflows(tx, loaded, ids)?;
    }
    Ok(())
}

/// Loads and locks workflows whose rows will be changed.
pub(crate) fn own_workflows(
    tx: &mut TxConnection,
    loaded: &mut Loaded,
    ids: Vec<i64>,
) -> Result<(), Failure> {
    let found = tx.one(OWN_WORKFLOWS, vec![param(ids)])?;
    keep_workflows(loaded, &[], &found)
}

/// Loads and locks the free ones of these workflows.
pub(crate) fn free_workflows(
    tx: &mut TxConnection,
    loaded: &mut Loaded,
    ids: Vec<i64>,
) -> Result<(), Failure> {
    let found = tx.ask(vec![
        Query::new(FREE_UNLIMITED, vec![param(ids.clone())]),
        Query::new(FREE_LIMITED, vec![param(ids)]),
    ])?;
    keep_workflows(loaded, &found[0], &found[1])
}

/// As [`free_workflows`], for workflows whose rows will be changed.
pub(crate) fn free_own_workflows(
    tx: &mut TxConnection,
    loaded: &mut Loaded,
    ids: Vec<i64>,
) -> Result<(), Failure> {
    let found = tx.one(FREE_OWN_WORKFLOWS, vec![param(ids)])?;
    keep_workflows(loaded, &[], &found)
}

pub(crate) fn ask_overrides(ids: Vec<i64>) -> Query {
    Query::new(OVERRIDES, vec![param(ids)])
}

pub(crate) fn keep_overrides(
    loaded: &mut Loaded,
    ids: &[i64],
    found: &[Row],
) -> Result<(), Failure> {
    for id in ids {
        loaded.overrides.insert(ScheduleId(*id), Ok(Vec::new()));
    }
    for row in found {
        let id: ScheduleId = row.read(override_columns::schedule)?;
        let of_schedule = loaded.overrides.entry(id).or_insert_with(|| Ok(Vec::new()));
        match rows::or_why(rows::occurrence_override(row))? {
            Ok(one) => of_schedule.iter_mut().for_each(|known| known.push(one.clone())),
            Err(why) => *of_schedule = Err(why),
        }
    }
    Ok(())
}

pub(crate) fn overrides(
    tx: &mut TxConnection,
    loaded: &mut Loaded,
    ids: Vec<i64>,
) -> Result<(), Failure> {
    let found = tx.ask(vec![ask_overrides(ids.clone())])?.pop().unwrap_or_default();
    keep_overrides(loaded, &ids, &found)
}
