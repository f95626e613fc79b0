//! `punctual next`: prints the next times of a rule, and what happens at each.

use std::io::Write;

use calendar::{
    DstOptions, Fate, Fit, Fold, Gap, IcsEvent, IcsTime, Roll, Timing, TimingContext, TimingSpec,
    Zone, Zones, parse_instant, write_ics,
};
use jiff::Timestamp;
use jiff::civil::DateTime;
use serde::Serialize;

use crate::args::{FoldArg, GapArg, NextArgs, RollArg};
use crate::calendars::load;
use crate::clock;
use crate::document::Document;
use crate::failure::Failure;
use crate::terminal::{BOLD, Cell, DIM, NOTE, OFF, columns};

/// If more days off than this follow each other, only the first are shown and the rest are counted.
const MOST_SKIPPED: usize = 10;
/// How many of them are shown then.
const FIRST_SKIPPED: usize = 3;

pub(crate) fn run(args: &NextArgs, zones: &Zones, out: &mut dyn Write) -> Result<(), Failure> {
    let (spec, document) = read_rule(args)?;
    // An unknown zone is reported below, together with all other mistakes.
    let named_zone = spec.timezone.as_deref().and_then(|name| zones.get(name).ok());
    let utc = Zone::utc();
    let from_file = match spec.calendar.as_deref().filter(|named| load::is_file(named)) {
        Some(named) => {
            Some(load::calendar(named, zones, Some(named_zone.as_ref().unwrap_or(&utc)))?)
        }
        None => None,
    };
    let zone = named_zone.as_ref().or(from_file.as_ref().map(calendar::Calendar::zone));
    let from = match &args.from {
        Some(text) => parse_instant(text, zone.unwrap_or(&utc), calendar::Dst::FIXED)?,
        None => clock::now(),
    };
    let find = |_: &str| from_file.clone();
    let context = TimingContext { zones, created: from, default_zone: None, find_calendar: &find };
    let timing = spec.build(&context).map_err(|mistakes| match (&document, &mistakes[..]) {
        // The text itself is the whole rule, so the message shows its position by a caret and not
        // by a path.
        (None, [only]) => Failure::from(only.problem.clone()),
        (None, _) => Failure::from(mistakes),
        (Some(document), _) => document.explain(&mistakes),
    })?;
    let timing = match &args.id {
        Some(id) => timing.for_schedule(id),
        None => timing,
    };
    let answer = Answer { args, timing: &timing, zones, from };
    if args.ics {
        return Ok(out.write_all(answer.ics().as_bytes())?);
    }
    if args.json {
        serde_json::to_writer_pretty(&mut *out, &answer.json()).map_err(std::io::Error::from)?;
        return Ok(writeln!(out)?);
    }
    answer.print(out)
}

/// Parses the rule and adds the options. Returns the document too, if the rule was one.
fn read_rule(args: &NextArgs) -> Result<(TimingSpec, Option<Document>), Failure> {
    let text = args.rule.trim_ascii();
    let is_document = text.starts_with('{') || text.contains(": ") || text.contains('\n');
    let (mut spec, document) = if is_document {
        let document = Document { name: "rule".into(), text: text.to_owned() };
        (document.parse::<TimingSpec>()?, Some(document))
    } else {
        (short_rule(text), None)
    };
    let chosen = |option: &Option<String>, own: Option<String>| option.clone().or(own);
    spec.timezone = chosen(&args.tz, spec.timezone);
    spec.calendar = chosen(&args.calendar, spec.calendar);
    spec.roll = args.roll.map(Roll::from).or(spec.roll);
    if args.fit {
        spec.fit = Some(Fit::Hours);
    }
    if args.gap.is_some() || args.fold.is_some() {
        let own = spec.dst.unwrap_or_default();
        spec.dst = Some(DstOptions {
            gap: args.gap.map(Gap::from).or(own.gap),
            fold: args.fold.map(Fold::from).or(own.fold),
        });
    }
    Ok((spec, document))
}

