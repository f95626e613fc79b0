//! The judge proves itself: histories that were right are made wrong, and it has to notice.

use super::history::{Fault, History, Hit, Reply, Run, What, Work};
use super::judge::{LARGEST_LOG, judge};
use crate::steps::Outcome;

/// One way to make a history wrong.
pub(super) struct Sabotage {
    pub(super) name: &'static str,
    /// The rule that has to be found broken.
    rule: &'static str,
    /// Does it; whether the history had something to do it to.
    apply: fn(&mut History) -> bool,
}

/// Applies each sabotage that the history has something for. An error names those that the judge
/// did not notice; else the names of those that were tried.
pub(super) fn check(history: &History) -> Result<Vec<&'static str>, String> {
    let (mut tried, mut unnoticed) = (Vec::new(), Vec::new());
    for sabotage in &ALL {
        let mut wrong = history.clone();
        if !(sabotage.apply)(&mut wrong) {
            continue;
        }
        tried.push(sabotage.name);
        if !judge(&wrong).iter().any(|finding| finding.rule == sabotage.rule) {
            unnoticed.push(format!("{}: not found as `{}`", sabotage.name, sabotage.rule));
        }
    }
    if unnoticed.is_empty() { Ok(tried) } else { Err(unnoticed.join("\n")) }
}

/// The same, told to a person.
pub(super) fn prove(history: &History) -> Outcome {
    let tried = check(history).map_err(|why| format!("the judge is blind:\n{why}"))?;
    println!("{} of {} sabotages were tried on it, and all noticed", tried.len(), ALL.len());
    Ok(())
}

const fn sabotage(
    name: &'static str,
    rule: &'static str,
    apply: fn(&mut History) -> bool,
) -> Sabotage {
    Sabotage { name, rule, apply }
}

