//! Chooses the zone database: the folder named by `PUNCTUAL_TZDIR`, or else the newer of the
//! bundled database and the host's.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use calendar::{ZoneSource, Zones};

use crate::failure::Failure;

const HOST_FOLDER: &str = "/usr/share/zoneinfo";
/// A compiled zone has a few kilobytes; a larger file is something else.
const FILE_LIMIT: u64 = 256 * 1024;

/// The zone database to use.
pub(crate) fn zones() -> Result<Zones, Failure> {
    if let Some(folder) = env::var_os("PUNCTUAL_TZDIR") {
        let folder = Folder::open(Path::new(&folder)).ok_or_else(|| {
            Failure::Environment(format!(
                "PUNCTUAL_TZDIR={}: no zone database there\n  \
                 allowed: a folder of compiled zones, such as {HOST_FOLDER}",
                folder.display()
            ))
        })?;
        return Ok(Zones::from_source(folder));
    }
    let bundled = Zones::bundled();
    match Folder::open(Path::new(HOST_FOLDER)) {
        // Releases are named by year and letter, so comparing the texts compares the releases.
        Some(host) if host.version.as_str() > bundled.version() && host.version != UNKNOWN => {
            Ok(Zones::from_source(host))
        }
        _ => Ok(bundled),
    }
}

const UNKNOWN: &str = "unknown";

/// A folder of TZif files, as `zic` and distributions create it.
struct Folder {
    root: PathBuf,
    origin: String,
    version: String,
}

impl Folder {
    fn open(root: &Path) -> Option<Folder> {
        let is_database = root.join("Europe").is_dir() || root.join("tzdata.zi").is_file();
        is_database.then(|| Folder {
            root: root.to_owned(),
            origin: root.display().to_string(),
            version: version(root).unwrap_or_else(|| UNKNOWN.to_owned()),
        })
    }
}

/// The release of a database: `tzdata.zi` begins with `# version 2025b`; some systems have a file
/// `+VERSION`.
fn version(root: &Path) -> Option<String> {
    if let Ok(text) = fs::read_to_string(root.join("+VERSION")) {
        return Some(text.trim().to_owned());
    }
    let text = fs::read_to_string(root.join("tzdata.zi")).ok()?;
    Some(text.lines().next()?.strip_prefix("# version ")?.trim().to_owned())
}

impl ZoneSource for Folder {
    fn version(&self) -> &str {
        &self.version
    }

    fn origin(&self) -> &str {
        &self.origin
    }

    fn tzif(&self, name: &str) -> Option<Vec<u8>> {
        // The name has been checked: it has only plain, non-empty parts, so it cannot leave the
        // folder.
        let path = self.root.join(name);
        let is_zone = fs::metadata(&path).is_ok_and(|m| m.is_file() && m.len() <= FILE_LIMIT);
        fs::read(path).ok().filter(|bytes| is_zone && bytes.starts_with(b"TZif"))
    }

    fn names(&self) -> Vec<String> {
        let mut names = Vec::new();
        collect(&self.root, "", &mut names);
        names
    }
}

fn collect(folder: &Path, prefix: &str, names: &mut Vec<String>) {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    for entry in entries {
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = entry.path();
        if path.is_dir() {
            // Copies of the same zones, with leap seconds or under old rules.
            if prefix.is_empty() && (name == "posix" || name == "right") {
                continue;
            }
            collect(&path, &format!("{prefix}{name}/"), names);
        } else if !name.contains('.') && !name.starts_with('+') && name != "leapseconds" {
            names.push(format!("{prefix}{name}"));
        }
    }
}
