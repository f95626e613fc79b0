//! Real nodes on a real PostgreSQL under load, while one is killed, one held, one restarted and the
//! database loses its power twice. Then everything is counted.

mod check;
mod failover;
pub(crate) mod load;
pub(crate) mod node;
pub(crate) mod plan;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use testbed::Cluster;

use self::check::Checked;
use self::load::Load;
use self::node::{Node, Setup};
use self::plan::{Fault, NODES, plan};
use crate::guard::Guard;
use crate::steps::{Outcome, cargo, now, run as run_command};

/// A node that was killed comes back after this.
const ABSENCE: Duration = Duration::from_secs(3);
/// Whoever waits longer waits for something that is broken.
const PATIENCE: Duration = Duration::from_secs(300);
const BETWEEN: Duration = Duration::from_millis(200);

/// How much there is, and for how long.
#[derive(Clone, Debug)]
pub(crate) struct Size {
    pub(crate) seed: u64,
    pub(crate) total: Duration,
    /// Occurrences that are due in a second.
    pub(crate) rate: u64,
    /// Seconds between two occurrences of a schedule.
    interval: u64,
    /// How long a node is held.
    freeze: Duration,
    lease: &'static str,
    is_release: bool,
}

impl Size {
    pub(crate) fn full(seed: u64, minutes: u64, rate: u64) -> Size {
        Size {
            seed,
            total: Duration::from_secs(60 * minutes),
            rate,
            interval: 10,
            freeze: Duration::from_secs(40),
            lease: "15s",
            is_release: true,
        }
    }

    /// With the binary that tests use.
    pub(crate) fn debug(self) -> Size {
        Size { is_release: false, ..self }
    }

    fn repeats(&self) -> u64 {
        (self.total.as_secs() / self.interval).max(1)
    }
}

/// Half a minute, for every day.
pub(crate) fn short(root: &Path) -> Outcome {
    let size = Size {
        total: Duration::from_secs(30),
        interval: 5,
        freeze: Duration::from_secs(6),
        lease: "3s",
        ..Size::full(1, 1, 300).debug()
    };
    run(root, &size)
}

pub(crate) fn failover(root: &Path) -> Outcome {
    failover::run(&built(root, false)?)
}

pub(crate) fn run(root: &Path, size: &Size) -> Outcome {
    let binary = built(root, size.is_release)?;
    let cluster = Cluster::start().map_err(|why| why.to_string())?;
    let guard = Arc::new(Guard::new()?);
    let setup = Setup {
        binary,
        url: cluster.url(),
        lease: size.lease.to_owned(),
        arguments: Vec::new(),
        environment: Vec::new(),
        guard,
    };
    let mut world = World { cluster, setup, nodes: Vec::new() };
    for _ in 0..NODES {
        let node = world.start(world.nodes.len())?;
        world.nodes.push(Some(node));
    }
    let load = Load { rate: size.rate, interval: size.interval, repeats: size.repeats() };
    load.create(world.any()?)?;
    let begin = now();
    let mut planned: Vec<Due> = plan(size.seed, size.total)
        .into_iter()
        .map(|planned| Due { at: planned.at, act: Act::Fault(planned.fault) })
        .collect();
    let mut disturbed = begin;
    while let Some(due) = take_first(&mut planned) {
        std::thread::sleep(due.at.saturating_sub(begin.elapsed()));
        println!("{:>6.1} s  {:?}", begin.elapsed().as_secs_f64(), due.act);
        let then = world.act(due.act, size)?;
        if !matches!(due.act, Act::Start(_)) {
            disturbed = now();
        }
        planned.extend(then.map(|(after, act)| Due { at: begin.elapsed() + after, act }));
    }
    let rest =
        until("work is on time again", || Ok(world.is_on_time()?.then(|| disturbed.elapsed())))?;
    until("everything has ended", || Ok(load.is_over(&world.cluster)?.then_some(())))?;
    let refused = world.sum("punctual_reports_refused_total");
    let taken_over = world.sum("punctual_attempts_taken_over_total");
    let checked = check::all(&world.cluster, &load)?;
    tell(size, &checked, begin, rest, refused, taken_over);
    checked.outcome(size.seed)?;
    doctor(&world.setup)
}

/// An act of the plan, with its time.
struct Due {
    at: Duration,
    act: Act,
}

#[derive(Clone, Copy, Debug)]
enum Act {
    Fault(Fault),
    Start(usize),
    Thaw(usize),
}

fn take_first(planned: &mut Vec<Due>) -> Option<Due> {
    let first = planned.iter().enumerate().min_by_key(|(_, due)| due.at)?.0;
    Some(planned.remove(first))
}

