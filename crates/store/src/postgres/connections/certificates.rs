//! Verifies the database server's certificate.

use std::fmt;
use std::path::{Path, PathBuf};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime, pem::PemObject as _};
use rustls::server::ParsedCertificate;
use rustls::{DigitallySignedStruct, Error, RootCertStore, SignatureScheme};

/// The servers that the store trusts.
#[derive(Clone, Debug)]
pub(crate) enum Trust {
    /// Any server; the connection is only encrypted, as with `prefer` and `require`.
    Anybody,
    Authorities(Authorities),
}

/// The certificate authorities that are trusted.
#[derive(Clone)]
pub(crate) struct Authorities {
    roots: RootCertStore,
    /// The certificates as they were read: a server's own certificate may be among them.
    certificates: Vec<CertificateDer<'static>>,
    /// Whether the certificate must be for the requested host: what `verify-full` adds to
    /// `verify-ca`.
    pub(crate) is_named: bool,
}

impl fmt::Debug for Authorities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Authorities({}, is_named: {})", self.certificates.len(), self.is_named)
    }
}

/// Where the certificates of authorities are read from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Roots {
    File(PathBuf),
    System,
}

impl Roots {
    pub(crate) fn read(&self, is_named: bool) -> Result<Authorities, String> {
        let certificates = match self {
            Roots::File(path) => in_file(path)?,
            Roots::System => rustls_native_certs::load_native_certs().certs,
        };
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(certificates.iter().cloned());
        if roots.is_empty() {
            Err("no certificate of an authority was found".to_owned())
        } else {
            Ok(Authorities { roots, certificates, is_named })
        }
    }
}

fn in_file(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| error.to_string())
}

/// The verifier that rustls calls during the handshake.
#[derive(Debug)]
pub(crate) struct Verifier {
    pub(crate) trust: Trust,
    pub(crate) algorithms: WebPkiSupportedAlgorithms,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        shown: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        _: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let Trust::Authorities(authorities) = &self.trust else {
            return Ok(ServerCertVerified::assertion());
        };
        let certificate = ParsedCertificate::try_from(shown)?;
        // A self-signed certificate is its own authority: it is trusted if it is listed byte for
        // byte.
        if !authorities.certificates.contains(shown) {
            let (roots, algorithms) = (&authorities.roots, self.algorithms.all);
            verify_server_cert_signed_by_trust_anchor(
                &certificate,
                roots,
                between,
                now,
                algorithms,
            )?;
        }
        if authorities.is_named {
            verify_server_name(&certificate, name)?;
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        match self.trust {
            // Any server is trusted, so old forms of certificates are accepted too.
            Trust::Anybody => Ok(HandshakeSignatureValid::assertion()),
            _ => verify_tls12_signature(message, certificate, signed, &self.algorithms),
        }
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        match self.trust {
            Trust::Anybody => Ok(HandshakeSignatureValid::assertion()),
            _ => verify_tls13_signature(message, certificate, signed, &self.algorithms),
        }
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
