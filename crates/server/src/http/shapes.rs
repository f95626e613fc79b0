//! Schemas for the OpenAPI document where the Rust type of a field does not suffice: enumerations,
//! errors, ids.
//!
//! The enumerations are the engine's own, so a new value is in the document at once.

use engine::handlers::MutationStatus as Mutations;
use engine::ledger::Outcome;
use engine::run::{Ending, Resolution, RunStatus as Runs, StepStatus as Steps, TriggeredBy as By};
use engine::schedule::Status;
use engine::topics::EventState as Events;
use engine::turn::WorkflowStatus as Workflows;
use language::definition::DeadlineEnd;
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{ObjectBuilder, Schema, SchemaType, Type};
use utoipa::{PartialSchema, ToSchema};

use super::access::Role;

fn one_of<'a>(description: &str, words: impl IntoIterator<Item = &'a str>) -> RefOr<Schema> {
    let words: Vec<&str> = words.into_iter().collect();
    let schema = ObjectBuilder::new()
        .schema_type(SchemaType::Type(Type::String))
        .description(Some(description))
        .enum_values(Some(words));
    schema.build().into()
}

/// The word that a value is serialized as.
fn written(value: impl serde::Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(word)) => word,
        _ => String::new(),
    }
}

macro_rules! words {
    ($($name:ident: $description:literal, $words:expr;)*) => {$(
        #[doc = $description]
        #[derive(Clone, Copy, Debug)]
        pub(crate) enum $name {}

        impl PartialSchema for $name {
            fn schema() -> RefOr<Schema> {
                one_of($description, $words)
            }
        }

        impl ToSchema for $name {}
    )*};
}

words! {
    ScheduleStatus: "Where a schedule stands.", Status::ALL.map(Status::name);
    WorkflowStatus: "Whether a workflow has been published, or is out of use.",
        Workflows::ALL.map(Workflows::name);
    RunStatus: "Where a run stands.", Runs::ALL.map(Runs::name);
    RunEnding: "How a run has ended.", Ending::ALL.map(|ending| ending.status().name());
    TriggeredBy: "What has started a run.", By::ALL.map(By::name);
    StepStatus: "Where a step stands.", Steps::ALL.map(Steps::name);
    OccurrenceOutcome: "What became of an occurrence.", Outcome::ALL.map(Outcome::name);
    EventState: "Where an event stands.", Events::ALL.map(Events::name);
    MutationStatus: "What became of a mutation of the outside world.",
        Mutations::ALL.map(Mutations::name);
    RoleName: "What a token is for.", Role::ALL.map(Role::name);
    TokenStatus: "Whether a token is good.", ["active", "expired", "revoked", "unreadable"];
    ComingFate: "What becomes of a time that the rule says.", ["kept", "moved", "skipped", "coalesced", "retried", "queued"];
    Severity: "Whether it stops the definition from being saved.", ["error", "warning"];
    ConsumerState: "What a consumer does.",
        ["ready", "sleeping", "running", "suspended", "paused"];
    TriggerType: "What kind of trigger it is.", ["schedule", "manual", "webhook", "event"];
    SetAsideKind: "What kind of thing was set aside.", ["schedule", "run", "handler"];
    EventOrder: "Which events come first.", ["latest", "oldest"];
}

macro_rules! values {
    ($($name:ident: $description:literal, $values:expr;)*) => {$(
        #[doc = $description]
        #[derive(Clone, Copy, Debug)]
        pub(crate) enum $name {}

        impl PartialSchema for $name {
            fn schema() -> RefOr<Schema> {
                let words = $values.map(written);
                one_of($description, words.iter().map(String::as_str))
            }
        }

        impl ToSchema for $name {}
    )*};
}

values! {
    AttemptResolution: "What became of an attempt whose end is unknown. `applied`: it did its work, go on. \
        `did_not_happen`: try it again. `failed`: give up. `skip`: go on without it.",
        [Resolution::Applied, Resolution::DidNotHappen, Resolution::Failed, Resolution::Skip];
    LateEnding: "What becomes of work that is late.",
        [DeadlineEnd::Fail, DeadlineEnd::Cancel, DeadlineEnd::Complete, DeadlineEnd::Skip];
}

macro_rules! composed {
    ($($(#[doc = $doc:literal])* $name:ident;)*) => {$(
        $(#[doc = $doc])*
        #[derive(Clone, Copy, Debug)]
        pub(crate) enum $name {}

        impl PartialSchema for $name {
            fn schema() -> RefOr<Schema> {
                ObjectBuilder::new().build().into()
            }
        }

        impl ToSchema for $name {}
    )*};
}

// Their content is composed when all routes are known: see `openapi/composed.rs`.
composed! {
    /// A new schedule.
    ScheduleInput;
    /// Several new schedules.
    ScheduleBatch;
    /// Changes to a schedule.
    ScheduleChange;
    /// A changed schedule, or with `dry_run` what would change.
    ScheduleEdited;
    /// A rule to preview.
    PreviewInput;
    /// The declared part of a schedule.
    DeclaredSchedule;
    /// A calendar as it is declared.
    CalendarInput;
    /// An event, or a list of events.
    EventsInput;
    /// The run that a call has started, or what it has published.
    HookAnswered;
}

/// Why a run or a step has failed.
#[derive(ToSchema)]
#[expect(dead_code, reason = "the document's description of the engine's own type")]
pub(crate) struct RunError {
    /// A code for programs, such as `exit_code` or `timeout`.
    code: String,
    /// A message for people.
    message: String,
    /// The step that failed.
    step: Option<String>,
}
