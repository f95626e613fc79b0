//! What one phase of a script may use. All of it is the host's to say, never the script's.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The longest line of a log that is kept whole.
pub(super) const LINE_BYTES: usize = 8 << 10;
/// The longest message of a failure that is kept whole: enough for a person.
pub(super) const MESSAGE_CHARS: usize = 2_000;

/// The host's limits for one phase.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScriptLimits {
    /// Memory of the script's values.
    pub heap_bytes: usize,
    /// Nesting of calls, counted in bytes of the machine's stack.
    pub stack_bytes: usize,
    /// Computing. Waiting for an answer costs none.
    pub cpu: Duration,
    /// From beginning to end, waiting for answers included.
    pub wall: Duration,
    /// The result as JSON text; the same for a mutation's request.
    pub result_bytes: usize,
    /// Lines of the log that are kept; what is beyond is counted.
    pub log_bytes: usize,
    /// The script's text.
    pub source_bytes: usize,
    /// Questions to the host: fetch, peek, getByIds.
    pub calls: u32,
    /// All questions together, as text.
    pub calls_bytes: usize,
    /// Published events, and as many registered inputs.
    pub events: u32,
    /// All published events together, as JSON text.
    pub events_bytes: usize,
}

impl Default for ScriptLimits {
    fn default() -> ScriptLimits {
        ScriptLimits {
            heap_bytes: 16 << 20,
            stack_bytes: 512 << 10,
            cpu: Duration::from_secs(5),
            wall: Duration::from_secs(300),
            result_bytes: 256 << 10,
            // Enough to follow what a script did; more belongs into its result.
            log_bytes: 64 << 10,
            // Written by people, and compiled again in each phase.
            source_bytes: 1 << 20,
            // A page of a list each, for the longest lists that one phase should read.
            calls: 1_000,
            calls_bytes: 4 << 20,
            events: 1_000,
            events_bytes: 1 << 20,
        }
    }
}

/// Which limit ended a phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Limit {
    /// [`ScriptLimits::heap_bytes`].
    Memory,
    /// [`ScriptLimits::stack_bytes`].
    Stack,
    /// [`ScriptLimits::cpu`].
    CpuTime,
    /// [`ScriptLimits::wall`].
    WallTime,
    /// [`ScriptLimits::result_bytes`], or nesting that no JSON reader follows.
    Result,
    /// [`ScriptLimits::source_bytes`].
    Source,
    /// [`ScriptLimits::calls`] or [`ScriptLimits::calls_bytes`].
    Calls,
    /// [`ScriptLimits::events`] or [`ScriptLimits::events_bytes`].
    Events,
    /// The process that evaluated the script broke down: the operating system ended it, or it
    /// answered what cannot be read.
    Process,
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Limit::Memory => "memory",
            Limit::Stack => "stack",
            Limit::CpuTime => "CPU time",
            Limit::WallTime => "wall time",
            Limit::Result => "result",
            Limit::Source => "source",
            Limit::Calls => "calls",
            Limit::Events => "events",
            Limit::Process => "process",
        })
    }
}

/// An amount as people read it: `16 MiB`, `300 bytes`.
pub(super) fn bytes(count: usize) -> String {
    const KIB: usize = 1 << 10;
    const MIB: usize = 1 << 20;
    match count {
        0 => "0 bytes".to_owned(),
        _ if count.is_multiple_of(MIB) => format!("{} MiB", count / MIB),
        _ if count.is_multiple_of(KIB) => format!("{} KiB", count / KIB),
        _ => format!("{count} bytes"),
    }
}
