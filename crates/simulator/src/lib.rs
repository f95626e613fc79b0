//! The real driver, engine and store in a hostile world under a virtual clock. Development only.
//!
//! [`simulate`] lives through one world: everything in it follows from its seed, so that what fails
//! once fails again. After each commit the stored rows are held against a model that was
//! written from the specification.
//!
//! | part | where |
//! |---|---|
//! | what is declared and asked for | `world`, `commands`, `calendars` |
//! | duties in the background | `upkeep` |
//! | work that hangs, fails, and answers twice | `work` |
//! | commits that fail, crashes, clocks that jump | `faults`, `trouble` |
//! | random processes, and what must have become of them | `process` |
//! | topics, producers, consumers, and what they do to the outside world | `handlers` |
//! | runs that end in the decision that starts them, by the thousand | `bursts` |
//! | what must be | `model` |
//! | planted bugs, to see that they are found | `sabotage` |
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
