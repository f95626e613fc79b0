//! Tests of the child processes: how many there are, how long they run, and what they cannot do.

use std::fs;
use std::sync::Mutex;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::sync::Notify;

use super::*;

/// A world that does not answer calls until told to, and signals each call.
#[derive(Default)]
struct Silent {
    asked: Notify,
    answer: Notify,
    at_once: Mutex<(usize, usize)>,
}

impl ScriptWorld for Silent {
    fn fetch(&self, _: FetchRequest) -> BoxFuture<'_, Result<FetchAnswer, WorldFailure>> {
        async {
            {
                let mut at_once = self.at_once.lock().unwrap();
                at_once.0 += 1;
                at_once.1 = at_once.1.max(at_once.0);
            }
            self.asked.notify_one();
            self.answer.notified().await;
            self.at_once.lock().unwrap().0 -= 1;
            Ok(FetchAnswer { status: 200, headers: BTreeMap::new(), body: String::new() })
        }
        .boxed()
    }

    fn peek(&self, _: String, _: u32) -> BoxFuture<'_, Result<Value, WorldFailure>> {
        std::future::pending().boxed()
    }

    fn get_by_ids(&self, _: String, _: Vec<String>) -> BoxFuture<'_, Result<Value, WorldFailure>> {
        std::future::pending().boxed()
    }
}

/// Ids of the children of this process that run the program at this path.
pub(super) fn running(program: &std::path::Path) -> Vec<String> {
    let program = fs::canonicalize(program).unwrap();
    let ours = |entry: &fs::DirEntry| {
        fs::read_link(entry.path().join("exe")).is_ok_and(|exe| exe == program)
    };
    let entries = fs::read_dir("/proc").unwrap().flatten().filter(ours);
    entries.map(|entry| entry.file_name().into_string().unwrap()).collect()
}

/// A host whose program has a name of its own, so that no other test runs it. Its directory is
/// removed with the test. The program is a hard link and not a copy: a process that another test
/// starts meanwhile would inherit the open file, and the file could not be executed then.
pub(super) fn own_host(children: usize) -> (tempfile::TempDir, ScriptHost) {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let program = dir.path().join("script-child");
    fs::hard_link(env!("CARGO_BIN_EXE_script-child"), &program).unwrap();
    (dir, ScriptHost { children, ..ScriptHost::new(program, &[]) })
}

/// Waits until no child is left.
async fn all_gone(host: &ScriptHost) {
    at_most(host, 0).await;
}

