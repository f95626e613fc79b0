//! What the views of runs need from this store, and tests of what views cost.

#[cfg(test)]
pub(crate) mod counted;
#[cfg(test)]
pub(crate) mod crowded;
#[cfg(test)]
pub(crate) mod history;
pub(crate) mod runs;
