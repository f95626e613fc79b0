//! The nodes, their store, and what is done to them.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use rusqlite::Connection;
use rustix::process::Signal;
use testbed::{Cluster, Proxy};

use super::client::{Client, HangsUp, Shared};
use super::flood::flood;
use super::history::Work;
use super::load;
use super::plan::Act;
use super::sink::Sink;
use super::work::{definition, orders};
use crate::chaos::load::created;
use crate::chaos::node::{Node, Setup};
use crate::chaos::until;
use crate::guard::Guard;
use crate::steps::{now, wall_millis};

/// A node that was killed comes back after this.
const ABSENCE: Duration = Duration::from_secs(1);
/// How long a node is held, or its connections are silent.
const STALL: Duration = Duration::from_secs(10);
/// While connections are silent, those that were made meanwhile are silenced so often.
const SILENCED_EVERY: Duration = Duration::from_millis(50);
/// How long after a fault work may be found lost and done again: leases run out, connections are
/// given up.
const AFTERMATH: i64 = 6_000;

/// How wrong the clocks of nodes on a shared store are, in seconds: the database's decides.
const CLOCKS: [i32; 3] = [0, 3_600, -1_800];
/// How long nodes are held while clients hang up, and how long they go on in between.
const HELD: Duration = Duration::from_millis(10);
const LET_GO: Duration = Duration::from_millis(15);
/// Clients that hang up at the same time, and clients that ask at the same time.
const IMPATIENT: u64 = 8;
const CROWD: u64 = 100;

/// A database with the proxies before it, one for each node.
struct Database {
    cluster: Cluster,
    proxies: Vec<Proxy>,
}

/// Nodes on one store.
pub(super) struct World {
    setups: Vec<Setup>,
    nodes: Vec<Option<Node>>,
    pub(super) shared: Arc<Shared>,
    /// Of nodes that share one.
    database: Option<Database>,
    guard: Arc<Guard>,
    /// How many crowds there were: each has names of its own.
    crowds: u64,
    /// The largest size of an embedded store's log that was seen.
    pub(super) log_bytes: u64,
}

impl World {
    /// One node on an embedded store.
    pub(super) fn embedded(binary: &Path) -> Result<World, String> {
        let guard = Arc::new(Guard::new()?);
        let url = guard.folder().join("punctual.db").display().to_string();
        let setup = setup(binary, url, guard.clone());
        World::start(vec![setup], guard, None)
    }

    /// Nodes that share a database, each behind a proxy of its own.
    pub(super) fn on(cluster: Cluster, binary: &Path, nodes: usize) -> Result<World, String> {
        let guard = Arc::new(Guard::new()?);
        let mut proxies = Vec::new();
        let mut setups = Vec::new();
        for _ in 0..nodes {
            let proxy = Proxy::start(cluster.port()).map_err(|why| why.to_string())?;
            // The proxy reads what passes.
            let url =
                format!("postgres://punctual@127.0.0.1:{}/punctual?sslmode=disable", proxy.port());
            let mut setup = setup(binary, url, guard.clone());
            let offset = CLOCKS[proxies.len() % CLOCKS.len()];
            setup.arguments.push(format!("--clock-offset={offset}"));
            setups.push(setup);
            proxies.push(proxy);
        }
        World::start(setups, guard, Some(Database { cluster, proxies }))
    }

    fn start(
        setups: Vec<Setup>,
        guard: Arc<Guard>,
        database: Option<Database>,
    ) -> Result<World, String> {
        let shared = Arc::new(Shared::new(setups.len(), Sink::start()?));
        let nodes = setups.iter().map(|_| None).collect();
        let mut world = World { setups, nodes, shared, database, guard, crowds: 0, log_bytes: 0 };
        for node in 0..world.setups.len() {
            world.start_node(node)?;
        }
        world.publish()?;
        Ok(world)
    }

    /// All workflows, before the load begins.
    fn publish(&self) -> Result<(), String> {
        let node = self.nodes.iter().flatten().next().ok_or("no node is there")?;
        let port = self.shared.sink.port;
        let definitions = Work::ALL.map(|work| definition(work, port, 1));
        for definition in definitions.into_iter().chain([orders(port)]) {
            created(node, "/api/v1/workflows?publish=true", &definition.to_string())?;
        }
        Ok(())
    }

    pub(super) fn count(&self) -> usize {
        self.setups.len()
    }

    /// Whether nodes share a store.
    pub(super) fn is_shared(&self) -> bool {
        self.database.is_some()
    }

    /// The store of the first node, as a path.
    pub(super) fn store(&self) -> PathBuf {
        PathBuf::from(&self.setups[0].url)
    }

    pub(super) fn setup(&self) -> &Setup {
        &self.setups[0]
    }

    /// A node that is there.
    pub(super) fn node(&self, node: usize) -> Result<&Node, String> {
        self.nodes[node].as_ref().ok_or_else(|| format!("node {node} is away"))
    }

    pub(super) fn address(&self, node: usize) -> Result<String, String> {
        Ok(self.node(node)?.address.clone())
    }

    /// Changes the store behind the nodes' backs.
    pub(super) fn execute(&self, sql: &str) -> Result<(), String> {
        let Some(database) = &self.database else {
            let store = Connection::open(self.store()).map_err(|why| why.to_string())?;
            return store.execute(sql, []).map(drop).map_err(|why| format!("{sql}: {why}"));
        };
        let sql = format!("SET search_path = punctual; {sql}");
        database.cluster.ask(&sql).map(drop).map_err(|why| why.to_string())
    }

    /// Where the logs of a node are.
    fn folder(&self, node: usize) -> PathBuf {
        self.guard.folder().join(format!("node-{node}"))
    }

