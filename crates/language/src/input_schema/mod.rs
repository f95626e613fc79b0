//! Input schemas: a bounded subset of JSON Schema for the payload of a workflow, checked whenever a
//! run starts.
//!
//! The supported keywords are `type`, `properties`, `required`, `additionalProperties`, `items`,
//! `enum`, `const`, bounds of numbers, lengths of texts and lists, and the annotations `title`,
//! `description`, `default`, `examples`, `format` and `$comment`. Any other keyword is refused when
//! the definition is read, since a schema that is only half enforced would be a trap.

mod check;
mod read;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::expression::Key;

/// Deepest nesting of a schema. Reading and checking recurse this deep.
pub const DEPTH: usize = 16;
/// Most mistakes of a payload that are reported at once.
const MISTAKES: usize = 20;

/// The constraints on a value. An empty field is no constraint.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct InputSchema {
    #[serde(rename = "type", skip_serializing_if = "Vec::is_empty")]
    pub types: Vec<JsonType>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The fields of a mapping.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub properties: BTreeMap<String, InputSchema>,
    /// The required fields of a mapping.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub required: Vec<String>,
    /// Fields of a mapping that are not listed. They are allowed by default, as in JSON Schema.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub additional_properties: Option<Additional>,
    /// The schema of each item of a list.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub items: Option<Box<InputSchema>>,
    #[serde(rename = "enum", skip_serializing_if = "Vec::is_empty")]
    pub choices: Vec<Value>,
    /// The only allowed value.
    #[serde(rename = "const", skip_serializing_if = "Option::is_none")]
    pub only: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub minimum: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub maximum: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exclusive_minimum: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exclusive_maximum: Option<f64>,
    /// The minimum number of characters of a text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_length: Option<u64>,
    /// The maximum number of characters of a text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_length: Option<u64>,
    /// The minimum number of items of a list.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_items: Option<u64>,
    /// The maximum number of items of a list.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_items: Option<u64>,
    /// The initial value in a form. It is not filled in when the field is missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default: Option<Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub examples: Vec<Value>,
}

/// The rule for fields of a mapping that are not listed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Additional {
    /// Whether such fields are allowed.
    Allowed(bool),
    /// The schema of each such field.
    Each(Box<InputSchema>),
}

/// The types of JSON Schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum JsonType {
    Object,
    Array,
    String,
    Number,
    Integer,
    Boolean,
    Null,
}

impl JsonType {
    pub const ALL: [JsonType; 7] = [
        JsonType::Object,
        JsonType::Array,
        JsonType::String,
        JsonType::Number,
        JsonType::Integer,
        JsonType::Boolean,
        JsonType::Null,
    ];

    /// The name in a schema.
    pub fn name(self) -> &'static str {
        match self {
            JsonType::Object => "object",
            JsonType::Array => "array",
            JsonType::String => "string",
            JsonType::Number => "number",
            JsonType::Integer => "integer",
            JsonType::Boolean => "boolean",
            JsonType::Null => "null",
        }
    }

    /// A description for people.
    fn words(self) -> &'static str {
        match self {
            JsonType::Object => "a mapping",
            JsonType::Array => "a list",
            JsonType::String => "a text",
            JsonType::Number => "a number",
            JsonType::Integer => "a whole number",
            JsonType::Boolean => "true or false",
            JsonType::Null => "null",
        }
    }
}

/// A key that cannot lead anywhere.
#[derive(Debug, PartialEq)]
pub struct NoSuchPart<'s> {
    /// The index of the key.
    pub index: usize,
    /// The schema of the value that has no such part.
    pub of: &'s InputSchema,
}

impl NoSuchPart<'_> {
    /// The fields that the value may have.
    pub fn listed(&self) -> Vec<&str> {
        self.of.properties.keys().map(String::as_str).collect()
    }

    /// Whether the value is a list, whose items may have the field.
    pub fn is_of_list(&self) -> bool {
        self.of.may_be(JsonType::Array) && !self.of.may_be(JsonType::Object)
    }

    /// The only field of the value that may be anything, if there is one.
    pub fn free(&self) -> Option<&str> {
        let mut free = self.of.properties.iter().filter(|(_, of)| **of == InputSchema::default());
        free.next().filter(|_| free.next().is_none()).map(|(name, _)| name.as_str())
    }

    /// A description of the value for people, if its schema names its types and no mapping is among
    /// them.
    pub fn plain(&self) -> Option<String> {
        let of = self.of;
        let is_typed = !of.types.is_empty() && of.choices.is_empty() && of.only.is_none();
        (is_typed && !of.may_be(JsonType::Object)).then(|| of.words())
    }
}

impl InputSchema {
    fn of_type(kind: JsonType) -> InputSchema {
        InputSchema { types: vec![kind], ..InputSchema::default() }
    }

    pub(crate) fn text() -> InputSchema {
        InputSchema::of_type(JsonType::String)
    }

    pub(crate) fn number() -> InputSchema {
        InputSchema::of_type(JsonType::Number)
    }

    pub(crate) fn boolean() -> InputSchema {
        InputSchema::of_type(JsonType::Boolean)
    }

    pub(crate) fn list_of(items: InputSchema) -> InputSchema {
        InputSchema { items: Some(Box::new(items)), ..InputSchema::of_type(JsonType::Array) }
    }

    /// A mapping that has no other fields than these.
    pub(crate) fn mapping<'n>(
        fields: impl IntoIterator<Item = (&'n str, InputSchema)>,
    ) -> InputSchema {
        let properties = fields.into_iter().map(|(name, schema)| (name.to_owned(), schema));
        InputSchema {
            properties: properties.collect(),
            additional_properties: Some(Additional::Allowed(false)),
            ..InputSchema::of_type(JsonType::Object)
        }
    }

