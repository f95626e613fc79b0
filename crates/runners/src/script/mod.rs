//! Untrusted scripts: JavaScript that is evaluated in child processes, phase by phase.
//!
//! [`Scripts`] keeps a few children. Each has given up files, other processes and most of its
//! memory before it sees a script ([`child`]), and evaluates one phase at a time in an interpreter
//! of its own. It measures CPU time, memory and nesting itself, where it can tell well what was
//! too much; what it cannot stop, the operating system or the parent does, by ending it. What a
//! script may ask of the world is a [`ScriptWorld`]; what it wants to change is only collected.

mod child;
mod confinement;
mod evaluation;
mod exchange;
mod limits;
mod pool;
mod process;
mod seats;
mod wire;
mod world;

pub use child::child;
pub use confinement::Confinement;
pub use evaluation::{
    Entry, Evaluated, Evaluation, Failed, Log, Mutation, MutationKind, Permits, Published,
    RegisteredInput, STEP_ARGUMENTS, ScriptFailure,
};
pub use limits::{Limit, ScriptLimits};
pub use pool::{ScriptHost, Scripts};
pub use world::{FetchAnswer, FetchRequest, ScriptWorld, WorldFailure};

/// TypeScript definitions of everything that a script sees.
pub const TYPES: &str = include_str!("punctual.d.ts");
