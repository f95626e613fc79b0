//! The kinds of questions that `calc` answers, one function each.

use std::borrow::Cow;

use calendar::holidays::Region;
use calendar::{
    Calendar, CalendarSpec, CatchUp, Context, Cron, DstOptions, Interval, Meaning, Policy, Problem,
    Recurrence, Rrule, Rule, TimingContext, TimingSpec, Zone, Zones, nearest, parse_duration,
};
use jiff::civil::{Date, DateTime};
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::answer;

/// The most times that one question may ask for.
const COUNT_LIMIT: u32 = 10_000;
const KINDS: [&str; 12] = [
    "cron_next",
    "cron_rule",
    "cron_syntax",
    "rrule",
    "interval_next",
    "misfire",
    "work_minutes",
    "work_days_date",
    "holidays",
    "tz_transitions",
    "tz_resolve",
    "tz_update",
];

type Answered = Result<(), Problem>;

/// Writes the result of one question.
pub(super) fn answer(zones: &Zones, kind: &str, line: &[u8], into: &mut Vec<u8>) -> Answered {
    match kind {
        "cron_next" | "cron_rule" => cron_next(zones, parse(line)?, into),
        "cron_syntax" => cron_syntax(&parse(line)?, into),
        "rrule" => rrule(zones, &parse(line)?, into),
        "interval_next" => interval_next(&parse(line)?, into),
        "misfire" => misfire(zones, &parse(line)?, into),
        "work_minutes" => work_minutes(zones, &parse(line)?, into),
        "work_days_date" => work_days_date(zones, &parse(line)?, into),
        "holidays" => holidays(&parse(line)?, into),
        "tz_transitions" => tz_transitions(zones, &parse(line)?, into),
        "tz_resolve" => tz_resolve(zones, &parse(line)?, into),
        "tz_update" => tz_update(zones, &parse(line)?, into),
        _ => {
            let problem =
                Problem::whole("kind", kind, "no such kind of question").allow(KINDS.join(", "));
            Err(match nearest(kind, KINDS).first() {
                Some(close) => problem.suggest(*close),
                None => problem,
            })
        }
    }
}

fn parse<'a, T: Deserialize<'a>>(line: &'a [u8]) -> Result<T, Problem> {
    serde_json::from_slice(line)
        .map_err(|error| Problem::whole("question", "", format!("not a question: {error}")))
}

fn instant(text: &str) -> Result<Timestamp, Problem> {
    text.parse().map_err(|_| {
        Problem::whole("instant", text, "not an instant").allow("2026-03-08T07:00:00Z")
    })
}

fn wall(text: &str) -> Result<DateTime, Problem> {
    text.parse().map_err(|_| {
        Problem::whole("wall-time", text, "not a wall time")
            .allow("2026-03-08T02:30:00, or 20260308T023000")
    })
}

fn bounded(n: u32) -> Result<usize, Problem> {
    if n <= COUNT_LIMIT {
        return Ok(n as usize);
    }
    Err(Problem::whole("count", &n.to_string(), "too many times are asked for")
        .allow(format!("at most {COUNT_LIMIT} in one question")))
}

#[derive(Deserialize)]
struct CronNext<'a> {
    #[serde(borrow)]
    expr: Cow<'a, str>,
    #[serde(borrow)]
    tz: Cow<'a, str>,
    #[serde(borrow)]
    after: Cow<'a, str>,
    n: u32,
    #[serde(default)]
    dst: DstOptions,
}

fn cron_next(zones: &Zones, question: CronNext<'_>, into: &mut Vec<u8>) -> Answered {
    let cron = Cron::parse(&question.expr)?;
    let rule = Rule::cron(cron, zones.get(&question.tz)?).with_dst(question.dst);
    let after = instant(&question.after)?;
    answer::instants(into, rule.after(after).take(bounded(question.n)?));
    Ok(())
}

#[derive(Deserialize)]
struct CronSyntax<'a> {
    #[serde(borrow)]
    expr: Cow<'a, str>,
}

fn cron_syntax(question: &CronSyntax<'_>, into: &mut Vec<u8>) -> Answered {
    let verdict = if Cron::parse(&question.expr).is_ok() { "accept" } else { "reject" };
    answer::json(into, &verdict);
    Ok(())
}

#[derive(Deserialize)]
struct RruleQuestion<'a> {
    #[serde(borrow)]
    rrule: Cow<'a, str>,
    #[serde(borrow)]
    dtstart: Cow<'a, str>,
    #[serde(borrow, default)]
    tz: Option<Cow<'a, str>>,
    #[serde(default)]
    exdate: Vec<String>,
    #[serde(default)]
    rdate: Vec<String>,
    n: u32,
}

