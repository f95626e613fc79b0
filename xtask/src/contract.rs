//! Whether `/openapi.json` is a contract that others' tools can use: a validator, two generators of
//! clients, one of the clients at work, and schemathesis, which asks every route for what the
//! document says and for what it does not.
//!
//! The tools come from PyPI and npm, pinned in `tools/contract`, into a folder below `target`. Only
//! a node that was started for this, on a loopback address, is ever asked.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use rustix::process::Signal;

use crate::chaos::built;
use crate::chaos::node::{Node, Setup};
use crate::guard::Guard;
use crate::http::ask;
use crate::steps::{Outcome, run as run_command};

/// The node's own token: with one, it is seen whether routes ask for it.
const TOKEN: &str = "k9vR3xPq7LmZ2wT8yBn4JfGd6HsC5aXe";
/// Random examples for each operation, beside those at the edges of what its schema allows: about a
/// minute.
const SHORT: &str = "3";
/// The same, for the better part of an hour.
const LONG: &str = "200";

/// As it is part of `cargo xtask test`.
pub(crate) fn short(root: &Path) -> Outcome {
    run(root, false)
}

pub(crate) fn run(root: &Path, long: bool) -> Outcome {
    let tools = Tools::install(root)?;
    let binary = built(root, false)?;
    let guard = Arc::new(Guard::new()?);
    let setup = Setup {
        binary,
        url: guard.folder().join("punctual.db").display().to_string(),
        lease: "10s".to_owned(),
        arguments: Vec::new(),
        environment: vec![("PUNCTUAL_TOKEN", TOKEN.to_owned())],
        guard: guard.clone(),
    };
    let node = Node::start(&setup, &guard.folder().join("node"))?;
    let asked = tools.ask_all(&node, if long { LONG } else { SHORT });
    node.signal(Signal::TERM)?;
    node.ended()?;
    asked
}

/// Where the tools are, and what they make.
struct Tools {
    /// The scripts, and which versions of what they need.
    scripts: PathBuf,
    /// The virtual environment of Python.
    python: PathBuf,
    /// The folder with `node_modules`.
    node: PathBuf,
    /// The folder for files that each run generates anew.
    made: PathBuf,
}

impl Tools {
    /// Installs what is missing or has changed since it was.
    fn install(root: &Path) -> Result<Tools, String> {
        let target =
            std::env::var_os("CARGO_TARGET_DIR").map_or(root.join("target"), PathBuf::from);
        let folder = target.join("contract");
        let tools = Tools {
            scripts: root.join("tools").join("contract"),
            python: folder.join("venv"),
            node: folder.join("node"),
            made: folder.join("made"),
        };
        create(&tools.node)?;
        tools.install_python()?;
        tools.install_node()?;
        Ok(tools)
    }

