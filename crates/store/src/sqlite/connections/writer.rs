//! The one writer: takes all waiting requests and commits them together.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use futures_util::future::BoxFuture;

use crate::failure::{self, Failure};
use crate::set_aside::guarded;
use crate::sqlite::connections::checkpoint::LogKeeper;
use crate::sqlite::connections::file::Guard;
use crate::sqlite::transaction::core::Core;
use crate::stage::Stage;

/// At most this many requests share one commit. More would make the first ones wait too long.
const GROUP: usize = 256;

/// Work to do inside a transaction, or the failure that keeps the transaction from beginning. It
/// replies later, when the outcome of the commit is known.
pub(crate) type Request = Box<dyn FnOnce(Result<(&mut Core, Company), Failure>) -> Carried + Send>;
/// Answers the caller, given whether the commit succeeded.
type Reply = Box<dyn FnOnce(Result<(), Failure>) -> bool + Send>;

/// Whether other requests share the transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Company {
    /// A request that fails is rolled back with the transaction.
    Alone,
    /// A request that fails is rolled back by itself, and the others go on.
    Others,
}

/// A request that was carried out, before the commit.
pub(crate) struct Carried {
    failure: Option<Failure>,
    reply: Reply,
}

/// A handle to the writer's thread.
pub(crate) struct Writer {
    requests: Option<Sender<Request>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Writer {
    /// Starts the thread. `log` is notified after each group.
    pub(crate) fn start(mut core: Core, log: LogKeeper) -> Result<Writer, Failure> {
        let (requests, waiting) = channel();
        let thread = thread::Builder::new()
            .name("store-writer".to_owned())
            .spawn(move || serve(&mut core, &waiting, log))
            .map_err(|error| Failure::Unavailable(error.to_string()))?;
        Ok(Writer { requests: Some(requests), thread: Some(thread) })
    }

    /// Carries out `work` in a transaction; the answer comes when it is committed.
    pub(crate) fn ask<T: Send + 'static>(
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
            // A writer that panicked has reported it already.
            let _ = thread.join();
        }
    }
}

fn serve(core: &mut Core, waiting: &Receiver<Request>, mut log: LogKeeper) {
    while let Ok(first) = waiting.recv() {
        let group = std::iter::once(first).chain(waiting.try_iter()).take(GROUP);
        commit_group(core, group.collect());
        log.committed(&core.connection, core.log_size);
    }
}

/// Makes a request out of `work`. Its result is answered when the outcome of the commit is known.
pub(crate) fn request<T: Send + 'static>(
    work: impl FnOnce(&mut Core) -> Result<T, Failure> + Send + 'static,
    answer: impl FnOnce(Result<T, Failure>) -> bool + Send + 'static,
) -> Request {
    Box::new(move |begun| {
        let result = match begun {
            Ok((core, Company::Alone)) => guarded(|| work(core)),
            Ok((core, Company::Others)) => in_savepoint(core, |core| guarded(|| work(core))),
            Err(failure) => Err(failure),
        };
        let failure = result.as_ref().err().cloned();
        let reply: Reply = Box::new(move |committed| {
            answer(match (committed, result) {
                (Ok(()), result) => result,
                (Err(_), Err(failure)) => Err(failure),
                (Err(failure), Ok(_)) => Err(failure),
            })
        });
        Carried { failure, reply }
    })
}

/// Runs and commits a group of requests in one transaction.
pub(crate) fn commit_group(core: &mut Core, group: Vec<Request>) {
    let known = core.guard.as_ref().map_or(Ok(()), Guard::known);
    let begun = known.and_then(|()| Ok(core.connection.execute_batch("BEGIN IMMEDIATE")?));
    // A savepoint makes SQLite copy each page that changes, so a request that is alone goes
    // without.
    let company = if group.len() == 1 { Company::Alone } else { Company::Others };
    let mut in_the_way = begun.err();
    if let Some(failure) = &in_the_way {
        tracing::error!(%failure, "the store does not begin a transaction");
    }
    let mut carried = Vec::with_capacity(group.len());
    for request in group {
        core.memory.keep_written();
        let begun = in_the_way.clone().map_or(Ok((&mut *core, company)), Err);
        let done = request(begun);
        // When the disk is full, SQLite rolls back the whole transaction at once, with the requests
        // before this one. Requests after it would not be part of a transaction.
        if in_the_way.is_none() && core.connection.is_autocommit() {
            core.memory.forget();
            core.new_rules = None;
            let undone = || Failure::Unavailable("SQLite has undone the transaction".to_owned());
            in_the_way = Some(done.failure.clone().unwrap_or_else(undone));
        }
        carried.push(done);
    }
    let ended = match in_the_way {
        Some(failure) => Err(failure),
        None if company == Company::Alone
            && carried.iter().all(|carried| carried.failure.is_some()) =>
        {
            undo(core)
        }
        None => commit(core),
    };
    for carried in carried {
        (carried.reply)(ended.clone());
    }
    core.memory.keep_written();
}

fn undo(core: &mut Core) -> Result<(), Failure> {
    core.memory.forget();
    core.new_rules = None;
    Ok(core.connection.execute_batch("ROLLBACK")?)
}

