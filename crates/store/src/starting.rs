//! Nodes that die soon after they start, again and again. Such a node decides over one thing at a time and notes which
//! before it does: a thing at which three of its lives end is the culprit, and is set aside.

use engine::RunKey;
use engine::turn::Wakeup;
use serde::{Deserialize, Serialize};

use crate::set_aside::{read, stored};

/// Lives that end at the same thing before that is taken for the cause. Somebody who kills nodes at random may hit one
/// that is deciding, hardly three at the same thing.
const STRIKES: u32 = 3;

/// One thing that a node decides over alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trial {
    /// A wakeup that is due.
    Due(Wakeup),
    /// A run that is pending, or that has begun and lacks a place.
    Begin(RunKey),
}

impl Trial {
    /// The schedule, run or handler that is decided over.
    pub fn what(self) -> Wakeup {
        match self {
            Trial::Due(what) => what,
            Trial::Begin(key) => Wakeup::Run(key),
        }
    }
}

/// What is stored of a node from its start until it has lived for a while or leaves. What a new life finds was left by
/// one that died early.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Starting {
    /// Lives in a row that died early.
    pub(crate) deaths: u32,
    /// The thing that is being decided over alone, by its stored kind and id.
    trial: Option<(i16, i64)>,
    /// The thing that was being decided over when the last life ended.
    suspect: Option<(i16, i64)>,
    /// How many lives in a row ended at it.
    strikes: u32,
}

impl Starting {
    /// The key of a node's row in `meta`. A node that nobody has named is called by its host and process: its next
    /// life is another process on the same host.
    pub(crate) fn key(name: &str) -> String {
        let process = format!("-{}", std::process::id());
        format!("starting {}", name.strip_suffix(&process).unwrap_or(name))
    }

    /// A new life, by what an earlier one has left. What cannot be read counts as one early death.
    pub(crate) fn next(left: Option<&str>) -> Starting {
        if left.is_none() {
            return Starting::default();
        }
        let left = Starting::read(left);
        let deaths = left.deaths.saturating_add(1);
        match left.trial {
            None => Starting { deaths, ..left },
            Some(trial) => {
                let strikes = if left.suspect == Some(trial) { left.strikes + 1 } else { 1 };
                Starting { deaths, trial: None, suspect: Some(trial), strikes }
            }
        }
    }

    /// What is stored, or else nothing: a text that cannot be read is no reason not to start.
    pub(crate) fn read(text: Option<&str>) -> Starting {
        text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
    }

    /// The thing at which the last lives ended. Nodes that are gone are no such thing: they cannot be set aside.
    pub(crate) fn culprit(&self) -> Option<Wakeup> {
        let (kind, id) = self.suspect.filter(|_| self.strikes >= STRIKES)?;
        read(kind, id).ok()
    }

    /// The same with this on trial.
    pub(crate) fn trying(self, what: Option<Wakeup>) -> Starting {
        Starting { trial: what.map(stored), ..self }
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
        Starting::next(Some(&starting.trying(what).text()))
    }

    #[test]
    fn the_process_is_no_part_of_the_key() {
        let unnamed = format!("host-{}", std::process::id());
        assert_eq!(Starting::key(&unnamed), "starting host");
        assert_eq!(Starting::key("node-1"), "starting node-1");
    }

    #[test]
    fn three_lives_in_a_row_that_end_at_one_thing_name_it() {
        let (one, other) = (Wakeup::Schedule(ScheduleId(1)), Wakeup::Run(RunKey(1)));
        let start = Starting::next(None);
        assert_eq!((start.deaths, start.culprit()), (0, None));
        let once = dies_at(start, Some(one));
        assert_eq!((once.deaths, once.culprit()), (1, None));
        let elsewhere = dies_at(once.clone(), Some(other));
        assert_eq!((elsewhere.deaths, elsewhere.culprit()), (2, None));
        // A life that ends outside a trial says nothing about the suspect.
        let twice = dies_at(dies_at(once, None), Some(one));
        assert_eq!((twice.deaths, twice.culprit()), (3, None));
        let thrice = dies_at(twice.clone(), Some(one));
        assert_eq!((thrice.deaths, thrice.culprit()), (4, Some(one)));
        assert_eq!(dies_at(thrice, Some(other)).culprit(), None);
        assert_eq!(dies_at(dies_at(twice, Some(other)), Some(one)).culprit(), None);
        let node = Some(Wakeup::Node(engine::NodeId(3)));
        let of_node = (0..4).fold(Starting::default(), |starting, _| dies_at(starting, node));
        assert_eq!(of_node.culprit(), None);
        assert_eq!(Starting::next(Some("nonsense")).deaths, 1);
    }
}
