//! Messages between a node and the supervisor of a command: JSON lines on a socket that no other
//! process has. One byte comes before the first line; it carries the pipe that becomes the
//! command's standard input.

use std::ffi::{OsStr, OsString};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::process::Command;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use serde::{Deserialize, Serialize};

/// The exit code of a supervisor that failed before it tried to start the command.
pub(super) const BEFORE_START: u8 = 69;

/// Messages from the node. The end of the connection means the same as `Kill`: the node has ended,
/// or has given up the step.
#[derive(Serialize, Deserialize)]
pub(super) enum ToSupervisor {
    Start(Order),
    /// Send SIGTERM to the command's process group.
    Terminate,
    /// Send SIGKILL to the command. When it has ended, so does everything it started.
    Kill,
}

/// Messages from the supervisor.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum FromSupervisor {
    /// The command runs. If `adopts` is false, orphans become children of another process.
    Started { leader: i32, adopts: bool },
    /// The command could not be started. This is the last message.
    NotStarted { os_code: Option<i32>, message: String },
    /// The command has ended with this wait status. The supervisor now kills the processes it left.
    LeaderEnded { status: i32 },
    /// All processes of the command have ended but `left`, which could not be killed. This is the
    /// last message.
    AllEnded { left: usize },
}

/// A command that the supervisor is to start. It may contain secrets, so it does not implement
/// `Debug`.
#[derive(Serialize, Deserialize)]
pub(super) struct Order {
    program: OsString,
    args: Vec<OsString>,
    /// The whole environment; nothing is inherited.
    env: Vec<(OsString, OsString)>,
    cwd: Option<PathBuf>,
}

impl Order {
    /// Describes a command whose environment was cleared before it was filled, and that contains no
    /// NUL.
    pub(super) fn of(command: &Command) -> Order {
        let variable =
            |(name, value): (&OsStr, Option<&OsStr>)| Some((name.to_owned(), value?.to_owned()));
        Order {
            program: command.get_program().to_owned(),
            args: command.get_args().map(OsStr::to_owned).collect(),
            env: command.get_envs().filter_map(variable).collect(),
            cwd: command.get_current_dir().map(PathBuf::from),
        }
    }

    pub(super) fn command(self) -> Command {
        let mut command = Command::new(self.program);
        command.args(self.args).env_clear().envs(self.env);
        if let Some(cwd) = self.cwd {
            command.current_dir(cwd);
        }
        command
    }
}

/// Serializes a message as one line.
pub(super) fn line(message: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    Ok(line)
}

/// Sends a file descriptor. This never blocks on a socket that nothing was written to yet.
pub(super) fn send_descriptor(socket: impl AsFd, descriptor: impl AsFd) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let descriptors = [descriptor.as_fd()];
    if !control.push(SendAncillaryMessage::ScmRights(&descriptors)) {
        return Err(io::Error::other("the descriptor does not fit into its message"));
    }
    sendmsg(socket, &[IoSlice::new(&[0])], &mut control, SendFlags::empty())?;
    Ok(())
}

/// Receives the file descriptor that [`send_descriptor`] sent. Programs that are started later do
/// not inherit it.
pub(super) fn receive_descriptor(socket: impl AsFd) -> io::Result<OwnedFd> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    recvmsg(socket, &mut [IoSliceMut::new(&mut byte)], &mut control, RecvFlags::CMSG_CLOEXEC)?;
    let descriptor = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    });
    descriptor.ok_or_else(|| io::Error::other("no descriptor came"))
}
