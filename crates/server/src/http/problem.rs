//! Errors as people and programs see them: `application/problem+json`.

use std::borrow::Cow;
use std::fmt;

use axum::http::header::{CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use calendar::Mistake;
use engine::turn::Refused;
use engine::{run, schedule};
use language::definition::Flaw;
use serde::{Deserialize, Serialize};
use store::{Failure, WriteFault};

/// The `Retry-After` of a 503 response, in seconds.
const RETRY_SECONDS: HeaderValue = HeaderValue::from_static("1");
/// The `Retry-After` of a 429 response: wrong tokens count for a minute.
const RETRY_MINUTE: HeaderValue = HeaderValue::from_static("60");

/// Why a request was not carried out.
#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Problem {
    /// The kind of problem, for programs, such as `urn:punctual:not-found`.
    #[serde(rename = "type")]
    kind: String,
    /// The kind of problem, in words.
    #[schema(value_type = String)]
    title: Cow<'static, str>,
    #[serde(serialize_with = "as_number", deserialize_with = "of_number")]
    #[schema(value_type = u16)]
    status: StatusCode,
    /// What is wrong, and what to do.
    detail: String,
    /// Each error in the request.
    #[serde(default)]
    errors: Vec<Wrong>,
    /// The run that is in the way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    run_id: Option<Box<str>>,
}

/// One error in the request.
#[derive(Clone, Debug, Default, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Wrong {
    /// The path to the field, such as `[3].cron`; the name of a query parameter; or empty for the
    /// whole.
    pub path: String,
    /// A stable code for programs.
    pub code: String,
    /// What is wrong.
    pub message: String,
    /// The line, counted from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
    /// The character, counted from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub column: Option<usize>,
    /// What is allowed there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allowed: Option<String>,
    /// What to write instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
}

fn as_number<S: serde::Serializer>(status: &StatusCode, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u16(status.as_u16())
}

fn of_number<'a, D: serde::Deserializer<'a>>(deserializer: D) -> Result<StatusCode, D::Error> {
    let number = u16::deserialize(deserializer)?;
    StatusCode::from_u16(number).map_err(serde::de::Error::custom)
}

impl Wrong {
    /// An error at `path`.
    pub fn new(
        path: impl Into<String>,
        code: impl Into<String>,
        message: impl Into<String>,
    ) -> Wrong {
        Wrong { path: path.into(), code: code.into(), message: message.into(), ..Wrong::default() }
    }

    /// Adds what is allowed there.
    #[must_use]
    pub fn allow(mut self, allowed: impl Into<String>) -> Wrong {
        self.allowed = Some(allowed.into());
        self
    }

    /// Adds what to write instead.
    #[must_use]
    pub fn suggest(mut self, remedy: impl Into<String>) -> Wrong {
        self.remedy = Some(remedy.into());
        self
    }
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.path {
            "" => write!(f, "{}", self.message)?,
            path => write!(f, "{path}: {}", self.message)?,
        }
        if let Some(allowed) = &self.allowed {
            write!(f, "; allowed: {allowed}")?;
        }
        if let Some(remedy) = &self.remedy {
            write!(f, "; try: {remedy}")?;
        }
        Ok(())
    }
}

impl From<Mistake> for Wrong {
    fn from(Mistake { path, problem }: Mistake) -> Wrong {
        // The text was cut, so its columns are not those of the caller's text.
        let whole = problem.span == (0..problem.text.len()) || problem.text.starts_with('…');
        Wrong {
            path,
            code: problem.code.to_owned(),
            column: (!whole).then(|| problem.column()),
            message: problem.message,
            line: None,
            allowed: problem.allowed.map(String::from),
            remedy: problem.remedy.map(String::from),
        }
    }
}

impl From<Flaw> for Wrong {
    fn from(flaw: Flaw) -> Wrong {
        let known = |place: u32| (place > 0).then_some(place as usize);
        Wrong {
            path: flaw.path,
            code: flaw.code.to_owned(),
            message: flaw.message,
            line: known(flaw.line),
            column: known(flaw.column),
            allowed: flaw.allowed,
            remedy: flaw.remedy,
        }
    }
}

impl Problem {
    /// A problem of a kind: `kind` is a stable word for programs, `title` the same in words.
    pub fn new(
        status: StatusCode,
        kind: &'static str,
        title: &'static str,
        detail: impl Into<String>,
    ) -> Problem {
        Problem {
            kind: format!("urn:punctual:{kind}"),
            title: title.into(),
            status,
            detail: detail.into(),
            errors: Vec::new(),
            run_id: None,
        }
    }

    /// 400: the request cannot be read.
    pub fn bad_request(detail: impl Into<String>) -> Problem {
        Problem::new(StatusCode::BAD_REQUEST, "bad-request", "Bad request", detail)
    }

