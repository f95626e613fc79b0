//! Runs commands: starts each in a process group of its own, writes its input, reads its output,
//! and kills the group at its end.

mod command;
mod escaped;
mod group;
mod orphans;
mod outcome;
mod output;
mod running;
mod stat;
mod supervisor;

use std::io;
use std::sync::Once;
use std::time::Duration;

use language::definition::ExecAction;
use tokio::io::AsyncWriteExt;
use tokio::process::{ChildStderr, ChildStdin, ChildStdout};
use tokio_util::sync::CancellationToken;

use crate::{Code, Ended, Mask, OutputSink, Stream, Work};
use outcome::{Outcome, Why};
use output::Captured;
use running::{NotRunning, Running};

pub(crate) use orphans::Notes;
pub use orphans::end_orphans;
pub use supervisor::{Supervisor, supervise};

/// How long pipes are read after the whole group has ended. The output written before is in the
/// pipes' buffers and read at once; only a process that left the group can keep the pipes open.
const DRAIN: Duration = Duration::from_secs(1);

/// Starts commands, if the host's policy allows them.
#[derive(Debug)]
pub(crate) struct Launcher {
    pub(crate) allowed: bool,
    pub(crate) grace: Duration,
    pub(crate) notes: Option<Notes>,
    pub(crate) supervisor: Option<Supervisor>,
    /// Masks secrets in output before the output is cut.
    pub(crate) mask: Mask,
}

impl Launcher {
    pub(crate) async fn perform(
        &self,
        action: &ExecAction,
        work: &Work,
        cancel: &CancellationToken,
    ) -> Ended {
        if !self.allowed {
            let remedy = "start the node with --allow-exec if its commands are to be trusted";
            let message = format!("this node runs no commands; {remedy}");
            return Ended::for_good(Code::ExecNotAllowed, message);
        }
        let command = match command::read(action, work) {
            Ok(command) => command,
            Err(refused) => return refused,
        };
        self.tell_once();
        match Running::start(command, self.supervisor.as_ref(), self.notes.as_ref()).await {
            Ok(running) => self.accompany(running, action, work, cancel).await,
            Err(NotRunning::NotStarted(error)) => command::not_started(action, &error),
            Err(NotRunning::Lost(error)) => lost(&error),
        }
    }

    /// Logs once, before the first command, whether supervisors end everything that a command
    /// starts.
    fn tell_once(&self) {
        static TOLD: Once = Once::new();
        TOLD.call_once(|| match &self.supervisor {
            Some(_) => tracing::info!(
                "commands run below supervisors: all that a command starts ends with it, and with this process"
            ),
            None => tracing::info!(
                "commands run without supervisors: what leaves a command's process group and its environment \
                 outlives it"
            ),
        });
    }

    /// Writes the command's input and reads its output until it has ended or was killed.
    async fn accompany(
        &self,
        mut running: Running,
        action: &ExecAction,
        work: &Work,
        cancel: &CancellationToken,
    ) -> Ended {
        let pipes = running.pipes();
        let input = action.stdin.clone().unwrap_or_else(|| work.input.to_string());
        let mut stdout = Captured::new(action.max_output);
        let mut stderr = Captured::new(action.max_output);
        let over = CancellationToken::new();
        let watching = async {
            let why = self.watch(&mut running, work.timeout, cancel).await;
            let status = running.finish().await;
            over.cancel();
            (why, status)
        };
        let output_sink = work.output_sink.as_ref();
        let piping = pipe(pipes, input.as_bytes(), &mut stdout, &mut stderr, output_sink);
        let drained = async {
            over.cancelled().await;
            tokio::time::sleep(DRAIN).await;
        };
        let piping = async {
            tokio::select! {
                () = piping => {}
                () = drained => tracing::warn!("a process outside the group holds its pipes"),
            }
        };
        let ((why, status), ()) = tokio::join!(watching, piping);
        match status {
            Ok(status) => {
                Outcome { why, status, stdout, stderr }.told(action, work.timeout, &self.mask)
            }
            Err(error) => lost(&error),
        }
    }

    /// Waits until the leader has ended. On timeout or cancellation, sends SIGTERM and waits at
    /// most for the grace period; the caller then kills what is left.
    async fn watch(
        &self,
        running: &mut Running,
        timeout: Duration,
        cancel: &CancellationToken,
    ) -> Why {
        let why: fn(bool) -> Why = tokio::select! {
            biased;
            () = running.leader_ended() => return Why::OfItself,
            () = cancel.cancelled() => |in_grace| Why::Cancelled { in_grace },
            () = tokio::time::sleep(timeout) => |in_grace| Why::TimedOut { in_grace },
        };
        running.terminate();
        why(tokio::time::timeout(self.grace, running.leader_ended()).await.is_ok())
    }
}

/// The end of a command whose exit status nobody knows.
fn lost(error: &io::Error) -> Ended {
    Ended::failed(Code::ExecWait, format!("the command was lost: {error}"))
}

/// The node's ends of a command's pipes.
struct Pipes {
    stdin: Option<ChildStdin>,
    stdout: Option<ChildStdout>,
    stderr: Option<ChildStderr>,
}

/// Writes and reads at the same time, so that a full pipe blocks neither side.
async fn pipe(
    pipes: Pipes,
    input: &[u8],
    stdout: &mut Captured,
    stderr: &mut Captured,
    output_sink: Option<&OutputSink>,
) {
    let feeding = async {
        if let Some(mut stdin) = pipes.stdin {
            // A command need not read its input, so a broken pipe is not a failure.
            let _ = stdin.write_all(input).await;
        }
    };
    let hears = |stream| {
        move |bytes: &[u8]| {
            output_sink.into_iter().for_each(|output_sink| output_sink.hear(stream, bytes))
        }
    };
    let stdout = stdout.read_from(pipes.stdout, hears(Stream::Stdout));
    let stderr = stderr.read_from(pipes.stderr, hears(Stream::Stderr));
    tokio::join!(feeding, stdout, stderr);
}
