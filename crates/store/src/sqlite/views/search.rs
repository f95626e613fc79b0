//! Finds schedules by the beginnings of the words in their names.

use engine::ScheduleId;
use engine::schedule::Status;
use rusqlite::{Connection, OptionalExtension as _};

use crate::failure::Failure;
use crate::sqlite::rows::decode::code;
use crate::sqlite::views::schedules::schedule;
use crate::view::{self, Cursor, Page, ScheduleQuery, ScheduleView, Total};
use crate::words::words;

/// How many entries are looked at for one page. A page of rare matches among many entries is short,
/// and its cursor says where to go on.
const LOOKED_AT: usize = 2_000;
/// Matches are counted up to this many.
const COUNTED: u64 = 10_000;
/// This many entries of each word are counted to find the rarest word.
const RARE: u64 = 1_000;

/// Where a page ends: the leading word, and the last entry that was looked at.
#[derive(Clone)]
struct Place {
    lead: String,
    word: String,
    id: i64,
}

/// The rarest word leads; the others are checked against each name.
pub(crate) fn search(
    connection: &Connection,
    query: &ScheduleQuery,
    wanted: &[String],
) -> Result<Page<ScheduleView>, Failure> {
    let mut page = Page { items: Vec::new(), total: Total::Exact(0), next: None };
    let given = view::name(query.after.as_ref()).and_then(Place::read);
    let mut place = match given.filter(|place| wanted.contains(&place.lead)) {
        Some(place) => place,
        None => match rarest(connection, wanted)? {
            Some(lead) => Place { word: lead.clone(), lead, id: i64::MIN },
            None => return Ok(page),
        },
    };
    let sql = "SELECT word, schedule FROM words
               WHERE (word, schedule) > (?1, ?2) AND word < ?3 ORDER BY word, schedule LIMIT ?4";
    let mut statement = connection.prepare_cached(sql)?;
    let end = after_all(&place.lead);
    let mut entries = statement.query((&place.word, place.id, &end, LOOKED_AT))?;
    let (mut looked, mut to_skip) = (0, query.offset);
    while let Some(entry) = entries.next()? {
        if page.items.len() == query.limit {
            page.next = Some(place.write());
            break;
        }
        looked += 1;
        place = Place { word: entry.get(0)?, id: entry.get(1)?, ..place };
        if is_wanted(connection, query, wanted, &place)? {
            match to_skip {
                0 => page.items.extend(schedule(connection, ScheduleId(place.id))?),
                _ => to_skip -= 1,
            }
        }
        if looked == LOOKED_AT {
            page.next = Some(place.write());
        }
    }
    let is_whole = query.after.is_none() && page.next.is_none();
    let passed = query.offset - to_skip;
    let counted = count_found(connection, query, wanted)?;
    page.total = view::found_in_all(counted, passed, page.items.len(), is_whole);
    Ok(page)
}

/// The word that begins the fewest entries; of equal ones, the longest.
fn rarest(connection: &Connection, wanted: &[String]) -> Result<Option<String>, Failure> {
    let [first, rest @ ..] = wanted else { return Ok(None) };
    if rest.is_empty() {
        return Ok(Some(first.clone()));
    }
    let mut best: Option<((u64, std::cmp::Reverse<usize>), &String)> = None;
    for word in wanted {
        let rank = (count_entries(connection, word, RARE)?, std::cmp::Reverse(word.len()));
        if best.is_none_or(|(known, _)| rank < known) {
            best = Some((rank, word));
        }
    }
    Ok(best.map(|(_, word)| word.clone()))
}

/// Whether the schedule matches, and this entry is the first of its words that the leading word
/// finds.
fn is_wanted(
    connection: &Connection,
    query: &ScheduleQuery,
    wanted: &[String],
    place: &Place,
) -> Result<bool, Failure> {
    // The name is read from the declaration only if status and workflow match.
    let sql = "SELECT declared ->> 'name' FROM schedules
               WHERE id = ?1 AND (?2 IS NULL OR status = ?2) AND (?3 IS NULL OR workflow = ?3)";
    let status = query.status.map(|status| code(&Status::ALL, status));
    let workflow = query.workflow.map(|workflow| workflow.0);
    let mut statement = connection.prepare_cached(sql)?;
    let found = statement.query_row((place.id, status, workflow), |row| row.get(0)).optional()?;
    let Some(name): Option<String> = found else { return Ok(false) };
    let names: Vec<String> = words(&name).collect();
    let first = names.iter().filter(|word| word.starts_with(&place.lead)).min();
    Ok(first.is_some_and(|word| *word == place.word)
        && wanted.iter().all(|word| names.iter().any(|name| name.starts_with(word.as_str()))))
}

/// Exact for one word without filters, up to a limit; otherwise what can be counted cheaply.
fn count_found(
    connection: &Connection,
    query: &ScheduleQuery,
    wanted: &[String],
) -> Result<Total, Failure> {
    let [word] = wanted else { return Ok(Total::AtLeast(0)) };
    if query.status.is_some() || query.workflow.is_some() {
        return Ok(Total::AtLeast(0));
    }
    // One name may have several words that begin with this one.
    let sql = "SELECT count(*), count(DISTINCT schedule) FROM
               (SELECT schedule FROM words WHERE word >= ?1 AND word < ?2 LIMIT ?3)";
    let mut statement = connection.prepare_cached(sql)?;
    let read = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?));
    let (entries, found): (u64, u64) =
        statement.query_row((word, after_all(word), COUNTED + 1), read)?;
    Ok(if entries <= COUNTED { Total::Exact(found) } else { Total::AtLeast(found.min(COUNTED)) })
}

fn count_entries(connection: &Connection, word: &str, limit: u64) -> Result<u64, Failure> {
    let sql = "SELECT count(*) FROM (SELECT 1 FROM words WHERE word >= ?1 AND word < ?2 LIMIT ?3)";
    let mut statement = connection.prepare_cached(sql)?;
    Ok(statement.query_row((word, after_all(word), limit), |row| row.get(0))?)
}

/// A text that sorts after everything that begins with the word.
fn after_all(word: &str) -> String {
    format!("{word}\u{10ffff}")
}

impl Place {
    /// Parses a cursor. Words contain no slash.
    fn read(text: &str) -> Option<Place> {
        let (lead, rest) = text.split_once('/')?;
        let (word, id) = rest.split_once('/')?;
        Some(Place { lead: lead.to_owned(), word: word.to_owned(), id: id.parse().ok()? })
    }

    fn write(&self) -> Cursor {
        Cursor::Name(format!("{}/{}/{}", self.lead, self.word, self.id))
    }
}