/// Recognizes the kind of a one-line rule by its form.
fn short_rule(text: &str) -> TimingSpec {
    let upper = text.to_ascii_uppercase();
    if upper.starts_with("RRULE:") || upper.starts_with("FREQ=") {
        return TimingSpec { rrule: Some(text.to_owned()), ..TimingSpec::default() };
    }
    if let Some(every) = text.strip_prefix("every ") {
        return TimingSpec { interval: Some(every.trim().to_owned()), ..TimingSpec::default() };
    }
    let one_word = !text.contains([' ', '\t']);
    let is_time = text.parse::<Timestamp>().is_ok() || text.parse::<DateTime>().is_ok();
    let date_like = text.len() >= 8 && text.bytes().take(4).all(|b| b.is_ascii_digit());
    if one_word && (is_time || (date_like && text.contains('-'))) {
        return TimingSpec { at: Some(text.to_owned()), ..TimingSpec::default() };
    }
    if one_word && text.starts_with(|c: char| c.is_ascii_digit()) {
        return TimingSpec { interval: Some(text.to_owned()), ..TimingSpec::default() };
    }
    TimingSpec::from_cron(text)
}

struct Answer<'a> {
    args: &'a NextArgs,
    timing: &'a Timing,
    zones: &'a Zones,
    from: Timestamp,
}

#[derive(Serialize)]
struct Json<'a> {
    rule: &'a str,
    words: String,
    timezone: &'a str,
    tzdb: &'a str,
    calendar: Option<&'a str>,
    from: String,
    occurrences: Vec<JsonRow>,
    warnings: Vec<JsonWarning>,
}

#[derive(Serialize)]
struct JsonRow {
    nominal: String,
    /// Absent if the occurrence does not happen.
    #[serde(skip_serializing_if = "Option::is_none")]
    effective: Option<String>,
    outcome: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

#[derive(Serialize)]
struct JsonWarning {
    code: &'static str,
    message: String,
}

impl Answer<'_> {
    fn json(&self) -> Json<'_> {
        let zone = self.timing.zone();
        let rows = self.timing.preview(self.from, self.args.count as usize);
        let occurrences = rows.into_iter().map(|row| {
            let (effective, outcome, reason) = match row.fate {
                Fate::Kept => (Some(row.nominal), "kept", None),
                Fate::Moved { to, reason } => (Some(to), "moved", Some(reason)),
                Fate::Skipped { reason } => (None, "skipped", Some(reason)),
            };
            JsonRow {
                nominal: zone.rfc3339(row.nominal),
                effective: effective.map(|at| zone.rfc3339(self.spread(at))),
                outcome,
                reason: reason.map(|reason| reason.to_string()),
            }
        });
        let warnings = self.timing.warnings(self.from).into_iter();
        Json {
            rule: self.args.rule.trim(),
            words: self.timing.words(),
            timezone: zone.name(),
            tzdb: self.zones.version(),
            calendar: self.timing.calendar().map(calendar::Calendar::id),
            from: zone.rfc3339(self.from),
            occurrences: occurrences.collect(),
            warnings: warnings
                .map(|warning| JsonWarning { code: warning.code, message: warning.message })
                .collect(),
        }
    }

    fn ics(&self) -> String {
        let rule = self.args.rule.trim();
        let events =
            self.timing.after(self.from).take(self.args.count as usize).map(|due| IcsEvent {
                time: IcsTime::At(due.effective),
                summary: rule.to_owned(),
                uid: format!("{}-{}@punctual", due.nominal, self.timing.zone().name()),
            });
        let events: Vec<IcsEvent> = events.collect();
        write_ics(&self.timing.words(), &events, self.from)
    }

    fn print(&self, out: &mut dyn Write) -> Result<(), Failure> {
        let words = self.timing.words();
        writeln!(out, "{BOLD}{words}{BOLD:#}")?;
        writeln!(out)?;
        let rows = self.timing.preview(self.from, self.args.count as usize);
        let is_skipped = |row: &calendar::Row| matches!(row.fate, Fate::Skipped { .. });
        let mut shown: Vec<Vec<Cell>> = Vec::new();
        for some in rows.chunk_by(|one, next| is_skipped(one) && is_skipped(next)) {
            let is_long = some.len() > MOST_SKIPPED;
            let first = if is_long { &some[..FIRST_SKIPPED] } else { some };
            shown.extend(first.iter().map(|row| self.row(row)));
            if is_long {
                let more = format!("… and {} more are skipped", some.len() - FIRST_SKIPPED);
                shown.push(vec![Cell::styled(more, DIM)]);
            }
        }
        write!(out, "{}", columns(&shown))?;
        for warning in self.timing.warnings(self.from) {
            writeln!(out, "{NOTE}! {warning}{NOTE:#}")?;
        }
        writeln!(out)?;
        let (version, origin) = (self.zones.version(), self.zones.origin());
        let zone = self.timing.zone().name();
        writeln!(out, "{DIM}{zone}; zone database {version} ({origin}){DIM:#}")?;
        Ok(())
    }

    /// Moves a time by the schedule's offset inside the spread window.
    fn spread(&self, at: Timestamp) -> Timestamp {
        at.checked_add(self.timing.moved_by()).unwrap_or(at)
    }

    fn row(&self, row: &calendar::Row) -> Vec<Cell> {
        let happens = |at: Timestamp, note: String| {
            let at = self.spread(at);
            vec![
                Cell::plain(self.local(at)),
                Cell::styled(utc(at), DIM),
                Cell::plain(from_now(at, self.from)),
                Cell::styled(note, NOTE),
            ]
        };
        match &row.fate {
            Fate::Kept if self.timing.moved_by().is_zero() => happens(row.nominal, String::new()),
            Fate::Kept => happens(row.nominal, format!("spread from {}", self.short(row.nominal))),
            Fate::Moved { to, reason } => {
                happens(*to, format!("moved from {} ({reason})", self.short(row.nominal)))
            }
            Fate::Skipped { reason } => vec![
                Cell::styled(self.local(row.nominal), DIM),
                Cell::plain(""),
                Cell::plain(""),
                Cell::styled(format!("skipped ({reason})"), OFF),
            ],
        }
    }

    fn local(&self, at: Timestamp) -> String {
        let zone = self.timing.zone();
        let wall = zone.wall(at);
        let text = zone.rfc3339(at);
        let offset = if text.ends_with('Z') { "Z" } else { &text[text.len() - 6..] };
        let fraction = fraction(at);
        format!("{}{fraction} {offset}", wall.strftime("%a %Y-%m-%d %H:%M:%S"))
    }

    fn short(&self, at: Timestamp) -> String {
        self.timing.zone().wall(at).strftime("%a %Y-%m-%d %H:%M").to_string()
    }
}

