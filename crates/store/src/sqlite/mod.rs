//! The embedded store: one SQLite file, one writer that commits in groups, and readers beside it.

mod connections;
pub(crate) mod maintenance;
mod nodes;
mod rows;
mod transaction;
mod views;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use calendar::Zones;
use engine::run::Run;
use engine::turn::Wakeup;
use engine::{Moment, NodeId, RunId, RunKey, ScheduleId, TopicId, WorkflowId};
use futures_util::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};
use language::Rules;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

pub use crate::sqlite::maintenance::calendars::backup_file;
pub use crate::sqlite::maintenance::check_file::check_damaged_file;

use crate::access::{
    AuditEntry, AuditQuery, AuditView, NewSignIn, NewToken, SecretHash, SignInView, TokenRow,
    TokenView,
};
use crate::failure::Failure;
use crate::methods::{maintenance_methods, managing_methods, setting_aside_methods, view_methods};
use crate::notify_setup::SharedSetup;
use crate::request::{
    CommandRequest, Commanded, Expired, Joined, RenewRequest, Renewed, TurnRequest, Turned,
};
use crate::set_aside::SetAside;
use crate::sqlite::connections::checkpoint::Checkpointer;
pub(crate) use crate::sqlite::connections::file::FileLock;
use crate::sqlite::connections::file::{Guard, StoreFile, finish_copy};
use crate::sqlite::connections::query::answer;
use crate::sqlite::connections::readers::Readers;
use crate::sqlite::connections::writer::{Writer, commit_group};
use crate::sqlite::transaction::core::Core;
use crate::starting::Trial;
use crate::tally::Tally;
use crate::topic_view::{
    EventQuery, EventView, HandlerView, MutationQuery, MutationView, TopicQuery, TopicView,
};
use crate::view::{
    AlertView, ApprovalQuery, ApprovalView, CalendarView, Finding, IncidentQuery, IncidentView,
    LedgerQuery, LedgerRow, NodeView, NotRunQuery, NotRunRow, Page, QueueView, RunDetail, RunQuery,
    RunView, ScheduleQuery, ScheduleView, Stats, WorkflowQuery, WorkflowView,
};
use crate::{Administration, Answered, Queries, Store};

/// How a store is opened.
#[derive(Clone, Copy, Debug)]
pub struct SqliteOptions {
    /// Whether a commit is synced before it is acknowledged. Only simulations go without.
    pub sync: bool,
    /// Whether everything happens on the caller's thread: for simulations, which must be
    /// deterministic.
    pub inline: bool,
    /// How many threads answer queries.
    pub readers: usize,
    /// The size of the writer's page cache, in kilobytes.
    pub cache_kb: i64,
}

impl Default for SqliteOptions {
    fn default() -> SqliteOptions {
        SqliteOptions { sync: true, inline: false, readers: 2, cache_kb: 65_536 }
    }
}

/// How often a node that commits nothing checks that its store's file is still there.
const FILE_LOOK: Duration = Duration::from_secs(2);

/// A store in a file.
pub struct Sqlite {
    rules: Arc<RwLock<Arc<Rules>>>,
    setup: SharedSetup,
    access: Access,
    /// Why the store's file is gone, once it is.
    is_gone: tokio::sync::watch::Receiver<Option<String>>,
    /// The lock on the file. It is held while the store is open and dropped after all connections.
    file: Arc<StoreFile>,
}

enum Access {
    /// A writer thread, reader threads, and a thread that copies the log into the file.
    Threads { writer: Writer, readers: Readers, _checkpointer: Checkpointer },
    /// The caller's own thread.
    Inline(Box<Mutex<Core>>),
}

impl Sqlite {
    /// Opens the store in `path`, or creates it. Nobody else can open it at the same time.
    pub fn open(
        path: &Path,
        zones: impl Into<Arc<Zones>>,
        options: SqliteOptions,
    ) -> Result<Sqlite, Failure> {
        let file = Arc::new(StoreFile::lock(path)?);
        let mut connection = connect(path, options)?;
        crate::migrations::migrate(&mut connection)?;
        if file.is_new() {
            tracing::info!("created a new store at {}", path.display());
        }
        let calendars = answer(crate::views::calendars::calendars(&connection))?;
        let rules = crate::rules::load(&calendars, zones.into());
        let rules = Arc::new(RwLock::new(Arc::new(rules)));
        let (gone, is_gone) = tokio::sync::watch::channel(None);
        let setup = SharedSetup::default();
        let mut core = Core::new(connection, rules.clone(), setup.clone())?;
        core.guard = Some(Guard::new(file.clone(), gone));
        let access = if options.inline {
            Access::Inline(Box::new(Mutex::new(core)))
        } else {
            let readers = (0..options.readers.max(1)).map(|_| connect_reader(path)).collect();
            let checkpointer = Checkpointer::start(path)?;
            let readers: Result<Vec<Connection>, Failure> = readers;
            Access::Threads {
                readers: Readers::start(readers?)?,
                writer: Writer::start(core, checkpointer.log_keeper())?,
                _checkpointer: checkpointer,
            }
        };
        Ok(Sqlite { rules, setup, access, is_gone, file })
    }

