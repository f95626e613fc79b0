//! What the host permits attempts to do. It is fixed when the node starts.

use std::path::PathBuf;
use std::time::Duration;

use crate::egress::Egress;
use crate::exec::Supervisor;
use crate::mask::Mask;

/// Long enough for a command to clean up, short enough for a person to wait.
const CANCEL_GRACE: Duration = Duration::from_secs(10);

/// The host's limits and permissions.
#[derive(Clone, Debug)]
pub struct Policy {
    pub allow_exec: bool,
    /// Where HTTP requests may go.
    pub egress: Egress,
    /// How long a command may take after SIGTERM before it is killed.
    pub cancel_grace: Duration,
    /// A directory where running process groups are recorded, so that
    /// [`end_orphans`](crate::end_orphans) finds those that outlive a killed node. It is created if
    /// it is missing. Without one, nothing is recorded.
    pub groups_dir: Option<PathBuf>,
    /// Masks secrets in texts, such as URLs, that are cut before they are shown.
    pub mask: Mask,
    /// The supervisor program that runs between the node and each command, and kills everything
    /// that the command has started. Without one, processes that leave the command's process group
    /// are found only by a mark in their environment.
    pub supervisor: Option<Supervisor>,
}

impl Default for Policy {
    /// No commands, only the public internet, 10 s of grace.
    fn default() -> Policy {
        Policy {
            allow_exec: false,
            egress: Egress::default(),
            cancel_grace: CANCEL_GRACE,
            groups_dir: None,
            mask: Mask::default(),
            supervisor: None,
        }
    }
}
