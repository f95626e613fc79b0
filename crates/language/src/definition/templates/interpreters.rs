//! Programs that read a text as a program, and how their words say which text that is.
//!
//! Only interpreters of programs are listed. Clients of databases are among the programs that start
//! commands (`starters`).

/// How an interpreter is told what to run.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    /// The text option says that the first operand is the program; without it, the operand is a
    /// file.
    Shell,
    /// The text option has the program as its value; without it, the first operand is a file.
    Inline,
    /// Like `Inline`, and everything behind the value is an argument.
    InlineLast,
    /// The first operand is the program, unless an option has it or names its file.
    Operand,
    /// Like `Operand`, with options also behind operands.
    OperandMixed,
    /// The text option has a program for a shell. This many literal operands end the options. If
    /// any number is allowed, the shell reads standard input where there is no text.
    Runner { operands: usize },
    /// All operands after the first `before` are joined to a program for a shell.
    Joined { before: usize },
    /// Standard input contains programs for a shell, whatever the words say.
    Commands,
    /// PowerShell: all words are a program, unless one of them names its file.
    PowerShell,
}

/// A kind of interpreter. Short options are letters, long ones are written with their dashes.
pub(super) struct Interpreter {
    pub(super) names: &'static [&'static str],
    pub(super) shape: Shape,
    /// Options with program text.
    pub(super) text: &'static str,
    pub(super) long_text: &'static [&'static str],
    /// Options that name a file with a program.
    pub(super) file: &'static str,
    /// Options with another value, in the same word or the next one.
    pub(super) valued: &'static str,
    pub(super) long_valued: &'static [&'static str],
    /// Options with a value in the same word, or none.
    pub(super) attached: &'static str,
    /// Options whose value is data for the program.
    pub(super) data: &'static str,
    /// Options with which operands are opened, and may name a command to start.
    pub(super) opens_operands: &'static [char],
}

const PLAIN: Interpreter = Interpreter {
    names: &[],
    shape: Shape::Inline,
    text: "",
    long_text: &[],
    file: "",
    valued: "",
    long_valued: &[],
    attached: "",
    data: "",
    opens_operands: &[],
};

