//! Rules that every run must fulfil.

use std::collections::BTreeMap;

use super::{CLOCK_SLACK, Case, Finding, Rule};
use crate::torture::history::{Reply, Run, What, Work};
use crate::torture::work::{FAILING_RETRIES, ORDERS, TIMER};

pub(super) fn judge(case: &Case<'_>, findings: &mut Vec<Finding>) {
    started(case, findings);
    doubled(case, findings);
    for run in &case.history.end.runs {
        let Some(work) = Work::named(&run.workflow) else {
            Rule("a run of a workflow that nobody published", findings)
                .wrong_if(run.workflow != ORDERS, || format!("{run:?}"));
            Rule("a run that has not ended", findings)
                .wrong_if(!run.has_ended(), || format!("{run:?}"));
            continue;
        };
        Rule("a run that has not ended", findings)
            .wrong_if(!run.has_ended(), || format!("{run:?}"));
        asked_for(case, run, findings);
        ending(case, run, work, findings);
        Rule("a run before it was due", findings)
            .wrong_if(run.effective.is_some_and(|due| run.created + CLOCK_SLACK < due), || {
                format!("{run:?}")
            });
        Rule("a timer that was too short", findings)
            .wrong_if(run.waited.is_some_and(|waited| waited < TIMER), || format!("{run:?}"));
    }
    retries(case, findings);
    families(case, findings);
    decisions(case, findings);
    revisions(case, findings);
}

/// Each acknowledged start has one run.
fn started(case: &Case<'_>, findings: &mut Vec<Finding>) {
    let mut rule = Rule("an acknowledged start has not exactly one run", findings);
    let mut count: BTreeMap<&str, usize> = BTreeMap::new();
    let by_hand = |run: &&Run| run.schedule.is_none() && run.parent.is_none();
    for run in case.history.end.runs.iter().filter(by_hand) {
        *count.entry(run.token.as_deref().unwrap_or("")).or_default() += 1;
    }
    for (token, (ask, _)) in &case.starts {
        let count = count.get(token).copied().unwrap_or(0);
        let is_lost = ask.reply == Reply::Acknowledged && count == 0;
        rule.wrong_if(is_lost || count > 1, || format!("{token} has {count}: {:?}", ask.reply));
    }
}

/// No two runs have the same occurrence and retry.
fn doubled(case: &Case<'_>, findings: &mut Vec<Finding>) {
    let mut rule = Rule("two runs of one occurrence", findings);
    let mut seen = BTreeMap::new();
    for run in &case.history.end.runs {
        let Some(schedule) = &run.schedule else { continue };
        if let Some(other) = seen.insert((schedule, run.n, run.retry), &run.id) {
            rule.wrong_if(run.n.is_some(), || format!("{} and {other}: {schedule}", run.id));
        }
    }
    let ids: std::collections::BTreeSet<&String> =
        case.history.end.runs.iter().map(|run| &run.id).collect();
    rule.wrong_if(ids.len() != case.history.end.runs.len(), || "two runs of one id".to_owned());
}

/// Somebody has asked for what the run does.
fn asked_for(case: &Case<'_>, run: &Run, findings: &mut Vec<Finding>) {
    let token = run.token.as_deref().unwrap_or("");
    let wish = case.wishes.get(token).filter(|(ask, _)| ask.reply.may_be_done());
    let start = case.starts.get(token).filter(|(ask, _)| ask.reply.may_be_done());
    let work = Work::named(&run.workflow);
    let is_asked = match (&run.schedule, &run.parent) {
        (Some(_), _) => wish.map(|(_, wish)| wish.work) == work,
        (None, Some(_)) => work == Some(Work::Child) && case.tokens.contains(token),
        (None, None) => start.map(|(_, work)| *work) == work,
    };
    Rule("a run that nobody asked for", findings).wrong_if(!is_asked, || format!("{run:?}"));
}

/// Runs end as their work has to.
fn ending(case: &Case<'_>, run: &Run, work: Work, findings: &mut Vec<Finding>) {
    let token = run.token.as_deref().unwrap_or("");
    let is_fine = match (&*run.status, work) {
        ("cancelled", _) => case.may_be_cancelled(token),
        (status, Work::Failing) => status == "failed",
        ("failed", Work::Approval) => run.approved == Some(false),
        (status, _) => status == "succeeded",
    };
    Rule("a run that ended in another way than its work has to", findings)
        .wrong_if(run.has_ended() && !is_fine, || format!("{run:?}"));
    let cancel = case.cancels.get(token).map(|ask| &ask.reply);
    let goes_on = cancel == Some(&Reply::Acknowledged) && run.status != "cancelled";
    Rule("an acknowledged cancel without an effect", findings)
        .wrong_if(goes_on && run.schedule.is_none(), || format!("{run:?}"));
}

