//! Reads a schema, or reports all its mistakes.

use calendar::{Mistake, Problem, nearest};
use serde_json::{Map, Value};

use super::{Additional, DEPTH, InputSchema, JsonType};
use crate::definition::cut;

/// The keywords that are enforced or shown.
const KEYWORDS: [&str; 20] = [
    "type",
    "properties",
    "required",
    "additionalProperties",
    "items",
    "enum",
    "const",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "title",
    "description",
    "default",
    "examples",
    "format",
];
/// Keywords that say nothing about a payload.
const IGNORED: [&str; 3] = ["$schema", "$id", "$comment"];

impl InputSchema {
    /// Reads a schema. Mistakes come with their paths; the schema consists of what is valid.
    pub fn read(written: &Value) -> (InputSchema, Vec<Mistake>) {
        let mut mistakes = Vec::new();
        let schema = Reader { mistakes: &mut mistakes }.schema("", written, DEPTH);
        (schema, mistakes)
    }
}

struct Reader<'m> {
    mistakes: &'m mut Vec<Mistake>,
}

impl Reader<'_> {
    fn schema(&mut self, path: &str, written: &Value, depth: usize) -> InputSchema {
        let mut schema = InputSchema::default();
        let Some(fields) = written.as_object() else {
            let remedy = "{ type: object, properties: { amount: { type: number } } }";
            let problem = problem("type", "expected a schema, which is a mapping").suggest(remedy);
            self.mistakes.push(Mistake::new(path, problem));
            return schema;
        };
        if depth == 0 {
            let problem = problem("limit", "the schema is nested too deep");
            let problem = problem.allow(format!("at most {DEPTH} levels"));
            self.mistakes.push(Mistake::new(path, problem));
            return schema;
        }
        for (key, value) in fields {
            let below = join(path, key);
            self.keyword(&mut schema, key, &below, value, depth);
        }
        self.consistent(path, &schema, fields);
        schema
    }

    fn keyword(
        &mut self,
        schema: &mut InputSchema,
        key: &str,
        path: &str,
        value: &Value,
        depth: usize,
    ) {
        match key {
            "type" => schema.types = self.types(path, value),
            "title" => schema.title = self.text(path, value),
            "description" => schema.description = self.text(path, value),
            "properties" => {
                for (name, field) in self.mapping(path, value).into_iter().flatten() {
                    let field = self.schema(&join(path, name), field, depth - 1);
                    schema.properties.insert(name.clone(), field);
                }
            }
            "required" => schema.required = self.names(path, value),
            "additionalProperties" => {
                schema.additional_properties = Some(match value {
                    Value::Bool(allowed) => Additional::Allowed(*allowed),
                    each => Additional::Each(Box::new(self.schema(path, each, depth - 1))),
                });
            }
            "items" => schema.items = Some(Box::new(self.schema(path, value, depth - 1))),
            "enum" => match value {
                Value::Array(choices) if !choices.is_empty() => schema.choices.clone_from(choices),
                _ => self.refuse(path, "expected a list of values"),
            },
            "const" => schema.only = Some(value.clone()),
            "minimum" => schema.minimum = self.number(path, value),
            "maximum" => schema.maximum = self.number(path, value),
            "exclusiveMinimum" => schema.exclusive_minimum = self.number(path, value),
            "exclusiveMaximum" => schema.exclusive_maximum = self.number(path, value),
            "minLength" => schema.min_length = self.count(path, value),
            "maxLength" => schema.max_length = self.count(path, value),
            "minItems" => schema.min_items = self.count(path, value),
            "maxItems" => schema.max_items = self.count(path, value),
            "default" => schema.default = Some(value.clone()),
            "examples" => match value {
                Value::Array(examples) => schema.examples.clone_from(examples),
                _ => self.refuse(path, "expected a list of examples"),
            },
            "format" => drop(self.text(path, value)),
            key if IGNORED.contains(&key) => {}
            key => self.unknown(path, key),
        }
    }

    fn unknown(&mut self, path: &str, key: &str) {
        let message = format!("{} is not checked here", cut(key));
        let problem = problem("unknown-key", message).allow(KEYWORDS.join(", "));
        let problem = match nearest(key, KEYWORDS).first() {
            Some(close) => problem.suggest(*close),
            None => problem,
        };
        self.mistakes.push(Mistake::new(path, problem));
    }

    /// Reports a schema that no payload can match, or that has constraints on fields it does not
    /// have.
    fn consistent(&mut self, path: &str, schema: &InputSchema, written: &Map<String, Value>) {
        for (at, name) in schema.required.iter().enumerate() {
            let is_listed = schema.properties.contains_key(name);
            if !is_listed && schema.additional_properties == Some(Additional::Allowed(false)) {
                let message = format!("{} is required and not one of the properties", cut(name));
                let path = join(path, &format!("required[{at}]"));
                self.mistakes.push(Mistake::new(path, problem("required", message)));
            }
        }
        if let Some(default) = written.get("default")
            && let Some(first) = schema.check(default).into_iter().next()
        {
            let message = format!("the default does not fit: {}", first.problem.message);
            self.mistakes.push(Mistake::new(join(path, "default"), problem("default", message)));
        }
    }

    fn types(&mut self, path: &str, value: &Value) -> Vec<JsonType> {
        let (written, is_list) = match value {
            Value::Array(names) if !names.is_empty() => (names.as_slice(), true),
            other => (std::slice::from_ref(other), false),
        };
        let mut types = Vec::new();
        for (at, name) in written.iter().enumerate() {
            let found = name.as_str();
            let kind = found.and_then(|name| JsonType::ALL.into_iter().find(|t| t.name() == name));
            match kind {
                Some(kind) => types.push(kind),
                None => {
                    let names = JsonType::ALL.map(JsonType::name);
                    let message = format!("{} is no type", cut(&name.to_string()));
                    let problem = problem("type", message).allow(names.join(", "));
                    let problem = match nearest(found.unwrap_or_default(), names).first() {
                        Some(close) => problem.suggest(*close),
                        None => problem,
                    };
                    let path = if is_list { format!("{path}[{at}]") } else { path.to_owned() };
                    self.mistakes.push(Mistake::new(path, problem));
                }
            }
        }
        types
    }

    fn names(&mut self, path: &str, value: &Value) -> Vec<String> {
        let names = value.as_array().map(|names| {
            names.iter().map(|name| name.as_str().map(str::to_owned)).collect::<Option<Vec<_>>>()
        });
        match names {
            Some(Some(names)) => names,
            _ => {
                self.refuse(path, "expected a list of names of fields");
                Vec::new()
            }
        }
    }

    fn mapping<'v>(&mut self, path: &str, value: &'v Value) -> Option<&'v Map<String, Value>> {
        if value.as_object().is_none() {
            self.refuse(path, "expected a mapping of names to schemas");
        }
        value.as_object()
    }

    fn text(&mut self, path: &str, value: &Value) -> Option<String> {
        if value.as_str().is_none() {
            self.refuse(path, "expected a text");
        }
        value.as_str().map(str::to_owned)
    }

    fn number(&mut self, path: &str, value: &Value) -> Option<f64> {
        let number = value.as_f64();
        if number.is_none() {
            self.refuse(path, "expected a number");
        }
        number
    }

    fn count(&mut self, path: &str, value: &Value) -> Option<u64> {
        let count = value.as_u64();
        if count.is_none() {
            self.refuse(path, "expected a whole number that is not negative");
        }
        count
    }

    fn refuse(&mut self, path: &str, message: &str) {
        self.mistakes.push(Mistake::new(path, problem("type", message)));
    }
}

fn problem(code: &'static str, message: impl Into<String>) -> Problem {
    Problem::whole(code, "", message)
}

fn join(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}
