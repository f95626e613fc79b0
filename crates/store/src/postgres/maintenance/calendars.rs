//! Calendars, the release of the zone database, and backups.

use std::path::PathBuf;
use std::sync::Arc;

use engine::turn::Refused;
use engine::{Moment, ScheduleId};
use language::Rules;

use crate::access::AuditEntry;
use crate::failure::Failure;
use crate::postgres::connections::query::{is_storable, row_count};
use crate::postgres::connections::tx_connection::{Query, TxConnection, param};
use crate::postgres::transaction::access::ask_audit;
use crate::postgres::transaction::core::Core;
use crate::postgres::transaction::shared::{self, Shared};
use crate::rows::Row as _;
use crate::rules::{self, Change};
use crate::view::CalendarView;
use crate::views::calendars::CALENDARS;

const NEXT_VERSION: &str = "UPDATE meta SET value = (value::bigint + 1)::text WHERE key = 'rules'
     RETURNING value";

/// Refused: PostgreSQL has tools for this, which also handle its roles and settings.
pub(crate) async fn backup(schema: String, to: PathBuf) -> Result<u64, Failure> {
    Err(Failure::Refused(Refused::Conflict(format!(
        "A store in PostgreSQL is copied with PostgreSQL's own tools: \
         pg_dump --format=custom --schema={schema} --file={} DATABASE",
        to.display()
    ))))
}

/// Begins a transaction while no other one may decide. Returns the rules, and the calendars they
/// are built from.
fn open_alone(
    tx: &mut TxConnection,
    shared: &Shared,
) -> Result<(Arc<Rules>, Vec<CalendarView>), Failure> {
    let hold = "SELECT pg_advisory_xact_lock($1, hashtext(current_schema()))";
    let found = tx.begin(vec![
        Query::new(hold, vec![param(crate::postgres::LOCK_RULES)]),
        Query::new("SELECT value FROM meta WHERE key = 'rules'", vec![]),
        Query::new(CALENDARS, vec![]),
    ])?;
    let [_, version, calendars] = &found[..] else {
        return Err(Failure::Damaged("an answer is missing".to_owned()));
    };
    let Some(row) = version.first() else {
        return Err(Failure::Damaged("the calendars have no version".to_owned()));
    };
    let version: String = row.single()?;
    let rules = match shared.rules_of(&version) {
        Some(rules) => rules,
        None => shared.reload(version, calendars)?,
    };
    Ok((rules, shared::calendars(calendars)?))
}

/// Commits the change with a new version of the rules, and returns the answers to `asked`.
fn close(
    tx: &mut TxConnection,
    shared: &Shared,
    rules: Rules,
    mut queries: Vec<Query>,
) -> Result<Vec<Vec<tokio_postgres::Row>>, Failure> {
    queries.push(Query::new(NEXT_VERSION, vec![]));
    let mut found = tx.commit(queries)?;
    let version = found.pop().unwrap_or_default();
    if let Some(row) = version.first() {
        shared.set_rules(row.single()?, Arc::new(rules));
    }
    Ok(found)
}

impl Core {
    pub(crate) fn put_calendar(
        &mut self,
        id: &str,
        spec: &str,
        moment: Moment,
        audit: Option<&AuditEntry>,
    ) -> Result<Vec<ScheduleId>, Failure> {
        let Core { tx, shared } = self;
        tx.transact(|tx| {
            let (before, mut calendars) = open_alone(tx, shared)?;
            calendars.retain(|calendar| calendar.id != id);
            calendars.push(CalendarView { id: id.to_owned(), spec: spec.to_owned() });
            let rules = rules::changed(&before, &calendars, &Change::Put(id))?;
            let put = "INSERT INTO calendars (id, spec) VALUES ($1, $2)
                       ON CONFLICT (id) DO UPDATE SET spec = excluded.spec";
            // Composed calendars change with their parts, so every schedule with a calendar is
            // outdated.
            let outdated = "INSERT INTO outdated SELECT id FROM schedules
                            WHERE calendar IS NOT NULL ORDER BY id ON CONFLICT DO NOTHING";
            let using = "SELECT id FROM schedules WHERE calendar IS NOT NULL ORDER BY id";
            let mut queries = vec![
                Query::new(put, vec![param(id.to_owned()), param(spec.to_owned())]),
                Query::new(outdated, vec![]),
                Query::new(using, vec![]),
            ];
            queries.extend(ask_audit(audit, shared.given(moment.now)));
            let [_, _, using, ..] = &close(tx, shared, rules, queries)?[..] else {
                return Err(Failure::Damaged("an answer is missing".to_owned()));
            };
            using.iter().map(|row| row.single()).collect()
        })
    }

    pub(crate) fn delete_calendar(
        &mut self,
        id: &str,
        moment: Moment,
        audit: Option<&AuditEntry>,
    ) -> Result<bool, Failure> {
        if !is_storable(id) {
            return Ok(false);
        }
        let Core { tx, shared } = self;
        tx.transact(|tx| {
            let (before, mut calendars) = open_alone(tx, shared)?;
            let used = "SELECT id FROM schedules WHERE calendar = $1 ORDER BY id LIMIT 1";
            if let Some(row) = tx.one(used, vec![param(id.to_owned())])?.first() {
                let message =
                    format!("Calendar {id} is used by schedule {}.", row.single::<i64>()?);
                return Err(Failure::Refused(Refused::Conflict(message)));
            }
            let known = calendars.len();
            calendars.retain(|calendar| calendar.id != id);
            if calendars.len() == known {
                tx.commit(vec![])?;
                return Ok(false);
            }
            let rules = rules::changed(&before, &calendars, &Change::Deleted(id))?;
            let delete = "DELETE FROM calendars WHERE id = $1";
            let mut queries = vec![Query::new(delete, vec![param(id.to_owned())])];
            queries.extend(ask_audit(audit, shared.given(moment.now)));
            close(tx, shared, rules, queries)?;
            Ok(true)
        })
    }

    pub(crate) fn outdated(
        &mut self,
        zones: &str,
        after: ScheduleId,
        limit: usize,
    ) -> Result<Vec<ScheduleId>, Failure> {
        self.tx.transact(|tx| {
            let known = "SELECT value FROM meta WHERE key = 'zones'";
            let known = tx.begin(vec![Query::new(known, vec![])])?.into_iter().flatten().next();
            let known: Option<String> = known.map(|row| row.single()).transpose()?;
            let is_known = known.as_deref() == Some(zones);
            // On a new store nothing was computed with another zone database yet.
            let sql = if is_known || known.is_none() {
                "SELECT schedule FROM outdated WHERE schedule > $1 ORDER BY schedule LIMIT $2"
            } else {
                "SELECT id FROM progress WHERE id > $1 ORDER BY id LIMIT $2"
            };
            let found = tx.one(sql, vec![param(after.0), param(row_count(limit))])?;
            if !found.is_empty() || is_known {
                tx.commit(vec![])?;
                return found.iter().map(|row| row.single()).collect();
            }
            let note = "INSERT INTO meta (key, value) VALUES ('zones', $1)
                        ON CONFLICT (key) DO UPDATE SET value = excluded.value";
            tx.commit(vec![Query::new(note, vec![param(zones.to_owned())])])?;
            Ok(Vec::new())
        })
    }
}
