//! URLs that a node was configured with: which parts may be shown, and which parts are secret.

use url::Url;

/// Paths are masked everywhere from this length on. Shorter ones, such as `/hook`, occur in many
/// texts and give no access.
const SHORTEST_PATH: usize = 12;
/// Values in a query are masked from this length on. Shorter ones are words like `production`.
const SHORTEST_VALUE: usize = 16;

/// A URL as it may be shown: without user, password and query, whether or not it can be parsed. If
/// an `@` comes after a `?` or `#`, nobody can tell where a password ends and a query begins: then
/// only the scheme is shown.
pub fn shown_address(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").map_or(("", url), |(scheme, rest)| (scheme, rest));
    let slashes = if scheme.is_empty() { "" } else { "://" };
    let cut = rest.find(['?', '#']).unwrap_or(rest.len());
    if rest[cut..].contains('@') {
        return format!("{scheme}{slashes}…");
    }
    let (user, rest) = rest.rsplit_once('@').map_or(("", rest), |(_, rest)| ("…@", rest));
    let (rest, hidden) = rest.split_once(['?', '#']).map_or((rest, ""), |(rest, _)| (rest, "?…"));
    format!("{scheme}{slashes}{user}{rest}{hidden}")
}

/// The secret parts of the URL of an agent or a trace collector: user, password and query.
pub fn secrets_in_address(url: &str) -> Vec<String> {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let mut found = Vec::new();
    if let Some((user, _)) = rest.rsplit_once('@') {
        found.extend(user.split_once(':').map(|(_, password)| password.to_owned()));
        found.push(user.to_owned());
    }
    if let Some((_, query)) = rest.split_once(['?', '#']) {
        found.push(query.to_owned());
        let values = query.split(['&', '#']).filter_map(|pair| pair.split_once('='));
        let long = values.filter(|(_, value)| value.len() >= SHORTEST_VALUE);
        found.extend(long.map(|(_, value)| value.to_owned()));
    }
    found
}

/// The secret parts of a channel's URL: whoever knows its path and query may post to it.
pub fn secrets_in_channel(url: &str) -> Vec<String> {
    let mut found = secrets_in_address(url);
    if let Ok(read) = Url::parse(url) {
        let written = url.split_once("://").and_then(|(_, rest)| rest.split_once('/'));
        let parsed = &read[url::Position::BeforePath..url::Position::AfterQuery];
        let paths = [parsed.trim_start_matches('/'), read.path().trim_start_matches('/')];
        let paths = paths.into_iter().chain(written.map(|(_, path)| path));
        found.extend(paths.filter(|path| path.len() >= SHORTEST_PATH).map(str::to_owned));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_shown_without_what_may_be_secret() {
        for (address, shown) in [
            ("http://h/x", "http://h/x"),
            ("http://u:hunter2@h/x", "http://…@h/x"),
            ("http://u:hunter2@h/x?key=PASS", "http://…@h/x?…"),
            ("http://user:hunter2?PASS@h/x", "http://…"),
            ("http://user:hunter2#PASS@h/x", "http://…"),
            ("http://user:hunter2/PASS@h/x", "http://…@h/x"),
            ("http://h/x?mail=PASS@b&key=PASS", "http://…"),
            ("u:hunter2@h", "…@h"),
            ("h#PASS", "h?…"),
        ] {
            assert_eq!(shown_address(address), shown, "{address}");
        }
    }

    #[test]
    fn what_is_secret_in_addresses() {
        for (address, secrets) in [
            ("http://h/x", &[][..]),
            ("http://u:pass@h/x", &["pass", "u:pass"]),
            ("http://h/x?key=abc", &["key=abc"]),
            ("http://h/x?key=0123456789abcdef", &["key=0123456789abcdef", "0123456789abcdef"]),
        ] {
            assert_eq!(secrets_in_address(address), secrets, "{address}");
        }
        let slack = "https://hooks.test/services/T000/slackTOKEN99";
        assert!(secrets_in_channel(slack).contains(&"services/T000/slackTOKEN99".to_owned()));
        assert_eq!(secrets_in_channel("https://h.test/hook"), Vec::<String>::new());
    }
}
