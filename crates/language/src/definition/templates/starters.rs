//! Programs that are no interpreters, and that start a command which one of their options names.

use super::injection::{STDIN_FILES, Word, is_template};
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
    /// Short options without a value, also at the end of several in one word.
    flag_letters: &'static str,
    /// The subcommands behind which an option can start a command; any operand, if there are none.
    subcommands: &'static [&'static str],
    /// Whether nothing behind `--` is an option.
    ends_options: bool,
    /// Whether a word that begins with `+` is an option.
    takes_plus: bool,
    /// How many operands are no code, if those behind them are.
    code_after: Option<usize>,
    /// Subcommands with code behind them, in small letters.
    code_commands: &'static [&'static str],
}

const PLAIN: Starter = Starter {
    names: &[],
    starting: &[],
    valued: &[],
    starting_letters: "",
    valued_letters: "",
    flag_letters: "",
    subcommands: &[],
    ends_options: true,
    takes_plus: false,
    code_after: None,
    code_commands: &[],
};

/// A program whose operands are commands, tasks that take code, or addresses that start programs.
const ALL_CODE: Starter = Starter { ends_options: false, code_after: Some(0), ..PLAIN };

const STARTERS: [Starter; 29] = [
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
        flag_letters: "cxtruvzjJhkpOSUWam",
        ..PLAIN
    },
    Starter {
        names: &["rsync"],
        starting: &["--rsh", "--rsync-path"],
        valued: &["--exclude", "--include", "--bwlimit", "--log-file", "--timeout", "--port"],
        starting_letters: "e",
        valued_letters: "fTB",
        flag_letters: "avzrlptgoDnPhuxHAXqScLk",
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
    // `X:=$(shell …)` is code wherever it stands, and so is a target with such a text in it.
    Starter {
        names: &["make", "gmake", "bmake", "nmake", "remake"],
        starting: &["--eval", "--file", "--makefile", "--directory", "--include-dir"],
        starting_letters: "EfCI",
        valued_letters: "jlOoW",
        ends_options: false,
        code_after: Some(0),
        ..PLAIN
    },
    Starter {
        names: &["tmux", "screen"],
        starting_letters: "cfpX",
        valued_letters: "LSTsntxy",
        ..ALL_CODE
    },
    Starter { names: &["socat"], ..ALL_CODE },
    Starter {
        names: &["ansible", "ansible-playbook"],
        starting: &["--args", "--extra-vars", "--module-name", "--inventory", "--module-path"],
        starting_letters: "aemiM",
        valued_letters: "ltTuf",
        ..ALL_CODE
    },
    Starter {
        names: &["rake", "just", "gradle", "gradlew", "mvn", "mvnw", "ant", "task", "invoke"],
        starting: &["--execute", "--rakefile", "--justfile", "--set", "--init-script", "--file"],
        starting_letters: "eEprRfIb",
        ..ALL_CODE
    },
    Starter {
        names: &["cmake", "ctest"],
        starting: &["--build", "--test-command", "--toolchain"],
        starting_letters: "PSCBDE",
        ..ALL_CODE
    },
    Starter {
        names: &["nix-shell"],
        starting: &["--run", "--command", "--packages", "--expr"],
        starting_letters: "pEI",
        ..ALL_CODE
    },
    Starter {
        names: &["erl", "sbcl", "ghci", "iex", "swipl", "maxima", "octave", "gnuplot", "sage"],
        starting: &["-eval", "--eval", "-run", "-s", "--load", "--rpc-eval"],
        starting_letters: "ergls",
        ..ALL_CODE
    },
    Starter {
        names: &["wget"],
        starting: &["--use-askpass", "--execute", "--config"],
        starting_letters: "e",
        valued_letters: "OPaotTwQU",
        ..PLAIN
    },
    Starter { names: &["zip"], starting: &["-TT", "--unzip-command"], ..PLAIN },
    Starter {
        names: &["nc", "ncat", "netcat"],
        starting: &["--exec", "--sh-exec", "--lua-exec"],
        starting_letters: "ec",
        valued_letters: "pswiqx",
        ..PLAIN
    },
    Starter {
        names: &["tcpdump"],
        starting: &["--postrotate-command"],
        starting_letters: "z",
        valued_letters: "iwrcCGWsF",
        ..PLAIN
    },
    Starter {
        names: &["man", "less", "more"],
        starting: &["--pager", "--html", "--lesskey-src", "--lesskey-file", "--lesskey-content"],
        starting_letters: "PHk",
        takes_plus: true,
        ..PLAIN
    },
    Starter {
        names: &["hg"],
        starting: &["--config", "--ssh", "--remotecmd", "--repository"],
        starting_letters: "eR",
        valued_letters: "mu",
        ..PLAIN
    },
    Starter {
        names: &["vagrant"],
        starting: &["--command", "--ssh-flag"],
        starting_letters: "cC",
        ..PLAIN
    },
    // Clients of databases with commands of their own, or that evaluate scripts.
    Starter {
        names: &["mongosh", "mongo", "clickhouse-client", "clickhouse", "sqlcmd", "cqlsh", "usql"],
        starting: &["--eval", "--query", "--execute", "--file", "--queries-file"],
        valued: &["--host", "--port", "--username", "--user", "--database", "--param"],
        starting_letters: "qQefi",
        valued_letters: "SUd",
        ..PLAIN
    },
    Starter {
        names: &["redis-cli", "valkey-cli"],
        starting: &["--eval", "--pipe"],
        valued: &["-h", "-p", "-n", "-u", "-s"],
        subcommands: &["--eval"],
        code_commands: &["eval", "eval_ro", "config", "function", "module", "script", "acl"],
        ..PLAIN
    },
    Starter {
        names: &["split", "sort"],
        starting: &["--filter", "--compress-program"],
        valued: &["--lines", "--bytes", "--output", "--key"],
        valued_letters: "lbaknotTS",
        ..PLAIN
    },
    // Clients of databases have commands that start a shell: `.shell`, `\!`, `system`.
    Starter {
        names: &["sqlite", "duckdb"],
        starting: &["-cmd", "--cmd", "-init", "--init", "-c", "-s", "-f"],
        valued: &["-separator", "-nullvalue"],
        ends_options: false,
        code_after: Some(1),
        ..PLAIN
    },
    Starter {
        names: &["psql"],
        starting: &["--command", "--file", "--output", "--log-file"],
        valued: &["--dbname", "--host", "--port", "--username", "--set", "--variable"],
        starting_letters: "cfoL",
        valued_letters: "dhpUvFPRT",
        ..PLAIN
    },
    Starter {
        names: &["mysql", "mariadb"],
        starting: &["--execute", "--init-command", "--pager", "--plugin-dir"],
        valued: &["--database", "--host", "--port", "--user", "--defaults-group-suffix"],
        starting_letters: "e",
        valued_letters: "DhPuS",
        ..PLAIN
    },
];

