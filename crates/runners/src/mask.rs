//! Masks secrets in a text before the text is cut.

use std::fmt;
use std::sync::Arc;

/// How many bytes past a cut are read, so that a secret that lies across the cut is seen whole.
pub(crate) const BEYOND: usize = 16 << 10;

/// Replaces the secrets in a text. Runners do not know the secrets, but they cut texts, and whoever
/// masks a text after the cut would not recognize half of a secret.
#[derive(Clone)]
pub struct Mask(Arc<dyn Fn(&str) -> String + Send + Sync>);

impl Mask {
    /// A mask that applies this function to a text.
    pub fn new(mask: impl Fn(&str) -> String + Send + Sync + 'static) -> Mask {
        Mask(Arc::new(mask))
    }

    /// Returns the text with its secrets masked.
    pub(crate) fn apply(&self, text: &str) -> String {
        (self.0)(text)
    }
}

/// Masks the beginning `kept` of the text `read`. A secret that lies across the end of `kept` is
/// recognised only in `read`; the two masked texts differ from there on, and the result ends before
/// that position.
pub(crate) fn head(mask: impl Fn(&str) -> String, read: &str, kept: &str) -> String {
    let mut head = mask(kept);
    if read != kept {
        let whole = mask(read);
        let same = head.bytes().zip(whole.bytes()).take_while(|(a, b)| a == b).count();
        head.truncate(head.floor_char_boundary(same));
    }
    head
}

/// Like [`head`], for the end of a text.
pub(crate) fn tail(mask: impl Fn(&str) -> String, read: &str, kept: &str) -> String {
    let tail = mask(kept);
    if read == kept {
        return tail;
    }
    let whole = mask(read);
    let same = tail.bytes().rev().zip(whole.bytes().rev()).take_while(|(a, b)| a == b).count();
    tail[tail.ceil_char_boundary(tail.len() - same)..].to_owned()
}

/// A mask that changes nothing, for use without secrets.
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
        // A cut in the middle of a character makes the kept text longer than what was read.
        let mask = |text: &str| text.replace("ä1234567", "***");
        assert_eq!(tail(mask, "ä1234567x", "\u{fffd}1234567x"), "x");
        assert_eq!(head(mask, "xä1234567", "xä123456\u{fffd}\u{fffd}"), "x");
    }
}
