//! Measures the time per phase. People run this in a release build.

use std::fs;
use std::time::{Duration, Instant};

use super::children::{own_host, running};
use super::*;

const ROUNDS: u32 = 2_000;
/// The unit in which Linux counts the CPU time of processes.
const TICK: Duration = Duration::from_millis(10);

#[tokio::test]
#[ignore = "measures; says nothing about right and wrong"]
#[allow(clippy::disallowed_methods, reason = "measuring is what it is for")]
async fn how_long_a_phase_takes() {
    let (_dir, host) = own_host(1);
    let begun = Instant::now();
    let scripts = Scripts::new(host.clone());
    evaluate(&scripts, step("return 1")).await.unwrap();
    println!("first phase, with the start of its child: {:?}", begun.elapsed());
    let child = running(&host.program).pop().unwrap();
    let module = format!(
        "export default workflow({{ run: async (ctx, state) => state, {} }})",
        "f() { return [1, 2, 3].map(x => x * 2) },".repeat(200)
    );
    let cases = [
        ("return 1", step("return 1")),
        ("a call to the host", step("return (await ctx.fetch('http://a')).status")),
        ("a module of 200 functions", handler(&module, &["run"], Permits::PRODUCER)),
    ];
    for (what, evaluation) in cases {
        let (begun, computed) = (Instant::now(), cpu_of(&child));
        for _ in 0..ROUNDS {
            evaluate(&scripts, evaluation.clone()).await.unwrap();
        }
        let (wall, cpu) = (begun.elapsed() / ROUNDS, (cpu_of(&child) - computed) / ROUNDS);
        println!("{what}: {wall:?}, of which the child computes {cpu:?}");
    }
}

/// User and system time of a process.
fn cpu_of(id: &str) -> Duration {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).unwrap();
    let (_, after_name) = stat.rsplit_once(')').unwrap();
    let ticks = after_name.split_whitespace().skip(11).take(2);
    TICK * ticks.map(|ticks| ticks.parse::<u32>().unwrap()).sum::<u32>()
}
