//! A PostgreSQL server with its data folder.

use std::fmt::Write as _;
use std::fs;
use std::hash::{BuildHasher as _, RandomState};
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use crate::Trouble;
use crate::guard::Guard;
use crate::programs::Programs;

/// Ports below those that the system assigns to outgoing connections. A client that connects while
/// the server is down could otherwise be connected to itself, and the server would find its port in
/// use.
const PORTS: std::ops::Range<u16> = 20_000..32_000;
/// How often another port is tried: another process may take a port between the check and the
/// start.
const TRIES: usize = 5;
/// The name of both the superuser and the database.
const NAME: &str = "punctual";

/// Options of a cluster.
#[derive(Clone, Debug, Default)]
pub struct Builder {
    is_unsynced: bool,
    settings: String,
    files: Vec<(String, String)>,
    server: Option<PathBuf>,
}

impl Builder {
    /// The folder with `initdb`, `pg_ctl` and `postgres` of another version than the installed one.
    /// The clients (`psql`, `createdb`) are still the installed ones.
    pub fn server(mut self, programs: &Path) -> Builder {
        self.server = Some(programs.to_owned());
        self
    }

    /// With `false`, commits do not reach the disk: for tests that do not simulate a power failure.
    pub fn fsync(mut self, fsync: bool) -> Builder {
        self.is_unsynced = !fsync;
        self
    }

    /// Adds a line to `postgresql.conf`.
    pub fn setting(mut self, name: &str, value: &str) -> Builder {
        let _ = writeln!(self.settings, "{name} = '{value}'");
        self
    }

    /// Writes a file into the data folder before the start, replacing an existing one.
    pub fn file(mut self, name: &str, text: &str) -> Builder {
        self.files.push((name.to_owned(), text.to_owned()));
        self
    }

    /// Starts the cluster. When this has returned, the database answers.
    pub fn start(self) -> Result<Cluster, Trouble> {
        let cluster = Cluster::prepare_with(self.server)?;
        let data = cluster.data();
        let arguments = ["--auth=trust", "--no-sync", "--encoding=UTF8", "--locale=C"];
        let arguments = arguments.map(str::to_owned);
        let own = [format!("--username={NAME}"), format!("--pgdata={}", data.display())];
        cluster.run("initdb", arguments.into_iter().chain(own))?;
        let fsync = if self.is_unsynced { "off" } else { "on" };
        cluster.configure(&format!(
            "listen_addresses = '127.0.0.1'\nmax_connections = 300\nfsync = {fsync}\n{}",
            self.settings
        ))?;
        for (name, text) in &self.files {
            cluster.write(&data.join(name), text)?;
        }
        let cluster = cluster.start_somewhere()?;
        cluster.run(
            "createdb",
            [&*cluster.port_argument(), &*cluster.host_argument(), "--username=punctual", NAME],
        )?;
        Ok(cluster)
    }
}

/// A PostgreSQL server in a temporary folder, on its own port. Dropping the value ends the server
/// and removes the folder; so does the end of the process, even if it is killed.
#[derive(Debug)]
pub struct Cluster {
    pub(crate) programs: Programs,
    folder: PathBuf,
    port: u16,
    _guard: Guard,
}

impl Cluster {
    /// Starts a cluster with default options: a commit is on the disk.
    pub fn start() -> Result<Cluster, Trouble> {
        Cluster::builder().start()
    }

    /// Sets options before the start.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Prepares a folder and the guard that will remove it, without a server.
    pub(crate) fn prepare() -> Result<Cluster, Trouble> {
        Cluster::prepare_with(None)
    }

    fn prepare_with(server: Option<PathBuf>) -> Result<Cluster, Trouble> {
        let folder = tempfile::Builder::new().prefix("punctual-testbed-").tempdir();
        let folder = folder.map_err(|why| Trouble::new("a temporary folder", why))?;
        let programs = Programs::find(folder.path())?.with_server(server);
        programs.give(folder.path()).map_err(|why| Trouble::new("a temporary folder", why))?;
        let guard = Guard::watch(&programs, folder.path())?;
        Ok(Cluster { programs, folder: folder.keep(), port: 0, _guard: guard })
    }

