//! A program that does nothing but evaluate scripts, for tests.

fn main() -> std::process::ExitCode {
    runners::script::child()
}