const INTERPRETERS: [Interpreter; 26] = [
    Interpreter {
        names: &[
            "sh", "bash", "dash", "ash", "zsh", "ksh", "mksh", "pdksh", "oksh", "lksh", "rksh",
            "rbash", "rzsh", "hush", "yash", "posh", "csh", "tcsh",
        ],
        shape: Shape::Shell,
        text: "c",
        valued: "oO",
        long_valued: &["--rcfile", "--init-file"],
        ..PLAIN
    },
    Interpreter {
        names: &["fish", "nu", "elvish"],
        text: "cC",
        long_text: &["--command", "--commands", "--init-command"],
        valued: "df",
        ..PLAIN
    },
    Interpreter { names: &["pwsh", "powershell"], shape: Shape::PowerShell, ..PLAIN },
    Interpreter { names: &["cmd"], shape: Shape::Joined { before: 0 }, ..PLAIN },
    Interpreter {
        names: &["python", "pythonw", "pypy", "ipython", "micropython", "xonsh"],
        shape: Shape::InlineLast,
        text: "cm",
        valued: "WX",
        ..PLAIN
    },
    Interpreter {
        names: &["perl", "raku"],
        text: "eE",
        valued: "I",
        attached: "iMmFDxCV",
        opens_operands: &['n', 'p'],
        ..PLAIN
    },
    Interpreter {
        names: &["ruby", "jruby", "irb"],
        text: "e",
        valued: "ICrE",
        attached: "iFxKTW",
        ..PLAIN
    },
    Interpreter {
        names: &["node", "nodejs", "bun", "deno", "tsx", "ts-node", "qjs"],
        text: "ep",
        long_text: &["--eval", "--print"],
        valued: "rC",
        long_valued: &[
            "--require",
            "--import",
            "--loader",
            "--experimental-loader",
            "--env-file",
            "--conditions",
            "--input-type",
        ],
        ..PLAIN
    },
    Interpreter { names: &["php", "php-cli"], text: "rBRE", file: "fF", valued: "dczt", ..PLAIN },
    Interpreter { names: &["lua", "luajit", "texlua"], text: "e", valued: "l", ..PLAIN },
    Interpreter {
        names: &["julia"],
        text: "eE",
        long_text: &["--eval", "--print"],
        valued: "LJptC",
        ..PLAIN
    },
    Interpreter { names: &["r"], text: "e", file: "f", ..PLAIN },
    Interpreter {
        names: &["rscript", "groovy", "scala", "racket", "clojure", "clj", "elixir", "ghc"],
        text: "e",
        long_text: &["--eval", "--rpc-eval"],
        ..PLAIN
    },
    Interpreter { names: &["osascript"], text: "e", valued: "ls", ..PLAIN },
    Interpreter { names: &["guile"], text: "ce", valued: "Ll", ..PLAIN },
    Interpreter { names: &["tclsh", "expect"], text: "c", file: "f", ..PLAIN },
    Interpreter {
        names: &["awk", "gawk", "mawk", "nawk", "original-awk"],
        shape: Shape::Operand,
        text: "e",
        long_text: &["--source"],
        file: "fE",
        valued: "F",
        data: "v",
        ..PLAIN
    },
    // The operand is a file or a class that is run.
    Interpreter {
        names: &["java", "javaw", "jshell", "kotlin", "dotnet", "mono", "wine"],
        shape: Shape::Operand,
        data: "D",
        ..PLAIN
    },
    // The stack calculators can start commands with `!`.
    Interpreter {
        names: &["dc", "bc"],
        shape: Shape::Operand,
        text: "e",
        long_text: &["--expression"],
        file: "f",
        ..PLAIN
    },
    // GNU sed has commands that start other programs.
    Interpreter {
        names: &["sed", "gsed"],
        shape: Shape::OperandMixed,
        text: "e",
        long_text: &["--expression"],
        file: "f",
        valued: "l",
        attached: "i",
        ..PLAIN
    },
    Interpreter {
        names: &["script", "su", "sg"],
        shape: Shape::Runner { operands: usize::MAX },
        text: "c",
        long_text: &["--command", "--session-command"],
        valued: "EIOBTmogGsw",
        ..PLAIN
    },
    Interpreter {
        names: &["flock"],
        shape: Shape::Runner { operands: 2 },
        text: "c",
        long_text: &["--command"],
        valued: "wE",
        ..PLAIN
    },
    Interpreter {
        names: &["runuser"],
        shape: Shape::Runner { operands: 2 },
        text: "c",
        long_text: &["--command", "--session-command"],
        valued: "ugGsw",
        ..PLAIN
    },
    Interpreter {
        names: &["ssh", "autossh"],
        shape: Shape::Joined { before: 1 },
        valued: "BbcDEeFIiJLlmOoPpQRSWw",
        ..PLAIN
    },
    Interpreter { names: &["watch"], shape: Shape::Joined { before: 0 }, valued: "nq", ..PLAIN },
    Interpreter { names: &["at", "batch", "parallel"], shape: Shape::Commands, ..PLAIN },
];

/// Programs that start the command that follows their own words.
const LAUNCHERS: [&str; 45] = [
    "env",
    "nice",
    "ionice",
    "nohup",
    "setsid",
    "stdbuf",
    "timeout",
    "time",
    "sudo",
    "doas",
    "chroot",
    "busybox",
    "toybox",
    "xargs",
    "chrt",
    "taskset",
    "unshare",
    "nsenter",
    "strace",
    "ltrace",
    "setpriv",
    "systemd-run",
    "systemd-inhibit",
    "fakeroot",
    "firejail",
    "bwrap",
    "gosu",
    "su-exec",
    "tini",
    "dumb-init",
    "prlimit",
    "numactl",
    "unbuffer",
    "eatmydata",
    "torsocks",
    "caffeinate",
    "choom",
    "flock",
    "setarch",
    "linux32",
    "linux64",
    "dbus-run-session",
    // The dynamic linker, without its version.
    "ld.so",
    "ld-linux-x86-64.so",
    "ld-linux-aarch64.so",
];

/// Launchers with options whose value is the next word, by their letters, and with this many
/// operands before the command.
const LAUNCHER_VALUES: [(&str, &str, usize); 19] = [
    ("sudo", "ugpChrtTUDR", 0),
    ("doas", "uC", 0),
    ("env", "uC", 0),
    ("nice", "n", 0),
    ("ionice", "cnpPu", 0),
    ("timeout", "sk", 1),
    ("stdbuf", "ioe", 0),
    ("xargs", "InPdLasE", 0),
    ("chroot", "", 1),
    ("gosu", "", 1),
    ("su-exec", "", 1),
    ("taskset", "", 1),
    ("strace", "oepESs", 0),
    ("nsenter", "tSG", 0),
    ("systemd-run", "pMHtuE", 0),
    ("time", "fo", 0),
    ("choom", "np", 0),
    ("setarch", "", 1),
    ("flock", "wE", 1),
];

