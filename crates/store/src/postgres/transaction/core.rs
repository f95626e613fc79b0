//! The transaction of a turn or command: claim, load, decide, write, commit.

use std::sync::Arc;

use engine::turn::{Answer, Capacity, Command, Wakeup, Writes};
use engine::{Moment, NodeId, ScheduleId};
use jiff::{SignedDuration, Timestamp};
use language::Rules;

use crate::deciding::{Deciding, about_events, is_about_events};
use crate::failure::Failure;
use crate::postgres::connections::tx_connection::{Query, TxConnection, param};
use crate::postgres::nodes::clock::database_now;
use crate::postgres::transaction::access::ask_audit;
use crate::postgres::transaction::after_commit::{
    Ending, NextWakeups, ask_everything, calls, gives_others_work,
};
use crate::postgres::transaction::load;
use crate::postgres::transaction::lock_retry::LockNeeds;
use crate::postgres::transaction::reader::{PgTransactionReader, ask_block, first};
use crate::postgres::transaction::related_rows::{Related, find_listeners, prefetch_related};
use crate::postgres::transaction::report_loader::ReportLoader;
use crate::postgres::transaction::set_aside::without_broken;
use crate::postgres::transaction::topic_load;
use crate::postgres::{PostgresClock, Shared};
use crate::request::{Call, CommandRequest, Commanded, Idempotency, TurnRequest, Turned};
use crate::rows::{Column, Row as _};
use crate::set_aside::the_only_one;
use crate::stage::Stage;
use crate::stored::{json, ms};
use crate::wakeups::fair;

/// How soon to look again at due wakeups that another node has locked.
const PAUSE: SignedDuration = SignedDuration::from_millis(5);
/// How soon to look once more after a turn that found due wakeups: a node that had locked others of
/// them may have failed.
const SECOND_LOOK: SignedDuration = SignedDuration::from_secs(1);

/// How many workflows with a limit are locked because one of their pending runs may begin: as many
/// as the engine looks at in one go.
const PENDING: usize = 128;

/// A connection for transactions, and what all connections of the node share.
pub(crate) struct Core {
    pub(crate) tx: TxConnection,
    pub(crate) shared: Arc<Shared>,
}

/// The time and the rules at the beginning of a transaction.
pub(crate) struct Opened {
    pub(crate) moment: Moment,
    pub(crate) rules: Arc<Rules>,
}

/// Begins a transaction. While it lasts, calendars do not change, and the node is not taken for
/// dead.
pub(crate) fn open(
    tx: &mut TxConnection,
    shared: &Shared,
    node: NodeId,
    moment: Moment,
) -> Result<Opened, Failure> {
    let hold = "SELECT pg_advisory_xact_lock_shared($1, hashtext(current_schema()))";
    let state = concat!(
        "SELECT ",
        database_now!(),
        ", (SELECT value FROM meta WHERE key = 'rules'),
           (SELECT id FROM nodes WHERE id = $1 FOR KEY SHARE)"
    );
    let queries = vec![
        Query::new(hold, vec![param(crate::postgres::LOCK_RULES)]),
        Query::new(state, vec![param(node.0)]),
    ];
    let sent = shared.offset.read();
    let found = tx.begin(queries)?;
    let Some(row) = found.get(1).and_then(|rows| rows.first()) else {
        return Err(Failure::Damaged("the database does not know its own time".to_owned()));
    };
    let (database_now, version, alive): (Timestamp, String, Option<i64>) = row.tuple()?;
    shared.told_time(sent, database_now);
    // Tools use node 0 on a store that no node has joined.
    if alive.is_none() && node.0 != 0 {
        return Err(Failure::Fenced);
    }
    let rules = match shared.rules_of(&version) {
        Some(rules) => rules,
        None => {
            let found = tx.one("SELECT id, spec FROM calendars ORDER BY id", vec![])?;
            shared.reload(version, &found)?
        }
    };
    let moment = match shared.clock {
        PostgresClock::Caller => moment,
        PostgresClock::Database => Moment::new(database_now, moment.awake_since.min(database_now)),
    };
    Ok(Opened { moment, rules })
}

