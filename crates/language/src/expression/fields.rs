//! The fields of what expressions see, where they are always the same.

use std::sync::LazyLock;

use super::references::Root;
use crate::input_schema::{Additional, InputSchema};

/// The fields of a step.
pub(super) const OF_A_STEP: [&str; 3] = ["output", "status", "error"];
/// The fields of a run. Without a schedule, trigger or handler, those fields are `null`.
pub const OF_A_RUN: [&str; 15] = [
    "id",
    "schedule_id",
    "schedule_name",
    "n",
    "retry",
    "nominal_at",
    "effective_at",
    "triggered_by",
    "by",
    "merged",
    "created_at",
    "started_at",
    "trigger_id",
    "event",
    "handler",
];
/// The fields of a workflow.
pub const OF_A_WORKFLOW: [&str; 2] = ["name", "version"];
/// The fields of an event.
pub const OF_AN_EVENT: [&str; 6] =
    ["topic", "message_id", "title", "payload", "causes", "created_at"];

/// The known fields of the roots, in the order of [`Root::ALL`].
static OF_ROOTS: LazyLock<[Option<InputSchema>; Root::ALL.len()]> =
    LazyLock::new(|| Root::ALL.map(of_root));

impl Root {
    /// The schema of the values with this name, whatever the definition says.
    pub(crate) fn schema(self) -> Option<&'static InputSchema> {
        OF_ROOTS[self as usize].as_ref()
    }
}

fn of_root(root: Root) -> Option<InputSchema> {
    match root {
        Root::Run => Some(run()),
        Root::Workflow => Some(workflow()),
        Root::Event => Some(event()),
        Root::Index => Some(InputSchema::number()),
        Root::Secrets => {
            let each = Some(Additional::Each(Box::new(InputSchema::text())));
            Some(InputSchema { additional_properties: each, ..InputSchema::mapping([]) })
        }
        Root::Input | Root::Item | Root::Steps => None,
    }
}

/// The schema of a run.
pub fn run() -> InputSchema {
    InputSchema::mapping(OF_A_RUN.map(|name| {
        let schema = match name {
            "id" | "triggered_by" | "created_at" => InputSchema::text(),
            "merged" => InputSchema::number(),
            "n" | "retry" => InputSchema::number().or_null(),
            "event" => event().or_null(),
            _ => InputSchema::text().or_null(),
        };
        (name, schema)
    }))
}

/// The schema of a workflow.
pub fn workflow() -> InputSchema {
    InputSchema::mapping(OF_A_WORKFLOW.map(|name| (name, InputSchema::text())))
}

/// The schema of an event.
pub fn event() -> InputSchema {
    InputSchema::mapping(OF_AN_EVENT.map(|name| {
        let schema = match name {
            "payload" => InputSchema::default(),
            "causes" => InputSchema::list_of(InputSchema::text()),
            "title" => InputSchema::text().or_null(),
            _ => InputSchema::text(),
        };
        (name, schema)
    }))
}

/// The schema of the call of a webhook.
pub(crate) static OF_A_CALL: LazyLock<InputSchema> = LazyLock::new(|| {
    let each = Some(Additional::Each(Box::new(InputSchema::text())));
    let headers = InputSchema { additional_properties: each, ..InputSchema::mapping([]) };
    InputSchema::mapping([("body", InputSchema::default()), ("headers", headers)])
});

/// The schema of the status and of the error of a step.
pub(crate) static OF_A_STATUS: LazyLock<InputSchema> = LazyLock::new(InputSchema::text);
pub(crate) static OF_AN_ERROR: LazyLock<InputSchema> =
    LazyLock::new(|| InputSchema::text().or_null());

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_root_has_the_schema_of_its_own() {
        for root in Root::ALL {
            assert_eq!(root.schema(), of_root(root).as_ref(), "{}", root.name());
        }
    }
}
