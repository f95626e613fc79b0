//! The example workflows of `punctual demo`.

use std::path::Path;
use std::sync::Arc;

use language::Rules;
use language::definition::{ReadContext, read};

use super::Checked;
use crate::clock;
use crate::failure::Failure;

const TEXTS: [&str; 4] = [
    include_str!("examples/heartbeat.yaml"),
    include_str!("examples/flaky.yaml"),
    include_str!("examples/slow.yaml"),
    include_str!("examples/report.yaml"),
];
/// A placeholder in the examples for the folder that they write to.
const FOLDER: &str = "FOLDER";

/// The definitions of the examples. The examples write their files to `folder`.
pub(super) fn definitions(folder: &Path, rules: &Rules) -> Result<Vec<Checked>, Failure> {
    let folder = serde_json::Value::from(folder.display().to_string()).to_string();
    let context =
        ReadContext { zones: rules.zones(), now: clock::now(), known_calendar: &|_| None };
    let mut checked = Vec::new();
    for text in TEXTS {
        let source = text.replace(FOLDER, &folder);
        let definition = read(&source, &context).map_err(|flaws| {
            let flaws: Vec<String> = flaws.iter().map(ToString::to_string).collect();
            Failure::Environment(format!("{source}\n{}", flaws.join("\n")))
        })?;
        let file = format!("the example {}", definition.name);
        checked.push(Checked { file, source, definition: Arc::new(definition) });
    }
    Ok(checked)
}