impl Core {
    pub(crate) fn turn(&mut self, request: &TurnRequest) -> Result<Turned, Failure> {
        let Core { tx, shared } = self;
        let mut needs = LockNeeds::default();
        let turned = tx.transact(|tx| take_turn(tx, shared, request, &mut needs));
        let turned = turned.inspect_err(|failure| {
            shared.doubt(failure);
            // The message may have been lost with the turn.
            shared.owe_look();
        })?;
        shared.remember_attempts(&turned.effects, &request.reports);
        Ok(turned)
    }

    pub(crate) fn command(&mut self, request: &CommandRequest) -> Result<Commanded, Failure> {
        let Core { tx, shared } = self;
        let mut needs = LockNeeds::default();
        let done = tx.transact(|tx| carry_out(tx, shared, request, &mut needs));
        let done = done.inspect_err(|failure| shared.doubt(failure));
        match is_about_events(&request.command) {
            true => done.map_err(about_events),
            false => done,
        }
    }
}

fn take_turn(
    tx: &mut TxConnection,
    shared: &Shared,
    request: &TurnRequest,
    needs: &mut LockNeeds,
) -> Result<Turned, Failure> {
    let Opened { moment, rules } = open(tx, shared, request.node, request.moment)?;
    let mut reader = PgTransactionReader::new(tx, shared, needs, request.capacity.free_slots);
    let due = prefetch(&mut reader, request, moment.now)?;
    Stage::Claimed.is_over();
    let outdated = std::mem::take(&mut reader.loaded.outdated);
    let (set_aside, setup) = (&*shared.passed_over(), &*shared.setup.get());
    let (node, traced) = (request.node, request.traced);
    let deciding = Deciding { rules: &rules, moment, node, traced, set_aside, setup };
    let reports = request.reports.iter().cloned();
    let (turned, refused) = deciding.turn(&mut reader, request, reports, &outdated, &due)?;
    Stage::Decided.is_over();
    check_reader(&mut reader, &turned.writes)?;
    let passed_over = reader.loaded.passed_over;
    let mut calls = calls(&turned.writes, &turned.effects, request.node);
    if gives_others_work(&turned.writes) {
        shared.owe_look();
    }
    if turned.capacity.rescan && !turned.capacity.has_more && shared.may_call_look(moment.now) {
        calls.insert(Call::Look);
    }
    let besides = up_to_date(&outdated).into_iter().collect();
    let stamp = reader.stamp();
    let (writes, now) = (&turned.writes, moment.now);
    let ending = Ending {
        shared,
        writes,
        node,
        now,
        stamp,
        before: &reader.loaded.before,
        unlocked: &reader.loaded.unlocked,
        must_not_wait: reader.loaded.holds_alone(),
    };
    let only = the_only_one(&due, &request.reports);
    let left = ending.end(reader.tx, &calls, besides);
    let left = left.map_err(|failure| failure.about(only))?;
    let recovered = turned.writes.recovered;
    shared.row_cache.keep(stamp, node, turned.writes, &reader.loaded.owned_workflows);
    let is_full = request.limit > 0 && due.len() >= request.limit;
    let again = if is_full {
        // More wakeups are due.
        moment.now.into()
    } else if passed_over {
        // Look again when the other nodes are done with what they have locked.
        moment.now.checked_add(PAUSE).ok()
    } else if left.others && !due.is_empty() {
        // Look once more at due wakeups that other nodes had locked: they may have failed.
        moment.now.checked_add(SECOND_LOOK).ok()
    } else {
        None
    };
    let next_wakeup = left.next_wakeup.into_iter().chain(again).min();
    Ok(Turned {
        effects: turned.effects,
        noops: turned.noops,
        notices: turned.notices,
        spans: turned.spans,
        claimed: due.len(),
        refused,
        recovered,
        next_wakeup,
        capacity: Capacity { rescan: turned.capacity.rescan || passed_over, ..turned.capacity },
    })
}

