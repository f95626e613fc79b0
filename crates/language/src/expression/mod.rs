//! Conditions (`steps.check.output.score > 80`) and templates (`Report of {{ input.day }}`).
//!
//! Both use the expressions of Jinja. `syntax` parses a text (with the parser of `minijinja`),
//! `references` finds the names it uses, and `evaluate` evaluates it over JSON. Nothing here can
//! take long or grow large: see [`limits`].
//!
//! ```
//! use language::expression::{Scope, check_template, holds, text, value};
//!
//! let mut scope = Scope::default();
//! scope.input(r#"{"day": "Monday", "rows": 3}"#).unwrap();
//! scope.step("check-rows", "completed", Some(r#"{"good": [1, 2]}"#), None).unwrap();
//!
//! assert_eq!(text("Report of {{ input.day }}", &scope).unwrap(), "Report of Monday");
//! assert!(holds("steps.check-rows.output.good | length < input.rows", &scope).unwrap());
//! let good = value(&"{{ steps.check-rows.output.good }}".into(), &scope).unwrap();
//! assert_eq!(good, serde_json::json!([1, 2]));
//!
//! let named = check_template("{{ steps.check-rows.output.good }}").unwrap();
//! assert_eq!(named.steps[0].id, "check-rows");
//! assert_eq!(check_template("{{ inptu.day }}").unwrap_err().faults[0].remedy.as_deref(), Some("input"));
//! ```

mod evaluate;
mod fault;
mod fields;
mod filters;
pub mod limits;
mod operators;
mod pieces;
mod print;
mod references;
mod requirement;
mod scope;
mod syntax;

use serde_json::{Map, Value};

pub use fault::{ExpressionError, Fault};
pub(crate) use fields::{OF_A_CALL, OF_A_STATUS, OF_AN_ERROR};
pub use fields::{OF_A_RUN, OF_A_WORKFLOW, OF_AN_EVENT, event, run, workflow};
pub use references::{Base, Key, Path, References, Root, StepReference, ValueReference};
pub use requirement::{Requirement, requirement, value_class};
pub use scope::Scope;

use evaluate::Evaluation;
use pieces::{Piece, is_template, only_expression, pieces};
use syntax::Source;

/// A condition or text that is invalid.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Invalid {
    /// Everything that is wrong with it, in the order of the text.
    pub faults: Vec<Fault>,
    /// The names that its valid parts use.
    pub references: References,
}

impl From<Fault> for Invalid {
    fn from(fault: Fault) -> Invalid {
        Invalid { faults: vec![fault], references: References::default() }
    }
}

/// The names that a condition uses, or why it is invalid. `{{ … }}` around the whole condition is
/// allowed.
pub fn check_condition(text: &str) -> Result<References, Invalid> {
    let (inside, at) = inside(text)?;
    let mut references = References::default();
    let faults = references.add(inside, at);
    if faults.is_empty() { Ok(references) } else { Err(Invalid { faults, references }) }
}

/// The names that the templates of a text use, or why it is invalid.
pub fn check_template(text: &str) -> Result<References, Invalid> {
    let (mut references, mut faults) = (References::default(), Vec::new());
    for piece in pieces(text)? {
        if let Piece::Expression { text, at } = piece {
            faults.extend(references.add(text, at));
        }
    }
    if faults.is_empty() { Ok(references) } else { Err(Invalid { faults, references }) }
}

/// Where the value that a text yields comes from, if the text is one template.
pub fn path(text: &str) -> Option<Path> {
    only_expression(text).map(|(inside, _)| references::path(inside))
}

/// Whether a condition holds. A value other than `true` or `false` holds if it is neither `null`,
/// zero nor empty.
pub fn holds(condition: &str, scope: &Scope) -> Result<bool, ExpressionError> {
    let mut evaluation = Evaluation::new(scope);
    let (inside, at) = inside(condition).map_err(|fault| fault.of(condition))?;
    let found = expression(&mut evaluation, inside, at).map_err(|fault| fault.of(condition))?;
    Ok(operators::is_true(&found))
}

/// A text with its templates filled in.
pub fn text(template: &str, scope: &Scope) -> Result<String, ExpressionError> {
    filled(&mut Evaluation::new(scope), template)
}

/// A value with the templates in its texts filled in. A text that is exactly one template yields
/// the template's value with its type. Keys of mappings stay as they are.
pub fn value(value: &Value, scope: &Scope) -> Result<Value, ExpressionError> {
    walk(&mut Evaluation::new(scope), value)
}

fn walk(evaluation: &mut Evaluation<'_>, value: &Value) -> Result<Value, ExpressionError> {
    match value {
        Value::String(text) => match only_expression(text) {
            Some((inside, at)) => {
                let found = expression(evaluation, inside, at).map_err(|fault| fault.of(text))?;
                evaluation.give(&found).map_err(|fault| fault.of(text))?;
                Ok(found)
            }
            None => filled(evaluation, text).map(Value::String),
        },
        Value::Array(items) => items.iter().map(|item| walk(evaluation, item)).collect(),
        Value::Object(map) => {
            let entry =
                |(key, value): (&String, &Value)| Ok((key.clone(), walk(evaluation, value)?));
            map.iter().map(entry).collect::<Result<Map<_, _>, _>>().map(Value::Object)
        }
        other => Ok(other.clone()),
    }
}

fn filled(evaluation: &mut Evaluation<'_>, text: &str) -> Result<String, ExpressionError> {
    if !is_template(text) {
        return Ok(text.to_owned());
    }
    let mut out = String::new();
    for piece in pieces(text).map_err(|fault| fault.of(text))? {
        match piece {
            Piece::Literal(literal) => out.push_str(literal),
            Piece::Expression { text: inside, at } => {
                let found = expression(evaluation, inside, at).map_err(|fault| fault.of(text))?;
                evaluation.give(&found).map_err(|fault| fault.of(text))?;
                print::onto(&mut out, &found);
            }
        }
    }
    Ok(out)
}

fn expression(evaluation: &mut Evaluation<'_>, text: &str, at: usize) -> Result<Value, Fault> {
    let source = Source::new(text, at)?;
    let parsed = source.parse()?;
    evaluation.run(&source, &parsed)
}

/// A condition without the braces that some people write around it.
fn inside(condition: &str) -> Result<(&str, usize), Fault> {
    match only_expression(condition) {
        Some(found) => Ok(found),
        None if is_template(condition) => {
            let span = 0..condition.len();
            Err(Fault::new("condition", span, "a condition is one expression, not a text")
                .suggest("steps.check.output.score > 80"))
        }
        None => Ok((condition, 0)),
    }
}

#[cfg(test)]
mod tests;
