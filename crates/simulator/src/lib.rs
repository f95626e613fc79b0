//! The real driver, engine and store in a hostile world under a virtual clock. Development only.
//!
//! [`simulate`] runs one world. Everything in it follows from its seed, so that a failure can be
//! repeated. After each commit the stored rows are compared with a model that was written from the
//! specification.
//!
//! | part | where |
//! |---|---|
//! | declarations and commands | `world`, `commands`, `calendars` |
//! | background duties | `upkeep` |
//! | work that hangs, fails, and answers twice | `work` |
//! | commits that fail, crashes, clocks that jump | `faults`, `trouble` |
//! | random processes, and a reference for their outcome | `process` |
//! | topics, producers, consumers, and what they do to the outside world | `handlers` |
//! | thousands of runs that end in the decision that starts them | `bursts` |
//! | the model | `model` |
//! | planted bugs, which the checkers must find | `sabotage` |
#![forbid(unsafe_code)]

mod bursts;
mod calendars;
mod clock;
mod commands;
mod faults;
mod handlers;
mod model;
mod node;
mod observe;
mod process;
mod random;
mod sabotage;
mod simulation;
mod trace;
mod trouble;
mod upkeep;
mod watch;
mod work;
mod world;

pub use bursts::burst;
pub use model::Violation;
pub use sabotage::Sabotage;
pub use simulation::{Failed, Options, Summary, simulate};
pub use world::Rhythm;
