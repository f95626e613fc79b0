//! How secrets are hidden in a text before it is cut.

use std::fmt;
use std::sync::Arc;

/// Replaces the secrets in a text. Runners know no secrets, but they shorten what they show: half of a secret is not found
/// by whoever masks the rest later.
#[derive(Clone)]
pub struct Mask(Arc<dyn Fn(&str) -> String + Send + Sync>);

impl Mask {
    /// A mask that does this to a text.
    pub fn new(mask: impl Fn(&str) -> String + Send + Sync + 'static) -> Mask {
        Mask(Arc::new(mask))
    }

    /// The text without secrets.
    pub(crate) fn apply(&self, text: &str) -> String {
        (self.0)(text)
    }
}

/// Hides nothing: there are no secrets.
impl Default for Mask {
    fn default() -> Mask {
        Mask::new(str::to_owned)
    }
}

impl fmt::Debug for Mask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Mask")
    }
}
