//! `punctual serve`: a node, from its start to its stop.

use std::env;
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::path::Path;
use std::sync::Arc;

use calendar::Zones;
use runners::{Egress, Policy};
use server::serve::{Server, ServerOptions, StartError, Telling};
use server::{Agent, Secrets, TraceTarget};

use super::signals::Signals;
use super::watch::Watch;
use super::{folder, logging, publish, runtime, trusting};
use crate::args::node::ServeArgs;
use crate::failure::Failure;
use crate::place::{Place, lease};
use crate::scripts::scripts;

/// What is logged unless the environment says otherwise. The driver tells once that the database is gone,
/// its connections need not.
const QUIET: &str = "info,deadpool.postgres=error";

/// Runs the command.
pub(crate) fn run(args: &ServeArgs, zones: Zones) -> Result<(), Failure> {
    let place = Place::read(&args.db)?;
    let lease = lease(&args.lease)?;
    let listen = address(&args.listen)?;
    let egress: Egress =
        args.egress.parse().map_err(|error| Failure::Mistake(format!("--egress: {error}")))?;
    let secrets = Secrets::read(args.secrets.as_deref(), env::vars_os())
        .map_err(|error| Failure::Mistake(format!("secrets: {error}")))?;
    let telling = telling()?;
    let agents = agents(&args.agents)?;
    let traces = traces(args.otlp.as_deref())?;
    logging::start(args.log, QUIET)?;
    let token = env::var("PUNCTUAL_TOKEN").ok().filter(|token| !token.is_empty());
    let runtime = runtime()?;
    let store = runtime.block_on(place.open(zones, lease))?;
    let scripts = scripts()?;
    let definitions = match &args.dir {
        Some(dir) => {
            let rules = store.rules();
            runtime.block_on(folder::definitions(dir, &rules, &scripts))?
        }
        None => Vec::new(),
    };
    let trusted = trusting(&definitions);
    let groups_dir = place.groups_dir();
    end_orphans(&groups_dir)?;
    let options = ServerOptions {
        listen,
        token,
        runners: Policy {
            allow_exec: args.allow_exec,
            egress,
            groups_dir: Some(groups_dir),
            ..Policy::default()
        },
        trusted: trusted.clone(),
        node: args.node.clone().unwrap_or_else(own_name),
        capacity: args.capacity as usize,
        secrets: Arc::new(secrets),
        telling,
        scripts: Some(scripts.clone()),
        agents,
        traces,
        ..ServerOptions::new(store)
    };
    let without_token = options.token.is_none();
    runtime.block_on(async {
        let mut signals = Signals::new()?;
        let server = Server::start(options).await.map_err(|error| match error {
            StartError::TokenMissing(_) => refused_without_token(listen),
            other => not_started(other),
        })?;
        let mut watch = match &args.dir {
            Some(dir) if args.watch => Some(Watch::new(dir, &definitions, scripts)?),
            _ => None,
        };
        publish(server.hub(), definitions).await?;
        if without_token {
            tracing::info!(
                "the node has no token of its own (PUNCTUAL_TOKEN): unless tokens were made, anyone on \
                 this machine may do everything"
            );
        }
        tracing::info!(url = %format!("http://{}", server.address()), db = %place, "ready");
        let signal = loop {
            let Some(watching) = &mut watch else { break signals.next().await };
            let changed = tokio::select! {
                signal = signals.next() => break signal,
                changed = watching.changed() => changed,
            };
            match changed {
                Some(()) => watching.publish(server.hub(), &trusted).await,
                None => {
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
    })
}

/// Whose tasks this node posts.
fn agents(texts: &[String]) -> Result<Vec<Agent>, Failure> {
    let mut agents: Vec<Agent> = Vec::new();
    for text in texts {
        let agent: Agent =
            text.parse().map_err(|error| Failure::Mistake(format!("--agent {text}: {error}")))?;
        if agents.iter().any(|known| known.name() == agent.name()) {
            let message = format!("--agent {text}: {} has a URL already", agent.name());
            return Err(Failure::Mistake(message));
        }
        agents.push(agent);
    }
    Ok(agents)
}

/// Where spans go; the headers are in the environment, because they may hold keys.
fn traces(endpoint: Option<&str>) -> Result<Option<TraceTarget>, Failure> {
    let Some(endpoint) = endpoint.filter(|url| !url.trim().is_empty()) else { return Ok(None) };
    let (headers, service) =
        (env::var("OTEL_EXPORTER_OTLP_HEADERS"), env::var("OTEL_SERVICE_NAME"));
    let target = TraceTarget::read(endpoint, headers.ok().as_deref(), service.ok().as_deref());
    target.map(Some).map_err(|error| Failure::Mistake(format!("--otlp: {error}")))
}

/// How people are told something, from the environment: it holds passwords.
pub(crate) fn telling() -> Result<Telling, Failure> {
    let set = |name: &str| env::var(name).ok().filter(|text| !text.trim().is_empty());
    let keys = set("PUNCTUAL_WEBHOOK_SECRET").map(|text| {
        text.parse().map_err(|error| Failure::Mistake(format!("PUNCTUAL_WEBHOOK_SECRET: {error}")))
    });
    let mail = set("PUNCTUAL_SMTP").map(|text| {
        text.parse().map_err(|error| Failure::Mistake(format!("PUNCTUAL_SMTP: {error}")))
    });
    Ok(Telling { keys: keys.transpose()?.unwrap_or_default(), mail: mail.transpose()? })
}

/// No two processes that run at the same time share it.
pub(crate) fn own_name() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host = if host.trim().is_empty() { "punctual" } else { host.trim() };
    format!("{host}-{}", std::process::id())
}

/// Commands of a node that was killed end before others begin.
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
