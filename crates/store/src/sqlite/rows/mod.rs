//! From rows to values.

pub(crate) mod decode;
pub(crate) mod topic_rows;
