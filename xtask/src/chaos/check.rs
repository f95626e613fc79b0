//! Rules that the rows of the database must fulfil in the end.

use testbed::Cluster;

use super::load::Load;
use crate::steps::Outcome;

/// The result of the checks.
pub(super) struct Checked {
    /// Each broken rule, with examples.
    wrong: Vec<String>,
    pub(super) runs: String,
    pub(super) lateness: String,
}

impl Checked {
    pub(super) fn outcome(&self, seed: u64) -> Outcome {
        if self.wrong.is_empty() {
            return Ok(());
        }
        Err(format!("seed {seed}:\n{}", self.wrong.join("\n")))
    }
}

/// What became of the steps of the run `r`: in rows of their own, or in the row of the run that
/// ended with them. For each run by itself: what it costs does not follow from what the planner
/// expects of JSON.
const DONE: &str = "LATERAL (SELECT step, status, attempts FROM steps WHERE steps.run = r.key
    UNION ALL SELECT (e->>0)::integer, (e->>2)::smallint, (e->>3)::integer
    FROM json_array_elements(r.last_steps::json) e)";

/// Each finds rows that must not be there. `REPEATS` and `INTERVAL` are those of the load.
const RULES: [(&str, &str); 9] = [
    (
        "a schedule whose occurrences are not in the ledger once each, without holes",
        "SELECT s.id, count(l.n), min(l.n), max(l.n), sum(l.count)
         FROM schedules s LEFT JOIN ledger l ON l.schedule = s.id GROUP BY s.id
         HAVING count(l.n) <> REPEATS OR min(l.n) <> 0 OR max(l.n) <> REPEATS - 1
             OR sum(l.count) <> REPEATS",
    ),
    (
        "an occurrence at another time than its rule says",
        "SELECT l.schedule, l.n, l.nominal - p.anchor FROM ledger l
         JOIN progress p ON p.id = l.schedule
         WHERE l.nominal <> p.anchor + (l.n + 1) * INTERVAL * 1000",
    ),
    (
        "an occurrence that was not started",
        "SELECT schedule, n, outcome, reason FROM ledger WHERE outcome <> 0",
    ),
    (
        "an occurrence that has not exactly one run",
        "SELECT l.schedule, l.n, count(r.key) FROM ledger l
         LEFT JOIN runs r ON r.schedule = l.schedule AND r.n = l.n
         GROUP BY l.schedule, l.n HAVING count(r.key) <> 1 OR min(r.key) <> min(l.run)",
    ),
    (
        "a run of no occurrence",
        "SELECT r.key, r.schedule, r.n FROM runs r
         LEFT JOIN ledger l ON l.schedule = r.schedule AND l.n = r.n WHERE l.n IS NULL",
    ),
    (
        "a run that is open and has ended too",
        "SELECT key FROM open_runs JOIN ended_runs USING (key)",
    ),
    (
        "a run that did not succeed and does not say why",
        "SELECT key, status FROM runs WHERE status <> 4 AND error IS NULL",
    ),
    (
        "a run whose steps are not done once each",
        "SELECT r.key, count(s.step) FROM ended_runs r LEFT JOIN DONE s ON true
         WHERE r.status = 4 GROUP BY r.key HAVING count(s.step) <> 1 OR min(s.status) <> 0",
    ),
    (
        // Each attempt has a token of its own; one that was lost with its node is not counted, and
        // has one.
        "a run whose step had more attempts than tokens were given",
        "SELECT r.key, r.state, s.attempts FROM ended_runs r JOIN DONE s ON true
         WHERE (r.state::json->>'t')::integer < s.attempts",
    ),
];

pub(super) fn all(cluster: &Cluster, load: &Load) -> Result<Checked, String> {
    let ask = |sql: &str| {
        let sql = sql.replace("REPEATS", &load.repeats.to_string());
        let sql = sql.replace("INTERVAL", &load.interval.to_string()).replace("DONE", DONE);
        cluster.ask(&format!("SET search_path = punctual; {sql}")).map_err(|why| why.to_string())
    };
    let mut wrong = Vec::new();
    let schedules = ask("SELECT count(*) FROM schedules")?;
    if schedules != load.schedules().to_string() {
        wrong.push(format!("{schedules} schedules instead of {}", load.schedules()));
    }
    for (what, sql) in RULES {
        let found = ask(&format!("{sql} LIMIT 5"))?;
        if !found.is_empty() {
            wrong.push(format!("{what}, for example:\n{found}"));
        }
    }
    let runs = ask("SELECT count(*) || ' (' || count(*) FILTER (WHERE status <> 4)
                    || ' did not succeed)' FROM runs")?;
    let lateness = ask("SELECT array_to_string(percentile_disc(ARRAY[0.5, 0.99, 1])
                        WITHIN GROUP (ORDER BY decided_at - effective), ' / ') FROM ledger")?;
    Ok(Checked { wrong, runs, lateness })
}
