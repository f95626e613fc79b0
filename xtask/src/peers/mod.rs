//! `cargo xtask peers`: side by side with what people would use instead, on this machine and in one
//! run. Everything that is fetched goes to a throw-away folder; PostgreSQL is one cluster for all,
//! each peer with a database of its own, and each Redis is its own.
//!
//! A peer is a short program that creates jobs and runs them. Each job writes its number, its due
//! time and its start to a file when it starts, so that all are measured by the same means, and so
//! that a kill leaves what had begun. What is measured last is the start of the last job, not that
//! its end is stored.

mod course;
mod installed;
mod list;
mod measure;
mod ours;
mod redis;
mod sizes;
mod table;
mod versions;
mod worker;

use std::path::{Path, PathBuf};
use std::process::Command;

use jiff::Timestamp;
use testbed::Cluster;

use self::course::Course;
use self::installed::Installed;
pub(crate) use self::list::Name;
use self::list::{PEERS, Peer};
use self::sizes::Sizes;
use self::table::Row;
use crate::chaos::built;
use crate::steps::{Outcome, now, wall_millis};

/// PostgreSQL as one would tune it for this load on a machine of this size.
const SETTINGS: [(&str, &str); 4] = [
    ("shared_buffers", "1GB"),
    ("max_wal_size", "8GB"),
    ("checkpoint_timeout", "15min"),
    ("synchronous_commit", "on"),
];

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Only these, instead of all
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Vec<Name>,
    /// Small numbers, only to see that everything works
    #[arg(long)]
    quick: bool,
    /// How many schedules wait far in the future meanwhile
    #[arg(long, value_name = "N")]
    pending: Option<u64>,
    /// Keep what is installed in this folder, for another run
    #[arg(long, value_name = "DIR")]
    folder: Option<PathBuf>,
    /// This program, instead of one that is built now
    #[arg(long, value_name = "FILE")]
    binary: Option<PathBuf>,
}

impl Options {
    fn wants(&self, name: Name) -> bool {
        self.only.is_empty() || self.only.contains(&name)
    }
}

pub(crate) fn run(root: &Path, options: &Options) -> Outcome {
    let begin = now();
    let sizes = Sizes::new(options.quick, options.pending);
    let peers: Vec<&Peer> = PEERS.iter().filter(|peer| options.wants(peer.name)).collect();
    let installed = Installed::prepare(options.folder.as_deref(), &peers)?;
    let mut cluster = Cluster::builder();
    for (name, value) in SETTINGS {
        cluster = cluster.setting(name, value);
    }
    let cluster = cluster.start().map_err(|why| why.to_string())?;
    let mut rows = Vec::new();
    if options.wants(Name::Punctual) {
        let binary = options.binary.clone().map_or_else(|| built(root, true), Ok)?;
        rows.extend(ours::rows(&binary, &sizes, options.quick, &cluster));
    }
    for peer in peers {
        rows.push(match Course::new(peer, &sizes, &installed, &cluster) {
            Ok(mut course) => measure::row(&mut course),
            Err(why) => Row::missing(peer, &why),
        });
    }
    tell(&rows, &sizes, &installed, &cluster, begin.elapsed().as_secs());
    Ok(())
}

fn tell(rows: &[Row], sizes: &Sizes, installed: &Installed, cluster: &Cluster, seconds: u64) {
    let date = Timestamp::from_millisecond(wall_millis()).unwrap_or_default();
    let date = date.strftime("%Y-%m-%d");
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let postgres = cluster.ask("SHOW server_version").unwrap_or_default();
    let settings = SETTINGS.map(|(name, value)| format!("{name} {value}")).join(", ");
    println!("{date}, {}, {cores} cores, {seconds} s in all", processor());
    println!("PostgreSQL {} ({settings})", postgres.trim());
    println!("{}", said(installed.redis().arg("--version")));
    let node = said(Command::new(installed.node()).arg("--version"));
    let python = said(Command::new(installed.python().join("python")).arg("--version"));
    println!("Redis with appendonly yes, appendfsync always; Node.js: {node}; Python: {python}");
    println!(
        "Beside {} pending; {} due at once; each rate for {} s\n",
        sizes.pending, sizes.due, sizes.seconds
    );
    print!("{}", table::markdown(rows));
}

fn processor() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with("model name"));
    let model = line.and_then(|line| line.split_once(": ")).map(|(_, model)| model);
    model.unwrap_or("an unknown processor").to_owned()
}

/// The first line that a command says.
fn said(command: &mut Command) -> String {
    let output = command.output().map(|output| output.stdout).unwrap_or_default();
    String::from_utf8_lossy(&output).lines().next().unwrap_or("not used").to_owned()
}
