//! The values that expressions can see.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::fault::ExpressionError;
use super::references::Root;

/// The values behind the names in expressions. A root that was not set is undefined. Cloning is
/// cheap.
#[derive(Clone, Debug, Default)]
pub struct Scope {
    roots: [Option<Arc<Value>>; Root::ALL.len()],
    /// Whether `input.payload` means `input`, if `input` has no such key itself.
    is_payload: bool,
}

impl Scope {
    /// Sets the payload of the run, as JSON. `input.payload` means the same, unless the payload has
    /// a key of that name.
    pub fn input(&mut self, json: &str) -> Result<(), ExpressionError> {
        self.is_payload = true;
        self.read(Root::Input, json)
    }

    /// Sets the content of a call to a webhook, as JSON: `input.body` and `input.headers`.
    pub fn call(&mut self, json: &str) -> Result<(), ExpressionError> {
        self.read(Root::Input, json)
    }

    /// Adds a step, with its output as JSON and its error as text. Absent values are `null`.
    pub fn step(
        &mut self,
        id: &str,
        status: &str,
        output: Option<&str>,
        error: Option<&str>,
    ) -> Result<(), ExpressionError> {
        let output = output.map(|json| read(&format!("steps.{id}.output"), json)).transpose()?;
        let shown = json!({"status": status, "output": output, "error": error});
        self.entry(Root::Steps, id, shown);
        Ok(())
    }

    pub fn run(&mut self, run: Value) {
        self.roots[Root::Run as usize] = Some(Arc::new(run));
    }

    /// Sets the run's workflow.
    pub fn workflow(&mut self, workflow: Value) {
        self.roots[Root::Workflow as usize] = Some(Arc::new(workflow));
    }

    /// Sets the current item of a `for_each` and its index, counted from 0.
    pub fn item(&mut self, item: Value, index: usize) {
        self.roots[Root::Item as usize] = Some(Arc::new(item));
        self.roots[Root::Index as usize] = Some(Arc::new(Value::from(index)));
    }

    /// Sets an event of a topic, as JSON.
    pub fn event(&mut self, json: &str) -> Result<(), ExpressionError> {
        self.read(Root::Event, json)
    }

    /// Sets the secrets. Only for an attempt that is performed, never for anything that is stored.
    pub fn secrets<'s>(&mut self, secrets: impl IntoIterator<Item = (&'s str, &'s str)>) {
        let texts = secrets.into_iter().map(|(name, text)| (name.to_owned(), text.into()));
        let secrets = Value::Object(texts.collect::<Map<_, _>>());
        self.roots[Root::Secrets as usize] = Some(Arc::new(secrets));
    }

    /// The same names with `change` applied to each of their values. Secrets that were added before
    /// are changed as well.
    #[must_use]
    pub fn changed(&self, change: impl Fn(Value) -> Value) -> Scope {
        let changed = |root: &Option<Arc<Value>>| {
            root.as_ref().map(|value| Arc::new(change(Value::clone(value))))
        };
        Scope { roots: self.roots.each_ref().map(changed), is_payload: self.is_payload }
    }

    /// The value of a root, such as `input` or `steps`.
    pub fn seen(&self, name: &str) -> Option<&Value> {
        self.root(name)
    }

    pub(super) fn root(&self, name: &str) -> Option<&Value> {
        let root = Root::ALL.into_iter().find(|root| root.name() == name)?;
        self.roots[root as usize].as_deref()
    }

    /// The value of a key that a root does not have but that is an alias.
    pub(super) fn alias(&self, root: &str, key: &Value) -> Option<&Value> {
        let is_payload = self.is_payload && root == Root::Input.name() && key == "payload";
        is_payload.then(|| self.root(root)).flatten()
    }

    fn read(&mut self, root: Root, json: &str) -> Result<(), ExpressionError> {
        self.roots[root as usize] = Some(Arc::new(read(root.name(), json)?));
        Ok(())
    }

    fn entry(&mut self, root: Root, key: &str, value: Value) {
        let map =
            self.roots[root as usize].get_or_insert_with(|| Arc::new(Value::Object(Map::new())));
        if let Value::Object(map) = Arc::make_mut(map) {
            map.insert(key.to_owned(), value);
        }
    }
}

fn read(name: &str, json: &str) -> Result<Value, ExpressionError> {
    serde_json::from_str(json).map_err(|error| ExpressionError {
        code: "json",
        message: format!("not JSON, at character {}", error.column()),
        expression: name.to_owned(),
    })
}
