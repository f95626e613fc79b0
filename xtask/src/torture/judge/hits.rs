//! Rules about what arrived at the sink.

use std::collections::BTreeMap;

use super::{CLOCK_SLACK, Case, Finding, Rule};
use crate::torture::history::{Hit, Millis, Run, Work};
use crate::torture::work::{FAILING_ATTEMPTS, LIMIT};

/// What the keys of mutations end with.
pub(super) const MUTATION: &str = "/mutation";

pub(super) fn judge(case: &Case<'_>, findings: &mut Vec<Finding>) {
    let mut by_key: BTreeMap<&str, Vec<&Hit>> = BTreeMap::new();
    for hit in &case.history.hits {
        by_key.entry(&hit.key).or_default().push(hit);
    }
    for (key, hits) in &by_key {
        repeated(case, key, hits, findings);
        if !key.ends_with(MUTATION) {
            asked_for(case, key, hits, findings);
        }
    }
    for work in [Work::LimitedA, Work::LimitedB] {
        limit(case, work, findings);
    }
    for run in &case.history.end.runs {
        let Some(work) = Work::named(&run.workflow) else { continue };
        for end in work.keys() {
            let key = format!("{}/{end}", run.id);
            let hits = by_key.get(&*key).map_or(&[][..], Vec::as_slice);
            performed(case, run, work, hits, findings);
        }
    }
}

/// The same request comes again only after it was refused, or after a fault; a mutation never does.
fn repeated(case: &Case<'_>, key: &str, hits: &[&Hit], findings: &mut Vec<Finding>) {
    Rule("a mutation that was performed twice", findings)
        .wrong_if(key.ends_with(MUTATION) && hits.len() > 1, || format!("{hits:?}"));
    let mut rule = Rule("a request that came again without a reason", findings);
    for pair in hits.windows(2) {
        let is_allowed = pair[0].status >= 500 || case.was_disturbed(pair[0].at, pair[1].at);
        rule.wrong_if(!is_allowed, || format!("{pair:?}"));
    }
}

/// Every request belongs to a run that is known, does that run's work, and does not come before it
/// is due.
fn asked_for(case: &Case<'_>, key: &str, hits: &[&Hit], findings: &mut Vec<Finding>) {
    let mut rule = Rule("a request of no known run", findings);
    let Some((run, step)) = key.split_once('/') else {
        return rule.wrong_if(true, || format!("{hits:?}"));
    };
    let Some(run) = case.runs.get(run) else {
        return rule.wrong_if(true, || format!("{hits:?}"));
    };
    let work = Work::named(&run.workflow);
    let is_own = work.is_some_and(|work| work.keys().contains(&step));
    rule.wrong_if(!is_own, || format!("{run:?}: {hits:?}"));
    let token = run.token.as_deref().unwrap_or("");
    let path = match work {
        Some(Work::Evolving) => format!("/evolving/{}/{token}", run.revision),
        _ => format!("/{}/{token}", run.workflow),
    };
    for hit in hits {
        rule.wrong_if(hit.path != path || hit.method != "POST", || format!("{run:?}: {hit:?}"));
        Rule("a request before its run was due", findings)
            .wrong_if(run.effective.is_some_and(|due| hit.at + CLOCK_SLACK < due), || {
                format!("{run:?}: {hit:?}")
            });
        rule = Rule("a request of no known run", findings);
    }
}

/// The work of a run that has ended was done, and tried as often as it has to be.
fn performed(case: &Case<'_>, run: &Run, work: Work, hits: &[&Hit], findings: &mut Vec<Finding>) {
    let is_done = hits.iter().any(|hit| hit.status < 300);
    Rule("a run that succeeded without doing its work", findings)
        .wrong_if(run.status == "succeeded" && !is_done, || format!("{run:?}: {hits:?}"));
    let refused = hits.iter().filter(|hit| hit.status >= 500).count();
    let is_tried = match work {
        Work::Failing => {
            refused == FAILING_ATTEMPTS
                || refused > FAILING_ATTEMPTS
                    && case.was_disturbed(run.created, run.ended.unwrap_or(run.created))
        }
        Work::Flaky => refused == 1 && is_done,
        _ => true,
    };
    Rule("a failure that was not tried again as its step says", findings)
        .wrong_if(run.has_ended() && !is_tried, || format!("{run:?}: {hits:?}"));
    let rejected = work == Work::Approval && run.approved == Some(false);
    Rule("a request after a rejection", findings)
        .wrong_if(rejected && !hits.is_empty(), || format!("{run:?}: {hits:?}"));
}

/// No more runs of a limited workflow are at work at a time than it allows. What a run's own
/// records say of its beginning is when the decision began, which may have waited for others to
/// end.
fn limit(case: &Case<'_>, work: Work, findings: &mut Vec<Finding>) {
    let path = format!("/{}/", work.name());
    let mut changes: Vec<(Millis, i32)> = Vec::new();
    for hit in case.history.hits.iter().filter(|hit| hit.path.starts_with(&path)) {
        changes.extend([(hit.at, 1), (hit.done, -1)]);
    }
    // A request that ended in a millisecond is counted as over before one that arrived in the same
    // millisecond.
    changes.sort_unstable();
    let (mut active, mut most, mut at) = (0, 0, 0);
    for (when, change) in changes {
        active += change;
        if active > most {
            (most, at) = (active, when);
        }
    }
    let is_over = usize::try_from(most).unwrap_or(0) > LIMIT;
    Rule("more runs at a time than a workflow allows", findings)
        .wrong_if(is_over, || format!("{}: {most} at {at}", work.name()));
}
