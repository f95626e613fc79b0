//! The store that many nodes share: how the suite opens it.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use calendar::Zones;
use engine::turn::{Answer, Command};
use futures_util::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};
use store::{Failure, Postgres, PostgresClock, PostgresOptions, RunQuery, Store};
use tokio_postgres::NoTls;

use crate::damage;
use crate::unreadable;
use crate::world::{Place, World, codes, minute, performs, succeeded};

/// A schema with a store, in the database for tests. It is dropped with its last handle.
#[derive(Clone)]
pub(crate) struct Schema(Arc<Named>);

struct Named {
    url: String,
    name: String,
}

impl Schema {
    pub(crate) fn new() -> Schema {
        Schema::at(testbed::shared_url().expect("a PostgreSQL"))
    }

    /// A schema in another database.
    pub(crate) fn at(url: String) -> Schema {
        static GIVEN: AtomicU32 = AtomicU32::new(0);
        let given = GIVEN.fetch_add(1, Ordering::Relaxed);
        let name = format!("conformance_{}_{given}", std::process::id());
        Schema(Arc::new(Named { url, name }))
    }

    pub(crate) fn name(&self) -> &str {
        &self.0.name
    }

    /// The port of the database.
    pub(crate) fn port(&self) -> u16 {
        let config: tokio_postgres::Config = self.0.url.parse().unwrap();
        config.get_ports().first().copied().unwrap_or(5_432)
    }

    /// The same database through another port on the loopback interface.
    pub(crate) fn url_through(&self, port: u16) -> String {
        let own = format!(":{}/", self.port());
        assert!(self.0.url.contains(&own), "{} names no port", self.0.url);
        self.0.url.replace(&own, &format!(":{port}/"))
    }

    pub(crate) fn options(&self) -> PostgresOptions {
        PostgresOptions {
            schema: self.0.name.clone(),
            clock: PostgresClock::Caller,
            lease: SignedDuration::from_hours(1_000),
            commands: 2,
            readers: 2,
            ..PostgresOptions::new(self.0.url.clone())
        }
    }

    pub(crate) async fn open(&self) -> Result<Arc<dyn Store>, Failure> {
        Ok(Arc::new(Postgres::open(Zones::bundled(), self.options()).await?))
    }

    /// Runs a statement in the schema.
    pub(crate) async fn execute(&self, sql: &str) {
        say(&self.0.url, &format!("SET search_path = {}; {sql}", self.0.name)).await;
    }

    /// Runs a query that returns a number.
    pub(crate) async fn number(&self, sql: &str) -> i64 {
        let (client, connection) = tokio_postgres::connect(&self.0.url, NoTls).await.unwrap();
        let talk = tokio::spawn(connection);
        let set = format!("SET search_path = {}", self.0.name);
        client.batch_execute(&set).await.unwrap();
        let answer = client.query_one(sql, &[]).await.unwrap().get(0);
        drop(client);
        talk.await.unwrap().unwrap();
        answer
    }
}

async fn say(url: &str, sql: &str) {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    let talk = tokio::spawn(connection);
    client.batch_execute(sql).await.unwrap();
    drop(client);
    talk.await.unwrap().unwrap();
}

impl Drop for Named {
    fn drop(&mut self) {
        let (url, sql) = (self.url.clone(), format!("DROP SCHEMA IF EXISTS {} CASCADE", self.name));
        let dropped = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.unwrap().block_on(say(&url, &format!("SET lock_timeout = '5s'; {sql}")));
        });
        let dropped = dropped.join();
        assert!(dropped.is_ok() || std::thread::panicking(), "{} is left behind", self.name);
    }
}

impl Place for Schema {
    fn open(&self) -> BoxFuture<'_, Result<Arc<dyn Store>, Failure>> {
        Box::pin(self.open())
    }

    fn end_leases(&self, at: Timestamp) -> BoxFuture<'_, ()> {
        let last = at.as_millisecond() - 1;
        Box::pin(async move {
            self.execute(&format!("UPDATE nodes SET lease_until = least(lease_until, {last})"))
                .await;
        })
    }

    fn execute(&self, sql: String) -> BoxFuture<'_, ()> {
        let values = [("{open}", "open_runs"), ("{ended}", "ended_runs"), ("{bytes}", "'\\x00'")];
        let values = values.into_iter().chain([("{yes}", "true"), ("{no}", "false")]);
        let sql = values.fold(sql, |sql, (name, value)| sql.replace(name, value));
        Box::pin(async move { self.execute(&sql).await })
    }

    fn path_for_copy(&self) -> Option<PathBuf> {
        None
    }

    fn open_copy(&self) -> Result<Arc<dyn Store>, Failure> {
        unreachable!("there is no path for one")
    }
}

