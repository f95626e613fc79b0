//! A PostgreSQL of a test's own, which it may stop and start.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

/// A cluster in a folder; it ends with the test.
pub(super) struct Cluster {
    folder: TempDir,
    tools: PathBuf,
    port: u16,
}

impl Cluster {
    /// A new one, if PostgreSQL is installed here.
    pub(super) fn start() -> Option<Cluster> {
        let Some(tools) = tools() else {
            eprintln!("left out: PostgreSQL is not installed here");
            return None;
        };
        let port = TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port();
        let folder = tempfile::tempdir().unwrap();
        let cluster = Cluster { folder, tools, port };
        if is_root() {
            assert!(run(Command::new("chown").arg("postgres").arg(cluster.folder.path())));
        }
        let data = cluster.data();
        let made = ["-D", &data, "-A", "trust", "-U", "punctual", "--no-sync"];
        assert!(run(cluster.tool("initdb").args(made)), "no cluster");
        cluster.up();
        Some(cluster)
    }

    pub(super) fn url(&self) -> String {
        format!("postgres://punctual@127.0.0.1:{}/postgres", self.port)
    }

    pub(super) fn up(&self) {
        let folder = self.folder.path().display();
        let options = format!("-p {} -h 127.0.0.1 -k {folder} -c fsync=off", self.port);
        let log = format!("{folder}/log");
        let mut start = self.tool("pg_ctl");
        start.args(["start", "-w", "-D", &self.data(), "-l", &log, "-o", &options]);
        assert!(run(&mut start), "PostgreSQL does not start");
    }

    pub(super) fn down(&self) {
        let mut stop = self.tool("pg_ctl");
        stop.args(["stop", "-w", "-m", "immediate", "-D", &self.data()]);
        assert!(run(&mut stop), "PostgreSQL does not stop");
    }

    fn data(&self) -> String {
        self.folder.path().join("data").display().to_string()
    }

    /// PostgreSQL does not run as root.
    fn tool(&self, name: &str) -> Command {
        let tool = self.tools.join(name);
        if !is_root() {
            return Command::new(tool);
        }
        let mut command = Command::new("runuser");
        command.args(["-u", "postgres", "--"]).arg(tool).current_dir("/");
        command
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let mut stop = self.tool("pg_ctl");
        run(stop.args(["stop", "-m", "immediate", "-D", &self.data()]));
    }
}

fn run(command: &mut Command) -> bool {
    let command = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

fn is_root() -> bool {
    let said = Command::new("id").arg("-u").output().unwrap().stdout;
    String::from_utf8(said).unwrap().trim() == "0"
}

/// Where Debian and others put them, the newest version first; or wherever the path leads.
fn tools() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut folders: Vec<PathBuf> = versions.map(|entry| entry.path().join("bin")).collect();
    folders.sort();
    folders.reverse();
    let path = std::env::var_os("PATH").unwrap_or_default();
    folders.extend(std::env::split_paths(&path));
    folders.into_iter().find(|folder: &PathBuf| Path::is_file(&folder.join("initdb")))
}
