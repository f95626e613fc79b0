//! Topics, producers and consumers: random definitions, phases that succeed, fail and are lost, an
//! outside world that records what was really done to it, and people who publish, skip and start
//! things.

pub(crate) mod generate;
pub(crate) mod people;
pub(crate) mod phases;
pub(crate) mod planted;
pub(crate) mod rows;
