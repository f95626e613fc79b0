//! One peer on its way through the measurements: its store, its programs and their loads.

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;
use testbed::Cluster;

use super::installed::Installed;
use super::list::{Peer, Store};
use super::redis::Redis;
use super::sizes::Sizes;
use super::worker::{Execution, Worker, executions};
use crate::steps::{Outcome, wall_millis};

/// Pending schedules are due in so many milliseconds.
const FAR: i64 = 10 * 86_400_000;
/// What a worker may take to start, before the first job is due, in milliseconds.
const START: i64 = 6_000;
/// How much longer than expected creating may take.
const SLACK: f64 = 1.5;
/// The most time for a worker to say that it is ready.
const READY: Duration = Duration::from_secs(60);

pub(super) struct Course<'a> {
    pub(super) peer: &'a Peer,
    pub(super) sizes: &'a Sizes,
    /// Jobs created per second.
    pub(super) rate: f64,
    installed: &'a Installed,
    cluster: &'a Cluster,
    url: String,
    redis: Option<Redis<'a>>,
    /// The number of the next job.
    next: u64,
    files: u32,
    stores: u32,
    /// Whether jobs of an earlier load are left in the store.
    is_dirty: bool,
}

/// The jobs of a load that have run.
pub(super) struct Load {
    pub(super) first_due: f64,
    pub(super) executions: Vec<Execution>,
}

