//! What was kept long enough goes.

use jiff::{SignedDuration, Timestamp};

use super::core::Core;
use crate::failure::Failure;
use crate::request::Expired;

impl Core {
    pub(super) fn expire(
        &mut self,
        _: Timestamp,
        _: SignedDuration,
        _: usize,
    ) -> Result<Expired, Failure> {
        Err(Failure::Unavailable("not there yet".to_owned()))
    }
}
