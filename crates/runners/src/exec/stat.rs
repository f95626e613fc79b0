//! The state of a process, read from `/proc/<id>/stat`.

use std::fs;

use rustix::process::Pid;

pub(super) struct Stat {
    pub(super) id: Pid,
    state: char,
    pub(super) parent: i32,
    /// Start time in clock ticks since the boot.
    pub(super) started: u64,
}

impl Stat {
    /// `None` if there is no such process, or no `/proc`.
    pub(super) fn of(id: Pid) -> Option<Stat> {
        let stat = fs::read(format!("/proc/{}/stat", id.as_raw_pid())).ok()?;
        Stat::read(id, &String::from_utf8_lossy(&stat))
    }

    /// Reads the third, fourth and 22nd field. The second field is the program's name in
    /// parentheses; the name may itself contain parentheses and spaces.
    fn read(id: Pid, stat: &str) -> Option<Stat> {
        let (_, after_name) = stat.rsplit_once(')')?;
        let mut fields = after_name.split_whitespace();
        let state = fields.next()?.chars().next()?;
        let parent = fields.next()?.parse().ok()?;
        Some(Stat { id, state, parent, started: fields.nth(17)?.parse().ok()? })
    }

    /// Whether the process has exited: it is a zombie, or being removed.
    pub(super) fn has_ended(&self) -> bool {
        matches!(self.state, 'Z' | 'X')
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_may_look_like_fields() {
        let rest = "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 987 19";
        for name in ["sh", "a b", ") Z 7", "(x) S 1 ("] {
            let stat = Stat::read(Pid::INIT, &format!("1 ({name}) S 42 {rest}")).unwrap();
            assert_eq!((stat.has_ended(), stat.parent, stat.started), (false, 42, 987), "{name}");
        }
        assert!(Stat::read(Pid::INIT, &format!("1 (sh) Z 42 {rest}")).unwrap().has_ended());
        assert!(Stat::read(Pid::INIT, "1 (sh) S 42 1 2").is_none());
    }
}
