//! Checks that schedules agree with their declarations and with the rows stored beside them.

use std::collections::BTreeSet;
use std::sync::Arc;

use engine::RunKey;
use engine::schedule::{Override, Schedule, Status};
use jiff::Timestamp;
use language::Rules;
use tokio_postgres::Row;

use crate::failure::Failure;
use crate::invariants::{BesideSchedule, Breach as _, ScheduleBreach};
use crate::postgres::connections::tx_connection::{Query, TxConnection, param};
use crate::postgres::maintenance::check::{AT_ONCE, look, page_through};
use crate::postgres::maintenance::check_runs::agree;
use crate::postgres::rows::{get, narrow};
use crate::rows::{self, Column, Read, Row as _, columns, schedule_columns};
use crate::stored::{json, ms};
use crate::words::words;

columns! {
    /// A schedule, and what the rows beside it say.
    beside_columns = schedule_columns,
        is_outdated: "EXISTS (SELECT 1 FROM outdated o WHERE o.schedule = s.id)",
        next_of_ledger: "(SELECT max(l.n + l.count) FROM ledger l WHERE l.schedule = s.id)",
        next_of_runs: "greatest((SELECT max(r.n) + 1 FROM open_runs r WHERE r.schedule = s.id),
           (SELECT max(r.n) + 1 FROM ended_runs r WHERE r.schedule = s.id))",
        decided_to: "(SELECT max(l.effective) FROM ledger l WHERE l.schedule = s.id)",
        open: "(SELECT array_agg(r.key) FROM open_runs r WHERE r.schedule = s.id)",
        words: "(SELECT array_agg(w.word) FROM words w WHERE w.schedule = s.id)",
        nominals: "v.nominals",
        actions: "v.actions",
        bys: "v.bys",
        wake_at: "p.wake_at",
        calendar: "s.calendar",
}

/// Selects schedules with the rows beside them, in one statement, which sees one instant.
macro_rules! with_beside {
    ($which:literal) => {
        concat!(
            "SELECT ",
            beside_columns!(),
            " FROM progress p JOIN schedules s ON s.id = p.id
             LEFT JOIN LATERAL (SELECT array_agg(nominal) AS nominals, array_agg(action) AS actions,
                 array_agg(by) AS bys FROM overrides o WHERE o.schedule = s.id) v ON true
             WHERE ",
            $which
        )
    };
}

const ALL: &str = with_beside!("p.id > $1 ORDER BY p.id LIMIT 500");
const LOCK: &str = "SELECT id FROM progress WHERE id = ANY($1) ORDER BY id FOR UPDATE";
/// Run after [`LOCK`], so that it sees what others committed while the lock was waited for.
const AGAIN: &str = with_beside!("p.id = ANY($1) ORDER BY p.id");
const ZONES: &str = "SELECT value FROM meta WHERE key = 'zones'";
/// Also raises the version: both rows of a schedule carry the same one.
const PROGRESS: &str =
    "UPDATE progress SET mark = $2, next_nominal = $3, next_effective = $4, n = $5,
       live = $6, has_overrides = $7, wake_at = $8, version = version + 1, stamp = 0 WHERE id = $1";
const SCHEDULE: &str =
    "UPDATE schedules SET status = $2, calendar = $3, version = version + 1 WHERE id = $1";
const FORGET_WORDS: &str = "DELETE FROM words WHERE schedule = $1";
const WORDS: &str = "INSERT INTO words (word, schedule) SELECT DISTINCT w, $1::bigint
     FROM unnest($2::text[]) AS u (w)";

/// The rules and the moment by which schedules are checked.
struct Against {
    rules: Arc<Rules>,
    /// Next times were computed with another zone database, so they cannot be compared.
    other_zones: bool,
    now: Timestamp,
}

pub(crate) fn check(
    tx: &mut TxConnection,
    rules: Arc<Rules>,
    now: Timestamp,
    repair: bool,
) -> Result<Vec<(i64, ScheduleBreach)>, Failure> {
    let known = look(tx, ZONES, Vec::new)?;
    let known: Option<String> = known.first().map(|row| row.single()).transpose()?;
    let other_zones = known.is_some_and(|known| known != rules.zones().version());
    let against = Against { rules, other_zones, now };
    let mut found = Vec::new();
    page_through(tx, ALL, |row| {
        // A schedule that cannot be read is reported by `RowKind::check`.
        if let Ok((schedule, broken)) = broken(row, &against) {
            found.extend(broken.into_iter().map(|breach| (schedule.id.0, breach)));
        }
        row.read(schedule_columns::id)
    })?;
    if repair {
        let mut ids: Vec<i64> = found.iter().map(|(id, _)| *id).collect();
        ids.dedup();
        for some in ids.chunks(AT_ONCE) {
            mend(tx, some, &against)?;
        }
    }
    Ok(found)
}

