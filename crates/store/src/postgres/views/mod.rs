//! What the views of runs need from this store.

pub(crate) mod runs;
