//! Writes the progress of schedules. Every occurrence writes this row twice, when its run begins
//! and when it ends; each time only the columns that change are sent.

use std::sync::LazyLock;

use engine::ScheduleId;
use engine::run::Ending;
use engine::schedule::Schedule;
use engine::turn::ById;
use tokio_postgres::types::Type;

use crate::failure::Failure;
use crate::postgres::connections::tx_connection::{Param, Query, param};
use crate::postgres::rows::narrow;
use crate::postgres::transaction::apply::owned;
use crate::postgres::transaction::bulk_insert::{BulkInsert, MANY};
use crate::stored::{json, ms};

/// Stands for SQL NULL among the numbers.
const NONE: i64 = i64::MIN;

/// Declares the columns that hold numbers: the type of each, what is written into it, and whether
/// that is always a number, maybe a number, or a flag. The numbers of all rows are sent in one
/// array, row after row, in this order: unnesting an array costs PostgreSQL something for each
/// array and row, while indexing into one costs nearly nothing. Many new rows are copied.
macro_rules! numbers {
    (
        |$schedule:ident, $version:ident|
        $($column:ident: $type:ident $kind:ident($value:expr),)+
    ) => {
        /// A column that holds a number.
        #[allow(non_camel_case_types)] // They are called as they are in the database.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        enum Number { $($column),+ }

        impl Number {
            const ALL: &[Number] = &[$(Number::$column),+];

            fn column(self) -> &'static str {
                match self { $(Number::$column => stringify!($column)),+ }
            }

            /// SQL for the column's value, given the SQL for its number.
            fn value(self, number: &str) -> String {
                match self { $(Number::$column => $kind::value(number)),+ }
            }
        }

        fn numbers_of($schedule: &Schedule, $version: i32) -> [i64; Number::ALL.len()] {
            [$($kind::number($value)),+]
        }

        const COPY: &str = concat!(
            "COPY progress (id, last_error, live, stamp",
            $(", ", stringify!($column)),+,
            ") FROM STDIN (FORMAT binary)",
        );
        const COPY_TYPES: &[Type] =
            &[Type::INT8, Type::TEXT, Type::TEXT, Type::INT8, $(Type::$type),+];
    };
}

mod always {
    pub(super) fn number(value: i64) -> i64 {
        value
    }

    pub(super) fn value(number: &str) -> String {
        number.to_owned()
    }
}

mod maybe {
    pub(super) fn number(value: Option<i64>) -> i64 {
        value.unwrap_or(super::NONE)
    }

    pub(super) fn value(number: &str) -> String {
        format!("nullif({number}, '{}')", super::NONE)
    }
}

mod flag {
    pub(super) fn number(value: bool) -> i64 {
        value.into()
    }

    pub(super) fn value(number: &str) -> String {
        format!("{number} <> 0")
    }
}

numbers! { |schedule, version|
    wake_at: INT8 maybe(schedule.wake_at().map(ms)),
    anchor: INT8 always(ms(schedule.progress.anchor)),
    mark: INT8 always(ms(schedule.progress.mark)),
    next_nominal: INT8 maybe(schedule.progress.next.map(|due| ms(due.nominal))),
    next_effective: INT8 maybe(schedule.progress.next.map(|due| ms(due.effective))),
    n: INT8 always(schedule.progress.n.cast_signed()),
    renewed_at: INT8 maybe(schedule.progress.renewed_at.map(ms)),
    current_repeat: INT8 always(schedule.progress.current_repeat.cast_signed()),
    current_retry: INT4 always(schedule.progress.current_retry.cast_signed().into()),
    run_count: INT8 always(schedule.progress.run_count.cast_signed()),
    error_count: INT8 always(schedule.progress.error_count.cast_signed()),
    last_run_at: INT8 maybe(schedule.progress.last_run_at.map(ms)),
    last_outcome: INT2 maybe(
        schedule.progress.last_outcome.map(|ending| narrow(&Ending::ALL, ending).into())
    ),
    has_overrides: BOOL flag(schedule.progress.has_overrides),
    recomputed_at: INT8 maybe(schedule.progress.recomputed_at.map(ms)),
    version: INT4 always(version.into()),
    incident: INT8 maybe(schedule.progress.incident.map(|key| key.0)),
}

