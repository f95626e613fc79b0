//! Checks that schedules agree with their declarations and with the rows stored beside them.

use std::collections::{BTreeSet, HashMap, HashSet};

use engine::RunKey;
use engine::schedule::{Active, Schedule};
use jiff::Timestamp;
use language::Rules;
use rusqlite::{Connection, params};

use crate::codes::{WAKE_SCHEDULE, sql};
use crate::failure::Failure;
use crate::invariants::{BesideSchedule, Breach as _, ScheduleBreach};
use crate::rows::{self, Row as _, schedule_columns};
use crate::sqlite::connections::query;
use crate::sqlite::transaction::apply::{put_words, rewrite_schedule};
use crate::sqlite::transaction::reader::overrides;
use crate::stored::ms;

/// All rows stored beside schedules, read at once.
struct RelatedRows {
    /// Next times were computed with another zone database, so they cannot be compared.
    other_zones: bool,
    outdated: HashSet<i64>,
    numbers: HashMap<i64, u64>,
    decided: HashMap<i64, i64>,
    open: HashSet<i64>,
    words: HashMap<i64, BTreeSet<String>>,
    calendars: HashMap<i64, String>,
    overridden: HashSet<i64>,
    wakeups: HashMap<i64, i64>,
}

pub(crate) fn check(
    connection: &Connection,
    rules: &Rules,
    now: Timestamp,
    repair: bool,
) -> Result<Vec<(i64, ScheduleBreach)>, Failure> {
    let related = RelatedRows::read(connection, rules)?;
    let sql = concat!(
        "SELECT ",
        schedule_columns!(),
        " FROM schedules s JOIN progress p ON p.id = s.id ORDER BY s.id"
    );
    let mut statement = connection.prepare(sql)?;
    let mut schedules = statement.query([])?;
    let (mut found, mut wrong) = (Vec::new(), Vec::new());
    while let Some(row) = schedules.next()? {
        // A schedule that cannot be read is reported by `RowKind::check`.
        let Ok(mut schedule) = rows::schedule(row) else { continue };
        let id = schedule.id.0;
        let Ok(beside) = related.of(connection, &schedule) else { continue };
        let broken = ScheduleBreach::all(&mut schedule, &beside, rules, now);
        if broken.iter().any(ScheduleBreach::can_be_mended) {
            wrong.push(schedule);
        }
        found.extend(broken.into_iter().map(|breach| (id, breach)));
    }
    drop(schedules);
    for schedule in wrong.iter().filter(|_| repair) {
        mend(connection, schedule)?;
    }
    Ok(found)
}

impl RelatedRows {
    fn read(connection: &Connection, rules: &Rules) -> Result<RelatedRows, Failure> {
        let zones = "SELECT value FROM meta WHERE key = 'zones'";
        let known: Option<String> = query::one(connection, zones, [], |row| row.single())?;
        let pairs = |sql: &str| -> Result<HashMap<i64, i64>, Failure> {
            let mut statement = connection.prepare(sql)?;
            statement.query_and_then([], |row| row.tuple())?.collect()
        };
        let ids = |sql: &str| -> Result<HashSet<i64>, Failure> {
            let mut statement = connection.prepare(sql)?;
            statement.query_and_then([], |row| row.single())?.collect()
        };
        let mut numbers: HashMap<i64, u64> = HashMap::new();
        for sql in [
            "SELECT schedule, max(n + count) FROM ledger GROUP BY schedule",
            "SELECT schedule, max(n) + 1 FROM runs WHERE n IS NOT NULL GROUP BY schedule",
        ] {
            for (schedule, n) in pairs(sql)? {
                let known = numbers.entry(schedule).or_default();
                *known = (*known).max(u64::try_from(n).unwrap_or(0));
            }
        }
        let calendars = "SELECT id, calendar FROM schedules WHERE calendar IS NOT NULL";
        let wakeups =
            format!("SELECT id, min(due) FROM wakeups WHERE kind = {WAKE_SCHEDULE} GROUP BY id");
        Ok(RelatedRows {
            other_zones: known.is_some_and(|known| known != rules.zones().version()),
            outdated: ids("SELECT schedule FROM outdated")?,
            numbers,
            decided: pairs("SELECT schedule, max(effective) FROM ledger GROUP BY schedule")?,
            open: ids(sql!("SELECT key FROM runs WHERE status {open}"))?,
            words: words(connection)?,
            calendars: query::all(connection, calendars, [], |row| row.tuple())?
                .into_iter()
                .collect(),
            overridden: ids("SELECT DISTINCT schedule FROM overrides")?,
            wakeups: pairs(&wakeups)?,
        })
    }

    fn of(&self, connection: &Connection, schedule: &Schedule) -> Result<BesideSchedule, Failure> {
        let id = schedule.id.0;
        let runs = schedule.progress.active.iter().filter_map(Active::run);
        let open: BTreeSet<RunKey> = runs.filter(|run| self.open.contains(&run.0)).collect();
        Ok(BesideSchedule {
            wakes: self.wakes(schedule),
            is_outdated: self.other_zones || self.outdated.contains(&id),
            next_number: self.numbers.get(&id).copied().unwrap_or(0),
            decided_to: self.decided.get(&id).copied(),
            open,
            overrides: if self.overridden.contains(&id) {
                overrides(connection, schedule.id)?
            } else {
                Vec::new()
            },
            words: self.words.get(&id).cloned().unwrap_or_default(),
            calendar: self.calendars.get(&id).cloned(),
        })
    }

    /// Whether the schedule wakes when it should. An early wakeup does no harm.
    fn wakes(&self, schedule: &Schedule) -> bool {
        let wakes = |at: i64| self.wakeups.get(&schedule.id.0).is_some_and(|due| *due <= at);
        schedule.wake_at().is_none_or(|at| wakes(ms(at)))
    }
}

fn words(connection: &Connection) -> Result<HashMap<i64, BTreeSet<String>>, Failure> {
    let mut statement = connection.prepare("SELECT schedule, word FROM words")?;
    let mut rows = statement.query([])?;
    let mut found: HashMap<i64, BTreeSet<String>> = HashMap::new();
    while let Some(row) = rows.next()? {
        let (schedule, word) = row.tuple()?;
        found.entry(schedule).or_default().insert(word);
    }
    Ok(found)
}

/// Writes the mended schedule and wakes it at once, so that the next turn decides the occurrences
/// it has missed.
fn mend(connection: &Connection, schedule: &Schedule) -> Result<(), Failure> {
    let id = schedule.id.0;
    rewrite_schedule(connection, schedule)?;
    let calendar = "UPDATE schedules SET calendar = ?2 WHERE id = ?1";
    let params = params![id, schedule.declared.timing.calendar];
    connection.prepare_cached(calendar)?.execute(params)?;
    connection.prepare_cached("DELETE FROM words WHERE schedule = ?1")?.execute([id])?;
    put_words(connection, id, &schedule.declared.name, true)?;
    let sql = "INSERT OR IGNORE INTO wakeups (due, kind, id) VALUES (?1, ?2, ?3)";
    if let Some(at) = schedule.wake_at() {
        connection.prepare_cached(sql)?.execute(params![ms(at), WAKE_SCHEDULE, id])?;
    }
    Ok(())
}
