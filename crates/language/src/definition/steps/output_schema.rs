//! The schemas of the outputs of steps.
//!
//! The engine and the runners write these outputs. A test of each of them compares what it writes
//! with these schemas.

use super::action::{Action, SubProcess};
use super::http::ANSWER_HEADERS;
use crate::definition::model::OnError;
use crate::expression;
use crate::input_schema::InputSchema;

/// The field that marks an output as cut. It is listed for outputs that may be too long.
const TRUNCATED: &str = "truncated";

/// The schema of the output of a step with this action, whether it has completed or failed. The
/// output of a step without a result is `null` instead.
pub fn output_schema(action: &Action, on_error: &OnError) -> InputSchema {
    match action {
        Action::ForEach(each) => InputSchema::list_of(of_type(each.action.name())),
        Action::SubProcess(child) => of_child(child, on_error),
        other => of_type(other.name()),
    }
}

/// The schema of the output of any step of this type.
pub(super) fn of_type(kind: &str) -> InputSchema {
    let (text, number, boolean) = (InputSchema::text, InputSchema::number, InputSchema::boolean);
    match kind {
        "http" => InputSchema::mapping([
            ("status", number()),
            ("headers", InputSchema::mapping(ANSWER_HEADERS.map(|name| (name, text())))),
            ("body", InputSchema::default()),
            ("body_truncated", boolean()),
            (TRUNCATED, boolean()),
        ]),
        "exec" => InputSchema::mapping([
            ("exit_code", number().or_null()),
            ("signal", text()),
            ("json", InputSchema::default()),
            ("stdout", text()),
            ("stdout_bytes", number()),
            ("stdout_truncated", boolean()),
            ("stderr", text()),
            ("stderr_bytes", number()),
            ("stderr_truncated", boolean()),
            (TRUNCATED, boolean()),
        ]),
        "notification" => {
            let channel = InputSchema::mapping([
                ("channel", text()),
                ("told", boolean()),
                ("code", text()),
                ("message", text()),
            ]);
            InputSchema::mapping([
                ("channels", InputSchema::list_of(channel)),
                (TRUNCATED, boolean()),
            ])
        }
        "timer" => {
            InputSchema::mapping([("waited_seconds", number()), ("delay_formatted", text())])
        }
        "human_approval" => InputSchema::mapping([
            ("decision", text()),
            ("decided_by", text()),
            ("comment", text().or_null()),
        ]),
        "gateway" => InputSchema::mapping([("routes", InputSchema::list_of(text()))]),
        "publish" => InputSchema::mapping([("topic", text()), ("message_id", text())]),
        "wait_for" => {
            let mut event = expression::event();
            event.properties.insert(TRUNCATED.to_owned(), boolean());
            event
        }
        "for_each" => InputSchema::list_of(InputSchema::default()),
        // A script, a worker, an agent and a child run say what they like. A noop stands for
        // another step while a definition is tried out, and simulated ones have outputs.
        _ => InputSchema::default(),
    }
}

fn of_child(child: &SubProcess, on_error: &OnError) -> InputSchema {
    match &child.output_key {
        _ if !child.wait_for_completion => InputSchema::mapping([
            ("started", InputSchema::text()),
            ("run_id", InputSchema::text()),
        ]),
        // The output of a child that has failed is not under the key, and may be seen after
        // `skip_step` and `goto_step`.
        Some(key) if *on_error == OnError::FailProcess => InputSchema::mapping([
            (key.as_str(), InputSchema::default()),
            (TRUNCATED, InputSchema::boolean()),
        ]),
        _ => InputSchema::default(),
    }
}
