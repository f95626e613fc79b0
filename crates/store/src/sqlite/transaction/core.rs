//! What the one writer does inside a transaction: turns, commands, joining and leaving.

use std::collections::HashSet;
use std::sync::{Arc, PoisonError, RwLock};

use engine::turn::{Answer, Capacity, Command, Recovered, Turn, Wakeup};
use engine::{Moment, NodeId};
use language::Rules;
use rusqlite::{Connection, OptionalExtension as _, params};

use crate::failure::Failure;
use crate::notify_setup::SharedSetup;
use crate::request::{CommandRequest, Commanded, Idempotency, Joined, TurnRequest, Turned};
use crate::set_aside::{counting, guarded, the_only_one};
use crate::sqlite::connections::file::Guard;
use crate::sqlite::rows::decode;
use crate::sqlite::rows::decode::ms;
use crate::sqlite::transaction::apply::{WAKE_NODE, apply};
use crate::sqlite::transaction::apply_runs::owner;
use crate::sqlite::transaction::reader::{Ids, Memory, SqliteTransactionReader};

/// The writer's connection and its caches.
pub(crate) struct Core {
    pub(crate) connection: Connection,
    pub(crate) ids: Ids,
    pub(crate) memory: Memory,
    /// What is set aside: the driver passes over it.
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
        let only = the_only_one(&due, &request.reports);
        self.decide_and_write(request, due).map_err(|failure| failure.about(only))
    }

    fn decide_and_write(
        &mut self,
        request: TurnRequest,
        due: Vec<(i64, Wakeup)>,
    ) -> Result<Turned, Failure> {
        let woken = due.iter().filter_map(|(_, wakeup)| match wakeup {
            Wakeup::Schedule(id) => Some(*id),
            _ => None,
        });
        let outdated = self.outdated_among(woken)?;
        let rules = self.rules();
        let mut reader =
            SqliteTransactionReader::new(&self.connection, &mut self.ids, &mut self.memory);
        let (moment, node) = (request.moment, request.node);
        let turn = Turn::new(&mut reader, &rules, moment, node, request.capacity);
        let setup = self.setup.get();
        let mut turn = turn.traced(request.traced).without(&self.set_aside).telling(&setup);
        turn.expect(due.len() + request.reports.len());
        let mut refused = 0;
        let decided = guarded(|| {
            // First of all: attempts whose effects were lost already occupy capacity.
            if let Some(performed) = &request.performed {
                turn.perform_lost(performed)?;
            }
            // Before due wakeups: a run that ends at an instant is settled before an occurrence at
            // that instant is decided.
            for report in request.reports {
                if let Err(stop) = turn.report(report.run, report.token, report.end) {
                    stop.refusal()?;
                    refused += 1;
                }
            }
            // A calendar has changed and these schedules were not recomputed yet. Nothing may be
            // decided by an old calendar.
            if !outdated.is_empty() {
                turn.recompute(&outdated)?;
            }
            for (_, wakeup) in &due {
                turn.wake(*wakeup)?;
            }
            if let Some(key) = request.begin {
                turn.begin_or_go_on(key)?;
            }
            turn.fill_slots()
        });
        decided.map_err(|failure| failure.about(turn.deciding()))?;
        let turned = turn.finish();
        drop(reader);
        apply(&self.connection, &turned.writes, moment.now)?;
        self.up_to_date(&outdated)?;
        self.settle_leftovers(&due, node, moment.now)?;
        let recovered = turned.writes.recovered;
        self.remember_recovered(node, recovered)?;
        self.memory.recent.keep(turned.writes);
        Ok(Turned {
            effects: turned.effects,
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
            return Ok(Commanded {
                answer,
                replayed: true,
                effects: Vec::new(),
                notices: Vec::new(),
                spans: Vec::new(),
                next_wakeup: self.next_wakeup()?,
                look: false,
            });
        }
        let CommandRequest { command, moment, node, idempotency, audit, traced } = request;
        let commanded = self.carry_out(command, moment, node, traced)?;
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
        let rules = self.rules();
        let mut reader =
            SqliteTransactionReader::new(&self.connection, &mut self.ids, &mut self.memory);
        // Runs that a command creates begin in the driver's next turn, which knows the node's
        // capacity.
        let capacity = Capacity { rescan: false, ..Capacity::new(0) };
        let setup = self.setup.get();
        let turn = Turn::new(&mut reader, &rules, moment, node, capacity);
        let mut turn = turn.traced(traced).telling(&setup);
        if let Command::ClaimAttempts { .. } = command {
            turn = turn.without(&self.set_aside);
        }
        let answer = guarded(|| Ok(turn.command(command)?));
        let answer = answer.map_err(|failure| failure.about(turn.deciding()))?;
        let answer = counting(answer, deleted);
        let turned = turn.finish();
        drop(reader);
        apply(&self.connection, &turned.writes, moment.now)?;
        self.up_to_date(&recomputed)?;
        Ok(Commanded {
            answer,
            replayed: false,
            effects: turned.effects,
            notices: turned.notices,
            spans: turned.spans,
            next_wakeup: self.next_wakeup()?,
            look: turned.capacity.rescan,
        })
    }

    fn remembered(&self, idempotency: &Idempotency) -> Result<Option<Answer>, Failure> {
        let sql = "SELECT fingerprint, answer FROM idempotency WHERE key = ?1";
        let mut statement = self.connection.prepare_cached(sql)?;
        let read = |row: &rusqlite::Row<'_>| {
            Ok((row.get::<_, Vec<u8>>(0)?, decode::json::<Answer>(row, 1)?))
        };
        match statement.query_row([&idempotency.key], read).optional()? {
            None => Ok(None),
            Some((fingerprint, answer)) if fingerprint == idempotency.fingerprint => {
                Ok(Some(answer))
            }
            Some(_) => Err(Failure::KeyReused),
        }
    }

    fn remember(
        &self,
        idempotency: &Idempotency,
        answer: &Answer,
        moment: Moment,
    ) -> Result<(), Failure> {
        let sql = "INSERT INTO idempotency (key, fingerprint, answer, created_at)
                   VALUES (?1, ?2, ?3, ?4)";
        let answer = serde_json::to_string(answer)
            .map_err(|error| Failure::Unavailable(error.to_string()))?;
        let params = params![idempotency.key, idempotency.fingerprint, answer, ms(moment.now)];
        self.connection.prepare_cached(sql)?.execute(params)?;
        Ok(())
    }

    /// Registers the node under a new id. The file is locked, so every node that joined before is
    /// gone, and its attempts are due to be taken over now.
    pub(crate) fn join(&mut self, name: &str, moment: Moment) -> Result<Joined, Failure> {
        self.require_unique_runs()?;
        let sql = "INSERT OR IGNORE INTO wakeups (due, kind, id) SELECT ?1, ?2, id FROM nodes";
        let gone = self.connection.execute(sql, [ms(moment.now), WAKE_NODE])?;
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
        match self.connection.prepare_cached(sql)?.exists([INDEX])? {
            true => Ok(()),
            false => Err(Failure::without_index(INDEX)),
        }
    }

    pub(crate) fn leave(&mut self, node: NodeId) -> Result<(), Failure> {
        // If the node still owns attempts, its row stays, and the next node that joins takes them
        // over, as after a crash.
        let owned = "SELECT 1 FROM runs INDEXED BY runs_open
                     WHERE status < 4 AND status = 1 AND instr(owners, ?1) LIMIT 1";
        let owns = self.connection.prepare_cached(owned)?.exists([owner(node)])?;
        if !owns {
            self.connection.execute("DELETE FROM nodes WHERE id = ?1", [node.0])?;
        }
        Ok(())
    }
}

