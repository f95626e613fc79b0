//! Parts of lists: the total, the link to the next page, and the text for an empty list.

use maud::{Markup, html};
use store::{Cursor, Total};
use url::form_urlencoded;

use super::page_context::PageContext;
use crate::http::cursor;

/// The total, and a link to the next page. Filters are kept.
pub(super) fn pager(context: &PageContext, total: Total, next: Option<&Cursor>) -> Markup {
    let count = match total {
        Total::Exact(1) => "1 in all".to_owned(),
        Total::Exact(count) => format!("{} in all", grouped(count)),
        Total::AtLeast(count) => format!("more than {}", grouped(count)),
    };
    html! {
        nav.pages aria-label="Pages" {
            span { (count) }
            span.row {
                @if context.address.contains("cursor=") {
                    a.button href=(with(&context.address, "cursor", None)) { "First page" }
                }
                @if let Some(next) = next {
                    a.button rel="next" href=(with(&context.address, "cursor", Some(&cursor::write(next)))) {
                        "Next page"
                    }
                }
            }
        }
    }
}

/// The heads of columns. A column of actions has no visible name, but one for screen readers.
pub(super) fn heads(names: &[&str]) -> Markup {
    html! {
        thead {
            tr {
                @for name in names {
                    @match *name {
                        "" => th scope="col" { span.hidden { "Actions" } },
                        name => th scope="col" { (name) },
                    }
                }
            }
        }
    }
}

/// The text shown in place of an empty list.
pub(super) fn empty(what: &str, remedy: Markup) -> Markup {
    html! { div.empty { p { strong { (what) } } (remedy) } }
}

/// An address with one query parameter set or removed.
pub(super) fn with(address: &str, name: &str, value: Option<&str>) -> String {
    let (path, query) = address.split_once('?').unwrap_or((address, ""));
    let mut changed = form_urlencoded::Serializer::new(String::new());
    for (key, old) in form_urlencoded::parse(query.as_bytes()) {
        if key != name {
            changed.append_pair(&key, &old);
        }
    }
    if let Some(value) = value {
        changed.append_pair(name, value);
    }
    match changed.finish() {
        query if query.is_empty() => path.to_owned(),
        query => format!("{path}?{query}"),
    }
}

/// A number with thin spaces between thousands.
pub(super) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut shown = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            shown.push('\u{202f}');
        }
        shown.push(digit);
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_parameter_changes_and_the_others_stay() {
        for (address, value, expected) in [
            ("/runs", None, "/runs"),
            ("/runs", Some("a b"), "/runs?cursor=a+b"),
            ("/runs?status=failed", Some("x"), "/runs?status=failed&cursor=x"),
            ("/runs?cursor=1&status=failed", Some("2"), "/runs?status=failed&cursor=2"),
            ("/runs?cursor=1", None, "/runs"),
            ("/runs?q=%26%3D", Some("1"), "/runs?q=%26%3D&cursor=1"),
        ] {
            assert_eq!(with(address, "cursor", value), expected);
        }
    }

    #[test]
    fn thousands_are_apart() {
        for (number, expected) in
            [(0, "0"), (999, "999"), (1_000, "1 000"), (1_234_567, "1 234 567")]
        {
            assert_eq!(grouped(number).replace('\u{202f}', " "), expected);
        }
    }
}
