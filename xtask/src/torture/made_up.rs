//! Histories that nobody lived through: what the judge says of them is known beforehand.

use super::history::{
    Ask, Event, History, Hit, Millis, Mutation, Occurrence, Reply, Rule, Run, Schedule, What, Wish,
    Work,
};
use super::judge::{Finding, judge};
use super::sabotage;

/// When the made-up history begins.
const BEGIN: Millis = 1_000_000_000_000;

/// A history in which everything was as it has to be, with something of every kind.
fn right() -> History {
    let mut history = History::default();
    let works = [
        Work::Quick,
        Work::Empty,
        Work::Post,
        Work::Flaky,
        Work::Failing,
        Work::Timer,
        Work::Parent,
        Work::Each,
        Work::LimitedA,
        Work::LimitedA,
        Work::LimitedA,
    ];
    for (number, work) in works.into_iter().enumerate() {
        history.scheduled(&format!("once-{number}"), work);
        history.started(&format!("hand-{number}"), work);
    }
    history.repeated("every", Rule::Every(1_000), 3);
    history.approved("yes", true);
    history.approved("no", false);
    history.republished();
    history.events(&["a", "b"]);
    history.deleted("gone");
    history.batch();
    history
}

impl History {
    fn now(&self) -> Millis {
        BEGIN + 1_000 * i64::try_from(self.asks.len()).unwrap()
    }

    fn acknowledged(&mut self, what: What) -> Millis {
        let sent = self.now();
        self.asks.push(Ask { sent, done: sent + 5, what, reply: Reply::Acknowledged });
        sent + 2
    }

    fn schedule(&mut self, token: &str, created: Millis, status: &str) -> String {
        let id = format!("{}{}", self.asks.len(), self.end.schedules.len());
        let name = token.to_owned();
        self.end.schedules.push(Schedule { id: id.clone(), name, status: status.into(), created });
        id
    }

    /// An occurrence with its run.
    fn occurrence(&mut self, schedule: &str, n: u64, due: Millis, token: &str, work: Work) {
        let id = format!("sched-{schedule}-n{n}-rc0");
        let outcome = if work == Work::Failing { "failed" } else { "started" };
        self.end.ledger.entry(schedule.to_owned()).or_default().push(Occurrence {
            n,
            count: 1,
            nominal: due,
            outcome: outcome.into(),
            run: Some(id.clone()),
        });
        let mut run = run(id, token, work, due);
        (run.schedule, run.n, run.effective) = (Some(schedule.to_owned()), Some(n), Some(due));
        let retry = Run {
            id: format!("sched-{schedule}-n{n}-rc1"),
            retry: 1,
            created: due + 700,
            ..run.clone()
        };
        self.ran(run);
        if work == Work::Failing {
            self.ran(retry);
        }
    }

    /// A run with what it did.
    fn ran(&mut self, run: Run) {
        let work = Work::named(&run.workflow).unwrap();
        let token = run.token.clone().unwrap();
        let path = match work {
            Work::Evolving => format!("/evolving/{}/{token}", run.revision),
            _ => format!("/{}/{token}", run.workflow),
        };
        let statuses: &[u16] = match work {
            Work::Flaky => &[503, 200],
            Work::Failing => &[500, 500],
            Work::Approval if run.approved == Some(false) => &[],
            _ => &[200],
        };
        for end in work.keys() {
            for status in statuses {
                let (at, key) = (run.created + 10, format!("{}/{end}", run.id));
                let (method, path, body) = ("POST".into(), path.clone(), String::new());
                self.hits.push(Hit { at, done: at + 1, method, path, key, body, status: *status });
            }
        }
        if work == Work::Parent {
            let id = format!("{}-child", run.id);
            let parent = Some(run.id.clone());
            self.ran(Run { parent, ..self::run(id, &token, Work::Child, run.created) });
        }
        self.end.runs.push(run);
    }

    fn scheduled(&mut self, token: &str, work: Work) {
        let due = self.now() + 500;
        let wish = Wish { token: token.into(), work, rule: Rule::At(due), repeats: 1 };
        let created = self.acknowledged(What::Create(vec![wish]));
        let status = if work == Work::Failing { "dead" } else { "done" };
        let id = self.schedule(token, created, status);
        self.occurrence(&id, 0, due, token, work);
    }

    fn started(&mut self, token: &str, work: Work) {
        let at = self.acknowledged(What::Start { token: token.into(), work });
        self.ran(run(format!("run-{token}"), token, work, at));
    }

    fn repeated(&mut self, token: &str, rule: Rule, repeats: u64) {
        let wish = Wish { token: token.into(), work: Work::Quick, rule, repeats };
        let created = self.acknowledged(What::Create(vec![wish]));
        let id = self.schedule(token, created, "done");
        for n in 0..repeats {
            let due = created + 1_000 * i64::try_from(n + 1).unwrap();
            self.occurrence(&id, n, due, token, Work::Quick);
        }
    }

    fn approved(&mut self, token: &str, approve: bool) {
        let at = self.acknowledged(What::Start { token: token.into(), work: Work::Approval });
        self.acknowledged(What::Decide { token: token.into(), approve });
        let mut run = run(format!("run-{token}"), token, Work::Approval, at);
        run.approved = Some(approve);
        run.status = if approve { "succeeded" } else { "failed" }.into();
        self.ran(run);
    }

