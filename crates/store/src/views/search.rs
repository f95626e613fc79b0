//! Finds schedules by the beginnings of the words in their names.

use engine::schedule::Status;

use crate::failure::Failure;
use crate::rows::Row as _;
use crate::stored::code;
use crate::view::{Page, ScheduleQuery, ScheduleView};
use crate::views::schedules::by_id;
use crate::views::{Reader, params};
use crate::word_search::{RARE, WordSearch, after_all};
use crate::words::words;

/// At least this many entries are read in one query.
const AT_ONCE: usize = 64;

/// The name of the schedule of entry `e`, if its status and workflow match.
const NAME: &str = "(SELECT s.declared ->> 'name' FROM schedules s WHERE s.id = e.schedule
       AND ($5 IS NULL OR s.status = $5) AND ($6 IS NULL OR s.workflow = $6))";
/// The words of that name, which PostgreSQL has an index for. Each schedule is looked up by a
/// subquery, so that the planner does not scan all of them.
const WORDS: &str = "CASE WHEN ($5::smallint IS NULL AND $6::bigint IS NULL) OR (
         SELECT ($5::smallint IS NULL OR s.status = $5) AND ($6::bigint IS NULL OR s.workflow = $6)
         FROM schedules s WHERE s.id = e.schedule)
       THEN array_to_string(ARRAY(SELECT o.word FROM words o WHERE o.schedule = e.schedule), ' ')
       END";

pub(crate) async fn search<R: Reader>(
    reader: &R,
    query: &ScheduleQuery,
    wanted: &[String],
) -> Result<Page<ScheduleView>, Failure> {
    let Some(mut search) = begin(reader, query, wanted).await? else { return Ok(Page::empty()) };
    let names: fn(&str) -> Vec<String> = R::either(
        |name| words(name).collect(),
        |words| words.split(' ').map(str::to_owned).collect(),
    );
    let sql = format!(
        "SELECT e.word, e.schedule, {}
         FROM (SELECT word, schedule FROM words WHERE (word, schedule) > ($1, $2) AND word < $3
               ORDER BY word, schedule LIMIT $4) e
         ORDER BY e.word, e.schedule",
        R::either(NAME, WORDS)
    );
    let status = query.status.map(|status| code(&Status::ALL, status));
    let end = search.end();
    let mut at_once = query.limit.saturating_add(1).clamp(AT_ONCE, search.left());
    'pages: loop {
        let params = params![&search.word, search.id, &end, at_once, status, query.workflow];
        let entries: Vec<(String, i64, Option<String>)> =
            reader.all(&sql, &params, |row| row.tuple()).await?;
        let is_last = entries.len() < at_once;
        for (word, id, name) in entries {
            if search.is_full() {
                break 'pages;
            }
            search.look(word, id, &name.as_deref().map(names).unwrap_or_default());
        }
        if is_last {
            break;
        }
        // One more than is looked at shows that there are more.
        at_once = (at_once * 4).min(search.left() + 1);
    }
    let counted = match search.countable() {
        Some((word, most)) => Some(count_entries(reader, word, most).await?),
        None => None,
    };
    let items = by_id(reader, &search.ids).await?;
    Ok(search.page(items, counted))
}

async fn begin<'a>(
    reader: &impl Reader,
    query: &'a ScheduleQuery,
    wanted: &'a [String],
) -> Result<Option<WordSearch<'a>>, Failure> {
    if let Some(search) = WordSearch::go_on(query, wanted) {
        return Ok(Some(search));
    }
    let mut counts = Vec::new();
    for word in wanted.iter().filter(|_| wanted.len() > 1) {
        counts.push(count_entries(reader, word, RARE).await?.0);
    }
    Ok(WordSearch::begin(query, wanted, &counts))
}

/// How many entries begin with this word, and how many schedules they belong to.
async fn count_entries(reader: &impl Reader, word: &str, most: u64) -> Result<(u64, u64), Failure> {
    let sql = "SELECT count(*), count(DISTINCT schedule) FROM
               (SELECT schedule FROM words WHERE word >= $1 AND word < $2
                ORDER BY word, schedule LIMIT $3) e";
    let end = after_all(word);
    let counted = reader.one(sql, &params![word, &end, most], |row| row.tuple()).await?;
    Ok(counted.unwrap_or_default())
}