/// Makes all attempts those of a node that does not exist.
const LOST: &str = r#"UPDATE open_runs SET state = regexp_replace(state, '"o":\d+', '"o":999'),
     owners = '{999}' WHERE status = 1"#;

/// Tables with rows of runs.
pub(crate) const OF_RUNS: [&str; 5] = ["steps", "attempts", "queue", "approvals", "alerts"];

/// Damage to rows of what waits: the statement, the code of the finding, and whether it is mended.
pub(crate) const OF_WHAT_WAITS: [(&str, &str, bool); 11] = [
    (
        "INSERT INTO queue (run, step, item, queue) VALUES (999, 0, 0, 'q')",
        "queue-of-nothing",
        true,
    ),
    ("UPDATE queue SET step = 1", "queue-of-nothing", true),
    ("UPDATE queue SET item = -3", "queue-of-nothing", true),
    ("UPDATE queue SET queue = 'other'", "queue-of-nothing", true),
    ("UPDATE queue SET queue = 'other'", "queue-missing", true),
    ("DELETE FROM queue", "queue-missing", true),
    (
        "INSERT INTO approvals (run, step, title, assignees, asked_at) VALUES (999, 0, '', '[]', 0)",
        "approval-of-nothing",
        true,
    ),
    (
        "INSERT INTO approvals (run, step, title, assignees, asked_at)
         SELECT run, 0, '', '[]', 0 FROM approvals",
        "approval-of-nothing",
        true,
    ),
    ("DELETE FROM approvals", "approval-missing", false),
    ("UPDATE open_runs SET waits_for_slot = false", "run-without-slot", true),
    (r#"UPDATE open_runs SET state = '{"s":"a","t":1}' WHERE status = 2"#, "run-at-rest", false),
];

/// Ends all runs, and expires them.
pub(crate) async fn end_all(world: &World) {
    let query = RunQuery { limit: 100, ..RunQuery::default() };
    for view in world.store().runs(query).await.unwrap().items {
        if !world.status(&view.run.id).await.has_ended() {
            world.cancel(61, &view.run.id).await;
        }
    }
    world.settle(62).await;
    while world.store().expire(minute(90), SignedDuration::ZERO, 10).await.unwrap().more {}
    assert_eq!(world.runs().await, Vec::<String>::new());
}

/// Damages a store by hand: the damage is found, and mended where that is possible.
async fn check(breach: &str, code: &str, is_mended: bool) {
    let schema = Schema::new();
    let world = World::busy(Box::new(schema.clone())).await;
    check_in(&schema, &world, breach, code, is_mended).await;
}

async fn check_in(schema: &Schema, world: &World, breach: &str, code: &str, is_mended: bool) {
    assert_eq!(codes(world.store().check(minute(60), false).await.unwrap()), []);
    schema.execute(breach).await;
    let found = codes(world.store().check(minute(60), false).await.unwrap());
    assert!(found.contains(&(code, false)), "{breach}: {found:?}");
    let found = codes(world.store().check(minute(60), true).await.unwrap());
    assert!(found.contains(&(code, is_mended)), "{breach}: {found:?}");
    if is_mended {
        // Other findings of the same damage that cannot be mended are still reported.
        let left = codes(world.store().check(minute(60), false).await.unwrap());
        assert!(left.iter().all(|(left, _)| *left != code), "{breach}: {left:?}");
    }
}

#[tokio::test]
async fn each_breach_is_found_and_mended_where_it_can_be() {
    let twice = "INSERT INTO ended_runs SELECT * FROM open_runs WHERE status = 1";
    let of_nothing = "CREATE TABLE copied AS SELECT * FROM progress; UPDATE copied SET id = 999;
                      INSERT INTO progress SELECT * FROM copied; DROP TABLE copied";
    let again = "INSERT INTO ended_runs SELECT * FROM open_runs WHERE n IS NOT NULL;
                 UPDATE ended_runs SET key = key + 1000000";
    for (breach, code, is_mended) in [
        ("DELETE FROM progress", "schedule-without-progress", false),
        ("UPDATE progress SET version = version + 1", "versions", true),
        ("UPDATE progress SET live = NULL, wake_at = NULL", "schedule-without-wakeup", true),
        ("UPDATE progress SET live = NULL, wake_at = 7", "schedule-without-wakeup", true),
        ("UPDATE progress SET wake_at = wake_at + 2", "schedule-without-wakeup", true),
        (
            "UPDATE progress SET next_nominal = NULL, next_effective = NULL, live = NULL",
            "schedule-without-next-time",
            true,
        ),
        (of_nothing, "wakeup-of-nothing", true),
        (LOST, "run-without-owner", true),
        ("UPDATE open_runs SET owners = NULL WHERE status = 1", "run-owners", true),
        ("UPDATE open_runs SET owners = '{999}' WHERE status = 1", "run-owners", true),
        ("UPDATE open_runs SET wake_at = NULL", "run-without-wakeup", true),
        (twice, "run-twice", true),
        (again, "occurrence-with-two-runs", false),
        ("UPDATE ledger SET run = NULL", "occurrence-without-run", false),
        ("UPDATE schedule_counts SET count = 7", "counts", true),
        ("UPDATE schedule_counts SET status = 3", "counts", true),
        ("UPDATE schedule_blocks SET count = count + 1", "block-counts", true),
        ("UPDATE schedule_blocks SET block = block + 1", "block-counts", true),
        ("UPDATE workflows SET active = 7 WHERE concurrency = 2", "active-count", true),
    ] {
        check(breach, code, is_mended).await;
    }
}

fn schema() -> Box<dyn Place> {
    Box::new(Schema::new())
}

#[tokio::test]
async fn damage_of_progress_is_found_and_mended() {
    damage::each(&damage::DAMAGES[..21], schema).await;
}

#[tokio::test]
async fn damage_of_history_is_found() {
    damage::each(&damage::DAMAGES[21..37], schema).await;
}

#[tokio::test]
async fn lost_topics_leave_no_events_to_others() {
    damage::lost_topics_leave_no_events_to_others(schema()).await;
}

#[tokio::test]
async fn damage_of_what_is_read_is_found() {
    damage::each(&damage::DAMAGES[37..], schema).await;
}

#[tokio::test]
async fn damage_of_a_database_is_found() {
    use damage::{Clean, History, Told, damage, history};
    let twice = "DROP INDEX ended_runs_by_occurrence;
                 CREATE TABLE copied AS SELECT * FROM ended_runs WHERE n = 1;
                 UPDATE copied SET key = key + 1000000;
                 INSERT INTO ended_runs SELECT * FROM copied; DROP TABLE copied";
    let other =
        "DROP INDEX open_runs_by_uuid; CREATE INDEX open_runs_by_uuid ON open_runs (status)";
    let trigger = "CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
                   CREATE TRIGGER t BEFORE INSERT ON ledger FOR EACH ROW EXECUTE FUNCTION f()";
    let damages = [
        history("DROP INDEX open_runs_by_occurrence", "schema", Clean),
        history("UPDATE ended_runs SET last_steps = NULL WHERE n = 2", "steps-gone", Told),
        history("UPDATE ended_runs SET last_steps = '[' WHERE n = 2", "steps-gone", Told),
        history("DROP INDEX ended_runs_by_occurrence", "schema", Clean),
        history("DROP INDEX progress_by_wakeup", "schema", Clean),
        history(other, "schema", Clean),
        damage(History, twice, "occurrence-with-two-runs", Told),
        damage(History, twice, "schema", Told),
        damage(History, trigger, "schema", Told),
        history(
            "INSERT INTO topics (id, name, max_attempts, pending, reserved, consumed, skipped,
                 created_at) VALUES (900, 'x', 1, 0, 0, 0, 0, 0)",
            "sequence-behind",
            Clean,
        ),
    ];
    damage::each(&damages, schema).await;
}

