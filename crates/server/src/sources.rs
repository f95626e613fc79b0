//! Workflow definitions as people write them: YAML, JSON, or a script that describes one.

use std::collections::BTreeMap;

use futures_util::future::{BoxFuture, FutureExt as _};
use jiff::Timestamp;
use language::definition::{self, Definition, Flaw, ReadContext};
use runners::script::{
    Entry, Evaluation, FetchAnswer, FetchRequest, Permits, ScriptFailure, ScriptWorld, Scripts,
    WorldFailure,
};
use serde_json::Value;

use crate::scripts::syntax;

/// The longest line that is quoted beside an error in it.
const SHOWN: usize = 200;

/// The language in which a definition is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// The source is YAML or JSON.
    Text,
    /// JavaScript: a module whose default export is the definition.
    Script,
}

/// The text of a definition, and the result of evaluating it if it is a script.
#[derive(Clone, Debug)]
pub struct Source<'t> {
    text: &'t str,
    /// The script's default export; `None` for YAML and JSON.
    described: Option<Value>,
    /// Errors in the scripts that the definition contains.
    script_flaws: Vec<Flaw>,
}

/// Why a text does not describe a definition.
#[derive(Clone, Debug)]
pub enum SourceError {
    /// The script has errors.
    Flaws(Vec<Flaw>),
    /// This node has no script sandbox, or it cannot be used now.
    Unavailable(String),
}

impl<'t> Source<'t> {
    /// Evaluates the text if it is a script; the script may compute, but cannot reach anything
    /// outside. With a sandbox, the syntax of scripts inside the definition is checked too.
    pub async fn new(
        form: Form,
        text: &'t str,
        scripts: Option<&Scripts>,
        now: Timestamp,
    ) -> Result<Source<'t>, SourceError> {
        let described = match form {
            Form::Text => None,
            Form::Script => Some(describe(text, scripts, now).await?),
        };
        let script_flaws = match scripts {
            Some(scripts) => unreadable(text, described.as_ref(), scripts, now).await?,
            None => Vec::new(),
        };
        Ok(Source { text, described, script_flaws })
    }

    /// The text as it was written.
    pub(crate) fn text(&self) -> &'t str {
        self.text
    }

    /// The definition and warnings about it, or everything that is wrong with it.
    pub fn read(&self, context: &ReadContext<'_>) -> Result<(Definition, Vec<Flaw>), Vec<Flaw>> {
        let read = match &self.described {
            None => definition::read(self.text, context),
            Some(described) => definition::read_script(self.text, described, context),
        };
        let definition = match read {
            Ok(definition) if self.script_flaws.is_empty() => definition,
            Ok(_) => return Err(self.script_flaws.clone()),
            Err(mut flaws) => {
                flaws.extend(self.script_flaws.iter().cloned());
                flaws.sort_by_key(|flaw| (flaw.line, flaw.column));
                return Err(flaws);
            }
        };
        let warnings = definition::locate(definition::warnings(&definition, context), self.text);
        Ok((definition, warnings))
    }
}

/// Syntax errors of the scripts in a definition, each once. On a node without a sandbox such errors
/// show only when the script is to run.
async fn unreadable(
    text: &str,
    described: Option<&Value>,
    scripts: &Scripts,
    now: Timestamp,
) -> Result<Vec<Flaw>, SourceError> {
    let texts = match described {
        None => definition::script_texts(text),
        Some(described) => definition::described_script_texts(text, described),
    };
    let mut flaws = Vec::new();
    for script in texts {
        let evaluation = Evaluation {
            source: script.source.as_str().into(),
            name: "script".to_owned(),
            phase: script.path.clone(),
            entry: syntax(script.phase),
            arguments: Vec::new(),
            permits: Permits::NONE,
            secrets: BTreeMap::new(),
            now,
            timeout: None,
        };
        match scripts.describe(evaluation, &Nowhere).await.map_err(|failed| failed.failure) {
            Ok(_) => {}
            Err(ScriptFailure::Unavailable { .. }) => return Ok(Vec::new()),
            Err(busy @ ScriptFailure::Busy { .. }) => {
                let why = format!("The scripts in it were not looked at: {busy}.");
                return Err(SourceError::Unavailable(why));
            }
            Err(ScriptFailure::Logic { message, line, column, .. }) => {
                let (line, column) = (line.unwrap_or(0), column.unwrap_or(0));
                flaws.push(script.flaw(text, message, line, column));
            }
            Err(other) => flaws.push(script.flaw(text, other.to_string(), 0, 0)),
        }
    }
    Ok(flaws)
}