impl<'a> Course<'a> {
    pub(super) fn new(
        peer: &'a Peer,
        sizes: &'a Sizes,
        installed: &'a Installed,
        cluster: &'a Cluster,
    ) -> Result<Course<'a>, String> {
        let mut course = Course {
            peer,
            sizes,
            rate: 0.0,
            installed,
            cluster,
            url: String::new(),
            redis: None,
            next: 1,
            files: 0,
            stores: 0,
            is_dirty: false,
        };
        course.fresh()?;
        Ok(course)
    }

    /// Begins anew with an empty store.
    pub(super) fn fresh(&mut self) -> Outcome {
        self.stores += 1;
        self.is_dirty = false;
        match self.peer.store {
            Store::Postgres => {
                let name = |number| format!("peer_{}", number);
                let ask = |sql: String| self.cluster.ask(&sql).map_err(|why| why.to_string());
                ask(format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", name(self.stores - 1)))?;
                ask(format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", name(self.stores)))?;
                ask(format!("CREATE DATABASE {}", name(self.stores)))?;
                let url = self.cluster.url();
                let (server, _) = url.rsplit_once('/').unwrap_or((&url, ""));
                self.url = format!("{server}/{}", name(self.stores));
            }
            Store::Redis => {
                self.redis = None;
                let folder = self.path("redis");
                let redis = Redis::start(self.installed, &folder)?;
                self.url = redis.url.clone();
                self.redis = Some(redis);
            }
            Store::Memory => {}
        }
        Ok(())
    }

    /// Fills the store with what is pending: how many, and how many a second.
    pub(super) fn fill(&mut self) -> Result<(u64, f64), String> {
        let (pending, filling) = (self.sizes.pending, self.sizes.filling);
        let (created, seconds) = if self.peer.store == Store::Memory {
            let log = self.path("log");
            let (worker, created) = self.start_in_memory(0, 0, &log)?;
            worker.stop();
            created
        } else {
            self.create(pending, wall_millis() + FAR, 0, filling)?
        };
        let rate = created as f64 / seconds.max(0.001);
        self.rate = rate;
        Ok((created, rate))
    }

    /// Creates jobs: how many, and in how many seconds.
    pub(super) fn create(
        &mut self,
        count: u64,
        due: i64,
        per_second: u64,
        limit: Duration,
    ) -> Result<(u64, f64), String> {
        let printed = self.path("created");
        let mut command = self.installed.program(self.peer, &self.url);
        let numbers = [count, self.next, u64::try_from(due).unwrap_or(0), per_second];
        command.arg("create").args(numbers.map(|number| number.to_string()));
        command.args([self.peer.grain.to_string(), limit.as_secs().to_string()]);
        self.next += count;
        let worker = Worker::start(&self.installed.guard, &mut command, &printed)?;
        let ended = worker.ended(limit + READY);
        let text = fs::read_to_string(&printed).unwrap_or_default();
        ended.map_err(|why| format!("{why}: {}", last_line(&text)))?;
        said(&text).ok_or_else(|| format!("it has not said what it created: {}", last_line(&text)))
    }

    /// Creates jobs that are due soon, lets a worker run them, and waits for them within limits.
    pub(super) fn load(&mut self, count: u64, per_second: u64) -> Result<Load, String> {
        if self.is_dirty {
            self.fresh()?;
            self.fill()?;
        }
        let log = self.path("log");
        let (mut worker, ids, first_due) = self.start(count, per_second, &log)?;
        let over = (count * 1_000).checked_div(per_second).unwrap_or(0);
        let wait = self.sizes.limit + Duration::from_millis(over);
        let wait = wait + Duration::from_millis((first_due - wall_millis()).max(0).unsigned_abs());
        let done = || Some(()).filter(|()| lines(&log) >= count);
        self.is_dirty = worker.until(Duration::from_millis(200), wait, done)?.is_none();
        worker.stop();
        let mut executions = executions(&log);
        executions.retain(|one| ids.contains(&one.id));
        Ok(Load { first_due: first_due as f64, executions })
    }

    /// Creates jobs that are due soon, and starts a worker, which is ready before the first of
    /// them: it, the numbers of the jobs and the first due time.
    pub(super) fn start(
        &mut self,
        count: u64,
        per_second: u64,
        log: &Path,
    ) -> Result<(Worker<'a>, Range<u64>, i64), String> {
        if self.peer.store == Store::Memory {
            let (mut worker, _) = self.start_in_memory(count, per_second, log)?;
            let every = Duration::from_millis(200);
            let first = worker.until(every, READY, || executions(log).first().copied())?;
            let due = first.ok_or("no job has run")?.due as i64;
            return Ok((worker, 0..count, due));
        }
        let creating = (count as f64 / self.rate * SLACK * 1_000.0) as i64;
        // A whole second, for those that know nothing shorter.
        let due = (wall_millis() + creating + START) / 1_000 * 1_000 + 1_000;
        let ids = self.next..self.next + count;
        let limit = Duration::from_millis(creating.max(0).unsigned_abs()) + READY;
        let (created, _) = self.create(count, due, per_second, limit)?;
        if created < count || wall_millis() > due - START / 2 {
            self.is_dirty = true;
            return Err(format!("{created} of {count} jobs were created in time"));
        }
        let worker = self.work(log, false)?;
        if wall_millis() > due {
            self.is_dirty = true;
            return Err("the worker was not ready in time".to_owned());
        }
        Ok((worker, ids, due))
    }

    /// Starts a worker and waits until it is ready.
    pub(super) fn work(&mut self, log: &Path, with_beat: bool) -> Result<Worker<'a>, String> {
        let mut command = self.installed.program(self.peer, &self.url);
        command.arg("work").arg(log).env("PEER_LOG", log);
        if with_beat {
            command.env("PEER_BEAT", self.sizes.pending.to_string());
        }
        let printed = self.path("worked");
        let mut worker = Worker::start(&self.installed.guard, &mut command, &printed)?;
        self.ready(&mut worker, &printed)?;
        Ok(worker)
    }

    /// Starts a program that keeps its jobs in memory: it creates what is pending, and jobs that
    /// are due soon. Also how many were pending, and in how many seconds they were created.
    fn start_in_memory(
        &mut self,
        count: u64,
        per_second: u64,
        log: &Path,
    ) -> Result<(Worker<'a>, (u64, f64)), String> {
        let mut command = self.installed.program(self.peer, &self.url);
        let limit = self.sizes.filling.as_secs();
        let numbers = [self.sizes.pending, count, per_second, limit];
        command.arg("run").args(numbers.map(|number| number.to_string())).arg(log);
        let printed = self.path("worked");
        let mut worker = Worker::start(&self.installed.guard, &mut command, &printed)?;
        self.ready(&mut worker, &printed)?;
        let text = fs::read_to_string(&printed).unwrap_or_default();
        let created = said(&text).ok_or("it has not said what it created")?;
        Ok((worker, created))
    }

    fn ready(&self, worker: &mut Worker<'_>, printed: &Path) -> Outcome {
        let text = || fs::read_to_string(printed).unwrap_or_default();
        let is_ready = || Some(()).filter(|()| text().contains("ready"));
        let limit = READY + 2 * self.sizes.filling;
        match worker.until(Duration::from_millis(5), limit, is_ready) {
            Ok(Some(())) => Ok(()),
            Ok(None) => Err("the worker is not ready".to_owned()),
            Err(why) => Err(format!("{why}: {}", last_line(&text()))),
        }
    }

    /// The resident memory of Redis, if that is the store.
    pub(super) fn redis_resident(&self) -> Option<u64> {
        self.redis.as_ref().map(Redis::resident)
    }

    /// A new file or folder.
    pub(super) fn path(&mut self, what: &str) -> PathBuf {
        self.files += 1;
        self.installed.guard.folder().join(format!("{}-{}-{what}", self.peer.package, self.files))
    }
}

/// How many lines there are.
fn lines(log: &Path) -> u64 {
    let bytes = fs::read(log).unwrap_or_default();
    bytes.iter().filter(|byte| **byte == b'\n').count() as u64
}

/// The last line with JSON: how many were created, and in how many seconds.
fn said(text: &str) -> Option<(u64, f64)> {
    let line = text.lines().rev().find(|line| line.starts_with('{'))?;
    let value: Value = serde_json::from_str(line).ok()?;
    Some((value["created"].as_u64()?, value["seconds"].as_f64()?))
}

fn last_line(text: &str) -> &str {
    text.trim_end().lines().next_back().unwrap_or("it has said nothing")
}