/// A program that reads commands from standard input, unless its words say otherwise.
struct Reader {
    names: &'static [&'static str],
    /// Options with which it does not.
    elsewhere: &'static [&'static str],
    elsewhere_letters: &'static str,
    /// With more operands than these it does not. `None` if it does only where a word names
    /// standard input.
    operands: Option<usize>,
}

const READERS: [Reader; 6] = [
    Reader {
        names: &["psql"],
        elsewhere: &["--command", "--file", "--list", "--version", "--help"],
        elsewhere_letters: "cflV?",
        operands: Some(usize::MAX),
    },
    Reader {
        names: &["mysql", "mariadb"],
        elsewhere: &["--execute", "--version", "--help"],
        elsewhere_letters: "eV?",
        operands: Some(usize::MAX),
    },
    Reader {
        names: &["sqlite"],
        elsewhere: &["-version", "--version", "-help", "--help"],
        elsewhere_letters: "",
        operands: Some(1),
    },
    Reader {
        names: &["gdb", "lldb"],
        elsewhere: &["-batch", "--batch", "--version", "--help"],
        elsewhere_letters: "",
        operands: Some(usize::MAX),
    },
    Reader { names: &["crontab"], elsewhere: &[], elsewhere_letters: "lre", operands: Some(0) },
    Reader {
        names: &["make", "gmake", "bmake", "nmake", "remake"],
        elsewhere: &[],
        elsewhere_letters: "",
        operands: None,
    },
];

