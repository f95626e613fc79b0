//! Checks, saves and publishes definitions.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use engine::WorkflowId;
use engine::turn::{Answer, Command, Refused};
use language::definition::{self, Definition, Flaw, ReadContext};
use serde::Serialize;
use store::{Failure, WorkflowView};
use utoipa::ToSchema;

use super::object::{AuthorVersion, author_version};
use super::plan::{self, PlannedTrigger};
use crate::declare_calendars;
use crate::http::App;
use crate::http::access::Caller;
use crate::http::answer::{self, Answered};
use crate::http::body::RawBody;
use crate::http::problem::{Problem, Wrong};
use crate::http::query::{Parameters, Query, Values};
use crate::http::shapes;
use crate::own_calendars::calendars_of_others;
use crate::sources::{Form, Source, SourceError};

/// The content types of definitions.
const YAML: [&str; 4] = ["application/yaml", "text/yaml", "application/x-yaml", "text/x-yaml"];
const JAVASCRIPT: [&str; 3] =
    ["application/javascript", "text/javascript", "application/x-javascript"];

/// An error or warning in a definition.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = DefinitionRemark)]
pub(super) struct Remark {
    /// `error` or `warning`.
    #[schema(value_type = shapes::Severity)]
    severity: &'static str,
    #[serde(flatten)]
    what: Wrong,
}

/// The result of saving a definition.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Saved {
    /// The workflow's id; null if it would be new and `dry_run` was set.
    id: Option<String>,
    name: String,
    /// The version that its author gave.
    version: AuthorVersion,
    /// The number of the revision, counted by the server.
    revision: u32,
    /// `draft`, `published` or `archived`.
    #[schema(value_type = shapes::WorkflowStatus)]
    status: &'static str,
    /// Whether anything has changed: there is a new revision, or another revision went live.
    changed: bool,
    /// Warnings about the definition.
    problems: Vec<Remark>,
    /// What publishing does to triggers and producers. Present with `dry_run`, and if a publish has
    /// changed something.
    #[serde(skip_serializing_if = "Option::is_none")]
    triggers: Option<Vec<PlannedTrigger>>,
}

/// Whether a definition is valid.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Validity {
    valid: bool,
    problems: Vec<Remark>,
}

pub(super) struct Saving {
    publish: bool,
    dry_run: bool,
}

impl Parameters for Saving {
    fn read(values: &mut Values) -> Saving {
        Saving { publish: values.flag("publish"), dry_run: values.flag("dry_run") }
    }
}

/// Saves a definition: as a new workflow, or as a new revision of the workflow with its name.
#[utoipa::path(post, path = "/workflows", tag = "workflows",
    request_body(content((Object = "application/yaml"), (Object = "application/json"),
        (String = "application/javascript"))),
    params(("publish" = Option<bool>, Query, description = "Goes live at once"),
        ("dry_run" = Option<bool>, Query, description = "Nothing is stored"),
        ("Idempotency-Key" = Option<String>, Header, description = "Asking twice does once")),
    responses((status = 201, body = Saved), (status = 200, body = Saved, description = "Nothing new"),
        (status = 413, body = Problem), (status = 415, body = Problem),
        (status = 422, body = Problem)))]
pub(super) async fn create(
    State(app): State<App>,
    caller: Caller,
    Query(saving): Query<Saving>,
    body: RawBody,
) -> Answered {
    let source = described(&app, &body).await?;
    let (definition, mut warnings) = checked(&app, &source)?;
    if saving.publish {
        refuse_commands(&app, &definition, &body.text)?;
    }
    // Publishing is how people repair a definition that cannot be read, so it must not need the
    // previous one.
    let before = super::workflow_if_readable(&app, &definition.name, None).await?;
    let others = calendars_of_others(&**app.store(), &definition, id_of(before.as_ref())).await?;
    warnings.extend(definition::calendars_of_others(&others, &definition, source.text()));
    let unknown = unknown_workflows(&app, &definition).await?;
    warnings.extend(definition::unknown_workflows(&definition, source.text(), &unknown));
    // A plan and the response to a publish say what happens to the triggers.
    let triggers = if saving.dry_run || saving.publish {
        Some(plan::triggers(&app, before.as_ref(), &definition).await?)
    } else {
        None
    };
    if saving.dry_run {
        let saved = planned(before, &definition, &saving, warnings);
        return answer::ok(&Saved { triggers, ..saved });
    }
    let (name, version) = (definition.name.clone(), author_version(definition.version));
    let (asked, publish) = (app.clone(), saving.publish);
    // One task does both: if the caller goes away, the calendars do not change without the
    // definition.
    let storing = async move {
        if publish {
            put_calendars(&asked, &caller, &definition).await?;
        }
        let (source, known) = (body.text, definition.clone());
        let command = Command::SaveWorkflow { source, definition, publish, folder: None };
        let commanded = asked.command(&caller, command, body.idempotency).await;
        commanded.map_err(|failure| in_triggers(&known, failure))
    };
    let commanded = app.hub().uninterrupted(storing).await?;
    let Answer::Workflow { id, revision, .. } = commanded.answer else {
        return Err(Problem::unavailable("The store answers something else."));
    };
    let view = super::find_workflow(&app, &id.to_string(), Some(revision)).await?;
    let known = before.map(|view| (view.workflow.newest, view.workflow.live));
    let changed = known.is_none_or(|(newest, live)| {
        revision > newest || (saving.publish && live != Some(revision))
    });
    let saved = Saved {
        id: Some(id.to_string()),
        name,
        version,
        revision,
        status: view.workflow.status.name(),
        changed,
        problems: remarks("warning", warnings),
        triggers: triggers.filter(|_| changed),
    };
    let response = if changed {
        answer::created(&format!("/api/v1/workflows/{id}"), &saved)?
    } else {
        answer::ok(&saved)?
    };
    Ok(answer::replayed(response, commanded.replayed))
}

