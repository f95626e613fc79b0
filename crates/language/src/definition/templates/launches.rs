//! Programs with a subcommand that starts another program: `docker exec`, `npm exec`, `uv run`.

use super::injection::{Word, is_template, started};
use super::interpreters::program_name;

/// A program that starts the one in its operands.
struct Launch {
    names: &'static [&'static str],
    /// The subcommands that do so. If there are none, the program itself does.
    subcommands: &'static [&'static str],
    /// Words before the subcommand.
    groups: &'static [&'static str],
    /// Options without a value. The word behind any other option without `=` is its value.
    flags: &'static [&'static str],
    /// Short options without a value, also several in one word.
    flag_letters: &'static str,
    /// Options with a value that does not choose what is started.
    data: &'static [&'static str],
    /// The number of operands before the program.
    operands: usize,
    /// Whether the command's standard input is closed for the started program, unless an option
    /// such as `-i` connects the two.
    is_detached: bool,
}

const PLAIN: Launch = Launch {
    names: &[],
    subcommands: &[],
    groups: &[],
    flags: &["--quiet", "--verbose", "--yes", "--no", "--offline", "--debug"],
    flag_letters: "qvy",
    data: &[],
    operands: 0,
    is_detached: false,
};

/// Names the program of a container, so that its operands are arguments.
const ENTRYPOINT: &str = "--entrypoint";

const LAUNCHES: [Launch; 11] = [
    Launch {
        names: &["docker", "podman", "nerdctl", "docker-compose", "podman-compose"],
        subcommands: &["create", "exec", "run"],
        groups: &["compose", "container"],
        flags: &[
            "--detach",
            "--init",
            "--interactive",
            "--no-deps",
            "--no-healthcheck",
            "--no-TTY",
            "--privileged",
            "--publish-all",
            "--quiet",
            "--read-only",
            "--rm",
            "--tty",
        ],
        flag_letters: "ditPTq",
        data: &[
            "-e",
            "--env",
            "-v",
            "--volume",
            "--mount",
            "-w",
            "--workdir",
            "--name",
            "-l",
            "--label",
            "-u",
            "--user",
            "--network",
            "-h",
            "--hostname",
            "-m",
            "--memory",
            "--cpus",
            "--cidfile",
        ],
        operands: 1,
        is_detached: true,
    },
    Launch {
        names: &["kubectl", "oc", "k3s", "microk8s"],
        subcommands: &["exec", "run", "debug"],
        groups: &["kubectl"],
        flags: &["--stdin", "--tty", "--quiet", "--rm", "--command", "--attach"],
        flag_letters: "itq",
        data: &["-n", "--namespace", "-c", "--container", "--context", "--env"],
        operands: 1,
        is_detached: true,
    },
    Launch {
        names: &["lxc", "incus"],
        subcommands: &["exec"],
        data: &["--env"],
        operands: 1,
        ..PLAIN
    },
    Launch {
        names: &["direnv", "aws-vault", "chamber", "sops"],
        subcommands: &["exec", "exec-env"],
        operands: 1,
        ..PLAIN
    },
    Launch {
        names: &["ip"],
        subcommands: &["exec"],
        groups: &["netns"],
        flag_letters: "46abcdhjoprst",
        operands: 1,
        ..PLAIN
    },
    Launch {
        names: &["npm", "pnpm", "yarn", "bun"],
        subcommands: &["dlx", "exec", "x"],
        flags: &["--yes", "--no", "--offline", "--prefer-offline", "--silent", "--ignore-scripts"],
        ..PLAIN
    },
    Launch { names: &["npx", "bunx", "uvx", "pkexec", "xvfb-run", "proot"], ..PLAIN },
    Launch {
        names: &["uv", "poetry", "pdm", "pipenv", "hatch", "rye", "pixi", "pipx", "op", "doppler"],
        subcommands: &["run"],
        groups: &["tool"],
        flags: &["--quiet", "--verbose", "--offline", "--frozen", "--locked", "--no-sync"],
        ..PLAIN
    },
    Launch {
        names: &["conda", "mamba", "micromamba"],
        subcommands: &["run"],
        flags: &["--no-capture-output", "--live-stream", "--verbose"],
        data: &["--cwd"],
        ..PLAIN
    },
    Launch {
        names: &["bundle", "mise", "asdf", "rbenv", "pyenv", "nodenv", "opam", "stack"],
        subcommands: &["exec", "x"],
        ..PLAIN
    },
    Launch {
        names: &["go", "dart", "nix", "nextflow", "swift"],
        subcommands: &["run", "shell", "develop"],
        flags: &["--race", "-race", "-v", "-x"],
        ..PLAIN
    },
];

