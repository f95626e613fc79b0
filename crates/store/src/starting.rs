//! Nodes that die again and again soon after they start. Such a node decides one schedule, run or
//! handler at a time and stores which one before it begins. If three starts of the node end at the
//! same one, that is the culprit and is set aside.

use std::path::Path;

use engine::RunKey;
use engine::turn::Wakeup;
use serde::{Deserialize, Serialize};

use crate::wakeups::{read_wakeup, stored_wakeup};

/// How many starts must end at the same schedule, run or handler before it counts as the cause.
/// Someone who kills nodes at random may hit one while it decides, but hardly the same thing three
/// times.
const STRIKES: u32 = 3;

/// What the keys of these rows in `meta` begin with.
const PREFIX: &str = "starting ";
/// Finds the rows of all starts.
pub(crate) const FIND_ALL: &str = "SELECT key, value FROM meta WHERE key LIKE 'starting %'";

/// Whether another process of this machine has the id.
fn is_running(process: u32) -> bool {
    process != std::process::id() && Path::new("/proc").join(process.to_string()).exists()
}

/// One schedule, run or handler that a node decides alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trial {
    Due(Wakeup),
    /// A run that is pending, or that has begun and waits for capacity.
    Begin(RunKey),
}

impl Trial {
    /// The schedule, run or handler that is decided.
    pub fn what(self) -> Wakeup {
        match self {
            Trial::Due(what) => what,
            Trial::Begin(key) => Wakeup::Run(key),
        }
    }
}

/// A node's row from its start until it has run for a while or leaves. A row found by a new start
/// was left by one that died early.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Starting {
    /// How many starts in a row died early.
    pub(crate) deaths: u32,
    /// The stored kind and id of what is being decided alone.
    trial: Option<(i16, i64)>,
    /// What was being decided when the last start died.
    suspect: Option<(i16, i64)>,
    /// How many starts in a row died at the suspect.
    strikes: u32,
}

impl Starting {
    /// The key of a node's row in `meta`.
    pub(crate) fn key(name: &str) -> String {
        format!("{PREFIX}{name}")
    }

    /// The row of a new start, given the rows of all starts in `meta`, and the keys of those that
    /// earlier starts of the same node left. An unnamed node is called by its host and process id:
    /// rows of its host whose process is gone are those of earlier starts.
    pub(crate) fn after(name: &str, rows: &[(String, String)]) -> (Starting, Vec<String>) {
        let process = format!("-{}", std::process::id());
        let host = name.strip_suffix(&process).map(|host| format!("{PREFIX}{host}-"));
        let is_left = |key: &str| {
            let process = host.as_ref().and_then(|host| key.strip_prefix(host)?.parse().ok());
            key == Starting::key(name) || process.is_some_and(|process| !is_running(process))
        };
        let left = rows.iter().filter(|(key, _)| is_left(key));
        let starts = left.clone().map(|(_, text)| Starting::next(text));
        let worst = starts.max_by_key(|starting| (starting.strikes, starting.deaths));
        (worst.unwrap_or_default(), left.map(|(key, _)| key.clone()).collect())
    }

    /// The row of a new start, given what an earlier one left. A row that cannot be read counts as
    /// one early death.
    fn next(left: &str) -> Starting {
        let left = Starting::read(Some(left));
        let deaths = left.deaths.saturating_add(1);
        match left.trial {
            None => Starting { deaths, ..left },
            Some(trial) => {
                let strikes = if left.suspect == Some(trial) { left.strikes + 1 } else { 1 };
                Starting { deaths, trial: None, suspect: Some(trial), strikes }
            }
        }
    }

    /// Parses a row. A row that cannot be read counts as empty: it is no reason not to start.
    pub(crate) fn read(text: Option<&str>) -> Starting {
        text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
    }

    /// What the last starts died at, if enough of them did. Gone nodes are never the culprit: they
    /// cannot be set aside.
    pub(crate) fn culprit(&self) -> Option<Wakeup> {
        let (kind, id) = self.suspect.filter(|_| self.strikes >= STRIKES)?;
        read_wakeup(kind, id).ok().filter(|what| !matches!(what, Wakeup::Node(_)))
    }

    /// The row with `what` as the thing that is decided alone.
    pub(crate) fn trying(self, what: Option<Wakeup>) -> Starting {
        Starting { trial: what.map(stored_wakeup), ..self }
    }

    pub(crate) fn text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use engine::ScheduleId;

    use super::*;

    fn dies_at(starting: Starting, what: Option<Wakeup>) -> Starting {
        Starting::next(&starting.trying(what).text())
    }

    #[test]
    fn earlier_starts_are_those_of_the_name_or_of_processes_that_are_gone() {
        let rows = |names: &[&str]| -> Vec<(String, String)> {
            names.iter().map(|name| (Starting::key(name), Starting::default().text())).collect()
        };
        let deaths = |name: &str, left: &[&str]| {
            let (starting, keys) = Starting::after(name, &rows(left));
            (starting.deaths, keys)
        };
        let unnamed = format!("host-{}", std::process::id());
        // No process has this id: it is above the greatest that Linux gives.
        let gone = "host-4194999";
        assert_eq!(deaths(&unnamed, &[]), (0, vec![]));
        assert_eq!(deaths(&unnamed, &[gone]), (1, vec![Starting::key(gone)]));
        assert_eq!(deaths(&unnamed, &["host-1"]), (0, vec![]), "a neighbour that runs");
        assert_eq!(deaths(&unnamed, &["other-4194999", "host"]), (0, vec![]));
        assert_eq!(deaths(&unnamed, &[&unnamed]), (1, vec![Starting::key(&unnamed)]));
        assert_eq!(deaths("node-1", &["node-1", gone]), (1, vec![Starting::key("node-1")]));
    }

    #[test]
    fn three_lives_in_a_row_that_end_at_one_thing_name_it() {
        let (one, other) = (Wakeup::Schedule(ScheduleId(1)), Wakeup::Run(RunKey(1)));
        let start = Starting::default();
        assert_eq!((start.deaths, start.culprit()), (0, None));
        let once = dies_at(start, Some(one));
        assert_eq!((once.deaths, once.culprit()), (1, None));
        let elsewhere = dies_at(once.clone(), Some(other));
        assert_eq!((elsewhere.deaths, elsewhere.culprit()), (2, None));
        // A start that dies outside a trial proves nothing about the suspect.
        let twice = dies_at(dies_at(once, None), Some(one));
        assert_eq!((twice.deaths, twice.culprit()), (3, None));
        let thrice = dies_at(twice.clone(), Some(one));
        assert_eq!((thrice.deaths, thrice.culprit()), (4, Some(one)));
        assert_eq!(dies_at(thrice, Some(other)).culprit(), None);
        assert_eq!(dies_at(dies_at(twice, Some(other)), Some(one)).culprit(), None);
        let node = Some(Wakeup::Node(engine::NodeId(3)));
        let of_node = (0..4).fold(Starting::default(), |starting, _| dies_at(starting, node));
        assert_eq!(of_node.culprit(), None);
        assert_eq!(Starting::next("nonsense").deaths, 1);
    }
}
