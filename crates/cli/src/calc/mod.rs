//! `punctual calc`: calendar arithmetic for scripts. JSON lines in, JSON lines out.

mod answer;
mod question;

use std::io::{self, BufRead, BufReader, Read, Write};

use calendar::Zones;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::failure::Failure;

/// Longest line that is read; the rest of a longer line is skipped.
const LINE_LIMIT: u64 = 1 << 20;

/// The fields that every line has. Further fields depend on the kind.
#[derive(Deserialize)]
struct Head<'a> {
    #[serde(borrow, default)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    kind: std::borrow::Cow<'a, str>,
}

/// Answers every line of `input` on `output`. A line with a mistake is answered with an error, and
/// reading continues.
pub(crate) fn run(zones: &Zones, input: impl Read, output: impl Write) -> Result<(), Failure> {
    let mut input = BufReader::with_capacity(1 << 16, input);
    let mut output = io::BufWriter::with_capacity(1 << 16, output);
    let mut line = Vec::new();
    let mut answer = Vec::new();
    loop {
        line.clear();
        let length = (&mut input).take(LINE_LIMIT).read_until(b'\n', &mut line)?;
        if length == 0 {
            break;
        }
        let too_long = length as u64 == LINE_LIMIT && !line.ends_with(b"\n");
        if too_long {
            input.skip_until(b'\n')?;
        }
        if line.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        answer.clear();
        if too_long {
            let message = format!("the line is longer than {LINE_LIMIT} bytes");
            answer::plain_error(&mut answer, None, "line-length", &message);
        } else {
            answer_line(zones, &line, &mut answer);
        }
        answer.push(b'\n');
        output.write_all(&answer)?;
        // A caller that asks one question at a time waits for this answer.
        if input.buffer().is_empty() {
            output.flush()?;
        }
    }
    output.flush()?;
    Ok(())
}

fn answer_line(zones: &Zones, line: &[u8], answer: &mut Vec<u8>) {
    match serde_json::from_slice::<Head<'_>>(line) {
        Err(error) => {
            answer::plain_error(answer, None, "json", &format!("not a question: {error}"));
        }
        Ok(Head { id, kind }) => {
            let start = answer.len();
            answer::begin(answer, id);
            if let Err(problem) = question::answer(zones, &kind, line, answer) {
                answer.truncate(start);
                answer::error(answer, id, &problem);
            } else {
                answer.push(b'}');
            }
        }
    }
}
