//! The egress policy: which hosts and addresses HTTP requests may reach.

use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use ipnet::IpNet;
use url::{Host, Url};

use crate::address::{self, Reach};

/// Host names under which clouds serve credentials to any request from inside.
const METADATA_NAMES: &[&str] =
    &["metadata.google.internal", "metadata.goog", "metadata", "instance-data.ec2.internal"];

/// The internal addresses that requests of this node may reach in addition to the public internet.
///
/// Written as text, entries separated by commas or white space:
///
/// | entry | admits |
/// |---|---|
/// | `billing.internal` | that name at any port, wherever it resolves to |
/// | `billing.internal:8080` | that name at that port, wherever it resolves to |
/// | `10.1.0.0/16`, `fd12::/16` | the addresses of the range, by any name, at any port |
/// | `10.1.2.3`, `::1` | that address, by any name, at any port |
/// | `127.0.0.1:9000`, `[::1]:9000` | that address at that port, where a URL gives it literally |
///
/// Link-local, metadata, unspecified, multicast and broadcast addresses are never reached, not
/// even if an entry would admit them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Egress {
    names: Vec<(String, Option<u16>)>,
    ranges: Vec<IpNet>,
    endpoints: Vec<SocketAddr>,
}

/// An entry of an egress list that cannot be parsed, or that admits an address that is never
/// reached.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("egress entry `{entry}`: {problem}")]
pub struct EgressError {
    /// The entry as written, without a password.
    pub entry: String,
    /// The mistake, and what to write instead.
    pub problem: String,
}

/// Why a request is not sent. reqwest carries this value as the source of its error.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Refused(String);

/// The addresses that a name may resolve to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Admission {
    /// Public addresses, and addresses in the listed ranges.
    Ranges,
    /// All addresses but those that are never reached, because the name itself is listed.
    ByName,
}

impl FromStr for Egress {
    type Err = EgressError;

    fn from_str(text: &str) -> Result<Egress, EgressError> {
        let mut egress = Egress::default();
        let separator = |c: char| c == ',' || c.is_whitespace();
        // The text before `@` is a password, which may contain a comma. The error therefore shows
        // no part of it.
        if let Some((_, host)) = text.rsplit_once('@') {
            let host = host.split(separator).next().unwrap_or_default();
            let problem = "write the host alone, without a user and a password".to_owned();
            return Err(EgressError { entry: format!("…@{host}"), problem });
        }
        for entry in text.split(separator).filter(|entry| !entry.is_empty()) {
            egress
                .add(entry)
                .map_err(|problem| EgressError { entry: entry.to_owned(), problem })?;
        }
        Ok(egress)
    }
}

impl Egress {
    fn add(&mut self, entry: &str) -> Result<(), String> {
        if entry.contains("://") {
            return Err(
                "write the host alone, without scheme and path: `host` or `host:port`".into()
            );
        }
        if entry.contains('/') {
            self.ranges.push(read_range(entry)?);
        } else if let Ok(address) = entry.parse::<IpAddr>() {
            let range = IpNet::from(address);
            refuse_never(&range)?;
            self.ranges.push(range);
        } else if let Ok(endpoint) = entry.parse::<SocketAddr>() {
            refuse_never(&IpNet::from(endpoint.ip()))?;
            self.endpoints.push(endpoint);
        } else {
            self.names.push(read_name(entry)?);
        }
        Ok(())
    }

    /// Checks a URL before it is resolved: its host name, or its address if it contains one.
    pub(crate) fn check_url(&self, url: &Url) -> Result<Admission, Refused> {
        let port = url.port_or_known_default().unwrap_or_default();
        match url.host() {
            Some(Host::Domain(name)) => self.check_name(name, port),
            Some(Host::Ipv4(address)) => self.check_endpoint(address.into(), port),
            Some(Host::Ipv6(address)) => self.check_endpoint(address.into(), port),
            None => Err(Refused("the URL has no host".to_owned())),
        }
    }

    fn check_name(&self, name: &str, port: u16) -> Result<Admission, Refused> {
        let name = without_root(name);
        if METADATA_NAMES.contains(&name) {
            return Err(Refused(format!("{name} is a metadata service, which is never reached")));
        }
        let listed = |(known, at): &(String, Option<u16>)| {
            known == name && at.is_none_or(|known_port| known_port == port)
        };
        Ok(if self.names.iter().any(listed) { Admission::ByName } else { Admission::Ranges })
    }

