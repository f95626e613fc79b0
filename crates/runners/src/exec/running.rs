//! A running command, with or without a supervisor.

use std::io;
use std::process::ExitStatus;

use rustix::process::Signal;
use tokio::process::Command;

use super::Pipes;
use super::escaped::{Mark, VARIABLE};
use super::group::Group;
use super::orphans::Notes;
use super::supervisor::{Supervised, Supervisor};

/// A running command. Dropping the value kills the command and everything it has started.
pub(super) enum Running {
    Supervised(Supervised),
    Alone(Group),
}

/// Why a command is not running after all.
pub(super) enum NotRunning {
    /// The command was not started.
    NotStarted(io::Error),
    /// The command may have been started. Those of its processes that could be found have ended.
    Lost(io::Error),
}

impl From<io::Error> for NotRunning {
    fn from(error: io::Error) -> NotRunning {
        NotRunning::NotStarted(error)
    }
}

impl Running {
    pub(super) async fn start(
        mut command: Command,
        supervisor: Option<&Supervisor>,
        notes: Option<&Notes>,
    ) -> Result<Running, NotRunning> {
        let mark = Mark::new();
        if let Some(mark) = &mark {
            command.env(VARIABLE, mark.text());
        }
        Ok(match supervisor {
            Some(supervisor) => {
                Running::Supervised(Supervised::start(supervisor, &command, mark, notes).await?)
            }
            None => Running::Alone(Group::start(&mut command, mark, notes)?),
        })
    }

    pub(super) fn pipes(&mut self) -> Pipes {
        match self {
            Running::Supervised(supervised) => supervised.pipes(),
            Running::Alone(group) => group.pipes(),
        }
    }

    /// Returns when the command's own process has ended.
    pub(super) async fn leader_ended(&mut self) {
        match self {
            Running::Supervised(supervised) => supervised.leader_ended().await,
            Running::Alone(group) => group.leader_ended().await,
        }
    }

    /// Sends SIGTERM to the command's process group.
    pub(super) fn terminate(&self) {
        match self {
            Running::Supervised(supervised) => supervised.terminate(),
            Running::Alone(group) => group.signal(Signal::TERM),
        }
    }

    /// Kills whatever is left of the command and of the processes it started. Returns the command's
    /// exit status.
    pub(super) async fn finish(&mut self) -> io::Result<ExitStatus> {
        match self {
            Running::Supervised(supervised) => supervised.finish().await,
            Running::Alone(group) => group.finish().await,
        }
    }
}
