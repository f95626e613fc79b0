//! A program that does nothing but supervise a command, for tests.

fn main() -> std::process::ExitCode {
    runners::supervise()
}