/// Without a zone, the times are wall times, in the question and in the answer.
fn rrule(zones: &Zones, question: &RruleQuestion<'_>, into: &mut Vec<u8>) -> Answered {
    let zone = match &question.tz {
        Some(name) => zones.get(name)?,
        None => Zone::utc(),
    };
    let walls =
        |texts: &[String]| texts.iter().map(|text| wall(text)).collect::<Result<Vec<_>, _>>();
    let recurrence =
        Recurrence::new(Rrule::parse(&question.rrule)?, wall(&question.dtstart)?, zone.clone())
            .exclude(walls(&question.exdate)?)
            .include(walls(&question.rdate)?);
    let first = recurrence.next_after(Timestamp::MIN);
    let times = std::iter::successors(first, |at| recurrence.next_after(*at));
    let times = times.take(bounded(question.n)?);
    match question.tz {
        Some(_) => answer::instants(into, times),
        None => answer::plain_strings(into, times.map(|at| zone.wall(at))),
    }
    Ok(())
}

#[derive(Deserialize)]
struct IntervalNext<'a> {
    #[serde(borrow)]
    every: Cow<'a, str>,
    #[serde(borrow)]
    anchor: Cow<'a, str>,
    #[serde(borrow)]
    after: Cow<'a, str>,
    n: u32,
}

fn interval(every: &str, anchor: &str) -> Result<Interval, Problem> {
    let interval = Interval::new(parse_duration(every)?, instant(anchor)?);
    interval.ok_or_else(|| Interval::too_short(every))
}

fn interval_next(question: &IntervalNext<'_>, into: &mut Vec<u8>) -> Answered {
    let rule = Rule::Interval(interval(&question.every, &question.anchor)?);
    let after = instant(&question.after)?;
    answer::instants(into, rule.after(after).take(bounded(question.n)?));
    Ok(())
}

#[derive(Deserialize)]
struct Misfire<'a> {
    #[serde(borrow)]
    every: Cow<'a, str>,
    #[serde(borrow)]
    anchor: Cow<'a, str>,
    #[serde(borrow)]
    down: Cow<'a, str>,
    #[serde(borrow)]
    up: Cow<'a, str>,
}

#[derive(Serialize)]
struct MisfireAnswer {
    skip: Vec<Timestamp>,
    latest: Vec<Timestamp>,
    all_cap10: Vec<Timestamp>,
}

/// Which occurrences run after a downtime, under each catch-up policy.
fn misfire(zones: &Zones, question: &Misfire<'_>, into: &mut Vec<u8>) -> Answered {
    let spec = TimingSpec {
        interval: Some(question.every.as_ref().into()),
        anchor: Some(question.anchor.as_ref().into()),
        ..TimingSpec::default()
    };
    let context = TimingContext::new(zones, Timestamp::UNIX_EPOCH);
    let timing = spec.build(&context).map_err(first_problem)?;
    let (down, up) = (instant(&question.down)?, instant(&question.up)?);
    let runs = |policy| {
        let catch_up = CatchUp { policy, limit: 10, ..CatchUp::default() };
        let decided = catch_up.decide(&timing, down, up);
        decided.run.iter().map(|occurrence| occurrence.effective).collect()
    };
    let decided = MisfireAnswer {
        skip: runs(Policy::None),
        latest: runs(Policy::Last),
        all_cap10: runs(Policy::All),
    };
    answer::json(into, &decided);
    Ok(())
}

fn first_problem(mistakes: Vec<calendar::Mistake>) -> Problem {
    let first = mistakes.into_iter().next();
    first.map_or_else(
        || Problem::whole("question", "", "not a question"),
        |mistake| Problem {
            message: format!("{}: {}", mistake.path, mistake.problem.message),
            ..mistake.problem
        },
    )
}

fn build(zones: &Zones, spec: &CalendarSpec) -> Result<Calendar, Problem> {
    let utc = Zone::utc();
    let context = Context {
        zones,
        default_zone: Some(&utc),
        read_ics: &|_| Err("calc reads no files".into()),
        find: &|_| None,
    };
    spec.build(&context).map_err(first_problem)
}

#[derive(Deserialize)]
struct WorkMinutes<'a> {
    #[serde(borrow)]
    start: Cow<'a, str>,
    minutes: i64,
    calendar: CalendarSpec,
}

