//! What a child has given up, as it says after having tried.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What is in force in a child that evaluates scripts, beside the limits that are always: memory, CPU time, no further
/// thread, process or open file. What the kernel does not allow is left out, and told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Confinement {
    /// System calls that open files, sockets or other processes are refused.
    pub system_calls: bool,
    /// No program that it could start would get more rights.
    pub no_new_privileges: bool,
    /// It has no capability, also where the node is root.
    pub no_capabilities: bool,
    /// It has a user namespace of its own, in which it is nobody.
    pub user_namespace: bool,
    /// It has a network namespace of its own, in which there is no network.
    pub network_namespace: bool,
}

impl Confinement {
    fn parts(self) -> [(&'static str, bool); 5] {
        [
            ("system call filter", self.system_calls),
            ("no new privileges", self.no_new_privileges),
            ("no capabilities", self.no_capabilities),
            ("own user namespace", self.user_namespace),
            ("own network namespace", self.network_namespace),
        ]
    }

    /// What is not in force, in words; nothing if everything is.
    #[must_use]
    pub fn missing(self) -> Option<String> {
        let missing = self.parts().into_iter().filter(|(_, is_in_force)| !is_in_force);
        let missing: Vec<&str> = missing.map(|(name, _)| name).collect();
        (!missing.is_empty()).then(|| missing.join(", "))
    }
}

/// What is in force.
impl fmt::Display for Confinement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = self.parts().into_iter().filter(|(_, is_in_force)| *is_in_force);
        let parts: Vec<&str> = parts.map(|(name, _)| name).collect();
        f.write_str(if parts.is_empty() { "limits alone" } else { "" })?;
        f.write_str(&parts.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_says_what_is_in_force_and_what_is_not() {
        let some =
            Confinement { system_calls: true, no_capabilities: true, ..Confinement::default() };
        assert_eq!(some.to_string(), "system call filter, no capabilities");
        let missing = some.missing().unwrap();
        assert_eq!(missing, "no new privileges, own user namespace, own network namespace");
        assert_eq!(Confinement::default().to_string(), "limits alone");
        let all = Confinement {
            no_new_privileges: true,
            user_namespace: true,
            network_namespace: true,
            ..some
        };
        assert_eq!(all.missing(), None);
    }
}
