//! Routes of workers: they claim attempts, send heartbeats, and report how the attempts ended.

use std::time::Duration;

use axum::extract::State;
use engine::RunId;
use engine::run::{AttemptEnd, Claimant};
use engine::turn::{Answer, Command, Effect};
use jiff::{SignedDuration, Timestamp};
use language::definition::limits::{OUTPUT_BYTES, QUEUE_LENGTH};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use store::Commanded;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::App;
use super::access::Caller;
use super::answer::{self, Answered};
use super::attempt_token::{AttemptToken, ClaimKey};
use super::body::JsonBody;
use super::path::PathId;
use super::problem::{Problem, Wrong};
use super::query::Query;
use crate::handout::{self, Handout};
use crate::payload::payload;

/// How many attempts one claim may take.
const MOST_ATTEMPTS: u64 = 1_000;
/// How many queues one claim may name: each is searched.
const MOST_QUEUES: usize = 100;
/// The longest that a claim may wait: shorter than a request may take.
const LONGEST_WAIT: f64 = 50.0;
const DEFAULT_LEASE: u64 = 30;
const LONGEST_LEASE: u64 = 3_600;
/// A worker's name is shown in one line.
const LONGEST_NAME: usize = 256;
/// An error code is a short word for programs.
const LONGEST_CODE: usize = 100;
/// A message is for people; anything longer belongs in an output.
const LONGEST_MESSAGE: usize = 16 * 1024;
/// How often queues are checked again: other nodes of a shared store queue attempts without
/// notifying this one.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(claim))
        .routes(routes!(heartbeat))
        .routes(routes!(complete))
        .routes(routes!(fail))
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Claim {
    /// The queues to claim from; `agent:NAME` holds the tasks of an agent.
    #[schema(min_items = 1, max_items = 100)]
    queues: Vec<String>,
    /// How many attempts to claim at most, 1 to 1,000. Fewer are returned if their payloads would
    /// exceed 4 MiB.
    #[serde(default = "one")]
    #[schema(minimum = 1, maximum = 1000, default = 1)]
    max: u64,
    /// How many seconds to wait if nothing is queued, 0 to 50.
    #[serde(default)]
    #[schema(minimum = 0, maximum = 50, default = 0)]
    wait_seconds: f64,
    /// The worker's name, for people.
    #[serde(default = "unnamed")]
    #[schema(min_length = 1, max_length = 256, default = "unnamed")]
    worker: String,
    /// The lease in seconds, 1 to 3,600. After that long without a heartbeat the attempts may be
    /// claimed by other workers.
    #[serde(default = "default_lease")]
    #[schema(minimum = 1, maximum = 3600, default = 30)]
    lease_seconds: u64,
}

fn one() -> u64 {
    1
}

fn unnamed() -> String {
    "unnamed".to_owned()
}

fn default_lease() -> u64 {
    DEFAULT_LEASE
}

#[derive(Serialize, ToSchema)]
struct Claimed {
    /// The claimed attempts; empty if nothing was queued in time.
    attempts: Vec<AttemptObject>,
}

/// An attempt that a worker has claimed.
#[derive(Serialize, ToSchema)]
#[schema(as = ClaimedAttempt)]
struct AttemptObject {
    /// The attempt's id, for the routes of attempts.
    id: String,
    /// The token that the worker must send with each heartbeat and report. Of two tokens of a run,
    /// the token of the later attempt is greater as a text; beyond that it is opaque.
    token: String,
    run_id: String,
    /// The workflow's name.
    workflow: String,
    step_id: String,
    queue: String,
    /// The input of the attempt.
    #[schema(value_type = Value)]
    payload: Box<RawValue>,
    /// The number of the attempt at this step, from 1.
    attempt: u32,
    /// The same for all attempts at this step.
    idempotency_key: String,
    /// When the lease ends. Without a heartbeat before, other workers may claim the attempt.
    #[schema(value_type = String, format = DateTime)]
    lease_until: Timestamp,
    /// How many seconds the attempt may take.
    timeout_seconds: Option<f64>,
    /// The parent span for the worker's own spans, if the run is traced.
    traceparent: Option<String>,
}

/// Claims attempts from queues, oldest first. If nothing is queued, waits for an attempt.
/// An `Idempotency-Key` has no effect here: payloads may hold secrets, so the response is not
/// stored to be returned again. If the response is lost, the claimed attempts go back into their
/// queues: at once if the connection is closed by then, otherwise when their leases end.
#[utoipa::path(post, path = "/attempts/claim", tag = "attempts", request_body = Claim,
    responses((status = 200, body = Claimed),
        (status = 403, body = Problem, description = "The token is not for one of the queues"),
        (status = 422, body = Problem)))]
