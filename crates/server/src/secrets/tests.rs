use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

use super::*;
use crate::Stopwatch;

fn environment(pairs: &[(&str, &str)]) -> Vec<(OsString, OsString)> {
    pairs.iter().map(|(name, value)| (name.into(), value.into())).collect()
}

fn secrets(pairs: &[(&str, &str)]) -> Secrets {
    let pairs = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).into()));
    Secrets::of(pairs.collect()).unwrap()
}

fn file(text: impl AsRef<[u8]>) -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("secrets");
    fs::write(&path, text).unwrap();
    (dir, path)
}

#[test]
fn a_file_has_a_line_for_each() {
    let text = "# ours\n\nTOKEN=abc=d ef\r\nQUOTED=\"x\"\n  \n_2 = y\n";
    let (_dir, path) = file(text);
    let read = Secrets::read(Some(&path), []).unwrap();
    assert_eq!(read.names().collect::<Vec<_>>(), ["QUOTED", "TOKEN", "_2"]);
    assert_eq!(read.get("TOKEN"), Some("abc=d ef"));
    assert_eq!(read.get("QUOTED"), Some("\"x\""));
    assert_eq!(read.get("_2"), Some(" y"));
    assert_eq!(read.get("token"), None);
}

#[test]
fn a_folder_has_a_file_for_each() {
    let dir = tempfile::tempdir().unwrap();
    for (name, text) in [("A", "one\n"), ("B", "two\nlines\n\n"), ("C", "x\r\n"), (".hidden", "z")]
    {
        fs::write(dir.path().join(name), text).unwrap();
    }
    fs::create_dir(dir.path().join("folder")).unwrap();
    let read = Secrets::read(Some(dir.path()), []).unwrap();
    let all: Vec<_> = read.names().map(|name| (name, read.get(name).unwrap())).collect();
    assert_eq!(all, [("A", "one"), ("B", "two\nlines\n"), ("C", "x")]);
}

#[test]
fn the_environment_wins() {
    let (_dir, path) = file("A=file\nB=file\n");
    let variables = environment(&[
        ("PUNCTUAL_SECRET_A", "variable"),
        ("PUNCTUAL_SECRETS", "other"),
        ("PUNCTUAL_TOKEN", "other"),
    ]);
    let read = Secrets::read(Some(&path), variables).unwrap();
    assert_eq!((read.get("A"), read.get("B")), (Some("variable"), Some("file")));
    assert_eq!(read.names().count(), 2);
}

#[test]
fn mistakes_have_a_place_and_no_value() {
    let long = format!("{}=VALUE", "N".repeat(65));
    for (text, line, why) in [
        ("A=x\nVALUE\n", "line 2", "no `=`"),
        ("A=x\nA=VALUE\n", "line 2", "A is given twice"),
        ("A=\n", "line 1", "A has no value"),
        ("\n\n9VALUE=x\n", "line 3", "name"),
        ("VALUE-x=x\n", "line 1", "name"),
        ("=VALUE\n", "line 1", "name"),
        (&long, "line 1", "name"),
    ] {
        let (_dir, path) = file(text);
        let error = Secrets::read(Some(&path), []).unwrap_err().to_string();
        assert!(error.contains(line) && error.contains(why), "{text}: {error}");
        assert!(!error.contains("VALUE"), "{error}");
    }
    for (name, value, why) in
        [("PUNCTUAL_SECRET_", "x", "name"), ("PUNCTUAL_SECRET_A", "", "no value")]
    {
        let error = Secrets::read(None, environment(&[(name, value)])).unwrap_err().to_string();
        assert!(error.contains(name) && error.contains(why), "{error}");
    }
}

