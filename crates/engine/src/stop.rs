//! The two reasons why a command or a decision stops: it is refused, or the store fails.

/// Why a command or a decision was not carried out.
#[derive(Debug)]
pub enum Stop<R, E> {
    /// The command or decision is not possible, for this reason. Nothing was changed.
    Refused(R),
    /// The store failed, or its rows are damaged.
    Failed(E),
}

impl<R, E> Stop<R, E> {
    /// The reason, for a caller that deals with a refusal itself. A failure is passed on.
    pub fn refusal(self) -> Result<R, E> {
        match self {
            Stop::Refused(reason) => Ok(reason),
            Stop::Failed(failure) => Err(failure),
        }
    }
}

impl<R, E> From<E> for Stop<R, E> {
    fn from(failure: E) -> Stop<R, E> {
        Stop::Failed(failure)
    }
}

pub(crate) fn refuse<T, R, E>(reason: R) -> Result<T, Stop<R, E>> {
    Err(Stop::Refused(reason))
}

/// The result, or `None` if it was refused, for a caller to whom the reason does not matter.
pub(crate) fn unless_refused<T, R, E>(result: Result<T, Stop<R, E>>) -> Result<Option<T>, E> {
    result.map(Some).or_else(|stop| stop.refusal().map(|_| None))
}
