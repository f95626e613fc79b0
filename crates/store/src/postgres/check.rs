//! What is wrong with what is stored.

use jiff::Timestamp;

use super::core::Core;
use crate::failure::Failure;
use crate::view::Finding;

impl Core {
    pub(super) fn check(&mut self, _: Timestamp, _: bool) -> Result<Vec<Finding>, Failure> {
        Err(Failure::Unavailable("not there yet".to_owned()))
    }
}
