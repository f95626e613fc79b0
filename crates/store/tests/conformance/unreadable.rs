//! One value that cannot be read, in any column that turns decode: what it belongs to is set aside
//! or passed over, everything else goes on, and `check` names it.

use engine::schedule::OverrideAction;
use engine::turn::{Capacity, Command, Perform};
use engine::{Moment, ScheduleId};
use serde_json::json;
use store::{Failure, TurnRequest};

use crate::messages::{gave, only, plain};
use crate::set_aside::aside;
use crate::world::{Place, World, begun, minute, performs, succeeded};

/// Columns of a table, each with a value that cannot be read, and the code of the finding.
struct Columns {
    table: &'static str,
    code: &'static str,
    /// Which rows are damaged.
    which: &'static str,
    values: &'static [(&'static str, &'static str)],
}

const FAR: &str = "9223372036854775807";

const ALL: [Columns; 10] = [
    Columns {
        table: "workflows",
        code: "workflow-unreadable",
        which: "name = 'vic'",
        values: &[
            ("status", "9"),
            ("newest", "-1"),
            ("live", "-1"),
            ("concurrency", "-1"),
            ("active", "-1"),
            ("created_at", FAR),
            ("updated_at", FAR),
        ],
    },
    Columns {
        table: "schedules",
        code: "schedule-unreadable",
        which: "id = 2",
        values: &[
            ("status", "9"),
            ("declared", "'{'"),
            ("declared", r#"'{"a": 1}'"#),
            ("created_at", FAR),
            ("updated_at", FAR),
        ],
    },
    Columns {
        table: "progress",
        code: "schedule-unreadable",
        which: "id = 2",
        values: &[
            ("anchor", FAR),
            ("mark", FAR),
            ("n", "-1"),
            ("next_nominal", FAR),
            ("next_effective", FAR),
            ("current_repeat", "-1"),
            ("current_retry", "-1"),
            ("run_count", "-1"),
            ("error_count", "-1"),
            ("last_run_at", FAR),
            ("live", "'['"),
            ("recomputed_at", FAR),
            ("renewed_at", FAR),
        ],
    },
    Columns {
        table: "overrides",
        code: "override-unreadable",
        which: "schedule = 2",
        values: &[("action", "'zz'")],
    },
    Columns {
        table: "overrides",
        code: "set-aside",
        which: "schedule = 2",
        values: &[("nominal", FAR)],
    },
    Columns {
        table: "revisions",
        code: "version-unreadable",
        which: "workflow = 2",
        values: &[("definition", "'{'")],
    },
    Columns {
        table: "{open}",
        code: "run-unreadable",
        which: "workflow = 2",
        values: &[
            ("state", "'{garb'"),
            ("version", "-1"),
            ("triggered_by", "99"),
            ("nominal", FAR),
            ("effective", FAR),
            ("created_at", FAR),
            ("started_at", FAR),
            ("input", "'['"),
            ("output", "'['"),
            ("error", "'['"),
        ],
    },
    Columns {
        table: "handlers",
        code: "handler-unreadable",
        which: "name = 'c'",
        values: &[
            ("kind", "9"),
            ("state", "'{'"),
            ("cause", "99"),
            ("wake_at", FAR),
            ("retry_at", FAR),
            ("failures", "-1"),
            ("last_run_at", FAR),
            ("last_outcome", "99"),
            ("runs", "-1"),
        ],
    },
    Columns {
        table: "topics",
        code: "topic-counts",
        which: "name = 't'",
        values: &[("pending", "-1"), ("reserved", "-1")],
    },
    Columns {
        table: "topics",
        code: "set-aside",
        which: "name = 't'",
        values: &[("max_attempts", "-1"), ("created_at", FAR)],
    },
];

/// A node as the server drives it: what it performs succeeds at once, what cannot be decided is set
/// aside, and after each failure its attempts are in doubt.
pub(crate) struct Node {
    performing: Vec<Perform>,
    in_doubt: bool,
}

impl Node {
    pub(crate) fn new() -> Node {
        Node { performing: Vec::new(), in_doubt: false }
    }

    /// Takes turns until nothing is left to do. Returns the runs that began.
    pub(crate) async fn drive(&mut self, world: &World, at: i64, what: &str) -> Vec<String> {
        let (mut began, mut single, mut rescan) = (Vec::new(), 0, true);
        for _ in 0..300 {
            let is_single = single > 0;
            let reported = if is_single { 1 } else { usize::MAX };
            let reports: Vec<_> = self.performing.iter().take(reported).map(succeeded).collect();
            let limit = if is_single { usize::from(reports.is_empty()) } else { 1_000 };
            let held = self.performing.iter().map(|one| (one.run, one.token)).collect();
            let request = TurnRequest {
                moment: Moment::new(minute(at), world.awake_since),
                node: world.node,
                limit,
                begin: None,
                held: Default::default(),
                capacity: Capacity { rescan: rescan && !is_single, ..Capacity::new(2_000) },
                performed: self.in_doubt.then_some(held),
                traced: false,
                reports,
            };
            let reported = request.reports.len();
            match world.store().turn(request).await {
                Ok(turned) => {
                    self.in_doubt = false;
                    self.performing.drain(..reported);
                    began.extend(begun(&turned));
                    self.performing.extend(performs(&turned));
                    let is_due = turned.next_wakeup.is_some_and(|next| next <= minute(at));
                    rescan = rescan && is_single || turned.capacity.rescan;
                    if !is_due && !rescan && self.performing.is_empty() {
                        return began;
                    }
                    single = if is_single { single - 1 } else { 0 };
                }
                Err(Failure::Undecidable { what: Some(what), why }) => {
                    world.store().set_aside(what, &why, minute(at)).await.unwrap();
                    self.in_doubt = true;
                }
                Err(Failure::Undecidable { what: None, .. }) if !is_single => {
                    (single, self.in_doubt) = (20, true);
                }
                Err(failure) => panic!("{what}: {failure}"),
            }
        }
        panic!("{what}: there is always more to do");
    }
}

/// A store with a good schedule, a bad one with an override, a run of the latter that waits, and a
/// consumer that sleeps until minute 4. Returns the good schedule.
async fn with_work(world: &World) -> ScheduleId {
    let good = world.workflow("good").await;
    let good = world.schedule(good, r#"{"name": "good", "interval": "1m"}"#).await;
    let timer =
        "name: vic\nsteps: [{id: w, type: timer, delay: 3m}, {id: a, type: noop, depends_on: w}]";
    let vic = world.publish(0, timer).await;
    let fields = r#"{"name": "vic", "interval": "1m", "overlap": "allow"}"#;
    let bad = world.schedule(vic, fields).await;
    assert_eq!((vic.0, bad.0), (2, 2));
    let (nominal, action) = (minute(60), Some(OverrideAction::Skip));
    let by = "ada".to_owned();
    world.command(0, Command::Override { id: bad, nominal, action, by }).await;
    world.deploy(0, plain("consumes")).await;
    world.tell(0, "t", &["a"]).await;
    let turned = world.turn(0).await;
    let sleep = json!({"wakeAt": minute(4).to_string()});
    world.turn_with(0, vec![gave(&only(&turned), &sleep)]).await;
    good
}

/// Plants each value in a store of its own. If `joins`, the node joins again afterwards; else it
/// goes on with what it has cached.
pub(crate) async fn each(new_place: impl Fn() -> Box<dyn Place>, joins: bool) {
    let mut wrong = Vec::new();
    for Columns { table, code, which, values } in ALL {
        for (column, value) in values {
            let sql = format!("UPDATE {table} SET {column} = {value} WHERE {which}");
            wrong.extend(one(&sql, code, new_place(), joins).await);
        }
    }
    assert_eq!(wrong, [] as [String; 0]);
}

async fn one(sql: &str, code: &str, place: Box<dyn Place>, joins: bool) -> Vec<String> {
    let mut world = World::new(place).await;
    let good = with_work(&world).await;
    let mut node = Node::new();
    node.drive(&world, 1, sql).await;
    world.place().execute(sql.to_owned()).await;
    if joins {
        world.join(1).await;
    }
    let mut wrong = Vec::new();
    for at in 2..=6 {
        let began = node.drive(&world, at, sql).await;
        let expected = format!("sched-{good}-n{}-rc0", at - 1);
        if !began.contains(&expected) {
            wrong.push(format!("{sql}: nothing of {expected} at minute {at}: {began:?}"));
        }
    }
    let aside = aside(&world).await;
    if aside.contains(&("schedule", good.to_string())) {
        wrong.push(format!("{sql}: set aside {aside:?}"));
    }
    let found = world.store().check(minute(6), false).await.unwrap();
    if !found.iter().any(|finding| finding.code == code) {
        let found: Vec<&str> = found.iter().map(|finding| finding.code).collect();
        wrong.push(format!("{sql}: no {code} in {found:?} (aside {aside:?})"));
    }
    wrong
}

/// A schedule counts an occurrence that has ended a second time: its run, which cannot end, is set
/// aside while this node performs it. The node goes on, in later turns, and after it joins again.
pub(crate) async fn a_run_that_cannot_end_stops_no_node(place: Box<dyn Place>) {
    let mut world = World::new(place).await;
    let workflow = world.workflow("w").await;
    let fields = r#"{"name": "s", "interval": "1m", "overlap": "allow"}"#;
    let good = world.schedule(workflow, fields).await;
    let bad = world.schedule(workflow, fields).await;
    let mut node = Node::new();
    for at in 1..=3 {
        node.drive(&world, at, "before").await;
    }
    world.place().execute(format!("UPDATE progress SET n = n - 2 WHERE id = {bad}")).await;
    for at in 4..=9 {
        if at == 7 {
            world.store().check(minute(6), true).await.unwrap();
            world.join(7).await;
            node = Node::new();
        }
        let began = node.drive(&world, at, "after").await;
        assert!(began.contains(&format!("sched-{good}-n{}-rc0", at - 1)), "{at}: {began:?}");
    }
    let aside = aside(&world).await;
    assert!(!aside.is_empty());
    assert!(aside.iter().all(|(kind, id)| *kind == "run" || *id == bad.to_string()), "{aside:?}");
}
