//! Findings of checks: breaches with their messages, of which only the first of a kind are listed.

use std::collections::BTreeMap;

use crate::failure::Failure;
use crate::view::Finding;

/// At most this many findings of one code are listed one by one; the rest are counted.
pub(crate) const TOLD: usize = 20;

/// The findings of one code.
pub(crate) struct Listed {
    code: &'static str,
    messages: Vec<String>,
    count: usize,
}

impl Listed {
    pub(crate) fn new(code: &'static str) -> Listed {
        Listed { code, messages: Vec::new(), count: 0 }
    }

    pub(crate) fn add(&mut self, message: impl FnOnce() -> String) {
        self.count += 1;
        if self.count <= TOLD {
            self.messages.push(message());
        }
    }

    /// Says how many findings there are, if not all of them are added.
    pub(crate) fn count_in_all(&mut self, count: usize) {
        self.count = self.count.max(count);
    }

    pub(crate) fn findings(self, can_be_repaired: bool, repaired: bool) -> Vec<Finding> {
        let Listed { code, messages, count } = self;
        let told = messages.into_iter().map(|message| (message, 1));
        let more = count.saturating_sub(TOLD);
        let rest = (more > 0).then(|| (format!("… and {more} more of the kind {code}"), more));
        let finding = |(message, count)| Finding {
            repaired,
            can_be_repaired,
            count,
            ..Finding::new(code, message)
        };
        told.chain(rest).map(finding).collect()
    }
}

/// A disagreement between a run or a schedule and the rows beside it.
pub(crate) trait Breach {
    /// The kind of finding; all breaches of a code can be mended, or none.
    fn code(&self) -> &'static str;

    /// What a person reads; `id` is that of the run or schedule.
    fn message(&self, id: i64) -> String;

    fn can_be_mended(&self) -> bool;
}

/// The findings for breaches, ordered by code.
pub(crate) fn by_code(found: &[(i64, impl Breach)], repair: bool) -> Vec<Finding> {
    let mut codes: BTreeMap<&'static str, (Listed, bool)> = BTreeMap::new();
    for (id, breach) in found {
        let (code, can_be_mended) = (breach.code(), breach.can_be_mended());
        let (listed, _) = codes.entry(code).or_insert_with(|| (Listed::new(code), can_be_mended));
        listed.add(|| breach.message(*id));
    }
    let findings = |(listed, can_be_mended): (Listed, bool)| {
        listed.findings(can_be_mended, repair && can_be_mended)
    };
    codes.into_values().flat_map(findings).collect()
}

/// The findings of a check, or one finding that the check failed.
pub(crate) fn attempted(what: &str, found: Result<Vec<Finding>, Failure>) -> Vec<Finding> {
    found.unwrap_or_else(|failure| vec![unchecked(what, &failure)])
}

/// The finding that something could not be checked, because a file is damaged or a table is
/// missing.
pub(crate) fn unchecked(what: &str, failure: &Failure) -> Finding {
    let message = format!("{what} could not be checked: {failure}");
    Finding::new("unchecked", message)
}
