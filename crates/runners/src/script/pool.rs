//! A bounded pool of children that stay warm.

use std::fmt;
use std::io;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::evaluation::{Evaluated, Evaluation, Failed, Log, ScriptFailure};
use super::exchange::{exchange, read, request};
use super::limits::{Limit, ScriptLimits, bytes};
use super::process::Process;
use super::wire::ToChild;
use super::world::ScriptWorld;

/// How scripts are evaluated: by which program, within which limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptHost {
    /// A program that calls [`child`](super::child).
    pub program: PathBuf,
    /// What it is started with.
    pub args: Vec<String>,
    /// The limits of each phase.
    pub limits: ScriptLimits,
    /// How many phases are evaluated at the same time; others wait.
    pub children: usize,
}

impl ScriptHost {
    /// A host whose children are this very program, also after its file has been replaced by
    /// another version, which might speak otherwise.
    pub fn of_this_program(args: &[&str]) -> io::Result<ScriptHost> {
        const OURSELVES: &str = "/proc/self/exe";
        match std::fs::exists(OURSELVES) {
            Ok(true) => Ok(ScriptHost::new(OURSELVES, args)),
            _ => Ok(ScriptHost::new(std::env::current_exe()?, args)),
        }
    }

    /// A host with default limits and a child for each core, at least two.
    pub fn new(program: impl Into<PathBuf>, args: &[&str]) -> ScriptHost {
        let cores = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        ScriptHost {
            program: program.into(),
            args: args.iter().map(|&arg| arg.to_owned()).collect(),
            limits: ScriptLimits::default(),
            children: cores.max(2),
        }
    }
}

/// Evaluates scripts in child processes. Cloning is cheap and shares them; they end with the last
/// clone.
#[derive(Clone)]
pub struct Scripts {
    shared: Arc<Shared>,
}

struct Shared {
    host: ScriptHost,
    places: Semaphore,
    /// Children that have no phase. Each either is ready or will say so.
    idle: Mutex<Vec<Process>>,
}

impl fmt::Debug for Scripts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scripts").field("host", &self.shared.host).finish_non_exhaustive()
    }
}

impl Scripts {
    /// A pool without children: each is started when it is needed for the first time.
    #[must_use]
    pub fn new(host: ScriptHost) -> Scripts {
        let places = Semaphore::new(host.children.max(1));
        Scripts { shared: Arc::new(Shared { host, places, idle: Mutex::default() }) }
    }

    /// The limits of each phase.
    #[must_use]
    pub fn limits(&self) -> &ScriptLimits {
        &self.shared.host.limits
    }

    /// Starts a child if there is none, so that the first script need not wait and a program that
    /// cannot evaluate is noticed early.
    pub async fn warm(&self) -> Result<(), ScriptFailure> {
        let process = match self.shared.lend() {
            Some(process) => process,
            None => Process::start(&self.shared.host).await?,
        };
        self.shared.give_back(process);
        Ok(())
    }

    /// Evaluates one phase.
    ///
    /// Dropping the future, or cancelling it, kills the child that evaluates. What waits for a
    /// free child uses none of its time.
    pub async fn evaluate(
        &self,
        evaluation: Evaluation,
        world: &dyn ScriptWorld,
        cancel: &CancellationToken,
    ) -> Result<Evaluated, Failed> {
        let mut log = Log::default();
        let ended = tokio::select! {
            biased;
            () = cancel.cancelled() => Err(ScriptFailure::Cancelled),
            ended = self.shared.evaluate(&evaluation, world, &mut log) => ended,
        };
        match ended {
            Ok(evaluated) => Ok(Evaluated { log, ..evaluated }),
            Err(failure) => Err(Failed { failure, log }),
        }
    }
}

impl Shared {
    async fn evaluate(
        &self,
        evaluation: &Evaluation,
        world: &dyn ScriptWorld,
        log: &mut Log,
    ) -> Result<Evaluated, ScriptFailure> {
        let limits = &self.host.limits;
        if evaluation.source.len() > limits.source_bytes {
            let message = format!("the script has more than {}", bytes(limits.source_bytes));
            return Err(ScriptFailure::limit(Limit::Source, message));
        }
        let request =
            request(evaluation).map_err(|error| ScriptFailure::logic(error.to_string()))?;
        // Never closed: what waits gets its place.
        let _place = self.places.acquire().await;
        let mut process = self.taken(&request).await?;
        let asking = exchange(&mut process, evaluation.permits, limits, world, log);
        let own = evaluation.timeout.filter(|own| *own < limits.wall);
        let Ok(done) = tokio::time::timeout(own.unwrap_or(limits.wall), asking).await else {
            return Err(match own {
                Some(within) => ScriptFailure::TimedOut { within },
                None => out_of_time(limits.wall),
            });
        };
        let ended = done.and_then(|(done, is_reusable)| {
            Ok((read(done.outcome, evaluation.permits, limits)?, is_reusable))
        });
        match ended {
            Ok((ended, is_reusable)) => {
                // Whoever broke a limit may have broken more.
                let broke_a_limit = matches!(ended, Err(ScriptFailure::Limit { .. }));
                if is_reusable && !broke_a_limit {
                    self.give_back(process);
                }
                ended
            }
            Err(lost) => Err(process.autopsy(&self.host, lost).await),
        }
    }

    /// A child that has taken the phase. A warm one that is lost before that has not begun, and
    /// the script is not to blame: another one is asked.
    async fn taken(&self, request: &ToChild) -> Result<Process, ScriptFailure> {
        while let Some(mut process) = self.lend() {
            if process.take(request).await.is_ok() {
                return Ok(process);
            }
        }
        let mut process = Process::start(&self.host).await?;
        match process.take(request).await {
            Ok(()) => Ok(process),
            Err(lost) => Err(process.autopsy(&self.host, lost).await),
        }
    }

    fn lend(&self) -> Option<Process> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }

    fn give_back(&self, process: Process) {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(process);
    }
}

fn out_of_time(wall: Duration) -> ScriptFailure {
    let message =
        format!("the script was not done within the {wall:?} of wall time that a phase may take");
    ScriptFailure::limit(Limit::WallTime, message)
}
