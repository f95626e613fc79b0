//! Evaluates the few forms of conditions and templates that generated definitions have, independent
//! of the engine.

use engine::run::{Item, StepState};
use serde_json::Value;

use super::Seen;

/// The value cannot be determined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unknown;

impl Seen<'_> {
    /// Whether a condition like `a > 1 and b == 'x'` holds.
    pub(super) fn holds(&self, condition: &str) -> Result<bool, Unknown> {
        for part in condition.split(" and ") {
            let words: Vec<&str> = part.split_whitespace().collect();
            let [path, operator, bound] = words[..] else { return Err(Unknown) };
            let value = self.value(path).ok_or(Unknown)?;
            let holds = match operator {
                ">" => {
                    let bound: i64 = bound.parse().map_err(|_| Unknown)?;
                    value.as_i64().ok_or(Unknown)? > bound
                }
                _ => value.as_str() == Some(bound.trim_matches('\'')),
            };
            if !holds {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The value of a template `{{ path }}`.
    pub(super) fn filled(&self, template: &Value) -> Option<Value> {
        let path = template.as_str()?.strip_prefix("{{ ")?.strip_suffix(" }}")?;
        self.value(path)
    }

    fn value(&self, path: &str) -> Option<Value> {
        if let Some(key) = path.strip_prefix("input.") {
            return self.is.payload.get(key).cloned();
        }
        let (id, rest) = path.strip_prefix("steps.")?.split_once('.')?;
        let step = self.steps().find(|at| self.is.definition.steps[*at as usize].id == id)?;
        let output = || self.is.row(step, Item::Whole).and_then(|row| row.output.clone());
        match rest {
            "status" => Some(Value::from(shown(self.state(step)))),
            "output" => Some(output().unwrap_or(Value::Null)),
            _ => output()?.get(rest.strip_prefix("output.")?).cloned(),
        }
    }
}

fn shown(state: StepState) -> &'static str {
    match state {
        StepState::Pending => "pending",
        StepState::Active => "running",
        StepState::Completed => "completed",
        StepState::Failed => "failed",
        StepState::Skipped | StepState::Bypassed => "skipped",
        StepState::Cancelled => "cancelled",
    }
}
