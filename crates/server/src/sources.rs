//! Definitions as people write them: YAML, JSON, or a script that describes one.

use std::collections::BTreeMap;
use std::time::Duration;

use engine::definition::{self, Definition, Flaw, ReadContext};
use futures_util::future::{BoxFuture, FutureExt as _};
use jiff::Timestamp;
use runners::script::{
    Entry, Evaluation, FetchAnswer, FetchRequest, Limit, Permits, ScriptFailure, ScriptWorld,
    Scripts, WorldFailure,
};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

/// Somebody waits for the answer.
const TIME: Duration = Duration::from_secs(30);
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
}

/// Why a text describes nothing.
#[derive(Clone, Debug)]
pub enum SourceError {
    /// The script is wrong.
    Flaws(Vec<Flaw>),
    /// No script can be evaluated here.
    Unavailable(String),
}

impl<'t> Source<'t> {
    /// Evaluates the text if it is a script: it may compute, and can reach nothing.
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
        Ok(Source { text, described })
    }

    /// The definition with what may surprise, or everything that is wrong with it.
    pub fn read(&self, context: &ReadContext<'_>) -> Result<(Definition, Vec<Flaw>), Vec<Flaw>> {
        let definition = match &self.described {
            None => definition::read(self.text, context),
            Some(described) => definition::read_script(self.text, described, context),
        }?;
        let warnings = definition::locate(definition::warnings(&definition, context), self.text);
        Ok((definition, warnings))
    }
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
    let never = CancellationToken::new();
    let described = tokio::time::timeout(TIME, scripts.evaluate(evaluation, &Nowhere, &never));
    let Ok(described) = described.await else {
        let message = format!("the script was not done within {} s", TIME.as_secs());
        let what = Limit::WallTime;
        let failure = ScriptFailure::Limit { what, message };
        return Err(SourceError::Flaws(vec![flaw(text, failure)]));
    };
    match described.map_err(|failed| failed.failure) {
        Ok(evaluated) => Ok(evaluated.value),
        Err(ScriptFailure::Unavailable { message }) => {
            Err(SourceError::Unavailable(format!("Scripts cannot be evaluated here: {message}.")))
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
