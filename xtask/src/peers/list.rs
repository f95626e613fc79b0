//! The peers: which program stands for each, on which store, and with which settings.

use clap::ValueEnum;

/// A contender, as `--only` names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Name {
    Punctual,
    GraphileWorker,
    PgBoss,
    Bullmq,
    Apscheduler,
    Celery,
    RqScheduler,
    Apalis,
    TokioCronScheduler,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Language {
    Node,
    Python,
    Rust,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Store {
    Postgres,
    Redis,
    /// Nothing outlives the process.
    Memory,
}

/// Where schedules wait that are due in the far future.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pending {
    Queue,
    /// Entries of Celery's beat, which exist only when a restart is measured.
    Beat,
}

#[derive(Debug)]
pub(super) struct Peer {
    pub(super) name: Name,
    /// The package, whose version the table shows.
    pub(super) package: &'static str,
    pub(super) language: Language,
    /// The name of its program and the text of it.
    pub(super) file: &'static str,
    pub(super) text: &'static str,
    pub(super) store: Store,
    pub(super) pending: Pending,
    /// The milliseconds to which its due times are rounded down.
    pub(super) grain: u64,
    pub(super) settings: &'static str,
    /// When it takes up again what a killed worker had begun, by its documentation.
    pub(super) recovery: &'static str,
}

/// What the programs of a language share.
pub(super) const SHARED: [(&str, &str); 2] = [
    ("shared.mjs", include_str!("programs/shared.mjs")),
    ("shared.py", include_str!("programs/shared.py")),
];

pub(super) const PEERS: [Peer; 8] = [
    Peer {
        name: Name::GraphileWorker,
        package: "graphile-worker",
        language: Language::Node,
        file: "graphile_worker.mjs",
        text: include_str!("programs/graphile_worker.mjs"),
        store: Store::Postgres,
        pending: Pending::Queue,
        grain: 1,
        settings: "addJobs of 5,000; concurrentJobs 24, maxPoolSize 25, pollInterval 10, localQueue.size 500, completeJobBatchDelay 0",
        recovery: "a job that a killed worker had locked is taken up after 4 hours",
    },
    Peer {
        name: Name::PgBoss,
        package: "pg-boss",
        language: Language::Node,
        file: "pg_boss.mjs",
        text: include_str!("programs/pg_boss.mjs"),
        store: Store::Postgres,
        pending: Pending::Queue,
        grain: 1,
        settings: "insert of 5,000; batchSize 500, localConcurrency 2, pollingIntervalSeconds 0.5 (its least), burstWhenBatchFull, heartbeatSeconds 10 (its least), monitorIntervalSeconds 5",
        recovery: "a job without a heartbeat for 10 s is tried again; without heartbeats after 15 minutes",
    },
    Peer {
        name: Name::Bullmq,
        package: "bullmq",
        language: Language::Node,
        file: "bullmq.mjs",
        text: include_str!("programs/bullmq.mjs"),
        store: Store::Redis,
        pending: Pending::Queue,
        grain: 1,
        settings: "addBulk of 1,000; concurrency 100, removeOnComplete",
        recovery: "a stalled job is taken up after 30 s (lockDuration, stalledInterval)",
    },
    Peer {
        name: Name::Apscheduler,
        package: "APScheduler",
        language: Language::Python,
        file: "apscheduler_peer.py",
        text: include_str!("programs/apscheduler_peer.py"),
        store: Store::Postgres,
        pending: Pending::Queue,
        grain: 1,
        settings: "SQLAlchemyJobStore, add_job one by one (it has no bulk); 20 threads, misfire_grace_time None",
        recovery: "a job leaves the store when it is handed to a thread: what had not run by then never does",
    },
    Peer {
        name: Name::Celery,
        package: "celery",
        language: Language::Python,
        file: "celery_peer.py",
        text: include_str!("programs/celery_peer.py"),
        store: Store::Redis,
        pending: Pending::Beat,
        grain: 1,
        settings: "apply_async with eta, one producer; prefork with 2 processes, acks_late, prefetch multiplier 128; pending are entries of beat, only for the restart",
        recovery: "a task that was not acknowledged is delivered again after an hour (visibility_timeout)",
    },
    Peer {
        name: Name::RqScheduler,
        package: "rq-scheduler",
        language: Language::Python,
        file: "rq_peer.py",
        text: include_str!("programs/rq_peer.py"),
        store: Store::Redis,
        pending: Pending::Queue,
        grain: 1_000,
        settings: "enqueue_at one by one (it has no bulk); interval 1 s (its least), due times in whole seconds, two workers, which fork for each job",
        recovery: "an abandoned job is moved to the failed ones, and is not run again by itself",
    },
    Peer {
        name: Name::Apalis,
        package: "apalis-postgres",
        language: Language::Rust,
        file: "apalis_peer.rs",
        text: include_str!("programs/apalis_peer.rs"),
        store: Store::Postgres,
        pending: Pending::Queue,
        grain: 1_000,
        settings: "push_tasks of 5,000; batch_size 100, parallelize(tokio::spawn), lock_tasks off, with_pubsub, as in its example; due times in whole seconds",
        recovery: "jobs of a worker without heartbeats for 10 s are taken up",
    },
    Peer {
        name: Name::TokioCronScheduler,
        package: "tokio-cron-scheduler",
        language: Language::Rust,
        file: "tokio_cron_peer.rs",
        text: include_str!("programs/tokio_cron_peer.rs"),
        store: Store::Memory,
        pending: Pending::Queue,
        grain: 1_000,
        settings: "in memory: its PostgreSQL store keeps the times of jobs, but the code of each is a closure, which is gone after a restart; looks every 500 ms, due times in whole seconds",
        recovery: "none: it is in memory",
    },
];
