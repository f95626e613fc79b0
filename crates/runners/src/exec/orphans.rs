//! Process groups that outlive a killed node: noted while they run, ended at the next start.
//!
//! A note is an empty file whose name says all, so none is ever half written. Processes are known
//! by id and start time, because ids are used again; start times are read from `/proc`, so on
//! systems without it nothing is noted. Two gaps are left, because a child cannot be held back
//! before it runs without unsafe code: a node killed between the start of a command and its note,
//! and a group whose leader has ended, and been reaped, after its node was killed.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process_group};

use super::escaped;
use super::stat::Stat;

const EXTENSION: &str = "group";

/// The folder of notes.
#[derive(Debug)]
pub(crate) struct Notes {
    dir: PathBuf,
}

/// One group's note. Dropping it removes it.
#[derive(Debug)]
pub(super) struct Note {
    path: PathBuf,
}

impl Notes {
    pub(crate) fn in_dir(dir: PathBuf) -> io::Result<Notes> {
        fs::create_dir_all(&dir)?;
        Ok(Notes { dir })
    }

    /// Notes a running group. Without a note the command runs all the same: it would only be
    /// missed by [`end_orphans`] after a crash.
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

/// Kills the process groups that nodes left running when they were killed, and gives their number.
///
/// A note in `dir` (see [`Policy::groups_dir`](crate::Policy::groups_dir)) counts if its node is
/// gone and its group's leader still is the process that was noted. Notes of groups that are gone
/// are removed; those of living nodes are left alone. A missing folder holds no notes.
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
                // Its supervisor was faster.
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

/// What a note says.
#[derive(Debug, PartialEq)]
struct Noted {
    group: Process,
    owner: Process,
    /// Start times count from the boot.
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
            // To the system, group 1 means every process there is.
            return None;
        }
        Some(Noted {
            group,
            owner: Process::read(parts.next()?, parts.next()?)?,
            boot: parts.next()?.to_owned(),
        })
    }
}

/// A process told apart from others that have its id at other times.
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

    /// Zombies included: the rest of a group may outlive its leader.
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
