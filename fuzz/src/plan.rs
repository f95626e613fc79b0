//! Declarations made from structured input: nearly all of them are accepted, so that the search
//! behind them is what gets tested.

use arbitrary::Arbitrary;
use calendar::{CalendarSpec, Fit, IntervalFrom, OneOrMany, Roll, TimingSpec};
use jiff::Timestamp;

use crate::world;

const WEEKDAYS: [&str; 7] = ["SU", "MO", "TU", "WE", "TH", "FR", "SA"];
const FREQUENCIES: [&str; 7] =
    ["SECONDLY", "MINUTELY", "HOURLY", "DAILY", "WEEKLY", "MONTHLY", "YEARLY"];

/// A timing, the calendar it may refer to, and where to ask from.
#[derive(Arbitrary, Debug)]
pub struct Plan {
    pub zone: u8,
    pub at: (u32, u32),
    rule: RulePlan,
    more: Vec<RulePlan>,
    calendar: Option<CalendarPlan>,
    roll: Option<u8>,
    fit: bool,
    start: Option<u32>,
    /// Hours after the start, or after `at`.
    end: Option<u16>,
    spread_seconds: Option<u16>,
    dst: Option<(bool, u8)>,
    /// Where to ask between one occurrence and the next.
    pub places: [u8; 5],
}

#[derive(Arbitrary, Debug)]
enum RulePlan {
    Cron(CronPlan),
    Rrule(Box<RrulePlan>),
    Interval { milliseconds: u32, anchor: u32, nanos: u32, from_completion: bool },
    Once { at: u32, nanos: u32 },
    WorkingDay { nth: i8, minute: u16, period: u8 },
}

#[derive(Arbitrary, Debug)]
struct CronPlan {
    second: Option<Field>,
    minute: Field,
    hour: Field,
    day: DayField,
    month: Field,
    weekday: WeekdayField,
    year: Option<(u8, u8)>,
}

#[derive(Arbitrary, Debug)]
enum Field {
    Every,
    Step(u8),
    One(u8),
    List(u8, u8, u8),
    Range(u8, u8),
    RangeStep(u8, u8, u8),
}

#[derive(Arbitrary, Debug)]
enum DayField {
    Plain(Field),
    Last(u8),
    LastWeekday,
    NearestWeekday(u8),
}

#[derive(Arbitrary, Debug)]
enum WeekdayField {
    Plain(Field),
    And(u8),
    Nth(u8, u8),
    Last(u8),
}

#[derive(Arbitrary, Debug)]
struct RrulePlan {
    frequency: u8,
    interval: Option<u16>,
    count: Option<u16>,
    until: Option<u32>,
    week_start: Option<u8>,
    months: Vec<u8>,
    week_numbers: Vec<i8>,
    year_days: Vec<i16>,
    month_days: Vec<i8>,
    weekdays: Vec<(i8, u8)>,
    hours: Vec<u8>,
    minutes: Vec<u8>,
    seconds: Vec<u8>,
    positions: Vec<i16>,
    dtstart: u32,
    exdates: Vec<u32>,
    rdates: Vec<u32>,
}

#[derive(Arbitrary, Debug)]
enum CalendarPlan {
    Region(u8),
    Own {
        /// Weekdays worked, Sunday in the lowest bit.
        week: u8,
        /// From and to, in quarters of an hour; overnight where the end is before the start.
        shifts: Vec<(u8, u8)>,
        regions: Vec<u8>,
        /// Days of the epoch and how many.
        holidays: Vec<(u16, u8)>,
        exceptions: Vec<(u16, bool)>,
        zone: Option<u8>,
    },
    Union(u8, u8),
    Intersection(u8, u8),
    AllBut(u8, u8),
}

impl Plan {
    pub fn at(&self) -> Timestamp {
        world::instant_from(self.at.0, self.at.1)
    }

    /// The declared calendar, under the id `plan`.
    pub fn calendar(&self) -> Option<CalendarSpec> {
        self.calendar.as_ref().map(CalendarPlan::spec)
    }

