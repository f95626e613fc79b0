//! The values that expressions see of a run.

use language::definition::{Action, Definition};
use language::expression::{self, ExpressionError, Scope};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::decide::Decider;
use super::input::{Part, RunHistory};
use super::item::Item;
use super::start::raw;
use super::state::StepState;
use super::stored_input::StoredInput;
use super::{Run, RunError, StepRecord};
use crate::ids::RunId;
use crate::stop::Stop;

impl<F: RunHistory> Decider<'_, F> {
    /// Whether a step's condition holds. A condition that cannot be evaluated is an error of the
    /// step.
    pub(super) fn condition_holds(&mut self, step: u32) -> Result<bool, Stop<RunError, F::Error>> {
        let definition = self.definition;
        let condition = definition.steps.get(step as usize).and_then(|s| s.condition.as_deref());
        match condition {
            None => Ok(true),
            Some(condition) => self.with_scope(step, |scope| expression::holds(condition, scope)),
        }
    }

    /// Evaluates an expression of a step. An evaluation error is an error of the step.
    pub(super) fn with_scope<T>(
        &mut self,
        step: u32,
        evaluate: impl FnOnce(&Scope) -> Result<T, ExpressionError>,
    ) -> Result<T, Stop<RunError, F::Error>> {
        self.with_part_scope(Part { step, item: Item::Whole }, evaluate)
    }

    /// As [`Self::with_scope`], for a part. An item of a `for_each` also sees `item` and `index`.
    pub(super) fn with_part_scope<T>(
        &mut self,
        part: Part,
        evaluate: impl FnOnce(&Scope) -> Result<T, ExpressionError>,
    ) -> Result<T, Stop<RunError, F::Error>> {
        let step = part.step;
        let records = self.known_records(self.graph.references(step))?;
        let scope = scope_from(self.run, self.definition, part, &records, &mut self.item_scope);
        let evaluated = scope.and_then(|scope| evaluate(&scope));
        evaluated.map_err(|error| Stop::Refused(self.error(step, "expression", error.to_string())))
    }

    /// The output of the run, if the definition declares one.
    pub(super) fn outputs(&mut self) -> Result<Option<Box<RawValue>>, Stop<RunError, F::Error>> {
        let definition = self.definition;
        if definition.outputs.is_empty() {
            return Ok(None);
        }
        let records = self.known_records(self.graph.output_references())?;
        let filled = build(self.run, definition, &records).and_then(|scope| {
            let mut filled = serde_json::Map::new();
            for output in &definition.outputs {
                filled.insert(output.name.clone(), expression::value(&output.source, &scope)?);
            }
            Ok(Some(raw(&Value::Object(filled))))
        });
        filled.map_err(|error| {
            let message = format!("an output cannot be told: {error}");
            Stop::Refused(RunError { code: "output".to_owned(), message, step: None })
        })
    }

    fn known_records(&mut self, steps: &[u32]) -> Result<Vec<(u32, Option<StepRecord>)>, F::Error> {
        steps.iter().map(|step| Ok((*step, self.known_record(*step)?))).collect()
    }

    /// The record of a step, including one that this decision has added.
    pub(super) fn known_record(&mut self, step: u32) -> Result<Option<StepRecord>, F::Error> {
        let is_it = |record: &&StepRecord| record.step == step && record.item == Item::Whole;
        match self.decision.records.iter().rev().find(is_it) {
            Some(record) => Ok(Some(record.clone())),
            None => self.history.record(step, Item::Whole),
        }
    }
}

/// The scope and the items of a `for_each` step, computed once for all items that begin in a turn.
#[derive(Debug)]
pub struct ItemScope {
    run: RunId,
    step: u32,
    /// The values that the scope was built from, besides the run's input. If they change, it is
    /// rebuilt.
    made_from: Vec<(u32, StepState, Option<Box<str>>)>,
    scope: Scope,
    items: Vec<Value>,
}

/// The scope for the templates of a part, if it has any. The scope of an item is kept in `known`
/// for the next item.
pub fn scope_of_part<F: RunHistory>(
    run: &Run,
    definition: &Definition,
    part: Part,
    history: &mut F,
    known: &mut Option<ItemScope>,
) -> Result<Option<Result<Scope, ExpressionError>>, F::Error> {
    let graph = definition.graph();
    let (has_templates, references) = match part.item {
        Item::Undoing => {
            (graph.has_compensation_templates(part.step), graph.compensation_references(part.step))
        }
        _ => (graph.has_templates(part.step), graph.references(part.step)),
    };
    if !has_templates {
        return Ok(None);
    }
    match scope_with(run, definition, part, references, history, known) {
        Ok(scope) => Ok(Some(Ok(scope))),
        Err(stop) => stop.refusal().map(|error| Some(Err(error))),
    }
}

/// The scope of a part that mentions these steps.
pub(super) fn scope_with<F: RunHistory>(
    run: &Run,
    definition: &Definition,
    part: Part,
    mentioned: &[u32],
    history: &mut F,
    known: &mut Option<ItemScope>,
) -> Result<Scope, Stop<ExpressionError, F::Error>> {
    let mut records = Vec::new();
    for step in mentioned {
        records.push((*step, history.record(*step, Item::Whole)?));
    }
    scope_from(run, definition, part, &records, known).map_err(Stop::Refused)
}

/// The scope of a part, made from the records of the steps that it mentions.
fn scope_from(
    run: &Run,
    definition: &Definition,
    part: Part,
    records: &[(u32, Option<StepRecord>)],
    known: &mut Option<ItemScope>,
) -> Result<Scope, ExpressionError> {
    let action = definition.steps.get(part.step as usize).map(|step| &step.action);
    let (Some(Action::ForEach(each)), Some(index)) = (action, part.item.index()) else {
        return build(run, definition, records);
    };
    let made_from: Vec<_> = records
        .iter()
        .map(|(step, record)| {
            let output = record.as_ref().and_then(|record| record.output.as_deref());
            (*step, run.state.states.of(*step), output.map(|output| output.get().into()))
        })
        .collect();
    let is_known = |known: &ItemScope| {
        known.run == run.id && known.step == part.step && known.made_from == made_from
    };
    let known = match known.take().filter(is_known) {
        Some(still) => known.insert(still),
        None => {
            let scope = build(run, definition, records)?;
            let items = match expression::value(&each.items, &scope)? {
                Value::Array(items) => items,
                _ => Vec::new(),
            };
            let (run, step) = (run.id.clone(), part.step);
            known.insert(ItemScope { run, step, made_from, scope, items })
        }
    };
    let mut scope = known.scope.clone();
    scope.item(known.items.get(index as usize).cloned().unwrap_or_default(), index as usize);
    Ok(scope)
}

fn build(
    run: &Run,
    definition: &Definition,
    records: &[(u32, Option<StepRecord>)],
) -> Result<Scope, ExpressionError> {
    let mut scope = Scope::default();
    let input = StoredInput::of(run);
    scope.input(input.payload_for(definition).get())?;
    for (step, record) in records {
        let Some(id) = definition.steps.get(*step as usize).map(|step| step.id.as_str()) else {
            continue;
        };
        let status = run.state.states.of(*step).status().name();
        let output = record.as_ref().and_then(|record| record.output.as_deref());
        let error = record.as_ref().and_then(|record| record.error.as_ref());
        let error = error.map(|error| error.message.as_str());
        scope.step(id, status, output.map(RawValue::get), error)?;
    }
    scope.run(input.shown(run));
    scope.workflow(json!({
        "name": definition.name,
        "version": definition.version.to_string(),
    }));
    Ok(scope)
}
