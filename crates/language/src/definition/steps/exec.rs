//! Steps of type `exec`.

use std::collections::BTreeMap;

use super::action::ExecAction;
use crate::definition::limits;
use crate::definition::reading::{Field, Fields, Reading};
use crate::definition::templates::{
    Injection, Place, Stdin, chooses_program, injection, remedies, working_folder,
};
use crate::definition::text::{Flaw, Kind, cut};

/// The code of a failed attempt whose node is not allowed to run the step's command.
pub const EXEC_NOT_ALLOWED: &str = "exec_not_allowed";

const SHELL: [&str; 2] = ["/bin/sh", "-c"];

pub(super) fn read(reading: &mut Reading<'_>, fields: &mut Fields<'_>) -> Option<ExecAction> {
    let shell = fields.boolean(reading, "shell").unwrap_or(false);
    let command = fields.require("command", "command: [echo, hello]");
    let (env, cwd) = (fields.take("env"), fields.take("cwd"));
    let stdin = fields.take("stdin");
    if let (Some(command), Some(cwd)) = (&command, &cwd) {
        check_folder(reading, command, cwd, shell);
    }
    let command = command.and_then(|field| command_words(reading, &field, shell, stdin.as_ref()));
    let env = env.map(|field| variables(reading, &field));
    let cwd = cwd.and_then(|field| plain(reading, &field));
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

fn command_words(
    reading: &mut Reading<'_>,
    field: &Field<'_>,
    shell: bool,
    stdin: Option<&Field<'_>>,
) -> Option<Vec<String>> {
    match (&field.node.kind, shell) {
        (Kind::Text(text), true) if text.contains("{{") => {
            refuse_injection(reading, field, remedies::IN_SHELL);
            return None;
        }
        (Kind::Text(text), true) if injection::reads_program(text, stdin_of(stdin)) => {
            match stdin {
                Some(stdin) => refuse_injection(reading, stdin, remedies::IN_SHELL),
                None => refuse_input(reading, field),
            }
            return None;
        }
        (Kind::Text(_), true) => {
            let text = plain(reading, field)?;
            return Some(SHELL.iter().map(|word| (*word).to_owned()).chain([text]).collect());
        }
        (Kind::Text(text), false) => {
            let words: Vec<&str> = text.split_whitespace().collect();
            reading.templates.fill(field.node);
            let flaw = Flaw::new("command", "a command is a list; a text needs a shell");
            // A shell would read the template's value as part of the program.
            let flaw = if text.contains("{{") {
                flaw.suggest("a list, with each argument on its own: [echo, \"{{ … }}\"]")
            } else {
                flaw.suggest(format!("[{}], or shell: true beside it", cut(&words.join(", "))))
            };
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
    if check_injection(reading, &words, stdin).is_some() {
        return None;
    }
    let words: Vec<Option<String>> = words
        .iter()
        .enumerate()
        .map(|(at, word)| if at == 0 { plain(reading, word) } else { argument(reading, word) })
        .collect();
    words.into_iter().collect()
}

/// Refuses a command in which a template would be read as a program or would choose one. Returns
/// `None` if there is no such template.
fn check_injection(
    reading: &mut Reading<'_>,
    words: &[Field<'_>],
    stdin: Option<&Field<'_>>,
) -> Option<()> {
    let texts: Vec<&str> = words.iter().map(|word| text_of(word).unwrap_or_default()).collect();
    let found = injection::find(&texts, stdin_of(stdin))?;
    // The other words are not checked, so their templates are not reported either.
    words.iter().for_each(|word| reading.templates.fill(word.node));
    match found {
        Injection::Word(at) => refuse_injection(reading, &words[at], remedies::remedy(&texts, at)),
        Injection::Stdin => match stdin {
            Some(field) => {
                refuse_injection(reading, field, remedies::remedy(&texts, texts.len() - 1));
            }
            None => refuse_input(reading, &words[0]),
        },
    }
    Some(())
}

/// Refuses a template in `cwd` beside a program that is looked for there.
fn check_folder(reading: &mut Reading<'_>, command: &Field<'_>, cwd: &Field<'_>, shell: bool) {
    if !text_of(cwd).is_some_and(injection::is_template) {
        return;
    }
    let is_chosen = match &command.node.kind {
        Kind::Text(text) => shell && working_folder::text_holds_program(text),
        Kind::List(words) => {
            let words = words.iter().map(|word| match &word.kind {
                Kind::Text(text) => text.as_str(),
                _ => "",
            });
            working_folder::holds_program(&words.collect::<Vec<_>>())
        }
        _ => false,
    };
    if is_chosen {
        reading.templates.fill(cwd.node);
        let message = "a template in cwd, beside a program that is taken from that folder, would \
                       let whoever starts a run choose the program";
        let flaw = Flaw::new("injection", message)
            .allow("templates in cwd beside a program with its whole path, or one of the system")
            .suggest("cwd: /srv/app, or [/srv/app/run.sh], with the template as an argument");
        reading.refuse(cwd, flaw);
    }
}

fn stdin_of(stdin: Option<&Field<'_>>) -> Stdin {
    match stdin.map(text_of) {
        None => Stdin::Input,
        Some(Some(text)) if injection::is_template(text) => Stdin::Template,
        Some(_) => Stdin::Literal,
    }
}

fn text_of<'n>(field: &Field<'n>) -> Option<&'n str> {
    match &field.node.kind {
        Kind::Text(text) => Some(text.as_str()),
        _ => None,
    }
}

/// Refuses a template that would be read as part of a program: anyone who may start a run could run
/// any command.
fn refuse_injection(reading: &mut Reading<'_>, field: &Field<'_>, remedy: &str) {
    reading.templates.fill(field.node);
    let message = "a template in a program, or in place of one or of its options, would let \
                   whoever starts a run run any command";
    let flaw = Flaw::new("injection", message)
        .allow("templates in env, in arguments behind a literal program, and in stdin where it is data")
        .suggest(remedy);
    reading.refuse(field, flaw);
}

/// Refuses a command that reads its program from standard input. Without `stdin` that is the run's
/// input, which the caller of the run wrote.
fn refuse_input(reading: &mut Reading<'_>, command: &Field<'_>) {
    let message = "this reads its program from stdin, which is the run's input if left out";
    let flaw = Flaw::new("injection", message)
        .allow("a literal program: in the command, in a file, or in stdin")
        .suggest("stdin: \"\" beside it, or [sh, script.sh]");
    reading.refuse(command, flaw);
}

/// A text that is not empty and can be passed to the system.
fn plain(reading: &mut Reading<'_>, field: &Field<'_>) -> Option<String> {
    let text = argument(reading, field)?;
    if text.trim().is_empty() {
        reading.refuse(field, Flaw::new("command", "an empty text"));
        return None;
    }
    Some(text)
}

/// A text that can be passed to the system, where NUL ends a text.
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
        } else if chooses_program(name) && text_of(&value_field).is_some_and(injection::is_template)
        {
            let remedy = "a literal value, or a variable that chooses no program and no options";
            refuse_injection(reading, &value_field, remedy);
        } else if let Some(value) = argument(reading, &value_field) {
            variables.insert(name.to_owned(), value);
        }
    }
    variables
}
