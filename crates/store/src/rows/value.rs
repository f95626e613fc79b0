//! The types that columns hold.

use std::borrow::Cow;

use engine::handlers::{Cause, MutationStatus};
use engine::incidents::How;
use engine::ledger::Outcome;
use engine::run::{Ending, Item, RunStatus, StepStatus, TriggeredBy};
use engine::schedule::Status;
use engine::topics::EventState;
use engine::turn::WorkflowStatus;
use engine::{EventKey, HandlerId, IncidentKey, NodeId, RunKey, ScheduleId, TopicId, WorkflowId};
use jiff::{SignedDuration, Timestamp};
use language::definition::{DeadlineEnd, HandlerKind};
use serde_json::value::RawValue;

use crate::rows::{Column, Read, Row};
use crate::stored::end_named;

/// A type that a column holds. An `Option` is `None` for NULL; any other type must not be NULL.
pub(crate) trait Value: Sized {
    fn read(row: &impl Row, column: Column) -> Read<Self>;
}

/// Declares the types that are stored in one kind of column: how each is made of the stored value.
macro_rules! stored_as {
    ($maybe:ident: $($type:ty = $convert:expr,)+) => {$(
        impl Value for Option<$type> {
            #[inline]
            fn read(row: &impl Row, column: Column) -> Read<Option<$type>> {
                let Some(value) = row.$maybe(column)? else { return Ok(None) };
                $convert(value).map(Some).map_err(|error: String| column.damaged(error))
            }
        }

        impl Value for $type {
            #[inline]
            fn read(row: &impl Row, column: Column) -> Read<$type> {
                Option::<$type>::read(row, column)?.ok_or_else(|| column.damaged("NULL"))
            }
        }
    )+};
}

fn number<T: TryFrom<i64>>(value: i64) -> Result<T, String> {
    T::try_from(value).map_err(|_| format!("{value} is out of range"))
}

/// The member of a fixed set with this index.
fn coded<T: Copy>(all: &[T], value: i64) -> Result<T, String> {
    let known = usize::try_from(value).ok().and_then(|index| all.get(index));
    known.copied().ok_or_else(|| format!("unknown code {value}"))
}

stored_as! { maybe_integer:
    i64 = Ok,
    i32 = number,
    i16 = number,
    u64 = number,
    u32 = number,
    u8 = number,
    usize = number,
    ScheduleId = |id| Ok(ScheduleId(id)),
    WorkflowId = |id| Ok(WorkflowId(id)),
    TopicId = |id| Ok(TopicId(id)),
    HandlerId = |id| Ok(HandlerId(id)),
    NodeId = |id| Ok(NodeId(id)),
    RunKey = |key| Ok(RunKey(key)),
    EventKey = |key| Ok(EventKey(key)),
    IncidentKey = |key| Ok(IncidentKey(key)),
    Timestamp = |at| Timestamp::from_millisecond(at).map_err(|error| error.to_string()),
    SignedDuration = |ms| Ok(SignedDuration::from_millis(ms)),
    Item = |item| Item::try_from(number::<i32>(item)?).map_err(|error| error.to_string()),
    Cause = |code| coded(&Cause::ALL, code),
    Ending = |code| coded(&Ending::ALL, code),
    EventState = |code| coded(&EventState::ALL, code),
    HandlerKind = |code| coded(&HandlerKind::ALL, code),
    How = |code| coded(&How::ALL, code),
    MutationStatus = |code| coded(&MutationStatus::ALL, code),
    Outcome = |code| coded(&Outcome::ALL, code),
    RunStatus = |code| coded(&RunStatus::ALL, code),
    Status = |code| coded(&Status::ALL, code),
    StepStatus = |code| coded(&StepStatus::ALL, code),
    TriggeredBy = |code| coded(&TriggeredBy::ALL, code),
    WorkflowStatus = |code| coded(&WorkflowStatus::ALL, code),
}

stored_as! { maybe_text:
    String = |text: &str| Ok(text.to_owned()),
    Cow<'static, str> = |text: &str| Ok(Cow::Owned(text.to_owned())),
    Box<RawValue> =
        |text: &str| RawValue::from_string(text.to_owned()).map_err(|error| error.to_string()),
    DeadlineEnd = |name: &str| end_named(name).ok_or_else(|| format!("unknown end {name}")),
}

stored_as! { maybe_boolean:
    bool = Ok,
}

/// A tuple of values: all columns of a query that has few, in order.
pub(crate) trait Positional: Sized {
    fn read(row: &impl Row) -> Read<Self>;
}

macro_rules! positional {
    ($($value:ident $position:literal),+) => {
        impl<$($value: Value),+> Positional for ($($value,)+) {
            fn read(row: &impl Row) -> Read<Self> {
                Ok(($($value::read(row, Column::POSITIONS[$position])?,)+))
            }
        }
    };
}

positional!(A 0, B 1);
positional!(A 0, B 1, C 2);
positional!(A 0, B 1, C 2, D 3);
positional!(A 0, B 1, C 2, D 3, E 4);
