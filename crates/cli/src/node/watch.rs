//! `serve DIR --watch`: publishes definitions that change, and logs those with mistakes.

use std::collections::{HashMap, HashSet};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use language::definition::Definition;
use runners::script::Scripts;
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use server::{Hub, Trusted};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::{Checked, folder, publish};
use crate::failure::Failure;

/// How long the folder must stay unchanged: editors write a file in several steps.
const SETTLED: Duration = Duration::from_millis(200);

/// A watched folder, and the definitions that were published from it.
pub(super) struct Watch {
    folder: PathBuf,
    /// The folder's name in the store.
    name: String,
    /// Whether workflows whose file is gone are archived.
    prune: bool,
    changes: UnboundedReceiver<()>,
    published: HashMap<String, Arc<Definition>>,
    /// The workflows without a file that were logged: see [`folder::tell_gone`].
    told: HashSet<(String, bool)>,
    scripts: Arc<Scripts>,
}

impl Watch {
    /// Starts watching: changes from now on are noticed.
    pub(super) fn new(
        dir: &Path,
        checked: &[Checked],
        scripts: Arc<Scripts>,
        prune: bool,
    ) -> Result<Watch, Failure> {
        let failed = |error: io::Error| {
            Failure::Environment(format!("{}: cannot be watched: {error}", dir.display()))
        };
        let watched = inotify::init(CreateFlags::CLOEXEC).map_err(|e| failed(e.into()))?;
        let of = WatchFlags::CLOSE_WRITE
            | WatchFlags::MOVED_TO
            | WatchFlags::MOVED_FROM
            | WatchFlags::DELETE;
        inotify::add_watch(&watched, dir, of).map_err(|e| failed(e.into()))?;
        let (tell, changes) = unbounded_channel();
        let thread = std::thread::Builder::new().name("watch".to_owned());
        thread.spawn(move || tell_changes(&watched, &tell)).map_err(failed)?;
        let known = checked.iter().map(|c| (c.definition.name.clone(), c.definition.clone()));
        let (published, name) = (known.collect(), folder::name(dir));
        let folder = dir.to_owned();
        Ok(Watch { folder, name, prune, changes, published, told: HashSet::new(), scripts })
    }

    /// Returns when something has changed and the folder has settled; `None` if it can no longer be
    /// watched.
    pub(super) async fn changed(&mut self) -> Option<()> {
        self.changes.recv().await?;
        while let Ok(Some(())) = tokio::time::timeout(SETTLED, self.changes.recv()).await {}
        Some(())
    }

    /// Publishes new and changed definitions. Files with mistakes are logged and skipped.
    pub(super) async fn publish(&mut self, hub: &Arc<Hub>, trusted: &Trusted) {
        let rules = hub.store().rules();
        let found = match folder::definitions(&self.folder, &rules, &self.scripts).await {
            Ok(found) => found,
            Err(failure) => {
                tracing::error!("the folder was changed, and cannot be read:\n{failure}");
                return;
            }
        };
        found.tell_wrong();
        let is_changed = |checked: &&Checked| {
            self.published.get(&checked.definition.name) != Some(&checked.definition)
        };
        let changed: Vec<Checked> = found.checked.iter().filter(is_changed).cloned().collect();
        let definitions: Vec<Arc<Definition>> =
            changed.iter().map(|checked| checked.definition.clone()).collect();
        trusted.add(definitions.iter().cloned());
        match publish(hub, changed, Some(&self.name)).await {
            Ok(()) => {
                let known = definitions.into_iter().map(|d| (d.name.clone(), d));
                self.published.extend(known);
            }
            Err(failure) => tracing::error!("not everything is published:\n{failure}"),
        }
        let gone = |name: &String| !found.checked.iter().any(|c| c.definition.name == *name);
        if self.published.keys().any(gone) {
            let told = &mut self.told;
            let telling = folder::tell_gone(hub, &self.name, &found, self.prune, told);
            if let Err(failure) = telling.await {
                tracing::error!("workflows whose file is gone cannot be looked for: {failure}");
            }
            // While a file is wrong, it is not known which workflows are gone.
            if found.wrong.is_empty() {
                self.published.retain(|name, _| !gone(name));
            }
        }
    }
}

/// Reports each change without details, because the whole folder is read again.
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
