//! Compares known answers with those of `punctual calc`.

use serde_json::{Value, json};

use crate::{calc, shared_vectors};

const FILES: [&str; 10] = [
    "cron_ordinary",
    "cron_calendar",
    "cron_dst_rule",
    "cron_rules",
    "rrule",
    "worktime",
    "holidays",
    "interval",
    "tz",
    "tz_update_2025b_to_2026f",
];
/// Fields that hold answers or their origin, and are not part of the question.
const ANSWERS: [&str; 7] =
    ["expected", "agree", "differ", "missed", "next_after_up", "old_instant", "new_instant"];

/// Our answer where a vector leaves the choice to the dialect.
fn decided(row: &Value) -> Value {
    match (row["expected"].as_str(), row["expr"].as_str()) {
        (Some("accept-as-0-or-reject"), _) => json!("reject"),
        (Some("dialect"), Some("0 0 * * *\n")) => json!("accept"),
        _ if row["kind"] == "tz_update" => {
            json!({"new_instant": row["new_instant"], "new_tzdb": row["new_tzdb"]})
        }
        _ => row["expected"].clone(),
    }
}

fn check(name: &str, text: &str) -> usize {
    let rows: Vec<Value> =
        text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let questions: Vec<String> = rows
        .iter()
        .map(|row| {
            let mut question = row.clone();
            let fields = question.as_object_mut().expect("an object");
            fields.retain(|field, _| !ANSWERS.contains(&field.as_str()));
            question.to_string()
        })
        .collect();
    let answers = calc(&(questions.join("\n") + "\n"));
    assert_eq!(answers.len(), rows.len(), "{name}: one answer for each question");
    let wrong: Vec<String> = rows
        .iter()
        .zip(&answers)
        .filter(|(row, answer)| answer["result"] != decided(row) || answer["id"] != row["id"])
        .map(|(row, answer)| format!("{row}\n  answered {answer}"))
        .collect();
    assert!(wrong.is_empty(), "{name}: {} wrong\n{}", wrong.len(), wrong.join("\n"));
    rows.len()
}

#[test]
fn the_copies_in_this_repository() {
    assert!(check("copies", include_str!("../data/vectors.jsonl")) > 300);
}

#[test]
fn all_shared_vectors() {
    let Some(folder) = shared_vectors() else { return };
    for name in FILES {
        let path = folder.join(format!("{name}.jsonl"));
        let text = std::fs::read_to_string(&path).expect("the file is there");
        assert!(check(name, &text) > 0);
    }
}
