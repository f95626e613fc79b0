//! `punctual bench`: measures this machine, and compares the figures with raw limits of its disk
//! and SQLite.

mod compare;
mod events;
mod feed;
mod fire_rows;
mod fires;
mod growth;
mod limits;
mod lists;
mod node;
mod paced;
mod postgres_limits;
mod process;
mod report;
mod restart;
mod schedules;
mod sizes;
mod stages;
mod steps;
mod store_target;
mod workers;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use engine::turn::{Command, Verb};
use engine::{ScheduleId, WorkflowId};
use hdrhistogram::Histogram;
use store::Stage;
use tokio::runtime::Runtime;

use self::compare::EarlierRun;
use self::fire_rows::Commits;
use self::fires::{Fired, Load, fire, fire_beside};
use self::limits::Limits;
use self::node::Node;
use self::postgres_limits::PostgresLimits;
use self::report::Figure;
use self::sizes::Sizes;
use self::stages::Spent;
use self::store_target::StoreTarget;
use crate::args::{BenchArgs, Measure};
use crate::failure::Failure;

/// The number of workflows among which the schedules are divided.
const WORKFLOWS: u64 = 20;
/// How many clients create schedules at the same time: a node has as many connections for commands.
const CLIENTS: usize = 4;
/// Paused schedules, so that a list by status finds some.
const PAUSED: i64 = 200;
/// The longest WAL that is acceptable while the store is written to without a pause. The store
/// restarts the WAL at a quarter of this size, which takes a moment.
const LONGEST_LOG_MB: f64 = 400.0;
/// The first number of schedules that are due in a measurement: far from the numbers of pending
/// ones.
const DUE_NUMBERS: u64 = 1_000_000_000;

/// Measures, and prints the figures.
pub(crate) fn run(args: &BenchArgs, out: &mut dyn Write) -> Result<(), Failure> {
    let runtime = Runtime::new()?;
    stages::listen();
    if let Some(of) = &args.restart_of {
        let target = match &args.db {
            Some(url) => {
                let schema = of.to_string_lossy().into_owned();
                StoreTarget::Postgres { url: url.clone(), schema }
            }
            None => StoreTarget::File(of.clone()),
        };
        return runtime.block_on(restart::restarted(&target, out));
    }
    let folder = match &args.dir {
        Some(dir) => tempfile::tempdir_in(dir),
        None => tempfile::tempdir(),
    };
    let folder = folder.map_err(|error| {
        let dir = args.dir.as_deref().unwrap_or(Path::new("the temporary folder"));
        Failure::Environment(format!("{}: {error}", dir.display()))
    })?;
    let earlier = args.compare.as_deref().map(EarlierRun::read).transpose()?;
    let rounds = (0..args.repeat).map(|round| measure(args, &runtime, folder.path(), round));
    let mut figures = compare::median(rounds.collect::<Result<_, Failure>>()?);
    if let Some(earlier) = earlier {
        earlier.compare(&mut figures);
    }
    if args.json { report::write_json(&figures, out) } else { report::write_table(&figures, out) }
}

/// Measures everything once, in a new store.
fn measure(
    args: &BenchArgs,
    runtime: &Runtime,
    dir: &Path,
    round: u32,
) -> Result<Vec<Figure>, Failure> {
    let mut bench = Bench {
        sizes: Sizes::new(args),
        runtime,
        target: match &args.db {
            Some(url) => StoreTarget::postgres(url),
            None => StoreTarget::File(dir.join(format!("bench-{round}.db"))),
        },
        dir: dir.to_owned(),
        raw_rows: None,
        raw_fires: None,
        raw_fires_at_once: None,
        raw_cpu: None,
        raw_cpu_at_once: None,
        sync: None,
        workflows: Vec::new(),
        pending: 0,
        due: DUE_NUMBERS,
        figures: Vec::new(),
        first_cost: None,
    };
    let measured = bench.measure();
    bench.runtime.block_on(bench.target.remove())?;
    measured?;
    Ok(bench.figures)
}

