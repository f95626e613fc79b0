//! Finds templates that would become part of a program.
//!
//! The rule: the value of a template is never read as a program by a shell or another interpreter,
//! and never chooses the program or its options. It may be an argument after a literal program.
//! Where it is not clear that a word is such an argument, a template in it is refused.

use super::interpreters::{
    Interpreter, Meaning, Shape, interpreter, is_launcher, launcher_values, program_name,
};
use super::launches::{Launched, launched};
use super::starters;
use super::variables::chooses_program;

/// Names under which a program reads its own standard input.
pub(super) const STDIN_FILES: [&str; 4] = ["-", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"];
/// Options of `env` with a value in the next word.
const ENV_VALUED: [&str; 4] = ["-u", "-C", "--unset", "--chdir"];
/// At most this many programs that start each other, such as `uv run docker exec box env`, are
/// looked through. A template behind more is refused.
const LAUNCHES: usize = 16;

/// The content that a command reads from standard input.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stdin {
    /// The run's input, which the caller of the run supplied.
    Input,
    Literal,
    Template,
}

/// Where a template would become a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Injection {
    /// In the command's word with this index.
    Word(usize),
    Stdin,
}

/// A word, and the index of the command's word that it comes from.
#[derive(Clone, Copy)]
pub(super) struct Word<'t> {
    pub(super) text: &'t str,
    pub(super) at: usize,
}

/// The result of checking the words of an interpreter.
enum Judged {
    /// No template is read as a program.
    Harmless { reads_stdin: bool },
    /// A template is in a text that is a program because of an option or its position.
    InText(usize),
    /// A template stands for an option or for a file with a program.
    InChoice(usize),
}

pub(crate) fn is_template(text: &str) -> bool {
    text.contains("{{")
}

/// Looks for a template that would become a program, in the command and in those that it starts.
pub(crate) fn find(words: &[&str], mut stdin: Stdin) -> Option<Injection> {
    let mut words = split_for_env(words);
    for _ in 0..LAUNCHES {
        if let Some(found) = find_in_one(&words, stdin) {
            return Some(found);
        }
        match launched(&words)? {
            Launched::Template(at) => return Some(Injection::Word(at)),
            Launched::Program(inner, is_detached) => {
                words = inner;
                if is_detached && stdin == Stdin::Input {
                    stdin = Stdin::Literal;
                }
            }
        }
    }
    words.iter().find(|word| is_template(word.text)).map(|word| Injection::Word(word.at))
}

