//! The audit log: who has changed what.

use axum::extract::State;
use engine::turn::Command;
use jiff::Timestamp;
use serde::Serialize;
use store::{AuditEntry, AuditQuery, AuditView};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::App;
use super::answer::{self, Answered, Listed};
use super::problem::Problem;
use super::query::{Paging, Parameters, Query, Values};

/// A detail is one line, short enough to read at a glance.
const LONGEST_DETAIL: usize = 200;
/// How many of several names a detail lists.
const NAMED: usize = 5;

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(list))
}

/// The query parameters of the list of changes.
pub(crate) struct AuditListParams {
    pub(crate) who: Option<String>,
    pub(crate) since: Option<Timestamp>,
    paging: Paging,
}

impl Parameters for AuditListParams {
    fn read(values: &mut Values) -> AuditListParams {
        AuditListParams {
            who: values.text("who"),
            since: values.instant("since"),
            paging: values.paging(),
        }
    }
}

impl AuditListParams {
    pub(crate) fn query(&self) -> AuditQuery {
        let Paging { limit, after } = self.paging.clone();
        AuditQuery { who: self.who.clone(), since: self.since, limit, after }
    }
}

/// A change, and who made it.
#[derive(Serialize, ToSchema)]
struct AuditObject {
    #[schema(value_type = String, format = DateTime)]
    at: Timestamp,
    /// The name of their token; `anyone` where none was needed, `node` for the node's own token.
    who: String,
    /// The address they called from.
    from: Option<String>,
    /// The method and the route, such as `POST /api/v1/schedules/{id}/pause`.
    action: String,
    /// The path.
    target: String,
    /// Further details, in a line.
    detail: Option<String>,
}

impl From<AuditView> for AuditObject {
    fn from(AuditView { at, entry, .. }: AuditView) -> AuditObject {
        let AuditEntry { who, from, action, target, detail } = entry;
        AuditObject { at, who, from, action, target, detail }
    }
}

/// Lists who has changed what, latest first. Entries are kept for 400 days.
#[utoipa::path(get, path = "/audit", tag = "access",
    params(("who" = Option<String>, Query, description = "Only what this one has done"),
        ("since" = Option<String>, Query, description = "From here on, RFC 3339"),
        ("limit" = Option<u64>, Query), ("cursor" = Option<String>, Query)),
    responses((status = 200, body = Listed<AuditObject>), (status = 400, body = Problem),
        (status = 403, body = Problem)))]
async fn list(State(app): State<App>, Query(params): Query<AuditListParams>) -> Answered {
    let page = app.store().audit(params.query()).await?;
    let items: Vec<AuditObject> = page.items.into_iter().map(Into::into).collect();
    answer::ok(&Listed::new(items, page.total, page.next.as_ref()))
}

/// The detail of a command, beyond its route. It contains no payloads: they may hold anything.
pub(super) fn detail(command: &Command) -> Option<String> {
    let text = match command {
        Command::CreateSchedules(new) => {
            named(new.iter().map(|new| new.declared.name.clone()), new.len())
        }
        Command::DeleteSchedules(ids) => named(ids.iter().map(ToString::to_string), ids.len()),
        // The path of a batch request does not name the schedules.
        Command::ControlSchedule { id, .. } | Command::StartSchedule { id, .. } => {
            format!("schedule {id}")
        }
        Command::SaveWorkflow { definition, publish: true, .. } => {
            format!("{}, published", definition.name)
        }
        Command::SaveWorkflow { definition, .. } => definition.name.clone(),
        Command::StartHandler { handler, .. } => handler.clone(),
        Command::CancelRun { reason, .. } => reason.clone(),
        Command::ResolveRun { resolution, by, .. } => format!("{resolution:?}, says {by}"),
        Command::ResolveStep { step, resolution, by, .. } => {
            format!("{step}: {resolution:?}, says {by}")
        }
        Command::DecideApproval { by, comment, .. } => match comment {
            Some(comment) => format!("{by}: {comment}"),
            None => by.clone(),
        },
        Command::PublishEvents { events, .. } => {
            named(events.iter().map(|event| event.message_id.clone()), events.len())
        }
        Command::SkipEvent { by, .. } => by.clone(),
        _ => return None,
    };
    Some(in_a_line(&text))
}

fn named(names: impl Iterator<Item = String>, count: usize) -> String {
    let some: Vec<String> = names.take(NAMED).collect();
    match count.saturating_sub(some.len()) {
        0 => some.join(", "),
        more => format!("{} and {more} more", some.join(", ")),
    }
}

/// Replaces control characters by spaces, and cuts the text if it is too long.
fn in_a_line(text: &str) -> String {
    let plain = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    let mut line: String = plain.take(LONGEST_DETAIL + 1).collect();
    if let Some((end, _)) = line.char_indices().nth(LONGEST_DETAIL - 1)
        && line.chars().count() > LONGEST_DETAIL
    {
        line.truncate(end);
        line.push('…');
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_detail_is_a_line() {
        assert_eq!(in_a_line("a\nb\0c"), "a b c");
        let long = "ä".repeat(LONGEST_DETAIL);
        assert_eq!(in_a_line(&long), long);
        let cut = in_a_line(&format!("{long}x"));
        assert_eq!((cut.chars().count(), cut.ends_with('…')), (LONGEST_DETAIL, true));
        let names = |count: usize| named((0..count).map(|n| n.to_string()), count);
        assert_eq!((names(2), names(7)), ("0, 1".into(), "0, 1, 2, 3, 4 and 2 more".into()));
    }
}
