//! Zone databases. A database is a value and not global state, so that a newer one can replace it.

use std::collections::HashMap;
use std::fmt;
use std::sync::RwLock;

use crate::problem::{Problem, nearest};
use crate::zone::Zone;

/// The longest zone name that is looked up.
const NAME_LIMIT: usize = 64;
/// Files beside the zones in a zone directory, and zones that depend on the host.
const NOT_ZONES: [&str; 4] = ["localtime", "posixrules", "Factory", "leapseconds"];

/// A source of compiled zone files (TZif). The caller reads them, for example from a disk.
pub trait ZoneSource: Send + Sync {
    /// The release, such as `2026f`.
    fn version(&self) -> &str;
    /// The origin of the database, for people: `bundled`, or a folder.
    fn origin(&self) -> &str;
    /// The contents of the zone's TZif file, if there is such a zone.
    fn tzif(&self, name: &str) -> Option<Vec<u8>>;
    /// All names, for listing and for suggestions.
    fn names(&self) -> Vec<String>;
}

/// The database that is compiled into this program, made by `tools/zones/bundle.py`: the release
/// and a line for each zone, an empty line, then the compiled zones.
static BUNDLE: &[u8] = include_bytes!("../data/zones.bin");

/// The bundled database as a [`ZoneSource`].
#[derive(Clone, Copy, Debug, Default)]
pub struct BundledZones;

impl BundledZones {
    /// The text part of the bundle, and the compiled zones.
    fn parts() -> (&'static str, &'static [u8]) {
        let end = BUNDLE.windows(2).position(|pair| pair == b"\n\n").unwrap_or(0);
        (str::from_utf8(&BUNDLE[..end]).unwrap_or(""), &BUNDLE[end + 2..])
    }
}

impl ZoneSource for BundledZones {
    fn version(&self) -> &str {
        Self::parts().0.lines().next().unwrap_or("unknown")
    }

    fn origin(&self) -> &str {
        "bundled"
    }

    fn tzif(&self, name: &str) -> Option<Vec<u8>> {
        let (index, zones) = Self::parts();
        let place =
            index.lines().skip(1).find_map(|line| line.strip_prefix(name)?.strip_prefix('\t'));
        let (offset, length) = place?.split_once('\t')?;
        let (offset, length): (usize, usize) = (offset.parse().ok()?, length.parse().ok()?);
        zones.get(offset..offset + length).map(<[u8]>::to_vec)
    }

    fn names(&self) -> Vec<String> {
        let lines = Self::parts().0.lines().skip(1);
        lines.filter_map(|line| line.split('\t').next()).map(str::to_owned).collect()
    }
}

/// A zone database: a value and not global state, so that a newer one can replace it.
///
/// ```
/// use calendar::Zones;
/// let zones = Zones::bundled();
/// assert!(zones.version() >= "2026a");
/// let tokyo = zones.get("Asia/Tokyo").unwrap();
/// assert_eq!(tokyo.offset_at("2026-01-01T00:00:00Z".parse().unwrap()), 9 * 3600);
/// assert!(zones.get("Asia/Tokio").unwrap_err().to_string().contains("try: Asia/Tokyo"));
/// ```
pub struct Zones {
    source: Box<dyn ZoneSource>,
    /// A cache: its entries can be loaded again from `source`.
    loaded: RwLock<HashMap<Box<str>, Zone>>,
}

impl Zones {
    /// The database that is compiled into this program.
    pub fn bundled() -> Zones {
        Zones::from_source(BundledZones)
    }

    /// A database from another source, for example a folder of TZif files.
    pub fn from_source(source: impl ZoneSource + 'static) -> Zones {
        Zones { source: Box::new(source), loaded: RwLock::new(HashMap::new()) }
    }

    /// The release in use, such as `2026f`.
    pub fn version(&self) -> &str {
        self.source.version()
    }

    /// The origin of the database, for people.
    pub fn origin(&self) -> &str {
        self.source.origin()
    }

    /// All zone names, sorted.
    pub fn names(&self) -> Vec<String> {
        let mut names = self.source.names();
        names.retain(|name| !NOT_ZONES.contains(&name.as_str()));
        names.sort_unstable();
        names
    }

    /// The zone with that name. An unknown name is an error and never UTC.
    pub fn get(&self, name: &str) -> Result<Zone, Problem> {
        // A poisoned lock only means that another thread panicked while it filled the cache.
        let found = self.loaded.read().unwrap_or_else(|e| e.into_inner()).get(name).cloned();
        if let Some(zone) = found {
            return Ok(zone);
        }
        let zone = self.load(name)?;
        let mut loaded = self.loaded.write().unwrap_or_else(|e| e.into_inner());
        Ok(loaded.entry(name.into()).or_insert(zone).clone())
    }

    fn load(&self, name: &str) -> Result<Zone, Problem> {
        let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'/' | b'_' | b'-' | b'+');
        let well_formed = name.len() <= NAME_LIMIT
            && name.bytes().all(plain)
            && name.split('/').all(|part| !part.is_empty())
            && !NOT_ZONES.contains(&name);
        let bytes = if well_formed { self.source.tzif(name) } else { None };
        let bytes = bytes.ok_or_else(|| self.unknown(name))?;
        Zone::from_tzif(name, &bytes).map_err(|error| {
            let message = format!("the zone file of {name} cannot be read: {error}");
            Problem::whole("zone-file", name, message)
                .suggest("a zone database made by `zic`, or the bundled one")
        })
    }

    fn unknown(&self, name: &str) -> Problem {
        let problem = Problem::whole("zone-unknown", name, "no such time zone")
            .allow("an IANA name such as Europe/Berlin, or UTC");
        let names = self.names();
        // Many mistakes are a city without its continent, so the last part of the name is compared
        // too.
        let mut close = nearest(name, names.iter().map(String::as_str));
        if close.is_empty() {
            let last = |n: &str| n.rsplit('/').next().map(str::to_ascii_lowercase);
            let wanted = last(name);
            close =
                names.iter().filter(|n| last(n) == wanted).map(String::as_str).take(3).collect();
        }
        if close.is_empty() { problem } else { problem.suggest(close.join(" or ")) }
    }
}

impl fmt::Debug for Zones {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Zones({} {})", self.origin(), self.version())
    }
}
