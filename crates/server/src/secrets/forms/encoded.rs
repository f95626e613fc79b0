//! A secret as letters and digits that stand for its bytes.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};

/// What can be told of a secret wherever it begins has at least so many letters.
const SHORTEST_BASE64: usize = 6;
const SHORTEST_BASE32: usize = 8;
const BASE32: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";

/// What of the secret can be told in base64, whatever stands before and after it: three bytes are four letters, so there
/// are three ways to begin.
pub(super) fn as_base64(secret: &[u8]) -> Vec<String> {
    let mut found = Vec::new();
    for before in 0..3 {
        for engine in [&STANDARD_NO_PAD, &URL_SAFE_NO_PAD] {
            let write = |bytes: &[u8]| engine.encode(bytes);
            found.extend(own_letters(secret, before, 6, SHORTEST_BASE64, write));
        }
    }
    // By itself it may end with letters that nothing else shares.
    let whole = [STANDARD_NO_PAD.encode(secret), URL_SAFE_NO_PAD.encode(secret)];
    found.extend(whole.into_iter().filter(|text| text.len() >= SHORTEST_BASE64));
    found
}

/// The same in base32, where five bytes are eight letters. Some programs write small ones.
pub(super) fn as_base32(secret: &[u8]) -> Vec<String> {
    let parts =
        (0..5).filter_map(|before| own_letters(secret, before, 5, SHORTEST_BASE32, write_base32));
    let mut found: Vec<String> = parts.collect();
    found.extend(Some(write_base32(secret)).filter(|text| text.len() >= SHORTEST_BASE32));
    let small: Vec<String> = found.iter().map(|text| text.to_ascii_lowercase()).collect();
    found.extend(small);
    found
}

/// In hexadecimal, with small letters and capitals.
pub(super) fn as_hex(secret: &[u8]) -> [String; 2] {
    let small: String = secret.iter().map(|byte| format!("{byte:02x}")).collect();
    [small.to_ascii_uppercase(), small]
}

/// The letters that are the secret's alone behind so many other bytes: at its ends a letter may share bits with what
/// stands around it.
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
