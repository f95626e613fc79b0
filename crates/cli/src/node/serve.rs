//! `punctual serve`: runs a node, from its start to its stop.

use std::collections::HashSet;
use std::env;
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::path::Path;
use std::sync::Arc;

use calendar::Zones;
use jiff::SignedDuration;
use language::definition::IncidentAction;
use runners::script::Scripts;
use runners::{Egress, Policy};
use server::serve::{BeforeDriving, Server, ServerOptions, StartError, Telling};
use server::{Agent, Clock, OffsetClock, Secrets, SystemClock, TraceTarget, Trusted};
use server::{secrets_in_address, secrets_in_channel, shown_address};
use store::Store;

use super::folder::Found;
use super::signals::Signals;
use super::watch::Watch;
use super::{folder, logging, publish, runtime, trusting};
use crate::args::node::ServeArgs;
use crate::failure::Failure;
use crate::scripts::scripts;
use crate::store_target::{StoreTarget, lease};
use crate::supervisor::supervisor;

/// The default log filter. The driver logs once that the database is unreachable; the connection
/// pool need not repeat it.
const QUIET: &str = "info,deadpool.postgres=error";

/// Runs the command. A failure to start is reported with its secrets masked.
pub(crate) fn run(args: &ServeArgs, zones: Zones) -> Result<(), Failure> {
    let secrets = Secrets::read(args.secrets.as_deref(), env::vars_os())
        .and_then(|secrets| secrets.with_own(logging::own_secrets().chain(given_secrets(args))))
        .map_err(|error| Failure::Mistake(format!("secrets: {error}")))?;
    let secrets = Arc::new(secrets);
    serve(args, zones, secrets.clone()).map_err(|failure| failure.masked(&secrets))
}

/// The secrets in the addresses that the node was given. Anyone who knows the URL of a channel may
/// post to it, and the URLs of agents and collectors may contain a password or key.
fn given_secrets(args: &ServeArgs) -> impl Iterator<Item = String> {
    let channels = args.on_failure.iter().chain(&args.on_recovery);
    let channels = channels.filter_map(|text| text.trim().split_once(':'));
    // A channel with a misspelt kind is included too, because the error message quotes its whole
    // text.
    let channels = channels.filter(|(_, to)| to.contains("://"));
    let agents =
        args.agents.iter().map(|text| text.split_once('=').map_or(&**text, |(_, url)| url));
    let addresses = agents.chain(args.otlp.as_deref()).flat_map(secrets_in_address);
    channels.flat_map(|(_, url)| secrets_in_channel(url)).chain(addresses)
}

fn serve(args: &ServeArgs, zones: Zones, secrets: Arc<Secrets>) -> Result<(), Failure> {
    let target = StoreTarget::read(&args.db)?;
    let lease = lease(&args.lease)?;
    let listen = address(&args.listen)?;
    let egress: Egress =
        args.egress.parse().map_err(|error| Failure::Mistake(format!("--egress: {error}")))?;
    let telling = telling(args)?;
    let agents = agents(&args.agents)?;
    let traces = traces(args.otlp.as_deref())?;
    logging::start(args.log, QUIET, secrets.clone())?;
    let token = own_token()?;
    let runtime = runtime()?;
    let store = runtime.block_on(target.open(zones, lease))?;
    let scripts = scripts()?;
    let own = match &args.dir {
        Some(dir) => Some(runtime.block_on(OwnFolder::read(dir, &store, &scripts, args.prune))?),
        None => None,
    };
    let trusted = own.as_ref().map(|own| own.trusted.clone()).unwrap_or_default();
    let checked = own.as_ref().map(|own| own.found.checked.clone()).unwrap_or_default();
    let groups_dir = target.groups_dir();
    end_orphans(&groups_dir)?;
    let clock: Arc<dyn Clock> = match args.clock_offset {
        0 => Arc::new(SystemClock),
        offset => Arc::new(OffsetClock(SignedDuration::from_secs(offset.into()))),
    };
    let options = ServerOptions {
        clock,
        listen,
        token,
        runners: Policy {
            allow_exec: args.allow_exec,
            egress,
            groups_dir: Some(groups_dir),
            supervisor: Some(supervisor()?),
            ..Policy::default()
        },
        trusted: trusted.clone(),
        node: args.node.clone().unwrap_or_else(own_name),
        capacity: args.capacity as usize,
        secrets,
        telling,
        scripts: Some(scripts.clone()),
        agents,
        traces,
        before_driving: own.map(OwnFolder::publishing),
        ..ServerOptions::new(store)
    };
    let without_token = options.token.is_none();
    let gone = options.store.gone();
    let ended = runtime.block_on(async {
        tokio::pin!(gone);
        let mut signals = Signals::new()?;
        let server = Server::start(options).await.map_err(|error| match error {
            StartError::TokenMissing(_) => refused_without_token(listen),
            other => not_started(other),
        })?;
        let mut watch = match &args.dir {
            Some(dir) if args.watch => {
                Some(Watch::new(dir, &checked, scripts.clone(), args.prune)?)
            }
            _ => None,
        };
        if let Err(failure) = server.warn_of_channels().await {
            tracing::warn!(%failure, "channels of workflows were not looked at");
        }
        tell_confinement(&scripts).await;
        if without_token {
            tracing::info!(
                "the node has no token of its own (PUNCTUAL_TOKEN): unless tokens were made, anyone on \
                 this machine may do everything"
            );
        }
        tracing::info!(url = %format!("http://{}", server.address()), db = %target, "ready");
        let signal = loop {
            let changed = async {
                match &mut watch {
                    Some(watching) => watching.changed().await,
                    None => std::future::pending().await,
                }
            };
            let changed = tokio::select! {
                signal = signals.next() => break signal,
                // The store is gone: nothing can be stored or handed over. The next start takes
                // over the unfinished attempts.
                why = &mut gone => return Err(Failure::Environment(why)),
                changed = changed => changed,
            };
            match (changed, &mut watch) {
                (Some(()), Some(watching)) => watching.publish(server.hub(), &trusted).await,
                _ => {
                    tracing::error!("the folder is not watched any more");
                    watch = None;
                }
            }
        };
        tracing::info!("{signal}: stopping; again to stop at once");
        signals.force();
        server.stop().await.map_err(|failure| Failure::Environment(failure.to_string()))?;
        tracing::info!("stopped");
        Ok(())
    });
    // Work that is still running does not delay the exit of a node that has failed.
    runtime.shutdown_background();
    ended
}

