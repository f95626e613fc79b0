//! What publishing a revision stores beside the revision: the schedules of its triggers, its
//! handlers, its topics and their subscribers, its limit and its retention. The live revision
//! declares all of it, so a lost row can be made again by publishing that revision once more.

use std::collections::{BTreeMap, BTreeSet};

use engine::WorkflowId;
use engine::turn::{DeclaredSchedule, declared_schedules};
use jiff::Timestamp;
use language::Rules;
use language::definition::{Definition, Handled, TopicDeclaration, TriggerKind};

use super::{Checks, Finding, Listed};
use crate::codes::sql;
use crate::failure::Failure;
use crate::rows::declaration;

const CODE: &str = "not-as-published";
/// How many workflows are compared at a time.
const AT_ONCE: usize = 500;

/// The next workflows after `$1` with a live revision, and its definition.
const LIVE: &str = "SELECT w.id, v.definition FROM workflows AS w
    JOIN revisions AS v ON v.workflow = w.id AND v.revision = w.live
    WHERE w.id > $1 ORDER BY w.id LIMIT 500";

/// The declarations of the schedules of triggers, of the workflows from `$1` to `$2`.
const DECLARATIONS: &str = "SELECT s.workflow, s.trigger, s.declared FROM schedules AS s
    WHERE s.workflow BETWEEN $1 AND $2 AND s.trigger IS NOT NULL";

/// What is stored of the workflows from `$1` to `$2`, in the words of [`declared`].
const STORED: &str = sql!(
    "SELECT w.id, 'the limit of ' || w.concurrency FROM workflows AS w
      WHERE w.id BETWEEN $1 AND $2 AND w.concurrency IS NOT NULL
    UNION ALL SELECT w.id, 'a retention of ' || w.retention || ' ms' FROM workflows AS w
      WHERE w.id BETWEEN $1 AND $2 AND w.retention IS NOT NULL
    UNION ALL SELECT s.workflow, 'the schedule of ' || s.trigger FROM schedules AS s
      WHERE s.workflow BETWEEN $1 AND $2 AND s.trigger IS NOT NULL
    UNION ALL SELECT h.workflow,
        CASE h.kind WHEN {consumer} THEN 'the consumer ' ELSE 'the producer ' END || h.name
      FROM handlers AS h WHERE h.workflow BETWEEN $1 AND $2
    UNION ALL SELECT t.workflow, 'the topic ' || t.name || ' of ' || t.max_attempts || ' attempts' FROM topics AS t
      WHERE t.workflow BETWEEN $1 AND $2
    UNION ALL SELECT x.workflow, 'the subscription of ' ||
        CASE x.handler WHEN 0 THEN 'its triggers' ELSE 'consumer ' || coalesce(h.name, '?') END ||
        CASE WHEN t.workflow IS NULL THEN ' to the shared topic ' ELSE ' to the topic ' END ||
        coalesce(t.name, '?')
      FROM subscriptions AS x LEFT JOIN topics AS t ON t.id = x.topic
        LEFT JOIN handlers AS h ON h.id = x.handler
      WHERE x.workflow BETWEEN $1 AND $2"
);

/// What publishing this revision stores beside it, a line for each row or value. Names of its own
/// topics are apart: a topic that a later revision no longer declares stays, with its events.
fn declared(definition: &Definition) -> (BTreeSet<String>, BTreeSet<String>) {
    let mut lines = BTreeSet::new();
    lines.extend(definition.concurrency.map(|limit| format!("the limit of {limit}")));
    let retention = definition.retention.map(|kept| kept.as_millis());
    lines.extend(retention.map(|kept| format!("a retention of {kept} ms")));
    let scheduled = definition.triggers.iter().filter(|one| definition.declaration(one).is_some());
    lines.extend(scheduled.map(|trigger| format!("the schedule of {}", trigger.id)));
    let subscription = |who: &str, topic: &TopicDeclaration| {
        let kind = if topic.shared { "shared topic" } else { "topic" };
        format!("the subscription of {who} to the {kind} {}", topic.name)
    };
    for handled in definition.handled() {
        match handled {
            Handled::Producer(producer) => {
                lines.insert(format!("the producer {}", producer.name));
                lines.insert(format!("the schedule of {}", producer.declares()));
            }
            Handled::Consumer(consumer) => {
                lines.insert(format!("the consumer {}", consumer.name));
                let who = format!("consumer {}", consumer.name);
                let topics = consumer.subscribe.iter().filter_map(|name| definition.topic(name));
                lines.extend(topics.map(|topic| subscription(&who, topic)));
            }
        }
    }
    for trigger in &definition.triggers {
        let TriggerKind::Event { topic, .. } = &trigger.kind else { continue };
        lines.extend(definition.topic(topic).map(|topic| subscription("its triggers", topic)));
    }
    let own = definition.topics.iter().filter(|topic| !topic.shared);
    (lines, own.map(topic_line).collect())
}

