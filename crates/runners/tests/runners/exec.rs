//! Tests of commands and their process groups.

use std::collections::BTreeMap;
use std::time::Duration;

use language::definition::limits::OUTPUT_BYTES;
use language::definition::{Action, ExecAction};
use runners::{Code, Ended, Mask, Policy, Runners, Supervisor};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::lifeline::{Fifo, Lifeline};
use crate::{INPUT, failed, perform, succeeded, work};

/// A policy with supervisors, as in production.
pub(crate) fn allowed() -> Policy {
    let supervisor = Supervisor::new(env!("CARGO_BIN_EXE_exec-supervisor"), &[]);
    Policy { supervisor: Some(supervisor), ..unsupervised() }
}

/// A policy without supervisors: processes are found by their group and mark alone.
pub(crate) fn unsupervised() -> Policy {
    Policy { allow_exec: true, ..Policy::default() }
}

pub(crate) fn command(words: &[&str]) -> ExecAction {
    ExecAction {
        command: words.iter().map(|word| (*word).to_owned()).collect(),
        env: BTreeMap::new(),
        cwd: None,
        stdin: None,
        max_output: 1 << 20,
    }
}

pub(crate) fn shell(script: &str) -> ExecAction {
    command(&["sh", "-c", script])
}

async fn run(action: ExecAction) -> Ended {
    perform(allowed(), Action::Exec(action)).await
}

#[tokio::test]
async fn commands_run_only_where_the_host_allows_them() {
    let ended = perform(Policy::default(), Action::Exec(command(&["true"]))).await;
    let (code, message, retryable) = failed(ended);
    assert_eq!((code, retryable), (Code::ExecNotAllowed, false));
    assert!(message.contains("--allow-exec"), "{message}");
}

#[tokio::test]
async fn output_is_captured() {
    let output = succeeded(run(shell("echo out; echo err >&2")).await);
    let expected = json!({
        "exit_code": 0,
        "stdout": "out\n", "stdout_bytes": 4, "stdout_truncated": false,
        "stderr": "err\n", "stderr_bytes": 4, "stderr_truncated": false,
    });
    assert_eq!(output, expected);
}

#[tokio::test]
async fn one_json_value_on_stdout_is_read() {
    for (script, json) in [
        ("echo '{\"a\": [1]}'", json!({"a": [1]})),
        ("echo 7", json!(7)),
        ("echo 7 8", Value::Null),
        ("echo word", Value::Null),
        ("true", Value::Null),
    ] {
        assert_eq!(succeeded(run(shell(script)).await)["json"], json, "{script}");
    }
}

#[tokio::test]
async fn words_are_passed_without_a_shell() {
    let output = succeeded(run(command(&["printf", "%s|", "$HOME", "a b", "; exit 3"])).await);
    assert_eq!(output["stdout"], "$HOME|a b|; exit 3|");
}

#[tokio::test]
async fn stdin_is_the_text_or_the_input() {
    assert_eq!(succeeded(run(command(&["cat"])).await)["stdout"], INPUT);
    let text = ExecAction { stdin: Some("a text".to_owned()), ..command(&["cat"]) };
    assert_eq!(succeeded(run(text).await)["stdout"], "a text");
}

#[tokio::test]
async fn much_input_blocks_nobody() {
    let much = "x".repeat(5_000_000);
    for (script, stdout) in
        [("true", ""), ("exec <&-; echo done", "done\n"), ("cat | wc -c | tr -d ' '", "5000000\n")]
    {
        let action = ExecAction { stdin: Some(much.clone()), ..shell(script) };
        assert_eq!(succeeded(run(action).await)["stdout"], stdout, "{script}");
    }
    let echo =
        ExecAction { stdin: Some(much.clone()), max_output: 10_000_000, ..command(&["cat"]) };
    assert_eq!(succeeded(run(echo).await)["stdout_bytes"], 5_000_000);
}

