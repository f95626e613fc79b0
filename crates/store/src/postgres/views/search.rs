//! Finds schedules by the beginnings of the words in their names.

use deadpool_postgres::Client;
use engine::ScheduleId;
use engine::schedule::Status;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use crate::failure::Failure;
use crate::postgres::connections::query::{ask, many};
use crate::postgres::rows::decode;
use crate::postgres::rows::decode::{get, narrow};
use crate::postgres::views::schedules::by_id;
use crate::view::{self, Cursor, Page, ScheduleQuery, ScheduleView, Total};

/// How many entries are looked at for one page. A page of rare matches among many entries is short,
/// and its cursor says where to go on.
const LOOKED_AT: usize = 2_000;
/// At least this many entries are read in one query.
const AT_ONCE: usize = 64;
/// Matches are counted up to this many.
const COUNTED: i64 = 10_000;
/// This many entries of each word are counted to find the rarest word.
const RARE: i64 = 1_000;

/// Where a page ends: the leading word, and the last entry that was looked at.
#[derive(Clone)]
struct Place {
    lead: String,
    word: String,
    id: i64,
}

/// Entries after a position, with all words of the name if status and workflow match. Each schedule
/// is looked up by a subquery, so that the planner does not scan all of them.
const ENTRIES: &str = "SELECT e.word, e.schedule,
       CASE WHEN ($5::smallint IS NULL AND $6::bigint IS NULL) OR (
         SELECT ($5::smallint IS NULL OR s.status = $5) AND ($6::bigint IS NULL OR s.workflow = $6)
         FROM schedules s WHERE s.id = e.schedule)
       THEN ARRAY(SELECT o.word FROM words o WHERE o.schedule = e.schedule) END
     FROM (SELECT word, schedule FROM words WHERE (word, schedule) > ($1, $2) AND word < $3
           ORDER BY word, schedule LIMIT $4) e
     ORDER BY e.word, e.schedule";

/// The rarest word leads; the others are checked against each name.
pub(crate) async fn search(
    client: &Client,
    query: &ScheduleQuery,
    wanted: &[String],
) -> Result<Page<ScheduleView>, Failure> {
    let given = view::name(query.after.as_ref()).and_then(Place::read);
    let place = match given.filter(|place| wanted.contains(&place.lead)) {
        Some(place) => place,
        None => match rarest(client, wanted).await? {
            Some(lead) => Place { word: lead.clone(), lead, id: i64::MIN },
            None => return Ok(Page { items: Vec::new(), total: Total::Exact(0), next: None }),
        },
    };
    let (ids, passed, next) = found_from(client, query, wanted, place).await?;
    let is_whole = query.after.is_none() && next.is_none();
    let counted = count_found(client, query, wanted).await?;
    let total = view::found_in_all(counted, passed, ids.len(), is_whole);
    Ok(Page { items: by_id(client, ids).await?, total, next })
}

/// The matches after a position, how many matches were skipped before them, and where to go on.
async fn found_from(
    client: &Client,
    query: &ScheduleQuery,
    wanted: &[String],
    mut place: Place,
) -> Result<(Vec<ScheduleId>, u64, Option<Cursor>), Failure> {
    let status = query.status.map(|status| narrow(&Status::ALL, status));
    let workflow = query.workflow.map(|workflow| workflow.0);
    let end = after_all(&place.lead);
    let (mut ids, mut looked, mut to_skip) = (Vec::new(), 0, query.offset);
    let mut at_once = query.limit.saturating_add(1).clamp(AT_ONCE, LOOKED_AT);
    loop {
        let limit = many(at_once);
        let params: [&(dyn ToSql + Sync); 6] =
            [&place.word, &place.id, &end, &limit, &status, &workflow];
        let entries = ask(client, ENTRIES, &params).await?;
        for entry in &entries {
            if ids.len() == query.limit {
                return Ok((ids, query.offset - to_skip, Some(place.write())));
            }
            looked += 1;
            place = Place { word: get(entry, 0)?, id: get(entry, 1)?, ..place };
            if is_wanted(entry, wanted, &place)? {
                match to_skip {
                    0 => ids.push(ScheduleId(place.id)),
                    _ => to_skip -= 1,
                }
            }
        }
        if entries.len() < at_once {
            return Ok((ids, query.offset - to_skip, None));
        }
        if looked >= LOOKED_AT {
            return Ok((ids, query.offset - to_skip, Some(place.write())));
        }
        at_once = (at_once * 4).min(LOOKED_AT - looked);
    }
}

/// The word that begins the fewest entries; of equal ones, the longest.
async fn rarest(client: &Client, wanted: &[String]) -> Result<Option<String>, Failure> {
    let [first, rest @ ..] = wanted else { return Ok(None) };
    if rest.is_empty() {
        return Ok(Some(first.clone()));
    }
    let mut best: Option<((u64, std::cmp::Reverse<usize>), &String)> = None;
    for word in wanted {
        let rank = (count_entries(client, word, RARE).await?.0, std::cmp::Reverse(word.len()));
        if best.is_none_or(|(known, _)| rank < known) {
            best = Some((rank, word));
        }
    }
    Ok(best.map(|(_, word)| word.clone()))
}

/// Whether the schedule matches, and this entry is the first of its words that the leading word
/// finds.
fn is_wanted(entry: &Row, wanted: &[String], place: &Place) -> Result<bool, Failure> {
    let Some(names) = get::<Option<Vec<&str>>>(entry, 2)? else { return Ok(false) };
    let first = names.iter().filter(|word| word.starts_with(&place.lead)).min();
    Ok(first.is_some_and(|word| *word == place.word)
        && wanted.iter().all(|word| names.iter().any(|name| name.starts_with(word.as_str()))))
}

/// Exact for one word without filters, up to a limit; otherwise what can be counted cheaply.
async fn count_found(
    client: &Client,
    query: &ScheduleQuery,
    wanted: &[String],
) -> Result<Total, Failure> {
    let [word] = wanted else { return Ok(Total::AtLeast(0)) };
    if query.status.is_some() || query.workflow.is_some() {
        return Ok(Total::AtLeast(0));
    }
    let (entries, found) = count_entries(client, word, COUNTED + 1).await?;
    let counted = COUNTED.unsigned_abs();
    Ok(if entries <= counted { Total::Exact(found) } else { Total::AtLeast(found.min(counted)) })
}

/// How many entries begin with this word, and how many schedules they belong to: one name may have
/// several.
async fn count_entries(client: &Client, word: &str, limit: i64) -> Result<(u64, u64), Failure> {
    let sql = "SELECT count(*), count(DISTINCT schedule) FROM
               (SELECT schedule FROM words WHERE word >= $1 AND word < $2
                ORDER BY word, schedule LIMIT $3) e";
    let found = ask(client, sql, &[&word, &after_all(word), &limit]).await?;
    let Some(row) = found.first() else { return Ok((0, 0)) };
    Ok((decode::natural(row, 0)?, decode::natural(row, 1)?))
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
        let is_word = |word: &str| !word.contains('\0');
        let id = id.parse().ok()?;
        (is_word(lead) && is_word(word)).then(|| Place {
            lead: lead.to_owned(),
            word: word.to_owned(),
            id,
        })
    }

    fn write(&self) -> Cursor {
        Cursor::Name(format!("{}/{}/{}", self.lead, self.word, self.id))
    }
}
