//! The judge: a pure function from what was seen outside to what is wrong.

mod events;
mod hits;
mod runs;
mod schedules;

use std::collections::{BTreeMap, BTreeSet};

use super::history::{Ask, History, Millis, Run, What, Wish, Work};

/// A node on a shared store knows the database's clock only as well as the round trip allows.
pub(super) const CLOCK_SLACK: Millis = 100;
/// An embedded store begins its log anew long before this.
pub(super) const LARGEST_LOG: u64 = 384 * 1024 * 1024;
/// Examples that are told of each rule.
const EXAMPLES: usize = 5;

/// Something that must not be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Finding {
    /// The rule that is broken.
    pub(super) rule: &'static str,
    /// The place of the breach, in words.
    pub(super) what: String,
}

/// All that is wrong with a history.
pub(super) fn judge(history: &History) -> Vec<Finding> {
    let case = Case::new(history);
    let mut findings = Vec::new();
    for node in &history.deaf {
        Rule("a node that takes no requests any more", &mut findings)
            .wrong_if(true, || node.clone());
    }
    Rule("a log that grows without end", &mut findings)
        .wrong_if(history.log_bytes > LARGEST_LOG, || format!("{} bytes", history.log_bytes));
    for what in &history.stuck {
        Rule("something that did not go on by itself", &mut findings)
            .wrong_if(true, || what.clone());
    }
    schedules::judge(&case, &mut findings);
    runs::judge(&case, &mut findings);
    hits::judge(&case, &mut findings);
    events::judge(&case, &mut findings);
    findings
}

/// What is wrong, with a few examples for each rule.
pub(super) fn summary(findings: &[Finding]) -> String {
    let mut by_rule: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for finding in findings {
        by_rule.entry(finding.rule).or_default().push(&finding.what);
    }
    let lines = by_rule.into_iter().flat_map(|(rule, all)| {
        let first = all.iter().take(EXAMPLES).map(|what| format!("    {what}"));
        let examples: Vec<String> = first.collect();
        [format!("{rule} ({})", all.len()), examples.join("\n")]
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// A history with what was asked for under each token.
pub(super) struct Case<'a> {
    pub(super) history: &'a History,
    /// Schedules that were asked for, by their token.
    pub(super) wishes: BTreeMap<&'a str, (&'a Ask, &'a Wish)>,
    /// Runs by hand that were asked for, by their token.
    pub(super) starts: BTreeMap<&'a str, (&'a Ask, Work)>,
    /// Edits of each schedule, in their order.
    pub(super) edits: BTreeMap<&'a str, Vec<(&'a Ask, Millis)>>,
    pub(super) deletions: BTreeMap<&'a str, &'a Ask>,
    /// Decisions over each run, by its token.
    pub(super) decisions: BTreeMap<&'a str, Vec<(&'a Ask, bool)>>,
    pub(super) cancels: BTreeMap<&'a str, &'a Ask>,
    pub(super) runs: BTreeMap<&'a str, &'a Run>,
    pub(super) tokens: BTreeSet<&'a str>,
}

impl<'a> Case<'a> {
    fn new(history: &'a History) -> Case<'a> {
        let mut case = Case {
            history,
            wishes: BTreeMap::new(),
            starts: BTreeMap::new(),
            edits: BTreeMap::new(),
            deletions: BTreeMap::new(),
            decisions: BTreeMap::new(),
            cancels: BTreeMap::new(),
            runs: history.end.runs.iter().map(|run| (&*run.id, run)).collect(),
            tokens: BTreeSet::new(),
        };
        for ask in &history.asks {
            match &ask.what {
                What::Create(wishes) => {
                    case.wishes.extend(wishes.iter().map(|wish| (&*wish.token, (ask, wish))));
                }
                What::Start { token, work } => drop(case.starts.insert(token, (ask, *work))),
                What::Edit { token, at } => case.edits.entry(token).or_default().push((ask, *at)),
                What::Delete { token } => drop(case.deletions.insert(token, ask)),
                What::Decide { token, approve } => {
                    case.decisions.entry(token).or_default().push((ask, *approve));
                }
                What::Cancel { token } => drop(case.cancels.insert(token, ask)),
                What::Republish { .. } | What::Events(_) => {}
            }
        }
        case.tokens = case.wishes.keys().chain(case.starts.keys()).copied().collect();
        case
    }

    /// Whether a fault lies between these instants, so that work may have been lost and done again.
    pub(super) fn was_disturbed(&self, from: Millis, to: Millis) -> bool {
        let faults = &self.history.faults;
        faults
            .iter()
            .any(|fault| fault.begin <= to + CLOCK_SLACK && fault.end >= from - CLOCK_SLACK)
    }

    /// Whether somebody may have cancelled the run of this token.
    pub(super) fn may_be_cancelled(&self, token: &str) -> bool {
        self.cancels.get(token).is_some_and(|ask| ask.reply.may_be_done())
    }
}

/// Notes what is wrong under one rule.
pub(super) struct Rule<'a>(pub(super) &'static str, pub(super) &'a mut Vec<Finding>);

impl Rule<'_> {
    /// `what` is told if it `is` wrong.
    pub(super) fn wrong_if(&mut self, is: bool, what: impl FnOnce() -> String) {
        if is {
            self.1.push(Finding { rule: self.0, what: what() });
        }
    }
}
