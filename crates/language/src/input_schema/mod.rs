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

/// Deepest nesting of a schema. Reading and checking recurse this deep.
pub const DEPTH: usize = 16;
/// Most mistakes of a payload that are reported at once.
const MISTAKES: usize = 20;

/// The constraints on a value. An empty field is no constraint.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct InputSchema {
    /// The allowed types.
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
    /// The allowed values.
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
    /// Any number.
    Number,
    /// A whole number.
    Integer,
    Boolean,
    Null,
}

impl JsonType {
    /// All types.
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

impl InputSchema {
    /// The index of the first of these names that cannot lead anywhere, with the names that are
    /// listed there. It is a field that the schema does not list, where it does not allow others.
    pub fn unknown_field(&self, names: &[String]) -> Option<(usize, Vec<&str>)> {
        let mut at = self;
        for (place, name) in names.iter().enumerate() {
            if place == 0 && name == "payload" && !self.properties.contains_key("payload") {
                continue;
            }
            match (at.properties.get(name), &at.additional_properties) {
                (Some(below), _) => at = below,
                (None, Some(Additional::Each(each))) => at = each,
                (None, Some(Additional::Allowed(true))) => return None,
                // A schema that lists no fields says nothing about them.
                (None, None) if at.properties.is_empty() => return None,
                (None, _) => {
                    return Some((place, at.properties.keys().map(String::as_str).collect()));
                }
            }
        }
        None
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
