//! What the one writer does inside a transaction: turns, commands, joining and leaving.

use std::collections::HashSet;
use std::sync::{Arc, PoisonError, RwLock};

use engine::turn::{Answer, Command, Recovered, Wakeup};
use engine::{Moment, NodeId};
use language::Rules;
use rusqlite::{Connection, params};

use crate::codes::{WAKE_NODE, sql};
use crate::deciding::{Deciding, about_events, is_about_events};
use crate::failure::Failure;
use crate::notify_setup::SharedSetup;
use crate::request::{CommandRequest, Commanded, Idempotency, Joined, TurnRequest, Turned};
use crate::rows::{Column, Row as _};
use crate::set_aside::the_only_one;
use crate::sqlite::connections::file::Guard;
use crate::sqlite::connections::query;
use crate::sqlite::transaction::apply::apply;
use crate::sqlite::transaction::apply_runs::owner;
use crate::sqlite::transaction::reader::{Ids, Memory, SqliteTransactionReader};
use crate::stage::Stage;
use crate::stored::{json, ms};

/// The writer's connection and its caches.
pub(crate) struct Core {
    pub(crate) connection: Connection,
    pub(crate) ids: Ids,
    pub(crate) memory: Memory,
    /// Schedules, runs and handlers that are set aside: the driver passes over them.
    pub(crate) set_aside: HashSet<Wakeup>,
    /// Whom the node can notify, and whom it notifies of failures.
    setup: SharedSetup,
    /// The rules as they are committed.
    rules: Arc<RwLock<Arc<Rules>>>,
    /// The rules as the open transaction changes them.
    pub(crate) new_rules: Option<Arc<Rules>>,
    /// Watches the store's file; `None` in tests without a file.
    pub(crate) guard: Option<Guard>,
    /// Size of the log in bytes after the last commit.
    pub(crate) log_size: u64,
}

impl Core {
    pub(crate) fn new(
        connection: Connection,
        rules: Arc<RwLock<Arc<Rules>>>,
        setup: SharedSetup,
    ) -> Result<Core, Failure> {
        connection.set_prepared_statement_cache_capacity(256);
        let ids = ids(&connection)?;
        let set_aside = crate::sqlite::transaction::set_aside::known(&connection)?;
        let memory = Memory::default();
        let (guard, log_size) = (None, 0);
        let new_rules = None;
        Ok(Core { connection, ids, memory, set_aside, setup, rules, new_rules, guard, log_size })
    }

    /// Fails with [`Failure::Gone`] if the file is not where it was: nothing may be acknowledged
    /// any more.
    pub(crate) fn look_at_file(&mut self) -> Result<(), Failure> {
        if let Some(guard) = &self.guard {
            self.log_size = guard.check()?;
        }
        Ok(())
    }

    pub(crate) fn rules(&self) -> Arc<Rules> {
        let committed = || self.rules.read().unwrap_or_else(PoisonError::into_inner).clone();
        self.new_rules.clone().unwrap_or_else(committed)
    }

    /// Called after the commit: makes the transaction's rules visible to everyone.
    pub(crate) fn publish_rules(&mut self) {
        if let Some(rules) = self.new_rules.take() {
            *self.rules.write().unwrap_or_else(PoisonError::into_inner) = rules;
        }
    }

    pub(crate) fn turn(&mut self, request: TurnRequest) -> Result<Turned, Failure> {
        let due = self.due(request.moment.now, request.limit)?;
        Stage::Claimed.is_over();
        let only = the_only_one(&due, &request.reports);
        self.decide_and_write(request, due).map_err(|failure| failure.about(only))
    }

