//! The file, its writer and its readers.

pub(crate) mod checkpoint;
pub(crate) mod file;
pub(crate) mod query;
pub(crate) mod readers;
pub(crate) mod writer;
