//! The token that a worker sends with each heartbeat and report: the attempt's number within its
//! run, which orders attempts, and the secret key of the claim.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use engine::run::Claimant;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::access::{Caller, Standing, hash, random};
use super::problem::Problem;

/// Half of a SHA-256: enough for a key of 256 random bits, and less to store with a run.
const KEPT_BYTES: usize = 16;

/// The key of one claim, shared by all attempts that it takes.
pub(super) struct ClaimKey(String);

impl ClaimKey {
    pub(super) fn new() -> Result<ClaimKey, Problem> {
        random().map(ClaimKey)
    }

    /// The claimant of the attempts. Only a hash of the key is stored.
    pub(super) fn claimant(&self, caller: &Caller) -> Claimant {
        Claimant { name: name(caller), key: kept(&self.0) }
    }

    /// The token of an attempt. The number comes first with a fixed length, so that tokens sort
    /// like their attempts.
    pub(super) fn token(&self, number: u32) -> String {
        format!("{number:010}.{}", self.0)
    }
}

/// A token as a request carries it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct AttemptToken {
    /// The number of the attempt within its run.
    pub(super) number: u32,
    key: String,
}

impl AttemptToken {
    pub(super) fn claimant(&self, caller: &Caller) -> Claimant {
        Claimant { name: name(caller), key: kept(&self.key) }
    }

    fn read(value: &Value) -> Option<AttemptToken> {
        if let Some(number) = value.as_u64() {
            // A number alone belongs to no claim. It is refused like an outdated token.
            return Some(AttemptToken { number: u32::try_from(number).ok()?, key: String::new() });
        }
        let (number, key) = value.as_str()?.split_once('.')?;
        Some(AttemptToken { number: number.parse().ok()?, key: key.to_owned() })
    }
}

impl<'de> Deserialize<'de> for AttemptToken {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<AttemptToken, D::Error> {
        let value = Value::deserialize(deserializer)?;
        let wrong = "is not the token of an attempt: send the one that the claim's answer has";
        AttemptToken::read(&value).ok_or_else(|| serde::de::Error::custom(wrong))
    }
}

/// The name of the claimant. Callers on an open node have none.
fn name(caller: &Caller) -> Option<String> {
    (caller.standing != Standing::Anyone).then(|| caller.name.to_string())
}

fn kept(key: &str) -> String {
    URL_SAFE_NO_PAD.encode(&hash(key)[..KEPT_BYTES])
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_token_says_which_attempt_and_which_claim() {
        let (one, other) = (ClaimKey::new().unwrap(), ClaimKey::new().unwrap());
        let caller = Caller::holder("ci", &[]);
        let read = |value: Value| AttemptToken::read(&value);
        let token = read(json!(one.token(7))).unwrap();
        assert_eq!(token.number, 7);
        assert_eq!(token.claimant(&caller), one.claimant(&caller));
        assert_ne!(token.claimant(&caller), other.claimant(&caller));
        assert!(!one.claimant(&caller).key.contains(&one.0), "the key itself is not stored");
        assert!(one.token(9) < one.token(10) && one.token(10) < one.token(u32::MAX));
        assert_ne!(read(json!(7)).unwrap().claimant(&caller), one.claimant(&caller));
        for wrong in [json!(-1), json!(1.5), json!(null), json!("7"), json!("x.y"), json!({})] {
            assert_eq!(read(wrong.clone()), None, "{wrong}");
        }
    }
}
