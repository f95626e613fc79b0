//! The truth: what is stored, and the one transaction that changes it.
#![forbid(unsafe_code)]
