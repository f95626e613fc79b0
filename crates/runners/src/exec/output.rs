//! Captures the output of a command: its beginning up to a limit, its last lines, and its total
//! length.

use crate::mask::{self, BEYOND, Mask};
use tokio::io::{AsyncRead, AsyncReadExt};

/// Enough for the last lines of an error message.
const TAIL_BYTES: usize = 2048;
const TAIL_LINES: usize = 5;

/// The output read from one pipe.
#[derive(Debug)]
pub(super) struct Captured {
    limit: usize,
    /// The beginning, and up to [`BEYOND`] bytes past the limit, in which a secret that the limit
    /// cuts may end.
    head: Vec<u8>,
    /// The end, and a few bytes before it, in which a secret may begin.
    tail: Vec<u8>,
    total: u64,
}

impl Captured {
    pub(super) fn new(limit: u64) -> Captured {
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        Captured { limit, head: Vec::new(), tail: Vec::new(), total: 0 }
    }

    /// Reads to the end, even past the limit: a command whose pipe is full would block for ever.
    pub(super) async fn read_from(
        &mut self,
        pipe: Option<impl AsyncRead + Unpin>,
        hear: impl Fn(&[u8]),
    ) {
        let Some(mut pipe) = pipe else { return };
        let mut buffer = vec![0; 64 * 1024];
        // A read error counts as the end of the pipe.
        while let Ok(count @ 1..) = pipe.read(&mut buffer).await {
            self.take(&buffer[..count]);
            hear(&buffer[..count]);
        }
    }

    fn take(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        let room = self.limit.saturating_add(BEYOND) - self.head.len();
        self.head.extend_from_slice(&bytes[..bytes.len().min(room)]);
        let most = TAIL_BYTES + BEYOND;
        self.tail.extend_from_slice(&bytes[bytes.len().saturating_sub(most)..]);
        let surplus = self.tail.len().saturating_sub(most);
        self.tail.drain(..surplus);
    }

    /// The number of bytes that were written, including those that were discarded.
    pub(super) fn total(&self) -> u64 {
        self.total
    }

    pub(super) fn is_truncated(&self) -> bool {
        self.total > self.limit as u64
    }

    /// The text that was kept, without a character or secret that the limit cut in two. Text within
    /// the limit is not masked here: it may be JSON, whose values are masked one by one.
    pub(super) fn text(&self, mask: &Mask) -> String {
        let read = String::from_utf8_lossy(&self.head);
        if !self.is_truncated() {
            return read.into_owned();
        }
        let kept = &self.head[..self.limit];
        let whole = match std::str::from_utf8(kept) {
            Err(error) if error.error_len().is_none() => &kept[..error.valid_up_to()],
            _ => kept,
        };
        mask::head(|text| mask.apply(text), &read, &String::from_utf8_lossy(whole))
    }

    /// The last lines of the output, even if the middle was discarded.
    pub(super) fn last_lines(&self, mask: &Mask) -> String {
        let kept = &self.tail[self.tail.len().saturating_sub(TAIL_BYTES)..];
        let (read, kept) = (String::from_utf8_lossy(&self.tail), String::from_utf8_lossy(kept));
        let text = mask::tail(|text| mask.apply(text), &read, &kept);
        let lines: Vec<_> = text.trim_end().lines().collect();
        lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn captured(limit: u64, pieces: &[&str]) -> Captured {
        let mut captured = Captured::new(limit);
        pieces.iter().for_each(|piece| captured.take(piece.as_bytes()));
        captured
    }

    #[test]
    fn the_head_is_kept_up_to_the_limit() {
        for (limit, pieces, text, truncated) in [
            (3, &["ab", "c"] as &[_], "abc", false),
            (3, &["ab", "cd"], "abc", true),
            (0, &["a"], "", true),
            (0, &[], "", false),
            (4, &["aéé"], "aé", true),
            (5, &["aéé"], "aéé", false),
        ] {
            let captured = captured(limit, pieces);
            assert_eq!(
                (captured.text(&Mask::default()).as_str(), captured.is_truncated()),
                (text, truncated)
            );
        }
    }

    #[test]
    fn the_last_lines_are_known_however_much_was_written() {
        let long = "x".repeat(10_000);
        let captured = captured(1, &[&long, "\n1\n2\n3\n4\n5\n6\n", "\n"]);
        assert_eq!(captured.last_lines(&Mask::default()), "2\n3\n4\n5\n6");
        assert_eq!(captured.total(), 10_014);
    }
}
