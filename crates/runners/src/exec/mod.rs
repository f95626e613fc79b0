//! Commands: started in a process group of their own, fed, listened to, and ended with it.

mod command;
mod escaped;
mod group;
mod orphans;
mod outcome;
mod output;

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use engine::definition::ExecAction;
use rustix::process::Signal;
use tokio::io::AsyncWriteExt;
use tokio::process::{ChildStderr, ChildStdin, ChildStdout};
use tokio_util::sync::CancellationToken;

use crate::{Ear, Ended, Stream, Work, code};
use escaped::Mark;
use group::Group;
use orphans::Notes;
use outcome::{Outcome, Why};
use output::Captured;

pub use orphans::end_orphans;

/// How long pipes are read after the whole group has ended. What was written before is in the
/// pipes' buffers and read at once; only a process that left the group can hold them open.
const DRAIN: Duration = Duration::from_secs(1);

/// Starts commands where the host allows it.
#[derive(Debug)]
pub(crate) struct Launcher {
    allowed: bool,
    grace: Duration,
    notes: Option<Notes>,
}

impl Launcher {
    pub(crate) fn new(
        allowed: bool,
        grace: Duration,
        groups_dir: Option<PathBuf>,
    ) -> io::Result<Launcher> {
        let notes = groups_dir.map(Notes::in_dir).transpose()?;
        Ok(Launcher { allowed, grace, notes })
    }

    pub(crate) async fn perform(
        &self,
        action: &ExecAction,
        work: &Work,
        cancel: &CancellationToken,
    ) -> Ended {
        if !self.allowed {
            let remedy = "start the node with --allow-exec if its commands are to be trusted";
            let message = format!("this node runs no commands; {remedy}");
            return Ended::for_good(code::EXEC_NOT_ALLOWED, message);
        }
        let mut command = match command::read(action, work) {
            Ok(command) => command,
            Err(refused) => return refused,
        };
        let mark = Mark::new();
        if let Some(mark) = &mark {
            command.env(escaped::VARIABLE, mark.text());
        }
        match Group::start(&mut command, mark, self.notes.as_ref()) {
            Ok(group) => self.accompany(group, action, work, cancel).await,
            Err(error) => command::not_started(action, &error),
        }
    }

    /// Feeds the command and listens to it until it has ended, by itself or by us.
    async fn accompany(
        &self,
        mut group: Group,
        action: &ExecAction,
        work: &Work,
        cancel: &CancellationToken,
    ) -> Ended {
        let pipes = group.pipes();
        let input = action.stdin.clone().unwrap_or_else(|| work.input.to_string());
        let mut stdout = Captured::new(action.max_output);
        let mut stderr = Captured::new(action.max_output);
        let over = CancellationToken::new();
        let watching = async {
            let why = self.watch(&mut group, work.timeout, cancel).await;
            let status = group.finish().await;
            over.cancel();
            (why, status)
        };
        let ear = work.ear.as_ref();
        let piping = pipe(pipes, input.as_bytes(), &mut stdout, &mut stderr, ear);
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
            Ok(status) => Outcome { why, status, stdout, stderr }.told(action, work.timeout),
            Err(error) => Ended::failed(code::EXEC_WAIT, format!("the command was lost: {error}")),
        }
    }

    /// Waits for the leader's end; asks for it, then forces it, when it is time.
    async fn watch(&self, group: &mut Group, timeout: Duration, cancel: &CancellationToken) -> Why {
        let why: fn(bool) -> Why = tokio::select! {
            biased;
            () = group.leader_ended() => return Why::OfItself,
            () = cancel.cancelled() => |in_grace| Why::Cancelled { in_grace },
            () = tokio::time::sleep(timeout) => |in_grace| Why::TimedOut { in_grace },
        };
        group.signal(Signal::TERM);
        why(tokio::time::timeout(self.grace, group.leader_ended()).await.is_ok())
    }
}

/// The near ends of a command's pipes.
struct Pipes {
    stdin: Option<ChildStdin>,
    stdout: Option<ChildStdout>,
    stderr: Option<ChildStderr>,
}

/// Writes and reads at the same time, so that no full pipe blocks either side.
async fn pipe(
    pipes: Pipes,
    input: &[u8],
    stdout: &mut Captured,
    stderr: &mut Captured,
    ear: Option<&Ear>,
) {
    let feeding = async {
        if let Some(mut stdin) = pipes.stdin {
            // A command need not read its input: a broken pipe says nothing about its success.
            let _ = stdin.write_all(input).await;
        }
    };
    let hears =
        |stream| move |bytes: &[u8]| ear.into_iter().for_each(|ear| ear.hear(stream, bytes));
    let stdout = stdout.read_from(pipes.stdout, hears(Stream::Stdout));
    let stderr = stderr.read_from(pipes.stderr, hears(Stream::Stderr));
    tokio::join!(feeding, stdout, stderr);
}