/// The workflow's id; an id that never exists, if it is new.
fn id_of(workflow: Option<&WorkflowView>) -> WorkflowId {
    workflow.map_or(WorkflowId(0), |view| view.workflow.id)
}

/// Checks a definition and lists all errors in it. Nothing is stored.
#[utoipa::path(post, path = "/workflows/validate", tag = "workflows",
    request_body(content((Value = "application/yaml"), (Value = "application/json"),
        (String = "application/javascript"))),
    responses((status = 200, body = Validity), (status = 413, body = Problem),
        (status = 415, body = Problem)))]
pub(super) async fn validate(
    State(app): State<App>,
    Query(()): Query<()>,
    body: RawBody,
) -> Answered {
    let validity = match look(&app, &body).await? {
        Found::Good(_, warnings) => {
            Validity { valid: true, problems: remarks("warning", warnings) }
        }
        Found::Wrong(flaws) => Validity { valid: false, problems: remarks("error", flaws) },
    };
    answer::json(StatusCode::OK, &validity)
}

/// The result of checking the text of a definition.
pub(crate) enum Found {
    /// The definition is valid, possibly with warnings.
    Good(Arc<Definition>, Vec<Flaw>),
    Wrong(Vec<Flaw>),
}

/// Checks the text of a definition. Nothing is stored.
pub(crate) async fn look(app: &App, body: &RawBody) -> Result<Found, Problem> {
    let checked = match described(app, body).await {
        Ok(source) => checked(app, &source),
        Err(Undescribed::Flaws(flaws)) => Err(flaws),
        Err(Undescribed::Problem(problem)) => return Err(problem),
    };
    Ok(match checked {
        Ok((definition, warnings)) => Found::Good(definition, warnings),
        Err(flaws) => Found::Wrong(flaws),
    })
}

/// Why a text could not be read as a definition.
enum Undescribed {
    /// The script has errors.
    Flaws(Vec<Flaw>),
    /// The text cannot be checked now, or has the wrong content type.
    Problem(Problem),
}

impl From<Undescribed> for Problem {
    fn from(undescribed: Undescribed) -> Problem {
        match undescribed {
            Undescribed::Flaws(flaws) => flaws.into(),
            Undescribed::Problem(problem) => problem,
        }
    }
}

/// The text, evaluated if it is a script.
async fn described<'t>(app: &App, body: &'t RawBody) -> Result<Source<'t>, Undescribed> {
    let form = form(body).map_err(Undescribed::Problem)?;
    let source = Source::new(form, &body.text, app.scripts(), app.now()).await;
    source.map_err(|error| match error {
        SourceError::Flaws(flaws) => Undescribed::Flaws(flaws),
        SourceError::Unavailable(why) => Undescribed::Problem(Problem::unavailable(why)),
    })
}

fn form(body: &RawBody) -> Result<Form, Problem> {
    match body.content_type.as_deref() {
        Some(kind) if kind == "application/json" || YAML.contains(&kind) => Ok(Form::Text),
        Some(kind) if JAVASCRIPT.contains(&kind) => Ok(Form::Script),
        kind => Err(Problem::wrong_type(format!(
            "The body is {}. Send Content-Type: application/yaml, application/json or \
             application/javascript.",
            kind.unwrap_or("nothing")
        ))),
    }
}

fn checked(app: &App, source: &Source<'_>) -> Result<(Arc<Definition>, Vec<Flaw>), Vec<Flaw>> {
    let rules = app.rules();
    let known = |id: &str| rules.calendar(id).cloned();
    let context = ReadContext { zones: rules.zones(), now: app.now(), known_calendar: &known };
    let (definition, mut warnings) = source.read(&context)?;
    let setup = &app.reach().setup;
    warnings.extend(definition::unreachable_channels(&definition, source.text(), setup));
    let is_known = |name: &str| app.secrets().get(name).is_some();
    warnings.extend(definition::unknown_secrets(&definition, source.text(), is_known));
    Ok((Arc::new(definition), warnings))
}