/// The folder that the node was given, as it is at the start.
struct OwnFolder {
    name: String,
    found: Found,
    trusted: Trusted,
    prune: bool,
}

impl OwnFolder {
    async fn read(
        dir: &Path,
        store: &Arc<dyn Store>,
        scripts: &Scripts,
        prune: bool,
    ) -> Result<OwnFolder, Failure> {
        let found = folder::definitions(dir, &store.rules(), scripts).await?;
        found.tell_wrong();
        let name = folder::name(dir);
        let trusted = trusting(&found.checked);
        let earlier = folder::earlier(&**store, &name).await;
        trusted.add(earlier.map_err(|failure| Failure::Environment(failure.to_string()))?);
        Ok(OwnFolder { name, found, trusted, prune })
    }

    /// Publishes changes that were made while no node ran, before any missed occurrence runs.
    fn publishing(self) -> BeforeDriving {
        Box::new(move |hub| {
            Box::pin(async move {
                let OwnFolder { name, found, prune, .. } = self;
                if let Err(failure) = publish(&hub, found.checked.clone(), Some(&name)).await {
                    tracing::error!("not everything in the folder is published:\n{failure}");
                }
                let mut told = HashSet::new();
                let telling = folder::tell_gone(&hub, &name, &found, prune, &mut told);
                if let Err(failure) = telling.await {
                    tracing::error!("workflows whose file is gone cannot be looked for: {failure}");
                }
            })
        })
    }
}

/// The agents whose tasks this node posts.
fn agents(texts: &[String]) -> Result<Vec<Agent>, Failure> {
    let mut agents: Vec<Agent> = Vec::new();
    for text in texts {
        // The URL may contain a password, so messages do not show it.
        let name = match text.split_once('=') {
            Some((name, _)) => name,
            None if text.contains("://") => "…",
            None => text,
        };
        let agent: Agent =
            text.parse().map_err(|error| Failure::Mistake(format!("--agent {name}: {error}")))?;
        if agents.iter().any(|known| known.name() == agent.name()) {
            let message = format!("--agent {name}: {name} has a URL already");
            return Err(Failure::Mistake(message));
        }
        agents.push(agent);
    }
    Ok(agents)
}

/// Where traces are sent. The headers come from the environment, because they may contain keys.
fn traces(endpoint: Option<&str>) -> Result<Option<TraceTarget>, Failure> {
    let Some(endpoint) = endpoint.filter(|url| !url.trim().is_empty()) else { return Ok(None) };
    let (headers, service) =
        (env::var("OTEL_EXPORTER_OTLP_HEADERS"), env::var("OTEL_SERVICE_NAME"));
    let target = TraceTarget::read(endpoint, headers.ok().as_deref(), service.ok().as_deref());
    target.map(Some).map_err(|error| Failure::Mistake(format!("--otlp: {error}")))
}

/// How the node notifies people. The settings come from the environment, because they contain
/// passwords.
pub(crate) fn telling(args: &ServeArgs) -> Result<Telling, Failure> {
    let set = |name: &str| env::var(name).ok().filter(|text| !text.trim().is_empty());
    let keys = set("PUNCTUAL_WEBHOOK_SECRET").map(|text| {
        text.parse().map_err(|error| Failure::Mistake(format!("PUNCTUAL_WEBHOOK_SECRET: {error}")))
    });
    let mail = set("PUNCTUAL_SMTP").map(|text| {
        text.parse().map_err(|error| Failure::Mistake(format!("PUNCTUAL_SMTP: {error}")))
    });
    if let Some(url) = args.public_url.as_deref() {
        let shown = shown_address(url);
        let problem = if language::definition::host_of(url).is_none() {
            Some("is no URL")
        } else if url.contains('@') {
            Some("is sent to people, so it has no user and no password")
        } else {
            None
        };
        if let Some(problem) = problem {
            let message = format!("--public-url: {shown} {problem}");
            return Err(Failure::Mistake(format!(
                "{message}\n  try: https://punctual.example.org"
            )));
        }
    }
    Ok(Telling {
        keys: keys.transpose()?.unwrap_or_default(),
        mail: mail.transpose()?,
        on_failure: actions("--on-failure", &args.on_failure)?,
        on_recovery: actions("--on-recovery", &args.on_recovery)?,
        public_url: args.public_url.clone(),
    })
}