    /// Closes a store that was looked at and not used by a node: what was a copy is one again, so
    /// that the log of another file is still refused beside it.
    pub fn close_unused(self, path: &Path) -> Result<(), Failure> {
        let Sqlite { access, file, .. } = self;
        drop(access);
        if !file.is_copy() {
            return Ok(());
        }
        finish_copy(Connection::open(path)?)
    }

    /// Runs `work` in a transaction, which is committed when the answer comes.
    fn write<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Core) -> Result<T, Failure> + Send + 'static,
    ) -> Answered<'_, T> {
        match &self.access {
            Access::Threads { writer, .. } => writer.ask(work),
            Access::Inline(core) => {
                let mut core = core.lock().unwrap_or_else(PoisonError::into_inner);
                let answer = write_inline(&mut core, work);
                Box::pin(std::future::ready(answer))
            }
        }
    }

    fn read<T: Send + 'static>(
        &self,
        question: impl FnOnce(&mut Connection) -> Result<T, Failure> + Send + 'static,
    ) -> Answered<'_, T> {
        match &self.access {
            Access::Threads { readers, .. } => readers.ask(question),
            Access::Inline(core) => {
                let mut core = core.lock().unwrap_or_else(PoisonError::into_inner);
                let answer = question(&mut core.connection);
                Box::pin(std::future::ready(answer))
            }
        }
    }
}

#[cfg(test)]
impl Sqlite {
    /// The core of a store that runs on the caller's own thread.
    fn core<T>(&self, use_it: impl FnOnce(&mut Core) -> T) -> T {
        match &self.access {
            Access::Inline(core) => use_it(&mut core.lock().unwrap()),
            Access::Threads { .. } => unreachable!("it is not inline"),
        }
    }
}

fn write_inline<T: Send + 'static>(
    core: &mut Core,
    work: impl FnOnce(&mut Core) -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    let (answer, answered) = std::sync::mpsc::channel();
    let request = connections::writer::request(work, move |result| answer.send(result).is_ok());
    commit_group(core, vec![request]);
    answered.recv().map_err(|_| Failure::Unavailable("nobody has answered".to_owned()))?
}

/// How long to wait for another process that uses the file for a moment, such as a backup.
const BUSY: Duration = Duration::from_secs(10);

fn connect(path: &Path, options: SqliteOptions) -> Result<Connection, Failure> {
    let connection = Connection::open(path)?;
    connection.busy_timeout(BUSY)?;
    // Takes effect only on a new store: free pages can be given back later, some at a time.
    connection.pragma_update(None, "auto_vacuum", "INCREMENTAL")?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    let sync = if options.sync { "FULL" } else { "OFF" };
    connection.pragma_update(None, "synchronous", sync)?;
    connection.pragma_update(None, "cache_size", -options.cache_kb)?;
    connection.pragma_update(None, "temp_store", "MEMORY")?;
    keep_plans(&connection)?;
    if !options.inline {
        // The checkpointer copies the log into the file, so that a commit does not wait for it.
        connection.pragma_update(None, "wal_autocheckpoint", 0)?;
        connection.pragma_update(
            None,
            "journal_size_limit",
            connections::checkpoint::KEPT as i64,
        )?;
    }
    Ok(connection)
}

fn connect_reader(path: &Path) -> Result<Connection, Failure> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(BUSY)?;
    // Enough for the index through which a page deep in a million schedules is reached.
    connection.pragma_update(None, "cache_size", -16_384)?;
    connection.pragma_update(None, "temp_store", "MEMORY")?;
    connection.set_prepared_statement_cache_capacity(64);
    keep_plans(&connection)?;
    Ok(connection)
}

/// Keeps the plans of prepared statements. Otherwise SQLite prepares statements that use a partial
/// index again whenever a parameter changes, in case another plan would suit the new value better.
fn keep_plans(connection: &Connection) -> Result<(), Failure> {
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    Ok(())
}

