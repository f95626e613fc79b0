//! A bounded pool of children that stay warm.

use std::fmt;
use std::io;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::confinement::Confinement;
use super::evaluation::{Evaluated, Evaluation, Failed, Log, ScriptFailure};
use super::exchange::{exchange, read, request};
use super::limits::{Limit, ScriptLimits, bytes};
use super::process::Process;
use super::seats::{Seat, Seats};
use super::wire::ToChild;
use super::world::ScriptWorld;
use crate::own_program::own_program;

/// Phases of one script that have begun, when nothing is said: most of them wait for what they fetch. Each has a child
/// with up to 16 MiB of values, and some 8 MiB of its own: less than 1 GiB in the worst case, with those beside them.
const PHASES: usize = 32;
/// Phases of other scripts that may begin beside those of a script that has as many as it may.
const PHASES_OF_OTHERS: usize = 8;
/// Phases of other scripts that may compute beside those of a script that has as many as it may.
const COMPUTING_OF_OTHERS: usize = 1;
/// A definition is described by then, or the node is too busy: somebody waits for the answer. Computing is limited
/// on its own, and a definition has nothing else to wait for.
const DESCRIBED: Duration = Duration::from_secs(30);

/// How scripts are evaluated: by which program, within which limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptHost {
    /// A program that calls [`child`](super::child).
    pub program: PathBuf,
    /// What it is started with.
    pub args: Vec<String>,
    /// The limits of each phase.
    pub limits: ScriptLimits,
    /// How many phases of one script compute at the same time; its others wait, and a phase of another script has a
    /// place beside them. One that has asked its host something does not count any more: a slow answer is no reason for
    /// others not to begin.
    pub children: usize,
    /// How many phases of one script have begun and not ended; its others wait, and some of other scripts may begin
    /// beside them.
    pub phases: usize,
}

impl ScriptHost {
    /// A host whose children are this very program, also after its file has been replaced by
    /// another version, which might speak otherwise.
    pub fn of_this_program(args: &[&str]) -> io::Result<ScriptHost> {
        Ok(ScriptHost::new(own_program()?, args))
    }

    /// A host with default limits, that has a phase compute on each core, and at least two.
    pub fn new(program: impl Into<PathBuf>, args: &[&str]) -> ScriptHost {
        let cores = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        ScriptHost {
            program: program.into(),
            args: args.iter().map(|&arg| arg.to_owned()).collect(),
            limits: ScriptLimits::default(),
            children: cores.max(2),
            phases: PHASES.max(cores),
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
    /// Phases that may begin.
    phases: Seats,
    /// Phases that may begin to compute.
    computing: Seats,
    /// A definition that may be described although all others compute.
    describing: Semaphore,
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
        let computing = Seats::new(host.children, COMPUTING_OF_OTHERS);
        let phases = Seats::new(host.phases.max(host.children), PHASES_OF_OTHERS);
        let describing = Semaphore::new(1);
        let idle = Mutex::default();
        Scripts { shared: Arc::new(Shared { host, phases, computing, describing, idle }) }
    }

    /// The limits of each phase.
    #[must_use]
    pub fn limits(&self) -> &ScriptLimits {
        &self.shared.host.limits
    }

    /// Starts a child if there is none, so that the first script need not wait and a program that
    /// cannot evaluate is noticed early. Gives what is in force in it.
    pub async fn warm(&self) -> Result<Confinement, ScriptFailure> {
        let process = match self.shared.lend() {
            Some(process) => process,
            None => Process::start(&self.shared.host).await?,
        };
        let confinement = process.confinement;
        self.shared.give_back(process);
        Ok(confinement)
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
        let evaluating = async {
            let request = self.shared.checked(&evaluation)?;
            let _phase = self.shared.phases.take(&evaluation.source).await;
            let mut seat = Some(self.shared.computing.take(&evaluation.source).await);
            self.shared.evaluate(&evaluation, &request, world, &mut log, &mut seat).await
        };
        let ended = tokio::select! {
            biased;
            () = cancel.cancelled() => Err(ScriptFailure::Cancelled),
            ended = evaluating => ended,
        };
        match ended {
            Ok(evaluated) => Ok(Evaluated { log, ..evaluated }),
            Err(failure) => Err(Failed { failure, log }),
        }
    }

    /// Evaluates a definition, which may ask for nothing. A child is kept for this, whatever else is evaluated. If there
    /// is no end to it in time, the machine is too busy ([`ScriptFailure::Busy`]): the script is not to blame, whose
    /// computing has a limit of its own.
    pub async fn describe(
        &self,
        evaluation: Evaluation,
        world: &dyn ScriptWorld,
    ) -> Result<Evaluated, Failed> {
        let mut log = Log::default();
        let describing = async {
            let request = self.shared.checked(&evaluation)?;
            let mut seat = tokio::select! {
                biased;
                seat = self.shared.computing.take(&evaluation.source) => Some(seat),
                seat = self.shared.describing.acquire() => seat.ok().map(Seat::from),
            };
            self.shared.evaluate(&evaluation, &request, world, &mut log, &mut seat).await
        };
        let busy = |_| Err(ScriptFailure::Busy { within: DESCRIBED });
        match tokio::time::timeout(DESCRIBED, describing).await.unwrap_or_else(busy) {
            Ok(evaluated) => Ok(Evaluated { log, ..evaluated }),
            Err(failure) => Err(Failed { failure, log }),
        }
    }
}

impl Shared {
    /// What is sent for a phase, if it can be.
    fn checked(&self, evaluation: &Evaluation) -> Result<ToChild, ScriptFailure> {
        let most = self.host.limits.source_bytes;
        if evaluation.source.len() > most {
            let message = format!("the script has more than {}", bytes(most));
            return Err(ScriptFailure::limit(Limit::Source, message));
        }
        request(evaluation).map_err(|error| ScriptFailure::logic(error.to_string()))
    }

    async fn evaluate<'s>(
        &'s self,
        evaluation: &Evaluation,
        request: &ToChild,
        world: &dyn ScriptWorld,
        log: &mut Log,
        seat: &mut Option<Seat<'s>>,
    ) -> Result<Evaluated, ScriptFailure> {
        let limits = &self.host.limits;
        let mut process = self.taken(request).await?;
        // It computes as little from the first question on as its answers are slow: its seat is another's.
        let leave_seat = || drop(seat.take());
        let asking = exchange(&mut process, evaluation.permits, limits, world, log, leave_seat);
        let own = evaluation.timeout.filter(|own| *own < limits.wall);
        let Ok(done) = tokio::time::timeout(own.unwrap_or(limits.wall), asking).await else {
            return Err(match own {
                Some(within) => ScriptFailure::TimedOut { within },
                None => out_of_time(limits.wall),
            });
        };
        let ended = done.and_then(|(done, is_reusable)| {
            Ok((read(done.outcome, evaluation.permits, limits, world)?, is_reusable))
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
            Err(_) => Err(ScriptFailure::Unavailable {
                message: "the process that evaluates was lost before it began".to_owned(),
            }),
        }
    }

    fn lend(&self) -> Option<Process> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }

    /// Keeps a child for the next phase, if there are not enough that wait for one.
    fn give_back(&self, process: Process) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < self.host.children.max(1) {
            idle.push(process);
        }
    }
}

fn out_of_time(wall: Duration) -> ScriptFailure {
    let message =
        format!("the script was not done within the {wall:?} of wall time that a phase may take");
    ScriptFailure::limit(Limit::WallTime, message)
}
