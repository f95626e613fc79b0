//! Signed calls from outside: whether a webhook was sent by someone who has the secret, and
//! recently.
//!
//! Only the signature and its time are checked here. The store checks whether the id was seen
//! before, within twice [`TOLERANCE`].

use axum::http::HeaderMap;
use jiff::{SignedDuration, Timestamp};
use runners::WebhookKey;

/// How far the time of a signature may be from now, in either direction: clocks differ, and calls
/// take time to arrive.
pub const TOLERANCE: SignedDuration = SignedDuration::from_mins(5);
/// More signatures than any key rotation needs; verifying each costs a pass over the body.
const MOST_SIGNATURES: usize = 8;
/// The longest id that is accepted.
const ID_BYTES: usize = 256;

/// The headers that carry the signature of a call: id, time and signatures.
#[derive(Clone, Copy, Debug, Default)]
pub struct Signed<'a> {
    pub id: Option<&'a str>,
    pub timestamp: Option<&'a str>,
    pub signature: Option<&'a str>,
}

impl<'a> From<&'a HeaderMap> for Signed<'a> {
    fn from(headers: &'a HeaderMap) -> Signed<'a> {
        let header = |name| headers.get(name).and_then(|value| value.to_str().ok());
        Signed {
            id: header("webhook-id"),
            timestamp: header("webhook-timestamp"),
            signature: header("webhook-signature"),
        }
    }
}

/// Why a call is not accepted as signed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unbelieved {
    /// A header is missing or empty.
    #[error("The header `{0}` is missing: calls are signed as Standard Webhooks says.")]
    Missing(&'static str),
    #[error("The header `webhook-id` has more than {ID_BYTES} bytes.")]
    LongId,
    /// The timestamp is not a number of seconds.
    #[error("The header `webhook-timestamp` is not a whole number of seconds since 1970.")]
    NotATime,
    #[error("The call was signed {0} s ago; at most {limit} s are accepted.", limit = TOLERANCE.as_secs())]
    TooOld(i64),
    #[error(
        "The call was signed {0} s in the future; at most {limit} s are accepted. Is the sender's clock right?",
        limit = TOLERANCE.as_secs()
    )]
    TooNew(i64),
    #[error("The header `webhook-signature` has more than {MOST_SIGNATURES} signatures.")]
    TooManySignatures,
    /// No signature uses the scheme `v1`.
    #[error("The header `webhook-signature` has no signature that begins with `v1,`.")]
    NoKnownScheme,
    /// None of the signatures was made with one of the keys.
    #[error("None of the signatures was made with the secret over this id, time and body.")]
    Forged,
}

/// Checks that one of the signatures was made with one of the keys, at about this time. Returns the
/// id, which the caller must accept only once.
pub fn verify<'a>(
    keys: &[WebhookKey],
    signed: Signed<'a>,
    body: &[u8],
    now: Timestamp,
) -> Result<&'a str, Unbelieved> {
    let present = |name, value: Option<&'a str>| {
        value.filter(|value| !value.is_empty()).ok_or(Unbelieved::Missing(name))
    };
    let id = present("webhook-id", signed.id)?;
    let timestamp = present("webhook-timestamp", signed.timestamp)?;
    let signature = present("webhook-signature", signed.signature)?;
    if id.len() > ID_BYTES {
        return Err(Unbelieved::LongId);
    }
    let timestamp = read_time(timestamp)?;
    // The time is checked before the signature, which costs a pass over the body. The error reveals
    // nothing that the sender does not know.
    check_time(timestamp, now)?;
    let signatures = signatures(signature)?;
    let is_ours =
        |signature: &&str| keys.iter().any(|key| key.has_signed(id, timestamp, body, signature));
    if signatures.iter().any(is_ours) { Ok(id) } else { Err(Unbelieved::Forged) }
}

