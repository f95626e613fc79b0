//! The path to a value: `steps[2].retry.delay`.

use super::tree::{Entry, Kind, Node, cut};

/// The path of a key of the mapping at `parent`.
pub(crate) fn join(parent: &str, key: &str) -> String {
    if parent.is_empty() { cut(key) } else { format!("{parent}.{}", cut(key)) }
}

/// The path of an item of the list at `parent`.
pub(crate) fn join_index(parent: &str, index: usize) -> String {
    format!("{parent}[{index}]")
}

/// The value that a path leads to.
pub(crate) struct Found<'n> {
    /// The last existing value on the path.
    pub(crate) node: &'n Node,
    /// Its entry, if the last part of the path was a key.
    pub(crate) entry: Option<&'n Entry>,
    /// Whether the whole path exists.
    pub(crate) complete: bool,
}

/// Follows a path as far as it goes.
pub(crate) fn follow<'n>(root: &'n Node, path: &str) -> Found<'n> {
    let mut found = Found { node: root, entry: None, complete: true };
    let parts = path.split(['.', '[', ']']).filter(|part| !part.is_empty());
    for part in parts {
        let next = match &found.node.kind {
            Kind::Map(_) => found.node.entry(part).map(|entry| (&entry.value, Some(entry))),
            Kind::List(items) => {
                part.parse().ok().and_then(|n: usize| items.get(n)).map(|item| (item, None))
            }
            _ => None,
        };
        match next {
            Some((node, entry)) => found = Found { node, entry, complete: true },
            None => return Found { complete: false, ..found },
        }
    }
    found
}
