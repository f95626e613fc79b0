//! Cuts the texts of an output so that the output, as JSON, fits the size limit of stored outputs.

use language::definition::limits::OUTPUT_BYTES;

/// Reserve for names, numbers and small texts beside the large ones, and for secrets that are
/// shorter than the mask that replaces them.
const BESIDE: usize = 8 << 10;
/// The total size that the large texts of an output may have as JSON.
pub(crate) const TEXT_BYTES: usize = OUTPUT_BYTES - BESIDE;

/// The size of a text in JSON, in bytes, without its quotes.
pub(crate) fn encoded_len(text: &str) -> usize {
    text.chars().map(encoded_char).sum()
}

fn encoded_char(character: char) -> usize {
    match character {
        '"' | '\\' | '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => 2,
        '\0'..='\u{1f}' => 6,
        other => other.len_utf8(),
    }
}

/// Cuts a text to at most `most` bytes in JSON. Returns whether anything was cut.
pub(crate) fn cut_encoded(text: &mut String, most: usize) -> bool {
    let mut encoded = 0;
    let too_much = text.char_indices().find(|(_, character)| {
        encoded += encoded_char(*character);
        encoded > most
    });
    match too_much {
        Some((at, _)) => {
            text.truncate(at);
            true
        }
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_those_of_the_json_text() {
        let text: String = (0..=0x2fff).filter_map(char::from_u32).collect();
        let json = serde_json::Value::from(text.as_str()).to_string();
        assert_eq!(encoded_len(&text) + 2, json.len());
        for (text, most, kept) in [
            ("abc", 3, "abc"),
            ("abc", 2, "ab"),
            ("a\"b", 3, "a\""),
            ("a\"b", 2, "a"),
            ("é", 1, ""),
            ("\u{1}", 5, ""),
        ] {
            let mut cut = text.to_owned();
            assert_eq!((cut_encoded(&mut cut, most), cut.as_str()), (text != kept, kept));
        }
    }
}
