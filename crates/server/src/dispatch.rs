//! Starts attempts on runners when the driver commits effects, and sends back reports.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use engine::RunKey;
use engine::run::{AttemptEnd, Item};
use engine::turn::Perform;
use language::definition::handlers::MUTATION;
use language::definition::{Action, Definition};
use language::expression::{ExpressionError, Scope};
use runners::{Code, Ended, Runners, Work};
use serde_json::value::RawValue;
use store::Report;
use tokio::sync::mpsc::UnboundedSender;
use tokio_util::sync::CancellationToken;

use crate::live::{Live, OutputTap};
use crate::scripts::{ScriptRunner, http_action, judged};
use crate::secrets::Secrets;

/// Performs attempts: with runners, or in a simulation.
pub trait Dispatch: Send + Sync + 'static {
    /// Starts an attempt. Returns its report if it has ended already; otherwise the report is sent
    /// later to the driver this dispatch was made for.
    fn perform(&self, perform: Perform) -> Option<Report>;
    /// Cancels an attempt. Its report is still sent.
    fn cancel(&self, run: RunKey, token: u32);
    /// Aborts all attempts without reports: other nodes, or this node's next start, take them over.
    fn abandon(&self);
    /// Whether steps that do nothing end in the turn that begins them, instead of being performed
    /// here.
    fn ends_noops(&self) -> bool {
        false
    }
}

/// Performs attempts with the runners of this node.
pub struct RunnerDispatch {
    runners: Runners,
    secrets: Arc<Secrets>,
    scripts: Option<ScriptRunner>,
    commands: Commands,
    live: Option<Arc<Live>>,
    reports: UnboundedSender<Report>,
    going_on: Mutex<HashMap<(RunKey, u32), Attempt>>,
}

/// The definitions whose commands this node runs.
#[derive(Clone, Debug)]
pub enum Commands {
    /// Commands of any definition that the runners' policy allows.
    Any,
    /// Only commands of the node's own definitions. A definition that was changed since is another
    /// one, even under the same name.
    Of(Trusted),
}

/// The node's own definitions, including earlier versions of changed ones: runs end on the version
/// they began with.
#[derive(Clone, Debug, Default)]
pub struct Trusted(Arc<RwLock<Vec<Arc<Definition>>>>);

impl Trusted {
    /// Adds definitions to the trusted ones.
    pub fn add(&self, definitions: impl IntoIterator<Item = Arc<Definition>>) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).extend(definitions);
    }

    fn has(&self, definition: &Arc<Definition>) -> bool {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        known.iter().any(|known| known == definition || known.processes().contains(definition))
    }
}

impl Commands {
    fn admit(&self, perform: &Perform) -> bool {
        match (self, perform.action()) {
            (Commands::Of(own), Action::Exec(_)) => own.has(&perform.definition),
            _ => true,
        }
    }
}

struct Attempt {
    cancel: CancellationToken,
    task: tokio::task::AbortHandle,
}

impl RunnerDispatch {
    /// Reports are sent to `reports`.
    pub fn new(runners: Runners, reports: UnboundedSender<Report>) -> RunnerDispatch {
        let (secrets, going_on) = (Arc::default(), Mutex::default());
        let (scripts, commands, live) = (None, Commands::Any, None);
        RunnerDispatch { runners, secrets, scripts, commands, live, reports, going_on }
    }

    /// Templates may use these secrets, and they are masked in outputs.
    #[must_use]
    pub fn with_secrets(self, secrets: Arc<Secrets>) -> RunnerDispatch {
        RunnerDispatch { secrets, ..self }
    }

    /// Scripts are evaluated by `scripts`.
    #[must_use]
    pub fn with_scripts(self, scripts: ScriptRunner) -> RunnerDispatch {
        RunnerDispatch { scripts: Some(scripts), ..self }
    }

    /// Limits whose commands are run.
    #[must_use]
    pub fn admitting(self, commands: Commands) -> RunnerDispatch {
        RunnerDispatch { commands, ..self }
    }

    /// Output of attempts is passed to `live` while they run.
    #[must_use]
    pub(crate) fn heard_by(self, live: Arc<Live>) -> RunnerDispatch {
        RunnerDispatch { live: Some(live), ..self }
    }

