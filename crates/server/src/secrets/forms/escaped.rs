//! A secret as part of a URL.

use percent_encoding::{AsciiSet, CONTROLS, NON_ALPHANUMERIC, utf8_percent_encode};

use super::SHORTEST_PART;

/// What the parts of a URL escape, by the WHATWG URL standard.
const PATH: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'#')
    .add(b'<')
    .add(b'>')
    .add(b'?')
    .add(b'`')
    .add(b'{')
    .add(b'}');
const PATH_WITH_CARET: &AsciiSet = &PATH.add(b'^');
const SEGMENT: &AsciiSet = &PATH.add(b'/').add(b'%');
const QUERY: &AsciiSet = &CONTROLS.add(b' ').add(b'"').add(b'#').add(b'<').add(b'>');
const SPECIAL_QUERY: &AsciiSet = &QUERY.add(b'\'');
const FRAGMENT: &AsciiSet = &CONTROLS.add(b' ').add(b'"').add(b'<').add(b'>').add(b'`');
const USER: &AsciiSet = &PATH
    .add(b'/')
    .add(b':')
    .add(b';')
    .add(b'=')
    .add(b'@')
    .add(b'[')
    .add(b'\\')
    .add(b']')
    .add(b'^')
    .add(b'|');
/// What careful programs escape: everything but RFC 3986's unreserved characters.
const STRICT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');
/// What Python's `quote` escapes.
const STRICT_WITH_SLASHES: &AsciiSet = &STRICT.remove(b'/');
/// What JavaScript's `encodeURIComponent` escapes.
const COMPONENT: &AsciiSet =
    &STRICT.remove(b'!').remove(b'*').remove(b'\'').remove(b'(').remove(b')');
/// What JavaScript's `encodeURI` escapes.
const WHOLE_URI: &AsciiSet = &COMPONENT
    .remove(b';')
    .remove(b'/')
    .remove(b'?')
    .remove(b':')
    .remove(b'@')
    .remove(b'&')
    .remove(b'=')
    .remove(b'+')
    .remove(b'$')
    .remove(b',')
    .remove(b'#');
/// What Go's `url.PathEscape` escapes, and Go's paths.
const GO_SEGMENT: &AsciiSet =
    &STRICT.remove(b'$').remove(b'&').remove(b'+').remove(b'=').remove(b':').remove(b'@');
const GO_PATH: &AsciiSet = &GO_SEGMENT.remove(b'/').remove(b',').remove(b';');
/// What RFC 3986 escapes in a segment of a path, and in a path.
const RFC_SEGMENT: &AsciiSet = &COMPONENT
    .remove(b'$')
    .remove(b'&')
    .remove(b'+')
    .remove(b',')
    .remove(b';')
    .remove(b'=')
    .remove(b':')
    .remove(b'@');
const RFC_PATH: &AsciiSet = &RFC_SEGMENT.remove(b'/');

const SETS: [&AsciiSet; 16] = [
    PATH,
    PATH_WITH_CARET,
    SEGMENT,
    QUERY,
    SPECIAL_QUERY,
    FRAGMENT,
    USER,
    STRICT,
    STRICT_WITH_SLASHES,
    COMPONENT,
    WHOLE_URI,
    GO_SEGMENT,
    GO_PATH,
    RFC_SEGMENT,
    RFC_PATH,
    NON_ALPHANUMERIC,
];

/// Percent-encodes everything but RFC 3986's unreserved characters.
pub(super) fn strictly(text: &str) -> String {
    utf8_percent_encode(text, STRICT).to_string()
}

/// All forms in which parts of URLs and form bodies hold the text.
pub(super) fn in_urls(text: &str) -> Vec<String> {
    let mut found: Vec<String> =
        SETS.iter().map(|set| utf8_percent_encode(text, set).to_string()).collect();
    found.push(url::form_urlencoded::byte_serialize(text.as_bytes()).collect());
    found.push(strictly(text).replace("%20", "+"));
    found.push(text.bytes().map(|byte| format!("%{byte:02X}")).collect());
    found.extend(in_several_parts(text));
    let lowered: Vec<String> = found.iter().map(|text| lower_escapes(text)).collect();
    // An escaped value is escaped again where it becomes part of another URL.
    for set in [STRICT, COMPONENT, NON_ALPHANUMERIC] {
        found.push(strictly(&utf8_percent_encode(text, set).to_string()));
    }
    found.extend(lowered);
    found
}

/// A secret in a path that contains `?` or `#` continues in the query or the fragment, which escape
/// differently. The part before is a form of its own: it is shown alone where URLs are cut, and a
/// peer gets nothing after a `#`.
fn in_several_parts(text: &str) -> Vec<String> {
    let Some(at) = text.find(['?', '#']) else { return Vec::new() };
    let (path, rest) = text.split_at(at);
    let (query, fragment) = rest.split_at(rest.find('#').unwrap_or(rest.len()));
    let mut found = Vec::new();
    for path in [path.to_owned(), path.replace('\\', "/")] {
        let path = utf8_percent_encode(&path, PATH_WITH_CARET).to_string();
        let plain = path.replace("%5E", "^");
        for path in [path, plain] {
            let query = utf8_percent_encode(query, SPECIAL_QUERY);
            found.push(format!("{path}{query}{}", utf8_percent_encode(fragment, FRAGMENT)));
            found.push(format!("{path}{query}"));
            found.push(path);
        }
    }
    found.push(path.to_owned());
    found.retain(|part| part.len() >= SHORTEST_PART);
    found
}

/// Writes escapes in lower case: `%2f` for `%2F`.
fn lower_escapes(text: &str) -> String {
    let mut lowered = String::with_capacity(text.len());
    let mut left = 0u8;
    for letter in text.chars() {
        left = if letter == '%' { 3 } else { left };
        let is_escape = left > 0;
        left = left.saturating_sub(1);
        lowered.push(if is_escape { letter.to_ascii_lowercase() } else { letter });
    }
    lowered
}
