//! The resources that one phase of a script may use. Only the host sets these limits, never the
//! script.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Log lines up to this length are kept whole.
pub(super) const LINE_BYTES: usize = 8 << 10;
/// Failure messages up to this length are kept whole: enough for a person to read.
pub(super) const MESSAGE_CHARS: usize = 2_000;

/// The host's limits for one phase of a script.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScriptLimits {
    /// Memory for the script's values.
    pub heap_bytes: usize,
    /// Nesting of calls, measured in bytes of the machine's stack.
    pub stack_bytes: usize,
    /// CPU time. Waiting for an answer of the host uses none.
    pub cpu: Duration,
    /// Wall time from beginning to end, including the time spent waiting for answers.
    pub wall: Duration,
    /// Length of the result as JSON text, or of a mutation's request.
    pub result_bytes: usize,
    /// Total length of the log lines that are kept. Further lines are only counted.
    pub log_bytes: usize,
    /// Length of the script's text.
    pub source_bytes: usize,
    /// Number of calls to the host: fetch, peek, getByIds.
    pub calls: u32,
    /// Total length of the texts of all calls.
    pub calls_bytes: usize,
    /// Number of published events; the same limit applies to registered inputs.
    pub events: u32,
    /// Total length of all published events as JSON text.
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
            // Enough to follow what a script did. Larger data belongs in its result.
            log_bytes: 64 << 10,
            // People write scripts by hand, and every phase compiles the text again.
            source_bytes: 1 << 20,
            // One call per page is enough for the longest list that a phase should read.
            calls: 1_000,
            calls_bytes: 4 << 20,
            events: 1_000,
            events_bytes: 1 << 20,
        }
    }
}

/// The limit that ended a phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Limit {
    Memory,
    Stack,
    CpuTime,
    WallTime,
    /// [`ScriptLimits::result_bytes`], or a result nested more deeply than JSON readers accept.
    Result,
    Source,
    Calls,
    Events,
    /// The process that evaluated the script broke down: the operating system ended it, or it sent
    /// a message that cannot be read.
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

/// Formats a number of bytes for people: `16 MiB`, `300 bytes`.
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