fn ids(connection: &Connection) -> Result<Ids, Failure> {
    let greatest = |sql: &str| -> Result<i64, Failure> {
        Ok(connection.query_row(sql, [], |row| row.get::<_, Option<i64>>(0))?.unwrap_or(0))
    };
    // Ids of deleted schedules are still in the ledger and in runs, and must not be given again.
    // Those deleted with all their history are stored on closing and with each expiry.
    let given = |key: &str| -> Result<i64, Failure> {
        let sql = "SELECT CAST(value AS INTEGER) FROM meta WHERE key = ?1";
        Ok(connection.query_row(sql, [key], |row| row.get(0)).optional()?.unwrap_or(0))
    };
    let schedule = greatest("SELECT max(id) FROM schedules")?
        .max(greatest("SELECT max(schedule) FROM ledger")?)
        .max(greatest("SELECT max(schedule) FROM runs WHERE n IS NOT NULL")?)
        .max(given("greatest_schedule")?);
    Ok(Ids {
        run: greatest("SELECT max(key) FROM runs")?.max(given("greatest_run")?),
        schedule,
        workflow: greatest("SELECT max(id) FROM workflows")?,
        topic: greatest("SELECT max(id) FROM topics")?,
        event: greatest("SELECT max(key) FROM events")?.max(given("greatest_event")?),
        handler: greatest("SELECT max(id) FROM handlers")?.max(given("greatest_handler")?),
        incident: greatest("SELECT max(key) FROM incidents")?.max(given("greatest_incident")?),
    })
}
