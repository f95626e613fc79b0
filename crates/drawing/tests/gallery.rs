//! Draws everything once, as a page would show it, and checks what holds for all drawings. With
//! `DRAWINGS_OUT` set to a folder, the drawings are written there.

use std::collections::BTreeSet;

use drawing::bar::{DeadlineBar, Meter};
use drawing::days::{self, Day, DayMark};
use drawing::gantt::{Bar, Deadline, Gantt, Row};
use drawing::graph::{Edge, Graph, Node};
use drawing::series::{Dot, Series};
use drawing::timeline::{Bucket, Count, Lane, Mark, Timeline};
use drawing::{STYLE, Wall};
use jiff::civil::{Date, Weekday};
use jiff::tz::Offset;
use jiff::{SignedDuration, Timestamp, ToSpan};
use maud::{Markup, PreEscaped, html};

fn wall() -> Wall<'static> {
    Wall {
        offset: &|_| Offset::constant(1),
        words: &|at| Offset::constant(1).to_datetime(at).strftime("%a %-d %b %H:%M:%S").to_string(),
    }
}

/// Minutes after midnight UTC on a Thursday.
fn at(minutes: f64) -> Timestamp {
    let start = Timestamp::constant(1_773_273_600, 0);
    start + SignedDuration::from_millis((minutes * 60_000.0) as i64)
}

fn node(id: &str, kind: &str, state: &str, note: &str) -> Node {
    Node {
        id: id.to_owned(),
        label: id.to_owned(),
        kind: kind.to_owned(),
        state: (!state.is_empty()).then(|| format!("is-{state}")),
        href: Some(format!("#{id}")),
        note: (!note.is_empty()).then(|| note.to_owned()),
    }
}

fn edge(from: &str, to: &str, label: &str, state: &str) -> Edge {
    Edge {
        from: from.to_owned(),
        to: to.to_owned(),
        label: (!label.is_empty()).then(|| label.to_owned()),
        is_back: false,
        state: (!state.is_empty()).then(|| format!("is-{state}")),
    }
}

fn process() -> Graph {
    let nodes = vec![
        node("receive", "http", "ok", "0.4 s"),
        node("check invoice", "script", "ok", "12 ms"),
        node("amount?", "gateway", "ok", ""),
        node("manager approves", "approval", "warn", "due in 2 h"),
        node("auto-approve", "set", "idle", "skipped"),
        node("post each line", "for_each", "run", "7 of 12"),
        node("wait for bank", "wait_for", "wait", ""),
        node("notify <everyone> & \"all\" who asked for it", "notification", "", ""),
        node("undo", "compensate", "bad", "3 attempts"),
        node("archive", "exec", "", ""),
    ];
    let mut edges = vec![
        edge("receive", "check invoice", "", "ok"),
        edge("check invoice", "amount?", "", "ok"),
        edge("amount?", "manager approves", "amount > 10000", "ok"),
        edge("amount?", "auto-approve", "otherwise", "idle"),
        edge("manager approves", "post each line", "approved", ""),
        edge("auto-approve", "post each line", "", ""),
        edge("post each line", "wait for bank", "", ""),
        edge("post each line", "undo", "on failure", "bad"),
        edge("wait for bank", "notify <everyone> & \"all\" who asked for it", "", ""),
        edge("wait for bank", "archive", "", ""),
        edge("receive", "archive", "", ""),
        edge("manager approves", "check invoice", "rejected", "warn"),
        edge("wait for bank", "wait for bank", "", ""),
        edge("archive", "nowhere", "", ""),
    ];
    edges[11].is_back = true;
    Graph { title: "Steps of invoice".to_owned(), nodes, edges }
}

