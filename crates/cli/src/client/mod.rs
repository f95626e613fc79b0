//! Commands that call a node over HTTP.

mod access;
mod apply;
mod approvals;
mod calendars;
mod explain;
mod follow;
mod handlers;
mod nodes;
mod notify;
mod output;
mod problem;
mod run_details;
mod runs;
mod schedule_fields;
mod schedule_views;
mod schedules;
mod shown;
mod topics;
mod versions;
mod workflows;

pub(crate) use access::{audit, tokens};
pub(crate) use apply::apply;
pub(crate) use approvals::run as approvals;
pub(crate) use calendars::put_calendar;
pub(crate) use explain::explain;
pub(crate) use nodes::run as nodes;
pub(crate) use notify::{incidents, notify};
pub(crate) use runs::run as runs;
pub(crate) use schedules::run as schedules;
pub(crate) use topics::run as topics;
pub(crate) use workflows::run as workflows;

use std::env;
use std::time::Duration;

use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use reqwest::{Method, Url};
use serde_json::Value;
use server::{Form, shown_address};
use tokio::runtime::Runtime;

use crate::document::Document;
use crate::failure::Failure;

/// The default address of a node, on which `punctual serve` listens.
pub(crate) const DEFAULT_URL: &str = "http://127.0.0.1:7878";
/// The timeout of a request. A node answers in milliseconds; a page of a large store or a batch may
/// take longer.
const PATIENCE: Duration = Duration::from_secs(60);

/// Sends requests to a node, one after the other.
pub(crate) struct Client {
    runtime: Runtime,
    line: Line,
}

/// The address of a node and the token for it.
#[derive(Clone)]
pub(crate) struct Line {
    http: reqwest::Client,
    base: Url,
    token: Option<HeaderValue>,
}

pub(crate) struct Ask<'a> {
    method: Method,
    path: &'a [&'a str],
    query: Vec<(&'a str, String)>,
    body: Option<(&'static str, String)>,
}

impl<'a> Ask<'a> {
    /// A request that reads. Path segments may contain any character.
    pub(crate) fn get(path: &'a [&'a str]) -> Ask<'a> {
        Ask { method: Method::GET, path, query: Vec::new(), body: None }
    }

    /// A request that changes something.
    pub(crate) fn post(path: &'a [&'a str]) -> Ask<'a> {
        Ask { method: Method::POST, ..Ask::get(path) }
    }

    pub(crate) fn method(self, method: Method) -> Ask<'a> {
        Ask { method, ..self }
    }

    /// Adds a query parameter, if there is a value.
    pub(crate) fn with(mut self, name: &'a str, value: Option<impl ToString>) -> Ask<'a> {
        self.query.extend(value.map(|value| (name, value.to_string())));
        self
    }

    /// Sets a JSON body.
    pub(crate) fn json(self, body: &Value) -> Ask<'a> {
        self.json_text(body.to_string())
    }

    /// Sets a JSON body from text.
    pub(crate) fn json_text(self, body: String) -> Ask<'a> {
        Ask { body: Some(("application/json", body)), ..self }
    }

    /// Sets a definition as the body, unchanged.
    pub(crate) fn definition(self, document: &Document) -> Ask<'a> {
        let kind = match document.form() {
            // JSON is a subset of YAML.
            Form::Text => "application/yaml",
            Form::Script => "application/javascript",
        };
        Ask { body: Some((kind, document.text.clone())), ..self }
    }
}

impl Line {
    /// A connection to the node that the environment names.
    pub(crate) fn from_environment() -> Result<Line, Failure> {
        let text = env::var("PUNCTUAL_URL").unwrap_or_else(|_| DEFAULT_URL.to_owned());
        Line::new(&text, env::var("PUNCTUAL_TOKEN").ok().as_deref())
    }

