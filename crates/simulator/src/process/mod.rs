//! Processes: random definitions, the workers and people that they need, and a reference that says what must
//! have become of each run. It is written from the specification, beside the engine: it reads the definition, the
//! committed rows and what was asked, and decides by itself.

pub(crate) mod generate;
mod outside;
pub(crate) mod planted;
pub(crate) mod reference;
pub(crate) mod rows;

pub(crate) use outside::Outside;
pub(crate) use rows::Detail;