/// The breaches of a schedule, and the schedule as it should be.
fn broken(row: &Row, against: &Against) -> Result<(Schedule, Vec<ScheduleBreach>), Failure> {
    use beside_columns as column;
    let mut schedule = rows::schedule(row)?;
    let number = |column: Column| -> Read<u64> {
        let number: Option<i64> = row.read(column)?;
        Ok(number.and_then(|number| u64::try_from(number).ok()).unwrap_or(0))
    };
    let open: Option<Vec<i64>> = get(row, column::open)?;
    let words: Option<Vec<String>> = get(row, column::words)?;
    let is_outdated: bool = row.read(column::is_outdated)?;
    let beside = BesideSchedule {
        wakes: agree(schedule.wake_at().map(ms), row.read(column::wake_at)?),
        is_outdated: against.other_zones || is_outdated,
        next_number: number(column::next_of_ledger)?.max(number(column::next_of_runs)?),
        decided_to: row.read(column::decided_to)?,
        open: open.unwrap_or_default().into_iter().map(RunKey).collect::<BTreeSet<_>>(),
        overrides: overrides(row)?,
        words: words.unwrap_or_default().into_iter().collect(),
        calendar: row.read(column::calendar)?,
    };
    let found = ScheduleBreach::all(&mut schedule, &beside, &against.rules, against.now);
    Ok((schedule, found))
}

fn overrides(row: &Row) -> Result<Vec<Override>, Failure> {
    let nominals: Option<Vec<i64>> = get(row, beside_columns::nominals)?;
    let actions: Option<Vec<String>> = get(row, beside_columns::actions)?;
    let bys: Option<Vec<String>> = get(row, beside_columns::bys)?;
    let all = nominals.unwrap_or_default().into_iter().zip(actions.unwrap_or_default());
    let all = all.zip(bys.unwrap_or_default());
    let mut overrides = Vec::new();
    for ((nominal, action), by) in all {
        let wrong = |error: &dyn std::fmt::Display| beside_columns::actions.damaged(error);
        overrides.push(Override {
            nominal: Timestamp::from_millisecond(nominal).map_err(|error| wrong(&error))?,
            action: serde_json::from_str(&action).map_err(|error| wrong(&error))?,
            by,
        });
    }
    overrides.sort_by_key(|known| known.nominal);
    Ok(overrides)
}

fn mend(tx: &mut TxConnection, ids: &[i64], against: &Against) -> Result<(), Failure> {
    tx.transact(|tx| {
        tx.begin(vec![Query::new(LOCK, vec![param(ids.to_vec())])])?;
        let found = tx.one(AGAIN, vec![param(ids.to_vec())])?;
        let mut queries = Vec::new();
        for row in &found {
            let Ok((schedule, broken)) = broken(row, against) else { continue };
            if broken.iter().any(ScheduleBreach::can_be_mended) {
                queries.extend(mending(&schedule)?);
            }
        }
        tx.commit(queries)?;
        Ok(())
    })
}

/// The statements that write the mended schedule. The next turn decides the occurrences it has
/// missed.
fn mending(schedule: &Schedule) -> Result<Vec<Query>, Failure> {
    let id = schedule.id.0;
    let progress = &schedule.progress;
    let is_idle = progress.active.is_empty() && progress.queued.is_empty();
    let live = if is_idle { None } else { Some(json(&(&progress.active, &progress.queued))?) };
    let words: Vec<String> = words(&schedule.declared.name).collect();
    Ok(vec![
        Query::new(
            PROGRESS,
            vec![
                param(id),
                param(ms(progress.mark)),
                param(progress.next.map(|due| ms(due.nominal))),
                param(progress.next.map(|due| ms(due.effective))),
                param(i64::try_from(progress.n).unwrap_or(i64::MAX)),
                param(live),
                param(progress.has_overrides),
                param(schedule.wake_at().map(ms)),
            ],
        ),
        Query::new(
            SCHEDULE,
            vec![
                param(id),
                param(narrow(&Status::ALL, schedule.status)),
                param(schedule.declared.timing.calendar.clone()),
            ],
        ),
        Query::new(FORGET_WORDS, vec![param(id)]),
        Query::new(WORDS, vec![param(id), param(words)]),
    ])
}
