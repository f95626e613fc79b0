//! The `punctual` command. Everything it knows about dates and times is in the `calendar` crate.

mod args;
mod bench;
mod calc;
mod calendars;
mod client;
mod clock;
mod document;
mod failure;
mod migrate;
mod next;
mod node;
mod scripts;
mod store_file;
mod store_target;
mod supervisor;
mod terminal;
mod tour;
mod validate;
mod worker;
mod zoneinfo;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches};

use args::{Cli, Command};
use failure::Failure;

/// The node allocates and frees millions of small values beside SQLite's pages. With this allocator
/// a fire costs the same however many came before (docs/decisions/0016).
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // This comes first: the children that a node starts need neither zones nor arguments.
    match std::env::args_os().nth(1) {
        Some(first) if first == args::SCRIPT_CHILD => return runners::script::child(),
        Some(first) if first == args::EXEC_SUPERVISOR => return runners::supervise(),
        _ => {}
    }
    match zoneinfo::zones().and_then(run) {
        Ok(()) | Err(Failure::PipeClosed) => ExitCode::SUCCESS,
        Err(failure) => {
            // If standard error is closed too, the failure cannot be reported.
            let _ = writeln!(anstream::stderr(), "{failure}");
            ExitCode::from(failure.exit_code())
        }
    }
}

fn run(zones: calendar::Zones) -> Result<(), Failure> {
    let version = format!(
        "{} (zone database {}, {})",
        env!("CARGO_PKG_VERSION"),
        zones.version(),
        zones.origin()
    );
    let matches = Cli::command().version(version).get_matches();
    let cli = Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    let mut out = io::BufWriter::new(anstream::stdout().lock());
    match &cli.command {
        Command::Demo(args) => node::demo(args, zones, &mut out),
        Command::Serve(args) => node::serve(args, zones),
        Command::Tour => tour::run(&zones, &mut out),
        Command::Next(args) => next::run(args, &zones, &mut out),
        Command::Calc => calc::run(&zones, io::stdin().lock(), io::stdout().lock()),
        Command::Calendar(command) => calendars::run(command, &zones, &mut out),
        Command::Schedule(args) => client::schedules(args, &mut out),
        Command::Run(args) => client::runs(args, &mut out),
        Command::Approval(args) => client::approvals(args, &mut out),
        Command::Notify(args) => client::notify(args, &mut out),
        Command::Incident(args) => client::incidents(args, &mut out),
        Command::Workflow(args) => client::workflows(args, &mut out),
        Command::Topic(args) => client::topics(args, &mut out),
        Command::Token(args) => client::tokens(args, &mut out),
        Command::Audit(args) => client::audit(args, &mut out),
        Command::Node(args) => client::nodes(args, &mut out),
        Command::Worker(args) => worker::run(args),
        Command::Explain(args) => client::explain(args, &mut out),
        Command::Validate(args) => validate::run(args, &zones, &mut out),
        Command::Apply(args) => client::apply(args, &mut out),
        Command::Doctor(args) => store_file::doctor(args, zones, &mut out),
        Command::Backup(args) => store_file::backup(args, &mut out),
        Command::Migrate(args) => migrate::run(args, &mut out),
        Command::Bench(args) => bench::run(args, &mut out),
        Command::Types => Ok(out.write_all(runners::script::TYPES.as_bytes())?),
        Command::Completions { shell } => {
            clap_complete::generate(*shell, &mut Cli::command(), "punctual", &mut out);
            Ok(())
        }
    }?;
    Ok(out.flush()?)
}