/// Parses the actions of `--on-failure` or `--on-recovery`.
fn actions(option: &str, texts: &[String]) -> Result<Vec<IncidentAction>, Failure> {
    let texts = texts.iter().map(|text| text.trim()).filter(|text| !text.is_empty());
    let read = |text: &str| {
        let refused = |problem| Failure::Mistake(format!("{option}: {problem}"));
        IncidentAction::parse(text).map_err(refused)
    };
    texts.map(read).collect()
}

/// The default name of a node or worker. No two processes that run at the same time share it.
pub(crate) fn own_name() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host = if host.trim().is_empty() { "punctual" } else { host.trim() };
    format!("{host}-{}", std::process::id())
}

/// Ends the commands that a killed node left running, before new ones start.
fn end_orphans(dir: &Path) -> Result<(), Failure> {
    match runners::end_orphans(dir) {
        Ok(0) => Ok(()),
        Ok(ended) => {
            tracing::warn!(commands = ended, "ended what an earlier life left running");
            Ok(())
        }
        Err(error) => Err(Failure::Environment(format!("{}: {error}", dir.display()))),
    }
}

/// Logs how far scripts are confined, and a warning if the node runs as root. If scripts cannot be
/// evaluated at all, the first script reports that.
async fn tell_confinement(scripts: &Scripts) {
    if rustix::process::geteuid().is_root() {
        tracing::warn!(
            "the node runs as root, and so do the commands of exec steps: run it as a user of its own, as \
             the systemd unit and the container do"
        );
    }
    match scripts.warm().await {
        Ok(confinement) => match confinement.missing() {
            None => tracing::info!(in_force = %confinement, "scripts are confined"),
            Some(missing) if confinement.system_calls => {
                tracing::info!(in_force = %confinement, not_in_force = missing, "scripts are confined");
            }
            Some(missing) => {
                tracing::warn!(in_force = %confinement, not_in_force = missing,
                    "the kernel does not filter the system calls of scripts: publish only scripts that are trusted");
            }
        },
        Err(failure) => tracing::warn!(%failure, "no script can be evaluated for now"),
    }
}

/// The node's own token. It is checked for strength, because whoever guesses it may do everything.
fn own_token() -> Result<Option<String>, Failure> {
    let token = env::var("PUNCTUAL_TOKEN").ok();
    if token.as_deref().is_some_and(|token| token.trim().is_empty()) {
        // A script whose secret is missing sets it so. Nobody who sets it wants an open node.
        return Err(Failure::Mistake(
            "PUNCTUAL_TOKEN is set and empty\n  \
             allowed: 24 characters or more, as random as they can be; or not set at all\n  \
             try: PUNCTUAL_TOKEN=$(openssl rand -hex 32), or unset PUNCTUAL_TOKEN"
                .to_owned(),
        ));
    }
    match token.as_deref().map(str::trim).and_then(server::token_weakness) {
        None => Ok(token),
        Some(why) => Err(Failure::Mistake(format!(
            "PUNCTUAL_TOKEN can be guessed: {why}\n  \
             allowed: 24 characters or more, as random as they can be\n  \
             try: PUNCTUAL_TOKEN=$(openssl rand -hex 32)"
        ))),
    }
}

fn address(text: &str) -> Result<SocketAddr, Failure> {
    let found = text.to_socket_addrs().ok().and_then(|mut all| all.next());
    found.ok_or_else(|| {
        Failure::Mistake(format!(
            "--listen {text}: not an address\n  allowed: HOST:PORT\n  try: 127.0.0.1:7878"
        ))
    })
}

fn refused_without_token(listen: SocketAddr) -> Failure {
    Failure::Mistake(format!(
        "--listen {listen}: without a token everyone who reaches this address could do everything\n  \
         allowed: loopback addresses, such as 127.0.0.1:{port}\n  \
         try: PUNCTUAL_TOKEN=… with a long random text, such as `openssl rand -hex 32` prints, or first \
         `punctual token create NAME --role admin` on this machine",
        port = listen.port()
    ))
}

fn not_started(error: StartError) -> Failure {
    match error {
        StartError::TokenEmpty => Failure::Mistake(error.to_string()),
        StartError::Listen { .. } => Failure::Environment(format!(
            "{error}\n  try: another --listen address; is a node running there already?"
        )),
        _ => Failure::Environment(error.to_string()),
    }
}
