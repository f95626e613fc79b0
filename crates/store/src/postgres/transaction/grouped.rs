//! Reports and heartbeats of workers, and starts by callers: those that arrive while others are
//! being committed share one transaction.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use engine::turn::{Command, IfBusy, Refused};
use engine::{RunId, RunKey, WorkflowId};
use futures_channel::oneshot::{Receiver, Sender, channel};

use crate::deciding::{CommandOutcome, Deciding};
use crate::failure::Failure;
use crate::postgres::connections::tx_connection::{Query, TxConnection, param};
use crate::postgres::transaction::access;
use crate::postgres::transaction::core::{self, Core, Opened};
use crate::postgres::transaction::load;
use crate::postgres::transaction::lock_retry::LockNeeds;
use crate::postgres::transaction::reader::PgTransactionReader;
use crate::postgres::transaction::related_rows::{Related, find_listeners, prefetch_related};
use crate::postgres::transaction::report_loader::ReportLoader;
use crate::postgres::transaction::shared::Shared;
use crate::request::{CommandRequest, Commanded};
use crate::rows::Row as _;
use crate::stored::ms;

/// How many commands share a transaction at most: their rows stay locked until it commits.
const MOST: usize = 256;

/// The keys of open runs by their occurrences. Each is looked up on its own by a lateral join, so
/// that the database does not read the whole table.
const KEYS_BY_OCCURRENCE: &str = "SELECT i.at, r.key
     FROM unnest($1::bigint[], $2::bigint[], $3::integer[]) WITH ORDINALITY AS i (schedule, n, retry, at)
     CROSS JOIN LATERAL (SELECT key FROM open_runs
       WHERE schedule = i.schedule AND n = i.n AND retry = i.retry LIMIT 1) r";
const KEYS_BY_UUID: &str =
    "SELECT i.at, r.key FROM unnest($1::uuid[]) WITH ORDINALITY AS i (uuid, at)
     CROSS JOIN LATERAL (SELECT key FROM open_runs WHERE uuid = i.uuid LIMIT 1) r";

/// How many transactions of starts a node has in flight at most: one is decided while another is
/// committed. With more, each would have fewer starts, and all together would cost more.
const STARTS_IN_FLIGHT: usize = 2;

/// Commands of one kind that wait for a transaction, in the order in which they arrived.
pub(crate) struct GroupedCommands {
    waiting: Mutex<VecDeque<Waiting>>,
    in_flight: AtomicUsize,
    most_in_flight: usize,
}

/// The commands that share transactions. Starts and commands about runs lock different rows, so
/// they do not share one with each other.
pub(crate) struct Groups {
    starts: Arc<GroupedCommands>,
    about_runs: Arc<GroupedCommands>,
}

impl Default for Groups {
    fn default() -> Groups {
        Groups {
            starts: Arc::new(GroupedCommands::new(STARTS_IN_FLIGHT)),
            about_runs: Arc::new(GroupedCommands::new(usize::MAX)),
        }
    }
}

impl Groups {
    /// The group that a command can share a transaction with, if there is one: if the command is
    /// refused, it has changed nothing that the others see.
    pub(crate) fn of(&self, request: &CommandRequest) -> Option<&Arc<GroupedCommands>> {
        if request.idempotency.is_some() {
            None
        } else if started_by(&request.command).is_some() {
            Some(&self.starts)
        } else {
            run_of(&request.command).map(|_| &self.about_runs)
        }
    }
}

struct Waiting {
    request: CommandRequest,
    answer: Sender<Result<Commanded, Failure>>,
}

/// The run that a command is about.
fn run_of(command: &Command) -> Option<&RunId> {
    match command {
        Command::EndAttempt { id, .. } | Command::Heartbeat { id, .. } => Some(id),
        _ => None,
    }
}

/// The workflow of which a command starts a run.
fn started_by(command: &Command) -> Option<WorkflowId> {
    match command {
        // A start that does not wait looks at the runs in its way, and locks them.
        Command::StartWorkflow { id, run } if run.if_busy == IfBusy::Wait => Some(*id),
        _ => None,
    }
}

impl GroupedCommands {
    fn new(most_in_flight: usize) -> GroupedCommands {
        let (waiting, in_flight) = (Mutex::default(), AtomicUsize::new(0));
        GroupedCommands { waiting, in_flight, most_in_flight }
    }

    /// Adds a command that waits from now on. Some later [`Core::grouped`] answers it.
    pub(crate) fn add(&self, request: CommandRequest) -> Receiver<Result<Commanded, Failure>> {
        let (answer, answered) = channel();
        self.lock().push_back(Waiting { request, answer });
        answered
    }

