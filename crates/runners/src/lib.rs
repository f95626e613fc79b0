//! Does the work of an attempt: an HTTP request, a command.
#![forbid(unsafe_code)]
