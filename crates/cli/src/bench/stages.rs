//! The CPU time that the store's threads spend in each stage of their turns.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use store::{STAGE_TARGET, Stage};
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::{Event, Subscriber};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::{Context, SubscriberExt as _};
use tracing_subscriber::{Layer, Registry};

/// Nanoseconds spent in each stage, by all threads since the process began.
static SPENT: [AtomicU64; Stage::ALL.len()] = [const { AtomicU64::new(0) }; Stage::ALL.len()];

thread_local! {
    /// The CPU time of this thread when it came to the end of its last stage.
    static LAST: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

/// CPU time by stage.
#[derive(Clone, Copy)]
pub(super) struct Spent([Duration; Stage::ALL.len()]);

impl Spent {
    /// What was spent until now.
    pub(super) fn now() -> Spent {
        Spent(SPENT.each_ref().map(|spent| Duration::from_nanos(spent.load(Ordering::Relaxed))))
    }

    /// What was spent since an earlier moment.
    pub(super) fn since(self, earlier: Spent) -> Spent {
        let Spent(mut spent) = self;
        for (spent, earlier) in spent.iter_mut().zip(earlier.0) {
            *spent = spent.saturating_sub(earlier);
        }
        Spent(spent)
    }

    pub(super) fn of(&self, stage: Stage) -> Duration {
        self.0[stage as usize]
    }

    pub(super) fn total(&self) -> Duration {
        self.0.iter().sum()
    }
}

/// Begins to listen, for as long as the process lives.
pub(super) fn listen() {
    let only_stages = Targets::new().with_target(STAGE_TARGET, LevelFilter::TRACE);
    let registry = Registry::default().with(Stages.with_filter(only_stages));
    // Whoever listens already hears of the stages instead, and they are shown as zero.
    let _ = tracing::subscriber::set_global_default(registry);
}

struct Stages;

impl<S: Subscriber> Layer<S> for Stages {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut found = StageField(None);
        event.record(&mut found);
        let index = found.0.and_then(|number| usize::try_from(number).ok());
        let Some(spent) = index.and_then(|index| SPENT.get(index)) else { return };
        let now = cpu_of_thread();
        let since = now.saturating_sub(LAST.replace(now));
        let nanos = u64::try_from(since.as_nanos()).unwrap_or(u64::MAX);
        spent.fetch_add(nanos, Ordering::Relaxed);
    }
}

/// The number of the stage that an event is about.
struct StageField(Option<u64>);

impl Visit for StageField {
    fn record_u64(&mut self, _: &Field, value: u64) {
        self.0 = Some(value);
    }

    fn record_debug(&mut self, _: &Field, _: &dyn std::fmt::Debug) {}
}

fn cpu_of_thread() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let (seconds, nanos) = (u64::try_from(time.tv_sec), u32::try_from(time.tv_nsec));
    Duration::new(seconds.unwrap_or(0), nanos.unwrap_or(0))
}
