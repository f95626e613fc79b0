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
use engine::turn::Wakeup;
use engine::{Moment, NodeId, RunId, RunKey, ScheduleId, TopicId, WorkflowId};
use futures_util::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};
use language::Rules;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

pub use crate::sqlite::maintenance::check_file::check_damaged_file;
pub use crate::sqlite::maintenance::upkeep::backup_file;

use crate::access::{
    AuditEntry, AuditQuery, AuditView, NewSignIn, NewToken, SecretHash, SignInView, TokenView,
};
use crate::failure::Failure;
use crate::notify_setup::SharedSetup;
use crate::request::{
    CommandRequest, Commanded, Expired, Joined, RenewRequest, Renewed, TurnRequest, Turned,
};
use crate::set_aside::SetAside;
use crate::sqlite::connections::checkpoint::Checkpointer;
pub(crate) use crate::sqlite::connections::file::FileLock;
use crate::sqlite::connections::file::{Guard, StoreFile};
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
    LedgerQuery, LedgerRow, NodeView, Page, QueueView, RunDetail, RunQuery, RunView, ScheduleQuery,
    ScheduleView, Stats, UnusualQuery, UnusualRow, WorkflowQuery, WorkflowView,
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
        let rules = crate::rules::load(&maintenance::upkeep::calendars(&connection)?, zones.into());
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

    fn put_calendar(
        &self,
        id: &str,
        spec: &str,
        moment: Moment,
        audit: Option<AuditEntry>,
    ) -> Answered<'_, Vec<ScheduleId>> {
        let (id, spec) = (id.to_owned(), spec.to_owned());
        self.write(move |core| core.put_calendar(&id, &spec, moment, audit.as_ref()))
    }

    fn outdated(
        &self,
        zones: &str,
        after: ScheduleId,
        limit: usize,
    ) -> Answered<'_, Vec<ScheduleId>> {
        let zones = zones.to_owned();
        self.write(move |core| core.outdated(&zones, after, limit))
    }

    fn expire(&self, now: Timestamp, keep: SignedDuration, limit: usize) -> Answered<'_, Expired> {
        self.write(move |core| core.expire(now, keep, limit))
    }

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
    fn set_aside(&self, what: Wakeup, why: &str, now: Timestamp) -> Answered<'_, ()> {
        let why = why.to_owned();
        self.write(move |core| core.set_aside(what, &why, now))
    }

    fn put_on_trial(&self, name: &str, what: Option<Wakeup>) -> Answered<'_, ()> {
        let name = name.to_owned();
        self.write(move |core| core.put_on_trial(&name, what))
    }

    fn has_settled(&self, name: &str) -> Answered<'_, ()> {
        let name = name.to_owned();
        self.write(move |core| core.has_settled(&name))
    }

    fn delete_calendar(
        &self,
        id: &str,
        moment: Moment,
        audit: Option<AuditEntry>,
    ) -> Answered<'_, bool> {
        let id = id.to_owned();
        self.write(move |core| core.delete_calendar(&id, moment, audit.as_ref()))
    }

    fn set_notify_setup(&self, setup: Arc<language::notification_setup::Setup>) {
        self.setup.set(setup);
    }

    fn create_token(
        &self,
        new: NewToken,
        now: Timestamp,
        audit: Option<AuditEntry>,
    ) -> Answered<'_, TokenView> {
        self.write(move |core| core.create_token(&new, now, audit.as_ref()))
    }

    fn revoke_token(
        &self,
        id: i64,
        now: Timestamp,
        audit: Option<AuditEntry>,
    ) -> Answered<'_, Option<TokenView>> {
        self.write(move |core| core.revoke_token(id, now, audit.as_ref()))
    }

    fn begin_sign_in(
        &self,
        new: NewSignIn,
        now: Timestamp,
        audit: Option<AuditEntry>,
    ) -> Answered<'_, ()> {
        self.write(move |core| core.begin_sign_in(&new, now, audit.as_ref()))
    }

    fn end_sign_in(&self, hash: SecretHash) -> Answered<'_, bool> {
        self.write(move |core| core.end_sign_in(&hash))
    }

    fn check(&self, now: Timestamp, repair: bool) -> Answered<'_, Vec<Finding>> {
        if repair {
            return self.write(move |core| core.check(now, true));
        }
        // Nothing is changed, so the transaction is rolled back: a damaged file may refuse a
        // commit.
        let findings = Arc::new(Mutex::new(None));
        let kept = findings.clone();
        let looked = self.write(move |core| {
            let found = core.check(now, false)?;
            *kept.lock().unwrap_or_else(PoisonError::into_inner) = Some(found);
            Err::<(), Failure>(Failure::Unavailable("nothing is changed".to_owned()))
        });
        Box::pin(async move {
            let ended = looked.await;
            let found = findings.lock().unwrap_or_else(PoisonError::into_inner).take();
            match (found, ended) {
                (Some(found), _) => Ok(found),
                (None, Err(failure)) => Err(failure),
                (None, Ok(())) => Err(Failure::Damaged("a check gave no findings".to_owned())),
            }
        })
    }

    fn backup(&self, to: PathBuf) -> Answered<'_, u64> {
        self.read(move |connection| maintenance::upkeep::backup(connection, &to))
    }
}