#[tokio::test]
async fn a_store_without_an_index_behind_exactly_once_is_refused() {
    for index in ["open_runs_by_occurrence", "ended_runs_by_occurrence"] {
        damage::nobody_joins_without(index, schema()).await;
    }
}

#[tokio::test]
async fn each_breach_of_what_waits_is_found() {
    for (breach, code, is_mended) in OF_WHAT_WAITS {
        let schema = Schema::new();
        let world = World::waiting(Box::new(schema.clone())).await;
        check_in(&schema, &world, breach, code, is_mended).await;
    }
}

#[tokio::test]
async fn each_breach_of_topics_is_found() {
    // Tables of the shared store alone: wakeups in the rows of handlers, and messages beside their
    // events.
    let own = [
        ("UPDATE handlers SET due = NULL", "handler-without-wakeup", true),
        ("UPDATE handlers SET due = due + 1", "handler-without-wakeup", true),
        ("UPDATE handlers SET wake_at = NULL, retry_at = NULL", "handler-without-wakeup", true),
        ("DELETE FROM messages", "event-without-message", false),
        ("INSERT INTO messages (event, payload) VALUES (999, '1')", "message-of-nothing", true),
    ];
    for (breach, code, is_mended) in crate::broken_topics::OF_TOPICS.into_iter().chain(own) {
        let schema = Schema::new();
        let world = World::topical(Box::new(schema.clone())).await;
        check_in(&schema, &world, breach, code, is_mended).await;
    }
}

