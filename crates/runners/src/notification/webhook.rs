//! Sends notifications as HTTP requests: signed webhooks, and Slack-compatible messages.

use std::collections::BTreeMap;
use std::str::FromStr;

use jiff::Timestamp;
use language::definition::{HttpAction, Notification};
use serde_json::{Value, json};
use url::Url;

use super::Outcome;
use crate::{Code, WebhookKey, Work};

/// How much of a response is read. It only says whether the message was accepted, and is quoted if
/// it was not.
const ANSWER_BYTES: u64 = 16 * 1024;

/// The keys that webhooks are signed with, by host.
///
/// Written as text, entries separated by commas or white space:
///
/// | entry | signs what goes to |
/// |---|---|
/// | `hooks.example.org=whsec_…` | that host; several for one host sign side by side |
/// | `whsec_…` | every other host |
///
/// A receiver that knows a key can sign with it as well. Receivers that need not trust each other
/// get separate keys.
#[derive(Clone, Debug, Default)]
pub struct WebhookKeys {
    of_hosts: Vec<(String, WebhookKey)>,
    of_others: Vec<WebhookKey>,
}

/// An entry of the list of keys that cannot be parsed. The error does not contain the key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("entry {entry} of the webhook secrets: {problem}")]
pub struct WebhookKeysError {
    /// The number of the entry, counted from 1.
    pub entry: usize,
    /// The mistake, and what to write instead.
    pub problem: String,
}

impl FromStr for WebhookKeys {
    type Err = WebhookKeysError;

    fn from_str(text: &str) -> Result<WebhookKeys, WebhookKeysError> {
        let mut keys = WebhookKeys::default();
        let separator = |c: char| c == ',' || c.is_whitespace();
        let entries = text.split(separator).filter(|entry| !entry.is_empty());
        for (at, entry) in entries.enumerate() {
            keys.add(entry).map_err(|problem| WebhookKeysError { entry: at + 1, problem })?;
        }
        Ok(keys)
    }
}

impl WebhookKeys {
    fn add(&mut self, entry: &str) -> Result<(), String> {
        let key = |text: &str| text.parse::<WebhookKey>().map_err(|error| error.to_string());
        // A key may end with `=`, because it is base64.
        match entry.split_once('=').filter(|(host, _)| !host.starts_with("whsec_")) {
            Some((host, secret)) => {
                let host = url::Host::parse(host)
                    .map_err(|_| "what stands before `=` is not a host; write host=whsec_…")?;
                self.of_hosts.push((host.to_string(), key(secret)?));
            }
            None => self.of_others.push(key(entry)?),
        }
        Ok(())
    }

    /// The hosts that have keys of their own, each once.
    pub fn hosts(&self) -> Vec<String> {
        let mut hosts: Vec<String> = self.of_hosts.iter().map(|(host, _)| host.clone()).collect();
        hosts.sort_unstable();
        hosts.dedup();
        hosts
    }

    /// Whether there are keys for all other hosts.
    pub fn has_others(&self) -> bool {
        !self.of_others.is_empty()
    }

    /// The keys for a URL: those of its host, or else those for all other hosts.
    fn of(&self, url: &str) -> Vec<&WebhookKey> {
        let url = Url::parse(url).ok();
        let host = url.as_ref().and_then(Url::host_str).unwrap_or_default();
        let own: Vec<_> =
            self.of_hosts.iter().filter(|(known, _)| known == host).map(|(_, key)| key).collect();
        if own.is_empty() { self.of_others.iter().collect() } else { own }
    }

