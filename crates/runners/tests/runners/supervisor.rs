//! Supervisors end everything that a command starts, however its processes try to escape.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use language::definition::{Action, ExecAction};
use runners::{Code, Ended, Policy, Runners, Supervisor, end_orphans};
use tokio_util::sync::CancellationToken;

use crate::exec::{allowed, shell};
use crate::lifeline::{Fifo, Lifeline, hold};
use crate::{failed, perform, succeeded, work};

/// Environment variables for the node that is killed: the directory of its notes, and the pipe that
/// its command holds.
const GROUPS: &str = "PUNCTUAL_TEST_SUPERVISED_GROUPS";
const HELD: &str = "PUNCTUAL_TEST_SUPERVISED_HELD";

/// A daemon in Python: two forks, its own session, and its own environment. It keeps `$1` open.
const DAEMON: &str = r#"
import os, sys
if os.fork(): os._exit(0)
os.setsid()
if os.fork(): os._exit(0)
held = os.open(sys.argv[1], os.O_WRONLY)
os.set_inheritable(held, True)
os.write(held, b"\n")
os.execve("/bin/sleep", ["sleep", "1000"], {})
"#;

/// Shell scripts that start a process which keeps the pipe open, and do not wait for it.
fn escapes(lifeline: &Path) -> Vec<String> {
    let (hold, path) = (hold(lifeline), lifeline.display());
    let mut escapes = vec![
        format!("setsid env -i /bin/sh -c '{hold}; exec /bin/sleep 1000' &"),
        format!("unset PUNCTUAL_EXEC; setsid sh -c '{hold}; sleep 1000 & sleep 1000' &"),
        format!("(setsid env -i /bin/sh -c '(setsid /bin/sh -c \"{hold}; sleep 1000\" &)' &);"),
        format!("python3 -c \"$DAEMON\" {path};"),
    ];
    if rustix::process::geteuid().is_root() {
        escapes.push(format!("setsid su - nobody -s /bin/sh -c '{hold}; sleep 1000' &"));
    }
    escapes
}

fn script(text: &str) -> Action {
    let mut action: ExecAction = shell(text);
    action.env.insert("DAEMON".to_owned(), DAEMON.to_owned());
    Action::Exec(action)
}

/// Calls `check` with each of the [`escapes`].
async fn with_each_escape(check: impl AsyncFn(String, Lifeline)) {
    let count = escapes(Path::new("/")).len();
    for index in 0..count {
        let lifeline = Lifeline::new();
        let escape = escapes(lifeline.path()).swap_remove(index);
        check(escape, lifeline).await;
    }
}

#[tokio::test]
async fn all_ends_when_the_command_has_ended() {
    with_each_escape(async |escape, lifeline| {
        let mut go = Fifo::new();
        let script = script(&format!("{escape} read line < {go}; echo done"));
        let releasing = async {
            let held = lifeline.held().await;
            go.write().await;
            held
        };
        let (ended, held) = tokio::join!(perform(allowed(), script), releasing);
        assert_eq!(succeeded(ended)["stdout"], "done\n", "{escape}");
        held.let_go().await;
    })
    .await;
}

#[tokio::test]
async fn all_ends_when_the_command_is_cancelled() {
    with_each_escape(async |escape, lifeline| {
        let cancel = CancellationToken::new();
        let runners = Runners::new(allowed()).unwrap();
        let script = script(&format!("{escape} sleep 1000"));
        let cancelling = async {
            let held = lifeline.held().await;
            cancel.cancel();
            held
        };
        let performing = runners.perform(work(script), cancel.clone());
        let (ended, held) = tokio::join!(performing, cancelling);
        assert!(matches!(ended, Ended::Cancelled { .. }), "{escape}: {ended:?}");
        held.let_go().await;
    })
    .await;
}

#[tokio::test]
async fn all_ends_when_the_attempt_is_dropped() {
    with_each_escape(async |escape, lifeline| {
        let script = script(&format!("{escape} sleep 1000"));
        let held = tokio::select! {
            ended = perform(allowed(), script) => panic!("ended: {ended:?}"),
            held = lifeline.held() => held,
        };
        held.let_go().await;
    })
    .await;
}