impl Queries for Sqlite {
    fn next_to_decide(&self, now: Timestamp, after: RunKey) -> Answered<'_, Option<Trial>> {
        self.write(move |core| core.next_to_decide(now, after))
    }

    fn all_set_aside(&self) -> Answered<'_, Vec<SetAside>> {
        self.read(|connection| transaction::set_aside::list(connection))
    }

    fn schedules(&self, query: ScheduleQuery) -> Answered<'_, Page<ScheduleView>> {
        self.read(move |connection| views::schedules::schedules(connection, &query))
    }

    fn schedule(&self, id: ScheduleId) -> Answered<'_, Option<ScheduleView>> {
        self.read(move |connection| views::schedules::schedule(connection, id))
    }

    fn schedules_by_id(&self, ids: Vec<ScheduleId>) -> Answered<'_, Vec<ScheduleView>> {
        self.read(move |connection| views::schedules::by_id(connection, &ids))
    }

    fn triggered(&self, workflow: WorkflowId) -> Answered<'_, Vec<ScheduleView>> {
        self.read(move |connection| views::schedules::triggered(connection, workflow))
    }

    fn coming(&self, limit: usize) -> Answered<'_, Vec<ScheduleView>> {
        self.read(move |connection| views::schedules::coming(connection, limit))
    }

    fn ledger(&self, query: LedgerQuery) -> Answered<'_, Page<LedgerRow>> {
        self.read(move |connection| views::schedules::ledger(connection, &query))
    }

    fn unusual(&self, query: UnusualQuery) -> Answered<'_, Page<UnusualRow>> {
        self.read(move |connection| views::not_run::unusual(connection, &query))
    }

    fn tallies(&self, from: Timestamp, to: Timestamp) -> Answered<'_, Vec<Tally>> {
        self.read(move |connection| transaction::minute_counts::tallies(connection, from, to))
    }

    fn runs(&self, query: RunQuery) -> Answered<'_, Page<RunView>> {
        self.read(move |connection| views::runs::runs(connection, &query))
    }

    fn last_runs(&self, workflows: Vec<WorkflowId>) -> Answered<'_, Vec<(WorkflowId, RunView)>> {
        self.read(move |connection| views::runs::last_runs(connection, &workflows))
    }

    fn run(&self, id: RunId) -> Answered<'_, Option<RunDetail>> {
        self.read(move |connection| views::runs::run(connection, &id))
    }

    fn incidents(&self, query: IncidentQuery) -> Answered<'_, Page<IncidentView>> {
        self.read(move |connection| views::incidents::list(connection, &query))
    }

    fn alerts(&self, run: RunId) -> Answered<'_, Vec<AlertView>> {
        self.read(move |connection| views::waiting::alerts(connection, &run))
    }

    fn approvals(&self, query: ApprovalQuery) -> Answered<'_, Page<ApprovalView>> {
        self.read(move |connection| views::waiting::approvals(connection, &query))
    }

    fn queues(&self) -> Answered<'_, Vec<QueueView>> {
        self.read(|connection| views::waiting::queues(connection))
    }

    fn topics(&self, query: TopicQuery) -> Answered<'_, Page<TopicView>> {
        self.read(move |connection| views::topics::topics(connection, &query))
    }

    fn events(&self, query: EventQuery) -> Answered<'_, Page<EventView>> {
        self.read(move |connection| views::topics::events(connection, &query))
    }

    fn events_by_id(
        &self,
        topic: TopicId,
        message_ids: Vec<String>,
    ) -> Answered<'_, Vec<EventView>> {
        self.read(move |connection| views::topics::events_by_id(connection, topic, &message_ids))
    }

    fn handlers(&self, workflow: WorkflowId) -> Answered<'_, Vec<HandlerView>> {
        self.read(move |connection| views::topics::handlers(connection, workflow))
    }

    fn mutations(&self, query: MutationQuery) -> Answered<'_, Page<MutationView>> {
        self.read(move |connection| views::topics::mutations(connection, &query))
    }

    fn workflows(&self, query: WorkflowQuery) -> Answered<'_, Page<WorkflowView>> {
        self.read(move |connection| views::workflows::workflows(connection, &query))
    }

    fn workflow(
        &self,
        id_or_name: &str,
        revision: Option<u32>,
    ) -> Answered<'_, Option<WorkflowView>> {
        let id_or_name = id_or_name.to_owned();
        self.read(move |connection| views::workflows::workflow(connection, &id_or_name, revision))
    }

    fn calendar_users(&self, id: &str, besides: WorkflowId) -> Answered<'_, (u64, Vec<String>)> {
        let id = id.to_owned();
        self.read(move |connection| maintenance::upkeep::calendar_users(connection, &id, besides))
    }

    fn calendars(&self) -> Answered<'_, Vec<CalendarView>> {
        self.read(|connection| maintenance::upkeep::calendars(connection))
    }

    fn nodes(&self) -> Answered<'_, Vec<NodeView>> {
        self.read(|connection| views::workflows::nodes(connection))
    }

    fn tokens(&self) -> Answered<'_, Vec<TokenView>> {
        self.read(|connection| views::access::tokens(connection))
    }

    fn token_by_hash(&self, hash: SecretHash) -> Answered<'_, Option<TokenView>> {
        self.read(move |connection| views::access::token_by_hash(connection, &hash))
    }

    fn sign_in(&self, hash: SecretHash) -> Answered<'_, Option<SignInView>> {
        self.read(move |connection| views::access::sign_in(connection, &hash))
    }

    fn audit(&self, query: AuditQuery) -> Answered<'_, Page<AuditView>> {
        self.read(move |connection| views::access::audit(connection, &query))
    }

    fn rules(&self) -> Arc<Rules> {
        self.rules.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn stats(&self, now: Timestamp) -> Answered<'_, Stats> {
        self.read(move |connection| views::workflows::stats(connection, now))
    }
}