fn fan() -> Graph {
    let mut nodes = vec![node("start", "http", "ok", ""), node("join", "set", "", "")];
    let mut edges = Vec::new();
    for n in 0..9 {
        let item = format!("region {n}");
        nodes.push(node(&item, "exec", ["ok", "run", "bad"][n % 3], ""));
        edges.extend([edge("start", &item, "", "ok"), edge(&item, "join", "", "")]);
    }
    nodes.extend([node("alone", "exec", "", ""), node("other", "exec", "", "")]);
    edges.push(edge("other", "other", "until done", ""));
    Graph { title: "A fan, and two that stand alone".to_owned(), nodes, edges }
}

fn large() -> Graph {
    let mut state = 11_u64;
    let mut chance = move |below: usize| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    let name = |n: usize| format!("step {n}");
    let nodes = (0..200).map(|n| node(&name(n), "exec", ["ok", "", "run"][n % 3], "")).collect();
    let mut edges = Vec::new();
    for n in 1..200_usize {
        edges.push(edge(&name(n - 1 - chance(n.min(9))), &name(n), "", ""));
        if n % 3 == 0 {
            edges.push(edge(&name(n - 1 - chance(n.min(12))), &name(n), "", ""));
        }
    }
    Graph { title: "Two hundred steps".to_owned(), nodes, edges }
}

fn bar(start: f64, end: Option<f64>, state: &str, label: &str) -> Bar {
    Bar {
        start: at(start),
        end: end.map(at),
        state: format!("is-{state}"),
        label: label.to_owned(),
        href: Some("#attempt".to_owned()),
    }
}

fn gantt() -> Gantt<'static> {
    let row = |label: &str, depth, bars| {
        let href = (depth == 0).then(|| "#row".to_owned());
        Row { label: label.to_owned(), depth, href, bars }
    };
    let rows = vec![
        row("receive", 0, vec![bar(600.0, Some(601.0), "ok", "succeeded")]),
        row("check invoice", 0, vec![bar(601.0, Some(626.0), "ok", "succeeded")]),
        row("attempt 1", 1, vec![bar(601.0, Some(609.0), "bad", "failed")]),
        row("attempt 2", 1, vec![bar(614.0, Some(626.0), "ok", "succeeded")]),
        row(
            "manager approves, or somebody who stands in",
            0,
            vec![bar(626.0, Some(711.0), "wait", "waited")],
        ),
        row("post each line", 0, vec![bar(711.0, None, "run", "running")]),
        row("item 1", 1, vec![bar(711.0, Some(711.0), "ok", "succeeded")]),
        row("item 2", 1, vec![bar(712.0, Some(731.0), "ok", "succeeded")]),
        row("item 3", 1, vec![bar(720.0, None, "run", "running")]),
        row("archive", 0, vec![]),
    ];
    let deadline = |minutes, label: &str, state: &str| Deadline {
        at: at(minutes),
        label: label.to_owned(),
        state: format!("is-{state}"),
    };
    let deadlines = vec![deadline(740.0, "warning", "warn"), deadline(780.0, "due", "bad")];
    let title = "What the run did".to_owned();
    Gantt { title, rows, now: Some(at(745.0)), deadlines, wall: wall() }
}

fn timeline() -> Timeline<'static> {
    let count = |state: &str, label: &str, number| Count {
        state: format!("is-{state}"),
        label: label.to_owned(),
        number,
    };
    let bucket = |n: usize| Bucket {
        start: at(n as f64 * 60.0),
        end: at(n as f64 * 60.0 + 60.0),
        counts: vec![
            count("ok", "ran", n * 7 % 23 + 4),
            count("bad", "failed", n % 4),
            count("idle", "skipped", n * 3 % 5),
            count("warn", "missed", n / 11),
            count("wait", "queued", n / 14 * 2),
        ],
        href: Some("#hour".to_owned()),
    };
    let lane = |label: &str, every: usize, from: usize| Lane {
        label: label.to_owned(),
        href: Some("#schedule".to_owned()),
        marks: (from..1440)
            .step_by(every)
            .map(|minute| Mark {
                at: at(minute as f64),
                state: format!(
                    "is-{}",
                    if minute > 960 {
                        "run"
                    } else {
                        ["ok", "ok", "bad", "ok", "idle"][minute / every % 5]
                    }
                ),
                label: if minute > 960 { "is due".to_owned() } else { "ran".to_owned() },
                href: Some("#run".to_owned()),
            })
            .collect(),
    };
    Timeline {
        title: "Today".to_owned(),
        start: at(0.0),
        end: at(1440.0),
        now: at(960.0),
        buckets: (0..16).map(bucket).collect(),
        lanes: vec![
            lane("every two hours", 120, 0),
            lane("nightly report of a long name", 1440, 150),
            lane("half-hourly", 30, 10),
            lane("at noon and midnight", 720, 0),
        ],
        wall: wall(),
    }
}