/// Each command has its own supervisor.
#[tokio::test]
async fn what_another_command_has_started_goes_on() {
    let (ending, lasting) = (Lifeline::new(), Lifeline::new());
    let (mut go, mut go_on, answered) = (Fifo::new(), Fifo::new(), Fifo::new());
    let holds = (ending.hold(), lasting.hold());
    let first =
        format!("setsid env -i /bin/sh -c '{}; exec /bin/sleep 1000' & read line < {go}", holds.0);
    let second = format!(
        "setsid env -i /bin/sh -c '{}; read line < {go_on}; echo goes on > {answered}' & \
         read line < {answered}; echo $line",
        holds.1
    );
    let course = async {
        let (ending, _lasting) = tokio::join!(ending.held(), lasting.held());
        let releasing = async {
            go.write().await;
            ending.let_go().await;
            go_on.write().await;
        };
        releasing.await;
    };
    let policy = allowed();
    let running = (perform(policy.clone(), script(&first)), perform(policy, script(&second)));
    let (first, second, ()) = tokio::join!(running.0, running.1, course);
    succeeded(first);
    assert_eq!(succeeded(second)["stdout"], "goes on\n");
}

/// Orphans that end before the command do not remain as zombies.
#[tokio::test]
async fn adopted_processes_are_reaped() {
    let text = "id=$(setsid -f sh -c 'echo $$'); while [ -e /proc/$id ]; do :; done; echo reaped";
    assert_eq!(succeeded(perform(allowed(), script(text)).await)["stdout"], "reaped\n");
}

/// A service manager may send these signals to every process of a node.
#[tokio::test]
async fn signals_that_end_others_do_not_end_a_supervisor() {
    let text = "for s in TERM INT HUP; do kill -$s $PPID; done; echo goes on";
    assert_eq!(succeeded(perform(allowed(), script(text)).await)["stdout"], "goes on\n");
}

/// The processes that did not try to escape are still found by their group and their mark.
#[tokio::test]
async fn a_command_that_kills_its_supervisor_fails_and_ends() {
    let lifeline = Lifeline::new();
    let (hold, mut go) = (lifeline.hold(), Fifo::new());
    let text = format!(
        "setsid sh -c '{hold}; sleep 1000' & read line < {go}; kill -KILL $PPID; sleep 1000"
    );
    let releasing = async {
        let held = lifeline.held().await;
        go.write().await;
        held
    };
    let (ended, held) = tokio::join!(perform(allowed(), script(&text)), releasing);
    let (code, message, retryable) = failed(ended);
    assert_eq!((code, retryable), (Code::ExecWait, true), "{message}");
    assert_eq!(message, "the command was lost: its supervisor was killed");
    held.let_go().await;
}

/// A supervisor that starts the command, never says so, and does what its argument says.
const SILENT: &str = r#"
import json, os, signal, socket, subprocess, sys
lines = socket.socket(fileno=0).makefile("rb")
lines.read(1)
order = json.loads(lines.readline())["Start"]
text = lambda given: bytes(given["Unix"])
words = [text(word) for word in [order["program"], *order["args"]]]
environment = {text(name): text(value) for name, value in order["env"]}
subprocess.Popen(words, env=environment, stdin=subprocess.DEVNULL)
exec(sys.argv[1])
"#;

/// The command may kill its supervisor before that has said that the command runs.
#[tokio::test]
async fn a_command_that_kills_its_supervisor_at_once_is_lost_and_ends() {
    let supervisor = Supervisor::new("python3", &["-c", SILENT, "signal.pause()"]);
    let policy = Policy { supervisor: Some(supervisor), ..allowed() };
    let lifeline = Lifeline::new();
    let (hold, mut go) = (lifeline.hold(), Fifo::new());
    let text = format!(
        "setsid sh -c '{hold}; sleep 1000' & read line < {go}; kill -KILL $PPID; sleep 1000"
    );
    let releasing = async {
        let held = lifeline.held().await;
        go.write().await;
        held
    };
    let (ended, held) = tokio::join!(perform(policy, script(&text)), releasing);
    let (code, message, retryable) = failed(ended);
    assert_eq!((code, retryable), (Code::ExecWait, true), "{message}");
    assert_eq!(message, "the command was lost: its supervisor was killed");
    held.let_go().await;
}

