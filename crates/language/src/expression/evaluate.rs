//! Evaluates expressions, with a budget for operations and bytes.

use std::borrow::Cow;
use std::ops::Range;

use minijinja::machinery::ast::{
    self, BinOp, BinOpKind, CallArg, Compare, CompareOpKind, Expr, Filter, UnaryOpKind,
};
use serde_json::{Map, Value};

use super::fault::Fault;
use super::scope::Scope;
use super::syntax::Source;
use super::{filters, limits, operators, print};

/// One evaluation: its scope and its remaining budget.
pub(super) struct Evaluation<'s> {
    scope: &'s Scope,
    operations: usize,
    work_bytes: usize,
    output_bytes: usize,
}

/// A value, or why there is none. An undefined name is an error only if its value is used.
type Looked<'s> = Result<Cow<'s, Value>, Missing>;

/// The fault of a part of an expression that is not defined.
pub(super) struct Missing(Fault);

impl<'s> Evaluation<'s> {
    pub(super) fn new(scope: &'s Scope) -> Evaluation<'s> {
        Evaluation {
            scope,
            operations: limits::OPERATIONS,
            work_bytes: limits::WORK_BYTES,
            output_bytes: limits::OUTPUT_BYTES,
        }
    }

    /// The value of an expression.
    pub(super) fn run(&mut self, source: &Source<'_>, expr: &Expr<'_>) -> Result<Value, Fault> {
        let place = source.place(expr.span());
        let found = Working { evaluation: self, source }.value(expr)?;
        let weight = print::weight(&found);
        self.charge(weight, place)?;
        Ok(found.into_owned())
    }

    /// Counts a value towards the size of the result.
    pub(super) fn give(&mut self, value: &Value) -> Result<(), Fault> {
        let length = print::length(value);
        self.output_bytes = self
            .output_bytes
            .checked_sub(length)
            .ok_or_else(|| Fault::new("limit", 0..usize::MAX, "it gives more than 256 KiB"))?;
        Ok(())
    }

    /// Counts bytes before they are allocated.
    fn charge(&mut self, bytes: usize, place: Range<usize>) -> Result<(), Fault> {
        self.work_bytes = self
            .work_bytes
            .checked_sub(bytes)
            .ok_or_else(|| Fault::new("limit", place, "it takes more memory than is allowed"))?;
        Ok(())
    }
}

struct Working<'e, 's, 't> {
    evaluation: &'e mut Evaluation<'s>,
    source: &'e Source<'t>,
}

