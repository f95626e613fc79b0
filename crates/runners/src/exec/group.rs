//! A command without a supervisor, together with all processes it starts. They form one process
//! group, which is killed as a whole. Processes that left the group are found by their mark.

use std::io;
use std::process::ExitStatus;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use tokio::process::{Child, Command};
use tokio::signal::unix::{self, SignalKind};

use super::Pipes;
use super::escaped::Mark;
use super::orphans::{Note, Notes};

/// A running process group. Dropping it kills the group.
pub(super) struct Group {
    leader: Child,
    /// The group's id while it may be signalled: from the start until the leader is reaped.
    /// Afterwards the number may be given to another group.
    id: Option<Pid>,
    children: unix::Signal,
    note: Option<Note>,
    /// The mark of the command, by which processes that left the group are found.
    mark: Option<Mark>,
}

impl Group {
    pub(super) fn start(
        command: &mut Command,
        mark: Option<Mark>,
        notes: Option<&Notes>,
    ) -> io::Result<Group> {
        // The signal handler is installed before the child exists, so that no exit is missed.
        let children = unix::signal(SignalKind::child())?;
        let leader = command.process_group(0).kill_on_drop(true).spawn()?;
        let id = leader.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        let note = id.zip(notes).and_then(|(id, notes)| notes.note(id));
        Ok(Group { leader, id, children, note, mark })
    }

    pub(super) fn pipes(&mut self) -> Pipes {
        Pipes {
            stdin: self.leader.stdin.take(),
            stdout: self.leader.stdout.take(),
            stderr: self.leader.stderr.take(),
        }
    }

    /// Returns when the leader has ended. The leader is not reaped yet: as a zombie it keeps the
    /// group's id reserved until [`finish`](Group::finish).
    pub(super) async fn leader_ended(&mut self) {
        let Some(id) = self.id else { return };
        while !is_zombie(id) {
            self.children.recv().await;
        }
    }

    /// Sends a signal to every process of the group. It is no error if the group is empty.
    pub(super) fn signal(&self, signal: Signal) {
        if let Some(id) = self.id {
            let _ = kill_process_group(id, signal);
        }
    }

    /// Kills the processes left in the group and those that left it, then reaps the leader.
    pub(super) async fn finish(&mut self) -> io::Result<ExitStatus> {
        self.signal(Signal::KILL);
        let status = self.leader.wait().await;
        self.id = None;
        if let Some(mark) = self.mark.clone() {
            // The search reads the environment of every process of the machine, so it runs on a
            // blocking thread.
            let _ = tokio::task::spawn_blocking(move || mark.end_all()).await;
            self.mark = None;
        }
        self.note = None;
        status
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
        if let Some(mark) = self.mark.take() {
            mark.end_all();
        }
    }
}

/// Whether a child has ended and waits to be reaped. A child that cannot be queried counts as
/// ended.
pub(super) fn is_zombie(child: Pid) -> bool {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    !matches!(waitid(WaitId::Pid(child), options), Ok(None))
}
