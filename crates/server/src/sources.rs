//! Definitions as people write them: YAML, JSON, or a script that describes one.

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

/// A longer line is not shown beside what is wrong with it.
const SHOWN: usize = 200;

/// How a definition is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// YAML or JSON.
    Text,
    /// JavaScript: a module whose default export is the definition.
    Script,
}

/// The text of a definition, with what it describes.
#[derive(Clone, Debug)]
pub struct Source<'t> {
    text: &'t str,
    /// Of a script, its default export.
    described: Option<Value>,
    /// What is wrong with the scripts in it.
    script_flaws: Vec<Flaw>,
}

/// Why a text describes nothing.
#[derive(Clone, Debug)]
pub enum SourceError {
    /// The script is wrong.
    Flaws(Vec<Flaw>),
    /// No script can be evaluated here, or not now.
    Unavailable(String),
}

impl<'t> Source<'t> {
    /// Evaluates the text if it is a script: it may compute, and can reach nothing. Scripts in it that are texts are read
    /// too, where scripts can be evaluated.
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

    /// As it is written.
    pub(crate) fn text(&self) -> &'t str {
        self.text
    }

    /// The definition with what may surprise, or everything that is wrong with it.
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

/// The scripts in a definition that cannot be read, each once. Where no script can be evaluated they are found when
/// they are to run.
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

/// The line, and the character at which it is wrong.
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

/// Describing a definition asks for nothing.
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
