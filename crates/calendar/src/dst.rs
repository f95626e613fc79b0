//! Turns wall-clock times into instants, in zones whose clock changes.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::choice::by_name;
use crate::civil::{self, Local, Unix};
use crate::zone::{Resolved, Segment, Zone};

/// A longer gap is a date that does not exist (Apia, 2011-12-30), not a change of the clock.
const LONGEST_GAP: i32 = 3 * 3600;

/// What happens to a time that the clock skips.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", try_from = "String")]
pub enum Gap {
    /// The occurrence moves to the first instant after the gap; several of one gap become one.
    Shift,
    /// The occurrence does not happen on that day.
    Skip,
}

/// What happens to a time that the clock shows twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", try_from = "String")]
pub enum Fold {
    /// The first pass only.
    First,
    /// The second pass only.
    Last,
    /// The occurrence runs at both instants.
    Both,
}

impl TryFrom<String> for Gap {
    type Error = String;

    fn try_from(written: String) -> Result<Gap, String> {
        let name = |gap| match gap {
            Gap::Shift => "shift",
            Gap::Skip => "skip",
        };
        by_name(&written, &[Gap::Shift, Gap::Skip], name)
    }
}

impl TryFrom<String> for Fold {
    type Error = String;

    fn try_from(written: String) -> Result<Fold, String> {
        let name = |fold| match fold {
            Fold::First => "first",
            Fold::Last => "last",
            Fold::Both => "both",
        };
        by_name(&written, &[Fold::First, Fold::Last, Fold::Both], name)
    }
}

/// A schedule's options for daylight saving. The rule provides what they leave out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DstOptions {
    /// Overrides the rule's default for gaps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gap: Option<Gap>,
    /// Overrides the rule's default for folds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fold: Option<Fold>,
}

/// The handling of daylight saving in force for a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dst {
    pub gap: Gap,
    pub fold: Fold,
}

impl Dst {
    /// For rules that name times of day: each time occurs once a day, whatever the clock does.
    pub const FIXED: Dst = Dst { gap: Gap::Shift, fold: Fold::First };
    /// For rules that repeat within the hour or day: the real spacing is kept.
    pub const WILDCARD: Dst = Dst { gap: Gap::Skip, fold: Fold::Both };

    /// Applies the options on top of these defaults.
    #[must_use]
    pub fn with(self, options: DstOptions) -> Dst {
        Dst { gap: options.gap.unwrap_or(self.gap), fold: options.fold.unwrap_or(self.fold) }
    }
}

/// A set of wall-clock times that can be searched in both directions.
pub(crate) trait WallTimes {
    fn at_or_after(&self, from: Local) -> Option<Local>;
    fn at_or_before(&self, from: Local) -> Option<Local>;
}

/// The first instant strictly after `after` at which one of the wall times occurs.
pub(crate) fn next_after(
    times: &impl WallTimes,
    zone: &Zone,
    dst: Dst,
    after: Timestamp,
) -> Option<Timestamp> {
    let from = civil::second_after(after);
    let segment = zone.segment(from);
    let edges = Edges::of(&segment);
    let offset = i64::from(segment.offset);
    // The result nearly always lies before the next change of the clock.
    let (start, end) = match dst.fold {
        Fold::First => ((from + offset).max(edges.second_pass_end), segment.end),
        Fold::Last => {
            (from + offset, segment.end.min(edges.first_pass_start.saturating_sub(offset)))
        }
        Fold::Both => (from + offset, segment.end),
    };
    let found = times.at_or_after(start);
    if from > segment.start {
        match found {
            Some(found) if found - offset < end => return civil::timestamp(found - offset),
            // Only a time that the clock is about to repeat can still come.
            None if dst.fold == Fold::First || start <= edges.first_pass_start => return None,
            _ => {}
        }
    }
    let walk = |pass| forward(times, zone, dst.gap, pass, (from, &segment), (start, found));
    let unix = match dst.fold {
        Fold::First => walk(Pass::First),
        Fold::Last => walk(Pass::Last),
        Fold::Both => [walk(Pass::First), walk(Pass::Last)].into_iter().flatten().min(),
    };
    civil::timestamp(unix?)
}

/// The last instant strictly before `before` at which one of the wall times occurs.
pub(crate) fn previous_before(
    times: &impl WallTimes,
    zone: &Zone,
    dst: Dst,
    before: Timestamp,
) -> Option<Timestamp> {
    let from = civil::second_before(before);
    let walk = |pass| backward(times, zone, dst.gap, pass, from);
    let unix = match dst.fold {
        Fold::First => walk(Pass::First),
        Fold::Last => walk(Pass::Last),
        Fold::Both => [walk(Pass::First), walk(Pass::Last)].into_iter().flatten().max(),
    };
    civil::timestamp(unix?)
}

