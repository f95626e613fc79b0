//! Ids and keys of stored entities.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

macro_rules! numbered {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub struct $name(pub i64);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl FromStr for $name {
            type Err = ();

            /// Reads only the displayed form: no sign, no leading zeros.
            fn from_str(text: &str) -> Result<$name, ()> {
                decimal(text).map($name).ok_or(())
            }
        }
    };
}

numbered!(
    /// The id of a schedule. It is never reused, so that run ids made from it stay unique.
    ScheduleId
);
numbered!(
    /// The id of a workflow, across all its revisions.
    WorkflowId
);
numbered!(
    /// The key of a run in the store. Later runs have greater keys.
    RunKey
);
numbered!(
    /// The id of a topic.
    TopicId
);
numbered!(
    /// The key of an event in the store. Later events have greater keys.
    EventKey
);
numbered!(
    /// The id of a producer or consumer, across all revisions that declare it.
    HandlerId
);
numbered!(
    /// The key of an incident in the store.
    IncidentKey
);
numbered!(
    /// The id of one process of a node, from its start to its end. A restarted node gets another
    /// id.
    NodeId
);

fn decimal(text: &str) -> Option<i64> {
    let plain = text.bytes().all(|b| b.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
    if plain { text.parse().ok() } else { None }
}

/// The id of a run, as callers see it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum RunId {
    /// A run of an occurrence: `sched-{schedule}-n{n}-rc{retry}`. The same occurrence and retry
    /// always have the same id, so that creating the run twice creates it once.
    Occurrence {
        schedule: ScheduleId,
        /// The number of the occurrence.
        n: u64,
        /// The number of the retry; 0 for the first run.
        retry: u32,
    },
    /// Any other run: a time-ordered UUID.
    Other(u128),
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RunId::Occurrence { schedule, n, retry } => {
                write!(f, "sched-{schedule}-n{n}-rc{retry}")
            }
            RunId::Other(id) => {
                let hex = format!("{id:032x}");
                let parts = [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]];
                f.write_str(&parts.join("-"))
            }
        }
    }
}

impl FromStr for RunId {
    type Err = ();

    fn from_str(text: &str) -> Result<RunId, ()> {
        match text.strip_prefix("sched-") {
            Some(rest) => occurrence_id(rest).ok_or(()),
            None => uuid(text).map(RunId::Other).ok_or(()),
        }
    }
}

fn occurrence_id(rest: &str) -> Option<RunId> {
    let (schedule, rest) = rest.split_once("-n")?;
    let (n, retry) = rest.split_once("-rc")?;
    Some(RunId::Occurrence {
        schedule: ScheduleId(decimal(schedule)?),
        n: decimal(n)?.try_into().ok()?,
        retry: decimal(retry)?.try_into().ok()?,
    })
}

fn uuid(text: &str) -> Option<u128> {
    let lengths = [8, 4, 4, 4, 12];
    let mut parts = text.split('-');
    let mut hex = String::with_capacity(32);
    for length in lengths {
        hex.push_str(parts.next().filter(|part| part.len() == length)?);
    }
    let plain =
        parts.next().is_none() && hex.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    if plain { u128::from_str_radix(&hex, 16).ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn run_ids_are_read_as_they_are_shown_and_in_no_other_way() {
        for text in ["sched-7-n0-rc0", "sched-12-n345-rc3", "019a8f00-1234-7abc-8def-0123456789ab"]
        {
            assert_eq!(text.parse::<RunId>().unwrap().to_string(), text);
        }
        for text in [
            "",
            "sched-",
            "sched-07-n0-rc0",
            "sched-7-n-1-rc0",
            "sched-7-n0-rc+1",
            "sched-7-n0-rc0 ",
            "sched-7-n0-rc99999999999",
            "019A8F00-1234-7ABC-8DEF-0123456789AB",
            "019a8f0012347abc8def0123456789ab",
            "../../etc/passwd",
        ] {
            assert_eq!(text.parse::<RunId>(), Err(()), "{text}");
        }
    }
}
