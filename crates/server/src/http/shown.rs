//! Instants in responses: RFC 3339 with the offset of a zone, as exact as they are stored.

use calendar::Zone;
use jiff::Timestamp;

/// The instant in the zone, with milliseconds if there are any.
pub fn time(zone: &Zone, at: Timestamp) -> String {
    let mut text = zone.rfc3339(at);
    let milliseconds = at.as_millisecond().rem_euclid(1_000);
    if milliseconds != 0 {
        let offset = if text.ends_with('Z') { 1 } else { "+00:00".len() };
        text.insert_str(text.len() - offset, &format!(".{milliseconds:03}"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use calendar::Zones;

    #[test]
    fn nothing_is_lost() {
        let zones = Zones::bundled();
        for (zone, text) in [
            ("UTC", "2026-03-08T09:00:00Z"),
            ("UTC", "2026-03-08T09:00:00.007Z"),
            ("Europe/Berlin", "2026-07-08T09:00:00+02:00"),
            ("America/New_York", "1960-01-01T00:00:00.25-05:00"),
        ] {
            let at: Timestamp = text.parse().unwrap();
            let shown = time(&zones.get(zone).unwrap(), at);
            assert_eq!(shown.parse::<Timestamp>().unwrap(), at, "{shown}");
            assert_eq!(shown.contains('.'), text.contains('.'));
        }
    }
}
