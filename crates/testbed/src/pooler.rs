//! A pgbouncer in front of a cluster.

use std::net::{Ipv4Addr, TcpStream};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::time::Duration;

use crate::Trouble;
use crate::cluster::{Cluster, free_port};

/// The folder in which Debian installs pgbouncer; it is not on the PATH of ordinary users.
const FOLDER: &str = "/usr/sbin";
/// How often the pooler's port is tried before the start counts as failed.
const LOOKS: usize = 300;
const BETWEEN: Duration = Duration::from_millis(50);
/// Ends the pooler with this process, even if the process is killed.
const SCRIPT: &str = r#"
trap '' HUP INT TERM
"$0" --quiet "$1" &
while read -r _; do :; done
kill "$!"
wait
"#;

/// When a session of the database is given to another client of the pooler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PoolMode {
    /// When the client disconnects.
    Session,
    /// A client gives its connection back after each transaction.
    Transaction,
    /// A client gives its connection back after each statement.
    Statement,
}

#[derive(Debug)]
pub struct Pooler {
    port: u16,
    child: Child,
}

/// Whether [`Pooler::start`] can find the program.
pub fn is_pooler_installed() -> bool {
    program().is_some()
}

fn program() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let folders = folders.into_iter().chain([PathBuf::from(FOLDER)]);
    folders.map(|folder| folder.join("pgbouncer")).find(|program| program.is_file())
}

impl Pooler {
    /// Starts a pooler for a cluster. When this has returned, the pooler listens.
    pub fn start(cluster: &Cluster, mode: PoolMode) -> Result<Pooler, Trouble> {
        let program = program().ok_or_else(|| {
            Trouble::new("pgbouncer is not installed", "apt-get install pgbouncer")
        })?;
        let port = free_port().ok_or_else(|| Trouble::new("no port is free", "see `ss -ltn`"))?;
        let mode = match mode {
            PoolMode::Session => "session",
            PoolMode::Transaction => "transaction",
            PoolMode::Statement => "statement",
        };
        let settings = format!(
            "[databases]\n* = host=127.0.0.1 port={} user=punctual\n[pgbouncer]\n\
             listen_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\nauth_type = any\n\
             pool_mode = {mode}\ndefault_pool_size = 100\n",
            cluster.port()
        );
        let path = cluster.folder().join(format!("pgbouncer-{port}.ini"));
        cluster.write(&path, &settings)?;
        let mut shell = cluster.programs.command("sh", cluster.folder());
        shell.args(["-c", SCRIPT]).arg(program).arg(path);
        shell.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
        let child = shell.spawn().map_err(|why| Trouble::new("pgbouncer", why))?;
        let pooler = Pooler { port, child };
        for _ in 0..LOOKS {
            if TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok() {
                return Ok(pooler);
            }
            std::thread::sleep(BETWEEN);
        }
        Err(Trouble::new("pgbouncer", "it does not listen"))
    }

    /// The address of the database through the pooler.
    pub fn url(&self) -> String {
        format!("postgres://punctual@127.0.0.1:{}/punctual", self.port)
    }
}

impl Drop for Pooler {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        // An error cannot be reported while dropping.
        let _ = self.child.wait();
    }
}
