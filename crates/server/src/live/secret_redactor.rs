//! Turns the bytes of a stream into text that may be shown. A secret that arrives in pieces is
//! masked too.

use crate::secrets::{Secrets, columns_after};

/// The redactor of one output stream of an attempt.
#[derive(Debug, Default)]
pub(super) struct SecretRedactor {
    /// An incomplete UTF-8 sequence at the end of the bytes so far.
    cut: Vec<u8>,
    /// Text held back because it may be the beginning of a secret.
    held: String,
    /// How many characters precede `held` on its line since the last space.
    columns: usize,
}

impl SecretRedactor {
    /// Takes the next bytes and returns the text that may be shown now.
    pub(super) fn pass(&mut self, bytes: &[u8], secrets: &Secrets) -> String {
        self.decode(bytes);
        let settled = secrets.settled(&self.held, self.columns);
        let shown = secrets.mask_after(&self.held[..settled], self.columns).into_owned();
        self.columns = columns_after(&self.held[..settled], self.columns);
        self.held.drain(..settled);
        shown
    }

    /// Returns the held text, masked, at the end of the stream.
    pub(super) fn rest(&mut self, secrets: &Secrets) -> String {
        self.held.push_str(&String::from_utf8_lossy(&std::mem::take(&mut self.cut)));
        let rest = std::mem::take(&mut self.held);
        secrets.mask_after(&rest, self.columns).into_owned()
    }

    fn decode(&mut self, bytes: &[u8]) {
        self.cut.extend_from_slice(bytes);
        let mut whole = self.cut.len();
        if let Some(last) = self.cut.utf8_chunks().last()
            && std::str::from_utf8(last.invalid()).is_err_and(|error| error.error_len().is_none())
        {
            whole -= last.invalid().len();
        }
        self.held.push_str(&String::from_utf8_lossy(&self.cut[..whole]));
        self.cut.drain(..whole);
    }
}
