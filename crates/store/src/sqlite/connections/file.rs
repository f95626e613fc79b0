//! The database file: one process uses it at a time, and it must stay where it is.

use std::collections::BTreeSet;
use std::fs::{self, File, Metadata, TryLockError};
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rusqlite::Connection;

use crate::failure::Failure;

/// The lock of a node that was killed while it started commands was seen to outlive the node by
/// some milliseconds. So it is waited for, much longer than that; a live node keeps it anyway.
const LOCK_TRIES: u32 = 40;
const LOCK_PAUSE: Duration = Duration::from_millis(50);
/// The mode of a new database: payloads and outputs are in it, so only its owner may read it.
/// SQLite gives the files beside it the same mode.
const MODE: u32 = 0o600;
/// The beginning of a database: this text, the size of its pages, and how it is written and read.
const FORMAT: &[u8] = b"SQLite format 3\0";
const HEADER: usize = 20;
const WITHOUT_LOG: [u8; 2] = [1, 1];
/// How many symbolic links are followed, as Linux does.
const LINKS: usize = 40;

/// Device and inode: the same file, whatever path leads to it.
type Identity = (u64, u64);

/// The files that this process has locked. Closing any descriptor of a file drops the locks that
/// SQLite holds on it in this process, so a file that is open here must not be opened again just to
/// see that it is locked.
static HELD: Mutex<BTreeSet<Identity>> = Mutex::new(BTreeSet::new());

/// The lock on a database file, held until it is dropped. It is on the file itself (`flock`, which
/// does not interfere with the `fcntl` locks of SQLite), not on its name: no link and no other
/// spelling of the path avoids it.
#[derive(Debug)]
pub(crate) struct FileLock {
    file: File,
    identity: Identity,
}

impl FileLock {
    /// Takes the lock; `None` if another process or this one has it. The file has to exist.
    pub(crate) fn hold(path: &Path) -> Result<Option<FileLock>, Failure> {
        let failed =
            |error: io::Error| Failure::Unavailable(format!("{}: {error}", path.display()));
        let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
        if held.contains(&identity(&fs::metadata(path).map_err(failed)?)) {
            return Ok(None);
        }
        let file = File::open(path).map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        let identity = identity(&file.metadata().map_err(failed)?);
        held.insert(identity);
        Ok(Some(FileLock { file, identity }))
    }

    /// Whether the file is a copy that no node has used: its header says that it has no log, as
    /// [`finish_copy`] leaves it. SQLite changes the header before it begins a log, so a crash does
    /// not make a copy of a store. A file that is too short for a header is not a copy.
    fn is_copy(&self) -> io::Result<bool> {
        let mut header = [0; HEADER];
        match self.file.read_exact_at(&mut header, 0) {
            Ok(()) => Ok(header.starts_with(FORMAT) && header.ends_with(&WITHOUT_LOG)),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Refuses a copy beside which the log of another file lies: SQLite would take the log for that
    /// of the copy, and mix both stores. Nothing is touched. Returns whether the file is a copy.
    pub(crate) fn refuse_foreign_log(&self, path: &Path) -> Result<bool, Failure> {
        let failed =
            |error: io::Error| Failure::Unavailable(format!("{}: {error}", path.display()));
        let is_copy = self.is_copy().map_err(failed)?;
        let log = beside(&without_links(path).map_err(failed)?, "-wal");
        match fs::metadata(&log) {
            Ok(found) if is_copy && found.len() > 0 => Err(foreign_log(path, &log)),
            _ => Ok(is_copy),
        }
    }
}

impl Drop for FileLock {
    fn drop(&mut self) {
        HELD.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.identity);
    }
}

/// A locked database file.
pub(crate) struct StoreFile {
    /// The path as it was given, made absolute.
    named: PathBuf,
    log: PathBuf,
    lock: FileLock,
    is_new: bool,
    is_copy: bool,
}

impl StoreFile {
    /// Locks the file, and creates it if it does not exist. A log without its database is not
    /// touched: it may be all that is left.
    pub(crate) fn lock(path: &Path) -> Result<StoreFile, Failure> {
        let failed =
            |error: io::Error| Failure::Unavailable(format!("{}: {error}", path.display()));
        let named = std::path::absolute(path).map_err(failed)?;
        let log = beside(&without_links(&named).map_err(failed)?, "-wal");
        if !named.exists() {
            refuse_lone_log(&named, &log)?;
            let mut options = File::options();
            options.append(true).create(true).mode(MODE).open(&named).map_err(failed)?;
        }
        let lock = wait_for_lock(&named)?;
        let found = lock.file.metadata().map_err(failed)?;
        if !found.is_file() {
            return Err(Failure::Unavailable(format!("{} is not a file", named.display())));
        }
        if found.nlink() > 1 {
            return Err(has_other_names(&named, found.nlink()));
        }
        let is_new = found.len() == 0;
        if is_new {
            refuse_lone_log(&named, &log)?;
        }
        let is_copy = lock.refuse_foreign_log(&named)?;
        let file = StoreFile { named, log, lock, is_new, is_copy };
        file.check().map_err(Failure::Gone)?;
        Ok(file)
    }

