//! Warns at the start about channels that definitions name and this node cannot reach, so that
//! nobody finds out by missing a message.

use engine::turn::WorkflowStatus;
use language::definition::IncidentAction;
use language::notification_setup::Setup;
use store::{Failure, Store, WorkflowQuery};

/// How many workflows are read at a time.
const PAGE: usize = 100;
/// How many such warnings are logged at most; the rest is only counted.
const MOST: usize = 20;

/// Logs a warning for each unreachable channel of the node's own settings and of published
/// workflows.
pub(crate) async fn warn(store: &dyn Store, setup: &Setup) -> Result<(), Failure> {
    for (what, actions) in [("on-failure", &setup.on_failure), ("on-recovery", &setup.on_recovery)]
    {
        of_node(setup, what, actions);
    }
    let (mut after, mut count) = (None, 0_usize);
    loop {
        // Punctual's own workflow has only templates as channels.
        let query =
            WorkflowQuery { limit: PAGE, after, hides_system: true, ..WorkflowQuery::default() };
        let page = store.workflows(query).await?;
        for view in page.items {
            if view.workflow.status != WorkflowStatus::Published {
                continue;
            }
            for (path, channel, why) in setup.unreachable(&view.definition) {
                count += 1;
                if count <= MOST {
                    let workflow = &view.workflow.name;
                    tracing::warn!(workflow, path, channel, why, "a channel is not set up");
                }
            }
        }
        match page.next {
            Some(next) => after = Some(next),
            None => break,
        }
    }
    if count > MOST {
        tracing::warn!(count = count - MOST, "further channels are not set up");
    }
    Ok(())
}

fn of_node(setup: &Setup, option: &str, actions: &[IncidentAction]) {
    for channel in actions.iter().flat_map(|action| &action.notify) {
        if let Some(why) = setup.refusal(channel) {
            let channel = channel.shown();
            tracing::warn!(option, channel, why, "a channel is not set up");
        }
    }
}