/// The nodes and their database.
struct World {
    cluster: Cluster,
    setup: Setup,
    nodes: Vec<Option<Node>>,
}

impl World {
    fn start(&self, index: usize) -> Result<Node, String> {
        Node::start(&self.setup, &self.setup.guard.folder().join(index.to_string()))
    }

    fn any(&self) -> Result<&Node, String> {
        self.nodes.iter().flatten().next().ok_or_else(|| "no node is there".to_owned())
    }

    fn node(&self, index: usize) -> Result<&Node, String> {
        self.nodes[index].as_ref().ok_or_else(|| format!("node {index} is away"))
    }

    /// What is to follow, and after how long.
    fn act(&mut self, act: Act, size: &Size) -> Result<Option<(Duration, Act)>, String> {
        match act {
            Act::Fault(Fault::Kill(index)) => {
                self.nodes[index] = None;
                return Ok(Some((ABSENCE, Act::Start(index))));
            }
            Act::Fault(Fault::Freeze(index)) => {
                self.node(index)?.signal(Signal::STOP)?;
                return Ok(Some((size.freeze, Act::Thaw(index))));
            }
            Act::Thaw(index) => self.node(index)?.signal(Signal::CONT)?,
            Act::Fault(Fault::Restart(index)) => {
                let node = self.nodes[index].take().ok_or("a node is away")?;
                node.signal(Signal::TERM)?;
                node.ended()?;
                return Ok(Some((Duration::ZERO, Act::Start(index))));
            }
            Act::Start(index) => self.nodes[index] = Some(self.start(index)?),
            Act::Fault(Fault::Database) => {
                self.cluster.restart_immediate().map_err(|why| why.to_string())?;
            }
        }
        Ok(None)
    }

    /// Whether nothing that is due, and nothing that was begun, is older than a second.
    fn is_on_time(&self) -> Result<bool, String> {
        let sql = "WITH late AS (SELECT extract(epoch FROM now()) * 1000 - 1000 AS than)
                   SELECT (SELECT count(*) FROM punctual.progress, late WHERE wake_at < than)
                        + (SELECT count(*) FROM punctual.open_runs, late WHERE created_at < than)";
        Ok(self.cluster.ask(sql).map_err(|why| why.to_string())? == "0")
    }

    /// A counter of the nodes that live: those that were killed took theirs along.
    fn sum(&self, name: &str) -> u64 {
        self.nodes.iter().flatten().filter_map(|node| node.counter(name)).sum()
    }
}

fn tell(size: &Size, checked: &Checked, begin: Instant, rest: Duration, refused: u64, over: u64) {
    let rows = [
        ("seed", size.seed.to_string()),
        ("occurrences due in a second", size.rate.to_string()),
        ("seconds in all", begin.elapsed().as_secs().to_string()),
        ("runs", checked.runs.clone()),
        ("late by, in ms: half, 99 %, most", checked.lateness.clone()),
        ("on time after the last fault, in s (wanted: 10)", format!("{:.1}", rest.as_secs_f64())),
        ("attempts taken over, as far as living nodes know", over.to_string()),
        ("reports refused, as far as living nodes know", refused.to_string()),
    ];
    for (name, figure) in rows {
        println!("{name:<50} {figure:>20}");
    }
}

/// The store is as it should be, by its own account.
pub(crate) fn doctor(setup: &Setup) -> Outcome {
    let mut command = std::process::Command::new(&setup.binary);
    run_command(command.arg("doctor").env("PUNCTUAL_DB", &setup.url))
}

/// The binary, up to date.
pub(crate) fn built(root: &Path, is_release: bool) -> Result<PathBuf, String> {
    let mut command = cargo(root);
    if is_release {
        command.args(["build", "--locked", "--quiet", "--package", "punctual", "--release"]);
    } else {
        // The program that the tests of the whole workspace have built already. `cargo build` would
        // build it anew, without the features that only tests ask for.
        command.args(["test", "--locked", "--quiet", "--workspace", "--test", "cli", "--no-run"]);
    }
    run_command(&mut command)?;
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or(root.join("target"), PathBuf::from);
    Ok(target.join(if is_release { "release" } else { "debug" }).join("punctual"))
}

/// Looks until there is an answer.
pub(crate) fn until<T>(
    what: &str,
    mut look: impl FnMut() -> Result<Option<T>, String>,
) -> Result<T, String> {
    let begin = now();
    loop {
        if let Some(found) = look()? {
            return Ok(found);
        }
        if begin.elapsed() > PATIENCE {
            return Err(format!("never: {what}"));
        }
        std::thread::sleep(BETWEEN);
    }
}
