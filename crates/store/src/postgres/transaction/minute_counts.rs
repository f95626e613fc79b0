//! Tallies: each transaction adds to them; they are read by minute and removed after some days.
//!
//! Each connection has a slot of its own, named by the server process: concurrent transactions, of
//! one node or of many, never wait for each other's row. Past minutes are added up in slot 0, so
//! that a list of days has one row for each minute and kind, however many connections there were.

use engine::turn::Writes;

use crate::postgres::connections::query::row_count;
use crate::postgres::connections::tx_connection::{Query, param};
use crate::postgres::transaction::apply::column;
use crate::tally::{KEPT_MINUTES, tallied};

const WRITE: &str = "INSERT INTO tallies AS t (minute, slot, kind, count)
     SELECT minute, pg_backend_pid(), kind, count
     FROM unnest($1::bigint[], $2::smallint[], $3::bigint[]) AS u (minute, kind, count)
     ON CONFLICT (minute, slot, kind) DO UPDATE SET count = t.count + excluded.count";
const EXPIRE: &str = "DELETE FROM tallies WHERE (minute, slot, kind) IN
       (SELECT minute, slot, kind FROM tallies WHERE minute < $1
        ORDER BY minute, slot, kind LIMIT $2) RETURNING 1";
const ADD_UP: &str = "WITH past AS (
       DELETE FROM tallies WHERE (minute, slot, kind) IN
         (SELECT minute, slot, kind FROM tallies WHERE minute >= $1 AND minute < $2 AND slot <> 0
          ORDER BY minute, slot, kind LIMIT $3) RETURNING minute, kind, count),
     sums AS (
       INSERT INTO tallies AS t (minute, slot, kind, count)
       SELECT minute, 0, kind, sum(count) FROM past GROUP BY minute, kind
       ON CONFLICT (minute, slot, kind) DO UPDATE SET count = t.count + excluded.count)
     SELECT 1 FROM past";
/// After this many minutes nobody writes to a minute any more: no transaction lasts that long.
const OVER_MINUTES: i64 = 10;

/// The statement that adds a transaction's counts: a row or two, however much was decided.
pub(crate) fn ask_write(writes: &Writes) -> Option<Query> {
    let rows: Vec<_> = tallied(writes).into_iter().collect();
    let kind = |kind: i64| i16::try_from(kind).unwrap_or(i16::MAX);
    let params = || {
        vec![
            column(&rows, |((minute, _), _)| *minute),
            column(&rows, |((_, code), _)| kind(*code)),
            column(&rows, |(_, count)| *count),
        ]
    };
    (!rows.is_empty()).then(|| Query::new(WRITE, params()))
}

/// The statement that removes old tallies. It returns a row for each.
pub(crate) fn ask_expire(now: i64, limit: usize) -> Query {
    let before = now.div_euclid(60_000) - KEPT_MINUTES;
    Query::new(EXPIRE, vec![param(before), param(row_count(limit))])
}

/// The statement that adds up past minutes. It returns a row for each tally it added.
pub(crate) fn ask_add_up(now: i64, limit: usize) -> Query {
    let minute = now.div_euclid(60_000);
    let (from, before) = (minute - KEPT_MINUTES, minute - OVER_MINUTES);
    Query::new(ADD_UP, vec![param(from), param(before), param(row_count(limit))])
}