    fn republished(&mut self) {
        for revision in 2..5 {
            self.acknowledged(What::Republish { revision });
            let token = format!("evolving-{revision}");
            let at = self.acknowledged(What::Start { token: token.clone(), work: Work::Evolving });
            let run = run(format!("run-{token}"), &token, Work::Evolving, at);
            self.ran(Run { revision, ..run });
        }
    }

    fn events(&mut self, ids: &[&str]) {
        let at = self.acknowledged(What::Events(ids.iter().map(|id| (*id).to_owned()).collect()));
        for id in ids {
            let run = format!("handled-{id}");
            self.hits.push(Hit {
                at,
                done: at + 1,
                method: "POST".into(),
                path: "/orders".into(),
                key: format!("{run}/mutation"),
                body: format!(r#"{{"ids": ["{id}"]}}"#),
                status: 200,
            });
            self.end.mutations.push(Mutation { run: run.clone(), status: "applied".into() });
            let (id, run) = ((*id).to_owned(), Some(run));
            self.end.events.push(Event { id, state: "consumed".into(), run });
        }
    }

    /// A schedule that ran once and is gone.
    fn deleted(&mut self, token: &str) {
        self.scheduled(token, Work::Quick);
        self.acknowledged(What::Delete { token: token.into() });
        let schedule = self.end.schedules.pop().unwrap();
        self.end.ledger.remove(&schedule.id);
    }

    fn batch(&mut self) {
        let due = self.now() + 500;
        let wish = |token: &str| Wish {
            token: token.into(),
            work: Work::Empty,
            rule: Rule::At(due),
            repeats: 1,
        };
        let tokens = ["batch-1", "batch-2"];
        let created = self.acknowledged(What::Create(tokens.map(wish).to_vec()));
        for token in tokens {
            let id = self.schedule(token, created, "done");
            self.occurrence(&id, 0, due, token, Work::Empty);
        }
    }
}

fn run(id: String, token: &str, work: Work, created: Millis) -> Run {
    let status = if work == Work::Failing { "failed" } else { "succeeded" };
    Run {
        id,
        workflow: work.name().into(),
        handler: None,
        revision: 1,
        schedule: None,
        n: None,
        retry: 0,
        status: status.into(),
        effective: None,
        created,
        ended: Some(created + 600),
        token: Some(token.into()),
        parent: None,
        approved: None,
        waited: (work == Work::Timer).then_some(1_000),
    }
}

#[test]
fn nothing_is_wrong_with_what_is_right() {
    assert_eq!(judge(&right()), []);
}

#[test]
fn every_sabotage_is_noticed() {
    let tried = sabotage::check(&right()).unwrap();
    let all: Vec<&str> = sabotage::ALL.iter().map(|sabotage| sabotage.name).collect();
    assert_eq!(tried, all, "each has something to do");
}

#[test]
fn what_nobody_answered_may_be_done_or_not_but_not_by_half() {
    let unknown = |history: &mut History| {
        for ask in &mut history.asks {
            ask.reply = Reply::Unknown("the client hung up".into());
        }
    };
    let mut done = right();
    unknown(&mut done);
    // Without an acknowledgement, nothing says that the new revision was not live yet.
    assert_eq!(judge(&done), []);
    let mut nothing = History { asks: done.asks.clone(), ..History::default() };
    assert_eq!(judge(&nothing), []);
    nothing.end.schedules = done.end.schedules.split_off(done.end.schedules.len() - 1);
    let rules: Vec<&str> = judge(&nothing).iter().map(|finding: &Finding| finding.rule).collect();
    assert!(rules.contains(&"a part of a batch"), "{rules:?}");
    assert!(rules.contains(&"a schedule without the occurrences that were asked for"), "{rules:?}");
}

#[test]
fn a_fault_excuses_a_second_request_but_not_a_second_mutation() {
    use super::history::Fault;
    let mut history = right();
    let post = history.hits.iter().find(|hit| hit.path.starts_with("/post/")).unwrap().clone();
    let (begin, end) = (post.at - 10, post.at + 10);
    history.hits.push(post);
    assert_eq!(judge(&history).len(), 1);
    history.faults.push(Fault { begin, end, what: "a kill".into() });
    assert_eq!(judge(&history), []);
    let told = history.hits.iter().find(|hit| hit.key.ends_with("/mutation")).unwrap().clone();
    history.faults.push(Fault { begin: told.at, end: told.at, what: "a kill".into() });
    history.hits.push(told);
    assert!(!judge(&history).is_empty());
}

#[test]
fn a_refused_request_must_not_be_done() {
    let mut history = right();
    for ask in &mut history.asks {
        ask.reply = Reply::Refused(422, String::new());
    }
    let rules: Vec<&str> = judge(&history).iter().map(|finding| finding.rule).collect();
    for rule in [
        "a schedule that was refused is there",
        "a run that nobody asked for",
        "events that are not there as they were published",
        "an approval that was not decided once, as somebody was told",
    ] {
        assert!(rules.contains(&rule), "{rule}: {rules:?}");
    }
}
