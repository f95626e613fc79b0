//! A node: driver and API over one store, from start to stop.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use jiff::Timestamp;
use language::definition::IncidentAction;
use language::notification_setup::{Channels, Setup};
use runners::script::Scripts;
use runners::{MailServer, Notifier, Policy, Runners, SetupError, WebhookKeys};
use store::{Failure, Store};
use tokio::net::TcpListener;
use tokio::sync::mpsc::unbounded_channel;
use tokio::task::{JoinHandle, JoinSet};
use tokio_util::sync::CancellationToken;

use crate::agents::{Agent, Posting};
use crate::clock::{Clock, SystemClock};
use crate::dispatch::{Commands, RunnerDispatch, SharedDispatch, Trusted};
use crate::driver::Driver;
use crate::http::{self, App, ConnectionLimits, Reach, Token};
use crate::hub::Hub;
use crate::maintenance::{self, Retention};
use crate::scripts::ScriptRunner;
use crate::secrets::Secrets;
use crate::traces::TraceTarget;
use crate::unreachable;

/// How many attempts a node performs at a time by default.
pub const DEFAULT_CAPACITY: usize = 1_000;
/// The port a node listens on by default.
pub const DEFAULT_PORT: u16 = 7878;
/// The longest that a stop may take. Connections and the driver have shorter limits of their own;
/// this bounds whatever exceeds them.
const STOP: Duration = Duration::from_secs(30);
/// How long a stopping node may take to send its last spans.
const FLUSH: Duration = Duration::from_secs(3);

/// The options of a node.
pub struct ServerOptions {
    /// The store, which also holds zones and calendars.
    pub store: Arc<dyn Store>,
    /// The address to listen on; port 0 takes any free port.
    pub listen: SocketAddr,
    /// The token that callers must show. Without one, the node may listen on this machine only,
    /// unless the store has a valid token with the role admin.
    pub token: Option<String>,
    /// The permissions of runners on this host.
    pub runners: Policy,
    /// The node's own definitions. They may run commands even where other definitions may not.
    pub trusted: Trusted,
    pub node: String,
    /// How many attempts the node performs at a time.
    pub capacity: usize,
    pub retention: Retention,
    /// Where `now` comes from.
    pub clock: Arc<dyn Clock>,
    /// Secrets that templates and triggers may name, and that are masked in everything shown.
    pub secrets: Arc<Secrets>,
    pub telling: Telling,
    /// The script sandbox. Without it the node evaluates no scripts.
    pub scripts: Option<Arc<Scripts>>,
    /// Agents whose tasks this node claims and posts. Tasks for other agents wait for workers.
    pub agents: Vec<Agent>,
    /// Where spans are sent. Without it tracing is off.
    pub traces: Option<TraceTarget>,
    pub connections: ConnectionLimits,
    /// Work to do before the driver starts.
    pub before_driving: Option<BeforeDriving>,
}

/// Work to do before the driver starts, such as publishing changed definitions: missed occurrences
/// then run by the new definitions.
pub type BeforeDriving = Box<dyn FnOnce(Arc<Hub>) -> BoxFuture<'static, ()> + Send>;

/// How the node notifies people.
#[derive(Clone, Debug, Default)]
pub struct Telling {
    /// The keys that sign calls to webhooks.
    pub keys: WebhookKeys,
    /// The mail server, if there is one.
    pub mail: Option<MailServer>,
    /// The actions on a failure, where neither the trigger nor the workflow names any.
    pub on_failure: Vec<IncidentAction>,
    /// The actions on recovery, where neither the trigger nor the workflow names any.
    pub on_recovery: Vec<IncidentAction>,
    /// The address at which people reach the pages. Links in messages begin with it.
    pub public_url: Option<String>,
}

impl Telling {
    /// The part that the engine may know: no secrets.
    fn setup(&self) -> Setup {
        let channels = Channels {
            mail: self.mail.is_some(),
            webhook_hosts: self.keys.hosts(),
            webhooks: self.keys.has_others(),
        };
        let public_url = self.public_url.as_deref();
        Setup {
            on_failure: self.on_failure.clone(),
            on_recovery: self.on_recovery.clone(),
            public_url: public_url.map(|url| url.trim_end_matches('/').to_owned()),
            channels: Some(channels),
        }
    }
}

