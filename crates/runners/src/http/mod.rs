//! Performs HTTP requests: prepares them, checks and sends each hop, and reads the response up to a
//! limit.

mod answer;
mod fetch;
mod outgoing;
mod redirect;
mod resolve;

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use answer::Answer;
use language::definition::HttpAction;
use outgoing::Outgoing;
use redirect::follow;
use reqwest::header::LOCATION;
use reqwest::{Client, Response};
use resolve::{Filtering, Unresolved};
use tokio_util::sync::CancellationToken;

use crate::egress::{Admission, Egress, Refused};
use crate::mask::Mask;
use crate::tls::http_client;
use crate::{Code, Ended, Work};

/// Sends requests to targets that the egress policy admits.
#[derive(Debug)]
pub(crate) struct Sender {
    egress: Arc<Egress>,
    mask: Mask,
    /// One client for each [`Admission`]. A resolver sees a name without its port, so the sender
    /// decides before resolving whether the list has the name at that port, and picks the client
    /// accordingly. The clients share no connections.
    by_ranges: Client,
    by_name: Client,
}

impl Sender {
    pub(crate) fn new(egress: Egress, mask: Mask) -> Result<Sender, reqwest::Error> {
        let egress = Arc::new(egress);
        let by_ranges = client(&egress, Admission::Ranges)?;
        let by_name = client(&egress, Admission::ByName)?;
        Ok(Sender { egress, mask, by_ranges, by_name })
    }

    pub(crate) async fn perform(
        &self,
        action: &HttpAction,
        work: &Work,
        cancel: &CancellationToken,
    ) -> Ended {
        let outgoing = match Outgoing::prepare(action, work, &self.mask) {
            Ok(outgoing) => outgoing,
            Err(refused) => return refused,
        };
        let what = outgoing.to_string();
        let ended = tokio::select! {
            biased;
            () = cancel.cancelled() => Err(Interrupted::Cancelled),
            ended = tokio::time::timeout(work.timeout, self.exchange(outgoing, action)) => {
                ended.map_err(|_| Interrupted::TimedOut)
            }
        };
        match ended {
            Ok(ended) => ended,
            Err(interrupted) => interrupted.told(&what, work.timeout),
        }
    }

    /// Sends one request whose path is as secret as its query. There is no timeout here: the caller
    /// applies one.
    pub(crate) async fn send_secretly(&self, action: &HttpAction, work: &Work) -> Ended {
        match Outgoing::prepare(action, work, &self.mask) {
            Ok(outgoing) => {
                self.exchange(Outgoing { path_is_secret: true, ..outgoing }, action).await
            }
            Err(refused) => refused,
        }
    }

    async fn exchange(&self, outgoing: Outgoing, action: &HttpAction) -> Ended {
        match self.answer(outgoing, action).await {
            Ok((outgoing, answer)) => answer.judged(&outgoing, action),
            Err(failure) => failure,
        }
    }

    /// Follows redirects. Returns the final response and the request that it answers.
    async fn answer(
        &self,
        mut outgoing: Outgoing,
        action: &HttpAction,
    ) -> Result<(Outgoing, Answer), Ended> {
        let mut redirects_left = action.redirects;
        loop {
            let response = self.send(&outgoing).await?;
            let Some(location) = next_location(&response, action) else {
                return match Answer::read(response, action.max_bytes).await {
                    Ok(answer) => Ok((outgoing, answer)),
                    Err(error) => Err(told(&outgoing, error)),
                };
            };
            if redirects_left == 0 {
                return Err(Ended::for_good(
                    Code::TooManyRedirects,
                    format!(
                        "{outgoing} answered with one more redirect than the {} allowed; \
                         raise `redirects` or give the final URL",
                        action.redirects
                    ),
                ));
            }
            redirects_left -= 1;
            follow(&mut outgoing, response.status(), &location)?;
        }
    }

