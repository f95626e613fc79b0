//! The last events, for whoever has to understand a failure.

use std::collections::VecDeque;

use crate::clock::instant;

/// How many events are kept.
const KEPT: usize = 600;

/// The last events of a world, with their step and time.
#[derive(Debug, Default)]
pub(crate) struct Trace {
    events: VecDeque<(u64, i64, String)>,
}

impl Trace {
    pub(crate) fn note(&mut self, step: u64, wall: i64, event: String) {
        if self.events.len() == KEPT {
            self.events.pop_front();
        }
        self.events.push_back((step, wall, event));
    }

    pub(crate) fn render(&self) -> String {
        let line = |(step, wall, event): &(u64, i64, String)| {
            format!("{step:>6} {} {event}\n", shown(*wall))
        };
        self.events.iter().map(line).collect()
    }
}

pub(crate) fn shown(wall: i64) -> String {
    format!("{:.3}", instant(wall))
}
