//! Damage done to a store by hand: what `check` finds, and that everything goes on after a repair.

use engine::ScheduleId;
use engine::schedule::OverrideAction;
use engine::turn::Command;
use store::{Failure, Finding};

use crate::world::{Place, World, minute};

/// What becomes of a damage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum After {
    /// The repair leaves nothing wrong.
    Clean,
    /// The finding is repaired; what was lost with it is reported, and stays lost.
    Mended,
    /// The finding says what a person can do.
    Told,
}

pub(crate) use After::{Clean, Mended, Told};

/// The store that is damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Store {
    /// A schedule that has had five occurrences, the fifth of which is running.
    History,
    /// See [`World::waiting`].
    Waiting,
    /// See [`World::topical`].
    Topical,
    /// A workflow that declares everything that publishing makes rows of.
    Published,
}

pub(crate) use Store::{History, Published, Topical, Waiting};

/// One kind of damage. In `sql`, `{open}` and `{ended}` are the tables of open and ended runs, and
/// `{bytes}`, `{yes}` and `{no}` are values.
pub(crate) struct Damage {
    store: Store,
    sql: &'static str,
    /// The code that `check` must report.
    code: &'static str,
    after: After,
    /// Whether the schedule runs as declared afterwards.
    goes_on: bool,
}

pub(crate) const fn damage(
    store: Store,
    sql: &'static str,
    code: &'static str,
    after: After,
) -> Damage {
    Damage { store, sql, code, after, goes_on: false }
}

/// Damage after which the schedule goes on, repaired or not.
pub(crate) const fn history(sql: &'static str, code: &'static str, after: After) -> Damage {
    Damage { store: History, sql, code, after, goes_on: true }
}

/// Damage to what publishing made, all of which is made again.
const fn published(sql: &'static str) -> Damage {
    damage(Published, sql, "not-as-published", Clean)
}

const FAR: &str =
    "UPDATE progress SET next_nominal = 4102444800000, next_effective = 4102444800000";

