//! Finds the names that an expression uses from its syntax, without evaluating it.

use std::ops::Range;

use minijinja::machinery::ast::{BinOpKind, CallArg, Expr};

use super::fault::Fault;
use super::syntax::Source;
use super::{filters, operators};

/// The fields of a step.
const OF_A_STEP: [&str; 3] = ["output", "status", "error"];
/// The fields of a run. Without a schedule, trigger or handler, those fields are `null`.
pub const OF_A_RUN: [&str; 15] = [
    "id",
    "schedule_id",
    "schedule_name",
    "n",
    "retry",
    "nominal_at",
    "effective_at",
    "triggered_by",
    "by",
    "merged",
    "created_at",
    "started_at",
    "trigger_id",
    "event",
    "handler",
];
/// The fields of a workflow.
pub const OF_A_WORKFLOW: [&str; 2] = ["name", "version"];
/// The fields of an event.
pub const OF_AN_EVENT: [&str; 6] =
    ["topic", "message_id", "title", "payload", "causes", "created_at"];

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
    /// The references to parts of `input` and `item`, in the order of the text.
    pub values: Vec<ValueReference>,
}

/// A reference to a part of `input` or of `item`.
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
    /// The value of a scope that is named `input` or `item`.
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

impl Key {
    fn name(self) -> Option<String> {
        match self {
            Key::Name(name) => Some(name),
            Key::Index | Key::Computed => None,
        }
    }
}

/// A reference to a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepReference {
    pub id: String,
    /// `output`, `status` or `error`; `None` for the step as a whole.
    pub attribute: Option<String>,
    /// The field of the step's output that is read. `None` if the expression allows a missing one.
    pub output_field: Option<String>,
    pub span: Range<usize>,
}

impl References {
    /// Adds the names that an expression uses, which begins at `at` in its text.
    pub(super) fn add(&mut self, expression: &str, at: usize) -> Result<(), Fault> {
        let source = Source::new(expression, at)?;
        let parsed = source.parse()?;
        self.visit(&source, &parsed)
    }

    /// Adds the names that an expression uses.
    pub(super) fn visit(&mut self, source: &Source<'_>, expr: &Expr<'_>) -> Result<(), Fault> {
        let before = self.values.len();
        let mut walk = Walk { source, found: self, may_be_missing: false, tested: Vec::new() };
        walk.expr(expr)?;
        let tested = walk.tested;
        for value in &mut self.values[before..] {
            let common = tested.iter().map(|tested| common_keys(tested, &value.path)).max();
            value.optional_keys = value.optional_keys.max(common.unwrap_or(0));
        }
        Ok(())
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
        Expr::Var(var) => match var.id {
            "input" => Base::Root(Root::Input),
            "item" => Base::Root(Root::Item),
            _ => Base::Unknown,
        },
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
}

impl Walk<'_, '_> {
    fn expr(&mut self, expr: &Expr<'_>) -> Result<(), Fault> {
        match expr {
            Expr::Var(_) | Expr::GetAttr(_) | Expr::GetItem(_) => self.way(expr),
            Expr::Const(value) => {
                let place = self.source.place(value.span());
                operators::constant(&value.value, place).map(drop)
            }
            Expr::UnaryOp(op) => self.expr(&op.expr),
            Expr::BinOp(op) => {
                self.expr(&op.left)?;
                self.expr(&op.right)
            }
            Expr::Compare(compare) => {
                self.expr(&compare.expr)?;
                compare.ops.iter().try_for_each(|op| self.expr(&op.expr))
            }
            Expr::IfExpr(choice) => {
                self.expr(&choice.test_expr)?;
                self.expr(&choice.true_expr)?;
                choice.false_expr.as_ref().map_or_else(
                    || {
                        let place = self.source.place(choice.span());
                        Err(Fault::new("expression", place, "an if without else")
                            .suggest("a if condition else b"))
                    },
                    |other| self.expr(other),
                )
            }
            Expr::Filter(filter) => {
                let place = self.source.place(filter.span());
                filters::check(filter.name, filter.args.len(), place.clone())?;
                let inner = filter.expr.iter();
                match filter.name {
                    "default" => inner.into_iter().try_for_each(|expr| self.maybe(expr))?,
                    _ => inner.into_iter().try_for_each(|expr| self.expr(expr))?,
                }
                self.arguments(&filter.args, place)
            }
            Expr::Test(test) => {
                let place = self.source.place(test.span());
                operators::check_test(test.name, test.args.len(), place.clone())?;
                if matches!(test.name, "defined" | "undefined") {
                    self.tested.push(path_of(&test.expr));
                }
                self.maybe(&test.expr)
            }
            Expr::List(list) => list.items.iter().try_for_each(|item| self.expr(item)),
            Expr::Tuple(tuple) => tuple.items.iter().try_for_each(|item| self.expr(item)),
            Expr::Map(map) => {
                map.keys.iter().chain(&map.values).try_for_each(|item| self.expr(item))
            }
            Expr::Call(call) => {
                let place = self.source.place(call.span());
                Err(Fault::new("function", place, "there are no functions")
                    .allow(format!("filters, such as {}", filters::names().join(", "))))
            }
            Expr::Slice(slice) => {
                let place = self.source.place(slice.span());
                Err(Fault::new("expression", place, "there are no slices")
                    .suggest("an item, such as input.rows[0]"))
            }
        }
    }