fn series(title: &str, far: bool) -> Series<'static> {
    let length = |n: usize| {
        let base = 800.0 + (n * 37 % 29) as f64 * 60.0;
        if far { base * 1.25_f64.powi((n % 30) as i32) } else { base }
    };
    let dot = |n: usize| Dot {
        at: at(n as f64 * 97.0),
        length: SignedDuration::from_millis(length(n) as i64),
        state: (if n % 13 == 5 { "is-bad" } else { "is-ok" }).to_owned(),
        label: "succeeded".to_owned(),
        href: Some("#run".to_owned()),
    };
    let dots = (0..70).map(dot).collect();
    Series { title: title.to_owned(), noun: ("run", "runs"), dots, wall: wall() }
}

fn some_days(year: i16) -> Vec<Day> {
    let first = Date::constant(year, 1, 1);
    let days = (0..365).map(|n| first + n.days());
    let day = |date: Date| {
        let is_weekend = matches!(date.weekday(), Weekday::Saturday | Weekday::Sunday);
        let is_holiday = date.day() == 17 && date.month() % 3 == 0;
        let mut classes = vec![if is_weekend { "day-weekend" } else { "day-working" }.to_owned()];
        classes.extend(is_holiday.then(|| "day-holiday".to_owned()));
        classes.extend((date.month() == 3 && date.day() == 12).then(|| "day-today".to_owned()));
        let mark = |n: i8| DayMark {
            label: ["payroll", "close the books of the month", "report", "backup", "sync"]
                [n as usize % 5]
                .to_owned(),
            state: ["is-ok", "is-bad", "is-run", "is-warn", "is-idle"][n as usize % 5].to_owned(),
            href: Some("#mark".to_owned()),
        };
        let marks =
            if date.day() % 6 == 0 { (0..date.day() / 6).map(mark).collect() } else { Vec::new() };
        let title = is_holiday.then(|| "Saint Patrick's Day".to_owned());
        Day { date, classes, marks, href: Some(format!("#{date}")), title }
    };
    days.map(day).collect()
}

fn small_bars() -> Markup {
    let bar = |until: f64, is_over, state: &str| {
        let bar = DeadlineBar {
            title: "Approval".to_owned(),
            start: at(0.0),
            due: at(240.0),
            warnings: vec![(at(180.0), "an hour before".to_owned())],
            until: at(until),
            is_over,
            state: format!("is-{state}"),
            wall: wall(),
        };
        bar.draw()
    };
    let meter = |used, capacity, state: &str| {
        let (title, state) = ("Places".to_owned(), format!("is-{state}"));
        Meter { title, used, capacity, state }.draw()
    };
    html! {
        (bar(60.0, false, "run")) (bar(200.0, false, "warn")) (bar(300.0, false, "bad"))
        (bar(120.0, true, "ok"))
        p { (meter(0, 8, "ok")) " " (meter(3, 8, "ok")) }
        p { (meter(8, 8, "warn")) " " (meter(0, 0, "idle")) }
    }
}

