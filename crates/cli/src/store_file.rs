//! Maintenance of a store: `punctual doctor` and `punctual backup`.

use std::io::Write;
use std::path::Path;

use calendar::Zones;
use serde_json::json;
use store::{Administration as _, Finding, Sqlite, SqliteOptions};

use crate::args::node::{BackupArgs, DoctorArgs};
use crate::clock;
use crate::failure::Failure;
use crate::store_target::{Shared, StoreTarget};
use crate::terminal::{Cell, DIM, NOTE, OFF, columns};
use crate::validate::counted;

/// Why a store file cannot be used, with a remedy.
pub(crate) fn failure(path: &Path, failure: &store::Failure) -> Failure {
    let remedy: &str = match failure {
        store::Failure::InUse(_) | store::Failure::Gone(_) => {
            return Failure::Environment(failure.to_string());
        }
        store::Failure::Refused(_) => return Failure::Mistake(failure.to_string()),
        store::Failure::Damaged(_) | store::Failure::Undecidable { .. } => {
            "the latest copy that `punctual backup` made"
        }
        store::Failure::Unusable { remedy, .. } => remedy,
        store::Failure::NotWritten { fault, .. } => fault.remedy(),
        _ => "another --db; its folder has to exist and be writable",
    };
    Failure::Environment(format!("{}: {failure}\n  try: {remedy}", path.display()))
}

pub(crate) fn doctor(args: &DoctorArgs, zones: Zones, out: &mut dyn Write) -> Result<(), Failure> {
    let target = StoreTarget::read(&args.db)?;
    let found = match &target {
        StoreTarget::File(path) => check_file(path, zones, args.repair)?,
        StoreTarget::Postgres(shared) => check_shared(shared, zones, args.repair)?,
    };
    tell(args, &target.to_string(), &found, out)
}

fn check_file(path: &Path, zones: Zones, repair: bool) -> Result<Vec<Finding>, Failure> {
    existing(path)?;
    let store = match Sqlite::open(path, zones, SqliteOptions::default()) {
        Ok(store) => store,
        Err(store::Failure::InUse(_)) => {
            return Err(Failure::Environment(format!(
                "{} is in use by a node: stop it first\n  \
                 try: punctual backup --db {0} COPY, then punctual doctor --db COPY",
                path.display()
            )));
        }
        // A file that is too damaged to be opened is still checked as far as possible.
        Err(store::Failure::Damaged(why)) => {
            let mut found = store::check_damaged_file(path);
            let message = format!(
                "{why}: restore the latest copy that `punctual backup` made, or save what can be read \
                 (`sqlite3 {0} .recover | sqlite3 NEW`)",
                path.display()
            );
            found.insert(0, Finding::new("file", message));
            return Ok(found);
        }
        Err(other) => return Err(failure(path, &other)),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let found = runtime.block_on(store.check(clock::instant(), repair));
    let mut found = found.map_err(|why| failure(path, &why))?;
    if let Err(why) = store.close_unused(path) {
        found.push(Finding::new("file", format!("the file is not left as a copy: {why}")));
    }
    Ok(found)
}

/// Checks a shared store. Nodes may be running meanwhile.
fn check_shared(shared: &Shared, zones: Zones, repair: bool) -> Result<Vec<Finding>, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let store = shared.open(zones, None).await?;
        let found = store.check(clock::instant(), repair).await;
        found.map_err(|why| shared.failure(&why))
    })
}

fn tell(
    args: &DoctorArgs,
    db: &str,
    found: &[Finding],
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let unrepaired = || found.iter().filter(|finding| !finding.repaired);
    let left: usize = unrepaired().map(|finding| finding.count).sum();
    if args.json {
        let findings: Vec<_> = found
            .iter()
            .map(|finding| {
                json!({
                    "code": finding.code,
                    "message": finding.message,
                    "repaired": finding.repaired,
                    "can_be_repaired": finding.can_be_repaired,
                    "count": finding.count,
                })
            })
            .collect();
        let told = json!({ "db": db, "findings": findings, "remaining": left });
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
        0 => Ok(writeln!(out, "{db}: everything holds together")?),
        left => {
            let can_be_repaired = unrepaired().any(|finding| finding.can_be_repaired);
            let remedy = match (args.repair, can_be_repaired) {
                (false, true) => "punctual doctor --repair",
                _ => "what each of them says: a repair cannot mend them",
            };
            Err(Failure::Mistake(format!(
                "{db}: {} left\n  try: {remedy}",
                counted(left, "finding")
            )))
        }
    }
}

pub(crate) fn backup(args: &BackupArgs, out: &mut dyn Write) -> Result<(), Failure> {
    let from = match StoreTarget::read(&args.db)? {
        StoreTarget::File(path) => path,
        StoreTarget::Postgres(shared) => return Err(shared.no_copy(&args.to)),
    };
    existing(&from)?;
    let bytes = store::backup_file(&from, &args.to).map_err(|why| failure(&from, &why))?;
    if args.json {
        let told = json!({ "from": from, "to": args.to, "bytes": bytes });
        return Ok(writeln!(out, "{told}")?);
    }
    Ok(writeln!(out, "{}: {} KiB, a copy of {}", args.to.display(), bytes / 1024, from.display())?)
}

/// Checks that the store exists, because opening a missing file would create it.
pub(crate) fn existing(path: &Path) -> Result<(), Failure> {
    if path.is_file() {
        return Ok(());
    }
    Err(Failure::Environment(format!(
        "{}: there is no store\n  try: --db with the file that `punctual serve` uses",
        path.display()
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_failure_has_a_remedy_of_its_own() {
        let check = |why: store::Failure, remedy: &str| {
            let said = failure(Path::new("a.db"), &why).to_string();
            assert!(said.contains(&format!("\n  try: {remedy}")), "{said}");
        };
        let what = || "it is so".to_owned();
        let remedy = "another version".to_owned();
        check(store::Failure::Unusable { what: what(), remedy }, "another version");
        check(store::Failure::Damaged(what()), "the latest copy");
        check(store::Failure::Unavailable(what()), "another --db");
    }
}
