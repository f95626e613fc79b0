//! Sends notifications as mail over SMTP.

use std::fmt;
use std::str::FromStr;
use std::time::SystemTime;

use jiff::Timestamp;
use language::definition::Notification;
use lettre::message::header::ContentType;
use lettre::message::{Mailbox, Message};
use lettre::transport::smtp::authentication::Credentials;
use lettre::transport::smtp::client::{Tls, TlsParameters};
use lettre::transport::smtp::{self, AsyncSmtpTransport};
use lettre::{Address, AsyncTransport as _, Tokio1Executor};
use percent_encoding::percent_decode_str;
use sha2::{Digest as _, Sha256};
use url::{Host, Url};

use super::Outcome;
use crate::{Code, Work};

const EXAMPLE: &str = "smtps://user:password@mail.example.org?from=punctual@example.org";
/// The length of a subject that is taken from the message: about that of one that a person writes.
const SUBJECT_CHARS: usize = 100;

/// The SMTP server that accepts mail, and the sender's address.
///
/// Written as `smtp[s]://[user:password@]host[:port]?from=address`:
///
/// | scheme | connection | port |
/// |---|---|---|
/// | `smtps` | encrypted from the beginning | 465 |
/// | `smtp` | encrypted by STARTTLS, which the server must offer | 587 |
/// | `smtp` with `tls=none`, or to this machine | plain; passwords only to this machine | 25 |
///
/// Special characters in user, password and address are percent-encoded, as in every URL: `%40` for
/// `@`. The host configures the server, not a definition, so the egress list does not apply to it.
#[derive(Clone)]
pub struct MailServer {
    host: String,
    from: Mailbox,
    transport: AsyncSmtpTransport<Tokio1Executor>,
}

/// Why a text does not describe a mail server. The error does not contain the text, which may have
/// a password.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{problem}; write it like {EXAMPLE}")]
pub struct MailServerError {
    pub problem: String,
}

/// Omits user and password.
impl fmt::Debug for MailServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let from = self.from.to_string();
        f.debug_struct("MailServer").field("host", &self.host).field("from", &from).finish()
    }
}

impl FromStr for MailServer {
    type Err = MailServerError;

    fn from_str(text: &str) -> Result<MailServer, MailServerError> {
        read(text).map_err(|problem| MailServerError { problem })
    }
}

enum Encryption {
    None,
    StartTls,
    FromTheBeginning,
}

fn read(text: &str) -> Result<MailServer, String> {
    let url = Url::parse(text).map_err(|error| format!("not a URL: {error}"))?;
    let host = match url.host() {
        Some(host) if !host.to_string().is_empty() => host,
        _ => return Err("the host is missing".to_owned()),
    };
    if !matches!(url.path(), "" | "/") || url.fragment().is_some() {
        return Err("nothing stands between the host and `?from=`".to_owned());
    }
    let (from, tls) = read_query(&url)?;
    let is_here = is_loopback(&host);
    let encryption = match (url.scheme(), tls.as_deref()) {
        ("smtps", None) => Encryption::FromTheBeginning,
        ("smtp", None) if is_here => Encryption::None,
        ("smtp", None) => Encryption::StartTls,
        ("smtp", Some("starttls")) => Encryption::StartTls,
        ("smtp", Some("none")) => Encryption::None,
        ("smtp", Some(_)) => return Err("`tls` is `starttls` or `none`".to_owned()),
        ("smtps", Some(_)) => return Err("`tls` belongs to smtp://, not to smtps://".to_owned()),
        _ => return Err("the scheme is smtp:// or smtps://".to_owned()),
    };
    let credentials = read_credentials(&url)?;
    if matches!(encryption, Encryption::None) && credentials.is_some() && !is_here {
        return Err("a password would go over an open connection; leave `tls=none` out".to_owned());
    }
    let host = host.to_string().trim_matches(['[', ']']).to_owned();
    let transport = transport(&host, url.port(), encryption, credentials)?;
    Ok(MailServer { host, from, transport })
}

