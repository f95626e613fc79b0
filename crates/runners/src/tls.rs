//! HTTP clients with one TLS implementation for the whole program.

use std::sync::Once;

use reqwest::{Client, ClientBuilder};
use rustls::crypto::ring;

/// The builder of an HTTP client. Every client of this program is built by it, because reqwest
/// comes without ciphers here and finds those of the process.
#[expect(clippy::disallowed_methods, reason = "this is where clients get their ciphers")]
pub fn http_client() -> ClientBuilder {
    static INSTALLED: Once = Once::new();
    // Ciphers that another part of the program installed before are as good.
    INSTALLED.call_once(|| drop(ring::default_provider().install_default()));
    Client::builder()
}