/// The names of the workflows that the definition starts and that do not exist.
async fn unknown_workflows(
    app: &App,
    definition: &Definition,
) -> Result<BTreeSet<String>, Problem> {
    let mut unknown = BTreeSet::new();
    for name in definition.workflows_named() {
        match app.store().workflow(&name, None).await {
            Ok(None) => {
                unknown.insert(name);
            }
            Ok(Some(_)) | Err(Failure::Undecidable { .. }) => {}
            Err(failure) => return Err(failure.into()),
        }
    }
    Ok(unknown)
}

fn remarks(severity: &'static str, flaws: Vec<Flaw>) -> Vec<Remark> {
    flaws.into_iter().map(|flaw| Remark { severity, what: flaw.into() }).collect()
}

/// What saving would do.
fn planned(
    before: Option<WorkflowView>,
    definition: &Definition,
    saving: &Saving,
    warnings: Vec<Flaw>,
) -> Saved {
    let workflow = before.as_ref().map(|view| &view.workflow);
    let newest = workflow.map_or(0, |workflow| workflow.newest);
    // If a newer draft exists, its text is not at hand, so the definition counts as changed.
    let is_same = before
        .as_ref()
        .is_some_and(|view| view.revision == newest && *view.definition == *definition);
    let revision = if is_same { newest } else { newest + 1 };
    let is_live = workflow.is_some_and(|workflow| workflow.live == Some(revision));
    let status = workflow.map_or("draft", |workflow| workflow.status.name());
    Saved {
        id: workflow.map(|workflow| workflow.id.to_string()),
        name: definition.name.clone(),
        version: author_version(definition.version),
        revision,
        status: if saving.publish { "published" } else { status },
        changed: !is_same || (saving.publish && !is_live),
        problems: remarks("warning", warnings),
        triggers: None,
    }
}

/// The plan of a publish: the changes to triggers if the newest revision went live. `live` is the
/// published revision.
pub(super) async fn publish_plan(
    app: &App,
    live: &WorkflowView,
    newest: &WorkflowView,
) -> Result<Saved, Problem> {
    let definition = &newest.definition;
    let others = calendars_of_others(&**app.store(), definition, live.workflow.id).await?;
    let warnings = definition::calendars_of_others(&others, definition, &newest.source);
    let saving = Saving { publish: true, dry_run: true };
    let saved = planned(Some(newest.clone()), definition, &saving, warnings);
    let triggers = Some(plan::triggers(app, Some(live), definition).await?);
    Ok(Saved { triggers, ..saved })
}

/// Refuses definitions that run commands if the host does not allow them.
pub(super) fn refuse_commands(
    app: &App,
    definition: &Definition,
    text: &str,
) -> Result<(), Problem> {
    let flaws = if app.allows_exec() { Vec::new() } else { definition::commands(definition, text) };
    if flaws.is_empty() { Ok(()) } else { Err(flaws.into()) }
}

/// Stores the calendars of a definition before its triggers go live.
pub(super) async fn put_calendars(
    app: &App,
    caller: &Caller,
    definition: &Definition,
) -> Result<(), Problem> {
    let audit = |id: &str| app.audit(caller, Some(format!("calendar {id}")));
    let declared = declare_calendars(app.hub(), definition, audit).await;
    declared.map_err(|(index, failure)| under(&format!("calendars[{index}]"), failure))
}

/// Converts a failure, with `path` as the prefix of its errors.
fn under(path: &str, failure: Failure) -> Problem {
    match failure {
        Failure::Refused(Refused::Invalid(all)) => {
            let mistakes = all.into_iter().flat_map(|(_, mistakes)| mistakes);
            Problem::invalid(mistakes.map(|mistake| mistake.under(path)))
        }
        other => other.into(),
    }
}

/// Converts errors in triggers and in the schedules of producers that show only when they go live.
pub(super) fn in_triggers(definition: &Definition, failure: Failure) -> Problem {
    match failure {
        Failure::Refused(Refused::Invalid(all)) => {
            let mistakes = all.into_iter().flat_map(|(index, mistakes)| {
                let path = path_of(definition, index);
                mistakes.into_iter().map(move |mistake| mistake.under(&path))
            });
            Problem::invalid(mistakes.collect::<Vec<_>>())
        }
        other => other.into(),
    }
}

/// The path of a trigger or producer. The index counts triggers first, then producers.
fn path_of(definition: &Definition, index: usize) -> String {
    let producer = index.checked_sub(definition.triggers.len());
    match producer.and_then(|index| definition.producers.get(index)) {
        Some(producer) => format!("producers.{}.schedule", producer.name),
        None => format!("triggers[{index}]"),
    }
}