    /// Visits an expression whose value may be missing.
    fn maybe(&mut self, expr: &Expr<'_>) -> Result<(), Fault> {
        let before = std::mem::replace(&mut self.may_be_missing, true);
        let found = self.expr(expr);
        self.may_be_missing = before;
        found
    }

    fn arguments(&mut self, args: &[CallArg<'_>], place: Range<usize>) -> Result<(), Fault> {
        args.iter().try_for_each(|arg| match arg {
            CallArg::Pos(expr) => self.expr(expr),
            _ => Err(Fault::new("filter", place.clone(), "a filter's values have no names")
                .suggest("default(0)")),
        })
    }

    /// Visits a value and the keys that follow it.
    fn way(&mut self, expr: &Expr<'_>) -> Result<(), Fault> {
        let mut parts = Vec::new();
        let mut at = expr;
        let var = loop {
            let (inner, key, span) = match at {
                Expr::GetAttr(attr) => (&attr.expr, Key::Name(attr.name.to_owned()), attr.span()),
                Expr::GetItem(item) => {
                    self.expr(&item.subscript_expr)?;
                    (&item.expr, key(&item.subscript_expr), item.span())
                }
                Expr::Var(var) => break var,
                other => {
                    self.expr(other)?;
                    let base = Base::OneOf(vec![path_of(other)]);
                    let path = Path { base, keys: path_of(expr).keys };
                    self.value(path, self.source.place(expr.span()));
                    return Ok(());
                }
            };
            parts.push((key.name(), self.source.place(span).end));
            at = inner;
        };
        let place = self.source.place(var.span());
        if var.id == "null" && parts.is_empty() {
            return Ok(());
        }
        let root = root(var.id, &place)?;
        self.found.roots.push((root, place.clone()));
        let mut parts = parts.into_iter().rev();
        match root {
            Root::Input | Root::Item => {
                let end = parts.next_back().map_or(place.end, |(_, end)| end);
                self.value(path_of(expr), place.start..end);
                Ok(())
            }
            Root::Steps => self.step(place, parts.next(), parts.next(), parts.next()),
            Root::Secrets => {
                self.found.secrets.extend(parts.next().and_then(|(name, _)| name));
                Ok(())
            }
            Root::Run => {
                let field = parts.next();
                let is_event = matches!(&field, Some((Some(name), _)) if name == "event");
                shown("a run", &OF_A_RUN, place.clone(), field)?;
                let of_event = parts.next().filter(|_| is_event);
                shown("an event", &OF_AN_EVENT, place, of_event)
            }
            Root::Workflow => shown("a workflow", &OF_A_WORKFLOW, place, parts.next()),
            Root::Event => shown("an event", &OF_AN_EVENT, place, parts.next()),
            Root::Index => shown("the index, a number,", &[], place, parts.next()),
        }
    }

    fn value(&mut self, path: Path, span: Range<usize>) {
        let optional_keys = if self.may_be_missing { path.keys.len() } else { 0 };
        self.found.values.push(ValueReference { path, span, optional_keys });
    }

    fn step(
        &mut self,
        root: Range<usize>,
        id: Option<(Option<String>, usize)>,
        attribute: Option<(Option<String>, usize)>,
        field: Option<(Option<String>, usize)>,
    ) -> Result<(), Fault> {
        let Some((Some(id), end)) = id else {
            let fault = Fault::new("step", root, "which step is meant has to be written out");
            return Err(fault.suggest("steps.<id>.output, or steps[\"<id>\"].output"));
        };
        let mut span = root.start..end;
        let attribute = match attribute {
            Some((Some(name), end)) if OF_A_STEP.contains(&name.as_str()) => {
                span.end = end;
                Some(name)
            }
            Some((name, end)) => {
                let name = name.unwrap_or_default();
                let message = "a step shows its output, status and error, and nothing else";
                return Err(Fault::new("step", root.start..end, message)
                    .allow(OF_A_STEP.join(", "))
                    .did_you_mean(&name, OF_A_STEP));
            }
            None => None,
        };
        let is_certain = attribute.as_deref() == Some("output") && !self.may_be_missing;
        let output_field = field.filter(|_| is_certain).and_then(|(name, _)| name);
        self.found.steps.push(StepReference { id, attribute, output_field, span });
        Ok(())
    }
}

/// Checks a field of something whose fields are known.
fn shown(
    what: &str,
    known: &[&'static str],
    root: Range<usize>,
    part: Option<(Option<String>, usize)>,
) -> Result<(), Fault> {
    let Some((Some(name), end)) = part else { return Ok(()) };
    if known.contains(&name.as_str()) {
        return Ok(());
    }
    let message = format!("{what} has no {}", crate::definition::cut(&name));
    let fault = Fault::new("field", root.start..end, message);
    if known.is_empty() {
        return Err(fault);
    }
    let fault = fault.allow(known.join(", "));
    Err(fault.did_you_mean(&name, known.iter().copied()))
}

fn root(name: &str, place: &Range<usize>) -> Result<Root, Fault> {
    Root::ALL.into_iter().find(|root| root.name() == name).ok_or_else(|| {
        let names = Root::ALL.map(Root::name);
        let message = format!("unknown name {}", crate::definition::cut(name));
        Fault::new("name", place.clone(), message).allow(names.join(", ")).did_you_mean(name, names)
    })
}
