//! Commands that are a node themselves.

mod demo;
mod examples;
mod feed;
mod folder;
pub(crate) mod logging;
mod serve;
pub(crate) mod signals;
mod watch;

pub(crate) use demo::run as demo;
pub(crate) use serve::{own_name, run as serve};

use std::sync::Arc;

use engine::definition::Definition;
use engine::turn::{Answer, Command};
use server::{Hub, Trusted, declare_calendars};
use tokio::runtime::Runtime;

use crate::failure::Failure;

/// A definition with its text.
struct Checked {
    source: String,
    definition: Arc<Definition>,
}

/// Makes definitions live, and tells which of them are new or changed.
async fn publish(hub: &Hub, definitions: Vec<Checked>) -> Result<(), Failure> {
    for Checked { source, definition } in definitions {
        let name = definition.name.clone();
        let refused = |failure| match failure {
            store::Failure::Refused(refused) => {
                Failure::Mistake(format!("workflow {name} cannot be published: {refused}"))
            }
            other => Failure::Environment(other.to_string()),
        };
        let declared = declare_calendars(hub, &definition, |_| None).await;
        declared.map_err(|(_, failure)| refused(failure))?;
        let command = Command::SaveWorkflow { source, definition, publish: true };
        let commanded = hub.command(command, None).await.map_err(refused)?;
        if let Answer::Workflow { id, revision, is_new } = commanded.answer {
            tracing::info!(workflow = name, %id, revision, is_new, "published");
        }
    }
    Ok(())
}

/// These may run commands.
fn trusting(definitions: &[Checked]) -> Trusted {
    let trusted = Trusted::default();
    trusted.add(definitions.iter().map(|checked| checked.definition.clone()));
    trusted
}

pub(crate) fn runtime() -> Result<Runtime, Failure> {
    Ok(tokio::runtime::Builder::new_multi_thread().enable_all().build()?)
}