/// The letters of a launcher's options with a value, and the number of its own operands.
pub(super) fn launcher_values(word: &str) -> (&'static str, usize) {
    let name = program_name(word);
    let known = LAUNCHER_VALUES.iter().find(|(known, ..)| *known == name);
    known.map_or(("", 0), |(_, letters, operands)| (letters, *operands))
}

/// The program that a word names, without folders, version and `.exe`.
pub(super) fn program_name(word: &str) -> String {
    let name = word.rsplit(['/', '\\']).next().unwrap_or_default().to_ascii_lowercase();
    let name = name.strip_suffix(".exe").unwrap_or(&name);
    name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.' || c == '-').to_owned()
}

pub(super) fn interpreter(word: &str) -> Option<&'static Interpreter> {
    let name = program_name(word);
    INTERPRETERS.iter().find(|known| known.names.contains(&name.as_str()))
}

pub(super) fn is_launcher(word: &str) -> bool {
    LAUNCHERS.contains(&program_name(word).as_str())
}

/// What an option says about the words behind it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Meaning {
    Flag,
    /// This many values follow.
    Values(usize),
    /// A shell's options: whether the first operand is a program, whether the program comes from
    /// standard input, and how many values follow.
    ShellOptions {
        has_text: bool,
        is_stdin: bool,
        values: usize,
    },
    /// Program text, in this word or the next one.
    Text {
        is_attached: bool,
    },
    /// The name of a file with a program, in this word or the next one.
    File {
        is_attached: bool,
    },
    /// Data for the program, in this word or the next one.
    Data {
        is_attached: bool,
    },
}

impl Interpreter {
    pub(super) fn is_option(&self, word: &str) -> bool {
        let is_dashed = word.starts_with('-') && word.len() > 1;
        is_dashed || (self.shape == Shape::Shell && word.starts_with('+'))
    }

    /// Reads an option. An unknown one is taken for a flag.
    pub(super) fn meaning(&self, option: &str) -> Meaning {
        if option.starts_with("--") {
            let (name, is_attached) = match option.split_once('=') {
                Some((name, _)) => (name, true),
                None => (option, false),
            };
            return match name {
                // A long option may be abbreviated.
                _ if self.long_text.iter().any(|long| name.len() > 2 && long.starts_with(name)) => {
                    Meaning::Text { is_attached }
                }
                "--file" if !self.file.is_empty() => Meaning::File { is_attached },
                "--assign" if !self.data.is_empty() => Meaning::Data { is_attached },
                _ if self.long_valued.contains(&name) && !is_attached => Meaning::Values(1),
                _ => Meaning::Flag,
            };
        }
        if self.shape == Shape::Shell { self.shell_options(option) } else { self.short(option) }
    }

    /// Reads short options of a shell. Letters may be combined, as in `-eo`; each `o` has a value
    /// in a following word.
    fn shell_options(&self, option: &str) -> Meaning {
        let is_on = option.starts_with('-');
        Meaning::ShellOptions {
            has_text: is_on && option.contains(self.text),
            is_stdin: is_on && option.contains('s'),
            values: option.chars().filter(|&letter| self.valued.contains(letter)).count(),
        }
    }

    /// Reads a short option. The first letter that takes a value takes the rest of the word, or the
    /// next word.
    fn short(&self, option: &str) -> Meaning {
        for (at, letter) in option.char_indices().skip(1) {
            let is_attached = at + letter.len_utf8() < option.len();
            if self.text.contains(letter) {
                return Meaning::Text { is_attached };
            } else if self.file.contains(letter) {
                return Meaning::File { is_attached };
            } else if self.data.contains(letter) {
                return Meaning::Data { is_attached };
            } else if self.valued.contains(letter) {
                return if is_attached { Meaning::Flag } else { Meaning::Values(1) };
            } else if self.attached.contains(letter) {
                return Meaning::Flag;
            }
        }
        Meaning::Flag
    }
}
