//! Commands that run a node: `serve` and `demo`.

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

use engine::turn::{Answer, Command};
use language::definition::Definition;
use server::{Hub, Trusted, declare_calendars};
use tokio::runtime::Runtime;

use crate::failure::Failure;

/// A valid definition with its text.
#[derive(Clone)]
struct Checked {
    source: String,
    definition: Arc<Definition>,
}

/// Makes definitions live, and logs which of them are new or changed. A definition that is refused
/// does not keep others from being published; the result reports all refusals.
async fn publish(
    hub: &Arc<Hub>,
    definitions: Vec<Checked>,
    folder: Option<&str>,
) -> Result<(), Failure> {
    let mut refused = Vec::new();
    for checked in definitions {
        let name = checked.definition.name.clone();
        match publish_one(hub, checked, folder).await {
            Ok(()) => {}
            Err(store::Failure::Refused(why)) => {
                refused.push(format!("workflow {name} cannot be published: {why}"));
            }
            Err(other) => return Err(Failure::Environment(other.to_string())),
        }
    }
    if refused.is_empty() { Ok(()) } else { Err(Failure::Mistake(refused.join("\n\n"))) }
}

async fn publish_one(
    hub: &Arc<Hub>,
    Checked { source, definition }: Checked,
    folder: Option<&str>,
) -> Result<(), store::Failure> {
    let name = definition.name.clone();
    declare_calendars(hub, &definition, |_| None).await.map_err(|(_, failure)| failure)?;
    let folder = folder.map(str::to_owned);
    let command = Command::SaveWorkflow { source, definition, publish: true, folder };
    let commanded = hub.command(command, None).await?;
    if let Answer::Workflow { id, revision, is_new } = commanded.answer {
        tracing::info!(workflow = name, %id, revision, is_new, "published");
    }
    Ok(())
}

/// Marks these definitions as trusted: their steps may run commands.
fn trusting(definitions: &[Checked]) -> Trusted {
    let trusted = Trusted::default();
    trusted.add(definitions.iter().map(|checked| checked.definition.clone()));
    trusted
}

pub(crate) fn runtime() -> Result<Runtime, Failure> {
    Ok(tokio::runtime::Builder::new_multi_thread().enable_all().build()?)
}
