//! Writes the progress of schedules. Every occurrence writes this row twice, when its run begins
//! and when it ends; each time only the columns that change are sent.

use engine::ScheduleId;
use engine::run::Ending;
use engine::schedule::Schedule;
use engine::turn::ById;

use crate::failure::Failure;
use crate::postgres::connections::tx_connection::{Param, Query, param};
use crate::postgres::rows::decode::narrow;
use crate::postgres::transaction::apply::owned;
use crate::postgres::transaction::bulk_insert::MANY;
use crate::stored::{json, ms};

/// How many numbers a row has. The numbers of all rows are in one array, row after row: unnesting
/// an array costs PostgreSQL something for each array and row, while indexing into one costs nearly
/// nothing.
const NUMBERS: usize = 17;
/// Stands for SQL NULL in the array of numbers.
const NONE: i64 = i64::MIN;

/// SQL for one number of row `u.i`, where a row has `$numbers` numbers; `$back` counts from the
/// last.
macro_rules! of {
    ($numbers:literal, $back:literal) => {
        concat!("($4::bigint[])[u.i * ", $numbers, " - ", $back, "]")
    };
}

/// As `of!`, for a column that may be NULL.
macro_rules! maybe_of {
    ($numbers:literal, $back:literal) => {
        concat!("nullif(", of!($numbers, $back), ", '-9223372036854775808')")
    };
}

macro_rules! insert_progress {
    () => {
        concat!(
            "INSERT INTO progress (id, wake_at, anchor, mark, next_nominal, next_effective, n, renewed_at,
               current_repeat, current_retry, run_count, error_count, last_run_at, last_outcome,
               has_overrides, recomputed_at, version, incident, last_error, live, stamp)
             SELECT u.id, ",
            maybe_of!(17, 16), ", ", of!(17, 15), ", ", of!(17, 14), ", ", maybe_of!(17, 13), ", ", maybe_of!(17, 12), ", ",
            of!(17, 11), ", ", maybe_of!(17, 10), ", ", of!(17, 9), ", ", of!(17, 8), ", ", of!(17, 7), ", ",
            of!(17, 6), ", ", maybe_of!(17, 5), ", ", maybe_of!(17, 4), ", ", of!(17, 3), " <> 0, ", maybe_of!(17, 2), ", ",
            of!(17, 1), ", ", maybe_of!(17, 0), ", u.last_error, u.live, $5::bigint
             FROM unnest($1::bigint[], $2::text[], $3::text[]) WITH ORDINALITY
               AS u (id, last_error, live, i)"
        )
    };
}

const NEW: &str = insert_progress!();
/// An upsert, so that PostgreSQL finds each row by its id whatever the planner estimates. The rows
/// exist and are locked; the version goes up by the given amount.
const MOVED: &str = concat!(
    insert_progress!(),
    " ON CONFLICT (id) DO UPDATE SET wake_at = excluded.wake_at, anchor = excluded.anchor,
        mark = excluded.mark, next_nominal = excluded.next_nominal,
        next_effective = excluded.next_effective, n = excluded.n, renewed_at = excluded.renewed_at,
        current_repeat = excluded.current_repeat, current_retry = excluded.current_retry,
        run_count = excluded.run_count, error_count = excluded.error_count,
        last_error = excluded.last_error, last_run_at = excluded.last_run_at,
        last_outcome = excluded.last_outcome, live = excluded.live,
        has_overrides = excluded.has_overrides, recomputed_at = excluded.recomputed_at,
        incident = excluded.incident, version = progress.version + excluded.version, stamp = excluded.stamp"
);

/// An update of some columns only, used for [`MANY`] or more rows: the table is then so large that
/// the planner finds each row by its id, and it keeps that plan. On a small table it might scan the
/// whole table for each row, and would keep that plan as well.
struct Narrow {
    sql: &'static str,
    /// The indexes of the numbers, in the order in which the statement takes them.
    numbers: &'static [usize],
    /// Whether the statement also writes the last error.
    has_error: bool,
}

macro_rules! update_progress {
    ($numbers:literal: $($column:literal $kind:ident $back:literal),*; $others:literal) => {
        concat!(
            "UPDATE progress p SET ",
            $($column, " = ", $kind!($numbers, $back), ", ",)*
            $others,
            "live = u.live, stamp = $5::bigint
             FROM ROWS FROM (generate_series(1, $6::integer), unnest($2::text[]), unnest($3::text[]))
               AS u (i, last_error, live)
             WHERE p.id = ($1::bigint[])[u.i]"
        )
    };
}

/// For schedules whose runs have begun, or whose occurrences were passed over.
static BEGUN: Narrow = Narrow {
    sql: update_progress!(7: "wake_at" maybe_of 6, "mark" of 5, "next_nominal" maybe_of 4,
        "next_effective" maybe_of 3, "n" of 2, "current_retry" of 1, "last_run_at" maybe_of 0; ""),
    numbers: &[0, 2, 3, 4, 5, 8, 11],
    has_error: false,
};
/// For schedules whose runs have ended. None of these columns is indexed, so no index entry
/// changes.
static ENDED: Narrow = Narrow {
    sql: update_progress!(5: "current_repeat" of 4, "current_retry" of 3, "run_count" of 2,
        "error_count" of 1, "last_outcome" maybe_of 0; "last_error = u.last_error, "),
    numbers: &[7, 8, 9, 10, 12],
    has_error: true,
};

