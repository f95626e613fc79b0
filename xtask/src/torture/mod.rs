//! A black-box check of the real binary: clients ask for everything that can be asked for, nodes
//! fail, and a judge compares what was acknowledged with what arrived at a sink and what the API
//! says in the end.

mod client;
mod flood;
mod history;
mod judge;
mod load;
#[cfg(test)]
mod made_up;
mod observe;
mod people;
mod plan;
mod planted;
mod sabotage;
mod sink;
mod versions;
mod work;
mod world;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use testbed::Cluster;

use self::client::Shared;
use self::history::History;
use self::world::World;
use crate::chaos::plan::Random;
use crate::chaos::{built, doctor};
use crate::steps::{Outcome, now};

/// Clients that ask all the time.
const CLIENTS: u64 = 6;
/// Load before the first fault, and after the last one.
const CALM: Duration = Duration::from_secs(3);
/// The time between two faults.
const BETWEEN: Duration = Duration::from_millis(1_500);
/// Whatever has not ended this long after the load does not end.
const PATIENCE: Duration = Duration::from_secs(90);

/// Requests whose senders hang up when nothing else goes on, and how long what they ask for may
/// take.
const QUIET_HANG_UPS: usize = 8;
const QUIET_PATIENCE: Duration = Duration::from_secs(20);

/// The nodes to torture, and for how long.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) seed: u64,
    pub(crate) length: Length,
    pub(crate) store: Kind,
    /// How many nodes share a PostgreSQL.
    pub(crate) nodes: usize,
    /// Major versions of PostgreSQL; the installed one, if there are none.
    pub(crate) versions: Vec<u32>,
    /// Instead of one that is built now.
    pub(crate) binary: Option<PathBuf>,
}

/// The duration of a torture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Length {
    /// Load without faults, only to have a history that can be sabotaged.
    Calm,
    /// One round of faults.
    Round,
    /// Round after round, for this many minutes.
    Minutes(u64),
}

/// Where runs are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Kind {
    /// One node on an embedded store
    Sqlite,
    /// Nodes that share a PostgreSQL
    Postgres,
    /// One after the other
    Both,
}

impl Options {
    /// The program that is tortured: for minutes a release, else what tests have built.
    fn program(&self, root: &Path) -> Result<PathBuf, String> {
        match &self.binary {
            Some(path) => Ok(path.clone()),
            None => built(root, matches!(self.length, Length::Minutes(_))),
        }
    }
}

/// One round on each store, as in `cargo xtask test`.
pub(crate) fn short(root: &Path) -> Outcome {
    let options = Options {
        seed: 1,
        length: Length::Round,
        store: Kind::Both,
        nodes: 3,
        versions: Vec::new(),
        binary: None,
    };
    run(root, &options)
}

/// Tortures nodes on the stores that are asked for.
pub(crate) fn run(root: &Path, options: &Options) -> Outcome {
    let binary = options.program(root)?;
    if options.store != Kind::Postgres && options.versions.is_empty() {
        println!("-- embedded store");
        torture(root, "sqlite", World::embedded(&binary)?, options)?;
    }
    if options.store == Kind::Sqlite {
        return Ok(());
    }
    let versions = options.versions.iter().map(|major| Some(*major));
    let installed = options.versions.is_empty().then_some(None);
    for version in versions.chain(installed) {
        let mut builder = Cluster::builder();
        let mut name = "postgres".to_owned();
        if let Some(major) = version {
            builder = builder.server(&versions::programs(root, major)?);
            let _ = write!(name, "-{major}");
        }
        println!("-- {name}");
        let cluster = builder.start().map_err(|why| why.to_string())?;
        torture(root, &name, World::on(cluster, &binary, options.nodes)?, options)?;
    }
    Ok(())
}

fn torture(root: &Path, store: &str, mut world: World, options: &Options) -> Outcome {
    let kept = root.join(format!("target/torture/{store}-{}", options.seed));
    stages(&mut world, &kept, options).or_else(|why| {
        world.keep_logs(&kept)?;
        Err(format!("{store}, seed {}: see {}\n{why}", options.seed, kept.display()))
    })
}

/// Load and faults; then whatever is done to a store while its nodes are stopped.
fn stages(world: &mut World, kept: &Path, options: &Options) -> Outcome {
    let history = live(world, options)?;
    report(kept, options, &history)?;
    world.stop()?;
    doctor(world.setup())?;
    if !world.is_shared() {
        planted::change_rows(world, &history)?;
    }
    world.start_node(0)?;
    planted::damage_rows(world)
}