/// A retry follows each failure, and nothing else.
fn retries(case: &Case<'_>, findings: &mut Vec<Finding>) {
    let mut by_occurrence: BTreeMap<(&str, u64), Vec<&Run>> = BTreeMap::new();
    for run in &case.history.end.runs {
        if let (Some(schedule), Some(n)) = (&run.schedule, run.n) {
            by_occurrence.entry((schedule, n)).or_default().push(run);
        }
    }
    for runs in by_occurrence.values_mut() {
        runs.sort_by_key(|run| run.retry);
        let last = runs[runs.len() - 1];
        let token = last.token.as_deref().unwrap_or("");
        let is_deleted = case.deletions.get(token).is_some_and(|ask| ask.reply.may_be_done());
        // A rejection is certain not to heal.
        let may_heal = last.workflow == Work::Failing.name();
        let is_owed = last.status == "failed" && may_heal && last.retry < FAILING_RETRIES;
        Rule("a failure without its retry", findings)
            .wrong_if(is_owed && !is_deleted, || format!("{last:?}"));
        let mut rule = Rule("a retry that follows no failure, or comes too early", findings);
        rule.wrong_if(runs[0].retry != 0, || format!("{:?}", runs[0]));
        for pair in runs.windows(2) {
            let is_next = pair[1].retry == pair[0].retry + 1 && pair[0].status == "failed";
            let is_after = pair[0].ended.is_some_and(|end| pair[1].created + CLOCK_SLACK >= end);
            rule.wrong_if(!is_next || !is_after, || format!("{:?} after {:?}", pair[1], pair[0]));
        }
        rule.wrong_if(last.retry > FAILING_RETRIES, || format!("{last:?}"));
    }
}

/// Each parent that has succeeded has one child, which ended before it; each child has its parent.
fn families(case: &Case<'_>, findings: &mut Vec<Finding>) {
    let mut children: BTreeMap<&str, Vec<&Run>> = BTreeMap::new();
    for run in &case.history.end.runs {
        if let Some(parent) = &run.parent {
            children.entry(parent).or_default().push(run);
            let known = case.runs.get(&**parent).map(|parent| &*parent.workflow);
            Rule("a child without its parent", findings)
                .wrong_if(known != Some(Work::Parent.name()), || format!("{run:?}"));
        }
    }
    let parents = case.history.end.runs.iter().filter(|run| run.workflow == Work::Parent.name());
    for run in parents.filter(|run| run.status == "succeeded") {
        let own = children.get(&*run.id).map_or(&[][..], Vec::as_slice);
        let is_one = own.len() == 1 && own[0].token == run.token && own[0].ended <= run.ended;
        Rule("a parent without its one child", findings)
            .wrong_if(!is_one, || format!("{run:?}: {own:?}"));
    }
}

/// Each approval is decided once, as the one who was told so has decided.
fn decisions(case: &Case<'_>, findings: &mut Vec<Finding>) {
    Rule("an approval that is left", findings)
        .wrong_if(!case.history.end.approvals.is_empty(), || {
            format!("{:?}", case.history.end.approvals)
        });
    for run in case.history.end.runs.iter().filter(|run| run.workflow == Work::Approval.name()) {
        let token = run.token.as_deref().unwrap_or("");
        let decisions = case.decisions.get(token).map_or(&[][..], Vec::as_slice);
        let told: Vec<bool> = decisions
            .iter()
            .filter(|(ask, _)| ask.reply == Reply::Acknowledged)
            .map(|(_, approve)| *approve)
            .collect();
        let may = |approved: bool| {
            decisions.iter().any(|(ask, approve)| ask.reply.may_be_done() && *approve == approved)
        };
        let is_fine = match (run.approved, &told[..]) {
            (_, [_, _, ..]) => false,
            (Some(approved), [told]) => approved == *told,
            (Some(approved), []) => may(approved),
            (None, []) => true,
            (None, _) => case.may_be_cancelled(token),
        };
        Rule("an approval that was not decided once, as somebody was told", findings)
            .wrong_if(!is_fine, || format!("{run:?}: {decisions:?}"));
    }
}

/// A run uses the revision that was live when it was created.
fn revisions(case: &Case<'_>, findings: &mut Vec<Finding>) {
    let mut rule = Rule("a run of a revision that was not live", findings);
    for run in case.history.end.runs.iter().filter(|run| run.workflow == Work::Evolving.name()) {
        let (mut oldest, mut newest) = (1, 1);
        for ask in &case.history.asks {
            let What::Republish { revision } = ask.what else { continue };
            if ask.reply == Reply::Acknowledged && ask.done + CLOCK_SLACK < run.created {
                oldest = oldest.max(revision);
            }
            // A node that was held may have begun its turn long before it looked.
            let began = ask.sent - CLOCK_SLACK;
            if ask.reply.may_be_done()
                && (began <= run.created || case.was_disturbed(run.created, began))
            {
                newest = newest.max(revision);
            }
        }
        let is_live = (oldest..=newest).contains(&run.revision);
        rule.wrong_if(!is_live, || format!("{run:?}: {oldest} to {newest}"));
    }
}
