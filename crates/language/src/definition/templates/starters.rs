//! Programs that are no interpreters, and that start a command which one of their options names.

use super::injection::{Word, is_template};
use super::interpreters::program_name;

/// A program with options that start a command.
struct Starter {
    names: &'static [&'static str],
    /// Options whose value is a command, or a file with commands.
    starting: &'static [&'static str],
    /// Other options with a value in the next word.
    valued: &'static [&'static str],
    /// Short options with a command as their value, also at the end of several in one word.
    starting_letters: &'static str,
    /// Short options with another value, also at the end of several in one word.
    valued_letters: &'static str,
    /// The subcommands behind which an option can start a command; any operand, if there are none.
    subcommands: &'static [&'static str],
    /// Whether nothing behind `--` is an option.
    ends_options: bool,
    /// Whether a word that begins with `+` is an option.
    takes_plus: bool,
}

const PLAIN: Starter = Starter {
    names: &[],
    starting: &[],
    valued: &[],
    starting_letters: "",
    valued_letters: "",
    subcommands: &[],
    ends_options: true,
    takes_plus: false,
};

const STARTERS: [Starter; 12] = [
    Starter {
        names: &["find", "gfind"],
        starting: &["-exec", "-execdir", "-ok", "-okdir"],
        valued: &[
            "-name",
            "-iname",
            "-path",
            "-ipath",
            "-wholename",
            "-regex",
            "-iregex",
            "-lname",
            "-ilname",
            "-newer",
            "-anewer",
            "-cnewer",
            "-newermt",
            "-mtime",
            "-mmin",
            "-atime",
            "-amin",
            "-ctime",
            "-cmin",
            "-size",
            "-user",
            "-group",
            "-uid",
            "-gid",
            "-type",
            "-perm",
            "-maxdepth",
            "-mindepth",
            "-printf",
            "-inum",
            "-links",
            "-samefile",
        ],
        ends_options: false,
        ..PLAIN
    },
    Starter {
        names: &["tar", "gtar", "bsdtar"],
        starting: &[
            "--to-command",
            "--checkpoint-action",
            "--use-compress-program",
            "--info-script",
            "--new-volume-script",
            "--rmt-command",
            "--rsh-command",
        ],
        valued: &["--file", "--directory", "--exclude", "--transform", "--newer", "--owner"],
        starting_letters: "IF",
        valued_letters: "fCXgNb",
        ..PLAIN
    },
    Starter {
        names: &["rsync"],
        starting: &["--rsh", "--rsync-path"],
        valued: &["--exclude", "--include", "--bwlimit", "--log-file", "--timeout", "--port"],
        starting_letters: "e",
        valued_letters: "fTB",
        ..PLAIN
    },
    Starter {
        names: &["scp", "sftp"],
        starting_letters: "oSFD",
        valued_letters: "PilcJXbBR",
        ..PLAIN
    },
    Starter {
        names: &["git"],
        starting: &[
            "--config",
            "--config-env",
            "--exec-path",
            "--upload-pack",
            "--receive-pack",
            "--exec",
            "--extcmd",
            "--template",
            "--open-files-in-pager",
        ],
        valued: &["--message", "--branch", "--depth", "--author", "--date", "--origin"],
        // The folder of `-C` has a configuration that names commands.
        starting_letters: "cuxOC",
        valued_letters: "mbBoFj",
        subcommands: &[
            "archive",
            "bisect",
            "clone",
            "difftool",
            "fetch",
            "filter-branch",
            "grep",
            "ls-remote",
            "mergetool",
            "pull",
            "push",
            "rebase",
            "submodule",
        ],
        ..PLAIN
    },
    Starter {
        names: &["vi", "vim", "nvim", "gvim", "view", "vimdiff", "ex"],
        starting: &["--cmd"],
        starting_letters: "cSsuUWw",
        valued_letters: "rtT",
        takes_plus: true,
        ..PLAIN
    },
    Starter {
        names: &["emacs", "emacsclient"],
        starting: &["-eval", "--eval", "--execute", "--load", "--script", "--funcall"],
        starting_letters: "elf",
        takes_plus: true,
        ..PLAIN
    },
    Starter {
        names: &["gdb", "lldb"],
        starting: &[
            "-ex",
            "--ex",
            "-iex",
            "--iex",
            "-eval-command",
            "--eval-command",
            "-x",
            "-ix",
            "--command",
            "-command",
            "--args",
            "-args",
            "--one-line",
            "--source",
        ],
        valued: &["-p", "--pid", "-c", "--core", "-d", "--directory"],
        starting_letters: "oOsSkK",
        ..PLAIN
    },
    Starter {
        names: &["make", "gmake"],
        starting: &["--eval", "--file", "--makefile", "--directory", "--include-dir"],
        starting_letters: "EfCI",
        valued_letters: "jlOoW",
        ..PLAIN
    },
    Starter {
        names: &["npm", "pnpm", "yarn"],
        starting: &["--call", "--package"],
        starting_letters: "c",
        subcommands: &["dlx", "exec", "x"],
        ..PLAIN
    },
    Starter {
        names: &["split", "sort"],
        starting: &["--filter", "--compress-program"],
        valued: &["--lines", "--bytes", "--output", "--key"],
        valued_letters: "lbaknotTS",
        ..PLAIN
    },
    Starter {
        names: &["sqlite"],
        starting: &["-cmd", "--cmd", "-init", "--init"],
        valued: &["-separator", "-nullvalue"],
        ..PLAIN
    },
];