/// All that are known.
pub(super) const ALL: [Sabotage; 32] = [
    sabotage("a request is lost", "a run that succeeded without doing its work", lose_request),
    sabotage("a request is doubled", "a request that came again without a reason", double_request),
    sabotage("a mutation is doubled", "a mutation that was performed twice", |history| {
        double(&mut history.hits, |hit| hit.key.ends_with("/mutation"))
    }),
    sabotage("a request of nobody", "a request of no known run", |history| {
        let planted = history.hits.first().cloned();
        planted.map(|hit| history.hits.push(Hit { key: "nobody/work".into(), ..hit })).is_some()
    }),
    sabotage("a request at another path", "a request of no known run", |history| {
        change(&mut history.hits, |hit| hit.key.ends_with("/work"), |hit| hit.path.push('x'))
    }),
    sabotage("a request before its time", "a request before its run was due", early_request),
    sabotage("a third at the limit", "more runs at a time than a workflow allows", over_limit),
    sabotage(
        "a failing step is tried once",
        "a failure that was not tried again as its step says",
        |history| lose(&mut history.hits, |hit| hit.path.starts_with("/failing/")),
    ),
    sabotage(
        "the run of an occurrence is lost",
        "an occurrence that was started has no run, or one that was not has",
        |history| lose_run(history, |run| run.n.is_some() && run.workflow == "quick"),
    ),
    sabotage(
        "a run by hand is lost",
        "an acknowledged start has not exactly one run",
        lose_acknowledged_start,
    ),
    sabotage("a run is doubled", "two runs of one occurrence", |history| {
        let found = history.end.runs.iter().find(|run| run.n.is_some()).cloned();
        let planted = found.map(|run| Run { id: format!("{}-again", run.id), ..run });
        planted.map(|run| history.end.runs.push(run)).is_some()
    }),
    sabotage(
        "a run by hand is doubled",
        "an acknowledged start has not exactly one run",
        |history| {
            double(&mut history.end.runs, |run| {
                run.schedule.is_none() && run.parent.is_none() && run.handler.is_none()
            })
        },
    ),
    sabotage(
        "a success is tried again",
        "a retry that follows no failure, or comes too early",
        |history| {
            let is = |run: &&Run| run.n.is_some() && run.status == "succeeded";
            let found = history.end.runs.iter().find(is).cloned();
            let planted = found.map(|run| Run { id: format!("{}-x", run.id), retry: 1, ..run });
            planted.map(|run| history.end.runs.push(run)).is_some()
        },
    ),
    sabotage("a retry is lost", "a failure without its retry", |history| {
        lose_run(history, |run| run.retry == 1)
    }),
    sabotage("a run does not end", "a run that has not ended", |history| {
        change(&mut history.end.runs, |_| true, |run| run.status = "running".into())
    }),
    sabotage("a run begins early", "a run before it was due", |history| {
        change(
            &mut history.end.runs,
            |run| run.effective.is_some(),
            |run| {
                run.created = run.effective.unwrap_or(0) - 10_000;
            },
        )
    }),
    sabotage("a run of nobody", "a run that nobody asked for", |history| {
        let is = |run: &Run| run.handler.is_none() && run.workflow == "post";
        change(&mut history.end.runs, is, |run| run.token = Some("nobody".into()))
    }),
    sabotage("a run fails", "a run that ended in another way than its work has to", |history| {
        change(
            &mut history.end.runs,
            |run| run.workflow == "quick",
            |run| {
                run.status = "failed".into();
            },
        )
    }),
    sabotage("a child loses its parent", "a parent without its one child", |history| {
        change(&mut history.end.runs, |run| run.parent.is_some(), |run| run.parent = None)
    }),
    sabotage(
        "a decision turns round",
        "an approval that was not decided once, as somebody was told",
        turn_decision,
    ),
    sabotage("an old revision runs", "a run of a revision that was not live", old_revision),
    sabotage("a timer is short", "a timer that was too short", |history| {
        change(&mut history.end.runs, |run| run.waited.is_some(), |run| run.waited = Some(1))
    }),
    sabotage(
        "a row of the ledger is lost",
        "a run of an occurrence that the ledger does not have",
        |history| history.end.ledger.values_mut().any(|rows| rows.pop().is_some()),
    ),
    sabotage(
        "a row of the ledger is doubled",
        "numbers of occurrences have gaps, or come twice",
        |history| history.end.ledger.values_mut().any(|rows| double(rows, |_| true)),
    ),
    sabotage(
        "a due time is moved",
        "an occurrence at another time than was asked for",
        |history| {
            history
                .end
                .ledger
                .values_mut()
                .any(|rows| change(rows, |_| true, |row| row.nominal += 1))
        },
    ),
    sabotage(
        "a schedule is lost",
        "an acknowledged schedule is not there exactly once",
        lose_schedule,
    ),
    sabotage("a deleted schedule runs", "a run of a schedule that had been deleted", run_deleted),
    sabotage("an event is lost", "events that are not there as they were published", lose_event),
    sabotage("an event is left", "an event that was not consumed", |history| {
        change(&mut history.end.events, |_| true, |event| event.state = "pending".into())
    }),
    sabotage("something is stuck", "something that did not go on by itself", |history| {
        history.stuck.push("1 run".into());
        true
    }),
    sabotage("a log grows", "a log that grows without end", |history| {
        history.log_bytes = LARGEST_LOG + 1;
        true
    }),
    sabotage("a node is deaf", "a node that takes no requests any more", |history| {
        history.deaf.push("127.0.0.1:1".into());
        true
    }),
];

fn lose<T>(all: &mut Vec<T>, is: impl Fn(&T) -> bool) -> bool {
    all.iter().position(is).map(|at| all.remove(at)).is_some()
}

fn double<T: Clone>(all: &mut Vec<T>, is: impl Fn(&T) -> bool) -> bool {
    let found = all.iter().find(|one| is(one)).cloned();
    found.map(|one| all.push(one)).is_some()
}

fn change<T>(all: &mut [T], is: impl Fn(&T) -> bool, change: impl Fn(&mut T)) -> bool {
    all.iter_mut().find(|one| is(one)).map(change).is_some()
}

fn lose_run(history: &mut History, is: impl Fn(&Run) -> bool) -> bool {
    let kept = |run: &Run| is(run) && !deleted(history, run);
    let at = history.end.runs.iter().position(kept);
    at.map(|at| history.end.runs.remove(at)).is_some()
}

