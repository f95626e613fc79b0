//! apalis on PostgreSQL, with the settings of its own example, called as
//! `create COUNT FIRST DUE RATE GRAIN LIMIT` or as `work LOG`.

use std::error::Error;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use apalis::prelude::*;
use apalis_postgres::{Config, PgPool, PostgresStorage, queries::push_tasks};

const QUEUE: &str = "perform";
const BATCH: usize = 5_000;

type Job = (u64, u64);

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let pool = PgPool::connect(&std::env::var("PEER_STORE")?).await?;
    PostgresStorage::setup(&pool).await?;
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments[0] == "work" {
        work(&pool, &arguments[1]).await
    } else {
        create(&pool, &arguments).await
    }
}

async fn create(pool: &PgPool, arguments: &[String]) -> Result<(), Box<dyn Error>> {
    let numbers: Result<Vec<u64>, _> = arguments[1..].iter().map(|text| text.parse()).collect();
    let numbers = numbers?;
    let (count, first, due, rate) = (numbers[0], numbers[1], numbers[2], numbers[3]);
    let (grain, limit) = (numbers[4], Duration::from_secs(numbers[5]));
    let begin = Instant::now();
    let (mut created, mut batch) = (0, Vec::new());
    for at in 0..count {
        let after = (at * 1_000).checked_div(rate).unwrap_or(0) / grain * grain;
        let due = due / grain * grain + after;
        let job: Job = (first + at, due);
        let task = TaskBuilder::new(serde_json::to_vec(&job)?).run_at_timestamp(due / 1_000);
        batch.push(task.build());
        if batch.len() == BATCH || at + 1 == count {
            created += batch.len();
            push_tasks(&mut *pool.acquire().await?, QUEUE, std::mem::take(&mut batch)).await?;
            if begin.elapsed() > limit {
                break;
            }
        }
    }
    let seconds = begin.elapsed().as_secs_f64();
    println!("{{\"created\": {created}, \"seconds\": {seconds}}}");
    Ok(())
}

async fn work(pool: &PgPool, log: &str) -> Result<(), Box<dyn Error>> {
    let file = OpenOptions::new().create(true).append(true).open(log)?;
    let file = std::sync::Arc::new(file);
    let perform = move |(id, due): Job| {
        let file = file.clone();
        async move {
            let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs_f64() * 1_000.0;
            file.as_ref().write_all(format!("{id} {due} {now:.3}\n").as_bytes())?;
            Ok::<(), BoxDynError>(())
        }
    };
    let config = Config::default()
        .queue(QUEUE)
        .batch_size(100)
        .lock_tasks(false)
        .heartbeat_interval(Duration::from_secs(1))
        .missed_heartbeats(10);
    let polls = Strategy::new().interval(Duration::from_millis(100));
    let backend =
        PostgresStorage::new(pool).with_config(config).with_pubsub().poll_with_strategy(polls);
    // A name of its own: a worker with the name of a dead one would keep that one alive.
    let worker = WorkerBuilder::new(format!("worker-{}", std::process::id()))
        .backend(backend)
        .parallelize(tokio::spawn)
        .build(perform);
    println!("ready");
    Ok(worker.run().await?)
}
