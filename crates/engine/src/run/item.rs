//! The parts of a step: the step itself, its items, its compensation and its reconciliation.

use std::fmt;

use serde::{Deserialize, Serialize};

/// One part of a step. An attempt or a record belongs to exactly one part.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize,
)]
#[serde(try_from = "i32", into = "i32")]
pub enum Item {
    /// The reconciliation: an attempt to find out whether the step was done.
    Reconciling,
    /// The compensation, which undoes the step.
    Undoing,
    #[default]
    Whole,
    /// One item of a `for_each` step, counted from 0.
    Nth(u32),
}

impl Item {
    /// The stored number: 0 is the step itself, 1 and above are its items, negative numbers the
    /// others.
    pub const fn number(self) -> i32 {
        match self {
            Item::Reconciling => -2,
            Item::Undoing => -1,
            Item::Whole => 0,
            Item::Nth(index) if index < i32::MAX.unsigned_abs() => index.cast_signed() + 1,
            Item::Nth(_) => i32::MAX,
        }
    }

    /// The index of the item, counted from 0.
    pub fn index(self) -> Option<u32> {
        match self {
            Item::Nth(index) => Some(index),
            _ => None,
        }
    }

    /// Whether this part is the step itself.
    pub fn is_whole(&self) -> bool {
        *self == Item::Whole
    }

    /// Whether this part is one of the items.
    pub fn is_nth(self) -> bool {
        self.index().is_some()
    }
}

/// A stored number that is no part of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownItem(i32);

impl fmt::Display for UnknownItem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is the number of no part of a step; expected -2 or more", self.0)
    }
}

impl std::error::Error for UnknownItem {}

impl TryFrom<i32> for Item {
    type Error = UnknownItem;

    fn try_from(number: i32) -> Result<Item, UnknownItem> {
        match number {
            1.. => Ok(Item::Nth((number - 1).unsigned_abs())),
            0 => Ok(Item::Whole),
            -1 => Ok(Item::Undoing),
            -2 => Ok(Item::Reconciling),
            ..-2 => Err(UnknownItem(number)),
        }
    }
}

impl From<Item> for i32 {
    fn from(item: Item) -> i32 {
        item.number()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_as_they_are_stored() {
        for (item, number) in [
            (Item::Reconciling, -2),
            (Item::Undoing, -1),
            (Item::Whole, 0),
            (Item::Nth(0), 1),
            (Item::Nth(41), 42),
        ] {
            assert_eq!((item.number(), Item::try_from(number)), (number, Ok(item)));
            assert_eq!(serde_json::to_string(&item).unwrap(), number.to_string());
        }
        assert_eq!(Item::try_from(-3), Err(UnknownItem(-3)));
        assert!(serde_json::from_str::<Item>("-3").is_err());
        assert!(Item::Undoing < Item::Whole && Item::Whole < Item::Nth(0));
    }
}
