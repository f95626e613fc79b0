//! Connections that fall silent: nobody waits for an answer for ever, and unknown outcomes are
//! reported.

use std::sync::Arc;
use std::time::Duration;

use calendar::Zones;
use engine::turn::{Answer, Capacity, Command, NewRun, Starter};
use engine::{Moment, NodeId, WorkflowId};
use store::{
    CommandRequest, Failure, Idempotency, Postgres, PostgresClock, PostgresOptions, RenewRequest,
    RunQuery, Store, TurnRequest, Turned,
};
use testbed::{Cluster, Proxy};
use tokio::sync::mpsc;

use crate::postgres::Schema;
use crate::world::{World, minute};

/// A test that takes longer than this hangs.
const PATIENCE: Duration = Duration::from_secs(120);

/// A store that is reached through a proxy.
struct Far {
    store: Arc<dyn Store>,
    node: NodeId,
    workflow: WorkflowId,
    proxy: Proxy,
    schema: Schema,
}

impl Far {
    async fn new() -> Far {
        let schema = Schema::new();
        let world = World::new(Box::new(schema.clone())).await;
        let text = "name: w\nconcurrency: 10\nsteps: [{id: a, type: noop}]\n";
        let workflow = world.publish(0, text).await;
        let proxy = Proxy::start(schema.port()).unwrap();
        let options = PostgresOptions {
            url: schema.url_through(proxy.port()),
            connect_timeout: Duration::from_secs(2),
            statement_timeout: Duration::from_secs(1),
            // One connection of each, so that the next query uses a connection that is silent.
            commands: 1,
            readers: 1,
            ..schema.options()
        };
        let store: Arc<dyn Store> =
            Arc::new(Postgres::open(Zones::bundled(), options).await.unwrap());
        let node = store.join("far", Moment::new(minute(1), minute(1))).await.unwrap().node;
        let far = Far { store, node, workflow, proxy, schema };
        // Opens every kind of connection.
        far.turn().await.unwrap();
        far.start(1).await.unwrap();
        far.runs().await.unwrap();
        far
    }

    async fn turn(&self) -> Result<Turned, Failure> {
        let request = TurnRequest {
            moment: Moment::new(minute(1), minute(0)),
            node: self.node,
            reports: Vec::new(),
            limit: 100,
            begin: None,
            held: Default::default(),
            capacity: Capacity::new(0),
            performed: None,
            traced: false,
        };
        self.store.turn(request).await
    }

    async fn start(&self, id: u128) -> Result<Answer, Failure> {
        let run = NewRun {
            id,
            payload: None,
            by: Starter::Caller("test".to_owned()),
            trace: None,
            if_busy: Default::default(),
        };
        let request = CommandRequest {
            command: Command::StartWorkflow { id: self.workflow, run },
            moment: Moment::new(minute(1), minute(1)),
            node: self.node,
            // With this key, a repeated command takes effect once.
            idempotency: Some(Idempotency { key: format!("start {id}"), fingerprint: [0; 32] }),
            traced: false,
            audit: None,
        };
        self.store.command(request).await.map(|commanded| commanded.answer)
    }

    async fn renew(&self) -> Result<(), Failure> {
        let moment = Moment::new(minute(1), minute(1));
        let request = RenewRequest { node: self.node, moment, capacity: 1, performed: Vec::new() };
        self.store.renew(request).await.map(drop)
    }

    async fn runs(&self) -> Result<usize, Failure> {
        let query = RunQuery { limit: 100, ..RunQuery::default() };
        Ok(self.store.runs(query).await?.items.len())
    }

    async fn all_silent(&self) {
        assert!(self.proxy.fall_silent() > 3);
    }
}

/// Checks a request on a silent connection: it fails, nothing of it is stored, and the next one
/// succeeds.
async fn check<T: std::fmt::Debug>(far: &Far, ask: impl AsyncFn(&Far) -> Result<T, Failure>) {
    far.all_silent().await;
    let ended = tokio::time::timeout(PATIENCE, ask(far)).await.expect("it is not waited for");
    let said = ended.expect_err("nobody has answered").to_string();
    assert!(said.contains("has not answered for"), "{said}");
    ask(far).await.unwrap();
}

