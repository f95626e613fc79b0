//! Whether a token that a person made up can be guessed. Tokens that we generate have 256 random
//! bits.
//!
//! The estimate can be explained to people. Characters that are hard to guess count in full.
//! Letters that look like a word count half. A common word, a year, a keyboard row, a sequence or a
//! repetition counts as one character, however long it is, and separators of words do not count.

use std::collections::BTreeSet;
use std::ops::Range;

/// Shorter tokens that people make up are a few words, which can be found in a list.
const SHORTEST: usize = 24;
/// How many different characters a token must have. A random token of 24 hexadecimal digits has
/// fewer less than once in a billion times.
const FEWEST: usize = 5;
/// How many characters a token must be worth. Random ones of the shortest length are worth that,
/// even if parts of them look like words.
const LEAST_WORTH: usize = 9;
/// Shorter sequences occur too often by chance.
const SHORTEST_RUN: usize = 4;
/// The words at the top of every list of passwords, words in our own documentation, and words that
/// people use for tokens.
const WORDS: &str = "\
    administrator development kubernetes production temporary changeit changeme baseball \
    computer football iloveyou internet localhost passport passwort password postgres princess \
    punctual security sunshine superman workflow database sample staging testing welcome \
    letmein example charlie company default michael trustno whatever access apikey autumn \
    batman bearer change docker dragon foobar github hunter manager master monkey passwd \
    please private public secret secure server service shadow spring summer system winter \
    admin dummy hello local login token world auth demo john love pass root temp test user \
    node your goes here replace insert random token with real this that value enter very \
    some many super january february march april june july august september october november \
    december my me is for do not use key the and";
/// Adjacent keys, by rows and by columns.
const KEYBOARD: [&str; 10] = [
    "1234567890",
    "qwertyuiop",
    "qwertzuiop",
    "azertyuiop",
    "asdfghjkl",
    "zxcvbnm",
    "yxcvbnm",
    "1qaz2wsx3edc4rfv5tgb6yhn7ujm",
    "qazwsxedcrfvtgbyhnujmikolp",
    "1q2w3e4r5t6y7u8i9o0p",
];

/// Why a token that a person made up can be guessed, in words that do not contain it; `None` if it
/// cannot.
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
    let worth = worth_in_halves(&letters) / 2;
    (worth < LEAST_WORTH).then(|| {
        format!(
            "with common words, keyboard rows, sequences and repetitions counted as one character \
             each, it is worth {worth} characters, and needs to be worth {LEAST_WORTH}"
        )
    })
}

/// The worth of a token in half characters.
fn worth_in_halves(letters: &[char]) -> usize {
    let small: Vec<char> = letters.iter().map(char::to_ascii_lowercase).collect();
    let (mut at, mut halves) = (0, 0);
    while at < letters.len() {
        if let Some(length) = guessable(&small, at) {
            halves += 2;
            at += length;
            continue;
        }
        // A word ends where a part begins that is guessed as a whole.
        let word = (at..letters.len())
            .take_while(|&next| next == at || guessable(&small, next).is_none())
            .take_while(|&next| looks_like_word(letters, at..next + 1))
            .count();
        if word >= SHORTEST_RUN {
            halves += word;
            at += word;
            continue;
        }
        halves += if is_separator(letters[at]) { 0 } else { 2 };
        at += 1;
    }
    halves
}

/// How many characters from here on are guessed as a whole, if any.
fn guessable(small: &[char], at: usize) -> Option<usize> {
    let found = [word(small, at), year(small, at), run(small, at), repetition(small, at)];
    found.into_iter().flatten().max()
}

fn word(small: &[char], at: usize) -> Option<usize> {
    let begins = |word: &&str| {
        let rest = &small[at..];
        let is_spelled = |(letter, written): (char, &char)| spells(*written, letter);
        word.len() <= rest.len() && word.chars().zip(rest).all(is_spelled)
    };
    WORDS.split(' ').filter(begins).map(str::len).max()
}

/// Whether `written` may stand for a letter, as in `p4$$w0rd`.
fn spells(written: char, letter: char) -> bool {
    let replaced = match letter {
        'a' => "4@",
        'e' => "3",
        'i' => "1!",
        'l' => "1",
        'o' => "0",
        's' => "5$",
        't' => "7",
        _ => "",
    };
    written == letter || replaced.contains(written)
}

/// A year from 1900 to 2099.
fn year(small: &[char], at: usize) -> Option<usize> {
    let digits = small.get(at..at + 4)?;
    let is_year = matches!(digits, ['1', '9', ..] | ['2', '0', ..]);
    (is_year && digits.iter().all(char::is_ascii_digit)).then_some(4)
}