    /// 403: the caller may not do this.
    pub fn forbidden(detail: impl Into<String>) -> Problem {
        Problem::new(StatusCode::FORBIDDEN, "forbidden", "Forbidden", detail)
    }

    /// Reads back a problem from the response that carried it.
    pub(super) fn read(status: StatusCode, text: &str) -> Problem {
        let read = serde_json::from_str(text);
        read.unwrap_or_else(|_| Problem::new(status, "other", "Problem", text))
    }

    /// 404: there is no such thing.
    pub fn not_found(what: &str, id: &str) -> Problem {
        let id: String = id.chars().filter(|c| !c.is_control()).take(100).collect();
        let detail = format!("There is no {what} {id}.");
        Problem::new(StatusCode::NOT_FOUND, "not-found", "Not found", detail)
    }

    /// 409: the request does not fit the current state.
    pub fn conflict(detail: impl Into<String>) -> Problem {
        Problem::new(StatusCode::CONFLICT, "conflict", "Conflict", detail)
    }

    /// 422: the request can be read, but its values are wrong.
    pub fn invalid(errors: impl IntoIterator<Item = impl Into<Wrong>>) -> Problem {
        let mut problem = Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid", "Invalid", "");
        problem.errors = errors.into_iter().map(Into::into).collect();
        problem.detail = in_one_line(&problem.errors);
        problem
    }

    /// 400: query parameters are wrong.
    pub fn bad_query(errors: Vec<Wrong>) -> Problem {
        let mut problem = Problem::bad_request(in_one_line(&errors));
        problem.errors = errors;
        problem
    }

    /// 503: the node cannot answer now.
    pub fn unavailable(detail: impl Into<String>) -> Problem {
        let status = StatusCode::SERVICE_UNAVAILABLE;
        Problem::new(status, "unavailable", "Not available", detail)
    }

    /// 502: the recipient outside did not accept the message.
    pub fn not_sent(wrong: Wrong) -> Problem {
        let detail = in_one_line(std::slice::from_ref(&wrong));
        let problem = Problem::new(StatusCode::BAD_GATEWAY, "not-sent", "Not sent", detail);
        Problem { errors: vec![wrong], ..problem }
    }

    /// 413: the body is too large.
    pub fn too_large(limit: usize) -> Problem {
        let detail = format!("The body is larger than {} KiB.", limit / 1024);
        Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "too-large", "Too large", detail)
    }

    /// 413: one value in the body is too large.
    pub fn too_large_value(wrong: Wrong) -> Problem {
        let status = StatusCode::PAYLOAD_TOO_LARGE;
        let detail = in_one_line(std::slice::from_ref(&wrong));
        let problem = Problem::new(status, "too-large", "Too large", detail);
        Problem { errors: vec![wrong], ..problem }
    }

    /// 415: the content type is not accepted.
    pub fn wrong_type(detail: impl Into<String>) -> Problem {
        let status = StatusCode::UNSUPPORTED_MEDIA_TYPE;
        Problem::new(status, "wrong-type", "Wrong content type", detail)
    }

    /// Each error in the request; a problem without a list counts as one error.
    pub(super) fn into_errors(self) -> Vec<Wrong> {
        if self.errors.is_empty() {
            vec![Wrong::new("", "invalid", self.detail.trim_end_matches('.'))]
        } else {
            self.errors
        }
    }

    /// Appends a sentence to the detail.
    pub(super) fn add_detail(&mut self, more: &str) {
        self.detail = format!("{} {more}", self.detail);
    }

    pub(super) fn retitle(&mut self, title: &'static str) {
        self.title = title.into();
    }

    /// What is wrong, and what to do.
    pub fn detail(&self) -> &str {
        &self.detail
    }

    /// The kind of problem, in words.
    pub fn title(&self) -> &str {
        &self.title
    }

    /// Each error in the request.
    pub fn errors(&self) -> &[Wrong] {
        &self.errors
    }

    /// The run that is in the way.
    pub fn run_id(&self) -> Option<&str> {
        self.run_id.as_deref()
    }

    pub fn status(&self) -> StatusCode {
        self.status
    }
}

/// The first error, and how many more there are.
fn in_one_line(errors: &[Wrong]) -> String {
    match errors {
        [] => "Something that was sent is wrong.".to_owned(),
        [one] => format!("{one}."),
        [first, rest @ ..] => format!("{first}. And {} more: see errors.", rest.len()),
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let body = serde_json::to_string(&self).unwrap_or_default();
        let mut response = (self.status, body).into_response();
        // Pages render the problem as HTML.
        response.extensions_mut().insert(self.clone());
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        match self.status {
            StatusCode::SERVICE_UNAVAILABLE => drop(headers.insert(RETRY_AFTER, RETRY_SECONDS)),
            StatusCode::TOO_MANY_REQUESTS => drop(headers.insert(RETRY_AFTER, RETRY_MINUTE)),
            StatusCode::UNAUTHORIZED => {
                let scheme = HeaderValue::from_static("Bearer realm=\"punctual\"");
                headers.insert(WWW_AUTHENTICATE, scheme);
            }
            _ => {}
        }
        response
    }
}