/// Damages that are the same in every store.
pub(crate) const DAMAGES: [Damage; 97] = [
    // The progress of a schedule.
    history("UPDATE progress SET n = 1", "schedule-number", Clean),
    history("UPDATE progress SET n = 0", "schedule-number", Clean),
    history("UPDATE progress SET mark = 0", "schedule-mark", Clean),
    history("UPDATE progress SET mark = 4102444800000", "schedule-mark", Clean),
    history("UPDATE progress SET mark = mark + 31536000000", "schedule-mark", Clean),
    // Within what a wrong clock may do, but the next time tells otherwise, or is missing.
    history("UPDATE progress SET mark = mark + 86400000", "schedule-mark", Clean),
    history("UPDATE progress SET mark = mark + 2592000000", "schedule-mark", Clean),
    history(
        "UPDATE progress SET mark = mark + 2592000000, next_nominal = NULL, next_effective = NULL,
           live = NULL",
        "schedule-mark",
        Clean,
    ),
    history(
        "UPDATE progress SET mark = mark + 31536000000, next_nominal = next_nominal + 31536000000,
           next_effective = next_effective + 31536000000",
        "schedule-mark",
        Clean,
    ),
    history(FAR, "schedule-next-time", Clean),
    history(
        "UPDATE progress SET next_nominal = 0, next_effective = 0",
        "schedule-next-time",
        Clean,
    ),
    history(
        "UPDATE progress SET next_nominal = NULL, next_effective = NULL, live = NULL",
        "schedule-without-next-time",
        Clean,
    ),
    history(
        "UPDATE progress SET next_nominal = NULL, next_effective = NULL",
        "schedule-next-time",
        Clean,
    ),
    history("DELETE FROM {open} WHERE n IS NOT NULL", "schedule-waits-for-nothing", Mended),
    history("DELETE FROM {open} WHERE n IS NOT NULL", "run-gone", Told),
    history("UPDATE progress SET has_overrides = {no}", "schedule-overrides", Clean),
    history("DELETE FROM overrides", "schedule-overrides", Clean),
    // Search words and counts.
    history("UPDATE schedules SET calendar = 'nothing'", "schedule-calendar", Clean),
    history("DELETE FROM words", "schedule-words", Clean),
    history("UPDATE words SET word = 'other' WHERE word = 'hour'", "schedule-words", Clean),
    history("INSERT INTO words (word, schedule) VALUES ('x', 999)", "words-of-nothing", Clean),
    history(
        "INSERT INTO overrides (schedule, nominal, action, by) VALUES (999, 0, '\"skip\"', 'x')",
        "override-of-nothing",
        Clean,
    ),
    history("UPDATE schedule_counts SET workflow = 77 WHERE workflow <> 0", "counts", Clean),
    history("UPDATE schedule_counts SET count = count + 1", "counts", Clean),
    history("UPDATE schedule_blocks SET count = count + 1", "block-counts", Clean),
    // Missing history.
    history("DELETE FROM {ended} WHERE n = 2", "run-gone", Told),
    history("DELETE FROM {ended} WHERE n IS NOT NULL", "run-gone", Told),
    history("DELETE FROM ledger WHERE n = 2", "ledger-gap", Told),
    history("DELETE FROM ledger WHERE n = 2", "run-without-occurrence", Told),
    history("DELETE FROM ledger WHERE n = 4", "ledger-gap", Told),
    history("DELETE FROM ledger", "run-without-occurrence", Told),
    damage(History, "UPDATE ledger SET outcome = 99 WHERE n = 1", "ledger-outcome", Told),
    history("UPDATE ledger SET count = 0 WHERE n = 1", "ledger-outcome", Told),
    history("UPDATE ledger SET run = NULL WHERE n = 1", "occurrence-without-run", Told),
    history("UPDATE {ended} SET ended_at = NULL", "run-without-end", Clean),
    history("UPDATE progress SET run_count = 1", "schedule-runs", Clean),
    history("UPDATE progress SET run_count = 999", "schedule-runs", Clean),
    history("UPDATE progress SET current_repeat = 50", "schedule-repeats", Clean),
    // Rows that belong to nothing.
    history(
        "INSERT INTO steps (run, step, item, status, attempts, started_at, ended_at, overdue)
         VALUES (999999, 0, 0, 0, 1, 0, 0, {no})",
        "step-of-nothing",
        Clean,
    ),
    history(
        "INSERT INTO attempts (run, step, item, started_at, attempt, status, ended_at)
         VALUES (999999, 0, 0, 0, 1, 0, 0)",
        "attempt-of-nothing",
        Clean,
    ),
    history(
        "INSERT INTO alerts (run, step, action, at, due, happened_at, started)
         VALUES (999999, 0, 0, 0, 0, 0, '[]')",
        "alert-of-nothing",
        Clean,
    ),
    history(
        "INSERT INTO mutations (run, workflow, handler, status, started_at, updated_at)
         VALUES (999999, 1, 'h', 0, 0, 0)",
        "mutation-of-nothing",
        Clean,
    ),
    history("UPDATE progress SET incident = 999999", "incident-of-nothing", Told),
    history("UPDATE workflows SET incident = 999999", "incident-of-nothing", Clean),
    history(
        "INSERT INTO incidents (key, workflow, error, began_at, told) VALUES (9, 1, 'e', 0, '[]')",
        "incident-left-open",
        Clean,
    ),
    history(
        "INSERT INTO incidents (key, workflow, error, began_at, told, ending, ended_at)
         VALUES (9, 1, 'e', 0, '{', 0, 0)",
        "incident-unreadable",
        Told,
    ),
    history(
        "INSERT INTO sign_ins (hash, token, created_at, expires_at) VALUES ({bytes}, 999, 0, 0)",
        "sign-in-of-nothing",
        Clean,
    ),
    // A row holds JSON or a status that the engine cannot read.
    damage(History, "UPDATE schedules SET declared = '{'", "schedule-unreadable", Told),
    damage(History, "UPDATE schedules SET declared = '{\"a\": 1}'", "schedule-unreadable", Told),
    damage(History, "UPDATE progress SET live = '['", "schedule-unreadable", Told),
    damage(History, "UPDATE schedules SET status = 9", "schedule-unreadable", Told),
    history("UPDATE {ended} SET state = '{' WHERE n = 1", "run-unreadable", Told),
    damage(History, "UPDATE {open} SET state = '{'", "run-unreadable", Told),
    damage(History, "UPDATE revisions SET definition = '{'", "version-unreadable", Told),
    damage(History, "UPDATE workflows SET status = 9", "workflow-unreadable", Told),
    damage(History, "UPDATE overrides SET action = '{'", "override-unreadable", Told),
    history("INSERT INTO calendars (id, spec) VALUES ('c', '{')", "calendar-unreadable", Told),
    history(
        "INSERT INTO calendars (id, spec) VALUES ('c', '{\"id\": \"c\", \"timezone\": \"Mars/X\"}')",
        "calendar-unreadable",
        Told,
    ),
    history(
        "INSERT INTO idempotency (key, fingerprint, answer, created_at)
         VALUES ('k', {bytes}, '{', 0)",
        "answer-unreadable",
        Told,
    ),
    history(
        "INSERT INTO set_aside (kind, id, reason, at) VALUES (1, 1, 'by hand', 0)",
        "set-aside",
        Clean,
    ),
    damage(
        History,
        "UPDATE schedules SET declared = '{';
         INSERT INTO set_aside (kind, id, reason, at) VALUES (1, 1, 'unreadable', 0)",
        "set-aside",
        Told,
    ),
    // Rows of workflows.
    damage(History, "DELETE FROM workflows", "schedule-without-workflow", Told),
    damage(History, "DELETE FROM workflows", "version-of-nothing", Told),
    damage(History, "DELETE FROM workflows", "run-without-workflow", Told),
    damage(History, "DELETE FROM revisions", "workflow-without-version", Told),
    damage(History, "DELETE FROM revisions", "run-without-version", Told),
    // A table, column or index is missing from the schema.
    history("DROP INDEX schedules_by_trigger", "schema", Clean),
    damage(History, "DROP TABLE alerts", "schema", Told),
    damage(History, "ALTER TABLE workflows DROP COLUMN retention", "schema", Told),
    // A child run, or the run that started it, is missing.
    damage(Waiting, "DELETE FROM {open} WHERE parent IS NOT NULL", "child-gone", Told),
    damage(
        Waiting,
        "DELETE FROM {open} WHERE key IN (SELECT parent FROM {open} WHERE parent IS NOT NULL)",
        "parent-gone",
        Told,
    ),
    damage(
        Waiting,
        "UPDATE {open} SET parent_token = parent_token + 1 WHERE parent IS NOT NULL",
        "child-of-other",
        Clean,
    ),
    damage(Waiting, "UPDATE approvals SET assignees = 'x{'", "approval-unreadable", Told),
    damage(
        Waiting,
        "UPDATE approvals SET asked_at = 9223372036854775807",
        "approval-unreadable",
        Told,
    ),
    // Counts of what happened.
    history("UPDATE tallies SET kind = kind + 60", "tally", Clean),
    history("UPDATE tallies SET count = -1", "tally", Clean),
    history("UPDATE tallies SET minute = minute + 9000000000000", "tally", Clean),
    // Handlers.
    damage(Topical, "DELETE FROM workflows WHERE name = 'works'", "handler-without-workflow", Told),
    damage(Topical, "UPDATE handlers SET state = '{'", "handler-unreadable", Told),
    // Rows that publishing made are lost or changed.
    published("DELETE FROM subscriptions"),
    published("DELETE FROM subscriptions WHERE handler = 0"),
    published("DELETE FROM subscriptions WHERE handler <> 0"),
    published("DELETE FROM handlers"),
    published("DELETE FROM handlers WHERE name = 'c'"),
    published("UPDATE handlers SET name = 'other' WHERE name = 'c'"),
    published("DELETE FROM topics"),
    published("DELETE FROM schedules; DELETE FROM progress"),
    published("UPDATE schedules SET trigger = 'other' WHERE trigger = 'hourly'"),
    published("UPDATE schedules SET trigger = NULL WHERE trigger = 'producers.p'"),
    published("UPDATE workflows SET concurrency = NULL"),
    published("UPDATE workflows SET concurrency = 9"),
    published("UPDATE workflows SET retention = 1"),
    published("UPDATE workflows SET retention = NULL"),
    published("UPDATE topics SET max_attempts = 99"),
    published("UPDATE schedules SET declared = replace(declared, '1h', '7h')"),
    damage(Published, "UPDATE workflows SET live = NULL", "published-without-version", Told),
    history("UPDATE progress SET last_outcome = 99", "schedule-outcome", Clean),
];