/// `aaaa`, `abcd`, `4321`, `asdf`: each character follows from the one before.
fn run(small: &[char], at: usize) -> Option<usize> {
    let by_code = |step: i64| {
        let follows = move |pair: &&[char]| {
            i64::from(u32::from(pair[1])) - i64::from(u32::from(pair[0])) == step
        };
        small[at..].windows(2).take_while(follows).count() + 1
    };
    let beside = |row: &str| {
        let is_beside = |pair: &&[char]| {
            let keys = row.find(pair[0]).zip(row.find(pair[1]));
            keys.is_some_and(|(one, other)| one.abs_diff(other) == 1)
        };
        small[at..].windows(2).take_while(is_beside).count() + 1
    };
    let longest = [-1, 0, 1].into_iter().map(by_code).chain(KEYBOARD.into_iter().map(beside)).max();
    longest.filter(|&length| length >= SHORTEST_RUN)
}

/// The characters from here on that occurred in the same order before.
fn repetition(small: &[char], at: usize) -> Option<usize> {
    let same = |from: usize| {
        small[from..].iter().zip(&small[at..]).take_while(|(one, other)| one == other).count()
    };
    (0..at).map(same).max().filter(|&length| length >= SHORTEST_RUN)
}

/// Whether the letters are written like `word`, `WORD` or `Word`.
fn looks_like_word(letters: &[char], range: Range<usize>) -> bool {
    let Some((first, rest)) = letters[range].split_first() else { return false };
    let is_small = rest.iter().all(char::is_ascii_lowercase);
    let is_large = first.is_ascii_uppercase() && rest.iter().all(char::is_ascii_uppercase);
    first.is_ascii_alphabetic() && (is_small || is_large)
}

/// Whether people write this character between words, or after them.
fn is_separator(letter: char) -> bool {
    matches!(letter, ' ' | '-' | '_' | '.' | ',' | ':' | ';' | '/' | '+' | '!' | '?' | '#')
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
    use sha2::{Digest as _, Sha256};

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
            "password12345678",
            "letmeinletmein123",
            "changemechangeme1",
            "secret-token-12345",
            "qwertyuiopasdfgh",
            "1234567890qwertyuiop",
            "PUNCTUAL_TOKEN_1",
            "P4$$w0rd-P4$$w0rd-2026",
            "Summer2025Summer2026!!",
            "administrator-production-2024",
            "1qaz2wsx3edc4rfv",
            "!!!!!!!!test-test????....",
            "my-super-secret-token",
            "correct-horse-battery",
            "companyname-prod-token",
            "johnsmith19850412!!",
            "your-secret-token-goes-here",
            "replace-me-with-a-real-token",
            "REPLACE_WITH_RANDOM_TOKEN_HERE",
            "my-super-secret-token-2024",
            "punctual-token-for-production",
            "development-token-do-not-use",
            "ThisIsMySecretTokenForPunctual",
            "mypasswordisverysecure123",
            "januaryfebruarymarchapril",
            "qazwsxedcrfvtgbyhnujmikolp",
            "1q2w3e4r5t6y7u8i9o0p1q2w3e",
        ] {
            assert!(token_weakness(weak).is_some(), "{weak}");
        }
        for strong in [
            "9b1c6d2f0e7a4835c1d2e3f4a5b69780",
            "pun_kR3v9qZ0xYb7wN1mT5sLdPfGhJcVuAeQiOoB2nM4x8E",
            "correct horse battery staple",
            "6f1d2c3b-8a7e-4f60-9b1a-0c2d4e6f8a1b",
            "jwkzpqxvhmtrbndgcfslykwz",
            "correct-horse-1234-staple",
        ] {
            assert_eq!(token_weakness(strong), None, "{strong}");
        }
    }

    #[test]
    fn what_is_said_does_not_have_the_token_in_it() {
        for (weak, said) in [
            ("sesame", "it has 6 characters, and needs at least 24"),
            ("abababababababababababab", "it has 2 different characters, and needs 5"),
        ] {
            assert_eq!(token_weakness(weak).as_deref(), Some(said));
        }
        let said = token_weakness("PUNCTUAL_TOKEN_1-PUNCTUAL").unwrap();
        assert!(said.ends_with("it is worth 4 characters, and needs to be worth 9"), "{said}");
    }

    /// Pseudo-random bytes from a counter: the same ones in every run of the test.
    #[test]
    fn random_tokens_are_never_refused() {
        for seed in 0..1_000_u32 {
            let random: [u8; 32] = Sha256::digest(seed.to_be_bytes()).into();
            let hex: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
            let base64 = URL_SAFE_NO_PAD.encode(random);
            let parts = [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..32]];
            for token in [
                &hex[..],
                &hex[..24],
                &hex[16..40],
                &hex.to_uppercase()[..24],
                &base64,
                &base64[..24],
                &STANDARD.encode(random)[20..],
                &STANDARD.encode(random)[..24],
                &parts.join("-"),
            ] {
                assert_eq!(token_weakness(token), None, "{token}");
            }
        }
    }
}
