//! `serve DIR --watch`: definitions that change are published, and those that are wrong are told.

use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use engine::definition::Definition;
use runners::script::Scripts;
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use server::{Hub, Trusted};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::{Checked, folder, publish};
use crate::failure::Failure;

/// Editors write a file in several goes.
const SETTLED: Duration = Duration::from_millis(200);

/// A folder, and what was published from it.
pub(super) struct Watch {
    folder: PathBuf,
    changes: UnboundedReceiver<()>,
    published: HashMap<String, Arc<Definition>>,
    scripts: Arc<Scripts>,
}

impl Watch {
    /// What changes from now on is noticed.
    pub(super) fn new(
        folder: &Path,
        checked: &[Checked],
        scripts: Arc<Scripts>,
    ) -> Result<Watch, Failure> {
        let failed = |error: io::Error| {
            Failure::Environment(format!("{}: cannot be watched: {error}", folder.display()))
        };
        let watched = inotify::init(CreateFlags::CLOEXEC).map_err(|e| failed(e.into()))?;
        let of = WatchFlags::CLOSE_WRITE
            | WatchFlags::MOVED_TO
            | WatchFlags::MOVED_FROM
            | WatchFlags::DELETE;
        inotify::add_watch(&watched, folder, of).map_err(|e| failed(e.into()))?;
        let (tell, changes) = unbounded_channel();
        let thread = std::thread::Builder::new().name("watch".to_owned());
        thread.spawn(move || tell_changes(&watched, &tell)).map_err(failed)?;
        let known = checked.iter().map(|c| (c.definition.name.clone(), c.definition.clone()));
        Ok(Watch { folder: folder.to_owned(), changes, published: known.collect(), scripts })
    }

    /// Returns when something has changed, and no more for a moment; nothing if the folder is watched no more.
    pub(super) async fn changed(&mut self) -> Option<()> {
        self.changes.recv().await?;
        while let Ok(Some(())) = tokio::time::timeout(SETTLED, self.changes.recv()).await {}
        Some(())
    }

    /// Publishes what is new or changed. If anything is wrong, all of it is told and nothing is changed.
    pub(super) async fn publish(&mut self, hub: &Hub, trusted: &Trusted) {
        let rules = hub.store().rules();
        let checked = match folder::definitions(&self.folder, &rules, &self.scripts).await {
            Ok(checked) => checked,
            Err(failure) => {
                tracing::error!("the folder was changed, and nothing is published:\n{failure}");
                return;
            }
        };
        for name in self.published.keys() {
            if !checked.iter().any(|checked| checked.definition.name == *name) {
                tracing::warn!(
                    workflow = name,
                    "its file is gone; it stays published until `punctual workflow archive`"
                );
            }
        }
        self.published.retain(|name, _| checked.iter().any(|c| c.definition.name == *name));
        let is_known = |checked: &Checked| {
            self.published.get(&checked.definition.name) == Some(&checked.definition)
        };
        let changed: Vec<Checked> =
            checked.into_iter().filter(|checked| !is_known(checked)).collect();
        let definitions: Vec<Arc<Definition>> =
            changed.iter().map(|checked| checked.definition.clone()).collect();
        trusted.add(definitions.iter().cloned());
        match publish(hub, changed).await {
            Ok(()) => {
                let known = definitions.into_iter().map(|d| (d.name.clone(), d));
                self.published.extend(known);
            }
            Err(failure) => tracing::error!("not everything is published:\n{failure}"),
        }
    }
}

/// What has changed does not matter: the folder is read again as a whole.
fn tell_changes(watched: &OwnedFd, tell: &UnboundedSender<()>) {
    let mut buffer = [0; 4_096];
    loop {
        match rustix::io::read(watched, &mut buffer) {
            Ok(_) if tell.send(()).is_ok() => {}
            Err(rustix::io::Errno::INTR) => {}
            Ok(_) | Err(_) => return,
        }
    }
}