#[test]
fn files_that_are_no_text_or_not_there_are_told() {
    let (_dir, path) = file([0xff, 0xfe]);
    assert!(Secrets::read(Some(&path), []).unwrap_err().to_string().contains("UTF-8"));
    let (_dir, path) = file(vec![b'#'; (1 << 20) + 1]);
    assert!(Secrets::read(Some(&path), []).unwrap_err().to_string().contains("more than 1048576"));
    let missing = Secrets::read(Some(Path::new("/no/such/file")), []).unwrap_err();
    assert!(matches!(missing, SecretsError::Unreadable { .. }));
    assert!(missing.to_string().starts_with("/no/such/file: "), "{missing}");
}

#[test]
fn debug_shows_names_only() {
    let shown = format!("{:?}", secrets(&[("TOKEN", "hunter2"), ("B", "hunter3")]));
    assert_eq!(shown, r#"{"B", "TOKEN"}"#);
}

#[test]
fn secrets_are_masked_wherever_they_stand() {
    let some = secrets(&[
        ("A", "hunter2"),
        ("B", "hunter2-longer"),
        ("C", "er2-lon"),
        ("D", "abc"),
        ("E", "äöü€"),
        ("F", "aaaa"),
        ("G", "two\n\"lines\""),
    ]);
    for (text, masked) in [
        ("nothing here", "nothing here"),
        ("", ""),
        ("hunter2", "***"),
        ("a hunter2, b hunter2.", "a ***, b ***."),
        ("hunter2hunter2", "******"),
        ("hunter2-longer", "***"),
        ("hunter2-lon", "***"),
        ("xer2-longx", "x***gx"),
        ("Hunter2", "Hunter2"),
        ("abc", "abc"),
        ("für äöü€!", "für ***!"),
        ("aaaaaaab", "***b"),
        ("two\n\"lines\"", "***"),
        (r#"{"x":"two\n\"lines\""}"#, r#"{"x":"***"}"#),
    ] {
        assert_eq!(some.mask(text), masked, "{text}");
    }
    assert!(matches!(some.mask("nothing"), Cow::Borrowed(_)));
    assert_eq!(Secrets::default().mask("hunter2"), "hunter2");
    assert_eq!(secrets(&[("D", "abc")]).mask("abc"), "abc");
}

/// Encoders break long output into lines.
#[test]
fn a_secret_that_programs_wrap_is_masked() {
    let key = "-----BEGIN KEY-----\nMIIBVgIBADANBgkqhkiG9w0BAQEFAASCAT8wggE7AgEAAkEA\n-----END KEY-----\n";
    let long = "correct-horse-battery-staple-correct-horse-battery-staple-correct-horse";
    let some = secrets(&[("KEY", key), ("LONG", long)]);
    let hex = |text: &str| text.bytes().map(|byte| format!("{byte:02x}")).collect::<String>();
    for (program, encoded, columns) in [
        ("base64", STANDARD.encode(key), 76),
        ("base64 behind something", STANDARD.encode(format!("user:{long}")), 76),
        ("openssl base64", STANDARD.encode(long), 64),
        ("xxd -p", hex(long), 60),
    ] {
        for ending in ["\n", "\r\n", "\\n"] {
            let lines =
                encoded.as_bytes().chunks(columns).map(|line| str::from_utf8(line).unwrap());
            let wrapped = lines.collect::<Vec<_>>().join(ending);
            let masked = some.mask(&wrapped).into_owned();
            assert!(masked.len() < 16 && masked.contains(MASK), "{program}: {wrapped}: {masked}");
        }
    }
    // The line break comes after too few characters to be a wrap.
    assert_eq!(
        some.mask("correct-horse-battery-staple-\ncorrect"),
        "correct-horse-battery-staple-\ncorrect"
    );
}

/// The text that each program printed for its secret, whichever characters it left as they were.
#[test]
fn percent_escapes_of_all_kinds_are_masked() {
    let secret = "Ab+/<ö>&'\"=$x y~z";
    let some = secrets(&[("S", secret), ("EURO", "10€/😀-day"), ("KEY", "abcd/EFGH+ijkl==")]);
    for (program, written) in [
        ("python urllib.parse.quote", "Ab%2B/%3C%C3%B6%3E%26%27%22%3D%24x%20y~z"),
        ("python quote_plus", "Ab%2B%2F%3C%C3%B6%3E%26%27%22%3D%24x+y~z"),
        ("python quote in Latin-1", "Ab%2B/%3C%F6%3E%26%27%22%3D%24x%20y~z"),
        ("javascript encodeURI", "Ab+/%3C%C3%B6%3E&'%22=$x%20y~z"),
        ("javascript encodeURIComponent", "Ab%2B%2F%3C%C3%B6%3E%26'%22%3D%24x%20y~z"),
        ("javascript escape", "Ab+/%3C%F6%3E%26%27%22%3D%24x%20y%7Ez"),
        ("javascript escape of more", "10%u20AC/%uD83D%uDE00-day"),
        ("javascript escape of a key", "abcd/EFGH+ijkl%3D%3D"),
        ("go url.PathEscape", "Ab+%2F%3C%C3%B6%3E&%27%22=$x%20y~z"),
        ("an encoder of the slash alone", "Ab+%2F<ö>&'\"=$x y~z"),
        ("an encoder of letters and =", "Ab+/<ö>&'\"%3D$%78 y~%7A"),
        ("every byte", "%41%62%2B%2F%3C%C3%B6%3E%26%27%22%3D%24%78%20%79%7E%7A"),
        ("json.dumps and quote", "Ab%2B/%3C%5Cu00f6%3E%26%27%5C%22%3D%24x%20y~z"),
    ] {
        let small = lower_escapes(written);
        let twice = written.replace('%', "%25");
        for text in [written, &small, &twice] {
            assert_eq!(some.mask(text), "***", "{program}: {text}");
            let inside = format!("100% GET /?%3D{text}%2Fx%4 %u12 %");
            assert_eq!(some.mask(&inside), "100% GET /?%3D***%2Fx%4 %u12 %", "{program}: {text}");
        }
    }
    for text in ["50% of %41bc/ %", "%u0041b+", "%zz %C3", "%uD83D %uDE00"] {
        assert_eq!(some.mask(text), text);
    }
}

/// Writes the digits of escapes in lower case: `%2f` for `%2F`.
fn lower_escapes(text: &str) -> String {
    let mut parts = text.split('%');
    let mut lowered = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let digits = if part.starts_with('u') { 5 } else { 2 };
        lowered.push('%');
        lowered.push_str(&part[..digits].to_ascii_lowercase());
        lowered.push_str(&part[digits..]);
    }
    lowered
}

#[test]
fn json_stays_json() {
    let some = secrets(&[("PIN", "1234"), ("KEY", "hunter2")]);
    let value = json!({
        "hunter2": ["my hunter2", 12_345, 99, null, true],
        "deep": { "text": "x1234" },
    });
    let masked = json!({
        "***": ["my ***", "***5", 99, null, true],
        "deep": { "text": "x***" },
    });
    assert_eq!(some.mask_json(value.clone()), masked);
    assert_eq!(Secrets::default().mask_json(value.clone()), value);
}

/// A separate search for each secret would scan 20 GB here. One search for all takes well under a
/// second, even in a debug build.
#[test]
fn long_outputs_and_many_secrets_take_one_pass() {
    let pairs: Vec<_> =
        (0..2_000).map(|n| (format!("S{n}"), format!("secret-number-{n:05}"))).collect();
    let pairs: Vec<_> = pairs.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
    let some = secrets(&pairs);
    let text = "secret-number-0 is none, secret-number-00042 is one; ".repeat(200_000);
    let watch = Stopwatch::start();
    let masked = some.mask(&text);
    assert!(watch.elapsed() < Duration::from_secs(20), "{:?}", watch.elapsed());
    assert_eq!(masked.matches(MASK).count(), 200_000);
    assert!(!masked.contains("00042"));
}
