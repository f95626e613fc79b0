//! Traces: the trace of a run, and the spans of runs and attempts.
//!
//! Ids are derived from stored values. Whichever node ends an attempt, even after a crash, gives
//! its span the id that was passed on when the attempt began.

use std::fmt;
use std::str::FromStr;

use jiff::Timestamp;

use crate::ids::{RunId, ScheduleId};
use crate::run::{Item, Part, Run, RunError, TriggeredBy};

/// The flag of a trace that is recorded.
const RECORDED: u8 = 1;

/// A span and its trace, as in `traceparent` (W3C Trace Context, version 00).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TraceContext {
    /// The trace id; never 0.
    pub trace: u128,
    /// The span id; never 0.
    pub span: u64,
    /// Whether the caller that began the trace records it.
    pub is_recorded: bool,
}

impl TraceContext {
    /// The span of a run: in the caller's trace if there is one, otherwise in its own.
    pub fn of_run(id: &RunId, caller: Option<TraceContext>) -> TraceContext {
        let words = words(id);
        let own = match id {
            RunId::Other(id) => *id,
            RunId::Occurrence { .. } => {
                (u128::from(mixed(1, &words)) << 64) | u128::from(mixed(2, &words))
            }
        };
        TraceContext {
            trace: caller.map_or(own.max(1), |caller| caller.trace),
            span: mixed(3, &words),
            is_recorded: caller.is_none_or(|caller| caller.is_recorded),
        }
    }

    /// The span of an attempt of the run that this span belongs to. A repeated step begins at
    /// another instant, so its span differs.
    #[must_use]
    pub fn of_attempt(self, part: Part, attempt: u32, since: Timestamp) -> TraceContext {
        let since = since.as_millisecond().cast_unsigned();
        let part = [u64::from(part.step), u64::from(part.item.number().cast_unsigned())];
        let span = mixed(4, &[self.span, part[0], part[1], u64::from(attempt), since]);
        TraceContext { span, ..self }
    }
}

fn words(id: &RunId) -> [u64; 3] {
    match *id {
        RunId::Occurrence { schedule, n, retry } => {
            [schedule.0.cast_unsigned(), n, u64::from(retry)]
        }
        RunId::Other(id) => [(id >> 64) as u64, id as u64, u64::MAX],
    }
}

