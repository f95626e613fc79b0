//! Checks that every schedule wakes at the time the engine computes.

use tokio_postgres::Row;

use crate::check_run::{TOLD, more};
use crate::failure::Failure;
use crate::postgres::connections::tx_connection::{Query, TxConnection, param};
use crate::postgres::maintenance::check::look;
use crate::postgres::rows::columns::of_schedule;
use crate::postgres::rows::decode;
use crate::postgres::rows::decode::{SCHEDULE_COLUMNS, get};
use crate::postgres::transaction::core::Core;
use crate::stored::ms;
use crate::view::Finding;

/// How many schedules are checked at a time.
const AT_ONCE: usize = 500;

const CODE: &str = "schedule-without-wakeup";

/// Only schedules with active or queued occurrences: an invariant in SQL covers the others.
const ALL: &str = concat!(
    "SELECT ",
    of_schedule!(),
    ", p.wake_at FROM progress p JOIN schedules s ON s.id = p.id
     WHERE p.live IS NOT NULL AND p.id > $1 ORDER BY p.id LIMIT 500"
);
/// A schedule that was read before its lock was obtained has another version: it is not mended, and
/// is found by the next check.
const LOCKED: &str = concat!(
    "SELECT ",
    of_schedule!(),
    ", p.wake_at FROM progress p JOIN schedules s ON s.id = p.id
     WHERE p.id = ANY($1) AND s.version = p.version ORDER BY p.id FOR UPDATE OF p"
);
const WRITE: &str = "UPDATE progress p SET wake_at = u.wake_at, stamp = 0
     FROM unnest($1::bigint[], $2::bigint[]) AS u (id, wake_at) WHERE p.id = u.id";

impl Core {
    pub(crate) fn check_wakeups(&mut self, repair: bool) -> Result<Vec<Finding>, Failure> {
        let wrong = wrong(&mut self.tx)?;
        if repair {
            for some in wrong.chunks(AT_ONCE) {
                mend(&mut self.tx, some)?;
            }
        }
        let told = wrong.iter().take(TOLD);
        let messages = told.map(|id| format!("schedule {id} does not wake when it should"));
        let messages = messages.chain(more(wrong.len(), CODE));
        let finding = |message| Finding { code: CODE, message, repaired: repair };
        Ok(messages.map(finding).collect())
    }
}

/// Whether the stored time is the engine's. Fractions of milliseconds may add up to a whole one.
pub(crate) fn agree(due: Option<i64>, stored: Option<i64>) -> bool {
    match (due, stored) {
        (Some(due), Some(stored)) => due.abs_diff(stored) <= 1,
        (due, stored) => due == stored,
    }
}

/// The id of a schedule that wakes at a wrong time, and the right time.
fn is_wrong(row: &Row) -> Result<Option<(i64, Option<i64>)>, Failure> {
    let schedule = decode::schedule(row)?;
    let (due, stored) = (schedule.wake_at().map(ms), get(row, SCHEDULE_COLUMNS)?);
    Ok((!agree(due, stored)).then_some((schedule.id.0, due)))
}

fn wrong(tx: &mut TxConnection) -> Result<Vec<i64>, Failure> {
    let (mut wrong, mut after) = (Vec::new(), i64::MIN);
    loop {
        let found = look(tx, ALL, || vec![param(after)])?;
        for row in &found {
            after = get(row, 0)?;
            // A schedule that cannot be read is reported by `check_rows`.
            wrong.extend(is_wrong(row).ok().flatten().map(|(id, _)| id));
        }
        if found.len() < AT_ONCE {
            return Ok(wrong);
        }
    }
}

fn mend(tx: &mut TxConnection, ids: &[i64]) -> Result<(), Failure> {
    tx.transact(|tx| {
        let found = tx.begin(vec![Query::new(LOCKED, vec![param(ids.to_vec())])])?;
        let (mut wrong, mut due) = (Vec::new(), Vec::new());
        for row in found.iter().flatten() {
            if let Some((id, at)) = is_wrong(row)? {
                wrong.push(id);
                due.push(at);
            }
        }
        tx.commit(vec![Query::new(WRITE, vec![param(wrong), param(due)])])?;
        Ok(())
    })
}
