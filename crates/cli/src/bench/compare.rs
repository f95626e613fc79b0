//! Repeats of a benchmark, and its comparison with an earlier one: which figures moved by more than
//! their noise.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::report::Figure;
use crate::failure::Failure;

/// Two figures whose ranges come closer than this share of their values are taken for the same.
const CLOSE: f64 = 0.03;

/// The least and the greatest value of several rounds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Range {
    pub(super) least: f64,
    pub(super) most: f64,
}

impl Range {
    fn is_apart_from(self, other: Range) -> bool {
        let gap = (self.least - other.most).max(other.least - self.most);
        gap > CLOSE * self.most.abs().max(other.most.abs())
    }
}

/// A figure of an earlier benchmark, and whether the new one is another beyond the noise of both.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Earlier {
    pub(super) value: f64,
    pub(super) has_moved: bool,
}

/// The median of each figure over all rounds, with its range.
pub(super) fn median(rounds: Vec<Vec<Figure>>) -> Vec<Figure> {
    let mut rounds = rounds.into_iter();
    let first = rounds.next().unwrap_or_default();
    let others: Vec<Vec<Figure>> = rounds.collect();
    if others.is_empty() {
        return first;
    }
    let with_range = |figure: Figure| {
        let is_same = |other: &&Figure| other.is_same_as(figure.measure, &figure.name);
        let same = others.iter().filter_map(|round| round.iter().find(is_same));
        let mut all: Vec<&Figure> = same.chain([&figure]).collect();
        all.sort_by(|one, other| one.value.total_cmp(&other.value));
        let (least, most) = (all[0].value, all[all.len() - 1].value);
        Figure { range: Some(Range { least, most }), ..all[all.len() / 2].clone() }
    };
    first.into_iter().map(with_range).collect()
}

/// The report of an earlier benchmark, as `--json` wrote it.
#[derive(Deserialize)]
pub(super) struct EarlierRun {
    figures: Vec<Line>,
}

#[derive(Deserialize)]
struct Line {
    measure: String,
    name: String,
    value: f64,
    range: Option<Range>,
}

impl EarlierRun {
    pub(super) fn read(file: &Path) -> Result<EarlierRun, Failure> {
        let wrong = |why: String| {
            let file = file.display();
            Failure::Mistake(format!("{file}: {why}; try: a file that `bench --json` wrote"))
        };
        let text = std::fs::read_to_string(file).map_err(|error| wrong(error.to_string()))?;
        serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))
    }

    /// Notes beside each figure what it was in the earlier run.
    pub(super) fn compare(&self, figures: &mut [Figure]) {
        let range =
            |value, range: Option<Range>| range.unwrap_or(Range { least: value, most: value });
        for figure in figures {
            let is_same = |line: &&Line| figure.is_same_as(&line.measure, &line.name);
            let Some(line) = self.figures.iter().find(is_same) else { continue };
            let now = range(figure.value, figure.range);
            let has_moved = now.is_apart_from(range(line.value, line.range));
            figure.earlier = Some(Earlier { value: line.value, has_moved });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(value: f64) -> Vec<Figure> {
        vec![Figure::new("fires", "beside none", value, "per s")]
    }

    #[test]
    fn rounds_become_a_median_with_its_range() {
        let figures = median([30.0, 10.0, 20.0].map(round).into());
        assert_eq!(figures[0].value, 20.0);
        assert_eq!(figures[0].range, Some(Range { least: 10.0, most: 30.0 }));
        assert_eq!(median(vec![round(5.0)])[0].range, None);
    }

    #[test]
    fn what_is_within_the_noise_has_not_moved() {
        let range = |least, most| Range { least, most };
        for (one, other, is_apart) in [
            (range(10.0, 12.0), range(11.0, 13.0), false),
            (range(10.0, 12.0), range(12.2, 13.0), false),
            (range(10.0, 12.0), range(12.9, 13.0), true),
            (range(12.9, 13.0), range(10.0, 12.0), true),
            (range(5.0, 5.0), range(5.0, 5.0), false),
        ] {
            assert_eq!(one.is_apart_from(other), is_apart, "{one:?} {other:?}");
        }
    }
}
