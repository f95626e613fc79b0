//! Secrets of tokens and sign-ins: how they are made, hashed and compared.

use axum::http::StatusCode;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::{Digest as _, Sha256};
use store::SecretHash;

use crate::http::problem::Problem;

/// The prefix of tokens' secrets, so that scanners recognise leaked ones.
pub(super) const PREFIX: &str = "pun_";

/// A secret that callers show, stored as a hash. Our secrets have 256 random bits and cannot be
/// guessed from a hash, so it need not be a slow one.
#[derive(Clone, Copy)]
pub(crate) struct Token(SecretHash);

impl Token {
    pub(crate) fn new(secret: &str) -> Token {
        Token(hash(secret))
    }

    pub(in crate::http) fn hash(self) -> SecretHash {
        self.0
    }

    /// Compares in constant time.
    pub(super) fn is(self, given: &SecretHash) -> bool {
        are_same(&self.0, given)
    }
}

pub(in crate::http) fn hash(secret: &str) -> SecretHash {
    Sha256::digest(secret).into()
}

/// Compares in constant time.
pub(super) fn are_same(one: &[u8], other: &[u8]) -> bool {
    one.len() == other.len()
        && one.iter().zip(other).fold(0, |differs, (a, b)| differs | (a ^ b)) == 0
}

/// 256 random bits as 43 characters.
pub(in crate::http) fn random() -> Result<String, Problem> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(|error| {
        tracing::error!(%error, "the host gives no random bytes");
        let status = StatusCode::INTERNAL_SERVER_ERROR;
        Problem::new(status, "internal", "Internal error", "The host gives no random bytes.")
    })?;
    Ok(URL_SAFE_NO_PAD.encode(bytes))
}

/// The key that forms send back: derived from the cookie, and reveals nothing about it.
pub(super) fn form_key(secret: &str) -> String {
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(secret.as_bytes()) else {
        return String::new();
    };
    mac.update(b"forms");
    mac.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_itself_and_nothing_else() {
        let token = Token::new("secret");
        assert!(token.is(&hash("secret")));
        for other in ["", "Secret", "secret ", "secre", "secrets"] {
            assert!(!token.is(&hash(other)), "{other}");
        }
    }

    #[test]
    fn secrets_differ_and_so_do_their_form_keys() {
        let (one, other) = (random().unwrap(), random().unwrap());
        assert_eq!((one.len(), form_key(&one).len()), (43, 64));
        assert_ne!(one, other);
        assert_eq!(form_key(&one), form_key(&one));
        assert_ne!(form_key(&one), form_key(&other));
        assert!(are_same(b"ab", b"ab") && !are_same(b"ab", b"ac") && !are_same(b"ab", b"abc"));
    }
}