/// However a supervisor fails to say that the command runs, the command may have run.
#[tokio::test]
async fn a_command_of_a_supervisor_without_an_answer_is_lost() {
    for then in [
        "os.write(0, b'nonsense\\n'); signal.alarm(5); signal.pause()",
        "os.write(0, b'{\"LeaderEnded\": {\"status\": 0}}\\n'); signal.alarm(5); signal.pause()",
        "os.close(0); lines.close(); signal.alarm(5); signal.pause()",
        "sys.exit(0)",
        "sys.exit(1)",
    ] {
        let supervisor = Supervisor::new("python3", &["-c", SILENT, then]);
        let policy = Policy { supervisor: Some(supervisor), ..allowed() };
        let (code, message, retryable) = failed(perform(policy, script("sleep 1000")).await);
        assert_eq!((code, retryable), (Code::ExecWait, true), "{then}: {message}");
        assert_eq!(message, "the command was lost: its supervisor did not say whether it runs");
    }
}

#[tokio::test]
async fn a_supervisor_that_cannot_start_is_told() {
    let fails =
        "import socket, sys; socket.socket(fileno=0).makefile('rb').readline(); sys.exit(69)";
    for (program, args) in [("/no/such/program", &[][..]), ("python3", &["-c", fails])] {
        let policy = Policy { supervisor: Some(Supervisor::new(program, args)), ..allowed() };
        let (code, message, retryable) = failed(perform(policy, script("true")).await);
        assert_eq!((code, retryable), (Code::ExecStart, true), "{message}");
        assert!(message.contains("supervisor"), "{message}");
    }
}

/// The tests may run as root, but a node should not.
#[tokio::test]
async fn an_ordinary_user_ends_all_too() {
    if !rustix::process::geteuid().is_root() {
        // The other tests have run as an ordinary user already.
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let program = dir.path().join("exec-supervisor");
    fs::copy(env!("CARGO_BIN_EXE_exec-supervisor"), &program).unwrap();
    let as_nobody = ["--reuid=65534", "--regid=65534", "--clear-groups", program.to_str().unwrap()];
    let supervisor = Supervisor::new("/usr/bin/setpriv", &as_nobody);
    let policy = Policy { supervisor: Some(supervisor), ..allowed() };
    let (lifeline, mut go) = (Lifeline::new(), Fifo::new());
    let escape = escapes(lifeline.path()).swap_remove(0);
    let text = format!("{escape} read line < {go}; id -u");
    let releasing = async {
        let held = lifeline.held().await;
        go.write().await;
        held
    };
    let (ended, held) = tokio::join!(perform(policy, script(&text)), releasing);
    assert_eq!(succeeded(ended)["stdout"], "65534\n");
    held.let_go().await;
}

/// Not a test of its own: the node that another test starts and kills.
#[tokio::test]
#[ignore = "started by another test"]
async fn node_to_be_killed() {
    let [Some(groups), Some(held)] = [GROUPS, HELD].map(std::env::var_os) else { return };
    let escape = "setsid env -i /bin/sh -c 'echo >&3; exec /bin/sleep 1000'";
    let text = format!("exec 3>{}; {escape} & sleep 1000", Path::new(&held).display());
    let policy = Policy { groups_dir: Some(groups.into()), ..allowed() };
    perform(policy, script(&text)).await;
}

#[tokio::test]
async fn all_ends_when_the_node_is_killed() {
    let groups = tempfile::tempdir().unwrap();
    let lifeline = Lifeline::new();
    let mut node = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "supervisor::node_to_be_killed", "--ignored"])
        .env(GROUPS, groups.path())
        .env(HELD, lifeline.path())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let held = lifeline.held().await;
    node.kill().unwrap();
    node.wait().unwrap();
    held.let_go().await;
    // The supervisor may be about to reap the leader, so the number of killed groups is not
    // certain.
    end_orphans(groups.path()).unwrap();
    assert_eq!(fs::read_dir(groups.path()).unwrap().count(), 0);
}
