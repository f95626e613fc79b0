//! Schedules, runs and handlers that the shared store has set aside because they cannot be read or decided.

use std::collections::HashSet;
use std::sync::Arc;

use engine::ScheduleId;
use engine::turn::Wakeup;
use jiff::Timestamp;
use tokio_postgres::Row;

use super::check::look;
use super::columns::{of_handler, of_run, of_schedule};
use super::core::Core;
use super::link::{Asked, param};
use super::rows::{self, get};
use super::topic_rows;
use crate::failure::Failure;
use crate::set_aside::{SetAside, finding, read, stored};
use crate::stored::ms;
use crate::view::Finding;

const PUT: &str = "INSERT INTO set_aside (kind, id, reason, at) VALUES ($1, $2, $3, $4)
     ON CONFLICT (kind, id) DO UPDATE SET reason = excluded.reason";
pub(super) const ALL: &str = "SELECT kind, id FROM set_aside";
pub(super) const LIST: &str =
    "SELECT a.kind, a.id, a.reason, a.at, r.uuid, r.schedule, r.n, r.retry
     FROM set_aside a LEFT JOIN runs r ON a.kind = 0 AND r.key = a.id
     ORDER BY a.at, a.kind, a.id";

const FORGET: &str = "DELETE FROM set_aside WHERE kind = $1 AND id = $2";
const SCHEDULE: &str = concat!(
    "SELECT ",
    of_schedule!(),
    " FROM schedules s JOIN progress p ON p.id = s.id WHERE s.id = $1"
);
const RUN: &str = concat!("SELECT ", of_run!(), " FROM runs r WHERE r.key = $1");
const HANDLER: &str = concat!("SELECT ", of_handler!(), " FROM handlers h WHERE h.id = $1");

impl Core {
    /// Drivers pass over it from now on, and its wakeup is gone. Other nodes find out when they come across it.
    pub(super) fn set_aside(
        &mut self,
        what: Wakeup,
        why: &str,
        now: Timestamp,
    ) -> Result<(), Failure> {
        let (kind, id) = stored(what);
        let forget = match what {
            Wakeup::Run(_) => "UPDATE open_runs SET wake_at = NULL WHERE key = $1",
            Wakeup::Schedule(_) => "UPDATE progress SET wake_at = NULL WHERE id = $1",
            Wakeup::Handler(_) => "UPDATE handlers SET due = NULL WHERE id = $1",
            Wakeup::Node(_) => "DELETE FROM nodes WHERE id = $1",
        };
        self.link.transact(|link| {
            link.begin(Vec::new())?;
            let (why, at) = (why.to_owned(), ms(now));
            let put = Asked::new(PUT, vec![param(kind), param(id), param(why), param(at)]);
            link.commit(vec![put, Asked::new(forget, vec![param(id)])]).map(drop)
        })?;
        self.shared.pass_over(what);
        Ok(())
    }

    /// Everything that is set aside is known from now on, what other nodes have set aside as well.
    pub(super) fn learn_set_aside(&mut self) -> Result<(), Failure> {
        let found = self.link.transact(|link| {
            link.begin(Vec::new())?;
            Ok(link.commit(vec![Asked::new(ALL, Vec::new())])?.pop().unwrap_or_default())
        })?;
        let known: Result<HashSet<Wakeup>, Failure> =
            found.iter().map(|row| read(get(row, 0)?, get(row, 1)?)).collect();
        self.shared.set_passed_over(Arc::new(known?));
        Ok(())
    }
}

impl Core {
    /// What is set aside; what can be read, or is gone, is there again if asked. Its wakeup is for others to mend, and
    /// nodes learn of it with their next renewal.
    pub(super) fn check_set_aside(&mut self, repair: bool) -> Result<Vec<Finding>, Failure> {
        let found = look(&mut self.link, LIST, Vec::new)?;
        let mut findings = Vec::new();
        for row in &found {
            let aside = listed(row)?;
            let is_readable = self.is_readable(aside.what)?;
            let comes_back = repair && is_readable;
            if comes_back {
                let (kind, id) = stored(aside.what);
                self.link.transact(|link| {
                    link.begin(Vec::new())?;
                    link.commit(vec![Asked::new(FORGET, vec![param(kind), param(id)])]).map(drop)
                })?;
            }
            findings.push(finding(&aside, is_readable, comes_back));
        }
        if repair && !findings.is_empty() {
            self.learn_set_aside()?;
        }
        Ok(findings)
    }

    /// Whether it can be read, or is not there at all.
    fn is_readable(&mut self, what: Wakeup) -> Result<bool, Failure> {
        let id = stored(what).1;
        let (sql, read): (&'static str, fn(&Row) -> bool) = match what {
            Wakeup::Schedule(_) => (SCHEDULE, |row| rows::schedule(row).is_ok()),
            Wakeup::Run(_) => (RUN, |row| rows::run(row).is_ok()),
            Wakeup::Handler(_) => (HANDLER, |row| topic_rows::handler(row).is_ok()),
            Wakeup::Node(_) => return Ok(true),
        };
        Ok(look(&mut self.link, sql, || vec![param(id)])?.first().is_none_or(read))
    }
}

/// One row of [`LIST`].
pub(super) fn listed(row: &Row) -> Result<SetAside, Failure> {
    let what = read(get(row, 0)?, get(row, 1)?)?;
    let schedule = get::<Option<i64>>(row, 5)?.map(ScheduleId);
    // The id of a run, of which everything else may be unreadable.
    let run = match what {
        Wakeup::Run(_) => rows::run_id(row, schedule, [4, 6, 7]).ok().map(|id| id.to_string()),
        _ => None,
    };
    let id = run.unwrap_or_else(|| stored(what).1.to_string());
    Ok(SetAside { what, id, reason: get(row, 2)?, since: rows::instant(row, 3)? })
}