    async fn end_of(&self, perform: &Perform, cancel: CancellationToken) -> AttemptEnd {
        let live = self.live.clone();
        let output_tap = live.map(|live| OutputTap::new(live, self.secrets.clone(), perform));
        let end = self.heard_end_of(perform, cancel, output_tap.as_ref()).await;
        if let Some(output_tap) = output_tap {
            output_tap.close();
        }
        end
    }

    async fn heard_end_of(
        &self,
        perform: &Perform,
        cancel: CancellationToken,
        output_tap: Option<&Arc<OutputTap>>,
    ) -> AttemptEnd {
        if let Action::Script(script) = perform.action() {
            return match &self.scripts {
                Some(scripts) => {
                    scripts.perform(perform, script, output_tap.map(|h| &**h), &cancel).await
                }
                None => failed("script_unavailable", "this node evaluates no scripts", true),
            };
        }
        let action = match perform.action() {
            Action::Mutation => {
                let asked = http_action(perform.mutation.as_deref(), &self.secrets);
                asked.map_err(|message| failed("mutation", &message, false))
            }
            _ => filled(perform, &self.secrets).map_err(|error| not_filled(&error, &self.secrets)),
        };
        let action = match action {
            Ok(action) => action,
            Err(end) => return end,
        };
        let work =
            Work { output_sink: output_tap.map(OutputTap::output_sink), ..work(perform, action) };
        let ended = self.runners.perform(work, cancel).await;
        if perform.handler.is_none() {
            let may_be_repeated = perform.step().idempotent || perform.part.item == Item::Undoing;
            return match ended {
                Ended::Failed { code: Code::ExecWait, message, .. } if !may_be_repeated => {
                    // The node lost track of the command, which may have had its effect.
                    AttemptEnd::Unknown { message: self.secrets.mask(&message).into_owned() }
                }
                ended => attempt_end(ended, &self.secrets),
            };
        }
        let ended = if perform.step().id == MUTATION && perform.part.item == Item::Whole {
            match judged(ended) {
                Ok(ended) => ended,
                Err(unknown) => return unknown,
            }
        } else {
            ended
        };
        attempt_end(phase_result(perform, ended), &self.secrets)
    }

    fn attempts(&self) -> std::sync::MutexGuard<'_, HashMap<(RunKey, u32), Attempt>> {
        self.going_on.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// A handle that can be shared with the tasks it starts.
pub struct SharedDispatch(pub Arc<RunnerDispatch>);

impl Dispatch for SharedDispatch {
    fn perform(&self, perform: Perform) -> Option<Report> {
        let (run, token) = (perform.run, perform.token);
        if matches!(perform.action(), Action::Noop) {
            let output = RawValue::NULL.to_owned();
            return Some(Report { run, token, end: AttemptEnd::Succeeded { output } });
        }
        if !self.0.commands.admit(&perform) {
            return Some(Report { run, token, end: not_admitted() });
        }
        let cancel = CancellationToken::new();
        let (dispatch, cancelled) = (self.0.clone(), cancel.clone());
        let mut attempts = self.0.attempts();
        let task = tokio::spawn(async move {
            let end = dispatch.end_of(&perform, cancelled).await;
            dispatch.attempts().remove(&(run, token));
            // If the driver is gone, the node is stopping, and the attempt will be taken over.
            let _ = dispatch.reports.send(Report { run, token, end });
        });
        attempts.insert((run, token), Attempt { cancel, task: task.abort_handle() });
        None
    }

    fn cancel(&self, run: RunKey, token: u32) {
        if let Some(attempt) = self.0.attempts().get(&(run, token)) {
            attempt.cancel.cancel();
        }
    }

    fn ends_noops(&self) -> bool {
        true
    }