/// What the word before a template says about it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Before {
    /// The word is an option, and the template is the command that the option starts.
    Starting,
    /// The word is an option, and the template is its value but no command.
    Valued,
    Nothing,
}

/// The index of the command's word with a template that names a command, or that could be an option
/// which does. `words` begin with the name of the program.
pub(super) fn find(words: &[Word<'_>]) -> Option<usize> {
    let (program, rest) = words.split_first()?;
    let name = program_name(program.text);
    let starter = STARTERS.iter().find(|known| known.names.contains(&name.as_str()))?;
    let mut before = Before::Nothing;
    let mut first_operand: Option<&str> = None;
    for word in rest {
        if starter.ends_options && word.text == "--" {
            return None;
        }
        if is_template(word.text) && starter.refuses(word.text, before, first_operand) {
            return Some(word.at);
        }
        let is_operand = before == Before::Nothing && !word.text.starts_with('-');
        first_operand = first_operand.or(is_operand.then_some(word.text));
        before = starter.before_next(word.text);
    }
    None
}

impl Starter {
    fn refuses(&self, word: &str, before: Before, first_operand: Option<&str>) -> bool {
        // Only the text before a template is known.
        let known = word.split("{{").next().unwrap_or_default();
        match before {
            Before::Starting => true,
            Before::Valued => false,
            Before::Nothing if known.is_empty() => {
                let is_risky = |operand: &str| self.subcommands.contains(&operand);
                self.subcommands.is_empty() || first_operand.is_none_or(is_risky)
            }
            Before::Nothing => {
                let option = known.split_once('=').map_or(known, |(option, _)| option);
                let is_short = known.starts_with('-') && !known.starts_with("--");
                known == "-"
                    || known == "--"
                    || (self.takes_plus && known.starts_with('+'))
                    || self.starting.contains(&option)
                    || (is_short && known[1..].contains(|c| self.starting_letters.contains(c)))
            }
        }
    }

    fn before_next(&self, word: &str) -> Before {
        let last = word.chars().last().filter(|_| word.starts_with('-') && !word.starts_with("--"));
        let ends_with = |letters: &str| last.is_some_and(|last| letters.contains(last));
        if self.valued.contains(&word) {
            Before::Valued
        } else if self.starting.contains(&word) || ends_with(self.starting_letters) {
            Before::Starting
        } else if ends_with(self.valued_letters) {
            Before::Valued
        } else {
            Before::Nothing
        }
    }
}
