//! Finds the names that an expression uses from its syntax, without evaluating it.

use std::ops::Range;

use minijinja::machinery::ast::{BinOpKind, CallArg, Expr};

use super::fault::Fault;
use super::fields::OF_A_STEP;
use super::syntax::Source;
use super::{filters, operators};

/// The names at which expressions begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Root {
    /// The payload of the run; in a webhook trigger, the call.
    Input,
    /// Other steps: `steps.<id>.output`, `.status`, `.error`.
    Steps,
    Run,
    Workflow,
    /// The current item of a `for_each`.
    Item,
    /// The index of the current item, counted from 0.
    Index,
    /// An event in a topic.
    Event,
    Secrets,
}

impl Root {
    pub const ALL: [Root; 8] = [
        Root::Input,
        Root::Steps,
        Root::Run,
        Root::Workflow,
        Root::Item,
        Root::Index,
        Root::Event,
        Root::Secrets,
    ];

    /// Whether the values with this name are what somebody has given to the run.
    pub(crate) fn is_payload(self) -> bool {
        matches!(self, Root::Input | Root::Item)
    }

    fn named(name: &str) -> Option<Root> {
        Root::ALL.into_iter().find(|root| root.name() == name)
    }

    /// The name in expressions.
    pub fn name(self) -> &'static str {
        match self {
            Root::Input => "input",
            Root::Steps => "steps",
            Root::Run => "run",
            Root::Workflow => "workflow",
            Root::Item => "item",
            Root::Index => "index",
            Root::Event => "event",
            Root::Secrets => "secrets",
        }
    }
}

/// The names that a condition or text uses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct References {
    /// The roots with their spans, in the order of the text.
    pub roots: Vec<(Root, Range<usize>)>,
    /// The steps, in the order of the text.
    pub steps: Vec<StepReference>,
    /// The literal names of secrets, in the order of the text.
    pub secrets: Vec<String>,
    /// The references to parts of everything but steps, in the order of the text.
    pub values: Vec<ValueReference>,
}

/// A reference to a part of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValueReference {
    pub path: Path,
    /// The span of the path.
    pub span: Range<usize>,
    /// How many of the path's first keys may lead nowhere: all under `default` and in a test, and
    /// those that the same expression tests with `is defined`.
    pub optional_keys: usize,
}

/// Where the value of an expression comes from, as far as its syntax tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Path {
    pub base: Base,
    /// The keys that lead from the base to the value; empty for the base as a whole.
    pub keys: Vec<Key>,
}

/// The value at which a [`Path`] begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Base {
    /// The value of a scope with this name.
    Root(Root),
    /// One of these values. An empty list is a value of which no part exists, so it is none.
    OneOf(Vec<Path>),
    /// A value of which the syntax tells nothing.
    Unknown,
}

/// One step into a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Key {
    /// The literal name of a field.
    Name(String),
    /// A literal number, which leads to an item of a list.
    Index,
    /// A key that is known only when the expression is evaluated.
    Computed,
}

/// A reference to a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepReference {
    pub id: String,
    /// The span of the step and its `output`, `status` or `error`.
    pub span: Range<usize>,
    /// The part of it. The first key of its path is the id.
    pub value: ValueReference,
}

impl References {
    /// Adds the names that an expression uses, which begins at `at` in its text. Returns its
    /// faults.
    pub(super) fn add(&mut self, expression: &str, at: usize) -> Vec<Fault> {
        let source = match Source::new(expression, at) {
            Ok(source) => source,
            Err(fault) => return vec![fault],
        };
        match source.parse() {
            Ok(parsed) => self.visit(&source, &parsed),
            Err(fault) => vec![fault],
        }
    }

    /// Adds the names that an expression uses. Returns its faults.
    pub(super) fn visit(&mut self, source: &Source<'_>, expr: &Expr<'_>) -> Vec<Fault> {
        let (values, steps) = (self.values.len(), self.steps.len());
        let mut walk = Walk {
            source,
            found: self,
            may_be_missing: false,
            tested: Vec::new(),
            faults: Vec::new(),
        };
        walk.expr(expr);
        let Walk { tested, faults, .. } = walk;
        let steps = self.steps[steps..].iter_mut().map(|step| &mut step.value);
        for value in self.values[values..].iter_mut().chain(steps) {
            let common = tested.iter().map(|tested| common_keys(tested, &value.path)).max();
            value.optional_keys = value.optional_keys.max(common.unwrap_or(0));
        }
        faults
    }
}

/// The number of keys that two paths begin with alike.
fn common_keys(one: &Path, other: &Path) -> usize {
    if one.base != other.base {
        return 0;
    }
    one.keys.iter().zip(&other.keys).take_while(|(one, other)| one == other).count()
}

