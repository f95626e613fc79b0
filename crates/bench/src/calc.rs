//! `punctual calc` as its users run it: a process that reads JSON lines and writes JSON lines.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, BufWriter, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};

use calendar::{Cron, Rule, Zones};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::inputs::Random;
use crate::measure::{Effort, median, now};
use crate::report::{Report, grouped};

/// The argument with which this program only reads and echoes lines: the limit for any program
/// that speaks JSON lines.
pub(crate) const ECHO: &str = "--echo-json-lines";

const ZONES: [&str; 6] = [
    "America/New_York",
    "Europe/Berlin",
    "Asia/Tokyo",
    "Australia/Lord_Howe",
    "America/Sao_Paulo",
    "UTC",
];
/// Answers that are compared with those of the library.
const CHECKED: usize = 2000;
const RUNS: usize = 3;

struct Line {
    expression: String,
    zone: &'static str,
    after: Timestamp,
}

pub(crate) fn run(effort: Effort, report: &mut Report) {
    println!("calc: {} lines of cron_next", effort.lines);
    // Built into the same folder as this program.
    let beside = std::env::current_exe().map(|own| own.with_file_name("punctual"));
    let Some(binary) = beside.ok().filter(|path| path.exists()) else {
        println!("  skipped: there is no `punctual` beside this program (`cargo xtask bench`)\n");
        return;
    };
    match measure(effort, &binary) {
        Ok(outcome) => {
            println!("  {:<24}{:>14} answers per second", "punctual calc", grouped(outcome.rate));
            println!(
                "  {:<24}{:>14} lines per second: {:.2} of what JSON itself allows",
                "reading and echoing",
                grouped(outcome.limit),
                outcome.rate / outcome.limit,
            );
            println!("  {} of {} checked answers are right\n", outcome.right, outcome.checked);
            report.add_calc(outcome.rate, outcome.right == outcome.checked);
        }
        Err(error) => println!("  skipped: {} does not answer: {error}\n", binary.display()),
    }
}

struct Outcome {
    rate: f64,
    limit: f64,
    right: usize,
    checked: usize,
}

fn measure(effort: Effort, binary: &Path) -> io::Result<Outcome> {
    let folder = std::env::temp_dir().join(format!("punctual-bench-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let outcome = measure_in(&folder, effort, binary);
    std::fs::remove_dir_all(&folder)?;
    outcome
}

fn measure_in(folder: &Path, effort: Effort, binary: &Path) -> io::Result<Outcome> {
    let (questions, answers) = (folder.join("questions.jsonl"), folder.join("answers.jsonl"));
    let lines = lines(effort.lines);
    let mut file = BufWriter::new(File::create(&questions)?);
    for (id, line) in lines.iter().enumerate() {
        let Line { expression, zone, after } = line;
        let (kind, after) = ("cron_next", after.to_string());
        let question =
            json!({"kind": kind, "id": id, "expr": expression, "tz": zone, "after": after, "n": 1});
        writeln!(file, "{question}")?;
    }
    file.flush()?;
    drop(file);
    let echo = std::env::current_exe()?;
    let (mut rates, mut limits) = (Vec::new(), Vec::new());
    for _ in 0..RUNS {
        limits.push(rate(&echo, ECHO, &questions, &folder.join("echo.jsonl"), lines.len())?);
        rates.push(rate(binary, "calc", &questions, &answers, lines.len())?);
    }
    let (right, checked) = check(&lines, &answers)?;
    Ok(Outcome { rate: median(rates), limit: median(limits), right, checked })
}

/// Lines per second of one child, start of the process included.
fn rate(
    program: &Path,
    argument: &str,
    input: &Path,
    output: &Path,
    lines: usize,
) -> io::Result<f64> {
    let mut command = on_one_core(program);
    command.arg(argument).stdin(File::open(input)?).stdout(File::create(output)?);
    let start = now();
    let status = command.stderr(Stdio::inherit()).status()?;
    let spent = start.elapsed();
    let answered = BufReader::new(File::open(output)?).lines().count();
    if !status.success() || answered != lines {
        return Err(io::Error::other(format!("{status}, {answered} answers to {lines} lines")));
    }
    Ok(lines as f64 / spent.as_secs_f64())
}

fn on_one_core(program: &Path) -> Command {
    let has_taskset = Command::new("taskset").arg("--version").stdout(Stdio::null()).status();
    if has_taskset.is_ok_and(|status| status.success()) {
        let mut command = Command::new("taskset");
        command.args(["-c", "0"]).arg(program);
        return command;
    }
    Command::new(program)
}

/// How many of the first answers are those of the library, and how many were looked at.
fn check(lines: &[Line], answers: &Path) -> io::Result<(usize, usize)> {
    let zones = Zones::bundled();
    let mut right = 0;
    let mut checked = 0;
    let answers = BufReader::new(File::open(answers)?).lines();
    for (line, answer) in lines.iter().zip(answers).take(CHECKED) {
        let answer: Value = serde_json::from_str(&answer?)?;
        let found = answer["result"][0].as_str().and_then(|text| text.parse().ok());
        let cron = Cron::parse(&line.expression).map_err(io::Error::other)?;
        let zone = zones.get(line.zone).map_err(io::Error::other)?;
        right += usize::from(found == Rule::cron(cron, zone).next_after(line.after));
        checked += 1;
    }
    Ok((right, checked))
}

fn lines(count: usize) -> Vec<Line> {
    let mut random = Random::new(11);
    let mut expression = || {
        let (minute, hour) = (random.below(60), random.below(24));
        match random.below(6) {
            0 => format!("{minute} {hour} * * *"),
            1 => format!("{minute} {hour} * * MON-FRI"),
            2 => format!("*/{} * * * *", 1 + random.below(30)),
            3 => format!("{minute} {hour} {} * *", 1 + random.below(28)),
            4 => format!("{minute} {hour}-23/3 * {} *", 1 + random.below(12)),
            _ => format!("{minute} {hour} * * {}#2", random.below(7)),
        }
    };
    let expressions: Vec<String> = (0..count).map(|_| expression()).collect();
    let instants = crate::inputs::instants(count);
    let zones = ZONES.iter().cycle();
    expressions
        .into_iter()
        .zip(instants)
        .zip(zones)
        .map(|((expression, after), zone)| Line { expression, zone, after })
        .collect()
}

/// Reads JSON lines and writes an answer of the usual shape to each, without any arithmetic.
pub(crate) fn echo() -> io::Result<()> {
    let mut output = BufWriter::new(io::stdout().lock());
    for line in io::stdin().lock().lines() {
        let question: Value = serde_json::from_str(&line?)?;
        let answer = json!({"id": question["id"], "result": [question["after"]]});
        serde_json::to_writer(&mut output, &answer)?;
        output.write_all(b"\n")?;
    }
    output.flush()
}
