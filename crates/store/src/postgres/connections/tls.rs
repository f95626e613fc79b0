//! Encrypted connections: `sslmode` and `sslrootcert` of an address, as libpq defines them.

use std::future::Future;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use percent_encoding::percent_decode_str;
use rustls::crypto::ring;
use rustls::pki_types::ServerName;
use rustls::{CertificateError, ClientConfig};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::Socket;
use tokio_postgres::config::{Config, Host, SslMode};
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};
use tokio_rustls::TlsConnector;

use crate::failure::Failure;
use crate::postgres::connections::certificates::{Roots, Trust, Verifier};
use crate::postgres::connections::connect::described;

/// The values of `sslmode`, except `allow`, which prefers not to encrypt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Disable,
    Prefer,
    Require,
    VerifyCa,
    VerifyFull,
}

/// The encryption that an address asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
struct TlsParameters {
    mode: Mode,
    roots: Option<Roots>,
}

/// The client configuration of an address, and how its connections are encrypted.
pub(crate) fn read(url: &str) -> Result<(Config, Tls), Failure> {
    let (url, wanted) = split(url)?;
    let mut config: Config = url.parse().map_err(|error| {
        let said = described(&error);
        Failure::Unavailable(format!("the address of the database cannot be read: {said}"))
    })?;
    // Connections over a Unix socket cannot be intercepted, and PostgreSQL does not encrypt them.
    let is_local = config.get_hostaddrs().is_empty()
        && config.get_hosts().iter().all(|host| !matches!(host, Host::Tcp(_)));
    config.ssl_mode(match wanted.mode {
        _ if is_local => SslMode::Disable,
        Mode::Disable => SslMode::Disable,
        Mode::Prefer => SslMode::Prefer,
        Mode::Require | Mode::VerifyCa | Mode::VerifyFull => SslMode::Require,
    });
    let tls = Tls::new(trust(&wanted)?).map_err(|error| refused(&error.to_string()))?;
    Ok((config, tls))
}

/// The address without the parameters that the client does not understand, and their meaning.
fn split(url: &str) -> Result<(String, TlsParameters), Failure> {
    // The search begins after the password, which may contain a question mark.
    let host = url.find('@').unwrap_or(0);
    let (address, parameters) = match url[host..].find('?') {
        Some(at) => (&url[..host + at], &url[host + at + 1..]),
        None => (url, ""),
    };
    let (mut mode, mut roots) = (None, None);
    let mut others = String::new();
    for parameter in parameters.split('&').filter(|parameter| !parameter.is_empty()) {
        let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        let value = percent_decode_str(value).decode_utf8_lossy();
        match name {
            "sslmode" => mode = Some(read_mode(&value)?),
            "sslrootcert" if value == "system" => roots = Some(Roots::System),
            "sslrootcert" => roots = Some(Roots::File(PathBuf::from(&*value))),
            _ => {
                others.push(if others.is_empty() { '?' } else { '&' });
                others.push_str(parameter);
            }
        }
    }
    let usual = if roots == Some(Roots::System) { Mode::VerifyFull } else { Mode::Prefer };
    let wanted = TlsParameters { mode: mode.unwrap_or(usual), roots };
    Ok((format!("{address}{others}"), wanted))
}

fn read_mode(text: &str) -> Result<Mode, Failure> {
    match text {
        "disable" => Ok(Mode::Disable),
        "prefer" => Ok(Mode::Prefer),
        "require" => Ok(Mode::Require),
        "verify-ca" => Ok(Mode::VerifyCa),
        "verify-full" => Ok(Mode::VerifyFull),
        _ => Err(refused(&format!(
            "`sslmode={text}` is not one of disable, prefer, require, verify-ca and verify-full"
        ))),
    }
}

fn trust(wanted: &TlsParameters) -> Result<Trust, Failure> {
    let is_named = wanted.mode == Mode::VerifyFull;
    match (wanted.mode, &wanted.roots) {
        // With public authorities the name must be checked: anybody can get a certificate from one,
        // for some name.
        (mode, Some(Roots::System)) if mode != Mode::VerifyFull => {
            Err(refused("`sslrootcert=system` needs `sslmode=verify-full`"))
        }
        (Mode::Disable | Mode::Prefer, _) | (Mode::Require, None) => Ok(Trust::Anybody),
        (_, None) => Err(refused(
            "`sslmode=verify-ca` and `sslmode=verify-full` need to know whom to trust: add \
             `sslrootcert=FILE` with the authority's certificate, or `sslrootcert=system`",
        )),
        // An address that names an authority wants it checked, also with `require`.
        (_, Some(roots)) => match roots.read(is_named) {
            Ok(authorities) => Ok(Trust::Authorities(authorities)),
            Err(why) => Err(refused(&match roots {
                Roots::File(path) => format!("`sslrootcert={}`: {why}", path.display()),
                Roots::System => format!("`sslrootcert=system`: {why}"),
            })),
        },
    }
}

fn refused(why: &str) -> Failure {
    Failure::Unavailable(format!("the address of the database cannot be used: {why}"))
}