async fn describe(
    text: &str,
    scripts: Option<&Scripts>,
    now: Timestamp,
) -> Result<Value, SourceError> {
    let Some(scripts) = scripts else {
        let why = "This node evaluates no scripts. Send YAML or JSON, or ask another node.";
        return Err(SourceError::Unavailable(why.to_owned()));
    };
    let evaluation = Evaluation {
        source: text.into(),
        name: "definition".to_owned(),
        phase: "the definition".to_owned(),
        entry: Entry::Describe,
        arguments: Vec::new(),
        permits: Permits::NONE,
        secrets: BTreeMap::new(),
        now,
        timeout: None,
    };
    let described = scripts.describe(evaluation, &Nowhere).await;
    match described.map_err(|failed| failed.failure) {
        Ok(evaluated) => Ok(evaluated.value),
        Err(ScriptFailure::Unavailable { message }) => {
            Err(SourceError::Unavailable(format!("Scripts cannot be evaluated here: {message}.")))
        }
        Err(busy @ ScriptFailure::Busy { .. }) => {
            let why = "Nothing is known to be wrong with it.";
            Err(SourceError::Unavailable(format!("The script was not looked at: {busy}. {why}")))
        }
        Err(failure) => Err(SourceError::Flaws(vec![flaw(text, failure)])),
    }
}

fn flaw(text: &str, failure: ScriptFailure) -> Flaw {
    let (code, message, line, column) = match failure {
        ScriptFailure::Logic { message, line, column, .. } => ("script", message, line, column),
        ScriptFailure::Limit { message, .. } => ("limit", message, None, None),
        other => ("script", other.to_string(), None, None),
    };
    let (line, column) = (line.unwrap_or(0), column.unwrap_or(0));
    Flaw {
        path: String::new(),
        code,
        message,
        excerpt: excerpt(text, line, column),
        line,
        column: if line == 0 { 0 } else { column.max(1) },
        allowed: None,
        remedy: None,
    }
}

/// The line, and the range of the character at which the error is.
fn excerpt(text: &str, line: u32, column: u32) -> Option<(String, std::ops::Range<usize>)> {
    let line = text.lines().nth(line.checked_sub(1)? as usize)?;
    if line.len() > SHOWN {
        return None;
    }
    let characters = &mut line.char_indices().skip(column.max(1) as usize - 1);
    let start = characters.next().map_or(line.len(), |(at, _)| at);
    let end = characters.next().map_or(line.len(), |(at, _)| at);
    Some((line.to_owned(), start..end))
}

/// The world of a script that describes a definition: it can reach nothing.
struct Nowhere;

impl Nowhere {
    fn nothing<T: Send + 'static>() -> BoxFuture<'static, Result<T, WorldFailure>> {
        let why = "a definition cannot ask for anything";
        async move { Err(WorldFailure::Logic(why.to_owned())) }.boxed()
    }
}

impl ScriptWorld for Nowhere {
    fn fetch(&self, _: FetchRequest) -> BoxFuture<'_, Result<FetchAnswer, WorldFailure>> {
        Nowhere::nothing()
    }

    fn peek(&self, _: String, _: u32) -> BoxFuture<'_, Result<Value, WorldFailure>> {
        Nowhere::nothing()
    }

    fn get_by_ids(&self, _: String, _: Vec<String>) -> BoxFuture<'_, Result<Value, WorldFailure>> {
        Nowhere::nothing()
    }
}
