//! Messages about deadlines and incidents that were not delivered. Delivery is known from the run
//! that sends a message, so the run is read wherever the message is shown.

use std::collections::HashMap;

use engine::RunId;
use engine::incidents::{Told, ToldOutcome};
use engine::notices;
use engine::run::{RunError, RunStatus};
use store::{AlertView, IncidentView};

use super::App;
use super::problem::Problem;

/// Why messages were not delivered, by the id of their run.
pub(crate) type Undelivered = HashMap<String, String>;

/// Why the message of this run was not delivered. `None` if it was or may still be, or if the run
/// sends no message.
async fn reason(app: &App, run: RunId) -> Result<Option<String>, Problem> {
    let Some(found) = app.views().run(run).await? else { return Ok(None) };
    let run = &found.view.run;
    let is_lost = run.status.has_ended() && run.status != RunStatus::Succeeded;
    if found.view.workflow_name != notices::NAME || !is_lost {
        return Ok(None);
    }
    let said = run.error.as_ref().map_or_else(|| run.status.name().to_owned(), RunError::said);
    Ok(Some(format!("not delivered: {said}")))
}

/// Reasons for the messages about these incidents.
pub(crate) async fn of_incidents(
    app: &App,
    incidents: &[IncidentView],
) -> Result<Undelivered, Problem> {
    let ends = incidents.iter().filter_map(|view| view.incident.end.as_ref());
    let told = incidents.iter().flat_map(|view| &view.incident.told);
    let mut undelivered = Undelivered::new();
    for Told { outcome, .. } in told.chain(ends.flat_map(|end| &end.told)) {
        if let ToldOutcome::Run(id) = outcome
            && let Ok(run) = id.parse()
            && let Some(why) = reason(app, run).await?
        {
            undelivered.insert(id.clone(), why);
        }
    }
    Ok(undelivered)
}

/// Adds to alerts which of their messages were not delivered.
pub(crate) async fn add_to_alerts(app: &App, alerts: &mut [AlertView]) -> Result<(), Problem> {
    for alert in alerts {
        for run in &alert.started {
            if let Some(why) = reason(app, run.clone()).await? {
                let refused = alert.refused.take().map(|before| format!("{before}; "));
                alert.refused = Some(format!("{}run {run}: {why}", refused.unwrap_or_default()));
            }
        }
    }
    Ok(())
}