#[derive(Clone)]
pub(crate) struct Tls {
    config: Arc<ClientConfig>,
    is_named: bool,
}

impl Tls {
    fn new(trust: Trust) -> Result<Tls, rustls::Error> {
        let is_named = matches!(&trust, Trust::Authorities(authorities) if authorities.is_named);
        let provider = Arc::new(ring::default_provider());
        let algorithms = provider.signature_verification_algorithms;
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Verifier { trust, algorithms }))
            .with_no_client_auth();
        // Servers require ALPN if TLS begins without asking first.
        config.alpn_protocols = vec![b"postgresql".to_vec()];
        Ok(Tls { config: Arc::new(config), is_named })
    }
}

impl MakeTlsConnect<Socket> for Tls {
    type Stream = Encrypted;
    type TlsConnect = Handshake;
    type Error = io::Error;

    fn make_tls_connect(&mut self, host: &str) -> io::Result<Handshake> {
        let name = match ServerName::try_from(host.to_owned()) {
            Ok(name) => name,
            // A Unix socket has no name, and a name that is not verified may be anything.
            Err(_) if !self.is_named || host.is_empty() => {
                ServerName::from(IpAddr::V4(Ipv4Addr::UNSPECIFIED))
            }
            Err(error) => return Err(io::Error::new(io::ErrorKind::InvalidInput, error)),
        };
        Ok(Handshake { config: self.config.clone(), name })
    }
}

/// The TLS handshake of one connection.
pub(crate) struct Handshake {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

impl TlsConnect<Socket> for Handshake {
    type Stream = Encrypted;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Encrypted>> + Send>>;

    fn connect(self, socket: Socket) -> Self::Future {
        Box::pin(async move {
            let host = self.name.to_str().into_owned();
            let connected = TlsConnector::from(self.config).connect(self.name, socket).await;
            connected.map(Encrypted).map_err(|error| explained(error, &host))
        })
    }
}

/// The error with what a person can do about it.
fn explained(error: io::Error, host: &str) -> io::Error {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    let said = match inner {
        // The signature is bad if a different authority has the same name as the right one.
        Some(rustls::Error::InvalidCertificate(
            CertificateError::UnknownIssuer | CertificateError::BadSignature,
        )) => {
            format!("the certificate of {host} is of an authority that `sslrootcert` does not name")
        }
        Some(rustls::Error::InvalidCertificate(
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
        )) => format!(
            "the certificate is not for {host}: ask for a name that it has, or for \
             `sslmode=verify-ca` ({error})"
        ),
        _ => return error,
    };
    io::Error::new(error.kind(), said)
}

pub(crate) struct Encrypted(tokio_rustls::client::TlsStream<Socket>);

impl TlsStream for Encrypted {
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl AsyncRead for Encrypted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl AsyncWrite for Encrypted {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters() {
        let file = |path: &str| Some(Roots::File(PathBuf::from(path)));
        let check = |url: &str, left: &str, mode, roots| {
            let (address, wanted) = split(url).unwrap();
            assert_eq!((address.as_str(), wanted), (left, TlsParameters { mode, roots }), "{url}");
        };
        check("postgres://h/d", "postgres://h/d", Mode::Prefer, None);
        check("postgres://u:a?b@h/d?sslmode=disable", "postgres://u:a?b@h/d", Mode::Disable, None);
        check(
            "postgres://h,i/d?a=b&sslmode=verify-ca&sslrootcert=/a%20b&c=d",
            "postgres://h,i/d?a=b&c=d",
            Mode::VerifyCa,
            file("/a b"),
        );
        check("postgres://h?sslrootcert=r", "postgres://h", Mode::Prefer, file("r"));
        let system = Some(Roots::System);
        check("postgres://h?sslrootcert=system", "postgres://h", Mode::VerifyFull, system);
    }

    #[test]
    fn refusals() {
        let check = |parameters: &str, words: &str| match read(&format!("postgres://h{parameters}"))
        {
            Err(failure) => assert!(failure.to_string().contains(words), "{failure}"),
            Ok(_) => panic!("{parameters} is taken"),
        };
        check("?sslmode=allow", "not one of disable, prefer");
        check("?sslmode=verify-full", "add `sslrootcert=FILE`");
        check("?sslmode=verify-ca&sslrootcert=/no/such/file", "`sslrootcert=/no/such/file`: ");
        check("?sslmode=require&sslrootcert=system", "needs `sslmode=verify-full`");
        check("?sslmode=require&sslmood=x", "sslmood");
    }

    #[test]
    fn what_is_asked_of_the_server() {
        let check = |url: &str, mode| {
            let (config, _) = read(url).unwrap();
            assert_eq!(config.get_ssl_mode(), mode, "{url}");
        };
        check("postgres://h", SslMode::Prefer);
        check("postgres://h?sslmode=disable", SslMode::Disable);
        check("postgres://h?sslmode=require", SslMode::Require);
        check("postgres://%2Frun%2Fpostgresql/d?sslmode=require", SslMode::Disable);
    }
}
