//! `punctual demo`: runs a node with examples, and prints what happens in sentences.

use std::io::{IsTerminal as _, Write};
use std::sync::Arc;
use std::time::Duration;

use calendar::Zones;
use jiff::Timestamp;
use runners::Policy;
use server::serve::{Server, ServerOptions};
use store::{Queries as _, Store};

use super::feed::Feed;
use super::signals::Signals;
use super::{examples, logging, publish, runtime, trusting};
use crate::args::node::{DemoArgs, LogForm};
use crate::clock;
use crate::failure::Failure;
use crate::scripts::scripts;
use crate::store_target::{groups_dir, open_file};
use crate::supervisor::supervisor;
use crate::terminal::{BOLD, Cell, DIM, columns, duration};

/// Without a terminal, the demo ends after this time: enough to see each example at work.
const UNWATCHED_SECONDS: u64 = 12;
/// How many times of the report's schedule are shown.
const REPORTS: usize = 3;

pub(crate) fn run(args: &DemoArgs, zones: Zones, out: &mut dyn Write) -> Result<(), Failure> {
    logging::start(LogForm::Text, "warn", Arc::default())?;
    let folder = tempfile::tempdir()?;
    let db = folder.path().join("demo.db");
    let store = open_file(&db, zones)?;
    let definitions = examples::definitions(folder.path(), &store.rules())?;
    let options = ServerOptions {
        listen: ([127, 0, 0, 1], 0).into(),
        runners: Policy {
            groups_dir: Some(groups_dir(&db)),
            supervisor: Some(supervisor()?),
            ..Policy::default()
        },
        trusted: trusting(&definitions),
        node: "demo".to_owned(),
        scripts: Some(scripts()?),
        ..ServerOptions::new(store.clone())
    };
    let watched = std::io::stdout().is_terminal();
    let seconds = args.seconds.or((!watched).then_some(UNWATCHED_SECONDS));
    runtime()?.block_on(async {
        let mut signals = Signals::new()?;
        let server =
            Server::start(options).await.map_err(|e| Failure::Environment(e.to_string()))?;
        let notices = server.hub().listen();
        let started = clock::instant();
        publish(server.hub(), definitions, None).await?;
        greet(&server, &store, started, out).await?;
        let gone = store.gone();
        let mut feed = Feed::new(store, started, format!("http://{}", server.address()));
        let time_is_up = async {
            match seconds {
                Some(seconds) => tokio::time::sleep(Duration::from_secs(seconds)).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            told = feed.tell(notices, out) => told?,
            () = time_is_up => {}
            _ = signals.next() => {}
            why = gone => return Err(Failure::Environment(why)),
        }
        signals.force();
        feed.sum_up(clock::instant(), out)?;
        server.stop().await.map_err(|failure| Failure::Environment(failure.to_string()))
    })
}

async fn greet(
    server: &Server,
    store: &Arc<store::Sqlite>,
    now: Timestamp,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let unavailable = |failure: store::Failure| Failure::Environment(failure.to_string());
    writeln!(out, "{BOLD}A node runs at http://{}{BOLD:#}", server.address())?;
    writeln!(
        out,
        "{DIM}Open it in a browser, or ask it from another terminal: PUNCTUAL_URL=http://{} punctual schedule list{DIM:#}",
        server.address()
    )?;
    writeln!(out, "\nIt has four workflows, and these are due:")?;
    let coming = store.coming(10).await.map_err(unavailable)?;
    let rules = store.rules();
    let mut rows = Vec::new();
    for view in &coming {
        let schedule = &view.schedule;
        let plan =
            schedule.declared.plan(&rules, schedule.progress.anchor, &schedule.id.to_string());
        let Ok(plan) = plan else { continue };
        let Some(next) = view.outlook(&plan, now).next().and_then(|next| next.effective) else {
            continue;
        };
        let words = plan.timing.words();
        // The start of an interval does not matter here.
        let words = words.split(" from ").next().unwrap_or_default();
        rows.push(vec![
            Cell::plain(schedule.declared.name.clone()),
            Cell::plain(words),
            Cell::styled(format!("in {}", duration(next.duration_since(now))), DIM),
        ]);
    }
    write!(out, "{}", columns(&rows))?;
    for view in coming.iter().filter(|view| view.workflow_name == "morning-report") {
        let schedule = &view.schedule;
        let plan =
            schedule.declared.plan(&rules, schedule.progress.anchor, &schedule.id.to_string());
        let Ok(plan) = plan else { continue };
        let zone = plan.timing.zone();
        let times = plan.timing.after(now).take(REPORTS);
        let times: Vec<String> = times
            .map(|due| zone.wall(due.effective).strftime("%a %d %b %H:%M").to_string())
            .collect();
        writeln!(out, "\nThe next reports, New York time: {}", times.join(", "))?;
    }
    writeln!(out, "\n{BOLD}What happens{BOLD:#}")?;
    Ok(out.flush()?)
}