fn read_query(url: &Url) -> Result<(Mailbox, Option<String>), String> {
    let (mut from, mut tls) = (None, None);
    for (name, value) in url.query_pairs() {
        let slot = match name.as_ref() {
            "from" => &mut from,
            "tls" => &mut tls,
            other => return Err(format!("`{}` is not known there", other.escape_debug())),
        };
        if slot.replace(value.into_owned()).is_some() {
            return Err(format!("`{name}` is given twice"));
        }
    }
    let from = from.ok_or("the sender is missing: `?from=address`")?;
    let from = from.parse().map_err(|_| "`from` is not an address".to_owned())?;
    Ok((from, tls))
}

fn read_credentials(url: &Url) -> Result<Option<Credentials>, String> {
    let decoded = |text: &str| {
        let text = percent_decode_str(text).decode_utf8();
        text.map(|text| text.into_owned()).map_err(|_| "user or password is not text".to_owned())
    };
    match (url.username(), url.password()) {
        ("", None) => Ok(None),
        ("", Some(_)) => Err("there is a password without a user".to_owned()),
        (_, None) => Err("there is a user without a password".to_owned()),
        (user, Some(password)) => Ok(Some(Credentials::new(decoded(user)?, decoded(password)?))),
    }
}

fn is_loopback(host: &Host<&str>) -> bool {
    match host {
        // The URL parser treats every host as a name if the scheme is not one of the web.
        Host::Domain(name) => {
            let address = name.parse::<std::net::IpAddr>();
            *name == "localhost" || address.is_ok_and(|address| address.is_loopback())
        }
        Host::Ipv4(address) => address.is_loopback(),
        Host::Ipv6(address) => address.is_loopback(),
    }
}

fn transport(
    host: &str,
    port: Option<u16>,
    encryption: Encryption,
    credentials: Option<Credentials>,
) -> Result<AsyncSmtpTransport<Tokio1Executor>, String> {
    let parameters = || {
        TlsParameters::new_rustls(host.to_owned())
            .map_err(|error| format!("TLS cannot be set up: {error}"))
    };
    let (tls, usual_port) = match encryption {
        Encryption::None => (Tls::None, smtp::SMTP_PORT),
        Encryption::StartTls => (Tls::Required(parameters()?), smtp::SUBMISSION_PORT),
        Encryption::FromTheBeginning => (Tls::Wrapper(parameters()?), smtp::SUBMISSIONS_PORT),
    };
    let builder = AsyncSmtpTransport::<Tokio1Executor>::builder_dangerous(host);
    let builder = builder.port(port.unwrap_or(usual_port)).tls(tls);
    Ok(match credentials {
        Some(credentials) => builder.credentials(credentials).build(),
        None => builder.build(),
    })
}

impl MailServer {
    /// The server's host name or address.
    pub fn host(&self) -> &str {
        &self.host
    }

    pub fn from(&self) -> String {
        self.from.to_string()
    }

    /// Sends one message to one address, so that recipients do not see each other.
    pub(super) async fn send(
        &self,
        address: &str,
        notification: &Notification,
        work: &Work,
        now: Timestamp,
    ) -> Outcome {
        let Ok(address) = address.parse::<Address>() else {
            let address = address.escape_debug();
            let message = format!("`{address}` is not an address; write one like ann@example.org");
            return Outcome::for_good(Code::InvalidAddress, message);
        };
        let message = match self.message(&address, notification, work, now) {
            Ok(message) => message,
            Err(error) => {
                let message = format!("the message cannot be written: {error}");
                return Outcome::for_good(Code::Mail, message);
            }
        };
        match self.transport.send(message).await {
            Ok(_) => Outcome::Told,
            Err(error) => self.not_sent(&error),
        }
    }

    fn message(
        &self,
        address: &Address,
        notification: &Notification,
        work: &Work,
        now: Timestamp,
    ) -> Result<Message, lettre::error::Error> {
        Message::builder()
            .from(self.from.clone())
            .to(Mailbox::new(None, address.clone()))
            .subject(subject(notification))
            .date(SystemTime::from(now))
            .message_id(Some(self.message_id(address, work)))
            .header(ContentType::TEXT_PLAIN)
            .body(notification.message.clone())
    }