    /// Takes commands that can be decided together: those of one node id.
    fn take(&self) -> Vec<Waiting> {
        let mut waiting = self.lock();
        let node = waiting.front().map(|first| first.request.node);
        let is_other = |other: &Waiting| Some(other.request.node) != node;
        let count = waiting.iter().position(is_other).unwrap_or(waiting.len()).min(MOST);
        waiting.drain(..count).collect()
    }

    /// Begins a transaction for commands that wait, unless enough are in flight.
    fn begin(&self) -> Option<InFlight<'_>> {
        let more = |count| (count < self.most_in_flight).then_some(count + 1);
        self.in_flight.fetch_update(Ordering::SeqCst, Ordering::SeqCst, more).ok()?;
        Some(InFlight(self))
    }

    fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, VecDeque<Waiting>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A transaction of a group that has not ended yet.
struct InFlight<'a>(&'a GroupedCommands);

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Core {
    /// Carries out the commands that wait. If enough transactions are in flight, one of them ends
    /// later than this look, and whoever ends it looks again: no command is left behind. The loop
    /// goes on as long as callers send more, each time with a group of them.
    pub(crate) fn grouped(&mut self, all: &GroupedCommands) {
        while let Some(in_flight) = all.begin() {
            self.in_one_transaction(all.take());
            drop(in_flight);
            if all.is_empty() {
                return;
            }
        }
    }

    /// Carries out commands in one transaction. If they cannot be decided together, or collide with
    /// others too often, each half has a transaction of its own, and so on: one that fails harms no
    /// other.
    fn in_one_transaction(&mut self, all: Vec<Waiting>) {
        let mut left = vec![all];
        while let Some(group) = left.pop().filter(|group| !group.is_empty()) {
            match self.together(&group) {
                Ok(done) => answer(group, done),
                Err(failure) if group.len() > 1 && self.may_pass_in_parts(&failure) => {
                    let mut first = group;
                    let second = first.split_off(first.len() / 2);
                    left.extend([second, first]);
                }
                Err(failure) => {
                    self.shared.doubt(&failure);
                    let done = group.iter().map(|_| Err(failure.clone())).collect();
                    answer(group, done);
                }
            }
        }
    }

    fn together(&mut self, group: &[Waiting]) -> Result<Vec<Result<Commanded, Failure>>, Failure> {
        let Core { tx, shared } = self;
        let mut needs = LockNeeds::default();
        tx.transact(|tx| carry_out(tx, shared, group, &mut needs))
    }

    /// Whether it is worth deciding a failed group in two halves. It is if a single command caused
    /// the failure, or if the group locked so many rows that it always collided with others.
    fn may_pass_in_parts(&self, failure: &Failure) -> bool {
        let is_about_one = matches!(failure, Failure::Undecidable { .. } | Failure::Damaged(_));
        is_about_one || !matches!(failure, Failure::Unknown(_)) && self.tx.has_only_collided()
    }
}

fn answer(group: Vec<Waiting>, done: Vec<Result<Commanded, Failure>>) {
    for (waiting, done) in group.into_iter().zip(done) {
        // The caller may be gone; the command is carried out all the same.
        let _ = waiting.answer.send(done);
    }
}

/// Decides all commands in one turn and commits. What follows from them is in one of the answers.
fn carry_out(
    tx: &mut TxConnection,
    shared: &Shared,
    group: &[Waiting],
    needs: &mut LockNeeds,
) -> Result<Vec<Result<Commanded, Failure>>, Failure> {
    let requests: Vec<&CommandRequest> = group.iter().map(|waiting| &waiting.request).collect();
    let Some(first) = requests.first() else { return Ok(Vec::new()) };
    let moment = requests.iter().map(|request| request.moment).max_by_key(|moment| moment.now);
    let moment = moment.unwrap_or(first.moment);
    let Opened { moment, rules } = core::open(tx, shared, first.node, moment)?;
    let mut reader = PgTransactionReader::new(tx, shared, needs, 0).passing_over_nothing();
    prefetch(&mut reader, &requests)?;
    let (set_aside, setup) = (&*shared.passed_over(), &*shared.setup.get());
    let (node, traced) = (first.node, requests.iter().any(|request| request.traced));
    let deciding = Deciding { rules: &rules, moment, node, traced, set_aside, setup };
    let commands = requests.iter().map(|request| request.command.clone());
    let (answers, turned) = deciding.commands(&mut reader, commands)?;
    let accepted = requests.iter().zip(&answers).filter(|(_, answer)| answer.is_ok());
    let audited = accepted
        .filter_map(|(request, _)| access::ask_audit(request.audit.as_ref(), Some(ms(moment.now))));
    let audits = audited.collect();
    let next_wakeup = core::end_command(&mut reader, &turned, node, moment, audits)?;
    let carrier = carrier(&answers, |at| !group[at].answer.is_canceled());
    let mut followed = Some(turned);
    let answered = |(at, told): (usize, Result<CommandOutcome, Refused>)| {
        let told = told.map_err(Failure::Refused)?;
        Ok(match followed.take_if(|_| Some(at) == carrier) {
            Some(turned) => Commanded::new(told, turned, next_wakeup),
            None => Commanded::beside(told),
        })
    };
    Ok(answers.into_iter().enumerate().map(answered).collect())
}