#[tokio::test]
async fn nothing_is_left_of_runs_that_have_expired() {
    let schema = Schema::new();
    let world = World::waiting(Box::new(schema.clone())).await;
    end_all(&world).await;
    for table in OF_RUNS {
        let none = format!("SELECT 1 / (count(*) = 0)::integer FROM {table}");
        schema.execute(&none).await;
    }
}

/// Rows that are there unexpectedly make a large turn use inserts instead of a copy.
#[tokio::test]
async fn what_is_there_against_expectation_is_replaced() {
    let schema = Schema::new();
    let world = World::new(Box::new(schema.clone())).await;
    let workflow = world.workflow("w").await;
    let new = (0..200).map(|_| world.new_schedule(workflow, r#"{"name": "s", "interval": "5m"}"#));
    let ids = match world.command(0, Command::CreateSchedules(new.collect())).await {
        Answer::Created(ids) => ids,
        other => panic!("{other:?}"),
    };
    let row = "INSERT INTO ledger VALUES ({}, 0, 1, 0, 0, 0, 0, 1, 'left over', NULL)";
    schema.execute(&row.replace("{}", &ids[7].0.to_string())).await;
    let begun = performs(&world.turn(5).await);
    assert_eq!(begun.len(), 200);
    assert_eq!(world.ledger(ids[7]).await, ["0 started 5"]);
    let row = "INSERT INTO steps VALUES ({}, 0, 0, 0, 7, 0, 0, NULL, NULL, NULL, false)";
    schema.execute(&row.replace("{}", &begun[3].run.0.to_string())).await;
    world.turn_with(6, begun.iter().map(succeeded).collect()).await;
    assert_eq!(world.run(&begun[3].run_id).await.steps[0].attempts, 1);
    world.holds_together().await;
}

#[tokio::test]
async fn a_mended_run_goes_on() {
    let schema = Schema::new();
    let world = World::busy(Box::new(schema.clone())).await;
    schema.execute(LOST).await;
    world.store().check(minute(60), true).await.unwrap();
    world.settle(61).await;
    let ended = world.runs().await.iter().filter(|run| run.ends_with("succeeded")).count();
    assert_eq!(ended, 3, "{:?}", world.runs().await);
}

/// An error of the database's disk is passed on, and nothing was stored.
#[tokio::test]
async fn a_full_disk_is_told_as_such() {
    use store::WriteFault::{Disk, DiskFull, ReadOnly};
    let schema = Schema::new();
    let world = World::new(Box::new(schema.clone())).await;
    for (code, fault) in [("53100", DiskFull), ("25006", ReadOnly), ("58030", Disk)] {
        let fail = format!(
            "CREATE OR REPLACE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS
               $$ BEGIN RAISE EXCEPTION 'could not extend file' USING ERRCODE = '{code}'; END $$;
             CREATE OR REPLACE TRIGGER fail BEFORE INSERT ON revisions
               FOR EACH ROW EXECUTE FUNCTION fail()"
        );
        schema.execute(&fail).await;
        let text = "name: w\nsteps: [{id: a, type: noop}]\n";
        let (source, definition) = (text.to_owned(), world.definition(text));
        let command = Command::SaveWorkflow { source, definition, publish: true, folder: None };
        let failure = world.try_command(0, command).await.unwrap_err();
        let is_so = matches!(&failure, Failure::NotWritten { fault: is, .. } if *is == fault);
        assert!(is_so, "{code}: {failure:?}");
        assert!(failure.to_string().contains("nothing was stored"), "{failure}");
        schema.execute("DROP TRIGGER fail ON revisions").await;
    }
    assert_eq!(schema.number("SELECT count(*) FROM workflows").await, 0);
}

#[tokio::test]
async fn tables_without_a_schema_version_are_refused_and_left_alone() {
    let schema = Schema::new();
    drop(schema.open().await.unwrap());
    schema.execute("DELETE FROM schema_versions").await;
    let Err(Failure::Unusable { what, remedy }) = schema.open().await.map(|_| ()) else {
        panic!("it opens");
    };
    assert!(what.contains("schema_versions"), "{what}");
    let (insert, _) = remedy.split_once("`; otherwise").expect("a statement");
    let (_, insert) = insert.split_once('`').expect("a statement");
    schema.execute(insert).await;
    schema.open().await.unwrap();
}

#[tokio::test]
async fn an_unreadable_value_stops_nothing_else() {
    unreadable::each(|| Box::new(Schema::new()), true).await;
}

#[tokio::test]
async fn an_unreadable_value_stops_no_node_that_runs() {
    unreadable::each(|| Box::new(Schema::new()), false).await;
}

#[tokio::test]
async fn a_run_that_cannot_end_stops_no_node() {
    unreadable::a_run_that_cannot_end_stops_no_node(Box::new(Schema::new())).await;
}
