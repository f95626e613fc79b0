//! Signals that end a node or a worker.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Exit code after a second signal: the one that shells report for Ctrl-C.
const INTERRUPTED: i32 = 130;

/// The signals that end a node: Ctrl-C and SIGTERM.
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    /// A file has reached the limit that the system sets for it (`ulimit -f`). With a handler, such
    /// a write fails like one on a full disk, instead of ending the process.
    _file_size: Signal,
}

impl Signals {
    /// Installs the handlers. From now on these signals no longer end the process by themselves.
    pub(crate) fn new() -> io::Result<Signals> {
        Ok(Signals {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            _file_size: signal(SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw()))?,
        })
    }

    /// Waits for the next signal and returns its name.
    pub(crate) async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.interrupt.recv() => "SIGINT",
            _ = self.terminate.recv() => "SIGTERM",
        }
    }

    /// Lets the next signal end the process at once.
    pub(crate) fn force(mut self) {
        tokio::spawn(async move {
            let name = self.next().await;
            tracing::warn!("{name} again: stopped at once; what went on will be taken over");
            std::process::exit(INTERRUPTED);
        });
    }
}