impl<'s> Working<'_, 's, '_> {
    /// The value of a part, which must be defined.
    fn value(&mut self, expr: &Expr<'_>) -> Result<Cow<'s, Value>, Fault> {
        self.look(expr)?.map_err(|Missing(fault)| fault)
    }

    fn look(&mut self, expr: &Expr<'_>) -> Result<Looked<'s>, Fault> {
        let place = self.source.place(expr.span());
        let operations = self.evaluation.operations.checked_sub(1);
        self.evaluation.operations = operations
            .ok_or_else(|| Fault::new("limit", place.clone(), "it takes too many operations"))?;
        let value = match expr {
            Expr::Var(var) if var.id == "null" => Cow::Owned(Value::Null),
            Expr::Var(var) => return Ok(self.root(var.id, place)),
            Expr::GetAttr(attr) => return self.part(&attr.expr, &Value::from(attr.name), place),
            Expr::GetItem(item) => {
                let key = self.value(&item.subscript_expr)?;
                return self.part(&item.expr, &key, place);
            }
            Expr::Const(value) => Cow::Owned(operators::constant(&value.value, place)?),
            Expr::UnaryOp(op) => {
                let value = self.value(&op.expr)?;
                Cow::Owned(match op.op {
                    UnaryOpKind::Not => Value::Bool(!operators::is_true(&value)),
                    UnaryOpKind::Neg => operators::negated(&value, place)?,
                })
            }
            Expr::BinOp(op) => return self.binary(op, place).map(Ok),
            Expr::Compare(chain) => self.compare(chain, place)?,
            Expr::IfExpr(choice) => {
                let chosen = if operators::is_true(&*self.value(&choice.test_expr)?) {
                    Some(&choice.true_expr)
                } else {
                    choice.false_expr.as_ref()
                };
                self.value(chosen.ok_or_else(|| unknown(place))?)?
            }
            Expr::Filter(filter) => self.filter(filter, place)?,
            Expr::Test(test) => {
                let value = self.look(&test.expr)?.ok();
                Cow::Owned(Value::Bool(operators::test(test.name, value.as_deref(), place)?))
            }
            Expr::List(list) => self.list(&list.items, place)?,
            Expr::Tuple(tuple) => self.list(&tuple.items, place)?,
            Expr::Map(map) => self.map(map, place)?,
            Expr::Call(_) | Expr::Slice(_) => return Err(unknown(place)),
        };
        Ok(Ok(value))
    }

    fn compare(
        &mut self,
        chain: &Compare<'_>,
        place: Range<usize>,
    ) -> Result<Cow<'s, Value>, Fault> {
        let mut left = self.value(&chain.expr)?;
        let mut holds = true;
        for op in &chain.ops {
            let right = self.value(&op.expr)?;
            holds = holds && compared(op.op, &left, &right, place.clone())?;
            left = right;
        }
        Ok(Cow::Owned(Value::Bool(holds)))
    }

    fn filter(
        &mut self,
        filter: &Filter<'_>,
        place: Range<usize>,
    ) -> Result<Cow<'s, Value>, Fault> {
        let args = self.arguments(&filter.args, &place)?;
        let Some(inner) = &filter.expr else { return Err(unknown(place)) };
        if filter.name == "default" {
            let value = self.look(inner)?.ok();
            return filters::default(value, args, place);
        }
        let value = self.value(inner)?;
        let bytes = filters::cost(filter.name, &value, &args);
        self.evaluation.charge(bytes, place.clone())?;
        filters::apply(filter.name, &value, &args, place).map(Cow::Owned)
    }

    fn map(&mut self, map: &ast::Map<'_>, place: Range<usize>) -> Result<Cow<'s, Value>, Fault> {
        let mut made = Map::new();
        for (key, value) in map.keys.iter().zip(&map.values) {
            let (key, value) = (self.value(key)?, self.value(value)?);
            let bytes = print::weight(&key) + print::weight(&value);
            self.evaluation.charge(bytes, place.clone())?;
            made.insert(print::text(&key), value.into_owned());
        }
        Ok(Cow::Owned(Value::Object(made)))
    }

    fn root(&self, name: &str, place: Range<usize>) -> Looked<'s> {
        let found = self.evaluation.scope.root(name).map(Cow::Borrowed);
        found.ok_or_else(|| missing(name, place))
    }

