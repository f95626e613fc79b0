//! Which confinement a child reports to be in force, after it has tried to apply all of it.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The confinement in force in a child that evaluates scripts. The limits on memory and CPU time,
/// and the refusal of further threads, processes and open files, always apply and are not listed. A
/// part that the kernel does not allow is left out and reported as `false`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Confinement {
    /// System calls that open files or sockets or reach other processes are refused.
    pub system_calls: bool,
    /// The child cannot gain privileges by starting another program.
    pub no_new_privileges: bool,
    /// The child has no capabilities, even where the node runs as root.
    pub no_capabilities: bool,
    /// The child has its own user namespace, in which it is nobody.
    pub user_namespace: bool,
    /// The child has its own network namespace, in which there is no network.
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

    /// The parts that are not in force, in words; `None` if all of them are.
    #[must_use]
    pub fn missing(self) -> Option<String> {
        let missing = self.parts().into_iter().filter(|(_, is_in_force)| !is_in_force);
        let missing: Vec<&str> = missing.map(|(name, _)| name).collect();
        (!missing.is_empty()).then(|| missing.join(", "))
    }
}

/// Lists the parts that are in force.
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
