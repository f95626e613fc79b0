//! A Redis that syncs every write, in a folder of its own.

use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;
use std::time::Duration;

use super::installed::Installed;
use super::worker::Worker;

const START: Duration = Duration::from_secs(20);

pub(super) struct Redis<'a> {
    server: Worker<'a>,
    pub(super) url: String,
}

impl<'a> Redis<'a> {
    pub(super) fn start(installed: &'a Installed, folder: &Path) -> Result<Redis<'a>, String> {
        std::fs::create_dir_all(folder).map_err(|why| why.to_string())?;
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|free| free.local_addr());
        let port = free.map_err(|why| format!("a port for Redis: {why}"))?.port();
        let mut command = installed.redis();
        command.args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", ""]);
        command.args(["--appendonly", "yes", "--appendfsync", "always", "--dir"]).arg(folder);
        let mut server = Worker::start(&installed.guard, &mut command, &folder.join("printed"))?;
        let answers = || TcpStream::connect((Ipv4Addr::LOCALHOST, port)).ok();
        server.until(Duration::from_millis(20), START, answers)?.ok_or("Redis does not answer")?;
        Ok(Redis { server, url: format!("redis://127.0.0.1:{port}/0") })
    }

    /// Its resident memory, in bytes.
    pub(super) fn resident(&self) -> u64 {
        self.server.resident()
    }
}
