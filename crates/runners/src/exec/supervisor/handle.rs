//! A supervised command, as seen by its node.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::process::{Child, ChildStdin, Command};

use super::Supervisor;
use super::wire::{BEFORE_START, FromSupervisor, Order, ToSupervisor, line, send_descriptor};
use crate::exec::Pipes;
use crate::exec::escaped::Mark;
use crate::exec::orphans::{Note, Notes, Process};
use crate::exec::running::NotRunning;

/// How long to wait for a supervisor that has closed its socket. It has ended, or is about to.
const REAPING: Duration = Duration::from_secs(1);

/// A command that runs below a supervisor. Dropping the value closes the socket, whereupon the
/// supervisor kills the command and everything it has started. The same happens if this process
/// ends in any way.
pub(in crate::exec) struct Supervised {
    supervisor: Child,
    from: Lines<BufReader<OwnedReadHalf>>,
    to: OwnedWriteHalf,
    stdin: Option<ChildStdin>,
    /// The command's exit status, or an error if the supervisor ended first.
    ended: Option<io::Result<ExitStatus>>,
    /// The command's own process, which is killed directly if somebody killed the supervisor.
    leader: Option<Process>,
    mark: Option<Mark>,
    _note: Option<Note>,
}

impl Supervised {
    pub(in crate::exec) async fn start(
        supervisor: &Supervisor,
        command: &Command,
        mark: Option<Mark>,
        notes: Option<&Notes>,
    ) -> Result<Supervised, NotRunning> {
        let (supervisor, socket, stdin) = spawn(supervisor)
            .map_err(|error| io::Error::other(format!("its supervisor: {error}")))?;
        let (from, mut to) = socket.into_split();
        let mut from = BufReader::new(from).lines();
        let order = line(&ToSupervisor::Start(Order::of(command.as_std())))?;
        to.write_all(&order).await.map_err(|_| no_answer())?;
        let leader = match next(&mut from).await {
            Ok(FromSupervisor::Started { leader, adopts }) => {
                if !adopts {
                    tracing::warn!("this system gives orphans of commands to other processes");
                }
                Pid::from_raw(leader)
            }
            Ok(FromSupervisor::NotStarted { os_code: Some(code), .. }) => {
                return Err(io::Error::from_raw_os_error(code).into());
            }
            Ok(FromSupervisor::NotStarted { message, .. }) => {
                return Err(io::Error::other(message).into());
            }
            Ok(_) | Err(_) => {
                drop((from, to));
                return Err(unanswered(supervisor, mark).await);
            }
        };
        Ok(Supervised {
            supervisor,
            from,
            to,
            stdin: Some(stdin),
            ended: None,
            leader: leader.and_then(Process::of),
            mark,
            _note: leader.zip(notes).and_then(|(leader, notes)| notes.note(leader)),
        })
    }

    pub(in crate::exec) fn pipes(&mut self) -> Pipes {
        Pipes {
            stdin: self.stdin.take(),
            stdout: self.supervisor.stdout.take(),
            stderr: self.supervisor.stderr.take(),
        }
    }

    /// Returns when the command, or its supervisor, has ended.
    pub(in crate::exec) async fn leader_ended(&mut self) {
        if self.ended.is_some() {
            return;
        }
        // This is cancel-safe: no message is lost if the future is dropped here.
        self.ended = Some(match next(&mut self.from).await {
            Ok(FromSupervisor::LeaderEnded { status }) => Ok(ExitStatus::from_raw(status)),
            Ok(other) => Err(io::Error::other(format!("its supervisor says {other:?}"))),
            Err(error) => Err(error),
        });
    }

    /// Asks the supervisor to send SIGTERM to the command's process group.
    pub(in crate::exec) fn terminate(&self) {
        self.ask(&ToSupervisor::Terminate);
    }

    /// Kills the command if it has not ended, and returns when none of its processes is left.
    pub(in crate::exec) async fn finish(&mut self) -> io::Result<ExitStatus> {
        if self.ended.is_none() {
            self.ask(&ToSupervisor::Kill);
        }
        self.leader_ended().await;
        match next(&mut self.from).await {
            Ok(FromSupervisor::AllEnded { left: 0 }) => {}
            Ok(FromSupervisor::AllEnded { left }) => {
                tracing::warn!(left, "processes of a command could not be ended");
            }
            // Somebody killed the supervisor. The command is still known by its group and its mark.
            _ => self.end_without_supervisor().await,
        }
        let _ = self.supervisor.wait().await;
        self.ended.take().unwrap_or_else(|| Err(lost()))
    }

    /// Sends a message to the supervisor. A socket has room for a few bytes, so a failed write
    /// means that the supervisor ended.
    fn ask(&self, message: &ToSupervisor) {
        if let Ok(line) = line(message) {
            let _ = self.to.try_write(&line);
        }
    }

    async fn end_without_supervisor(&mut self) {
        tracing::warn!("the supervisor of a command is gone");
        if let Some(leader) = self.leader.take().filter(Process::is_there) {
            let _ = kill_process_group(leader.id, Signal::KILL);
        }
        end_marked(self.mark.take()).await;
    }
}

/// Handles a supervisor that did not answer its order. It may have started the command before, so
/// the processes with the command's mark are ended. Only [`BEFORE_START`] says for certain that the
/// command was not started.
async fn unanswered(mut supervisor: Child, mark: Option<Mark>) -> NotRunning {
    let ended = tokio::time::timeout(REAPING, supervisor.wait()).await;
    end_marked(mark).await;
    match ended {
        Ok(Ok(status)) if status.code() == Some(i32::from(BEFORE_START)) => {
            NotRunning::NotStarted(no_answer())
        }
        Ok(Ok(status)) if status.signal().is_some() => NotRunning::Lost(lost()),
        _ => NotRunning::Lost(io::Error::other("its supervisor did not say whether it runs")),
    }
}

async fn end_marked(mark: Option<Mark>) {
    if let Some(mark) = mark {
        // The search reads the environment of every process of the machine, so it runs on a
        // blocking thread.
        let _ = tokio::task::spawn_blocking(move || mark.end_all()).await;
    }
}

/// Starts a supervisor in a process group of its own, so that signals to the node's or the
/// command's group do not reach it.
fn spawn(supervisor: &Supervisor) -> io::Result<(Child, UnixStream, ChildStdin)> {
    let (ours, theirs) = StdUnixStream::pair()?;
    let (read_end, write_end) = io::pipe()?;
    send_descriptor(&ours, read_end)?;
    let child = Command::new(&supervisor.program)
        .args(&supervisor.args)
        .env_clear()
        .stdin(Stdio::from(OwnedFd::from(theirs)))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()?;
    ours.set_nonblocking(true)?;
    let stdin = ChildStdin::from_std(OwnedFd::from(write_end).into())?;
    Ok((child, UnixStream::from_std(ours)?, stdin))
}

/// Returns the supervisor's next message. Cancel-safe: dropping the future loses nothing.
async fn next(from: &mut Lines<BufReader<OwnedReadHalf>>) -> io::Result<FromSupervisor> {
    let line = from.next_line().await.map_err(|_| lost())?.ok_or_else(lost)?;
    Ok(serde_json::from_str(&line)?)
}

fn lost() -> io::Error {
    io::Error::other("its supervisor was killed")
}

fn no_answer() -> io::Error {
    io::Error::other("its supervisor ended without an answer")
}