    pub fn timing(&self) -> TimingSpec {
        let mut spec = if self.more.is_empty() {
            self.rule.spec()
        } else {
            let all = std::iter::once(&self.rule).chain(self.more.iter().take(3));
            let rules = all.map(|rule| TimingSpec { calendar: None, ..rule.spec() });
            TimingSpec { rules: Some(rules.collect()), ..TimingSpec::default() }
        };
        spec.timezone = Some(world::zone_name(self.zone).to_owned());
        if self.calendar.is_some() {
            spec.calendar = Some("plan".to_owned());
            spec.roll = self.roll.map(|roll| Roll::ALL[usize::from(roll) % Roll::ALL.len()]);
            spec.fit = self.fit.then_some(Fit::Hours);
        }
        let start = self.start.map(|start| world::instant_from(start, 0));
        spec.start = start.map(|start| start.to_string());
        spec.end = self.end.map(|hours| {
            let seconds = start.unwrap_or(self.at()).as_second() + i64::from(hours) * 3600 + 1;
            Timestamp::from_second(seconds).unwrap_or(Timestamp::MAX).to_string()
        });
        spec.spread = self.spread_seconds.map(|seconds| format!("{seconds}s"));
        if let Some((skip, fold)) = self.dst {
            let gap = if skip { "skip" } else { "shift" };
            let fold = ["first", "last", "both"][usize::from(fold) % 3];
            let options = serde_json::json!({ "gap": gap, "fold": fold });
            spec.dst = serde_json::from_value(options).ok();
        }
        spec
    }
}

impl RulePlan {
    fn spec(&self) -> TimingSpec {
        match self {
            RulePlan::Cron(cron) => TimingSpec::from_cron(cron.text()),
            RulePlan::Rrule(rrule) => rrule.spec(),
            RulePlan::Interval { milliseconds, anchor, nanos, from_completion } => TimingSpec {
                interval: Some(format!("{}ms", u64::from(*milliseconds) + 1)),
                anchor: Some(world::instant_from(*anchor, *nanos).to_string()),
                from: from_completion.then_some(IntervalFrom::Completion),
                ..TimingSpec::default()
            },
            RulePlan::Once { at, nanos } => TimingSpec {
                at: Some(world::instant_from(*at, *nanos).to_string()),
                ..TimingSpec::default()
            },
            RulePlan::WorkingDay { nth, minute, period } => {
                let minute = minute % 1440;
                let at = format!("{:02}:{:02}", minute / 60, minute % 60);
                let period = ["monthly", "quarterly", "yearly"][usize::from(*period) % 3];
                let pattern = serde_json::json!({ "working_day": nth, "at": at });
                let spec = serde_json::json!({ period: pattern });
                serde_json::from_value(spec).unwrap_or_default()
            }
        }
    }
}

impl CronPlan {
    fn text(&self) -> String {
        let mut fields: Vec<String> = Vec::new();
        fields.extend(self.second.as_ref().map(|second| second.text(0, 59)));
        fields.push(self.minute.text(0, 59));
        fields.push(self.hour.text(0, 23));
        fields.push(self.day.text());
        fields.push(self.month.text(1, 12));
        fields.push(self.weekday.text());
        if let Some((first, length)) = self.year {
            if self.second.is_none() {
                fields.insert(0, "0".to_owned());
            }
            let first = 1970 + u32::from(first);
            fields.push(format!("{first}-{}", first + u32::from(length) % 30));
        }
        fields.join(" ")
    }
}

impl Field {
    fn text(&self, low: u8, high: u8) -> String {
        let one = |value: u8| low + value % (high - low + 1);
        let ordered = |a: u8, b: u8| (one(a).min(one(b)), one(a).max(one(b)));
        match *self {
            Field::Every => "*".to_owned(),
            Field::Step(step) => format!("*/{}", 1 + step % high),
            Field::One(value) => one(value).to_string(),
            Field::List(a, b, c) => format!("{},{},{}", one(a), one(b), one(c)),
            Field::Range(a, b) => {
                let (from, to) = ordered(a, b);
                format!("{from}-{to}")
            }
            Field::RangeStep(a, b, step) => {
                let (from, to) = ordered(a, b);
                format!("{from}-{to}/{}", 1 + step % high)
            }
        }
    }
}

