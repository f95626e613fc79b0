//! Notifies open pages that what they show has changed. A page then loads itself again.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::response::IntoResponse as _;
use axum::response::sse::{Event, KeepAlive, Sse};
use engine::turn::Notice;
use futures_util::stream;
use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};

use crate::http::App;
use crate::http::answer::Answered;
use crate::http::problem::Problem;
use crate::http::query::{Parameters, Query, Values};

/// How many pages may listen at a time.
pub(crate) const MOST_PAGES: usize = 256;
/// The shortest time between two notifications of a page.
const PACE: Duration = Duration::from_millis(400);
/// On a shared store other nodes change things without notifying this one, so pages are notified
/// after this time. With [`PACE`] they show such changes within a second.
const LOOK_AGAIN: Duration = Duration::from_millis(450);
/// How often a silent stream sends a comment, so that proxies do not close it.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// The subject of a page. Notices about it update the page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum About {
    All,
    Run(String),
    Schedule(String),
    Workflow(String),
}

impl About {
    fn read(text: &str) -> Option<About> {
        match text.split_once(':') {
            None if text == "all" => Some(About::All),
            Some(("run", id)) => Some(About::Run(id.to_owned())),
            Some(("schedule", id)) => Some(About::Schedule(id.to_owned())),
            Some(("workflow", id)) => Some(About::Workflow(id.to_owned())),
            _ => None,
        }
    }

    /// Whether a notice may have changed the page. A notice that does not say what it is about may
    /// have.
    fn concerns(&self, notice: &Notice) -> bool {
        match (self, notice) {
            (About::All, notice) => !matches!(notice, Notice::Output { .. }),
            (About::Run(params), Notice::Run { id, .. }) => id.to_string() == *params,
            (About::Run(params), Notice::Steps { run, .. } | Notice::Output { run, .. }) => {
                run.to_string() == *params
            }
            (
                About::Run(_),
                Notice::Occurrence { .. } | Notice::Schedule { .. } | Notice::Turning { .. },
            ) => false,
            (About::Schedule(params), Notice::Occurrence { schedule, .. }) => {
                schedule.to_string() == *params
            }
            (About::Schedule(params), Notice::Run { schedule, .. }) => {
                schedule.is_some_and(|id| id.to_string() == *params)
            }
            (About::Schedule(params), Notice::Schedule { id, .. }) => id.to_string() == *params,
            (About::Workflow(params), Notice::Run { workflow, .. }) => {
                workflow.to_string() == *params
            }
            // Only the page of the run itself shows its steps and their output.
            (_, Notice::Steps { .. } | Notice::Output { .. }) => false,
            (About::Schedule(_) | About::Workflow(_) | About::Run(_), _) => true,
        }
    }
}

pub(super) struct LiveParams {
    about: Option<About>,
}

impl Parameters for LiveParams {
    fn read(values: &mut Values) -> LiveParams {
        let text = values.text("about").unwrap_or_default();
        let about = About::read(&text);
        if about.is_none() {
            let allowed = "all, run:ID, schedule:ID, workflow:ID";
            values.refuse("about", "value", "cannot be read", Some(allowed));
        }
        LiveParams { about }
    }
}

/// Streams server-sent events `changed`, upon which a page loads itself again.
pub(super) async fn listen(State(app): State<App>, Query(params): Query<LiveParams>) -> Answered {
    let Ok(permit) = app.open_pages().try_acquire_owned() else {
        return Err(Problem::unavailable(format!("{MOST_PAGES} pages are open already.")));
    };
    let listener = Listener {
        notices: app.hub().listen(),
        about: params.about.unwrap_or(About::All),
        is_shared: app.store().lease().is_some(),
        app,
        _permit: permit,
    };
    let events = stream::unfold(listener, Listener::next);
    let keep_alive = KeepAlive::new().interval(KEEP_ALIVE).text("keep-alive");
    Ok(Sse::new(events).keep_alive(keep_alive).into_response())
}

struct Listener {
    notices: Receiver<Arc<[Notice]>>,
    about: About,
    is_shared: bool,
    app: App,
    _permit: OwnedSemaphorePermit,
}

impl Listener {
    async fn next(mut self) -> Option<(Result<Event, Infallible>, Listener)> {
        let app = self.app.clone();
        let changed = async {
            loop {
                match self.notices.recv().await {
                    Ok(notices) if !notices.iter().any(|one| self.about.concerns(one)) => {}
                    Ok(_) | Err(RecvError::Lagged(_)) => return Some(()),
                    Err(RecvError::Closed) => return None,
                }
            }
        };
        let look_again = async {
            if self.is_shared {
                tokio::time::sleep(LOOK_AGAIN).await
            } else {
                std::future::pending().await
            }
        };
        tokio::select! {
            changed = changed => changed?,
            () = look_again => {}
            () = app.stopped() => return None,
        }
        // Notices that follow at once are covered by the same event.
        tokio::time::sleep(PACE).await;
        while !matches!(self.notices.try_recv(), Err(TryRecvError::Empty | TryRecvError::Closed)) {}
        // Browsers ignore an event without data.
        Some((Ok(Event::default().event("changed").data("look")), self))
    }
}

#[cfg(test)]
mod tests {
    use engine::run::RunStatus;
    use engine::{RunId, ScheduleId, WorkflowId};

    use super::*;

    #[test]
    fn what_a_step_says_is_told_to_its_run_alone() {
        let run = RunId::Other(7);
        let (workflow, schedule) = (WorkflowId(5), Some(ScheduleId(3)));
        let output = Notice::Output { run: run.clone(), step: "say".to_owned() };
        let steps = Notice::Steps { run: run.clone(), workflow, schedule };
        let status = RunStatus::Succeeded;
        let ended = Notice::Run { id: run.clone(), workflow, schedule, status };
        for (about, [by_output, by_steps, by_end]) in [
            (About::All, [false, true, true]),
            (About::Run(run.to_string()), [true, true, true]),
            (About::Run("other".to_owned()), [false, false, false]),
            (About::Workflow("5".to_owned()), [false, false, true]),
            (About::Schedule("3".to_owned()), [false, false, true]),
            (About::Schedule("4".to_owned()), [false, false, false]),
        ] {
            assert_eq!(about.concerns(&output), by_output, "{about:?}");
            assert_eq!(about.concerns(&steps), by_steps, "{about:?}");
            assert_eq!(about.concerns(&ended), by_end, "{about:?}");
        }
    }

    #[test]
    fn pages_say_what_they_are_about() {
        for (text, expected) in [
            ("all", Some(About::All)),
            ("run:7", Some(About::Run("7".to_owned()))),
            ("schedule:7", Some(About::Schedule("7".to_owned()))),
            ("workflow:7", Some(About::Workflow("7".to_owned()))),
            ("", None),
            ("everything", None),
            ("topic:7", None),
        ] {
            assert_eq!(About::read(text), expected, "{text}");
        }
    }
}