/// SQL for the values of these columns in row `u.i`, if a row sends these numbers and no others.
fn values(numbers: &[Number]) -> impl Iterator<Item = String> {
    numbers.iter().zip((0..numbers.len()).rev()).map(|(number, back)| {
        number.value(&format!("($4::bigint[])[u.i * {} - {back}]", numbers.len()))
    })
}

fn joined(parts: impl Iterator<Item = String>) -> String {
    parts.collect::<Vec<_>>().join(", ")
}

static NEW: LazyLock<String> = LazyLock::new(|| {
    format!(
        "INSERT INTO progress (id, last_error, live, stamp, {})
         SELECT u.id, u.last_error, u.live, $5::bigint, {}
         FROM unnest($1::bigint[], $2::text[], $3::text[]) WITH ORDINALITY
           AS u (id, last_error, live, i)",
        joined(Number::ALL.iter().map(|number| number.column().to_owned())),
        joined(values(Number::ALL))
    )
});
/// An upsert, so that PostgreSQL finds each row by its id whatever the planner estimates. The rows
/// exist and are locked; the version goes up by the given amount.
static MOVED: LazyLock<String> = LazyLock::new(|| {
    let set = |number: &Number| match number.column() {
        column if *number == Number::version => {
            format!("{column} = progress.{column} + excluded.{column}")
        }
        column => format!("{column} = excluded.{column}"),
    };
    format!(
        "{} ON CONFLICT (id) DO UPDATE SET last_error = excluded.last_error, live = excluded.live,
           stamp = excluded.stamp, {}",
        *NEW,
        joined(Number::ALL.iter().map(set))
    )
});

/// An update of some columns only, used for [`MANY`] or more rows: the table is then so large that
/// the planner finds each row by its id, and it keeps that plan. On a small table it might scan the
/// whole table for each row, and would keep that plan as well.
struct Narrow {
    sql: String,
    /// The numbers, in the order in which the statement takes them.
    numbers: &'static [Number],
    /// Whether the statement also writes the last error.
    has_error: bool,
}

/// For schedules whose runs have begun, or whose occurrences were passed over.
static BEGUN: LazyLock<Narrow> = LazyLock::new(|| {
    use Number::{current_retry, last_run_at, mark, n, next_effective, next_nominal, wake_at};
    const NUMBERS: &[Number] =
        &[wake_at, mark, next_nominal, next_effective, n, current_retry, last_run_at];
    Narrow::new(NUMBERS, false)
});
/// For schedules whose runs have ended. None of these columns is indexed, so no index entry
/// changes.
static ENDED: LazyLock<Narrow> = LazyLock::new(|| {
    use Number::{current_repeat, current_retry, error_count, last_outcome, run_count};
    const NUMBERS: &[Number] =
        &[current_repeat, current_retry, run_count, error_count, last_outcome];
    Narrow::new(NUMBERS, true)
});

/// The values of a row as it was loaded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PreviousRow {
    numbers: [i64; Number::ALL.len()],
    had_error: bool,
}

impl PreviousRow {
    pub(crate) fn of(schedule: &Schedule) -> PreviousRow {
        let had_error = schedule.progress.last_error.is_some();
        PreviousRow { numbers: numbers_of(schedule, 0), had_error }
    }

    /// The number of the next occurrence.
    pub(crate) fn n(&self) -> u64 {
        self.numbers[Number::n as usize].cast_unsigned()
    }
}

/// A schedule with its new values.
struct Moved<'a> {
    schedule: &'a Schedule,
    numbers: [i64; Number::ALL.len()],
}

/// For schedules whose runs have begun and ended in one turn.
static BEGUN_AND_ENDED: LazyLock<Narrow> = LazyLock::new(|| {
    use Number::{
        current_repeat, current_retry, error_count, last_outcome, last_run_at, mark, n,
        next_effective, next_nominal, run_count, wake_at,
    };
    const NUMBERS: &[Number] = &[
        wake_at,
        mark,
        next_nominal,
        next_effective,
        n,
        current_repeat,
        current_retry,
        run_count,
        error_count,
        last_run_at,
        last_outcome,
    ];
    Narrow::new(NUMBERS, true)
});

