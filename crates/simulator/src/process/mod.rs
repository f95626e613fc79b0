//! Processes: random definitions, the workers and people they need, and a reference for what must
//! become of each run. The reference is written from the specification, independent of the engine:
//! it reads the definition, the committed rows and the commands, and decides by itself.

pub(crate) mod generate;
mod outside;
pub(crate) mod planted;
pub(crate) mod reference;
pub(crate) mod rows;

pub(crate) use outside::Outside;
pub(crate) use rows::Detail;
