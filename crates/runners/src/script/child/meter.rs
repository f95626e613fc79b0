//! Measures the CPU time of a phase and records why it ended.

use std::cell::RefCell;
use std::time::Duration;

use serde_json::value::RawValue;

use super::super::evaluation::{MutationKind, ScriptFailure};
use super::super::limits::{Limit, ScriptLimits};
use super::confine::cpu_used;

/// The reason why a phase ends before its function returns. A script cannot catch it.
#[derive(Debug)]
pub(super) enum Ending {
    Mutation { kind: MutationKind, request: Box<RawValue> },
    Failed(ScriptFailure),
}

pub(super) struct Meter {
    pub(super) limits: ScriptLimits,
    cpu_end: Duration,
    ending: RefCell<Option<Ending>>,
}

impl Meter {
    pub(super) fn start(limits: &ScriptLimits) -> Meter {
        let cpu_end = cpu_used() + limits.cpu;
        Meter { limits: limits.clone(), cpu_end, ending: RefCell::new(None) }
    }

    /// Whether the script must stop. The interpreter calls this from time to time.
    pub(super) fn must_stop(&self) -> bool {
        if !self.has_ended() && cpu_used() > self.cpu_end {
            let message = cpu_message(self.limits.cpu);
            self.end(Ending::Failed(ScriptFailure::limit(Limit::CpuTime, message)));
        }
        self.has_ended()
    }

    /// Ends the phase. If it has already ended, the first reason stays.
    pub(super) fn end(&self, ending: Ending) {
        self.ending.borrow_mut().get_or_insert(ending);
    }

    pub(super) fn has_ended(&self) -> bool {
        self.ending.borrow().is_some()
    }

    pub(super) fn take_ending(&self) -> Option<Ending> {
        self.ending.borrow_mut().take()
    }
}

/// The message for exceeded CPU time. The child reports it, or the parent if the child could not.
pub(in crate::script) fn cpu_message(cpu: Duration) -> String {
    format!("the script computed for longer than the {cpu:?} of CPU time that a phase may use")
}
