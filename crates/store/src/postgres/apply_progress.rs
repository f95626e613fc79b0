//! How far schedules have come: the row that every fire writes twice.

use engine::run::Ending;
use engine::schedule::Schedule;

use super::apply::owned;
use super::link::{Asked, param};
use super::rows::narrow;
use crate::failure::Failure;
use crate::stored::{json, ms};

/// Numbers of one row. All of them are in one array, row after row: to take an array apart costs the database
/// something for each array and row, to look something up in one costs nearly nothing.
const NUMBERS: usize = 16;
/// Stands for no number.
const NONE: i64 = i64::MIN;

/// The number at this place, counted from the row's last one.
macro_rules! number {
    ($back:literal) => {
        concat!("($4::bigint[])[u.i * 16 - ", $back, "]")
    };
}

/// The same where there may be none.
macro_rules! maybe {
    ($back:literal) => {
        concat!("nullif(", number!($back), ", '-9223372036854775808')")
    };
}

macro_rules! insert_progress {
    () => {
        concat!(
            "INSERT INTO progress (id, wake_at, anchor, mark, next_nominal, next_effective, n, repeats,
               current_repeat, current_retry, run_count, error_count, last_run_at, last_outcome,
               has_overrides, recomputed_at, version, last_error, live, stamp)
             SELECT u.id, ",
            maybe!(15), ", ", number!(14), ", ", number!(13), ", ", maybe!(12), ", ", maybe!(11), ", ",
            number!(10), ", ", number!(9), ", ", number!(8), ", ", number!(7), ", ", number!(6), ", ",
            number!(5), ", ", maybe!(4), ", ", maybe!(3), ", ", number!(2), " <> 0, ", maybe!(1), ", ",
            number!(0), ", u.last_error, u.live, $5::bigint
             FROM unnest($1::bigint[], $2::text[], $3::text[]) WITH ORDINALITY
               AS u (id, last_error, live, i)"
        )
    };
}

const NEW: &str = insert_progress!();
/// Row by row by its id, whatever the planner believes. The rows are there, and locked; the version goes up
/// by what is given.
const MOVED: &str = concat!(
    insert_progress!(),
    " ON CONFLICT (id) DO UPDATE SET wake_at = excluded.wake_at, anchor = excluded.anchor,
        mark = excluded.mark, next_nominal = excluded.next_nominal,
        next_effective = excluded.next_effective, n = excluded.n, repeats = excluded.repeats,
        current_repeat = excluded.current_repeat, current_retry = excluded.current_retry,
        run_count = excluded.run_count, error_count = excluded.error_count,
        last_error = excluded.last_error, last_run_at = excluded.last_run_at,
        last_outcome = excluded.last_outcome, live = excluded.live,
        has_overrides = excluded.has_overrides, recomputed_at = excluded.recomputed_at,
        version = progress.version + excluded.version, stamp = excluded.stamp"
);

/// Schedules that are new.
pub(super) fn insert(new: &[&Schedule], stamp: i64) -> Result<Asked, Failure> {
    write(NEW, new.iter().map(|schedule| (*schedule, 0)), stamp)
}

/// Schedules that have come further, each with how much its version goes up.
pub(super) fn update(moved: &[(&Schedule, i32)], stamp: i64) -> Result<Asked, Failure> {
    write(MOVED, moved.iter().copied(), stamp)
}

fn write<'a>(
    sql: &'static str,
    schedules: impl ExactSizeIterator<Item = (&'a Schedule, i32)>,
    stamp: i64,
) -> Result<Asked, Failure> {
    let count = schedules.len();
    let (mut ids, mut numbers) = (Vec::with_capacity(count), Vec::with_capacity(count * NUMBERS));
    let (mut errors, mut live) = (Vec::with_capacity(count), Vec::with_capacity(count));
    for (schedule, version) in schedules {
        ids.push(schedule.id.0);
        numbers.extend(numbers_of(schedule, version));
        errors.push(schedule.progress.last_error.as_deref().map(owned));
        live.push(live_of(schedule)?);
    }
    let params = vec![param(ids), param(errors), param(live), param(numbers), param(stamp)];
    Ok(Asked::new(sql, params))
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
        progress.repeats.cast_signed(),
        progress.current_repeat.cast_signed(),
        i64::from(progress.current_retry.cast_signed()),
        progress.run_count.cast_signed(),
        progress.error_count.cast_signed(),
        progress.last_run_at.map_or(NONE, ms),
        progress.last_outcome.map_or(NONE, |ending| i64::from(narrow(&Ending::ALL, ending))),
        i64::from(progress.has_overrides),
        progress.recomputed_at.map_or(NONE, ms),
        i64::from(version),
    ]
}

/// What is active and what waits; nothing if nothing does.
fn live_of(schedule: &Schedule) -> Result<Option<String>, Failure> {
    let progress = &schedule.progress;
    let is_idle = progress.active.is_empty() && progress.queued.is_empty();
    (!is_idle).then(|| json(&(&progress.active, &progress.queued))).transpose()
}
