//! What a node and the supervisor of a command say to each other: JSON, a line for each message, on a socket that
//! nobody else has. Before the first line comes one byte with the pipe that is to be the command's standard input.

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

/// From the node. The end of the socket means what `Kill` means: the node is gone, or has given the step up.
#[derive(Serialize, Deserialize)]
pub(super) enum ToSupervisor {
    /// First of all.
    Start(Order),
    /// SIGTERM for the command's process group.
    Terminate,
    /// SIGKILL for the command. Its end is that of all it started.
    Kill,
}

/// From the supervisor.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum FromSupervisor {
    /// The command runs. Without `adopts` the system gives orphans to another process.
    Started { leader: i32, adopts: bool },
    /// The command does not run, and nothing follows.
    NotStarted { os_code: Option<i32>, message: String },
    /// The command has ended, with this wait status. What it left is being killed.
    LeaderEnded { status: i32 },
    /// Nothing of the command is left but this many processes, and nothing follows.
    AllEnded { left: usize },
}

/// A command as the supervisor is to start it. It may hold secrets, so it is not to be shown.
#[derive(Serialize, Deserialize)]
pub(super) struct Order {
    program: OsString,
    args: Vec<OsString>,
    /// All of it.
    env: Vec<(OsString, OsString)>,
    cwd: Option<PathBuf>,
}

impl Order {
    /// Of a command whose environment was cleared before it was filled, and that has no NUL in it.
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

/// A message as a line.
pub(super) fn line(message: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    Ok(line)
}

/// Sends a file descriptor. Never blocks on a socket that nothing was written to yet.
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

/// Receives what [`send_descriptor`] sent; it is closed in programs that are started later.
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
