//! Working hours of calendars that are composed of others.

use super::Calendar;
use super::hours::Shift;
use super::year::{DayPlan, Reason};
use crate::civil::{DAY_SECONDS, Day};

/// The plan of a composed calendar: its hours, and the reason of the first part that explains them.
pub(super) fn joined(all: &[Calendar], day: Day, shifts: Vec<Shift>) -> DayPlan {
    let plans: Vec<DayPlan> = all.iter().map(|calendar| calendar.plan(day)).collect();
    let open = !shifts.is_empty();
    let reason =
        plans.iter().find(|plan| plan.is_working() == open).map(|plan| plan.reason.clone());
    let reason = reason.unwrap_or_else(|| Reason::Exception("no common hours".into()));
    DayPlan { shifts: shifts.into(), reason }
}

pub(super) fn without(base: &Calendar, others: &[Calendar], day: Day) -> DayPlan {
    let plan = base.plan(day);
    let mut shifts = plan.shifts.to_vec();
    let mut taken = None;
    for other in others {
        for near in [day - 1, day, day + 1] {
            let shift_days = i64::from(near - day) * DAY_SECONDS;
            let hours = other.plan(near).shifts;
            shifts = shifts.iter().flat_map(|&s| cut(s, &hours, shift_days)).collect();
        }
        if shifts.is_empty() && plan.is_working() {
            taken.get_or_insert_with(|| other.id().to_owned());
        }
    }
    let reason = match taken {
        Some(other) => Reason::Exception(format!("taken by {other}").into()),
        None => plan.reason,
    };
    DayPlan { shifts: shifts.into(), reason }
}

pub(super) fn union(all: &[Calendar], day: Day) -> Vec<Shift> {
    let mut all: Vec<Shift> =
        all.iter().flat_map(|calendar| calendar.plan(day).shifts.to_vec()).collect();
    all.sort_unstable();
    let mut merged: Vec<Shift> = Vec::with_capacity(all.len());
    for shift in all {
        match merged.last_mut() {
            Some(last) if shift.start <= last.end => last.end = last.end.max(shift.end),
            _ => merged.push(shift),
        }
    }
    merged
}

/// The common shifts that begin on the day. Overnight shifts of the previous day reach into it.
pub(super) fn intersection(all: &[Calendar], day: Day) -> Vec<Shift> {
    let hours = |calendar: &Calendar| -> Vec<(i64, i64)> {
        let of = |near: Day| {
            let offset = i64::from(near - day) * DAY_SECONDS;
            let shifts = calendar.plan(near).shifts.to_vec().into_iter();
            shifts.map(move |s| (i64::from(s.start) + offset, i64::from(s.end) + offset))
        };
        of(day - 1).chain(of(day)).collect()
    };
    let both = |a: Vec<(i64, i64)>, b: Vec<(i64, i64)>| -> Vec<(i64, i64)> {
        let pairs = a.iter().flat_map(|x| b.iter().map(|y| (x.0.max(y.0), x.1.min(y.1))));
        pairs.filter(|(start, end)| start < end).collect()
    };
    let common = all.iter().map(hours).reduce(both).unwrap_or_default();
    let begun = common.into_iter().filter(|(start, _)| (0..DAY_SECONDS).contains(start));
    begun.map(|(start, end)| Shift { start: start as u32, end: end as u32 }).collect()
}

/// The parts of a shift that remain without the hours of a day `offset` seconds away.
fn cut(shift: Shift, hours: &[Shift], offset: i64) -> Vec<Shift> {
    let mut rest = vec![shift];
    for taken in hours {
        let (start, end) = (i64::from(taken.start) + offset, i64::from(taken.end) + offset);
        rest = rest
            .into_iter()
            .flat_map(|s| {
                let left = (i64::from(s.start), i64::from(s.end).min(start));
                let right = (i64::from(s.start).max(end), i64::from(s.end));
                [left, right]
            })
            .filter(|(from, to)| from < to)
            .map(|(from, to)| Shift { start: from as u32, end: to as u32 })
            .collect();
    }
    rest
}
