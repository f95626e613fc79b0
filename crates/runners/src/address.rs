//! Classes of IP addresses: those that requests may always reach, only if listed, or never.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

/// Whether requests may reach an address. The text names the class of the address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Reach {
    /// An address of the public internet, which requests may always reach.
    Public,
    /// Requests may reach the address only if the node's egress list admits it.
    IfListed(&'static str),
    /// Requests never reach the address, whatever the egress list says.
    Never(&'static str),
}

use Reach::{IfListed, Never, Public};

const LINK_LOCAL: Reach = Never("a link-local address, where metadata services live");
const METADATA: Reach = Never("the address of a metadata service");
const MULTICAST: Reach = Never("a multicast address");
const PRIVATE: Reach = IfListed("a private address");
const LOOPBACK: Reach = IfListed("a loopback address");
const RESERVED: Reach = IfListed("a reserved address");
const DOCUMENTATION: Reach = IfListed("an address kept for documentation");

const fn v4(a: u8, b: u8, c: u8, d: u8, prefix: u8) -> Ipv4Net {
    Ipv4Net::new_assert(Ipv4Addr::new(a, b, c, d), prefix)
}

const fn v6(segments: [u16; 8], prefix: u8) -> Ipv6Net {
    let [a, b, c, d, e, f, g, h] = segments;
    Ipv6Net::new_assert(Ipv6Addr::new(a, b, c, d, e, f, g, h), prefix)
}

/// The first range that contains an address decides. An address in no range is public.
const V4: &[(Ipv4Net, Reach)] = &[
    (v4(0, 0, 0, 0, 8), Never("an unspecified address")),
    (v4(169, 254, 0, 0, 16), LINK_LOCAL),
    (v4(100, 100, 100, 200, 32), METADATA), // Alibaba Cloud
    (v4(168, 63, 129, 16, 32), METADATA),   // Azure
    (v4(192, 0, 0, 192, 32), METADATA),     // Oracle Cloud
    (v4(224, 0, 0, 0, 4), MULTICAST),
    (v4(255, 255, 255, 255, 32), Never("the broadcast address")),
    (v4(127, 0, 0, 0, 8), LOOPBACK),
    (v4(10, 0, 0, 0, 8), PRIVATE),
    (v4(172, 16, 0, 0, 12), PRIVATE),
    (v4(192, 168, 0, 0, 16), PRIVATE),
    (v4(100, 64, 0, 0, 10), IfListed("a shared address behind a carrier's NAT")),
    (v4(192, 0, 0, 0, 24), RESERVED),
    (v4(192, 0, 2, 0, 24), DOCUMENTATION),
    (v4(192, 88, 99, 0, 24), RESERVED),
    (v4(198, 18, 0, 0, 15), IfListed("an address kept for benchmarks")),
    (v4(198, 51, 100, 0, 24), DOCUMENTATION),
    (v4(203, 0, 113, 0, 24), DOCUMENTATION),
    (v4(240, 0, 0, 0, 4), RESERVED),
];

/// The first range that contains an address decides. An address in no range is reserved, because
/// only `2000::/3` has been allocated.
const V6: &[(Ipv6Net, Reach)] = &[
    (v6([0, 0, 0, 0, 0, 0, 0, 0], 128), Never("the unspecified address")),
    (v6([0xfe80, 0, 0, 0, 0, 0, 0, 0], 10), LINK_LOCAL),
    (v6([0xff00, 0, 0, 0, 0, 0, 0, 0], 8), MULTICAST),
    (v6([0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254], 128), METADATA), // AWS
    (v6([0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254], 128), METADATA),  // Google Cloud
    (v6([0xfd00, 0x42, 0, 0, 0, 0, 0, 0x42], 128), METADATA),   // Scaleway
    (v6([0, 0, 0, 0, 0, 0, 0, 1], 128), LOOPBACK),
    (v6([0xfc00, 0, 0, 0, 0, 0, 0, 0], 7), PRIVATE),
    (v6([0xfec0, 0, 0, 0, 0, 0, 0, 0], 10), PRIVATE),
    (v6([0x2001, 0xdb8, 0, 0, 0, 0, 0, 0], 32), DOCUMENTATION),
    (v6([0x3fff, 0, 0, 0, 0, 0, 0, 0], 20), DOCUMENTATION),
    (v6([0x2001, 0, 0, 0, 0, 0, 0, 0], 23), RESERVED),
    (v6([0x2000, 0, 0, 0, 0, 0, 0, 0], 3), Public),
];

/// The position of the embedded IPv4 address, to which packets are finally delivered, in an IPv6
/// address.
#[derive(Clone, Copy)]
enum Carries {
    /// In the last 32 bits.
    Last,
    /// In the last 32 bits, each bit inverted (Teredo).
    LastInverted,
    /// After the first 16 bits (6to4).
    AfterPrefix,
}

const CARRIERS: &[(Ipv6Net, Carries, Reach)] = &[
    (v6([0, 0, 0, 0, 0, 0xffff, 0, 0], 96), Carries::Last, Public), // IPv4-mapped
    (v6([0, 0, 0, 0, 0, 0, 0, 0], 96), Carries::Last, Public),      // IPv4-compatible
    (v6([0, 0, 0, 0, 0xffff, 0, 0, 0], 96), Carries::Last, Public), // IPv4-translated
    (v6([0x64, 0xff9b, 0, 0, 0, 0, 0, 0], 96), Carries::Last, Public), // NAT64
    (v6([0x64, 0xff9b, 1, 0, 0, 0, 0, 0], 48), Carries::Last, PRIVATE), // NAT64 of one network
    (v6([0x2001, 0, 0, 0, 0, 0, 0, 0], 32), Carries::LastInverted, Public),
    (v6([0x2002, 0, 0, 0, 0, 0, 0, 0], 16), Carries::AfterPrefix, Public),
];

/// Returns whether requests may reach an address.
pub(crate) fn reach(address: IpAddr) -> Reach {
    match address {
        IpAddr::V4(address) => reach_v4(address),
        IpAddr::V6(address) => reach_v6(address),
    }
}

fn reach_v4(address: Ipv4Addr) -> Reach {
    V4.iter().find(|(range, _)| range.contains(&address)).map_or(Public, |(_, reach)| *reach)
}

fn reach_v6(address: Ipv6Addr) -> Reach {
    match carried(address) {
        Some((inner, carrier)) => carrier.max(reach_v4(inner)),
        None => V6
            .iter()
            .find(|(range, _)| range.contains(&address))
            .map_or(RESERVED, |(_, reach)| *reach),
    }
}

/// The IPv4 address embedded in an IPv6 address, if the address has such a form.
pub(crate) fn inner_v4(address: IpAddr) -> Option<Ipv4Addr> {
    match address {
        IpAddr::V4(_) => None,
        IpAddr::V6(address) => carried(address).map(|(inner, _)| inner),
    }
}

fn carried(address: Ipv6Addr) -> Option<(Ipv4Addr, Reach)> {
    if address.is_unspecified() || address.is_loopback() {
        return None;
    }
    let (_, carries, reach) = CARRIERS.iter().find(|(range, ..)| range.contains(&address))?;
    let [_, second, third, .., seventh, eighth] = address.segments();
    let bits = |high: u16, low: u16| (u32::from(high) << 16) | u32::from(low);
    let inner = match carries {
        Carries::Last => bits(seventh, eighth),
        Carries::LastInverted => !bits(seventh, eighth),
        Carries::AfterPrefix => bits(second, third),
    };
    Some((Ipv4Addr::from_bits(inner), *reach))
}

/// The class of a range, if none of its addresses may ever be reached.
pub(crate) fn never_within(range: &IpNet) -> Option<&'static str> {
    let holding = match range {
        IpNet::V4(range) => V4.iter().find(|(known, _)| known.contains(range)).map(|(_, r)| *r),
        IpNet::V6(range) => V6.iter().find(|(known, _)| known.contains(range)).map(|(_, r)| *r),
    };
    let single = (range.prefix_len() == range.max_prefix_len()).then(|| reach(range.addr()));
    match single.or(holding)? {
        Never(class) => Some(class),
        Public | IfListed(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(expected: fn(Reach) -> bool, addresses: &[&str]) {
        for text in addresses {
            let found = reach(text.parse().unwrap());
            assert!(expected(found), "{text} is {found:?}");
        }
    }

    #[test]
    fn metadata_link_local_unspecified_multicast_and_broadcast_are_never_reached() {
        check(
            |reach| matches!(reach, Never(_)),
            &[
                "169.254.169.254",
                "169.254.0.0",
                "169.254.255.255",
                "100.100.100.200",
                "168.63.129.16",
                "192.0.0.192",
                "0.0.0.0",
                "0.1.2.3",
                "224.0.0.1",
                "239.255.255.255",
                "255.255.255.255",
                "::",
                "fe80::1",
                "febf:ffff::1",
                "ff02::1",
                "fd00:ec2::254",
                "fd20:ce::254",
                "::ffff:169.254.169.254",
                "::169.254.169.254",
                "::ffff:0:169.254.169.254",
                "64:ff9b::169.254.169.254",
                "64:ff9b:1::169.254.169.254",
                "2002:a9fe:a9fe::1",
                "2001:0:1234:5678:0:0:5601:5601",
                "::ffff:0.0.0.0",
                "::ffff:224.0.0.1",
            ],
        );
    }

    #[test]
    fn addresses_of_inner_networks_are_reached_only_if_listed() {
        check(
            |reach| matches!(reach, IfListed(_)),
            &[
                "127.0.0.1",
                "127.255.255.254",
                "10.0.0.1",
                "172.16.0.1",
                "172.31.255.255",
                "192.168.1.1",
                "100.64.0.1",
                "100.127.255.255",
                "192.0.2.1",
                "198.18.0.1",
                "203.0.113.9",
                "240.0.0.1",
                "::1",
                "fc00::1",
                "fd12:3456::1",
                "fec0::1",
                "2001:db8::1",
                "::ffff:127.0.0.1",
                "::127.0.0.1",
                "::ffff:0:10.0.0.1",
                "64:ff9b::10.0.0.1",
                "64:ff9b:1::8.8.8.8",
                "2002:7f00:1::1",
                "2002:c0a8:101::1",
                "2001:0:1234:5678:0:0:80ff:fffe",
                "100::1",
                "4000::1",
            ],
        );
    }

    #[test]
    fn addresses_of_the_internet_are_reached() {
        check(
            |reach| reach == Public,
            &[
                "1.1.1.1",
                "8.8.8.8",
                "172.15.255.255",
                "172.32.0.1",
                "100.63.255.255",
                "100.128.0.1",
                "169.253.1.1",
                "2606:4700:4700::1111",
                "::ffff:8.8.8.8",
                "64:ff9b::8.8.8.8",
                "2002:808:808::1",
            ],
        );
    }
}
