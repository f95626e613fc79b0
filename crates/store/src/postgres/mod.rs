//! The store that many nodes share: one PostgreSQL. Its row locks decide which node decides, and
//! its clock when.

mod connections;
mod import_sqlite;
pub(crate) mod maintenance;
mod nodes;
mod rows;
mod transaction;
mod views;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use calendar::Zones;
use deadpool_postgres::{Client, Hook, HookError, Manager, ManagerConfig, Pool, RecyclingMethod};
use engine::run::Run;
use engine::turn::Wakeup;
use engine::{Moment, NodeId, RunId, RunKey, ScheduleId, TopicId, WorkflowId};
use futures_util::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};
use language::Rules;

pub use crate::postgres::import_sqlite::{CopySource, Moved, MovedTable, copy_to_postgres};

use crate::access::{
    AuditEntry, AuditQuery, AuditView, NewSignIn, NewToken, SecretHash, SignInView, TokenRow,
    TokenView,
};
use crate::failure::Failure;
use crate::machine_clock::MachineClock;
use crate::methods::{maintenance_methods, managing_methods, setting_aside_methods, view_methods};
use crate::postgres::connections::connect::Target;
use crate::postgres::connections::tx_connection::TxConnection;
use crate::postgres::connections::worker::Workers;
use crate::postgres::nodes::listen::Listener;
use crate::postgres::transaction::core::Core;
use crate::postgres::transaction::grouped::Groups;
use crate::postgres::transaction::shared::Shared;
use crate::request::{
    Call, CommandRequest, Commanded, Expired, Joined, RenewRequest, Renewed, TurnRequest, Turned,
};
use crate::rows::Row as _;
use crate::set_aside::SetAside;
use crate::starting::Trial;
use crate::tally::Tally;
use crate::topic_view::{
    EventQuery, EventView, HandlerView, MutationQuery, MutationView, TopicQuery, TopicView,
};
use crate::view::{
    AlertView, ApprovalQuery, ApprovalView, CalendarView, Connections, Finding, IncidentQuery,
    IncidentView, LedgerQuery, LedgerRow, NodeView, NotRunQuery, NotRunRow, Page, QueueView,
    RunDetail, RunQuery, RunView, ScheduleQuery, ScheduleView, Stats, WorkflowQuery, WorkflowView,
};
use crate::{Administration, Answered, Queries, Store};

/// The advisory lock of the rules: whoever decides holds it shared; whoever changes a calendar
/// holds it exclusively.
const LOCK_RULES: i32 = 0x7075_6e63;
/// The advisory lock held while the schema changes.
const LOCK_SCHEMA: i32 = 0x7075_6e64;

/// Concurrent turns of a node, each on a connection of its own: while the node decides one turn,
/// the database writes another.
const TURNS: usize = 3;
/// A statement of a turn takes milliseconds. One that takes longer than a lease, and than this, is
/// given up, so that a database that hangs is noticed soon.
const TURN_STATEMENT: Duration = Duration::from_secs(10);
/// The same limit for renewals, of which there are three in the time of one lease.
const RENEWAL_STATEMENT: Duration = Duration::from_secs(3);

/// The clock that a node of this store follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PostgresClock {
    /// The database's, so that the clocks of nodes may differ.
    Database,
    /// The caller's, given with each request: for tests, which have a time of their own.
    Caller,
}

/// How a store is reached.
#[derive(Clone, Debug)]
pub struct PostgresOptions {
    /// `postgres://user:password@host:port/database`, with parameters as libpq takes them, among
    /// them `sslmode`, `sslrootcert` and several hosts with `target_session_attrs=read-write`.
    pub url: String,
    /// The schema that holds the tables. It is created if it does not exist.
    pub schema: String,
    pub clock: PostgresClock,
    /// How long a node's lease lasts.
    pub lease: SignedDuration,
    /// How many connections commands use.
    pub commands: usize,
    /// How many connections queries use.
    pub readers: usize,
    pub connect_timeout: Duration,
    pub statement_timeout: Duration,
    /// How long a transaction may sit idle before the database rolls it back and frees its locks,
    /// because its node hangs.
    pub idle_timeout: Duration,
}

impl PostgresOptions {
    /// The default options for this address.
    pub fn new(url: impl Into<String>) -> PostgresOptions {
        PostgresOptions {
            url: url.into(),
            schema: "punctual".to_owned(),
            clock: PostgresClock::Database,
            lease: SignedDuration::from_secs(15),
            commands: 4,
            readers: 4,
            connect_timeout: Duration::from_secs(5),
            statement_timeout: Duration::from_secs(30),
            idle_timeout: Duration::from_secs(5),
        }
    }
}