    /// A signed request. Its id and body are the same for every attempt.
    pub(super) fn signed(
        &self,
        url: &str,
        notification: &Notification,
        work: &Work,
        now: Timestamp,
    ) -> Result<HttpAction, Outcome> {
        let keys = self.of(url);
        if keys.is_empty() {
            return Err(Outcome::for_good(
                Code::WebhookKeyMissing,
                "this node has no secret to sign webhooks to this host with; start it with \
                 PUNCTUAL_WEBHOOK_SECRET=whsec_… as `echo whsec_$(openssl rand -base64 32)` \
                 makes one, and give it to the receiver",
            ));
        }
        let body = payload(notification, work).to_string();
        let (id, at) = (&work.idempotency_key, now.as_second());
        let signatures: Vec<_> = keys.iter().map(|key| key.sign(id, at, body.as_bytes())).collect();
        let headers = [
            ("content-type", "application/json".to_owned()),
            ("webhook-id", id.clone()),
            ("webhook-timestamp", at.to_string()),
            ("webhook-signature", signatures.join(" ")),
        ];
        let headers = headers.map(|(name, value)| (name.to_owned(), value));
        Ok(HttpAction { headers: headers.into(), body: Some(body.into()), ..post(url) })
    }
}

fn payload(notification: &Notification, work: &Work) -> Value {
    let mut data = json!({
        "run": work.run_id,
        "step": work.step_id,
        "subject": notification.subject,
        "message": notification.message,
    });
    if let Some(about) = &notification.data {
        data["about"] = about.clone();
    }
    json!({ "type": "punctual.notification", "data": data })
}

/// A Slack-compatible message, with the subject, if any, above the text.
pub(super) fn slack(url: &str, notification: &Notification) -> HttpAction {
    let text = match &notification.subject {
        Some(subject) => format!("*{subject}*\n{}", notification.message),
        None => notification.message.clone(),
    };
    HttpAction { body: Some(json!({ "text": text })), ..post(url) }
}

/// A POST without redirects, as the standard asks: a followed POST would become a GET, which
/// delivers nothing, or reach another host unsigned.
fn post(url: &str) -> HttpAction {
    HttpAction {
        method: "POST".to_owned(),
        url: url.to_owned(),
        headers: BTreeMap::new(),
        body: None,
        expect: Vec::new(),
        redirects: 0,
        max_bytes: ANSWER_BYTES,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    const B: &str = "whsec_c2VjcmV0LW9mLWFub3RoZXItcmVjZWl2ZXI=";

    #[test]
    fn hosts_have_their_own_keys() {
        let list = format!("{A}, Hooks.Example.org={B}\nhooks.example.org={A} 127.0.0.1={B}");
        let keys: WebhookKeys = list.parse().unwrap();
        let sign = |key: &WebhookKey| key.sign("id", 0, b"");
        let [a, b] = [A, B].map(|text| sign(&text.parse().unwrap()));
        for (url, expected) in [
            ("https://hooks.example.org/x", vec![&b, &a]),
            ("https://HOOKS.example.org:8443/x", vec![&b, &a]),
            ("http://127.0.0.1:9/", vec![&b]),
            ("https://example.org/", vec![&a]),
            ("https://x.hooks.example.org/", vec![&a]),
        ] {
            let found: Vec<_> = keys.of(url).into_iter().map(sign).collect();
            assert_eq!(found.iter().collect::<Vec<_>>(), expected, "{url}");
        }
        assert!("".parse::<WebhookKeys>().unwrap().of("https://example.org/").is_empty());
        let one: WebhookKeys = format!("a.test={A}").parse().unwrap();
        assert!(one.of("https://b.test/").is_empty());
    }

    #[test]
    fn entries_that_cannot_be_read_are_refused_without_the_secret() {
        for (list, entry, why) in [
            (format!("{A} nonsense"), 2, "begins with `whsec_`"),
            ("a.test=SECRET".to_owned(), 1, "begins with `whsec_`"),
            (format!("a^b={A}"), 1, "not a host"),
            (format!("={A}"), 1, "not a host"),
            ("whsec_SECRET".to_owned(), 1, "base64"),
        ] {
            let error = list.parse::<WebhookKeys>().unwrap_err();
            assert_eq!(error.entry, entry, "{error}");
            assert!(error.to_string().contains(why), "{error}");
            assert!(!error.to_string().contains("SECRET"), "{error}");
        }
    }
}
