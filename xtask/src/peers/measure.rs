//! What is measured of each peer, by the log that its jobs write.

use std::collections::HashMap;
use std::time::Duration;

use super::course::{Course, Load};
use super::list::{Pending, Store};
use super::sizes::Sizes;
use super::table::{Cell, Row, whole};
use super::worker::{Execution, executions};
use crate::steps::wall_millis;

/// A peer that is later than this, in milliseconds, does not keep up.
const KEEPS_UP: f64 = 5_000.0;
/// Creating what is measured may take so long, in seconds.
const CREATING: f64 = 60.0;
const MEGABYTE: u64 = 1_000_000;

/// Measures everything. What cannot be measured says why.
pub(super) fn row(course: &mut Course<'_>) -> Row {
    let peer = course.peer;
    let tell = |what: &str, cell: Cell| {
        let note = cell.note.as_deref().unwrap_or_default();
        eprintln!("{}: {what}: {} {note}", peer.package, cell.text);
        cell
    };
    let or_why = |measured: Result<Cell, String>| measured.unwrap_or_else(Cell::missing);
    let created = tell("created/s", or_why(created(course)));
    if course.rate == 0.0 {
        let why = created.note.as_deref().unwrap_or("it creates nothing");
        return Row::missing(peer, why);
    }
    let (restart, memory) = match restart(course) {
        Ok(both) => both,
        Err(why) => (Cell::missing(why), Cell::missing("as for the restart")),
    };
    let (restart, memory) = (tell("restart", restart), tell("memory", memory));
    let slow = tell("500/s", or_why(late(course, 500)));
    let fast = if slow.note.is_none() { late(course, 2_000) } else { Err("see 500/s".to_owned()) };
    let fast = tell("2,000/s", or_why(fast));
    let completed = tell("completed/s", or_why(completed(course)));
    let killed = tell("lost/doubled", or_why(killed(course)));
    Row::of(peer, [created, completed, slow, fast, restart, memory, killed])
}

fn created(course: &mut Course<'_>) -> Result<Cell, String> {
    let (created, rate) = course.fill()?;
    let cell = Cell::new(whole(rate));
    if course.peer.pending == Pending::Beat {
        course.fresh()?;
        return Ok(cell.with("jobs of the queue"));
    }
    if created < course.sizes.pending {
        return Ok(cell.with(format!("only {created} pending: the time was over")));
    }
    Ok(cell)
}

fn completed(course: &mut Course<'_>) -> Result<Cell, String> {
    let asked = course.sizes.due;
    let count = asked.min((course.rate * CREATING) as u64);
    let load = course.load(count, 0)?;
    let ran = first_starts(&load);
    let last = ran.values().map(|execution| execution.start).fold(0.0, f64::max);
    if ran.is_empty() {
        return Err(format!("none of {count} had run after {} s", course.sizes.limit.as_secs()));
    }
    let seconds = (last - load.first_due) / 1_000.0;
    let cell = Cell::new(whole(ran.len() as f64 / seconds.max(0.001)));
    if ran.len() as u64 != asked {
        let limit = course.sizes.limit.as_secs();
        return Ok(cell.with(format!("{} of {count} jobs, within {limit} s", ran.len())));
    }
    Ok(cell)
}

/// Lateness at a steady rate, in milliseconds.
fn late(course: &mut Course<'_>, per_second: u64) -> Result<Cell, String> {
    let count = per_second * course.sizes.seconds;
    if course.rate * CREATING < count as f64 {
        return Err(format!("{count} jobs cannot be created in {CREATING} s"));
    }
    let load = course.load(count, per_second)?;
    let ran = first_starts(&load);
    let mut late: Vec<f64> = ran.values().map(|ran| ran.start - ran.due).collect();
    late.sort_unstable_by(f64::total_cmp);
    let at = |share: f64| late.get(((late.len() as f64 * share) as usize).min(late.len() - 1));
    let (Some(half), Some(most), Some(last)) = (at(0.5), at(0.99), late.last()) else {
        return Err(format!("none of {count} had run"));
    };
    let cell = Cell::new(format!("{half:.0} / {most:.0}"));
    if late.len() as u64 == count && *last < KEEPS_UP {
        return Ok(cell);
    }
    let last = last / 1_000.0;
    let (ran, limit) = (late.len(), course.sizes.limit.as_secs());
    let what =
        format!("{ran} of {count} had run {limit} s after the end, the last {last:.1} s late");
    Ok(cell.with(format!("cannot keep up: {what}")))
}

/// The first execution of each job of a load.
fn first_starts(load: &Load) -> HashMap<u64, Execution> {
    let mut first: HashMap<u64, Execution> = HashMap::new();
    for execution in &load.executions {
        let known = first.entry(execution.id).or_insert(*execution);
        if execution.start < known.start {
            *known = *execution;
        }
    }
    first
}

/// The time to the first due job, and the memory then, beside what is pending.
fn restart(course: &mut Course<'_>) -> Result<(Cell, Cell), String> {
    if course.peer.store == Store::Memory {
        return Err("in memory: after a restart, nothing is pending".to_owned());
    }
    let is_beat = course.peer.pending == Pending::Beat;
    if !is_beat {
        course.create(1, wall_millis() - 1_000, 0, Duration::from_secs(60))?;
    }
    let log = course.path("log");
    let mut worker = course.work(&log, is_beat)?;
    let limit = course.sizes.limit;
    let first = worker.until(Duration::from_millis(2), limit, || executions(&log).first().copied());
    let resident = worker.resident();
    let first = first?.ok_or(format!("nothing had run after {} s", limit.as_secs()));
    let took = first.map(|first| first.start - worker.begun as f64);
    worker.stop();
    if is_beat {
        course.fresh()?;
    }
    let own = resident / MEGABYTE;
    let memory = match course.redis_resident() {
        Some(redis) => format!("{own} + {} Redis", redis / MEGABYTE),
        None => own.to_string(),
    };
    Ok((Cell::new(whole(took?)), Cell::new(memory)))
}

/// Kills the worker in the middle of its work, and starts it once more.
fn killed(course: &mut Course<'_>) -> Result<Cell, String> {
    if course.peer.store == Store::Memory {
        return Err("in memory: all that had not run is lost".to_owned());
    }
    course.fresh()?;
    let Sizes { killed: count, window, limit, .. } = *course.sizes;
    let log = course.path("log");
    let (mut worker, ids, _) = course.start(count, 0, &log)?;
    let ours = |all: Vec<Execution>| all.into_iter().filter(|one| ids.contains(&one.id));
    let seen = || ours(executions(&log)).count() as u64;
    let look = || Some(seen()).filter(|seen| *seen >= count / 4);
    worker.until(Duration::from_millis(1), limit, look)?.ok_or("it does not come to the middle")?;
    worker.kill();
    let before = seen();
    let mut worker = course.work(&log, false)?;
    worker.until(Duration::from_millis(200), window, || None::<()>)?;
    worker.stop();
    let mut times: HashMap<u64, u32> = HashMap::new();
    ours(executions(&log)).for_each(|one| *times.entry(one.id).or_default() += 1);
    let lost = count - times.len() as u64;
    let doubled = times.values().filter(|times| **times > 1).count();
    let (seconds, recovery) = (window.as_secs(), course.peer.recovery);
    let note = format!(
        "of {count}, killed when {before} had begun, seen for {seconds} s after the restart; {recovery}"
    );
    Ok(Cell::new(format!("{lost} / {doubled}")).with(note))
}