impl From<Vec<Mistake>> for Problem {
    fn from(mistakes: Vec<Mistake>) -> Problem {
        Problem::invalid(mistakes)
    }
}

impl From<Vec<Flaw>> for Problem {
    fn from(flaws: Vec<Flaw>) -> Problem {
        Problem::invalid(flaws)
    }
}

impl From<Failure> for Problem {
    fn from(failure: Failure) -> Problem {
        match failure {
            Failure::Refused(refused) => refused.into(),
            Failure::KeyReused => Problem::new(
                StatusCode::UNPROCESSABLE_ENTITY,
                "key-reused",
                "Idempotency-Key used before",
                "This Idempotency-Key was used for another request. Use a new one.",
            ),
            Failure::Damaged(what) => {
                tracing::error!(what, "the store is damaged");
                let detail = "What is stored cannot be read. Run `punctual doctor`.";
                Problem::unavailable(detail)
            }
            Failure::Undecidable { .. } => {
                tracing::error!(%failure, "what is stored cannot be decided");
                let detail = format!("{failure}. Run `punctual doctor`.");
                Problem::unavailable(detail)
            }
            Failure::Unknown(why) => {
                tracing::error!(why, "the outcome of a commit is not known");
                Problem::unavailable(
                    "Whether this was done is not known. Ask again with the same Idempotency-Key.",
                )
            }
            Failure::NotWritten { fault, said } => {
                tracing::error!(said, "{fault}: nothing was stored");
                let what = capitalised(&fault.to_string());
                let remedy = capitalised(fault.remedy());
                // A read-only store and errors of the disk need a person who looks into them.
                let goes_on = match fault {
                    WriteFault::DiskFull => "; the node goes on by itself then",
                    WriteFault::ReadOnly | WriteFault::Disk => "",
                };
                Problem::unavailable(format!(
                    "{what}. Nothing of this was stored. {remedy}{goes_on}."
                ))
            }
            Failure::Gone(why) => Problem::unavailable(format!(
                "Nothing of this was kept, and the node stops: {why}."
            )),
            Failure::Fenced => {
                Problem::unavailable("This node was cut off, and is joining again. Try again.")
            }
            Failure::Unavailable(why)
            | Failure::InUse(why)
            | Failure::Unusable { what: why, .. } => {
                tracing::error!(why, "the store does not answer");
                Problem::unavailable("The store does not answer. Try again.")
            }
        }
    }
}

/// With a capital first letter, to begin a sentence.
fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

impl From<Refused> for Problem {
    fn from(refused: Refused) -> Problem {
        let detail = refused.to_string();
        match refused {
            Refused::NotFound { what, id } => Problem::not_found(what, &id),
            Refused::Schedule(refusal) => from_schedule(&refusal, detail),
            Refused::Run(run::Refusal::WrongStatus { .. }) => wrong_status(detail),
            Refused::Run(run::Refusal::NotTheirs { .. }) => {
                Problem::new(StatusCode::FORBIDDEN, "not-theirs", "For others to decide", detail)
            }
            Refused::Run(run::Refusal::ClaimedByOther { .. }) => {
                Problem::new(StatusCode::FORBIDDEN, "not-theirs", "Another's attempt", detail)
            }
            Refused::WrongStatus(_) => wrong_status(detail),
            Refused::Run(_) | Refused::Conflict(_) => Problem::conflict(detail),
            Refused::Invalid(all) => Problem::invalid(all.into_iter().flat_map(|(_, all)| all)),
            Refused::Busy { run, .. } => busy(detail, run.map(|run| run.to_string())),
        }
    }
}

fn from_schedule(refusal: &schedule::Refusal, detail: String) -> Problem {
    match refusal {
        schedule::Refusal::WrongStatus { .. } => wrong_status(detail),
        schedule::Refusal::Busy(_) | schedule::Refusal::TooManyByHand => busy(detail, None),
        schedule::Refusal::NoNextTime | schedule::Refusal::QueueFull { .. } => {
            Problem::conflict(detail)
        }
        schedule::Refusal::NothingThere
        | schedule::Refusal::WhilePaused
        | schedule::Refusal::TooMany { .. } => {
            Problem::invalid([Wrong::new("", "range", detail.trim_end_matches('.'))])
        }
    }
}

fn wrong_status(detail: String) -> Problem {
    Problem::new(StatusCode::BAD_REQUEST, "wrong-status", "Not in this status", detail)
}

fn busy(detail: String, run_id: Option<String>) -> Problem {
    let run_id = run_id.map(Into::into);
    Problem { run_id, ..Problem::new(StatusCode::CONFLICT, "busy", "Busy", detail) }
}
