//! Whether a token that people have thought up can be guessed. Those that we make have 256 random bits.

use std::collections::BTreeSet;

/// Fewer characters are tried out, or found in a list.
const SHORTEST: usize = 16;
/// Fewer different ones repeat themselves.
const FEWEST: usize = 8;

/// What is wrong with a token that somebody has thought up, in words that do not have it in them; nothing, if it cannot be
/// guessed.
pub fn token_weakness(token: &str) -> Option<String> {
    let letters: Vec<char> = token.chars().collect();
    if letters.len() < SHORTEST {
        let count = letters.len();
        return Some(format!("it has {count} characters, and needs at least {SHORTEST}"));
    }
    let different = letters.iter().collect::<BTreeSet<_>>().len();
    if different < FEWEST {
        return Some(format!("it has {different} different characters, and needs {FEWEST}"));
    }
    // `aaaa`, `abcd`, `4321`: each follows from the one before.
    let follows = |pair: &[char]| (u32::from(pair[0])).abs_diff(u32::from(pair[1])) <= 1;
    let following = letters.windows(2).filter(|pair| follows(pair)).count();
    if following * 2 > letters.len() {
        return Some("its characters follow one from the other".to_owned());
    }
    let repeated = (1..=letters.len() / 2)
        .find(|period| letters.iter().zip(&letters[*period..]).all(|(one, other)| one == other));
    repeated.map(|period| format!("it repeats its first {period} characters"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_be_guessed_is_refused() {
        for weak in [
            "",
            "secret",
            "sesame-sesame",
            "aaaaaaaaaaaaaaaaaaaaaaaa",
            "abababababababababab",
            "12345678901234567890",
            "abcdefghijklmnopqrst",
            "hunter2-hunter2-",
            "changeme-changeme-",
        ] {
            assert!(token_weakness(weak).is_some(), "{weak}");
        }
        for strong in [
            "9b1c6d2f0e7a4835c1d2e3f4a5b69780",
            "pun_kR3v9qZ0xYb7wN1mT5sLdPfGhJcVuAeQiOoB2nM4x8E",
            "correct horse battery staple",
            "6f1d2c3b-8a7e-4f60-9b1a-0c2d4e6f8a1b",
        ] {
            assert_eq!(token_weakness(strong), None, "{strong}");
        }
    }
}