impl DayField {
    fn text(&self) -> String {
        match self {
            DayField::Plain(field) => field.text(1, 31),
            DayField::Last(0) => "L".to_owned(),
            DayField::Last(back) => format!("L-{}", 1 + back % 30),
            DayField::LastWeekday => "LW".to_owned(),
            DayField::NearestWeekday(day) => format!("{}W", 1 + day % 31),
        }
    }
}

impl WeekdayField {
    fn text(&self) -> String {
        match self {
            WeekdayField::Plain(field) => field.text(0, 7),
            WeekdayField::And(day) => format!("+{}", day % 7),
            WeekdayField::Nth(day, nth) => format!("{}#{}", day % 7, 1 + nth % 5),
            WeekdayField::Last(day) => format!("{}L", day % 7),
        }
    }
}

impl RrulePlan {
    fn spec(&self) -> TimingSpec {
        let walls = |dates: &[u32]| {
            let texts = dates.iter().take(20).map(|date| wall(*date)).collect();
            (!dates.is_empty()).then_some(OneOrMany::Many(texts))
        };
        TimingSpec {
            rrule: Some(self.text()),
            dtstart: Some(wall(self.dtstart)),
            exdate: walls(&self.exdates),
            rdate: walls(&self.rdates),
            ..TimingSpec::default()
        }
    }

    fn text(&self) -> String {
        let frequency = usize::from(self.frequency) % FREQUENCIES.len();
        let mut parts = vec![format!("FREQ={}", FREQUENCIES[frequency])];
        parts.extend(self.interval.map(|n| format!("INTERVAL={}", n.max(1))));
        match (self.count, self.until) {
            (Some(count), _) => parts.push(format!("COUNT={}", count.max(1))),
            (None, Some(until)) => {
                let until = world::instant_from(until, 0);
                parts.push(format!("UNTIL={}", until.strftime("%Y%m%dT%H%M%SZ")));
            }
            (None, None) => {}
        }
        parts.extend(self.week_start.map(|day| format!("WKST={}", WEEKDAYS[usize::from(day) % 7])));
        let signed = |value: i64, limit: i64| match value % limit {
            0 => limit,
            value => value,
        };
        let mut list = |name: &str, values: Vec<String>| {
            if !values.is_empty() {
                parts.push(format!("{name}={}", values[..values.len().min(6)].join(",")));
            }
        };
        let texts = |values: &[u8], low: u8, high: u8| -> Vec<String> {
            values.iter().map(|v| (low + v % (high - low + 1)).to_string()).collect()
        };
        let yearly = FREQUENCIES[frequency] == "YEARLY";
        list("BYMONTH", texts(&self.months, 1, 12));
        if yearly {
            let weeks = self.week_numbers.iter().map(|n| signed((*n).into(), 53).to_string());
            list("BYWEEKNO", weeks.collect());
        }
        if !matches!(FREQUENCIES[frequency], "DAILY" | "WEEKLY" | "MONTHLY") {
            let days = self.year_days.iter().map(|n| signed((*n).into(), 366).to_string());
            list("BYYEARDAY", days.collect());
        }
        if FREQUENCIES[frequency] != "WEEKLY" {
            let days = self.month_days.iter().map(|n| signed((*n).into(), 31).to_string());
            list("BYMONTHDAY", days.collect());
        }
        let numbered = FREQUENCIES[frequency] == "MONTHLY"
            || (yearly && self.week_numbers.is_empty() && self.months.is_empty());
        let weekdays = self.weekdays.iter().map(|(nth, day)| {
            let day = WEEKDAYS[usize::from(*day) % 7];
            let nth = if numbered { nth % 6 } else { 0 };
            if nth == 0 { day.to_owned() } else { format!("{nth}{day}") }
        });
        list("BYDAY", weekdays.collect());
        list("BYHOUR", texts(&self.hours, 0, 23));
        list("BYMINUTE", texts(&self.minutes, 0, 59));
        list("BYSECOND", texts(&self.seconds, 0, 59));
        if parts.iter().any(|part| part.starts_with("BY")) {
            let positions = self.positions.iter().map(|n| signed((*n).into(), 366).to_string());
            let positions: Vec<String> = positions.take(6).collect();
            if !positions.is_empty() {
                parts.push(format!("BYSETPOS={}", positions.join(",")));
            }
        }
        parts.join(";")
    }
}

