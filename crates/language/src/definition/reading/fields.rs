//! The keys of one mapping. The reader asks for them one by one; a key that it never asked for is
//! unknown.

use std::ops::RangeInclusive;

use jiff::SignedDuration;

use super::{Field, Reading};
use crate::definition::text::{Entry, Flaw, Kind, Node, cut, join};

/// The keys of one mapping.
pub(crate) struct Fields<'n> {
    path: String,
    node: &'n Node,
    entries: &'n [Entry],
    asked: Vec<&'static str>,
    missing: Vec<(&'static str, &'static str)>,
}

impl<'n> Fields<'n> {
    /// The keys of a field that must be a mapping.
    pub(crate) fn of(reading: &mut Reading<'_>, field: &Field<'n>, remedy: &str) -> Option<Self> {
        let Kind::Map(entries) = &field.node.kind else {
            let message = format!("expected a mapping, found {}", field.node.describe());
            reading.refuse(field, Flaw::new("type", message).suggest(remedy));
            return None;
        };
        let (asked, missing) = (Vec::new(), Vec::new());
        Some(Fields { path: field.path.clone(), node: field.node, entries, asked, missing })
    }

    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// The mapping as a whole.
    pub(crate) fn place(&self) -> Field<'n> {
        Field { path: self.path.clone(), node: self.node }
    }

    /// The value of an optional key.
    pub(crate) fn take(&mut self, key: &'static str) -> Option<Field<'n>> {
        self.asked.push(key);
        let entry = self.entries.iter().find(|entry| entry.key == key)?;
        Some(Field { path: join(&self.path, key), node: &entry.value })
    }

    /// The value of a required key.
    pub(crate) fn require(&mut self, key: &'static str, remedy: &'static str) -> Option<Field<'n>> {
        let found = self.take(key);
        if found.is_none() {
            self.missing.push((key, remedy));
        }
        found
    }

    pub(crate) fn text(&mut self, reading: &mut Reading<'_>, key: &'static str) -> Option<String> {
        self.take(key).and_then(|field| reading.text(&field).map(str::to_owned))
    }

    /// An optional `true` or `false`.
    pub(crate) fn boolean(&mut self, reading: &mut Reading<'_>, key: &'static str) -> Option<bool> {
        self.take(key).and_then(|field| reading.boolean(&field))
    }

    /// An optional whole number.
    pub(crate) fn whole(
        &mut self,
        reading: &mut Reading<'_>,
        key: &'static str,
        allowed: RangeInclusive<u64>,
    ) -> Option<u64> {
        self.take(key).and_then(|field| reading.whole(&field, allowed))
    }

    pub(crate) fn duration(
        &mut self,
        reading: &mut Reading<'_>,
        key: &'static str,
    ) -> Option<SignedDuration> {
        self.take(key).and_then(|field| reading.duration(&field))
    }

    /// The entries that were not asked for, for a reader with its own keys. Reports missing keys.
    pub(crate) fn rest(self, reading: &mut Reading<'_>) -> Vec<&'n Entry> {
        self.report_missing(reading, &[]);
        self.entries.iter().filter(|entry| !self.asked.contains(&entry.key.as_str())).collect()
    }

    /// Reports unknown and missing keys.
    pub(crate) fn finish(self, reading: &mut Reading<'_>) {
        let mut meant = Vec::new();
        for entry in self.entries {
            let key = entry.key.as_str();
            if self.asked.contains(&key) {
                continue;
            }
            let path = join(&self.path, key);
            if reading.is_full() {
                // Further flaws are only counted, and finding the nearest key is costly.
                reading.report(&path, entry.key_span, Flaw::new("unknown-key", ""));
                continue;
            }
            let flaw = Flaw::new("unknown-key", format!("unknown key {}", cut(key)))
                .did_you_mean(key, self.asked.iter().copied());
            let flaw = match &flaw.remedy {
                Some(_) => flaw,
                None => flaw.allow(self.asked.join(", ")),
            };
            meant.extend(flaw.remedy.clone());
            reading.report(&path, entry.key_span, flaw);
        }
        let meant: Vec<&str> = meant.iter().map(String::as_str).collect();
        self.report_missing(reading, &meant);
    }

    /// Reports missing keys, except those in `meant`, which were only misspelt.
    fn report_missing(&self, reading: &mut Reading<'_>, meant: &[&str]) {
        for (key, remedy) in self.missing.iter().filter(|(key, _)| !meant.contains(key)) {
            let flaw = Flaw::new("missing", format!("{key} is missing")).suggest(*remedy);
            reading.report(&join(&self.path, key), self.node.mark(), flaw);
        }
    }
}
