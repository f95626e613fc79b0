//! The ways in which a secret may stand in a text: as it is, and as programs write it inside of something else.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use percent_encoding::{AsciiSet, CONTROLS, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;

/// Shorter ones are found in any text: masking them would tell more than it hides.
const SHORTEST: usize = 4;
/// A line of a secret is masked by itself from this length on: shorter ones are words like `end`.
const SHORTEST_LINE: usize = 8;
/// The same for what of a secret can be told in base64 wherever it begins.
const SHORTEST_BASE64: usize = 6;
/// Longer ones are looked for in fewer forms: keys are shorter, and what is looked for is kept in memory.
const LONG: usize = 4 << 10;

/// What URLs escape, part by part (WHATWG), and what programs escape that are careful.
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
const STRICT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');
/// As JavaScript's `encodeURIComponent`.
const COMPONENT: &AsciiSet =
    &STRICT.remove(b'!').remove(b'*').remove(b'\'').remove(b'(').remove(b')');

/// Everything that is looked for because of one secret, without repetitions.
pub(super) fn forms(secret: &str) -> Vec<String> {
    let mut found = Vec::new();
    if secret.chars().count() >= SHORTEST {
        found.extend(forms_of(secret));
    }
    if secret.contains(['\n', '\r']) {
        let lines = secret.split(['\n', '\r']).map(str::trim);
        // The frame around a key is no secret.
        let lines = lines.filter(|line| line.len() >= SHORTEST_LINE && !line.starts_with("-----"));
        found.extend(lines.flat_map(forms_of));
    }
    found.sort_unstable();
    found.dedup();
    found
}

fn forms_of(text: &str) -> Vec<String> {
    let written = json(text);
    let mut found = vec![text.to_owned(), json(&written), written];
    if text.len() > LONG {
        found.push(utf8_percent_encode(text, STRICT).to_string());
        return found;
    }
    found.push(ascii_json(text));
    found.push(text.escape_debug().to_string());
    found.push(text.escape_default().to_string());
    // Hosts are written so.
    if text.len() >= SHORTEST_LINE {
        found.push(text.to_ascii_lowercase());
    }
    found.extend(html(text));
    let sets = [
        PATH,
        PATH_WITH_CARET,
        SEGMENT,
        QUERY,
        SPECIAL_QUERY,
        FRAGMENT,
        USER,
        STRICT,
        COMPONENT,
        NON_ALPHANUMERIC,
    ];
    let mut escaped: Vec<String> =
        sets.iter().map(|set| utf8_percent_encode(text, set).to_string()).collect();
    escaped.push(url::form_urlencoded::byte_serialize(text.as_bytes()).collect());
    found.extend(escaped.iter().map(|text| lower_escapes(text)));
    // What was escaped is escaped again where it is put into another URL.
    found.push(utf8_percent_encode(&escaped[escaped.len() - 2], STRICT).to_string());
    found.extend(escaped);
    found.extend(base64(text.as_bytes()));
    found
}

/// As JSON writes it inside of a text.
fn json(text: &str) -> String {
    let written = Value::from(text).to_string();
    written[1..written.len() - 1].to_owned()
}

/// The same by programs that write ASCII alone, such as Python's.
fn ascii_json(text: &str) -> String {
    let mut written = String::new();
    for letter in json(text).chars() {
        match letter.is_ascii() {
            true => written.push(letter),
            false => {
                let mut units = [0; 2];
                for unit in letter.encode_utf16(&mut units) {
                    written.push_str(&format!("\\u{unit:04x}"));
                }
            }
        }
    }
    written
}

/// As pages write it: quotes are written in different ways.
fn html(text: &str) -> Vec<String> {
    let plain = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let double = plain.replace('"', "&quot;");
    let single = ["&#39;", "&#x27;", "&apos;"].map(|quote| double.replace('\'', quote));
    [plain, double].into_iter().chain(single).collect()
}

/// With `%2f` for `%2F`.
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

/// What of the secret can be told in base64, whatever stands before and after it: three bytes are four letters, so there
/// are three ways to begin.
fn base64(secret: &[u8]) -> Vec<String> {
    let mut found = Vec::new();
    for before in 0..3 {
        let mut bytes = vec![0; before];
        bytes.extend_from_slice(secret);
        // Letters that share a byte with what stands around it are not the secret's alone.
        let first = (before * 8).div_ceil(6);
        let last = bytes.len() * 8 / 6;
        for text in [STANDARD_NO_PAD.encode(&bytes), URL_SAFE_NO_PAD.encode(&bytes)] {
            found.extend(
                text.get(first..last)
                    .filter(|part| part.len() >= SHORTEST_BASE64)
                    .map(str::to_owned),
            );
        }
    }
    // By itself it may end with letters that nothing else shares.
    let whole = [STANDARD_NO_PAD.encode(secret), URL_SAFE_NO_PAD.encode(secret)];
    found.extend(whole.into_iter().filter(|text| text.len() >= SHORTEST_BASE64));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_looked_for_as_programs_write_it() {
        let found = forms("pa ss/w\"ö&'");
        for expected in [
            "pa ss/w\"ö&'",
            "pa ss/w\\\"ö&'",
            "pa ss/w\\\"\\u00f6&'",
            "pa%20ss/w%22%C3%B6&'",
            "pa%20ss/w%22%c3%b6&'",
            "pa%20ss%2Fw%22%C3%B6%26%27",
            "pa%20ss%2fw%22%c3%b6%26%27",
            "pa%2520ss%252Fw%2522%25C3%25B6%2526%2527",
            "pa+ss%2Fw%22%C3%B6%26%27",
            "pa ss/w&quot;ö&amp;&#39;",
        ] {
            assert!(found.iter().any(|form| form == expected), "{expected}: {found:#?}");
        }
    }

    #[test]
    fn base64_tells_it_wherever_it_begins() {
        let secret = "hunter22-and-more?>";
        let found = forms(secret);
        for before in ["", "u", "ad", "ada", "ada:"] {
            for after in ["", "x", "yy", "zzz"] {
                let text = format!("{before}{secret}{after}");
                for written in [STANDARD_NO_PAD.encode(&text), URL_SAFE_NO_PAD.encode(&text)] {
                    let is_found = found.iter().any(|form| written.contains(form.as_str()));
                    assert!(is_found, "{text}: {written}");
                }
            }
        }
    }

    #[test]
    fn lines_of_a_key_are_looked_for_and_its_frame_is_not() {
        let key = "-----BEGIN KEY-----\nMIIBVgIBADAN\r\nend\nAgEAAkEA/q\n-----END KEY-----\n";
        let found = forms(key);
        for expected in ["MIIBVgIBADAN", "AgEAAkEA/q", "AgEAAkEA%2Fq", key] {
            assert!(found.iter().any(|form| form == expected), "{expected}");
        }
        for other in ["end", "-----BEGIN KEY-----", ""] {
            assert!(found.iter().all(|form| form != other), "{other}");
        }
    }

    #[test]
    fn short_ones_are_not_looked_for() {
        assert_eq!(forms("abc"), Vec::<String>::new());
        assert!(forms("abcd").iter().all(|form| form.len() >= 4));
    }
}
