//! The timeline of the overview: outcomes of the last hours, and upcoming occurrences.

use std::collections::HashMap;

use drawing::timeline::{Bucket, Count, LANES, Lane, Mark, Timeline};
use engine::ScheduleId;
use engine::run::RunStatus;
use jiff::{SignedDuration, Timestamp};
use maud::Markup;
use store::{NotRunQuery, NotRunRow, RunQuery, RunView, ScheduleView, Tally, TallyKind};

use crate::http::problem::Problem;
use crate::http::schedules::object;
use crate::pages::badge;
use crate::pages::page_context::PageContext;
use crate::pages::when;

/// How many runs and other occurrences are drawn one by one: the latest. The bars count all of
/// them.
const DRAWN: usize = 300;
/// For how many schedules upcoming occurrences are drawn.
const COMING: usize = 40;
/// How many upcoming occurrences of one schedule are drawn.
const TIMES: usize = 60;

/// How far the timeline extends into past and future.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    Hour,
    SixHours,
    Day,
}

impl Reach {
    pub(super) const ALL: [Reach; 3] = [Reach::Hour, Reach::SixHours, Reach::Day];

    pub(super) fn name(self) -> &'static str {
        match self {
            Reach::Hour => "1h",
            Reach::SixHours => "6h",
            Reach::Day => "24h",
        }
    }

    fn span(self) -> SignedDuration {
        SignedDuration::from_hours(match self {
            Reach::Hour => 1,
            Reach::SixHours => 6,
            Reach::Day => 24,
        })
    }

    /// How many minutes a bar covers: some sixty bars are easy to read.
    fn minutes(self) -> i64 {
        match self {
            Reach::Hour => 1,
            Reach::SixHours => 5,
            Reach::Day => 20,
        }
    }
}

pub(super) async fn show(context: &PageContext, reach: Reach) -> Result<Markup, Problem> {
    let store = context.app.store();
    let seconds = reach.minutes() * 60;
    let end = context.now.checked_add(reach.span()).unwrap_or(context.now);
    let start = context.now.checked_sub(reach.span()).unwrap_or(context.now);
    let start = Timestamp::from_second(start.as_second() / seconds * seconds).unwrap_or(start);
    let tallies = store.tallies(start, end).await?;
    let query =
        RunQuery { since: Some(start), limit: DRAWN, hides_system: true, ..RunQuery::default() };
    let runs = store.runs(query).await?.items;
    let query = NotRunQuery { since: Some(start), outcome: None, limit: DRAWN, after: None };
    let not_run = store.not_run(query).await?.items;
    let coming = store.coming(COMING).await?;
    let mut lanes = Lanes::default();
    lanes.add_coming(context, &coming, end);
    lanes.add_past(context, runs, not_run).await?;
    let drawn = when::drawn(&context.zone, |wall| {
        let timeline = Timeline {
            title: "Occurrences before and after now".to_owned(),
            start,
            end,
            now: context.now,
            buckets: buckets(&tallies, start, context.now, seconds),
            lanes: lanes.finished(),
            wall,
        };
        timeline.draw()
    });
    Ok(drawn)
}

/// Outcomes of occurrences and runs, counted in bars of equal width.
fn buckets(tallies: &[Tally], start: Timestamp, now: Timestamp, seconds: i64) -> Vec<Bucket> {
    let number = (now.as_second() - start.as_second()) / seconds + 1;
    let instant = |at: i64| Timestamp::from_second(start.as_second() + at * seconds).unwrap_or(now);
    let mut buckets: Vec<Bucket> = (0..number)
        .map(|at| Bucket {
            start: instant(at),
            end: instant(at + 1),
            counts: Vec::new(),
            href: None,
        })
        .collect();
    for tally in tallies {
        let Some((state, label)) = meaning(tally.kind) else { continue };
        let at = (tally.minute.as_second() - start.as_second()) / seconds;
        let bucket = usize::try_from(at).ok().and_then(|at| buckets.get_mut(at));
        let Some(bucket) = bucket else { continue };
        let more = usize::try_from(tally.count).unwrap_or(usize::MAX);
        match bucket.counts.iter_mut().find(|count| count.label == label) {
            Some(count) => count.number += more,
            None => bucket.counts.push(Count {
                state: state.to_owned(),
                label: label.to_owned(),
                number: more,
            }),
        }
    }
    buckets
}

