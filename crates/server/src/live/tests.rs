use std::collections::BTreeMap;
use std::ffi::OsString;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::secret_redactor::SecretRedactor;
use crate::secrets::Secrets;

fn secrets(values: &[&str]) -> Secrets {
    let variable = |(at, value): (usize, &&str)| {
        (OsString::from(format!("PUNCTUAL_SECRET_S{at}")), OsString::from(value))
    };
    let environment: BTreeMap<_, _> = values.iter().enumerate().map(variable).collect();
    Secrets::read(None, environment).unwrap()
}

/// Cut into pieces of any size, the text gives the same result as in one piece, and never shows a
/// secret on the way.
#[track_caller]
fn assert_masked_in_pieces(text: &str, secrets: &Secrets, known: &[&str]) {
    let expected = secrets.mask(text).into_owned();
    for size in 1..=text.len() {
        let (mut redactor, mut shown) = (SecretRedactor::default(), String::new());
        for piece in text.as_bytes().chunks(size) {
            shown.push_str(&redactor.pass(piece, secrets));
            assert!(known.iter().all(|secret| !shown.contains(secret)), "{shown}");
            assert!(expected.starts_with(&shown), "{shown} is not how {expected} begins");
        }
        shown.push_str(&redactor.rest(secrets));
        assert_eq!(shown, expected, "in pieces of {size}");
    }
}

#[test]
fn a_secret_is_masked_wherever_it_is_cut() {
    let known = ["hunter22", "22abc", "hunter22-long", "äöüß", "line\nbreak"];
    let secrets = secrets(&known);
    let texts = [
        "before hunter22 after",
        "hunter22abc",
        "hunter22-longer",
        "hunter hunter22-lon hunter",
        "äöü äöüß!",
        "a line\nbreak, a line\nno break",
        "nothing at all",
        "ends with hunter2",
    ];
    for text in texts {
        assert_masked_in_pieces(text, &secrets, &known);
    }
}

#[test]
fn wrapped_base64_is_masked_wherever_it_is_cut() {
    let secret = "one-long-secret-".repeat(6);
    let secrets = secrets(&[&secret]);
    for before in ["", "user:", &"x".repeat(50)] {
        let encoded = STANDARD.encode(format!("{before}{secret}"));
        for (columns, ending) in [(76, "\n"), (64, "\n"), (64, "\r\n")] {
            let lines: Vec<&str> = encoded
                .as_bytes()
                .chunks(columns)
                .map(|line| std::str::from_utf8(line).unwrap())
                .collect();
            let text = format!("key: {}{ending}done\n", lines.join(ending));
            assert_eq!(secrets.mask(&text).matches("***").count(), 1, "{text}");
            assert_masked_in_pieces(&text, &secrets, &[&STANDARD.encode("one-long-secret-one-")]);
        }
    }
}

#[test]
fn percent_escapes_are_masked_wherever_they_are_cut() {
    let secrets = secrets(&["Ab/ö😀=cd", "/?&="]);
    let long = format!("{}Ab%2F\n%C3%B6😀=cd\n", "x".repeat(70));
    let texts = [
        "see Ab/%C3%B6%F0%9F%98%80%3Dcd.",
        "see Ab%2f%F6%ud83d%uDE00=cd.",
        "see Ab%252F%25C3%25B6😀%253Dcd.",
        "100% of %2F%3F&%3D, %2F%3, %C3 %uD83D %41b%",
        "ends with %41b%2F%C3",
        &long,
    ];
    for text in texts {
        assert_masked_in_pieces(text, &secrets, &["%2F%3F&", "😀", "cd."]);
        if !text.starts_with("ends") {
            assert_eq!(secrets.mask(text).matches("***").count(), 1, "{text}");
        }
    }
}

#[test]
fn only_what_may_be_a_secret_is_held_back() {
    let secrets = secrets(&["hunter22"]);
    let mut redactor = SecretRedactor::default();
    assert_eq!(redactor.pass(b"one line\n", &secrets), "one line\n");
    assert_eq!(redactor.pass(b"password: hunt", &secrets), "password: ");
    assert_eq!(redactor.pass(b"ing\n", &secrets), "hunting\n");
    let long = format!("{}\n", "=".repeat(60));
    assert_eq!(redactor.pass(long.as_bytes(), &secrets), long);
    assert_eq!(redactor.pass(b"50%\n 100%", &secrets), "50%\n 100");
    assert_eq!(redactor.pass(b" done\n", &secrets), "% done\n");
    assert_eq!(redactor.pass(b"\xff \xc3", &secrets), "\u{fffd} ");
    assert_eq!(redactor.pass(b"\xa4", &secrets), "ä");
}