    fn new(url: &str, token: Option<&str>) -> Result<Line, Failure> {
        let base = Url::parse(url).ok().filter(|url| url.scheme().starts_with("http"));
        let base = base.filter(Url::has_host).ok_or_else(|| {
            Failure::Mistake(format!(
                "PUNCTUAL_URL={}: not an address of a node\n  try: {DEFAULT_URL}",
                shown_address(url)
            ))
        })?;
        let token = token.filter(|token| !token.is_empty()).map(|token| {
            HeaderValue::try_from(format!("Bearer {token}")).map_err(|_| {
                Failure::Mistake("PUNCTUAL_TOKEN has characters that no token has".to_owned())
            })
        });
        let mut http = runners::http_client().timeout(PATIENCE);
        if base.host_str().is_some_and(is_loopback) {
            http = http.no_proxy();
        }
        let http = http.build().map_err(|error| Failure::Environment(error.to_string()))?;
        Ok(Line { http, base, token: token.transpose()? })
    }

    /// Sends a request and returns the status and text of the response, whatever they are.
    pub(crate) async fn send(&self, ask: Ask<'_>) -> Result<(u16, String), reqwest::Error> {
        let mut url = self.base.clone();
        if let Ok(mut parts) = url.path_segments_mut() {
            parts.pop_if_empty().extend(["api", "v1"]).extend(ask.path);
        }
        if !ask.query.is_empty() {
            url.query_pairs_mut().extend_pairs(&ask.query);
        }
        let mut request = self.http.request(ask.method, url);
        if let Some(token) = &self.token {
            request = request.header(AUTHORIZATION, token);
        }
        if let Some((form, body)) = ask.body {
            request = request.header(CONTENT_TYPE, form).body(body);
        }
        let response = request.send().await?;
        Ok((response.status().as_u16(), response.text().await?))
    }

    /// The address without its possibly secret parts.
    fn shown_base(&self) -> Url {
        let mut base = self.base.clone();
        // Both calls fail only for an address without a host.
        let _ = base.set_username("");
        let _ = base.set_password(None);
        base.set_query(None);
        base.set_fragment(None);
        base
    }

    /// The failure for a response without a success status.
    pub(crate) fn refused(&self, status: u16, text: &str) -> Failure {
        problem::failure(status, text, &self.shown_base())
    }

    /// The failure for a response that no node would give.
    pub(crate) fn misread(&self, error: &serde_json::Error) -> Failure {
        Failure::Environment(format!(
            "{} does not answer as a node does: {error}\n  try: PUNCTUAL_URL=…",
            shown_address(self.base.as_str())
        ))
    }

    /// The failure for a request without a response.
    pub(crate) fn unreachable(&self, error: &reqwest::Error) -> Failure {
        let base = shown_address(self.base.as_str());
        let base = base.trim_end_matches('/');
        if error.is_timeout() {
            return Failure::Environment(format!(
                "the node at {base} has not answered within {}s\n  \
                 try: {base}/readyz says how it is",
                PATIENCE.as_secs()
            ));
        }
        Failure::Environment(format!(
            "no node answers at {base}: {}\n  \
             try: `punctual serve` starts one; PUNCTUAL_URL names another address",
            innermost(error)
        ))
    }
}

impl Client {
    /// A client for the node that the environment names.
    pub(crate) fn from_environment() -> Result<Client, Failure> {
        let line = Line::from_environment()?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        Ok(Client { runtime, line })
    }

    /// Sends a request and returns the response, or `Value::Null` if it is empty.
    pub(crate) fn ask(&self, ask: Ask<'_>) -> Result<Value, Failure> {
        let answer = self.runtime.block_on(self.line.send(ask));
        let (status, text) = answer.map_err(|error| self.line.unreachable(&error))?;
        if !(200..300).contains(&status) {
            return Err(self.line.refused(status, &text));
        }
        if text.is_empty() {
            return Ok(Value::Null);
        }
        serde_json::from_str(&text).map_err(|error| self.line.misread(&error))
    }

    pub(crate) fn wait(&self, time: Duration) {
        self.runtime.block_on(async { tokio::time::sleep(time).await });
    }
}

/// The innermost cause says most: "Connection refused".
fn innermost(error: &dyn std::error::Error) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}

fn is_loopback(host: &str) -> bool {
    let address = host.trim_matches(['[', ']']).parse::<std::net::IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}
