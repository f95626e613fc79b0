//! Punctual by the same means: `punctual bench` measures the same, and a node is killed in the
//! middle of its work.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use rustix::process::Signal;
use serde_json::{Value, json};
use testbed::Cluster;

use super::sizes::Sizes;
use super::table::{Cell, Row, whole};
use crate::chaos::load::created;
use crate::chaos::node::{Node, Setup};
use crate::chaos::until;
use crate::guard::Guard;
use crate::steps::wall_millis;

/// How long after their creation schedules are due that will see a kill, in milliseconds.
const LEAD: i64 = 3_000;
/// How long the sink takes to answer, so that a kill finds some jobs in the middle of their work.
const ANSWER: Duration = Duration::from_millis(50);
/// When it takes up again what a killed node had begun, on PostgreSQL and on SQLite.
const RECOVERY: [&str; 2] = [
    "a node takes up what another had begun after its lease of 15 s",
    "a node that starts takes up what was begun at once",
];

/// A row for each store.
pub(super) fn rows(binary: &Path, sizes: &Sizes, quick: bool, cluster: &Cluster) -> Vec<Row> {
    let row = |name: &str, store: &str, database: Option<&str>| {
        eprintln!("punctual on {store}");
        let url = database.map(|database| database_url(cluster, database));
        let figures = url.clone().transpose();
        let figures = figures.and_then(|url| Figures::measure(binary, sizes, quick, url));
        let cell = |pick: &dyn Fn(&Figures) -> Cell| match &figures {
            Ok(figures) => pick(figures),
            Err(why) => Cell::missing(why),
        };
        let killed = url.transpose().and_then(|url| killed(binary, sizes, url));
        let row = Row {
            name: name.to_owned(),
            version: "this tree".to_owned(),
            settings: format!("{store}: defaults, `punctual bench`"),
            cells: [
                cell(&Figures::creates),
                cell(&Figures::fires),
                cell(&|figures| figures.late(500)),
                cell(&|figures| figures.late(2_000)),
                cell(&|figures| figures.one("restart", "to the first attempt")),
                cell(&|figures| figures.one("restart", "resident then")),
                killed.unwrap_or_else(Cell::missing),
            ],
        };
        eprintln!("{:?}", row.cells.each_ref().map(|cell| &cell.text));
        row
    };
    vec![
        row("punctual", "PostgreSQL", Some("punctual_bench")),
        row("punctual", "SQLite, full sync", None),
    ]
}

fn database_url(cluster: &Cluster, database: &str) -> Result<String, String> {
    let asked = cluster.ask(&format!("CREATE DATABASE {database}"));
    asked.map_err(|why| why.to_string())?;
    let url = cluster.url();
    let (server, _) = url.rsplit_once('/').unwrap_or((&url, ""));
    Ok(format!("{server}/{database}"))
}

/// What `punctual bench` has said.
struct Figures(Vec<Value>);

impl Figures {
    fn measure(
        binary: &Path,
        sizes: &Sizes,
        quick: bool,
        url: Option<String>,
    ) -> Result<Figures, String> {
        let mut bench = Command::new(binary);
        bench.args(["bench", "--json", "--rate", "500", "--rate", "2000"]);
        bench.args(["--pending", &sizes.pending.to_string()]);
        for measure in ["creates", "fires", "lateness", "restart"] {
            bench.args(["--only", measure]);
        }
        if let Some(url) = url {
            bench.args(["--db", &url]);
        }
        if quick {
            bench.arg("--quick");
        }
        let output = bench.stderr(Stdio::inherit()).output();
        let output = output.map_err(|why| format!("`punctual bench`: {why}"))?;
        let said: Value = serde_json::from_slice(&output.stdout)
            .map_err(|why| format!("`punctual bench`: {}: {why}", output.status))?;
        Ok(Figures(said["figures"].as_array().cloned().unwrap_or_default()))
    }

    /// The first figure of a measure whose name begins so and has no part of its own.
    fn find(&self, measure: &str, name: &str) -> Option<(f64, &str)> {
        let figure = self.0.iter().find(|figure| {
            let own = figure["name"].as_str().unwrap_or_default();
            figure["measure"] == measure && own.starts_with(name) && !own.contains(':')
        })?;
        Some((figure["value"].as_f64()?, figure["name"].as_str()?))
    }

    fn one(&self, measure: &str, name: &str) -> Cell {
        match self.find(measure, name) {
            Some((value, _)) => Cell::new(whole(value)),
            None => Cell::missing(format!("`punctual bench` does not say: {measure}, {name}")),
        }
    }

    fn creates(&self) -> Cell {
        let cell = self.one("creates", "");
        let several = self.0.iter().find(|figure| {
            let name = figure["name"].as_str().unwrap_or_default();
            figure["measure"] == "creates" && name.ends_with("clients")
        });
        let several = several.and_then(|figure| figure["value"].as_f64());
        let several =
            several.map(|rate| format!("; {} by 4 clients at the same time", whole(rate)));
        let note = format!(
            "schedules that are due daily, 10,000 in a commit (500 if quick), parsed as the API parses them, without HTTP, one batch after another{}",
            several.unwrap_or_default()
        );
        if cell.text == "-" { cell } else { cell.with(note) }
    }

