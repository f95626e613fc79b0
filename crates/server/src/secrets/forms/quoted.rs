//! A secret inside quotes: in JSON, HTML, source code and shell commands.

use serde_json::Value;

/// How a program writes a text into JSON, beyond the escapes that all of them use.
struct JsonStyle {
    /// Whether characters beyond ASCII are escaped.
    ascii: bool,
    /// Whether escapes use upper-case digits.
    capitals: bool,
    /// Further characters that are escaped as `\u` and their number.
    numbered: &'static str,
    /// Whether `/` is written `\/`.
    slash: bool,
}

const fn style(ascii: bool, capitals: bool, numbered: &'static str, slash: bool) -> JsonStyle {
    JsonStyle { ascii, capitals, numbered, slash }
}

const JSON_STYLES: [JsonStyle; 10] = [
    // Python; the second one is for programs with upper-case digits.
    style(true, false, "", false),
    style(true, true, "", false),
    // PHP, with and without JSON_UNESCAPED_UNICODE.
    style(true, false, "", true),
    style(false, false, "", true),
    // Go and Rails escape what could end a script in HTML.
    style(false, false, "<>&", false),
    // Jinja, for HTML pages.
    style(true, false, "<>&'", false),
    style(false, false, "<>&'", false),
    // Gson escapes `=` and `'` as well.
    style(false, false, "<>&='", false),
    // PHP with JSON_HEX_TAG and similar flags.
    style(true, true, "<>&'\"", true),
    // .NET escapes everything beyond ASCII, in capitals.
    style(true, true, "<>&'\"+`", false),
];

/// As most programs write it into JSON, and as JSON inside another JSON text.
pub(super) fn as_plain_json(text: &str) -> [String; 2] {
    let written = plain_json(text);
    [plain_json(&written), written]
}

/// All the ways in which programs write it into JSON.
pub(super) fn as_json(text: &str) -> Vec<String> {
    let mut found: Vec<String> = JSON_STYLES.iter().map(|style| styled_json(text, style)).collect();
    // In ASCII, inside another JSON text.
    let twice: Vec<String> = found[..2].iter().map(|written| plain_json(written)).collect();
    found.extend(twice);
    found.extend(as_plain_json(text));
    found
}

fn plain_json(text: &str) -> String {
    let written = Value::from(text).to_string();
    written[1..written.len() - 1].to_owned()
}

fn styled_json(text: &str, style: &JsonStyle) -> String {
    let mut written = String::new();
    for letter in text.chars() {
        let is_numbered = style.numbered.contains(letter) || (style.ascii && !letter.is_ascii());
        match letter {
            _ if is_numbered => {
                for unit in letter.encode_utf16(&mut [0; 2]) {
                    written.push_str(&if style.capitals {
                        format!("\\u{unit:04X}")
                    } else {
                        format!("\\u{unit:04x}")
                    });
                }
            }
            '/' if style.slash => written.push_str("\\/"),
            other => written.push_str(&plain_json(other.encode_utf8(&mut [0; 4]))),
        }
    }
    written
}

/// As HTML escapes it. Libraries write quotes in different ways, and some escape more characters.
pub(super) fn as_html(text: &str) -> Vec<String> {
    let plain = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let mut found = Vec::new();
    for double in ["\"", "&quot;", "&#34;", "&#x22;"] {
        for single in ["'", "&#39;", "&#x27;", "&apos;", "&#039;"] {
            found.push(plain.replace('"', double).replace('\'', single));
        }
    }
    // Go's templates, Mustache and Handlebars.
    found.push(plain.replace('"', "&#34;").replace('\'', "&#39;").replace('+', "&#43;"));
    let equal = plain.replace('=', "&#x3D;").replace('`', "&#x60;").replace('"', "&quot;");
    found.push(equal.replace('/', "&#x2F;").replace('\'', "&#39;"));
    found.push(equal.replace('\'', "&#x27;"));
    found
}

/// As programs print string literals.
pub(super) fn as_literal(text: &str) -> Vec<String> {
    let slashes = text.replace('\\', "\\\\");
    let lines = slashes.replace('\n', "\\n").replace('\r', "\\r").replace('\t', "\\t");
    let octal = |byte: u8| format!("\\{byte:03o}");
    vec![
        text.escape_debug().to_string(),
        text.escape_default().to_string(),
        // With and without escaped single quotes.
        lines.replace('\'', "\\'"),
        beyond_ascii(&lines, |byte| format!("\\x{byte:02x}")),
        // Python's `ascii` writes `\xe9` for `é`.
        in_ascii(&lines),
        in_ascii(&lines.replace('\'', "\\'")),
        beyond_ascii(&lines, octal),
        beyond_ascii(&lines.replace('\'', "\\'"), octal),
        lines,
        slashes,
        // SQL and CSV.
        text.replace('\'', "''"),
        text.replace('"', "\"\""),
    ]
}

/// Writes each character that is not ASCII by its number, as Python does.
fn in_ascii(text: &str) -> String {
    let written = text.chars().map(|letter| match u32::from(letter) {
        0..0x80 => letter.to_string(),
        number @ 0x80..0x100 => format!("\\x{number:02x}"),
        number @ 0x100..0x1_0000 => format!("\\u{number:04x}"),
        number => format!("\\U{number:08x}"),
    });
    written.collect()
}

/// Writes each byte that is not ASCII with `write`.
fn beyond_ascii(text: &str, write: impl Fn(u8) -> String) -> String {
    let written = text
        .bytes()
        .map(|byte| if byte.is_ascii() { char::from(byte).to_string() } else { write(byte) });
    written.collect()
}

/// As shells quote it as one word.
pub(super) fn for_shells(text: &str) -> Vec<String> {
    let is_word = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    vec![
        text.replace('\'', "'\\''"),
        text.replace('\'', "'\"'\"'"),
        // `printf %q` of bash; without the comma, of other shells.
        slashed(text, |letter| " \t'\"\\|&;()<>!{}*[]?^$`,".contains(letter)),
        slashed(text, |letter| " \t'\"\\|&;()<>!{}*[]?^$`".contains(letter)),
        slashed(text, |letter| " \t'\"\\|&;()<>!{}*[]?^$`,#~=".contains(letter)),
        // Inside double quotes, without and with `!` escaped.
        slashed(text, |letter| "\"\\$`".contains(letter)),
        slashed(text, |letter| "\"\\$`!".contains(letter)),
        // Ruby's `Shellwords`, and Perl's `quotemeta`.
        slashed(text, |letter| !is_word(letter) && !"-.,:+/@\n".contains(letter)),
        slashed(text, |letter| letter.is_ascii() && !is_word(letter)),
    ]
}

/// Puts a backslash before each special character.
fn slashed(text: &str, is_special: impl Fn(char) -> bool) -> String {
    let mut written = String::new();
    for letter in text.chars() {
        if is_special(letter) {
            written.push('\\');
        }
        written.push(letter);
    }
    written
}