    fn check_endpoint(&self, address: IpAddr, port: u16) -> Result<Admission, Refused> {
        if self.endpoints.contains(&SocketAddr::new(address, port)) {
            self.check_address(address, Admission::ByName)
        } else {
            self.check_address(address, Admission::Ranges)
        }
        .map(|()| Admission::Ranges)
        .map_err(|why| Refused(format!("{address} {why}")))
    }

    /// Checks the addresses that a name resolved to. Returns those that may be connected to, or why
    /// none may.
    pub(crate) fn filter(
        &self,
        name: &str,
        resolved: impl Iterator<Item = SocketAddr>,
        admission: Admission,
    ) -> Result<Vec<SocketAddr>, Refused> {
        let mut admitted = Vec::new();
        let mut refused = None;
        for socket in resolved {
            match self.check_address(socket.ip(), admission) {
                Ok(()) => admitted.push(socket),
                Err(why) => refused = Some(format!("{name} resolves to {} {why}", socket.ip())),
            }
        }
        match refused {
            Some(why) if admitted.is_empty() => Err(Refused(why)),
            _ => Ok(admitted),
        }
    }

    fn check_address(&self, address: IpAddr, admission: Admission) -> Result<(), String> {
        match address::reach(address) {
            Reach::Public => Ok(()),
            Reach::Never(class) => Err(format!("({class}), which is never reached")),
            Reach::IfListed(_) if admission == Admission::ByName || self.has(address) => Ok(()),
            Reach::IfListed(class) => {
                Err(format!("({class}), which is reached only if the node's egress list has it"))
            }
        }
    }

    fn has(&self, address: IpAddr) -> bool {
        let inner = address::inner_v4(address).map(IpAddr::V4);
        self.ranges.iter().any(|range| {
            range.contains(&address) || inner.is_some_and(|inner| range.contains(&inner))
        })
    }
}

fn read_range(entry: &str) -> Result<IpNet, String> {
    let range: IpNet = entry.parse().map_err(|_| {
        "not a range of addresses; write it like `10.1.0.0/16` or `fd12::/16`".to_owned()
    })?;
    if range != range.trunc() {
        return Err(format!("the address has bits beyond its prefix; write `{}`", range.trunc()));
    }
    refuse_never(&range)?;
    Ok(range)
}

fn refuse_never(range: &IpNet) -> Result<(), String> {
    match address::never_within(range) {
        Some(class) => Err(format!("{class}, which is never reached; remove the entry")),
        None => Ok(()),
    }
}

fn read_name(entry: &str) -> Result<(String, Option<u16>), String> {
    let (name, port) = match entry.rsplit_once(':') {
        Some((name, digits)) if !entry.ends_with(']') => (name, Some(read_port(digits)?)),
        _ => (entry, None),
    };
    match Host::parse(without_root(name)) {
        Ok(Host::Domain(name)) if name.contains('*') => {
            Err("patterns are not read; write each name, or the range of their addresses".into())
        }
        Ok(Host::Domain(name)) if METADATA_NAMES.contains(&name.as_str()) => {
            Err("a metadata service, which is never reached; remove the entry".into())
        }
        Ok(Host::Domain(name)) => Ok((name, port)),
        Ok(address) => {
            let address = address.to_string();
            Err(format!("write the address as `{}`", address.trim_matches(['[', ']'])))
        }
        Err(_) => Err("not a host; write a name, `name:port`, an address or a range".into()),
    }
}

fn read_port(digits: &str) -> Result<u16, String> {
    match digits.parse() {
        Ok(port) if port > 0 && digits.bytes().all(|b| b.is_ascii_digit()) => Ok(port),
        _ => Err(format!("`{digits}` is not a port; ports are 1 to 65535")),
    }
}

