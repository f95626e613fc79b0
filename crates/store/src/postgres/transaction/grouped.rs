//! Reports and heartbeats of workers, and starts by callers: those that arrive while others are
//! being committed share one transaction.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use engine::turn::{Command, IfBusy, Refused};
use engine::{RunId, RunKey, WorkflowId};
use futures_channel::oneshot::{Receiver, Sender, channel};

use crate::deciding::{Deciding, Told};
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

/// The commands that wait for a transaction, in the order in which they arrived.
#[derive(Default)]
pub(crate) struct GroupedCommands(Mutex<VecDeque<Waiting>>);

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

/// Whether a command can share a transaction with others: if it is refused, it has changed nothing
/// that the others see.
pub(crate) fn can_share(request: &CommandRequest) -> bool {
    let command = &request.command;
    request.idempotency.is_none() && (run_of(command).is_some() || started_by(command).is_some())
}

impl GroupedCommands {
    /// Adds a command that waits from now on. Some later [`Core::grouped`] answers it.
    pub(crate) fn add(&self, request: CommandRequest) -> Receiver<Result<Commanded, Failure>> {
        let (answer, answered) = channel();
        self.lock().push_back(Waiting { request, answer });
        answered
    }

    /// Takes commands that can be decided together: those of one node id, and either starts or
    /// commands about runs, which lock different rows.
    fn take(&self) -> Vec<Waiting> {
        let mut waiting = self.lock();
        let kind = |one: &Waiting| (one.request.node, started_by(&one.request.command).is_some());
        let first = waiting.front().map(kind);
        let is_other = |other: &Waiting| Some(kind(other)) != first;
        let count = waiting.iter().position(is_other).unwrap_or(waiting.len()).min(MOST);
        waiting.drain(..count).collect()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, VecDeque<Waiting>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Core {
    /// Carries out the commands that wait, in one transaction. If they cannot be decided together,
    /// or collide with others too often, each half has a transaction of its own, and so on: one
    /// that fails harms no other.
    pub(crate) fn grouped(&mut self, all: &GroupedCommands) {
        let mut left = vec![all.take()];
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
    let audited = accepted.filter_map(|(request, _)| {
        access::ask_audit(request.audit.as_ref(), Some(ms(moment.now)))
    });
    let audits = audited.collect();
    let next_wakeup = core::end_command(&mut reader, &turned, node, moment, audits)?;
    let carrier = carrier(&answers, |at| !group[at].answer.is_canceled());
    let mut followed = Some(turned);
    let answered = |(at, told): (usize, Result<Told, Refused>)| {
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