async fn claim(
    State(app): State<App>,
    caller: Caller,
    Query(()): Query<()>,
    body: JsonBody,
) -> Answered {
    let wanted: Claim = body.read()?;
    wanted.check()?;
    if let Some(queue) = caller.lacks_queue(&wanted.queues) {
        let allowed = caller.queues.as_deref().unwrap_or_default().join(", ");
        let name = &caller.name;
        let detail = format!("{name} may not claim from queue {queue:?}, only from: {allowed}.");
        return Err(Problem::forbidden(detail));
    }
    let key = ClaimKey::new()?;
    let claimant = key.claimant(&caller);
    let taking = Taking { app: &app, wanted: &wanted, key, claimant };
    let taken = if wanted.wait_seconds > 0.0 {
        taking.wait_and_take().await?
    } else {
        taking.take().await?
    };
    let Some((attempts, handout)) = taken else {
        return answer::ok(&Claimed { attempts: Vec::new() });
    };
    let response = answer::ok(&Claimed { attempts })?;
    // Nothing waits between here and the connection: the response is sent, or the attempts come
    // back when their leases end.
    handout.delivered();
    Ok(response)
}

impl Claim {
    fn check(&self) -> Result<(), Problem> {
        let mut wrong = Vec::new();
        let mut refuse = |path: &str, message: &str, allowed: String| {
            wrong.push(Wrong::new(path, "range", message).allow(allowed));
        };
        if !(1..=MOST_QUEUES).contains(&self.queues.len()) {
            refuse("queues", "too few or too many", format!("1 to {MOST_QUEUES} names"));
        }
        let is_name = |name: &String| (1..=QUEUE_LENGTH).contains(&name.len());
        if let Some(at) = self.queues.iter().position(|name| !is_name(name)) {
            let allowed = format!("1 to {QUEUE_LENGTH} bytes");
            refuse(&format!("queues[{at}]"), "is not the name of a queue", allowed);
        }
        if !(1..=MOST_ATTEMPTS).contains(&self.max) {
            refuse("max", "is out of range", format!("1 to {MOST_ATTEMPTS}"));
        }
        if !(0.0..=LONGEST_WAIT).contains(&self.wait_seconds) {
            refuse("wait_seconds", "is out of range", format!("0 to {LONGEST_WAIT}"));
        }
        if !(1..=LONGEST_NAME).contains(&self.worker.len()) {
            refuse("worker", "is empty or too long", format!("1 to {LONGEST_NAME} bytes"));
        }
        wrong.extend(wrong_lease(self.lease_seconds));
        if wrong.is_empty() { Ok(()) } else { Err(Problem::invalid(wrong)) }
    }
}

fn wrong_lease(seconds: u64) -> Option<Wrong> {
    let wrong = Wrong::new("lease_seconds", "range", "is out of range");
    let is_fine = (1..=LONGEST_LEASE).contains(&seconds);
    (!is_fine).then(|| wrong.allow(format!("1 to {LONGEST_LEASE}")))
}

/// Claimed attempts, and the handout that gives them back if they do not reach the worker.
type TakenAttempts = Option<(Vec<AttemptObject>, Handout)>;

/// One claim of a worker.
struct Taking<'a> {
    app: &'a App,
    wanted: &'a Claim,
    key: ClaimKey,
    claimant: Claimant,
}