/// An unlisted program with the subcommand `exec`.
const UNLISTED: Launch = Launch { subcommands: &["exec"], ..PLAIN };

/// What the words of a launch start.
pub(super) enum Launched<'t> {
    /// The words of the program that is started, and whether standard input is closed for it.
    Program(Vec<Word<'t>>, bool),
    /// A template at or before the name of the program: the word's index in the command.
    Template(usize),
}

/// What these words start, if their program is one that starts others.
pub(super) fn launched<'t>(words: &[Word<'t>]) -> Option<Launched<'t>> {
    let words = &words[started(words)?..];
    let (program, rest) = words.split_first()?;
    let name = program_name(program.text);
    match LAUNCHES.iter().find(|known| known.names.contains(&name.as_str())) {
        Some(launch) => launch.launched(rest),
        // A host's own script is written with its path, and its words are its own.
        None if program.text.contains('/') => None,
        None if rest.first()?.text == "exec" => UNLISTED.launched(rest),
        None => None,
    }
}

impl Launch {
    fn launched<'t>(&self, words: &[Word<'t>]) -> Option<Launched<'t>> {
        let mut is_subcommand_next = !self.subcommands.is_empty();
        let (mut operands, mut is_over, mut entrypoint) = (0, false, None);
        let mut is_detached = self.is_detached;
        let mut at = 0;
        while let Some(&word) = words.get(at) {
            at += 1;
            if !is_over && word.text == "--" {
                // Behind `--` of `npm exec`, `kubectl exec` and others only the program follows.
                is_over = true;
                continue;
            }
            if !is_over && word.text.starts_with('-') {
                let (option, attached) = match word.text.split_once('=') {
                    Some((option, value)) => (option, Some(value)),
                    None => (word.text, None),
                };
                let is_data = self.data.contains(&option);
                is_detached &= !connects_stdin(option);
                if is_template(word.text) && !(is_data && attached.is_some()) {
                    return Some(Launched::Template(word.at));
                }
                if option == ENTRYPOINT {
                    let value = attached.or_else(|| words.get(at).map(|word| word.text));
                    entrypoint = value.map(|text| Word { text, at: word.at });
                }
                if attached.is_none() && !self.is_flag(option) {
                    let value = words.get(at).filter(|value| value.text != "--");
                    let template = value.filter(|value| is_template(value.text) && !is_data);
                    if let Some(template) = template {
                        return Some(Launched::Template(template.at));
                    }
                    at += usize::from(value.is_some());
                }
                continue;
            }
            if is_template(word.text) {
                return Some(Launched::Template(word.at));
            }
            if is_subcommand_next {
                if self.groups.contains(&word.text) {
                    // `docker compose exec` connects standard input by itself.
                    is_detached &= word.text != "compose";
                    continue;
                }
                if !self.subcommands.contains(&word.text) {
                    return None;
                }
                is_subcommand_next = false;
            } else if operands < self.operands {
                operands += 1;
                // Behind the image of a container all words belong to its program.
                if operands == self.operands
                    && let Some(entrypoint) = entrypoint
                {
                    let rest = words[at..].iter().copied();
                    return Some(Launched::Program(
                        [entrypoint].into_iter().chain(rest).collect(),
                        is_detached,
                    ));
                }
            } else {
                return Some(Launched::Program(words[at - 1..].to_vec(), is_detached));
            }
        }
        None
    }

    fn is_flag(&self, option: &str) -> bool {
        let letters = option.strip_prefix('-').filter(|rest| !rest.starts_with('-'));
        let is_letters = |letters: &str| letters.chars().all(|c| self.flag_letters.contains(c));
        self.flags.contains(&option) || letters.is_some_and(is_letters)
    }
}

/// Whether this option of `docker run` or `kubectl exec` connects standard input to the container.
fn connects_stdin(option: &str) -> bool {
    let is_short = option.starts_with('-') && !option.starts_with("--");
    ["--interactive", "--stdin"].contains(&option) || (is_short && option.contains('i'))
}
