//! A text becomes a tree of values with their positions. So does what a script describes.

pub(super) mod described;
mod flaw;
mod literal;
pub(super) mod number;
mod path;
mod quoting;
mod script_texts;
mod source;
pub(super) mod tree;

pub use flaw::Flaw;
pub(super) use path::{follow, join, join_index};
pub use script_texts::{ScriptText, described_script_texts, script_texts};
pub(super) use source::{Source, Span};
pub use tree::cut;
pub(super) use tree::{Entry, Kind, Misplaced, Node};