/// Runs a view, which asks a reader's connection.
macro_rules! view {
    ($self:ident, $file:ident::$view:ident, $($given:expr),*) => {
        $self.read(move |connection| answer(crate::views::$file::$view(&*connection, $($given),*)))
    };
}

/// Runs a change by the writer.
macro_rules! write {
    ($self:ident, $name:ident, $($given:expr),*) => {
        $self.write(move |core| core.$name($($given),*))
    };
}

impl Store for Sqlite {
    fn administration(&self) -> &dyn Administration {
        self
    }

    fn join(&self, name: &str, moment: Moment) -> Answered<'_, Joined> {
        let name = name.to_owned();
        self.write(move |core| core.join(&name, moment))
    }

    fn renew(&self, _: RenewRequest) -> Answered<'_, Renewed> {
        Box::pin(std::future::ready(Ok(Renewed::default())))
    }

    fn leave(&self, node: NodeId) -> Answered<'_, ()> {
        self.write(move |core| core.leave(node))
    }

    fn turn(&self, request: TurnRequest) -> Answered<'_, Turned> {
        self.write(move |core| core.turn(request))
    }

    fn command(&self, request: CommandRequest) -> Answered<'_, Commanded> {
        self.write(move |core| core.command(request))
    }

    maintenance_methods!(write);

    fn gone(&self) -> BoxFuture<'static, String> {
        let (mut is_gone, file) = (self.is_gone.clone(), Arc::downgrade(&self.file));
        Box::pin(async move {
            // A commit notices that the file is gone; a node that commits nothing checks now and
            // then.
            let looking = async {
                while let Some(file) = file.upgrade() {
                    if let Err(why) = file.check() {
                        tracing::error!("{why}");
                        return why;
                    }
                    drop(file);
                    tokio::time::sleep(FILE_LOOK).await;
                }
                std::future::pending().await
            };
            let told = async {
                let why = is_gone.wait_for(Option::is_some).await.ok().and_then(|why| why.clone());
                match why {
                    Some(why) => why,
                    // The store was closed, and its file is still there.
                    None => std::future::pending().await,
                }
            };
            futures_util::future::select(std::pin::pin!(looking), std::pin::pin!(told))
                .await
                .factor_first()
                .0
        })
    }
}

impl Administration for Sqlite {
    setting_aside_methods!(write);
    managing_methods!(write);

    fn set_notify_setup(&self, setup: Arc<language::notification_setup::Setup>) {
        self.setup.set(setup);
    }

    fn check(&self, now: Timestamp, repair: bool) -> Answered<'_, Vec<Finding>> {
        if repair {
            let repaired = self.write(move |core| core.check(now, true));
            return Box::pin(async move {
                match repaired.await {
                    // Writing to a damaged page fails, and undoes all repairs.
                    Err(Failure::Damaged(why) | Failure::Unknown(why)) => {
                        let mut found = self.check(now, false).await?;
                        let message = format!(
                            "nothing could be repaired ({why}): restore the latest copy that \
                             `punctual backup` made"
                        );
                        found.insert(0, Finding::new("file", message));
                        Ok(found)
                    }
                    other => other,
                }
            });
        }
        // Nothing is changed, so the transaction is rolled back: a damaged file may refuse a
        // commit.
        let findings = Arc::new(Mutex::new(None));
        let kept = findings.clone();
        let checked = self.write(move |core| {
            let found = core.check(now, false)?;
            *kept.lock().unwrap_or_else(PoisonError::into_inner) = Some(found);
            Err::<(), Failure>(Failure::Unavailable("nothing is changed".to_owned()))
        });
        Box::pin(async move {
            let ended = checked.await;
            let found = findings.lock().unwrap_or_else(PoisonError::into_inner).take();
            match (found, ended) {
                (Some(found), _) => Ok(found),
                (None, Err(failure)) => Err(failure),
                (None, Ok(())) => Err(Failure::Damaged("a check gave no findings".to_owned())),
            }
        })
    }

    fn backup(&self, to: PathBuf) -> Answered<'_, u64> {
        self.read(move |connection| maintenance::calendars::backup(connection, &to))
    }
}

impl Queries for Sqlite {
    view_methods!(view);

    fn next_to_decide(&self, by: Timestamp, after: RunKey) -> Answered<'_, Option<Trial>> {
        self.write(move |core| core.next_to_decide(by, after))
    }

    fn rules(&self) -> Arc<Rules> {
        self.rules.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