    fn install_python(&self) -> Outcome {
        let wanted = self.scripts.join("requirements.txt");
        let installed = self.python.join("installed.txt");
        if same(&wanted, &installed) {
            return Ok(());
        }
        run_command(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&self.python))?;
        let mut pip = self.program("pip");
        pip.args(["install", "--quiet", "--disable-pip-version-check", "--requirement"]);
        run_command(pip.arg(&wanted))?;
        copy(&wanted, &installed)
    }

    fn install_node(&self) -> Outcome {
        let (wanted, installed) =
            (self.scripts.join("package-lock.json"), self.node.join("installed.json"));
        if same(&wanted, &installed) {
            return Ok(());
        }
        copy(&wanted, &self.node.join("package-lock.json"))?;
        copy(&self.scripts.join("package.json"), &self.node.join("package.json"))?;
        let mut npm = Command::new("npm");
        npm.args(["ci", "--no-audit", "--no-fund", "--ignore-scripts"]).current_dir(&self.node);
        run_command(&mut npm)?;
        copy(&wanted, &installed)
    }

    /// A program of the virtual environment. It finds the others there.
    fn program(&self, name: &str) -> Command {
        let bin = self.python.join("bin");
        let paths = std::env::var_os("PATH").unwrap_or_default();
        let paths = std::iter::once(bin.clone()).chain(std::env::split_paths(&paths));
        let mut command = Command::new(bin.join(name));
        if let Ok(paths) = std::env::join_paths(paths) {
            command.env("PATH", paths);
        }
        command
    }

    fn ask_all(&self, node: &Node, examples: &str) -> Outcome {
        if self.made.exists() {
            std::fs::remove_dir_all(&self.made).map_err(|why| why.to_string())?;
        }
        create(&self.made)?;
        let document = self.made.join("openapi.json");
        let (status, text) =
            ask(&node.address, "GET", "/openapi.json", "").map_err(|why| why.to_string())?;
        if status != 200 {
            return Err(format!("/openapi.json answers {status}"));
        }
        std::fs::write(&document, text).map_err(|why| why.to_string())?;
        run_command(self.program("openapi-spec-validator").arg(&document))?;
        self.make_typescript(&document)?;
        let configuration = self.use_client(&document, node)?;
        self.ask_everything(&document, &configuration, node, examples)
    }

    /// Definitions for TypeScript, which its compiler takes, and a program that uses them as people
    /// do.
    fn make_typescript(&self, document: &Path) -> Outcome {
        let definitions = self.made.join("openapi.d.ts");
        let bin = self.node.join("node_modules").join(".bin");
        let mut generator = Command::new(bin.join("openapi-typescript"));
        run_command(generator.arg(document).arg("-o").arg(&definitions))?;
        let used = self.made.join("use.ts");
        copy(&self.scripts.join("use.ts"), &used)?;
        let mut compiler = Command::new(bin.join("tsc"));
        run_command(compiler.args(["--noEmit", "--strict"]).args([&definitions, &used]))
    }

    /// A client for Python, which is used for what programs do most. It also says what there is to
    /// be asked for.
    fn use_client(&self, document: &Path, node: &Node) -> Result<PathBuf, String> {
        let configuration = self.made.join("schemathesis.toml");
        let mut generator = self.program("openapi-python-client");
        generator.args(["generate", "--meta", "none", "--overwrite", "--path"]).arg(document);
        generator.arg("--output-path").arg(self.made.join("punctual_client"));
        generator.arg("--config").arg(self.scripts.join("client.yaml"));
        // The generator tells at length of content types that it has no use for.
        run_command(generator.stdout(Stdio::null()))?;
        let mut client = self.program("python");
        client.arg(self.scripts.join("client.py")).arg(&self.made);
        client.args([&format!("http://{}", node.address), TOKEN]).arg(&configuration);
        run_command(&mut client)?;
        Ok(configuration)
    }

    fn ask_everything(
        &self,
        document: &Path,
        configuration: &Path,
        node: &Node,
        examples: &str,
    ) -> Outcome {
        let mut schemathesis = self.program("schemathesis");
        schemathesis.arg("--config-file").arg(configuration).arg("run").arg(document);
        schemathesis.args(["--url", &format!("http://{}", node.address)]);
        schemathesis.args(["--header", &format!("Authorization: Bearer {TOKEN}")]);
        // One after the other: the same seed asks the same again.
        schemathesis.args(["--phases", "coverage,fuzzing", "--workers", "1"]);
        schemathesis.args(["--max-examples", examples, "--warnings", "off", "--no-color"]);
        schemathesis.env("SCHEMATHESIS_HOOKS", "hooks").env("PYTHONPATH", &self.scripts);
        run_command(schemathesis.current_dir(&self.made))
    }
}

fn create(folder: &Path) -> Outcome {
    std::fs::create_dir_all(folder).map_err(|why| format!("{}: {why}", folder.display()))
}

fn copy(from: &Path, to: &Path) -> Outcome {
    std::fs::copy(from, to).map(drop).map_err(|why| format!("{}: {why}", from.display()))
}

fn same(one: &Path, other: &Path) -> bool {
    let text = |path: &Path| std::fs::read(path).ok();
    text(one).is_some_and(|text_of_one| Some(text_of_one) == text(other))
}
