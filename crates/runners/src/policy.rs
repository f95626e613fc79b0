//! What the host permits, fixed when the node starts.

use std::path::PathBuf;
use std::time::Duration;

use crate::egress::Egress;
use crate::exec::Supervisor;
use crate::mask::Mask;

/// Long enough for a command to put its things in order, short enough for a person to wait.
const CANCEL_GRACE: Duration = Duration::from_secs(10);

/// The host's limits and permissions.
#[derive(Clone, Debug)]
pub struct Policy {
    /// Whether commands may run at all.
    pub allow_exec: bool,
    /// Where requests may go.
    pub egress: Egress,
    /// How long a command that was told to end may take before it is killed.
    pub cancel_grace: Duration,
    /// A folder where running process groups are noted, so that
    /// [`end_orphans`](crate::end_orphans) finds those that outlive a killed node. Made if it is
    /// missing; without one nothing is noted.
    pub groups_dir: Option<PathBuf>,
    /// Hides secrets in what is cut before it is shown, such as URLs.
    pub mask: Mask,
    /// The program that stands between the node and each command, and ends everything that the command has
    /// started. Without one, what leaves the command's process group is known only by its environment.
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
