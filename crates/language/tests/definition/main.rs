//! Definitions: what is read, what is refused, and how flaws are printed.

mod accepted;
mod cost;
mod handler_flaws;
mod handlers;
mod hostile;
mod injection;
mod known_fields;
mod pasted;
mod printed;
mod processes;
mod refused;
mod schema;
mod scripts;

use calendar::{Calendar, Zones};
use language::definition::{Definition, Flaw, ReadContext, read, text_of};

/// Runs `f` with the bundled zones, at the beginning of 2026, and with the calendar `head-office`.
fn with_context<T>(f: impl FnOnce(&ReadContext<'_>) -> T) -> T {
    let zones = Zones::bundled();
    let region = calendar::holidays::Region::parse("DE-BY").expect("a region");
    let office = Calendar::for_region(&region, zones.get("Europe/Berlin").expect("a zone"));
    let known_calendar = |id: &str| (id == "head-office").then(|| office.clone());
    let now = "2026-01-01T00:00:00Z".parse().expect("an instant");
    f(&ReadContext { zones: &zones, now, known_calendar: &known_calendar })
}

/// Reads a text that must be valid.
fn accept(text: &str) -> Definition {
    with_context(|context| read(text, context)).unwrap_or_else(|flaws| {
        let printed: Vec<String> = flaws.iter().map(place).collect();
        panic!("{text}\n{}", printed.join("\n"))
    })
}

/// The flaws of a text that must be invalid.
fn refuse(text: &str) -> Vec<Flaw> {
    let read = with_context(|context| read(text, context));
    read.err().unwrap_or_else(|| panic!("accepted: {text}"))
}

/// Reads a definition from a file's bytes.
fn read_bytes(bytes: &[u8], context: &ReadContext<'_>) -> Result<Definition, Vec<Flaw>> {
    read(text_of(bytes)?, context)
}

/// The flaws of bytes that must be invalid.
fn refuse_bytes(bytes: &[u8]) -> Vec<Flaw> {
    with_context(|context| read_bytes(bytes, context)).expect_err("accepted")
}

/// A flaw with its position, such as `4:10 steps[0].id: …`, as a caller prints it.
fn place(flaw: &Flaw) -> String {
    format!("{}:{} {}: {flaw}", flaw.line, flaw.column, flaw.path)
}
