//! Hostile definitions: refused cheaply, with a position. The vectors beside the repository are run
//! if they are present; the essential ones are kept here.

use std::fs;
use std::path::Path;
use std::process::Command;

use language::definition::{Action, Definition, Step};
use proptest::prelude::*;
use serde_json::Value;

use crate::{read_bytes, with_context};

/// The text of a vector: the result of a Python expression in `gen`, or the text itself.
fn generated(input: &Value) -> Option<Vec<u8>> {
    if let Some(text) = input.as_str() {
        return Some(text.as_bytes().to_vec());
    }
    let expression = input.get("gen")?.as_str()?;
    let script = format!(
        "import sys, json\nx = {expression}\n\
         sys.stdout.buffer.write(x if isinstance(x, bytes) else x.encode())"
    );
    let output = Command::new("python3").args(["-c", &script]).output().ok()?;
    output.status.success().then_some(output.stdout)
}

#[test]
fn vectors() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/vectors/hostile.jsonl");
    let Ok(lines) = fs::read_to_string(&path) else {
        eprintln!("skipped: {} is not there", path.display());
        return;
    };
    let mut seen = 0;
    for line in lines.lines() {
        let case: Value = serde_json::from_str(line).unwrap();
        let id = case["id"].as_str().unwrap_or_default().to_owned();
        if !["yaml", "definition"].contains(&case["area"].as_str().unwrap_or_default()) {
            continue;
        }
        let Some(bytes) = generated(&case["input"]) else {
            eprintln!("skipped: {id} is a request to the API, or python3 is not there");
            continue;
        };
        seen += 1;
        check_vector(&id, &bytes);
    }
    eprintln!("{seen} vectors");
    assert!(seen >= 30);
}

/// Two vectors are valid. All others are refused, with a line if there is a text to point at.
fn check_vector(id: &str, bytes: &[u8]) {
    let read = with_context(|context| within_a_second(|| read_bytes(bytes, context)));
    match (id, read) {
        ("h023" | "h057", Ok(_)) => {}
        (_, Ok(_)) => panic!("{id} is accepted"),
        (_, Err(flaws)) => {
            eprintln!("--- {id}");
            for flaw in &flaws {
                eprintln!("{}", crate::place(flaw));
                let whole = bytes.len() > language::definition::limits::TEXT_BYTES;
                assert!(flaw.line > 0 || whole || flaw.code == "more", "{id}: {flaw:?}");
            }
            assert!(!["h023", "h057"].contains(&id), "{id} is refused");
        }
    }
}

/// The time limit of the vectors, measured in CPU time of this thread, so that a busy machine does
/// not matter.
fn within_a_second<T>(read: impl Fn() -> T) -> T {
    let before = computed();
    let found = read();
    let took = computed() - before;
    assert!(took < 1_000_000_000, "it takes {took} ns");
    found
}

/// The CPU time of this thread, in nanoseconds.
fn computed() -> u64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux");
    stat.split(' ').next().and_then(|time| time.parse().ok()).expect("a number")
}

/// Pieces that mean something to one of the readers.
const PIECES: [&str; 32] = [
    "\n",
    " ",
    "  ",
    "- ",
    ": ",
    ",",
    "[",
    "]",
    "{",
    "}",
    "{{",
    "\"",
    "'",
    "#",
    "&a",
    "*a",
    "!t",
    "|",
    "é",
    "\u{feff}",
    "0x",
    "9999999999999999999999",
    "\t",
    "---\n",
    "}}",
    "{{ input.a }}",
    "steps.look-up",
    " | ",
    "goto_step: pay",
    "target: large",
    "type: gateway",
    "2 working days",
];

/// The number of written triggers, steps, headers, compensations, conditions, deadlines and
/// outputs.
fn parts(written: &Value) -> [usize; 7] {
    let list = |key: &str| written[key].as_array().map_or(0, Vec::len);
    let steps = || written["steps"].as_array().into_iter().flatten();
    let having = |key: &str| steps().filter(|step| !step[key].is_null()).count();
    let headers = steps().map(|step| step["headers"].as_object().map_or(0, |map| map.len())).sum();
    let whole = usize::from(!written["deadline"].is_null());
    [
        list("triggers"),
        list("steps"),
        headers,
        having("compensation"),
        having("condition"),
        having("deadline") + whole,
        list("outputs"),
    ]
}

/// The same numbers in the checked definition, which show that nothing was silently dropped.
fn kept(read: &Definition) -> [usize; 7] {
    let headers = |step: &Step| match &step.action {
        Action::Http(http) => http.headers.len(),
        _ => 0,
    };
    let count = |has: &dyn Fn(&Step) -> bool| read.steps.iter().filter(|step| has(step)).count();
    [
        read.triggers.len(),
        read.steps.len(),
        read.steps.iter().map(headers).sum(),
        count(&|step| step.compensation.is_some()),
        count(&|step| step.condition.is_some()),
        count(&|step| step.deadline.is_some()) + usize::from(read.deadline.is_some()),
        read.outputs.len(),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 500,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// A definition with pieces inserted and removed is either read, or refused with flaws that can
    /// be shown.
    #[test]
    fn damaged_definitions_do_no_harm(
        edits in prop::collection::vec(
            (any::<prop::sample::Index>(), 0..PIECES.len(), 0..12_usize),
            1..6,
        )
    ) {
        let texts = [crate::accepted::REPORT, crate::processes::INVOICE];
        let whole = texts[edits.len() % 2];
        let mut text: Vec<char> = whole.chars().collect();
        for (at, piece, removed) in edits {
            let at = at.index(text.len());
            let end = (at + removed).min(text.len());
            text.splice(at..end, PIECES[piece].chars());
        }
        let text: String = text.into_iter().collect();
        match with_context(|context| read_bytes(text.as_bytes(), context)) {
            Ok(read) => {
                let written: Value = serde_saphyr::from_str(&text).unwrap();
                prop_assert_eq!(parts(&written), kept(&read));
            }
            Err(flaws) => {
                prop_assert!(!flaws.is_empty());
                for flaw in flaws {
                    let (line, span) = flaw.excerpt.clone().unwrap_or_default();
                    prop_assert!(line.get(span).is_some() && !flaw.to_string().is_empty());
                    prop_assert!(!flaw.message.contains('\n') && flaw.line > 0);
                }
            }
        }
    }
}