    fn decide_and_write(
        &mut self,
        mut request: TurnRequest,
        due: Vec<(i64, Wakeup)>,
    ) -> Result<Turned, Failure> {
        let woken = due.iter().filter_map(|(_, wakeup)| match wakeup {
            Wakeup::Schedule(id) => Some(*id),
            _ => None,
        });
        let outdated = self.outdated_among(woken)?;
        let (rules, setup) = (self.rules(), self.setup.get());
        self.memory.row_cache.read_ahead(&self.connection, &due)?;
        let mut reader =
            SqliteTransactionReader::new(&self.connection, &mut self.ids, &mut self.memory);
        let (moment, node, traced) = (request.moment, request.node, request.traced);
        let set_aside = &self.set_aside;
        let deciding = Deciding { rules: &rules, moment, node, traced, set_aside, setup: &setup };
        let reports = std::mem::take(&mut request.reports).into_iter();
        let (turned, refused) = deciding.turn(&mut reader, &request, reports, &outdated, &due)?;
        drop(reader);
        self.memory.row_cache.end_reading_ahead();
        Stage::Decided.is_over();
        apply(&self.connection, &turned.writes, moment.now)?;
        self.up_to_date(&outdated)?;
        self.settle_leftovers(&due, &turned.writes, node, moment.now)?;
        let recovered = turned.writes.recovered;
        self.remember_recovered(node, recovered)?;
        Stage::Written.is_over();
        self.memory.written = Some(Box::new(turned.writes));
        Ok(Turned {
            effects: turned.effects,
            noops: turned.noops,
            notices: turned.notices,
            spans: turned.spans,
            claimed: due.len(),
            refused,
            recovered,
            next_wakeup: self.next_wakeup()?,
            capacity: turned.capacity,
        })
    }

    /// Adds what was recovered after downtime to the node's row.
    fn remember_recovered(&self, node: NodeId, recovered: Recovered) -> Result<(), Failure> {
        if recovered.is_nothing() {
            return Ok(());
        }
        let Recovered { missed, made_up, coalesced, taken_over } = recovered;
        let sql = "UPDATE nodes SET missed = missed + ?2, made_up = made_up + ?3,
                     coalesced = coalesced + ?4, taken_over = taken_over + ?5 WHERE id = ?1";
        let params = params![node.0, missed, made_up, coalesced, taken_over];
        self.connection.prepare_cached(sql)?.execute(params)?;
        Ok(())
    }

    pub(crate) fn reader(&mut self) -> SqliteTransactionReader<'_> {
        SqliteTransactionReader::new(&self.connection, &mut self.ids, &mut self.memory)
    }

    pub(crate) fn command(&mut self, request: CommandRequest) -> Result<Commanded, Failure> {
        if let Some(idempotency) = &request.idempotency
            && let Some(answer) = self.remembered(idempotency)?
        {
            return Ok(Commanded::replayed(answer, self.next_wakeup()?));
        }
        let CommandRequest { command, moment, node, idempotency, audit, traced } = request;
        let is_about_events = is_about_events(&command);
        let commanded = self.carry_out(command, moment, node, traced);
        let commanded = if is_about_events { commanded.map_err(about_events)? } else { commanded? };
        if let Some(idempotency) = &idempotency {
            self.remember(idempotency, &commanded.answer, moment)?;
        }
        self.write_audit(audit.as_ref(), moment.now)?;
        Ok(commanded)
    }

    fn carry_out(
        &mut self,
        command: Command,
        moment: Moment,
        node: NodeId,
        traced: bool,
    ) -> Result<Commanded, Failure> {
        let recomputed = match &command {
            Command::Recompute(ids) => ids.clone(),
            _ => Vec::new(),
        };
        let (command, deleted) = self.without_broken(command)?;
        let (rules, setup) = (self.rules(), self.setup.get());
        let mut reader =
            SqliteTransactionReader::new(&self.connection, &mut self.ids, &mut self.memory);
        let set_aside = &self.set_aside;
        let deciding = Deciding { rules: &rules, moment, node, traced, set_aside, setup: &setup };
        let (told, turned) = deciding.command(&mut reader, command, deleted)?;
        drop(reader);
        apply(&self.connection, &turned.writes, moment.now)?;
        self.up_to_date(&recomputed)?;
        Ok(Commanded::new(told, turned, self.next_wakeup()?))
    }

    fn remembered(&self, idempotency: &Idempotency) -> Result<Option<Answer>, Failure> {
        let sql = "SELECT fingerprint, answer FROM idempotency WHERE key = ?1";
        query::one(&self.connection, sql, [&idempotency.key], |row| {
            let [fingerprint, answer, ..] = Column::POSITIONS;
            if row.maybe_bytes(fingerprint)? != Some(idempotency.fingerprint.as_slice()) {
                return Err(Failure::KeyReused);
            }
            row.json(answer)
        })
    }

    fn remember(
        &self,
        idempotency: &Idempotency,
        answer: &Answer,
        moment: Moment,
    ) -> Result<(), Failure> {
        let sql = "INSERT INTO idempotency (key, fingerprint, answer, created_at)
                   VALUES (?1, ?2, ?3, ?4)";
        let answer = json(answer)?;
        let params = params![idempotency.key, idempotency.fingerprint, answer, ms(moment.now)];
        self.connection.prepare_cached(sql)?.execute(params)?;
        Ok(())
    }

    /// Registers the node under a new id. The file is locked, so every node that joined before is
    /// gone, and its attempts are due to be taken over now.
    pub(crate) fn join(&mut self, name: &str, moment: Moment) -> Result<Joined, Failure> {
        self.require_unique_runs()?;
        let sql = "INSERT OR IGNORE INTO wakeups (due, kind, id) SELECT ?1, ?2, id FROM nodes";
        let gone = self.connection.execute(sql, params![ms(moment.now), WAKE_NODE])?;
        let sql = "INSERT INTO nodes (name, started_at) VALUES (?1, ?2)";
        self.connection.execute(sql, params![name, ms(moment.now)])?;
        let node = NodeId(self.connection.last_insert_rowid());
        let starting = self.begin_start(name)?;
        let (early_deaths, culprit) = (starting.deaths, starting.culprit());
        Ok(Joined { node, next_wakeup: self.next_wakeup()?, gone, early_deaths, culprit })
    }

    /// Refuses a store without the unique index that keeps an occurrence from running twice.
    fn require_unique_runs(&self) -> Result<(), Failure> {
        const INDEX: &str = "runs_by_occurrence";
        let sql = "SELECT 1 FROM sqlite_schema WHERE type = 'index' AND name = ?1
                   AND sql LIKE 'CREATE UNIQUE INDEX %'";
        if self.connection.prepare_cached(sql)?.exists([INDEX])? {
            Ok(())
        } else {
            Err(Failure::without_index(INDEX))
        }
    }

    pub(crate) fn leave(&mut self, node: NodeId) -> Result<(), Failure> {
        // If the node still owns attempts, its row stays, and the next node that joins takes them
        // over, as after a crash.
        let owned = sql!(
            "SELECT 1 FROM runs INDEXED BY runs_open
             WHERE status {open} AND status = {running} AND instr(owners, ?1) LIMIT 1"
        );
        let owns = self.connection.prepare_cached(owned)?.exists([owner(node)])?;
        if !owns {
            self.connection.execute("DELETE FROM nodes WHERE id = ?1", [node.0])?;
        }
        Ok(())
    }
}