/// Whether the program reads commands from standard input. `words` begin with its name.
pub(super) fn reads_commands(words: &[Word<'_>]) -> bool {
    let Some((program, rest)) = words.split_first() else { return false };
    let name = program_name(program.text);
    let Some(reader) = READERS.iter().find(|known| known.names.contains(&name.as_str())) else {
        return false;
    };
    let names_stdin = |word: &Word<'_>| {
        let value = word.text.rsplit('=').next().unwrap_or_default();
        STDIN_FILES.contains(&value.trim_start_matches("-f")) || STDIN_FILES.contains(&value)
    };
    let is_elsewhere = |word: &Word<'_>| {
        let option = word.text.split('=').next().unwrap_or_default();
        let is_short = option.starts_with('-') && !option.starts_with("--");
        reader.elsewhere.contains(&option)
            || (is_short && option.contains(|c| reader.elsewhere_letters.contains(c)))
    };
    let operands = rest.iter().filter(|word| !word.text.starts_with('-')).count();
    let is_default = reader.operands.is_some_and(|most| operands <= most);
    rest.iter().any(names_stdin) || (is_default && !rest.iter().any(is_elsewhere))
}

/// What the word before a template says about it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Before {
    /// The word is an option, and the template is the command that the option starts.
    Starting,
    /// The word is an option, and the template is its value but no command.
    Valued,
    Nothing,
}

fn starter(name: &str) -> Option<&'static Starter> {
    STARTERS.iter().find(|known| known.names.contains(&name))
}

/// Whether operands behind `--` are no code for a program of this name. `None` if it is not listed.
pub(super) fn ends_options(name: &str) -> Option<bool> {
    starter(name).map(|starter| starter.ends_options)
}

/// Whether the option starts the command that is its value.
pub(super) fn starts_value(name: &str, option: &str) -> bool {
    starter(name).is_some_and(|starter| starter.before_next(option) == Before::Starting)
}

/// Whether the first operand of a program of this name says what it does.
pub(super) fn has_subcommands(name: &str) -> bool {
    starter(name).is_some_and(|starter| !starter.subcommands.is_empty())
}

/// The index of the command's word with a template that names a command, or that could be an option
/// which does. `words` begin with the name of the program.
pub(super) fn find(words: &[Word<'_>]) -> Option<usize> {
    let (program, rest) = words.split_first()?;
    let name = program_name(program.text);
    let starter = starter(&name)?;
    let mut before = Before::Nothing;
    let mut first_operand: Option<&str> = None;
    let mut operands = 0;
    let mut previous = program.text;
    for word in rest {
        if starter.ends_options && word.text == "--" && !starter.may_take_value(previous) {
            return None;
        }
        previous = word.text;
        if is_template(word.text) && starter.refuses(word.text, before, first_operand) {
            return Some(word.at);
        }
        let is_operand = before == Before::Nothing && !word.text.starts_with('-');
        let is_behind_code = first_operand.is_some_and(|operand| {
            starter.code_commands.contains(&operand.to_ascii_lowercase().as_str())
        });
        let is_code = is_behind_code
            || (is_operand && starter.code_after.is_some_and(|most| operands >= most));
        if is_code && is_template(word.text) {
            return Some(word.at);
        }
        operands += usize::from(is_operand);
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
                    || self.is_starting(option)
                    || (is_short && known[1..].contains(|c| self.starting_letters.contains(c)))
            }
        }
    }

    /// Whether an option starts a command. A long one may be abbreviated, and a short one of
    /// several letters may have its value behind it.
    fn is_starting(&self, option: &str) -> bool {
        let is_long = option.starts_with("--");
        self.starting.iter().any(|known| {
            *known == option
                || (is_long && option.len() > 2 && known.starts_with(option))
                || (!is_long && known.len() > 2 && option.starts_with(known))
        })
    }

    /// Whether the next word may be the value of this one, even if it is `--`: further options may
    /// then follow. An option that is not known as a flag may have a value.
    fn may_take_value(&self, word: &str) -> bool {
        let is_short = !word.starts_with("--");
        let is_flag = is_short && word.ends_with(|last| self.flag_letters.contains(last));
        word.starts_with('-') && !word.contains('=') && !is_flag
    }

    fn before_next(&self, word: &str) -> Before {
        let last = word.chars().last().filter(|_| word.starts_with('-') && !word.starts_with("--"));
        let ends_with = |letters: &str| last.is_some_and(|last| letters.contains(last));
        if self.valued.contains(&word) {
            Before::Valued
        } else if self.is_starting(word) || ends_with(self.starting_letters) {
            Before::Starting
        } else if ends_with(self.valued_letters) {
            Before::Valued
        } else {
            Before::Nothing
        }
    }
}