/// A hash that is the same in every version of the program, since nodes of several versions may
/// share a store. It is never 0.
fn mixed(seed: u64, words: &[u64]) -> u64 {
    // The finalizer of SplitMix64, applied to one word after the other.
    let step = |sum: u64, word: &u64| {
        let sum = (sum ^ word).wrapping_add(0x9e37_79b9_7f4a_7c15);
        let sum = (sum ^ (sum >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let sum = (sum ^ (sum >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        sum ^ (sum >> 31)
    };
    words.iter().fold(step(0, &seed), step).max(1)
}

impl fmt::Display for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let flags = if self.is_recorded { RECORDED } else { 0 };
        write!(f, "00-{:032x}-{:016x}-{flags:02x}", self.trace, self.span)
    }
}

impl FromStr for TraceContext {
    type Err = ();

    /// Reads version 00 completely. Any other text is an error and begins no trace.
    fn from_str(text: &str) -> Result<TraceContext, ()> {
        let mut parts = text.split('-');
        let mut next = |length: usize| {
            let is_hex = |byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
            let part = parts.next().filter(|part| part.len() == length);
            part.filter(|part| part.bytes().all(is_hex)).ok_or(())
        };
        let (version, trace, span, flags) = (next(2)?, next(32)?, next(16)?, next(2)?);
        let trace = u128::from_str_radix(trace, 16).map_err(|_| ())?;
        let span = u64::from_str_radix(span, 16).map_err(|_| ())?;
        let flags = u8::from_str_radix(flags, 16).map_err(|_| ())?;
        if version != "00" || trace == 0 || span == 0 || parts.next().is_some() {
            return Err(());
        }
        Ok(TraceContext { trace, span, is_recorded: flags & RECORDED != 0 })
    }
}

/// The duration and result of a run or an attempt.
#[derive(Clone, Debug)]
pub struct Span {
    pub context: TraceContext,
    pub parent: Option<u64>,
    pub run: RunId,
    /// The name of the workflow.
    pub workflow: String,
    /// The revision of the workflow.
    pub version: u32,
    pub handler: Option<String>,
    pub schedule: Option<ScheduleId>,
    /// The nominal time, if an occurrence started the run.
    pub occurrence: Option<Timestamp>,
    pub triggered_by: TriggeredBy,
    /// The attempt; `None` for the span of the run itself.
    pub attempt: Option<AttemptOf>,
    pub from: Timestamp,
    pub to: Timestamp,
    /// The name of the final status.
    pub status: &'static str,
    pub error: Option<RunError>,
}

/// Identifies an attempt within its run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttemptOf {
    pub step: String,
    pub item: Item,
    /// The number of the attempt, counted from 1.
    pub attempt: u32,
}

impl Span {
    /// The span of a run that has ended at this instant.
    pub(crate) fn of_run(run: &Run, workflow: &str, ended_at: Timestamp) -> Span {
        Span {
            context: TraceContext::of_run(&run.id, run.trace),
            parent: run.trace.map(|caller| caller.span),
            run: run.id.clone(),
            workflow: workflow.to_owned(),
            version: run.version,
            handler: run.handler.clone(),
            schedule: run.schedule,
            occurrence: run.nominal,
            triggered_by: run.triggered_by,
            attempt: None,
            from: run.created_at,
            to: ended_at,
            status: run.status.name(),
            error: run.error.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CALLER: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn contexts_are_read_as_they_are_written_and_in_no_other_way() {
        let read: TraceContext = CALLER.parse().unwrap();
        assert_eq!((read.to_string().as_str(), read.is_recorded), (CALLER, true));
        assert_eq!(read.trace, 0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736);
        for (at, with) in [(0, "ff"), (0, "01"), (3, "4B"), (3, "zz"), (52, "_"), (54, "1")] {
            let mut text = CALLER.to_owned();
            text.replace_range(at..at + with.len(), with);
            assert_eq!(text.parse::<TraceContext>().is_ok(), at == 54, "{text}");
        }
        for text in [
            "",
            "00",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            &CALLER[..54],
            &format!("{CALLER}-more"),
            &format!(" {CALLER}"),
        ] {
            assert_eq!(text.parse::<TraceContext>(), Err(()), "{text}");
        }
    }

    #[test]
    fn what_nobody_records_stays_so() {
        let caller: TraceContext = CALLER.replace("-01", "-00").parse().unwrap();
        let run = TraceContext::of_run(&RunId::Other(7), Some(caller));
        assert!(!run.is_recorded && run.to_string().ends_with("-00"));
    }

    #[test]
    fn ids_follow_from_what_is_stored() {
        let occurrence = |n| RunId::Occurrence { schedule: ScheduleId(3), n, retry: 0 };
        let run = TraceContext::of_run(&occurrence(5), None);
        // The ids must be the same in every version, since nodes of several versions may share a
        // store.
        assert_eq!(run.to_string(), "00-94ee9abbb21ddd24833a806ade397e55-0235420b3416b60c-01");
        assert_ne!(run.trace, TraceContext::of_run(&occurrence(6), None).trace);
        let by_hand = TraceContext::of_run(&RunId::Other(0xabc), None);
        assert_eq!(by_hand.trace, 0xabc);
        let caller: TraceContext = CALLER.parse().unwrap();
        let called = TraceContext::of_run(&occurrence(5), Some(caller));
        assert_eq!((called.trace, called.span), (caller.trace, run.span));

        let at = |ms| Timestamp::from_millisecond(ms).unwrap();
        let part = |step, item: i32| Part { step, item: Item::try_from(item).unwrap() };
        let attempts = [
            run.of_attempt(part(0, 0), 1, at(1)),
            run.of_attempt(part(1, 0), 1, at(1)),
            run.of_attempt(part(0, -1), 1, at(1)),
            run.of_attempt(part(0, 0), 2, at(1)),
            run.of_attempt(part(0, 0), 1, at(2)),
        ];
        let spans: std::collections::BTreeSet<u64> = attempts.iter().map(|a| a.span).collect();
        assert_eq!(spans.len(), attempts.len());
        assert!(attempts.iter().all(|attempt| attempt.trace == run.trace));
    }
}