#[tokio::test]
async fn the_environment_is_ours_to_give() {
    let mut action = command(&["env"]);
    action.env.insert("MINE".to_owned(), "1".to_owned());
    action.env.insert("PUNCTUAL_RUN_ID".to_owned(), "forged".to_owned());
    let output = succeeded(run(action).await);
    let names: Vec<_> = output["stdout"].as_str().unwrap().lines().collect();
    for expected in [
        "MINE=1",
        "PUNCTUAL_RUN_ID=run-1",
        "PUNCTUAL_STEP_ID=step-1",
        "PUNCTUAL_IDEMPOTENCY_KEY=run-1/step-1",
    ] {
        assert!(names.contains(&expected), "{expected} is missing from {names:?}");
    }
    // The environment of this test process contains Cargo's own variables.
    assert!(std::env::var_os("CARGO_MANIFEST_DIR").is_some());
    assert!(!names.iter().any(|name| name.starts_with("CARGO")), "{names:?}");
}

#[tokio::test]
async fn the_folder_is_the_one_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let cwd = dir.path().canonicalize().unwrap().to_str().unwrap().to_owned();
    let action = ExecAction { cwd: Some(cwd.clone()), ..command(&["pwd"]) };
    assert_eq!(succeeded(run(action).await)["stdout"], format!("{cwd}\n"));
}

#[tokio::test]
async fn what_cannot_start_is_told() {
    let missing_dir = ExecAction { cwd: Some("/no/such/dir".to_owned()), ..command(&["true"]) };
    let mut bad_variable = command(&["true"]);
    bad_variable.env.insert("A=B".to_owned(), String::new());
    for (action, expected, says) in [
        (command(&[]), Code::InvalidCommand, "empty"),
        (command(&["", "x"]), Code::InvalidCommand, "empty"),
        (bad_variable, Code::InvalidCommand, "A=B"),
        (command(&["no-such-program-here"]), Code::ExecStart, "full path"),
        (command(&["/etc/passwd"]), Code::ExecStart, "executable"),
        (command(&["echo", "a\0b"]), Code::ExecStart, "NUL"),
        (missing_dir, Code::ExecStart, "/no/such/dir"),
    ] {
        for policy in [allowed(), unsupervised()] {
            let ended = perform(policy, Action::Exec(action.clone())).await;
            let (code, message, retryable) = failed(ended);
            assert_eq!((code, retryable), (expected, false), "{message}");
            assert!(message.contains(says), "{message}");
        }
    }
}

#[tokio::test]
async fn failures_say_how_and_quote_the_last_of_stderr() {
    for (script, expected, says) in [
        ("exit 3", Code::ExitCode, "code 3"),
        ("seq 100 >&2; echo the end >&2; exit 1", Code::ExitCode, "100\nthe end"),
        ("kill -SEGV $$", Code::Signal, "SIGSEGV"),
        ("kill -KILL $$", Code::Signal, "SIGKILL"),
    ] {
        let (code, message, retryable) = failed(run(shell(script)).await);
        assert_eq!((code, retryable), (expected, true), "{message}");
        assert!(message.contains(says), "{script}: {message}");
    }
    let Ended::Failed { output: Some(output), .. } = run(shell("echo x; kill -KILL $$")).await
    else {
        panic!("no output");
    };
    assert_eq!(output["exit_code"], Value::Null);
    assert_eq!((&output["signal"], &output["stdout"]), (&json!("SIGKILL"), &json!("x\n")));
}

#[tokio::test]
async fn output_beyond_the_limit_is_counted_and_let_go() {
    let script = "yes 123456789 | head -c 100000000; yes e | head -c 100000000 >&2; echo last >&2";
    let action = ExecAction { max_output: 15, ..shell(script) };
    let output = succeeded(run(action).await);
    assert_eq!(output["stdout"], "123456789\n12345");
    assert_eq!(output["stdout_bytes"], 100_000_000);
    assert_eq!(output["stderr_bytes"], 100_000_005);
    assert_eq!(
        (&output["stdout_truncated"], &output["stderr_truncated"]),
        (&json!(true), &json!(true))
    );
}

