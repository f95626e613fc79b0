//! Live output: the last part of what this node's attempts write while they run, for those who
//! watch. It is kept in memory only, and nothing depends on it.

mod output_tap;
mod secret_redactor;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use engine::run::Part;
use engine::turn::{Notice, Perform};
use engine::{RunId, RunKey};
use tokio::sync::broadcast;

pub(crate) use output_tap::OutputTap;

use crate::clock::Stopwatch;

/// How many bytes of an attempt's output are kept: the last ones.
const KEPT: usize = 64 * 1024;
/// For how many attempts output is kept, recently ended ones included: at most 32 MiB in all. The
/// output of further attempts is dropped.
const MOST_HEARD: usize = 512;
/// Watchers are notified about an attempt at most this often.
const TOLD: Duration = Duration::from_millis(500);

/// The output of this node's attempts.
#[derive(Debug)]
pub(crate) struct Live {
    heard: Mutex<VecDeque<Heard>>,
    notices: broadcast::Sender<Arc<[Notice]>>,
}

/// The output of one attempt.
#[derive(Debug)]
struct Heard {
    run: RunKey,
    token: u32,
    run_id: RunId,
    step_id: String,
    part: Part,
    attempt: u32,
    tail: String,
    /// How many bytes were dropped before the tail.
    before: u64,
    has_ended: bool,
    told: Option<Stopwatch>,
    /// A notice to watchers is scheduled.
    is_to_be_told: bool,
}

/// The last part of an attempt's output.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Tail {
    pub(crate) text: String,
    /// How many bytes of output precede the text.
    pub(crate) offset: u64,
}

impl Live {
    /// Watchers are notified through `notices`.
    pub(crate) fn new(notices: broadcast::Sender<Arc<[Notice]>>) -> Live {
        Live { heard: Mutex::default(), notices }
    }

    /// The output of this attempt of this part, if the attempt ran on this node and is still kept.
    pub(crate) fn tail(&self, run: RunKey, part: Part, attempt: u32) -> Option<Tail> {
        let heard = self.heard();
        let is_it = |heard: &&Heard| (heard.run, heard.part, heard.attempt) == (run, part, attempt);
        let found = heard.iter().rfind(is_it)?;
        Some(Tail { text: found.tail.clone(), offset: found.before })
    }

    /// Marks an attempt as ended, after that was committed. Its output stays until another attempt
    /// needs the room.
    pub(crate) fn ended(&self, run: RunKey, token: u32) {
        if let Some(heard) = find(&mut self.heard(), run, token) {
            heard.has_ended = true;
        }
    }

    /// Forgets all output: this node performs nothing any more.
    pub(crate) fn clear(&self) {
        self.heard().clear();
    }

    /// Appends output of an attempt, and schedules a notice to watchers.
    fn say(self: &Arc<Self>, perform: &About, text: &str) {
        if text.is_empty() {
            return;
        }
        let mut all = self.heard();
        let (run, token) = (perform.run, perform.token);
        if find(&mut all, run, token).is_none() {
            if !make_room(&mut all) {
                return;
            }
            all.push_back(Heard::new(perform));
        }
        let Some(heard) = find(&mut all, run, token) else { return };
        heard.add(text);
        if heard.is_to_be_told || self.notices.receiver_count() == 0 {
            return;
        }
        heard.is_to_be_told = true;
        let pause = heard.told.map(|told| TOLD.saturating_sub(told.elapsed()));
        drop(all);
        let live = self.clone();
        tokio::spawn(async move {
            tokio::time::sleep(pause.unwrap_or_default()).await;
            live.tell(run, token);
        });
    }

    fn tell(&self, run: RunKey, token: u32) {
        let mut all = self.heard();
        let Some(heard) = find(&mut all, run, token) else { return };
        heard.is_to_be_told = false;
        heard.told = Some(Stopwatch::start());
        let (run, step) = (heard.run_id.clone(), heard.step_id.clone());
        drop(all);
        let _ = self.notices.send([Notice::Output { run, step }].into());
    }

    fn heard(&self) -> MutexGuard<'_, VecDeque<Heard>> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn find(all: &mut VecDeque<Heard>, run: RunKey, token: u32) -> Option<&mut Heard> {
    all.iter_mut().rfind(|heard| heard.run == run && heard.token == token)
}

/// Whether there is room for another attempt. If there is none, removes the oldest one that has
/// ended.
fn make_room(all: &mut VecDeque<Heard>) -> bool {
    if all.len() < MOST_HEARD {
        return true;
    }
    let over = all.iter().position(|heard| heard.has_ended);
    over.and_then(|at| all.remove(at)).is_some()
}

/// Identifies the attempt that output belongs to.
#[derive(Clone, Debug)]
struct About {
    run: RunKey,
    token: u32,
    run_id: RunId,
    step_id: String,
    part: Part,
    attempt: u32,
}

impl About {
    fn new(perform: &Perform) -> About {
        About {
            run: perform.run,
            token: perform.token,
            run_id: perform.run_id.clone(),
            step_id: perform.step().id.clone(),
            part: perform.part,
            attempt: perform.attempt,
        }
    }
}

impl Heard {
    fn new(about: &About) -> Heard {
        let About { run, token, run_id, step_id, part, attempt } = about.clone();
        Heard {
            run,
            token,
            run_id,
            step_id,
            part,
            attempt,
            tail: String::new(),
            before: 0,
            has_ended: false,
            told: None,
            is_to_be_told: false,
        }
    }

    fn add(&mut self, text: &str) {
        self.tail.push_str(text);
        let surplus = self.tail.len().saturating_sub(KEPT);
        let surplus = self.tail.ceil_char_boundary(surplus);
        self.tail.drain(..surplus);
        self.before += surplus as u64;
    }
}

#[cfg(test)]
mod tests;
