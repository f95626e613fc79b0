//! The API of a real node: a server on loopback over SQLite in a temporary folder.

mod harness;
mod node;
