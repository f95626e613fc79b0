//! Reads the node's own folder of definitions, and finds workflows whose file is gone.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use engine::turn::{Command, WorkflowStatus};
use language::Rules;
use language::definition::{Definition, Flaw, ReadContext};
use runners::script::Scripts;
use server::{Form, Hub, Source};
use store::{Store, WorkflowQuery, WorkflowView};

use super::Checked;
use crate::clock;
use crate::document::Document;
use crate::failure::Failure;
use crate::scripts::source_by;
use crate::validate::{is_definition, placed};

/// How many revisions of each workflow are searched for earlier versions of its file. Runs of older
/// revisions have long ended, or are refused until they are retried with the live revision.
const EARLIER: usize = 50;
/// How many workflows one query returns.
const LISTED: usize = 100;

/// The contents of a folder: valid definitions, and the mistakes in other files.
#[derive(Default)]
pub(super) struct Found {
    /// Valid definitions, ready to be published.
    pub(super) checked: Vec<Checked>,
    /// Files without a valid definition.
    pub(super) wrong: Vec<Wrong>,
}

/// A file without a valid definition.
pub(super) struct Wrong {
    /// All its mistakes with their positions.
    told: String,
    /// `None` if it cannot be read, or is a script, which may put together any name.
    text: Option<String>,
}

impl Found {
    /// Logs which files are skipped, and why. The version last published from such a file stays
    /// live.
    pub(super) fn tell_wrong(&self) {
        for Wrong { told: flaws, .. } in &self.wrong {
            tracing::error!(
                "this file is passed over, and what was last published from it stays live:\n{flaws}"
            );
        }
    }

    /// Whether a file that is wrong may be the one of this workflow.
    fn may_be_wrong(&self, name: &str) -> bool {
        self.wrong.iter().any(|file| file.text.as_ref().is_none_or(|text| text.contains(name)))
    }
}

/// Reads the definitions of a folder. A file with mistakes does not keep other files from being
/// read.
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
                found.wrong.push(Wrong { told: failure.to_string(), text: None });
                continue;
            }
        };
        let source = source_by(&document, Some(scripts)).await?;
        match source.and_then(|source| check(&source, &document.name, rules)) {
            Ok(definition) => match names.get(&definition.name) {
                Some(other) => {
                    let (file, name) = (&document.name, &definition.name);
                    let told = format!("{file}: workflow {name} is in {other} too");
                    found.wrong.push(Wrong { told, text: Some(document.text) });
                }
                None => {
                    names.insert(definition.name.clone(), document.name.clone());
                    let (file, source) = (document.name, document.text);
                    let definition = Arc::new(definition);
                    found.checked.push(Checked { file, source, definition });
                }
            },
            Err(flaws) => {
                let flaws: Vec<String> = flaws.iter().map(|flaw| placed(&document, flaw)).collect();
                let text = (document.form() == Form::Text).then_some(document.text);
                found.wrong.push(Wrong { told: flaws.join("\n\n"), text });
            }
        }
    }
    Ok(found)
}

/// The folder's name in the store: its full path, so that it is not confused with another folder.
pub(super) fn name(dir: &Path) -> String {
    dir.canonicalize().unwrap_or_else(|_| dir.to_owned()).display().to_string()
}

/// The definitions that earlier starts of a node published from the folder. Runs end on the version
/// they began with.
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

/// Logs which workflows were published from the folder and no longer have a file in it, and
/// archives them if `prune` is set. Nothing is archived while a file has mistakes, because its
/// workflow is unknown, or while the folder has no definitions. `told` holds the workflows that
/// were logged before, each with whether its file was gone for certain; they are not logged again.
pub(super) async fn tell_gone(
    hub: &Arc<Hub>,
    folder: &str,
    found: &Found,
    prune: bool,
    told: &mut HashSet<(String, bool)>,
) -> Result<(), store::Failure> {
    let known: HashSet<&str> = found.checked.iter().map(|c| &*c.definition.name).collect();
    told.retain(|(name, _)| !known.contains(&**name));
    for view in published(&**hub.store(), folder).await? {
        let name = &view.workflow.name;
        if known.contains(&**name) {
            continue;
        }
        let is_gone = !found.may_be_wrong(name);
        let is_news = told.insert((name.clone(), is_gone));
        match (prune, is_gone) {
            // An empty folder is rather one that is not mounted.
            (true, true) if known.is_empty() && found.wrong.is_empty() => {
                if is_news {
                    tracing::warn!(
                        workflow = name,
                        "the folder {folder} is empty; --prune archives nothing then: `punctual workflow \
                         archive {name}` does"
                    );
                }
            }
            (true, true) if found.wrong.is_empty() => {
                hub.command(Command::ArchiveWorkflow(view.workflow.id), None).await?;
                tracing::warn!(
                    workflow = name,
                    "the file of workflow {name} is gone from {folder}; it was archived"
                );
            }
            _ if !is_news => {}
            (true, true) => tracing::warn!(
                workflow = name,
                "the file of workflow {name} is gone from {folder}; it is archived, as \
                 --prune asks, once all files are right"
            ),
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

/// The definition files, sorted by name.
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
        // A warning about the whole definition, or about a script, has no position in the text.
        let file = match warning.line {
            0 => name.to_owned(),
            line => format!("{name}:{line}:{}", warning.column),
        };
        tracing::warn!(file, "{}", warning.message);
    }
    Ok(definition)
}
