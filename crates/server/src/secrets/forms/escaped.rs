//! A secret as part of a URL, beside its percent escapes, which are undone in every text.

use super::SHORTEST_PART;

/// What URLs and form bodies change in the text before they escape it.
pub(super) fn in_urls(text: &str) -> Vec<String> {
    let mut found = vec![text.replace(' ', "+")];
    for text in [text, &text.replace('\\', "/")] {
        found.push(text.to_owned());
        found.extend(first_parts(text));
    }
    found
}

/// A secret in a path that contains `?` or `#` continues in the query or the fragment. The part
/// before is a form of its own: it is shown alone where URLs are cut, and a peer gets nothing after
/// a `#`.
fn first_parts(text: &str) -> impl Iterator<Item = String> {
    let parts =
        [['?', '#'], ['#', '#']].map(|ends| text.find(ends).map(|at| text[..at].to_owned()));
    parts.into_iter().flatten().filter(|part| part.len() >= SHORTEST_PART)
}