#[tokio::test]
async fn no_part_of_a_secret_is_left_where_output_is_cut() {
    let policy = || {
        let mask = Mask::new(|text| text.replace("tops3cret", "***"));
        Policy { mask, ..allowed() }
    };
    for limit in 1..12 {
        let script = "printf xtops3cretx; printf xtops3cretx >&2";
        let action = ExecAction { max_output: limit, ..shell(script) };
        let output = succeeded(perform(policy(), Action::Exec(action)).await);
        let shown = if limit < 10 { "x" } else { &"x***x"[..usize::try_from(limit - 6).unwrap()] };
        // Output within the limit is not masked here; the caller, which knows the secrets, masks
        // it.
        let shown = if limit == 11 { "xtops3cretx" } else { shown };
        assert_eq!(
            (&output["stdout"], &output["stderr"]),
            (&json!(shown), &json!(shown)),
            "{limit}"
        );
    }
    // The message contains the last 2,048 bytes.
    for after in 2_036..2_050 {
        let script =
            format!("printf '%3000s' >&2; printf tops3cret >&2; printf '%{after}s' >&2; exit 3");
        let (_, message, _) = failed(perform(policy(), Action::Exec(shell(&script))).await);
        let is_masked = message.contains("***") || !message.contains("ret");
        assert!(is_masked && !message.contains("s3"), "{after}: {message}");
    }
}

#[tokio::test]
async fn what_is_too_much_to_keep_is_cut_and_says_so() {
    let list = "printf '['; yes '\"12345678\",' | head -n 20000 | tr -d '\\n'; printf '0]'";
    for (script, what, stdout, stderr) in [
        ("quotes", "yes '\"' | head -c 262144", true, false),
        ("both", "yes '\"' | head -c 262144; yes '\"' | head -c 262144 >&2", true, true),
        ("binary", "head -c 200000 /dev/zero; yes '\"' | head -c 1000 >&2", true, false),
        ("json", list, true, false),
        ("one", "yes e | head -c 100000; yes '\"' | head -c 262144 >&2", false, true),
    ]
    .map(|(name, script, stdout, stderr)| (script, name, stdout, stderr))
    {
        let output = succeeded(run(ExecAction { max_output: 256 << 10, ..shell(script) }).await);
        let cut = (&output["stdout_truncated"], &output["stderr_truncated"]);
        assert_eq!(cut, (&json!(stdout), &json!(stderr)), "{what}");
        let bytes = output.to_string().len();
        assert!((200_000..=OUTPUT_BYTES).contains(&bytes), "{what}: {bytes}");
        assert_eq!(output["exit_code"], 0, "{what}");
        assert_eq!(output["json"].is_array(), what == "json", "{what}");
    }
}

async fn cancelled_while_running(script: &str, lifeline: Lifeline, grace: Duration) -> String {
    let policy = Policy { cancel_grace: grace, ..allowed() };
    let runners = Runners::new(policy).unwrap();
    let cancel = CancellationToken::new();
    let performing = runners.perform(work(Action::Exec(shell(script))), cancel.clone());
    let cancelling = async {
        let held = lifeline.held().await;
        cancel.cancel();
        held
    };
    let (ended, held) = tokio::join!(performing, cancelling);
    held.let_go().await;
    match ended {
        Ended::Cancelled { message } => message,
        other => panic!("not cancelled: {other:?}"),
    }
}

#[tokio::test]
async fn cancel_is_a_request_first() {
    let lifeline = Lifeline::new();
    let hold = lifeline.hold();
    let script = format!("trap 'echo tidied >&2; exit' TERM; {hold}; sleep 1000 & wait");
    let message = cancelled_while_running(&script, lifeline, crate::LONG).await;
    assert!(message.contains("after SIGTERM"), "{message}");
    assert!(message.contains("tidied"), "{message}");
}

#[tokio::test]
async fn cancel_is_a_kill_after_the_grace() {
    let lifeline = Lifeline::new();
    let script = format!("trap '' TERM; {}; sleep 1000", lifeline.hold());
    let grace = Duration::from_millis(50);
    let message = cancelled_while_running(&script, lifeline, grace).await;
    assert!(message.contains("killed after its grace"), "{message}");
}

/// The leader ends on SIGTERM; its descendants ignore it.
#[tokio::test]
async fn cancel_reaches_grandchildren() {
    let lifeline = Lifeline::new();
    let hold = lifeline.hold();
    let script = format!("(trap '' TERM; (sleep 1000 & {hold}; wait) & wait) & wait");
    cancelled_while_running(&script, lifeline, crate::LONG).await;
}

#[tokio::test]
async fn a_command_cancelled_before_does_not_start() {
    let dir = tempfile::tempdir().unwrap();
    let mark = dir.path().join("mark");
    let cancel = CancellationToken::new();
    cancel.cancel();
    let action = Action::Exec(command(&["touch", mark.to_str().unwrap()]));
    let ended = Runners::new(allowed()).unwrap().perform(work(action), cancel).await;
    assert!(matches!(ended, Ended::Cancelled { .. }), "{ended:?}");
    assert!(!mark.exists());
}

