//! A node's problem responses: what is wrong, where, and what to try.

use reqwest::Url;
use serde::Deserialize;

use crate::failure::Failure;

/// The body of an `application/problem+json` response.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Problem {
    /// The type of the problem, for programs.
    #[serde(rename = "type")]
    kind: String,
    title: String,
    detail: Option<String>,
    /// The mistakes in the request.
    pub(super) errors: Vec<ErrorPlace>,
}

/// A mistake in the request.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ErrorPlace {
    pub(super) path: String,
    pub(super) message: String,
    /// Line in the text that was sent.
    pub(super) line: Option<u32>,
    /// Column in that line.
    pub(super) column: Option<u32>,
    /// The values or forms that are allowed in this position.
    pub(super) allowed: Option<String>,
    /// The text that the author should write instead.
    #[serde(alias = "try")]
    pub(super) remedy: Option<String>,
}

/// Parses a problem. Any other text becomes the title of one.
pub(super) fn read(text: &str) -> Problem {
    serde_json::from_str(text).unwrap_or_else(|_| Problem {
        title: text.lines().next().unwrap_or("").chars().take(200).collect(),
        ..Problem::default()
    })
}

/// The failure for a response without a success status.
pub(super) fn failure(status: u16, text: &str, base: &Url) -> Failure {
    let problem = read(text);
    let places: Vec<String> = problem.errors.iter().map(ErrorPlace::to_string).collect();
    // The sentence of a problem with mistakes would only repeat the first of them.
    let mut said = if places.is_empty() { problem.sentence(status) } else { places.join("\n") };
    if let Some(remedy) = remedy(status, &problem.kind, base) {
        said.push_str("\n  try: ");
        said.push_str(&remedy);
    }
    match status {
        // The node did what it was asked to do, but a service behind it refused.
        502 if problem.kind.ends_with("not-sent") => Failure::Mistake(said),
        500.. => Failure::Environment(said),
        422 if !problem.errors.is_empty() => Failure::Invalid { said, body: text.to_owned() },
        _ => Failure::Mistake(said),
    }
}

impl Problem {
    fn sentence(&self, status: u16) -> String {
        match self.detail.as_deref().filter(|detail| !detail.is_empty()) {
            Some(detail) => detail.to_owned(),
            None if self.title.is_empty() => format!("the node answers {status}"),
            None => self.title.clone(),
        }
    }
}

impl std::fmt::Display for ErrorPlace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        f.write_str(&self.message)?;
        if let Some(allowed) = &self.allowed {
            write!(f, "\n  allowed: {allowed}")?;
        }
        match &self.remedy {
            Some(remedy) => write!(f, "\n  try: {remedy}"),
            None => Ok(()),
        }
    }
}

fn remedy(status: u16, kind: &str, base: &Url) -> Option<String> {
    let text = match status {
        401 => {
            "PUNCTUAL_TOKEN=… with a token of `punctual token create`, or the node's own".to_owned()
        }
        403 if kind.ends_with("not-theirs") => {
            "--by with the name of somebody who is asked".to_owned()
        }
        403 => "a token with another role, or another setting of the node".to_owned(),
        413 => "less at a time".to_owned(),
        429 => "again in a while".to_owned(),
        503 => format!("{} says what is wrong", base.join("readyz").ok()?),
        _ => return None,
    };
    Some(text)
}