/// Reads the time as the standard writes it, in digits only: `+1` and `1` are signed as different
/// texts.
fn read_time(text: &str) -> Result<i64, Unbelieved> {
    let is_plain =
        text.bytes().all(|byte| byte.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
    let time = if is_plain { text.parse().ok() } else { None };
    time.ok_or(Unbelieved::NotATime)
}

fn check_time(timestamp: i64, now: Timestamp) -> Result<(), Unbelieved> {
    let age = now.as_second().saturating_sub(timestamp);
    if age > TOLERANCE.as_secs() {
        Err(Unbelieved::TooOld(age))
    } else if age < -TOLERANCE.as_secs() {
        Err(Unbelieved::TooNew(age.saturating_neg()))
    } else {
        Ok(())
    }
}

/// The signatures of scheme `v1`; signatures of other schemes (`v1a,…`) may stand beside them.
fn signatures(header: &str) -> Result<Vec<&str>, Unbelieved> {
    let mut all = header.split(' ').filter(|signature| !signature.is_empty());
    let looked_at: Vec<_> = all.by_ref().take(MOST_SIGNATURES).collect();
    if all.next().is_some() {
        return Err(Unbelieved::TooManySignatures);
    }
    let known: Vec<_> =
        looked_at.into_iter().filter(|signature| signature.starts_with("v1,")).collect();
    if known.is_empty() { Err(Unbelieved::NoKnownScheme) } else { Ok(known) }
}

#[cfg(test)]
mod tests {
    use super::*;

    // The example from the libraries of Standard Webhooks.
    const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    const OTHER: &str = "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
    const ID: &str = "msg_p5jXN8AQM9LWM0D4loKWxJek";
    const AT: i64 = 1_614_265_330;
    const BODY: &[u8] = b"{\"test\": 2432232314}";
    const SIGNATURE: &str = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";
    const WRONG: &str = "v1,AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";
    const ASYMMETRIC: &str = "v1a,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";

    fn keys(secrets: &[&str]) -> Vec<WebhookKey> {
        secrets.iter().map(|secret| secret.parse().unwrap()).collect()
    }

    fn signed<'a>(id: &'a str, timestamp: &'a str, signature: &'a str) -> Signed<'a> {
        Signed { id: Some(id), timestamp: Some(timestamp), signature: Some(signature) }
    }

    fn check(
        secrets: &[&str],
        signed: Signed<'_>,
        body: &[u8],
        now: i64,
    ) -> Result<(), Unbelieved> {
        let now = Timestamp::from_second(now).unwrap();
        verify(&keys(secrets), signed, body, now).map(|id| assert_eq!(Some(id), signed.id))
    }

    #[test]
    fn the_example_of_the_standard_is_believed() {
        let example = signed(ID, "1614265330", SIGNATURE);
        assert_eq!(check(&[SECRET], example, BODY, AT), Ok(()));
        let mut headers = HeaderMap::new();
        assert_eq!(Signed::from(&headers).id, None);
        for (name, value) in [
            ("webhook-id", ID),
            ("webhook-timestamp", "1614265330"),
            ("webhook-signature", SIGNATURE),
        ] {
            headers.insert(name, value.parse().unwrap());
        }
        assert_eq!(check(&[SECRET], Signed::from(&headers), BODY, AT), Ok(()));
    }

    #[test]
    fn one_right_signature_and_one_right_key_are_enough() {
        let rotated = format!("{WRONG} {ASYMMETRIC}  {SIGNATURE} v2,x");
        for (secrets, header) in [
            (&[OTHER, SECRET] as &[_], SIGNATURE),
            (&[SECRET], &rotated),
            (&[SECRET, OTHER], &rotated),
        ] {
            assert_eq!(
                check(secrets, signed(ID, "1614265330", header), BODY, AT),
                Ok(()),
                "{header}"
            );
        }
    }

    #[test]
    fn whatever_is_changed_is_forged() {
        for (secret, id, timestamp, signature, body) in [
            (OTHER, ID, "1614265330", SIGNATURE, BODY),
            (SECRET, "msg_other", "1614265330", SIGNATURE, BODY),
            (SECRET, ID, "1614265331", SIGNATURE, BODY),
            (SECRET, ID, "1614265330", WRONG, BODY),
            (SECRET, ID, "1614265330", "v1,", BODY),
            (SECRET, ID, "1614265330", "v1,%%%", BODY),
            (SECRET, ID, "1614265330", SIGNATURE, b"{\"test\": 2432232315}"),
            (SECRET, ID, "1614265330", SIGNATURE, b""),
        ] {
            let found = check(&[secret], signed(id, timestamp, signature), body, AT);
            assert_eq!(found, Err(Unbelieved::Forged), "{id} {timestamp} {signature}");
        }
        let without_keys = check(&[], signed(ID, "1614265330", SIGNATURE), BODY, AT);
        assert_eq!(without_keys, Err(Unbelieved::Forged));
    }

    #[test]
    fn five_minutes_either_way_are_accepted() {
        let example = signed(ID, "1614265330", SIGNATURE);
        for (now, expected) in [
            (AT + 300, Ok(())),
            (AT - 300, Ok(())),
            (AT + 301, Err(Unbelieved::TooOld(301))),
            (AT - 301, Err(Unbelieved::TooNew(301))),
            (0, Err(Unbelieved::TooNew(AT))),
        ] {
            assert_eq!(check(&[SECRET], example, BODY, now), expected, "{now}");
        }
    }

    #[test]
    fn headers_that_are_no_signature_are_told_apart() {
        let (full, long) = (signed(ID, "1614265330", SIGNATURE), "x".repeat(257));
        let many = [SIGNATURE; 9].join(" ");
        for (headers, expected) in [
            (Signed { id: None, ..full }, Unbelieved::Missing("webhook-id")),
            (Signed { id: Some(""), ..full }, Unbelieved::Missing("webhook-id")),
            (Signed { timestamp: None, ..full }, Unbelieved::Missing("webhook-timestamp")),
            (Signed { signature: None, ..full }, Unbelieved::Missing("webhook-signature")),
            (Signed { id: Some(&long), ..full }, Unbelieved::LongId),
            (Signed { signature: Some(ASYMMETRIC), ..full }, Unbelieved::NoKnownScheme),
            (Signed { signature: Some("  "), ..full }, Unbelieved::NoKnownScheme),
            (Signed { signature: Some(&many), ..full }, Unbelieved::TooManySignatures),
        ] {
            assert_eq!(check(&[SECRET], headers, BODY, AT), Err(expected));
        }
        for text in
            ["+1614265330", "01614265330", "1614265330.0", "-5", "now", "99999999999999999999"]
        {
            let found = check(&[SECRET], signed(ID, text, SIGNATURE), BODY, AT);
            assert_eq!(found, Err(Unbelieved::NotATime), "{text}");
        }
    }

    #[test]
    fn reasons_are_sentences_that_hold_no_secret() {
        let told = [
            Unbelieved::Missing("webhook-id"),
            Unbelieved::TooOld(301),
            Unbelieved::TooNew(900),
            Unbelieved::Forged,
        ];
        for reason in told.map(|reason| reason.to_string()) {
            assert!(reason.ends_with(['.', '?']), "{reason}");
            assert!(!reason.contains("whsec"), "{reason}");
        }
        assert!(Unbelieved::TooOld(301).to_string().contains("301 s ago; at most 300 s"));
    }
}
