//! The one writer: takes what is waiting, and commits it together.

use std::sync::mpsc::{Receiver, Sender, SyncSender, channel};
use std::thread;

use futures_util::future::BoxFuture;

use super::core::Core;
use crate::failure::Failure;

/// So many requests share one commit at most. More would make the first ones wait too long.
const GROUP: usize = 256;

/// Something to do inside of a transaction. It answers later, when the commit is known.
pub(super) type Request = Box<dyn FnOnce(&mut Core, Company) -> Carried + Send>;
/// Tells the caller, given whether the commit succeeded.
type Reply = Box<dyn FnOnce(Result<(), Failure>) -> bool + Send>;

/// Whether others share the transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Company {
    /// What fails half way is undone with the transaction.
    Alone,
    /// What fails half way is undone by itself, and the others go on.
    Others,
}

/// A request that was carried out, before the commit.
pub(super) struct Carried {
    failed: bool,
    reply: Reply,
}

/// A handle to the writer's thread.
pub(super) struct Writer {
    requests: Option<Sender<Request>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Writer {
    /// `committed` is told of each commit, if it has time to listen.
    pub(super) fn start(
        mut core: Core,
        committed: Option<SyncSender<()>>,
    ) -> Result<Writer, Failure> {
        let (requests, waiting) = channel();
        let thread = thread::Builder::new()
            .name("store-writer".to_owned())
            .spawn(move || serve(&mut core, &waiting, committed))
            .map_err(|error| Failure::Unavailable(error.to_string()))?;
        Ok(Writer { requests: Some(requests), thread: Some(thread) })
    }

    /// Carries out `work` in a transaction; the answer comes when it is committed.
    pub(super) fn ask<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Core) -> Result<T, Failure> + Send + 'static,
    ) -> BoxFuture<'static, Result<T, Failure>> {
        let (answer, answered) = futures_channel::oneshot::channel();
        let request = request(work, move |result| answer.send(result).is_ok());
        let sent = self.requests.as_ref().is_some_and(|requests| requests.send(request).is_ok());
        Box::pin(async move {
            let closed = || Failure::Unavailable("the store is closed".to_owned());
            if !sent {
                return Err(closed());
            }
            answered.await.map_err(|_| closed())?
        })
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        drop(self.requests.take());
        if let Some(thread) = self.thread.take() {
            // A writer that panicked has told so already.
            let _ = thread.join();
        }
    }
}

fn serve(core: &mut Core, waiting: &Receiver<Request>, committed: Option<SyncSender<()>>) {
    while let Ok(first) = waiting.recv() {
        let group = std::iter::once(first).chain(waiting.try_iter()).take(GROUP);
        commit_group(core, group.collect());
        if let Some(committed) = &committed {
            let _ = committed.try_send(());
        }
    }
}

/// Makes a request of some work, whose result is answered when the commit is known.
pub(super) fn request<T: Send + 'static>(
    work: impl FnOnce(&mut Core) -> Result<T, Failure> + Send + 'static,
    answer: impl FnOnce(Result<T, Failure>) -> bool + Send + 'static,
) -> Request {
    Box::new(move |core, company| {
        let result = match company {
            Company::Alone => work(core),
            Company::Others => in_savepoint(core, work),
        };
        let failed = result.is_err();
        let reply: Reply = Box::new(move |committed| {
            answer(match (committed, result) {
                (Ok(()), result) => result,
                (Err(_), Err(failure)) => Err(failure),
                (Err(failure), Ok(_)) => Err(failure),
            })
        });
        Carried { failed, reply }
    })
}

/// One transaction for all of them.
pub(super) fn commit_group(core: &mut Core, group: Vec<Request>) {
    if let Err(error) = core.connection.execute_batch("BEGIN IMMEDIATE") {
        // Whoever waits for these is told by their going away unanswered.
        drop(group);
        tracing::error!(%error, "the store does not begin a transaction");
        return;
    }
    // A savepoint has SQLite keep a copy of each page that is changed: not for one that is alone.
    let company = if group.len() == 1 { Company::Alone } else { Company::Others };
    let carried: Vec<Carried> = group.into_iter().map(|request| request(core, company)).collect();
    let ended = match company == Company::Alone && carried.iter().all(|carried| carried.failed) {
        true => undo(core),
        false => commit(core),
    };
    for carried in carried {
        let outcome = ended.as_ref().map_err(|message| Failure::Unknown(message.clone()));
        (carried.reply)(outcome.copied());
    }
}

fn undo(core: &mut Core) -> Result<(), String> {
    core.memory.forget();
    core.new_rules = None;
    // SQLite may have undone it already, for want of space say.
    if core.connection.is_autocommit() {
        return Ok(());
    }
    core.connection.execute_batch("ROLLBACK").map_err(|error| error.to_string())
}

fn commit(core: &mut Core) -> Result<(), String> {
    let Err(error) = core.connection.execute_batch("COMMIT") else {
        core.publish_rules();
        return Ok(());
    };
    core.new_rules = None;
    // A commit that fails, for want of space say, leaves the transaction open.
    if !core.connection.is_autocommit() {
        let _ = core.connection.execute_batch("ROLLBACK");
    }
    core.memory.forget();
    tracing::error!(%error, "the store does not commit");
    Err(error.to_string())
}

/// What fails half way is undone, and the others of the group go on.
fn in_savepoint<T>(
    core: &mut Core,
    work: impl FnOnce(&mut Core) -> Result<T, Failure>,
) -> Result<T, Failure> {
    core.connection.prepare_cached("SAVEPOINT request")?.execute([])?;
    let rules = core.new_rules.clone();
    let result = work(core);
    let end = if result.is_ok() { "RELEASE request" } else { "ROLLBACK TO request" };
    if result.is_err() {
        core.memory.forget();
        core.new_rules = rules;
    }
    core.connection.prepare_cached(end)?.execute([])?;
    if result.is_err() {
        core.connection.prepare_cached("RELEASE request")?.execute([])?;
    }
    result
}