fn find_in_one(words: &[Word<'_>], stdin: Stdin) -> Option<Injection> {
    let first = words.first()?;
    if is_template(first.text) {
        return Some(Injection::Word(first.at));
    }
    if let Some(at) = template_as_command(words).or_else(|| template_of_env(words)) {
        return Some(Injection::Word(at));
    }
    match started(words) {
        Some(at) => {
            let command = words[at];
            let template = is_template(command.text).then_some(command.at);
            if let Some(at) = template.or_else(|| starters::find(&words[at..])) {
                return Some(Injection::Word(at));
            }
            if stdin != Stdin::Literal && starters::reads_commands(&words[at..]) {
                return Some(Injection::Stdin);
            }
        }
        None if stdin != Stdin::Literal && starts_a_shell(words) => {
            return Some(Injection::Stdin);
        }
        None => {}
    }
    let lead = lead(words);
    for (at, word) in words.iter().enumerate() {
        let Some(kind) = interpreter(word.text) else { continue };
        let is_started = is_started(words, at) || started(words) == Some(at);
        let is_certain = Some(at) == lead || is_started;
        let reads_stdin = match judge(kind, &words[at + 1..]) {
            Judged::InText(at) if is_certain || has_text_option(kind) => {
                return Some(Injection::Word(at));
            }
            Judged::InChoice(at) if is_certain => return Some(Injection::Word(at)),
            Judged::Harmless { reads_stdin } => reads_stdin && is_certain,
            Judged::InText(_) | Judged::InChoice(_) => false,
        };
        // A word such as `bash` may be an argument that starts nothing, as in `apt-get install
        // bash`.
        let is_input = stdin == Stdin::Input && is_started;
        let is_open = stdin == Stdin::Template || is_input;
        if is_open && (reads_stdin || is_filled_by_xargs(&words[..at])) {
            return Some(Injection::Stdin);
        }
    }
    None
}

/// Whether a command in this shell text reads its program from standard input, which the caller of
/// the run may have written. A command behind a pipe, or with a redirection, reads something else.
pub(crate) fn reads_program(shell: &str, stdin: Stdin) -> bool {
    const BEFORE_COMMANDS: [&str; 11] =
        ["exec", "command", "builtin", "if", "then", "else", "while", "until", "do", "!", "{"];
    let pipelines = shell.replace("||", ";");
    let mut pipelines = pipelines.split([';', '&', '\n', '(', ')']);
    pipelines.any(|pipeline| {
        let first = pipeline.split('|').next().unwrap_or_default();
        let words = first.split_whitespace().map(|word| word.trim_matches(['"', '\'']));
        let is_before = |word: &&str| BEFORE_COMMANDS.contains(word) || is_assignment(word);
        let words: Vec<&str> = words.skip_while(is_before).collect();
        // Elsewhere a word such as `sh` is rather the name of a file.
        let starts = |word: &&str| {
            interpreter(word).is_some() || is_launcher(word) || CONTAINERS.contains(word)
        };
        let may_start = words.first().is_some_and(starts) && !first.contains('<');
        may_start && find(&words, stdin) == Some(Injection::Stdin)
    })
}

/// Programs that start another one in a container.
const CONTAINERS: [&str; 3] = ["docker", "kubectl", "podman"];

fn is_assignment(word: &str) -> bool {
    let name = word.split_once('=').map(|(name, _)| name);
    name.is_some_and(|name| {
        !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
    })
}

/// The index of the interpreter that the command starts: the first word, one behind a launcher, or
/// else a shell anywhere, as in `docker exec box sh`.
fn lead(words: &[Word<'_>]) -> Option<usize> {
    let kinds = || words.iter().map(|word| interpreter(word.text)).enumerate();
    let is_shell = |kind: &Interpreter| kind.shape == Shape::Shell;
    let found = |wanted: &dyn Fn(&Interpreter) -> bool| {
        kinds().find(|(_, kind)| kind.is_some_and(wanted)).map(|(at, _)| at)
    };
    let first = interpreter(words[0].text);
    match first.map(|kind| kind.shape) {
        Some(Shape::Runner { .. }) => found(&is_telling),
        Some(_) => Some(0),
        None if is_launcher(words[0].text) => found(&is_telling),
        None => found(&is_shell),
    }
}

/// Whether a name is hardly ever an ordinary argument. `script`, `watch` and `at` are ordinary
/// arguments of many commands.
fn is_telling(kind: &Interpreter) -> bool {
    !matches!(kind.shape, Shape::Runner { .. } | Shape::Joined { .. } | Shape::Commands)
}

/// Whether an option marks the text of a program, so that the interpreter's name is not mistaken
/// for an argument.
fn has_text_option(kind: &Interpreter) -> bool {
    matches!(kind.shape, Shape::Shell | Shape::Inline | Shape::InlineLast)
}

/// Whether `xargs` fills the command from standard input. It turns its input into arguments:
/// options if no program comes before them, and programs with `-I`.
fn is_filled_by_xargs(before: &[Word<'_>]) -> bool {
    let mut rest = before.iter().skip_while(|word| program_name(word.text) != "xargs");
    let is_replacing = |word: &Word<'_>| {
        word.text.starts_with("-I")
            || word.text.starts_with("-i")
            || word.text.starts_with("--replace")
    };
    rest.any(is_replacing)
}

/// Whether only launchers and their options come before this word.
fn is_started(words: &[Word<'_>], at: usize) -> bool {
    let is_own = |word: &Word<'_>| is_launcher(word.text) || !may_be_command(word.text);
    words[..at].iter().all(is_own)
}

/// Whether this literal word may be a command that a launcher starts: it is no option, number or
/// variable.
fn may_be_command(text: &str) -> bool {
    let is_number = text.starts_with(|c: char| c.is_ascii_digit());
    !is_template(text) && !text.starts_with('-') && !text.contains('=') && !is_number
}

/// The index of the program that is started in the end: the first word, or the one behind launchers
/// with their options and operands. `None` if no word is left for it.
pub(super) fn started(words: &[Word<'_>]) -> Option<usize> {
    let mut program = 0;
    while is_launcher(words.get(program)?.text) {
        let (valued, mut operands) = launcher_values(words[program].text);
        let mut at = program + 1;
        while let Some(Word { text, .. }) = words.get(at) {
            let takes_value = !text.starts_with("--") && text.ends_with(|c| valued.contains(c));
            if text.starts_with('-') {
                at += if takes_value { 2 } else { 1 };
            } else if text.split_once('=').is_some_and(|(name, _)| is_variable(name)) {
                at += 1;
            } else if operands > 0 {
                operands -= 1;
                at += 1;
            } else {
                break;
            }
        }
        program = at;
    }
    Some(program)
}

/// Whether a launcher without a command starts a shell, which reads standard input.
fn starts_a_shell(words: &[Word<'_>]) -> bool {
    let asks = |options: &[&str]| words.iter().any(|word| options.contains(&word.text));
    words.iter().any(|word| match program_name(word.text).as_str() {
        "chroot" | "fakeroot" | "firejail" | "nsenter" | "unshare" => true,
        "doas" => asks(&["-s"]),
        "sudo" => asks(&["-s", "-i", "-is", "-si", "--shell", "--login"]),
        "systemd-run" => asks(&["-S", "--shell"]),
        _ => false,
    })
}

/// A template behind a launcher, where no literal word could be the command.
fn template_as_command(words: &[Word<'_>]) -> Option<usize> {
    let (first, rest) = words.split_first()?;
    let template = rest.iter().find(|word| is_template(word.text))?;
    let has_command = rest.iter().any(|word| may_be_command(word.text));
    (is_launcher(first.text) && !has_command).then_some(template.at)
}

/// A template in the options of `env`, one of which splits a text into words, in a variable that
/// chooses what runs, or in place of its command.
fn template_of_env(words: &[Word<'_>]) -> Option<usize> {
    let is_env = |(at, word): &(usize, &Word<'_>)| {
        program_name(word.text) == "env" && (*at == 0 || is_launcher(words[at - 1].text))
    };
    let (env, _) = words.iter().enumerate().find(is_env)?;
    let mut at = env + 1;
    while let Some(word) = words.get(at) {
        let variable = word.text.split_once('=').map(|(name, _)| name);
        let is_assignment = variable.is_some_and(is_variable);
        let is_data = is_assignment && !variable.is_some_and(chooses_program);
        if !is_data && is_template(word.text) {
            return Some(word.at);
        }
        if !is_assignment && !word.text.starts_with('-') {
            return None;
        }
        let value = words.get(at + 1).filter(|_| ENV_VALUED.contains(&word.text));
        at += if value.is_some_and(|value| !is_template(value.text)) { 2 } else { 1 };
    }
    None
}

fn is_variable(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// The words, with a literal text that `env -S` splits already split.
pub(super) fn split_for_env<'t>(words: &[&'t str]) -> Vec<Word<'t>> {
    let (mut split, mut is_env, mut is_next) = (Vec::new(), false, false);
    for (at, &text) in words.iter().enumerate() {
        let attached = match text.strip_prefix("--split-string") {
            Some(rest) => rest.strip_prefix('=').or(rest.is_empty().then_some("")),
            None if text.starts_with("--") => None,
            None => {
                text.strip_prefix('-').and_then(|rest| rest.split_once('S')).map(|(_, rest)| rest)
            }
        };
        let pieces = match attached {
            _ if is_template(text) => None,
            _ if is_next => Some(text),
            Some(attached) if is_env => Some(attached),
            _ => None,
        };
        match pieces {
            Some(pieces) => split.extend(
                pieces
                    .split_whitespace()
                    .map(|piece| Word { text: piece.trim_matches(['"', '\'']), at }),
            ),
            None => split.push(Word { text, at }),
        }
        is_next = is_env && !is_next && attached == Some("");
        is_env |= program_name(text) == "env";
    }
    split
}

/// Checks the words behind the name of an interpreter.
fn judge(kind: &Interpreter, words: &[Word<'_>]) -> Judged {
    if let [only] = words {
        let is_short = kind.shape != Shape::Shell && ["-v", "-V", "-h"].contains(&only.text);
        if is_short || ["--version", "--help"].contains(&only.text) {
            return Judged::Harmless { reads_stdin: false };
        }
    }
    if let Some(at) = opened_as_command(kind, words) {
        return Judged::InText(at);
    }
    match kind.shape {
        Shape::Commands => Judged::Harmless { reads_stdin: true },
        Shape::PowerShell => power_shell(words),
        _ => Walk {
            kind,
            words,
            at: 0,
            has_program: false,
            is_over: false,
            is_stdin: false,
            operands: 0,
        }
        .judge(),
    }
}

/// A template among the operands that perl's `<>` opens: it takes `cmd|` for a command. The options
/// `-n` and `-p` read them so, and `<<>>` does not.
fn opened_as_command(kind: &Interpreter, words: &[Word<'_>]) -> Option<usize> {
    let opens = |word: &Word<'_>| {
        let letters = word.text.strip_prefix('-').filter(|rest| !rest.starts_with('-'));
        let letters = letters.map(|rest| rest.split(['e', 'E']).next().unwrap_or_default());
        letters.is_some_and(|letters| letters.contains(kind.opens_operands))
            || word.text.replace("<<>>", "").contains("<>")
    };
    let is_open = !kind.opens_operands.is_empty() && words.iter().any(opens);
    words.iter().find(|word| is_open && is_template(word.text)).map(|word| word.at)
}

/// Treats all words as a program, except those behind `-File script.ps1`.
fn power_shell(words: &[Word<'_>]) -> Judged {
    for (at, word) in words.iter().enumerate() {
        if is_template(word.text) {
            return Judged::InText(word.at);
        }
        if ["-f", "-fi", "-fil", "-file"].contains(&word.text.to_ascii_lowercase().as_str()) {
            return match words.get(at + 1) {
                Some(file) if is_template(file.text) => Judged::InChoice(file.at),
                Some(file) => Judged::Harmless { reads_stdin: file.text == "-" },
                None => Judged::Harmless { reads_stdin: true },
            };
        }
    }
    let is_stdin = words.last().is_none_or(|word| word.text == "-");
    Judged::Harmless { reads_stdin: is_stdin }
}

/// A walk over the words of an interpreter, up to where its arguments begin.
struct Walk<'w, 't> {
    kind: &'w Interpreter,
    words: &'w [Word<'t>],
    /// The index of the next word.
    at: usize,
    /// Whether a word has given the program, or, for a shell, has said that the first operand is
    /// one.
    has_program: bool,
    /// Whether no more options follow.
    is_over: bool,
    /// Whether a word says that the program comes from standard input.
    is_stdin: bool,
    /// The number of operands so far.
    operands: usize,
}

impl<'t> Walk<'_, 't> {
    fn judge(mut self) -> Judged {
        while let Some(&word) = self.words.get(self.at) {
            self.at += 1;
            let is_dash = word.text == "-" && self.kind.shape == Shape::Shell;
            let judged = if !self.is_over && (word.text == "--" || is_dash) {
                self.is_over = true;
                None
            } else if !self.is_over && self.kind.is_option(word.text) {
                self.option(word)
            } else {
                self.operand(word)
            };
            if let Some(judged) = judged {
                return judged;
            }
        }
        let reads_stdin = match self.kind.shape {
            Shape::Shell => true,
            Shape::Inline | Shape::InlineLast => self.is_stdin || !self.has_program,
            Shape::Runner { operands } => operands == usize::MAX && !self.has_program,
            Shape::Joined { before } => self.is_stdin || self.operands <= before,
            _ => self.is_stdin,
        };
        Judged::Harmless { reads_stdin }
    }

    fn option(&mut self, word: Word<'t>) -> Option<Judged> {
        // Only the text before a template is known.
        let known = word.text.split("{{").next().unwrap_or_default();
        let meaning = self.kind.meaning(known);
        if is_template(word.text) {
            return match meaning {
                Meaning::Data { .. } => None,
                Meaning::Text { .. } => Some(Judged::InText(word.at)),
                _ => Some(Judged::InChoice(word.at)),
            };
        }
        match meaning {
            Meaning::Flag | Meaning::Data { is_attached: true } => None,
            Meaning::Data { is_attached: false } => {
                self.at += 1;
                None
            }
            Meaning::Values(values) => self.values(values),
            Meaning::ShellOptions { has_text, is_stdin, values } => {
                self.has_program |= has_text;
                self.is_stdin |= is_stdin;
                self.values(values)
            }
            Meaning::File { is_attached } => {
                self.has_program = true;
                let file = if is_attached { Some(&word) } else { self.words.get(self.at) };
                self.is_stdin |= file.is_some_and(|file| STDIN_FILES.contains(&file.text));
                self.values(usize::from(!is_attached))
            }
            Meaning::Text { is_attached } => self.text(is_attached),
        }
    }

    /// Skips the values of options.
    fn values(&mut self, count: usize) -> Option<Judged> {
        let values = self.words.iter().skip(self.at).take(count);
        self.at += count;
        values.into_iter().find(|word| is_template(word.text)).map(|word| Judged::InChoice(word.at))
    }

    /// Skips the program text of an option.
    fn text(&mut self, is_attached: bool) -> Option<Judged> {
        self.has_program = true;
        if !is_attached {
            let text = self.words.get(self.at).filter(|word| is_template(word.text));
            if let Some(text) = text {
                return Some(Judged::InText(text.at));
            }
            self.at += 1;
        }
        let is_last = self.kind.shape == Shape::InlineLast;
        is_last.then_some(Judged::Harmless { reads_stdin: false })
    }

    fn operand(&mut self, word: Word<'t>) -> Option<Judged> {
        self.operands += 1;
        let harmless = Some(Judged::Harmless { reads_stdin: self.is_stdin });
        // A template at the beginning of a word may begin with a dash.
        let may_be_option = word.text.starts_with("{{") && !self.is_over;
        let in_choice = Some(Judged::InChoice(word.at));
        match self.kind.shape {
            Shape::Shell if self.is_stdin => {
                if may_be_option {
                    in_choice
                } else {
                    harmless
                }
            }
            Shape::Shell if self.has_program && is_template(word.text) => {
                Some(Judged::InText(word.at))
            }
            Shape::Shell if self.has_program => Some(Judged::Harmless {
                reads_stdin: self.is_stdin || reads_program(word.text, Stdin::Template),
            }),
            Shape::Inline | Shape::InlineLast | Shape::Operand if self.has_program => {
                if may_be_option {
                    in_choice
                } else {
                    harmless
                }
            }
            Shape::Shell | Shape::Inline | Shape::InlineLast => Some(self.file(word)),
            Shape::Operand | Shape::OperandMixed if !self.has_program => {
                self.has_program = true;
                match self.kind.shape {
                    _ if is_template(word.text) => Some(Judged::InText(word.at)),
                    Shape::Operand => harmless,
                    _ => None,
                }
            }
            Shape::Joined { before } if self.operands > before => {
                if self.operands == before + 1 {
                    let rest: Vec<&str> =
                        self.words[self.at - 1..].iter().map(|word| word.text).collect();
                    self.is_stdin |= reads_program(&rest.join(" "), Stdin::Template);
                }
                self.is_over = true;
                is_template(word.text).then_some(Judged::InText(word.at))
            }
            _ if may_be_option => in_choice,
            Shape::Runner { operands } if self.operands >= operands => harmless,
            _ => None,
        }
    }

    /// Checks a file with a program. `deno eval` and `bun eval` take a text instead.
    fn file(&self, word: Word<'t>) -> Judged {
        if is_template(word.text) {
            return Judged::InChoice(word.at);
        }
        let is_text = word.text == "eval" && self.kind.shape == Shape::Inline;
        let rest = &self.words[self.at.min(self.words.len())..];
        match rest.iter().find(|word| is_template(word.text)) {
            Some(template) if is_text => Judged::InText(template.at),
            _ => Judged::Harmless { reads_stdin: STDIN_FILES.contains(&word.text) },
        }
    }
}
