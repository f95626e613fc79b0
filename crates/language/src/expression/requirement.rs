//! Reads from the syntax of a condition which value a field of the event must have. Many steps may
//! wait for events of one topic, each with a condition such as
//! `event.payload.order == input.order`. Such a step need only be offered the events whose field
//! has its value.

use minijinja::machinery::ast::{BinOpKind, Expr};
use serde_json::Value;

use super::evaluate::Evaluation;
use super::references::{References, Root};
use super::syntax::Source;
use super::{Scope, inside};

/// The values that a condition requires of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Requirement {
    /// A field of the event must equal a value.
    Field {
        /// The names that lead from the event to the field.
        path: Vec<String>,
        /// The [`value_class`] of the value.
        class: String,
    },
    /// The condition has to be evaluated for each event.
    Evaluation,
    /// No event can fulfil the condition.
    Impossible,
}

/// What a condition requires of an event, when everything else in it is known.
pub fn requirement(condition: &str, scope: &Scope) -> Requirement {
    required(condition, scope).unwrap_or(Requirement::Evaluation)
}

fn required(condition: &str, scope: &Scope) -> Option<Requirement> {
    let (text, at) = inside(condition).ok()?;
    let source = Source::new(text, at).ok()?;
    let parsed = source.parse().ok()?;
    // Every operand of `and` must hold, so each of them alone is a requirement.
    let mut operands = vec![&parsed];
    while let Some(operand) = operands.pop() {
        let sides = match operand {
            Expr::BinOp(op) if matches!(op.op, BinOpKind::ScAnd) => {
                operands.extend([&op.right, &op.left]);
                continue;
            }
            Expr::BinOp(op) if matches!(op.op, BinOpKind::Eq) => (&op.left, &op.right),
            _ => continue,
        };
        for (field, value) in [sides, (sides.1, sides.0)] {
            let Some(path) = event_field(field) else { continue };
            if mentions_event(&source, value) {
                continue;
            }
            // A value that cannot be evaluated now cannot be evaluated for any event.
            let value = Evaluation::new(scope).run(&source, value);
            return Some(value.map_or(Requirement::Impossible, |value| Requirement::Field {
                path,
                class: value_class(&value),
            }));
        }
    }
    None
}

/// A text that is the same for all values that are equal in expressions. Lists have one in common,
/// and so have mappings.
pub fn value_class(value: &Value) -> String {
    match value {
        Value::Number(number) => number.as_f64().map_or_else(String::new, |n| n.to_string()),
        Value::Array(_) => "[]".to_owned(),
        Value::Object(_) => "{}".to_owned(),
        other => other.to_string(),
    }
}

/// The literal names after `event`, if the expression is a field of the event.
fn event_field(expr: &Expr<'_>) -> Option<Vec<String>> {
    let (mut at, mut path) = (expr, Vec::new());
    loop {
        at = match at {
            Expr::GetAttr(attr) => {
                path.push(attr.name.to_owned());
                &attr.expr
            }
            Expr::GetItem(item) => {
                let Expr::Const(name) = &item.subscript_expr else { return None };
                path.push(name.value.as_str()?.to_owned());
                &item.expr
            }
            Expr::Var(var) if var.id == Root::Event.name() => break,
            _ => return None,
        };
    }
    path.reverse();
    Some(path)
}

fn mentions_event(source: &Source<'_>, expr: &Expr<'_>) -> bool {
    let mut found = References::default();
    let faults = found.visit(source, expr);
    !faults.is_empty() || found.roots.iter().any(|(root, _)| *root == Root::Event)
}