fn ids(connection: &Connection) -> Result<Ids, Failure> {
    let greatest = |sql: &str| -> Result<i64, Failure> {
        let greatest: Option<i64> = query::only(connection, sql, [], |row| row.single())?;
        Ok(greatest.unwrap_or(0))
    };
    // Ids of deleted schedules are still in the ledger and in runs, and must not be given again.
    // Those deleted with all their history are stored on closing and with each expiry. Rows that
    // were lost are named by others, which must not come to belong to something new.
    let given = |key: &str| -> Result<i64, Failure> {
        let sql = "SELECT CAST(value AS INTEGER) FROM meta WHERE key = ?1";
        Ok(query::one(connection, sql, [key], |row| row.single())?.unwrap_or(0))
    };
    let schedule = greatest("SELECT max(id) FROM schedules")?
        .max(greatest("SELECT max(id) FROM progress")?)
        .max(greatest("SELECT max(schedule) FROM ledger")?)
        .max(greatest("SELECT max(schedule) FROM runs WHERE n IS NOT NULL")?)
        .max(given("greatest_schedule")?);
    Ok(Ids {
        run: greatest("SELECT max(key) FROM runs")?.max(given("greatest_run")?),
        schedule,
        workflow: greatest("SELECT max(id) FROM workflows")?
            .max(greatest("SELECT max(workflow) FROM revisions")?)
            .max(greatest("SELECT max(workflow) FROM schedules")?),
        topic: greatest("SELECT max(id) FROM topics")?
            .max(greatest("SELECT max(topic) FROM events")?)
            .max(greatest("SELECT max(topic) FROM waits")?)
            .max(greatest("SELECT max(topic) FROM subscriptions")?),
        event: greatest("SELECT max(key) FROM events")?.max(given("greatest_event")?),
        handler: greatest("SELECT max(id) FROM handlers")?
            .max(greatest("SELECT max(handler) FROM subscriptions")?)
            .max(given("greatest_handler")?),
        incident: greatest("SELECT max(key) FROM incidents")?.max(given("greatest_incident")?),
    })
}
