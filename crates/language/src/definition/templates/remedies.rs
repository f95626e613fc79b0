//! What to write instead of a template that would become part of a program.

use super::injection::is_template;
use super::interpreters::{Shape, interpreter, is_launcher, program_name};
use super::starters;

pub(crate) const IN_SHELL: &str =
    "env: { DAY: \"{{ input.day }}\" } beside it, and \"$DAY\" in the command";
const BEHIND_PROGRAM: &str = "a literal program before it: [./report, \"{{ input.x }}\"]";
const BEHIND_FILE: &str = "a literal file with the program before it: [python3, job.py, \"{{ \
                           input.x }}\"], or [perl, -e, \"…\", --, \"{{ input.x }}\"]";
const BEHIND_OPTIONS: &str =
    "the template behind a literal --, or with a literal beginning: \"./{{ input.x }}\"";
const LITERAL_VALUE: &str = "a literal value of that option, without a template";
const LITERAL_SUBCOMMAND: &str =
    "a literal subcommand before it: [git, log, --, \"./{{ input.x }}\"]";
const IN_VARIABLE: &str =
    "env: { DAY: \"{{ input.day }}\" } beside it, and the variable in the program's own text";
const BOUND: &str =
    "a program that gives the value to the database as a parameter: [./query, \"{{ input.x }}\"]";

/// Programs for which another remedy is better than the one for their kind.
const OF_PROGRAMS: [(&[&str], &str); 7] = [
    (
        &["psql"],
        "[psql, -v, \"x={{ input.x }}\", -f, job.sql], and :'x' where job.sql needs the value",
    ),
    (
        &[
            "mysql",
            "mariadb",
            "sqlite",
            "duckdb",
            "mongosh",
            "mongo",
            "clickhouse-client",
            "clickhouse",
            "sqlcmd",
            "cqlsh",
            "usql",
            "redis-cli",
            "valkey-cli",
        ],
        BOUND,
    ),
    (
        &["awk", "gawk", "mawk", "nawk", "original-awk"],
        "[awk, -v, \"x={{ input.x }}\", \"{print x}\"]",
    ),
    (
        &["sed", "gsed"],
        "[sed, -e, \"s/a/b/\"] with stdin: \"{{ input.x }}\", or [sed, -e, \"s/a/b/\", --, \
         \"./{{ input.x }}\"]",
    ),
    (&["ssh", "autossh"], "[ssh, host, ./report] with stdin: \"{{ input.x }}\""),
    (&["find", "gfind"], "a literal beginning: [find, \"/srv/{{ input.dir }}\", -type, f]"),
    (
        &["make", "gmake", "bmake", "nmake", "remake"],
        "[make, report] with env: { DAY: \"{{ input.day }}\" }, and \"$$DAY\" in the recipe",
    ),
];

/// The remedy for a refused template in the command's word with this index: that of the nearest
/// program before it.
pub(crate) fn remedy(words: &[&str], at: usize) -> &'static str {
    let is_literal = |index: &usize| !is_template(words[*index]);
    let mut literal = (0..=at).rev().filter(is_literal);
    let found = literal.find_map(|index| Some((index, of_program(words[index])?)));
    let Some((program, remedy)) = found else { return BEHIND_PROGRAM };
    if remedy != BEHIND_OPTIONS {
        return remedy;
    }
    let name = program_name(words[program]);
    let between = words.get(program + 1..at).unwrap_or_default();
    if between.last().is_some_and(|option| starters::starts_value(&name, option)) {
        LITERAL_VALUE
    } else if starters::has_subcommands(&name) && between.iter().all(|word| word.starts_with('-')) {
        LITERAL_SUBCOMMAND
    } else {
        remedy
    }
}

/// The remedy behind a program, if the word is one whose words are checked.
fn of_program(word: &str) -> Option<&'static str> {
    let name = program_name(word);
    if let Some((_, remedy)) = OF_PROGRAMS.iter().find(|(names, _)| names.contains(&name.as_str()))
    {
        return Some(remedy);
    }
    if let Some(ends_options) = starters::ends_options(&name) {
        return Some(if ends_options { BEHIND_OPTIONS } else { IN_VARIABLE });
    }
    match interpreter(word).map(|kind| kind.shape) {
        Some(Shape::Inline | Shape::InlineLast | Shape::Operand | Shape::OperandMixed) => {
            Some(BEHIND_FILE)
        }
        Some(_) => Some(IN_SHELL),
        None => is_launcher(word).then_some(BEHIND_PROGRAM),
    }
}