    fn abandon(&self) {
        for (_, attempt) in self.0.attempts().drain() {
            attempt.task.abort();
        }
    }
}

/// The action of an attempt with its templates filled in. People are told of no secret that only
/// the payload or an output holds: a notification says `***` there, unless its template names the
/// secret.
pub(crate) fn filled(perform: &Perform, secrets: &Secrets) -> Result<Action, ExpressionError> {
    let action = perform.action();
    match &perform.scope {
        None => Ok(action.clone()),
        Some(Err(error)) => Err(error.clone()),
        Some(Ok(scope)) => {
            let whole = with_secrets(Scope::clone(scope), secrets);
            let Action::Notification(told) = action else { return action.filled(&whole) };
            let masked = scope.changed(|value| secrets.mask_json(value));
            told.filled(&whole, &with_secrets(masked, secrets)).map(Action::Notification)
        }
    }
}

fn with_secrets(mut scope: Scope, secrets: &Secrets) -> Scope {
    scope.secrets(secrets.names().filter_map(|name| Some((name, secrets.get(name)?))));
    scope
}

/// The end of an attempt whose template cannot be filled in. A retry would fail in the same way.
pub(crate) fn not_filled(error: &ExpressionError, secrets: &Secrets) -> AttemptEnd {
    AttemptEnd::Failed {
        code: "expression".to_owned(),
        message: secrets.mask(&said(error, secrets)).into_owned(),
        retryable: false,
        output: None,
    }
}

/// The message of an expression's error. A secret that this node does not have is named, with the
/// way to give it.
fn said(error: &ExpressionError, secrets: &Secrets) -> String {
    match error.expression.strip_prefix("secrets.").map(str::trim) {
        Some(name) if error.code == "undefined" && secrets.get(name).is_none() => format!(
            "{error}; this node has no secret {name}: start it with PUNCTUAL_SECRET_{name}, or with \
             --secrets and a file that has it"
        ),
        _ => error.to_string(),
    }
}

/// The result of a handler's phase that is not a script: the body of an HTTP response, or the JSON
/// that a command prints. A mutation keeps the whole output.
fn phase_result(perform: &Perform, ended: Ended) -> Ended {
    let Ended::Succeeded { output } = ended else { return ended };
    if perform.step().id == MUTATION && perform.part.item == Item::Whole {
        return Ended::Succeeded { output };
    }
    let part = match perform.action() {
        Action::Http(_) => output.get("body"),
        Action::Exec(_) => output.get("json"),
        _ => Some(&output),
    };
    Ended::Succeeded { output: part.cloned().unwrap_or_default() }
}

fn failed(code: &str, message: &str, retryable: bool) -> AttemptEnd {
    let (code, message) = (code.to_owned(), message.to_owned());
    AttemptEnd::Failed { code, message, retryable, output: None }
}

pub(crate) fn work(perform: &Perform, action: Action) -> Work {
    let earlier = perform.earlier.as_ref();
    Work {
        action,
        run_id: perform.run_id.to_string(),
        step_id: perform.step().id.clone(),
        idempotency_key: perform.idempotency_key(),
        input: perform.input.clone(),
        traceparent: perform.trace.map(|trace| trace.to_string()),
        output_sink: None,
        earlier: earlier.and_then(|earlier| serde_json::from_str(earlier.get()).ok()),
        timeout: perform
            .timeout()
            .map_or(Duration::MAX, |limit| Duration::try_from(limit).unwrap_or(Duration::MAX)),
    }
}

fn not_admitted() -> AttemptEnd {
    let message = "this node runs the commands of its own folder's definitions only; start it with \
                   --allow-exec if commands of others are to be trusted";
    // A later attempt may succeed: with another, trusted version, or on a node started with other
    // options.
    AttemptEnd::NotAllowed { message: message.to_owned(), retryable: true }
}

/// The end of an attempt as it is reported, with secrets masked.
pub(crate) fn attempt_end(ended: Ended, secrets: &Secrets) -> AttemptEnd {
    let raw = |value: serde_json::Value| raw(&secrets.mask_json(value));
    let plain = |message: String| secrets.mask(&message).into_owned();
    match ended {
        Ended::Succeeded { output } => AttemptEnd::Succeeded { output: raw(output) },
        Ended::Failed { code: Code::ExecNotAllowed, message, retryable, .. } => {
            AttemptEnd::NotAllowed { message: plain(message), retryable }
        }
        Ended::Failed { code, message, retryable, output } => AttemptEnd::Failed {
            code: code.name().to_owned(),
            message: plain(message),
            retryable,
            output: output.map(raw),
        },
        Ended::TimedOut { message } => AttemptEnd::Failed {
            code: "timeout".to_owned(),
            message: plain(message),
            retryable: true,
            output: None,
        },
        Ended::Cancelled { message } => AttemptEnd::Cancelled { message: plain(message) },
    }
}

pub(crate) fn raw(value: &serde_json::Value) -> Box<RawValue> {
    serde_json::value::to_raw_value(value).unwrap_or_else(|_| RawValue::NULL.to_owned())
}