/// A store in a PostgreSQL database.
pub struct Postgres {
    shared: Arc<Shared>,
    target: Arc<Target>,
    turns: Workers,
    commands: Workers,
    /// Commands that share transactions.
    groups: Groups,
    /// Leases are renewed on a connection of their own, so that a busy node is not taken for dead.
    renewals: Workers,
    readers: Pool,
    /// How many connections had fallen silent when the last query was sent.
    given_up: AtomicU64,
    node: Arc<AtomicI64>,
    listener: Listener,
}

impl Postgres {
    /// Connects to the store and brings its schema up to date.
    pub async fn open(
        zones: impl Into<Arc<Zones>>,
        options: PostgresOptions,
    ) -> Result<Postgres, Failure> {
        let target = Arc::new(Target::new(&options)?);
        maintenance::migrate::migrate(&target).await?;
        let shared =
            Shared::new(options.clock, options.lease, zones.into(), options.schema.clone());
        let shared = Arc::new(shared);
        let runtime = tokio::runtime::Handle::current();
        let several = |count: usize, target: &Arc<Target>| {
            let tx = || TxConnection::new(target.clone(), runtime.clone());
            (0..count).map(|_| Core { tx: tx(), shared: shared.clone() }).collect()
        };
        let lease = Duration::try_from(options.lease).unwrap_or_default();
        let turning = Arc::new(target.hurried(lease.max(TURN_STATEMENT)));
        let renewing = Arc::new(target.hurried((lease / 5).max(RENEWAL_STATEMENT)));
        let readers = pool(&target, options.readers)?;
        match tokio::time::timeout(target.silence(), load_rules(&readers, &shared)).await {
            Ok(loaded) => loaded?,
            Err(_) => return Err(connections::connect::silent(target.silence())),
        }
        let node = Arc::new(AtomicI64::new(0));
        Ok(Postgres {
            turns: Workers::start("store-turns", several(TURNS, &turning))?,
            renewals: Workers::start("store-renewals", several(1, &renewing))?,
            commands: Workers::start("store-commands", several(options.commands.max(1), &target))?,
            groups: Groups::default(),
            given_up: AtomicU64::new(target.given_up()),
            listener: Listener::new(target.clone(), shared.clone(), node.clone()),
            target,
            shared,
            readers,
            node,
        })
    }

    /// Runs one query on a connection of its own.
    fn read<T, Q>(&self, question: Q) -> Answered<'_, T>
    where
        T: Send + 'static,
        Q: for<'c> FnOnce(&'c Client) -> BoxFuture<'c, Result<T, Failure>> + Send + 'static,
    {
        Box::pin(async move {
            let given_up = self.target.given_up();
            if self.given_up.swap(given_up, Ordering::Relaxed) != given_up {
                self.readers.retain(|_, _| false);
            }
            let client = self.readers.get().await;
            let client = client.map_err(|error| Failure::Unavailable(error.to_string()))?;
            let mut asked = QueriedConnection(Some(client));
            let silence = self.target.silence();
            if let Some(client) = &asked.0
                && let Ok(answer) = tokio::time::timeout(silence, question(client)).await
            {
                asked.0 = None;
                return answer;
            }
            self.target.gave_up();
            Err(connections::connect::silent(silence))
        })
    }
}

/// A connection of the pool that has been sent a query. If nobody waits for the answer any more, it
/// is taken out of the pool: the next query would wait behind this one.
struct QueriedConnection(Option<Client>);

impl Drop for QueriedConnection {
    fn drop(&mut self) {
        drop(self.0.take().map(Client::take));
    }
}

/// Loads the current calendars.
async fn load_rules(readers: &Pool, shared: &Shared) -> Result<(), Failure> {
    let client = readers.get().await.map_err(|error| Failure::Unavailable(error.to_string()))?;
    let version = client.query_one("SELECT value FROM meta WHERE key = 'rules'", &[]);
    let version: String = version.await.map_err(connections::connect::unavailable)?.single()?;
    let calendars = client.query("SELECT id, spec FROM calendars ORDER BY id", &[]);
    shared.reload(version, &calendars.await.map_err(connections::connect::unavailable)?)?;
    Ok(())
}

fn pool(target: &Target, size: usize) -> Result<Pool, Failure> {
    let config = ManagerConfig { recycling_method: RecyclingMethod::Fast };
    let manager = Manager::from_config(target.config().clone(), target.tls(), config);
    let (setup, patience) = (target.setup().to_owned(), target.patience());
    let setup = Hook::async_fn(move |client: &mut deadpool_postgres::ClientWrapper, _| {
        let setup = setup.clone();
        Box::pin(async move {
            match tokio::time::timeout(patience, connections::session::begin(client, &setup)).await
            {
                Ok(said) => said.map_err(HookError::Backend),
                Err(_) => Err(HookError::message("the database does not answer")),
            }
        })
    });
    Pool::builder(manager)
        .max_size(size.max(1))
        .runtime(deadpool_postgres::Runtime::Tokio1)
        .wait_timeout(Some(target.patience()))
        .create_timeout(Some(target.patience()))
        .post_create(setup)
        .build()
        .map_err(|error| Failure::Unavailable(error.to_string()))
}

