//! Checks that the file is intact and has the expected tables and indexes.

use std::collections::BTreeMap;
use std::path::Path;

use rusqlite::{Connection, OpenFlags};

use crate::failure::Failure;
use crate::invariants::unchecked;
use crate::rows::Row as _;
use crate::sqlite::maintenance::check::mend;
use crate::view::Finding;

/// Messages of SQLite about an index whose entries do not match its table. `REINDEX` mends that.
const OF_INDEXES: [&str; 3] =
    ["missing from index", "wrong # of entries in index", "non-unique entry in index"];

/// The findings of SQLite's own integrity check.
pub(crate) fn integrity(connection: &Connection, repair: bool) -> Vec<Finding> {
    let lines = match integrity_lines(connection) {
        Ok(lines) => lines,
        Err(failure) => return vec![unchecked("the file", &failure)],
    };
    let of_indexes = |line: &String| OF_INDEXES.iter().any(|part| line.contains(part));
    let mut repaired = false;
    let mut also = None;
    if repair && lines.iter().any(of_indexes) {
        match mend(connection, ["REINDEX"].into_iter()) {
            Ok(()) => repaired = integrity_lines(connection).is_ok_and(|left| left.is_empty()),
            Err(failure) => also = Some(format!("indexes cannot be made anew: {failure}")),
        }
    }
    let damaged = lines.iter().any(|line| !of_indexes(line)).then(|| {
        "the file is damaged: restore the latest copy that `punctual backup` made".to_owned()
    });
    let can_be_repaired = lines.iter().all(of_indexes);
    let finding = |message| Finding { repaired, can_be_repaired, ..Finding::new("file", message) };
    damaged.into_iter().chain(lines).chain(also).map(finding).collect()
}

fn integrity_lines(connection: &Connection) -> Result<Vec<String>, Failure> {
    let mut statement = connection.prepare("PRAGMA integrity_check(20)")?;
    let lines = statement.query_and_then([], |row| row.single::<String>())?;
    let lines = lines.collect::<Result<Vec<_>, Failure>>()?;
    Ok(lines.into_iter().filter(|line| line != "ok").collect())
}

/// What SQLite reports about a file that cannot be opened as a store.
pub fn check_damaged_file(path: &Path) -> Vec<Finding> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    match Connection::open_with_flags(path, flags) {
        Ok(connection) => integrity(&connection, false),
        Err(error) => vec![unchecked("the file", &error.into())],
    }
}

/// Tables, indexes and triggers by name: the type of each, and the statement that creates it.
type SchemaObjects = BTreeMap<String, (String, String)>;

/// Compares the schema with that of a new store. Repairing creates missing indexes.
pub(crate) fn schema(connection: &Connection, repair: bool) -> Vec<Finding> {
    let (expected, found) =
        match expected().and_then(|made| Ok((made, self::schema_objects(connection)?))) {
            Ok(both) => both,
            Err(failure) => return vec![unchecked("the schema", &failure)],
        };
    let mut findings = Vec::new();
    for (name, (kind, sql)) in &expected {
        let (message, repaired) = match found.get(name) {
            Some((_, is)) if same(is, sql) => continue,
            None if kind == "index" => missing_index(connection, name, sql, repair),
            None => (format!("{kind} {name} is missing: restore a copy that has it"), false),
            Some(_) if kind == "index" => other_index(connection, name, sql, repair),
            Some(_) => {
                (format!("{kind} {name} has other columns than it should: restore a copy"), false)
            }
        };
        let can_be_repaired = kind == "index";
        findings.push(Finding { repaired, can_be_repaired, ..Finding::new("schema", message) });
    }
    let strange = found.iter().filter(|(name, (kind, _))| {
        kind == "trigger" || (kind == "table" && !expected.contains_key(*name))
    });
    findings.extend(strange.map(|(name, (kind, _))| {
        let message =
            format!("{kind} {name} is not of this program: DROP {} {name}", kind.to_uppercase());
        Finding::new("schema", message)
    }));
    findings
}

fn missing_index(connection: &Connection, name: &str, sql: &str, repair: bool) -> (String, bool) {
    let message = format!("index {name} is missing");
    match repair.then(|| mend(connection, [sql].into_iter())) {
        None => (message, false),
        Some(Ok(())) => (message, true),
        Some(Err(failure)) => (format!("{message}, and cannot be made: {failure}"), false),
    }
}

fn other_index(connection: &Connection, name: &str, sql: &str, repair: bool) -> (String, bool) {
    let message = format!("index {name} is of other columns than it should be");
    let drop = format!("DROP INDEX {name}");
    match repair.then(|| mend(connection, [drop.as_str(), sql].into_iter())) {
        None => (message, false),
        Some(Ok(())) => (message, true),
        Some(Err(failure)) => (format!("{message}, and cannot be made anew: {failure}"), false),
    }
}

fn expected() -> Result<SchemaObjects, Failure> {
    let mut new = Connection::open_in_memory()?;
    crate::migrations::migrate(&mut new)?;
    schema_objects(&new)
}

fn schema_objects(connection: &Connection) -> Result<SchemaObjects, Failure> {
    let sql = "SELECT name, type, sql FROM sqlite_schema
               WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'";
    let mut statement = connection.prepare(sql)?;
    let read = |row: &rusqlite::Row<'_>| {
        let (name, kind, sql) = row.tuple()?;
        Ok((name, (kind, sql)))
    };
    statement.query_and_then([], read)?.collect()
}

/// Whether two statements are the same apart from whitespace.
fn same(one: &str, other: &str) -> bool {
    one.split_whitespace().eq(other.split_whitespace())
}
