//! `simulate`: runs worlds one after the other, until one fails.
#![forbid(unsafe_code)]
#![expect(clippy::print_stdout, reason = "progress and findings are this program's output")]

use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::{Parser, ValueEnum};
use simulator::{
    Failed, Options, SharedOptions, StoreKind, Summary, burst, simulate, simulate_shared,
};

#[derive(Parser)]
#[command(name = "simulate", about = "Lives through simulated worlds until one fails")]
struct Arguments {
    /// The seed of the only world, or of the first of several
    #[arg(long)]
    seed: Option<u64>,
    /// How many worlds to run
    #[arg(long)]
    seeds: Option<u64>,
    /// For how many minutes to run worlds
    #[arg(long)]
    minutes: Option<u64>,
    /// Run a year of a hundred schedules instead of small worlds
    #[arg(long)]
    year: bool,
    /// Run worlds in which thousands of runs end in the decision that starts them
    #[arg(long, conflicts_with = "year")]
    bursts: bool,
    /// The store that the simulated worlds use
    #[arg(long, value_enum, default_value = "sqlite")]
    store: StoreName,
    /// On PostgreSQL: only worlds in which this many nodes share the store
    #[arg(long)]
    nodes: Option<usize>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum StoreName {
    /// The embedded store
    Sqlite,
    /// A PostgreSQL that is started for the purpose: each seed is a world with one transaction at a
    /// time, and one in which several nodes share the store
    Postgres,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let begin = now();
    let limit = arguments.minutes.map(|minutes| Duration::from_secs(minutes * 60));
    let first = arguments.seed.unwrap_or(1);
    let alone = arguments.seed.is_some() && arguments.seeds.is_none() && limit.is_none();
    let count = arguments.seeds.unwrap_or(if alone { 1 } else { u64::MAX });
    let mut total = Summary::default();
    let mut told = begin;
    let mut lived = 0;
    for seed in first..first.saturating_add(count) {
        match live(seed, &arguments) {
            Ok(summary) => add(&mut total, &summary),
            Err(failed) => return fail(seed, &arguments, &failed),
        }
        lived += 1;
        if told.elapsed() > Duration::from_secs(5) {
            tell(lived, &total, begin);
            told = now();
        }
        if limit.is_some_and(|limit| begin.elapsed() > limit) {
            break;
        }
    }
    tell(lived, &total, begin);
    ExitCode::SUCCESS
}

fn live(seed: u64, arguments: &Arguments) -> Result<Summary, Box<Failed>> {
    let small = Options::small(seed);
    match arguments.store {
        StoreName::Sqlite if arguments.bursts => burst(seed, None),
        StoreName::Sqlite if arguments.year => simulate(seed, Options::year()),
        StoreName::Sqlite => simulate(seed, small),
        StoreName::Postgres => {
            let shared = SharedOptions::new(seed);
            if let Some(nodes) = arguments.nodes {
                return simulate_shared(seed, SharedOptions { nodes: nodes.max(1), ..shared });
            }
            let mut total = simulate(seed, Options { store: StoreKind::Postgres, ..small })?;
            add(&mut total, &simulate_shared(seed, shared)?);
            Ok(total)
        }
    }
}

fn add(total: &mut Summary, summary: &Summary) {
    total.occurrences += summary.occurrences;
    total.runs += summary.runs;
    total.steps += summary.steps;
    total.crashes += summary.crashes;
    total.days += summary.days;
}

fn tell(seeds: u64, total: &Summary, begin: Instant) {
    let seconds = begin.elapsed().as_secs_f64();
    println!(
        "{seeds} seeds, {:.2} virtual years, {} occurrences ({:.0}/s), {} runs, {} crashes, {seconds:.1} s",
        total.days as f64 / 365.0,
        total.occurrences,
        total.occurrences as f64 / seconds,
        total.runs,
        total.crashes,
    );
}

fn fail(seed: u64, arguments: &Arguments, failed: &Failed) -> ExitCode {
    println!("{}\n{}", failed.state, failed.trace);
    println!(
        "seed {seed}, step {}: {}: {}",
        failed.step, failed.violation.checker, failed.violation.message
    );
    let mut kind = match (arguments.year, arguments.bursts, arguments.store) {
        (true, _, _) => " --year",
        (_, true, _) => " --bursts",
        (_, _, StoreName::Postgres) => " --store postgres",
        _ => "",
    }
    .to_owned();
    if let Some(nodes) = arguments.nodes {
        kind.push_str(&format!(" --nodes {nodes}"));
    }
    println!("again: cargo xtask simulate --seed {seed}{kind}");
    ExitCode::FAILURE
}

#[expect(clippy::disallowed_methods, reason = "how long it takes is shown to a person")]
fn now() -> Instant {
    Instant::now()
}