/// Where the value of an expression comes from.
pub(super) fn path(expression: &str) -> Path {
    let source = Source::new(expression, 0);
    let found = source.and_then(|source| source.parse().map(|parsed| path_of(&parsed)));
    found.unwrap_or(Path { base: Base::Unknown, keys: Vec::new() })
}

fn path_of(expr: &Expr<'_>) -> Path {
    let mut keys = Vec::new();
    let mut at = expr;
    loop {
        match at {
            Expr::GetAttr(attr) => {
                keys.push(Key::Name(attr.name.to_owned()));
                at = &attr.expr;
            }
            Expr::GetItem(item) => {
                keys.push(key(&item.subscript_expr));
                at = &item.expr;
            }
            _ => break,
        }
    }
    keys.reverse();
    let one_of = |exprs: &[&Expr<'_>]| Base::OneOf(exprs.iter().map(|it| path_of(it)).collect());
    let base = match at {
        Expr::Var(var) => Root::named(var.id).map_or(Base::Unknown, Base::Root),
        Expr::IfExpr(choice) => match &choice.false_expr {
            Some(other) => one_of(&[&choice.true_expr, other]),
            None => Base::Unknown,
        },
        Expr::BinOp(op) if matches!(op.op, BinOpKind::ScAnd | BinOpKind::ScOr) => {
            one_of(&[&op.left, &op.right])
        }
        Expr::Filter(filter) => match (filter.name, &filter.expr, &filter.args[..]) {
            ("default", Some(value), [CallArg::Pos(other), ..]) => one_of(&[value, other]),
            ("first" | "last", Some(list), _) => {
                let item = Path { base: one_of(&[list]), keys: vec![Key::Index] };
                Base::OneOf(vec![item])
            }
            _ => Base::Unknown,
        },
        Expr::List(list) if list.items.is_empty() => Base::OneOf(Vec::new()),
        _ => Base::Unknown,
    };
    Path { base, keys }
}

/// The key that a subscript gives.
fn key(subscript: &Expr<'_>) -> Key {
    let Expr::Const(constant) = subscript else { return Key::Computed };
    let name = constant.value.as_str().map(str::to_owned);
    name.map_or(Key::Index, Key::Name)
}

struct Walk<'w, 't> {
    source: &'w Source<'t>,
    found: &'w mut References,
    /// Whether the referenced value may be missing.
    may_be_missing: bool,
    /// The paths that the expression tests with `is defined` or `is undefined`.
    tested: Vec<Path>,
    faults: Vec<Fault>,
}

impl Walk<'_, '_> {
    fn expr(&mut self, expr: &Expr<'_>) {
        match expr {
            Expr::Var(_) | Expr::GetAttr(_) | Expr::GetItem(_) => self.way(expr),
            Expr::Const(value) => {
                let place = self.source.place(value.span());
                self.note(operators::constant(&value.value, place).map(drop));
            }
            Expr::UnaryOp(op) => self.expr(&op.expr),
            Expr::BinOp(op) => {
                self.expr(&op.left);
                self.expr(&op.right);
            }
            Expr::Compare(compare) => {
                self.expr(&compare.expr);
                compare.ops.iter().for_each(|op| self.expr(&op.expr));
            }
            Expr::IfExpr(choice) => {
                self.expr(&choice.test_expr);
                self.expr(&choice.true_expr);
                match &choice.false_expr {
                    Some(other) => self.expr(other),
                    None => {
                        let place = self.source.place(choice.span());
                        let fault = Fault::new("expression", place, "an if without else");
                        self.faults.push(fault.suggest("a if condition else b"));
                    }
                }
            }
            Expr::Filter(filter) => {
                let place = self.source.place(filter.span());
                self.note(filters::check(filter.name, filter.args.len(), place.clone()));
                match (filter.name, &filter.expr) {
                    ("default", Some(inner)) => self.maybe(inner),
                    (_, Some(inner)) => self.expr(inner),
                    (_, None) => {}
                }
                self.arguments(&filter.args, place);
            }
            Expr::Test(test) => {
                let place = self.source.place(test.span());
                self.note(operators::check_test(test.name, test.args.len(), place));
                if matches!(test.name, "defined" | "undefined") {
                    self.tested.push(path_of(&test.expr));
                }
                self.maybe(&test.expr);
            }
            Expr::List(list) => list.items.iter().for_each(|item| self.expr(item)),
            Expr::Tuple(tuple) => tuple.items.iter().for_each(|item| self.expr(item)),
            Expr::Map(map) => {
                map.keys.iter().chain(&map.values).for_each(|item| self.expr(item));
            }
            Expr::Call(call) => {
                let place = self.source.place(call.span());
                let fault = Fault::new("function", place, "there are no functions");
                let filters = format!("filters, such as {}", filters::names().join(", "));
                self.faults.push(fault.allow(filters));
            }
            Expr::Slice(slice) => {
                let place = self.source.place(slice.span());
                let fault = Fault::new("expression", place, "there are no slices");
                self.faults.push(fault.suggest("an item, such as input.rows[0]"));
            }
        }
    }

    fn note(&mut self, checked: Result<(), Fault>) {
        self.faults.extend(checked.err());
    }

    /// Visits an expression whose value may be missing.
    fn maybe(&mut self, expr: &Expr<'_>) {
        let before = std::mem::replace(&mut self.may_be_missing, true);
        self.expr(expr);
        self.may_be_missing = before;
    }

    fn arguments(&mut self, args: &[CallArg<'_>], place: Range<usize>) {
        for arg in args {
            match arg {
                CallArg::Pos(expr) => self.expr(expr),
                _ => {
                    let fault =
                        Fault::new("filter", place.clone(), "a filter's values have no names");
                    self.faults.push(fault.suggest("default(0)"));
                }
            }
        }
    }

    /// Visits a value and the keys that follow it.
    fn way(&mut self, expr: &Expr<'_>) {
        let path = path_of(expr);
        // Where each key ends, from the last one to the first.
        let mut ends = Vec::new();
        let mut at = expr;
        let var = loop {
            let (inner, span) = match at {
                Expr::GetAttr(attr) => (&attr.expr, attr.span()),
                Expr::GetItem(item) => {
                    self.expr(&item.subscript_expr);
                    (&item.expr, item.span())
                }
                Expr::Var(var) => break var,
                other => {
                    self.expr(other);
                    let base = Base::OneOf(vec![path_of(other)]);
                    self.value(Path { base, ..path }, self.source.place(expr.span()));
                    return;
                }
            };
            ends.push(self.source.place(span).end);
            at = inner;
        };
        let place = self.source.place(var.span());
        if var.id == "null" && ends.is_empty() {
            return;
        }
        let Some(root) = Root::named(var.id) else {
            self.faults.push(unknown_root(var.id, place));
            return;
        };
        self.found.roots.push((root, place.clone()));
        if root == Root::Steps {
            ends.reverse();
            return self.step(place, path, &ends);
        }
        if let (Root::Secrets, Some(Key::Name(name))) = (root, path.keys.first()) {
            self.found.secrets.push(name.clone());
        }
        let end = ends.first().copied().unwrap_or(place.end);
        self.value(path, place.start..end);
    }

    fn value(&mut self, path: Path, span: Range<usize>) {
        let value = self.reference(path, span);
        self.found.values.push(value);
    }

    fn reference(&self, path: Path, span: Range<usize>) -> ValueReference {
        let optional_keys = if self.may_be_missing { path.keys.len() } else { 0 };
        ValueReference { path, span, optional_keys }
    }

    /// Adds a reference to a step. `ends` is where each key of the path ends.
    fn step(&mut self, root: Range<usize>, path: Path, ends: &[usize]) {
        let Some(Key::Name(id)) = path.keys.first() else {
            let fault = Fault::new("step", root, "which step is meant has to be written out");
            self.faults.push(fault.suggest("steps.<id>.output, or steps[\"<id>\"].output"));
            return;
        };
        let end = ends.get(1).or(ends.first()).copied().unwrap_or(root.end);
        let (id, span) = (id.clone(), root.start..end);
        match path.keys.get(1) {
            Some(Key::Name(name)) if OF_A_STEP.contains(&name.as_str()) => {}
            None => {}
            Some(other) => {
                let name = match other {
                    Key::Name(name) => name,
                    Key::Index | Key::Computed => "",
                };
                let message = "a step shows its output, status and error, and nothing else";
                let fault = Fault::new("step", span, message).allow(OF_A_STEP.join(", "));
                self.faults.push(fault.did_you_mean(name, OF_A_STEP));
                return;
            }
        }
        let end = ends.last().copied().unwrap_or(root.end);
        let value = self.reference(path, root.start..end);
        self.found.steps.push(StepReference { id, span, value });
    }
}

fn unknown_root(name: &str, place: Range<usize>) -> Fault {
    let names = Root::ALL.map(Root::name);
    let message = format!("unknown name {}", crate::definition::cut(name));
    Fault::new("name", place, message).allow(names.join(", ")).did_you_mean(name, names)
}