    /// Whether the file was empty when it was locked.
    pub(crate) fn is_new(&self) -> bool {
        self.is_new
    }

    /// Whether the file was a copy that nothing had used when it was locked.
    pub(crate) fn is_copy(&self) -> bool {
        self.is_copy
    }

    /// The path of SQLite's log, beside the file.
    pub(crate) fn log(&self) -> &Path {
        &self.log
    }

    /// Checks that the path still leads to the locked file; if not, what is written is lost. Takes
    /// about a microsecond.
    pub(crate) fn check(&self) -> Result<(), String> {
        let what = match fs::metadata(&self.named) {
            Ok(found) if identity(&found) == self.lock.identity => return Ok(()),
            Ok(_) => "was replaced by another file".to_owned(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                "was removed or moved away".to_owned()
            }
            Err(error) => format!("cannot be found any more ({error})"),
        };
        Err(format!(
            "the store's file {} {what} while it was in use: what is stored from now on would be lost. \
             Put the file itself back, which its log {log} belongs to, and start the node again. If it \
             is lost, move {log} and the file beside it that ends in -shm away, and only then put the \
             latest copy that `punctual backup` made in its place: another file's log would damage it",
            self.named.display(),
            log = self.log.display(),
        ))
    }
}

/// Checks after each commit that the file and its log are still there, and reports once that they
/// are not.
pub(crate) struct Guard {
    file: Arc<StoreFile>,
    log: Option<Identity>,
    gone: tokio::sync::watch::Sender<Option<String>>,
}

impl Guard {
    /// The store is open, so SQLite has created its log.
    pub(crate) fn new(
        file: Arc<StoreFile>,
        gone: tokio::sync::watch::Sender<Option<String>>,
    ) -> Guard {
        let log = fs::metadata(file.log()).ok().map(|found| identity(&found));
        Guard { file, log, gone }
    }

    /// Fails with [`Failure::Gone`] if the file was found to be gone before.
    pub(crate) fn known(&self) -> Result<(), Failure> {
        self.gone.borrow().as_ref().map_or(Ok(()), |why| Err(Failure::Gone(why.clone())))
    }

    /// The size of the log. Fails with [`Failure::Gone`] if what was committed cannot be found
    /// again.
    pub(crate) fn check(&self) -> Result<u64, Failure> {
        self.file.check().and_then(|()| self.check_log()).map_err(|why| {
            tracing::error!("{why}");
            self.gone.send_replace(Some(why.clone()));
            Failure::Gone(why)
        })
    }

    fn check_log(&self) -> Result<u64, String> {
        let found = fs::metadata(self.file.log());
        match (self.log, found) {
            (None, found) => Ok(found.map_or(0, |found| found.len())),
            (Some(known), Ok(found)) if identity(&found) == known => Ok(found.len()),
            (Some(_), _) => Err(format!(
                "the store's log {} was removed or replaced while it was in use: a crash would lose what \
                 is stored. Leave the files beside the store alone, and start the node again",
                self.file.log().display()
            )),
        }
    }
}

/// Creates an empty file for a copy of a database. It is an error if the file exists.
pub(crate) fn create_copy(path: &Path) -> io::Result<()> {
    File::options().write(true).create_new(true).mode(MODE).open(path).map(drop)
}

/// Makes the file a copy, which has no log: see [`FileLock::refuse_foreign_log`]. Nothing else may
/// have it open.
pub(crate) fn finish_copy(connection: Connection) -> Result<(), Failure> {
    connection.pragma_update(None, "journal_mode", "DELETE")?;
    connection.close().map_err(|(_, error)| error.into())
}

/// A file beside the database, named as SQLite does.
pub(crate) fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    PathBuf::from(name)
}