    async fn send(&self, outgoing: &Outgoing) -> Result<Response, Ended> {
        let admission = self.egress.check_url(&outgoing.url).map_err(|refused| {
            Ended::for_good(Code::EgressRefused, format!("{outgoing} was not sent: {refused}"))
        })?;
        let client = match admission {
            Admission::Ranges => &self.by_ranges,
            Admission::ByName => &self.by_name,
        };
        tracing::debug!(request = %outgoing, "sending");
        let mut request = client
            .request(outgoing.method.clone(), outgoing.url.clone())
            .headers(outgoing.headers.clone());
        if let Some(body) = &outgoing.body {
            request = request.body(body.clone());
        }
        request.send().await.map_err(|error| told(outgoing, error))
    }
}

fn client(egress: &Arc<Egress>, admission: Admission) -> Result<Client, reqwest::Error> {
    http_client()
        // A proxy would resolve names itself and bypass the egress check.
        .no_proxy()
        // Our own loop checks each hop and removes credentials.
        .redirect(reqwest::redirect::Policy::none())
        // The engine decides on retries and records them.
        .retry(reqwest::retry::never())
        .referer(false)
        .dns_resolver(Arc::new(Filtering::new(Arc::clone(egress), admission)))
        .build()
}

/// The target of a redirect that is to be followed. A status that the action expects is the final
/// response, and so is every status if the action follows no redirects.
fn next_location(response: &Response, action: &HttpAction) -> Option<Vec<u8>> {
    let status = response.status().as_u16();
    let to_follow = action.redirects > 0
        && matches!(status, 301 | 302 | 303 | 307 | 308)
        && !action.expect.contains(&status);
    let location = response.headers().get(LOCATION)?;
    to_follow.then(|| location.as_bytes().to_vec())
}

enum Interrupted {
    Cancelled,
    TimedOut,
}

impl Interrupted {
    fn told(self, what: &str, timeout: Duration) -> Ended {
        match self {
            Interrupted::Cancelled => Ended::Cancelled {
                message: format!("{what} was abandoned; it may have reached its peer"),
            },
            Interrupted::TimedOut => Ended::TimedOut {
                message: format!(
                    "{what} had no full answer within {timeout:?}; it may have reached its peer"
                ),
            },
        }
    }
}

/// Turns a network error into the attempt's result.
fn told(outgoing: &Outgoing, error: reqwest::Error) -> Ended {
    // The URL's query may contain secrets.
    let error = error.without_url();
    if let Some(refused) = source::<Refused>(&error) {
        let message = format!("{outgoing} was not sent: {refused}");
        return Ended::for_good(Code::EgressRefused, message);
    }
    if let Some(unresolved) = source::<Unresolved>(&error) {
        return Ended::failed(Code::Dns, format!("{outgoing} was not sent: {unresolved}"));
    }
    let chain = chain(&error);
    if error.is_builder() {
        Ended::for_good(Code::InvalidUrl, format!("{outgoing} cannot be sent: {chain}"))
    } else if error.is_connect() {
        let peer = outgoing.peer();
        Ended::failed(Code::Connect, format!("no connection for {peer}: {chain}"))
    } else if error.is_body() || error.is_decode() {
        Ended::failed(Code::Body, format!("the answer to {outgoing} broke off: {chain}"))
    } else {
        Ended::failed(Code::Request, format!("{outgoing} got no answer: {chain}"))
    }
}

fn source<E: Error + 'static>(error: &reqwest::Error) -> Option<&E> {
    let mut next = error.source();
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref() {
            return Some(found);
        }
        next = error.source();
    }
    None
}

/// Joins the causes of an error. The innermost cause says most: "connection refused" rather than
/// "error sending request".
fn chain(error: &reqwest::Error) -> String {
    let mut texts = Vec::new();
    let mut next: Option<&dyn Error> = error.source();
    while let Some(error) = next {
        texts.push(error.to_string());
        next = error.source();
    }
    texts.dedup();
    if texts.is_empty() { error.to_string() } else { texts.join(": ") }
}
