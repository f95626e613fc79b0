//! A secret in base64, base32 or hexadecimal.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};

/// The part of an encoded secret that does not depend on its neighbours needs at least this many
/// letters.
const SHORTEST_BASE64: usize = 6;
const SHORTEST_BASE32: usize = 8;
const BASE32: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";

/// The base64 letters that depend on the secret alone, whatever bytes come before and after it.
/// Three bytes are four letters, so there are three alignments.
pub(super) fn as_base64(secret: &[u8]) -> Vec<String> {
    let mut found = Vec::new();
    for before in 0..3 {
        for engine in [&STANDARD_NO_PAD, &URL_SAFE_NO_PAD] {
            let write = |bytes: &[u8]| engine.encode(bytes);
            found.extend(own_letters(secret, before, 6, SHORTEST_BASE64, write));
        }
    }
    // A secret that is encoded alone may end with letters that no alignment above includes.
    let whole = [STANDARD_NO_PAD.encode(secret), URL_SAFE_NO_PAD.encode(secret)];
    found.extend(whole.into_iter().filter(|text| text.len() >= SHORTEST_BASE64));
    found
}

/// The same in base32, where five bytes are eight letters. Some programs write lower case.
pub(super) fn as_base32(secret: &[u8]) -> Vec<String> {
    let parts =
        (0..5).filter_map(|before| own_letters(secret, before, 5, SHORTEST_BASE32, write_base32));
    let mut found: Vec<String> = parts.collect();
    found.extend(Some(write_base32(secret)).filter(|text| text.len() >= SHORTEST_BASE32));
    let small: Vec<String> = found.iter().map(|text| text.to_ascii_lowercase()).collect();
    found.extend(small);
    found
}

/// In hexadecimal, in lower and upper case.
pub(super) fn as_hex(secret: &[u8]) -> [String; 2] {
    let small: String = secret.iter().map(|byte| format!("{byte:02x}")).collect();
    [small.to_ascii_uppercase(), small]
}

/// The letters that depend on the secret alone when `before` other bytes precede it. The first and
/// last letter may share bits with the neighbouring bytes.
fn own_letters(
    secret: &[u8],
    before: usize,
    bits: usize,
    shortest: usize,
    write: impl Fn(&[u8]) -> String,
) -> Option<String> {
    let mut bytes = vec![0; before];
    bytes.extend_from_slice(secret);
    let (first, last) = ((before * 8).div_ceil(bits), bytes.len() * 8 / bits);
    write(&bytes).get(first..last).filter(|part| part.len() >= shortest).map(str::to_owned)
}

fn write_base32(bytes: &[u8]) -> String {
    let mut written = String::new();
    for five in bytes.chunks(5) {
        let mut whole = [0; 8];
        whole[3..3 + five.len()].copy_from_slice(five);
        let bits = u64::from_be_bytes(whole);
        for at in 0..(five.len() * 8).div_ceil(5) {
            let letter = (bits >> (35 - at * 5)) & 31;
            written.push(char::from(BASE32[letter as usize]));
        }
    }
    written
}