/// Does each damage to a store of its own.
pub(crate) async fn each(damages: &[Damage], new_place: impl Fn() -> Box<dyn Place>) {
    for damage in damages {
        one(damage, new_place()).await;
    }
}

async fn one(damage: &Damage, place: Box<dyn Place>) {
    let Damage { store, sql, code, after, goes_on } = damage;
    let mut world = match store {
        History => with_history(place).await,
        Waiting => World::waiting(place).await,
        Topical => World::topical(place).await,
        Published => with_all_declared(place).await,
    };
    assert_eq!(world.store().check(minute(305), false).await.unwrap(), [], "before {sql}");
    world.close();
    world.place().execute(sql.to_string()).await;
    world.open().await;
    let found = world.store().check(minute(305), false).await.unwrap();
    assert!(has(&found, code), "{sql}: {found:#?}");
    assert!(found.iter().all(|finding| !finding.repaired), "{sql}: {found:#?}");
    let mended = world.store().check(minute(305), true).await.unwrap();
    let is_mended = mended.iter().any(|finding| finding.code == *code && finding.repaired);
    assert_eq!(is_mended, *after != Told, "{sql}: {mended:#?}");
    let left = world.store().check(minute(305), false).await.unwrap();
    match after {
        Clean => assert_eq!(left, [], "{sql}"),
        Mended => assert!(!has(&left, code), "{sql}: {left:#?}"),
        Told => assert!(has(&left, code), "{sql}: {left:#?}"),
    }
    if *goes_on {
        runs_as_declared(&mut world, sql).await;
    }
}

