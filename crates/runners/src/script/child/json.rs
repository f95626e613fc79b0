//! Converts values of a script to JSON text of limited length. Nothing is dropped silently: a value
//! that JSON cannot express is refused with its path.

use rquickjs::function::This;
use rquickjs::object::ObjectKeysIter;
use rquickjs::{Ctx, Error, Object, Value};
use serde_json::value::RawValue;

use super::state::{Builtins, State};

/// The deepest nesting. JSON readers give up at 128.
const DEPTH: usize = 100;

/// Tags of objects that `JSON.stringify` would turn into `{}` or something else that nobody meant.
const UNFIT: &[&str] = &[
    "ArrayBuffer",
    "AsyncGenerator",
    "BigInt64Array",
    "BigUint64Array",
    "Boolean",
    "DataView",
    "Error",
    "Float16Array",
    "Float32Array",
    "Float64Array",
    "Generator",
    "Int16Array",
    "Int32Array",
    "Int8Array",
    "Map",
    "Number",
    "Promise",
    "RegExp",
    "Set",
    "String",
    "Uint16Array",
    "Uint32Array",
    "Uint8Array",
    "Uint8ClampedArray",
    "WeakMap",
    "WeakRef",
    "WeakSet",
];

/// Why a value cannot be written as JSON.
pub(super) enum NoJson {
    TooLong,
    /// The value is nested too deeply, or contains itself.
    TooDeep,
    /// JSON cannot express some part of the value. The text says which, and where.
    Foreign(String),
    /// The script threw while its value was read.
    Thrown(Error),
}

impl From<Error> for NoJson {
    fn from(error: Error) -> NoJson {
        NoJson::Thrown(error)
    }
}

/// What happens to functions in a value.
#[derive(Clone, Copy, PartialEq)]
enum Functions {
    Refused,
    Described,
}

/// Converts a value to JSON text of at most `limit` bytes.
pub(super) fn text<'js>(
    ctx: &Ctx<'js>,
    state: &State<'js>,
    value: &Value<'js>,
    limit: usize,
) -> Result<String, NoJson> {
    write(ctx, state, value, limit, Functions::Refused)
}

/// Like [`text`], as a value that can be sent.
pub(super) fn raw<'js>(
    ctx: &Ctx<'js>,
    state: &State<'js>,
    value: &Value<'js>,
    limit: usize,
) -> Result<Box<RawValue>, NoJson> {
    sendable(text(ctx, state, value, limit)?)
}

/// Like [`raw`], with `{"function": true, …}` for functions.
pub(super) fn description<'js>(
    ctx: &Ctx<'js>,
    state: &State<'js>,
    value: &Value<'js>,
    limit: usize,
) -> Result<Box<RawValue>, NoJson> {
    sendable(write(ctx, state, value, limit, Functions::Described)?)
}

fn sendable(text: String) -> Result<Box<RawValue>, NoJson> {
    RawValue::from_string(text).map_err(|error| NoJson::Foreign(error.to_string()))
}

fn write<'js>(
    ctx: &Ctx<'js>,
    state: &State<'js>,
    value: &Value<'js>,
    limit: usize,
    functions: Functions,
) -> Result<String, NoJson> {
    let builtins = state.builtins()?;
    let mut writer =
        Writer { ctx, builtins, limit, functions, out: String::new(), open: Vec::new() };
    let value = writer.resolved(value.clone())?;
    writer.begin(&value)?;
    while !writer.open.is_empty() {
        writer.go_on()?;
    }
    Ok(writer.out)
}

/// Writes JSON without recursion, so that a script's nesting cannot use up this process's stack.
struct Writer<'a, 'js> {
    ctx: &'a Ctx<'js>,
    builtins: Builtins<'js>,
    limit: usize,
    functions: Functions,
    out: String,
    /// Lists and objects that are not yet written to their end, the innermost last.
    open: Vec<Open<'js>>,
}

