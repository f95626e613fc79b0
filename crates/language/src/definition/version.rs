//! The version that an author gives a definition: `3` or `1.10`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A whole number, or `X.Y`. `1.10` is later than `1.9`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Version {
    pub major: u32,
    pub minor: Option<u32>,
}

impl Default for Version {
    fn default() -> Version {
        Version { major: 1, minor: None }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.minor {
            Some(minor) => write!(f, "{}.{minor}", self.major),
            None => write!(f, "{}", self.major),
        }
    }
}

impl FromStr for Version {
    type Err = String;

    fn from_str(text: &str) -> Result<Version, String> {
        let part = |text: &str| {
            let canonical = text == "0" || !text.starts_with('0');
            let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
            text.parse::<u32>().ok().filter(|_| digits && canonical)
        };
        let version = match text.split_once('.') {
            None => part(text).map(|major| Version { major, minor: None }),
            Some((major, minor)) => part(major)
                .zip(part(minor))
                .map(|(major, minor)| Version { major, minor: Some(minor) }),
        };
        version.ok_or_else(|| format!("{text} is not a version"))
    }
}

impl From<Version> for String {
    fn from(version: Version) -> String {
        version.to_string()
    }
}

impl TryFrom<String> for Version {
    type Error = String;

    fn try_from(text: String) -> Result<Version, String> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_written_and_in_order() {
        let read = |text: &str| text.parse::<Version>().unwrap();
        for text in ["0", "1", "12", "1.0", "1.10"] {
            assert_eq!(read(text).to_string(), text);
        }
        assert!(read("1.9") < read("1.10") && read("1") < read("1.0") && read("2") > read("1.10"));
        for text in ["", "010", "1.", ".1", "1.01", "1.2.3", "-1", "+1", "1e3", "4294967296", "v1"]
        {
            assert!(text.parse::<Version>().is_err(), "{text}");
        }
    }
}
