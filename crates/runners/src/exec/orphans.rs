//! Process groups that outlive a killed node: recorded as notes while they run, killed when a node
//! starts again.
//!
//! A note is an empty file whose name holds all its data, so a note is never half written.
//! Processes are identified by id and start time, because ids are reused. Start times are read from
//! `/proc`; on systems without it no notes are written. Two gaps remain, because without unsafe
//! code a child cannot be held back before it runs: a node killed between the start of a command
//! and its note, and a group whose leader ended and was reaped after its node was killed.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process_group};

use super::escaped;
use super::stat::Stat;

const EXTENSION: &str = "group";

/// The directory that holds the notes.
#[derive(Debug)]
pub(crate) struct Notes {
    dir: PathBuf,
}

/// The note of one group. Dropping the value removes the file.
#[derive(Debug)]
pub(super) struct Note {
    path: PathBuf,
}

impl Notes {
    pub(crate) fn in_dir(dir: PathBuf) -> io::Result<Notes> {
        fs::create_dir_all(&dir)?;
        Ok(Notes { dir })
    }

    /// Writes a note for a running group. A command runs even if its note cannot be written;
    /// [`end_orphans`] would then not find it after a crash.
    pub(super) fn note(&self, group: Pid) -> Option<Note> {
        let noted = Noted {
            group: Process::of(group)?,
            owner: Process::of(rustix::process::getpid())?,
            boot: boot()?,
        };
        let path = self.dir.join(noted.file_name());
        match File::create(&path) {
            Ok(_) => Some(Note { path }),
            Err(error) => {
                let path = path.display();
                tracing::warn!(%error, %path, "a running process group could not be noted");
                None
            }
        }
    }
}

impl Drop for Note {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Kills the process groups that killed nodes left running, and returns how many there were.
///
/// A note in `dir` (see [`Policy::groups_dir`](crate::Policy::groups_dir)) counts if its node has
/// ended and the leader of its group still is the recorded process. Notes of groups that have ended
/// are removed; notes of running nodes are left alone. A missing directory holds no notes.
pub fn end_orphans(dir: &Path) -> io::Result<usize> {
    let entries = match fs::read_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        entries => entries?,
    };
    let boot = boot();
    let mut ended = 0;
    for entry in entries {
        let path = entry?.path();
        let Some(noted) = Noted::read(&path) else { continue };
        let of_this_boot = Some(&noted.boot) == boot.as_ref();
        if of_this_boot && noted.owner.runs() {
            continue;
        }
        let mut has_ended = 0;
        if of_this_boot && noted.group.is_there() {
            match kill_process_group(noted.group.id, Signal::KILL) {
                // The group's supervisor has killed it first.
                Err(Errno::SRCH) => {}
                killed => {
                    killed?;
                    has_ended = 1;
                }
            }
        }
        if of_this_boot {
            has_ended = escaped::end_all_of(&noted.owner).min(1).max(has_ended);
        }
        if has_ended > 0 {
            tracing::warn!(group = noted.group.id.as_raw_pid(), "ended a command left running");
            ended += has_ended;
        }
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(ended)
}

/// The data of a note, as encoded in its file name.
#[derive(Debug, PartialEq)]
struct Noted {
    group: Process,
    owner: Process,
    /// The id of the boot that the start times are relative to.
    boot: String,
}

impl Noted {
    fn file_name(&self) -> String {
        let Noted { group, owner, boot } = self;
        let (group_id, owner_id) = (group.id.as_raw_pid(), owner.id.as_raw_pid());
        format!("{group_id}-{}-{owner_id}-{}-{boot}.{EXTENSION}", group.started, owner.started)
    }

    fn read(path: &Path) -> Option<Noted> {
        path.extension().filter(|extension| *extension == EXTENSION)?;
        let mut parts = path.file_stem()?.to_str()?.splitn(5, '-');
        let group = Process::read(parts.next()?, parts.next()?)?;
        if group.id == Pid::INIT {
            // To `kill`, group 1 means every process there is.
            return None;
        }
        Some(Noted {
            group,
            owner: Process::read(parts.next()?, parts.next()?)?,
            boot: parts.next()?.to_owned(),
        })
    }
}

/// A process, identified by id and start time, because ids are reused.
#[derive(Debug, PartialEq)]
pub(super) struct Process {
    pub(super) id: Pid,
    pub(super) started: u64,
}

impl Process {
    pub(super) fn of(id: Pid) -> Option<Process> {
        let started = Stat::of(id)?.started;
        Some(Process { id, started })
    }

    fn read(id: &str, started: &str) -> Option<Process> {
        let id = id.parse().ok().filter(|id| *id > 0).and_then(Pid::from_raw)?;
        Some(Process { id, started: started.parse().ok()? })
    }

    /// Whether the process exists. Zombies count, because the rest of a group may outlive its
    /// leader.
    pub(super) fn is_there(&self) -> bool {
        Stat::of(self.id).is_some_and(|stat| stat.started == self.started)
    }

    fn runs(&self) -> bool {
        Stat::of(self.id).is_some_and(|stat| stat.started == self.started && !stat.has_ended())
    }
}

fn boot() -> Option<String> {
    let id = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(id.trim().to_owned())
}