/// Waits until at most `count` children are left. A child that the pool drops is killed and reaped
/// in the background, and the pool sends no signal when that is done.
async fn at_most(host: &ScriptHost, count: usize) {
    while running(&host.program).len() > count {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn children_stay_warm_and_end_with_the_pool() {
    let (_dir, host) = own_host(2);
    let scripts = Scripts::new(host.clone());
    assert_eq!(running(&host.program), [""; 0]);
    scripts.warm().await.unwrap();
    let warm = running(&host.program);
    assert_eq!(warm.len(), 1);
    for _ in 0..50 {
        evaluate(&scripts, step("return ctx.now()")).await.unwrap();
        mistake(evaluate(&scripts, step("throw new Error('x')")).await);
    }
    assert_eq!(running(&host.program), warm, "the same child did it all");
    limit(evaluate(&scripts, step("return 'x'.repeat(1e6)")).await);
    evaluate(&scripts, step("return 1")).await.unwrap();
    // A child whose script broke a limit is killed, and another one evaluates the next script.
    while running(&host.program).contains(&warm[0]) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    drop(scripts);
    all_gone(&host).await;
}

/// Compares the child's report with the state that the kernel shows for the process.
#[tokio::test]
async fn a_child_is_confined_by_the_kernel() {
    let (_dir, host) = own_host(1);
    let scripts = Scripts::new(host.clone());
    let confinement = scripts.warm().await.unwrap();
    assert!(confinement.system_calls, "files and sockets are refused: {confinement:?}");
    let id = running(&host.program)[0].clone();
    let status = fs::read_to_string(format!("/proc/{id}/status")).unwrap();
    let field = |name: &str| {
        let line = status.lines().find(|line| line.starts_with(&format!("{name}:"))).unwrap();
        line.split_whitespace().nth(1).unwrap().to_owned()
    };
    assert_eq!((field("NoNewPrivs"), field("Seccomp")), ("1".to_owned(), "2".to_owned()));
    for set in ["CapEff", "CapPrm", "CapInh", "CapAmb"] {
        assert_eq!(field(set).trim_start_matches('0'), "", "{set}");
    }
    let of = |who: &str, kind: &str| fs::read_link(format!("/proc/{who}/ns/{kind}")).unwrap();
    let has_own = |kind: &str| of(&id, kind) != of("self", kind);
    assert_eq!(has_own("user"), confinement.user_namespace);
    assert_eq!(has_own("net"), confinement.network_namespace);
    // The filter applies to every thread, not only to the one that evaluates.
    for thread in fs::read_dir(format!("/proc/{id}/task")).unwrap().flatten() {
        let status = fs::read_to_string(thread.path().join("status")).unwrap();
        assert!(status.contains("Seccomp:\t2\n"), "{status}");
    }
    assert_eq!(evaluate(&scripts, step("return 2")).await.unwrap().value, json!(2));
}

#[tokio::test]
async fn a_warm_child_that_died_is_replaced() {
    let (_dir, host) = own_host(1);
    let scripts = Scripts::new(host.clone());
    for source in ["return 1", "throw new Error('x')"] {
        let _ = evaluate(&scripts, step(source)).await;
        let id = running(&host.program)[0].parse().unwrap();
        kill_process(Pid::from_raw(id).unwrap(), Signal::KILL).unwrap();
        all_gone(&host).await;
        assert_eq!(evaluate(&scripts, step("return 2")).await.unwrap().value, json!(2));
    }
}

#[tokio::test]
async fn a_warm_child_that_dies_before_it_takes_the_phase_is_replaced() {
    let (_dir, host) = own_host(1);
    let scripts = Scripts::new(host.clone());
    scripts.warm().await.unwrap();
    let id = Pid::from_raw(running(&host.program)[0].parse().unwrap()).unwrap();
    kill_process(id, Signal::STOP).unwrap();
    let stat = format!("/proc/{}/stat", id.as_raw_nonzero());
    while !fs::read_to_string(&stat).unwrap().contains(") T ") {
        tokio::task::yield_now().await;
    }
    let killing = async { kill_process(id, Signal::KILL).unwrap() };
    // The child is killed while the phase is in its pipe.
    let (ended, ()) = tokio::join!(evaluate(&scripts, step("return 2")), killing);
    assert_eq!(ended.unwrap().value, json!(2));
}

#[tokio::test]
async fn a_child_that_is_killed_at_work_is_told() {
    let (_dir, host) = own_host(1);
    let scripts = Scripts::new(host.clone());
    let (world, cancel) = (Silent::default(), CancellationToken::new());
    let evaluating = scripts.evaluate(step("await ctx.fetch('http://a')"), &world, &cancel);
    let killing = async {
        world.asked.notified().await;
        let id = running(&host.program)[0].parse().unwrap();
        kill_process(Pid::from_raw(id).unwrap(), Signal::KILL).unwrap();
    };
    let (ended, ()) = tokio::join!(evaluating, killing);
    let (what, message) = limit(ended);
    assert_eq!(what, Limit::Process);
    assert!(message.contains("signal 9"), "{message}");
    assert_eq!(evaluate(&scripts, step("return 2")).await.unwrap().value, json!(2));
}

#[tokio::test]
async fn dropping_and_cancelling_kill_the_child() {
    let (_dir, host) = own_host(1);
    let scripts = Scripts::new(host.clone());
    let (world, cancel) = (Silent::default(), CancellationToken::new());
    let asking = "console.log('asking'); await ctx.fetch('http://a')";

    tokio::select! {
        ended = scripts.evaluate(step(asking), &world, &cancel) => panic!("{ended:?}"),
        () = world.asked.notified() => {}
    }
    all_gone(&host).await;

    let evaluating = scripts.evaluate(step(asking), &world, &cancel);
    let cancelling = async {
        world.asked.notified().await;
        cancel.cancel();
    };
    let (ended, ()) = tokio::join!(evaluating, cancelling);
    let failed = ended.unwrap_err();
    assert_eq!(failed.failure, ScriptFailure::Cancelled);
    assert_eq!(failed.log.lines, ["asking"]);
    all_gone(&host).await;

    // Longer than a phase takes to begin on a busy machine: it logs before its timeout.
    let within = Duration::from_secs(5);
    let (cancel, hasty) =
        (CancellationToken::new(), Evaluation { timeout: Some(within), ..step(asking) });
    let failed = scripts.evaluate(hasty, &world, &cancel).await.unwrap_err();
    assert_eq!(failed.failure, ScriptFailure::TimedOut { within });
    assert_eq!(failed.log.lines, ["asking"]);
    all_gone(&host).await;
    assert_eq!(evaluate(&scripts, step("return 1")).await.unwrap().value, json!(1));
}

#[tokio::test]
async fn answers_that_nobody_waited_for_are_no_part_of_the_next_phase() {
    let scripts = limited(ScriptLimits::default());
    for source in [
        "ctx.fetch('http://a'); return 5",
        "for (let i = 0; i < 50; i++) ctx.fetch('http://a/' + i); return 5",
        "ctx.fetch('http://never'); return 5",
        "await Promise.race([ctx.fetch('http://a'), ctx.fetch('http://b'), ctx.fetch('http://c')]); return 5",
        "await Promise.race([ctx.fetch('http://a'), ctx.fetch('http://never')]); return 5",
        "ctx.fetch('http://a'); await ctx.fetch('http://a'); ctx.fetch('http://away'); return 5",
    ] {
        for round in 0..20 {
            let ended = evaluate(&scripts, step(source)).await;
            assert_eq!(ended.unwrap().value, json!(5), "{source}, round {round}");
            let next = "return (await (await ctx.fetch('http://mine')).json()).url";
            let ended = evaluate(&scripts, step(next)).await;
            assert_eq!(ended.unwrap().value, json!("http://mine"), "after {source}, round {round}");
        }
    }
}

#[tokio::test]
async fn phases_beyond_the_pool_wait_for_their_turn() {
    let (_dir, host) = own_host(2);
    let scripts = Scripts::new(host.clone());
    let all = (0..20).map(|n| {
        let scripts = scripts.clone();
        async move { evaluate(&scripts, step(&format!("return {n}"))).await.unwrap().value }
    });
    let values = futures_util::future::join_all(all).await;
    assert_eq!(values, (0..20).map(|n| json!(n)).collect::<Vec<_>>());
    at_most(&host, 2).await;
}

#[tokio::test]
async fn a_script_that_has_all_its_places_leaves_some_to_others() {
    let (_dir, host) = own_host(2);
    let scripts = Scripts::new(ScriptHost { phases: 4, ..host.clone() });
    let (world, cancel) = (Silent::default(), CancellationToken::new());
    // More of each than there are slots: phases that only wait for an answer, and phases that never
    // end.
    let asking = || scripts.evaluate(step("await ctx.fetch('http://a')"), &world, &cancel);
    let waiting = futures_util::future::join_all((0..20).map(|_| asking()));
    let endless = || scripts.evaluate(step("for (;;) {}"), &world, &cancel);
    let computing = futures_util::future::join_all((0..10).map(|_| endless()));
    let others = async {
        while world.at_once.lock().unwrap().0 < 4 || running(&host.program).len() < 6 {
            tokio::task::yield_now().await;
        }
        for n in 0..5 {
            let source = format!("return {n}");
            assert_eq!(evaluate(&scripts, step(&source)).await.unwrap().value, json!(n));
        }
        cancel.cancel();
    };
    tokio::join!(waiting, computing, others);
}

#[tokio::test]
async fn phases_that_wait_for_answers_keep_nobody_from_computing() {
    let (_dir, host) = own_host(2);
    let scripts = Scripts::new(ScriptHost { phases: 6, ..host.clone() });
    let (world, cancel) = (Silent::default(), CancellationToken::new());
    let asking =
        || scripts.evaluate(step("await ctx.fetch('http://a'); return 1"), &world, &cancel);
    let waiting = futures_util::future::join_all((0..5).map(|_| asking()));
    let others = async {
        while world.at_once.lock().unwrap().0 < 5 {
            tokio::task::yield_now().await;
        }
        assert_eq!(evaluate(&scripts, step("return 2")).await.unwrap().value, json!(2));
        let definition = "export default {name: 'd'}";
        let definition =
            Evaluation { entry: Entry::Describe, permits: Permits::NONE, ..step(definition) };
        let described = scripts.describe(definition, &world).await;
        assert_eq!(described.unwrap().value["name"], "d");
    };
    let answering = async {
        others.await;
        loop {
            world.answer.notify_one();
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        ended = waiting => {
            assert!(ended.into_iter().all(|ended| ended.unwrap().value == json!(1)));
        }
        () = answering => {}
    }
    at_most(&host, 2).await;
}

#[tokio::test]
async fn a_definition_is_described_while_all_others_compute() {
    let (_dir, host) = own_host(1);
    let scripts = Scripts::new(ScriptHost { phases: 1, ..host.clone() });
    let cancel = CancellationToken::new();
    let (world, endless) = (Silent::default(), step("console.log('x'); for (;;) {}"));
    let computing = scripts.evaluate(endless, &world, &cancel);
    let describing = async {
        while running(&host.program).is_empty() {
            tokio::task::yield_now().await;
        }
        let definition = "export default {name: 'd'}";
        let definition =
            Evaluation { entry: Entry::Describe, permits: Permits::NONE, ..step(definition) };
        let described = scripts.describe(definition, &world).await;
        cancel.cancel();
        described
    };
    let (_, described) = tokio::join!(computing, describing);
    assert_eq!(described.unwrap().value["name"], "d");
}

#[tokio::test]
async fn few_questions_are_answered_at_the_same_time() {
    let world = Silent::default();
    let (scripts, cancel) = (scripts(), CancellationToken::new());
    let source =
        "await Promise.all(Array.from({length: 100}, () => ctx.fetch('http://a'))); return 1";
    let evaluating = scripts.evaluate(step(source), &world, &cancel);
    let answering = async {
        loop {
            world.answer.notify_one();
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        ended = evaluating => assert_eq!(ended.unwrap().value, json!(1)),
        () = answering => {}
    }
    assert_eq!(world.at_once.lock().unwrap().1, 8);
}

#[tokio::test]
async fn a_program_that_is_none_makes_scripts_unavailable() {
    for (program, args, said) in [
        ("/no/such/program", &[][..], "did not start"),
        ("/bin/true", &[], "ended at once"),
        ("/bin/cat", &[], "does not evaluate scripts"),
        ("/bin/echo", &["nonsense that is no message"], "does not evaluate scripts"),
    ] {
        let scripts = Scripts::new(ScriptHost::new(program, args));
        let failed = evaluate(&scripts, step("return 1")).await.unwrap_err();
        let ScriptFailure::Unavailable { message } = &failed.failure else { panic!("{failed:?}") };
        assert!(message.contains(program) && message.contains(said), "{message}");
        let cold = scripts.warm().await.unwrap_err();
        assert!(matches!(cold, ScriptFailure::Unavailable { .. }), "{cold:?}");
    }
}

#[tokio::test]
async fn a_child_has_given_up_what_it_does_not_need() {
    let (_dir, host) = own_host(1);
    let scripts = Scripts::new(host.clone());
    scripts.warm().await.unwrap();
    let id = &running(&host.program)[0];
    let proc = |file: &str| fs::read_to_string(format!("/proc/{id}/{file}")).unwrap();
    assert_eq!(proc("environ"), "");
    assert_eq!(fs::read_link(format!("/proc/{id}/cwd")).unwrap(), std::path::Path::new("/"));
    assert_eq!(proc("oom_score_adj").trim(), "1000");
    assert!(proc("status").contains("NoNewPrivs:\t1"));
    let limits = proc("limits");
    let hard = |name: &str| {
        let line = limits.lines().find(|line| line.starts_with(name)).unwrap();
        line[name.len()..].split_whitespace().nth(1).unwrap().to_owned()
    };
    assert_eq!(hard("Max file size"), "0");
    assert_eq!(hard("Max open files"), "3");
    assert_eq!(hard("Max processes"), "0");
    assert_eq!(hard("Max core file size"), "0");
    assert!(hard("Max address space").parse::<u64>().is_ok());
}

#[tokio::test]
async fn a_child_does_not_grow() {
    let (_dir, host) = own_host(1);
    let scripts = Scripts::new(host.clone());
    let source = "const r = await ctx.fetch('http://a'); globalThis.keep = [ctx, r, () => r]; \
                  globalThis.keep.push(globalThis.keep); return 'x'.repeat(1e4)";
    let pages = |id: &str| -> u64 {
        let statm = fs::read_to_string(format!("/proc/{id}/statm")).unwrap();
        statm.split_whitespace().nth(1).unwrap().parse().unwrap()
    };
    let mut seen = Vec::new();
    for _ in 0..4 {
        for _ in 0..200 {
            evaluate(&scripts, step(source)).await.unwrap();
        }
        let [id] = &running(&host.program)[..] else { panic!("not one child") };
        seen.push((id.clone(), pages(id)));
    }
    // A context has about 100 KB: 600 that were not freed would be 15,000 pages.
    assert_eq!(seen[0].0, seen[3].0);
    assert!(seen[3].1 < seen[0].1 + 1_000, "{seen:?}");
}

#[tokio::test]
async fn the_program_itself_is_started_wherever_it_lies() {
    // With this argument, the test program prints its help instead of evaluating scripts.
    let host = ScriptHost::of_this_program(&["--help"]).unwrap();
    let cold = Scripts::new(host).warm().await.unwrap_err();
    assert!(cold.to_string().contains("does not evaluate scripts"), "{cold}");
}