/// The failure for a copy beside which the log of another file lies.
fn foreign_log(path: &Path, log: &Path) -> Failure {
    Failure::Unusable {
        what: format!(
            "{} is a copy that no node has used yet, and beside it is {}, the log of another file: \
             together they would make a damaged store",
            path.display(),
            log.display()
        ),
        remedy: format!(
            "move the log away, and the file beside it that ends in -shm (`mv {0} {0}.kept`), and start \
             again; to use what is in the log, put back the file that it belongs to instead of the copy",
            log.display()
        ),
    }
}

fn identity(found: &Metadata) -> Identity {
    (found.dev(), found.ino())
}

/// Follows symbolic links, whether or not the target exists: SQLite puts its log beside the target.
fn without_links(path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..LINKS {
        match fs::read_link(&path) {
            Ok(target) => {
                let folder = path.parent().unwrap_or(Path::new("/"));
                path = folder.join(target);
            }
            Err(_) => return Ok(path),
        }
    }
    Err(io::Error::other("too many symbolic links"))
}

fn wait_for_lock(path: &Path) -> Result<FileLock, Failure> {
    for _ in 0..LOCK_TRIES {
        match FileLock::hold(path)? {
            Some(lock) => return Ok(lock),
            None => std::thread::sleep(LOCK_PAUSE),
        }
    }
    Err(Failure::InUse(format!(
        "{} is in use by another process: stop it, or use another file",
        path.display()
    )))
}

/// Refuses a log without its database: SQLite begins a new database by deleting the log.
fn refuse_lone_log(named: &Path, log: &Path) -> Result<(), Failure> {
    match fs::metadata(log) {
        Ok(found) if found.len() > 0 => Err(Failure::Unusable {
            what: format!(
                "{} is missing or empty, but its log {} is there: it has {} bytes that may be nowhere \
                 else, and a new store would destroy it",
                named.display(),
                log.display(),
                found.len()
            ),
            remedy: format!(
                "put the database back beside its log. If it is lost, move the log away \
                 (`mv {0} {0}.kept`), then start with the latest copy that `punctual backup` made, or \
                 with a new store",
                log.display()
            ),
        }),
        _ => Ok(()),
    }
}

/// Refuses a file with several hard links: SQLite keeps one log for each name, and the log of one
/// name is not seen through another.
fn has_other_names(path: &Path, names: u64) -> Failure {
    Failure::Unusable {
        what: format!(
            "{} has {names} names (hard links), and SQLite keeps a log beside each: what is stored \
             under one name is not seen under another",
            path.display()
        ),
        remedy: format!(
            "remove the other names (`find MOUNT -xdev -samefile {}` lists them), or use a copy",
            path.display()
        ),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use calendar::Zones;

    use super::*;
    use crate::{Sqlite, SqliteOptions, backup_file};

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn a_new_store_and_its_copies_are_for_their_owner_alone() {
        let folder = tempfile::tempdir().unwrap();
        let (path, copy) = (folder.path().join("new.db"), folder.path().join("copy.db"));
        let store = Sqlite::open(&path, Zones::bundled(), SqliteOptions::default()).unwrap();
        for file in [path.clone(), beside(&path, "-wal"), beside(&path, "-shm")] {
            assert_eq!(mode(&file), 0o600, "{}", file.display());
        }
        backup_file(&path, &copy).unwrap();
        assert_eq!(mode(&copy), 0o600);
        drop(store);
        // A file that exists keeps the mode that its owner gave it.
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        let _store = Sqlite::open(&path, Zones::bundled(), SqliteOptions::default()).unwrap();
        assert_eq!((mode(&path), mode(&beside(&path, "-wal"))), (0o640, 0o640));
    }
}