/// Loads and locks what the turn will need, in three round trips, however much it is.
fn prefetch(
    reader: &mut PgTransactionReader<'_>,
    request: &TurnRequest,
    now: Timestamp,
) -> Result<Vec<(i64, Wakeup)>, Failure> {
    let mut about = Related { listeners: find_listeners(reader)?, ..Related::default() };
    let mut reported: Vec<i64> = request.reports.iter().map(|report| report.run.0).collect();
    reported.extend(&reader.needs.runs);
    reported.sort_unstable();
    reported.dedup();
    let (reported, schedules) = related(reader, reported)?;
    let mut report_loader = ReportLoader::cached(reader.shared, &schedules, &reported);
    let mut queries = report_loader.ask(schedules, reported);
    let first_due = queries.len();
    if request.limit > 0 {
        let limit = i64::try_from(request.limit).unwrap_or(i64::MAX);
        queries.extend(load::ask_due(ms(now), limit, reader.shared.wakeup_cache.low()));
        let gone = "SELECT id FROM nodes WHERE lease_until < $1 AND id <> $2
                    ORDER BY id FOR UPDATE SKIP LOCKED";
        queries.push(Query::new(gone, vec![param(ms(now)), param(request.node.0)]));
        queries.push(topic_load::ask_due_handlers(
            ms(now),
            limit,
            reader.shared.wakeup_cache.low(),
        ));
    }
    let may_begin =
        request.capacity.free_slots > 0 && (request.capacity.rescan || !request.reports.is_empty());
    let pending_at = may_begin.then_some(queries.len());
    if may_begin {
        queries.push(load::ask_limited_with_pending(request.capacity.last_served, PENDING));
    }
    // The block of keys is taken after the locks, so that the runs of a schedule have keys in the
    // order of their occurrences.
    queries.push(ask_block());
    let found = reader.tx.ask(queries)?;
    report_loader.keep(reader.tx, &mut reader.loaded, &found)?;
    let block = found.last().map(|rows| first(rows)).transpose()?.flatten();
    reader.take_block(block.unwrap_or_default());
    if let Some(at) = pending_at {
        about.pending = found[at].iter().map(|row| row.single()).collect::<Result<_, _>>()?;
    }
    if request.limit == 0 {
        prefetch_related(reader, &about)?;
        return Ok(Vec::new());
    }
    let [schedules, runs, gone_nodes, handlers, ..] = &found[first_due..] else {
        return Err(Failure::Damaged("an answer about what is due is missing".to_owned()));
    };
    let mut due = claimed(reader, schedules, runs)?;
    about.keep_due(handlers)?;
    // The driver asks for a single wakeup when it looks for what cannot be decided. A failure that
    // names nothing is then about the first one that is due, so that the search always ends.
    let first = fair(due.clone(), 1).first().map(|(_, wakeup)| *wakeup);
    let first = first.or(about.handlers.first().map(|(id, _)| Wakeup::Handler(*id)));
    let looked_at = first.filter(|_| request.limit == 1);
    prefetch_related(reader, &about).map_err(|failure| failure.about(looked_at))?;
    due.extend(about.still_due(reader, ms(now)));
    // Wakeups of one instant are sorted by kind: a run before a schedule before a handler.
    let mut due = fair(due, request.limit);
    for row in gone_nodes {
        due.push((ms(now), Wakeup::Node(row.single()?)));
    }
    Ok(due)
}

/// These runs and the runs that wait for their end, with the schedules of all of them. For attempts
/// this node was given, the schedule of the occurrence is known, and no run waits for them.
pub(crate) fn related(
    reader: &mut PgTransactionReader<'_>,
    runs: Vec<i64>,
) -> Result<(Vec<i64>, Vec<i64>), Failure> {
    let (mut schedules, unknown) = reader.shared.schedules_of(&runs);
    schedules.extend(&reader.needs.schedules);
    let mut all = runs;
    if !unknown.is_empty() {
        let (others, of) = load::related(reader.tx, unknown)?;
        all.extend(others);
        schedules.extend(of);
    }
    for ids in [&mut all, &mut schedules] {
        ids.sort_unstable();
        ids.dedup();
    }
    Ok((all, schedules))
}

