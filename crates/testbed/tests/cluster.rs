//! Tests of the clusters themselves.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use testbed::Cluster;

/// Set for the process that is killed, which runs this test again.
const VICTIM: &str = "PUNCTUAL_TESTBED_VICTIM";
/// The pause between two checks.
const LOOK: Duration = Duration::from_millis(50);

fn count(cluster: &Cluster) -> String {
    cluster.ask("SELECT count(*) FROM things").expect("it answers")
}

#[test]
fn what_is_committed_is_there_after_a_crash() {
    let cluster = Cluster::start().unwrap();
    assert_eq!(cluster.ask("SHOW fsync").unwrap(), "on");
    cluster.ask("CREATE TABLE things AS SELECT 1 AS thing").unwrap();
    cluster.restart_immediate().unwrap();
    assert_eq!(count(&cluster), "1");
    cluster.stop().unwrap();
    assert!(cluster.ask("SELECT 1").is_err());
    let url = cluster.url();
    cluster.start_again().unwrap();
    assert_eq!(url, cluster.url());
    assert_eq!(count(&cluster), "1");
    let folder = cluster.folder().to_owned();
    drop(cluster);
    assert!(!folder.exists());
}

#[test]
fn a_standby_has_what_was_acknowledged() {
    let first = Cluster::builder().fsync(false).start().unwrap();
    let second = first.standby().unwrap();
    assert_eq!(second.ask("SELECT pg_is_in_recovery()").unwrap(), "t");
    first.ask("CREATE TABLE things AS SELECT generate_series(1, 100) AS thing").unwrap();
    first.stop().unwrap();
    second.promote().unwrap();
    assert_eq!(count(&second), "100");
    second.ask("INSERT INTO things VALUES (101)").unwrap();
    assert_eq!(count(&second), "101");
}

#[test]
fn a_cluster_goes_with_the_process() {
    if std::env::var_os(VICTIM).is_some() {
        let cluster = Cluster::builder().fsync(false).start().unwrap();
        println!("\nfolder {}", cluster.folder().display());
        loop {
            std::thread::park();
        }
    }
    let mut victim = Command::new(std::env::current_exe().unwrap())
        .args(["a_cluster_goes_with_the_process", "--exact", "--nocapture"])
        .env(VICTIM, "1")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(victim.stdout.take().unwrap()).lines();
    let folder =
        lines.map_while(Result::ok).find_map(|line| Some(line.strip_prefix("folder ")?.to_owned()));
    let folder = folder.unwrap();
    let pid = std::fs::read_to_string(Path::new(&folder).join("data/postmaster.pid")).unwrap();
    let process = format!("/proc/{}", pid.lines().next().unwrap());
    assert!(Path::new(&process).exists());
    // SIGKILL leaves the process no time to clean up.
    victim.kill().unwrap();
    victim.wait().unwrap();
    let is_left = || Path::new(&folder).exists() || Path::new(&process).exists();
    let looks = (0..600).take_while(|_| is_left()).map(|_| std::thread::sleep(LOOK));
    assert!(looks.count() < 600, "{folder} or {process} is left");
}

#[test]
fn a_shared_one_is_started_once() {
    let url = testbed::shared_url().unwrap();
    assert!(url.starts_with("postgres://"), "{url}");
    assert_eq!(testbed::shared_url().unwrap(), url);
}
