//! The node's own definitions.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use engine::turn::{Command, WorkflowStatus};
use language::Rules;
use language::definition::{Definition, Flaw, ReadContext};
use runners::script::Scripts;
use server::{Hub, Source};
use store::{Store, WorkflowQuery, WorkflowView};

use super::Checked;
use crate::clock;
use crate::document::Document;
use crate::failure::Failure;
use crate::scripts::source_by;
use crate::validate::{is_definition, placed};

/// Revisions of each workflow that are looked through for earlier versions of its file. What began before them has
/// long ended, or is refused until it is tried again with the live one.
const EARLIER: usize = 50;
/// Workflows that are read at a time.
const LISTED: usize = 100;

/// What a folder has: definitions that are right, and what is wrong with other files.
#[derive(Default)]
pub(super) struct Found {
    /// Each may be published.
    pub(super) checked: Vec<Checked>,
    /// For each file that has no definition, all that is wrong with it, with places.
    pub(super) wrong: Vec<String>,
}

impl Found {
    /// Says which files are passed over, and why. What was published from them before stays live.
    pub(super) fn tell_wrong(&self) {
        for flaws in &self.wrong {
            tracing::error!(
                "this file is passed over, and what was last published from it stays live:\n{flaws}"
            );
        }
    }
}

/// Reads the definitions of a folder. A file that is wrong keeps no other from being read.
pub(super) async fn definitions(
    dir: &Path,
    rules: &Rules,
    scripts: &Scripts,
) -> Result<Found, Failure> {
    let mut found = Found::default();
    let mut names: HashMap<String, String> = HashMap::new();
    for path in files(dir)? {
        let document = match Document::read(&path) {
            Ok(document) => document,
            Err(failure) => {
                found.wrong.push(failure.to_string());
                continue;
            }
        };
        let source = source_by(&document, Some(scripts)).await?;
        match source.and_then(|source| check(&source, &document.name, rules)) {
            Ok(definition) => match names.get(&definition.name) {
                Some(other) => {
                    let (file, name) = (&document.name, &definition.name);
                    found.wrong.push(format!("{file}: workflow {name} is in {other} too"));
                }
                None => {
                    names.insert(definition.name.clone(), document.name);
                    let definition = Arc::new(definition);
                    found.checked.push(Checked { source: document.text, definition });
                }
            },
            Err(flaws) => {
                let flaws: Vec<String> = flaws.iter().map(|flaw| placed(&document, flaw)).collect();
                found.wrong.push(flaws.join("\n\n"));
            }
        }
    }
    Ok(found)
}

/// What a folder is called in the store: its whole path, so that other folders are not taken for it.
pub(super) fn name(dir: &Path) -> String {
    dir.canonicalize().unwrap_or_else(|_| dir.to_owned()).display().to_string()
}

/// What was published from the folder in earlier lives of a node: runs end on the version they began with.
pub(super) async fn earlier(
    store: &dyn Store,
    folder: &str,
) -> Result<Vec<Arc<Definition>>, store::Failure> {
    let mut definitions = Vec::new();
    for live in published(store, folder).await? {
        let newest = live.workflow.newest;
        for revision in (1..=newest).rev().take(EARLIER) {
            let view = store.workflow(&live.workflow.id.to_string(), Some(revision)).await?;
            let own = view.filter(|view| view.folder.as_deref() == Some(folder));
            definitions.extend(own.map(|view| view.definition));
        }
    }
    Ok(definitions)
}

/// The workflows whose live version was published from the folder.
async fn published(store: &dyn Store, folder: &str) -> Result<Vec<WorkflowView>, store::Failure> {
    let mut found = Vec::new();
    let mut after = None;
    loop {
        let query = WorkflowQuery { search: None, limit: LISTED, after, hides_system: true };
        let page = store.workflows(query).await?;
        let own = |view: &WorkflowView| {
            view.workflow.status == WorkflowStatus::Published
                && view.folder.as_deref() == Some(folder)
        };
        found.extend(page.items.into_iter().filter(own));
        after = page.next;
        if after.is_none() {
            return Ok(found);
        }
    }
}

/// Says which workflows were published from the folder and have no file in it any more, and archives them if asked.
/// While a file is wrong nobody knows which workflow it is of, and nothing is archived.
pub(super) async fn tell_gone(
    hub: &Arc<Hub>,
    folder: &str,
    found: &Found,
    prune: bool,
) -> Result<(), store::Failure> {
    let known: HashSet<&str> = found.checked.iter().map(|c| &*c.definition.name).collect();
    for view in published(&**hub.store(), folder).await? {
        let name = &view.workflow.name;
        if known.contains(&**name) {
            continue;
        }
        match (prune, found.wrong.is_empty()) {
            (true, true) => {
                hub.command(Command::ArchiveWorkflow(view.workflow.id), None).await?;
                tracing::warn!(
                    workflow = name,
                    "the file of workflow {name} is gone from {folder}; it was archived"
                );
            }
            (true, false) => tracing::warn!(
                workflow = name,
                "workflow {name} has no file in {folder}, or one that is wrong; it is not archived while files are wrong"
            ),
            (false, true) => tracing::warn!(
                workflow = name,
                "the file of workflow {name} is gone from {folder}; it stays published until `punctual workflow \
                 archive {name}`, or a start with --prune"
            ),
            (false, false) => tracing::warn!(
                workflow = name,
                "workflow {name} has no file in {folder}, or one that is wrong; its last version stays published"
            ),
        }
    }
    Ok(())
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
        // What concerns the whole, or a script, has no place in the text.
        let file = match warning.line {
            0 => name.to_owned(),
            line => format!("{name}:{line}:{}", warning.column),
        };
        tracing::warn!(file, "{}", warning.message);
    }
    Ok(definition)
}