impl ServerOptions {
    /// Listens on this machine only, without a token; all other options have their defaults.
    pub fn new(store: Arc<dyn Store>) -> ServerOptions {
        ServerOptions {
            store,
            listen: (Ipv4Addr::LOCALHOST, DEFAULT_PORT).into(),
            token: None,
            runners: Policy::default(),
            trusted: Trusted::default(),
            node: "node".to_owned(),
            capacity: DEFAULT_CAPACITY,
            retention: Retention::default(),
            clock: Arc::new(SystemClock),
            secrets: Arc::default(),
            telling: Telling::default(),
            scripts: None,
            agents: Vec::new(),
            traces: None,
            connections: ConnectionLimits::default(),
            before_driving: None,
        }
    }
}

/// Why a node does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The node would listen to other machines without a token, so anyone could do anything.
    #[error(
        "without a token the node listens on this machine only, not on {0}: set a token, make one \
         with the role admin, or listen on 127.0.0.1"
    )]
    TokenMissing(SocketAddr),
    /// The token is empty.
    #[error("the token is empty: set another one, or none")]
    TokenEmpty,
    #[error("cannot listen on {address}: {error}")]
    Listen {
        address: SocketAddr,
        /// The error of the operating system.
        error: std::io::Error,
    },
    #[error(transparent)]
    Runners(#[from] SetupError),
    #[error(transparent)]
    Store(#[from] Failure),
}

/// A running node. Dropping it leaves it running; [`Server::stop`] ends it in order.
pub struct Server {
    address: SocketAddr,
    hub: Arc<Hub>,
    setup: Arc<Setup>,
    stop_listening: CancellationToken,
    stop_driving: CancellationToken,
    listening: JoinHandle<()>,
    driving: JoinHandle<Result<(), Failure>>,
    maintenance: JoinHandle<()>,
    posting: JoinSet<()>,
    stop_exporting: CancellationToken,
    exporting: Option<JoinHandle<()>>,
}

impl Server {
    /// Starts a node. When this returns, the node answers requests and drives what is due.
    pub async fn start(options: ServerOptions) -> Result<Server, StartError> {
        let ServerOptions {
            store,
            listen,
            token,
            runners,
            trusted,
            node,
            capacity,
            retention,
            clock,
            secrets,
            telling,
            scripts,
            agents,
            traces,
            connections,
            before_driving,
        } = options;
        let allows_exec = runners.allow_exec;
        let token = check_token(token.as_deref(), listen, &store, clock.now()).await?;
        let failed = |error| StartError::Listen { address: listen, error };
        let listener = TcpListener::bind(listen).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let (report, reports) = unbounded_channel();
        let (signal, signals) = unbounded_channel();
        let now = clock.clone();
        let setup = Arc::new(telling.setup());
        store.set_notify_setup(setup.clone());
        let mail = telling.mail.as_ref().map(|mail| (mail.host().to_owned(), mail.from()));
        let notifier = Notifier::new(move || now.now(), telling.keys, telling.mail);
        let commands = if allows_exec { Commands::Any } else { Commands::Of(trusted) };
        let runners =
            Runners::new(Policy { allow_exec: true, mask: secrets.to_mask(), ..runners })?
                .notifying(notifier);
        let mut hub = Hub::new(store.clone(), clock.clone(), signal);
        let exporter = traces.map(|target| hub.trace_to(target, &node)).transpose();
        let exporter = exporter.map_err(SetupError::from)?;
        let hub = Arc::new(hub);
        let telling_runners = runners.clone();
        let mut dispatch = RunnerDispatch::new(runners.clone(), report)
            .admitting(commands)
            .heard_by(hub.live.clone())
            .with_secrets(secrets.clone());
        if let Some(scripts) = scripts.clone() {
            let (store, clock) = (store.clone(), clock.clone());
            let scripts = ScriptRunner::new(scripts, runners, store, secrets.clone(), clock);
            dispatch = dispatch.with_scripts(scripts);
        }
        let dispatch = Arc::new(SharedDispatch(Arc::new(dispatch)));
        let postings = agents
            .into_iter()
            .map(|agent| Posting::new(agent, hub.clone(), secrets.clone(), &node));
        let postings = postings.collect::<Result<Vec<_>, _>>()?;
        let driver = Driver::join(store, clock, dispatch, hub.clone(), &node, capacity).await?;
        if let Some(work) = before_driving {
            work(hub.clone()).await;
        }
        let stop_driving = CancellationToken::new();
        let maintenance =
            tokio::spawn(maintenance::run(hub.clone(), retention, stop_driving.clone()));
        let driving = tokio::spawn(watch(
            hub.clone(),
            tokio::spawn(driver.run(signals, reports, stop_driving.clone())),
        ));
        let stop_listening = CancellationToken::new();
        let stop_exporting = CancellationToken::new();
        let exporting = exporter.map(|exporter| tokio::spawn(exporter.run(stop_exporting.clone())));
        let mut posting = JoinSet::new();
        for agent in postings {
            posting.spawn(agent.run(stop_listening.clone()));
        }
        let reach = Reach { setup: setup.clone(), mail, runners: telling_runners };
        let app = App::new(
            hub.clone(),
            token,
            allows_exec,
            secrets,
            scripts,
            reach,
            stop_listening.clone(),
        );
        let (refused, stop) = (hub.metrics.connections_refused(), stop_listening.clone());
        let serve = http::serve(listener, http::router(app), connections, refused, stop);
        let listening = tokio::spawn(serve);
        tracing::info!(%address, "listening");
        Ok(Server {
            address,
            hub,
            setup,
            stop_listening,
            stop_driving,
            listening,
            driving,
            maintenance,
            posting,
            stop_exporting,
            exporting,
        })
    }

    /// The address it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The hub, for commands and notices without HTTP.
    pub fn hub(&self) -> &Arc<Hub> {
        &self.hub
    }

    /// Logs which channels of published workflows this node cannot reach.
    pub async fn warn_of_channels(&self) -> Result<(), Failure> {
        unreachable::warn(&**self.hub.store(), &self.setup).await
    }

    /// Stops taking requests, waits for attempts to end or hands them back, and leaves the store.
    /// Takes at most 30 s, and another 3 s for the last spans.
    pub async fn stop(self) -> Result<(), Failure> {
        let Server {
            hub,
            stop_listening,
            stop_driving,
            listening,
            driving,
            maintenance,
            mut posting,
            stop_exporting,
            exporting,
            ..
        } = self;
        let stopped = async {
            stop_listening.cancel();
            let _ = listening.await;
            while posting.join_next().await.is_some() {}
            hub.finished().await;
            stop_driving.cancel();
            let _ = maintenance.await;
            driving.await.unwrap_or_else(|error| Err(Failure::Unavailable(error.to_string())))
        };
        let too_slow = |_| Err(Failure::Unavailable("it did not stop in time".to_owned()));
        let stopped = tokio::time::timeout(STOP, stopped).await.unwrap_or_else(too_slow);
        stop_exporting.cancel();
        if let Some(exporting) = exporting {
            // Spans that the collector does not take in this time are lost.
            let _ = tokio::time::timeout(FLUSH, exporting).await;
        }
        stopped
    }
}

/// Without a token, whoever reaches the node may do anything. So the node listens to other machines
/// only if it has a token, or the store has one with the role admin.
async fn check_token(
    token: Option<&str>,
    listen: SocketAddr,
    store: &Arc<dyn Store>,
    now: Timestamp,
) -> Result<Option<Token>, StartError> {
    match token.map(str::trim) {
        None if !listen.ip().is_loopback() => {
            if http::has_admin(&store.tokens().await?, now) {
                Ok(None)
            } else {
                Err(StartError::TokenMissing(listen))
            }
        }
        None => Ok(None),
        Some("") => Err(StartError::TokenEmpty),
        Some(token) => Ok(Some(Token::new(token))),
    }
}

/// Sets the node not ready when the driver ends, for whatever reason.
async fn watch(hub: Arc<Hub>, driving: JoinHandle<Result<(), Failure>>) -> Result<(), Failure> {
    let ended = driving.await;
    hub.set_not_ready("The driver has stopped.");
    ended.unwrap_or_else(|error| {
        tracing::error!(%error, "the driver is gone: restart the node");
        Err(Failure::Unavailable(error.to_string()))
    })
}
