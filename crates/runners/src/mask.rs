//! How secrets are hidden in a text before it is cut.

use std::fmt;
use std::sync::Arc;

/// How many bytes are read beyond a cut, so that a secret that lies across the cut is seen whole.
pub(crate) const BEYOND: usize = 16 << 10;

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

/// The beginning `kept` of the text `read`, without secrets. A secret that lies across the end of `kept` is recognised in
/// `read` alone: from there on the two differ, and nothing more is shown.
pub(crate) fn head(mask: impl Fn(&str) -> String, read: &str, kept: &str) -> String {
    let mut head = mask(kept);
    if read.len() > kept.len() {
        let whole = mask(read);
        let same = head.bytes().zip(whole.bytes()).take_while(|(a, b)| a == b).count();
        head.truncate(head.floor_char_boundary(same));
    }
    head
}

/// As [`head`], for the end of a text.
pub(crate) fn tail(mask: impl Fn(&str) -> String, read: &str, kept: &str) -> String {
    let tail = mask(kept);
    if read.len() <= kept.len() {
        return tail;
    }
    let whole = mask(read);
    let same = tail.bytes().rev().zip(whole.bytes().rev()).take_while(|(a, b)| a == b).count();
    tail[tail.ceil_char_boundary(tail.len() - same)..].to_owned()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_part_of_a_secret_is_left_at_a_cut() {
        let mask = |text: &str| text.replace("secret", "***").replace("c2VjcmV0", "***");
        for (text, shown) in
            [("abcdefghi", "abcdefgh"), ("ab secret", "ab "), ("a secret", "a ***")]
        {
            let kept = &text[..8];
            assert_eq!(head(mask, text, kept), shown);
        }
        assert_eq!(head(mask, "secret secret secret secret", "secret sec"), "*** ");
        assert_eq!(head(mask, "x c2VjcmV0 y", "x c2Vjc"), "x ");
        assert_eq!(head(mask, "äöü secret", "äöü se"), "äöü ");
        assert_eq!(tail(mask, "a secret b", "cret b"), " b");
        assert_eq!(tail(mask, "a secret b", "secret b"), "*** b");
        assert_eq!(tail(mask, "abc", "bc"), "bc");
        assert_eq!(tail(mask, "secretüä", "retüä"), "üä");
    }
}
