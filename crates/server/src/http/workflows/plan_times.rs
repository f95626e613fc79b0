//! Which occurrences of a schedule a publish would add, move and lose over the next 30 days.

use std::collections::BTreeMap;

use calendar::Zone;
use engine::schedule::Outlook;
use jiff::{SignedDuration, Timestamp};
use serde::Serialize;
use utoipa::ToSchema;

use crate::http::shown;

/// How far a plan looks ahead.
const AHEAD: SignedDuration = SignedDuration::from_hours(30 * 24);
/// How many occurrences of a schedule are compared: 30 days at one per quarter of an hour. A more
/// frequent schedule is compared for a shorter time, and the response says until when.
const COMPARED: usize = 3_000;
/// How many occurrences are listed per kind of change; all of them are counted.
const LISTED: usize = 5;

/// What a publish changes in the occurrences of one trigger.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct PlannedTimes {
    /// Until when occurrences were compared: 30 days from now, or earlier if there are very many.
    until: String,
    /// How many occurrences are added.
    added: usize,
    /// How many occurrences happen at another time than before.
    moved: usize,
    /// How many occurrences are lost.
    lost: usize,
    /// The first few of each kind.
    first: Vec<PlannedTime>,
}

/// One occurrence that a publish changes.
#[derive(Debug, Serialize, ToSchema)]
struct PlannedTime {
    /// `added`, `moved` or `lost`.
    change: &'static str,
    /// When it happens; for a lost one, when it would have happened.
    at: String,
    /// When a moved one would have happened.
    before: Option<String>,
}

/// Effective times by nominal time, and the instant up to which they are complete.
struct Coming {
    times: BTreeMap<Timestamp, Timestamp>,
    until: Timestamp,
}

impl Coming {
    fn new(outlook: &Outlook<'_>, until: Timestamp) -> Coming {
        let rows = outlook.coming(COMPARED + 1).into_iter();
        let starts: Vec<_> = rows.filter_map(|row| Some((row.nominal, row.effective?))).collect();
        let until = starts.get(COMPARED).map_or(until, |(_, at)| until.min(*at));
        let times = starts.into_iter().filter(|(_, at)| *at <= until).take(COMPARED).collect();
        Coming { times, until }
    }
}

/// Compares the upcoming occurrences before and after.
pub(super) fn compare(
    before: Option<&Outlook<'_>>,
    after: Option<&Outlook<'_>>,
    zone: &Zone,
    now: Timestamp,
) -> PlannedTimes {
    let until = now.checked_add(AHEAD).unwrap_or(Timestamp::MAX);
    let times = |side: Option<&Outlook<'_>>| match side {
        Some(outlook) => Coming::new(outlook, until),
        None => Coming { times: BTreeMap::new(), until },
    };
    let (before, after) = (times(before), times(after));
    let until = before.until.min(after.until);
    let is_compared = |at: Timestamp| at <= until;
    let (mut added, mut moved, mut lost) =
        (Changes::new("added"), Changes::new("moved"), Changes::new("lost"));
    for (nominal, at) in after.times.iter().filter(|(_, at)| is_compared(**at)) {
        match before.times.get(nominal) {
            None => added.push(zone, *at, None),
            Some(old) if old != at => moved.push(zone, *at, Some(*old)),
            Some(_) => {}
        }
    }
    for (_, at) in before
        .times
        .iter()
        .filter(|(nominal, at)| is_compared(**at) && !after.times.contains_key(nominal))
    {
        lost.push(zone, *at, None);
    }
    PlannedTimes {
        until: shown::time(zone, until),
        added: added.count,
        moved: moved.count,
        lost: lost.count,
        first: [lost.first, moved.first, added.first].into_iter().flatten().collect(),
    }
}

struct Changes {
    kind: &'static str,
    count: usize,
    first: Vec<PlannedTime>,
}

impl Changes {
    fn new(kind: &'static str) -> Changes {
        Changes { kind, count: 0, first: Vec::new() }
    }

    fn push(&mut self, zone: &Zone, at: Timestamp, before: Option<Timestamp>) {
        self.count += 1;
        if self.first.len() < LISTED {
            let before = before.map(|before| shown::time(zone, before));
            self.first.push(PlannedTime { change: self.kind, at: shown::time(zone, at), before });
        }
    }
}