#[tokio::test]
async fn time_over_ends_the_group() {
    let policy = Policy { cancel_grace: Duration::from_millis(50), ..allowed() };
    let runners = Runners::new(policy).unwrap();
    for script in ["sleep 1000", "trap '' TERM; sleep 1000 & wait"] {
        let mut work = work(Action::Exec(shell(script)));
        work.timeout = Duration::from_millis(200);
        let ended = runners.perform(work, CancellationToken::new()).await;
        assert!(matches!(ended, Ended::TimedOut { .. }), "{ended:?}");
    }
}

/// The leader ends while its child still runs and holds the pipes open.
#[tokio::test]
async fn what_the_leader_leaves_behind_ends_with_it() {
    let lifeline = Lifeline::new();
    let (hold, mut go) = (lifeline.hold(), Fifo::new());
    let script = format!("(trap '' TERM; {hold}; sleep 1000) & read line < {go}; echo leader");
    let releasing = async {
        let held = lifeline.held().await;
        go.write().await;
        held.let_go().await;
    };
    let (ended, ()) = tokio::join!(run(shell(&script)), releasing);
    assert_eq!(succeeded(ended)["stdout"], "leader\n");
}

/// Without a supervisor, a process that leaves the group but keeps its mark ends with the step:
/// both when the step ends by itself and when it is cancelled.
#[tokio::test]
async fn what_leaves_the_group_ends_with_the_step() {
    for leader in ["true", "exit 3"] {
        let lifeline = Lifeline::new();
        let (hold, mut go) = (lifeline.hold(), Fifo::new());
        let escape = format!("setsid setsid sh -c '{hold}; setsid sleep 1000 & sleep 1000' &");
        let script = format!("{escape} read line < {go}; {leader}");
        let releasing = async {
            let held = lifeline.held().await;
            go.write().await;
            held
        };
        let running = perform(unsupervised(), Action::Exec(shell(&script)));
        let (_, held) = tokio::join!(running, releasing);
        held.let_go().await;
    }
    let lifeline = Lifeline::new();
    let script = format!("setsid sh -c '{}; sleep 1000' & sleep 1000", lifeline.hold());
    let runners = Runners::new(unsupervised()).unwrap();
    let cancel = CancellationToken::new();
    let performing = runners.perform(work(Action::Exec(shell(&script))), cancel.clone());
    let cancelling = async {
        let held = lifeline.held().await;
        cancel.cancel();
        held
    };
    let (ended, held) = tokio::join!(performing, cancelling);
    assert!(matches!(ended, Ended::Cancelled { .. }), "{ended:?}");
    held.let_go().await;
}

/// Without a supervisor, a process that left the group and removed its mark keeps the pipes open.
/// The attempt ends anyway.
#[tokio::test]
async fn pipes_held_from_outside_the_group_do_not_hold_us() {
    let lifeline = Lifeline::new();
    let (hold, mut go) = (lifeline.hold(), Fifo::new());
    let script = format!(
        "env -u PUNCTUAL_EXEC setsid sh -c '{hold}; sleep 1000' & echo $!; read line < {go}"
    );
    let releasing = async {
        let held = lifeline.held().await;
        go.write().await;
        held
    };
    let running = perform(unsupervised(), Action::Exec(shell(&script)));
    let (ended, held) = tokio::join!(running, releasing);
    let output = succeeded(ended);
    let escaped = output["stdout"].as_str().unwrap().trim();
    succeeded(run(shell(&format!("kill -KILL -{escaped}"))).await);
    held.let_go().await;
}

#[tokio::test]
async fn dropping_the_attempt_kills_the_group() {
    let lifeline = Lifeline::new();
    let script = format!("trap '' TERM; {}; sleep 1000 & wait", lifeline.hold());
    let runners = Runners::new(allowed()).unwrap();
    let held = tokio::select! {
        ended = runners.perform(work(Action::Exec(shell(&script))), CancellationToken::new()) => {
            panic!("ended: {ended:?}")
        }
        held = lifeline.held() => held,
    };
    held.let_go().await;
}