impl Taking<'_> {
    async fn wait_and_take(&self) -> Result<TakenAttempts, Problem> {
        let over = tokio::time::sleep(Duration::from_secs_f64(self.wanted.wait_seconds));
        tokio::pin!(over);
        let is_shared = self.app.store().lease().is_some();
        let mut waiting = self.app.hub().wait_for_work(&self.wanted.queues);
        loop {
            waiting.looks();
            let taken = self.take().await?;
            if taken.is_some() {
                return Ok(taken);
            }
            waiting.found_nothing();
            tokio::select! {
                () = waiting.woken(is_shared.then_some(LOOK_AGAIN)) => {}
                () = &mut over => return Ok(None),
                () = self.app.stopped() => return Ok(None),
            }
        }
    }

    /// Claims what is queued now. Attempts that cannot be handed out are reported as failed; if
    /// none is left, the next ones are claimed.
    async fn take(&self) -> Result<TakenAttempts, Problem> {
        loop {
            let command = Command::ClaimAttempts {
                queues: self.wanted.queues.clone(),
                limit: usize::try_from(self.wanted.max).unwrap_or(usize::MAX),
                worker: self.wanted.worker.clone(),
                claimant: self.claimant.clone(),
                lease: lease(self.wanted.lease_seconds),
            };
            let mut handout = handout::claim(self.app.hub(), command).await?;
            let claimed = std::mem::take(&mut handout.effects);
            if claimed.is_empty() {
                return Ok(None);
            }
            let attempts = self.handed_out(claimed).await;
            if !attempts.is_empty() {
                return Ok(Some((attempts, handout)));
            }
            // These attempts were reported as failed; if the store did not accept that, their
            // leases will end.
            handout.delivered();
        }
    }

    async fn handed_out(&self, claimed: Vec<Effect>) -> Vec<AttemptObject> {
        let mut attempts = Vec::with_capacity(claimed.len());
        for effect in claimed {
            let Effect::Claimed { perform, lease_until } = effect else { continue };
            let run_id = perform.run_id.to_string();
            let (queue, payload) = match payload(&perform, self.app.secrets()) {
                Ok(given) => given,
                Err(end) => {
                    self.give_up(perform.run_id, perform.token, end).await;
                    continue;
                }
            };
            attempts.push(AttemptObject {
                id: format!("{run_id}.{}", perform.token),
                token: self.key.token(perform.token),
                run_id,
                workflow: perform.definition.name.clone(),
                step_id: perform.step().id.clone(),
                queue,
                payload,
                attempt: perform.attempt,
                idempotency_key: perform.idempotency_key(),
                lease_until,
                timeout_seconds: perform.timeout().map(|limit| limit.as_secs_f64()),
                traceparent: perform.trace.map(|trace| trace.to_string()),
            });
        }
        attempts
    }

    /// Reports that an attempt cannot be handed out to any worker.
    async fn give_up(&self, id: RunId, token: u32, end: AttemptEnd) {
        let run = id.to_string();
        let command = Command::EndAttempt { id, token, claimant: self.claimant.clone(), end };
        if let Err(failure) = self.app.hub().command(command, None).await {
            // Its lease will end, and it will be claimed again.
            tracing::warn!(run, token, %failure, "an attempt that cannot be handed out stays for now");
        }
    }
}

fn lease(seconds: u64) -> SignedDuration {
    SignedDuration::from_secs(seconds.cast_signed())
}

/// The run that an attempt's id names. A token of another attempt is refused.
fn attempt(id: &str, token: &AttemptToken) -> Result<RunId, Problem> {
    let unknown = || Problem::not_found("attempt", id);
    let (run, own) = id.rsplit_once('.').ok_or_else(unknown)?;
    let run: RunId = run.parse().map_err(|()| unknown())?;
    let own: u32 = own.parse().map_err(|_| unknown())?;
    if own == token.number {
        return Ok(run);
    }
    let detail = format!("The token is not the one of attempt {id}: it is another's.");
    Err(Problem::conflict(detail))
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Heartbeat {
    #[schema(value_type = String)]
    token: AttemptToken,
    /// The lease in seconds, 1 to 3,600. After that long without another heartbeat other workers
    /// may claim the attempt.
    #[serde(default = "default_lease")]
    #[schema(minimum = 1, maximum = 3600, default = 30)]
    lease_seconds: u64,
}

#[derive(Serialize, ToSchema)]
struct Beaten {
    /// When the lease ends.
    #[schema(value_type = String, format = DateTime)]
    lease_until: Timestamp,
    /// Whether the worker is to stop and report.
    cancel: bool,
}

/// Sends a heartbeat: the worker still performs the attempt.
/// Repeating it is harmless, with or without an `Idempotency-Key`.
#[utoipa::path(post, path = "/attempts/{id}/heartbeat", tag = "attempts",
    request_body = Heartbeat, params(("id" = String, Path, description = "The attempt")),
    responses((status = 200, body = Beaten), (status = 404, body = Problem),
        (status = 403, body = Problem, description = "It was claimed with another token"),
        (status = 409, body = Problem, description = "It is another's, or has ended")))]
async fn heartbeat(
    State(app): State<App>,
    caller: Caller,
    PathId(id): PathId,
    Query(()): Query<()>,
    body: JsonBody,
) -> Answered {
    let Heartbeat { token, lease_seconds } = body.read()?;
    if let Some(wrong) = wrong_lease(lease_seconds) {
        return Err(Problem::invalid([wrong]));
    }
    let (id, claimant) = (attempt(&id, &token)?, token.claimant(&caller));
    let lease = lease(lease_seconds);
    let command = Command::Heartbeat { id, token: token.number, claimant, lease };
    match app.hub().command(command, None).await?.answer {
        Answer::Lease { until, must_cancel } => {
            answer::ok(&Beaten { lease_until: until, cancel: must_cancel })
        }
        _ => Err(Problem::unavailable("The store answers something else.")),
    }
}