#[tokio::test]
async fn a_turn_on_a_silent_connection_ends() {
    let far = Far::new().await;
    // There are three connections for turns, and a turn takes any free one: three concurrent turns
    // use all.
    check(&far, async |far| {
        for _ in 0..10 {
            tokio::try_join!(far.turn(), far.turn(), far.turn())?;
        }
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn a_command_on_a_silent_connection_ends() {
    let far = Far::new().await;
    check(&far, async |far| far.start(2).await).await;
    assert_eq!(far.runs().await.unwrap(), 2);
}

#[tokio::test]
async fn a_view_on_a_silent_connection_ends() {
    let far = Far::new().await;
    check(&far, async |far| far.runs().await).await;
}

#[tokio::test]
async fn a_renewal_on_a_silent_connection_ends() {
    let far = Far::new().await;
    check(&far, async |far| far.renew().await).await;
}

#[tokio::test]
async fn a_commit_without_an_answer_is_in_doubt() {
    let far = Far::new().await;
    far.proxy.swallow_commits(1);
    let ended = tokio::time::timeout(PATIENCE, far.start(2)).await.expect("it is not waited for");
    assert!(matches!(ended, Err(Failure::Unknown(_))), "{ended:?}");
    assert_eq!(far.proxy.swallowed(), 1);
    // The start was committed, and a repeated one takes effect once.
    assert_eq!(far.runs().await.unwrap(), 2);
    far.start(2).await.unwrap();
    assert_eq!(far.runs().await.unwrap(), 2);
}

#[tokio::test]
async fn a_listener_that_hears_nothing_any_more_listens_again() {
    let far = Far::new().await;
    let (told, mut heard) = mpsc::unbounded_channel();
    far.store.on_call(Box::new(move |call| told.send(call).unwrap_or_default()));
    let call = format!("SELECT pg_notify('punctual', 'look 999 {}')", far.schema.name());
    let hears = async |heard: &mut mpsc::UnboundedReceiver<store::Call>| {
        // Notifications are lost while nobody listens.
        while tokio::time::timeout(Duration::from_millis(200), heard.recv()).await.is_err() {
            far.schema.execute(&call).await;
        }
    };
    tokio::time::timeout(PATIENCE, hears(&mut heard)).await.expect("it listens");
    far.all_silent().await;
    while heard.try_recv().is_ok() {}
    tokio::time::timeout(PATIENCE, hears(&mut heard)).await.expect("it listens again");
}

/// A store in a cluster, as a role with these settings.
async fn as_role(cluster: &Cluster, settings: &[&str]) -> Postgres {
    cluster.ask("CREATE ROLE app SUPERUSER LOGIN").unwrap();
    for setting in settings {
        cluster.ask(&format!("ALTER ROLE app SET {setting}")).unwrap();
    }
    let url = cluster.url().replace("//punctual@", "//app@");
    let options = PostgresOptions {
        clock: PostgresClock::Caller,
        commands: 1,
        readers: 1,
        // A renewal may take a fifth of it: longer than any lock is held here.
        lease: jiff::SignedDuration::from_secs(60),
        ..PostgresOptions::new(url)
    };
    Postgres::open(Zones::bundled(), options).await.unwrap()
}

/// A role may bring settings that would end the transactions of a node or its connections.
#[tokio::test]
async fn limits_of_the_role_do_not_count() {
    let cluster = Arc::new(Cluster::builder().fsync(false).start().unwrap());
    let limits =
        ["lock_timeout = '1ms'", "idle_session_timeout = '3s'", "statement_timeout = '1s'"];
    let store = as_role(&cluster, &limits).await;
    let now = Moment::new(minute(0), minute(0));
    let node = store.join("node", now).await.unwrap().node;
    let sessions = "SELECT string_agg(pid::text, ',' ORDER BY pid) FROM pg_stat_activity
                    WHERE usename = 'app'";
    let before = cluster.ask(sessions).unwrap();
    // Another session holds a lock for longer than the role's settings would allow a session to be
    // idle.
    let holder = cluster.clone();
    let hold = "BEGIN; LOCK punctual.nodes; SELECT pg_sleep(4); COMMIT";
    let holding = tokio::task::spawn_blocking(move || holder.ask(hold).unwrap());
    let is_held = "SELECT count(*) FROM pg_locks WHERE mode = 'AccessExclusiveLock' AND granted
                   AND relation = 'punctual.nodes'::regclass";
    while cluster.ask(is_held).unwrap() != "1" {}
    let request = RenewRequest { node, moment: now, capacity: 1, performed: Vec::new() };
    store.renew(request).await.unwrap();
    holding.await.unwrap();
    assert_eq!(cluster.ask(sessions).unwrap(), before, "a connection was ended meanwhile");
}

#[tokio::test]
async fn what_is_acknowledged_survives_a_crash_although_the_role_does_not_wait_for_the_disk() {
    let cluster = Cluster::builder().fsync(false).start().unwrap();
    let store = as_role(&cluster, &["synchronous_commit = off"]).await;
    let moment = Moment::new(minute(0), minute(0));
    for round in 0..5_u32 {
        let name = format!("{round}");
        // A connection from before the crash fails once.
        let node = loop {
            match store.join(&name, moment).await {
                Ok(joined) => break joined.node,
                Err(failure) => assert!(matches!(failure, Failure::Unavailable(_)), "{failure}"),
            }
        };
        cluster.restart_immediate().unwrap();
        let known = format!("SELECT count(*) FROM punctual.nodes WHERE id = {}", node.0);
        assert_eq!(cluster.ask(&known).unwrap(), "1", "it was acknowledged in round {round}");
    }
}
