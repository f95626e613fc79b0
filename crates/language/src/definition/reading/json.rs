//! Values that are passed on unchanged: payloads, bodies, declarations.

use serde_json::{Map, Value};

use super::{Field, Reading};
use crate::definition::text::{Flaw, Kind, join, join_index, number};

/// The value as JSON. A number that JSON would round is refused.
pub(crate) fn value(reading: &mut Reading<'_>, field: &Field<'_>) -> Value {
    match &field.node.kind {
        Kind::Null => Value::Null,
        Kind::Bool(value) => Value::Bool(*value),
        Kind::Text(text) => Value::String(text.clone()),
        Kind::Number(literal) => match number::exact(literal) {
            Ok(number) => Value::Number(number),
            Err(flaw) => {
                reading.refuse(field, *flaw);
                Value::Null
            }
        },
        Kind::Function(_) => {
            let flaw = Flaw::new("type", "a function is not possible here");
            reading.refuse(field, flaw.suggest("a value that JSON can say"));
            Value::Null
        }
        Kind::List(items) => {
            let item =
                |(at, node)| value(reading, &Field { path: join_index(&field.path, at), node });
            Value::Array(items.iter().enumerate().map(item).collect())
        }
        Kind::Map(entries) => {
            let mut map = Map::new();
            for entry in entries {
                let below = Field { path: join(&field.path, &entry.key), node: &entry.value };
                map.insert(entry.key.clone(), value(reading, &below));
            }
            Value::Object(map)
        }
    }
}

/// A payload: a value of limited size.
pub(crate) fn payload(reading: &mut Reading<'_>, field: &Field<'_>, most: usize) -> Value {
    let value = value(reading, field);
    let bytes = value.to_string().len();
    if bytes > most {
        let flaw = Flaw::new("limit", format!("{bytes} bytes as JSON"));
        reading.refuse(field, flaw.allow(format!("at most {most}")));
    }
    value
}