fn utc(at: Timestamp) -> String {
    format!("{}{}Z", at.strftime("%Y-%m-%dT%H:%M:%S"), fraction(at))
}

/// The milliseconds of a time that has some: `.134`.
fn fraction(at: Timestamp) -> String {
    match at.subsec_millisecond() {
        0 => String::new(),
        ms => format!(".{:03}", ms.unsigned_abs()),
    }
}

/// Formats a time as `in 3 days`, in the largest unit that fits.
fn from_now(at: Timestamp, from: Timestamp) -> String {
    let seconds = at.duration_since(from).as_secs();
    let unit = |size: i64, name: &str| {
        let n = seconds / size;
        format!("in {n} {name}{}", if n == 1 { "" } else { "s" })
    };
    match seconds {
        0..=119 => unit(1, "second"),
        120..=7199 => unit(60, "minute"),
        7200..=172_799 => unit(3600, "hour"),
        172_800..=63_071_999 => unit(86_400, "day"),
        _ => unit(31_556_952, "year"),
    }
}

impl From<RollArg> for Roll {
    fn from(arg: RollArg) -> Roll {
        match arg {
            RollArg::Skip => Roll::Skip,
            RollArg::Next => Roll::Next,
            RollArg::Previous => Roll::Previous,
            RollArg::Nearest => Roll::Nearest,
            RollArg::ModifiedNext => Roll::ModifiedNext,
            RollArg::ModifiedPrevious => Roll::ModifiedPrevious,
        }
    }
}

impl From<GapArg> for Gap {
    fn from(arg: GapArg) -> Gap {
        match arg {
            GapArg::Shift => Gap::Shift,
            GapArg::Skip => Gap::Skip,
        }
    }
}

impl From<FoldArg> for Fold {
    fn from(arg: FoldArg) -> Fold {
        match arg {
            FoldArg::First => Fold::First,
            FoldArg::Last => Fold::Last,
            FoldArg::Both => Fold::Both,
        }
    }
}