/// Whether the schedule of a run may be gone.
fn deleted(history: &History, run: &Run) -> bool {
    history
        .asks
        .iter()
        .any(|ask| matches!(&ask.what, What::Delete { token } if Some(token) == run.token.as_ref()))
}

fn acknowledged(history: &History, is: impl Fn(&What) -> bool) -> impl Iterator<Item = &What> {
    let told = history.asks.iter().filter(|ask| ask.reply == Reply::Acknowledged);
    told.map(|ask| &ask.what).filter(move |what| is(what))
}

/// The only request of a run that has succeeded.
fn lose_request(history: &mut History) -> bool {
    let posts = history.end.runs.iter().filter(|run| run.workflow == Work::Post.name());
    let keys: Vec<String> = posts.map(|run| format!("{}/work", run.id)).collect();
    let Some(key) = keys.first() else { return false };
    let before = history.hits.len();
    history.hits.retain(|hit| hit.key != *key);
    history.hits.len() < before
}

/// Where no fault excuses it.
fn double_request(history: &mut History) -> bool {
    let faults = history.faults.clone();
    let is_calm = |hit: &Hit| {
        let far = |fault: &Fault| hit.at + 1_000 < fault.begin || hit.at - 1_000 > fault.end;
        faults.iter().all(far)
    };
    double(&mut history.hits, |hit| is_calm(hit) && hit.path.starts_with("/post/"))
}

fn early_request(history: &mut History) -> bool {
    let is = |run: &&Run| run.effective.is_some() && run.workflow == Work::Post.name();
    let Some(run) = history.end.runs.iter().find(is) else { return false };
    let key = format!("{}/work", run.id);
    let due = run.effective.unwrap_or(0);
    change(&mut history.hits, |hit| hit.key == key, |hit| hit.at = due - 10_000)
}

/// Three requests of a limited workflow at once.
fn over_limit(history: &mut History) -> bool {
    let limited = history.hits.iter_mut().filter(|hit| hit.path.starts_with("/limited-a/"));
    let moved = limited.take(3).map(|hit| (hit.at, hit.done) = (1, 2));
    moved.count() == 3
}

fn lose_acknowledged_start(history: &mut History) -> bool {
    let is = |what: &What| matches!(what, What::Start { work: Work::Post, .. });
    let Some(What::Start { token, .. }) = acknowledged(history, is).next().cloned() else {
        return false;
    };
    lose(&mut history.end.runs, |run| run.token.as_ref() == Some(&token))
}

fn turn_decision(history: &mut History) -> bool {
    let is = |what: &What| matches!(what, What::Decide { .. });
    let told: Vec<What> = acknowledged(history, is).cloned().collect();
    told.iter().any(|what| {
        let What::Decide { token, approve } = what else { return false };
        let is = |run: &Run| run.token.as_ref() == Some(token) && run.approved == Some(*approve);
        change(&mut history.end.runs, is, |run| run.approved = Some(!*approve))
    })
}

fn old_revision(history: &mut History) -> bool {
    let is = |run: &Run| run.workflow == Work::Evolving.name() && run.revision > 2;
    change(&mut history.end.runs, is, |run| run.revision = 1)
}

fn lose_schedule(history: &mut History) -> bool {
    let is = |what: &What| matches!(what, What::Create(wishes) if wishes.len() > 1);
    let Some(What::Create(wishes)) = acknowledged(history, is).next().cloned() else {
        return false;
    };
    lose(&mut history.end.schedules, |schedule| schedule.name == wishes[0].token)
}

/// A run of a schedule whose deletion was acknowledged, long after that.
fn run_deleted(history: &mut History) -> bool {
    let is = |what: &What| matches!(what, What::Delete { .. });
    let told: Vec<What> = acknowledged(history, is).cloned().collect();
    told.iter().any(|what| {
        let What::Delete { token } = what else { return false };
        let is = |run: &Run| run.token.as_ref() == Some(token) && run.schedule.is_some();
        change(&mut history.end.runs, is, |run| run.created += 3_600_000)
    })
}

fn lose_event(history: &mut History) -> bool {
    let is = |what: &What| matches!(what, What::Events(_));
    let Some(What::Events(ids)) = acknowledged(history, is).next().cloned() else { return false };
    lose(&mut history.end.events, |event| event.id == ids[0])
}
