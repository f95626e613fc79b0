//! tokio-cron-scheduler in memory, called as `run PENDING COUNT RATE LIMIT LOG`: it creates what is
//! pending and then jobs that are due soon, and runs them.

use std::error::Error;
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tokio_cron_scheduler::{Job, JobScheduler};

/// The buffers between its parts: what does not fit is lost.
const BUFFERS: usize = 100_000;
const FAR: Duration = Duration::from_secs(864_000);

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(2).collect();
    let numbers: Result<Vec<u64>, _> = arguments[..4].iter().map(|text| text.parse()).collect();
    let numbers = numbers?;
    let (pending, count, rate, limit) = (numbers[0], numbers[1], numbers[2], numbers[3]);
    let log = OpenOptions::new().create(true).append(true).open(&arguments[4])?;
    let log = Arc::new(log);
    let scheduler = JobScheduler::new_with_channel_size(BUFFERS).await?;
    let (begin, mut created) = (Instant::now(), 0);
    while created < pending && begin.elapsed().as_secs() < limit {
        scheduler.add(Job::new_one_shot(FAR, |_, _| ())?).await?;
        created += 1;
    }
    let seconds = begin.elapsed().as_secs_f64();
    println!("{{\"created\": {created}, \"seconds\": {seconds}}}");
    // Twice the time that creating takes, from a whole second on.
    let each = if created == 0 { 0.0 } else { seconds / created as f64 };
    let first = (now() / 1_000.0 + 2.0 * each * count as f64).ceil() + 5.0;
    for id in 0..count {
        let due = first + id.checked_div(rate).unwrap_or(0) as f64;
        let wait = Duration::from_secs_f64((due - now() / 1_000.0).max(0.0));
        let log = log.clone();
        scheduler.add(Job::new_one_shot(wait, move |_, _| note(&log, id, due))?).await?;
    }
    scheduler.start().await?;
    println!("ready");
    std::future::pending().await
}

fn note(mut log: &File, id: u64, due: f64) {
    // A job has nobody to tell that the disk is full.
    let _ = log.write_all(format!("{id} {:.0} {:.3}\n", due * 1_000.0, now()).as_bytes());
}

/// The wall clock, in milliseconds.
fn now() -> f64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_secs_f64() * 1_000.0
}
