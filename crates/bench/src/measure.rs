//! Interleaved rounds and their median.

use std::hint::black_box;
use std::ops::Range;
use std::time::{Duration, Instant};

/// How much time to spend.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effort {
    pub(crate) rounds: usize,
    /// Different inputs per case.
    pub(crate) inputs: usize,
    /// For one contender in one round, and for checking its answers.
    pub(crate) round_time: Duration,
    pub(crate) check_time: Duration,
    /// Lines for `punctual calc`.
    pub(crate) lines: usize,
}

impl Effort {
    pub(crate) const FULL: Effort = Effort {
        rounds: 31,
        inputs: 4096,
        round_time: Duration::from_millis(10),
        check_time: Duration::from_secs(2),
        lines: 400_000,
    };
    pub(crate) const QUICK: Effort = Effort {
        rounds: 3,
        inputs: 256,
        round_time: Duration::from_millis(2),
        check_time: Duration::from_millis(200),
        lines: 20_000,
    };
}

/// Whether a contender's answers are those of the reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Right {
        checked: usize,
    },
    Wrong {
        wrong: usize,
        checked: usize,
    },
    /// There is nothing to compare with.
    Unchecked,
}

/// One implementation of what a case asks for.
pub(crate) struct Contender<'a> {
    name: &'static str,
    verdict: Verdict,
    /// One call, on the input of that number.
    call: Box<dyn Fn(usize) + 'a>,
    /// The inputs of a round.
    batch: Range<usize>,
}

#[derive(Clone, Debug)]
pub(crate) struct Measured {
    pub(crate) name: &'static str,
    pub(crate) verdict: Verdict,
    /// Median over the rounds, per call.
    pub(crate) nanos: f64,
}

impl<'a> Contender<'a> {
    /// Compares the answers with `expected`, one by one until time is up, then gets ready to run.
    pub(crate) fn new<I: 'a, A, E: PartialEq>(
        name: &'static str,
        effort: Effort,
        inputs: Inputs<I>,
        call: impl Fn(&I) -> A + 'a,
        plain: impl Fn(A) -> E,
        expected: &[E],
    ) -> Contender<'a> {
        let start = now();
        let (mut checked, mut wrong) = (0, 0);
        for (input, expected) in inputs.all.iter().zip(expected) {
            wrong += usize::from(plain(call(input)) != *expected);
            checked += 1;
            if start.elapsed() > effort.check_time {
                break;
            }
        }
        let verdict = match (checked, wrong) {
            (0, _) => Verdict::Unchecked,
            (_, 0) => Verdict::Right { checked },
            _ => Verdict::Wrong { wrong, checked },
        };
        Contender::ready(name, effort, inputs, call, verdict)
    }

    /// A contender whose answers are not compared.
    pub(crate) fn unchecked<I: 'a, A>(
        name: &'static str,
        effort: Effort,
        inputs: Vec<I>,
        call: impl Fn(&I) -> A + 'a,
    ) -> Contender<'a> {
        Contender::ready(name, effort, Inputs::timed(inputs), call, Verdict::Unchecked)
    }

    fn ready<I: 'a, A>(
        name: &'static str,
        effort: Effort,
        inputs: Inputs<I>,
        call: impl Fn(&I) -> A + 'a,
        verdict: Verdict,
    ) -> Contender<'a> {
        let Inputs { all, only_checked } = inputs;
        let start = now();
        let mut batch = only_checked..only_checked;
        // A slow one goes over fewer inputs instead of holding everyone up.
        while batch.end < all.len() && (batch.len() < 4 || start.elapsed() < effort.round_time) {
            black_box(call(black_box(&all[batch.end])));
            batch.end += 1;
        }
        let call = move |at: usize| {
            black_box(call(black_box(&all[at])));
        };
        Contender { name, verdict, call: Box::new(call), batch }
    }

    fn round(&self) -> f64 {
        let start = now();
        for at in self.batch.clone() {
            (self.call)(at);
        }
        start.elapsed().as_nanos() as f64 / self.batch.len() as f64
    }
}

/// Inputs, of which the first few are there to be checked but not to be timed.
#[derive(Clone)]
pub(crate) struct Inputs<I> {
    pub(crate) all: Vec<I>,
    pub(crate) only_checked: usize,
}

impl<I> Inputs<I> {
    /// All of them count.
    pub(crate) fn timed(all: Vec<I>) -> Inputs<I> {
        Inputs { all, only_checked: 0 }
    }

    /// The same inputs in a contender's own type.
    pub(crate) fn map<T>(&self, convert: impl Fn(&I) -> T) -> Inputs<T> {
        let all = self.all.iter().map(convert).collect();
        Inputs { all, only_checked: self.only_checked }
    }
}

/// Runs all contenders in turn, round after round, so that whatever disturbs the machine disturbs
/// all of them.
pub(crate) fn race(contenders: Vec<Contender<'_>>, effort: Effort) -> Vec<Measured> {
    let mut rounds: Vec<Vec<f64>> = vec![Vec::new(); contenders.len()];
    for _ in 0..effort.rounds {
        for (contender, times) in contenders.iter().zip(&mut rounds) {
            times.push(contender.round());
        }
    }
    contenders
        .into_iter()
        .zip(rounds)
        .map(|(contender, times)| Measured {
            name: contender.name,
            verdict: contender.verdict,
            nanos: median(times),
        })
        .collect()
}

pub(crate) fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied().unwrap_or(f64::NAN)
}

#[expect(clippy::disallowed_methods, reason = "measuring is what this program is for")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_answers_are_counted() {
        let expected = [Some(2), Some(3), None];
        let inputs = Inputs { all: vec![1, 2, 3], only_checked: 1 };
        let twice = Contender::new("twice", Effort::QUICK, inputs, |n| n * 2, Some, &expected);
        assert_eq!(twice.verdict, Verdict::Wrong { wrong: 2, checked: 3 });
        assert_eq!(twice.batch, 1..3);
        let measured = race(vec![twice], Effort::QUICK);
        assert!(measured[0].nanos > 0.0);
    }

    #[test]
    fn the_median_ignores_a_disturbed_round() {
        assert_eq!(median(vec![3.0, 1000.0, 2.0]), 3.0);
    }
}