    /// The address of the database, for its superuser, without a password.
    pub fn url(&self) -> String {
        format!("postgres://{NAME}@127.0.0.1:{}/{NAME}", self.port)
    }

    /// The port on the loopback interface.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The folder of the Unix socket.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The result of a statement: a line for each row, with `|` between the columns.
    pub fn ask(&self, sql: &str) -> Result<String, Trouble> {
        let own = [self.port_argument(), self.host_argument(), format!("--command={sql}")];
        let fixed = [
            "--no-psqlrc",
            "--quiet",
            "--tuples-only",
            "--no-align",
            "--username=punctual",
            "--dbname=punctual",
        ];
        self.run("psql", fixed.map(str::to_owned).into_iter().chain(own))
    }

    /// Stops the server as if the power were cut, and starts it again at once.
    pub fn restart_immediate(&self) -> Result<(), Trouble> {
        self.stop()?;
        self.start_again()
    }

    /// Stops the server as if the power were cut: no session ends in order, and nothing more is
    /// written.
    pub fn stop(&self) -> Result<(), Trouble> {
        self.control(["stop", "--mode=immediate"]).map(drop)
    }

    /// Starts the server after [`Cluster::stop`], on the same port. When this has returned, the
    /// database answers.
    pub fn start_again(&self) -> Result<(), Trouble> {
        let log = format!("--log={}", self.log().display());
        self.control(["start", "--wait", &log]).map(drop).map_err(|trouble| {
            let log = fs::read_to_string(self.log()).unwrap_or_default();
            let lines: Vec<&str> = log.lines().collect();
            let last = &lines[lines.len().saturating_sub(20)..];
            Trouble::new(trouble.to_string(), last.join("\n"))
        })
    }

    /// Starts the server on the first free port.
    pub(crate) fn start_somewhere(mut self) -> Result<Cluster, Trouble> {
        let mut ended = Err(Trouble::new("no port is free", "see `ss -ltn`"));
        for _ in 0..TRIES {
            let Some(port) = free_port() else { continue };
            self.port = port;
            self.configure(&format!(
                "port = {port}\nunix_socket_directories = '{}'\n",
                self.folder.display()
            ))?;
            ended = self.start_again();
            if ended.is_ok() {
                break;
            }
        }
        ended.map(|()| self)
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    fn log(&self) -> PathBuf {
        self.folder.join("log")
    }

    pub(crate) fn port_argument(&self) -> String {
        format!("--port={}", self.port)
    }

    pub(crate) fn host_argument(&self) -> String {
        format!("--host={}", self.folder.display())
    }

    pub(crate) fn run<A: AsRef<std::ffi::OsStr>>(
        &self,
        name: &str,
        arguments: impl IntoIterator<Item = A>,
    ) -> Result<String, Trouble> {
        self.programs.run(name, &self.folder, arguments)
    }

    pub(crate) fn control<const N: usize>(&self, arguments: [&str; N]) -> Result<String, Trouble> {
        let data = format!("--pgdata={}", self.data().display());
        self.run("pg_ctl", arguments.into_iter().chain(["--silent", &*data]))
    }

    /// Adds lines to `postgresql.conf`; the last line about a setting counts.
    pub(crate) fn configure(&self, lines: &str) -> Result<(), Trouble> {
        let path = self.data().join("postgresql.conf");
        let before = fs::read_to_string(&path)
            .map_err(|why| Trouble::new(path.display().to_string(), why))?;
        self.write(&path, &format!("{before}\n{lines}"))
    }

    pub(crate) fn write(&self, path: &Path, text: &str) -> Result<(), Trouble> {
        // The server refuses a key file that others may read.
        fs::write(path, text)
            .and_then(|()| fs::set_permissions(path, fs::Permissions::from_mode(0o600)))
            .and_then(|()| self.programs.give(path))
            .map_err(|why| Trouble::new(path.display().to_string(), why))
    }
}

pub(crate) fn free_port() -> Option<u16> {
    let range = PORTS.end - PORTS.start;
    // A random number without a crate for it.
    let start = RandomState::new().hash_one(0_u8) % u64::from(range);
    let start = u16::try_from(start).unwrap_or(0);
    (0..range)
        .map(|step| PORTS.start + (start + step) % range)
        .find(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok())
}