    fn fires(&self) -> Cell {
        let cell = self.one("fires", "beside");
        let at_once = self.0.iter().find(|figure| {
            let name = figure["name"].as_str().unwrap_or_default();
            figure["measure"] == "fires" && name.ends_with("nothing to perform")
        });
        let at_once = at_once.and_then(|figure| figure["value"].as_f64()).map_or("?".into(), whole);
        let note = format!(
            "50,000 runs (500 if quick) from due to succeeded, each with its history; {at_once} where a step is a `noop`, which ends in the commit that begins it"
        );
        if cell.text == "-" { cell } else { cell.with(note) }
    }

    fn late(&self, rate: u64) -> Cell {
        let quantile = |name: &str| self.find("lateness", &format!("{rate} per s, {name}"));
        match (quantile("p50"), quantile("p99")) {
            (Some((half, _)), Some((most, _))) => Cell::new(format!("{half:.1} / {most:.1}")),
            _ => Cell::missing("`punctual bench` does not say"),
        }
    }
}

/// Kills a node in the middle of its work, and starts it once more. Each job asks a sink, which
/// counts.
fn killed(binary: &Path, sizes: &Sizes, url: Option<String>) -> Result<Cell, String> {
    let recovery = RECOVERY[usize::from(url.is_none())];
    let guard = Arc::new(Guard::new()?);
    let folder = guard.folder().join("node");
    let sink = Sink::start()?;
    let url = url.unwrap_or_else(|| guard.folder().join("killed.db").display().to_string());
    let arguments = ["--egress", "127.0.0.1/32"].map(str::to_owned).to_vec();
    let (binary, lease, environment) = (PathBuf::from(binary), "15s".to_owned(), Vec::new());
    let setup = Setup { binary, url, lease, arguments, environment, guard };
    let node = Node::start(&setup, &folder)?;
    create(&node, sizes.killed, &sink.address)?;
    let wanted = sizes.killed as usize / 4;
    until("the middle of the work", || Ok(Some(()).filter(|()| sink.times().len() >= wanted)))?;
    node.signal(Signal::KILL)?;
    node.ended()?;
    let before = sink.times().len();
    let node = Node::start(&setup, &folder)?;
    std::thread::sleep(sizes.window);
    drop(node);
    let times = sink.times();
    let lost = sizes.killed.saturating_sub(times.len() as u64);
    let doubled = times.values().filter(|times| **times > 1).count();
    let note = format!(
        "of {}, killed when {before} had begun, seen for {} s after the restart; each job is an HTTP step that may be repeated; {recovery}",
        sizes.killed,
        sizes.window.as_secs()
    );
    Ok(Cell::new(format!("{lost} / {doubled}")).with(note))
}

fn create(node: &Node, count: u64, sink: &str) -> Result<(), String> {
    let url = format!("http://{sink}/{{{{ run.schedule_name }}}}");
    let step = json!({ "id": "ask", "type": "http", "url": url });
    let workflow = json!({ "name": "killed", "steps": [step] });
    created(node, "/api/v1/workflows?publish=true", &workflow.to_string())?;
    let due = Timestamp::from_millisecond(wall_millis() + LEAD).map_err(|why| why.to_string())?;
    let schedule = |number: u64| {
        json!({ "name": format!("job-{number}"), "workflow_id": "killed", "at": due.to_string(),
            "catch_up": "all" })
    };
    let schedules: Vec<Value> = (0..count).map(schedule).collect();
    created(node, "/api/v1/schedules/batch", &json!(schedules).to_string()).map(drop)
}

/// An HTTP server that counts how often each path is asked for.
struct Sink {
    address: String,
    times: Arc<Mutex<HashMap<String, u32>>>,
}

impl Sink {
    fn start() -> Result<Sink, String> {
        let listener = TcpListener::bind("127.0.0.1:0").map_err(|why| format!("a sink: {why}"))?;
        let address = listener.local_addr().map_err(|why| format!("a sink: {why}"))?;
        let times: Arc<Mutex<HashMap<String, u32>>> = Arc::default();
        let noted = times.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let noted = noted.clone();
                // A client that is gone needs no answer.
                std::thread::spawn(move || answer(stream, &noted));
            }
        });
        Ok(Sink { address: address.to_string(), times })
    }

    fn times(&self) -> HashMap<String, u32> {
        self.times.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Answers what comes on one connection until the other side is gone.
fn answer(stream: TcpStream, times: &Mutex<HashMap<String, u32>>) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream);
    loop {
        let mut first = String::new();
        if reader.read_line(&mut first)? == 0 {
            return Ok(());
        }
        let mut line = String::new();
        while reader.read_line(&mut line)? > 2 {
            line.clear();
        }
        let path = first.split(' ').nth(1).unwrap_or_default().to_owned();
        *times.lock().unwrap_or_else(PoisonError::into_inner).entry(path).or_default() += 1;
        std::thread::sleep(ANSWER);
        reader.get_mut().write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")?;
    }
}
