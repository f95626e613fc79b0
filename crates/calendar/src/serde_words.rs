//! Rewrites serde's messages about values of the wrong type for people who write JSON or YAML, who
//! do not know the names of our types.

/// Prefixes of serde's expectations that are followed by a type name, and the JSON form to show
/// instead.
const NAMED: [(&str, &str); 9] = [
    ("struct variant ", "an object"),
    ("tuple variant ", "a list"),
    ("tuple struct ", "a list"),
    ("unit struct ", "null"),
    ("newtype struct ", "a value"),
    ("internally tagged enum ", "an object"),
    ("adjacently tagged enum ", "an object"),
    ("struct ", "an object"),
    ("enum ", "a name"),
];

/// Serde's names of forms, and their JSON names.
const FORMS: [(&str, &str); 6] = [
    ("string or map", "a text or an object"),
    ("a map", "an object"),
    ("map", "an object"),
    ("a sequence", "a list"),
    ("sequence", "a list"),
    ("unit", "null"),
];

/// Removes type names from a message of serde: `expected struct Retry` becomes `expected an
/// object`.
pub fn without_type_names(message: &str) -> String {
    const EXPECTED: &str = ", expected ";
    // The value that was found may be any text; the expectation comes from code, so it is searched
    // for from the end.
    let Some((found, expected)) = message.rsplit_once(EXPECTED) else {
        return message.to_owned();
    };
    let expected = plain(expected);
    let (what, form) = found.rsplit_once(": ").unwrap_or(("", found));
    match FORMS.iter().find(|(name, _)| *name == form) {
        Some((_, form)) => format!("{what}: {form}{EXPECTED}{expected}"),
        None => format!("{found}{EXPECTED}{expected}"),
    }
}

/// Rewrites the expectation; a position may follow it.
fn plain(expected: &str) -> String {
    for (kind, form) in NAMED {
        if let Some(rest) = expected.strip_prefix(kind) {
            let name = rest.find([' ', ',']).unwrap_or(rest.len());
            return format!("{form}{}", &rest[name..]);
        }
    }
    for (name, form) in FORMS {
        if let Some(rest) = expected.strip_prefix(name)
            && (rest.is_empty() || rest.starts_with(" at line "))
        {
            return format!("{form}{rest}");
        }
    }
    expected.to_owned()
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::without_type_names;

    #[derive(Debug, Deserialize)]
    #[expect(dead_code, reason = "only read")]
    struct Inner {
        list: Vec<u32>,
        choice: Option<Choice>,
    }

    #[derive(Debug, Deserialize)]
    #[serde(tag = "kind")]
    enum Choice {
        One,
    }

    #[test]
    fn what_serde_says_names_no_type() {
        for (text, expected) in [
            ("\"no\"", "invalid type: string \"no\", expected an object"),
            (
                "\", expected struct Inner\"",
                "invalid type: string \", expected struct Inner\", expected an object",
            ),
            (r#"{"list": {}}"#, "invalid type: an object, expected a list"),
            (r#"{"list": [[]]}"#, "invalid type: a list, expected u32"),
            (r#"{"list": [], "choice": 7}"#, "invalid type: integer `7`, expected an object"),
            (r#"{"x": 1}"#, "missing field `list`"),
        ] {
            let error = serde_json::from_str::<Inner>(text).unwrap_err().to_string();
            let told = without_type_names(&error);
            let (told, place) = told.split_once(" at line ").expect("a place");
            assert_eq!((told, place.starts_with("1 column ")), (expected, true), "{error}");
        }
    }
}
