//! A real node for tests: `punctual serve` in its own process, on a free port.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::punctual;

/// Long enough for a busy machine; only a broken test waits so long.
pub(crate) const DEADLINE: Duration = Duration::from_secs(60);

/// A folder with a store and definitions.
pub(crate) struct Home {
    folder: tempfile::TempDir,
}

impl Home {
    pub(crate) fn new() -> Home {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::create_dir(folder.path().join("definitions")).expect("a folder");
        Home { folder }
    }

    /// Adds a definition to the node's folder.
    pub(crate) fn with(self, name: &str, text: &str) -> Home {
        std::fs::write(self.definitions().join(name), text).expect("it is written");
        self
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn definitions(&self) -> PathBuf {
        self.path("definitions")
    }

    pub(crate) fn db(&self) -> PathBuf {
        self.path("punctual.db")
    }

    /// The arguments of `punctual serve` for this folder.
    pub(crate) fn serve_args(&self) -> Vec<String> {
        let db = self.db().display().to_string();
        let definitions = self.definitions().display().to_string();
        ["serve", &definitions, "--db", &db, "--listen", "127.0.0.1:0", "--log", "json"]
            .map(str::to_owned)
            .to_vec()
    }

    pub(crate) fn serve(&self) -> Node {
        let mut command = punctual();
        command.args(self.serve_args());
        Node::start(command)
    }

    /// Checks that `punctual doctor` finds no problem in the store.
    pub(crate) fn doctor(&self) {
        let db = self.db().display().to_string();
        let (code, out, err) = crate::run(&["doctor", "--db", &db, "--json"]);
        assert_eq!((code, err.as_str()), (0, ""), "{out}");
    }
}

/// A running node. Dropping the value kills it.
pub(crate) struct Node {
    child: Child,
    pub(crate) url: String,
    log: Arc<Mutex<Vec<Value>>>,
    news: Receiver<()>,
}

impl Node {
    /// Starts a node and waits until it is ready.
    pub(crate) fn start(mut command: Command) -> Node {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        let log: Arc<Mutex<Vec<Value>>> = Arc::default();
        let (tell, news) = channel();
        let (stderr, lines) = (child.stderr.take().expect("piped"), log.clone());
        std::thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                let line = serde_json::from_str(&line).unwrap_or(Value::String(line));
                lines.lock().expect("no panic").push(line);
                if tell.send(()).is_err() {
                    break;
                }
            }
        });
        let mut node = Node { child, url: String::new(), log, news };
        let ready = node.logged("ready");
        node.url = ready["url"].as_str().expect("an address").to_owned();
        node
    }

    /// Waits for a log line whose message contains this text.
    pub(crate) fn logged(&mut self, message: &str) -> Value {
        let until = now() + DEADLINE;
        loop {
            let has =
                |line: &&Value| line["message"].as_str().is_some_and(|text| text.contains(message));
            if let Some(line) = self.log.lock().expect("no panic").iter().find(has) {
                return line.clone();
            }
            let left = until.saturating_duration_since(now());
            let ended = self.child.try_wait().expect("a child").is_some();
            if self.news.recv_timeout(left).is_err() || (ended && left.is_zero()) {
                let log = self.log.lock().expect("no panic");
                panic!("no log line has {message:?}: {log:#?}");
            }
        }
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.child.id() as i32).expect("a process");
        kill_process(pid, signal).expect("it is there");
    }

    /// Kills the node with SIGKILL.
    pub(crate) fn kill(mut self) {
        self.signal(Signal::KILL);
        self.child.wait().expect("it ends");
    }

    /// Stops the node with SIGTERM.
    pub(crate) fn stop(self) -> ExitStatus {
        self.signal(Signal::TERM);
        self.wait()
    }

    /// Stops the node with SIGTERM, and returns its whole log.
    pub(crate) fn stop_and_read(mut self) -> Vec<Value> {
        self.signal(Signal::TERM);
        self.child.wait().expect("it ends");
        // The channel is closed when the whole log has been read.
        while self.news.recv_timeout(DEADLINE).is_ok() {}
        std::mem::take(&mut *self.log.lock().expect("no panic"))
    }

    /// Waits until the node has exited.
    pub(crate) fn wait(mut self) -> ExitStatus {
        let until = now() + DEADLINE;
        loop {
            if let Some(status) = self.child.try_wait().expect("a child") {
                return status;
            }
            assert!(now() < until, "it does not stop");
            pause();
        }
    }

    /// Runs a command against this node.
    pub(crate) fn command(&self, args: &[&str]) -> (i32, String, String) {
        let output = punctual().args(args).env("PUNCTUAL_URL", &self.url).output();
        crate::finished(output.expect("the binary starts"))
    }

    /// The output of a command, which must succeed.
    pub(crate) fn shown(&self, args: &[&str]) -> String {
        let (code, out, err) = self.command(args);
        assert_eq!((code, err.as_str()), (0, ""), "{args:?}: {out}");
        out
    }

    /// The output of a command with `--json`.
    pub(crate) fn json(&self, args: &[&str]) -> Value {
        let mut all = args.to_vec();
        all.push("--json");
        serde_json::from_str(&self.shown(&all)).expect("JSON")
    }

    /// The error output of a command, which must be refused.
    pub(crate) fn refused(&self, args: &[&str]) -> String {
        let (code, out, err) = self.command(args);
        assert_eq!((code, out.as_str()), (1, ""), "{args:?}: {err}");
        err
    }

    /// Repeats a command until its answer fulfils the condition.
    pub(crate) fn wait_for(&self, args: &[&str], is_so: impl Fn(&Value) -> bool) -> Value {
        let until = now() + DEADLINE;
        loop {
            let answer = self.json(args);
            if is_so(&answer) {
                return answer;
            }
            assert!(now() < until, "{args:?}: {answer:#}");
            pause();
        }
    }

    /// The status and body of a GET request.
    pub(crate) fn get(&self, path: &str) -> (u16, String) {
        get(&self.url, path).expect("it answers")
    }

    /// The status and body of a POST request with JSON.
    pub(crate) fn post(&self, path: &str, body: &Value) -> (u16, String) {
        post(&self.url, path, body).expect("it answers")
    }

    /// The value of a metric.
    pub(crate) fn figure(&self, name: &str) -> f64 {
        let (_, text) = self.get("/metrics");
        let figures: HashMap<&str, &str> =
            text.lines().filter_map(|line| line.rsplit_once(' ')).collect();
        figures.get(name).and_then(|value| value.parse().ok()).unwrap_or(-1.0)
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends a plain GET request.
pub(crate) fn get(url: &str, path: &str) -> std::io::Result<(u16, String)> {
    send(url, &format!("GET {path}"), "", "")
}

/// Sends a POST request with JSON.
pub(crate) fn post(url: &str, path: &str, body: &Value) -> std::io::Result<(u16, String)> {
    let body = body.to_string();
    let headers = format!("Content-Type: application/json\r\nContent-Length: {}\r\n", body.len());
    send(url, &format!("POST {path}"), &headers, &body)
}

fn send(url: &str, what: &str, headers: &str, body: &str) -> std::io::Result<(u16, String)> {
    let address = url.trim_start_matches("http://");
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(DEADLINE))?;
    let head = format!("{what} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n{headers}\r\n");
    stream.write_all(format!("{head}{body}").as_bytes())?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    let status = text.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
    let body = text.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    Ok((status, body.to_owned()))
}

/// Waits until the condition holds.
pub(crate) fn until(what: &str, is_so: impl Fn() -> bool) {
    let end = now() + DEADLINE;
    while !is_so() {
        assert!(now() < end, "never: {what}");
        pause();
    }
}

/// The processes whose command line contains this text.
pub(crate) fn processes_with(text: &str) -> Vec<String> {
    let entries = std::fs::read_dir("/proc").expect("Linux").flatten();
    let lines = entries.filter_map(|entry| {
        let id: u32 = entry.file_name().to_str()?.parse().ok()?;
        let line = std::fs::read(Path::new("/proc").join(id.to_string()).join("cmdline")).ok()?;
        Some(format!("{id}: {}", String::from_utf8_lossy(&line).replace('\0', " ")))
    });
    lines.filter(|line| line.contains(text)).collect()
}

/// The pause between two checks.
pub(crate) fn pause() {
    std::thread::sleep(Duration::from_millis(20));
}

#[expect(clippy::disallowed_methods, reason = "a deadline, so that a broken test ends")]
fn now() -> Instant {
    Instant::now()
}
