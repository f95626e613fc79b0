//! Background duties, each called once.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use engine::Moment;
use engine::turn::{Answer, Capacity, Command, Effect, NewSchedule};
use engine::{NodeId, ScheduleId};
use jiff::{SignedDuration, Timestamp};
use language::definition::ReadContext;
use language::schedule::read_written;
use server::maintenance::{NextTimes, Removed, Retention};
use server::{Clock, Hub};
use store::{PostgresClock, Report, RunQuery, Store, TurnRequest};

use crate::ground::Ground;

/// A clock that is set by hand.
#[derive(Default)]
struct ByHand(AtomicI64);

impl Clock for ByHand {
    fn now(&self) -> Timestamp {
        Timestamp::from_millisecond(self.0.load(Ordering::Relaxed)).unwrap()
    }
}

/// A hub over a store, without a driver: tests take turns by hand.
struct House {
    hub: Arc<Hub>,
    clock: Arc<ByHand>,
    node: NodeId,
    _ground: Ground,
}

impl House {
    async fn new() -> House {
        let ground = Ground::new();
        let store = ground.open_with(|options| options.clock = PostgresClock::Caller).await;
        let clock = Arc::new(ByHand::default());
        let (signals, _) = tokio::sync::mpsc::unbounded_channel();
        let node = store.join("node", moment(clock.now())).await.unwrap().node;
        let hub = Arc::new(Hub::new(store, clock.clone(), signals));
        House { hub, clock, node, _ground: ground }
    }

    fn store(&self) -> &Arc<dyn Store> {
        self.hub.store()
    }

    fn pass(&self, time: SignedDuration) {
        let passed = i64::try_from(time.as_millis()).unwrap();
        self.clock.0.fetch_add(passed, Ordering::Relaxed);
    }

    async fn schedules(&self, count: usize) -> Vec<ScheduleId> {
        self.declare(count, r#"{"name": "s", "cron": "0 * * * *"}"#).await
    }

    async fn declare(&self, count: usize, fields: &str) -> Vec<ScheduleId> {
        let text = "name: t\nsteps: [{id: a, type: noop}]\n";
        let rules = self.store().rules();
        let context =
            ReadContext { zones: rules.zones(), now: self.hub.now(), known_calendar: &|_| None };
        let definition = Arc::new(language::definition::read(text, &context).unwrap());
        let save = Command::SaveWorkflow {
            source: text.to_owned(),
            definition,
            publish: true,
            folder: None,
        };
        let Answer::Workflow { id, .. } = self.hub.command(save, None).await.unwrap().answer else {
            panic!("not saved");
        };
        let declared = read_written(fields).unwrap().declared;
        let new = NewSchedule { workflow: id, declared_by: None, declared };
        let create = Command::CreateSchedules(vec![new; count]);
        match self.hub.command(create, None).await.unwrap().answer {
            Answer::Created(ids) => ids,
            other => panic!("{other:?}"),
        }
    }

    /// Starts what is due, and reports its attempts as ended.
    async fn settle(&self) {
        let mut reports = Vec::new();
        loop {
            let turn = TurnRequest {
                moment: moment(self.hub.now()),
                node: self.node,
                reports: std::mem::take(&mut reports),
                limit: 10_000,
                begin: None,
                held: Default::default(),
                capacity: Capacity::new(10_000),
                performed: None,
                traced: false,
            };
            let turned = self.store().turn(turn).await.unwrap();
            reports.extend(turned.effects.iter().filter_map(|effect| match effect {
                Effect::Perform(perform) => {
                    let output = serde_json::value::RawValue::NULL.to_owned();
                    let end = engine::run::AttemptEnd::Succeeded { output };
                    Some(Report { run: perform.run, token: perform.token, end })
                }
                Effect::Cancel { .. } | Effect::Claimed { .. } => None,
            }));
            if reports.is_empty() {
                return;
            }
        }
    }

    async fn runs(&self) -> usize {
        let query = RunQuery { limit: 10_000, ..RunQuery::default() };
        self.store().runs(query).await.unwrap().items.len()
    }
}

fn moment(now: Timestamp) -> Moment {
    Moment::new(now, now)
}

#[tokio::test]
async fn history_goes_when_it_has_been_kept_long_enough() {
    let house = House::new().await;
    // More than fit into two batches.
    house.schedules(1_100).await;
    house.pass(SignedDuration::from_hours(1));
    house.settle().await;
    assert_eq!(house.runs().await, 1_100);
    house.pass(SignedDuration::from_hours(29 * 24));
    house.settle().await;
    let retention = Retention::default();
    assert_eq!(retention.run_once(&house.hub).await.unwrap().rows, 0);
    assert_eq!(house.runs().await, 2_200);
    house.pass(SignedDuration::from_hours(25));
    assert_eq!(retention.run_once(&house.hub).await.unwrap().rows, 2_200, "runs and their rows");
    assert_eq!(house.runs().await, 1_100);
    assert_eq!(retention.run_once(&house.hub).await.unwrap().rows, 0);
}

#[tokio::test]
async fn history_is_looked_at_as_often_as_the_shortest_retention_needs() {
    let house = House::new().await;
    let retention = Retention::default();
    let hour = SignedDuration::from_hours(1);
    // A node of a shared store is never idle, and looks again after each pause.
    let is_shared = house.store().lease().is_some();
    let waits = |removed: Removed| removed.next.map(|at| at.duration_since(house.hub.now()));
    let idle = retention.run_once(&house.hub).await.unwrap();
    assert_eq!((idle.rows, idle.pause), (0, hour));
    assert!(is_shared || idle.next.is_none(), "{idle:?}");
    house.schedules(1).await;
    house.pass(hour);
    house.settle().await;
    // The stored rows do not become old for days.
    let month = retention.run_once(&house.hub).await.unwrap();
    assert_eq!((month.rows, month.pause), (0, hour));
    assert!(is_shared || waits(month).unwrap() > hour * 24 * 7, "{month:?}");
    house.declare(1, r#"{"name": "b", "cron": "0 * * * *", "retention": "5m"}"#).await;
    house.pass(hour);
    house.settle().await;
    let soon = retention.run_once(&house.hub).await.unwrap();
    assert_eq!((soon.rows, soon.pause), (0, SignedDuration::from_secs(150)));
    assert!(waits(soon).unwrap() <= SignedDuration::from_mins(5) + hour / 3_600, "{soon:?}");
    house.pass(SignedDuration::from_mins(6));
    assert_eq!(retention.run_once(&house.hub).await.unwrap().rows, 2, "a run and its row");
}

#[tokio::test]
async fn next_times_follow_a_new_zone_database_once() {
    let house = House::new().await;
    assert_eq!(NextTimes::default().run_once(&house.hub).await.unwrap(), 0);
    // More than fit into one batch.
    let ids = house.schedules(1_500).await;
    assert_eq!(
        NextTimes::default().run_once(&house.hub).await.unwrap(),
        0,
        "they are of this release"
    );
    // As if a program with an older zone database had computed them.
    let after = *ids.last().unwrap();
    assert_eq!(house.store().outdated("1999a", after, 1).await.unwrap(), []);
    assert_eq!(NextTimes::default().run_once(&house.hub).await.unwrap(), 1_500);
    assert_eq!(NextTimes::default().run_once(&house.hub).await.unwrap(), 0);
}
