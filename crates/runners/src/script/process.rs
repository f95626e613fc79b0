//! A child process that evaluates scripts, as seen by its parent.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::Signal;
use serde::Serialize;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use super::ScriptHost;
use super::child::cpu_message;
use super::confinement::Confinement;
use super::evaluation::ScriptFailure;
use super::limits::Limit;
use super::wire::{self, FromChild, HEAD, ToChild};

/// Timeout of a child's start: far more than a start takes on a machine that still works.
const START: Duration = Duration::from_secs(30);
/// Timeout for a child to accept a phase: far more than the handover takes.
const TAKE: Duration = Duration::from_secs(30);
/// How long a child that has closed its pipe may take to exit.
const LEAVE: Duration = Duration::from_secs(5);
/// Allowance for a message in addition to the texts that the limits allow.
const OWN_BYTES: usize = 1 << 20;

/// The capacity that the read buffer keeps after a long message.
const KEPT: usize = 64 << 10;

/// A running child. Dropping the value kills the process.
pub(super) struct Process {
    child: Child,
    pub(super) to: Outbox,
    pub(super) from: Inbox,
    /// Whether the child has sent `Ready` since its last phase.
    is_ready: bool,
    /// The confinement that the child reported.
    pub(super) confinement: Confinement,
}

/// Messages to a child.
pub(super) struct Outbox(ChildStdin);

/// Messages from a child.
pub(super) struct Inbox {
    pipe: ChildStdout,
    read: Vec<u8>,
    longest: usize,
}

/// Why a child sends no further usable messages.
#[derive(Debug)]
pub(super) enum Lost {
    /// The child closed its end of the pipe.
    Ended,
    /// The child sent a message that cannot be read or is not allowed.
    Nonsense(String),
}

impl Process {
    /// Starts a child and waits until it is ready.
    pub(super) async fn start(host: &ScriptHost) -> Result<Process, ScriptFailure> {
        let unavailable = |why: String| ScriptFailure::Unavailable {
            message: format!("`{}` {why}", host.program.display()),
        };
        let mut process =
            Process::spawn(host).map_err(|error| unavailable(format!("did not start: {error}")))?;
        let limits = ToChild::Limits(host.limits.clone());
        let greeting = async {
            // A child that does not read may still have sent a message that explains why.
            let _ = process.to.send(&limits).await;
            process.confinement = match process.from.next().await? {
                FromChild::Confined(confinement) => confinement,
                _ => return Err(Lost::Nonsense("it is not confined".to_owned())),
            };
            process.ready().await
        };
        match tokio::time::timeout(START, greeting).await {
            Ok(Ok(())) => Ok(process),
            Ok(Err(Lost::Ended)) => Err(unavailable("ended at once".to_owned())),
            Ok(Err(Lost::Nonsense(why))) => {
                Err(unavailable(format!("does not evaluate scripts: {why}")))
            }
            Err(_) => Err(unavailable(format!("was not ready within {START:?}"))),
        }
    }

    fn spawn(host: &ScriptHost) -> io::Result<Process> {
        let mut child = Command::new(&host.program)
            .args(&host.args)
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()?;
        let (Some(to), Some(pipe)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(io::Error::other("it has no pipes"));
        };
        let limits = &host.limits;
        // JSON escapes may turn one byte of a text into six.
        let longest = limits
            .result_bytes
            .saturating_add(limits.events_bytes)
            .saturating_add(limits.log_bytes)
            .saturating_mul(6)
            .saturating_add(OWN_BYTES);
        Ok(Process {
            child,
            to: Outbox(to),
            from: Inbox { pipe, read: Vec::new(), longest },
            is_ready: false,
            confinement: Confinement::default(),
        })
    }

    /// Waits until the child can take a phase.
    async fn ready(&mut self) -> Result<(), Lost> {
        if !self.is_ready {
            match self.from.next().await? {
                FromChild::Ready => self.is_ready = true,
                _ => return Err(Lost::Nonsense("it is not ready".to_owned())),
            }
        }
        Ok(())
    }

    /// Sends a phase to the child and waits until the child has accepted it. The phase then begins
    /// at once.
    pub(super) async fn take(&mut self, request: &ToChild) -> Result<(), Lost> {
        let taking = async {
            self.ready().await?;
            self.is_ready = false;
            self.to.send(request).await.map_err(|_| Lost::Ended)?;
            match self.from.next().await? {
                FromChild::Taken => Ok(()),
                _ => Err(Lost::Nonsense("it has not taken the phase".to_owned())),
            }
        };
        tokio::time::timeout(TAKE, taking).await.unwrap_or(Err(Lost::Ended))
    }

    /// Finds out why a child was lost and ends it. The failure names the limit that the script
    /// broke.
    pub(super) async fn autopsy(mut self, host: &ScriptHost, lost: Lost) -> ScriptFailure {
        let why = match lost {
            Lost::Nonsense(why) => format!("it answered nonsense: {why}"),
            Lost::Ended => match tokio::time::timeout(LEAVE, self.child.wait()).await {
                Ok(Ok(status)) if is_by(status, Signal::XCPU) => {
                    let message = cpu_message(host.limits.cpu);
                    return ScriptFailure::limit(Limit::CpuTime, message);
                }
                Ok(Ok(status)) => match status.signal() {
                    Some(signal) => format!("signal {signal}"),
                    None => status.to_string(),
                },
                Ok(Err(error)) => error.to_string(),
                Err(_) => "it went silent".to_owned(),
            },
        };
        let message = format!(
            "the process that evaluated the script broke down ({why}): the script asked too much \
             of it"
        );
        ScriptFailure::limit(Limit::Process, message)
    }
}

fn is_by(status: ExitStatus, signal: Signal) -> bool {
    status.signal() == Some(signal.as_raw())
}

impl Outbox {
    pub(super) async fn send(&mut self, message: &impl Serialize) -> io::Result<()> {
        self.0.write_all(&wire::framed(message)?).await
    }
}

impl Inbox {
    /// Returns the next message. Dropping the future loses no bytes.
    pub(super) async fn next(&mut self) -> Result<FromChild, Lost> {
        loop {
            if let Some(message) = self.take()? {
                return Ok(message);
            }
            match self.pipe.read_buf(&mut self.read).await {
                Ok(1..) => {}
                Ok(0) | Err(_) => return Err(Lost::Ended),
            }
        }
    }

    /// Removes the next message from the buffer, if all of it has been read.
    fn take(&mut self) -> Result<Option<FromChild>, Lost> {
        let Some(head) = self.read.first_chunk::<HEAD>() else { return Ok(None) };
        let length = wire::length(*head);
        if length > self.longest {
            return Err(Lost::Nonsense(format!("a message of {length} bytes")));
        }
        let Some(body) = self.read.get(HEAD..HEAD + length) else { return Ok(None) };
        let message =
            serde_json::from_slice(body).map_err(|error| Lost::Nonsense(error.to_string()));
        self.read.drain(..HEAD + length);
        self.read.shrink_to(KEPT);
        message.map(Some)
    }
}