/// The index of the answer that carries what follows from all commands: of one that was not
/// refused, and whose caller still waits if there is such a caller.
fn carrier<A, R>(answers: &[Result<A, R>], is_awaited: impl Fn(usize) -> bool) -> Option<usize> {
    let accepted = || (0..answers.len()).filter(|at| answers[*at].is_ok());
    accepted().find(|at| is_awaited(*at)).or_else(|| accepted().next())
}

/// Finds, locks and loads the runs of the commands with their schedules and parents, and their
/// workflows, in four round trips, however many they are.
fn prefetch(
    reader: &mut PgTransactionReader<'_>,
    requests: &[&CommandRequest],
) -> Result<(), Failure> {
    let ids: Vec<&RunId> = requests.iter().filter_map(|request| run_of(&request.command)).collect();
    let started = requests.iter().filter_map(|request| started_by(&request.command));
    reader.needs.workflows.extend(started.map(|workflow| workflow.0));
    if ids.is_empty() && reader.needs.is_only_workflows() {
        let started = reader.needs.workflows.iter().copied().collect();
        return load::started_workflows(reader.tx, &mut reader.loaded, started);
    }
    find_keys(reader, &ids)?;
    let listeners = find_listeners(reader)?;
    let mut runs: Vec<i64> = reader.known_keys.values().map(|key| key.0).collect();
    runs.extend(&reader.needs.runs);
    runs.sort_unstable();
    runs.dedup();
    let (runs, schedules) = core::related(reader, runs)?;
    // Every row is read again: another worker's command may have changed a cached run, and a
    // refusal writes nothing that would notice.
    let mut loader = ReportLoader::uncached();
    let queries = loader.ask(schedules, runs);
    let found = if queries.is_empty() { Vec::new() } else { reader.tx.ask(queries)? };
    loader.keep(reader.tx, &mut reader.loaded, &found)?;
    prefetch_related(reader, &Related { listeners, ..Related::default() })
}

/// Finds the keys of these runs, in one round trip. The reader looks up those of ended runs itself.
fn find_keys(reader: &mut PgTransactionReader<'_>, ids: &[&RunId]) -> Result<(), Failure> {
    let (mut schedules, mut numbers, mut retries) = (Vec::new(), Vec::new(), Vec::new());
    let (mut occurrences, mut others, mut uuids) = (Vec::new(), Vec::new(), Vec::new());
    for id in ids {
        match id {
            RunId::Occurrence { schedule, n, retry } => {
                occurrences.push(*id);
                schedules.push(schedule.0);
                numbers.push(n.cast_signed());
                retries.push(retry.cast_signed());
            }
            RunId::Other(uuid) => {
                others.push(*id);
                uuids.push(uuid::Uuid::from_u128(*uuid));
            }
        }
    }
    let queries = vec![
        Query::new(KEYS_BY_OCCURRENCE, vec![param(schedules), param(numbers), param(retries)]),
        Query::new(KEYS_BY_UUID, vec![param(uuids)]),
    ];
    let found = reader.tx.ask(queries)?;
    for (rows, ids) in found.iter().zip([occurrences, others]) {
        for row in rows {
            let (at, key): (i64, RunKey) = row.tuple()?;
            let id = usize::try_from(at - 1).ok().and_then(|at| ids.get(at));
            let id = id.ok_or_else(|| Failure::Damaged(format!("no run was asked for at {at}")))?;
            reader.known_keys.insert((*id).clone(), key);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::carrier;

    #[test]
    fn what_follows_goes_to_a_caller_who_waits() {
        let answers = [Err(()), Ok(()), Ok(()), Err(())];
        for (awaited, expected) in
            [(&[0, 1, 2, 3][..], Some(1)), (&[2], Some(2)), (&[0, 3], Some(1)), (&[], Some(1))]
        {
            assert_eq!(carrier(&answers, |at| awaited.contains(&at)), expected, "{awaited:?}");
        }
        assert_eq!(carrier(&[Err::<(), ()>(())], |_| true), None);
    }
}