fn wall(choice: u32) -> String {
    world::instant_from(choice, 0).strftime("%Y-%m-%dT%H:%M:%S").to_string()
}

impl CalendarPlan {
    fn spec(&self) -> CalendarSpec {
        let id = "plan".to_owned();
        let region = |choice: &u8| world::region_code(*choice).to_owned();
        match self {
            CalendarPlan::Region(choice) => {
                let holidays = serde_json::json!([{ "country": region(choice) }]);
                let holidays = serde_json::from_value(holidays).unwrap_or_default();
                CalendarSpec { id, holidays, ..CalendarSpec::default() }
            }
            CalendarPlan::Own { week, shifts, regions, holidays, exceptions, zone } => {
                let days: Vec<&str> = (0..7_usize)
                    .filter(|day| week >> day & 1 == 1)
                    .map(|day| ["sun", "mon", "tue", "wed", "thu", "fri", "sat"][day])
                    .collect();
                let hours: Vec<String> = shifts
                    .iter()
                    .take(3)
                    .map(|(from, to)| format!("{}-{}", quarter(*from), quarter(*to)))
                    .collect();
                let hours = match (days.is_empty(), hours.is_empty()) {
                    (true, _) => serde_json::json!({}),
                    (false, true) => serde_json::json!({ days.join(","): ["09:00-17:00"] }),
                    (false, false) => serde_json::json!({ days.join(","): hours }),
                };
                let regions = regions
                    .iter()
                    .take(2)
                    .map(|choice| serde_json::json!({ "country": region(choice) }));
                let spans = holidays.iter().map(
                    |(day, length)| serde_json::json!({ "from": date(*day, 0), "to": date(*day, *length) }),
                );
                let holidays: Vec<serde_json::Value> = regions.chain(spans).collect();
                let exceptions: Vec<serde_json::Value> = exceptions
                    .iter()
                    .map(|(day, working)| serde_json::json!({ "date": date(*day, 0), "working": working }))
                    .collect();
                let timezone = zone.map(world::zone_name);
                let spec = serde_json::json!({
                    "id": id, "hours": hours, "holidays": holidays, "exceptions": exceptions,
                    "timezone": timezone,
                });
                serde_json::from_value(spec).expect("the declaration has the right shape")
            }
            CalendarPlan::Union(a, b) => {
                CalendarSpec { id, union: vec![region(a), region(b)], ..CalendarSpec::default() }
            }
            CalendarPlan::Intersection(a, b) => CalendarSpec {
                id,
                intersection: vec![region(a), region(b)],
                ..CalendarSpec::default()
            },
            CalendarPlan::AllBut(a, b) => CalendarSpec {
                id,
                base: Some(region(a)),
                all_but: vec![region(b)],
                ..CalendarSpec::default()
            },
        }
    }
}

fn quarter(choice: u8) -> String {
    let minutes = u32::from(choice % 97) * 15;
    format!("{:02}:{:02}", minutes / 60, minutes % 60)
}

/// A date in the years 1990 to 2079.
fn date(day: u16, later: u8) -> String {
    let days = 7305 + i64::from(day) / 2 + i64::from(later);
    let at = Timestamp::from_second(days * 86_400).unwrap_or(Timestamp::UNIX_EPOCH);
    at.strftime("%Y-%m-%d").to_string()
}
