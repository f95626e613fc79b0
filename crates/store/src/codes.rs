//! Numbers in SQL, by name.
//!
//! A member of a fixed set is stored as its position in the enum's `ALL`. Statements name it:
//! `sql!("SELECT key FROM runs WHERE status = {pending}")` is the text with the number in it, made
//! at compile time; a name that is not in [`NAMES`] does not compile. Values that are bound to a
//! statement are made from the enum itself, with [`crate::stored::code`].
//!
//! SQLite uses a partial index only where a statement repeats the index's own condition, so the
//! schemas, which have the numbers themselves, must have the same ones; a test compares them.

use engine::incidents::How;
use engine::ledger::Outcome;
use engine::run::{Item, RunStatus, TriggeredBy};
use engine::schedule::Status;
use engine::topics::EventState;
use engine::turn::WorkflowStatus;
use language::definition::HandlerKind;

/// The kinds in the tables `wakeups` and `set_aside`. The variants of `engine::turn::Wakeup` carry
/// ids, so there is no list of all of them to take positions from.
pub(crate) const WAKE_RUN: i16 = 0;
pub(crate) const WAKE_SCHEDULE: i16 = 1;
pub(crate) const WAKE_NODE: i16 = 2;
pub(crate) const WAKE_HANDLER: i16 = 3;
pub(crate) const WAKEUP_KINDS: [i16; 4] = [WAKE_RUN, WAKE_SCHEDULE, WAKE_NODE, WAKE_HANDLER];

