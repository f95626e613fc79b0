//! The time that a timer waits for.

use calendar::{Dst, Problem, Zone, Zones, parse_instant};
use jiff::civil::{DateTime, Time};
use jiff::{Timestamp, ToSpan};

/// The longest text that is read as a time.
const LENGTH: usize = 128;

/// A written time, before its instant is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Until {
    /// With an offset: `2026-03-01T09:00:00Z`.
    Instant(Timestamp),
    /// A wall time in a zone: `2026-03-01T09:00[Europe/Berlin]`; without one, in the workflow's
    /// zone.
    Wall(DateTime, Option<String>),
    /// The next time that the clock shows this: `17:00`.
    Daily(Time),
}

impl Until {
    /// Reads one of these forms.
    pub fn parse(text: &str) -> Result<Until, Problem> {
        let refuse = || {
            Problem::whole("time", text, "not a time")
                .allow("a time such as 2026-03-01T09:00, with a zone or offset if it is not the workflow's, or 17:00")
                .suggest("2026-03-01T09:00:00Z, 2026-03-01T09:00[Europe/Berlin] or 17:00")
        };
        let written = text.trim();
        if written.len() > LENGTH {
            return Err(refuse());
        }
        if let Some(time) = clock(written) {
            return Ok(Until::Daily(time));
        }
        if let Some((wall, zone)) = written.strip_suffix(']').and_then(|text| text.split_once('['))
        {
            let wall = wall.trim().parse().map_err(|_| refuse())?;
            return Ok(Until::Wall(wall, Some(zone.to_owned())));
        }
        if let Ok(instant) = written.parse() {
            return Ok(Until::Instant(instant));
        }
        // A date alone would mean midnight, which is rarely intended.
        let wall = written.parse().ok().filter(|_| written.contains(['T', ' ', 't']));
        wall.map(|wall| Until::Wall(wall, None)).ok_or_else(refuse)
    }

    /// The instant of this time for a timer that begins at `now` in `zone`. A time in a gap is the
    /// first instant after it.
    pub fn instant(
        &self,
        now: Timestamp,
        zone: &Zone,
        zones: &Zones,
    ) -> Result<Timestamp, Problem> {
        let dst = Dst::FIXED;
        let at = |wall: DateTime, zone: &Zone| parse_instant(&wall.to_string(), zone, dst);
        match self {
            Until::Instant(instant) => Ok(*instant),
            Until::Wall(wall, None) => at(*wall, zone),
            Until::Wall(wall, Some(name)) => at(*wall, &zones.get(name)?),
            Until::Daily(time) => {
                let today = zone.wall(now).date();
                let first = at(today.to_datetime(*time), zone)?;
                if first > now {
                    return Ok(first);
                }
                at(today.saturating_add(1.day()).to_datetime(*time), zone)
            }
        }
    }
}

/// Reads exactly the form `17:00`.
pub(crate) fn clock(written: &str) -> Option<Time> {
    let (hour, minute) = written.split_once(':')?;
    let two = |text: &str| {
        let digits = text.len() == 2 && text.bytes().all(|b| b.is_ascii_digit());
        text.parse::<i8>().ok().filter(|_| digits)
    };
    Time::new(two(hour)?, two(minute)?, 0, 0).ok()
}