    /// A field of a mapping, or an item of a list.
    fn part(
        &mut self,
        of: &Expr<'_>,
        key: &Value,
        place: Range<usize>,
    ) -> Result<Looked<'s>, Fault> {
        let whole = match self.look(of)? {
            Ok(whole) => whole,
            missing => return Ok(missing),
        };
        let found = match whole {
            Cow::Borrowed(whole) => at(whole, key).map(Cow::Borrowed),
            Cow::Owned(whole) => at(&whole, key).cloned().map(Cow::Owned),
        };
        let found = found.or_else(|| match of {
            Expr::Var(var) => self.evaluation.scope.alias(var.id, key).map(Cow::Borrowed),
            _ => None,
        });
        Ok(found.ok_or_else(|| match key {
            Value::String(name) => missing(name, place),
            _ => missing("this item", place),
        }))
    }

    fn binary(&mut self, op: &BinOp<'_>, place: Range<usize>) -> Result<Cow<'s, Value>, Fault> {
        let left = self.value(&op.left)?;
        match op.op {
            BinOpKind::ScAnd if !operators::is_true(&left) => return Ok(left),
            BinOpKind::ScOr if operators::is_true(&left) => return Ok(left),
            BinOpKind::ScAnd | BinOpKind::ScOr => return self.value(&op.right),
            _ => {}
        }
        let right = self.value(&op.right)?;
        let compare = |kind| compared(kind, &left, &right, place.clone()).map(Value::Bool);
        let value = match op.op {
            BinOpKind::Eq => compare(CompareOpKind::Eq)?,
            BinOpKind::Ne => compare(CompareOpKind::Ne)?,
            BinOpKind::Lt => compare(CompareOpKind::Lt)?,
            BinOpKind::Lte => compare(CompareOpKind::Lte)?,
            BinOpKind::Gt => compare(CompareOpKind::Gt)?,
            BinOpKind::Gte => compare(CompareOpKind::Gte)?,
            BinOpKind::In => compare(CompareOpKind::In)?,
            BinOpKind::Concat => self.joined(&left, &right, place)?,
            BinOpKind::Add if left.is_string() && right.is_string() => {
                self.joined(&left, &right, place)?
            }
            other => operators::arithmetic(other, &left, &right, place)?,
        };
        Ok(Cow::Owned(value))
    }

    fn joined(&mut self, left: &Value, right: &Value, place: Range<usize>) -> Result<Value, Fault> {
        self.evaluation.charge(print::length(left) + print::length(right), place)?;
        let mut text = print::text(left);
        print::onto(&mut text, right);
        Ok(Value::String(text))
    }

    fn list(&mut self, items: &[Expr<'_>], place: Range<usize>) -> Result<Cow<'s, Value>, Fault> {
        let mut made = Vec::new();
        for item in items {
            let item = self.value(item)?;
            self.evaluation.charge(print::weight(&item), place.clone())?;
            made.push(item.into_owned());
        }
        Ok(Cow::Owned(Value::Array(made)))
    }

    fn arguments(
        &mut self,
        args: &[CallArg<'_>],
        place: &Range<usize>,
    ) -> Result<Vec<Cow<'s, Value>>, Fault> {
        let argument = |arg: &CallArg<'_>| match arg {
            CallArg::Pos(expr) => self.value(expr),
            _ => Err(unknown(place.clone())),
        };
        args.iter().map(argument).collect()
    }
}

fn at<'v>(whole: &'v Value, key: &Value) -> Option<&'v Value> {
    match (whole, key) {
        (Value::Object(map), Value::String(key)) => map.get(key),
        (Value::Array(items), Value::Number(number)) => {
            let at = number.as_i64()?;
            let at = if at < 0 { items.len() as i64 + at } else { at };
            items.get(usize::try_from(at).ok()?)
        }
        _ => None,
    }
}

fn compared(
    op: CompareOpKind,
    left: &Value,
    right: &Value,
    place: Range<usize>,
) -> Result<bool, Fault> {
    let order = || operators::order(left, right, place.clone());
    Ok(match op {
        CompareOpKind::Eq => operators::equal(left, right),
        CompareOpKind::Ne => !operators::equal(left, right),
        CompareOpKind::Lt => order()?.is_lt(),
        CompareOpKind::Lte => order()?.is_le(),
        CompareOpKind::Gt => order()?.is_gt(),
        CompareOpKind::Gte => order()?.is_ge(),
        CompareOpKind::In => operators::contains(right, left, place)?,
        CompareOpKind::NotIn => !operators::contains(right, left, place)?,
    })
}

fn missing(name: &str, place: Range<usize>) -> Missing {
    let message = format!("{} is not defined", crate::definition::cut(name));
    Missing(Fault::new("undefined", place, message))
}

/// The fault of syntax that checking refuses, for expressions that were not checked.
fn unknown(place: Range<usize>) -> Fault {
    Fault::new("expression", place, "this is not known in expressions")
}
