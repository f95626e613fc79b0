//! A search for schedules by the beginnings of the words in their names, in both stores alike: the
//! rarest word leads through the index of words, and the others are checked against each name.

use std::cmp::Reverse;

use engine::ScheduleId;

use crate::view::{self, Cursor, Page, ScheduleQuery, ScheduleView, Total};

/// How many entries of the index are looked at for one page, beside those that its offset passes
/// over. A page of rare matches among many entries is short, and its cursor says where to go on.
const LOOKED_AT: usize = 2_000;
/// Matches are counted up to this many.
const COUNTED: u64 = 10_000;
/// This many entries of each word are counted to find the rarest word.
pub(crate) const RARE: u64 = 1_000;

/// A search for one page, and how far it has come.
pub(crate) struct WordSearch<'a> {
    query: &'a ScheduleQuery,
    wanted: &'a [String],
    lead: String,
    /// The last entry that was looked at.
    pub(crate) word: String,
    pub(crate) id: i64,
    entries_seen: usize,
    /// How many matches earlier pages have shown.
    shown_before: u64,
    to_skip: u64,
    pub(crate) ids: Vec<ScheduleId>,
    next: Option<Cursor>,
}

impl<'a> WordSearch<'a> {
    /// Goes on where the cursor of an earlier page says, if there is one.
    pub(crate) fn go_on(query: &'a ScheduleQuery, wanted: &'a [String]) -> Option<WordSearch<'a>> {
        // Words contain no slash, and no store has a word with NUL.
        let cursor = view::name(query.after.as_ref()).filter(|cursor| !cursor.contains('\0'))?;
        let (lead, rest) = cursor.split_once('/')?;
        let (word, rest) = rest.split_once('/')?;
        let (id, shown_before) = rest.split_once('/')?;
        let (id, shown_before) = (id.parse().ok()?, shown_before.parse().ok()?);
        let is_wanted = wanted.iter().any(|wanted| wanted == lead);
        is_wanted.then(|| WordSearch {
            word: word.to_owned(),
            id,
            shown_before,
            ..Self::new(query, wanted, lead)
        })
    }

    /// Begins with the rarest word; of equal ones, the longest. `counts` says how many entries each
    /// word has; it may be empty if there is one word.
    pub(crate) fn begin(
        query: &'a ScheduleQuery,
        wanted: &'a [String],
        counts: &[u64],
    ) -> Option<WordSearch<'a>> {
        let counted = wanted.iter().zip(counts);
        let rarest = counted.min_by_key(|(word, count)| (**count, Reverse(word.len())));
        let lead = rarest.map(|(word, _)| word).or(wanted.first())?;
        Some(WordSearch::new(query, wanted, lead))
    }

    fn new(query: &'a ScheduleQuery, wanted: &'a [String], lead: &str) -> WordSearch<'a> {
        WordSearch {
            query,
            wanted,
            lead: lead.to_owned(),
            word: lead.to_owned(),
            id: i64::MIN,
            entries_seen: 0,
            shown_before: 0,
            to_skip: query.offset,
            ids: Vec::new(),
            next: None,
        }
    }

    /// The word after all those that the leading word finds.
    pub(crate) fn end(&self) -> String {
        after_all(&self.lead)
    }

    /// How many entries are still to be looked at, at most.
    pub(crate) fn left(&self) -> usize {
        let passed = self.query.offset.min(COUNTED) as usize;
        (LOOKED_AT + passed).saturating_sub(self.entries_seen)
    }

    /// Whether the page ends before the next entry. Called only if there is one.
    pub(crate) fn is_full(&mut self) -> bool {
        let is_full = self.ids.len() == self.query.limit || self.left() == 0;
        if is_full {
            let shown = self.passed().saturating_add(self.ids.len() as u64);
            let cursor = format!("{}/{}/{}/{shown}", self.lead, self.word, self.id);
            self.next = Some(Cursor::Name(cursor));
        }
        is_full
    }

    /// How many matches come before the page.
    fn passed(&self) -> u64 {
        self.shown_before.saturating_add(self.query.offset - self.to_skip)
    }

    /// Looks at an entry. `names` are all words of the schedule's name; none if the schedule is not
    /// of the status or workflow that the query asks for. A schedule is found at the first of its
    /// words that the leading word finds.
    pub(crate) fn look(&mut self, word: String, id: i64, names: &[impl AsRef<str>]) {
        self.entries_seen += 1;
        let names = || names.iter().map(AsRef::as_ref);
        let first = names().filter(|name| name.starts_with(&self.lead)).min();
        let has = |wanted: &String| names().any(|name| name.starts_with(wanted.as_str()));
        if first == Some(&word) && self.wanted.iter().all(has) {
            match self.to_skip {
                0 => self.ids.push(ScheduleId(id)),
                _ => self.to_skip -= 1,
            }
        }
        (self.word, self.id) = (word, id);
    }

    /// The one word whose entries can be counted, and up to how many: with more words, or with
    /// another condition, a count would cost too much.
    pub(crate) fn countable(&self) -> Option<(&'a str, u64)> {
        let has_conditions = self.query.status.is_some() || self.query.workflow.is_some();
        let [word] = self.wanted else { return None };
        (!has_conditions).then_some((word, COUNTED + 1))
    }

    /// The page. `counted` is how many entries [`WordSearch::countable`] has, and of how many
    /// schedules: one name may have several words that begin alike.
    pub(crate) fn page(
        self,
        items: Vec<ScheduleView>,
        counted: Option<(u64, u64)>,
    ) -> Page<ScheduleView> {
        let counted = match counted {
            Some((entries, found)) if entries <= COUNTED => Total::Exact(found),
            Some((_, found)) => Total::AtLeast(found.min(COUNTED)),
            None => Total::AtLeast(0),
        };
        let is_last = self.next.is_none();
        let total = view::found_in_all(counted, self.passed(), self.ids.len(), is_last);
        Page { items, total, next: self.next }
    }
}

/// A text that sorts after everything that begins with the word.
pub(crate) fn after_all(word: &str) -> String {
    format!("{word}\u{10ffff}")
}
