//! A bounded pool of child processes that stay running between phases.

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

/// Default for [`ScriptHost::phases`]. Most phases that have begun wait for a fetch. Each has a
/// child with up to 16 MiB of values and some 8 MiB of its own: less than 1 GiB in the worst case,
/// including [`PHASES_OF_OTHERS`].
const PHASES: usize = 32;
/// Extra slots for phases that have begun, which no single script can take: other scripts can begin
/// while one has used up its own.
const PHASES_OF_OTHERS: usize = 8;
/// Extra slots for phases that compute, which no single script can take.
const COMPUTING_OF_OTHERS: usize = 1;
/// How long [`Scripts::describe`] may take before it reports the node as too busy: a person waits
/// for the answer. CPU time has its own limit, and describing a definition waits for nothing else.
const DESCRIBED: Duration = Duration::from_secs(30);

/// How scripts are evaluated: with which program and within which limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptHost {
    /// A program that calls [`child`](super::child).
    pub program: PathBuf,
    pub args: Vec<String>,
    pub limits: ScriptLimits,
    /// How many phases of one script may compute at the same time. Further phases of that script
    /// wait; a phase of another script still finds a slot. A phase stops counting once it has made
    /// its first call to the host, so that slow answers do not keep other phases from beginning.
    pub children: usize,
    /// How many phases of one script may have begun and not ended. Further phases of that script
    /// wait; some phases of other scripts can still begin.
    pub phases: usize,
}

impl ScriptHost {
    /// A host whose children run the program of the current process. That stays so after an upgrade
    /// replaced its file with a version that may use another protocol.
    pub fn of_this_program(args: &[&str]) -> io::Result<ScriptHost> {
        Ok(ScriptHost::new(own_program()?, args))
    }

    /// A host with default limits that lets as many phases of a script compute as there are cores,
    /// and at least two.
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

/// Evaluates scripts in child processes. Clones are cheap and share the pool; dropping the last
/// clone ends the children.
#[derive(Clone)]
pub struct Scripts {
    shared: Arc<Shared>,
}

struct Shared {
    host: ScriptHost,
    /// Slots for phases that have begun.
    phases: Seats,
    /// Slots for phases that compute, up to their first call to the host.
    computing: Seats,
    /// One reserved slot, so that a definition can be described while all computing slots are in
    /// use.
    describing: Semaphore,
    /// Children without a phase. Each has sent `Ready`, or will.
    idle: Mutex<Vec<Process>>,
}

impl fmt::Debug for Scripts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scripts").field("host", &self.shared.host).finish_non_exhaustive()
    }
}

impl Scripts {
    /// A pool without children. The pool starts a child when a phase needs one and none is idle.
    #[must_use]
    pub fn new(host: ScriptHost) -> Scripts {
        let computing = Seats::new(host.children, COMPUTING_OF_OTHERS);
        let phases = Seats::new(host.phases.max(host.children), PHASES_OF_OTHERS);
        let describing = Semaphore::new(1);
        let idle = Mutex::default();
        Scripts { shared: Arc::new(Shared { host, phases, computing, describing, idle }) }
    }

    /// The limits that apply to each phase.
    #[must_use]
    pub fn limits(&self) -> &ScriptLimits {
        &self.shared.host.limits
    }

    /// Starts a child if none is idle, so that the first script need not wait and a program that
    /// cannot evaluate scripts is noticed early. Returns the confinement that is in force in the
    /// child.
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
    /// Dropping the future, or cancelling `cancel`, kills the child that evaluates the phase.
    /// Waiting for a slot does not count towards the phase's time limits.
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

    /// Evaluates a definition, which may not call the host. A slot is reserved for this, whatever
    /// else is evaluated. A definition that has not ended within `DESCRIBED` fails with
    /// [`ScriptFailure::Busy`]: the machine is too busy, and the script is not to blame, because
    /// its CPU time has a limit of its own.
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
    /// The message that asks a child for the phase, or the failure if the source is too long.
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
        // From its first call on, the phase mostly waits for answers: it gives its computing slot
        // to another phase.
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
                // A child whose script broke a limit is not reused: its interpreter may be damaged.
                let broke_a_limit = matches!(ended, Err(ScriptFailure::Limit { .. }));
                if is_reusable && !broke_a_limit {
                    self.give_back(process);
                }
                ended
            }
            Err(lost) => Err(process.autopsy(&self.host, lost).await),
        }
    }

    /// Returns a child that has accepted the phase. If an idle child is lost before it accepts, the
    /// phase has not begun and the script is not to blame, so the next child is tried.
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

    /// Keeps a child for a later phase, unless enough children are idle already.
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
