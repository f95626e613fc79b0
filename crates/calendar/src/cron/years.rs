//! The year field, kept as ranges. As bits it would take a kilobyte, which hardly any rule needs.

/// The years that a rule is limited to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Years {
    Every,
    /// Ranges: from, to (inclusive), step.
    Only(Box<[(i32, i32, i32)]>),
}

impl Years {
    pub(super) fn at_or_after(&self, year: i32) -> Option<i32> {
        let Years::Only(spans) = self else { return Some(year) };
        let next = |&(from, to, step): &(i32, i32, i32)| {
            let steps = ((year - from).max(0) + step - 1) / step;
            Some(from + steps * step).filter(|&found| found <= to)
        };
        spans.iter().filter_map(next).min()
    }

    pub(super) fn at_or_before(&self, year: i32) -> Option<i32> {
        let Years::Only(spans) = self else { return Some(year) };
        let previous = |&(from, to, step): &(i32, i32, i32)| {
            let year = year.min(to);
            (year >= from).then(|| year - (year - from) % step)
        };
        spans.iter().filter_map(previous).max()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_years() {
        let years = Years::Only([(2026, 2040, 7), (2030, 2030, 1)].into());
        for (year, after, before) in [
            (1999, Some(2026), None),
            (2026, Some(2026), Some(2026)),
            (2027, Some(2030), Some(2026)),
            (2031, Some(2033), Some(2030)),
            (2041, None, Some(2040)),
        ] {
            assert_eq!(years.at_or_after(year), after, "{year}");
            assert_eq!(years.at_or_before(year), before, "{year}");
        }
    }
}