fn empty() -> Markup {
    let graph = Graph { title: "Nothing".to_owned(), ..Graph::default() };
    let timeline = Timeline { buckets: vec![], lanes: vec![], ..timeline() };
    html! { (graph.draw()) (timeline.draw()) }
}

fn gallery() -> Vec<(&'static str, Markup)> {
    let date = Date::constant(2026, 3, 1);
    vec![
        ("graph", process().draw()),
        ("fan", fan().draw()),
        ("gantt", gantt().draw()),
        ("timeline", timeline().draw()),
        (
            "series",
            html! { (series("How long it took", false).draw()) (series("How late", true).draw()) },
        ),
        ("bars", small_bars()),
        ("month", days::month(date, &some_days(2026))),
        ("year", days::year(2026, &some_days(2026))),
        ("empty", empty()),
        ("large", large().draw()),
    ]
}

/// The names of classes in markup.
fn classes(text: &str) -> BTreeSet<&str> {
    let values = text.split(" class=\"").skip(1).filter_map(|piece| piece.split('"').next());
    values.flat_map(str::split_whitespace).collect()
}

#[test]
fn classes_are_documented_and_styled() {
    let head = include_str!("../src/lib.rs");
    for (name, drawn) in gallery() {
        for class in classes(&drawn.0) {
            assert!(head.contains(&format!("`{class}`")), "{class} of {name} is not documented");
        }
    }
    let all: String = gallery().into_iter().map(|(_, drawn)| drawn.0).collect();
    let used = classes(&all);
    let selectors = STYLE.split('}').filter_map(|rule| rule.split('{').next());
    for class in selectors.flat_map(|selector| selector.split('.').skip(1)) {
        let end = class.find(|c: char| !c.is_ascii_lowercase() && c != '-').unwrap_or(class.len());
        let class = &class[..end];
        assert!(
            class.is_empty() || class == "rs" || used.contains(class),
            "{class} is styled in vain"
        );
    }
}

#[test]
fn a_strict_policy_is_enough() {
    for (name, drawn) in gallery() {
        for forbidden in ["style=", "<style", "<script", "foreignObject", "javascript:", " id="] {
            assert!(!drawn.0.contains(forbidden), "{forbidden} in {name}");
        }
    }
    let colours = STYLE.contains("rgb(") || STYLE.contains("hsl(") || STYLE.contains('#');
    assert!(!colours, "colours belong to the page");
}

#[test]
fn drawings_to_look_at() {
    let Ok(folder) = std::env::var("DRAWINGS_OUT") else { return };
    std::fs::create_dir_all(&folder).unwrap();
    for theme in ["light", "dark"] {
        for (name, drawn) in gallery() {
            let page = html! {
                (PreEscaped("<!doctype html>"))
                html lang="en" class=(theme) {
                    head {
                        meta charset="utf-8";
                        meta name="viewport" content="width=device-width, initial-scale=1";
                        title { (name) }
                        style { (PreEscaped(PALETTE)) (PreEscaped(STYLE)) }
                    }
                    body { (drawn) }
                }
            };
            std::fs::write(format!("{folder}/{name}-{theme}.html"), page.0).unwrap();
        }
    }
}

const PALETTE: &str = "
:root { --ok: #1a7f4b; --bad: #c62f3b; --warn: #b86e00; --run: #2464c9; --wait: #7a54c7;
  --idle: #8b929c; --line: #d4d8de; --text: #1b1f24; --muted: #5d6672; --surface: #ffffff;
  --accent: #2464c9; }
.dark { --ok: #4cc38a; --bad: #ff6b73; --warn: #f2a93b; --run: #6ea8ff; --wait: #b69cff;
  --idle: #7d8590; --line: #343b45; --text: #e6e9ee; --muted: #9aa4b1; --surface: #14181d;
  --accent: #6ea8ff; }
body { margin: 16px; background: var(--surface); color: var(--text);
  font: 15px/1.4 system-ui, sans-serif; }
";
