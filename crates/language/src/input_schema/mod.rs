//! What a workflow expects as its payload: a bounded part of JSON Schema, checked whenever a run starts.
//!
//! Known are `type`, `properties`, `required`, `additionalProperties`, `items`, `enum`, `const`, bounds of numbers, lengths of
//! texts and lists, and the annotations `title`, `description`, `default`, `examples`, `format` and `$comment`. Everything
//! else is refused when the definition is read: a schema that is only half obeyed would be a trap.

mod check;
mod read;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Deepest nesting of a schema. Reading and checking follow it by recursion.
pub const DEPTH: usize = 16;
/// Most mistakes of a payload that are told at once.
const MISTAKES: usize = 20;

/// What a value has to be. A field that is empty asks for nothing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct InputSchema {
    /// One of these types.
    #[serde(rename = "type", skip_serializing_if = "Vec::is_empty")]
    pub types: Vec<JsonType>,
    /// What it is called.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What it means.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The fields of a mapping.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub properties: BTreeMap<String, InputSchema>,
    /// Fields that have to be there.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub required: Vec<String>,
    /// Fields that are not listed; allowed if left out, as JSON Schema has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub additional_properties: Option<Additional>,
    /// Each item of a list.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub items: Option<Box<InputSchema>>,
    /// One of these values.
    #[serde(rename = "enum", skip_serializing_if = "Vec::is_empty")]
    pub choices: Vec<Value>,
    /// This value.
    #[serde(rename = "const", skip_serializing_if = "Option::is_none")]
    pub only: Option<Value>,
    /// A number that is not smaller.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub minimum: Option<f64>,
    /// A number that is not greater.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub maximum: Option<f64>,
    /// A number that is greater.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exclusive_minimum: Option<f64>,
    /// A number that is smaller.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exclusive_maximum: Option<f64>,
    /// A text of at least so many characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_length: Option<u64>,
    /// A text of at most so many characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_length: Option<u64>,
    /// A list of at least so many items.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_items: Option<u64>,
    /// A list of at most so many items.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_items: Option<u64>,
    /// What a form begins with. It is not filled in when the field is missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default: Option<Value>,
    /// For people.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub examples: Vec<Value>,
}

/// Fields of a mapping that are not listed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Additional {
    /// Whether there may be some.
    Allowed(bool),
    /// What each has to be.
    Each(Box<InputSchema>),
}

/// The types of JSON Schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum JsonType {
    /// A mapping.
    Object,
    /// A list.
    Array,
    /// A text.
    String,
    /// Any number.
    Number,
    /// A whole number.
    Integer,
    /// True or false.
    Boolean,
    /// Nothing.
    Null,
}

impl JsonType {
    /// All of them.
    pub const ALL: [JsonType; 7] = [
        JsonType::Object,
        JsonType::Array,
        JsonType::String,
        JsonType::Number,
        JsonType::Integer,
        JsonType::Boolean,
        JsonType::Null,
    ];

    /// As it is written in a schema.
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

    /// For people.
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
    /// The first of these names that cannot lead anywhere: a field that the schema does not list, and does not say that
    /// there may be others. With the names that are listed there.
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

    /// What it asks for, in a line for people.
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

    /// A payload to begin with: what the schema gives as `default`, example, constant or first choice, else an empty
    /// value of the type. Fields that may be left out are there only if the schema gives a value for them.
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
