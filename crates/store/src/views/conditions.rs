//! Conditions of lists, with their parameters.

use engine::RunId;

use crate::views::{Param, params};

/// Conditions that are joined by `AND`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Conditions<'a> {
    pub(crate) sql: String,
    pub(crate) params: Vec<Param<'a>>,
}

impl<'a> Conditions<'a> {
    /// Adds a condition that ends with this value.
    pub(crate) fn add(&mut self, condition: &str, value: impl Into<Param<'a>>) {
        let name = self.bind(value);
        self.add_text(&format!("{condition} {name}"));
    }

    /// As [`Conditions::add`], if there is a value.
    pub(crate) fn add_some(&mut self, condition: &str, value: Option<impl Into<Param<'a>>>) {
        if let Some(value) = value {
            self.add(condition, value);
        }
    }

    /// Adds a condition without a value of its own.
    pub(crate) fn add_text(&mut self, condition: &str) {
        if !self.sql.is_empty() {
            self.sql.push_str(" AND ");
        }
        self.sql.push_str(condition);
    }

    /// Adds a parameter, and returns what statements call it.
    pub(crate) fn bind(&mut self, value: impl Into<Param<'a>>) -> String {
        self.params.push(value.into());
        format!("${}", self.params.len())
    }
}

/// The condition for run `r` with this id.
pub(crate) fn run_condition(id: &RunId) -> (&'static str, Vec<Param<'static>>) {
    match id {
        RunId::Occurrence { schedule, n, retry } => {
            // No run was retried as often as a column cannot count.
            let retry = i32::try_from(*retry).unwrap_or(i32::MAX);
            let params = params![*schedule, *n, retry].to_vec();
            ("r.schedule = $1 AND r.n = $2 AND r.retry = $3", params)
        }
        RunId::Other(uuid) => ("r.uuid = $1", vec![Param::Uuid(*uuid)]),
    }
}
