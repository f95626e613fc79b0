//! Times and durations for people.

use calendar::Zone;
use drawing::Wall;
use jiff::civil::DateTime;
use jiff::tz::Offset;
use jiff::{SignedDuration, Timestamp};
use maud::{Markup, html};

use super::page_context::PageContext;

/// An instant in the user's zone: only the time if it is today.
pub(super) fn at(context: &PageContext, instant: Timestamp) -> Markup {
    in_zone(context, &context.zone, instant)
}

/// An instant in the zone that a schedule or calendar declares.
pub(super) fn in_zone(context: &PageContext, zone: &Zone, instant: Timestamp) -> Markup {
    let text = text(zone, instant, context.now);
    html! { time.nowrap datetime=(instant) title=(full(zone, instant)) { (text) } }
}

/// The distance to an instant: `in 5 min`, `3 s ago`. The script updates it.
pub(super) fn age(context: &PageContext, instant: Timestamp) -> Markup {
    let seconds = instant.as_second() - context.now.as_second();
    html! {
        time.nowrap data-age datetime=(instant) title=(full(&context.zone, instant)) {
            (distance(seconds))
        }
    }
}

/// An instant and the distance to it.
pub(super) fn at_and_age(context: &PageContext, instant: Timestamp) -> Markup {
    html! { (at(context, instant)) " " span.muted.small { "(" (age(context, instant)) ")" } }
}

/// An instant and the distance to it, or a dash.
pub(super) fn or_dash(context: &PageContext, instant: Option<Timestamp>) -> Markup {
    match instant {
        Some(instant) => at_and_age(context, instant),
        None => html! { span.muted { "–" } },
    }
}

/// An instant as short text: only the time if it is on the same day as `now`.
pub(super) fn text(zone: &Zone, instant: Timestamp, now: Timestamp) -> String {
    let (wall, today) = (zone.wall(instant), zone.wall(now));
    let time = wall.strftime("%H:%M:%S");
    match wall {
        _ if wall.date() == today.date() => time.to_string(),
        _ if wall.year() == today.year() => format!("{} {time}", wall.strftime("%a %-d %b")),
        _ => format!("{} {time}", wall.strftime("%a %-d %b %Y")),
    }
}

/// An instant in full: day, year, offset, zone.
pub(super) fn full(zone: &Zone, instant: Timestamp) -> String {
    let wall: DateTime = zone.wall(instant);
    format!("{} {}", wall.strftime("%A %-d %B %Y %H:%M:%S"), offset(zone, instant))
}

fn offset(zone: &Zone, instant: Timestamp) -> String {
    let seconds = zone.offset_at(instant);
    let (sign, minutes) = (if seconds < 0 { '−' } else { '+' }, seconds.unsigned_abs() / 60);
    format!("{} (UTC{sign}{:02}:{:02})", zone.name(), minutes / 60, minutes % 60)
}

/// Renders a drawing whose instants are shown in this zone.
pub(super) fn drawn(zone: &Zone, draw: impl FnOnce(Wall<'_>) -> Markup) -> Markup {
    let offset = |at| Offset::from_seconds(zone.offset_at(at)).unwrap_or(Offset::UTC);
    let words = |at| full(zone, at);
    draw(Wall { offset: &offset, words: &words })
}

/// A duration, in two units at most.
pub(super) fn took(duration: SignedDuration) -> String {
    let milliseconds = duration.as_millis().max(0);
    match milliseconds {
        0..1_000 => format!("{milliseconds} ms"),
        1_000..10_000 => format!("{:.1} s", milliseconds as f64 / 1_000.0),
        _ => two_units(milliseconds / 1_000),
    }
}

/// The duration of something that may not have ended.
pub(super) fn took_until(
    context: &PageContext,
    started: Option<Timestamp>,
    ended: Option<Timestamp>,
) -> Markup {
    match (started, ended) {
        (Some(started), Some(ended)) => html! { (took(ended.duration_since(started))) },
        (Some(started), None) => {
            html! { (took(context.now.duration_since(started))) span.muted { " so far" } }
        }
        (None, _) => html! { span.muted { "–" } },
    }
}

fn distance(seconds: i64) -> String {
    match seconds {
        0 => "now".to_owned(),
        1.. => format!("in {}", two_units(seconds.into())),
        _ => format!("{} ago", two_units((-seconds).into())),
    }
}

fn two_units(seconds: i128) -> String {
    const UNITS: [(i128, &str); 4] = [(86_400, "d"), (3_600, "h"), (60, "min"), (1, "s")];
    let Some(at) = UNITS.iter().position(|(size, _)| seconds >= *size) else {
        return "0 s".to_owned();
    };
    let (size, unit) = UNITS[at];
    let finer = UNITS.get(at + 1).map(|(finer, unit)| (seconds % size / finer, unit));
    match finer {
        Some((rest, finer)) if rest > 0 => format!("{} {unit} {rest} {finer}", seconds / size),
        _ => format!("{} {unit}", seconds / size),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use calendar::Zones;

    #[test]
    fn durations_have_two_units_at_most() {
        for (milliseconds, expected) in [
            (-5, "0 ms"),
            (0, "0 ms"),
            (999, "999 ms"),
            (1_250, "1.2 s"),
            (59_999, "59 s"),
            (60_000, "1 min"),
            (3_725_000, "1 h 2 min"),
            (90_000_000, "1 d 1 h"),
        ] {
            assert_eq!(took(SignedDuration::from_millis(milliseconds)), expected);
        }
        assert_eq!(distance(0), "now");
        assert_eq!(distance(61), "in 1 min 1 s");
        assert_eq!(distance(-7_200), "2 h ago");
    }

    #[test]
    fn an_instant_says_its_day_only_if_it_is_another_one() {
        let zone = Zones::bundled().get("Europe/Berlin").unwrap();
        let now: Timestamp = "2026-11-16T10:00:00Z".parse().unwrap();
        for (instant, expected) in [
            ("2026-11-16T08:00:05Z", "09:00:05"),
            ("2026-11-16T23:30:00Z", "Tue 17 Nov 00:30:00"),
            ("2025-07-01T10:00:00Z", "Tue 1 Jul 2025 12:00:00"),
        ] {
            assert_eq!(text(&zone, instant.parse().unwrap(), now), expected);
        }
        let said = full(&zone, "2026-07-01T10:00:00Z".parse().unwrap());
        assert_eq!(said, "Wednesday 1 July 2026 12:00:00 Europe/Berlin (UTC+02:00)");
    }
}