/// The due wakeups of schedules and runs that are free.
fn claimed(
    reader: &mut PgTransactionReader<'_>,
    schedules: &[tokio_postgres::Row],
    runs: &[tokio_postgres::Row],
) -> Result<Vec<(i64, Wakeup)>, Failure> {
    let ids = load::keep_schedules(reader.tx, &mut reader.loaded, schedules)?;
    let keys = load::keep_runs(&mut reader.loaded, runs)?;
    let keys = load::with_free_others(reader.tx, &mut reader.loaded, keys)?;
    let loaded = &reader.loaded;
    let wakes = |id: &ScheduleId| loaded.schedules.get(id).and_then(|schedule| schedule.wake_at());
    // A run that cannot be read is due: the engine asks for it, and learns why.
    let run_wakes = keys.iter().filter_map(|key| match loaded.runs.get(key) {
        Some(run) => Some((ms(run.wake_at()?), Wakeup::Run(*key))),
        None => loaded.unreadable.contains_key(key).then_some((i64::MIN, Wakeup::Run(*key))),
    });
    let schedule_wakes = ids.iter().filter_map(|id| Some((ms(wakes(id)?), Wakeup::Schedule(*id))));
    Ok(run_wakes.chain(schedule_wakes).collect())
}

/// Clears the outdated mark of schedules whose next times were recomputed.
fn up_to_date(ids: &[ScheduleId]) -> Option<Query> {
    let ids: Vec<i64> = ids.iter().map(|id| id.0).collect();
    let sql = "DELETE FROM outdated WHERE schedule = ANY($1)";
    (!ids.is_empty()).then(|| Query::new(sql, vec![param(ids)]))
}

/// Checks that every id could be obtained, and that every workflow that is written was locked for
/// writing.
fn check_reader(reader: &mut PgTransactionReader<'_>, writes: &Writes) -> Result<(), Failure> {
    if let Some(failure) = reader.failed.take() {
        return Err(failure);
    }
    let loaded = &reader.loaded;
    let is_borrowed = |id: &i64| {
        let id = engine::WorkflowId(*id);
        loaded.workflows.contains_key(&id) && !loaded.owned_workflows.contains(&id)
    };
    let borrowed: Vec<i64> =
        writes.workflows.iter().map(|workflow| workflow.id.0).filter(is_borrowed).collect();
    if borrowed.is_empty() {
        return Ok(());
    }
    reader.needs.own.extend(borrowed);
    Err(reader.begin_anew("a workflow is changed"))
}

fn carry_out(
    tx: &mut TxConnection,
    shared: &Shared,
    request: &CommandRequest,
    needs: &mut LockNeeds,
) -> Result<Commanded, Failure> {
    let Opened { moment, rules } = open(tx, shared, request.node, request.moment)?;
    if let Some(idempotency) = &request.idempotency
        && let Some(answer) = remembered(tx, idempotency)?
    {
        let found = tx.commit(vec![ask_everything(request.node)])?;
        let next_wakeup = NextWakeups::of(found.last())?.earliest()?;
        return Ok(Commanded::replayed(answer, next_wakeup));
    }
    let (command, deleted) = without_broken(tx, shared, &request.command)?;
    let mut reader = PgTransactionReader::new(tx, shared, needs, 0).passing_over_nothing();
    expect(&mut reader, &command)?;
    let (set_aside, setup) = (&*shared.passed_over(), &*shared.setup.get());
    let (node, traced) = (request.node, request.traced);
    let deciding = Deciding { rules: &rules, moment, node, traced, set_aside, setup };
    let (told, turned) = deciding.command(&mut reader, command, deleted)?;
    let mut besides = Vec::new();
    if let Command::Recompute(ids) = &request.command {
        besides.extend(up_to_date(ids));
    }
    if let Some(idempotency) = &request.idempotency {
        besides.push(ask_remember(idempotency, &told.answer, moment)?);
    }
    besides.extend(ask_audit(request.audit.as_ref(), Some(ms(moment.now))));
    let next_wakeup = end_command(&mut reader, &turned, node, moment, besides)?;
    Ok(Commanded::new(told, turned, next_wakeup))
}