/// The values of a row as it was loaded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PreviousRow {
    numbers: [i64; NUMBERS],
    had_error: bool,
}

impl PreviousRow {
    pub(crate) fn of(schedule: &Schedule) -> PreviousRow {
        let had_error = schedule.progress.last_error.is_some();
        PreviousRow { numbers: numbers_of(schedule, 0), had_error }
    }

    /// The number of the next occurrence.
    pub(crate) fn n(&self) -> u64 {
        self.numbers[5].cast_unsigned()
    }
}

/// A schedule with its new values.
struct Moved<'a> {
    schedule: &'a Schedule,
    numbers: [i64; NUMBERS],
}

impl Narrow {
    /// Whether every value that changed is among these columns.
    fn is_enough(&self, was: Option<&PreviousRow>, is: &Moved<'_>) -> bool {
        let Some(was) = was else { return false };
        let is_same = |at: usize| was.numbers[at] == is.numbers[at] || self.numbers.contains(&at);
        let has_error = is.schedule.progress.last_error.is_some();
        let keeps_error = self.has_error || !(was.had_error || has_error);
        keeps_error && (0..NUMBERS).all(is_same)
    }

    fn queries(&self, moved: &[Moved<'_>], stamp: i64) -> Result<Query, Failure> {
        let mut rows = Rows::default();
        for moved in moved {
            rows.put(moved.schedule, self.numbers.iter().map(|at| &moved.numbers[*at]))?;
        }
        let count = i32::try_from(rows.ids.len()).unwrap_or(i32::MAX);
        let mut params = rows.params(stamp);
        params.push(param(count));
        Ok(Query::new(self.sql, params))
    }
}

/// Inserts the progress of new schedules.
pub(crate) fn insert(new: &[&Schedule], stamp: i64) -> Result<Query, Failure> {
    let mut rows = Rows::default();
    for schedule in new {
        rows.put(schedule, &numbers_of(schedule, 0))?;
    }
    Ok(Query::new(NEW, rows.params(stamp)))
}

/// Updates the progress of schedules. Each comes with the amount by which its version goes up.
pub(crate) fn update(
    moved: &[(&Schedule, i32)],
    before: &ById<ScheduleId, PreviousRow>,
    stamp: i64,
    all: &mut Vec<Query>,
) -> Result<(), Failure> {
    let [mut begun, mut ended, mut others] = [(); 3].map(|()| Vec::new());
    for (schedule, version) in moved {
        let is = Moved { schedule, numbers: numbers_of(schedule, *version) };
        let was = before.get(&schedule.id);
        if ENDED.is_enough(was, &is) {
            ended.push(is);
        } else if BEGUN.is_enough(was, &is) {
            begun.push(is);
        } else {
            others.push(is);
        }
    }
    for (form, moved) in [(&BEGUN, begun), (&ENDED, ended)] {
        match moved.len() < MANY {
            true => others.extend(moved),
            false => all.push(form.queries(&moved, stamp)?),
        }
    }
    if others.is_empty() {
        return Ok(());
    }
    let mut rows = Rows::default();
    for moved in &others {
        rows.put(moved.schedule, &moved.numbers)?;
    }
    all.push(Query::new(MOVED, rows.params(stamp)));
    Ok(())
}

/// The parameters of a statement, column by column.
#[derive(Default)]
struct Rows {
    ids: Vec<i64>,
    errors: Vec<Option<String>>,
    live: Vec<Option<String>>,
    numbers: Vec<i64>,
}

impl Rows {
    fn put<'a>(
        &mut self,
        schedule: &Schedule,
        numbers: impl IntoIterator<Item = &'a i64>,
    ) -> Result<(), Failure> {
        self.ids.push(schedule.id.0);
        self.errors.push(schedule.progress.last_error.as_deref().map(owned));
        self.live.push(live_of(schedule)?);
        self.numbers.extend(numbers);
        Ok(())
    }

    fn params(self, stamp: i64) -> Vec<Param> {
        let Rows { ids, errors, live, numbers } = self;
        vec![param(ids), param(errors), param(live), param(numbers), param(stamp)]
    }
}

fn numbers_of(schedule: &Schedule, version: i32) -> [i64; NUMBERS] {
    let progress = &schedule.progress;
    [
        schedule.wake_at().map_or(NONE, ms),
        ms(progress.anchor),
        ms(progress.mark),
        progress.next.map_or(NONE, |due| ms(due.nominal)),
        progress.next.map_or(NONE, |due| ms(due.effective)),
        progress.n.cast_signed(),
        progress.renewed_at.map_or(NONE, ms),
        progress.current_repeat.cast_signed(),
        i64::from(progress.current_retry.cast_signed()),
        progress.run_count.cast_signed(),
        progress.error_count.cast_signed(),
        progress.last_run_at.map_or(NONE, ms),
        progress.last_outcome.map_or(NONE, |ending| i64::from(narrow(&Ending::ALL, ending))),
        i64::from(progress.has_overrides),
        progress.recomputed_at.map_or(NONE, ms),
        i64::from(version),
        progress.incident.map_or(NONE, |key| key.0),
    ]
}

/// The active and queued occurrences as JSON; `None` if there are none.
fn live_of(schedule: &Schedule) -> Result<Option<String>, Failure> {
    let progress = &schedule.progress;
    let is_idle = progress.active.is_empty() && progress.queued.is_empty();
    (!is_idle).then(|| json(&(&progress.active, &progress.queued))).transpose()
}
