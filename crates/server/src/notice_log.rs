//! Logs committed changes of schedules, workflows and messages that people should know about. The
//! node that decided the change logs it, after the commit.

use std::sync::{Mutex, PoisonError};

use engine::schedule::Turning;
use engine::turn::Notice;
use jiff::Timestamp;

/// How many such lines are logged per second; a loop may cause thousands.
const LINES_A_SECOND: u32 = 50;

/// Limits the lines per second, so that the log stays readable.
#[derive(Default)]
pub(crate) struct LogLimit(Mutex<Second>);

#[derive(Default)]
struct Second {
    at: i64,
    lines: u32,
}

impl LogLimit {
    /// Whether one more line may be logged. The number of lines dropped in a second is logged when
    /// the next one begins.
    pub(crate) fn permits(&self, now: Timestamp) -> bool {
        let mut second = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if second.at != now.as_second() {
            let left_out = second.lines.saturating_sub(LINES_A_SECOND);
            if left_out > 0 {
                tracing::warn!(left_out, "more happened in a second than the log has room for");
            }
            *second = Second { at: now.as_second(), lines: 0 };
        }
        second.lines = second.lines.saturating_add(1);
        second.lines <= LINES_A_SECOND
    }
}

/// Whether [`log`] writes a line for this notice.
pub(crate) fn is_logged(notice: &Notice) -> bool {
    match notice {
        Notice::Turning { .. } | Notice::HandlersPaused { .. } | Notice::Undelivered { .. } => true,
        Notice::Deadline { refused, .. } => refused.is_some(),
        Notice::Incident { refused, .. } => !refused.is_empty(),
        _ => false,
    }
}

/// Logs a notice, with what to do about it.
pub(crate) fn log(notice: &Notice) {
    let (schedule, name, turning) = match notice {
        Notice::Turning { schedule, name, turning, .. } => (schedule, name, turning),
        Notice::Deadline { run, workflow, step, refused: Some(why), .. } => {
            let step = step.as_deref().unwrap_or("the run");
            tracing::warn!(%run, workflow, step, why, "a deadline has come, and not everybody was told");
            return;
        }
        Notice::HandlersPaused { name, reason, .. } => {
            let remedy = format!("mend what is wrong, then punctual workflow resume {name}");
            tracing::error!(
                workflow = name,
                reason,
                remedy,
                "a workflow is paused: it waits for a person"
            );
            return;
        }
        Notice::Undelivered { run, subject, error } => {
            tracing::error!(%run, subject, error, "a message was not delivered, and is not tried again");
            return;
        }
        Notice::Incident { key, refused, .. } => {
            for why in refused {
                tracing::warn!(incident = %key, why, "somebody was not told of an incident");
            }
            return;
        }
        _ => return,
    };
    match turning {
        Turning::Died { reason } => tracing::error!(
            %schedule,
            name,
            reason,
            remedy = format!("mend what is wrong, then punctual schedule revive {schedule}"),
            "a schedule died: nothing of it starts any more"
        ),
        Turning::PausedByFailure { reason } => tracing::warn!(
            %schedule,
            name,
            reason,
            remedy = format!("mend what is wrong, then punctual schedule resume {schedule}"),
            "a schedule was paused by its failure: nothing of it starts any more"
        ),
        Turning::OccurrenceFailed { n, error } => tracing::warn!(
            %schedule,
            name,
            n,
            error,
            "an occurrence failed and is not tried again; if the rule has a next one, it comes as usual"
        ),
        Turning::Recovered { n } => {
            tracing::info!(%schedule, name, n, "a schedule succeeds again after a failure");
        }
    }
}

/// The name under which a turning is counted and streamed.
pub(crate) fn name(turning: &Turning) -> &'static str {
    match turning {
        Turning::OccurrenceFailed { .. } => "occurrence_failed",
        Turning::Died { .. } => "died",
        Turning::PausedByFailure { .. } => "paused_by_failure",
        Turning::Recovered { .. } => "recovered",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_has_room_for_some_lines() {
        let limit = LogLimit::default();
        let at = |second: i64| Timestamp::from_second(second).unwrap();
        let permitted = (0..1_000).filter(|_| limit.permits(at(7))).count();
        assert_eq!(permitted, LINES_A_SECOND as usize);
        assert!(limit.permits(at(8)));
    }
}