    /// The id of the message. It is the same for every attempt, so that mail programs can recognize
    /// a duplicate.
    fn message_id(&self, address: &Address, work: &Work) -> String {
        let digest = Sha256::new()
            .chain_update(&work.idempotency_key)
            .chain_update([0])
            .chain_update(address.to_string())
            .finalize();
        let digits: String = digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
        format!("<{digits}@{}>", self.from.email.domain())
    }

    fn not_sent(&self, error: &smtp::Error) -> Outcome {
        let host = &self.host;
        let (what, code) = if error.is_permanent() || error.is_transient() {
            ("refused the message", Code::MailRefused)
        } else {
            ("did not take the message", Code::Mail)
        };
        let message = format!("the mail server {host} {what}: {error}");
        Outcome::Failed { code, message, retryable: !error.is_permanent() }
    }
}

/// The subject as a single line, because a line break would begin another header.
fn subject(notification: &Notification) -> String {
    let written = notification.subject.as_deref();
    let text = written.unwrap_or_else(|| notification.message.trim().lines().next().unwrap_or(""));
    let line = text.replace(char::is_control, " ");
    match written {
        Some(_) => line,
        None => line.chars().take(SUBJECT_CHARS).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_read_as_written() {
        for text in [
            EXAMPLE,
            "smtps://mail.example.org:4650?from=Punctual+%3Cp@example.org%3E",
            "smtp://mail.example.org?from=p@example.org",
            "smtp://u:p%40ss@mail.example.org?from=p@example.org&tls=starttls",
            "smtp://mail.example.org:25/?from=p@example.org&tls=none",
            "smtp://u:p@127.0.0.1:2525?from=p@example.org",
            "smtp://[::1]:2525?from=p@example.org",
            "smtp://localhost?from=p@example.org&tls=none",
        ] {
            let server = text.parse::<MailServer>().expect(text);
            let shown = format!("{server:?}");
            assert!(shown.contains("example.org"), "{shown}");
            assert!(!shown.contains("p@ss") && !shown.contains("password"), "{shown}");
        }
    }

    #[test]
    fn what_cannot_be_meant_is_refused_without_the_password() {
        for (text, why) in [
            ("", "not a URL"),
            ("mail.example.org", "not a URL"),
            ("http://mail.example.org?from=p@example.org", "smtp:// or smtps://"),
            ("smtp://?from=p@example.org", "host"),
            ("smtps://u:SECRET@mail.example.org", "sender is missing"),
            ("smtps://u:SECRET@mail.example.org?from=nobody", "not an address"),
            ("smtps://u:SECRET@mail.example.org/x?from=p@example.org", "between"),
            ("smtps://u:SECRET@mail.example.org?from=p@example.org&form=x", "`form`"),
            ("smtps://u:SECRET@mail.example.org?from=a@b.c&from=p@example.org", "twice"),
            ("smtps://mail.example.org?from=p@example.org&tls=none", "belongs to smtp://"),
            ("smtp://mail.example.org?from=p@example.org&tls=maybe", "`starttls` or `none`"),
            ("smtp://u:SECRET@mail.example.org?from=p@example.org&tls=none", "open connection"),
            ("smtp://:SECRET@mail.example.org?from=p@example.org", "without a user"),
            ("smtp://u@mail.example.org?from=p@example.org", "without a password"),
            ("smtp://u:%ff@mail.example.org?from=p@example.org", "not text"),
        ] {
            let error = text.parse::<MailServer>().unwrap_err().to_string();
            assert!(error.contains(why), "{text}: {error}");
            assert!(!error.contains("SECRET"), "{error}");
            assert!(error.contains("write it like smtps://"), "{error}");
        }
    }

    #[test]
    fn a_subject_is_one_line() {
        let told = |subject: Option<&str>, message: &str| {
            let subject = subject.map(str::to_owned);
            let message = message.to_owned();
            super::subject(&Notification { to: vec![], subject, message, data: None })
        };
        assert_eq!(told(Some("a\r\nBcc: x@y.z"), "m"), "a  Bcc: x@y.z");
        assert_eq!(told(None, "\nfirst\nsecond"), "first");
        assert_eq!(told(None, &"ä".repeat(300)), "ä".repeat(SUBJECT_CHARS));
        assert_eq!(told(None, ""), "");
    }
}
