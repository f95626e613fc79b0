//! The file of an embedded store: `--db`, `punctual doctor`, `punctual backup`.

use std::io::Write;
use std::path::{Path, PathBuf};

use calendar::Zones;
use serde_json::json;
use store::{Sqlite, SqliteOptions, Store as _};

use crate::args::node::{BackupArgs, DoctorArgs};
use crate::clock;
use crate::failure::Failure;
use crate::terminal::{Cell, DIM, NOTE, OFF, columns};
use crate::validate::counted;

/// The file that `--db` names.
pub(crate) fn path(db: &str) -> Result<PathBuf, Failure> {
    if db.starts_with("postgres://") || db.starts_with("postgresql://") {
        return Err(Failure::Mistake(format!(
            "--db {db}: this version has the embedded store only\n  \
             allowed: a file\n  try: --db ./punctual.db"
        )));
    }
    let path = db.strip_prefix("sqlite:").unwrap_or(db);
    let path = path.strip_prefix("//").unwrap_or(path);
    if path.is_empty() {
        return Err(Failure::Mistake("--db: no file is named\n  try: --db ./punctual.db".into()));
    }
    Ok(PathBuf::from(path))
}

/// Why a store cannot be used.
pub(crate) fn failure(path: &Path, failure: &store::Failure) -> Failure {
    let remedy = match failure {
        store::Failure::InUse(_) => return Failure::Environment(failure.to_string()),
        store::Failure::Refused(_) => return Failure::Mistake(failure.to_string()),
        store::Failure::Damaged(_) => "the latest copy that `punctual backup` made",
        _ => "another --db; its folder has to exist and be writable",
    };
    Failure::Environment(format!("{}: {failure}\n  try: {remedy}", path.display()))
}

/// Runs `punctual doctor`.
pub(crate) fn doctor(args: &DoctorArgs, zones: Zones, out: &mut dyn Write) -> Result<(), Failure> {
    let path = existing(&args.db)?;
    let store = Sqlite::open(&path, zones, SqliteOptions::default()).map_err(|why| match why {
        store::Failure::InUse(_) => Failure::Environment(format!(
            "{} is in use by a node: stop it first\n  \
             try: punctual backup --db {0} COPY, then punctual doctor --db COPY",
            path.display()
        )),
        other => failure(&path, &other),
    })?;
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let found = runtime
        .block_on(store.check(clock::instant(), args.repair))
        .map_err(|why| failure(&path, &why))?;
    let left = found.iter().filter(|finding| !finding.repaired).count();
    if args.json {
        let findings: Vec<_> = found
            .iter()
            .map(|finding| {
                json!({
                    "code": finding.code,
                    "message": finding.message,
                    "repaired": finding.repaired,
                })
            })
            .collect();
        let told = json!({ "db": path, "findings": findings, "remaining": left });
        serde_json::to_writer_pretty(&mut *out, &told).map_err(std::io::Error::from)?;
        writeln!(out)?;
    } else {
        let rows = found.iter().map(|finding| {
            let (word, style) = if finding.repaired { ("mended", NOTE) } else { ("wrong", OFF) };
            vec![
                Cell::styled(word, style),
                Cell::plain(finding.message.clone()),
                Cell::styled(finding.code, DIM),
            ]
        });
        write!(out, "{}", columns(&rows.collect::<Vec<_>>()))?;
    }
    out.flush()?;
    match left {
        0 if args.json => Ok(()),
        0 => Ok(writeln!(out, "{}: everything holds together", path.display())?),
        left => Err(Failure::Mistake(format!(
            "{}: {} left{}",
            path.display(),
            counted(left, "finding"),
            if args.repair { "" } else { "\n  try: punctual doctor --repair" }
        ))),
    }
}

/// Runs `punctual backup`.
pub(crate) fn backup(args: &BackupArgs, out: &mut dyn Write) -> Result<(), Failure> {
    let from = existing(&args.db)?;
    let bytes = store::backup_file(&from, &args.to).map_err(|why| failure(&from, &why))?;
    if args.json {
        let told = json!({ "from": from, "to": args.to, "bytes": bytes });
        return Ok(writeln!(out, "{told}")?);
    }
    Ok(writeln!(out, "{}: {} KiB, a copy of {}", args.to.display(), bytes / 1024, from.display())?)
}

/// A store that has to be there already: nothing is made by looking at it.
pub(crate) fn existing(db: &str) -> Result<PathBuf, Failure> {
    let path = path(db)?;
    if path.is_file() {
        return Ok(path);
    }
    Err(Failure::Environment(format!(
        "{}: there is no store\n  try: --db with the file that `punctual serve` uses",
        path.display()
    )))
}
