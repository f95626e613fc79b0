//! Whether everything that waits for a time wakes at it: what the engine says, beside what is stored.

use engine::run::Run;
use engine::schedule::Schedule;
use jiff::Timestamp;
use tokio_postgres::Row;

use super::check::{TOLD, look, more};
use super::columns::{of_run, of_schedule};
use super::core::Core;
use super::link::{Asked, Link, param};
use super::rows::{self, RUN_COLUMNS, SCHEDULE_COLUMNS, get};
use crate::failure::Failure;
use crate::stored::ms;
use crate::view::Finding;

/// So many are looked at in one go.
const AT_ONCE: usize = 500;

/// An id, and when what has it is to wake.
type Woken = (i64, Option<Timestamp>);

/// What wakes, of one kind.
struct Kind {
    code: &'static str,
    message: &'static str,
    /// All of them with an id after this one, in its order.
    all: &'static str,
    /// These, locked.
    locked: &'static str,
    write: &'static str,
    read: fn(&Row) -> Result<Woken, Failure>,
    /// Where the row says when it wakes.
    column: usize,
}

/// Those with something going on: for the others the database can say it.
const SCHEDULES: Kind = Kind {
    code: "schedule-without-wakeup",
    message: "schedule {id} does not wake when it should",
    all: concat!(
        "SELECT ",
        of_schedule!(),
        ", p.wake_at FROM progress p JOIN schedules s ON s.id = p.id
         WHERE p.live IS NOT NULL AND p.id > $1 ORDER BY p.id LIMIT 500"
    ),
    // Those that are read too early are not mended, and found the next time.
    locked: concat!(
        "SELECT ",
        of_schedule!(),
        ", p.wake_at FROM progress p JOIN schedules s ON s.id = p.id
         WHERE p.id = ANY($1) AND s.version = p.version ORDER BY p.id FOR UPDATE OF p"
    ),
    write: "UPDATE progress p SET wake_at = u.wake_at
            FROM unnest($1::bigint[], $2::bigint[]) AS u (id, wake_at) WHERE p.id = u.id",
    read: |row| rows::schedule(row).map(|schedule: Schedule| (schedule.id.0, schedule.wake_at())),
    column: SCHEDULE_COLUMNS,
};

const RUNS: Kind = Kind {
    code: "run-without-wakeup",
    message: "run {id} does not wake when it should",
    all: concat!(
        "SELECT ",
        of_run!(),
        ", r.wake_at FROM open_runs r WHERE r.key > $1 ORDER BY r.key LIMIT 500"
    ),
    locked: concat!(
        "SELECT ",
        of_run!(),
        ", r.wake_at FROM open_runs r WHERE r.key = ANY($1) ORDER BY r.key FOR UPDATE"
    ),
    write: "UPDATE open_runs r SET wake_at = u.wake_at
            FROM unnest($1::bigint[], $2::bigint[]) AS u (key, wake_at) WHERE r.key = u.key",
    read: |row| rows::run(row).map(|run: Run| (run.key.0, run.wake_at())),
    column: RUN_COLUMNS,
};

impl Core {
    pub(super) fn check_wakeups(&mut self, repair: bool) -> Result<Vec<Finding>, Failure> {
        let mut findings = Vec::new();
        for kind in [SCHEDULES, RUNS] {
            let wrong = wrong(&mut self.link, &kind)?;
            if repair {
                for some in wrong.chunks(AT_ONCE) {
                    mend(&mut self.link, &kind, some)?;
                }
            }
            let told = wrong.iter().take(TOLD);
            let messages = told.map(|id| kind.message.replace("{id}", &id.to_string()));
            let messages = messages.chain(more(wrong.len(), kind.code));
            let finding = |message| Finding { code: kind.code, message, repaired: repair };
            findings.extend(messages.map(finding));
        }
        Ok(findings)
    }
}

/// What wakes at another time than it should, and when it should.
fn is_wrong(kind: &Kind, row: &Row) -> Result<Option<(i64, Option<i64>)>, Failure> {
    let (id, due) = (kind.read)(row)?;
    let (due, stored) = (due.map(ms), get::<Option<i64>>(row, kind.column)?);
    let agrees = match (due, stored) {
        // Parts of milliseconds may have added up to a whole one.
        (Some(due), Some(stored)) => due.abs_diff(stored) <= 1,
        (due, stored) => due == stored,
    };
    Ok((!agrees).then_some((id, due)))
}

fn wrong(link: &mut Link, kind: &Kind) -> Result<Vec<i64>, Failure> {
    let (mut wrong, mut after) = (Vec::new(), i64::MIN);
    loop {
        let found = look(link, kind.all, || vec![param(after)])?;
        for row in &found {
            wrong.extend(is_wrong(kind, row)?.map(|(id, _)| id));
            after = get(row, 0)?;
        }
        if found.len() < AT_ONCE {
            return Ok(wrong);
        }
    }
}

fn mend(link: &mut Link, kind: &Kind, ids: &[i64]) -> Result<(), Failure> {
    link.transact(|link| {
        let found = link.begin(vec![Asked::new(kind.locked, vec![param(ids.to_vec())])])?;
        let (mut wrong, mut due) = (Vec::new(), Vec::new());
        for row in found.iter().flatten() {
            if let Some((id, at)) = is_wrong(kind, row)? {
                wrong.push(id);
                due.push(at);
            }
        }
        link.commit(vec![Asked::new(kind.write, vec![param(wrong), param(due)])])?;
        Ok(())
    })
}
