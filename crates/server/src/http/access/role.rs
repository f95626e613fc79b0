//! Permissions and roles: a route needs a permission, a caller has roles.

use std::fmt;
use std::str::FromStr;

/// What a route needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Permission {
    /// See everything but tokens and the audit log.
    Read,
    /// Start, pause, resume, cancel, retry, resolve, publish events.
    Operate,
    /// Approve and reject what runs ask people.
    Approve,
    /// Declare workflows, schedules and calendars.
    Design,
    /// Claim attempts and report how they ended.
    Work,
    /// Make and revoke tokens, and read the audit log.
    Administer,
}

impl Permission {
    /// The name in documents and messages.
    pub fn name(self) -> &'static str {
        match self {
            Permission::Read => "read",
            Permission::Operate => "operate",
            Permission::Approve => "approve",
            Permission::Design => "design",
            Permission::Work => "work",
            Permission::Administer => "administer",
        }
    }
}

/// What a token is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// Sees everything but tokens and the audit log.
    Viewer,
    /// Sees, and operates what others have declared.
    Operator,
    /// Sees, and decides approvals.
    Approver,
    /// Sees, and declares workflows, schedules and calendars.
    Designer,
    /// Claims attempts, and nothing else.
    Worker,
    /// Sees and changes everything, tokens included.
    Admin,
}

impl Role {
    /// Every role, the most powerful one last.
    pub const ALL: [Role; 6] =
        [Role::Viewer, Role::Operator, Role::Approver, Role::Designer, Role::Worker, Role::Admin];

    /// The name in documents and messages.
    pub fn name(self) -> &'static str {
        match self {
            Role::Viewer => "viewer",
            Role::Operator => "operator",
            Role::Approver => "approver",
            Role::Designer => "designer",
            Role::Worker => "worker",
            Role::Admin => "admin",
        }
    }

    /// Whether the role has this permission.
    pub fn allows(self, permission: Permission) -> bool {
        match permission {
            Permission::Read => self != Role::Worker,
            Permission::Operate => matches!(self, Role::Operator | Role::Admin),
            Permission::Approve => matches!(self, Role::Approver | Role::Admin),
            Permission::Design => matches!(self, Role::Designer | Role::Admin),
            Permission::Work => matches!(self, Role::Worker | Role::Admin),
            Permission::Administer => self == Role::Admin,
        }
    }
}

impl FromStr for Role {
    type Err = ();

    fn from_str(text: &str) -> Result<Role, ()> {
        Role::ALL.into_iter().find(|role| role.name() == text).ok_or(())
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
