//! Evaluates untrusted JavaScript in child processes, phase by phase.
//!
//! [`Scripts`] keeps a few children. Before a child sees a script, it gives up access to files, to
//! other processes and to most of its memory ([`child`]). It evaluates one phase at a time, each in
//! a new interpreter. The child measures CPU time, memory and nesting itself, because it can report
//! best which limit was broken; the operating system or the parent kills a child that does not
//! stop. A script calls its host through a [`ScriptWorld`]. Changes that a script asks for are only
//! collected.

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

/// TypeScript definitions of everything that a script can use.
pub const TYPES: &str = include_str!("punctual.d.ts");
