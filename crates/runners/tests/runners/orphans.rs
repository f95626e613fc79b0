//! Commands that outlive a killed node.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use engine::definition::Action;
use runners::{Policy, Runners, end_orphans};
use tokio::io::AsyncReadExt;
use tokio::net::UnixListener;
use tokio_util::sync::CancellationToken;

use crate::exec::{allowed, command, shell};
use crate::{perform, succeeded, work};

const DIR: &str = "PUNCTUAL_TEST_ORPHANS_DIR";
const SOCKET: &str = "socket";

fn notes(dir: &Path) -> usize {
    fs::read_dir(dir).unwrap().count()
}

fn noting(dir: &Path) -> Policy {
    Policy { groups_dir: Some(dir.join("groups")), ..allowed() }
}

/// Not a test of its own: the node that `a_killed_node_s_commands_are_ended` kills.
#[tokio::test]
#[ignore = "started by another test"]
async fn node_to_be_killed() {
    let Some(dir) = std::env::var_os(DIR) else { return };
    let dir = Path::new(&dir);
    let socket = dir.join(SOCKET);
    let script = format!(
        "python3 -c 'import socket, time; s = socket.socket(socket.AF_UNIX); \
         s.connect(\"{}\"); s.send(b\"x\"); time.sleep(1000)' & wait",
        socket.display()
    );
    perform(noting(dir), Action::Exec(shell(&script))).await;
}

#[tokio::test]
async fn a_killed_node_s_commands_are_ended() {
    let dir = tempfile::tempdir().unwrap();
    let groups = dir.path().join("groups");
    let listener = UnixListener::bind(dir.path().join(SOCKET)).unwrap();
    let mut node = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "orphans::node_to_be_killed", "--ignored"])
        .env(DIR, dir.path())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let (mut command, _) = listener.accept().await.unwrap();
    command.read_exact(&mut [0]).await.unwrap();
    assert_eq!(end_orphans(&groups).unwrap(), 0, "the node lives");
    assert_eq!(notes(&groups), 1);

    node.kill().unwrap();
    node.wait().unwrap();
    assert_eq!(end_orphans(&groups).unwrap(), 1);
    assert!(matches!(command.read(&mut [0]).await, Ok(0) | Err(_)));
    assert_eq!(notes(&groups), 0);
    assert_eq!(end_orphans(&groups).unwrap(), 0);
}

#[tokio::test]
async fn a_note_is_there_while_the_command_runs() {
    let dir = tempfile::tempdir().unwrap();
    let groups = dir.path().join("groups");
    let fifo = dir.path().join("fifo");
    let script = format!("mkfifo {0}; cat {0}", fifo.display());
    let runners = Runners::new(noting(dir.path())).unwrap();
    let listener = UnixListener::bind(dir.path().join(SOCKET)).unwrap();
    let script = format!(
        "python3 -c 'import socket; s = socket.socket(socket.AF_UNIX); s.connect(\"{}\"); \
         s.recv(1)'; true || {script}",
        dir.path().join(SOCKET).display()
    );
    let performing = runners.perform(work(Action::Exec(shell(&script))), CancellationToken::new());
    let counting = async {
        let (command, _) = listener.accept().await.unwrap();
        let count = notes(&groups);
        drop(command);
        count
    };
    let (ended, count) = tokio::join!(performing, counting);
    succeeded(ended);
    assert_eq!((count, notes(&groups)), (1, 0));
}

#[test]
fn a_missing_folder_holds_no_orphans() {
    assert_eq!(end_orphans(Path::new("/no/such/folder")).unwrap(), 0);
}

/// Process ids are used again: only the start time tells whose group it is now.
#[tokio::test]
async fn another_process_with_the_noted_id_is_left_alone() {
    use std::os::unix::process::CommandExt;
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
    assert_eq!(end_orphans(dir.path()).unwrap(), 0);
    assert!(stranger.try_wait().unwrap().is_none(), "the stranger was killed");
    stranger.kill().unwrap();
    stranger.wait().unwrap();
    let _ = command(&["true"]);
}
