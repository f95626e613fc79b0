//! The outputs of a run.

use std::collections::HashSet;

use crate::definition::limits;
use crate::definition::model::Output;
use crate::definition::reading::{Field, Fields, Reading, names};
use crate::definition::templates::Place;
use crate::definition::text::Flaw;

pub(super) fn read(reading: &mut Reading<'_>, field: &Field<'_>) -> Vec<Output> {
    let items = reading.list(field, limits::OUTPUTS).unwrap_or_default();
    let mut names = HashSet::new();
    items.iter().filter_map(|item| output(reading, item, &mut names)).collect()
}

fn output(
    reading: &mut Reading<'_>,
    item: &Field<'_>,
    names: &mut HashSet<String>,
) -> Option<Output> {
    let remedy = "{ name: report, source: \"{{ steps.make.output }}\" }";
    let mut fields = Fields::of(reading, item, remedy)?;
    let name = fields.require("name", "name: report");
    let name = name.and_then(|field| {
        let name = names::identifier(reading, &field)?;
        if !names.insert(name.clone()) {
            let flaw = Flaw::new("repeated-id", format!("the output {name} is given twice"));
            reading.refuse(&field, flaw);
        }
        Some(name)
    });
    let source = fields.require("source", "source: \"{{ steps.make.output }}\"");
    let source = source.map(|field| reading.filled_value(&field, Place::Decided));
    fields.finish(reading);
    Some(Output { name: name?, source: source? })
}
