//! The cookies that browsers send.

use axum::http::header::COOKIE;
use axum::http::{HeaderMap, HeaderValue};

/// The cookie that holds the secret of a sign-in.
pub(in crate::http) const SIGN_IN: &str = "punctual_sign_in";
/// A random cookie for the forms of callers who need not sign in. It is not stored.
pub(super) const ANYONE: &str = "punctual_anyone";

/// The cookie's value, if it is given once and has the form of our secrets.
pub(super) fn given<'a>(headers: &'a HeaderMap, name: &'a str) -> Option<&'a str> {
    let mut values = cookies(headers, name);
    let value = values.next().filter(|_| values.next().is_none())?;
    let is_ours = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    (value.len() == 43 && value.bytes().all(is_ours)).then_some(value)
}

/// Every value that is given for a cookie.
pub(crate) fn cookies<'a>(headers: &'a HeaderMap, name: &'a str) -> impl Iterator<Item = &'a str> {
    let texts = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    let pairs = texts.flat_map(|text| text.split(';')).filter_map(|pair| pair.split_once('='));
    pairs.filter(move |(known, _)| known.trim() == name).map(|(_, value)| value.trim())
}

/// A `Set-Cookie` header. Scripts cannot read the cookie, and browsers do not send it with requests
/// that other sites cause, except links.
pub(super) fn set(name: &str, value: &str, seconds: Option<i64>, is_secure: bool) -> HeaderValue {
    let age = seconds.map(|seconds| format!("; Max-Age={seconds}")).unwrap_or_default();
    let secure = if is_secure { "; Secure" } else { "" };
    let text = format!("{name}={value}; Path=/; HttpOnly; SameSite=Lax{age}{secure}");
    HeaderValue::from_str(&text).unwrap_or(HeaderValue::from_static(""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cookie_is_read_if_there_is_one_of_its_name() {
        let value = "a".repeat(43);
        for (text, expected) in [
            (format!("punctual_sign_in={value}"), true),
            (format!("a=b; punctual_sign_in={value} ; c=d"), true),
            (format!("punctual_sign_in={value}; punctual_sign_in={value}"), false),
            (format!("xpunctual_sign_in={value}"), false),
            ("punctual_sign_in=".to_owned(), false),
            (format!("punctual_sign_in={value}a"), false),
            (format!("punctual_sign_in={}", "ä".repeat(43)), false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(COOKIE, HeaderValue::from_bytes(text.as_bytes()).unwrap());
            assert_eq!(given(&headers, SIGN_IN).is_some(), expected, "{text}");
        }
    }
}