/// Load and faults, then rest; what was seen of it.
fn live(world: &mut World, options: &Options) -> Result<History, String> {
    let shared = world.shared.clone();
    let seed = |number: u64| options.seed.wrapping_mul(1_000).wrapping_add(number);
    let stuck = std::thread::scope(|scope| {
        let shared = &*shared;
        for number in 0..CLIENTS {
            scope.spawn(move || load::client(shared, seed(number), format!("c{number}")));
        }
        scope.spawn(move || load::designer(shared, seed(100)));
        scope.spawn(move || people::decider(shared, seed(101), false));
        scope.spawn(move || people::decider(shared, seed(102), true));
        scope.spawn(move || people::resolver(shared, seed(103)));
        let disturbed = disturb(world, options);
        shared.stop();
        let calm = now();
        let settled = disturbed.and_then(|()| settle(shared, PATIENCE));
        println!("{:.1} s until everything had ended", calm.elapsed().as_secs_f64());
        let quiet = settled.and_then(|stuck| match stuck {
            None if options.length != Length::Calm => quiet(world, seed(104)),
            stuck => Ok(stuck),
        });
        shared.end();
        quiet
    })?;
    let deaf = world.deaf_nodes();
    settle(&shared, QUIET_PATIENCE)?;
    let address = shared.any_address(&mut Random(0)).ok_or("no node is left")?;
    let end = observe::observe(&address)?;
    let (asks, faults) = shared.told();
    let stuck = stuck.into_iter().collect();
    Ok(History {
        asks,
        hits: shared.sink.hits(),
        faults,
        stuck,
        log_bytes: world.log_bytes,
        deaf,
        end,
    })
}

/// Rounds of faults, with calm before and after.
fn disturb(world: &mut World, options: &Options) -> Outcome {
    let begin = now();
    let mut random = Random(options.seed);
    std::thread::sleep(CALM);
    loop {
        if options.length == Length::Calm {
            break;
        }
        for act in plan::round(&mut random, world.count(), world.is_shared()) {
            println!("{:>6.1} s  {act:?}", begin.elapsed().as_secs_f64());
            world.act(act)?;
            std::thread::sleep(BETWEEN);
        }
        if matches!(options.length, Length::Minutes(_)) && !world.is_shared() {
            world.act(plan::Act::Flood)?;
        }
        match options.length {
            Length::Minutes(minutes) if begin.elapsed() < Duration::from_secs(60 * minutes) => {}
            _ => break,
        }
    }
    // Nothing is started again after this: whatever they leave behind has to go on by itself.
    if options.length != Length::Calm {
        world.act(plan::Act::HangUps)?;
    }
    std::thread::sleep(CALM);
    Ok(())
}

/// Waits until everything has ended: what has not in time, in words.
fn settle(shared: &Shared, patience: Duration) -> Result<Option<String>, String> {
    let begin = now();
    loop {
        let address = shared.any_address(&mut Random(0)).ok_or("no node is left")?;
        let left = match observe::unfinished(&address) {
            Ok(None) => return Ok(None),
            Ok(Some(left)) => left,
            Err(why) => why,
        };
        if begin.elapsed() > patience {
            return Ok(Some(format!("not ended after {} s: {left}", patience.as_secs())));
        }
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// One request after the other whose sender hangs up, each when nothing else goes on: nobody who
/// comes later wakes the node up. What had not ended in time.
fn quiet(world: &World, seed: u64) -> Result<Option<String>, String> {
    let mut client = load::quiet(&world.shared, seed);
    for _ in 0..QUIET_HANG_UPS {
        world.held_while(|| load::hang_up_once(&mut client))?;
        let stuck = settle(&world.shared, QUIET_PATIENCE)?;
        if stuck.is_some() {
            return Ok(stuck.map(|left| format!("after a client has hung up: {left}")));
        }
    }
    Ok(None)
}

/// Tells what was seen, and what is wrong with it. A history that is wrong is kept in the folder.
fn report(kept: &Path, options: &Options, history: &History) -> Outcome {
    let History { asks, hits, end, .. } = history;
    let acknowledged = asks.iter().filter(|ask| ask.reply == history::Reply::Acknowledged).count();
    println!(
        "seed {}: {} asked, {acknowledged} acknowledged, {} requests at the sink, \
         {} schedules, {} runs, {} events",
        options.seed,
        asks.len(),
        hits.len(),
        end.schedules.len(),
        end.runs.len(),
        end.events.len(),
    );
    let findings = judge::judge(history);
    if findings.is_empty() {
        return sabotage::prove(history);
    }
    let summary = judge::summary(&findings);
    let path = kept.join("history.txt");
    std::fs::create_dir_all(kept)
        .and_then(|()| std::fs::write(&path, format!("{summary}\n\n{history:#?}\n")))
        .map_err(|why| format!("{}: {why}\n{summary}", path.display()))?;
    Err(summary)
}
