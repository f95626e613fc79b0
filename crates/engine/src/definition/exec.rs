//! Steps of type `exec`.

use std::collections::BTreeMap;

use super::action::ExecAction;
use super::fields::Fields;
use super::flaw::Flaw;
use super::limits;
use super::reading::{Field, Reading};
use super::templates::Place;
use super::tree::{Kind, cut};

const SHELL: [&str; 2] = ["/bin/sh", "-c"];
/// Programs that read one of their arguments as a program.
const SHELLS: [&str; 7] = ["sh", "bash", "dash", "ash", "zsh", "ksh", "fish"];

pub(super) fn read(reading: &mut Reading<'_>, fields: &mut Fields<'_>) -> Option<ExecAction> {
    let shell = fields.boolean(reading, "shell").unwrap_or(false);
    let command = fields.require("command", "command: [echo, hello]");
    let command = command.and_then(|field| command_words(reading, &field, shell));
    let env = fields.take("env").map(|field| variables(reading, &field));
    let cwd = fields.take("cwd").and_then(|field| plain(reading, &field));
    let stdin = fields.take("stdin");
    let stdin = stdin.and_then(|field| reading.template(&field, Place::Performed));
    let most = limits::PAYLOAD_BYTES as u64;
    let max_output = fields.whole(reading, "max_output", 1..=most);
    Some(ExecAction {
        command: command?,
        env: env.unwrap_or_default(),
        cwd,
        stdin,
        max_output: max_output.unwrap_or(most),
    })
}

fn command_words(reading: &mut Reading<'_>, field: &Field<'_>, shell: bool) -> Option<Vec<String>> {
    match (&field.node.kind, shell) {
        (Kind::Text(text), true) if text.contains("{{") => {
            refuse_injection(reading, field);
            return None;
        }
        (Kind::Text(_), true) => {
            let text = plain(reading, field)?;
            return Some(SHELL.iter().map(|word| (*word).to_owned()).chain([text]).collect());
        }
        (Kind::Text(text), false) => {
            let words: Vec<&str> = text.split_whitespace().collect();
            let flaw = Flaw::new("command", "a command is a list; a text needs a shell")
                .suggest(format!("[{}], or shell: true beside it", cut(&words.join(", "))));
            reading.refuse(field, flaw);
            return None;
        }
        (_, true) => {
            let flaw = Flaw::new("command", "with shell: true the command is one text")
                .suggest("command: \"ls | wc -l\"");
            reading.refuse(field, flaw);
            return None;
        }
        (_, false) => {}
    }
    let words = reading.list(field, limits::ENTRIES)?;
    if words.is_empty() {
        reading.refuse(field, Flaw::new("command", "an empty command").suggest("[echo, hello]"));
        return None;
    }
    if let Some(program) = program_of_shell(&words) {
        refuse_injection(reading, program);
        return None;
    }
    let words: Vec<Option<String>> = words
        .iter()
        .enumerate()
        .map(|(at, word)| if at == 0 { plain(reading, word) } else { argument(reading, word) })
        .collect();
    words.into_iter().collect()
}

/// The text that a shell reads as a program, if the words start a shell with one and it holds a template.
fn program_of_shell<'w, 'n>(words: &'w [Field<'n>]) -> Option<&'w Field<'n>> {
    let text = |word: &Field<'n>| match &word.node.kind {
        Kind::Text(text) => Some(text.as_str()),
        _ => None,
    };
    let is_shell = |word: &Field<'n>| {
        let name = text(word).and_then(|text| text.rsplit('/').next());
        name.is_some_and(|name| SHELLS.contains(&name))
    };
    // It may stand behind another command, as in `nice sh -c`.
    let shell = words.iter().position(is_shell)?;
    // Options may stand together, as in `-ec`; the program is the first word that is no option.
    let is_option = |word: &&Field<'n>| text(word).is_some_and(|text| text.starts_with('-'));
    let options: Vec<&Field<'n>> = words[shell + 1..].iter().take_while(is_option).collect();
    let has_program = options
        .iter()
        .any(|word| text(word).is_some_and(|text| !text.starts_with("--") && text.contains('c')));
    let program = words.get(shell + 1 + options.len()).filter(|_| has_program)?;
    text(program).is_some_and(|text| text.contains("{{")).then_some(program)
}

/// What is filled in would be read as a part of the program: whoever may start a run could run any command.
fn refuse_injection(reading: &mut Reading<'_>, field: &Field<'_>) {
    reading.templates.fill(field.node);
    let message = "a template in a shell's program would let whoever starts a run run any command";
    let flaw = Flaw::new("injection", message)
        .allow("templates in env, stdin, and arguments without a shell")
        .suggest("env: { DAY: \"{{ input.day }}\" } beside it, and \"$DAY\" in the command");
    reading.refuse(field, flaw);
}

/// A text that is not empty and can be given to the system.
fn plain(reading: &mut Reading<'_>, field: &Field<'_>) -> Option<String> {
    let text = argument(reading, field)?;
    if text.trim().is_empty() {
        reading.refuse(field, Flaw::new("command", "an empty text"));
        return None;
    }
    Some(text)
}

/// A text that can be given to the system, where NUL ends a text.
fn argument(reading: &mut Reading<'_>, field: &Field<'_>) -> Option<String> {
    let text = reading.text(field)?;
    reading.check_template(field, text, Place::Performed)?;
    if text.contains('\0') {
        reading.refuse(field, Flaw::new("command", "a text with a NUL character"));
        return None;
    }
    Some(text.to_owned())
}

fn variables(reading: &mut Reading<'_>, field: &Field<'_>) -> BTreeMap<String, String> {
    let mut variables = BTreeMap::new();
    for (name, key_span, value_field, _) in reading.texts(field) {
        let word = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
        let good = name.bytes().all(word) && !name.starts_with(|c: char| c.is_ascii_digit());
        if name.is_empty() || name.len() > 256 || !good {
            let flaw = Flaw::new("env", format!("{} is not the name of a variable", cut(name)))
                .allow("letters, digits and _, not beginning with a digit");
            reading.report(&value_field.path, key_span, flaw);
        } else if let Some(value) = argument(reading, &value_field) {
            variables.insert(name.to_owned(), value);
        }
    }
    variables
}