/// A part of what a name stands for.
enum Part {
    Text(&'static str),
    Number(i32),
}

use Part::{Number, Text};

/// The stored number of a variant.
macro_rules! number {
    ($set:ident::$variant:ident) => {{
        let number = $set::$variant as usize;
        assert!($set::ALL[number] as usize == number, "ALL is in another order than the enum");
        Number(number as i32)
    }};
}

/// What statements can name. Conditions stand behind their column: `status {open}`.
const NAMES: [(&str, &[Part]); 37] = [
    ("pending", &[number!(RunStatus::Pending)]),
    ("running", &[number!(RunStatus::Running)]),
    ("waiting", &[number!(RunStatus::Waiting)]),
    ("suspended", &[number!(RunStatus::Suspended)]),
    ("succeeded", &[number!(RunStatus::Succeeded)]),
    ("open", &[Text("< "), number!(RunStatus::Succeeded)]),
    ("ended", &[Text(">= "), number!(RunStatus::Succeeded)]),
    ("unsuccessful", &[Text("> "), number!(RunStatus::Succeeded)]),
    // Has begun and not ended, and so counts against the limit of its workflow.
    (
        "active",
        &[
            Text("IN ("),
            number!(RunStatus::Running),
            Text(", "),
            number!(RunStatus::Waiting),
            Text(", "),
            number!(RunStatus::Suspended),
            Text(")"),
        ],
    ),
    ("workflow_published", &[number!(WorkflowStatus::Published)]),
    ("schedule_active", &[number!(Status::Active)]),
    ("schedule_paused", &[number!(Status::Paused)]),
    ("schedule_done", &[number!(Status::Done)]),
    ("schedule_dead", &[number!(Status::Dead)]),
    ("by_schedule", &[number!(TriggeredBy::Schedule)]),
    ("event_pending", &[number!(EventState::Pending)]),
    ("event_reserved", &[number!(EventState::Reserved)]),
    ("event_consumed", &[number!(EventState::Consumed)]),
    ("event_skipped", &[number!(EventState::Skipped)]),
    ("event_not_pending", &[Text("> "), number!(EventState::Pending)]),
    ("event_in_no_state", &[Text("> "), number!(EventState::Skipped)]),
    ("event_finished", &[Text("> "), number!(EventState::Reserved)]),
    ("consumer", &[number!(HandlerKind::Consumer)]),
    ("started", &[number!(Outcome::Started)]),
    ("moved", &[number!(Outcome::Moved)]),
    ("will_run", &[Text("<= "), number!(Outcome::Queued)]),
    ("not_run", &[Text("> "), number!(Outcome::Queued)]),
    // The milliseconds that an instant can have, and a number of 32 bits. SQLite takes any text or
    // bytes for greater than every number.
    ("an_instant", &[Text("BETWEEN -377705023201000 AND 253402207200000")]),
    ("of_32_bits", &[Text("BETWEEN 0 AND 4294967295")]),
    ("incident_removed", &[number!(How::Removed)]),
    ("whole_step", &[Number(Item::Whole.number())]),
    // The first of all parts has the least number.
    ("a_part", &[Text(">= "), Number(Item::Reconciling.number())]),
    ("no_part", &[Text("< "), Number(Item::Reconciling.number())]),
    ("run_wakeup", &[Number(WAKE_RUN as i32)]),
    ("schedule_wakeup", &[Number(WAKE_SCHEDULE as i32)]),
    ("node_wakeup", &[Number(WAKE_NODE as i32)]),
    ("handler_wakeup", &[Number(WAKE_HANDLER as i32)]),
];

/// The texts one after another, as with `concat!`, in which each name in braces is replaced by what
/// it stands for.
macro_rules! sql {
    ($($text:tt)+) => {{
        const TEXT: &str = concat!($($text)+);
        const LENGTH: usize = $crate::codes::fill::<0>(TEXT).1;
        const BYTES: [u8; LENGTH] = $crate::codes::fill(TEXT).0;
        const SQL: &str = match std::str::from_utf8(&BYTES) {
            Ok(sql) => sql,
            Err(_) => panic!("a name was replaced in the middle of a character"),
        };
        SQL
    }};
}
pub(crate) use sql;

/// Names for texts that are made with `format!`.
pub(crate) const OPEN: &str = sql!("{open}");
pub(crate) const UNSUCCESSFUL: &str = sql!("{unsuccessful}");
pub(crate) const NOT_RUN: &str = sql!("{not_run}");
pub(crate) const EVENT_NOT_PENDING: &str = sql!("{event_not_pending}");
pub(crate) const EVENT_IN_NO_STATE: &str = sql!("{event_in_no_state}");

/// The text with its names replaced. Names that are not known stay.
pub(crate) fn filled(text: &str) -> String {
    NAMES.iter().fold(text.to_owned(), |text, (name, parts)| {
        let parts = parts.iter().map(|part| match part {
            Text(text) => (*text).to_owned(),
            Number(number) => number.to_string(),
        });
        text.replace(&format!("{{{name}}}"), &parts.collect::<String>())
    })
}

/// The first `N` bytes of the text with its names replaced, and how many bytes it has in all.
pub(crate) const fn fill<const N: usize>(text: &str) -> ([u8; N], usize) {
    let text = text.as_bytes();
    let (mut filled, mut length) = ([0; N], 0);
    let mut at = 0;
    while at < text.len() {
        if text[at] == b'{' {
            let name = named(text, at + 1);
            let (name, parts) = (NAMES[name].0, NAMES[name].1);
            let mut part = 0;
            while part < parts.len() {
                (filled, length) = match parts[part] {
                    Text(text) => append(filled, length, text.as_bytes()),
                    Number(number) => {
                        let sign = if number < 0 { "-" } else { "" };
                        let (filled, length) = append(filled, length, sign.as_bytes());
                        append(filled, length, &[b'0' + number.unsigned_abs() as u8])
                    }
                };
                part += 1;
            }
            at += name.len() + 2;
        } else {
            (filled, length) = append(filled, length, &[text[at]]);
            at += 1;
        }
    }
    (filled, length)
}

const fn append<const N: usize>(mut to: [u8; N], at: usize, bytes: &[u8]) -> ([u8; N], usize) {
    let mut byte = 0;
    while byte < bytes.len() {
        if at + byte < N {
            to[at + byte] = bytes[byte];
        }
        byte += 1;
    }
    (to, at + bytes.len())
}

/// The index in [`NAMES`] of the name that begins here and ends before a brace.
const fn named(text: &[u8], begin: usize) -> usize {
    let mut index = 0;
    while index < NAMES.len() {
        let name = NAMES[index].0.as_bytes();
        let mut same = 0;
        while same < name.len() && begin + same < text.len() && text[begin + same] == name[same] {
            same += 1;
        }
        if same == name.len() && begin + same < text.len() && text[begin + same] == b'}' {
            return index;
        }
        index += 1;
    }
    panic!("a statement has a name in braces that NAMES does not know")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instant_is_what_can_be_read_as_one() {
        use jiff::Timestamp;
        // No millisecond of the last second can be read, except its first.
        let (first, last) =
            (Timestamp::MIN.as_second() * 1_000, Timestamp::MAX.as_second() * 1_000);
        assert_eq!(sql!("{an_instant}"), format!("BETWEEN {first} AND {last}"));
        for at in [first, last] {
            assert!(Timestamp::from_millisecond(at).is_ok(), "{at}");
        }
        for at in [first - 1, last + 1] {
            assert!(Timestamp::from_millisecond(at).is_err(), "{at}");
        }
    }

    #[test]
    fn conditions_select_the_members_they_name() {
        let connection = rusqlite::Connection::open_in_memory().unwrap();
        let check = |sql: &str, is_meant: &[bool]| {
            let mut statement = connection.prepare(sql).unwrap();
            for (number, is_meant) in is_meant.iter().enumerate() {
                let is_selected: bool = statement.query_row([number], |row| row.get(0)).unwrap();
                assert_eq!(is_selected, *is_meant, "{number} {sql}");
            }
        };
        let runs = |is_meant: fn(RunStatus) -> bool| RunStatus::ALL.map(is_meant);
        let is_pending = |status| status == RunStatus::Pending;
        check(sql!("SELECT ?1 = {pending}"), &RunStatus::ALL.map(is_pending));
        check(sql!("SELECT ?1 {open}"), &runs(|status| !status.has_ended()));
        check(sql!("SELECT ?1 {ended}"), &runs(RunStatus::has_ended));
        let unsuccessful = runs(|one| one.has_ended() && one != RunStatus::Succeeded);
        check(sql!("SELECT ?1 {unsuccessful}"), &unsuccessful);
        let active = runs(|one| !one.has_ended() && one != RunStatus::Pending);
        check(sql!("SELECT ?1 {active}"), &active);

        let not_pending = EventState::ALL.map(|state| state != EventState::Pending);
        check(sql!("SELECT ?1 {event_not_pending}"), &not_pending);
        let finished = |state| matches!(state, EventState::Consumed | EventState::Skipped);
        check(sql!("SELECT ?1 {event_finished}"), &EventState::ALL.map(finished));

        let runs = |one| matches!(one, Outcome::Started | Outcome::Moved | Outcome::Queued);
        check(sql!("SELECT ?1 {will_run}"), &Outcome::ALL.map(runs));
        check(sql!("SELECT ?1 {not_run}"), &Outcome::ALL.map(|one| !runs(one)));

        let numbers = [-3, -2, -1, 0, 1, 2];
        let parts = numbers.map(Item::try_from);
        check(sql!("SELECT ?1 - 3 {a_part}"), &parts.map(|part| part.is_ok()));
        check(sql!("SELECT ?1 - 3 {no_part}"), &parts.map(|part| part.is_err()));
        check(sql!("SELECT ?1 - 3 = {whole_step}"), &parts.map(|part| part == Ok(Item::Whole)));
    }

    /// The names and conditions of the partial indexes of a schema that have stored numbers.
    fn indexes(schema: &'static str) -> Vec<(&'static str, &'static str)> {
        let condition = |statement: &'static str| {
            let (name, of) = statement.split_once("INDEX ")?.1.split_once(" ON ")?;
            let condition = of.split_once("WHERE ")?.1;
            let columns = ["status ", "state ", "outcome "];
            columns.iter().any(|column| condition.contains(column)).then_some((name, condition))
        };
        schema.split(';').filter_map(condition).collect()
    }

