//! The one command that equals CI.

use std::path::Path;
use std::process::{Command, ExitStatus};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use testbed::Cluster;

use crate::guard::Guard;
use crate::{bench, chaos, contract, fuzz, programs, tidy, torture};

/// What a step comes to: nothing, or the reason why it failed.
pub(crate) type Outcome = Result<(), String>;

/// Enough to replay the seeds and notice the worst; long runs are a command of their own.
const FUZZ_SECONDS: u32 = 20;

type Step = (&'static str, fn(&Path) -> Outcome);

const STEPS: [Step; 12] = [
    ("format", format),
    ("clippy", clippy),
    ("tidy", tidy::run),
    ("PostgreSQL and a browser", programs::install),
    ("tests", tests),
    ("chaos", chaos::short),
    ("failover", chaos::failover),
    ("torture", torture::short),
    ("contract", contract::short),
    ("documentation", documentation),
    ("fuzzing", |root| fuzz::replay(root, FUZZ_SECONDS)),
    ("benchmark answers", bench::check_answers),
];

pub(crate) fn test(root: &Path) -> Outcome {
    let start = now();
    let mut took = Vec::new();
    for (name, step) in STEPS {
        println!("\n== {name}");
        let begin = now();
        step(root).map_err(|why| format!("{name}: {why}"))?;
        took.push(format!("{name} {}s", begin.elapsed().as_secs()));
    }
    println!("\n{}", took.join(", "));
    println!("xtask test: all steps passed in {}s", start.elapsed().as_secs());
    Ok(())
}

fn format(root: &Path) -> Outcome {
    run(cargo(root).args(["fmt", "--all", "--check"]))?;
    // A workspace of its own, which `--all` does not see.
    run(cargo(&root.join("fuzz")).args(["fmt", "--check"]))
}

fn clippy(root: &Path) -> Outcome {
    let arguments = ["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"];
    run(cargo(root).args(arguments))
}

/// On both stores. The cluster is one for the whole run, and ends with it.
fn tests(root: &Path) -> Outcome {
    let cluster = Cluster::builder().fsync(false).start().map_err(|why| why.to_string())?;
    let test = |arguments: &[&str]| {
        let mut command = cargo(root);
        command.args(["test", "--locked", "--quiet"]).args(arguments);
        command.env(testbed::SHARED, cluster.url());
        command
    };
    run(&mut test(&["--workspace"]))?;
    // Of the whole workspace: another selection of packages has other features, and would be built
    // anew.
    run(test(&["--workspace", "--test", "server"]).env("PUNCTUAL_TEST_STORE", "postgres"))
}

fn documentation(root: &Path) -> Outcome {
    let arguments = ["doc", "--workspace", "--no-deps", "--locked"];
    run(cargo(root).args(arguments).env("RUSTDOCFLAGS", "-D warnings"))
}

/// The cargo that runs us, in a folder.
pub(crate) fn cargo(folder: &Path) -> Command {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.current_dir(folder);
    // Cargo has told us about our own package. Build scripts that look at such variables would run
    // again whenever a build by us follows one by hand, and much would be built anew.
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
            command.env_remove(name);
        }
    }
    command
}

/// Shows the command, runs it and waits for its success.
pub(crate) fn run(command: &mut Command) -> Outcome {
    let shown = show(command);
    let status = command.status().map_err(|error| format!("`{shown}` does not start: {error}"))?;
    ended(&shown, status)
}

/// The same for a command that starts others: all of them end with us.
pub(crate) fn run_guarded(command: &mut Command) -> Outcome {
    let shown = show(command);
    let guard = Guard::new()?;
    let mut child = guard.start(command)?;
    let status = child.wait().map_err(|error| format!("`{shown}`: {error}"))?;
    ended(&shown, status)
}

fn show(command: &Command) -> String {
    let arguments: Vec<_> = command.get_args().map(|text| text.to_string_lossy()).collect();
    let program = Path::new(command.get_program()).file_stem().unwrap_or_default();
    let shown = format!("{} {}", program.to_string_lossy(), arguments.join(" "));
    println!("$ {shown}");
    shown
}

fn ended(shown: &str, status: ExitStatus) -> Outcome {
    if status.success() { Ok(()) } else { Err(format!("`{shown}` failed: {status}")) }
}

#[expect(clippy::disallowed_methods, reason = "how long it took is shown to a person")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// The host's wall clock, in milliseconds since 1970.
#[expect(clippy::disallowed_methods, reason = "what happened outside is noted with its time")]
pub(crate) fn wall_millis() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}
