//! Tests of commands that outlive a killed node.

use std::fs;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use language::definition::Action;
use runners::{Policy, Runners, end_orphans};
use tokio_util::sync::CancellationToken;

use crate::exec::{shell, unsupervised};
use crate::lifeline::{Fifo, Lifeline, hold};
use crate::{perform, succeeded, work};

/// Environment variables for the node that is killed: the directory of its notes, the pipe that its
/// command holds, and the pipe that the node itself holds once it has recorded the command.
const GROUPS: &str = "PUNCTUAL_TEST_GROUPS";
const HELD_BY_COMMAND: &str = "PUNCTUAL_TEST_HELD_BY_COMMAND";
const HELD_BY_NODE: &str = "PUNCTUAL_TEST_HELD_BY_NODE";

fn notes(groups: &Path) -> usize {
    fs::read_dir(groups).unwrap().count()
}

fn noting(groups: &Path) -> Policy {
    Policy { groups_dir: Some(groups.to_owned()), ..unsupervised() }
}

/// Not a test of its own: the node that another test starts and kills.
#[tokio::test]
#[ignore = "started by another test"]
async fn node_to_be_killed() {
    let given = [GROUPS, HELD_BY_COMMAND, HELD_BY_NODE].map(std::env::var_os);
    let [Some(groups), Some(held_by_command), Some(held_by_node)] = given else { return };
    let script = format!("{}; sleep 1000 & wait", hold(Path::new(&held_by_command)));
    let performing = perform(noting(Path::new(&groups)), Action::Exec(shell(&script)));
    // This future is polled second: the command has been started and recorded by then.
    let announcing = async {
        let mut pipe = fs::OpenOptions::new().write(true).open(held_by_node).unwrap();
        pipe.write_all(b"\n").unwrap();
        std::future::pending::<()>().await;
    };
    tokio::join!(performing, announcing);
}

#[tokio::test]
async fn commands_of_a_killed_node_are_ended() {
    let groups = tempfile::tempdir().unwrap();
    let groups = groups.path();
    let (command, noted) = (Lifeline::new(), Lifeline::new());
    let mut node = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "orphans::node_to_be_killed", "--ignored"])
        .env(GROUPS, groups)
        .env(HELD_BY_COMMAND, command.path())
        .env(HELD_BY_NODE, noted.path())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let (command, noted) = tokio::join!(command.held(), noted.held());
    assert_eq!(end_orphans(groups).unwrap(), 0, "the node lives");

    node.kill().unwrap();
    node.wait().unwrap();
    noted.let_go().await;
    assert_eq!(end_orphans(groups).unwrap(), 1);
    command.let_go().await;
    assert_eq!((notes(groups), end_orphans(groups).unwrap()), (0, 0));
}

#[tokio::test]
async fn a_note_is_there_while_the_command_runs() {
    let groups = tempfile::tempdir().unwrap();
    let groups = groups.path();
    let lifeline = Lifeline::new();
    let (hold, mut go) = (lifeline.hold(), Fifo::new());
    let script = format!("{hold}; read line < {go}");
    let runners = Runners::new(noting(groups)).unwrap();
    let performing = runners.perform(work(Action::Exec(shell(&script))), CancellationToken::new());
    let counting = async {
        lifeline.held().await;
        let count = notes(groups);
        go.write().await;
        count
    };
    let (ended, count) = tokio::join!(performing, counting);
    succeeded(ended);
    assert_eq!((count, notes(groups)), (1, 0));
}

#[test]
fn a_missing_folder_holds_no_orphans() {
    assert_eq!(end_orphans(Path::new("/no/such/folder")).unwrap(), 0);
}

/// Process ids are reused: only the start time tells whether the group is still the recorded one.
#[test]
fn another_process_with_the_noted_id_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    let boot = boot.trim();
    let mut stranger = Command::new("sleep").arg("1000").process_group(0).spawn().unwrap();
    let id = stranger.id();
    for name in [
        format!("{id}-1-999999999-1-{boot}.group"),
        format!("{id}-1-999999999-1-another-boot.group"),
        format!("1-1-999999999-1-{boot}.group"),
        format!("-1-1-999999999-1-{boot}.group"),
        "not a note".to_owned(),
    ] {
        fs::write(dir.path().join(name), "").unwrap();
    }
    let ended = end_orphans(dir.path()).unwrap();
    let left_alone = stranger.try_wait().unwrap().is_none();
    stranger.kill().unwrap();
    stranger.wait().unwrap();
    assert_eq!((ended, left_alone), (0, true));
}