/// A raw limit that a figure is compared with.
type Beside = Option<(&'static str, f64)>;

/// What it took to fire many schedules.
struct AllFired {
    /// Fires per second.
    rate: f64,
    /// The CPU time of a fire in microseconds.
    cpu: f64,
    stages: StageCosts,
}

/// The CPU time of the store's threads, by the stages of a turn.
struct StageCosts {
    stages: Spent,
    fires: f64,
}

impl StageCosts {
    /// How the CPU time of a fire is divided. `raw` is what its rows cost the database alone.
    fn figures(&self, name: &str, cpu: f64, raw: Beside) -> Vec<Figure> {
        let each = |spent: Duration| spent.as_secs_f64() * 1e6 / self.fires;
        let of = |stage| each(self.stages.of(stage));
        let rest = (cpu - each(self.stages.total())).max(0.0);
        let store = of(Stage::Claimed) + of(Stage::Written) + of(Stage::Committed);
        let figure = |part: &str, value| {
            Figure::new("fires", format!("{name}: processor, {part}"), value, "µs each")
        };
        vec![
            figure("to decide", of(Stage::Decided)),
            figure("to claim, encode and write", store).beside(raw),
            figure("to drive, perform and tell", rest),
        ]
    }
}

/// One benchmark. The store grows from level to level.
struct Bench<'a> {
    sizes: Sizes,
    runtime: &'a Runtime,
    dir: PathBuf,
    target: StoreTarget,
    /// Raw limits that creates, fires and lateness are compared with.
    raw_rows: Beside,
    raw_fires: Beside,
    /// The limit for fires with nothing to perform.
    raw_fires_at_once: Beside,
    /// The CPU time that the rows of these fires cost SQLite.
    raw_cpu: Beside,
    raw_cpu_at_once: Beside,
    sync: Beside,
    workflows: Vec<WorkflowId>,
    /// How many schedules far in the future exist so far.
    pending: u64,
    /// The number of the next schedule that is due in a measurement.
    due: u64,
    figures: Vec<Figure>,
    /// The CPU time of a fire with the fewest pending schedules, and how many those are.
    first_cost: Option<(u64, f64)>,
}

