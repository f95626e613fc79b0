//! The real driver, engine and store in a hostile world under a virtual clock. Development only.
//!
//! [`simulate`] runs one world, on either store. Everything in it follows from its seed, so that a
//! failure can be repeated; [`simulate_shared`] gives that up for transactions that overlap. After
//! each commit the stored rows are compared with a model that was written from the specification.
//!
//! | part | where |
//! |---|---|
//! | declarations and commands | `world`, `commands`, `calendars` |
//! | background duties | `background_duties` |
//! | work that hangs, fails, and answers twice | `work` |
//! | commits that fail, crashes, clocks that jump | `faulty_store`, `node_faults` |
//! | random processes, and a reference for their outcome | `process` |
//! | topics, producers, consumers, and what they do to the outside world | `handlers` |
//! | PostgreSQL: a log of changed rows, and a copy to check | `postgres` |
//! | nodes that share a PostgreSQL, with transactions that overlap | `shared` |
//! | thousands of runs that end in the decision that starts them | `bursts` |
//! | the model | `model` |
//! | planted bugs, which the checkers must find | `sabotage` |
#![forbid(unsafe_code)]

mod background_duties;
mod bursts;
mod calendars;
mod clock;
mod commands;
mod faulty_store;
mod handlers;
mod model;
mod node;
mod node_faults;
mod observe;
mod postgres;
mod process;
mod random;
mod sabotage;
mod shared;
mod simulation;
mod trace;
mod wait;
mod watch;
mod work;
mod world;

pub use bursts::burst;
pub use model::Violation;
pub use node::StoreKind;
pub use sabotage::Sabotage;
pub use shared::{SharedOptions, simulate_shared};
pub use simulation::{Failed, Options, Summary, simulate};
pub use world::Rhythm;