/// Topics that are made again are new ones: they do not get the events of those that were lost,
/// which may have been of other workflows.
pub(crate) async fn lost_topics_leave_no_events_to_others(place: Box<dyn Place>) {
    let mut world = World::new(place).await;
    // The first workflow gets its topic last.
    world.publish(0, "name: a\nsteps: [{id: s, type: noop}]").await;
    for (at, name, topic) in [(1, "b", "pay"), (2, "a", "refund")] {
        let text = format!(
            "name: {name}\ntopics: [{topic}]\n\
             consumers: {{c: {{subscribe: [{topic}], prepare: {{type: worker, queue: q}}}}}}"
        );
        world.publish(at, &text).await;
    }
    world.tell(3, "pay", &["x"]).await;
    world.close();
    world.place().execute("DELETE FROM topics".to_owned()).await;
    world.open().await;
    let mended = world.store().check(minute(305), true).await.unwrap();
    assert!(has(&mended, "not-as-published"), "{mended:#?}");
    for topic in ["pay", "refund"] {
        assert_eq!(world.events(topic).await, [] as [String; 0], "{topic}");
    }
    let left = world.store().check(minute(305), false).await.unwrap();
    assert!(has(&left, "event-without-topic"), "{left:#?}");
}

/// An occurrence that is damaged to have two runs, here by `twice`, has succeeded once.
pub(crate) async fn an_occurrence_with_two_runs_counts_once(twice: &str, place: Box<dyn Place>) {
    let mut world = with_history(place).await;
    world.close();
    world.place().execute(twice.to_owned()).await;
    world.open().await;
    for repair in [false, true, false] {
        let found = world.store().check(minute(305), repair).await.unwrap();
        assert!(has(&found, "occurrence-with-two-runs"), "{found:#?}");
        assert!(!has(&found, "schedule-runs"), "{found:#?}");
    }
}

/// No node joins a store without a unique index that keeps occurrences from running twice, until it
/// is repaired.
pub(crate) async fn nobody_joins_without(index: &str, place: Box<dyn Place>) {
    let mut world = World::busy(place).await;
    world.close();
    world.place().execute(format!("DROP INDEX {index}")).await;
    let store = world.place().open().await.unwrap();
    let moment = engine::Moment::new(minute(60), minute(60));
    let Err(Failure::Unusable { what, remedy }) = store.join("node", moment).await else {
        panic!("it joins without {index}");
    };
    assert!(what.contains(index), "{what}");
    assert!(remedy.contains("punctual doctor --repair"), "{remedy}");
    store.check(minute(60), true).await.unwrap();
    store.join("node", moment).await.unwrap();
}

fn has(found: &[Finding], code: &str) -> bool {
    found.iter().any(|finding| finding.code == code)
}

/// A store with a schedule that has had five occurrences, one an hour, and an override of a later
/// one.
async fn with_history(place: Box<dyn Place>) -> World {
    let mut world = World::new(place).await;
    let plain = world.workflow("plain").await;
    let id = world.schedule(plain, r#"{"name": "every hour", "interval": "1h"}"#).await;
    world.start(0, plain).await.unwrap();
    for hour in 1..=4 {
        world.settle(60 * hour).await;
    }
    let (nominal, action) = (minute(24 * 60), Some(OverrideAction::Skip));
    world.command(250, Command::Override { id, nominal, action, by: "ada".to_owned() }).await;
    // The fifth occurrence is running.
    world.turn(300).await;
    world
}

const ALL_DECLARED: &str = "
name: declares
concurrency: 2
retention: 40d
topics: [t, {name: everyones, shared: true}]
triggers:
  - {id: hourly, type: schedule, interval: 1h}
  - {id: off, type: schedule, interval: 1d, enabled: false}
  - {id: told, type: event, topic: t}
  - {id: told-all, type: event, topic: everyones}
producers: {p: {schedule: {interval: 10m}, publishes: t, handler: {type: worker, queue: q}}}
consumers: {c: {subscribe: [t], prepare: {type: worker, queue: q}}}
steps: [{id: a, type: noop}]
";

async fn with_all_declared(place: Box<dyn Place>) -> World {
    let world = World::new(place).await;
    world.publish(0, ALL_DECLARED).await;
    world
}

/// Checks that two more occurrences come, and that each of them runs.
async fn runs_as_declared(world: &mut World, sql: &str) {
    world.join(305).await;
    world.settle(306).await;
    let id = ScheduleId(1);
    let next = world.next(id).await;
    assert!(next.is_some_and(|next| next <= 360), "{sql}: next is at minute {next:?}");
    for hour in [6, 7] {
        world.settle(60 * hour).await;
        let last = world.ledger(id).await.pop();
        let started = format!("started {}", 60 * hour);
        assert!(last.as_ref().is_some_and(|row| row.ends_with(&started)), "{sql}: {last:?}");
    }
}
