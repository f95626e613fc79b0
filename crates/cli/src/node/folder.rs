//! The node's own definitions.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use engine::Rules;
use engine::definition::{Definition, Flaw, ReadContext};
use runners::script::Scripts;
use server::Source;

use super::Checked;
use crate::clock;
use crate::document::Document;
use crate::failure::Failure;
use crate::scripts::source_by;
use crate::validate::{is_definition, placed};

/// Reads all definitions of a folder, or tells everything that is wrong with any of them.
pub(super) async fn definitions(
    dir: &Path,
    rules: &Rules,
    scripts: &Scripts,
) -> Result<Vec<Checked>, Failure> {
    let mut checked = Vec::new();
    let mut wrong = Vec::new();
    let mut names: HashMap<String, String> = HashMap::new();
    for path in files(dir)? {
        let document = Document::read(&path)?;
        let source = source_by(&document, Some(scripts)).await?;
        match source.and_then(|source| check(&source, &document.name, rules)) {
            Ok(definition) => {
                let known = names.insert(definition.name.clone(), document.name.clone());
                if let Some(other) = known {
                    let name = &definition.name;
                    wrong.push(format!("{}: workflow {name} is in {other} too", document.name));
                }
                checked.push(Checked { source: document.text, definition: Arc::new(definition) });
            }
            Err(flaws) => wrong.extend(flaws.iter().map(|flaw| placed(&document, flaw))),
        }
    }
    if wrong.is_empty() { Ok(checked) } else { Err(Failure::Mistake(wrong.join("\n\n"))) }
}

/// In the order of their names.
fn files(dir: &Path) -> Result<Vec<PathBuf>, Failure> {
    let fail = |error: std::io::Error| {
        Failure::Environment(format!(
            "{}: {error}\n  try: a folder with definitions",
            dir.display()
        ))
    };
    let entries = fs::read_dir(dir).map_err(fail)?;
    let paths = entries.map(|entry| entry.map(|entry| entry.path()));
    let mut paths = paths.collect::<Result<Vec<PathBuf>, _>>().map_err(fail)?;
    paths.retain(|path| is_definition(path));
    paths.sort();
    if paths.is_empty() {
        tracing::warn!(folder = %dir.display(), "no definitions (*.yaml, *.yml, *.json, *.js) in it");
    }
    Ok(paths)
}

fn check(source: &Source<'_>, name: &str, rules: &Rules) -> Result<Definition, Vec<Flaw>> {
    let find = |id: &str| rules.calendar(id).cloned();
    let context = ReadContext { zones: rules.zones(), now: clock::now(), known_calendar: &find };
    let (definition, warnings) = source.read(&context)?;
    for warning in warnings {
        let file = format!("{name}:{}:{}", warning.line, warning.column);
        tracing::warn!(file, "{}", warning.message);
    }
    Ok(definition)
}