/// Writes what commands decided, and commits. Returns the next wakeup.
pub(crate) fn end_command(
    reader: &mut PgTransactionReader<'_>,
    turned: &engine::turn::Turned,
    node: NodeId,
    moment: Moment,
    besides: Vec<Query>,
) -> Result<Option<Timestamp>, Failure> {
    check_reader(reader, &turned.writes)?;
    if turned.capacity.rescan {
        // The driver's next turn begins what it can, and calls the other nodes for the rest.
        reader.shared.owe_look();
    }
    let calls = calls(&turned.writes, &turned.effects, node);
    let ending = Ending {
        shared: reader.shared,
        writes: &turned.writes,
        node,
        now: moment.now,
        stamp: 0,
        before: &reader.loaded.before,
        unlocked: &reader.loaded.unlocked,
        must_not_wait: reader.loaded.holds_alone(),
    };
    Ok(ending.end(reader.tx, &calls, besides)?.next_wakeup)
}

/// Loads and locks in bulk what a command will need, where that is much.
fn expect(reader: &mut PgTransactionReader<'_>, command: &Command) -> Result<(), Failure> {
    let mut about = Related::default();
    match command {
        Command::CreateSchedules(new) => {
            reader.expect_schedules(new.len())?;
            reader.needs.workflows.extend(new.iter().map(|new| new.workflow.0));
        }
        Command::DeleteSchedules(ids) | Command::Recompute(ids) => {
            reader.needs.schedules.extend(ids.iter().map(|id| id.0));
        }
        // Not only turns must wait for these, but also callers who start runs.
        Command::PublishWorkflow(id)
        | Command::PublishAgain(id)
        | Command::ArchiveWorkflow(id)
        | Command::PauseWorkflow { id, .. } => {
            reader.needs.own.insert(id.0);
        }
        Command::PublishEvents { topic, events } => {
            reader.needs.topics.insert(topic.0);
            let ids = events.iter().map(|message| message.message_id.clone()).collect();
            about.published = Some((*topic, ids));
        }
        _ => {}
    }
    about.listeners = find_listeners(reader)?;
    let schedules = reader.needs.schedules.iter().copied().collect();
    let runs = reader.needs.runs.iter().copied().collect();
    load::schedules_and_runs(reader.tx, &mut reader.loaded, schedules, runs)?;
    prefetch_related(reader, &about)
}

fn remembered(tx: &mut TxConnection, idempotency: &Idempotency) -> Result<Option<Answer>, Failure> {
    let sql = "SELECT fingerprint, answer FROM idempotency WHERE key = $1";
    let found = tx.one(sql, vec![param(idempotency.key.clone())])?;
    let Some(row) = found.first() else { return Ok(None) };
    let [fingerprint, answer, ..] = Column::POSITIONS;
    if row.maybe_bytes(fingerprint)? != Some(idempotency.fingerprint.as_slice()) {
        return Err(Failure::KeyReused);
    }
    row.json(answer).map(Some)
}

/// Stores the answer under its idempotency key. If two requests use one key at the same time, the
/// second fails, is retried, and finds the answer.
fn ask_remember(
    idempotency: &Idempotency,
    answer: &Answer,
    moment: Moment,
) -> Result<Query, Failure> {
    let sql = "INSERT INTO idempotency (key, fingerprint, answer, created_at)
               VALUES ($1, $2, $3, $4)";
    let params = vec![
        param(idempotency.key.clone()),
        param(idempotency.fingerprint.to_vec()),
        param(json(answer)?),
        param(ms(moment.now)),
    ];
    Ok(Query::new(sql, params))
}