fn work_minutes(zones: &Zones, question: &WorkMinutes<'_>, into: &mut Vec<u8>) -> Answered {
    let calendar = build(zones, &question.calendar)?;
    let minutes = question.minutes.clamp(-100_000_000, 100_000_000);
    let found = calendar.add_time(instant(&question.start)?, SignedDuration::from_mins(minutes));
    let found = found.ok_or_else(|| {
        Problem::whole("working-time", "", "the calendar does not hold that much working time")
    })?;
    answer::json(into, &found);
    Ok(())
}

#[derive(Deserialize)]
struct WorkDaysDate<'a> {
    #[serde(borrow)]
    start: Cow<'a, str>,
    days: i32,
    calendar: CalendarSpec,
}

fn work_days_date(zones: &Zones, question: &WorkDaysDate<'_>, into: &mut Vec<u8>) -> Answered {
    let calendar = build(zones, &question.calendar)?;
    let start = question
        .start
        .parse::<Date>()
        .map_err(|_| Problem::whole("date", &question.start, "not a date").allow("2026-03-08"))?;
    let days = question.days.clamp(-100_000, 100_000);
    let found = calendar.add_working_dates(start, days).ok_or_else(|| {
        Problem::whole("working-time", "", "the calendar does not hold that many working days")
    })?;
    answer::json(into, &found);
    Ok(())
}

#[derive(Deserialize)]
struct Holidays<'a> {
    #[serde(borrow)]
    country: Cow<'a, str>,
    #[serde(borrow, default)]
    subdiv: Option<Cow<'a, str>>,
    year: i16,
}

fn holidays(question: &Holidays<'_>, into: &mut Vec<u8>) -> Answered {
    let code = match &question.subdiv {
        Some(subdivision) => format!("{}-{subdivision}", question.country),
        None => question.country.as_ref().into(),
    };
    let region = Region::parse(&code).map_err(Problem::from)?;
    answer::plain_strings(into, region.holidays(question.year).iter().map(|day| day.date));
    Ok(())
}

#[derive(Deserialize)]
struct TzTransitions<'a> {
    #[serde(borrow)]
    zone: Cow<'a, str>,
    /// From the first year up to, but not including, the second.
    years: (i16, i16),
}

fn tz_transitions(zones: &Zones, question: &TzTransitions<'_>, into: &mut Vec<u8>) -> Answered {
    let zone = zones.get(&question.zone)?;
    let new_year = |year: i16| {
        instant(&format!("{year:04}-01-01T00:00:00Z"))
            .map_err(|problem| Problem { message: "not a year".into(), ..problem })
    };
    let (from, to) = (new_year(question.years.0)?, new_year(question.years.1)?);
    let transitions: Vec<(Timestamp, i32, i32)> =
        zone.transitions(from, to).map(|t| (t.at, t.before, t.after)).collect();
    answer::json(into, &transitions);
    Ok(())
}

#[derive(Deserialize)]
struct TzResolve<'a> {
    #[serde(borrow)]
    zone: Cow<'a, str>,
    #[serde(borrow)]
    wall: Cow<'a, str>,
}

#[derive(Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum Resolved {
    Once { instant: Timestamp },
    Gap { gap_end: Timestamp, before_offset: i32, after_offset: i32 },
    Fold { first: Timestamp, second: Timestamp },
}

fn meaning(zones: &Zones, question: &TzResolve<'_>) -> Result<Resolved, Problem> {
    let meaning = zones.get(&question.zone)?.meaning(wall(&question.wall)?);
    Ok(match meaning {
        Some(Meaning::Once(instant)) => Resolved::Once { instant },
        Some(Meaning::Gap { end, before, after }) => {
            Resolved::Gap { gap_end: end, before_offset: before, after_offset: after }
        }
        Some(Meaning::Fold { first, last }) => Resolved::Fold { first, second: last },
        None => {
            let message = "too far from now to be an instant";
            return Err(Problem::whole("wall-time", &question.wall, message));
        }
    })
}

fn tz_resolve(zones: &Zones, question: &TzResolve<'_>, into: &mut Vec<u8>) -> Answered {
    answer::json(into, &meaning(zones, question)?);
    Ok(())
}

#[derive(Serialize)]
struct TzUpdated<'a> {
    new_instant: Timestamp,
    new_tzdb: &'a str,
}

/// The instant of a wall time according to the zone database in use.
fn tz_update(zones: &Zones, question: &TzResolve<'_>, into: &mut Vec<u8>) -> Answered {
    let new_instant = match meaning(zones, question)? {
        Resolved::Once { instant } => instant,
        Resolved::Gap { gap_end, .. } => gap_end,
        Resolved::Fold { first, .. } => first,
    };
    answer::json(into, &TzUpdated { new_instant, new_tzdb: zones.version() });
    Ok(())
}
