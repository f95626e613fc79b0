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
    /// The name of the file that holds it.
    file: String,
    source: String,
    definition: Arc<Definition>,
}

/// Makes definitions live, and logs which of them are new or changed. A definition that cannot be
/// published does not keep others from being published; the result names the file of each failure.
async fn publish(
    hub: &Arc<Hub>,
    definitions: Vec<Checked>,
    folder: Option<&str>,
) -> Result<(), Failure> {
    let (mut failed, mut all_refused) = (Vec::new(), true);
    for checked in definitions {
        let (file, name) = (checked.file.clone(), checked.definition.name.clone());
        let Err(failure) = publish_one(hub, checked, folder).await else { continue };
        all_refused &= matches!(failure, store::Failure::Refused(_));
        let remedy = match failure {
            store::Failure::Undecidable { .. } | store::Failure::Damaged(_) => {
                "\n  try: punctual doctor, which names the row that cannot be read and says what to do"
            }
            _ => "",
        };
        failed.push(format!("{file}: workflow {name} cannot be published: {failure}{remedy}"));
    }
    let told = failed.join("\n\n");
    if failed.is_empty() {
        Ok(())
    } else if all_refused {
        Err(Failure::Mistake(told))
    } else {
        Err(Failure::Environment(told))
    }
}

async fn publish_one(
    hub: &Arc<Hub>,
    Checked { source, definition, .. }: Checked,
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
