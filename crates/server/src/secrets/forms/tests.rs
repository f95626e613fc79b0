use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};

use super::*;

#[track_caller]
fn assert_looked_for(secret: &str, expected: &[&str]) {
    let found = forms(secret);
    for expected in expected {
        assert!(found.iter().any(|form| form == expected), "{secret}: {expected}: {found:#?}");
    }
}

#[test]
fn a_secret_is_looked_for_as_programs_write_it() {
    assert_looked_for(
        "pa ss/w\"ö&'",
        &[
            "pa ss/w\"ö&'",
            "pa ss/w\\\"ö&'",
            "pa ss/w\\\"\\u00f6&'",
            "pa+ss/w\"ö&'",
            "pa ss/w&quot;ö&amp;&#39;",
        ],
    );
}

/// The text that each program printed for its secret.
#[test]
fn programs_of_all_kinds() {
    let secret = "Ab+/<ö>&'\"=$x y~z";
    for (program, written) in [
        ("python json.dumps", r#"Ab+/<\u00f6>&'\"=$x y~z"#),
        ("jackson in ASCII", r#"Ab+/<\u00F6>&'\"=$x y~z"#),
        ("php json_encode", r#"Ab+\/<\u00f6>&'\"=$x y~z"#),
        ("go json.Marshal", r#"Ab+/\u003cö\u003e\u0026'\"=$x y~z"#),
        ("gson", r#"Ab+/\u003cö\u003e\u0026\u0027\"\u003d$x y~z"#),
        (".NET", r#"Ab\u002B/\u003C\u00F6\u003E\u0026\u0027\u0022=$x y~z"#),
        ("go html", "Ab+/&lt;ö&gt;&amp;&#39;&#34;=$x y~z"),
        ("go html/template", "Ab&#43;/&lt;ö&gt;&amp;&#39;&#34;=$x y~z"),
        ("python html.escape", "Ab+/&lt;ö&gt;&amp;&#x27;&quot;=$x y~z"),
        ("php htmlspecialchars", "Ab+/&lt;ö&gt;&amp;&#039;&quot;=$x y~z"),
        ("mustache", "Ab+&#x2F;&lt;ö&gt;&amp;&#39;&quot;&#x3D;$x y~z"),
        ("bash @Q", r#"Ab+/<ö>&'\''"=$x y~z"#),
        ("python shlex.quote", r#"Ab+/<ö>&'"'"'"=$x y~z"#),
        ("bash %q", r#"Ab+/\<ö\>\&\'\"=\$x\ y~z"#),
        ("in double quotes", r#"Ab+/<ö>&'\"=\$x y~z"#),
        ("bytes of python", r#"Ab+/<\xc3\xb6>&'"=$x y~z"#),
        ("csv", r#"Ab+/<ö>&'""=$x y~z"#),
        ("sql", r#"Ab+/<ö>&''"=$x y~z"#),
        ("python json.dumps twice", r#"Ab+/<\\u00f6>&'\\\"=$x y~z"#),
        ("python ascii", r#"Ab+/<\xf6>&\'"=$x y~z"#),
        ("python upper", "AB+/<Ö>&'\"=$X Y~Z"),
        ("tr a-z A-Z", "AB+/<ö>&'\"=$X Y~Z"),
        ("a host", "ab+/<ö>&'\"=$x y~z"),
        ("xxd -p", "41622b2f3cc3b63e2627223d247820797e7a"),
        ("hex in capitals", "41622B2F3CC3B63E2627223D247820797E7A"),
        ("base32", "IFRCWLZ4YO3D4JRHEI6SI6BAPF7HU"),
    ] {
        let is_found = forms(secret).iter().any(|form| form == written);
        assert!(is_found, "{program}: {written}");
    }
}

#[test]
fn a_secret_with_a_question_mark_is_several_parts_of_a_url() {
    for (secret, expected) in [
        ("Abc{123secret?tail{99", &["Abc{123secret"][..]),
        ("Abc123secret#tail 99", &["Abc123secret"]),
        ("Abc123?k=v#tail", &["Abc123?k=v"]),
        ("Abc\\secret?k=v", &["Abc/secret?k=v", "Abc/secret"]),
    ] {
        assert_looked_for(secret, expected);
    }
    assert!(forms("user?and-more").iter().all(|form| form != "user"));
}

#[test]
fn base64_and_base32_tell_it_wherever_it_begins() {
    let secret = "hunter22-and-more?>";
    let found = forms(secret);
    for before in ["", "u", "ad", "ada", "ada:"] {
        for after in ["", "x", "yy", "zzz"] {
            let text = format!("{before}{secret}{after}");
            let base32 = encoded::as_base32(text.as_bytes()).pop().unwrap_or_default();
            for written in [STANDARD_NO_PAD.encode(&text), URL_SAFE_NO_PAD.encode(&text), base32] {
                let is_found = found.iter().any(|form| written.contains(form.as_str()));
                assert!(is_found, "{text}: {written}");
            }
        }
    }
}

#[test]
fn lines_of_a_key_are_looked_for_and_its_frame_is_not() {
    let key = "-----BEGIN KEY-----\nMIIBVgIBADAN\r\nend\nAgEAAkEA/q\n-----END KEY-----\n";
    assert_looked_for(key, &["MIIBVgIBADAN", "AgEAAkEA/q", key]);
    for other in ["end", "-----BEGIN KEY-----", ""] {
        assert!(forms(key).iter().all(|form| form != other), "{other}");
    }
}

#[test]
fn short_ones_are_looked_for_in_fewer_forms_or_not_at_all() {
    assert_eq!(forms("abc"), Vec::<String>::new());
    assert!(forms("abcd").iter().all(|form| form.len() >= 4));
    assert_looked_for("Pa5s", &["pa5s"]);
    for other in ["PA5S", "s5aP"] {
        assert!(forms("Pa5s").iter().all(|form| form != other), "{other}");
    }
}

/// Each form is kept in memory, so the number of forms of a secret must stay small.
#[test]
fn the_number_of_forms_is_bounded() {
    let worst = "aB ö/'\"\\<>&+=`$!,;:@?x[]{}()*^|~-_.#%";
    for (secret, most) in [("plain0secret0text", 30), (worst, 160)] {
        let count = forms(secret).len();
        assert!(count <= most, "{secret}: {count}");
    }
    assert!(forms(&worst.repeat(200)).len() < 10);
}
