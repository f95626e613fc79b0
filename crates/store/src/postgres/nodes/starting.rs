//! How the shared store keeps the [`Starting`] row of a node.

use engine::RunKey;
use engine::turn::Wakeup;
use jiff::Timestamp;

use crate::codes::sql;
use crate::failure::Failure;
use crate::postgres::connections::tx_connection::{Query, TxConnection, param};
use crate::postgres::transaction::core::Core;
use crate::rows::Row as _;
use crate::starting::{FIND_ALL, Starting, Trial};
use crate::stored::ms;
use crate::wakeups::read_wakeup;

const KEEP: &str = "INSERT INTO meta (key, value) VALUES ($1, $2)
     ON CONFLICT (key) DO UPDATE SET value = excluded.value";
const FIND: &str = "SELECT value FROM meta WHERE key = $1";
const FORGET: &str = "DELETE FROM meta WHERE key = $1";
/// The earliest due wakeup of all kinds, with the kinds as in `set_aside`.
const DUE: &str = sql!(
    "SELECT kind, id FROM (
       (SELECT wake_at AS due, {run_wakeup}::smallint AS kind, key AS id FROM open_runs
        WHERE wake_at <= $1 ORDER BY wake_at LIMIT 1)
       UNION ALL
       (SELECT wake_at, {schedule_wakeup}::smallint, id FROM progress
        WHERE wake_at <= $1 ORDER BY wake_at LIMIT 1)
       UNION ALL
       (SELECT due, {handler_wakeup}::smallint, id FROM handlers
        WHERE due <= $1 ORDER BY due LIMIT 1)) d
     ORDER BY due, kind LIMIT 1"
);
const BEGIN: &str = sql!(
    "SELECT min(key) FROM (
     (SELECT key FROM open_runs WHERE waits_for_slot AND key + 0 > $1 AND created_at <= $2
      ORDER BY key + 0 LIMIT 1)
     UNION ALL
     (SELECT min(key) FROM open_runs
      WHERE status = {pending} AND key + 0 > $1 AND created_at <= $2)) r"
);

/// Reads the row an earlier start left, and stores the row of the new start.
pub(crate) fn begin_start(tx: &mut TxConnection, name: &str) -> Result<Starting, Failure> {
    let rows = tx.one(FIND_ALL, vec![])?;
    let rows = rows.iter().map(|row| row.tuple()).collect::<Result<Vec<_>, Failure>>()?;
    let (starting, left) = Starting::after(name, &rows);
    tx.one("DELETE FROM meta WHERE key = ANY($1::text[])", vec![param(left)])?;
    keep(tx, name, &starting)?;
    Ok(starting)
}

fn find(tx: &mut TxConnection, name: &str) -> Result<Option<String>, Failure> {
    let found = tx.one(FIND, vec![param(Starting::key(name))])?;
    found.first().map(|row| row.single()).transpose()
}

fn keep(tx: &mut TxConnection, name: &str, starting: &Starting) -> Result<(), Failure> {
    tx.one(KEEP, vec![param(Starting::key(name)), param(starting.text())]).map(drop)
}

impl Core {
    pub(crate) fn put_on_trial(&mut self, name: &str, what: Option<Wakeup>) -> Result<(), Failure> {
        self.tx.transact(|tx| {
            tx.begin(Vec::new())?;
            let starting = Starting::read(find(tx, name)?.as_deref());
            keep(tx, name, &starting.trying(what))?;
            tx.commit(Vec::new()).map(drop)
        })
    }

    pub(crate) fn has_settled(&mut self, name: &str) -> Result<(), Failure> {
        self.tx.transact(|tx| {
            tx.begin(Vec::new())?;
            tx.commit(vec![Query::new(FORGET, vec![param(Starting::key(name))])]).map(drop)
        })
    }

    pub(crate) fn next_to_decide(
        &mut self,
        by: Timestamp,
        after: RunKey,
    ) -> Result<Option<Trial>, Failure> {
        self.tx.transact(|tx| {
            tx.begin(Vec::new())?;
            let due = Query::new(DUE, vec![param(ms(by))]);
            let begin = Query::new(BEGIN, vec![param(after.0), param(ms(by))]);
            let found = tx.commit(vec![due, begin])?;
            if let Some(row) = found[0].first() {
                let (kind, id) = row.tuple()?;
                return Ok(Some(Trial::Due(read_wakeup(kind, id)?)));
            }
            let key: Option<RunKey> = found[1].first().map_or(Ok(None), |row| row.single())?;
            Ok(key.map(Trial::Begin))
        })
    }
}