/// Removes the trailing dot: `example.org.` and `example.org` are the same name.
fn without_root(name: &str) -> &str {
    name.strip_suffix('.').unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(list: &str, url: &str, resolved: &[&str]) -> Result<(), String> {
        let egress: Egress = list.parse().unwrap();
        let url = Url::parse(url).unwrap();
        let told = |refused: Refused| refused.to_string();
        let admission = egress.check_url(&url).map_err(told)?;
        let addresses = resolved.iter().map(|text| SocketAddr::new(text.parse().unwrap(), 0));
        egress.filter(url.host_str().unwrap(), addresses, admission).map(drop).map_err(told)
    }

    #[test]
    fn what_the_list_admits_is_reached() {
        for (list, url, resolved) in [
            ("", "http://example.org/", &["93.184.215.14"] as &[_]),
            ("", "http://93.184.215.14:8080/", &[]),
            ("127.0.0.0/8", "http://127.1:9000/", &[]),
            ("127.0.0.1", "http://[::ffff:127.0.0.1]/", &[]),
            ("127.0.0.1:9000", "http://2130706433:9000/", &[]),
            ("[::1]:9000 ,\n10.0.0.1", "http://[::1]:9000/", &[]),
            ("billing.internal", "http://Billing.Internal.:81/", &["10.0.0.1"]),
            ("Billing.Internal.:81", "http://billing.internal:81/", &["10.0.0.1"]),
            ("billing.internal:443", "https://billing.internal/", &["fd12::1"]),
            ("10.0.0.0/8", "http://any.test/", &["10.9.9.9"]),
            ("", "http://both.test/", &["10.0.0.1", "8.8.8.8"]),
            ("bücher.test", "http://xn--bcher-kva.test/", &["10.0.0.1"]),
        ] {
            assert_eq!(check(list, url, resolved), Ok(()), "{list} {url}");
        }
    }

    #[test]
    fn what_the_list_does_not_admit_is_refused() {
        for (list, url, resolved) in [
            ("", "http://2852039166/", &[] as &[_]),
            ("", "http://0251.0376.0251.0376/", &[]),
            ("", "http://127.1/", &[]),
            ("", "http://[::1]/", &[]),
            ("0.0.0.0/0 ::/0", "http://169.254.169.254/", &[]),
            ("0.0.0.0/0 ::/0", "http://[::ffff:a9fe:a9fe]/", &[]),
            ("0.0.0.0/0 ::/0", "http://[fd00:ec2::254]/", &[]),
            ("0.0.0.0/0 ::/0", "http://0/", &[]),
            ("0.0.0.0/0 ::/0", "http://metadata.google.internal/", &["8.8.8.8"]),
            ("0.0.0.0/0 ::/0", "http://METADATA.google.internal./", &["8.8.8.8"]),
            ("evil.test", "http://evil.test/", &["169.254.169.254"]),
            ("", "http://evil.test/", &["127.0.0.1"]),
            ("", "http://evil.test/", &["64:ff9b::7f00:1"]),
            ("billing.internal:81", "http://billing.internal:82/", &["10.0.0.1"]),
            ("billing.internal", "http://x.billing.internal/", &["10.0.0.1"]),
            ("127.0.0.1:9000", "http://127.0.0.1:9001/", &[]),
            ("127.0.0.1:9000", "http://localhost:9000/", &["127.0.0.1"]),
        ] {
            let why = check(list, url, resolved).expect_err(url);
            assert!(why.contains("reached"), "{why}");
        }
    }

    #[test]
    fn entries_that_cannot_be_meant_are_refused_with_a_remedy() {
        for (list, remedy) in [
            ("http://billing.internal/", "without scheme"),
            ("10.0.0.1/8", "write `10.0.0.0/8`"),
            ("10.0.0.0/40", "like `10.1.0.0/16`"),
            ("billing.internal/path", "not a range"),
            ("billing.internal:0", "ports are 1 to 65535"),
            ("billing.internal:+8", "ports are 1 to 65535"),
            ("billing.internal:http", "ports are 1 to 65535"),
            ("*.internal", "patterns are not read"),
            ("127.1", "write the address as `127.0.0.1`"),
            ("[::1]", "write the address as `::1`"),
            ("a b^c", "not a host"),
            ("169.254.169.254", "never reached; remove"),
            ("169.254.0.0/16", "never reached; remove"),
            ("::ffff:169.254.169.254", "never reached; remove"),
            ("fe80::/64", "never reached; remove"),
            ("metadata.google.internal:80", "never reached; remove"),
            ("a.test u:hunter2@h:80", "`…@h:80`: write the host alone"),
            ("u:hun,hunter2@h", "`…@h`: write the host alone"),
        ] {
            let error = list.parse::<Egress>().expect_err(list).to_string();
            assert!(error.contains(remedy) && !error.contains("hun"), "{list}: {error}");
        }
    }
}