    pub(crate) fn or_null(mut self) -> InputSchema {
        self.types.push(JsonType::Null);
        self
    }

    /// The schema of the part that these keys lead to, `None` if nothing is known of it, or the key
    /// that cannot lead anywhere.
    pub fn part(&self, keys: &[Key]) -> Result<Option<&InputSchema>, NoSuchPart<'_>> {
        let mut at = self;
        for (index, key) in keys.iter().enumerate() {
            let below = match key {
                Key::Name(name) => at.field(name).map_err(|()| NoSuchPart { index, of: at })?,
                Key::Index => at.items.as_deref(),
                // A computed key of a mapping may be any of its fields.
                Key::Computed if at.may_be(JsonType::Object) => None,
                Key::Computed => at.items.as_deref(),
            };
            match below {
                Some(below) => at = below,
                None => return Ok(None),
            }
        }
        Ok(Some(at))
    }

    /// The schema of a field, `None` if the field may be anything. A field cannot exist if the
    /// schema lists others and does not allow more, or if the value cannot be a mapping.
    fn field(&self, name: &str) -> Result<Option<&InputSchema>, ()> {
        match (self.properties.get(name), &self.additional_properties) {
            _ if !self.may_be(JsonType::Object) => Err(()),
            (Some(field), _) => Ok(Some(field)),
            (None, Some(Additional::Each(each))) => Ok(Some(each)),
            (None, Some(Additional::Allowed(true))) => Ok(None),
            // A schema that lists no fields says nothing about them.
            (None, None) if self.properties.is_empty() => Ok(None),
            (None, _) => Err(()),
        }
    }

    pub(crate) fn may_be(&self, kind: JsonType) -> bool {
        let is_of_type = self.types.is_empty() || self.types.contains(&kind);
        // The values of `enum` and `const` tell the type where `type` does not.
        let is_choice = self.choices.is_empty() || self.choices.iter().any(|one| kind.is_of(one));
        is_of_type && is_choice && self.only.as_ref().is_none_or(|only| kind.is_of(only))
    }

    /// The schema that the items of a written list fulfil. A text with templates may become any
    /// value, so it restricts nothing.
    pub fn of_items(items: &[Value]) -> InputSchema {
        let known = items.iter().map(InputSchema::of_value);
        known.reduce(InputSchema::either).unwrap_or_default()
    }

    fn of_value(value: &Value) -> InputSchema {
        let (kind, properties) = match value {
            Value::Object(fields) => {
                let field =
                    |(name, value): (&String, &Value)| (name.clone(), InputSchema::of_value(value));
                (JsonType::Object, fields.iter().map(field).collect())
            }
            Value::String(text) if text.contains("{{") => return InputSchema::default(),
            Value::Array(items) => {
                let items = Some(Box::new(InputSchema::of_items(items)));
                return InputSchema { types: vec![JsonType::Array], items, ..Self::default() };
            }
            Value::String(_) => (JsonType::String, BTreeMap::new()),
            Value::Number(_) => (JsonType::Number, BTreeMap::new()),
            Value::Bool(_) => (JsonType::Boolean, BTreeMap::new()),
            Value::Null => (JsonType::Null, BTreeMap::new()),
        };
        InputSchema { types: vec![kind], properties, ..Self::default() }
    }

    /// The schema of a value that one of two schemas describes.
    fn either(mut self, other: InputSchema) -> InputSchema {
        if self.types.is_empty() || other.types.is_empty() {
            return InputSchema::default();
        }
        for kind in other.types {
            if !self.types.contains(&kind) {
                self.types.push(kind);
            }
        }
        for (name, field) in other.properties {
            let known = match self.properties.remove(&name) {
                Some(known) => known.either(field),
                None => field,
            };
            self.properties.insert(name, known);
        }
        self.items = match (self.items, other.items) {
            (Some(items), Some(others)) => Some(Box::new(items.either(*others))),
            (items, others) => items.or(others),
        };
        self
    }

    /// The constraints in one line for people.
    pub fn words(&self) -> String {
        if let Some(only) = &self.only {
            return only.to_string();
        }
        if !self.choices.is_empty() {
            let choices: Vec<String> = self.choices.iter().map(Value::to_string).collect();
            return format!("one of {}", choices.join(", "));
        }
        let types: Vec<&str> = self.types.iter().map(|kind| kind.words()).collect();
        if types.is_empty() { "anything".to_owned() } else { types.join(" or ") }
    }

    /// A sample payload: the schema's `default`, example, constant or first choice, otherwise an
    /// empty value of the type. Optional fields are included only if the schema gives a value for
    /// them.
    pub fn sample(&self) -> Value {
        let given = self.default.as_ref().or(self.examples.first()).or(self.only.as_ref());
        if let Some(given) = given.or(self.choices.first()) {
            return given.clone();
        }
        match self.types.first() {
            Some(JsonType::Array) => Value::Array(Vec::new()),
            Some(JsonType::String) => Value::String(String::new()),
            Some(JsonType::Number | JsonType::Integer) => Value::from(0),
            Some(JsonType::Boolean) => Value::Bool(false),
            Some(JsonType::Null) => Value::Null,
            Some(JsonType::Object) | None => {
                let is_asked = |(name, field): &(&String, &InputSchema)| {
                    self.required.contains(name) || field.default.is_some()
                };
                let fields = self.properties.iter().filter(is_asked);
                Value::Object(fields.map(|(name, field)| (name.clone(), field.sample())).collect())
            }
        }
    }
}

#[cfg(test)]
mod tests;