/// The instant of a wall time; `None` if it falls into a gap and is skipped.
pub(crate) fn instant_of(local: Local, zone: &Zone, dst: Dst) -> Option<Unix> {
    match zone.resolve(local) {
        Resolved::Once(at) => Some(at),
        Resolved::Fold { last, .. } if dst.fold == Fold::Last => Some(last),
        Resolved::Fold { first, .. } => Some(first),
        Resolved::Gap { end, before, after } => {
            (dst.gap == Gap::Shift && after - before <= LONGEST_GAP).then_some(end)
        }
    }
}

/// Which of the two instants of a repeated wall time counts. Once one is chosen, wall times and
/// instants have the same order, so that a search over wall times is a search over instants.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pass {
    First,
    Last,
}

/// The wall times of a segment that also occur in the segment before or after it.
struct Edges {
    /// Wall times of the segment before this one repeat those of the previous segment.
    second_pass_end: Local,
    /// Wall times of the segment from this one on will be repeated in the next segment.
    first_pass_start: Local,
}

impl Edges {
    fn of(segment: &Segment) -> Edges {
        let widest = i64::from(segment.offset.max(segment.before));
        let narrow = i64::from(segment.offset.min(segment.after));
        Edges {
            second_pass_end: segment.start.saturating_add(widest),
            first_pass_start: segment.end.saturating_add(narrow),
        }
    }
}

/// Searches forward for the first instant at or after `earliest`. `known` is a wall time and the
/// result of searching from it, so that this search need not be repeated.
fn forward(
    times: &impl WallTimes,
    zone: &Zone,
    gap: Gap,
    pass: Pass,
    (earliest, segment): (Unix, &Segment),
    known: (Local, Option<Local>),
) -> Option<Unix> {
    let edges = Edges::of(segment);
    let local = earliest + i64::from(segment.offset);
    let mut from = match pass {
        Pass::First => local.max(edges.second_pass_end),
        Pass::Last => local.min(edges.first_pass_start),
    };
    if earliest == segment.start && segment.before < segment.offset {
        // Wall times that the clock has just skipped occur at this very instant.
        from = from.min(earliest + i64::from(segment.before));
    }
    let mut found = if from == known.0 { known.1? } else { times.at_or_after(from)? };
    loop {
        let from = match landing(zone, gap, pass, found) {
            Landing::At(at) if at >= earliest => return Some(at),
            Landing::At(_) => found + 1,
            Landing::Nowhere { resume_after, .. } => resume_after,
        };
        found = times.at_or_after(from)?;
    }
}

fn backward(
    times: &impl WallTimes,
    zone: &Zone,
    gap: Gap,
    pass: Pass,
    latest: Unix,
) -> Option<Unix> {
    let segment = zone.segment(latest);
    let edges = Edges::of(&segment);
    let local = latest + i64::from(segment.offset);
    let mut from = match pass {
        Pass::First if local < edges.second_pass_end => edges.second_pass_end - 1,
        Pass::Last if local >= edges.first_pass_start => edges.first_pass_start - 1,
        _ => local,
    };
    loop {
        let found = times.at_or_before(from)?;
        from = found - 1;
        match landing(zone, gap, pass, found) {
            Landing::At(at) if at <= latest => return Some(at),
            Landing::At(_) => {}
            Landing::Nowhere { resume_before, .. } => from = resume_before,
        }
    }
}

/// The instant of a wall time, if it has one.
enum Landing {
    At(Unix),
    /// The wall time lies in a gap and is skipped; the fields are the wall times on either side.
    Nowhere {
        resume_after: Local,
        resume_before: Local,
    },
}

fn landing(zone: &Zone, gap: Gap, pass: Pass, local: Local) -> Landing {
    match zone.resolve(local) {
        Resolved::Once(at) => Landing::At(at),
        Resolved::Fold { first, last } => {
            Landing::At(if pass == Pass::First { first } else { last })
        }
        Resolved::Gap { end, before, after } => {
            if gap == Gap::Shift && after - before <= LONGEST_GAP {
                Landing::At(end)
            } else {
                Landing::Nowhere {
                    resume_after: end + i64::from(after),
                    resume_before: end + i64::from(before) - 1,
                }
            }
        }
    }
}
