//! The script sandbox's child process, for tests: it does nothing but evaluate scripts.

fn main() -> std::process::ExitCode {
    runners::script::child()
}