/// The colour and label of a tally. Started occurrences are left out: their runs are counted by how
/// they ended.
fn meaning(kind: TallyKind) -> Option<(&'static str, &'static str)> {
    match kind {
        TallyKind::Run(status) => match status {
            RunStatus::Succeeded => Some(("is-ok", "succeeded")),
            RunStatus::Failed | RunStatus::TimedOut => Some(("is-bad", "failed")),
            RunStatus::Cancelled => Some(("is-idle", "cancelled")),
            _ => None,
        },
        TallyKind::Occurrence(outcome) => match outcome {
            engine::ledger::Outcome::Skipped | engine::ledger::Outcome::Coalesced => {
                Some(("is-wait", "skipped"))
            }
            engine::ledger::Outcome::Missed | engine::ledger::Outcome::Dropped => {
                Some(("is-warn", "missed or dropped"))
            }
            _ => None,
        },
    }
}

/// The lanes of the drawing, in the order in which their schedules are due.
#[derive(Default)]
struct Lanes {
    order: Vec<ScheduleId>,
    known: HashMap<ScheduleId, Lane>,
}

impl Lanes {
    fn lane(&mut self, id: ScheduleId, name: &str) -> &mut Lane {
        self.known.entry(id).or_insert_with(|| {
            self.order.push(id);
            Lane {
                label: name.to_owned(),
                href: Some(format!("/schedules/{id}")),
                marks: Vec::new(),
            }
        })
    }

    fn add_coming(&mut self, context: &PageContext, coming: &[ScheduleView], end: Timestamp) {
        let rules = context.app.rules();
        for view in coming {
            let schedule = &view.schedule;
            let Some(plan) = object::plan(schedule, &rules) else { continue };
            let rows = view.outlook(&plan, context.now).coming(TIMES);
            let times = rows.iter().filter_map(|row| row.effective).filter(|at| *at <= end);
            let times: Vec<Timestamp> = times.collect();
            if times.is_empty() {
                continue;
            }
            let lane = self.lane(schedule.id, &schedule.declared.name);
            lane.marks.extend(times.into_iter().map(|at| Mark {
                at,
                state: "is-idle".to_owned(),
                label: format!("due at {}", when::text(&context.zone, at, context.now)),
                href: None,
            }));
        }
    }

    async fn add_past(
        &mut self,
        context: &PageContext,
        runs: Vec<RunView>,
        not_run: Vec<NotRunRow>,
    ) -> Result<(), Problem> {
        let mut ids: Vec<ScheduleId> = runs.iter().filter_map(|view| view.run.schedule).collect();
        ids.sort_unstable();
        ids.dedup();
        ids.retain(|id| !self.known.contains_key(id));
        ids.truncate(LANES);
        for view in context.app.store().schedules_by_id(ids).await? {
            self.lane(view.schedule.id, &view.schedule.declared.name);
        }
        for RunView { run, .. } in runs {
            let lane = run.schedule.and_then(|id| self.known.get_mut(&id));
            let Some(lane) = lane else { continue };
            lane.marks.push(Mark {
                at: run.effective.unwrap_or(run.created_at),
                state: badge::run_class(run.status).to_owned(),
                label: run.status.name().replace('_', " "),
                href: Some(format!("/runs/{}", run.id)),
            });
        }
        for NotRunRow { entry, names } in not_run {
            let Some((name, _)) = names else { continue };
            self.lane(entry.schedule, &name).marks.push(Mark {
                at: entry.effective,
                state: badge::outcome_class(entry.outcome).to_owned(),
                label: format!("{}: {}", entry.outcome.name(), entry.reason),
                href: Some(format!("/schedules/{}", entry.schedule)),
            });
        }
        Ok(())
    }

    fn finished(mut self) -> Vec<Lane> {
        let mut lanes: Vec<Lane> =
            self.order.iter().filter_map(|id| self.known.remove(id)).collect();
        lanes.iter_mut().for_each(|lane| lane.marks.sort_by_key(|mark| mark.at));
        lanes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_hold_what_was_decided_in_their_minutes() {
        let at = |second: i64| Timestamp::from_second(second).unwrap();
        let tally =
            |second: i64, kind: TallyKind, count: u64| Tally { minute: at(second), kind, count };
        let ran = TallyKind::Run(RunStatus::Succeeded);
        let failed = TallyKind::Run(RunStatus::Failed);
        let started = TallyKind::Occurrence(engine::ledger::Outcome::Started);
        let tallies =
            [tally(0, ran, 3), tally(60, ran, 1), tally(240, failed, 2), tally(300, started, 9)];
        let bars = buckets(&tallies, at(0), at(590), 300);
        let told: Vec<String> = bars
            .iter()
            .map(|bar| {
                bar.counts.iter().map(|one| format!("{} {} ", one.number, one.label)).collect()
            })
            .collect();
        assert_eq!(told, ["4 succeeded 2 failed ", ""]);
        assert_eq!((bars[1].start, bars[1].end), (at(300), at(600)));
    }
}
