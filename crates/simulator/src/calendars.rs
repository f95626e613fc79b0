//! Calendars of the simulated world: days off near the present come and go.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::clock::instant;
use crate::random::Random;

/// The calendars that schedules may use besides regions. The second includes the first, and changes
/// with it.
pub(crate) const NAMES: [&str; 2] = ["company", "team"];
const REGIONS: [&str; 3] = ["US", "DE-BY", "JP"];
const ZONES: [&str; 3] = ["UTC", "America/New_York", "Asia/Kolkata"];
const DAY: i64 = 86_400_000;
/// How many days have an entry at most.
const DAYS: usize = 12;

pub(crate) struct Calendars {
    random: Random,
    region: &'static str,
    zone: &'static str,
    /// Dates, and whether they are working days.
    days: BTreeMap<String, bool>,
}

impl Calendars {
    pub(crate) fn new(mut random: Random) -> Calendars {
        let (region, zone) = (random.pick(&REGIONS), random.pick(&ZONES));
        Calendars { random, region, zone, days: BTreeMap::new() }
    }

    /// Id and declaration of each calendar.
    pub(crate) fn all(&self) -> [(&'static str, String); 2] {
        let zone = self.zone;
        let team = format!("{{\"timezone\": \"{zone}\", \"union\": [\"{}\"]}}", NAMES[0]);
        [(NAMES[0], self.company()), (NAMES[1], team)]
    }

    fn company(&self) -> String {
        let mut text = format!(
            "{{\"timezone\": \"{}\", \"hours\": {{\"mon-fri\": [\"08:00-18:00\"]}}, \
             \"holidays\": [{{\"country\": \"{}\"}}",
            self.zone, self.region
        );
        let mut worked = Vec::new();
        // Writing into a string cannot fail.
        for (date, is_worked) in &self.days {
            if *is_worked {
                worked.push(format!("{{\"date\": \"{date}\", \"working\": true}}"));
            } else {
                let _ = write!(text, ", {{\"date\": \"{date}\", \"name\": \"Off\"}}");
            }
        }
        let _ = write!(text, "], \"exceptions\": [{}]}}", worked.join(", "));
        text
    }

    /// Changes some days near the present. Returns the id and the new declaration.
    pub(crate) fn edit(&mut self, now: i64) -> (&'static str, String) {
        for _ in 0..self.random.between(1, 3) {
            let day = instant(now + self.random.between(-2, 5) * DAY);
            let date = day.strftime("%Y-%m-%d").to_string();
            if self.days.remove(&date).is_none() {
                self.days.insert(date, self.random.chance(300));
            }
            if self.days.len() > DAYS {
                self.days.pop_first();
            }
        }
        (NAMES[0], self.company())
    }
}