/// Runs a view, which asks a connection of the pool.
macro_rules! view {
    ($self:ident, $file:ident::$view:ident, $($given:expr),*) => {
        $self.read(move |client| {
            Box::pin(async move { crate::views::$file::$view(client, $($given),*).await })
        })
    };
}

/// Runs a change on a connection for commands.
macro_rules! change {
    ($self:ident, $name:ident, $($given:expr),*) => {
        $self.commands.ask(move |core| core.$name($($given),*))
    };
}

/// Runs a change that must not wait behind commands.
macro_rules! renew {
    ($self:ident, $name:ident, $($given:expr),*) => {
        $self.renewals.ask(move |core| core.$name($($given),*))
    };
}

impl Store for Postgres {
    fn administration(&self) -> &dyn Administration {
        self
    }

    fn join(&self, name: &str, moment: Moment) -> Answered<'_, Joined> {
        let name = name.to_owned();
        let joined = self.renewals.ask(move |core| {
            core.learn_set_aside()?;
            core.join(&name, moment)
        });
        Box::pin(async move {
            let joined = joined.await?;
            self.node.store(joined.node.0, Ordering::Relaxed);
            Ok(joined)
        })
    }

    fn lease(&self) -> Option<SignedDuration> {
        Some(self.shared.lease)
    }

    fn renew(&self, request: RenewRequest) -> Answered<'_, Renewed> {
        self.renewals.ask(move |core| {
            let renewed = core.renew(&request)?;
            // `punctual doctor` may have brought back what was set aside.
            core.learn_set_aside()?;
            Ok(renewed)
        })
    }

    fn set_machine_clock(&self, clock: MachineClock) {
        self.shared.offset.set_machine(clock);
    }

    fn skew(&self) -> SignedDuration {
        self.shared.offset.estimate()
    }

    fn connections(&self) -> Option<Connections> {
        let status = self.readers.status();
        Some(Connections {
            used: status.size.saturating_sub(status.available) as u64,
            idle: status.available as u64,
            waiting: status.waiting as u64,
        })
    }

    fn on_call(&self, call: Box<dyn Fn(Call) + Send + Sync>) {
        self.listener.start(call);
    }

    fn leave(&self, node: NodeId) -> Answered<'_, ()> {
        self.renewals.ask(move |core| core.leave(node))
    }

    fn turns_at_a_time(&self) -> usize {
        TURNS
    }

    fn turn(&self, request: TurnRequest) -> Answered<'_, Turned> {
        self.turns.ask(move |core| core.turn(&request))
    }

    fn command(&self, request: CommandRequest) -> Answered<'_, Commanded> {
        let Some(grouped) = self.groups.of(&request).cloned() else {
            return self.commands.ask(move |core| core.command(&request));
        };
        let answered = grouped.add(request);
        let asked = self.commands.ask(move |core| {
            core.grouped(&grouped);
            Ok(())
        });
        Box::pin(async move {
            asked.await?;
            // Another thread may have taken the command into its own transaction.
            let lost = || Failure::Unknown("the transaction of the command has failed".to_owned());
            answered.await.map_err(|_| lost())?
        })
    }

    maintenance_methods!(change);
}

impl Administration for Postgres {
    setting_aside_methods!(renew);
    managing_methods!(change);

    fn set_notify_setup(&self, setup: Arc<language::notification_setup::Setup>) {
        self.shared.setup.set(setup);
    }

    fn check(&self, now: Timestamp, repair: bool) -> Answered<'_, Vec<Finding>> {
        Box::pin(async move {
            let mut findings = maintenance::check_schema::check(&self.target, repair).await;
            findings.extend(self.commands.ask(move |core| core.check(now, repair)).await?);
            Ok(findings)
        })
    }

    fn backup(&self, to: PathBuf) -> Answered<'_, u64> {
        Box::pin(maintenance::calendars::backup(self.shared.schema().to_owned(), to))
    }
}

impl Queries for Postgres {
    view_methods!(view);

    fn next_to_decide(&self, by: Timestamp, after: RunKey) -> Answered<'_, Option<Trial>> {
        self.renewals.ask(move |core| core.next_to_decide(by, after))
    }

    fn rules(&self) -> Arc<Rules> {
        self.shared.rules()
    }
}