enum Open<'js> {
    List { list: Object<'js>, length: f64, next: u32 },
    Fields { object: Object<'js>, keys: ObjectKeysIter<'js, Value<'js>>, name: String, any: bool },
}

impl<'js> Writer<'_, 'js> {
    /// The value that stands for this one in JSON.
    fn resolved(&self, mut value: Value<'js>) -> Result<Value<'js>, NoJson> {
        for _ in 0..DEPTH {
            let Some(object) = value.as_object() else { return Ok(value) };
            if value.is_function() {
                return Ok(value);
            }
            if self.builtins.tag(&value)? == "Date" {
                return self.builtins.iso(&value).map_err(|error| match error {
                    Error::Exception => {
                        self.ctx.catch();
                        self.foreign("a Date that is no time")
                    }
                    error => error.into(),
                });
            }
            let Some(to_json) = object.get::<_, Value>("toJSON")?.into_function() else {
                return Ok(value);
            };
            value = to_json.call((This(value.clone()),))?;
        }
        Err(NoJson::TooDeep)
    }

    /// Writes a value, or only the opening bracket of a list or object.
    fn begin(&mut self, value: &Value<'js>) -> Result<(), NoJson> {
        if value.is_null() || value.is_undefined() {
            self.put("null")
        } else if let Some(truth) = value.as_bool() {
            self.put(if truth { "true" } else { "false" })
        } else if let Some(number) = value.as_number() {
            self.number(number)
        } else if value.is_string() {
            let text = self.builtins.text(value)?;
            self.text(&text)
        } else if value.is_big_int() {
            Err(self.foreign("a BigInt; give it as a text"))
        } else if let Some(object) = value.as_object() {
            if value.is_function() { self.function(object) } else { self.open(value, object) }
        } else {
            Err(self.foreign(&format!("a {}", value.type_name())))
        }
    }

    fn open(&mut self, value: &Value<'js>, object: &Object<'js>) -> Result<(), NoJson> {
        if self.open.len() >= DEPTH {
            return Err(NoJson::TooDeep);
        }
        let tag = self.builtins.tag(value)?;
        if value.is_error() || UNFIT.contains(&tag.as_str()) {
            let tag = if value.is_error() { "Error" } else { &tag };
            return Err(
                self.foreign(&format!("of type {tag}; make it an object, a list or a text"))
            );
        }
        let object = object.clone();
        // A proxy of an array also counts as an array.
        if value.is_array() || tag == "Array" {
            let length = object.get::<_, Value>("length")?.as_number().unwrap_or_default();
            self.put("[")?;
            self.open.push(Open::List { list: object, length, next: 0 });
        } else {
            self.put("{")?;
            let keys = object.keys();
            self.open.push(Open::Fields { object, keys, name: String::new(), any: false });
        }
        Ok(())
    }

    /// Writes the next item or field of the innermost list or object, or its closing bracket.
    fn go_on(&mut self) -> Result<(), NoJson> {
        match self.open.last_mut() {
            Some(Open::List { list, length, next }) if f64::from(*next) < *length => {
                let item: Value = list.get(*next)?;
                *next += 1;
                if *next > 1 {
                    self.put(",")?;
                }
                let item = self.resolved(item)?;
                self.begin(&item)
            }
            Some(Open::List { .. }) => {
                self.open.pop();
                self.put("]")
            }
            Some(Open::Fields { object, keys, name, .. }) => {
                let Some(key) = keys.next() else {
                    self.open.pop();
                    return self.put("}");
                };
                let key = key?;
                let field: Value = object.get(key.clone())?;
                *name = self.builtins.text(&key)?;
                self.field(field)
            }
            None => Ok(()),
        }
    }

    /// Writes a field of the innermost object, unless its value is undefined.
    fn field(&mut self, field: Value<'js>) -> Result<(), NoJson> {
        let field = self.resolved(field)?;
        let Some(Open::Fields { name, any, .. }) = self.open.last_mut() else { return Ok(()) };
        if field.is_undefined() {
            return Ok(());
        }
        let (name, is_first) = (name.clone(), !std::mem::replace(any, true));
        if !is_first {
            self.put(",")?;
        }
        self.text(&name)?;
        self.put(":")?;
        self.begin(&field)
    }

    fn function(&mut self, function: &Object<'js>) -> Result<(), NoJson> {
        let Functions::Described = self.functions else {
            return Err(self.foreign("a function"));
        };
        let number = |name: &str| function.get::<_, Value>(name).ok().and_then(|v| v.as_int());
        self.put(r#"{"function":true"#)?;
        if let (Some(line), Some(column)) = (number("lineNumber"), number("columnNumber")) {
            self.put(&format!(r#","line":{line},"column":{column}"#))?;
        }
        self.put("}")
    }

    fn number(&mut self, number: f64) -> Result<(), NoJson> {
        /// Up to here, a float represents every whole number exactly.
        const WHOLE: f64 = 9_007_199_254_740_992.0;
        if !number.is_finite() {
            return Err(self.foreign(&format!("{number}, which JSON does not have")));
        }
        if number.fract() == 0.0 && number.abs() <= WHOLE {
            // The conversion is exact: the number is whole and small enough.
            return self.put(&(number as i64).to_string());
        }
        self.put(&serde_json::Value::from(number).to_string())
    }

    fn text(&mut self, text: &str) -> Result<(), NoJson> {
        if text.len() > self.limit {
            return Err(NoJson::TooLong);
        }
        self.put(&serde_json::Value::from(text).to_string())
    }

    fn put(&mut self, text: &str) -> Result<(), NoJson> {
        if self.out.len() + text.len() > self.limit {
            return Err(NoJson::TooLong);
        }
        self.out.push_str(text);
        Ok(())
    }

    fn foreign(&self, what: &str) -> NoJson {
        let mut path = String::new();
        for open in &self.open {
            match open {
                Open::List { next, .. } => path.push_str(&format!("[{}]", next.saturating_sub(1))),
                Open::Fields { name, .. } => {
                    let dot = if path.is_empty() { "" } else { "." };
                    path.push_str(&format!("{dot}{}", super::thrown::shortened(name, 60)));
                }
            }
        }
        if path.is_empty() {
            NoJson::Foreign(format!("it is {what}"))
        } else {
            NoJson::Foreign(format!("`{path}` is {what}"))
        }
    }
}
