//! The real driver, engine and store in a hostile world under a virtual clock. Development only.
#![forbid(unsafe_code)]