fn commit(core: &mut Core) -> Result<(), Failure> {
    let Err(error) = core.connection.execute_batch("COMMIT") else {
        // A commit to a file that nobody can find again does not count as stored.
        core.look_at_file()?;
        core.publish_rules();
        Stage::Committed.is_over();
        return Ok(());
    };
    core.new_rules = None;
    // A commit that fails, for example because the disk is full, leaves the transaction open.
    if !core.connection.is_autocommit() {
        let _ = core.connection.execute_batch("ROLLBACK");
    }
    core.memory.forget();
    tracing::error!(%error, "the store does not commit");
    Err(failure::of_commit(error))
}

/// Runs one request of a group. If it fails it is rolled back, and the others go on.
fn in_savepoint<T>(
    core: &mut Core,
    work: impl FnOnce(&mut Core) -> Result<T, Failure>,
) -> Result<T, Failure> {
    core.connection.prepare_cached("SAVEPOINT request")?.execute([])?;
    let rules = core.new_rules.clone();
    let result = work(core);
    if result.is_err() {
        core.memory.forget();
        core.new_rules = rules;
        // SQLite may have rolled back everything already: then there is no savepoint.
        if !core.connection.is_autocommit() {
            core.connection.prepare_cached("ROLLBACK TO request")?.execute([])?;
            core.connection.prepare_cached("RELEASE request")?.execute([])?;
        }
        return result;
    }
    core.connection.prepare_cached("RELEASE request")?.execute([])?;
    result
}

#[cfg(test)]
mod tests {
    use calendar::Zones;

    use super::{commit_group, request};
    use crate::failure::{Failure, WriteFault};
    use crate::sqlite::transaction::core::Core;
    use crate::sqlite::{Sqlite, SqliteOptions, write_inline};

    fn is_full(failure: &Failure) -> bool {
        matches!(failure, Failure::NotWritten { fault: WriteFault::DiskFull, .. })
    }

    /// Writes this many kilobytes.
    fn write(core: &mut Core, key: &str, kilobytes: u32) -> Result<(), Failure> {
        let sql = "INSERT INTO meta (key, value) VALUES (?1, hex(zeroblob(?2)))";
        core.connection.execute(sql, (key, kilobytes * 512))?;
        Ok(())
    }

    fn written(core: &Core) -> Vec<String> {
        let sql = "SELECT key FROM meta WHERE key LIKE 'w %' ORDER BY key";
        let mut statement = core.connection.prepare(sql).unwrap();
        statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    }

    /// A store whose file may grow by a few pages only.
    fn nearly_full() -> (tempfile::TempDir, Sqlite) {
        let folder = tempfile::tempdir().unwrap();
        let options = SqliteOptions { sync: false, inline: true, ..SqliteOptions::default() };
        let store = Sqlite::open(&folder.path().join("x.db"), Zones::bundled(), options).unwrap();
        store.core(|core| {
            let pages: i64 =
                core.connection.query_row("PRAGMA page_count", [], |row| row.get(0)).unwrap();
            core.connection.pragma_update(None, "max_page_count", pages + 20).unwrap();
        });
        (folder, store)
    }

    #[test]
    fn what_a_full_disk_refuses_is_said_not_to_be_stored() {
        let (_folder, store) = nearly_full();
        store.core(|core| {
            let failure = write_inline(core, |core| write(core, "w big", 1_000)).unwrap_err();
            assert!(is_full(&failure), "{failure:?}");
            assert!(failure.to_string().contains("nothing was stored"), "{failure}");
            write_inline(core, |core| write(core, "w small", 1)).unwrap();
            assert_eq!(written(core), ["w small"]);
        });
    }

    /// A request that is acknowledged is stored, and a request that is refused is not.
    #[test]
    fn those_in_company_are_told_what_became_of_each() {
        let (_folder, store) = nearly_full();
        store.core(|core| {
            let (answer, answers) = std::sync::mpsc::channel();
            let ask = |name: &'static str, kilobytes| {
                let answer = answer.clone();
                let work = move |core: &mut Core| write(core, name, kilobytes);
                request(work, move |result| answer.send((name, result)).is_ok())
            };
            let group = vec![ask("w a", 1), ask("w b", 1_000), ask("w c", 1)];
            commit_group(core, group);
            let mut done = Vec::new();
            for (name, result) in answers.try_iter() {
                match result {
                    Ok(()) => done.push(name.to_owned()),
                    Err(failure) => assert!(is_full(&failure), "{name}: {failure:?}"),
                }
            }
            assert_eq!(written(core), done);
            assert!(!done.contains(&"w b".to_owned()));
        });
    }

    #[test]
    fn a_store_that_cannot_be_written_says_so() {
        let (_folder, store) = nearly_full();
        store.core(|core| {
            core.connection.pragma_update(None, "query_only", true).unwrap();
            let failure = write_inline(core, |core| write(core, "w", 1)).unwrap_err();
            let is_read_only =
                matches!(failure, Failure::NotWritten { fault: WriteFault::ReadOnly, .. });
            assert!(is_read_only, "{failure:?}");
        });
    }
}