#[derive(Serialize, ToSchema)]
struct Reported {
    run_id: String,
}

fn reported(commanded: &Commanded) -> Answered {
    let Answer::Run(run_id) = &commanded.answer else {
        return Err(Problem::unavailable("The store answers something else."));
    };
    let response = answer::ok(&Reported { run_id: run_id.clone() })?;
    Ok(answer::replayed(response, commanded.replayed))
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Completion {
    #[schema(value_type = String)]
    token: AttemptToken,
    /// The output of the attempt; null if left out.
    #[schema(value_type = Option<Value>)]
    output: Option<Box<RawValue>>,
}

/// Reports that the attempt succeeded.
#[utoipa::path(post, path = "/attempts/{id}/complete", tag = "attempts",
    request_body = Completion, params(("id" = String, Path, description = "The attempt")),
    responses((status = 200, body = Reported), (status = 404, body = Problem),
        (status = 403, body = Problem, description = "It was claimed with another token"),
        (status = 409, body = Problem, description = "It is another's, or has ended"),
        (status = 413, body = Problem, description = "The output is too large; the attempt goes on")))]
async fn complete(
    State(app): State<App>,
    caller: Caller,
    PathId(id): PathId,
    Query(()): Query<()>,
    body: JsonBody,
) -> Answered {
    let Completion { token, output } = body.read()?;
    let output = output.unwrap_or_else(|| RawValue::NULL.to_owned());
    let output = app.secrets().mask_raw(output);
    // Nothing is stored: the worker still holds the attempt, and can report again with a smaller
    // output.
    if output.get().len() > OUTPUT_BYTES {
        let message = format!("has {} bytes", output.get().len());
        let wrong = Wrong::new("output", "limit", message);
        let allowed =
            format!("up to {OUTPUT_BYTES} bytes of JSON; put the rest elsewhere and name it");
        return Err(Problem::too_large_value(wrong.allow(allowed)));
    }
    let end = AttemptEnd::Succeeded { output };
    let (id, claimant) = (attempt(&id, &token)?, token.claimant(&caller));
    let command = Command::EndAttempt { id, token: token.number, claimant, end };
    reported(&app.hub().command(command, body.idempotency).await?)
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Failed {
    #[schema(value_type = String)]
    token: AttemptToken,
    error: FailedBy,
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct FailedBy {
    /// A code for programs.
    #[serde(default = "failed")]
    #[schema(max_length = 100, default = "failed")]
    code: String,
    /// A message for people.
    #[schema(max_length = 16384)]
    message: String,
    /// Whether a retry can succeed.
    #[serde(default = "yes")]
    #[schema(default = true)]
    retryable: bool,
}

fn failed() -> String {
    "failed".to_owned()
}

fn yes() -> bool {
    true
}

/// Reports that the attempt failed.
/// It is tried again if the failure is retryable and the step's retry policy allows it.
#[utoipa::path(post, path = "/attempts/{id}/fail", tag = "attempts",
    request_body = Failed, params(("id" = String, Path, description = "The attempt")),
    responses((status = 200, body = Reported), (status = 404, body = Problem),
        (status = 403, body = Problem, description = "It was claimed with another token"),
        (status = 409, body = Problem, description = "It is another's, or has ended")))]
async fn fail(
    State(app): State<App>,
    caller: Caller,
    PathId(id): PathId,
    Query(()): Query<()>,
    body: JsonBody,
) -> Answered {
    let Failed { token, error: FailedBy { code, message, retryable } } = body.read()?;
    for (path, text, limit) in
        [("error.code", &code, LONGEST_CODE), ("error.message", &message, LONGEST_MESSAGE)]
    {
        if text.len() > limit {
            let wrong = Wrong::new(path, "limit", "is too long").allow(format!("{limit} bytes"));
            return Err(Problem::invalid([wrong]));
        }
    }
    let [code, message] = [code, message].map(|text| app.secrets().mask(&text).into_owned());
    let end = AttemptEnd::Failed { code, message, retryable, output: None };
    let (id, claimant) = (attempt(&id, &token)?, token.claimant(&caller));
    let command = Command::EndAttempt { id, token: token.number, claimant, end };
    reported(&app.hub().command(command, body.idempotency).await?)
}