    pub(super) fn start_node(&mut self, node: usize) -> Result<(), String> {
        let started = Node::start(&self.setups[node], &self.folder(node))?;
        self.shared.set_address(node, Some(started.address.clone()));
        self.nodes[node] = Some(started);
        Ok(())
    }

    /// Stops all nodes in order.
    pub(super) fn stop(&mut self) -> Result<(), String> {
        for node in 0..self.nodes.len() {
            self.shared.set_address(node, None);
            if let Some(node) = self.nodes[node].take() {
                node.signal(Signal::TERM)?;
                node.ended()?;
            }
        }
        Ok(())
    }

    /// Does it, and returns when it is over.
    pub(super) fn act(&mut self, act: Act) -> Result<(), String> {
        let begin = wall_millis();
        match act {
            Act::Kill(node) => {
                self.shared.set_address(node, None);
                self.nodes[node] = None;
                std::thread::sleep(ABSENCE);
                self.start_node(node)?;
            }
            Act::Stall(node) => {
                let held = self.node(node)?;
                held.signal(Signal::STOP)?;
                std::thread::sleep(STALL);
                held.signal(Signal::CONT)?;
            }
            Act::Restart(node) => {
                self.shared.set_address(node, None);
                let stopped = self.nodes[node].take().ok_or("a node is away")?;
                stopped.signal(Signal::TERM)?;
                stopped.ended()?;
                self.start_node(node)?;
            }
            Act::HangUps => self.hang_ups()?,
            Act::Flood => {
                let seen = flood(self.node(0)?, &self.store())?;
                self.log_bytes = self.log_bytes.max(seen);
            }
            Act::Crowd => {
                for client in self.crowd(CROWD, "crowd", load::one_of_a_crowd) {
                    client.join().map_err(|_| "a client panicked")?;
                }
            }
            Act::Silence(node) => {
                let proxy = &self.database()?.proxies[node];
                let begin = now();
                // New connections fall silent too, as long as it lasts.
                while begin.elapsed() < STALL {
                    proxy.fall_silent();
                    std::thread::sleep(SILENCED_EVERY);
                }
            }
            Act::SwallowCommit(node) => {
                let proxy = &self.database()?.proxies[node];
                let before = proxy.swallowed();
                proxy.cut_at_commits(1);
                until("a commit is swallowed", || Ok((proxy.swallowed() > before).then_some(())))?;
            }
            Act::Database => {
                let cluster = &self.database()?.cluster;
                cluster.restart_immediate().map_err(|why| why.to_string())?;
            }
        }
        if !matches!(act, Act::HangUps | Act::Crowd | Act::Flood) {
            self.shared.disturb(begin, wall_millis() + AFTERMATH, format!("{act:?}"));
        }
        Ok(())
    }

    fn database(&self) -> Result<&Database, String> {
        self.database.as_ref().ok_or_else(|| "an embedded store has no database".to_owned())
    }

    /// Nodes that do not acknowledge a start.
    pub(super) fn deaf_nodes(&self) -> Vec<String> {
        let addresses: Vec<String> =
            self.nodes.iter().flatten().map(|node| node.address.clone()).collect();
        let ask = |address: &String| {
            let client = Client::new(&self.shared, 0, format!("ear-{address}"));
            load::start_at(&mut client.hanging_up(HangsUp::Never).only(address))
        };
        addresses.into_iter().filter(|address| !ask(address)).collect()
    }

    /// Copies what nodes have logged.
    pub(super) fn keep_logs(&self, folder: &Path) -> Result<(), String> {
        std::fs::create_dir_all(folder).map_err(|why| format!("{}: {why}", folder.display()))?;
        for node in 0..self.nodes.len() {
            let log = self.folder(node).join("log");
            let copy = folder.join(format!("node-{node}.log"));
            std::fs::copy(&log, &copy).map_err(|why| format!("{}: {why}", log.display()))?;
        }
        Ok(())
    }

    /// Clients that hang up, while nodes are held for an instant again and again: a request and the
    /// end of its connection are then there at once, and the caller is gone before anything is
    /// committed.
    fn hang_ups(&mut self) -> Result<(), String> {
        let crowd = self.crowd(IMPATIENT, "impatient", load::impatient);
        while crowd.iter().any(|client| !client.is_finished()) {
            self.held_while(|| std::thread::sleep(HELD))?;
            std::thread::sleep(LET_GO);
        }
        Ok(())
    }

    /// Does something while all nodes are held.
    pub(super) fn held_while(&self, work: impl FnOnce()) -> Result<(), String> {
        let signal = |signal: Signal| -> Result<(), String> {
            self.nodes.iter().flatten().try_for_each(|node| node.signal(signal))
        };
        signal(Signal::STOP)?;
        work();
        signal(Signal::CONT)
    }

    /// So many clients at the same time.
    fn crowd(
        &mut self,
        count: u64,
        name: &str,
        client: fn(&Shared, u64, String),
    ) -> Vec<JoinHandle<()>> {
        self.crowds += 1;
        let crowd = self.crowds;
        let start = |number: u64| {
            let seed = crowd * 1_000_003 + number;
            let name = format!("{name}{crowd}.{number}");
            let shared = self.shared.clone();
            std::thread::spawn(move || client(&shared, seed, name))
        };
        (0..count).map(start).collect()
    }
}

fn setup(binary: &Path, url: String, guard: Arc<Guard>) -> Setup {
    let arguments = ["--egress", "127.0.0.1/32"].map(str::to_owned).to_vec();
    let (binary, environment) = (binary.to_owned(), Vec::new());
    Setup { binary, url, lease: "3s".to_owned(), arguments, environment, guard }
}
