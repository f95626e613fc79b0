//! The `punctual` command. Everything it knows about time is in the `calendar` crate.

mod args;
mod calc;
mod calendars;
mod clock;
mod demo;
mod document;
mod failure;
mod next;
mod terminal;
mod zoneinfo;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches};

use args::{Cli, Command};
use failure::Failure;

fn main() -> ExitCode {
    match zoneinfo::zones().and_then(|zones| run(&zones)) {
        Ok(()) | Err(Failure::PipeClosed) => ExitCode::SUCCESS,
        Err(failure) => {
            // If standard error is gone too, there is nobody left to tell.
            let _ = writeln!(anstream::stderr(), "{failure}");
            ExitCode::from(failure.exit_code())
        }
    }
}

fn run(zones: &calendar::Zones) -> Result<(), Failure> {
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
        Command::Demo => demo::run(zones, &mut out),
        Command::Next(args) => next::run(args, zones, &mut out),
        Command::Calc => calc::run(zones, io::stdin().lock(), io::stdout().lock()),
        Command::Calendar(command) => calendars::run(command, zones, &mut out),
        Command::Completions { shell } => {
            clap_complete::generate(*shell, &mut Cli::command(), "punctual", &mut out);
            Ok(())
        }
    }?;
    Ok(out.flush()?)
}