impl Bench<'_> {
    fn measure(&mut self) -> Result<(), Failure> {
        if self.sizes.wants(Measure::Limits) {
            self.limits()?;
        }
        for level in self.sizes.pending.clone() {
            let node = self.runtime.block_on(Node::start(&self.target))?;
            self.grow(&node, level)?;
            if self.sizes.wants(Measure::Fires) {
                self.fires(&node)?;
                self.fires_at_once(&node)?;
                if self.target.is_shared() {
                    self.fires_of_two(&node)?;
                }
            }
            if self.sizes.wants(Measure::Lateness) && level == self.sizes.beside_lateness() {
                self.lateness(&node)?;
            }
            if level == self.sizes.most() {
                self.steps(&node)?;
                self.lists(&node)?;
                self.idle()?;
            }
            self.runtime.block_on(node.stop())?;
        }
        self.workers()?;
        self.events()?;
        self.restart()?;
        self.feed()?;
        self.growth()
    }

    /// Measures the lateness beside a feed without end. It comes after everything else in this
    /// store, because the feed fills it.
    fn feed(&mut self) -> Result<(), Failure> {
        if !self.sizes.wants(Measure::Feed) {
            return Ok(());
        }
        let node = self.runtime.block_on(Node::start(&self.target))?;
        let measuring = feed::lateness(&node, self.due, self.sizes.kept_up);
        let feed::Lateness { before, beside, used } = self.runtime.block_on(measuring)?;
        self.due += used;
        self.runtime.block_on(node.stop())?;
        let pairs = quantiles("feed", "", &before).zip(quantiles("feed", "beside", &beside));
        self.figures.extend(pairs.map(|((_, before), (quantile, figure))| {
            let figure = figure.beside(Some(("ms before it", before.value)));
            if quantile == Quantile::Most { figure.at_most(250.0) } else { figure }
        }));
        Ok(())
    }

    /// Measures four workers over HTTP, on a node of its own.
    fn workers(&mut self) -> Result<(), Failure> {
        if !self.sizes.wants(Measure::Workers) {
            return Ok(());
        }
        let attempts = self.sizes.worked;
        let rate = self.runtime.block_on(workers::rate(&self.target, attempts))?;
        let name = format!("{attempts} attempts by {} over HTTP", workers::WORKERS);
        let figure = Figure::new("workers", name, rate, "per s");
        let commits = self.sync.map(|(_, each)| ("commits per s", 1_000.0 / each));
        let figure = figure.beside(commits);
        let is_shared = self.target.is_shared();
        self.figures.push(if is_shared { figure } else { figure.at_least(5_000.0) });
        Ok(())
    }

    fn events(&mut self) -> Result<(), Failure> {
        if !self.sizes.wants(Measure::Events) {
            return Ok(());
        }
        let (events, runs) = (self.sizes.published, self.sizes.consumed);
        let rates = self.runtime.block_on(events::rates(&self.target, events, runs))?;
        let commits = self.sync.map(|(_, each)| ("commits per s", 1_000.0 / each));
        let is_shared = self.target.is_shared();
        let at_least =
            |figure: Figure, wanted| if is_shared { figure } else { figure.at_least(wanted) };
        let published = Figure::new("events", "published in thousands", rates.published, "per s");
        let name = format!("runs of consumers of {} workflows", events::WORKFLOWS);
        let runs = Figure::new("events", name, rates.runs, "per s").beside(commits);
        let script = Figure::new("events", "a script in a fresh context", rates.script, "ms");
        self.figures.extend([
            at_least(published.beside(commits), 50_000.0),
            at_least(runs, 1_000.0),
            script.at_most(1.0),
        ]);
        Ok(())
    }

    fn limits(&mut self) -> Result<(), Failure> {
        let during = self.sizes.limits;
        match &self.target {
            StoreTarget::File(_) => {
                let limits = Limits::measure(&self.dir, during)?;
                // Measured for longer than the others, because fires are compared with it.
                let rate = |commits| {
                    self.runtime.block_on(fire_rows::rate(&self.dir, commits, 3 * during))
                };
                let ((rows, cpu), (at_once, cpu_at_once)) =
                    (rate(Commits::Two)?, rate(Commits::One)?);
                self.figures.extend(limits.figures());
                let name = "the rows of a fire, 1 000 in a commit, nothing decided";
                self.figures.push(Figure::new("limits", name, rows, "per s"));
                let name = "the same with nothing to perform, in one commit";
                self.figures.push(Figure::new("limits", name, at_once, "per s"));
                self.raw_fires_at_once = Some(("rows of such a fire per s", at_once));
                self.raw_rows = Some(("rows of 200 bytes per s", limits.wide_rows));
                self.raw_fires = Some(("rows of a fire per s", rows));
                self.raw_cpu = Some(("µs for SQLite's part of it", cpu));
                self.raw_cpu_at_once = Some(("µs for SQLite's part of it", cpu_at_once));
                self.sync = Some(("ms for a sync", 1_000.0 / limits.syncs));
            }
            StoreTarget::Postgres { url, schema } => {
                let measuring = PostgresLimits::measure(url, schema, during);
                let limits = self.runtime.block_on(measuring)?;
                self.figures.extend(limits.figures());
                self.raw_rows = Some(("rows copied per s", limits.copied));
                self.raw_fires = Some(("claimed and inserted per s", limits.recorded));
                self.sync = Some(("ms for a commit", 1_000.0 / limits.commits));
            }
        }
        Ok(())
    }

    fn grow(&mut self, node: &Node, level: u64) -> Result<(), Failure> {
        while (self.workflows.len() as u64) < WORKFLOWS {
            let name = format!("nothing-{}", self.workflows.len());
            self.workflows.push(self.runtime.block_on(node.save_workflow(&name))?);
        }
        // One client after another waits for its answer; on a shared store, several at a time are
        // measured as well.
        let several = self.sizes.wants(Measure::Creates) && self.target.is_shared();
        let half = self.pending + (level - self.pending) / 2;
        let parts = if several { vec![(half, 1), (level, CLIENTS)] } else { vec![(level, 1)] };
        for (level, clients) in parts {
            self.create(node, level, clients)?;
        }
        Ok(())
    }

    fn create(&mut self, node: &Node, level: u64, clients: usize) -> Result<(), Failure> {
        let (from, batch) = (self.pending, self.sizes.batch);
        let workflows = &self.workflows;
        let created = self.runtime.block_on(async {
            match clients {
                1 => schedules::create_far(node, from, level, workflows, batch).await,
                _ => schedules::create_far_by(clients, node, from, level, workflows, batch).await,
            }
        })?;
        self.pending = level;
        if self.sizes.wants(Measure::Creates) && created.count > 0 {
            let rate = created.count as f64 / created.took.as_secs_f64();
            let who = if clients > 1 { format!(" by {clients} clients") } else { String::new() };
            let name = format!("{} from {from}, {batch} in a commit{who}", created.count);
            let cpu = created.cpu.as_secs_f64() * 1e6 / created.count as f64;
            let creates = Figure::new("creates", &name, rate, "per s").beside(self.raw_rows);
            self.figures.extend(self.log(&name, created.longest_log));
            self.figures.extend([
                if self.target.is_shared() { creates } else { creates.at_least(50_000.0) },
                Figure::new("creates", format!("{name}: processor"), cpu, "µs each"),
            ]);
        }
        Ok(())
    }

    /// The longest WAL beside the file during a measurement. PostgreSQL keeps its own log, so there
    /// is none.
    fn log(&self, name: &str, longest: u64) -> Option<Figure> {
        let StoreTarget::File(path) = &self.target else { return None };
        let file = std::fs::metadata(path).map_or(0, |file| file.len());
        let figure =
            Figure::new("creates", format!("{name}: longest log"), longest as f64 / 1e6, "MB");
        Some(figure.beside(Some(("MB in the file", file as f64 / 1e6))).at_most(LONGEST_LOG_MB))
    }

    fn fires(&mut self, node: &Node) -> Result<(), Failure> {
        let AllFired { rate, cpu, stages } = self.fire_all(&[node])?;
        let wanted = if self.target.is_shared() { 10_000.0 } else { 30_000.0 };
        let name = format!("beside {} pending", self.pending);
        self.figures.push(
            Figure::new("fires", &name, rate, "per s").beside(self.raw_fires).at_least(wanted),
        );
        let cost = Figure::new("fires", format!("{name}: processor"), cpu, "µs each");
        // Pending schedules must not make a fire more expensive. The cost is compared with that at
        // the fewest pending schedules. A level without any is not used for that, because the
        // store's pages are still being created then.
        let first = *self.first_cost.get_or_insert((self.pending, cpu));
        self.figures.push(if self.pending > first.0 && first.0 > 0 {
            cost.beside(Some(("µs beside the fewest", first.1))).at_most(1.2 * first.1)
        } else {
            cost
        });
        if first.0 == 0 {
            self.first_cost = None;
        }
        self.figures.extend(stages.figures(&name, cpu, self.raw_cpu));
        Ok(())
    }

    /// Measures fires whose runs have nothing to perform, so that they end in the turn that begins
    /// them.
    fn fires_at_once(&mut self, node: &Node) -> Result<(), Failure> {
        node.watch.end_noops(true);
        let measured = self.fire_all(&[node]);
        node.watch.end_noops(false);
        let AllFired { rate, cpu, stages } = measured?;
        let name = format!("beside {} pending, nothing to perform", self.pending);
        self.figures.extend([
            Figure::new("fires", &name, rate, "per s").beside(self.raw_fires_at_once),
            Figure::new("fires", format!("{name}: processor"), cpu, "µs each"),
        ]);
        self.figures.extend(stages.figures(&name, cpu, self.raw_cpu_at_once));
        Ok(())
    }

    /// Fires as many schedules as are measured at once.
    fn fire_all(&mut self, nodes: &[&Node]) -> Result<AllFired, Failure> {
        let (count, batch) = (self.sizes.fires, self.sizes.batch);
        let load = Load { from: self.due, count, over: Duration::ZERO, batch };
        let Fired { took, cpu, stages, used, .. } =
            self.runtime.block_on(fire(nodes, &self.workflows, &load))?;
        self.due += used;
        let count = count as f64;
        let cpu = cpu.as_secs_f64() * 1e6 / count;
        let stages = StageCosts { stages, fires: count };
        Ok(AllFired { rate: count / took.as_secs_f64(), cpu, stages })
    }

    /// Measures two nodes on the same machine, which must not be slower than one.
    fn fires_of_two(&mut self, node: &Node) -> Result<(), Failure> {
        let other = self.runtime.block_on(Node::start(&self.target))?;
        let rate = self.fire_all(&[node, &other])?.rate;
        self.runtime.block_on(other.stop())?;
        let name = format!("beside {} pending, two nodes", self.pending);
        let figure = Figure::new("fires", name, rate, "per s");
        self.figures.push(figure.beside(self.raw_fires).at_least(10_000.0));
        Ok(())
    }

    fn lateness(&mut self, node: &Node) -> Result<(), Failure> {
        for rate in self.sizes.rates.clone() {
            let over = self.sizes.kept_up;
            let count = (rate as f64 * over.as_secs_f64()) as u64;
            let load = Load { from: self.due, count, over, batch: self.sizes.batch };
            let fired = self.runtime.block_on(fire(&[node], &self.workflows, &load))?;
            self.due += fired.used;
            let sync = self.sync;
            let wanted = match (self.target.is_shared(), rate > 2_000) {
                (false, true) => 25.0,
                (false, false) => 10.0,
                (true, _) => 20.0,
            };
            self.figures.extend(
                quantiles("lateness", &format!("{rate} per s"), &fired.lateness).map(
                    |(quantile, figure)| match quantile {
                        Quantile::P99 => figure.beside(sync).at_most(wanted),
                        _ => figure.beside(sync),
                    },
                ),
            );
            self.lateness_beside_raw(node, rate, &load)?;
        }
        Ok(())
    }

    /// Measures the same while rows that are due at the same times are committed to the same disk.
    fn lateness_beside_raw(&mut self, node: &Node, rate: u64, load: &Load) -> Result<(), Failure> {
        let load = Load { from: self.due, ..*load };
        let nodes = [node];
        let firing = fire_beside(&nodes, &self.workflows, &load, Some(&self.target));
        let fired = self.runtime.block_on(firing)?;
        self.due += fired.used;
        let Some(raw) = fired.raw else { return Ok(()) };
        let name = format!("{rate} per s beside raw commits");
        let raw = quantiles("lateness", &name, &raw);
        let ours = quantiles("lateness", &name, &fired.lateness);
        self.figures.extend(ours.zip(raw).map(|((_, figure), (_, raw))| {
            figure.beside(Some(("ms for a raw commit at that rate", raw.value)))
        }));
        Ok(())
    }

    /// Measures chains of steps, and runs that wait.
    fn steps(&mut self, node: &Node) -> Result<(), Failure> {
        if !self.sizes.wants(Measure::Steps) {
            return Ok(());
        }
        for runs in [1, self.sizes.chains] {
            let fired = self.runtime.block_on(steps::chains(node, runs, self.due))?;
            self.due += fired.used;
            let rate = (runs * steps::LENGTH) as f64 / fired.took.as_secs_f64();
            let name = format!("{runs} chains of {} steps side by side", steps::LENGTH);
            let figure = Figure::new("steps", name, rate, "per s");
            let commits = self.sync.map(|(_, each)| ("commits per s", 1_000.0 / each));
            let figure = figure.beside(commits);
            self.figures.push(if runs > 1 { figure.at_least(10_000.0) } else { figure });
        }
        let (runs, batch) = (self.sizes.waiting, self.sizes.batch);
        let bytes = self.runtime.block_on(steps::waiting(node, runs, self.due, batch))?;
        self.due += 2 * runs;
        let name = format!("memory for each of {runs} runs that wait");
        self.figures.push(Figure::new("steps", name, bytes, "bytes").at_most(300.0));
        Ok(())
    }

    fn lists(&mut self, node: &Node) -> Result<(), Failure> {
        if !self.sizes.wants(Measure::Lists) {
            return Ok(());
        }
        self.runtime.block_on(pause_some(node))?;
        let most = self.pending;
        let asking = lists::ask(&*node.store, self.sizes.queries, most, &self.workflows);
        for asked in self.runtime.block_on(asking)? {
            let name = format!("{} among {most}", asked.kind);
            let figures = quantiles("lists", &name, &asked.took);
            self.figures.extend(figures.filter(|(quantile, _)| *quantile != Quantile::Most).map(
                |(quantile, figure)| match quantile {
                    Quantile::P99 => figure.at_most(20.0),
                    _ => figure,
                },
            ));
        }
        Ok(())
    }

    /// Measures an idle node. This thread sleeps meanwhile, so that only the node's own cost is
    /// counted.
    fn idle(&mut self) -> Result<(), Failure> {
        if !self.sizes.wants(Measure::Idle) {
            return Ok(());
        }
        // SQLite may still be moving recent writes from the WAL into the file.
        std::thread::sleep(self.sizes.watched / 2);
        let (cpu, wakeups) = (process::cpu_time()?, process::wakeups()?);
        std::thread::sleep(self.sizes.watched);
        let cpu = process::cpu_time()?.saturating_sub(cpu).as_secs_f64();
        let wakeups = process::wakeups()?.saturating_sub(wakeups);
        let beside = format!("beside {} pending", self.pending);
        let share = 100.0 * cpu / self.sizes.watched.as_secs_f64();
        self.figures.extend([
            Figure::new("idle", format!("wakeups {beside}"), wakeups as f64, "").at_most(0.0),
            Figure::new("idle", format!("processor {beside}"), share, "%").at_most(0.5),
        ]);
        Ok(())
    }

    fn restart(&mut self) -> Result<(), Failure> {
        if !self.sizes.wants(Measure::Restart) {
            return Ok(());
        }
        let node = self.runtime.block_on(Node::start(&self.target))?;
        let soon = node.hub.now() + jiff::SignedDuration::from_millis(500);
        self.runtime.block_on(async {
            schedules::create_due(&node, self.due, &[soon], &self.workflows, 1).await?;
            node.stop().await
        })?;
        std::thread::sleep(Duration::from_millis(600));
        let restarted = restart::restart(&self.target)?;
        let beside = format!("beside {} pending", self.pending);
        let megabytes = restarted.bytes as f64 / 1e6;
        self.figures.extend([
            Figure::new(
                "restart",
                format!("to the first attempt, {beside}"),
                restarted.milliseconds,
                "ms",
            )
            .at_most(100.0),
            Figure::new("restart", format!("resident then, {beside}"), megabytes, "MB")
                .at_most(150.0),
        ]);
        Ok(())
    }
}

async fn pause_some(node: &Node) -> Result<(), Failure> {
    for id in (1..=PAUSED).map(|index| ScheduleId(index * 3)) {
        let command = Command::ControlSchedule { id, verb: Verb::Pause };
        match node.hub.command(command, None).await {
            // A schedule that has already fired is done and cannot be paused.
            Ok(_) | Err(store::Failure::Refused(_)) => {}
            Err(failure) => return Err(failure.into()),
        }
    }
    Ok(())
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Quantile {
    P50,
    P99,
    Most,
}

/// Quantiles in milliseconds, of a histogram in microseconds.
fn quantiles(
    measure: &'static str,
    name: &str,
    of: &Histogram<u64>,
) -> impl Iterator<Item = (Quantile, Figure)> {
    [
        (Quantile::P50, "p50", of.value_at_quantile(0.5)),
        (Quantile::P99, "p99", of.value_at_quantile(0.99)),
        (Quantile::Most, "max", of.max()),
    ]
    .map(|(quantile, called, value)| {
        let name = format!("{name}, {called}");
        (quantile, Figure::new(measure, name, value as f64 / 1_000.0, "ms"))
    })
    .into_iter()
}