fn topic_line(topic: &TopicDeclaration) -> String {
    format!("the topic {} of {} attempts", topic.name, topic.max_attempts)
}

/// The sentences about what is stored of a workflow and not declared, or the other way round.
fn differences(definition: &Definition, stored: &BTreeSet<String>) -> Vec<String> {
    let (lines, topics) = declared(definition);
    let name = &definition.name;
    let lost = lines.iter().chain(&topics).filter(|line| !stored.contains(*line));
    let lost = lost.map(|line| format!("workflow {name} has lost {line}, as published"));
    let added = stored.difference(&lines).filter(|line| !line.starts_with("the topic "));
    let added = added.map(|line| format!("workflow {name} has {line}, which was not published"));
    lost.chain(added).collect()
}

/// Sentences about schedules of triggers that are not declared as the live revision does. Nothing
/// but publishing changes them.
fn changed_schedules(
    definition: &Definition,
    stored: &BTreeMap<String, String>,
    rules: &Rules,
    now: Timestamp,
) -> Vec<String> {
    // What a revision declares can have become impossible, if a calendar is gone: another finding.
    let Ok(declared) = declared_schedules(definition, rules, now) else { return Vec::new() };
    // A stored declaration that cannot be read is another finding, too.
    let changed = declared.iter().filter(|one| {
        let stored = stored.get(&one.by.to_string());
        let stored = stored.and_then(|text| declaration(text).ok());
        stored.is_some_and(|stored| stored != *one.declared)
    });
    let sentence = |one: &DeclaredSchedule| {
        format!("workflow {}: the schedule of {} is not as published", definition.name, one.by)
    };
    changed.map(sentence).collect()
}

/// Workflows with a live revision, and what is stored of them.
struct Page {
    /// The ids and the texts of the definitions.
    live: Vec<(i64, String)>,
    lines: BTreeMap<i64, BTreeSet<String>>,
    /// By the workflow and by what declares the schedule.
    schedules: BTreeMap<i64, BTreeMap<String, String>>,
}

impl Page {
    fn read(store: &mut impl Checks, after: i64) -> Result<Page, Failure> {
        let live: Vec<(i64, String)> = store.select(LIVE, &[after])?;
        let mut page = Page { live, lines: BTreeMap::new(), schedules: BTreeMap::new() };
        let (Some((first, _)), Some((last, _))) = (page.live.first(), page.live.last()) else {
            return Ok(page);
        };
        let range = [*first, *last];
        for (workflow, line) in store.select::<(i64, String)>(STORED, &range)? {
            page.lines.entry(workflow).or_default().insert(line);
        }
        for (workflow, by, declared) in
            store.select::<(i64, String, String)>(DECLARATIONS, &range)?
        {
            page.schedules.entry(workflow).or_default().insert(by, declared);
        }
        Ok(page)
    }
}

/// Compares every workflow with its live revision. With `repair`, publishes that revision again
/// where they differ.
pub(super) fn check(
    store: &mut impl Checks,
    now: Timestamp,
    repair: bool,
) -> Result<Vec<Finding>, Failure> {
    let (mut listed, mut findings) = (Listed::new(CODE), Vec::new());
    let (rules, mut after) = (store.rules(), i64::MIN);
    loop {
        let mut page = Page::read(store, after)?;
        for (workflow, definition) in &page.live {
            after = *workflow;
            // A definition that cannot be read is another finding.
            let Ok(definition) = serde_json::from_str::<Definition>(definition) else { continue };
            let lines = page.lines.remove(workflow).unwrap_or_default();
            let schedules = page.schedules.remove(workflow).unwrap_or_default();
            let mut differing = differences(&definition, &lines);
            differing.extend(changed_schedules(&definition, &schedules, &rules, now));
            if differing.is_empty() {
                continue;
            }
            differing.into_iter().for_each(|message| listed.add(|| message));
            if repair && let Err(failure) = store.publish_again(WorkflowId(*workflow), now) {
                let name = &definition.name;
                let message = format!("workflow {name} cannot be published again: {failure}");
                findings.push(Finding::new(CODE, message));
            }
        }
        if page.live.len() < AT_ONCE {
            break;
        }
    }
    let is_mended = repair && findings.is_empty();
    findings.splice(0..0, listed.findings(true, is_mended));
    Ok(findings)
}
