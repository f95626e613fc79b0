//! Signs and verifies webhooks by the symmetric scheme of Standard Webhooks.

use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

/// The prefix of secrets.
const PREFIX: &str = "whsec_";
/// The prefix of signatures of this scheme.
const SCHEME: &str = "v1,";
/// The standard's limits: fewer bytes can be guessed, and more bytes add no security.
const KEY_BYTES: std::ops::RangeInclusive<usize> = 24..=64;

/// A secret that webhooks are signed with, written as `whsec_` and base64 of 24 to 64 bytes.
#[derive(Clone)]
pub struct WebhookKey(Hmac<Sha256>);

/// Why a text is not a valid webhook secret. The error does not contain the text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}; make one with: echo whsec_$(openssl rand -base64 32)")]
pub struct WebhookKeyError(String);

impl FromStr for WebhookKey {
    type Err = WebhookKeyError;

    fn from_str(text: &str) -> Result<WebhookKey, WebhookKeyError> {
        let refused = |why: &str| WebhookKeyError(why.to_owned());
        let encoded = text
            .strip_prefix(PREFIX)
            .ok_or_else(|| refused("a secret for webhooks begins with `whsec_`"))?;
        let bytes = STANDARD
            .decode(encoded)
            .map_err(|_| refused("what follows `whsec_` is not base64 with its padding"))?;
        if !KEY_BYTES.contains(&bytes.len()) {
            let (least, most) = (KEY_BYTES.start(), KEY_BYTES.end());
            let found = bytes.len();
            return Err(refused(&format!(
                "a secret for webhooks has {least} to {most} bytes, not {found}"
            )));
        }
        let keyed = Hmac::new_from_slice(&bytes);
        keyed.map(WebhookKey).map_err(|_| refused("the secret cannot be used as a key"))
    }
}

/// The text for logs leaves out the secret.
impl fmt::Debug for WebhookKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WebhookKey(***)")
    }
}

impl WebhookKey {
    /// The signature as sent in the header `webhook-signature`. `timestamp` is in seconds.
    pub fn sign(&self, id: &str, timestamp: i64, body: &[u8]) -> String {
        let signature = self.over(id, timestamp, body).finalize().into_bytes();
        format!("{SCHEME}{}", STANDARD.encode(signature))
    }

    /// Whether a signature from the header was made with this key. The comparison takes constant
    /// time.
    pub fn has_signed(&self, id: &str, timestamp: i64, body: &[u8], signature: &str) -> bool {
        let encoded = signature.strip_prefix(SCHEME);
        let decoded = encoded.and_then(|encoded| STANDARD.decode(encoded).ok());
        decoded.is_some_and(|bytes| self.over(id, timestamp, body).verify_slice(&bytes).is_ok())
    }

    fn over(&self, id: &str, timestamp: i64, body: &[u8]) -> Hmac<Sha256> {
        let mut signing = self.0.clone();
        for part in [id.as_bytes(), b".", timestamp.to_string().as_bytes(), b".", body] {
            signing.update(part);
        }
        signing
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    const ID: &str = "msg_p5jXN8AQM9LWM0D4loKWxJek";
    const AT: i64 = 1_614_265_330;
    const BODY: &[u8] = b"{\"test\": 2432232314}";
    const SIGNATURE: &str = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";

    fn key() -> WebhookKey {
        SECRET.parse().unwrap()
    }

    #[test]
    fn the_example_of_the_standard_is_signed_as_it_says() {
        assert_eq!(key().sign(ID, AT, BODY), SIGNATURE);
        assert!(key().has_signed(ID, AT, BODY, SIGNATURE));
    }

    #[test]
    fn anything_changed_is_not_signed() {
        let other: WebhookKey = "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA".parse().unwrap();
        assert!(!other.has_signed(ID, AT, BODY, SIGNATURE));
        for (id, at, body, signature) in [
            ("msg_other", AT, BODY, SIGNATURE),
            (ID, AT + 1, BODY, SIGNATURE),
            (ID, AT, b"{}" as &[u8], SIGNATURE),
            (ID, AT, BODY, "v1,h0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="),
            (ID, AT, BODY, "v1,g0hM9SsE+OTPJTGt"),
            (ID, AT, BODY, "v1,"),
            (ID, AT, BODY, ""),
            (ID, AT, BODY, "v1,not base64"),
            (ID, AT, BODY, "v1a,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="),
            (ID, AT, BODY, "g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="),
        ] {
            assert!(!key().has_signed(id, at, body, signature), "{id} {at} {signature}");
        }
    }

    #[test]
    fn what_is_no_secret_is_refused_and_not_repeated() {
        let short = format!("whsec_{}", STANDARD.encode([7; 23]));
        let long = format!("whsec_{}", STANDARD.encode([7; 65]));
        for (text, why) in [
            ("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "begins with `whsec_`"),
            ("", "begins with `whsec_`"),
            ("whsec_", "24 to 64 bytes, not 0"),
            ("whsec_MfKQ9r8*", "not base64"),
            (&short, "24 to 64 bytes, not 23"),
            (&long, "24 to 64 bytes, not 65"),
        ] {
            let error = text.parse::<WebhookKey>().unwrap_err().to_string();
            assert!(error.contains(why), "{text}: {error}");
            assert!(!error.contains("MfKQ9"), "{error}");
            assert!(error.contains("openssl rand"), "{error}");
        }
        for bytes in [24, 64] {
            let text = format!("whsec_{}", STANDARD.encode(vec![7; bytes]));
            assert!(text.parse::<WebhookKey>().is_ok(), "{bytes}");
        }
    }

    #[test]
    fn debug_does_not_tell() {
        assert_eq!(format!("{:?}", key()), "WebhookKey(***)");
    }
}