impl Narrow {
    fn new(numbers: &'static [Number], has_error: bool) -> Narrow {
        let set = |(number, value): (&Number, String)| format!("{} = {value}", number.column());
        let sql = format!(
            "UPDATE progress p SET {}, {}live = u.live, stamp = $5::bigint
             FROM ROWS FROM (generate_series(1, $6::integer), unnest($2::text[]), unnest($3::text[]))
               AS u (i, last_error, live)
             WHERE p.id = ($1::bigint[])[u.i]",
            joined(numbers.iter().zip(values(numbers)).map(set)),
            if has_error { "last_error = u.last_error, " } else { "" }
        );
        Narrow { sql, numbers, has_error }
    }

    /// Whether every value that changed is among these columns.
    fn is_enough(&self, was: Option<&PreviousRow>, is: &Moved<'_>) -> bool {
        let Some(was) = was else { return false };
        let is_same = |number: &Number| {
            let index = *number as usize;
            was.numbers[index] == is.numbers[index] || self.numbers.contains(number)
        };
        let has_error = is.schedule.progress.last_error.is_some();
        let keeps_error = self.has_error || !(was.had_error || has_error);
        keeps_error && Number::ALL.iter().all(is_same)
    }

    fn query(&'static self, moved: &[Moved<'_>], stamp: i64) -> Result<Query, Failure> {
        let mut rows = Rows::default();
        for moved in moved {
            rows.put(
                moved.schedule,
                self.numbers.iter().map(|number| &moved.numbers[*number as usize]),
            )?;
        }
        let count = i32::try_from(rows.ids.len()).unwrap_or(i32::MAX);
        let mut params = rows.params(stamp);
        params.push(param(count));
        Ok(Query::new(&self.sql, params))
    }
}

/// Inserts the progress of new schedules.
pub(crate) fn insert(new: &[&Schedule], stamp: i64) -> Result<Query, Failure> {
    if new.len() >= MANY {
        return copy(new, stamp);
    }
    let mut rows = Rows::default();
    for schedule in new {
        rows.put(schedule, &numbers_of(schedule, 0))?;
    }
    Ok(Query::new(&NEW, rows.params(stamp)))
}

fn copy(new: &[&Schedule], stamp: i64) -> Result<Query, Failure> {
    let mut rows = BulkInsert::copied(COPY, COPY_TYPES, new.len());
    for schedule in new {
        rows.put(schedule.id.0)?;
        rows.put(schedule.progress.last_error.as_deref().map(owned))?;
        rows.put(live_of(schedule)?)?;
        rows.put(stamp)?;
        for (number, ty) in numbers_of(schedule, 0).into_iter().zip(&COPY_TYPES[4..]) {
            match *ty {
                Type::BOOL => rows.put(number != 0)?,
                Type::INT2 => rows.put(i16::try_from(number).ok())?,
                Type::INT4 => rows.put(i32::try_from(number).ok())?,
                _ => rows.put((number != NONE).then_some(number))?,
            }
        }
    }
    Ok(rows.queries())
}

/// Updates the progress of schedules. Each comes with the amount by which its version goes up.
pub(crate) fn update(
    moved: &[(&Schedule, i32)],
    before: &ById<ScheduleId, PreviousRow>,
    stamp: i64,
    all: &mut Vec<Query>,
) -> Result<(), Failure> {
    let forms = [&*ENDED, &*BEGUN, &*BEGUN_AND_ENDED];
    let mut of_each = forms.map(|_| Vec::new());
    let mut others = Vec::new();
    for (schedule, version) in moved {
        let is = Moved { schedule, numbers: numbers_of(schedule, *version) };
        let was = before.get(&schedule.id);
        match forms.iter().position(|form| form.is_enough(was, &is)) {
            Some(form) => of_each[form].push(is),
            None => others.push(is),
        }
    }
    for (form, moved) in forms.into_iter().zip(of_each) {
        if moved.len() < MANY {
            others.extend(moved);
        } else {
            all.push(form.query(&moved, stamp)?);
        }
    }
    if others.is_empty() {
        return Ok(());
    }
    let mut rows = Rows::default();
    for moved in &others {
        rows.put(moved.schedule, &moved.numbers)?;
    }
    all.push(Query::new(&MOVED, rows.params(stamp)));
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

/// The active and queued occurrences as JSON; `None` if there are none.
fn live_of(schedule: &Schedule) -> Result<Option<String>, Failure> {
    let progress = &schedule.progress;
    let is_idle = progress.active.is_empty() && progress.queued.is_empty();
    (!is_idle).then(|| json(&(&progress.active, &progress.queued))).transpose()
}
