//! Commands whose program lies in the folder in which they are started. A template in `cwd` would
//! let whoever starts a run choose the folder, and with it the program.

use super::injection::{self, Word};
use super::interpreters::{Shape, interpreter, program_name};

/// Programs that read what they do from a file in the folder in which they are started.
const FOLDER_PROGRAMS: [&str; 38] = [
    "ansible-playbook",
    "ant",
    "bazel",
    "bun",
    "bundle",
    "cargo",
    "cmake",
    "composer",
    "deno",
    "docker-compose",
    "dotnet",
    "git",
    "gmake",
    "go",
    "gradle",
    "gradlew",
    "grunt",
    "gulp",
    "invoke",
    "just",
    "make",
    "meson",
    "mix",
    "mvn",
    "mvnw",
    "ninja",
    "nox",
    "npm",
    "npx",
    "pnpm",
    "podman-compose",
    "poetry",
    "rake",
    "sbt",
    "task",
    "terraform",
    "tox",
    "yarn",
];

/// Whether the program of this command, or what it does, is taken from its working folder.
pub(crate) fn holds_program(words: &[&str]) -> bool {
    let words = injection::split_for_env(words);
    let Some(started) = injection::started(&words) else { return false };
    let (program, rest) = (words[started].text, &words[started + 1..]);
    let is_compose = ["docker", "podman"].contains(&program) && is_first(rest, "compose");
    if is_relative_path(program) || is_folder_program(program) || is_compose {
        return true;
    }
    match interpreter(program).map(|kind| kind.shape) {
        Some(Shape::Shell) => match rest.iter().position(|word| is_text_option(word.text)) {
            Some(option) => rest.get(option + 1).is_some_and(|text| text_holds_program(text.text)),
            None => !has_absolute_file(rest),
        },
        // Python looks for modules in its folder, also for a program in its words.
        Some(Shape::Inline | Shape::InlineLast | Shape::PowerShell) => !has_absolute_file(rest),
        _ => false,
    }
}

/// Whether a shell that reads this text would take a program from its folder.
pub(crate) fn text_holds_program(shell: &str) -> bool {
    let mut words = shell
        .split(|c: char| c.is_whitespace() || ";&|()".contains(c))
        .map(|word| word.trim_matches(['"', '\'']));
    words.any(|word| {
        word.starts_with("./")
            || word.starts_with("../")
            || is_folder_program(word)
            || interpreter(word).is_some_and(|kind| {
                matches!(kind.shape, Shape::Shell | Shape::Inline | Shape::InlineLast)
            })
    })
}

fn is_first(words: &[Word<'_>], text: &str) -> bool {
    words.first().is_some_and(|word| word.text == text)
}

fn is_relative_path(program: &str) -> bool {
    program.contains('/') && !program.starts_with('/')
}

fn is_folder_program(word: &str) -> bool {
    FOLDER_PROGRAMS.contains(&program_name(word).as_str())
}

fn is_text_option(word: &str) -> bool {
    word.starts_with('-') && !word.starts_with("--") && word.contains('c')
}

/// Whether the first operand is a file with its whole path.
fn has_absolute_file(words: &[Word<'_>]) -> bool {
    let first = words.iter().find(|word| !word.text.starts_with('-'));
    first.is_some_and(|file| file.text.starts_with('/'))
}