    #[test]
    fn partial_indexes_have_the_numbers_that_statements_repeat() {
        let not_run = sql!("run IS NULL AND outcome {not_run}");
        let unsuccessful = sql!("status {unsuccessful}");
        let of_handlers = sql!("status = {pending} AND handler IS NOT NULL");
        let reserved = sql!("state = {event_reserved}");
        let finished = sql!("state {event_finished}");
        assert_eq!(
            indexes(include_str!("sqlite/schema/0001.sql")),
            [
                ("ledger_unusual", not_run),
                ("runs_open", sql!("status {open}")),
                ("runs_not_well", unsuccessful),
                ("runs_not_well_by_workflow", unsuccessful),
                ("runs_pending_of_handlers", of_handlers),
                ("events_pending", sql!("state = {event_pending}")),
                ("events_reserved", reserved),
                ("events_by_state", sql!("state {event_not_pending}")),
                ("events_by_end", finished),
            ]
        );
        assert_eq!(
            indexes(include_str!("postgres/schema/0001.sql")),
            [
                ("ledger_unusual", not_run),
                ("open_runs_pending_of_handlers", of_handlers),
                ("ended_runs_not_well", unsuccessful),
                ("ended_runs_not_well_by_workflow", unsuccessful),
                ("events_reserved", reserved),
                ("events_by_end", finished),
            ]
        );
    }
}
