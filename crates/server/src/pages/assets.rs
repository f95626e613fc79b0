//! The files that pages load: one stylesheet, one script, one icon. All are in the binary, and
//! their addresses contain a hash of their content.

use std::borrow::Cow;
use std::sync::LazyLock;

use axum::extract::Path;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse as _, Response};
use sha2::{Digest as _, Sha256};

/// A file that pages load.
pub(super) struct Asset {
    name: &'static str,
    kind: &'static str,
    content: Cow<'static, str>,
    address: String,
}

impl Asset {
    fn new(name: &'static str, kind: &'static str, content: impl Into<Cow<'static, str>>) -> Asset {
        let content = content.into();
        let hash = Sha256::digest(content.as_bytes());
        let short: String = hash.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        Asset { name, kind, content, address: format!("/assets/{short}/{name}") }
    }

    /// Its address. Another content has another address, so browsers may cache it for ever.
    pub(super) fn address(&self) -> &str {
        &self.address
    }
}

pub(super) static STYLE: LazyLock<Asset> = LazyLock::new(|| {
    let content = format!("{}\n{}", include_str!("assets/app.css"), drawing::STYLE);
    Asset::new("app.css", "text/css; charset=utf-8", content)
});
pub(super) static SCRIPT: LazyLock<Asset> = LazyLock::new(|| {
    Asset::new("app.js", "text/javascript; charset=utf-8", include_str!("assets/app.js"))
});
pub(super) static ICON: LazyLock<Asset> =
    LazyLock::new(|| Asset::new("icon.svg", "image/svg+xml", include_str!("assets/icon.svg")));

/// Sends an asset. The hash in the address is ignored.
pub(super) async fn send(Path((_, name)): Path<(String, String)>) -> Response {
    let all = [&*STYLE, &*SCRIPT, &*ICON];
    let Some(asset) = all.into_iter().find(|asset| asset.name == name) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let mut response = asset.content.clone().into_response();
    let headers: [(HeaderName, &'static str); 2] =
        [(CONTENT_TYPE, asset.kind), (CACHE_CONTROL, "public, max-age=31536000, immutable")];
    for (name, value) in headers {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}
