//! What becomes of schedules that people should hear of, in the log. It is said once it is committed, by the node that
//! decided it.

use engine::schedule::Turning;
use engine::turn::Notice;

/// Says it, with what to do about it.
pub(crate) fn log(notice: &Notice) {
    let (schedule, name, turning) = match notice {
        Notice::Turning { schedule, name, turning, .. } => (schedule, name, turning),
        Notice::Deadline { run, refused: Some(why), .. } => {
            tracing::warn!(%run, why, "a deadline has come, and not everybody was told");
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

/// As it is counted and streamed.
pub(crate) fn name(turning: &Turning) -> &'static str {
    match turning {
        Turning::OccurrenceFailed { .. } => "occurrence_failed",
        Turning::Died { .. } => "died",
        Turning::PausedByFailure { .. } => "paused_by_failure",
        Turning::Recovered { .. } => "recovered",
    }
}
